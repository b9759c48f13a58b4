"""Spatter: drops of water or splashes of mud on the lens, and the OpenCV operations it needs.

Planes are [H, W]; levels are integers 0..255.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.corruption import Strength, published
from robustness.corruptions.filters import gaussian_filter
from robustness.corruptions.names import UNLIKE_OTHERS
from robustness.corruptions.pixels import like_channels

WATER = np.array([175, 238, 238], np.float32) / 255
"""RGB colour of water in [0, 1]."""
MUD = np.array([63, 42, 20], np.float32) / 255
"""RGB colour of mud in [0, 1]."""
MUD_THRESHOLD = 0.8  # thinner mud is invisible
LOW, HIGH = 50, 150  # Canny's thresholds
TANGENT = int(np.floor((np.sqrt(2) - 1) * 2**15 + 0.5))  # 2^15 tan 22.5°
MAX_DISTANCE = 20  # greater distances are cut off
GUARD = 1e-4  # added before rounding down, so that a mean such as 2.9999999 becomes 3
# Steps (dy, dx) of the 5 x 5 chamfer mask, their lengths, and the number of doublings until a step
# reaches a length of 20.
STEPS = (
  *((step, 1.0, 5) for step in ((0, 1), (1, 0))),
  *((step, 1.4, 4) for step in ((1, 1), (1, -1))),
  *((step, 2.1969, 4) for step in ((1, 2), (1, -2), (2, 1), (2, -1))),
)


@published(UNLIKE_OTHERS, draw=lambda key, shape, constants: jax.random.normal(key, shape[:2]))
def spatter(noise: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Puts drops of water (`mud` = 0) or splashes of mud (`mud` = 1) on the image.

  Liquid is noise of mean `loc` and deviation `scale`, smoothed by `sigma` pixels, and visible above
  `threshold`. `brightness` is that of water, and `edge` the sigma in pixels that smooths the edges
  of mud. Each is published for its own liquid alone; severities of the other one repeat the nearest
  value. On a grey image, liquid has the grey value of its colour.
  """
  noise = (strength['loc'] + strength['scale'] * noise)[..., None]
  liquid = gaussian_filter(noise, strength['sigma'], strength.maximum('sigma'))[..., 0]
  threshold, max_edge = strength['threshold'], strength.maximum('edge')
  return jax.lax.cond(
    strength['mud'] > 0,
    lambda: _mud(image, liquid > threshold, strength['edge'], max_edge),
    lambda: _water(image, jnp.where(liquid < threshold, 0, liquid), strength['brightness']),
  )


def _mud(image: jax.Array, mask: jax.Array, sigma: jax.Array, max_sigma: float) -> jax.Array:
  """Returns an image with mud, clip(x (1 − m) + colour m, 0, 1).

  Args:
    image: x, [H, W, C].
    mask: where mud is, bool [H, W]. The opacity m is this mask, smoothed and set to 0 below .8.
    sigma: standard deviation of the smoothing in pixels.
    max_sigma: largest `sigma` of any severity.
  """
  cover = gaussian_filter(mask.astype(jnp.float32)[..., None], sigma, max_sigma)
  cover = jnp.where(cover < MUD_THRESHOLD, 0, cover)
  return jnp.clip(image * (1 - cover) + _colour(MUD, image) * cover, 0, 1)


def _water(image: jax.Array, liquid: jax.Array, strength: jax.Array) -> jax.Array:
  """Returns an image with drops of water: clip(x + strength · m / max m · colour, 0, 1).

  The light on the drops is m = l · `relief`(l), for the thickness l of the water in 8 bits.

  Args:
    image: x, [H, W, C].
    liquid: thickness of the water, [H, W]; 0 where there is none.
    strength: largest brightness of the drops.
  """
  # the generator stores the liquid in 8 bits, where rare values above 1 wrap around
  levels = jnp.floor(liquid * 255).astype(jnp.int32) % 256
  drops = (levels * relief(levels)).astype(jnp.float32)
  peak = drops.max()
  share = jnp.where(peak > 0, drops / jnp.where(peak > 0, peak, 1), 0) * strength
  return jnp.clip(image + share[..., None] * _colour(WATER, image), 0, 1)


def relief(levels: jax.Array) -> jax.Array:
  """Returns the light on the edges of a film of liquid, int32 [H, W] in 0..255.

  The distance of each pixel to the nearest Canny edge, at most 20 pixels, is averaged over 3 × 3
  pixels and rounded down; its histogram is equalised; the result is embossed and averaged again.

  Args:
    levels: thickness of the film in 8 bits, int32 [H, W].
  """
  mean_distance = mean3(distance_to(canny(levels)))
  # whole distances 0..20; GUARD keeps 2.9999999 from becoming 2
  distance = jnp.floor(mean_distance + GUARD).astype(jnp.int32)
  embossed = emboss(equalise(distance, MAX_DISTANCE + 1))
  return jnp.round(mean3(embossed)).astype(jnp.int32)


