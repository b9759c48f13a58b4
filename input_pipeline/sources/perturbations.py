"""Sources `cifar10_p` and `imagenet_p`: image sequences with increasing perturbation, as released.

CIFAR-10-P is PATH/<perturbation>.npy, uint8 [n, frames, 32, 32, 3]. The release has no labels; they
are read from PATH/labels.npy, or from the test split of the TFDS set `label_dataset` in the order
of its feature `id`. ImageNet-P (and Tiny-ImageNet-P) is
PATH/<perturbation>/<WordNet identifier>/<image>.mp4, one video per image, which PyAV decodes.

Each frame is a row. Rows are ordered by perturbation (as in
`robustness.corruptions.names.PERTURBATIONS`), then image, then frame. The columns are
`perturbation`, its number; `base_id`, the index of the image; and `frame`, the index in the
sequence. All perturbations have the same images but different numbers of frames. A subset takes all
frames of the same images under every perturbation.
"""

import dataclasses
import functools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from input_pipeline.corruption_parts import check_names
from input_pipeline.image_files import folders_in
from input_pipeline.images import Images, PartsStore
from input_pipeline.selection import choose_groups
from input_pipeline.settings import DataSettings, Source
from input_pipeline.sources import cifar10_c
from input_pipeline.sources.imagenet_c import labels_of_folders, same_files
from robustness.core.errors import InputError
from robustness.corruptions.names import PERTURBATIONS
from robustness.video import clips

VIDEOS = ('.mp4',)
"""Suffixes of the videos of ImageNet-P."""
KEPT = 16
"""Number of decoded videos in memory, 5 MB each."""
_DECODING = threading.Lock()
"""Held while a video is decoded, so that threads do not decode the same video at the same time."""


def of_sequences(
  frames: Mapping[str, int],
  labels: np.ndarray,
  fetch: Callable[[str, int, int], np.ndarray | bytes],
  file: Callable[[str, int], str],
  path: str,
  title: str,
  shape: tuple[int, ...] = (),
  **fields: Any,
) -> Images:
  """Describes the frames of perturbation sequences (CIFAR-10-P, ImageNet-P) as `Images`.

  A sequence shows one image under a perturbation that grows from frame to frame. Frames are ordered
  by perturbation, image and position.

  Args:
    frames: {perturbation: number of frames of each sequence}, in order.
    labels: labels of the n images, [n].
    fetch: called with the perturbation, the index of the image and the position of the frame;
      returns the frame, uint8 of `shape`, or bytes that the field `read` decodes.
    file: called with the perturbation and the index of the image; returns the path of its file, or
      of a folder that stands for its file.
    path: folder of the released files.
    title: name of the data set in messages.
    shape: shape of a frame; () if `fetch` returns bytes.
    **fields: further fields of `Images`, such as `class_names`.
  """
  for name, length in frames.items():
    if length < 2:
      problem = f'{path}: sequences of {name} have {"1 frame" if length else "0 frames"}'
      raise InputError(f'{problem}, and at least two are compared. Fetch the files again.')
  num_images = len(labels)
  lengths = list(frames.values())
  names, numbers = list(frames), [PERTURBATIONS[name] for name in frames]
  num_rows = [num_images * length for length in lengths]  # of each perturbation
  # of each frame: the number of its perturbation, its image, and its position in the sequence
  columns = {
    'perturbation': np.repeat(numbers, num_rows),
    'base_id': np.concatenate([np.arange(num_images).repeat(length) for length in lengths]),
    'frame': np.concatenate([np.tile(np.arange(length), num_images) for length in lengths]),
  }
  columns = {name: values.astype(np.int32) for name, values in columns.items()}
  name_of_number = dict(zip(numbers, names, strict=True))

  def locate(index: int) -> tuple[str, int, int]:
    """Returns the perturbation, the index of the image and the position of a frame."""
    name = name_of_number[int(columns['perturbation'][index])]
    return name, int(columns['base_id'][index]), int(columns['frame'][index])

  def describe(index: int) -> str:
    """Returns the name of a frame for messages."""
    name, image, frame = locate(index)
    return f'{title}, {name}, image {image}, frame {frame} (example {index})'

  return Images(
    title=title,
    description={'path': path, 'perturbations': names, 'base_images': num_images},
    num_examples=sum(num_rows),
    channels=cifar10_c.IMAGE_SHAPE[2],
    # all frames are one part, as parts would have to be of equal size
    store=PartsStore(lambda _, row: fetch(*locate(row)), labels[columns['base_id']], shape),
    columns=columns,
    choose=functools.partial(choose_groups, columns['base_id'], noun='base images'),
    cropped=True,  # before the release
    where=describe,
    file=lambda index: file(*locate(index)[:2]),  # the same for all positions in a sequence
    **fields,
  )


