"""The released corrupted sets: how they were made, and whether numbers compare with published ones.

`protocol = 'as_released'` makes images as these were: from 8-bit images of the set's size,
truncated to 8 bits, stored as JPEG where the set is, and only then resized to the network.

Reference:
  The generators released with Hendrycks and Dietterich (2019): `make_cifar_c.py`,
  `make_tinyimagenet_c.py` and `make_imagenet_c.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from robustness.core.errors import InputError
from robustness.corruptions.catalog import table_for
from robustness.corruptions.names import OFFICIAL, SEVERITIES
from robustness.corruptions.settings import AS_RELEASED, CorruptionSettings
from robustness.evaluation import provenance
from robustness.evaluation.provenance import data_digest
from robustness.evaluation.records import RecordsReader
from robustness.results import Table

SOURCES = ('cifar10_c', 'cifar100_c', 'imagenet_c', 'tiny_imagenet_c')
"""Sources of data that read the released sets."""


@dataclasses.dataclass(frozen=True)
class ReleasedSet:
  """A set of corrupted images as it was released.

  Attributes:
    name: what papers call it.
    side: of its square images, pixels.
    jpeg_quality: of its files; 0 for arrays of 8-bit values.
    clean: {words in the name of the clean images: their split} by which they are known; empty where
      those that the set was made of were not released.
    num_images: clean images.
    prepared: how its clean images were prepared before they were corrupted, by the key of
      `config.data`; empty where they were as they are.
  """

  name: str
  side: int
  jpeg_quality: int
  clean: Mapping[str, str]
  num_images: int
  prepared: Mapping[str, object] = dataclasses.field(default_factory=dict)

  @property
  def storage(self) -> str:
    """How its images are stored."""
    return f'JPEG, quality {self.jpeg_quality}' if self.jpeg_quality else '8-bit arrays'

  def size_differences(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns what the size of images differs in."""
    height, width = image_shape[:2]
    same = height == width == self.side
    return [] if same else [f'images are {height} × {width}, not {self.side} × {self.side}']

  def setting_differences(
    self, settings: CorruptionSettings, image_shape: tuple[int, int, int]
  ) -> list[str]:
    """Returns what images made here differ in, of a shape (H, W, C); none if made as released."""
    constants = settings.constants or table_for(*image_shape[:2]).side
    chosen = settings.options.chosen()
    facts = {
      'frost is drawn, not photographed': 'frost' in settings.names and not settings.photographs,
      'values are not rounded to 8 bits as released': settings.rounding != 'floor',
      f'images are not stored as {self.storage}': (
        self.jpeg_quality and settings.protocol != AS_RELEASED
      ),
      f'constants are those of {constants} pixels': constants != self.side,
      f'variants of {", ".join(chosen)} are not the released ones': chosen,
    }
    return [reason for reason, differs in facts.items() if differs]

  def data_differences(self, description: Mapping[str, object], num_images: int) -> list[str]:
    """Returns what clean images differ in from those that the set was made of.

    Args:
      description: of the rows, as results have it.
      num_images: clean images shown.
    """
    name = str(description.get('name', '')).lower()
    split = str(description.get('split', ''))
    known = any(word in name and split.startswith(part) for word, part in self.clean.items())
    otherwise = [
      f'config.data.{key}={value}'
      for key, value in self.prepared.items()
      if description.get(key) != value
    ]
    facts = {
      f'the data are not known to be those of {self.name}': self.clean and not known,
      f'the clean images of {self.name} were not released': not self.clean,
      f'images were prepared otherwise, without {", ".join(otherwise)}': otherwise,
      f'{num_images} of {self.num_images} images': num_images != self.num_images,
    }
    return [reason for reason, differs in facts.items() if differs]


RELEASED = {
  32: ReleasedSet('CIFAR-10-C and CIFAR-100-C', 32, 0, {'cifar': 'test'}, 10_000),
  64: ReleasedSet('Tiny-ImageNet-C', 64, 85, {}, 10_000),
  224: ReleasedSet(
    'ImageNet-C',
    224,
    85,
    {'imagenet2012': 'validation'},
    50_000,
    {'resize': 256, 'crop': 224, 'interpolation': 'bilinear', 'resized_by': 'pillow'},
  ),
}
"""By side. Tiny-ImageNet-C was made of images of ImageNet that were cut out by their bounding boxes
and resized to 64 × 64, and not of Tiny-ImageNet's own (its authors, and their generator)."""


