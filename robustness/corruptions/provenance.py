"""What errors under corruptions are errors of, and whether they compare with published tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from robustness.corruptions import released
from robustness.corruptions.released import RELEASED
from robustness.corruptions.severities import table_for
from robustness.corruptions.views import CorruptionViews
from robustness.results import Table

TABLE = 'which numbers these are'
RELEASED_SOURCES = ('cifar10_c', 'imagenet_c')


@dataclasses.dataclass(frozen=True)
class Provenance:
  """What the table says, gathered from a run.

  Attributes:
    views: the settings of the corruptions.
    stored: whether corrupted images were read and not made.
    description: of the rows, as results have it.
    digest: of the images; '' where the records have none.
    num_images: clean images, or images that were corrupted.
    image_shape: of the images that are corrupted.
    denominator: whose errors mCE divides by.
  """

  views: CorruptionViews
  stored: bool
  description: Mapping[str, Any]
  digest: str
  num_images: int
  image_shape: tuple[int, int, int]
  denominator: str

  @property
  def differences(self) -> list[str]:
    """What differs from the released set of the images' kind, beyond the random draws."""
    side = min(table_for(*self.image_shape[:2]).side, max(RELEASED))
    of_files = (
      released.data_differences(self.description, self.num_images, RELEASED[side])
      if not self.stored
      else []
    )
    made = (
      released.setting_differences(self.views, self.image_shape, side)
      if not self.stored
      else self._of_stored()
    )
    size = released.size_difference(self.image_shape, side)
    return [*size, *of_files, *made, *released.shown_differences(self.views)]

  def _of_stored(self) -> list[str]:
    source = self.description.get('source', '')
    return [] if source in RELEASED_SOURCES else [f'the source {source} is no released set']

  def table(self) -> Table:
    """Returns the table ('what', 'value')."""
    frost = self.views.facts.get('frost', {})
    made = not self.stored
    rows = [
      ['images', str(self.num_images)],
      ['data', _named(self.description, ('source', 'name', 'path', 'split'))],
      ['digest of the images', self.digest or 'not recorded'],
      ['preprocessing', _preprocessing(self.description, self.image_shape)],
      ['corrupted images', 'made here' if made else 'read as they are stored'],
      *([['protocol', self.views.protocol]] if made else []),
      *([['constants', f'{self._constants} pixels']] if made else []),
      *([['storage', self._storage]] if made else []),
      *([['frost', _named(frost, ('source', 'from'))]] if made and frost else []),
      ['mCE divides by', self.denominator],
      ['comparable with published tables', self._comparable],
    ]
    return Table(('what', 'value'), rows)

  @property
  def _constants(self) -> int:
    return self.views.constants or table_for(*self.image_shape[:2]).side

  @property
  def _storage(self) -> str:
    if self.views.protocol == released.AS_RELEASED:
      return RELEASED[self.image_shape[0]].storage
    return f'8 bits, {self.views.rounding}' if self.views.rounding else 'none: floats'

  @property
  def _comparable(self) -> str:
    differences = self.differences
    if differences:
      return f'no: {"; ".join(differences)}'
    return 'yes' if self.stored else 'yes, but for the random draws: images were made anew'


def _named(values: Mapping[str, Any], keys: tuple[str, ...]) -> str:
  return ', '.join(str(values[key]) for key in keys if values.get(key)) or 'not recorded'


def _preprocessing(description: Mapping[str, Any], image_shape: tuple[int, int, int]) -> str:
  size = f'{image_shape[0]} × {image_shape[1]} pixels'
  resize, crop = description.get('resize'), description.get('crop')
  words = [
    f'shorter side to {resize} ({description.get("interpolation")})' if resize else '',
    f'centre of {crop}' if crop else '',
    f'as {description["prepared_for"]} wants them' if description.get('prepared_for') else '',
  ]
  done = ', '.join(word for word in words if word) or 'as stored'
  return f'{done}; {size}'


def in_words(table: Table) -> str:
  """Returns the table as one line, for figures."""
  return '; '.join(f'{what}: {value}' for what, value in table.rows)
