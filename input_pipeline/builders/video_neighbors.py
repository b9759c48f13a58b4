"""TFDS data set `video_neighbors`: frames of neighbor sets, each distinct frame once.

`tfds.load('video_neighbors/imagenet_vid_robust')` after `import input_pipeline.builders` reads
<manual_dir>/imagenet-vid-robust, the folder of the released archive: metadata, and the frames below
it; `video_neighbors/ytbb_robust` reads <manual_dir>/ytbb-robust, its annotations and ytbb_videos.
Other folders, made by `robustness neighbor_sets build` for example:

  config = VideoNeighborsConfig(name='mine', metadata='SETS', frames='FRAMES')
  tfds.load('video_neighbors', builder_kwargs={'config': config})
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from input_pipeline.builders.made_of import ENDS, Feature, MadeOf, digest_of_files
from input_pipeline.selection import refuse_damaged
from input_pipeline.sources import video_neighbors
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.pictures import damage
from robustness.models import label_space
from robustness.video import boxes, metadata
from robustness.video.boxes import Box

DESCRIPTION = """\
Anchors out of videos and the frames around them that look alike (Shankar et al. 2021), to measure
how far small natural perturbations change what a classifier says. An example is a frame: the sets
it is in (`group_id`) with its distance from each set's anchor in frames (`offset`), all its labels
(`label` is the first), the compression type and frame rate where they are known (-1 and NaN
elsewhere), and its boxes where they are known.
"""
ARCHIVE = 'imagenet_vid_ytbb_robust'
"""Folder into which the released archive unpacks."""


@dataclasses.dataclass(eq=False, kw_only=True)
class VideoNeighborsConfig(tfds.core.BuilderConfig):
  """Config of a TFDS data set of neighbor sets: anchor video frames with similar frames.

  Relative paths that do not exist are searched in TFDS's manual_dir.

  Attributes:
    metadata: folder of the files that list the sets, see `robustness.video.metadata.read`.
    frames: folder of the images, from which paths in these files are relative; '' is `metadata`.
    classes: classes of the labels if there is no class index, 'imagenet_vid' or 'youtube_bb'; '' is
      'imagenet_vid'.
    boxes: COCO file or folder of ILSVRC annotations with object boxes; '' for none.
    allow_missing: whether images may be missing; their number is stored in the TFDS metadata.
  """

  metadata: str
  frames: str = ''
  classes: str = ''
  boxes: str = ''
  allow_missing: bool = False


class VideoNeighbors(MadeOf, tfds.core.GeneratorBasedBuilder):
  """TFDS data set of similar video frames: ImageNet-Vid-Robust, YTBB-Robust, or your own.

  Frames belong to neighbor sets: an anchor frame that humans have reviewed, with the frames just
  before and after it in the video.
  """

  MANUAL_DOWNLOAD_INSTRUCTIONS = f"""\
