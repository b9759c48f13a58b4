"""AutoAugment and RandAugment: operations that are drawn for every image.

What a magnitude means differs between three implementations: 'tensorflow_models' is the code that
AutoAugment was released with for CIFAR-10 (tensorflow/models, research/autoaugment), 'torchvision'
has ten bins over each range, 'efficientnet' is TensorFlow's code for ImageNet
(tpu/models/official/efficientnet), which RandAugment was released with.
"""

import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Callable, Iterable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import Augmentation, Example, operations
from robustness.core.errors import InputError, key_name, nearest
from robustness.core.registry import setting, word
from robustness.core.settings import choice, require

LISTS: dict[str, str] = tomllib.loads(
  pathlib.Path(__file__).with_name('sub_policies.toml').read_text()
)
"""Sub-policies, one a line."""
HIGHEST = 10
STRONGEST = {'tensorflow_models': 10, 'torchvision': 9, 'efficientnet': 10}
"""The level of the full range: torchvision counts its ten bins from 0."""
FACTORS = ('Brightness', 'Contrast', 'Color', 'Sharpness')
UNUSED = ('AutoContrast', 'Equalize', 'Invert')
FILL = {'tensorflow_models': operations.MEAN_COLOUR, 'torchvision': (0,), 'efficientnet': (128,)}
SQUARE = {'tensorflow_models': (125, 122, 113), 'torchvision': (0,), 'efficientnet': (128,)}
"""Levels of what warps vacate, and of what Cutout covers.

In tensorflow_models images are transparent there: black (grey under the square) for the operation
that follows, and the mean colour at the end.
"""
RAND_STRONGEST = {'torchvision': 30, 'efficientnet': 10}
"""The magnitude of the full range, by implementation; both go up to `RAND_HIGHEST`."""
RAND_HIGHEST = 30
WITHOUT = {'torchvision': ('Invert',), 'efficientnet': ()}
CONSTANTS, RAND_CONSTANTS = (250, 100), (100, 40)
"""Pixels of 'efficientnet' at the full range: of a translation, and half of Cutout's side."""


def magnitude(
  implementation: str, name: str, level: float, height: int, width: int, rand: bool = False
) -> tuple[float, float]:
  """Returns an operation's magnitude in the unit of `operations.UNITS`, for images of a size in
  pixels, and its value in half of the cases where the sign is random: −value, or 2 − value of a
  factor; else the same.

  Raises InputError for a level outside 0..`STRONGEST`, of `rand`, RandAugment, outside
  0..`RAND_HIGHEST`, or an operation that the implementation lacks.
  """
  choice('magnitudes', implementation, STRONGEST)
  choice('operation', name, operations.NAMES)
  strongest = (RAND_STRONGEST if rand else STRONGEST)[implementation]
  highest = RAND_HIGHEST if rand else strongest
  if not 0 <= level <= highest:
    raise InputError(f'the magnitude of {name} is {level:g}; {implementation} has 0..{highest}.')
  if name in UNUSED:
    return 0.0, 0.0
  constants = RAND_CONSTANTS if rand else CONSTANTS
  values = _values(implementation, lambda most: level * most / strongest, height, width, constants)
  if name not in values:
    raise InputError(
      f'{name} is no operation of {implementation}, which has: {", ".join((*UNUSED, *values))}.'
    )
  value = float(values[name])
  if name in operations.WARPS:
    return value, -value
  return value, 2 - value if name in FACTORS and implementation == 'torchvision' else value


def _values(
  implementation: str,
  of: Callable[[float], float],
  height: int,
  width: int,
  constants: tuple[int, int] = CONSTANTS,
) -> dict[str, float]:
  """Returns the operations of an implementation with their values at a level; `of(most)` is the
  level's share of the full range."""
  shears = dict.fromkeys(('ShearX', 'ShearY'), of(0.3))
  if implementation == 'tensorflow_models':
    return shears | {
      **dict.fromkeys(('TranslateX', 'TranslateY'), int(of(10))),
      'Rotate': int(of(30)),
      'Posterize': 4 - int(of(4)),
      'Solarize': 256 - int(of(256)),
      **dict.fromkeys(FACTORS, 0.1 + of(1.8)),
      'Cutout': int(of(20)),
    }
  if implementation == 'torchvision':
    return shears | {
      'TranslateX': int(of(150 / 331 * width)),
      'TranslateY': int(of(150 / 331 * height)),
      'Rotate': of(30),
      'Posterize': 8 - round(of(4)),
      'Solarize': round(255 - of(255), 6),
      **dict.fromkeys(FACTORS, 1 + of(0.9)),
    }
  return shears | {
    **dict.fromkeys(('TranslateX', 'TranslateY'), of(constants[0])),
    'Rotate': of(30),
    'Posterize': min(int(of(4)), 8),
    'Solarize': min(int(of(256)), 256),
    'SolarizeAdd': int(of(110)),
    **dict.fromkeys(FACTORS, 0.1 + of(1.8)),
    'Cutout': 2 * int(of(constants[1])),
  }


