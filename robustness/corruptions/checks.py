"""What can be wrong with the input of a corruption, said before anything is computed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.severities import Constants


def check_images(images: Any) -> None:
  """Refuses images of a wrong shape or type, and values outside [0, 1] unless they are traced.

  Raises:
    InputError: names what was given and the mend.
  """
  shape = tuple(images.shape)
  if len(shape) not in (3, 4) or shape[-1] not in (1, 3):
    raise InputError(
      f'images have the shape {shape}; corruptions take [H, W, C] or [B, H, W, C] '
      'with 1 or 3 channels last.'
    )
  if 0 in shape:
    raise InputError(f'images have the shape {shape}: there is nothing to corrupt.')
  if not jnp.issubdtype(images.dtype, jnp.floating):
    raise InputError(
      f'images are {images.dtype}; corruptions take floats in [0, 1]. Divide 8-bit images by 255.'
    )
  if isinstance(images, jax.core.Tracer):
    return
  low, high = float(images.min()), float(images.max())
  if not (low >= 0 and high <= 1):
    raise InputError(
      f'images have values from {low:g} to {high:g}; corruptions take values in '
      '[0, 1]. Corrupt before normalising; divide 8-bit values by 255.'
    )


def check_severity(severity: Any, batch: tuple[int, ...]) -> None:
  """Refuses severities that are not whole numbers in 1..5, or not one for each image.

  Args:
    severity: scalar or one for each image; only shape and type are checked if traced.
    batch: (B,) of a batch, () of one image.

  Raises:
    InputError: names what was given.
  """
  values = severity if isinstance(severity, jax.Array) else np.asarray(severity)
  if not jnp.issubdtype(values.dtype, jnp.integer):
    raise InputError(f'severity is {severity!r}; it must be an integer in 1..5.')
  if values.shape not in ((), batch):
    raise InputError(
      f'severity has the shape {values.shape}; it must be one integer, or one for '
      f'each image: {batch}.'
    )
  if isinstance(severity, jax.core.Tracer):
    return
  bad = np.setdiff1d(np.asarray(values), SEVERITIES)
  if bad.size:
    raise InputError(f'severity is {bad[0]}; it must be an integer in 1..5.')


def check_side(name: str, shape: tuple[int, ...], constants: Constants) -> None:
  """Refuses images on which a corruption could do nothing, or not be defined.

  Args:
    name: of the corruption.
    shape: (H, W), in pixels.
    constants: of the corruption.

  Raises:
    InputError: names the size, the least one and the reason.
  """
  least, reason = smallest_side(name, constants)
  if min(shape[:2]) < least:
    raise InputError(
      f'images of {shape[0]} × {shape[1]} pixels are too small for {name}: it needs '
      f'{least} or more a side, {reason}.'
    )


def smallest_side(name: str, constants: Constants) -> tuple[int, str]:
  """Returns the least side of an image in pixels and why."""
  if name == 'glass_blur':
    return 2 * max(constants['delta']) + 1, 'or no pixel lies far enough from the edge to be moved'
  if name == 'zoom_blur':
    return 2, 'or there is no centre to enlarge'
  if name == 'pixelate':
    return int(np.ceil(1 / min(constants['scale']))), 'or less than one large pixel is left'
  if name == 'elastic_transform':
    return 3, 'or the triangle that is bent has no area'
  return 1, ''
