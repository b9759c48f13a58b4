"""AutoAugment and RandAugment: operations drawn at random for every image.

Three implementations define magnitudes differently: 'tensorflow_models' is AutoAugment's release
for CIFAR-10 (tensorflow/models, research/autoaugment); 'torchvision' has ten bins over each range;
'efficientnet' is TensorFlow's code for ImageNet (tpu/models/official/efficientnet) and
RandAugment's release.
"""

import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import Augmentation, Example, operations
from robustness.core.errors import InputError, key_name, nearest
from robustness.core.registry import setting, word
from robustness.core.settings import require

_FILE = pathlib.Path(__file__).with_name('sub_policies.toml')
LISTS: dict[str, str] = tomllib.loads(_FILE.read_text())
"""{list: its sub-policies, one per line}."""
MAX_LEVEL = 10
FULL_RANGE = {'tensorflow_models': 10, 'torchvision': 9, 'efficientnet': 10}
"""The level of an operation's full range; torchvision numbers its ten bins from 0."""
FACTORS = ('Brightness', 'Contrast', 'Color', 'Sharpness')
WITHOUT_MAGNITUDE = ('AutoContrast', 'Equalize', 'Invert')
FILL = {'tensorflow_models': operations.MEAN_COLOUR, 'torchvision': (0,), 'efficientnet': (128,)}
SQUARE = {'tensorflow_models': (125, 122, 113), 'torchvision': (0,), 'efficientnet': (128,)}
"""Levels of pixels that warps vacate and of pixels that Cutout covers.

In tensorflow_models such pixels are transparent: black (grey under the square) for the next
operation, and the mean colour at the end.
"""
RAND_FULL_RANGE = {'torchvision': 30, 'efficientnet': 10}
"""RandAugment's magnitude of the full range; magnitudes up to `RAND_MAX_LEVEL` are allowed."""
RAND_MAX_LEVEL = 30
WITHOUT = {'torchvision': ('Invert',), 'efficientnet': ()}
"""Operations of AutoAugment that RandAugment lacks."""
CONSTANTS, RAND_CONSTANTS = (250, 100), (100, 40)
"""Pixels of a translation and of half of Cutout's side at the full range of 'efficientnet'."""


def magnitude(
  implementation: str, name: str, level: float, height: int, width: int, rand: bool = False
) -> tuple[float, float]:
  """Returns the two magnitudes that an operation can have at a level.

  AutoAugment and RandAugment use each with probability ½. For shears, translations and rotations
  the second is the negative of the first. For colour operations in 'torchvision' the two are
  factors 1 + a and 1 − a, where a grows with the level. For all other operations both are equal.
  `operations.UNITS` lists the units, for instance degrees for 'Rotate'.

  Args:
    implementation: the code that defines the magnitudes, a key of `FULL_RANGE`.
    name: name of the operation.
    level: strength, from 0 to `FULL_RANGE[implementation]`, or to `RAND_MAX_LEVEL` for RandAugment.
    height: height of images in pixels.
    width: width of images in pixels.
    rand: whether the level is meant for RandAugment; False is AutoAugment.

  Raises:
    InputError: The implementation has no such operation or level.
  """
  full_range = (RAND_FULL_RANGE if rand else FULL_RANGE)[implementation]
  highest = RAND_MAX_LEVEL if rand else full_range
  if not 0 <= level <= highest:
    raise InputError(f'the magnitude of {name} is {level:g}; {implementation} has 0..{highest}.')
  if name in WITHOUT_MAGNITUDE:
    return 0.0, 0.0
  # the function scales a range from 0 to `end` to the level
  values = _values(implementation, lambda end: level * end / full_range, height, width, rand)
  if name not in values:
    valid = ', '.join((*WITHOUT_MAGNITUDE, *values))
    raise InputError(f'{name} is no operation of {implementation}, which has: {valid}.')
  value = float(values[name])
  if name in operations.WARPS:
    return value, -value
  if name in FACTORS and implementation == 'torchvision':
    return value, 2 - value  # 1 + a and 1 − a
  return value, value


