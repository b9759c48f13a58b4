"""What a corruption is: a pure function of one image, declared with its constants.

`names` lists its number and the file that declares it, and `catalog` finds it by name. Constants
are those of the four image sizes that were published: 32 (CIFAR-10-C), 64 (Tiny-ImageNet-C), 224
(ImageNet-C) and 299 (Inception).

Reference:
  Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and
  Perturbations; Mintun, Kirillov & Xie (2021), On Interaction Between Augmentations and Corruptions
  in Natural Corruption Robustness; and the constants of their released generators.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError, nearest
from robustness.core.settings import choice
from robustness.core.typing import Facts
from robustness.corruptions.names import FAMILIES, SEVERITIES

Constants = Mapping[str, tuple[Any, ...]]
"""{parameter: one value for each severity}, static."""
Draws = Mapping[str, jax.Array]
SIDES = {32: 32, 64: 32, 224: 224, 299: 224}
"""Image sizes, and those whose constants they share where they have none."""


@dataclasses.dataclass(frozen=True)
class Strength:
  """Constants at a severity, an integer scalar from 1 on that may be traced."""

  constants: Constants
  severity: jax.Array | int

  @property
  def place(self) -> jax.Array:
    """The index of the severity among the values of a constant."""
    return jnp.asarray(self.severity) - SEVERITIES[0]

  def of(self, values: Sequence[float] | np.ndarray) -> jax.Array:
    """Returns the severity's own of some values, [...] of [severities, ...]; int32 or float32."""
    array = np.asarray(values)
    kind = np.int32 if np.issubdtype(array.dtype, np.integer) else np.float32
    return jnp.asarray(array.astype(kind))[self.place]

  def __getitem__(self, name: str) -> jax.Array:
    """Returns the value of a constant."""
    return self.of(self.constants[name])

  def most(self, name: str) -> Any:
    """Returns the largest value of a constant at any severity, static."""
    return max(self.constants[name])


@dataclasses.dataclass(frozen=True, eq=False)
class Corruption:
  """A corruption of an image, float32 [H, W, C] in [0, 1] with 1 or 3 channels.

  Attributes:
    function: `(draws, image, strength, **options) -> image`; the key stands for the draws where
      `draw` is None.
    constants: {side: constants}.
    family: of `names.FAMILIES`; trainings that hold out one of a family may show no other.
    draw: `(key, shape, constants, **options)` returns the random numbers of an image.
    options: {option: its values, the released generator's first}; () accepts anything.
    least_side: of an image in pixels, given the constants.
    reason: why there is a least side.
    square: whether images must be square.
    even: whether sides must be even.
    rounded: whether the released generator rounds to the nearest level, and does not truncate.
  """

  function: Callable[..., jax.Array]
  constants: Mapping[int, Constants]
  family: str
  draw: Callable[..., Any] | None = None
  options: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
  least_side: Callable[[Constants], int] = lambda constants: 1
  reason: str = ''
  square: bool = False
  even: bool = False
  rounded: bool = False

  def __post_init__(self) -> None:
    choice(f'the family of {self.name}', self.family, FAMILIES)

  @property
  def name(self) -> str:
    """The name of the function."""
    return self.function.__name__

  def __call__(
    self,
    key: jax.Array,
    image: jax.Array,
    severity: jax.Array | int,
    constants: Constants,
    **options: object,
  ) -> jax.Array:
    """Returns the corrupted image."""
    self.check_options(options)
    draws = self.draw(key, image.shape, constants, **options) if self.draw else key
    return self.function(draws, image, Strength(constants, severity), **options)

  def check_options(self, options: Facts) -> None:
    """Raises InputError for options that the corruption does not have, or values of them."""
    if not isinstance(options, Mapping):
      raise InputError(f'options of {self.name} are {options!r}; they must be {{option: value}}.')
    for option, value in options.items():
      if option not in self.options:
        known = nearest(option, self.options) if self.options else 'it has no options'
        raise InputError(f'{self.name} has no option {option!r}: {known}.')
      if self.options[option]:
        choice(option, value, self.options[option])

  def check_side(self, shape: Sequence[int], constants: Constants) -> None:
    """Raises InputError for images (H, W) on which it could do nothing, or is not defined."""
    images = f'images of {shape[0]} × {shape[1]} pixels'
    if self.square and shape[0] != shape[1]:
      raise InputError(
        f'{images} are not square, for which {self.name} is defined: crop them ({KEYS.data.crop}).'
      )
    if self.even and shape[0] % 2:
      raise InputError(f'{images} have an odd side; {self.name} is defined for even ones.')
    least = self.least_side(constants)
    if min(shape[:2]) < least:
      raise InputError(
        f'{images} are too small for {self.name}: it needs {least} or more a side, {self.reason}.'
      )


