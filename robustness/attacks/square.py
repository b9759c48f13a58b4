"""Square Attack: a random search over square windows that uses logits but no gradient."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.attacks import Arguments, Array, Attack, Logits, Scalar, balls, margin
from robustness.attacks.in_turn import attack_in_turn
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

AREA = 0.8  # p of the paper, the share of the image that the first windows cover
HALVED_AFTER = np.array([10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000])
"""Numbers of steps after which the area of windows is halved."""
WEIGHTS = {'l2': 2, 'l1': 4}
"""Exponents p in the weight 1/k^p of rectangle k of the pattern η, see `two_halves_pattern`."""
TILES = 5
"""Number of tiles along a side in the first change in ℓ2 and ℓ1."""


@dataclasses.dataclass(frozen=True)
class Square(Attack):
  """Random search for a misclassified image by changes of square windows, without gradients.

  The result is the clean image if no misclassified one is found. A step proposes a change in a
  random window of each image, and accepts it if the margin grows: largest logit of a wrong class
  minus logit of the label. The windows shrink in the course of the steps.

  In ℓ∞ the search starts with vertical stripes of ±ε. A step moves each channel of a window by ±2ε,
  and clips the change to the ball.

  In ℓ2 and ℓ1 the search starts with a grid of tiles. A step removes the change in one window, and
  adds a change of the same norm in another window. The added pattern has two halves of opposite
  sign, each with a peak in the middle. In ℓ2 the entire change is then scaled to the length ε and
  clipped to [0, 1]. In ℓ1 the added norm is multiplied by the number of channels, as in the
  authors' code, and the entire change is projected onto the ball.

  Windows have corners and sizes as in the authors' code, and never reach the last row and column.
  Only in that code, the images of a batch share windows and signs in ℓ∞.

  Attributes:
    queries: number of steps after the first change. Windows shrink after fixed numbers of steps,
      whatever `queries` is.

  Reference:
    Andriushchenko et al. (2020), Square Attack: a query-efficient black-box adversarial attack via
    random search, algorithms 1 to 3. ℓ1: Croce & Hein (2021), Mind the box: l1-APGD for sparse
    adversarial attacks on image classifiers, section 4.
  """

  norms = balls.NORMS
  resembles = (NOISE,)
  in_turn = True
  queries: int = setting(5000, 'at least 1', lambda x: x >= 1)

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the adversarial images, [B, H, W, C]; for the arguments see `Attack.__call__`."""
    return attack_in_turn(self.run, 1, Arguments(keys, logits, images, labels, scale))

  def run(self, number: Array, arguments: Arguments) -> Array:
    """Returns the images of largest margin that the search finds, [B, H, W, C].

    The search ends early when all images are misclassified.

    Args:
      number: not used, since there is only one run.
      arguments: the arguments of the attack.
    """
    keys, logits, images, labels, scale = arguments
    epsilon, shape = scale * self.epsilon, images.shape[1:]
    # functions that return the first changed image, and the image that a later step proposes
    if self.norm == 'linf':
      initial, propose, smallest_window = _stripes, _linf_proposal, 1
    else:
      initial = functools.partial(_initial_tiles, self.norm)
      propose = functools.partial(_l2_or_l1_proposal, self.norm, _patterns(shape, self.norm))
      smallest_window = 3
    window_sides = jnp.asarray(sides(shape[:2], smallest_window))  # by number of halvings

    def step_keys(number: Array | int) -> Array:
      """Returns random keys [B] for a step, or for the start of the search if `number` is 0."""
      return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
      """Takes one step of random search, for `lax.while_loop`.

      Each image is changed in a random window (`propose`); windows shrink with the number of steps.
      The change is kept if it increases the image's margin, which is 0 or above for an image that
      is misclassified.

      Args:
        state: number of completed steps; images x, [B, H, W, C]; their margins, [B].
      """
      steps, x, margins = state
      halvings = jnp.searchsorted(HALVED_AFTER, steps)  # of the area of the window, so far
      proposed = jax.vmap(propose, (0, 0, 0, None, None, None))(
        step_keys(steps + 1), images, x, halvings, window_sides[halvings], epsilon
      )
      new_margins = margin(logits(proposed), labels)
      # a wrong image, of margin 0 or above, is final
      is_better = (new_margins > margins) & (margins < 0)
      x = jnp.where(balls.as_image_factors(is_better), proposed, x)
      return steps + 1, x, jnp.where(is_better, new_margins, margins)

    def continues(state: tuple[Array, Array, Array]) -> Array:
      """Returns whether steps remain and an image is still classified correctly."""
      steps, _, margins = state
      return (steps < self.queries) & (margins < 0).any()

    x = jax.vmap(initial, (0, 0, None))(step_keys(0), images, epsilon)
    state = jnp.int32(0), x, margin(logits(x), labels)
    _, x, _ = jax.lax.while_loop(continues, step, state)
    return x


