"""Settings of the augmentations that mix a row with another."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from robustness.core.settings import require


@dataclasses.dataclass(frozen=True)
class Mixing:
  """What `mixup` and `cutmix` are told.

  Attributes:
    alpha: α of Beta(α, α), above 0; 1 makes the share uniform.
    probability: of mixing a row.
  """

  where: ClassVar[str]

  alpha: float = 1.0
  probability: float = 1.0

  def __post_init__(self) -> None:
    require(self.alpha > 0, f'{self.where}.alpha', self.alpha, 'above 0')
    require(0 <= self.probability <= 1, f'{self.where}.probability', self.probability, 'in [0, 1]')
