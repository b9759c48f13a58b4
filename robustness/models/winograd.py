"""Winograd's minimal filtering, F(4 × 4, 3 × 3), for convolutions of many channels on a CPU.

4 × 4 outputs y of a tile d of 6 × 6 inputs and a 3 × 3 filter g take 36 products in place of 144,

  y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A,

with element-wise products ⊙, and sums over channels are 36 matrix products. The gradient by the
filter, with the same tiles, is

  ∂L/∂g = Gᵀ [Σ over tiles (Bᵀ d B) ⊙ (A ∂L/∂y Aᵀ)] G.

Strides are 1, padding is 1 on every side, arithmetic is float32. Results differ from XLA's by
rounding, about 1e-5 of the largest result.

Source: Lavin and Gray (2016), Fast Algorithms for Convolutional Neural Networks, section 4.
"""

import functools
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

B = np.array(
  [
    [4, 0, 0, 0, 0, 0],
    [0, -4, 4, -2, 2, 4],
    [-5, -4, -4, -1, -1, 0],
    [0, 1, -1, 2, -2, -5],
    [1, 1, 1, 1, 1, 0],
    [0, 0, 0, 0, 0, 1],
  ]
)
G = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24
A = np.array(
  [[1, 0, 0, 0], [1, 1, 1, 1], [1, -1, 1, -1], [1, 2, 4, 8], [1, -2, 4, -8], [0, 0, 0, 1]]
)
SIDE, INNER = A.shape
"""The side of a tile of inputs, 6, and of its outputs, 4; tiles of inputs overlap."""
PRODUCTS = SIDE**2
"""The number of entries of a transformed tile, and of products per tile and pair of channels."""


def transformed(kernel: jax.Array) -> jax.Array:
  """Returns Winograd's transformation G g Gᵀ of the filters g of a 3×3 kernel, for `convolved`.

  G is the matrix `G`, [6, 3].

  Args:
    kernel: kernel [3, 3, I, O].

  Returns:
    [36, I, O], the 6 × 6 entries of each transformed filter.
  """
  return _both_sides(G, kernel).reshape(PRODUCTS, *kernel.shape[2:])


def convolved(
  inputs: jax.Array, kernel: jax.Array, precision: lax.PrecisionLike, channel_axis: int = 1
) -> jax.Array:
  """Computes a 3×3 convolution by Winograd's minimal filtering, F(4×4, 3×3).

  An image is cut into overlapping tiles of 6 × 6 inputs, each for 4 × 4 outputs. The outputs of a
  tile d for a filter g are Aᵀ m A with m = (G g Gᵀ) ⊙ (Bᵀ d B), where A [6, 4], B [6, 6] and
  G [6, 3] are the module's constants. m is summed over input channels, so each of its 36 entries
  is a matrix product over channels.

  Args:
    inputs: images [..., H, W, I].
    kernel: the 36 entries of G g Gᵀ for each pair of channels, [36, I, O], from `transformed`.
    precision: precision of the matrix products.
    channel_axis: axis of `kernel` with the channels of `inputs`: 1 for a convolution, 2 for its
      gradient with respect to inputs. With 2, `inputs` are gradients [..., H, W, O].

  Returns:
    Outputs [..., H, W, O], or gradients [..., H, W, I] if `channel_axis` is 2.
  """
  # Bᵀ d B of each tile d of 6 × 6 inputs, [36, ..., tiles down, tiles right, channels]
  tiles = _tiles(inputs, B.T, border=1)
  # m: for each of the 36 entries, a matrix product over the channels
  summed_axes = (tiles.ndim - 1,), (channel_axis,)
  shared_axes = (0,), (0,)
  products = lax.dot_general(tiles, kernel, (summed_axes, shared_axes), precision=precision)
  # Aᵀ m sums over the first axis of m, [6, 6, ..., tiles down, tiles right, O], and A over the
  # second. The two new axes of length 4 are put where the pixels of an image need them:
  # [..., tiles down, 4, tiles right, 4, O].
  m = products.reshape(SIDE, SIDE, *products.shape[1:])
  outputs = _combined(A.T, _combined(A.T, m, -3), -2)
  down, inner, right, _, channels = outputs.shape[-5:]
  image = outputs.reshape(*outputs.shape[:-5], down * inner, right * inner, channels)
  return image[..., : inputs.shape[-3], : inputs.shape[-2], :]  # without the padding of tiles


