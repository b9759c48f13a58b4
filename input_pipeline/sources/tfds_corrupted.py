"""Several configs of a corrupted TFDS set as one stored set, a part each.

`name` is a pattern over the configs of one data set: 'cifar10_corrupted/*', 'corrupted/cifar10_*',
'imagenet2012_corrupted/*_3'; it stands for those that are prepared. A name without '*' is one
config, prepared if need be. Rows are ordered by corruption (as in
`robustness.corruptions.names.NAMES`; clean images first), then severity, then place in the files;
`example_id` is the position in that order. `base_id` is the place in the files, since TFDS writes
all configs of one of these sets in the same order.
"""

from __future__ import annotations

import fnmatch

import numpy as np
import tensorflow_datasets as tfds

from input_pipeline.corruption_parts import Part, description, source_fields
from input_pipeline.images import Source
from input_pipeline.settings import DataSettings
from input_pipeline.sources.joined_streams import JoinedStreams
from input_pipeline.tfds_sets import (
  StreamStore,
  check_features,
  count,
  decoder,
  prepared_builder,
  sizes,
  stored_part,
)
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded


def open_source(settings: DataSettings) -> Source:
  """Returns the split `settings.split` of all configs that `settings.name` stands for.

  Raises:
    InputError: no such config is prepared, one is not of corrupted images, two hold the same part,
      or they differ in length, size or classes.
  """
  builders = _by_part(settings)
  parts, opened = list(builders), list(builders.values())
  image, names = check_features(opened[0])
  n = _same(opened, settings.split)
  title = f'tfds {settings.name!r}, split {settings.split!r}'
  return Source(
    title=title,
    class_names=names,
    channels=1 if image.shape[-1] == 1 else 3,
    description={
      'source': 'tfds_corrupted',
      'name': settings.name,
      'split': settings.split,
      'dataset': f'{opened[0].name}:{opened[0].version}',
      **description(parts, n),
    },
    store=JoinedStreams(
      [StreamStore(b, settings.split) for b in opened], [np.arange(n)] * len(opened)
    ),
    decode=decoder(image),
    sizes=sizes(image),
    **source_fields(parts, n),
    where=lambda i: f'{title}, {parts[i // n]}, image {i % n} (example {i})',
  )


def _by_part(settings: DataSettings) -> dict[Part, tfds.core.DatasetBuilder]:
  opened: dict[Part, tfds.core.DatasetBuilder] = {}
  for name in _names(settings):
    builder = prepared_builder(name, settings.data_dir)
    part = _part(builder)
    if part in opened:
      raise InputError(
        f'{opened[part].info.full_name} and {builder.info.full_name} both hold '
        f'{part}: give a narrower pattern in config.data.name.'
      )
    opened[part] = builder
  return dict(sorted(opened.items()))


def _names(settings: DataSettings) -> list[str]:
  """Returns the names <data set>/<config> that the pattern stands for."""
  if '*' not in settings.name:
    return [settings.name]
  dataset, _, pattern = settings.name.partition('/')
  folder = expanded(settings.data_dir or tfds.core.constants.DATA_DIR) / dataset
  prepared = sorted({path.parts[-3] for path in folder.glob('*/*/dataset_info.json')})
  chosen = fnmatch.filter(prepared, pattern)
  if not chosen:
    known = nearest(pattern, prepared) if prepared else 'none is prepared there'
    raise InputError(
      f'config.data.name is {settings.name!r}, which no config in {folder} is '
      f'called after: {known}. Prepare them with tfds.load first.'
    )
  return [f'{dataset}/{config}' for config in chosen]


def _part(builder: tfds.core.DatasetBuilder) -> Part:
  part = stored_part(builder)
  if part is None:
    raise InputError(
      f'config.data.name: {builder.info.full_name!r} says of no corruption and '
      "severity; it should be as in 'cifar10_corrupted/brightness_1'."
    )
  return part


def _same(builders: list[tfds.core.DatasetBuilder], split: str) -> int:
  """Returns the number of images in every config, which must be alike."""
  facts = [
    (count(b, split), b.info.features['image'].shape, check_features(b)[1]) for b in builders
  ]
  for builder, fact in zip(builders, facts, strict=True):
    if fact != facts[0]:
      different = [f'{a} and {b}' for a, b in zip(facts[0][:2], fact[:2], strict=True) if a != b]
      raise InputError(
        f'{builders[0].info.full_name} and {builder.info.full_name} differ in '
        f'images, size or classes ({", ".join(different) or "classes"}): give a '
        'narrower pattern in config.data.name.'
      )
  return facts[0][0]