def _values(
  implementation: str, scaled: Callable[[float], float], height: int, width: int, rand: bool = False
) -> dict[str, float]:
  """Returns the magnitudes of all operations at one level, as {operation: magnitude}.

  Args:
    implementation: the code that defines the magnitudes, a key of `FULL_RANGE`.
    scaled: function that scales a full range to the level. For instance, at level 3 of 10,
      scaled(30) is 9.
    height: height of images in pixels.
    width: width of images in pixels.
    rand: whether the level is meant for RandAugment; False is AutoAugment.
  """
  shears = dict.fromkeys(('ShearX', 'ShearY'), scaled(0.3))
  if implementation == 'tensorflow_models':
    return shears | {
      **dict.fromkeys(('TranslateX', 'TranslateY'), int(scaled(10))),
      'Rotate': int(scaled(30)),
      'Posterize': 4 - int(scaled(4)),
      'Solarize': 256 - int(scaled(256)),
      **dict.fromkeys(FACTORS, 0.1 + scaled(1.8)),
      'Cutout': int(scaled(20)),
    }
  if implementation == 'torchvision':
    return shears | {
      # the paper's 150 pixels of images with a side of 331
      'TranslateX': int(scaled(150 / 331 * width)),
      'TranslateY': int(scaled(150 / 331 * height)),
      'Rotate': scaled(30),
      'Posterize': 8 - round(scaled(4)),
      'Solarize': round(255 - scaled(255), 6),
      **dict.fromkeys(FACTORS, 1 + scaled(0.9)),
    }
  translation, half_side = RAND_CONSTANTS if rand else CONSTANTS
  return shears | {
    **dict.fromkeys(('TranslateX', 'TranslateY'), scaled(translation)),
    'Rotate': scaled(30),
    'Posterize': min(int(scaled(4)), 8),
    'Solarize': min(int(scaled(256)), 256),
    'SolarizeAdd': int(scaled(110)),
    **dict.fromkeys(FACTORS, 0.1 + scaled(1.8)),
    'Cutout': 2 * int(scaled(half_side)),
  }


def names_of(implementation: str) -> tuple[str, ...]:
  """Returns the names of an implementation's operations, in the order of `operations.NAMES`."""
  # at the full range; the magnitudes are not used
  values = _values(implementation, lambda end: end, height=1, width=1)
  return tuple(name for name in operations.NAMES if name in (*WITHOUT_MAGNITUDE, *values))


@dataclasses.dataclass(frozen=True)
class Step:
  """One of the two operations of a sub-policy of AutoAugment.

  Attributes:
    name: name of the operation, such as 'Rotate'.
    probability: probability of applying it, in [0, 1].
    level: strength of the operation, in 0..10.
  """

  name: str
  probability: float
  level: int


SubPolicy = tuple[Step, ...]


def parsed(lines: Iterable[str], key: str) -> tuple[SubPolicy, ...]:
  """Parses sub-policies of AutoAugment, such as 'Rotate .7 2, TranslateX .3 9'.

  A sub-policy is two operations, each as 'NAME PROBABILITY LEVEL'.

  Args:
    lines: one sub-policy per line.
    key: name of the setting with the lines, for messages.

  Raises:
    InputError: A line has another form, an operation is unknown, a probability is outside [0, 1],
      or a level is not an integer in 0..10.
  """
  policies: list[SubPolicy] = []
  for line in lines:
    steps = [part.split() for part in line.split(',')]
    if len(steps) != 2 or any(len(words) != 3 for words in steps):
      raise InputError(
        f'{key_name(key)} has {line!r}; a sub-policy is two operations, each with its '
        "probability and its magnitude of 0..10: 'Rotate .7 2, TranslateX .3 9'."
      )
    policies.append(tuple(_step(words, f'{key_name(key)} {line!r}') for words in steps))
  return tuple(policies)


