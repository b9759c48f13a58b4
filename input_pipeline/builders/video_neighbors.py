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
  """Config of a data set of neighbor sets: frames of videos around reviewed anchor frames.

  Relative paths that do not exist are looked for in TFDS's manual_dir.

  Attributes:
    metadata: the folder of the tables that list the sets, see `robustness.video.metadata.read`.
    frames: the folder of the images, to which the paths in these tables are relative; '' is
      `metadata`.
    classes: label space of tables without a class index, 'imagenet_vid' or 'youtube_bb'; '' is
      'imagenet_vid'.
    boxes: a COCO file or a folder of ILSVRC annotations with objects' boxes; '' for none.
    allow_missing: whether images of frames may be missing; the prepared data set's metadata then
      have the number of missing frames.
  """

  metadata: str
  frames: str = ''
  classes: str = ''
  boxes: str = ''
  allow_missing: bool = False


class VideoNeighbors(MadeOf, tfds.core.GeneratorBasedBuilder):
  """ImageNet-Vid-Robust, YTBB-Robust, or sets of your own: video frames with similar neighbors.

  A neighbor set is a reviewed frame, the anchor, and the frames of its video just before and after.
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

    The classes are as the config's metadata state, or the classes of its label space if the
    metadata are not found: TFDS calls this method before its manual_dir is known.
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
    """Reads the sets, frames and boxes, and returns the examples of the only split, 'test'."""
    config = self.builder_config
    paths = (config.metadata, config.frames, config.boxes)
    missing = [path for path in paths if path and not expanded(path).exists()]
    try:
      # missing paths are looked for in manual_dir; TFDS raises AssertionError if it does not exist
      manual = str(dl_manager.manual_dir) if missing else ''
    except AssertionError as error:
      raise InputError(f'{missing[0]!r} of config {config.name!r} is not there. {error}') from error
    metadata_folder, frames_root, loaded = _load(config, manual)
    names = tuple(self.info.features['label'].names)
    if loaded.class_names != names:
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
    self.info.metadata.update(
      {
        'anchors': loaded.num_anchors,
        'frames': len(loaded.paths),
        'missing_frames': len(loaded.missing),
        'missing_anchors': loaded.missing_anchors,
      }
    )
    self.note_inputs(manual)
    boxes_of: Mapping[str, list[Box]] = {}
    if config.boxes:
      path = _existing(config.boxes, manual)
      boxes_of, clipped = boxes.read(path, loaded.paths, label_space.index_by_name(names))
      self.info.metadata['clipped_boxes'] = clipped.number
      if clipped.number:
        logging.warning(
          '%s: %d boxes stand out of their images by more than %g pixel and are cut at the '
          'borders, the first on %s',
          *(path, clipped.number, boxes.TOLERANCE, clipped.first),
        )
    return {'test': self._examples(loaded, frames_root, boxes_of)}

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns {'metadata', 'frames' or 'boxes': SHA-256 of its files}; '' for boxes if not given.

    Of large frames only the first and the last `ENDS` bytes are read.
    """
    config = self.builder_config
    metadata_folder, frames_root, loaded = _load(config, manual_dir)
    files = [frames_root / path for path in loaded.paths]
    tables: list[pathlib.Path] = []
    for folder in (metadata_folder, metadata_folder / 'metadata', metadata_folder / 'misc'):
      tables += [*folder.glob('*.json'), *folder.glob('*.csv')]
    digest_of_boxes = ''
    if config.boxes:
      path = _existing(config.boxes, manual_dir)
      if path.is_file():
        digest_of_boxes = digest_of_files(path.parent, [path])
      else:
        digest_of_boxes = digest_of_files(path, filter(pathlib.Path.is_file, path.rglob('*')))
    return {
      'metadata': digest_of_files(metadata_folder, tables),
      'frames': digest_of_files(frames_root, files, ENDS),
      'boxes': digest_of_boxes,
    }

  def _examples(
    self,
    loaded: video_neighbors.NeighborFrames,
    frames_root: pathlib.Path,
    boxes_of: Mapping[str, list[Box]],
  ) -> Iterator[tuple[int, dict[str, object]]]:
    """Yields (0, example), (1, example), … of the frames in the order of their paths.

    An example has the keys of `features`, among them `image`, the path of a file that TFDS stores
    unchanged.

    Args:
      loaded: paths of the frames, their labels, and further columns, such as `group_id`, which has
        the numbers of the sets that a frame belongs to.
      frames_root: the folder to which their paths are relative.
      boxes_of: {path of a frame: its boxes}.
    """
    labels = loaded.labels if loaded.labels.ndim == 2 else loaded.labels[:, None]
    for index, path in enumerate(loaded.paths):
      labels_of_frame = [int(label) for label in labels[index] if label >= 0]
      row = {name: values[index] for name, values in loaded.columns.items()}
      is_set = row['group_id'] >= 0  # −1 is padding
      yield (
        index,
        {
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
        },
      )


def _load(
  config: VideoNeighborsConfig, manual_dir: str
) -> tuple[pathlib.Path, pathlib.Path, video_neighbors.NeighborFrames]:
  """Returns the folder of the metadata, the folder of the frames, and the frames that exist."""
  metadata_folder = _existing(config.metadata, manual_dir)
  frames = str(_existing(config.frames or config.metadata, manual_dir))
  loaded = video_neighbors.load(metadata_folder, frames, config.classes, config.allow_missing)
  return metadata_folder, video_neighbors.frames_folder(frames), loaded


def _existing(path: str, manual_dir: str) -> pathlib.Path:
  """Returns where a file or folder of the config is: the first of three places that exists.

  They are `path` itself, manual_dir/path, and manual_dir/<folder of the released archive>/path. If
  none exists, manual_dir/path is returned.
  """
  manual = pathlib.Path(manual_dir)
  candidates = (expanded(path), manual / path, manual / ARCHIVE / path)
  return next((candidate for candidate in candidates if candidate.exists()), manual / path)
