"""TFDS data set `video_neighbors`: frames of neighbor sets, each distinct frame once.

`tfds.load('video_neighbors/imagenet_vid_robust')` after `import input_pipeline.builders` reads
<manual_dir>/imagenet-vid-robust, the folder of the released archive: metadata, and the frames below
it. `video_neighbors/ytbb_robust` reads sets laid out alike in <manual_dir>/ytbb-robust. Other
folders, made by `robustness neighbor_sets build` for example:

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
from absl import logging

from input_pipeline import neighbor_frames
from input_pipeline.builders.made_of import ENDS, MadeOf, digest_of_files
from input_pipeline.neighbor_frames import NeighborFrames
from robustness.core.errors import InputError
from robustness.core.paths import expanded
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
CITATION = """\
@inproceedings{shankar2021time,
  title={Do Image Classifiers Generalize Across Time?},
  author={Shankar, Vaishaal and Dave, Achal and Roelofs, Rebecca and Ramanan, Deva and
    Recht, Benjamin and Schmidt, Ludwig},
  booktitle={International Conference on Computer Vision},
  year={2021}
}"""
ARCHIVE = 'imagenet_vid_ytbb_robust'
INSTRUCTIONS = f"""\
Unpack the released archive in manual_dir, so that it holds imagenet-vid-robust or
{ARCHIVE}/imagenet-vid-robust, with metadata/pmsets.json, metadata/labels.json and the
frames in it. YTBB-Robust was released as annotations: ytbb-robust must hold pmsets.json and
labels.json made of them.
"""


@dataclasses.dataclass(eq=False, kw_only=True)
class VideoNeighborsConfig(tfds.core.BuilderConfig):
  """Which sets; paths that are not there are looked for in manual_dir.

  Attributes:
    metadata: a folder that `robustness.video.metadata.read` takes.
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


class VideoNeighbors(MadeOf, tfds.core.GeneratorBasedBuilder):
  """Frames of neighbor sets."""

  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES = {'1.0.0': 'First release.'}
  MANUAL_DOWNLOAD_INSTRUCTIONS = INSTRUCTIONS
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

  def _info(self) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(
      builder=self,
      description=DESCRIPTION,
      features=features(class_names(self.builder_config)),
      supervised_keys=('image', 'label'),
      metadata=tfds.core.MetadataDict(),
      disable_shuffling=True,
      homepage='https://arxiv.org/abs/1906.02168',
      citation=CITATION,
    )

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
    """Looks for the frames and boxes; the one split is called test."""
    config = self.builder_config
    paths = (config.metadata, config.frames, config.boxes)
    there = all(expanded(path).exists() for path in paths if path)
    manual = '' if there else str(dl_manager.manual_dir)
    home, frames, loaded = _load(config, manual)
    names = tuple(self.info.features['label'].names)
    if loaded.class_names != names:
      raise InputError(
        f'{home} has the classes {loaded.class_names}, and {config.name} those of '
        f'{config.classes}: use a VideoNeighborsConfig of your own.'
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
    known: Mapping[str, list[Box]] = {}
    if config.boxes:
      place = _place(config.boxes, manual)
      known, clipped = boxes.read(place, loaded.paths, label_space.words(names))
      self.info.metadata['clipped_boxes'] = len(clipped)
      if clipped:
        logging.warning(
          '%s: %d boxes stand out of their images by more than %g pixel and are cut at the '
          'borders, the first on %s',
          place,
          len(clipped),
          boxes.TOLERANCE,
          clipped[0],
        )
    return {'test': self._generate_examples(loaded, frames, known)}

  def settings(self) -> dict[str, Any]:
    """See `MadeOf`."""
    config = self.builder_config
    return {'classes': config.classes, 'allow_missing': config.allow_missing}

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """See `MadeOf`: of the metadata, the frames and the boxes."""
    config = self.builder_config
    home, frames, loaded = _load(config, manual_dir)
    files = [frames / path for path in loaded.paths]
    tables = [path for place in ('', 'metadata', 'misc') for path in (home / place).glob('*.json')]
    digests = {
      'metadata': digest_of_files(home, tables),
      'frames': digest_of_files(frames, files, ENDS),
      'boxes': '',
    }
    if config.boxes:
      known = _place(config.boxes, manual_dir)
      inside = [file for file in known.rglob('*') if file.is_file()]
      root, inside = (known.parent, [known]) if known.is_file() else (known, inside)
      digests['boxes'] = digest_of_files(root, inside)
    return digests

  def _generate_examples(
    self, loaded: NeighborFrames, frames: pathlib.Path, known: Mapping[str, list[Box]]
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields frames in the order of their paths; image files are stored as they are."""
    labels = loaded.labels if loaded.labels.ndim == 2 else loaded.labels[:, None]
    for index, path in enumerate(loaded.paths):
      own = [int(label) for label in labels[index] if label >= 0]
      member = loaded.group_id[index] >= 0
      yield (
        index,
        {
          'image': str(frames / path),
          'path': path,
          'label': own[0],
          'labels': own,
          'anchor': bool(loaded.anchor[index]),
          'group_id': loaded.group_id[index][member],
          'offset': loaded.offset[index][member],
          'frame_type': int(loaded.frame_type[index]),
          'fps': loaded.fps[index],
          'boxes': [
            {
              'bbox': tfds.features.BBox(box.y_min, box.x_min, box.y_max, box.x_max),
              'label': box.label,
            }
            for box in known.get(path, ())
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
  home = expanded(config.metadata)
  if home.is_dir():
    return neighbor_frames.class_names(metadata.read(home), config.classes)
  return label_space.get(config.classes or neighbor_frames.SPACES[0]).class_names


def _load(
  config: VideoNeighborsConfig, manual_dir: str
) -> tuple[pathlib.Path, pathlib.Path, NeighborFrames]:
  """Returns the folders of metadata and of frames, and the frames that lie there."""
  home, frames = (
    _place(path, manual_dir) for path in (config.metadata, config.frames or config.metadata)
  )
  return home, frames, neighbor_frames.load(home, str(frames), config.classes, config.allow_missing)


def _place(given: str, manual_dir: str) -> pathlib.Path:
  """Returns a path that is there, or lies in manual_dir or the archive's folder in it."""
  manual = pathlib.Path(manual_dir)
  places = (expanded(given), manual / given, manual / ARCHIVE / given)
  return next((place for place in places if place.exists()), manual / given)