def corruption(
  parameters: str, by_side: Mapping[int, Sequence[Any]], family: str, **declared: Any
) -> Callable[[Callable[..., jax.Array]], Corruption]:
  """Returns the decorator that makes a function a corruption.

  Args:
    parameters: names of its constants.
    by_side: {side: five values, or of several parameters five rows}.
    family: as in `Corruption`.
    **declared: other fields of `Corruption`.
  """
  names = parameters.split()

  def constants(values: Sequence[Any]) -> Constants:
    assert len(values) == len(SEVERITIES)
    columns = zip(*values, strict=True) if len(names) > 1 else [tuple(values)]
    return dict(zip(names, columns, strict=True))

  own = {side: by_side.get(side, by_side.get(like)) for side, like in SIDES.items()}
  found = {side: constants(values) for side, values in own.items() if values is not None}
  return lambda function: Corruption(function, found, family, **declared)


def rows(text: str) -> list[tuple[float, ...]]:
  """Returns five rows of constants, written 'a b c, a b c, ...'."""
  return [
    tuple(int(word) if word.isdigit() else float(word) for word in row.split())
    for row in text.split(',')
  ]


def c_bar(
  draw: Callable[[jax.Array, int], Draws] | None,
  *,
  family: str,
  cifar: tuple[float, ...] | None = None,
  imagenet: tuple[float, ...] | None = None,
  keys: int = 1,
  **declared: Any,
) -> Callable[[Callable[..., jax.Array]], Corruption]:
  """Returns the decorator of a corruption of C-bar: `magnitude` is its only constant.

  The authors chose magnitudes by the error of a network, so they are irregular.

  Args:
    draw: `(keys, side)` returns the random numbers of an image.
    family: as in `Corruption`.
    cifar: magnitudes m at 32 pixels, in CIFAR-10-C-bar.
    imagenet: magnitudes at 224 pixels, in ImageNet-C-bar.
    keys: how many keys `draw` takes; 1 gives it the image's own.
    **declared: as in `Corruption`.
  """

  def draws(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
    assert draw
    return draw(key if keys == 1 else jax.random.split(key, keys), shape[0])

  by_side = {side: values for side, values in ((32, cifar), (224, imagenet)) if values}
  return corruption(
    'magnitude',
    by_side,
    family,
    draw=draw and draws,
    square=True,
    least_side=lambda constants: 8,
    reason='or its shapes are smaller than a pixel',
    **declared,
  )


def between_five(values: Sequence[Any], severity: float) -> Any:
  """Returns the value at a severity in [1, 5] of five values, interpolated linearly.

  Integers (radii, iterations, JPEG quality, what spatter is of) are rounded, halves to even; zoom
  factors have the interpolated last one in the steps of the severity below.
  """
  below = min(int(severity), len(values) - 1)
  part = severity - below
  low, high = values[below - 1], values[below]
  if part in (0, 1):
    return high if part else low
  if isinstance(low, tuple):  # zoom factors
    step = low[1] - low[0]
    last = (1 - part) * low[-1] + part * high[-1]
    return tuple(np.arange(1, last + step / 2, step).tolist())
  value = (1 - part) * low + part * high
  return round(value) if isinstance(low, int) and isinstance(high, int) else value


def uniform(key: jax.Array, low: float, high: float, shape: tuple[int, ...] = ()) -> jax.Array:
  """Returns uniform draws from [low, high), float32."""
  return jax.random.uniform(key, shape, jnp.float32, low, high)
