"""Square Attack: a random search over square windows that uses logits but no gradient."""

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
from robustness.attacks.in_turn import attack_in_turn
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

AREA = 0.8  # p of the paper, the share of the image that the first windows cover
HALVED_AFTER = np.array([10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000])
"""Steps after which the area of windows is halved."""
TILES = 5
"""Number of tiles along a side in the first change in ℓ2."""


@dataclasses.dataclass(frozen=True)
class Square(Attack):
  """Returns the image of largest margin in n random proposals if it is wrong, else the clean image.

  A step proposes a change in a random window for each image, and accepts it if the margin grows;
  windows shrink. In ℓ∞ the first change is vertical stripes of ±ε, and each channel of a window
  moves by ±2ε, clipped to the ball. In ℓ2 the norm of the change in a second window moves into the
  first, in two halves of opposite sign that peak in their middle, and the entire change has the
  length ε before it is clipped to [0, 1].

  Windows have corners and sizes as in the authors' code, where they never reach the last row and
  column. In that code the images of a batch share windows and signs in ℓ∞.

  Attributes:
    queries: Number n ≥ 1 of steps after the first change; the sizes do not depend on it.

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
    return attack_in_turn(run, 1, logits, keys, images, labels)

  def run(
    self, number: Array, keys: Array, images: Array, labels: Array, logits: Logits, scale: Scalar
  ) -> Array:
    """Returns the images of the run (see `in_turn`), which ends when all images are wrong."""
    del number  # the keys differ by run
    epsilon, shape = scale * self.epsilon, images.shape[1:]
    start, propose = _stripes, _windows
    if self.norm == 'l2':
      start, propose = _tiles, functools.partial(_moved_mass, _patterns(shape))
    windows = jnp.asarray(sides(shape[:2], 1 if self.norm == 'linf' else 3))

    def step_keys(number: Array | int) -> Array:
      return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
      k, x, best = state
      halvings = jnp.searchsorted(HALVED_AFTER, k)
      size = halvings, windows[halvings]
      new = jax.vmap(propose, (0, 0, 0, None, None))(step_keys(k + 1), images, x, size, epsilon)
      margins = margin(logits(new), labels)
      is_better = ((margins > best) | (margins >= 0)) & (best < 0)  # a wrong image is final
      return k + 1, jnp.where(by_row(is_better), new, x), jnp.where(is_better, margins, best)

    def continues(state: tuple[Array, Array, Array]) -> Array:
      return (state[0] < self.queries) & (state[2] < 0).any()

    x = jax.vmap(start, (0, 0, None))(step_keys(0), images, epsilon)
    state = jnp.int32(0), x, margin(logits(x), labels)
    return jax.lax.while_loop(continues, step, state)[1]


def sides(shape: Sequence[int], smallest: int) -> np.ndarray:
  """Returns the sides of windows after 0 to 9 halvings of their area, int32 [10].

  Sides are at least `smallest`, and odd if `smallest` is 3. `shape` is the image's shape.
  """
  areas = AREA / 2.0 ** np.arange(len(HALVED_AFTER) + 1) * math.prod(shape)
  rounded = np.maximum(np.round(np.sqrt(areas)).astype(np.int32), smallest)
  return np.minimum(rounded | 1 if smallest == 3 else rounded, min(shape))


def _stripes(key: Array, image: Array, epsilon: Scalar) -> Array:
  """Returns an image [H, W, C] with vertical stripes of ±ε, of random sign in each column."""
  signs = jax.random.rademacher(key, (1, *image.shape[1:]), image.dtype)
  return jnp.clip(image + epsilon * signs, 0, 1)


def _window(key: Array, shape: Sequence[int], side: Array) -> tuple[Array, Array]:
  """Draws a window: its first row and column, int32 [2], and the mask of its pixels, [H, W, 1]."""
  corner = jax.random.randint(key, (2,), 0, jnp.maximum(jnp.asarray(shape[:2]) - side, 1))
  row, column = jnp.arange(shape[0]) - corner[0], jnp.arange(shape[1]) - corner[1]
  rows, columns = (row >= 0) & (row < side), (column >= 0) & (column < side)
  return corner, (rows[:, None] & columns[None])[:, :, None]


def _windows(
  key: Array, image: Array, x: Array, size: tuple[Array, Array], epsilon: Scalar
) -> Array:
  """Proposes a window in which each channel changes by ±2ε."""
  place, signs = jax.random.split(key)
  _, mask = _window(place, image.shape, size[1])
  change = 2 * epsilon * jax.random.rademacher(signs, (1, 1, image.shape[2]), image.dtype)
  moved = jnp.clip(x + jnp.where(mask, change, 0), image - epsilon, image + epsilon)
  return jnp.clip(moved, 0, 1)


def halves(side: int) -> np.ndarray:
  """Returns the pattern η of the paper, [side, side] with the ℓ2 norm 1.

  It has two halves of opposite sign, one above the other. Each is a sum of nested rectangles; the
  k-th one has the weight 1 / k².
  """

  def nested(height: int) -> np.ndarray:
    distances = [np.abs(np.arange(size) - size // 2) for size in (height, side)]
    weights = 1.0 / np.arange(1, max(height, side) // 2 + 2) ** 2
    sums = np.append(weights[::-1].cumsum()[::-1], 0)  # over rectangle k and the larger ones
    rectangles = sums[np.maximum(distances[0][:, None], distances[1])]
    return rectangles / np.linalg.norm(rectangles)

  eta = np.concatenate([nested(side // 2), -nested(side - side // 2)])
  return (eta / np.linalg.norm(eta)).astype(np.float32)


def _patterns(shape: Sequence[int]) -> Array:
  """Returns the patterns η for each number of halvings, upright and transposed, [10, 2, 2M, 2M].

  M is the longer side of images. A pattern begins at (M, M) and is surrounded by zeros, so that its
  shift to any position in an image is a slice.
  """
  middle, all_sides = max(shape[:2]), sides(shape[:2], 3)
  table = np.zeros((len(all_sides), 2, 2 * middle, 2 * middle), np.float32)
  for pattern, side in zip(table, all_sides, strict=True):
    eta = halves(int(side))
    pattern[:, middle : middle + side, middle : middle + side] = eta, eta.T
  return jnp.asarray(table)


def _tiles(key: Array, image: Array, epsilon: Scalar) -> Array:
  """Returns the image with η in each of 5 × 5 tiles, with a random sign for each channel."""
  height, width, channels = image.shape
  side = max(1, height // TILES)
  first = (height - height // side * side) // 2
  counts = height // side, width // side
  key_signs, key_turns = jax.random.split(key)
  signs = jax.random.rademacher(key_signs, (*counts, 1, 1, channels), image.dtype)
  is_turned = jax.random.bernoulli(key_turns, shape=(*counts, 1, 1, 1))
  eta = jnp.asarray(halves(side))[None, None, :, :, None]
  tiles = signs * jnp.where(is_turned, eta.swapaxes(2, 3), eta)
  joined = tiles.transpose(0, 2, 1, 3, 4).reshape(counts[0] * side, counts[1] * side, channels)
  change = jnp.zeros((height + side, width + side, channels))
  change = change.at[first : first + len(joined), first : first + joined.shape[1]].set(joined)
  return _with_change(image, change[:height, :width], epsilon)


def _moved_mass(
  patterns: Array, key: Array, image: Array, x: Array, size: tuple[Array, Array], epsilon: Scalar
) -> Array:
  """Returns the proposal of algorithm 3, which moves the norm of the change between two windows.

  Args:
    patterns: see `_patterns`.
    key: random key.
    image: the clean image [H, W, C].
    x: the current image.
    size: the number of halvings, and the side of windows.
    epsilon: radius of the ball.
  """
  keys = jax.random.split(key, 4)
  corner, target = _window(keys[0], image.shape, size[1])
  _, source = _window(keys[1], image.shape, size[1])
  is_turned = jax.random.bernoulli(keys[2]).astype(jnp.int32)
  signs = jax.random.rademacher(keys[3], (1, 1, image.shape[2]), image.dtype)
  start = patterns.shape[-1] // 2 - corner
  pattern = jax.lax.dynamic_slice(patterns[size[0], is_turned], start, image.shape[:2])
  change = x - image

  def channel_norms(values: Array) -> Array:
    return jnp.sqrt((values**2).sum((0, 1), keepdims=True))

  old = jnp.where(target, change, 0)
  new = pattern[..., None] * signs + old / (1e-12 + channel_norms(old))
  unused = jnp.maximum(epsilon**2 - (change**2).sum(), 0) / image.shape[2]
  norm = jnp.sqrt(unused + channel_norms(jnp.where(target | source, change, 0)) ** 2)
  new = new / (1e-12 + channel_norms(new)) * norm
  return _with_change(image, jnp.where(target, new, jnp.where(source, 0, change)), epsilon)


def _with_change(image: Array, change: Array, epsilon: Scalar) -> Array:
  """Returns the image plus a change scaled to the ℓ2 length ε, clipped to [0, 1]."""
  return jnp.clip(image + epsilon * change / (jnp.linalg.norm(change.ravel()) + 1e-12), 0, 1)
