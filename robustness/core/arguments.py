"""The arguments of functions that users call: arrays, images and random keys, checked.

Of traced arrays only shape and type are checked, so that the functions can be jitted.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core import random_keys
from robustness.core.errors import InputError

ROUNDING = 1e-3
"""Values beyond [0, 1] by at most this number, a quarter of an 8-bit level, are clipped."""


def as_array(name: str, value: object) -> jax.Array | np.ndarray:
  """Returns a JAX or NumPy array with the values of an array-like object.

  Args:
    name: name of the value in the error message.
    value: a JAX, NumPy, PyTorch or TensorFlow array, a Pillow image, a number, or nested lists of
      numbers.

  Raises:
    InputError: NumPy cannot convert the value, for example lists of different lengths.
  """
  if isinstance(value, jax.Array):
    return value
  if hasattr(value, 'detach'):  # PyTorch
    value = value.detach().cpu()
  try:
    return np.asarray(value)
  except (TypeError, ValueError) as error:
    problem = f'{name} is a {type(value).__name__} and no array ({error})'
    raise InputError(f'{problem}: give numbers, or arrays of one shape.') from error


def as_key(key: object) -> jax.Array:
  """Returns a JAX random key; an integer seed is turned into a key.

  Args:
    key: a typed key, a raw uint32 key of `jax.random.PRNGKey`, or a seed in 0..4294967295.

  Raises:
    InputError: `key` is none of these.
  """
  if isinstance(key, jax.Array):
    is_typed_key = jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()
    if is_typed_key or (key.ndim == 1 and key.dtype == jnp.uint32):  # of jax.random.PRNGKey
      return key
    problem = f'key has the shape {key.shape} and is {key.dtype}'
    raise InputError(f'{problem}; it must be one key, as jax.random.key(0) gives it, or a seed.')
  if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < 2**32:
    return random_keys.from_seed(int(key))
  valid = 'a random key, as jax.random.key(0) gives it, or a seed in 0..4294967295'
  raise InputError(f'key is {key!r}; it must be {valid}.')


def as_images(
  images: object,
  ranks: tuple[int, ...] = (3, 4),
  callers: str = 'corruptions',
  rounding: float = ROUNDING,
) -> jax.Array:
  """Returns images as float32 clipped to [0, 1].

  Traced images (within `jax.jit`) have no values yet. Only their shape and type are checked.

  Args:
    images: floating-point images, [H, W, C] or [B, H, W, C] with 1 or 3 channels.
    ranks: allowed numbers of dimensions: (3,), (4,) or (3, 4).
    callers: plural name of the calling functions in error messages, such as 'corruptions'.
    rounding: tolerance. Values in [-rounding, 1 + rounding] are accepted and clipped.

  Raises:
    InputError: the shape or type is wrong, or a value exceeds the tolerance.
  """
  array = as_array('images', images)
  shape = tuple(array.shape)
  has_valid_rank = len(shape) in ranks
  if not has_valid_rank or shape[-1] not in (1, 3):
    hint = ''
    if has_valid_rank and shape[-3] in (1, 3):
      hint = ' Move the channels last: np.moveaxis(images, -3, -1).'
    elif not has_valid_rank and len(shape) == 4:  # a batch, where only a single image is allowed
      hint = ' Take jax.vmap or corrupt_each for a batch.'
    forms = ' or '.join('[H, W, C]' if rank == 3 else '[B, H, W, C]' for rank in ranks)
    form = f'{callers} take {forms} with 1 or 3 channels last'
    raise InputError(f'images have the shape {shape}; {form}.{hint}')
  if 0 in shape:
    raise InputError(f'images have the shape {shape}: there is nothing to change.')
  return as_pixels('images', array, callers, rounding)


def as_pixels(
  name: str, array: jax.Array | np.ndarray, callers: str, rounding: float = ROUNDING
) -> jax.Array:
  """Returns floating-point pixels of any shape as float32 clipped to [0, 1].

  Traced pixels (within `jax.jit`) have no values yet. They are neither checked nor clipped.

  Args:
    name: plural noun for the pixels in error messages, such as 'images'.
    array: floating-point pixels.
    callers: plural name of the calling functions in error messages, such as 'corruptions'.
    rounding: tolerance. Values in [-rounding, 1 + rounding] are accepted and clipped.

  Raises:
    InputError: the pixels are not floating-point, or a value exceeds the tolerance.
  """
  if not jnp.issubdtype(array.dtype, jnp.floating):
    fix = 'Divide 8-bit images by 255.'
    raise InputError(f'{name} are {array.dtype}; {callers} take floats in [0, 1]. {fix}')
  array = jnp.asarray(array, jnp.float32)
  minimum, maximum = array.min(), array.max()
  # `minimum` is tested and not `array`: in a branch of `lax.cond`, the minimum is traced although
  # the array may be a constant
  if isinstance(minimum, jax.core.Tracer):
    return array
  low, high = float(minimum), float(maximum)
  if not (low >= -rounding and high <= 1 + rounding):
    raise InputError(
      f'{name} have values from {low:.9g} to {high:.9g}; {callers} take values in '
      '[0, 1]. Normalise afterwards; divide 8-bit values by 255.'
    )
  return jnp.clip(array, 0, 1)


def check_integers(name: str, value: object, batch: tuple[int, ...], valid: Sequence[int]) -> None:
  """Raises InputError unless `value` is a valid integer, or one valid integer per image.

  Args:
    name: name of the value in the error message.
    value: an integer, or an array of integers with the shape `batch`. A traced array (within
      `jax.jit`) is checked only for shape and type.
    batch: (B,) for a batch of B images, () for a single image.
    valid: the valid integers, consecutive and in ascending order.
  """
  values, valid_range = as_array(name, value), f'{valid[0]}..{valid[-1]}'
  _check_shape(name, values, batch, 'integer')
  if not jnp.issubdtype(values.dtype, jnp.integer):
    is_number = values.ndim == 0 and not isinstance(values, jax.core.Tracer)
    shown = repr(values.item()) if is_number else values.dtype
    raise InputError(f'{name} is {shown}; it must be an integer in {valid_range}.')
  if isinstance(values, jax.core.Tracer):
    return
  invalid = np.setdiff1d(np.asarray(values), valid)
  if invalid.size:
    raise InputError(f'{name} is {invalid[0]}; it must be an integer in {valid_range}.')


def check_within(
  name: str, value: object, valid: str, low: float, high: float, batch: tuple[int, ...] = ()
) -> None:
  """Raises InputError unless `value` is a number in [low, high], or one such number per image.

  Args:
    name: name of the value in the error message.
    value: a number, or an array of numbers with the shape `batch`. A traced array (within
      `jax.jit`) is checked only for shape.
    valid: the valid range in words for the error message, such as 'at least 0'.
    low: smallest valid number.
    high: largest valid number.
    batch: (B,) for a batch of B images, () for a single image.
  """
  values = as_array(name, value)
  _check_shape(name, values, batch, 'number')
  if isinstance(values, jax.core.Tracer):
    return
  invalid = np.asarray(values).ravel()  # all, if they are no numbers
  if jnp.issubdtype(invalid.dtype, jnp.number):
    is_valid = (invalid >= low) & (invalid <= high)  # False for NaN
    invalid = invalid[~is_valid]
  if invalid.size:
    raise InputError(f'{name} is {invalid[0]}; it must be a number {valid}.')


def _check_shape(
  name: str, values: jax.Array | np.ndarray, batch: tuple[int, ...], kind: str
) -> None:
  """Raises InputError unless `values` is a scalar or has the shape `batch`.

  Args:
    name: name of the values in the error message, such as 'labels'.
    values: a scalar, or an array with one value per image.
    batch: (B,) for a batch of B images, () for a single image.
    kind: noun for a single value in the error message, such as 'integer'.
  """
  if values.shape not in ((), batch):
    is_table = values.ndim == 2 and values.shape[:1] == batch  # perhaps one-hot, [B, classes]
    valid = f'one {kind}, or one for each image: {batch}' if batch else f'one {kind}'
    hint = f' {name}.argmax(1) makes integers of one-hot rows.' if is_table else ''
    raise InputError(f'{name} has the shape {values.shape}; it must be {valid}.{hint}')