def sides(shape: Sequence[int], smallest: int) -> np.ndarray:
  """Returns the side of the square windows after 0 to 9 halvings of their area, int32 [10].

  The first window covers 80 % of the image.

  Args:
    shape: height and width of the image in pixels.
    smallest: least side in pixels: 1 in ℓ∞, or 3 in ℓ2 and ℓ1, where sides are also made odd.
  """
  areas = AREA / 2.0 ** np.arange(len(HALVED_AFTER) + 1) * math.prod(shape)
  rounded = np.maximum(np.round(np.sqrt(areas)).astype(np.int32), smallest)
  if smallest == 3:
    rounded |= 1  # adds 1 to even sides
  return np.minimum(rounded, min(shape))


def _stripes(key: Array, image: Array, epsilon: Scalar) -> Array:
  """Returns an image [H, W, C] changed by ±ε, with one random sign per column and channel."""
  signs = jax.random.rademacher(key, (1, *image.shape[1:]), image.dtype)
  return jnp.clip(image + epsilon * signs, 0, 1)


def _draw_window(key: Array, shape: Sequence[int], side: Array) -> tuple[Array, Array]:
  """Draws a random square window in an image.

  The window never reaches the last row and column, as in the authors' code.

  Args:
    key: random key.
    shape: shape of the image, [H, W, C].
    side: side of the window in pixels.

  Returns:
    (first row and column, int32 [2]; mask of the pixels in the window, bool [H, W, 1]).
  """
  corner = jax.random.randint(key, (2,), 0, jnp.maximum(jnp.asarray(shape[:2]) - side, 1))
  row, column = jnp.arange(shape[0]) - corner[0], jnp.arange(shape[1]) - corner[1]
  is_row, is_column = (row >= 0) & (row < side), (column >= 0) & (column < side)
  return corner, (is_row[:, None] & is_column[None])[:, :, None]


def _linf_proposal(
  key: Array, image: Array, x: Array, halvings: Array, side: Array, epsilon: Scalar
) -> Array:
  """Returns a proposal in ℓ∞, the image `x` with each channel of a window moved by ±2ε.

  The proposal stays in the ball around the clean image.

  Args:
    key: random key.
    image: the clean image [H, W, C].
    x: the current image [H, W, C].
    halvings: not used.
    side: side of the window in pixels.
    epsilon: radius ε of the ball.
  """
  key_window, key_signs = jax.random.split(key)
  _, mask = _draw_window(key_window, image.shape, side)
  change = 2 * epsilon * jax.random.rademacher(key_signs, (1, 1, image.shape[2]), image.dtype)
  moved = jnp.clip(x + jnp.where(mask, change, 0), image - epsilon, image + epsilon)
  return jnp.clip(moved, 0, 1)


