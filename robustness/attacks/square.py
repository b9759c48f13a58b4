"""Square Attack: a random search that changes square windows and asks for logits alone."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.attacks import Array, Attack, Logits, Scalar, margin
from robustness.attacks.balls import by_row
from robustness.attacks.in_turn import whole
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

AREA = 0.8  # p of the paper, the share of the image that the first windows cover
HALVED_AFTER = np.array([10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000])
"""Steps after which the area of windows is halved."""
TILES = 5
"""Of the first change in ℓ2, along a side."""


@dataclasses.dataclass(frozen=True)
class Square(Attack):
  """Gives the change with the largest margin among n random ones, without a gradient, where it
  succeeds; else the image.

  A step proposes for each image a window of its own, of an area that shrinks, and takes it where
  the margin grows. In ℓ∞ each channel of the window moves by ±2ε, clipped to the ball, from
  vertical stripes of ±ε. In ℓ2 the mass of a second window moves into the first, in two halves of
  opposite sign that are highest in their middle, and the change has the length ε before it is
  clipped to [0, 1].

  Corners of windows and sizes are those of the authors' code, whose windows never reach the last
  row and column; there the images of a batch share window and signs in ℓ∞.

  Attributes:
    queries: n ≥ 1 steps after the first change; the sizes do not depend on it.

  Reference:
    Andriushchenko et al. (2020), Square Attack: a query-efficient black-box adversarial attack via
    random search, algorithms 1 to 3.
  """

  resembles = (NOISE,)
  in_turn = True
  queries: int = setting(5000, 'at least 1', lambda x: x >= 1)

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    run = functools.partial(self.run, logits=logits, scale=scale)
    return whole(run, 1, logits, keys, images, labels)

  def run(
    self, number: Array, keys: Array, images: Array, labels: Array, logits: Logits, scale: Scalar
  ) -> Array:
    """Returns what one run gives, see `in_turn`; it ends when all images are wrong."""
    del number  # the keys are the run's
    epsilon, shape = scale * self.epsilon, images.shape[1:]
    begin, proposed = _stripes, _windows
    if self.norm == 'l2':
      begin, proposed = _tiles, functools.partial(_moved_mass, _patterns(shape))
    windows = jnp.asarray(sides(shape[:2], 1 if self.norm == 'linf' else 3))

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
      k, x, best = state
      own = jax.vmap(lambda key: jax.random.fold_in(key, k + 1))(keys)
      halvings = jnp.searchsorted(HALVED_AFTER, k)
      size = halvings, windows[halvings]
      new = jax.vmap(proposed, (0, 0, 0, None, None))(own, images, x, size, epsilon)
      margins = margin(logits(new), labels)
      better = ((margins > best) | (margins >= 0)) & (best < 0)  # a wrong image stays
      return k + 1, jnp.where(by_row(better), new, x), jnp.where(better, margins, best)

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
      return (state[0] < self.queries) & (state[2] < 0).any()

    own = jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys)
    x = jax.vmap(begin, (0, 0, None))(own, images, epsilon)
    state = jnp.int32(0), x, margin(logits(x), labels)
    return jax.lax.while_loop(goes_on, step, state)[1]


def sides(shape: Sequence[int], smallest: int) -> np.ndarray:
  """Returns the side of windows by the number of halvings; odd ones where it is at least 3."""
  areas = AREA / 2.0 ** np.arange(len(HALVED_AFTER) + 1) * math.prod(shape)
  rounded = np.maximum(np.round(np.sqrt(areas)).astype(np.int32), smallest)
  return np.minimum(rounded | 1 if smallest == 3 else rounded, min(shape))


def _stripes(key: Array, image: Array, epsilon: Scalar) -> Array:
  signs = jax.random.rademacher(key, (1, *image.shape[1:]), image.dtype)
  return jnp.clip(image + epsilon * signs, 0, 1)


def _window(key: Array, shape: Sequence[int], side: Array) -> tuple[Array, Array]:
  """Returns a window's first row and column, int32 [2], and which pixels it covers, [H, W, 1]."""
  corner = jax.random.randint(key, (2,), 0, jnp.maximum(jnp.asarray(shape[:2]) - side, 1))
  from_corner = [jnp.arange(shape[axis]) - corner[axis] for axis in (0, 1)]
  rows, columns = ((x >= 0) & (x < side) for x in from_corner)
  return corner, (rows[:, None] & columns[None])[:, :, None]


