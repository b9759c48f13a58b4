"""Convolutions whose gradients a CPU computes in the ways that are quick there.

XLA makes the filter gradient one convolution with a window as large as the image, for which it
brings both operands into another order of dimensions. On a CPU these transposes are computed
together with all element-wise work before them, with long strides: half of a training step of
ResNet-20. Here the gradient of kernel W of y = x ∗ W is computed from patches of the image,

  ∂L/∂W[u, v, i, o] = Σ over images and places p of  x[s·p + (u, v), i] · ∂L/∂y[p, o],

a product of ∂L/∂y with the patches of a few images at a time, as many as stay in a core's cache.

The input gradient is a convolution of ∂L/∂y with the kernel, flipped, its channels exchanged. JAX
exchanges them by naming the dimensions in another order. In a loop over steps of an attack, or over
views, XLA moves the flip out of the loop before it looks at the convolution, and what is left has
an order for which it has only a convolution of nested loops: 8 to 12 times the time of its own
outside a loop (docs/benchmarks.md). Here the exchange is written out as a transpose.

The forward pass is XLA's own; so is everything on an accelerator.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

DIMENSIONS = ('NHWC', 'HWIO', 'NHWC')
PATCH_BYTES = 5 * 2**18
"""Most that the patches of a product take; two images of 32 × 32 × 16 by 3 × 3 in float32 do."""

LEAST_CHANNELS, FILTERS_A_PLACE = 8, 6

Pads = tuple[tuple[int, int], ...]


def convolution(
  inputs: jax.Array,
  kernel: jax.Array,
  strides: Sequence[int],
  padding: str | Sequence[tuple[int, int]],
  *,
  precision: lax.PrecisionLike = None,
  **plain: object,
) -> jax.Array:
  """Returns what `lax.conv_general_dilated` does; for `nn.Conv(conv_general_dilated=...)`.

  Values are XLA's; the gradients are equal to rounding. Forward-mode differentiation is not
  defined on a CPU.

  Args:
    inputs: [B, H, W, I].
    kernel: [U, V, I, O], of the same type.
    strides: two.
    padding: 'SAME', 'VALID' or pairs, see there.
    precision: of the products.
    plain: what `nn.Conv` passes on beside: no dilation, one group, `DIMENSIONS`.
  """
  if jax.default_backend() != 'cpu':
    return lax.conv_general_dilated(
      inputs, kernel, strides, padding, dimension_numbers=DIMENSIONS, precision=precision
    )
  if isinstance(padding, str):
    padding = lax.padtype_to_pads(inputs.shape[1:3], kernel.shape[:2], strides, padding)
  pads = tuple((low, high) for low, high in padding)
  return _convolution(inputs, kernel, tuple(strides), pads, precision)


def _patches_pay(inputs: jax.Array, kernel: jax.Array, strides: Sequence[int]) -> bool:
  """Returns whether patches are the quicker way, by what was measured (docs/benchmarks.md).

  Few input channels make patches of short runs of memory; where there are far more filters than
  places, adding up the products costs more than these.
  """
  places = inputs.shape[1] * inputs.shape[2] // (strides[0] * strides[1])
  return kernel.shape[2] >= LEAST_CHANNELS and kernel.shape[3] <= FILTERS_A_PLACE * places


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _convolution(
  inputs: jax.Array,
  kernel: jax.Array,
  strides: tuple[int, ...],
  pads: Pads,
  precision: lax.PrecisionLike,
) -> jax.Array:
  return lax.conv_general_dilated(
    inputs, kernel, strides, pads, dimension_numbers=DIMENSIONS, precision=precision
  )


def _forward(
  inputs: jax.Array,
  kernel: jax.Array,
  strides: tuple[int, ...],
  pads: Pads,
  precision: lax.PrecisionLike,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
  return _convolution(inputs, kernel, strides, pads, precision), (inputs, kernel)


def _backward(
  strides: tuple[int, ...],
  pads: Pads,
  precision: lax.PrecisionLike,
  residuals: tuple[jax.Array, jax.Array],
  change: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  inputs, kernel = residuals
  by_inputs = _input_gradient(change, kernel, inputs.shape[1:3], strides, pads, precision)
  if _patches_pay(inputs, kernel, strides):
    by_kernel = _filter_gradient(inputs, change, kernel.shape[:2], strides, pads, precision)
  else:
    [by_kernel] = jax.linear_transpose(
      lambda k: lax.conv_general_dilated(
        inputs, k, strides, pads, dimension_numbers=DIMENSIONS, precision=precision
      ),
      kernel,
    )(change)
  return by_inputs, by_kernel.astype(kernel.dtype)


_convolution.defvjp(_forward, _backward)


def _input_gradient(
  change: jax.Array,
  kernel: jax.Array,
  size: Sequence[int],
  strides: Sequence[int],
  pads: Pads,
  precision: lax.PrecisionLike,
) -> jax.Array:
  """Returns the gradient by the inputs, [B, H, W, I], given that by the output."""
  before = [side - 1 - low for side, (low, _) in zip(kernel.shape[:2], pads, strict=True)]
  after = [
    length + side - 1 - ((outputs - 1) * stride + 1) - first
    for length, side, outputs, stride, first in zip(
      size, kernel.shape[:2], change.shape[1:3], strides, before, strict=True
    )
  ]
  return lax.conv_general_dilated(
    change,
    jnp.flip(kernel, (0, 1)).swapaxes(2, 3),
    (1, 1),
    list(zip(before, after, strict=True)),
    lhs_dilation=strides,
    dimension_numbers=DIMENSIONS,
    precision=precision,
  )


def _filter_gradient(
  inputs: jax.Array,
  change: jax.Array,
  sides: Sequence[int],
  strides: Sequence[int],
  pads: Pads,
  precision: lax.PrecisionLike = None,
) -> jax.Array:
  """Returns Σ over images and places of patches × change, [U, V, I, O], in float32 or wider.

  The images are cut into as many shares as devices may share the batch (`parallel.create` takes
  the largest number that divides it), each with its sum until the end: then no device needs
  another's images.
  """
  images, (height, width) = len(inputs), change.shape[1:3]
  shares = max(n for n in range(1, jax.device_count() + 1) if images % n == 0)
  length = math.prod(sides) * inputs.shape[3]
  each = _divisor(images // shares, PATCH_BYTES // (height * width * length * inputs.itemsize))
  kind = jnp.promote_types(inputs.dtype, jnp.float32)
  inputs, change = (x.reshape(shares, -1, *x.shape[1:]) for x in (inputs, change))

  def add(total: jax.Array, begin: jax.Array) -> tuple[jax.Array, None]:
    x, dy = (lax.dynamic_slice_in_dim(y, begin, each, axis=1) for y in (inputs, change))
    product = lax.dot_general(
      dy.reshape(shares, -1, dy.shape[-1]),
      _patches(x, (height, width), sides, strides, pads).reshape(shares, -1, length),
      (((1,), (1,)), ((0,), (0,))),
      precision=precision,
      preferred_element_type=kind,
    )
    return total + product, None

  zeros = jnp.zeros((shares, change.shape[-1], length), kind)
  totals, _ = lax.scan(add, zeros, jnp.arange(0, images // shares, each))
  return totals.sum(0).T.reshape(*sides, inputs.shape[-1], change.shape[-1])


def _patches(
  x: jax.Array, size: tuple[int, int], sides: Sequence[int], strides: Sequence[int], pads: Pads
) -> jax.Array:
  """Returns what the kernel sees at each place, [shares, images, H', W', U · V · I]."""
  padded = jnp.pad(x, ((0, 0), (0, 0), *pads, (0, 0)))
  spans = [stride * (side - 1) + 1 for stride, side in zip(strides, size, strict=True)]
  parts = [
    padded[:, :, u : u + spans[0] : strides[0], v : v + spans[1] : strides[1]]
    for u in range(sides[0])
    for v in range(sides[1])
  ]
  return jnp.concatenate(parts, -1)


def _divisor(number: int, most: int) -> int:
  """Returns the largest divisor of a number that is at most `most`, at least 1."""
  return max(n for n in range(1, max(1, min(number, most)) + 1) if number % n == 0)
