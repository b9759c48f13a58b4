"""What can be wrong with the input of a corruption, said before anything is computed.

Values that are traced cannot be looked at; of them, type and shape are checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.settings import require
from robustness.corruptions.names import FINEST

ROUNDING = 1e-3  # a quarter of an 8-bit level: less beyond [0, 1] is rounding, and is clipped


def as_array(name: str, value: object) -> jax.Array | np.ndarray:
  """Returns anything that NumPy reads, a PyTorch tensor on the CPU too, as an array; raises
  InputError with `name` and the reason where NumPy cannot."""
  if isinstance(value, jax.Array):
    return value
  try:
    return np.asarray(value)
  except (TypeError, ValueError, RuntimeError) as error:
    raise InputError(
      f'{name} is a {type(value).__name__} that NumPy cannot read ({error}). Of a PyTorch tensor, '
      'pass tensor.detach().cpu().'
    ) from error


def as_key(key: object) -> jax.Array:
  """Returns a random key, or that of a seed; raises InputError for neither."""
  if isinstance(key, jax.Array):
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if key.shape == () if typed else (key.ndim == 1 and key.dtype == jnp.uint32):
      return key
    raise InputError(
      f'key has the shape {key.shape} and is {key.dtype}; it must be one key, as jax.random.key(0) '
      'gives it, or a seed.'
    )
  if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < 2**32:
    return random_keys.from_seed(int(key))
  raise InputError(
    f'key is {key!r}; it must be a random key, as jax.random.key(0) gives it, or a seed in '
    '0..4294967295.'
  )


def as_images(images: object, ranks: tuple[int, ...] = (3, 4)) -> jax.Array:
  """Returns images of a valid number of dimensions as float32, clipped to [0, 1] where they lie
  beyond it by rounding.

  Raises:
    InputError: a wrong shape or type, or values outside [0, 1] that are no rounding; names what
      was given and the fix.
  """
  array = as_array('images', images)
  shape = tuple(array.shape)
  forms = ' or '.join({3: '[H, W, C]', 4: '[B, H, W, C]'}[rank] for rank in ranks)
  if len(shape) not in ranks or shape[-1] not in (1, 3):
    hint = ''
    if len(shape) in ranks and shape[-3] in (1, 3):
      hint = ' Move the channels last: np.moveaxis(images, -3, -1).'
    elif len(shape) == 4:
      hint = ' Take jax.vmap or corrupt_each for a batch.'
    raise InputError(
      f'images have the shape {shape}; corruptions take {forms} with 1 or 3 channels last.{hint}'
    )
  if 0 in shape:
    raise InputError(f'images have the shape {shape}: there is nothing to corrupt.')
  if not jnp.issubdtype(array.dtype, jnp.floating):
    raise InputError(
      f'images are {array.dtype}; corruptions take floats in [0, 1]. Divide 8-bit images by 255.'
    )
  if isinstance(array, jax.core.Tracer):
    return array.astype(jnp.float32)
  low, high = float(array.min()), float(array.max())
  if not (low >= -ROUNDING and high <= 1 + ROUNDING):
    raise InputError(
      f'images have values from {low:.9g} to {high:.9g}; corruptions take values in '
      '[0, 1]. Corrupt before normalising; divide 8-bit values by 255.'
    )
  return jnp.clip(jnp.asarray(array, jnp.float32), 0, 1)


def check_integers(name: str, value: object, batch: tuple[int, ...], valid: Sequence[int]) -> None:
  """Raises InputError for what is not one of some consecutive integers, or one for each image.

  Args:
    name: of the argument, for messages.
    value: scalar or one for each image; only shape and type are checked if traced.
    batch: (B,) of a batch, () of one image.
    valid: consecutive integers.
  """
  values, valid_range = as_array(name, value), f'{valid[0]}..{valid[-1]}'
  if not jnp.issubdtype(values.dtype, jnp.integer):
    raise InputError(f'{name} is {value!r}; it must be an integer in {valid_range}.')
  if values.shape not in ((), batch):
    raise InputError(
      f'{name} has the shape {values.shape}; it must be one integer, or one for '
      f'each image: {batch}.'
    )
  if isinstance(values, jax.core.Tracer):
    return
  invalid = np.setdiff1d(np.asarray(values), valid)
  if invalid.size:
    raise InputError(f'{name} is {invalid[0]}; it must be an integer in {valid_range}.')


def check_between(where: str, severities: Sequence[float]) -> None:
  """Raises InputError, with the key `where`, unless severities lie between the five: distinct and
  ascending, in [1, 5] and no whole numbers, multiples of 1 / `FINEST`."""
  for severity in severities:
    require(1 <= severity <= 5, where, severity, 'in [1, 5]')
    require(severity % 1 != 0, where, severity, 'no whole number: severities takes those')
    exact = round(FINEST * severity) == FINEST * severity
    require(exact, where, severity, f'a multiple of 1/{FINEST}')
  ascending = list(severities) == sorted(set(severities))
  require(ascending, where, tuple(severities), 'distinct and ascending')
