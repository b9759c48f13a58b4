"""Settings that studies of corruptions share."""

from __future__ import annotations

import dataclasses
from typing import Any

from robustness.core.settings import choice, require
from robustness.corruptions.catalog import CORRUPTIONS
from robustness.corruptions.names import KNOWN, SETS, SEVERITIES, STREAM, spelt_out
from robustness.corruptions.pixels import QUANTIZE
from robustness.corruptions.textures import describe
from robustness.evaluation.study import Study

EXACT, AS_RELEASED = 'exact', 'as_released'


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
    for name, value in dataclasses.asdict(self).items():
      (values,) = CORRUPTIONS[name].options.values()
      choice(f'config.study.options.{name}', value, values)

  def chosen(self) -> dict[str, dict[str, str]]:
    """Returns {corruption: {option: value}} of those that are not the default."""
    default = dataclasses.asdict(CorruptionOptions())
    return {
      name: dict.fromkeys(CORRUPTIONS[name].options, value)
      for name, value in dataclasses.asdict(self).items()
      if value != default[name]
    }


@dataclasses.dataclass(frozen=True)
class CorruptionSettings(Study):
  """Which corruptions are shown, and how they are made.

  Attributes:
    corruptions: names, or one name of a set: 'official' (15), 'extra' (4), 'all' (19),
      'fourier_cifar' (the 15 of Yin et al.'s table 3), 'fourier_imagenet' (the 12 of table 4),
      'c_bar_cifar', 'c_bar_imagenet' (the ten of either set of Mintun et al.).
    severities: of 1..5.
    protocol: 'exact' corrupts the floats of the rows at their own size; 'as_released' makes images
      as the released sets were made (`robustness.corruptions.released`): 8-bit images of 32, 64 or
      224 pixels, truncated, stored as JPEG of quality 85 from 64 pixels on, then resized to the
      network.
    quantize: '' keeps floats; 'floor' gives 8-bit images as the released sets were made, 'round' as
      TFDS makes them.
    constants: the table of constants: 32, 64, 224 or 299; 0 takes the nearest to the image size.
    photographs: '' draws procedural frost; a folder with the released photographs of frost, or the
      installed package 'imagecorruptions', gives the released frost.
    bandwidth: of the high pass that tells high frequencies apart, on the shorter side; 0 takes the
      paper's 27 of 32 pixels in proportion.
    options: variants of single corruptions.
  """

  stream = STREAM

  corruptions: tuple[str, ...] = ('official',)
  severities: tuple[int, ...] = SEVERITIES
  protocol: str = EXACT
  quantize: str = ''
  constants: int = 0
  photographs: str = ''
  bandwidth: int = 0
  options: CorruptionOptions = CorruptionOptions()

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('corruptions', (*SETS, *KNOWN))
    self.require(bool(self.corruptions), 'corruptions', 'not empty')
    severities = set(self.severities)
    known = bool(severities) and severities <= set(SEVERITIES)
    distinct = len(severities) == len(self.severities)
    self.require(known and distinct, 'severities', 'distinct numbers of 1..5')
    self.choose('quantize', ('', *QUANTIZE))
    self.choose('protocol', (EXACT, AS_RELEASED))
    if self.protocol == AS_RELEASED:
      truncates = "'' or 'floor' with protocol='as_released', which truncates"
      self.require(self.quantize in ('', 'floor'), 'quantize', truncates)
      chosen = self.options.chosen()
      fix = "left alone with protocol='as_released'"
      require(not chosen, 'config.study.options', ', '.join(chosen), fix)

  @property
  def rounding(self) -> str:
    """How corrupted values become 8-bit ones: 'floor', 'round', or '' where they stay floats."""
    return 'floor' if self.protocol == AS_RELEASED else self.quantize

  @property
  def names(self) -> tuple[str, ...]:
    """The corruptions, sets spelt out, each once, in the order of `KNOWN`."""
    return spelt_out(self.corruptions)

  @property
  def severities_between(self) -> tuple[float, ...]:
    """Severities between the five that are shown too, ascending."""
    return ()

  @property
  def levels(self) -> tuple[float, ...]:
    """All severities that are shown, ascending where some lie between the five."""
    further = self.severities_between
    return tuple(sorted((*self.severities, *further))) if further else self.severities

  @property
  def facts(self) -> dict[str, Any]:
    """Plain values that results say beside the settings: what frost was drawn from."""
    return {'frost': describe(self.photographs)} if 'frost' in self.names else {}
