"""The type of a corruption: a pure function of one image with its published constants.

`names` lists a corruption's number and file, and `catalog` finds it by name. Constants were
published for images of 32 (CIFAR-10-C), 64 (Tiny-ImageNet-C), 224 (ImageNet-C) and 299 pixels
(Inception).

Reference:
  Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and
  Perturbations; Mintun, Kirillov & Xie (2021), On Interaction Between Augmentations and Corruptions
  in Natural Corruption Robustness; and the constants of their released generators.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError, for_caller, nearest
from robustness.core.settings import choice, require
from robustness.core.typing import Facts
from robustness.corruptions.names import FAMILIES, SEVERITIES, UNLIKE_OTHERS

Constants = Mapping[str, tuple[Any, ...]]
"""{parameter: one value per severity}, static."""
Draws = Mapping[str, jax.Array]
"""Random numbers of an image by name."""
SIDES = {32: 32, 64: 32, 224: 224, 299: 224}
"""{image side: the side with the constants of corruptions that have none for this side}."""
PUBLISHED = tomllib.loads(pathlib.Path(__file__).with_name('constants.toml').read_text('utf-8'))
"""{corruption: {'parameters': their names, side of the images: constants}}."""


@dataclasses.dataclass(frozen=True)
class Strength:
  """The constants of a corruption at all severities, with the severity that is applied.

  For example, `strength['sigma']` is the value of the constant `sigma` at this severity.

  Attributes:
    constants: {name of a constant: one value per severity}.
    severity: integer from 1, which may be traced.
  """

  constants: Constants
  severity: jax.Array | int

  @property
  def index(self) -> jax.Array:
    """Index of the severity in arrays with one value per severity."""
    return jnp.asarray(self.severity) - SEVERITIES[0]

  def select(self, values: Sequence[float] | np.ndarray) -> jax.Array:
    """Returns the entry for this severity of an array [severities, ...], as int32 or float32."""
    array = np.asarray(values)
    dtype = np.int32 if np.issubdtype(array.dtype, np.integer) else np.float32
    return jnp.asarray(array.astype(dtype))[self.index]

  def __getitem__(self, name: str) -> jax.Array:
    """Returns the value of a constant at the severity."""
    return self.select(self.constants[name])

  def maximum(self, name: str) -> Any:
    """Returns the largest value of a constant over all severities, which is never traced."""
    return max(self.constants[name])


@dataclasses.dataclass(frozen=True, eq=False)
class Corruption:
  """A corruption: a function of an image, float32 [H, W, C] in [0, 1] with 1 or 3 channels.

  Attributes:
    function: `(draws, image, strength, **options) -> image`. `draws` are the random numbers that
      `draw` returns, or the random key if `draw` is None.
    constants: {image side: published constants}.
    family: group of similar corruptions, one of `names.FAMILIES`. Training that leaves out a
      corruption for a later test leaves out the whole family.
    draw: `(key, shape, constants, **options)` returns the random numbers of an image.
    options: {option: valid values}, such as {'exchange': ('copy', 'swap')}. The released generator
      uses the first value. () accepts any value.
    least_side: function from the constants to the smallest side that an image may have, in pixels.
    reason: why there is a smallest side, such as 'or no tile fits'.
    square: whether images must be square.
    even: whether sides must be even.
    rounded: whether the released generator rounds to the nearest 8-bit level instead of truncating.
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
    """Raises InputError for an unknown family."""
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
    """Returns the corrupted image, float32 [H, W, C] in [0, 1].

    Args:
      key: random key.
      image: float32 [H, W, C] in [0, 1].
      severity: integer scalar from 1, which may be traced.
      constants: {parameter: one value per severity}.
      **options: variants of the corruption.
    """
    self.check_options(options)
    draws = self.draw(key, image.shape, constants, **options) if self.draw else key
    return self.function(draws, image, Strength(constants, severity), **options)

  def check_options(self, options: Facts) -> None:
    """Raises InputError for an unknown option of the corruption, or an invalid value of one.

    Args:
      options: {option: value}, such as {'photographs': FOLDER} of frost.
    """
    if not isinstance(options, Mapping):
      raise InputError(f'options of {self.name} are {options!r}; they must be {{option: value}}.')
    for option, value in options.items():
      if option not in self.options:
        hint = nearest(option, self.options) if self.options else 'it has no options'
        raise InputError(f'{self.name} has no option {option!r}: {hint}.')
      if self.options[option]:
        choice(option, value, self.options[option])

  def check_side(self, shape: Sequence[int], constants: Constants) -> None:
    """Raises InputError if the corruption is not defined for images of this `shape` (H, W, ...).

    Images must have sides of at least `least_side(constants)` pixels, be square if the corruption
    is declared as `square`, and have even sides if it is declared as `even`.
    """
    height, width = shape[:2]
    images = f'images of {height} × {width} pixels'
    if self.square and height != width:
      fix = for_caller(f'crop them ({KEYS.data.crop})', 'crop them')
      raise InputError(f'{images} are not square, for which {self.name} is defined: {fix}.')
    if self.even and (height % 2 or width % 2):
      raise InputError(f'{images} have an odd side; {self.name} is defined for even ones.')
    least = self.least_side(constants)
    if min(height, width) < least:
      raise InputError(
        f'{images} are too small for {self.name}: it needs {least} or more a side, {self.reason}.'
      )