def two_halves_pattern(side: int, norm: str) -> np.ndarray:
  """Returns the pattern η of the paper, [side, side], of length 1 in the norm 'l2' or 'l1'.

  The pattern has two halves of opposite sign, one above the other. Each half is a sum of nested
  rectangles around its middle. The k-th smallest rectangle has the weight 1/k² ('l2') or 1/k⁴
  ('l1').
  """

  def scaled(pattern: np.ndarray) -> np.ndarray:
    """Returns a pattern divided by its norm."""
    return pattern / np.linalg.norm(pattern.ravel(), balls.ORDERS[norm])

  def nested(height: int) -> np.ndarray:
    """Returns one half of the pattern η: weighted nested rectangles, of norm 1, [height, side].

    Pixels that are at most k − 1 rows and columns from the middle are in rectangle k, which has the
    weight 1/k² ('l2') or 1/k⁴ ('l1'). A pixel has the sum of the weights of all rectangles that
    contain it.
    """
    # distances from the middle
    rows_away = np.abs(np.arange(height) - height // 2)[:, None]
    columns_away = np.abs(np.arange(side) - side // 2)
    num_rectangles = max(height, side) // 2 + 1
    weights = 1.0 / np.arange(1, num_rectangles + 1) ** WEIGHTS[norm]
    # A pixel at most k rows and columns from the middle is in rectangle k + 1 and in all larger
    # ones; entry k is the sum of their weights.
    sums = weights[::-1].cumsum()[::-1]
    return scaled(sums[np.maximum(rows_away, columns_away)])

  eta = np.concatenate([nested(side // 2), -nested(side - side // 2)])
  return scaled(eta).astype(np.float32)


def _patterns(shape: Sequence[int], norm: str) -> Array:
  """Returns the pattern η for every size of window, in the middle of an array of zeros.

  An image with the pattern at any position is a slice of this array.

  Args:
    shape: shape of the image, [H, W, C].
    norm: 'l2' or 'l1'.

  Returns:
    float32 [10, 2, 2M, 2M], where M is the longer side of the image. The first axis counts halvings
    of the window's area from 0 to 9. The second axis has η and its transpose. The pattern starts at
    pixel (M, M).
  """
  middle, all_sides = max(shape[:2]), sides(shape[:2], smallest=3)  # `middle` is M
  table = np.zeros((len(all_sides), 2, 2 * middle, 2 * middle), np.float32)
  for pattern, side in zip(table, all_sides, strict=True):
    eta = two_halves_pattern(int(side), norm)
    pattern[:, middle : middle + side, middle : middle + side] = eta, eta.T
  return jnp.asarray(table)


def _initial_tiles(norm: str, key: Array, image: Array, epsilon: Scalar) -> Array:
  """Returns the start of the search in ℓ2 or ℓ1, the image plus a grid of tiles, [H, W, C].

  Each tile has the pattern η or its transpose at random, with a random sign for each channel. The
  grid has 5 tiles from top to bottom, or more in small images, and is centred vertically.
  The number of rows above it is also the number of columns before it, as in the authors' code, so
  that it is not centred horizontally. Parts outside the image are cut off.
  """
  height, width, channels = image.shape
  side = max(1, height // TILES)
  num_down, num_across = height // side, width // side  # tiles
  offset = (height - num_down * side) // 2
  key_signs, key_transposed = jax.random.split(key)
  signs = jax.random.rademacher(key_signs, (num_down, num_across, 1, 1, channels), image.dtype)
  is_transposed = jax.random.bernoulli(key_transposed, shape=(num_down, num_across, 1, 1, 1))
  eta = jnp.asarray(two_halves_pattern(side, norm))[None, None, :, :, None]
  # [tiles down, tiles across, side, side, channels], then joined to [rows, columns, channels]
  tiles = signs * jnp.where(is_transposed, eta.swapaxes(2, 3), eta)
  rows, columns = num_down * side, num_across * side
  joined = tiles.transpose(0, 2, 1, 3, 4).reshape(rows, columns, channels)
  # with room for what exceeds the image
  change = jnp.zeros((height + side, width + side, channels))
  change = change.at[offset : offset + rows, offset : offset + columns].set(joined)
  return _with_change(norm, image, change[:height, :width], epsilon)


def _l2_or_l1_proposal(
  norm: str,
  patterns: Array,
  key: Array,
  image: Array,
  x: Array,
  halvings: Array,
  side: Array,
  epsilon: Scalar,
) -> Array:
  """Returns the image that a step in ℓ2 or ℓ1 proposes, [H, W, C] (algorithm 3).

  The change x − image is removed in one random window, and its norm is added in another one. There
  the new change is the old change, scaled to length 1, plus the pattern η with a random sign for
  each channel. This sum is then scaled to its new norm.

  Args:
    norm: 'l2' or 'l1'.
    patterns: the pattern η for all window sizes, [10, 2, 2M, 2M], from `_patterns`.
    key: random key.
    image: the clean image [H, W, C].
    x: the current image [H, W, C].
    halvings: number of halvings of the window's area so far, int32 scalar.
    side: side of the windows in pixels, int32 scalar.
    epsilon: radius ε of the ball.
  """
  key_target, key_source, key_transposed, key_signs = jax.random.split(key, 4)
  channels = image.shape[2]
  corner, target = _draw_window(key_target, image.shape, side)
  _, source = _draw_window(key_source, image.shape, side)
  is_transposed = jax.random.bernoulli(key_transposed).astype(jnp.int32)
  signs = jax.random.rademacher(key_signs, (1, 1, channels), image.dtype)
  # In `patterns` the pattern begins at pixel (M, M). In the slice from M − corner it therefore
  # begins at `corner`.
  start = patterns.shape[-1] // 2 - corner
  pattern = jax.lax.dynamic_slice(patterns[halvings, is_transposed], start, image.shape[:2])
  change = x - image
  p = int(balls.ORDERS[norm])

  def channel_norms(values: Array) -> Array:
    """Returns the ℓ2 or ℓ1 norm of each channel of an array [H, W, C], as [1, 1, C]."""
    return jnp.linalg.norm(values.reshape(1, -1, values.shape[2]), p, 1, keepdims=True)

  # the direction of the new change in the target
  old = jnp.where(target, change, 0)
  direction = pattern[..., None] * signs + old / (1e-12 + channel_norms(old))
  # Its length in each channel. Norms to the power of p add up over pixels: a channel gets the power
  # of both windows together, and an equal share of the power that is left to a change of length ε.
  unused = jnp.maximum(epsilon**p - (jnp.abs(change) ** p).sum(), 0) / channels
  powers = unused + channel_norms(jnp.where(target | source, change, 0)) ** p
  # in ℓ1 the authors' code multiplies by the number of channels, see `Square`
  lengths = jnp.sqrt(powers) if norm == 'l2' else channels * powers
  new = direction / (1e-12 + channel_norms(direction)) * lengths
  proposed = jnp.where(target, new, jnp.where(source, 0, change))
  return _with_change(norm, image, proposed, epsilon)


def _with_change(norm: str, image: Array, change: Array, epsilon: Scalar) -> Array:
  """Returns the image plus a change of norm at most ε, clipped to [0, 1].

  The change is scaled to the length ε ('l2') or projected onto the ball of radius ε ('l1').
  """
  if norm == 'l1':
    return balls.clipped(image[None], change[None], norm, epsilon)[0]
  return jnp.clip(image + epsilon * change / (jnp.linalg.norm(change.ravel()) + 1e-12), 0, 1)