def _colour(colour: np.ndarray, image: jax.Array) -> jax.Array:
  """Returns a colour as [1, 1, C] with the same number of channels as an image."""
  return like_channels(jnp.asarray(colour)[None, None, :], image)


def canny(levels: jax.Array) -> jax.Array:
  """Returns Canny's edges, bool [H, W], of a plane of levels 0..255, int32 [H, W].

  Gradients are computed by Sobel masks, with the L1 norm. A pixel is a candidate if its gradient is
  above 50 and larger than the gradients of its two neighbours across the edge. It is an edge if a
  path of candidates connects it to a candidate with a gradient above 150.
  """
  size, down, right = _gradient(levels)
  candidates = _is_local_maximum(size, down, right) & (size > LOW)

  def grow(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Adds the candidates next to edges to the edges, for `lax.while_loop` of Canny's algorithm.

    `candidates`, bool [H, W], are pixels with a large gradient. They are edges if a path of
    candidates connects them to an edge.

    Args:
      state: (edges, edges before the last call), bool [H, W]. The loop ends when both are equal.

    Returns:
      The next state.
    """
    edges, _ = state
    padded = jnp.pad(edges, 1)
    tall = padded[:-2] | padded[1:-1] | padded[2:]
    return (tall[:, :-2] | tall[:, 1:-1] | tall[:, 2:]) & candidates, edges

  strong = candidates & (size > HIGH)
  start = strong, jnp.zeros_like(strong)
  edges, _ = jax.lax.while_loop(lambda state: (state[0] != state[1]).any(), grow, start)
  return edges


def _gradient(levels: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Computes the Sobel gradient of a plane of levels, with a replicated border.

  Args:
    levels: uint8 [H, W].

  Returns:
    (|dy| + |dx|, dy, dx), int32 [H, W] each, with dy down and dx to the right.
  """
  height, width = levels.shape
  padded = jnp.pad(levels.astype(jnp.int32), 1, mode='edge')
  tall = padded[:-2] + 2 * padded[1:-1] + padded[2:]  # weights 1, 2, 1 of three rows, [H, W + 2]
  wide = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]  # and of three columns, [H + 2, W]
  right, down = tall[:, 2:] - tall[:, :width], wide[2:] - wide[:height]
  return jnp.abs(right) + jnp.abs(down), down, right


def _is_local_maximum(size: jax.Array, down: jax.Array, right: jax.Array) -> jax.Array:
  """Returns where the gradient is larger than at both neighbours in its direction, bool [H, W].

  The direction is rounded to one of four: horizontal, vertical and two diagonals. Equal gradients
  are compared as OpenCV does, hence > and ≥.

  Args:
    size: the gradient's magnitude, int32 [H, W].
    down: vertical component, int32 [H, W].
    right: horizontal component, int32 [H, W].
  """
  padded = jnp.pad(size, 1)
  height, width = size.shape

  def neighbour(i: int, j: int) -> jax.Array:
    """Returns the magnitude at the pixel i rows below and j columns to the right of each pixel."""
    return padded[1 + i : 1 + i + height, 1 + j : 1 + j + width]

  # the angle of the gradient is below 22.5° if |down| < |right| tan 22.5°; both sides times 2¹⁵
  tall, wide = jnp.abs(down) << 15, jnp.abs(right) * TANGENT
  horizontal = (size > neighbour(0, -1)) & (size >= neighbour(0, 1))
  vertical = (size > neighbour(-1, 0)) & (size >= neighbour(1, 0))
  falling = (size > neighbour(-1, -1)) & (size > neighbour(1, 1))
  rising = (size > neighbour(-1, 1)) & (size > neighbour(1, -1))
  diagonal = jnp.where((down ^ right) < 0, rising, falling)  # < 0: components of opposite signs
  steep = tall > wide + (jnp.abs(right) << 16)  # above 67.5°, with tan 67.5° = tan 22.5° + 2
  return jnp.where(tall < wide, horizontal, jnp.where(steep, vertical, diagonal))


def _moves(stride: int) -> tuple[list[int], list[float]]:
  """Returns the moves from which `distance_to` builds all paths: (offsets, lengths in pixels).

  A move is a step in `STEPS`, such as a diagonal step, repeated 1, 2, 4, … times. These numbers add
  up to any number of repeats. The offset of a move is its difference of indices in an image that is
  flattened to one row.

  Args:
    stride: number of pixels in a row of the plane.
  """
  moves = [
    (2**doubling * (down * stride + right), 2**doubling * length)
    for (down, right), length, doublings in STEPS
    for doubling in range(doublings)
  ]
  return [offset for offset, _ in moves], [length for _, length in moves]


