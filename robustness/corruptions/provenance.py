"""What errors under corruptions are errors of, and whether they compare with published tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from robustness.corruptions import released
from robustness.corruptions.released import RELEASED
from robustness.corruptions.severities import table_for
from robustness.evaluation import provenance
from robustness.results import Table

if TYPE_CHECKING:
  from robustness.corruptions.views import CorruptionViews

RELEASED_SOURCES = ('cifar10_c', 'cifar100_c', 'imagenet_c', 'tiny_imagenet_c')


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
    denominator: whose errors mCE divides by; '' where there is none.
    clean: whether clean images are shown too.
  """

  views: CorruptionViews
  stored: bool
  description: Mapping[str, Any]
  digest: str
  num_images: int
  image_shape: tuple[int, int, int]
  denominator: str = ''
  clean: bool = True

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
    if source not in RELEASED_SOURCES:
      return [f'the source {source} is no released set']
    side = min(table_for(*self.image_shape[:2]).side, max(RELEASED))
    whole = RELEASED[side].num_images
    if self.num_images == whole or self._of_robustbench:
      return []
    return [f'{self.num_images} of {whole} images']

  @property
  def _of_robustbench(self) -> bool:
    """Whether these are the images of ImageNet-C that RobustBench has chosen."""
    source, listed = (self.description.get(key) for key in ('source', 'listed'))
    chosen = source == 'imagenet_c' and listed == provenance.ROBUSTBENCH
    return self.stored and chosen and self.num_images == provenance.ROBUSTBENCH_IMAGES

  def table(self) -> Table:
    """Returns the table ('what', 'value')."""
    frost = self.views.facts.get('frost', {})
    lines = provenance.data_lines(self.description, self.digest, self.num_images, self.image_shape)
    if not self.clean:
      lines['clean images'] = 'none are stored, hence no clean error and nothing relative to it'
    lines['corrupted images'] = 'read as they are stored' if self.stored else 'made here'
    if not self.stored:
      lines |= {
        'protocol': self.views.protocol,
        'constants': f'{self._constants} pixels',
        'storage': self._storage,
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

  @property
  def _constants(self) -> int:
    return self.views.constants or table_for(*self.image_shape[:2]).side

  @property
  def _storage(self) -> str:
    if self.views.protocol == released.AS_RELEASED:
      return RELEASED[self.image_shape[0]].storage
    return f'8 bits, {self.views.rounding}' if self.views.rounding else 'none: floats'
