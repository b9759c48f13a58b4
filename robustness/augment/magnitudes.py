"""What a magnitude of 0..10 means: three implementations, which disagree.

'tensorflow_models' is the code that AutoAugment was released with for CIFAR-10 (tensorflow/models,
research/autoaugment), 'torchvision' has ten bins over each range, 'efficientnet' is TensorFlow's
code for ImageNet (tpu/models/official/efficientnet), which RandAugment was released with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from robustness.augment import operations
from robustness.core.errors import InputError
from robustness.core.settings import choice

HIGHEST = 10
STRONGEST = {'tensorflow_models': 10, 'torchvision': 9, 'efficientnet': 10}
"""The level of the full range: torchvision counts its ten bins from 0."""
FACTORS = ('Brightness', 'Contrast', 'Color', 'Sharpness')
UNUSED = ('AutoContrast', 'Equalize', 'Invert')


@dataclasses.dataclass(frozen=True)
class Magnitude:
  """A magnitude in the operation's unit, and what a coin makes of it.

  Attributes:
    value: in the unit of `operations.UNITS`.
    mirrored: the value in half of the cases, where the sign is random: −value, or 2 − value of a
      factor; equal to `value` otherwise.
  """

  value: float
  mirrored: float


def magnitude(
  implementation: str, name: str, level: float, height: int, width: int, strongest: int = 0
) -> Magnitude:
  """Returns an operation's magnitude in its own unit.

  Args:
    implementation: one of `STRONGEST`.
    name: of the operation.
    level: from 0 to that of the full range.
    height, width: of the images, in pixels: torchvision's translations are in proportion.
    strongest: the level of the full range; 0 takes `STRONGEST`, torchvision's RandAugment has 30.

  Raises:
    InputError: an unknown implementation or operation, a level outside the range, or an operation
      that the implementation lacks.
  """
  choice('magnitudes', implementation, STRONGEST)
  choice('operation', name, operations.NAMES)
  strongest = strongest or STRONGEST[implementation]
  if not 0 <= level <= strongest:
    raise InputError(f'the magnitude of {name} is {level:g}; {implementation} has 0..{strongest}.')
  if name in UNUSED:
    return Magnitude(0.0, 0.0)
  values = TABLES[implementation](lambda most: level * most / strongest, height, width)
  if name not in values:
    raise InputError(
      f'{name} is no operation of {implementation}, which has: {", ".join((*UNUSED, *values))}.'
    )
  value = float(values[name])
  if name in operations.WARPS:
    return Magnitude(value, -value)
  if name in FACTORS and implementation == 'torchvision':
    return Magnitude(value, 2 - value)
  return Magnitude(value, value)


def _tensorflow_models(of: Callable[[float], float], height: int, width: int) -> dict[str, float]:
  return {
    **dict.fromkeys(('ShearX', 'ShearY'), of(0.3)),
    **dict.fromkeys(('TranslateX', 'TranslateY'), int(of(10))),
    'Rotate': int(of(30)),
    'Posterize': 4 - int(of(4)),
    'Solarize': 256 - int(of(256)),
    **dict.fromkeys(FACTORS, 0.1 + of(1.8)),
    'Cutout': int(of(20)),
  }


def _torchvision(of: Callable[[float], float], height: int, width: int) -> dict[str, float]:
  return {
    **dict.fromkeys(('ShearX', 'ShearY'), of(0.3)),
    'TranslateX': int(of(150 / 331 * width)),
    'TranslateY': int(of(150 / 331 * height)),
    'Rotate': of(30),
    'Posterize': 8 - round(of(4)),
    'Solarize': round(255 - of(255), 6),
    **dict.fromkeys(FACTORS, 1 + of(0.9)),
  }


def _efficientnet(of: Callable[[float], float], height: int, width: int) -> dict[str, float]:
  return {
    **dict.fromkeys(('ShearX', 'ShearY'), of(0.3)),
    **dict.fromkeys(('TranslateX', 'TranslateY'), of(250)),
    'Rotate': of(30),
    'Posterize': int(of(4)),
    'Solarize': int(of(256)),
    'SolarizeAdd': int(of(110)),
    **dict.fromkeys(FACTORS, 0.1 + of(1.8)),
    'Cutout': 2 * int(of(100)),
  }


TABLES = {
  'tensorflow_models': _tensorflow_models,
  'torchvision': _torchvision,
  'efficientnet': _efficientnet,
}


def names_of(implementation: str) -> tuple[str, ...]:
  """Returns the operations that an implementation has."""
  values = TABLES[implementation](lambda most: most, 1, 1)
  return tuple(name for name in operations.NAMES if name in (*UNUSED, *values))
