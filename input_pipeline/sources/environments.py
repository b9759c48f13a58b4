"""Images in environments, such as rendition styles: a folder, or any files listed in JSON.

`config.data.path` is a folder with images PATH/environment/class/*.jpg, or a file

  {"photo": {"dog": ["a/1.jpg", ...], "cat": [...]}, "sketch": {...}}

of paths, relative to that file or absolute, each file once. With the keys "train" and "test" on
top it gives both splits; otherwise a share `test_share` of every cell (environment and class),
drawn once for all seeds, is the test. `config.data.name` is the environment E_0, which all classes
are trained in; the first one by default, which is logged. The others are E_1, E_2, ... in their
order (of folders by name).

A path 'tfds:NAME' takes the configs of a TFDS data set, see `tfds_environments`.

Splits: 'test' has every cell; 'train' the cells of E_0 and, of E_k, those of the class group C_k;
'clean' the training images of E_0 alone.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from input_pipeline.image_files import EXTENSIONS, read_header
from input_pipeline.images import MemoryStore, Source, encoded
from input_pipeline.settings import DataSettings
from input_pipeline.sources import tfds_environments
from input_pipeline.sources.environment_cells import SPLITS, check_cells, is_permitted, ordered
from input_pipeline.sources.folder import header_sizes, read_file
from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.environments.class_groups import from_settings

_SPLIT_STREAM = 0x5B117  # the random stream of the split into training and test images
_LISTED = 8  # files named in a message
Cells = dict[str, dict[str, list[str]]]


def open_source(settings: DataSettings) -> Source:
  """Returns the images of a split, ordered by environment, class and path.

  Raises:
    InputError: a file that does not exist, an unknown environment, a cell without images (unless
      `config.data.allow_missing`), or class groups that do not fit.
  """
  choice('config.data.split', settings.split, SPLITS)
  if settings.path.startswith(tfds_environments.PREFIX):
    return tfds_environments.open_source(settings)
  whole = read(settings)
  cells = whole['test' if settings.split == 'test' else 'train']
  environments, classes = names(whole, settings)
  groups = from_settings(settings, classes)
  files = [[cells.get(e, {}).get(name, []) for name in classes] for e in environments]
  present = np.array([[bool(cell) for cell in own] for own in files])
  missing = check_cells(present, environments, groups, settings.allow_missing)
  paths, labels, numbers = [], [], []
  for number, own in enumerate(files):
    for label in np.flatnonzero(is_permitted(settings.split, number, groups.of_label)):
      paths += own[label]
      labels += [label] * len(own[label])
      numbers += [number] * len(own[label])
  channels = 1 if all(read_header(path).grey for path in paths) else 3
  return Source(
    title=f'environments {settings.path!r}',
    description={
      'source': 'environments',
      'path': settings.path,
      'split': settings.split,
      'environments': list(environments),
      'images_by_environment': [numbers.count(k) for k in range(len(environments))],
      **missing,
    },
    num_examples=len(paths),
    class_names=classes,
    channels=channels,
    store=MemoryStore(tf.constant(encoded(paths)), tf.constant(np.array(labels, np.int32))),
    read=functools.partial(read_file, channels=channels),
    where=lambda index: f'{paths[index]} (example {index})',
    sizes=functools.partial(header_sizes, paths),
    columns={'environment': np.array(numbers, np.int32)},
  )


def read(settings: DataSettings) -> dict[str, Cells]:
  """Returns the files of either split: {'train' or 'test': {environment: {class: paths}}}.

  Raises:
    InputError: no such folder or file, JSON of another form, or files that do not exist or are
      listed twice.
  """
  path = expanded(settings.path)
  if settings.path and path.is_dir():
    return _split(_of_folder(path), settings.test_share)
  if not settings.path or not path.is_file():
    raise InputError(
      f'config.data.path is {settings.path!r}; give a folder of environments with a folder for '
      'each class, or a JSON file {environment: {class: [files]}}.'
    )
  document = _load(path)
  whole = document if set(document) == {'train', 'test'} else {'': document}
  cells = {split: _of_document(own, path) for split, own in whole.items()}
  _check_once(cells, path)
  return cells if '' not in cells else _split(cells[''], settings.test_share)


def names(
  splits: Mapping[str, Cells], settings: DataSettings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
  """Returns the environments, E_0 first, and the classes in label order (sorted by name)."""
  every = list(dict.fromkeys(name for cells in splits.values() for name in cells))
  classes = {name for cells in splits.values() for cell in cells.values() for name in cell}
  return ordered(every, settings.name), tuple(sorted(classes))


def _of_folder(root: pathlib.Path) -> Cells:
  def folders(parent: pathlib.Path) -> list[pathlib.Path]:
    return sorted(f for f in parent.iterdir() if f.is_dir() and not f.name.startswith('.'))

  cells = {
    environment.name: {
      own.name: sorted(str(file) for file in own.rglob('*') if file.suffix.lower() in EXTENSIONS)
      for own in folders(environment)
    }
    for environment in folders(root)
  }
  if not any(cells.values()):
    raise InputError(f'{root} holds no images; expected {root}/<environment>/<class>/<image>.')
  return cells


def _load(path: pathlib.Path) -> dict[str, Any]:
  advice = 'It must hold {environment: {class: [files]}}.'
  document = json_files.read(path, advice=advice)
  if not document:
    raise InputError(f'{path} is empty. {advice}')
  return document


def _of_document(document: Any, path: pathlib.Path) -> Cells:
  """Checks one split of a JSON file; its paths become absolute."""
  cells: Cells = {}
  missing = []
  for environment, own in document.items() if isinstance(document, dict) else [('', None)]:
    if not isinstance(own, dict):
      raise InputError(
        f'{path}: {environment!r} must map classes to lists of files, as in '
        '{environment: {class: [files]}}.'
      )
    cells[environment] = {}
    for name, files in own.items():
      if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise InputError(f'{path}: {environment!r}, {name!r} must be a list of paths of files.')
      located = [path.parent / expanded(file) for file in files]
      missing += [str(file) for file in located if not file.is_file()]
      cells[environment][name] = sorted(map(str, located))
  if missing:
    more = f' and {len(missing) - _LISTED} more' if len(missing) > _LISTED else ''
    raise InputError(
      f'{path} names {len(missing)} files that do not exist: {", ".join(missing[:_LISTED])}{more}.'
    )
  return cells


def _check_once(splits: Mapping[str, Cells], path: pathlib.Path) -> None:
  """Refuses a file that is listed twice, by whatever paths and links."""
  places: dict[str, list[str]] = {}
  for split, cells in splits.items():
    for environment, own in cells.items():
      for name, files in own.items():
        for file in files:
          place = '/'.join(filter(None, (split, environment, name)))
          places.setdefault(os.path.realpath(file), []).append(place)
  twice = {file: where for file, where in places.items() if len(where) > 1}
  if twice:
    file, where = next(iter(twice.items()))
    more = f' (and {len(twice) - 1} more files twice)' if len(twice) > 1 else ''
    raise InputError(
      f'{path} lists {file} in {where[0]} and {where[1]}{more}: an image is of one class in one '
      'environment, for training or for the test.'
    )


def _split(cells: Cells, share: float) -> dict[str, Cells]:
  """Draws the test images of every cell; at least one of two or more stays on either side."""
  parts: dict[str, Cells] = {'train': {}, 'test': {}}
  for environment, own in cells.items():
    for part in parts.values():
      part[environment] = {}
    for name, files in own.items():
      order = np.random.default_rng(_SPLIT_STREAM).permutation(len(files))
      count = min(max(round(share * len(files)), 1), max(len(files) - 1, 0))
      test = set(order[:count].tolist())
      for split, chosen in (('test', True), ('train', False)):
        parts[split][environment][name] = [
          file for index, file in enumerate(files) if (index in test) == chosen
        ]
  return parts
