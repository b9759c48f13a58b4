"""TFDS data set `video_neighbors`: frames of neighbor sets, each distinct frame once.

`tfds.load('video_neighbors/imagenet_vid_robust')` after `import input_pipeline` reads
<manual_dir>/imagenet-vid-robust (or ytbb-robust), the folder of a released archive: metadata, and
the frames below it. Other folders, made by `python -m robustness.neighbor_sets build` for example:

  config = VideoNeighborsConfig(name='mine', metadata='SETS', frames='FRAMES')
  tfds.load('video_neighbors', builder_kwargs={'config': config})
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from input_pipeline import neighbor_frames
from input_pipeline.neighbor_frames import NeighborFrames
from robustness.core.errors import InputError
from robustness.labels import label_space
from robustness.neighbor_sets import boxes, metadata
from robustness.neighbor_sets.boxes import Box

DESCRIPTION = """\
Anchors out of videos and the frames around them that look alike (Shankar et al. 2021), to measure
how far small natural perturbations change what a classifier says. An example is a frame: the sets
it is in (`group_id`) with its distance from each set's anchor in frames (`offset`), all its labels
(`label` is the first), the compression type and frame rate where they are known (-1 and NaN
elsewhere), and its boxes where they are known.
"""
INSTRUCTIONS = """\
Unpack the released archive so that manual_dir holds imagenet-vid-robust or ytbb-robust, with
metadata/pmsets.json, metadata/labels.json and the frames in it.
"""


@dataclasses.dataclass(eq=False, kw_only=True)
class VideoNeighborsConfig(tfds.core.BuilderConfig):
  """Which sets; paths that are not there are looked for in manual_dir.

  Attributes:
    metadata: a folder that `robustness.neighbor_sets.metadata.read` takes.
    frames: the folder that the paths of the metadata lie under; '' is `metadata`.
    classes: the label space, for metadata without a class index; '' is 'imagenet_vid'.
    boxes: a COCO file or a folder of ILSVRC annotations; '' for none.
    allow_missing: whether frames may be missing; the data set's metadata then say how many.
  """

  metadata: str
  frames: str = ''
  classes: str = ''
  boxes: str = ''
  allow_missing: bool = False


class VideoNeighbors(tfds.core.GeneratorBasedBuilder):
  """Frames of neighbor sets."""

  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES = {'1.0.0': 'First release.'}
  MANUAL_DOWNLOAD_INSTRUCTIONS = INSTRUCTIONS
  BUILDER_CONFIGS = [
    VideoNeighborsConfig(
      name='imagenet_vid_robust', metadata='imagenet-vid-robust', classes='imagenet_vid'
    ),
    VideoNeighborsConfig(name='ytbb_robust', metadata='ytbb-robust', classes='youtube_bb'),
  ]

  def _info(self) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(
      builder=self,
      description=DESCRIPTION,
      features=features(class_names(self.builder_config)),
      supervised_keys=('image', 'label'),
      metadata=tfds.core.MetadataDict(),
      disable_shuffling=True,
      homepage='https://arxiv.org/abs/1906.02168',
    )

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
    """Looks for the frames and boxes; the one split is called test."""
    config = self.builder_config
    home, frames = (
      _place(path, dl_manager) for path in (config.metadata, config.frames or config.metadata)
    )
    found = neighbor_frames.load(home, str(frames), config.classes, config.allow_missing)
    names = tuple(self.info.features['label'].names)
    if found.class_names != names:
      raise InputError(
        f'{home} has the classes {found.class_names}, and {config.name} those of '
        f'{config.classes}: use a VideoNeighborsConfig of your own.'
      )
    self.info.metadata.update(
      {
        'anchors': found.num_anchors,
        'frames': len(found.paths),
        'missing_frames': len(found.missing),
        'missing_anchors': found.missing_anchors,
      }
    )
    known = {}
    if config.boxes:
      known = boxes.read(_place(config.boxes, dl_manager), found.paths, label_space.words(names))
    return {'test': self._generate_examples(found, frames, known)}

  def _generate_examples(
    self, found: NeighborFrames, frames: pathlib.Path, known: Mapping[str, list[Box]]
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields frames in the order of their paths; image files are stored as they are."""
    labels = found.labels if found.labels.ndim == 2 else found.labels[:, None]
    for index, path in enumerate(found.paths):
      own = [int(label) for label in labels[index] if label >= 0]
      member = found.group_id[index] >= 0
      yield (
        index,
        {
          'image': str(frames / path),
          'path': path,
          'label': own[0],
          'labels': own,
          'anchor': bool(found.anchor[index]),
          'group_id': found.group_id[index][member],
          'offset': found.offset[index][member],
          'frame_type': int(found.frame_type[index]),
          'fps': found.fps[index],
          'boxes': [
            {
              'bbox': tfds.features.BBox(one.y_min, one.x_min, one.y_max, one.x_max),
              'label': one.label,
            }
            for one in known.get(path, ())
          ],
        },
      )


def features(names: tuple[str, ...]) -> tfds.features.FeaturesDict:
  """Returns what a frame is stored with."""
  label = tfds.features.ClassLabel(names=list(names))
  return tfds.features.FeaturesDict(
    {
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
  )


def class_names(config: VideoNeighborsConfig) -> tuple[str, ...]:
  """Returns the classes of a config: of its metadata, or where they are not there yet of its space.

  TFDS asks before it says where manual_dir is.
  """
  home = pathlib.Path(config.metadata).expanduser()
  if home.is_dir():
    return neighbor_frames.class_names(metadata.read(home), config.classes)
  return label_space.get(config.classes or neighbor_frames.SPACES[0]).class_names


def _place(given: str, dl_manager: tfds.download.DownloadManager) -> pathlib.Path:
  path = pathlib.Path(given).expanduser()
  return path if path.exists() else pathlib.Path(dl_manager.manual_dir) / given
