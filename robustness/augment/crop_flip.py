"""Random crop and horizontal flip, the common augmentation of small images."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def random_crop(key: jax.Array, image: jax.Array, padding: int) -> jax.Array:
  """Pads with zeros on all four sides, then cuts a window of the old size at a random place.

  Row and column offsets are independent and uniform on {0, ..., 2·padding}.

  Args:
    key: decides the offsets.
    image: [H, W, C] in [0, 1]; the border that enters is black (0), before normalisation.
    padding: pixels on each side, 0 or more.

  Returns:
    The cropped image [H, W, C].

  Reference:
    He et al. (2016), Deep Residual Learning, section 4.2 (padding 4 for 32 × 32 pixels).
  """
  padded = jnp.pad(image, ((padding, padding), (padding, padding), (0, 0)))
  top, left = jax.random.randint(key, (2,), 0, 2 * padding + 1)
  return jax.lax.dynamic_slice(padded, (top, left, 0), image.shape)


def random_flip(key: jax.Array, image: jax.Array) -> jax.Array:
  """Mirrors left and right with probability 1/2.

  Args:
    key: decides.
    image: [H, W, C].

  Returns:
    The image [H, W, C], mirrored or as it was.
  """
  return jnp.where(jax.random.bernoulli(key), image[:, ::-1], image)