def following(image_shape: tuple[int, int, int], constants: int) -> ReleasedSet:
  """Returns the set with the protocol that images of a size can follow.

  Args:
    image_shape: of the images that are corrupted.
    constants: as asked for; 0 is the size's own.

  Raises:
    InputError: no set has that size, or the constants are those of another.
  """
  height, width = image_shape[:2]
  if height != width or height not in RELEASED:
    raise InputError(
      f"config.study.protocol is 'as_released', but the images are {height} × {width}, and "
      f'released sets have sides of {", ".join(map(str, RELEASED))} pixels. For ImageNet-C set '
      'config.data.resize=256 and config.data.crop=224 (the network then gets them resized); or '
      "set config.study.protocol='exact'."
    )
  if constants not in (0, height):
    raise InputError(
      f"config.study.constants is {constants}, but config.study.protocol is 'as_released' and "
      f'the images are of {height} pixels: leave it 0.'
    )
  return RELEASED[height]


@dataclasses.dataclass(frozen=True)
class Provenance:
  """What errors under corruptions are errors of.

  Attributes:
    settings: of the corruptions that are shown.
    stored: whether corrupted images were read and not made.
    description: of the rows, as results have it.
    digest: of the images; '' where the records have none.
    num_images: clean images, or images that were corrupted.
    image_shape: of the images that are corrupted.
    denominator: whose errors mCE divides by; '' where there is none.
    clean: whether clean images are shown too.
  """

  settings: CorruptionSettings
  stored: bool
  description: Mapping[str, object]
  digest: str
  num_images: int
  image_shape: tuple[int, int, int]
  denominator: str = ''
  clean: bool = True

  @classmethod
  def of_made(
    cls, settings: CorruptionSettings, records: RecordsReader, image_shape: tuple[int, int, int]
  ) -> Provenance:
    """Returns that of records of images that were corrupted here."""
    data, count = records.identity.get('data', {}), records.layout.num_rows
    return cls(settings, False, data, data_digest(records), count, image_shape)

  @property
  def released(self) -> ReleasedSet:
    """The released set of the images' kind."""
    return RELEASED[min(table_for(*self.image_shape[:2]).side, max(RELEASED))]

  @property
  def differences(self) -> list[str]:
    """What differs from the released set of the images' kind, beyond the random draws."""
    settings, source = self.settings, self.description.get('source', '')
    own = self.released.size_differences(self.image_shape)
    if not self.stored:
      own += self.released.data_differences(self.description, self.num_images)
      own += self.released.setting_differences(settings, self.image_shape)
    elif source not in SOURCES:
      own.append(f'the source {source} is no released set')
    elif self.num_images != self.released.num_images and not self._of_robustbench:
      own.append(f'{self.num_images} of {self.released.num_images} images')
    missing = [name for name in OFFICIAL if name not in settings.names]
    severities = [str(s) for s in SEVERITIES if s not in settings.severities]
    return [
      *own,
      *([f'without {", ".join(missing)}'] if missing else []),
      *([f'without severity {", ".join(severities)}'] if severities else []),
    ]

  @property
  def _of_robustbench(self) -> bool:
    """Whether these are the images of ImageNet-C that RobustBench has chosen."""
    source, listed = (self.description.get(key) for key in ('source', 'listed'))
    chosen = source == 'imagenet_c' and listed == provenance.ROBUSTBENCH
    return self.stored and chosen and self.num_images == provenance.ROBUSTBENCH_IMAGES

  def table(self) -> Table:
    """Returns the table ('what', 'value')."""
    settings, frost = self.settings, self.settings.facts.get('frost', {})
    lines = provenance.data_lines(self.description, self.digest, self.num_images, self.image_shape)
    if not self.clean:
      lines['clean images'] = 'none are stored, hence no clean error and nothing relative to it'
    lines['corrupted images'] = 'read as they are stored' if self.stored else 'made here'
    if not self.stored:
      storage = f'8 bits, {settings.rounding}' if settings.rounding else 'none: floats'
      as_released = settings.protocol == AS_RELEASED
      lines |= {
        'protocol': settings.protocol,
        'constants': f'{settings.constants or table_for(*self.image_shape[:2]).side} pixels',
        'storage': RELEASED[self.image_shape[0]].storage if as_released else storage,
      }
      if frost:
        lines['frost'] = provenance.named(frost, ('source', 'from'))
    if self.denominator:
      lines['mCE divides by'] = self.denominator
    otherwise = 'yes' if self.stored else 'yes, but for the random draws: images were made anew'
    if self._of_robustbench:
      otherwise = "yes, with RobustBench's accuracies; other tables are of all 50000 images"
    comparable = provenance.comparable(self.differences, otherwise)
    return provenance.table({**lines, provenance.COMPARABLE: comparable})
