"""The configs of a TFDS data set, such as DomainNet's six domains, as environments.

`config.data.path` is 'tfds:domainnet', with all its configs, or 'tfds:domainnet/real,sketch' with
some. `config.data.name` is the config that is E_0; the others are E_1, E_2, ... in their order.

Some pictures of such sets are stored twice, and some classes are missing in a config's split. Of
examples with the same bytes the first counts, in the order of environments and files, and what is
in the split `train` of any environment is left out of `test`; results say how many. A cell without
images is refused, or named in the results where `config.data.allow_missing` is set.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from input_pipeline.images import Source
from input_pipeline.settings import DataSettings
from input_pipeline.sources.environment_cells import check_cells, is_permitted, ordered
from input_pipeline.sources.joined_streams import JoinedStreams
from input_pipeline.tfds_sets import (
  StreamStore,
  check_features,
  count,
  decoder,
  find_builder,
  prepared_builder,
  register_own,
)
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.environments.class_groups import from_settings

PREFIX = 'tfds:'
TRAIN, TEST = 'train', 'test'


def open_source(settings: DataSettings) -> Source:
  """Returns the images of a split, ordered by environment and place in the files.

  Raises:
    InputError: an unknown data set or config, classes that differ, a config without a split 'train'
      or 'test', a cell without images, or class groups that do not fit.
  """
  dataset, names = config_names(settings)
  environments = ordered(names, settings.name)
  builders = [prepared_builder(f'{dataset}/{name}', settings.data_dir) for name in environments]
  image, classes = _same_classes(builders)
  split = TEST if settings.split == TEST else TRAIN
  labels, first = _first_of_each(builders, split)
  groups = from_settings(settings, classes)
  present = np.array(
    [np.isin(range(len(classes)), own[new]) for own, new in zip(labels, first, strict=True)]
  )
  missing = check_cells(present, environments, groups, settings.allow_missing)
  kept = [
    np.flatnonzero(is_first & is_permitted(settings.split, number, groups.of_label[own]))
    for number, (own, is_first) in enumerate(zip(labels, first, strict=True))
  ]
  starts = np.cumsum([0, *map(len, kept)])
  return Source(
    title=f'environments {settings.path!r}',
    description={
      'source': 'environments',
      'path': settings.path,
      'data_sets': [builder.info.full_name for builder in builders],
      'split': settings.split,
      'environments': list(environments),
      'images_by_environment': [len(places) for places in kept],
      'duplicates_left_out': [int((~is_first).sum()) for is_first in first],
      **missing,
    },
    num_examples=int(starts[-1]),
    class_names=classes,
    channels=1 if image.shape[-1] == 1 else 3,
    store=JoinedStreams([StreamStore(builder, split) for builder in builders], kept),
    decode=decoder(image),
    where=functools.partial(_where, builders, split, kept, starts),
    sizes=lambda indices: None,
    columns={'environment': np.repeat(np.arange(len(kept), dtype=np.int32), np.diff(starts))},
  )


def config_names(settings: DataSettings) -> tuple[str, tuple[str, ...]]:
  """Returns the data set's name and its configs, of 'tfds:NAME' or 'tfds:NAME/CONFIG,CONFIG'.

  Raises:
    InputError: an unknown data set or config, or fewer than two configs.
  """
  dataset, _, listed = settings.path.removeprefix(PREFIX).partition('/')
  folder = expanded(settings.data_dir or tfds.core.constants.DATA_DIR) / dataset
  prepared = sorted({path.parts[-3] for path in folder.glob('*/*/dataset_info.json')})
  try:
    register_own(dataset)
    known = [*tfds.builder_cls(dataset).builder_configs] or prepared
  except tfds.core.DatasetNotFoundError:
    known = prepared
  if not known:
    find_builder(dataset, settings.data_dir)  # says what is wrong with the name
  names = tuple(listed.split(',')) if listed else tuple(known)
  for name in names:
    if name not in known:
      raise InputError(
        f'config.data.path is {settings.path!r}, which names the config {name!r}; '
        f'{nearest(name, known)}.'
      )
  if len(names) < 2 or len(set(names)) < len(names):
    raise InputError(
      f'config.data.path is {settings.path!r}; environments need two different configs of a TFDS '
      f'data set or more, {dataset!r} has: {", ".join(known) or "none"}.'
    )
  return dataset, names


def _same_classes(
  builders: Sequence[tfds.core.DatasetBuilder],
) -> tuple[tfds.features.Image, tuple[str, ...]]:
  """Returns the feature `image` of the first config and the classes, which all must share."""
  image, classes = check_features(builders[0])
  for builder in builders[1:]:
    if check_features(builder)[1] != classes:
      raise InputError(
        f'{builders[0].info.full_name} and {builder.info.full_name} have different classes: give '
        'configs with the same ones in config.data.path.'
      )
  return image, classes


def _first_of_each(
  builders: Sequence[tfds.core.DatasetBuilder], split: str
) -> tuple[list[np.ndarray], list[np.ndarray]]:
  """Returns by environment the labels [n], and whether an example's bytes are new [n]."""
  seen: set[bytes] = set()
  if split == TEST:
    seen.update(digest for builder in builders for digest in _scanned(builder, TRAIN)[1])
  labels, first = [], []
  for builder in builders:
    own, digests = _scanned(builder, split)
    is_first = np.zeros(len(digests), bool)
    for place, digest in enumerate(digests):
      is_first[place] = digest not in seen
      seen.add(digest)
    labels.append(own)
    first.append(is_first)
  return labels, first


def _scanned(builder: tfds.core.DatasetBuilder, split: str) -> tuple[np.ndarray, tuple[bytes, ...]]:
  """Returns label and digest of the bytes of every example of a split, in the files' order."""
  return _scan(builder.info.full_name, str(builder.data_path), split)


@functools.lru_cache
def _scan(name: str, folder: str, split: str) -> tuple[np.ndarray, tuple[bytes, ...]]:
  """Reads a prepared data set from front to back, once a process; nothing is decoded."""
  builder = tfds.builder_from_directory(folder)
  logging.info('reading %s, split %s, for images that are stored twice', name, split)
  elements = StreamStore(builder, split).elements(np.arange(count(builder, split)))
  labels, digests = [], []
  for element in elements.as_numpy_iterator():
    labels.append(element['label'])
    digests.append(hashlib.blake2b(element['stored'], digest_size=16).digest())
  return np.array(labels, np.int32), tuple(digests)


def _where(
  builders: Sequence[tfds.core.DatasetBuilder],
  split: str,
  kept: Sequence[np.ndarray],
  starts: np.ndarray,
  index: int,
) -> str:
  """Names one example for messages."""
  number = int(np.searchsorted(starts, index, side='right')) - 1
  place = int(kept[number][index - starts[number]])
  return f'tfds {builders[number].info.full_name!r}, split {split!r}, example {place}'
