"""ImageNet-C and Tiny-ImageNet-C as they were released.

Files are PATH/<corruption>/<severity>/<WordNet identifier>/<image>.JPEG.

Any of the 19 corruptions and any severities may be there, each with the same images. Rows are
ordered by corruption (as in `robustness.corruptions.names.NAMES`), then severity, then class and
file name; `example_id` is the position in that order and `base_id` the position among the images of
one severity. Clean images, which the release lacks, come first if there is a folder
PATH/clean/<WordNet identifier>/; they must be prepared as the corrupted ones were (resize to 256,
crop to 224; those of Tiny-ImageNet are 64 pixels wide already).

Tiny-ImageNet-C as first archived has 1,000 class folders of frost, and 200 of every other
corruption: of frost the classes of the others are read; results say how many are left out. Class
folders hold 50 files `test_<number>.JPEG` each.

Images are not cropped again: a classifier of another size gets them resized to its side,
and results say so (`crop_margin`).
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from input_pipeline.corruption_parts import (
  CLEAN_PART,
  Part,
  check_names,
  description,
  source_fields,
)
from input_pipeline.image_files import EXTENSIONS, read_header
from input_pipeline.images import Source, encoded
from input_pipeline.settings import DataSettings
from input_pipeline.sources.folder import read_file
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.corruptions.names import NAMES, NUMBERS, SEVERITIES

CLEAN_FOLDER = 'clean'
TINY = 'tiny_imagenet_c'
TITLES = {'imagenet_c': 'ImageNet-C', TINY: 'Tiny-ImageNet-C'}


@dataclasses.dataclass(frozen=True)
class FilesStore:
  """Paths of files that have the same names in several folders.

  Attributes:
    folders: strings [parts].
    files: strings [n], below each folder.
    labels: int32 [n].
  """

  folders: tf.Tensor
  files: tf.Tensor
  labels: tf.Tensor

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """See `Store`."""
    return tf.data.Dataset.from_tensor_slices(np.asarray(indices, np.int64)).map(self.element)

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """See `IndexedStore`."""
    count = len(self.labels)
    path = tf.strings.join(
      [tf.gather(self.folders, index // count), tf.gather(self.files, index % count)], os.sep
    )
    return {'example_id': index, 'label': tf.gather(self.labels, index % count), 'stored': path}


def open_source(settings: DataSettings) -> Source:
  """Returns all images of the folder `settings.path`, RGB.

  Raises:
    InputError: the folder is missing or empty, a folder is named after no corruption or severity,
      or a severity lacks a file that another one has.
  """
  choice('config.data.split', settings.split, ('test',))
  root = expanded(settings.path)
  if not settings.path or not root.is_dir():
    raise InputError(
      f'config.data.path is {settings.path!r}, which is not a folder; give the '
      f'folder of {TITLES[settings.source]}: <corruption>/<severity>/<class>/<image>.'
    )
  folders = _parts(root)
  classes = _classes_beside_frost(folders) if settings.source == TINY else None
  files = _same_files(list(folders.values()), classes)
  further = set().union(*map(_folders, folders.values())) - classes if classes else ()
  facts = {'class_folders_left_out': len(further)} if further else {}
  return _source(settings, folders, files, facts)


def _source(
  settings: DataSettings, folders: dict[Part, Path], files: list[str], facts: dict[str, int]
) -> Source:
  of_files = [os.path.dirname(file) for file in files]
  number = {name: label for label, name in enumerate(sorted(set(of_files)))}
  labels = np.array([number[name] for name in of_files], np.int32)
  parts, paths, n = list(folders), [str(folder) for folder in folders.values()], len(files)
  header = read_header(os.path.join(paths[0], files[0]))
  return Source(
    title=f'{TITLES[settings.source]} in {settings.path}',
    description={
      'source': settings.source,
      'path': settings.path,
      **facts,
      **description(parts, n),
    },
    class_names=tuple(number),
    channels=3,
    store=FilesStore(tf.constant(encoded(paths)), tf.constant(encoded(files)), tf.constant(labels)),
    read=functools.partial(read_file, channels=3),
    where=lambda i: f'{os.path.join(paths[i // n], files[i % n])} (example {i})',
    # Millions of headers would take an hour: another size is noticed when its file is read.
    sizes=lambda indices: [(header.height, header.width)] * len(indices),
    names=[file.replace(os.sep, '/') for file in files],
    **source_fields(parts, n),
  )


def _parts(root: Path) -> dict[Part, Path]:
  folders = _folders(root)
  clean = folders.pop(CLEAN_FOLDER, None)
  check_names(folders, str(root))
  parts = {CLEAN_PART: clean} if clean else {}
  for name in (name for name in NAMES if name in folders):
    severities = _folders(folders[name])
    unknown = sorted(set(severities) - {str(s) for s in SEVERITIES})
    if unknown or not severities:
      raise InputError(
        f'{folders[name]} holds {", ".join(unknown) or "nothing"}; expected folders '
        f'named after severities: {", ".join(map(str, SEVERITIES))}.'
      )
    parts.update({Part(NUMBERS[name], int(s)): path for s, path in severities.items()})
  return parts


def _folders(root: Path) -> dict[str, Path]:
  return {
    path.name: path
    for path in sorted(root.iterdir())
    if path.is_dir() and not path.name.startswith('.')
  }


def _classes_beside_frost(folders: Mapping[Part, Path]) -> set[str] | None:
  """Returns the class folders of a corruption that is not frost; None where there is none."""
  frost = NUMBERS['frost']
  others = [folder for part, folder in folders.items() if part[0] != frost]
  return set(_folders(others[0])) if others else None


def _same_files(folders: list[Path], classes: set[str] | None) -> list[str]:
  """Returns the sorted paths <class>/<image> below every folder; they must be the same.

  Args:
    folders: of every part.
    classes: that are read; None reads all.
  """
  first = _listed(folders[0], classes)
  if not first:
    raise InputError(
      f'{folders[0]} holds no <class>/<image>; expected files ending in {", ".join(EXTENSIONS)}.'
    )
  for folder in folders[1:]:
    files = _listed(folder, classes)
    if files != first:
      name = min(set(files) ^ set(first))
      lacking, having = (folder, folders[0]) if name in set(first) else (folders[0], folder)
      raise InputError(
        f'{lacking} lacks {name}, which {having} has: every corruption and severity '
        'must hold the same images. Unpack the archive again.'
      )
  return first


def _listed(folder: Path, classes: set[str] | None) -> list[str]:
  return sorted(
    os.path.join(entry.name, file)
    for entry in _folders(folder).values()
    if classes is None or entry.name in classes
    for file in os.listdir(entry)
    if file.lower().endswith(EXTENSIONS) and not file.startswith('.')
  )