def tile_products(inputs: jax.Array, change: jax.Array, precision: lax.PrecisionLike) -> jax.Array:
  """Computes Σ (Bᵀ d B) ⊙ (A c Aᵀ) over images and tiles, for the gradient of a kernel.

  d is a tile of 6 × 6 inputs, and c the gradient with respect to its 4 × 4 outputs.
  The sums are separate for S parts of the images, and `kernel_gradient` takes their sum over S.

  Args:
    inputs: inputs of the convolution, [S, B, H, W, I].
    change: gradient of a loss with respect to its outputs, [S, B, H, W, O].
    precision: precision of the matrix products.

  Returns:
    [36, S, I, O].
  """
  input_tiles, change_tiles = _tiles(inputs, B.T, border=1), _tiles(change, A, border=0)
  summed = (2, 3, 4)  # images and tiles, of [36, S, B, tiles down, tiles right, channels]
  axes = (summed, summed), ((0, 1), (0, 1))
  return lax.dot_general(input_tiles, change_tiles, axes, precision=precision)


def kernel_gradient(products: jax.Array) -> jax.Array:
  """Maps sums s of `tile_products` to the gradient Gᵀ s G of a kernel, [3, 3, I, O].

  Args:
    products: results of `tile_products`, summed over S, [36, I, O].
  """
  return _both_sides(G.T, products.reshape(SIDE, SIDE, *products.shape[1:]))


def _tiles(x: jax.Array, matrix: np.ndarray, border: int) -> jax.Array:
  """Cuts images into tiles d and transforms each tile to M d Mᵀ.

  Args:
    x: images [..., H, W, C].
    matrix: M, [6, side of a tile in pixels].
    border: number of pixels outside the image at which the first tile begins. Tiles begin 4 pixels
      apart.

  Returns:
    [36, ..., ⌈H / 4⌉, ⌈W / 4⌉, C], with the 6 × 6 entries of M d Mᵀ as the first axis.
  """
  # M combines first the rows of each tile, from [..., H, W, C] to [6, ..., tiles down, W, C], and
  # then its columns. The new first axis has moved W from axis ndim − 2 to ndim − 1 by then.
  for axis in (x.ndim - 3, x.ndim - 1):
    num_tiles = -(-x.shape[axis] // INNER)
    pads = [(0, 0)] * x.ndim
    pads[axis] = border, INNER * num_tiles + border - x.shape[axis]
    padded = jnp.pad(x, pads)
    last = INNER * (num_tiles - 1)  # the first pixel of the last tile
    pixels = [  # pixel i of every tile; tiles are `INNER` pixels apart
      lax.slice_in_dim(padded, i, last + i + 1, INNER, axis) for i in range(matrix.shape[1])
    ]
    x = _combined(matrix, pixels)
  # the first axis is of the columns of M d Mᵀ, the second of its rows
  return x.swapaxes(0, 1).reshape(PRODUCTS, *x.shape[2:])


def _both_sides(matrix: np.ndarray, x: jax.Array) -> jax.Array:
  """Returns M x Mᵀ for the matrices x in the first two axes of an array.

  Args:
    matrix: M.
    x: array with the matrices, [columns of M, columns of M, ...].
  """
  return _combined(matrix, _combined(matrix, x).swapaxes(0, 1)).swapaxes(0, 1)


def _combined(matrix: np.ndarray, arrays: Iterable[jax.Array], axis: int = 0) -> jax.Array:
  """Returns linear combinations of a few arrays, Σ_j matrix[i, j] · arrays[j] for all i.

  The few terms are added one by one, which is faster than a small matrix product.

  Args:
    matrix: the factors, [combinations, arrays].
    arrays: arrays of equal shape.
    axis: axis of the result along which the combinations are stacked.
  """
  sums = []
  for row in matrix:
    terms = [float(factor) * array for factor, array in zip(row, arrays, strict=True) if factor]
    sums.append(functools.reduce(jnp.add, terms))
  return jnp.stack(sums, axis)
