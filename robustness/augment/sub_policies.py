"""The lists of sub-policies of AutoAugment that are in circulation, and how one is written.

A sub-policy is two operations that follow each other, each with the probability of being applied
and a magnitude from 0 to 10: 'Rotate .7 2, TranslateX .3 9'. What a magnitude means differs between
implementations, see `magnitudes`. AutoContrast, Equalize and Invert have none: it is not used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from robustness.augment import operations
from robustness.augment.magnitudes import HIGHEST
from robustness.core.errors import InputError, nearest
from robustness.core.settings import choice, require

CIFAR10 = """
Invert .1 7, Contrast .2 6
Rotate .7 2, TranslateX .3 9
Sharpness .8 1, Sharpness .9 3
ShearY .5 8, TranslateY .7 9
AutoContrast .5 8, Equalize .9 2
ShearY .2 7, Posterize .3 7
Color .4 3, Brightness .6 7
Sharpness .3 9, Brightness .7 9
Equalize .6 5, Equalize .5 1
Contrast .6 7, Sharpness .6 5
Color .7 7, TranslateX .5 8
Equalize .3 7, AutoContrast .4 8
TranslateY .4 3, Sharpness .2 6
Brightness .9 6, Color .2 8
Solarize .5 2, Invert 0 3
Equalize .2 0, AutoContrast .6 0
Equalize .2 8, Equalize .6 4
Color .9 9, Equalize .6 6
AutoContrast .8 4, Solarize .2 8
Brightness .1 3, Color .7 0
Solarize .4 5, AutoContrast .9 3
TranslateY .9 9, TranslateY .7 9
AutoContrast .9 2, Solarize .8 3
Equalize .8 8, Invert .1 3
TranslateY .7 9, AutoContrast .9 1
"""
"""The published 25 of CIFAR-10, as in torchvision (Cubuk et al. 2019, appendix)."""

IMAGENET = """
Posterize .4 8, Rotate .6 9
Solarize .6 5, AutoContrast .6 5
Equalize .8 8, Equalize .6 3
Posterize .6 7, Posterize .6 6
Equalize .4 7, Solarize .2 4
Equalize .4 4, Rotate .8 8
Solarize .6 3, Equalize .6 7
Posterize .8 5, Equalize 1.0 2
Rotate .2 3, Solarize .6 8
Equalize .6 8, Posterize .4 6
Rotate .8 8, Color .4 0
Rotate .4 9, Equalize .6 2
Equalize 0 7, Equalize .8 8
Invert .6 4, Equalize 1.0 8
Color .6 4, Contrast 1.0 8
Rotate .8 8, Color 1.0 2
Color .8 8, Solarize .8 7
Sharpness .4 7, Invert .6 8
ShearX .6 5, Equalize 1.0 9
Color .4 0, Equalize .6 3
Equalize .4 7, Solarize .2 4
Solarize .6 5, AutoContrast .6 5
Invert .6 4, Equalize 1.0 8
Color .6 4, Contrast 1.0 8
Equalize .8 8, Equalize .6 3
"""
"""The published 25 of ImageNet, as in torchvision."""

CIFAR10_REFERENCE_95 = """
Invert .1 7, Contrast .2 6
Rotate .7 2, TranslateX .3 9
Sharpness .8 1, Sharpness .9 3
ShearY .5 8, TranslateY .7 9
AutoContrast .5 8, Equalize .9 2
Solarize .4 5, AutoContrast .9 3
TranslateY .9 9, TranslateY .7 9
AutoContrast .9 2, Solarize .8 3
Equalize .8 8, Invert .1 3
TranslateY .7 9, AutoContrast .9 1
Solarize .4 5, AutoContrast 0 2
TranslateY .7 9, TranslateY .7 9
AutoContrast .9 0, Solarize .4 3
Equalize .7 5, Invert .1 3
TranslateY .7 9, TranslateY .7 9
Solarize .4 5, AutoContrast .9 1
TranslateY .8 9, TranslateY .9 9
AutoContrast .8 0, TranslateY .7 9
TranslateY .2 7, Color .9 6
Equalize .7 6, Color .4 9
ShearY .2 7, Posterize .3 7
Color .4 3, Brightness .6 7
Sharpness .3 9, Brightness .7 9
Equalize .6 5, Equalize .5 1
Contrast .6 7, Sharpness .6 5
Brightness .3 7, AutoContrast .5 8
AutoContrast .9 4, AutoContrast .5 6
Solarize .3 5, Equalize .6 5
TranslateY .2 4, Sharpness .3 3
Brightness 0 8, Color .8 8
Solarize .2 6, Color .8 6
Solarize .2 6, AutoContrast .8 1
Solarize .4 1, Equalize .6 5
Brightness 0 0, Solarize .5 2
AutoContrast .9 5, Brightness .5 3
Contrast .7 5, Brightness 0 2
Solarize .2 8, Solarize .1 5
Contrast .5 1, TranslateY .2 9
AutoContrast .6 5, TranslateY 0 9
AutoContrast .9 4, Equalize .8 4
Brightness 0 7, Equalize .4 7
Solarize .2 5, Equalize .7 5
Equalize .6 8, Color .6 2
Color .3 7, Color .2 4
AutoContrast .5 2, Solarize .7 2
AutoContrast .2 0, Equalize .1 0
ShearY .6 5, Equalize .6 5
Brightness .9 3, AutoContrast .4 1
Equalize .8 8, Equalize .7 7
Equalize .7 7, Solarize .5 0
Equalize .8 4, TranslateY .8 9
TranslateY .8 9, TranslateY .6 9
TranslateY .9 0, TranslateY .5 9
AutoContrast .5 3, Solarize .3 4
Solarize .5 3, Equalize .4 4
Color .7 7, TranslateX .5 8
Equalize .3 7, AutoContrast .4 8
TranslateY .4 3, Sharpness .2 6
Brightness .9 6, Color .2 8
Solarize .5 2, Invert 0 3
AutoContrast .1 5, Brightness 0 0
Cutout .2 4, Equalize .1 1
Equalize .7 7, AutoContrast .6 4
Color .1 8, ShearY .2 3
ShearY .4 2, Rotate .7 0
ShearY .1 3, AutoContrast .9 5
TranslateY .3 6, Cutout .3 3
Equalize .5 0, Solarize .6 6
AutoContrast .3 5, Rotate .2 7
Equalize .8 2, Invert .4 0
Equalize .9 5, Color .7 0
Equalize .1 1, ShearY .1 3
AutoContrast .7 3, Equalize .7 0
Brightness .5 1, Contrast .1 7
Contrast .1 4, Solarize .6 5
Solarize .2 3, ShearX 0 0
TranslateX .3 0, TranslateX .6 0
Equalize .5 9, TranslateY .6 7
ShearX .1 0, Sharpness .5 1
Equalize .8 6, Invert .3 6
AutoContrast .3 9, Cutout .5 3
ShearX .4 4, AutoContrast .9 2
ShearX 0 3, Posterize 0 3
Solarize .4 3, Color .2 4
Equalize .1 4, Equalize .7 6
Equalize .3 8, AutoContrast .4 3
Solarize .6 4, AutoContrast .7 6
AutoContrast .2 9, Brightness .4 8
Equalize .1 0, Equalize 0 6
Equalize .8 4, Equalize 0 4
Equalize .5 5, AutoContrast .1 2
Solarize .5 5, AutoContrast .9 5
AutoContrast .6 1, AutoContrast .7 8
Equalize .2 0, AutoContrast .1 2
Equalize .6 9, Equalize .4 4
"""
"""The 95 of the released code for CIFAR-10 (tensorflow/models, research/autoaugment)."""

LISTS = {'cifar10': CIFAR10, 'cifar10_reference_95': CIFAR10_REFERENCE_95, 'imagenet': IMAGENET}


@dataclasses.dataclass(frozen=True)
class Step:
  """One operation of a sub-policy.

  Attributes:
    name: of the operation.
    probability: of applying it, in [0, 1].
    level: the magnitude, 0..10.
  """

  name: str
  probability: float
  level: int


SubPolicy = tuple[Step, Step]


def remaining(
  policies: Iterable[SubPolicy], without: Collection[str], where: str
) -> tuple[SubPolicy, ...]:
  """Returns the sub-policies that hold none of some operations, be it with probability 0.

  Raises:
    InputError: an unknown operation (`where` names the key), or none remains.
  """
  for name in without:
    choice(where, name, operations.NAMES)
  rest = tuple(p for p in policies if not {step.name for step in p} & set(without))
  if not rest:
    raise InputError(f'{where} is {tuple(without)!r}, which leaves no sub-policy.')
  return rest


def parsed(lines: Iterable[str], where: str) -> tuple[SubPolicy, ...]:
  """Reads sub-policies.

  Args:
    lines: each 'NAME PROBABILITY LEVEL, NAME PROBABILITY LEVEL'.
    where: what they are called in messages.

  Raises:
    InputError: another form, an unknown operation, a probability outside [0, 1], or a level that is
      no whole number of 0..10.
  """
  return tuple(_sub_policy(line, where) for line in lines)


def _sub_policy(line: str, where: str) -> SubPolicy:
  steps = [part.split() for part in line.split(',')]
  if len(steps) != 2 or {len(words) for words in steps} != {3}:
    raise InputError(
      f'{where} has {line!r}; a sub-policy is two operations, each with its probability and its '
      "magnitude of 0..10: 'Rotate .7 2, TranslateX .3 9'."
    )
  first, second = (_step(words, f'{where} {line!r}') for words in steps)
  return first, second


def _step(words: list[str], where: str) -> Step:
  name, probability, level = words
  if name not in operations.NAMES:
    raise InputError(f'{where} names {name!r}; {nearest(name, operations.NAMES)}.')
  try:
    step = Step(name, float(probability), int(level))
  except ValueError as error:
    raise InputError(
      f'{where}: {name} has the probability {probability!r} and the magnitude {level!r}; they must '
      f'be a number in [0, 1] and a whole number of 0..{HIGHEST}.'
    ) from error
  require(
    0 <= step.probability <= 1, f'{where}: the probability of {name}', step.probability, 'in [0, 1]'
  )
  require(
    0 <= step.level <= HIGHEST, f'{where}: the magnitude of {name}', step.level, f'in 0..{HIGHEST}'
  )
  return step
