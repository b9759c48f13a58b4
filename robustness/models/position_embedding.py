"""Resamples position embeddings of vision transformers for images of another size.

The embeddings of the patches form a grid, which is resampled like an image; the embedding of the
class token is unchanged. Projects resample in different ways. Bicubic interpolation uses Keys'
kernel with a parameter a:

* `bicubic`, of timm and open_clip: a = -1/2; pixel centres are at half integers, and the kernel is
  widened for a smaller grid, as for antialiasing;
* `bilinear`, of big_vision and vision_transformer: linear, and the corners of the grid stay fixed;
* `bicubic_pytorch`, of transformers: a = -3/4; borders are repeated, and the kernel is never wider;
* `bicubic_dinov2`, of DINOv2's authors: `bicubic_pytorch` with a step of old ÷ (new + .1) pixels
  instead of old ÷ new.

Swin has a bias for each offset between two patches of a window. These tables are resampled by
`bicubic_pytorch`, as by Swin's authors, or, for `bicubic`, as in timm: linearly, between old
offsets at distances that grow geometrically from the centre.

References: Dosovitskiy et al., An Image is Worth 16x16 Words, 2021, section 3.2; Keys, Cubic
Convolution Interpolation for Digital Image Processing, 1981, equation 4 (with a = -1/2).
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from robustness.core.errors import KEYS
from robustness.core.settings import choice
from robustness.models.naming import Path

BICUBIC = 'bicubic'
"""The default method of resampling."""
PATH: Path = ('params', 'embedding', 'position')
"""The path of the position embedding in the variables of a vision transformer."""
WINDOW_BIAS = 'window_bias'
"""The name of the tables of biases by offset in the variables of a Swin Transformer."""
Grid = tuple[int, int]
"""Rows and columns of patches."""


def is_resampled(paths: Iterable[Path]) -> bool:
  """Returns whether a network has position embeddings that depend on the image size.

  Args:
    paths: paths of the network's variables.
  """
  return any(path == PATH or path[-1] == WINDOW_BIAS for path in paths)


def resample(
  position: np.ndarray, stored: Grid, grid: Grid, method: str = BICUBIC, before: int = 1
) -> np.ndarray:
  """Resamples a position embedding to another grid of patches.

  Args:
    position: embedding [1, before + rows · columns, width].
    stored: rows and columns of the grid of `position`.
    grid: rows and columns of the new grid.
    method: interpolation, one of `METHODS`, such as 'bicubic'.
    before: number of positions before the first patch: 1 with a class token, else 0.

  Returns:
    Embedding [1, before + new rows · new columns, width].

  Raises:
    InputError: the method is unknown.
  """
  choice('config.classifier.positions', method, METHODS)
  patches = position[0, before:].reshape(*stored, -1).astype(np.float64)
  row_weights, column_weights = map(_WEIGHTS[method], stored, grid)  # [new, stored] each
  new = np.einsum('ri,ijw,cj->rcw', row_weights, patches, column_weights, optimize=True)
  flat = new.reshape(grid[0] * grid[1], -1).astype(np.float32)
  return np.concatenate([position[:, :before], flat[None]], axis=1)


def stored_side(count: int, before: int) -> int:
  """Returns the side of the square grid of patches of a position embedding.

  Args:
    count: number of all positions.
    before: number of positions before the first patch: 1 with a class token, else 0.

  Returns:
    The side, or 0 if `count` − `before` is not a square number.
  """
  side = math.isqrt(max(count - before, 0))
  return side if side * side + before == count else 0


def resample_window(table: np.ndarray, num_offsets: int, method: str = BICUBIC) -> np.ndarray:
  """Resamples Swin's table of position biases for windows of another size.

  Each row has the biases of all attention heads for one offset (down, right) between two patches.

  Args:
    table: biases [n², heads]. Windows of w × w patches have n = 2 w − 1 offsets per direction.
    num_offsets: number of offsets per direction in the new windows.
    method: 'bicubic' or 'bicubic_pytorch'.

  Returns:
    Biases [num_offsets², heads].

  Raises:
    InputError: the method is unknown.
  """
  methods = {BICUBIC: _stretched_weights, 'bicubic_pytorch': _pytorch_weights}
  choice(f"{KEYS.classifier.positions} of Swin's windows", method, tuple(methods))
  num_stored = math.isqrt(len(table))
  weights = methods[method](num_stored, num_offsets)
  stored = table.reshape(num_stored, num_stored, -1).astype(np.float64)  # [down, right, heads]
  resampled = np.einsum('ri,ijh,cj->rch', weights, stored, weights, optimize=True)
  return resampled.reshape(num_offsets**2, -1).astype(np.float32)


def _stretched_weights(old: int, new: int) -> np.ndarray:
  """Returns a matrix [new, old] that interpolates biases along one axis of Swin's windows.

  Entry i of a vector of n biases is for the offset i − (n − 1) / 2 between two patches. Old offsets
  are first spread over the range of the new ones. The distance between neighbours grows from the
  centre outwards by a constant factor in 1.01..1.5. Biases at the new offsets are then interpolated
  linearly. This is timm's method.

  Args:
    old: number of old offsets, odd.
    new: number of new offsets, odd.
  """
  num_positive = old // 2  # number of old offsets above 0
  low, high = 1.01, 1.5
  while high - low > 1e-6:  # bisection, until the outermost old offset is at the outermost new one
    factor = (low + high) / 2
    outermost = (factor**num_positive - 1) / (factor - 1)  # 1 + … + factor^(num_positive − 1)
    is_too_large = outermost > new // 2
    low, high = (low, factor) if is_too_large else (factor, high)
  positive = np.cumsum(factor ** np.arange(num_positive))
  old_offsets = np.concatenate([-positive[::-1], [0.0], positive])
  new_offsets = np.arange(new) - new // 2
  # column i is the interpolation of a bias of 1 at old offset i and 0 at all others
  return np.stack([np.interp(new_offsets, old_offsets, row) for row in np.eye(old)], axis=1)


def _keys_kernel(distance: np.ndarray, a: float) -> np.ndarray:
  """Returns Keys' bicubic kernel at distances from its centre.

  Args:
    distance: distances in pixels, ≥ 0. The kernel is 0 at distances of 2 and more.
    a: parameter of the kernel, usually −0.5 or −0.75.
  """
  near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
  far = a * (((distance - 5) * distance + 8) * distance - 4)
  return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _bicubic_weights(old: int, new: int) -> np.ndarray:
  """Returns the matrix [new, old] that resamples values along an axis bicubically.

  Row i has the weights of the old positions in the new position i. They are Keys' kernel of the
  distance, which is widened if there are fewer new positions.

  Args:
    old: number of old positions.
    new: number of new positions.
  """
  scale = old / new  # above 1 for a smaller grid, for which the kernel is widened
  centres = (np.arange(new) + 0.5) * scale
  distance = np.abs(np.arange(old)[None] + 0.5 - centres[:, None]) / max(scale, 1.0)
  weights = _keys_kernel(distance, -0.5)
  return weights / weights.sum(1, keepdims=True)


def _pytorch_weights(old: int, new: int, offset: float = 0.0) -> np.ndarray:
  """Returns the matrix [new, old] that resamples values along an axis as PyTorch's 'bicubic'.

  Args:
    old: number of old positions.
    new: number of new positions.
    offset: number in the step between new positions, old ÷ (new + offset): 0 for 'bicubic_pytorch',
      0.1 for 'bicubic_dinov2', as in DINOv2's code.
  """
  step = old / (new + offset)
  centres = (np.arange(new) + 0.5) * step - 0.5  # new positions on the axis of old ones
  # each new position takes four old ones, [new, 4]; those beyond a border repeat the border
  neighbors = np.floor(centres)[:, None] + np.arange(-1, 3)[None]
  kernel = _keys_kernel(np.abs(neighbors - centres[:, None]), -0.75)
  weights = np.zeros((new, old))
  columns = np.clip(neighbors, 0, old - 1).astype(int)
  # unlike +=, `add.at` sums the weights of neighbours that are the same border
  np.add.at(weights, (np.arange(new)[:, None], columns), kernel)
  return weights


def _bilinear_weights(old: int, new: int) -> np.ndarray:
  """Returns the matrix [new, old] that interpolates values along an axis linearly.

  The first and the last value stay fixed.

  Args:
    old: number of old positions.
    new: number of new positions.
  """
  centres = np.linspace(0, old - 1, new) if new > 1 else np.zeros(1)
  return np.maximum(0.0, 1 - np.abs(np.arange(old)[None] - centres[:, None]))


_WEIGHTS: Mapping[str, Callable[[int, int], np.ndarray]] = {
  BICUBIC: _bicubic_weights,
  'bilinear': _bilinear_weights,
  'bicubic_pytorch': _pytorch_weights,
  'bicubic_dinov2': functools.partial(_pytorch_weights, offset=0.1),
}
METHODS = tuple(_WEIGHTS)