def names_of(implementation: str) -> tuple[str, ...]:
  """Returns the operations that an implementation has."""
  values = _values(implementation, lambda most: most, 1, 1)
  return tuple(name for name in operations.NAMES if name in (*UNUSED, *values))


@dataclasses.dataclass(frozen=True)
class Step:
  """An operation of a sub-policy, its probability in [0, 1], and its magnitude 0..10."""

  name: str
  probability: float
  level: int


SubPolicy = tuple[Step, ...]


def parsed(lines: Iterable[str], where: str) -> tuple[SubPolicy, ...]:
  """Reads sub-policies 'NAME PROBABILITY LEVEL, NAME PROBABILITY LEVEL'; `where` names them in
  messages.

  Raises:
    InputError: another form, an unknown operation, a probability outside [0, 1], or a level that is
      no whole number of 0..10.
  """
  policies: list[SubPolicy] = []
  for line in lines:
    steps = [part.split() for part in line.split(',')]
    if len(steps) != 2 or {len(words) for words in steps} != {3}:
      raise InputError(
        f'{key_name(where)} has {line!r}; a sub-policy is two operations, each with its '
        "probability and its magnitude of 0..10: 'Rotate .7 2, TranslateX .3 9'."
      )
    policies.append(tuple(_step(words, f'{key_name(where)} {line!r}') for words in steps))
  return tuple(policies)


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


@dataclasses.dataclass(frozen=True)
class AutoAugment(Augmentation):
  """Draws a sub-policy; each of its two operations is applied with its probability, in order.

  Signs of shears, translations and rotations are ±1 with probability ½, and so is the direction of
  torchvision's factors. The image is in 8-bit levels / 255 where an operation was applied.

  Attributes:
    policy: 'cifar10' and 'imagenet', the published 25 sub-policies; 'cifar10_reference_95', the 95
      of the code that was released for CIFAR-10, which Yin et al. (2019) name as theirs.
    without: operations whose sub-policies are left out. Yin et al. leave out
      ('Brightness', 'Contrast'): 78 of the 95 remain, 19 of the 25 of CIFAR-10, 23 of ImageNet's.
    magnitudes: what a magnitude means: 'tensorflow_models', 'torchvision' or 'efficientnet', see
      the head of this file; '' takes 'tensorflow_models' for its 95 and 'torchvision' for
      the published lists.
    sub_policies: sub-policies in place of a list, each 'Rotate .7 2, TranslateX .3 9': operation,
      probability, magnitude, twice.
    fill: levels 0..255 of what a warp vacates, one or one a channel; () is the implementation's:
      the mean colour of CIFAR-10, black, grey.

  Reference:
    Cubuk et al. (2019), AutoAugment: Learning Augmentation Policies from Data, section 3.
  """

  sequential: ClassVar[bool] = True
  policy: str = word('cifar10', LISTS)
  without: tuple[str, ...] = ()
  magnitudes: str = word('', ('', *STRONGEST))
  sub_policies: tuple[str, ...] = ()
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    super().__post_init__()
    operations.check_colour(self.fill, self.key('fill'))
    steps = [step for policy in self.chosen for step in policy]
    for step in steps:
      magnitude(self.implementation, step.name, step.level, 32, 32)
    some = any(step.probability > 0 for step in steps)
    self.require(some, 'sub_policies', 'operations of which one has a probability above 0')

  @property
  def chosen(self) -> tuple[SubPolicy, ...]:
    """The sub-policies that are drawn from."""
    lines = self.sub_policies or LISTS[self.policy].strip().splitlines()
    policies = parsed(lines, self.key('sub_policies'))
    self.choose('without', operations.NAMES)
    left_out = set(self.without)
    rest = tuple(p for p in policies if not {step.name for step in p} & left_out)
    self.require(bool(rest), 'without', 'fewer operations: this leaves no sub-policy')
    return rest

  @property
  def implementation(self) -> str:
    """Whose magnitudes, fill and square."""
    usual = 'tensorflow_models' if self.policy == 'cifar10_reference_95' else 'torchvision'
    return self.magnitudes or usual

  @property
  def vacated(self) -> tuple[int, ...]:
    """Levels of what a warp vacates."""
    return self.fill or FILL[self.implementation]

  @property
  def resembles(self) -> tuple[str, ...]:
    return operations.resembled(step.name for policy in self.chosen for step in policy)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image = example['image']
    height, width = image.shape[:2]
    possible, table = _compiled(self, height, width)
    shares = jax.random.uniform(key, (9,))  # one call: it costs as much as an operation
    chosen, chance, sign, place = shares[0], shares[1:3], shares[3:5], shares[5:].reshape(2, 2)
    policy = operations.below(chosen, len(table['name']))
    name, probability, value, mirrored = (
      jnp.asarray(table[field])[policy] for field in ('name', 'probability', 'value', 'mirrored')
    )
    signed = jnp.where(sign < 0.5, value, mirrored)
    places = operations.below(place, jnp.array([[height, width]]))
    drawn = operations.Drawn(jnp.where(chance < probability, name, -1), signed, places)
    return {**example, 'image': possible.in_sequence(image, drawn, self.vacated)}


