"""The config of the TFDS data set `corrupted`, its name, and what its metadata say."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from robustness.core.errors import InputError
from robustness.core.settings import choice, require
from robustness.corruptions.catalog import TABLES, table_for
from robustness.corruptions.names import CLEAN, NAMES, NUMBERS, SEVERITIES
from robustness.corruptions.pixels import QUANTIZE

CLEAN_NAME = 'clean'
LISTED_BASES = ('cifar10', 'imagenet2012')
PREPARATION: dict[str, dict[str, Any]] = {
  'imagenet2012': {'resize': 256, 'crop': 224, 'interpolation': 'bilinear'}
}
"""How a base is prepared when the config is given by name: ImageNet-C was made of such crops."""


@dataclasses.dataclass(eq=False)
class CorruptedConfig(tfds.core.BuilderConfig):
  """What is corrupted, and how.

  Attributes:
    name: of the config; '' makes <base>_<corruption>_<severity> where nothing else was chosen.
    base: TFDS name of the data set, with `image` and `label`.
    corruption: one of `robustness.corruptions.names.NAMES`, or 'clean'.
    severity: 1..5; 0 of clean images.
    splits: of the base, slices allowed ('test[:1000]'), each stored under the split's plain name;
      () takes 'test', or 'validation' where there is no test split with labels.
    base_dir: where TFDS keeps the base; '' where this data set goes.
    constants: the table of constants: 32, 64, 224 or 299; 0 takes the nearest to the image size.
    quantize: 'floor', as the released sets were made, or 'round', as TFDS makes them.
    photographs: '' draws procedural frost; see `textures.load_photographs`.
    seed: of the random stream.
    resize, crop, interpolation: before the corruption; see `DataSettings`.
    beam: prepare with Apache Beam, a block of images at a time.
  """

  name: str = ''
  description: str | None = None
  base: str = ''
  corruption: str = ''
  severity: int = 0
  splits: tuple[str, ...] = ()
  base_dir: str = ''
  constants: int = 0
  quantize: str = 'floor'
  photographs: str = ''
  seed: int = 0
  resize: int = 0
  crop: int = 0
  interpolation: str = 'bicubic'
  beam: bool = False

  def __post_init__(self) -> None:
    choice('corruption', self.corruption, (*NAMES, CLEAN_NAME))
    severities = (0,) if self.is_clean else SEVERITIES
    require(
      self.severity in severities,
      'severity',
      self.severity,
      f'one of {", ".join(map(str, severities))}',
    )
    choice('quantize', self.quantize, QUANTIZE)
    require(
      self.constants in (0, *TABLES),
      'constants',
      self.constants,
      f'one of 0, {", ".join(map(str, TABLES))}',
    )
    require(bool(self.base), 'base', self.base, "a TFDS name, for example 'cifar10'")
    plain = [split.partition('[')[0] for split in self.splits]
    require(
      len(set(plain)) == len(plain) and all(re.fullmatch(r'\w+', name) for name in plain),
      'splits',
      self.splits,
      "different splits, each with at most one slice: 'test[:1000]'",
    )
    self.name = self.name or self._plain_name()
    self.description = self.description or self.summary()

  def _plain_name(self) -> str:
    usual = {
      **{f.name: f.default for f in dataclasses.fields(CorruptedConfig)},
      **PREPARATION.get(self.base, {}),
    }
    free = ('splits', 'constants', 'quantize', 'photographs', 'seed', 'resize', 'crop')
    chosen = [name for name in free if getattr(self, name) != usual[name]]
    if chosen or '/' in self.base:
      chosen = chosen or ['a base with a config']
      raise InputError(
        f'a config that chooses {", ".join(chosen)} needs a name of its own, by '
        "which it is loaded: name='...'."
      )
    severity = [] if self.is_clean else [str(self.severity)]
    return '_'.join([self.base, self.corruption, *severity])

  @property
  def is_clean(self) -> bool:
    """Whether images stay as they are."""
    return self.corruption == CLEAN_NAME

  @property
  def number(self) -> int:
    """The corruption's number, -1 of clean images."""
    return CLEAN if self.is_clean else NUMBERS[self.corruption]

  def image_shape(self, base: tuple[int | None, ...]) -> tuple[int | None, int | None, int]:
    """Returns the shape of stored images, None where images tell, from that of the base."""
    channels = 1 if base[-1] == 1 else 3
    if self.crop:
      return self.crop, self.crop, channels
    return (None, None, channels) if self.resize else (base[0], base[1], channels)

  def summary(self) -> str:
    """Says in a line what the images are."""
    what = 'as they are' if self.is_clean else f'under {self.corruption}, severity {self.severity}'
    return f'Images of {self.base} {what}'

  def metadata(self, base: str, image_shape: tuple[int, ...]) -> dict[str, Any]:
    """Returns what `info.metadata` holds: everything that fixes the images.

    Args:
      base: full name of the base data set, with its version.
      image_shape: of the stored images.
    """
    table = table_for(image_shape[0], image_shape[1], self.constants or None)
    frost = (self.photographs or 'procedural') if self.corruption == 'frost' else ''
    return {
      'base': base,
      'corruption': self.corruption,
      'corruption_number': self.number,
      'severity': self.severity,
      'constants': table.side,
      'quantize': self.quantize,
      'frost': frost,
      'seed': self.seed,
      'splits': list(self.splits),
      'resize': self.resize,
      'crop': self.crop,
      'interpolation': self.interpolation if self.resize else '',
    }


def named_configs() -> list[CorruptedConfig]:
  """Returns the configs that TFDS lists: those of CIFAR-10 and of ImageNet's validation images.

  Other bases are named in the same way.
  """
  names = [CLEAN_NAME, *(f'{name}_{severity}' for name in NAMES for severity in SEVERITIES)]
  return [parse_name(f'{base}_{name}') for base in LISTED_BASES for name in names]


def parse_name(name: str) -> CorruptedConfig:
  """Returns the config of the name <base>_<corruption>_<severity> or <base>_clean.

  Raises:
    InputError: the name has another form, or there is no such corruption.
  """
  known = re.fullmatch(rf'(\w+?)_(?:({"|".join(NAMES)})_([1-5])|{CLEAN_NAME})', name)
  if known:
    base, corruption, severity = known.groups()
    return CorruptedConfig(
      base=base,
      corruption=corruption or CLEAN_NAME,
      severity=int(severity or 0),
      **PREPARATION.get(base, {}),
    )
  other = re.fullmatch(r'([^_]+)_(.+)_([^_]+)', name)
  if other:
    choice('corruption', other[2], (*NAMES, CLEAN_NAME))
  raise InputError(
    f'{name!r} is no config of corrupted: <base>_<corruption>_<severity>, for '
    "example 'cifar10_fog_3', with a severity of 1..5; <base>_clean; or "
    'config=CorruptedConfig(...) for any other choice.'
  )


def default_split(base: tfds.core.DatasetBuilder) -> str:
  """Returns 'test', or 'validation' where there is no test split with labels.

  Raises:
    InputError: the base has neither.
  """
  splits = base.info.splits
  if 'test' in splits and not ('validation' in splits and _unlabelled(base, 'test')):
    return 'test'
  if 'validation' in splits:
    return 'validation'
  raise InputError(
    f'{base.info.full_name} has neither test nor validation, but '
    f"{', '.join(sorted(splits))}: choose CorruptedConfig(splits=('...',))."
  )


def _unlabelled(base: tfds.core.DatasetBuilder, split: str) -> bool:
  example = next(iter(base.as_dataset(split=split).take(1)))
  return bool(np.asarray(example['label']) < 0)