def corruption(
  parameters: str, by_side: Mapping[int, Sequence[Any]], family: str, **declared: Any
) -> Callable[[Callable[..., jax.Array]], Corruption]:
  """Returns a decorator that turns a function of an image into a `Corruption`.

  Args:
    parameters: names of the constants, separated by blanks, such as 'low high'.
    by_side: constants by side of the images: {side: one entry for each of the five severities}. An
      entry is a value, or a tuple of values if there are several parameters. Sides are 32, 64, 224
      and 299. If 64 or 299 is left out, the entries of 32 or 224 are used.
    family: one of `names.FAMILIES`.
    **declared: other fields of `Corruption`.

  Raises:
    InputError: A side is not among these, or a side does not have five entries.
  """
  names = parameters.split()
  counts = {side: len(entries) for side, entries in by_side.items()}
  is_valid = {*counts} <= {*SIDES} and {*counts.values()} == {len(SEVERITIES)}
  sides = ', '.join(map(str, SIDES))
  valid = f'5 for sides in {sides}; images of another take those of the nearest'
  require(is_valid, 'number of entries of @corruption by side', counts, valid)
  constants = {}
  for side, default_side in SIDES.items():
    entries = by_side.get(side, by_side.get(default_side))
    if entries is not None:  # a corruption of small images only has none for large ones
      # the values of each parameter at the five severities
      values = zip(*entries, strict=True) if len(names) > 1 else [tuple(entries)]
      constants[side] = dict(zip(names, values, strict=True))
  return lambda function: Corruption(function, family=family, constants=constants, **declared)


def published(family: str, **declared: Any) -> Callable[[Callable[..., jax.Array]], Corruption]:
  """Returns a decorator for a corruption that has its constants in `constants.toml`.

  Args:
    family: one of `names.FAMILIES`.
    **declared: other fields of `Corruption`.
  """

  def declare(function: Callable[..., jax.Array]) -> Corruption:
    """Returns the corruption, with the constants that are published for the function's name.

    Args:
      function: the function that corrupts an image; see `corruption`.
    """
    table = dict(PUBLISHED[function.__name__])
    parameters = table.pop('parameters')
    by_side = {int(side): entries for side, entries in table.items()}
    return corruption(parameters, by_side, family, **declared)(function)

  return declare


def rows(text: str) -> list[tuple[float, ...]]:
  """Parses constants, one tuple per severity, from a text such as '1 0.5, 2 0.7, ...'."""

  def number(word: str) -> float:
    """Returns an int for a word of digits, such as a radius '10', and otherwise a float."""
    return int(word) if word.isdigit() else float(word)

  return [tuple(map(number, row.split())) for row in text.split(',')]


def c_bar(
  draw: Callable[[jax.Array, int], Draws],
  *,
  keys: int = 1,
  family: str = UNLIKE_OTHERS,
  **declared: Any,
) -> Callable[[Callable[..., jax.Array]], Corruption]:
  """Returns a decorator for a corruption of CIFAR-10-C-bar or ImageNet-C-bar.

  Such a corruption has a single constant, its `magnitude`. The constants for 32 pixels are those of
  CIFAR-10-C-bar, and for 224 of ImageNet-C-bar; a set that lacks the corruption has none.

  Args:
    draw: `(keys, side)` returns the random numbers of an image of side × side pixels.
    keys: number of keys that `draw` takes; with 1 it takes the image's key without a split.
    family: one of `names.FAMILIES`.
    **declared: other fields of `Corruption`.
  """

  def draw_for_shape(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
    """Draws the random numbers for an image of this shape, by the `draw` of the corruption."""
    return draw(key if keys == 1 else jax.random.split(key, keys), shape[0])

  return published(
    family,
    draw=draw_for_shape,
    square=True,
    least_side=lambda constants: 8,
    reason='or its shapes are smaller than a pixel',
    **declared,
  )


def interpolated(values: Sequence[Any], severity: float) -> Any:
  """Returns a corruption constant at a fractional severity in [1, 5], interpolated linearly.

  Integers, such as radii and JPEG qualities, are rounded, halves to even.

  Args:
    values: value of the constant at severities 1 to 5. For zoom blur each value is a tuple of zoom
      factors. The largest factor is interpolated, and the step between factors is taken from the
      next lower integer severity.
    severity: the severity.
  """
  below = int(severity)
  fraction = severity - below
  low = values[below - 1]
  if fraction == 0:  # the published value, unrounded
    return low
  high = values[below]
  if isinstance(low, tuple):  # zoom factors
    step = low[1] - low[0]
    last = (1 - fraction) * low[-1] + fraction * high[-1]
    return tuple(np.arange(1, last + step / 2, step).tolist())  # + step / 2 includes the last one
  value = (1 - fraction) * low + fraction * high
  return round(value) if isinstance(low, int) and isinstance(high, int) else value


def uniform(key: jax.Array, low: float, high: float, shape: tuple[int, ...] = ()) -> jax.Array:
  """Draws float32 numbers uniformly from [low, high)."""
  return jax.random.uniform(key, shape, jnp.float32, low, high)