@functools.lru_cache
def _compiled(
  own: AutoAugment, height: int, width: int
) -> tuple[operations.Operations, dict[str, np.ndarray]]:
  """Returns the operations that can occur, and arrays [sub-policies, 2] of what they are."""
  steps = [step for pair in own.chosen for step in pair]
  names = tuple(sorted({step.name for step in steps if step.probability > 0}))
  values = [magnitude(own.implementation, s.name, s.level, height, width) for s in steps]
  table: dict[str, list[float]] = {
    'name': [names.index(s.name) if s.name in names else -1 for s in steps],
    'probability': [s.probability for s in steps],
    'value': [value for value, _ in values],
    'mirrored': [mirrored for _, mirrored in values],
  }
  transparent = own.implementation == 'tensorflow_models'
  vacated = (0,) if transparent else own.vacated
  possible = operations.Operations(
    names, 'nearest', vacated, SQUARE[own.implementation], transparent
  )
  return possible, {
    field: np.array(x, np.int32 if field == 'name' else np.float32).reshape(-1, 2)
    for field, x in table.items()
  }


@dataclasses.dataclass(frozen=True)
class RandAugment(Augmentation):
  """Applies N operations, drawn uniformly with replacement, at magnitude M.

  The image is in 8-bit levels / 255 where an operation was applied.

  Attributes:
    operations: N ≥ 1, how many follow each other.
    magnitude: M, from 0 to 30, the full range of 'torchvision'; that of 'efficientnet' is 10, and
      more goes beyond it.
    magnitudes: what a magnitude means, and which operations there are. 'torchvision': 13 and the
      identity. 'efficientnet': 16; Solarize grows weaker with the magnitude there. What is drawn is
      applied for certain: the code of 'efficientnet' draws a probability and does not use it. Its
      translations and squares are of fixed numbers of pixels, for images of 224 and more: at the
      defaults a third of images of 32 pixels become one colour.
    without: operations that are left out.
    fill: levels 0..255 of what a warp vacates, one or one a channel; () is the implementation's,
      black or grey.

  Reference:
    Cubuk et al. (2020), RandAugment: Practical Automated Data Augmentation with a Reduced Search
    Space, section 3.
  """

  name: ClassVar[str] = 'rand_augment'
  sequential: ClassVar[bool] = True
  operations: int = setting(2, 'at least 1', lambda x: x >= 1)
  magnitude: int = 9
  magnitudes: str = word('torchvision', RAND_STRONGEST)
  without: tuple[str, ...] = ()
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(0 <= self.magnitude <= RAND_HIGHEST, 'magnitude', f'in 0..{RAND_HIGHEST}')
    operations.check_colour(self.fill, self.key('fill'))
    self.choose('without', names_of(self.magnitudes))
    self.require(bool(self.names), 'without', 'fewer than all operations')

  @property
  def names(self) -> tuple[str, ...]:
    """The operations that are drawn from, beside torchvision's identity."""
    left_out = {*self.without, *WITHOUT[self.magnitudes]}
    return tuple(name for name in names_of(self.magnitudes) if name not in left_out)

  @property
  def resembles(self) -> tuple[str, ...]:
    return operations.resembled(self.names)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image, names, count = example['image'], self.names, self.operations
    height, width = image.shape[:2]
    fill = self.fill or FILL[self.magnitudes]
    possible = operations.Operations(names, 'nearest', fill, fill)
    chosen = self.magnitude, height, width, True
    values = jnp.array([magnitude(self.magnitudes, name, *chosen) for name in names], jnp.float32)
    shares = jax.random.uniform(key, (4, count))  # one call: it costs as much as an operation
    identity = int(self.magnitudes == 'torchvision')
    name = operations.below(shares[0], len(names) + identity) - identity
    sign = operations.below(shares[1], 2)
    places = operations.below(shares[2:].T, jnp.array([[height, width]]))
    drawn = operations.Drawn(name, values[name, sign], places)
    return {**example, 'image': possible.in_sequence(image, drawn)}