@dataclasses.dataclass(frozen=True)
class Cifar10P(Source):
  """CIFAR-10-P, with a sequence of frames per image and perturbation.

  Attributes:
    path: folder with an .npy file for each perturbation.
    label_dataset: 'cifar10' reads the labels from this TFDS data set; '' reads them from labels.npy
      in the folder.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
  """

  name = 'cifar10_p'
  splits = ('test',)
  moved_keys = {'name': 'label_dataset'}

  path: str = ''
  label_dataset: str = ''
  data_dir: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns the frames, uint8 [32, 32, 3].

    Raises:
      InputError: files are missing or damaged, or the numbers of sequences and labels differ.
    """
    folder = self.folder('give the folder of CIFAR-10-P, which holds one .npy file a perturbation.')
    files = {file.stem: file for file in sorted(folder.glob('[!.]*.npy'))}
    label_file = files.pop(cifar10_c.LABELS, None)
    check_names(files, folder, tuple(PERTURBATIONS), 'perturbation')
    stored_names = [name for name in PERTURBATIONS if name in files]
    arrays = {name: cifar10_c.read_pixels(files[name], ndim=5) for name in stored_names}
    first = stored_names[0]
    num_sequences = len(arrays[first])
    for name, array in arrays.items():
      if len(array) != num_sequences:
        raise InputError(
          f'{files[name]} holds {len(array)} sequences and {files[first]} {num_sequences}; every '
          'perturbation must be of the same images. Fetch the files again.'
        )
    labels = self._labels(folder, label_file)
    if len(labels) != num_sequences:
      raise InputError(
        f'{folder} holds {num_sequences} sequences of each perturbation, and '
        f'{label_file or self.label_dataset} has {len(labels)} labels: one an image is needed.'
      )
    return of_sequences(
      {name: array.shape[1] for name, array in arrays.items()},
      labels,
      lambda name, image, frame: np.array(arrays[name][image, frame]),
      lambda name, _: str(files[name]),
      self.path,
      f'CIFAR-10-P in {self.path}',
      cifar10_c.IMAGE_SHAPE,
      class_names=cifar10_c.CLASS_NAMES,
      sizes=lambda indices: [cifar10_c.IMAGE_SHAPE[:2]] * len(indices),
    )

  def _labels(self, folder: Path, label_file: Path | None) -> np.ndarray:
    """Reads the labels of the images from a file or from TFDS.

    Args:
      folder: folder of the released files, for messages.
      label_file: path of labels.npy; None reads the TFDS data set `label_dataset`.
    """
    key, dataset = self.key('label_dataset'), self.label_dataset
    name = dataset.partition(':')[0].partition('/')[0]  # without config and version
    valid = "'cifar10', or '' where the folder has labels.npy"
    self.require(name in ('', 'cifar10'), 'label_dataset', valid)
    if label_file:
      return cifar10_c.read_labels(label_file, repeats=1)
    if not dataset:
      problem = f'{folder} has no labels.npy, as released'
      raise InputError(f'{problem}: set {key}="cifar10", whose test set of TFDS has the labels.')
    _, labels = cifar10_c.test_set(dataset, self.data_dir, key)
    return labels


@dataclasses.dataclass(frozen=True)
class ImagenetP(Source):
  """ImageNet-P, with a video per image and perturbation.

  The files are <perturbation>/<class>/<image>.mp4.

  Attributes:
    path: folder with a folder for each perturbation.
  """

  name = 'imagenet_p'
  splits = ('test',)

  path: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns the frames, uint8 in RGB.

    All videos of a perturbation must have the same number of frames. This is checked when a video
    is read.
    """
    root = self.folder('give the folder of ImageNet-P: <perturbation>/<class>/<image>.mp4.')
    folders = folders_in(root)
    check_names(folders, root, tuple(PERTURBATIONS), 'perturbation')
    paths = {name: folders[name] for name in PERTURBATIONS if name in folders}
    left_out = Counter[str]()
    files, *_ = same_files([*paths.values()], left_out, extensions=VIDEOS)
    names, labels = labels_of_folders(files)
    # the first video of each perturbation, which shows the size and number of frames
    first_videos = {name: read_video(str(path / files[0])) for name, path in paths.items()}
    frames = {name: len(video) for name, video in first_videos.items()}
    first_video, *_ = first_videos.values()
    height, width = first_video.shape[1:3]

    def fetch(name: str, image: int, frame: int) -> bytes:
      """Returns path of a video, index of a frame and number of frames, divided by zero bytes."""
      return f'{paths[name] / files[image]}\0{frame}\0{frames[name]}'.encode()

    return of_sequences(
      frames,
      labels,
      fetch,
      lambda name, image: str(paths[name] / files[image]),
      self.path,
      f'ImageNet-P in {self.path}',
      class_names=names,
      read=_read_frame,
      left_out=left_out,
      sizes=lambda indices: [(height, width)] * len(indices),
    )


@functools.lru_cache(maxsize=KEPT)
def read_video(path: str) -> np.ndarray:
  """Decodes all frames of a video file, uint8 [frames, H, W, 3]."""
  file = Path(path)
  with clips.opened(file) as container:
    frames = [frame.to_ndarray(format='rgb24') for _, frame in clips.frames(file, container)]
  if not frames:
    raise InputError(f'{path} holds no frames: fetch it again.')
  return np.stack(frames)


def _read_frame(stored: bytes) -> np.ndarray:
  """Decodes one frame of a video, uint8 [H, W, 3].

  Args:
    stored: path of the video, position of the frame and required number of frames, separated by
      zero bytes.
  """
  path, frame, count = stored.decode().split('\0')
  with _DECODING:  # one thread at a time; the others then find the video in the cache
    video = read_video(path)
  if len(video) != int(count):
    raise InputError(f'{path} has {len(video)} frames, and others {count}: fetch it again.')
  return np.asarray(video[int(frame)])
