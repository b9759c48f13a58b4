"""Position embeddings of vision transformers for images of another size than the weights' own.

The embeddings of the patches lie on a grid, which is resampled like a picture; that of the class
token stays. Two ways are in use and disagree: timm and open_clip resample bicubically, with half a
pixel at the borders and a wider kernel where the grid shrinks; big_vision and vision_transformer
interpolate linearly between corners that stay where they are.

References: Dosovitskiy et al., An Image is Worth 16x16 Words, 2021, section 3.2; Keys, Cubic
Convolution Interpolation for Digital Image Processing, 1981, equation 4 with a = -1/2.
"""

import math

import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.models.naming import Path

BICUBIC, BILINEAR = METHODS = ('bicubic', 'bilinear')
PATH: Path = ('params', 'embedding', 'position')
Grid = tuple[int, int]


def resample(position: np.ndarray, grid: Grid, method: str = BICUBIC) -> np.ndarray:
  """Returns the embedding [1, 1 + side², width], that of the class token first, for another grid of
  rows and columns of patches.

  Raises:
    InputError: an unknown method, or positions that are no square grid and a class token.
  """
  choice('config.classifier.positions', method, METHODS)
  side = stored_side(position.shape[1])
  if not side:
    raise InputError(f'{position.shape[1]} positions are no square grid and a class token')
  patches = position[0, 1:].reshape(side, side, -1).astype(np.float64)
  weights = _bicubic_weights if method == BICUBIC else _bilinear_weights
  rows, columns = (weights(side, new) for new in grid)
  new = np.einsum('ri,ijw,cj->rcw', rows, patches, columns, optimize=True)
  flat = new.reshape(grid[0] * grid[1], -1).astype(np.float32)
  return np.concatenate([position[:, :1], flat[None]], axis=1)


def stored_side(count: int) -> int:
  """Returns the side of the square grid of `count` positions less a class token; 0 if none."""
  side = math.isqrt(max(count - 1, 0))
  return side if side * side + 1 == count else 0


def _bicubic_weights(old: int, new: int) -> np.ndarray:
  """Returns the matrix [new, old] of Keys' kernel, as wide as a new pixel if that is the wider."""
  scale = old / new
  centres = (np.arange(new) + 0.5) * scale
  distance = np.abs(np.arange(old)[None] + 0.5 - centres[:, None]) / max(scale, 1.0)
  near = (1.5 * distance - 2.5) * distance**2 + 1
  far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
  weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
  return weights / weights.sum(1, keepdims=True)


def _bilinear_weights(old: int, new: int) -> np.ndarray:
  """Returns the matrix [new, old] that is linear between old pixels, first and last kept."""
  places = np.linspace(0, old - 1, new) if new > 1 else np.zeros(1)
  return np.maximum(0.0, 1 - np.abs(np.arange(old)[None] - places[:, None]))
