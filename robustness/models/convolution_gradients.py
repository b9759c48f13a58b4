"""Convolutions with gradients that are fast on a CPU.

XLA's gradient by the filter transposes both operands, together with all element-wise operations
before them, which takes half of a training step of ResNet-20 on a CPU. Here the gradient by the
kernel W of y = x ∗ W, with stride s, is computed from patches of the input,

  ∂L/∂W[u, v, i, o] = Σ over images and output positions p of  x[s·p + (u, v), i] · ∂L/∂y[p, o],

which is a matrix product of ∂L/∂y with the patches. It takes a few images at a time, so that their
patches fit a core's cache.

The gradient by the input is a convolution of ∂L/∂y with the kernel, flipped and with its input and
output channels exchanged. JAX exchanges channels by naming the dimensions in another order. For
this order XLA only has nested loops if it moves the flip out of a loop, which takes 8 to 12 times
as long (docs/records/benchmarks.md). Here a transpose exchanges the channels.

3 × 3 convolutions with many channels use Winograd's algorithm (`winograd`) in the forward pass and
both gradients, if a gradient is taken. A forward pass alone is XLA's, which compiles sooner, and so
is everything on an accelerator.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from robustness.core.host import usable_cores
from robustness.models import winograd

DIMENSIONS = ('NHWC', 'HWIO', 'NHWC')
"""The order of the axes of inputs, kernel and outputs, for `lax.conv_general_dilated`."""
PATCH_BYTES = 5 * 2**18
"""Largest size of the patches of a product: two images of 32 × 32 × 16 by 3 × 3 in float32."""

TILE_BYTES = 3 * 2**20
"""Largest size of Winograd's transformed tiles of inputs and outputs for each core."""

MIN_CHANNELS, MAX_FILTERS_PER_PLACE = 8, 6
"""Least number of input channels, and largest number of filters per output position, for which the
gradient is computed from patches."""

WINOGRAD_CHANNELS, WINOGRAD_PAIRS, WINOGRAD_SIDE = 64, (2**14, 2**17), 7
"""Limits within which Winograd's algorithm is used: least number of input and of output channels,
range of their product, and least side of the images in pixels."""

_convolve = functools.partial(lax.conv_general_dilated, dimension_numbers=DIMENSIONS)


def convolution(
  inputs: jax.Array,
  kernel: jax.Array,
  strides: Sequence[int],
  padding: str | Sequence[tuple[int, int]],
  *,
  precision: lax.PrecisionLike = None,
  **plain: object,
) -> jax.Array:
  """Convolves inputs with a kernel; on a CPU its gradients are faster than XLA's.

  It takes the place of `lax.conv_general_dilated` in `nn.Conv(conv_general_dilated=...)`. Outputs
  are identical to XLA's if no gradient is taken. Gradients, and outputs that are computed with
  them, are equal up to rounding. Forward-mode differentiation is not defined on a CPU. Other
  devices use XLA for everything.

  Args:
    inputs: [B, H, W, I].
    kernel: [U, V, I, O].
    strides: strides down and to the right.
    padding: 'SAME', 'VALID', or (before, after) of height and of width.
    precision: precision of the products, see `lax.conv_general_dilated`.
    **plain: other arguments that `nn.Conv` passes, which are ignored. They must mean no dilation,
      one group and the axes `DIMENSIONS`.
  """
  if isinstance(padding, str):
    padding = lax.padtype_to_pads(inputs.shape[1:3], kernel.shape[:2], strides, padding)
  convolve = _Convolution(tuple(strides), tuple((low, high) for low, high in padding), precision)
  is_cpu = jax.default_backend() == 'cpu'
  return _convolution(inputs, kernel, convolve) if is_cpu else convolve(inputs, kernel)