def _step(words: list[str], source: str) -> Step:
  """Parses an operation of a sub-policy from its words, such as ['Rotate', '.7', '2'].

  Args:
    words: name, probability and level.
    source: the setting and the line, for messages.
  """
  name, probability, level = words
  if name not in operations.NAMES:
    raise InputError(f'{source} names {name!r}; {nearest(name, operations.NAMES)}.')
  try:
    step = Step(name, float(probability), int(level))
  except ValueError as error:
    raise InputError(
      f'{source}: {name} has the probability {probability!r} and the magnitude {level!r}; they '
      f'must be a number in [0, 1] and a whole number of 0..{MAX_LEVEL}.'
    ) from error
  is_probability = 0 <= step.probability <= 1
  is_level = 0 <= step.level <= MAX_LEVEL
  require(is_probability, f'{source}: the probability of {name}', step.probability, 'in [0, 1]')
  require(is_level, f'{source}: the magnitude of {name}', step.level, f'in 0..{MAX_LEVEL}')
  return step


@dataclasses.dataclass(frozen=True)
class AutoAugment(Augmentation):
  """Applies a random sub-policy of AutoAugment: two operations, each with a probability.

  Shears, translations and rotations have a random sign. With the magnitudes of 'torchvision',
  Brightness, Contrast, Color and Sharpness increase or decrease at random. After each operation,
  image values are multiples of 1/255.

  Attributes:
    policy: the list of sub-policies. 'cifar10' and 'imagenet' are the published 25 sub-policies.
      'cifar10_reference_95' are the 95 of the released code for CIFAR-10, which Yin et al. (2019)
      use.
    without: names of operations. Sub-policies with one of these operations are left out. Yin et al.
      leave out ('Brightness', 'Contrast'), after which 78 of the 95 remain, 19 of the 25 for
      CIFAR-10, and 23 of the 25 for ImageNet.
    magnitudes: the code that defines magnitudes: 'tensorflow_models', 'torchvision' or
      'efficientnet' (see the module). '' is 'tensorflow_models' for the policy
      'cifar10_reference_95', and 'torchvision' for the others.
    sub_policies: your own sub-policies instead of `policy`. Each has two operations with
      probability and level, such as 'Rotate .7 2, TranslateX .3 9'.
    fill: colour of pixels that a shear, translation or rotation leaves empty: one value in 0..255,
      or one per channel. () is the colour of the code in `magnitudes`: the mean colour of CIFAR-10,
      black, or grey.

  Reference:
    Cubuk et al. (2019), AutoAugment: Learning Augmentation Policies from Data, section 3.
  """

  sequential = True
  policy: str = word('cifar10', LISTS)
  without: tuple[str, ...] = ()
  magnitudes: str = word('', ('', *FULL_RANGE))
  sub_policies: tuple[str, ...] = ()
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    """Raises InputError for an invalid colour, operation or magnitude."""
    super().__post_init__()
    operations.check_colour(self.fill, self.key('fill'))
    steps = [step for policy in self.policies for step in policy]
    for step in steps:  # raises if the implementation lacks it, whatever the size of images
      magnitude(self.implementation, step.name, step.level, height=32, width=32)
    is_possible = any(step.probability > 0 for step in steps)
    self.require(is_possible, 'sub_policies', 'operations of which one has a probability above 0')

  @property
  def policies(self) -> tuple[SubPolicy, ...]:
    """The sub-policies; a random one is applied to each image.

    Raises InputError if a setting is invalid, or if `without` leaves out all of them.
    """
    lines = self.sub_policies or LISTS[self.policy].strip().splitlines()
    self.choose('without', operations.NAMES)  # refuses names of no operation
    all_policies = parsed(lines, self.key('sub_policies'))
    policies = tuple(p for p in all_policies if not any(s.name in self.without for s in p))
    self.require(bool(policies), 'without', 'fewer operations: this leaves no sub-policy')
    return policies

  @property
  def implementation(self) -> str:
    """The code that defines magnitudes, fill colours and Cutout's square, such as 'torchvision'."""
    is_released = self.policy == 'cifar10_reference_95'
    return self.magnitudes or ('tensorflow_models' if is_released else 'torchvision')

  @property
  def vacated(self) -> tuple[int, ...]:
    """Colour of pixels that a shear, translation or rotation leaves empty, in 0..255."""
    return self.fill or FILL[self.implementation]

  @property
  def resembles(self) -> tuple[str, ...]:
    """Names of the corruptions that the operations look like, such as 'contrast'."""
    return operations.resembled_transforms(step.name for policy in self.policies for step in policy)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example after a random sub-policy is applied to the image [H, W, C]."""
    image = example['image']
    height, width = image.shape[:2]
    apply_operation, tables = _operations_and_tables(self, height, width)
    # Uniform on [0, 1); drawn by a single call, which costs as much as an operation. One number for
    # the sub-policy, then for each of its two operations: whether it is applied, which magnitude it
    # has, and a position [row, column].
    u = jax.random.uniform(key, (9,))
    u_policy, u_applied, u_magnitude, u_centre = u[0], u[1:3], u[3:5], u[5:].reshape(2, 2)
    num_policies = len(tables[0])
    policy = operations.uniform_integer(u_policy, num_policies)
    # Two entries each, for the two operations of the sub-policy. The magnitude of an operation is
    # `value` or `mirrored`, such as a rotation by the same angle the other way.
    index, probability, value, mirrored = (jnp.asarray(table)[policy] for table in tables)
    drawn = operations.Drawn(
      index=jnp.where(u_applied < probability, index, -1),
      magnitude=jnp.where(u_magnitude < 0.5, value, mirrored),
      # of the square that Cutout covers
      centre=operations.uniform_integer(u_centre, jnp.array([[height, width]])),
    )
    # `fill` has an effect only in 'tensorflow_models', where pixels are transparent until the end
    return {**example, 'image': apply_operation.in_sequence(image, drawn, fill=self.vacated)}


@functools.lru_cache
def _operations_and_tables(
  augmentation: AutoAugment, height: int, width: int
) -> tuple[operations.Operations, tuple[np.ndarray, ...]]:
  """Returns the operations of all sub-policies, and tables to look up a drawn sub-policy.

  Args:
    augmentation: AutoAugment with its settings.
    height: height of images in pixels.
    width: width of images in pixels.

  Returns:
    (operations, tables). There are four tables, [sub-policies, 2], with an entry for each operation
    of a sub-policy: index of the operation (−1 if its probability is 0), its probability, and the
    two magnitudes that it can have.
  """
  implementation = augmentation.implementation
  # both operations of the first sub-policy, then both of the second, and so on
  steps = [step for policy in augmentation.policies for step in policy]
  names = tuple(sorted({step.name for step in steps if step.probability > 0}))
  indices = [names.index(step.name) if step.name in names else -1 for step in steps]
  probabilities = [step.probability for step in steps]
  pairs = [magnitude(implementation, s.name, s.level, height, width) for s in steps]
  values, mirrored = np.array(pairs, np.float32).T  # of [steps, 2]
  columns = np.array(indices, np.int32), np.array(probabilities, np.float32), values, mirrored
  tables = tuple(column.reshape(-1, 2) for column in columns)  # two steps are one sub-policy
  is_transparent = implementation == 'tensorflow_models'
  # vacated pixels that are transparent are filled at the end, by `AutoAugment.__call__`
  vacated = (0,) if is_transparent else augmentation.vacated
  colours = {'warp_fill': vacated, 'cutout_fill': SQUARE[implementation]}
  return operations.Operations(names, 'nearest', **colours, transparent=is_transparent), tables


@dataclasses.dataclass(frozen=True)
class RandAugment(Augmentation):
  """Applies N random operations at magnitude M, drawn uniformly with replacement.

  After each operation, image values are multiples of 1/255. With the magnitudes of 'efficientnet',
  translations and squares are fixed numbers of pixels, for images of 224 pixels and more. At the
  defaults, nothing remains of a third of all images of 32 pixels.

  Attributes:
    operations: number N of operations.
    magnitude: M in 0..30. The full range is 30 in 'torchvision'. In 'efficientnet' it is 10, and a
      larger magnitude exceeds it.
    magnitudes: the code that defines operations and magnitudes. 'torchvision' has 13 operations and
      the identity. 'efficientnet' has 16, with a Solarize that weakens as the magnitude grows. As
      in that code, every drawn operation is applied.
    without: names of operations that are left out.
    fill: colour of pixels that a shear, translation or rotation leaves empty: one value in 0..255,
      or one per channel. () is the colour of the code in `magnitudes`, black or grey.

  Reference:
    Cubuk et al. (2020), RandAugment: Practical Automated Data Augmentation with a Reduced Search
    Space, section 3.
  """

  name = 'rand_augment'
  sequential = True
  operations: int = setting(2, 'at least 1', lambda x: x >= 1)
  magnitude: int = 9
  magnitudes: str = word('torchvision', RAND_FULL_RANGE)
  without: tuple[str, ...] = ()
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    """Raises InputError for settings that are out of range, or that leave out all operations."""
    super().__post_init__()
    self.require(0 <= self.magnitude <= RAND_MAX_LEVEL, 'magnitude', f'in 0..{RAND_MAX_LEVEL}')
    operations.check_colour(self.fill, self.key('fill'))
    # `magnitudes` is the implementation that defines the operations
    self.choose('without', names_of(self.magnitudes))
    self.require(bool(self.names), 'without', 'fewer than all operations')

  @property
  def names(self) -> tuple[str, ...]:
    """Names of the operations that can be drawn, without the identity of 'torchvision'."""
    left_out = {*self.without, *WITHOUT[self.magnitudes]}
    return tuple(name for name in names_of(self.magnitudes) if name not in left_out)

  @property
  def resembles(self) -> tuple[str, ...]:
    """Names of the corruptions that the operations look like, such as 'contrast'."""
    return operations.resembled_transforms(self.names)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example after N random operations on the image [H, W, C]."""
    image, names = example['image'], self.names
    height, width = image.shape[:2]
    implementation, level = self.magnitudes, self.magnitude
    pairs = [magnitude(implementation, name, level, height, width, rand=True) for name in names]
    values = jnp.array(pairs, jnp.float32)  # [operations, 2]
    # Uniform on [0, 1); drawn by a single call, which costs as much as an operation. The columns
    # are the drawn operations: which one it is, which magnitude it has, and a row and column.
    u = jax.random.uniform(key, (4, self.operations))
    u_operation, u_magnitude, u_centre = u[0], u[1], u[2:].T
    # 'torchvision' also draws the identity, which has the index −1. values[−1] is the magnitude of
    # another operation, but the identity ignores it.
    num_identities = int(implementation == 'torchvision')
    index = operations.uniform_integer(u_operation, num_identities + len(names)) - num_identities
    magnitude_index = operations.uniform_integer(u_magnitude, 2)  # 1 is the mirrored magnitude
    # of the squares that Cutout covers, [operations, 2]
    centres = operations.uniform_integer(u_centre, jnp.array([[height, width]]))
    drawn = operations.Drawn(index=index, magnitude=values[index, magnitude_index], centre=centres)
    fill = self.fill or FILL[implementation]
    apply_operation = operations.Operations(names, 'nearest', warp_fill=fill, cutout_fill=fill)
    return {**example, 'image': apply_operation.in_sequence(image, drawn)}
