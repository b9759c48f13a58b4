"""Named variants of corruptions, where public generators disagree, as plain settings."""

from __future__ import annotations

import dataclasses
from typing import Any

from robustness.core.settings import choice

VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
  'motion_blur': ('angle', ('random', 'fixed')),
  'glass_blur': ('exchange', ('copy', 'swap')),
  'elastic_transform': ('variant', ('released', 'imagecorruptions')),
  'fog': ('cloud', ('released', 'tfds')),
}
"""{corruption: (its option, the option's values, the released generator's first)}."""


@dataclasses.dataclass(frozen=True)
class CorruptionOptions:
  """Which variant of a corruption is meant; the defaults are the released generators'.

  Attributes:
    motion_blur: 'random' angles, or 'fixed' at -45° as TFDS has it.
    glass_blur: 'copy' one pixel over the other, or a true 'swap'.
    elastic_transform: 'released', or 'imagecorruptions': no affine map and other constants.
    fog: 'released' cloud maps, or of side 512 as 'tfds' has them: less contrast at 224 pixels.
  """

  motion_blur: str = 'random'
  glass_blur: str = 'copy'
  elastic_transform: str = 'released'
  fog: str = 'released'

  def __post_init__(self) -> None:
    for name, (_, values) in VARIANTS.items():
      choice(f'config.study.options.{name}', getattr(self, name), values)

  def chosen(self) -> dict[str, dict[str, Any]]:
    """Returns {corruption: {option: value}} of those that are not the default."""
    return {
      name: {option: getattr(self, name)}
      for name, (option, values) in VARIANTS.items()
      if getattr(self, name) != values[0]
    }