@dataclasses.dataclass(frozen=True)
class _Convolution:
  """A convolution with fixed strides and padding, and several ways to compute its gradients.

  A call maps inputs [B, H, W, I] and a kernel [U, V, I, O] to outputs [B, H', W', O]. Gradients are
  computed from patches of the inputs or by Winograd's algorithm.

  Attributes:
    strides: strides down and to the right.
    pads: padding (before, after) of height and of width.
    precision: precision of the products, see `lax.conv_general_dilated`.
  """

  strides: tuple[int, ...]
  pads: tuple[tuple[int, int], ...]
  precision: lax.PrecisionLike

  def __call__(self, inputs: jax.Array, kernel: jax.Array) -> jax.Array:
    """Returns the outputs [B, H', W', O], computed by XLA."""
    return _convolve(inputs, kernel, self.strides, self.pads, precision=self.precision)

  def are_patches_faster(self, inputs: jax.Array, kernel: jax.Array) -> bool:
    """Returns whether patches are faster than XLA for the gradient with respect to the kernel.

    The limits were measured (docs/records/benchmarks.md). Patches are slow with few input channels,
    because they copy short runs of memory. They are slow too with far more filters than output
    positions, because the sum of the products then takes longer than the products.

    Args:
      inputs: [B, H, W, I].
      kernel: [U, V, I, O].
    """
    _, _, num_inputs, num_filters = kernel.shape
    num_positions = inputs.shape[1] * inputs.shape[2] // (self.strides[0] * self.strides[1])
    return num_inputs >= MIN_CHANNELS and num_filters <= MAX_FILTERS_PER_PLACE * num_positions

  def is_winograd(self, inputs: jax.Array, kernel: jax.Array) -> bool:
    """Returns whether a convolution is to be computed by Winograd's algorithm.

    It applies to float32 kernels of 3 × 3 with stride 1 and padding 1, and is faster for enough
    channels and large images, as benchmarks have shown.

    Args:
      inputs: [B, H, W, I].
      kernel: [U, V, I, O].
    """
    channels, image_sides = kernel.shape[2:], inputs.shape[1:3]
    is_3x3 = kernel.shape[:2] == (3, 3) and self.strides == (1, 1) and self.pads == ((1, 1), (1, 1))
    is_applicable = is_3x3 and inputs.dtype == kernel.dtype == jnp.float32
    is_large = min(channels) >= WINOGRAD_CHANNELS and min(image_sides) >= WINOGRAD_SIDE
    min_pairs, max_pairs = WINOGRAD_PAIRS
    return is_applicable and is_large and min_pairs <= math.prod(channels) <= max_pairs

  def by_winograd(self, inputs: jax.Array, kernel: jax.Array, summed: int = 1) -> jax.Array:
    """Convolves by Winograd's algorithm, a few images at a time.

    Args:
      inputs: images [B, H, W, I], or gradients [B, H, W, O] if `summed` is 2.
      kernel: [3, 3, I, O].
      summed: axis of the transformed kernel with the channels of `inputs`: 1 for a convolution, 2
        for its gradient with respect to inputs.

    Returns:
      Outputs [B, H, W, O], or gradients [B, H, W, I] if `summed` is 2.
    """
    num_shares, chunk = _chunks_of_tiles(inputs, kernel)
    filters = winograd.transformed(kernel)

    def convolve(_: None, x: jax.Array) -> tuple[None, jax.Array]:
      """Convolves a chunk of images, as a step of `lax.scan` without a carried value."""
      return None, winograd.convolved(x, filters, self.precision, summed)

    _, y = _scan(convolve, None, num_shares, chunk, inputs)  # [chunks, shares, chunk, H, W, O]
    images = jnp.moveaxis(y, 0, 1).reshape(num_shares, -1, *y.shape[3:])
    # without the images that only fill the last chunk
    return images[:, : len(inputs) // num_shares].reshape(*inputs.shape[:3], -1)

  def input_gradient(self, change: jax.Array, kernel: jax.Array, size: Sequence[int]) -> jax.Array:
    """Returns the gradient with respect to the inputs, [B, H, W, I].

    It is a convolution of `change` with the flipped kernel and stride 1. For this, stride − 1 zeros
    are put between the positions of `change`, and it is padded to H + U − 1 rows and W + V − 1
    columns.

    Args:
      change: gradient with respect to the outputs, [B, H', W', O].
      kernel: [U, V, I, O].
      size: (H, W).
    """
    pads = []
    for axis, length in enumerate(size):  # height, then width
      side = kernel.shape[axis]
      spread = (change.shape[axis + 1] - 1) * self.strides[axis] + 1  # `change` with its zeros
      padded = length + side - 1
      forward_before, _ = self.pads[axis]
      before = side - 1 - forward_before
      pads.append((before, padded - spread - before))
    flipped = jnp.flip(kernel, (0, 1)).swapaxes(2, 3)
    # the fifth argument is the dilation of `change`
    return _convolve(change, flipped, (1, 1), pads, self.strides, precision=self.precision)

  def filter_gradient(
    self, inputs: jax.Array, change: jax.Array, sides: Sequence[int]
  ) -> jax.Array:
    """Returns the gradient with respect to the kernel, [U, V, I, O], from patches of the inputs.

    It is the sum over images and output positions of patch × change, in float32 or wider. A few
    images are computed at a time.

    Args:
      inputs: inputs of the convolution, [B, H, W, I].
      change: gradient with respect to the outputs, [B, H', W', O].
      sides: height U and width V of the kernel.
    """
    size, patch_length = change.shape[1:3], math.prod(sides) * inputs.shape[3]
    bytes_per_image = math.prod(size) * patch_length * inputs.itemsize
    num_shares, chunk = _chunks(inputs, max_images=PATCH_BYTES // bytes_per_image)
    dtype = jnp.promote_types(inputs.dtype, jnp.float32)

    def add(total: jax.Array, x: jax.Array, dy: jax.Array) -> tuple[jax.Array, None]:
      """Adds the kernel's gradient from a chunk of images to the total of each share, for
      `lax.scan`.

      Args:
        total: [shares, O, U · V · I]. A share has the images of one device.
        x: inputs, [shares, images, H, W, I].
        dy: gradients with respect to the outputs, [shares, images, H', W', O].
      """
      # [shares, images · positions, O] and [shares, images · positions, U · V · I]
      changes = dy.reshape(num_shares, -1, dy.shape[-1])
      patches = self.patches(x, size, sides).reshape(num_shares, -1, patch_length)
      axes = ((1,), (1,)), ((0,), (0,))  # a sum over images and positions for each share
      product = lax.dot_general(changes, patches, axes, self.precision, dtype)
      return total + product, None

    zeros = jnp.zeros((num_shares, change.shape[-1], patch_length), dtype)
    totals, _ = _scan(add, zeros, num_shares, chunk, inputs, change)
    # from [shares, O, U · V · I] to [U, V, I, O]
    return totals.sum(0).T.reshape(*sides, inputs.shape[-1], change.shape[-1])

  def winograd_filter_gradient(
    self, inputs: jax.Array, change: jax.Array, kernel: jax.Array
  ) -> jax.Array:
    """Returns the gradient with respect to the kernel, [3, 3, I, O], by Winograd's algorithm.

    The images of a device (a share) are divided into chunks that fit into its caches. A scan over
    the chunks sums the products of tiles, and a linear map takes the sum to the gradient.

    Args:
      inputs: inputs of the convolution, [B, H, W, I].
      change: gradient with respect to the outputs, [B, H, W, O].
      kernel: only its shape and type are used.
    """
    num_shares, chunk = _chunks_of_tiles(inputs, kernel)

    def add(total: jax.Array, x: jax.Array, dy: jax.Array) -> tuple[jax.Array, None]:
      """Adds the products of a chunk's tiles to the total, as a step of `lax.scan`.

      Args:
        total: the sum over the chunks before, [36, shares, I, O].
        x: inputs of the chunk, [shares, images, H, W, I].
        dy: gradients with respect to the outputs, [shares, images, H, W, O].
      """
      return total + winograd.tile_products(x, dy, self.precision), None

    zeros = jnp.zeros((winograd.PRODUCTS, num_shares, *kernel.shape[2:]), kernel.dtype)
    totals, _ = _scan(add, zeros, num_shares, chunk, inputs, change)
    return winograd.kernel_gradient(totals.sum(1))  # over the shares

  def patches(self, x: jax.Array, size: Sequence[int], sides: Sequence[int]) -> jax.Array:
    """Returns the patch of inputs under the kernel at each output position.

    Args:
      x: inputs, [shares, images, H, W, I]; a share has the images of one device.
      size: (H', W'), rows and columns of the output.
      sides: (U, V), rows and columns of the kernel.

    Returns:
      [shares, images, H', W', U · V · I].
    """
    padded = jnp.pad(x, ((0, 0), (0, 0), *self.pads, (0, 0)))
    (down, right), (height, width) = self.strides, size
    # rows and columns from the first to the last one under an entry of the kernel
    rows, columns = down * (height - 1) + 1, right * (width - 1) + 1
    inputs_by_entry = []  # the input under each entry of the kernel, [shares, images, H', W', I]
    for u in range(sides[0]):
      for v in range(sides[1]):
        inputs_by_entry.append(padded[:, :, u : u + rows : down, v : v + columns : right])
    return jnp.concatenate(inputs_by_entry, -1)


def _chunks(inputs: jax.Array, max_images: int) -> tuple[int, int]:
  """Divides images into a share for each device, and each share into chunks.

  Shares have equal sizes; there are fewer if the number of devices does not divide the number of
  images. Chunks of equal sizes are preferred, because the last one then needs no padding, but only
  if they have more than half of `max_images`.

  Args:
    inputs: [B, ...].
    max_images: largest number of images in a chunk.

  Returns:
    The number of shares, and the number of images in a chunk. For 64 images, 2 devices and a
    maximum of 12 they are (2, 8), with 4 chunks per share; for 62 images (2, 11), with 3 chunks.
  """
  num_images = len(inputs)
  num_shares = max(n for n in range(1, jax.device_count() + 1) if num_images % n == 0)
  share_size = num_images // num_shares
  max_images = max(1, min(share_size, max_images))
  divisor = max(n for n in range(1, max_images + 1) if share_size % n == 0)
  if 2 * divisor > max_images:
    return num_shares, divisor
  num_chunks = math.ceil(share_size / max_images)
  return num_shares, math.ceil(share_size / num_chunks)


def _chunks_of_tiles(inputs: jax.Array, kernel: jax.Array) -> tuple[int, int]:
  """Divides images into shares and chunks for Winograd's algorithm.

  A share has the images of one device. A chunk is computed at a time, and its tiles fit into the
  caches of the cores.

  Args:
    inputs: [B, H, W, I].
    kernel: [3, 3, I, O].

  Returns:
    The number of shares, and the number of images of a share in a chunk.
  """
  # per channel, a tile of `INNER` × `INNER` pixels becomes `PRODUCTS` numbers
  num_tiles = math.prod(-(-side // winograd.INNER) for side in inputs.shape[1:3])
  num_channels = sum(kernel.shape[2:])  # tiles of inputs and of outputs are stored
  bytes_per_image = num_tiles * winograd.PRODUCTS * num_channels * inputs.itemsize
  num_bytes = TILE_BYTES * usable_cores()  # for the devices of this process together
  return _chunks(inputs, num_bytes // (jax.local_device_count() * bytes_per_image))


def _scan(
  step: Callable[..., tuple[Any, Any]], carry: Any, num_shares: int, chunk: int, *arrays: jax.Array
) -> tuple[Any, Any]:
  """Scans arrays [images, ...] by `lax.scan`, a chunk of each device's images at a time.

  The last chunk is padded by zeros.

  Args:
    step: function (carry, *chunks) -> (carry, output), as for `lax.scan`. Chunks are [shares,
      chunk, ...].
    carry: the first value that `step` takes.
    num_shares: number of equal shares of the images, one for each device.
    chunk: number of images of a share in a step.
    *arrays: the arrays, with equally many images.

  Returns:
    The last carry, and the outputs of all steps, stacked.
  """
  images_per_share = len(arrays[0]) // num_shares
  num_zeros = -images_per_share % chunk  # images of zeros that fill the last chunk
  in_shares = []
  for x in arrays:
    pads = [(0, 0)] * (x.ndim + 1)  # of [shares, images of a share, ...]
    pads[1] = (0, num_zeros)
    in_shares.append(jnp.pad(x.reshape(num_shares, -1, *x.shape[1:]), pads))

  def scan_chunk(carry: Any, begin: jax.Array) -> tuple[Any, Any]:
    """Calls `step` with images begin, ..., begin + chunk − 1 of every share."""
    return step(carry, *(lax.dynamic_slice_in_dim(x, begin, chunk, axis=1) for x in in_shares))

  return lax.scan(scan_chunk, carry, jnp.arange(0, in_shares[0].shape[1], chunk))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _convolution(inputs: jax.Array, kernel: jax.Array, convolve: _Convolution) -> jax.Array:
  """Returns `convolve(inputs, kernel)`, with the gradients of `_backward` instead of XLA's."""
  return convolve(inputs, kernel)


def _forward(
  inputs: jax.Array, kernel: jax.Array, convolve: _Convolution
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
  """Forward rule of `_convolution`: returns the outputs, and (inputs, kernel) for `_backward`."""
  run = convolve.by_winograd if convolve.is_winograd(inputs, kernel) else convolve
  return run(inputs, kernel), (inputs, kernel)


def _backward(
  convolve: _Convolution, residuals: tuple[jax.Array, jax.Array], change: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Backward rule of `_convolution`: returns the gradients of inputs and kernel.

  Args:
    convolve: the convolution.
    residuals: (inputs, kernel) from `_forward`.
    change: gradient with respect to the outputs.
  """
  inputs, kernel = residuals
  if convolve.is_winograd(inputs, kernel):
    # summed=2 exchanges the kernel's channels without a transpose. XLA would fuse a transpose into
    # the transformation of the kernel, which would then take 10 times as long.
    by_inputs = convolve.by_winograd(change, jnp.flip(kernel, (0, 1)), summed=2)
    return by_inputs, convolve.winograd_filter_gradient(inputs, change, kernel)
  by_inputs = convolve.input_gradient(change, kernel, inputs.shape[1:3])
  if convolve.are_patches_faster(inputs, kernel):
    by_kernel = convolve.filter_gradient(inputs, change, kernel.shape[:2])
  else:  # XLA's gradient
    [by_kernel] = jax.linear_transpose(lambda k: convolve(inputs, k), kernel)(change)
  return by_inputs, by_kernel.astype(kernel.dtype)


_convolution.defvjp(_forward, _backward)