def _windows(
  key: Array, image: Array, x: Array, size: tuple[Array, Array], epsilon: Scalar
) -> Array:
  place, signs = jax.random.split(key)
  _, inside = _window(place, image.shape, size[1])
  change = 2 * epsilon * jax.random.rademacher(signs, (1, 1, image.shape[2]), image.dtype)
  moved = jnp.clip(x + jnp.where(inside, change, 0), image - epsilon, image + epsilon)
  return jnp.clip(moved, 0, 1)


def halves(side: int) -> np.ndarray:
  """Returns η of the paper, [side, side] of length 1: two halves of opposite sign, one above the
  other, each of nested rectangles of weight 1 / k²."""

  def nested(height: int) -> np.ndarray:
    away = [np.abs(np.arange(size) - size // 2) for size in (height, side)]
    weights = 1.0 / np.arange(1, max(height, side) // 2 + 2) ** 2
    sums = np.append(weights[::-1].cumsum()[::-1], 0)  # of the rectangles from k on
    made = sums[np.maximum(away[0][:, None], away[1])]
    return made / np.linalg.norm(made)

  both = np.concatenate([nested(side // 2), -nested(side - side // 2)])
  return (both / np.linalg.norm(both)).astype(np.float32)


def _patterns(shape: Sequence[int]) -> Array:
  """Returns η by the number of halvings, upright and transposed, in the middle of zeros from which
  an image is cut: [10, 2, 2M, 2M] with M the longer side."""
  middle, all_sides = max(shape[:2]), sides(shape[:2], 3)
  table = np.zeros((len(all_sides), 2, 2 * middle, 2 * middle), np.float32)
  for upright, side in zip(table, all_sides, strict=True):
    own = halves(int(side))
    upright[:, middle : middle + side, middle : middle + side] = own, own.T
  return jnp.asarray(table)


def _tiles(key: Array, image: Array, epsilon: Scalar) -> Array:
  """Returns the image with η in each of 5 × 5 tiles, a sign for each of its channels."""
  height, width, channels = image.shape
  side = max(1, height // TILES)
  first = (height - height // side * side) // 2
  counts = height // side, width // side
  for_signs, for_turns = jax.random.split(key)
  signs = jax.random.rademacher(for_signs, (*counts, 1, 1, channels), image.dtype)
  turned = jax.random.bernoulli(for_turns, shape=(*counts, 1, 1, 1))
  own = jnp.asarray(halves(side))[None, None, :, :, None]
  made = signs * jnp.where(turned, own.swapaxes(2, 3), own)
  tiled = made.transpose(0, 2, 1, 3, 4).reshape(counts[0] * side, counts[1] * side, channels)
  change = jnp.zeros((height + side, width + side, channels))
  placed = change.at[first : first + len(tiled), first : first + tiled.shape[1]].set(tiled)
  return _of_length(image, placed[:height, :width], epsilon)


def _moved_mass(
  patterns: Array, key: Array, image: Array, x: Array, size: tuple[Array, Array], epsilon: Scalar
) -> Array:
  """Returns the image after the step of algorithm 3, a part of the change moved to a window."""
  keys = jax.random.split(key, 4)
  (corner, into), (_, taken) = (_window(own, image.shape, size[1]) for own in keys[:2])
  turned = jax.random.bernoulli(keys[2]).astype(jnp.int32)
  signs = jax.random.rademacher(keys[3], (1, 1, image.shape[2]), image.dtype)
  begin = patterns.shape[-1] // 2 - corner
  own = jax.lax.dynamic_slice(patterns[size[0], turned], begin, image.shape[:2])[..., None] * signs
  change = x - image

  def lengths(values: Array) -> Array:
    return jnp.sqrt((values**2).sum((0, 1), keepdims=True))  # of each channel

  before = jnp.where(into, change, 0)
  new = own + before / (1e-12 + lengths(before))
  unused = jnp.maximum(epsilon**2 - (change**2).sum(), 0) / image.shape[2]
  mass = jnp.sqrt(unused + lengths(jnp.where(into | taken, change, 0)) ** 2)
  new = new / (1e-12 + lengths(new)) * mass
  return _of_length(image, jnp.where(into, new, jnp.where(taken, 0, change)), epsilon)


def _of_length(image: Array, change: Array, epsilon: Scalar) -> Array:
  return jnp.clip(image + epsilon * change / (jnp.linalg.norm(change.ravel()) + 1e-12), 0, 1)