def distance_to(mask: jax.Array) -> jax.Array:
  """Returns the 5 × 5 chamfer distance to the nearest True pixel, at most 20; float32 [H, W].

  This is the length of the shortest path of steps to 16 neighbours: straight, diagonal and knight's
  steps. A shortest path needs at most two kinds of steps, in any order. Repeats of a step are sums
  of 1, 2, 4, … repeats (`_moves`). A sweep over all pixels for each of these moves therefore finds
  all paths.

  The plane is flattened, so that each move is an offset. After each row, 20 empty pixels keep paths
  from continuing in the next row.
  """
  height, width = mask.shape
  stride = width + MAX_DISTANCE
  move_offsets, move_lengths = _moves(stride)
  offsets, lengths = jnp.array(move_offsets), jnp.array(move_lengths)
  longest_offset = max(abs(offset) for offset in move_offsets)
  start = jnp.where(mask, 0.0, float(MAX_DISTANCE))
  # [H · stride], the rows one after another
  line = jnp.pad(start, ((0, 0), (0, MAX_DISTANCE)), constant_values=MAX_DISTANCE).reshape(-1)
  margin = jnp.full((longest_offset,), float(MAX_DISTANCE))
  # the barrier makes XLA store a slice in memory, which on a CPU is five times as fast
  stored = jax.lax.optimization_barrier

  def sweep(i: jax.Array, line: jax.Array) -> jax.Array:
    """Shortens distances by paths that begin with move i, or with its opposite.

    Args:
      i: index of a move in `move_offsets`.
      line: distance of each pixel from the edges so far, the rows one after another, [H · stride].
    """
    padded = stored(jnp.concatenate([margin, line, margin]))
    ahead = stored(jax.lax.dynamic_slice(padded, (longest_offset + offsets[i],), line.shape))
    behind = stored(jax.lax.dynamic_slice(padded, (longest_offset - offsets[i],), line.shape))
    return jnp.minimum(line, jnp.minimum(ahead, behind) + lengths[i])

  line = jax.lax.fori_loop(0, len(move_offsets), sweep, line)
  return line.reshape(height, stride)[:, :width]


def equalise(levels: jax.Array, count: int) -> jax.Array:
  """Returns a plane of levels after OpenCV's histogram equalisation, [H, W] in 0..255.

  Let c(l) be the number of pixels with levels up to l, and l₀ the lowest level in the plane. Level
  l becomes 255 (c(l) − c(l₀)) / (H·W − c(l₀)), rounded. A plane of a single level is returned
  unchanged.

  Args:
    levels: levels in 0..count − 1, [H, W].
    count: number of levels.
  """
  histogram = (levels[None] == np.arange(count)[:, None, None]).sum((1, 2))
  up_to = jnp.cumsum(histogram)  # number of pixels up to each level
  lowest = histogram[jnp.argmax(histogram > 0)]  # number of pixels of the lowest level
  above = levels.size - lowest
  scale = 255.0 / jnp.maximum(above, 1).astype(jnp.float32)
  table = jnp.round(jnp.maximum(up_to - lowest, 0).astype(jnp.float32) * scale).astype(jnp.int32)
  return jnp.where(above > 0, table[levels], levels)


def mean3(plane: jax.Array) -> jax.Array:
  """Returns the mean of the 3 × 3 pixels around each pixel of a plane, float32 [H, W].

  The plane is mirrored at its borders without repeating the edge pixel.
  """
  return _weighted_sum(plane, np.ones((3, 3), int)).astype(jnp.float32) / 9


def emboss(levels: jax.Array) -> jax.Array:
  """Returns levels correlated with 3 × 3 embossing weights, clipped to 0..255; int32 [H, W]."""
  weights = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
  return jnp.clip(_weighted_sum(levels, weights), 0, 255)


def _weighted_sum(plane: jax.Array, weights: np.ndarray) -> jax.Array:
  """Returns the correlation of an integer plane [H, W] with weights [3, 3], [H, W].

  The plane is mirrored at its borders without repeating the edge pixel.
  """
  height, width = plane.shape
  # a plane of one row or column has no second one to mirror, so that its only one is repeated
  padded = jnp.pad(plane, 1, mode='reflect' if min(plane.shape) > 1 else 'edge')
  total = jnp.zeros_like(plane)
  for i in range(3):
    for j in range(3):
      total = total + int(weights[i, j]) * padded[i : i + height, j : j + width]
  return total