Unpack the released archive in manual_dir, so that it holds imagenet-vid-robust or
{ARCHIVE}/imagenet-vid-robust, with metadata/pmsets.json, metadata/labels.json and the
frames in it; and ytbb-robust with its four files of annotations and ytbb_videos.
"""
  CONFIG = VideoNeighborsConfig
  BUILDER_CONFIGS = [
    VideoNeighborsConfig(
      name='imagenet_vid_robust',
      description='ImageNet-Vid-Robust: 1109 anchors of ImageNet-VID, 30 classes.',
      metadata='imagenet-vid-robust',
      classes='imagenet_vid',
    ),
    VideoNeighborsConfig(
      name='ytbb_robust',
      description='YTBB-Robust: 2030 anchors of YouTube-BB, 24 classes (2467 were reviewed).',
      metadata='ytbb-robust',
      classes='youtube_bb',
    ),
  ]
  DESCRIPTION, PAPER = DESCRIPTION, 'shankar2021image'
  PATHS = ('metadata', 'frames', 'boxes')  # fields of the config that do not affect the images
  HOMEPAGE = 'https://arxiv.org/abs/1906.02168'
  IN_ORDER = True  # examples are stored in the order in which they are made

  def features(self) -> dict[str, Feature]:
    """Returns the features of a frame: its image, labels, neighbor sets and boxes.

    Class names are read from the metadata folder. If it is not found yet, `classes` determines
    them, because TFDS calls this method before its manual_dir is known.
    """
    config = self.builder_config
    if expanded(config.metadata).is_dir():
      names = video_neighbors.class_names(metadata.read(expanded(config.metadata)), config.classes)
    else:
      names = label_space.get(config.classes or video_neighbors.SPACES[0]).class_names
    label = tfds.features.ClassLabel(names=list(names))
    return {
      'image': tfds.features.Image(shape=(None, None, 3)),
      'path': tfds.features.Text(),
      'label': label,
      'labels': tfds.features.Sequence(label),
      'anchor': tfds.features.Scalar(np.bool_),
      'group_id': tfds.features.Sequence(np.int32),
      'offset': tfds.features.Sequence(np.int32),
      'frame_type': tfds.features.ClassLabel(names=list(metadata.FRAME_TYPES)),
      'fps': tfds.features.Scalar(np.float32),
      'boxes': tfds.features.Sequence({'bbox': tfds.features.BBoxFeature(), 'label': label}),
    }

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, object]:
    """Checks the files of a data set of video frames, and returns {'test': generator of frames}.

    TFDS calls it to prepare the data set. It also stores the numbers of anchors (labelled frames)
    and frames, present and missing, as metadata.

    Args:
      dl_manager: has the folder in which relative paths of the config are searched.
    """
    config = self.builder_config
    paths = (config.metadata, config.frames, config.boxes)
    absent = [path for path in paths if path and not expanded(path).exists()]
    try:
      # they are looked for in manual_dir; TFDS raises AssertionError if that does not exist
      manual = str(dl_manager.manual_dir) if absent else ''
    except AssertionError as error:
      raise InputError(f'{absent[0]!r} of config {config.name!r} is not there. {error}') from error
    metadata_folder, frames_root, loaded = _load(config, manual)
    if loaded.class_names != tuple(self.info.features['label'].names):
      raise InputError(
        f'{metadata_folder} has the classes {loaded.class_names}, and {config.name} those of '
        f'{config.classes}: use a VideoNeighborsConfig of your own.'
      )
    # files are stored unchanged, so that a damaged one would fail, without its name, when read
    refuse_damaged(
      lambda index: damage(frames_root / loaded.paths[index]),
      checked=range(len(loaded.paths)),
      num_pictures=len(loaded.paths),
      describe=lambda index: loaded.paths[index],
    )
    counts = {'anchors': loaded.num_anchors, 'frames': len(loaded.paths)}
    missing = {'missing_frames': len(loaded.missing), 'missing_anchors': loaded.missing_anchors}
    self.info.metadata.update({**counts, **missing})
    self.note_inputs(manual)
    boxes_of = self._read_boxes(manual, loaded) if config.boxes else {}
    return {'test': self._examples(loaded, frames_root, boxes_of)}

  def _read_boxes(
    self, manual_dir: str, loaded: video_neighbors.NeighborFrames
  ) -> Mapping[str, list[Box]]:
    """Reads the object boxes, and stores the number of clipped boxes as TFDS metadata.

    Args:
      manual_dir: TFDS's folder of manual downloads.
      loaded: the frames.

    Returns:
      {path of a frame: its boxes}.
    """
    path = _existing(self.builder_config.boxes, manual_dir)
    index_of_class = label_space.index_by_name(loaded.class_names)
    boxes_of, clipped = boxes.read(path, loaded.paths, index_of_class)
    self.info.metadata['clipped_boxes'] = clipped.number
    if clipped.number:
      message = (
        '%s: %d boxes stand out of their images by more than %g pixel and are cut at the '
        'borders, the first on %s'
      )
      logging.warning(message, path, clipped.number, boxes.TOLERANCE, clipped.first)
    return boxes_of

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns SHA-256 digests of the input files, to detect changes.

    The keys are 'metadata', 'frames' and 'boxes' ('' without boxes). Only the first and last `ENDS`
    bytes of large frames are read.
    """
    config = self.builder_config
    metadata_folder, frames_root, loaded = _load(config, manual_dir)
    tables: list[pathlib.Path] = []
    for folder in (metadata_folder, metadata_folder / 'metadata', metadata_folder / 'misc'):
      tables += [*folder.glob('*.json'), *folder.glob('*.csv')]
    digest_of_boxes = ''
    if config.boxes:
      path = _existing(config.boxes, manual_dir)
      if path.is_file():
        digest_of_boxes = digest_of_files(path.parent, [path])
      else:
        files_of_boxes = [file for file in path.rglob('*') if file.is_file()]
        digest_of_boxes = digest_of_files(path, files_of_boxes)
    return {
      'metadata': digest_of_files(metadata_folder, tables),
      'frames': digest_of_files(frames_root, [frames_root / path for path in loaded.paths], ENDS),
      'boxes': digest_of_boxes,
    }

  def _examples(
    self,
    loaded: video_neighbors.NeighborFrames,
    frames_root: pathlib.Path,
    boxes_of: Mapping[str, list[Box]],
  ) -> Iterator[tuple[int, dict[str, object]]]:
    """Yields `(index, example)` for each frame, sorted by path.

    Args:
      loaded: paths of the frames, labels and further columns, such as `group_id`, the indices of
        the neighbor sets that contain a frame.
      frames_root: folder from which paths are relative.
      boxes_of: {path of a frame: its boxes}.
    """
    labels = loaded.labels if loaded.labels.ndim == 2 else loaded.labels[:, None]
    for index, path in enumerate(loaded.paths):
      labels_of_frame = [int(label) for label in labels[index] if label >= 0]
      row = {name: values[index] for name, values in loaded.columns.items()}
      is_set = row['group_id'] >= 0  # −1 is padding
      example = {
        'image': str(frames_root / path),
        'path': path,
        'label': labels_of_frame[0],
        'labels': labels_of_frame,
        'anchor': bool(row['anchor']),
        'group_id': row['group_id'][is_set],
        'offset': row['offset'][is_set],
        'frame_type': int(row['frame_type']),
        'fps': row['fps'],
        'boxes': [
          {'bbox': tfds.features.BBox(b.y_min, b.x_min, b.y_max, b.x_max), 'label': b.label}
          for b in boxes_of.get(path, ())
        ],
      }
      yield index, example


def _load(
  config: VideoNeighborsConfig, manual_dir: str
) -> tuple[pathlib.Path, pathlib.Path, video_neighbors.NeighborFrames]:
  """Reads the frames that exist, with their labels and neighbor sets.

  Returns:
    The folder of the metadata, the folder of the frames, and the frames.
  """
  metadata_folder = _existing(config.metadata, manual_dir)
  frames = str(_existing(config.frames or config.metadata, manual_dir))
  loaded = video_neighbors.load(metadata_folder, frames, config.classes, config.allow_missing)
  return metadata_folder, video_neighbors.frames_folder(frames), loaded


def _existing(path: str, manual_dir: str) -> pathlib.Path:
  """Returns the location of a file or folder that the config names by a possibly relative path.

  `path`, `manual_dir/path` and `manual_dir/<folder of the released archive>/path` are tried in this
  order. If none exists, the result is `manual_dir/path`.

  Args:
    path: path from the config.
    manual_dir: TFDS's folder of manual downloads.
  """
  manual = pathlib.Path(manual_dir)
  candidates = (expanded(path), manual / path, manual / ARCHIVE / path)
  return next((candidate for candidate in candidates if candidate.exists()), manual / path)
