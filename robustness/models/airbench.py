"""The network of airbench94, which reaches 94 % on CIFAR-10 in about ten epochs.

It has a fixed whitening layer, three groups of two convolutions and a linear map, with 1.97 million
parameters and .24 GFLOP per image of 32 × 32 pixels. `configs/train.py:cifar10_fast` trains it.

Reference: Jordan (2024), 94% on CIFAR-10 in 3.29 Seconds on a Single GPU, section 3.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.typing import Variables
from robustness.models import layers
from robustness.models.architecture import CIFAR10, STEM_AND_STAGES, Architecture
from robustness.models.convolution_gradients import DIMENSIONS

PATCH = 2
"""The side of a whitening filter in pixels."""
WHITENING_ROWS = 5000
"""The number of training images that the whitening filters are computed from, as in the paper."""
WHITENING_EPSILON = 5e-4
"""The number that is added to eigenvalues before their inverse square root, as in the paper."""
LOGIT_SCALE = 1 / 9
"""The factor of the logits, as in the paper."""
MIN_VARIANCE = 1e-8
"""Variance below which training images count as constant."""

uniform_fan_in = nn.initializers.variance_scaling(1 / 3, 'fan_in', 'uniform')
"""Uniform between −1/√n and 1/√n for n inputs of an output, PyTorch's default."""


def gelu(x: jax.Array) -> jax.Array:
  """Returns GELU(x) = x·Φ(x), with Φ the normal distribution function.

  It is computed by erf, which takes half the time of JAX's erfc on a CPU. Results differ by at most
  1e-6.
  """
  return x * (0.5 + 0.5 * jax.lax.erf(x * np.sqrt(0.5).astype(x.dtype)))


def identity_start(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
  """Draws an initial kernel [U, V, I, O] with filters that copy the input channels.

  Filter i copies channel i for each i < min(I, O). Further filters are drawn by `uniform_fan_in`.

  Args:
    key: random key.
    shape: (U, V, I, O): height and width of the kernel, numbers of input and output channels.
    dtype: type of the kernel.
  """
  kernel = uniform_fan_in(key, shape, dtype)
  height, width, inputs, outputs = shape
  index = jnp.arange(min(inputs, outputs))
  identity = jnp.zeros((height, width, inputs, len(index)), dtype)
  identity = identity.at[height // 2, width // 2, index, index].set(1)  # at the kernel's centre
  return kernel.at[..., : len(index)].set(identity)


class Whitening(layers.Layer):
  """Convolution with fixed 2 × 2 filters, without padding, plus a trained bias.

  The filters are computed from training images, see `whitening_filters`. They are stored in the
  collection `batch_stats`, so that the optimizer does not change them.
  """

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Applies 8·C filters of 2 × 2 pixels to images [B, H, W, C], → [B, H − 1, W − 1, 8·C]."""
    channels = x.shape[-1]
    num_filters = 2 * PATCH * PATCH * channels
    shape = (PATCH, PATCH, channels, num_filters)
    # 0 until a training sets it to `whitening_filters`; no parameter, so that it is not trained
    kernel = self.variable('batch_stats', 'kernel', lambda: jnp.zeros(shape)).value.astype(x.dtype)
    shift = self.param('shift', nn.initializers.zeros, (num_filters,))
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), 'VALID', dimension_numbers=DIMENSIONS)
    return y + shift.astype(x.dtype)[None, None, None]


class Group(layers.Layer):
  """Two convolutions, each with normalisation and GELU; the first also halves both sides.

  The sides are halved by a 2 × 2 maximum before the first normalisation.

  Attributes:
    features: output channels of both convolutions.
  """

  features: int

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ⌊H / 2⌋, ⌊W / 2⌋, features] by two 3×3 convolutions with batch norm.

    The first convolution is followed by a 2×2 maximum. With `train`, batch norm normalises by the
    batch and updates its running statistics.
    """
    convolution = functools.partial(
      layers.convolution, self.features, 3, kernel_init=identity_start, dtype=self.dtype
    )
    norm = functools.partial(
      nn.BatchNorm, not train, momentum=0.6, epsilon=1e-12, use_scale=False, **self.common
    )
    x = halved(convolution(name='conv1')(x))
    x = gelu(norm(name='bn1')(x))
    return gelu(norm(name='bn2')(convolution(name='conv2')(x)))


def halved(x: jax.Array) -> jax.Array:
  """Returns the maximum of every 2 × 2 window, [B, ⌊H / 2⌋, ⌊W / 2⌋, C].

  The last row or column of an odd side is dropped. On a CPU, the gradient takes a tenth of the time
  of the gradient of `nn.max_pool`.

  Args:
    x: [B, H, W, C].
  """
  height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
  upper = jnp.maximum(x[:, 0:height:2, 0:width:2], x[:, 0:height:2, 1:width:2])
  lower = jnp.maximum(x[:, 1:height:2, 0:width:2], x[:, 1:height:2, 1:width:2])
  return jnp.maximum(upper, lower)


class Airbench(layers.Network):
  """The network of airbench94, for CIFAR-10.

  Its layers are `stem` (whitening and GELU), `stage1` to `stage3` (groups of two convolutions) and
  `head` (the maximum over all positions, and a linear map times 1/9).

  Attributes:
    widths: channels of the three groups.
  """

  widths: tuple[int, int, int] = (64, 256, 256)

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    With `train`, batch norm normalises by the batch and updates its running statistics.

    Raises:
      InputError: a side has fewer than 9 pixels, too few for three halvings.
    """
    if min(x.shape[1:3]) < 9:
      raise InputError(
        f'images of {x.shape[1]} × {x.shape[2]} pixels are too small for airbench: it takes 9 or '
        f'more a side. Set {KEYS.data.resize}.'
      )
    x = Stem(**self.common, name='stem')(x.astype(self.dtype))
    for index, features in enumerate(self.widths):
      x = Group(features, **self.common, name=f'stage{index + 1}')(x, train)
    return Head(self.num_classes, name='head')(x)


class Stem(layers.Layer):
  """Whitening and GELU.

  Filters come in pairs of opposite sign, so that GELU removes no information.
  """

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Applies the whitening filters and a GELU to images, → [B, H − 1, W − 1, 8·C]."""
    return gelu(Whitening(**self.common, name='whitening')(x))


class Head(nn.Module):
  """Maximum over all positions, and a linear map without bias times 1/9, in float32 or wider."""

  num_classes: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to logits [B, num_classes], by a maximum over positions.

    A linear map and a multiplication by the constant `LOGIT_SCALE` follow.
    """
    x = layers.at_least_float32(x).max((1, 2))
    # the features are kept as the output of a layer, for studies that record them
    self.sow('intermediates', layers.FEATURES, x)
    dense = nn.Dense(
      self.num_classes, use_bias=False, dtype=x.dtype, kernel_init=uniform_fan_in, name='dense'
    )
    return dense(x) * LOGIT_SCALE


def whitening_filters(images: jax.Array) -> Variables:
  """Computes the whitening filters of `Airbench` from training images.

  Let p be a patch of 2 × 2 pixels with all channels, and Σ the mean of p·pᵀ over all patches,
  without centring. With the eigenvectors v_k and eigenvalues λ_k of Σ, the largest first, filter k
  is v_k / √(λ_k + 5e-4). The second half of the filters are the negatives of the first half.

  Args:
    images: normalised images [N, H, W, C].

  Returns:
    Variables of the network with the filters in the collection `batch_stats`.

  Raises:
    InputError: there are fewer images than values in a patch, or the images are constant.
  """
  channels = images.shape[-1]
  length = PATCH * PATCH * channels
  if len(images) < length:
    raise InputError(
      f'whitening takes at least {length} training images, one for each value of a patch; there '
      f'are {len(images)}. Train on more rows, or take another {KEYS.classifier.name:--}.'
    )
  if float(jnp.var(images, (0, 1, 2)).sum()) < MIN_VARIANCE:
    raise InputError(
      f'the {len(images)} training images that whitening is computed from are constant; give '
      'images that vary.'
    )
  values, vectors = np.linalg.eigh(np.asarray(_second_moments(images)))
  # the sign of an eigenvector (a column) is arbitrary: its largest component becomes positive
  row_of_largest = np.abs(vectors).argmax(0)
  largest = vectors[row_of_largest, np.arange(length)]
  signs = np.where(largest < 0, -1.0, 1.0)
  scaled = vectors * signs / np.sqrt(np.maximum(values, 0) + WHITENING_EPSILON)
  scaled = scaled[:, ::-1]  # eigh sorts eigenvalues in ascending order
  kernel = np.concatenate([scaled, -scaled], 1).reshape(PATCH, PATCH, channels, 2 * length)
  return {'batch_stats': {'stem': {'whitening': {'kernel': kernel.astype(np.float32)}}}}


@jax.jit
def _second_moments(images: jax.Array) -> jax.Array:
  """Returns the mean of p·pᵀ over all patches p of 2 × 2 pixels, [4·C, 4·C].

  Args:
    images: [N, H, W, C].
  """

  def moments(image: jax.Array) -> jax.Array:
    """Returns the mean of p·pᵀ over all patches p of one image [H, W, C].

    A patch is a vector of the 4·C values of 2 × 2 pixels (`PATCH`). Patches overlap: one begins at
    each pixel but the last of a row or column.
    """
    # Pixel (u, v) of all patches is the image shifted by (u, v). There are `height` × `width`.
    height, width = image.shape[0] - PATCH + 1, image.shape[1] - PATCH + 1
    shifted = [image[u : u + height, v : v + width] for u in range(PATCH) for v in range(PATCH)]
    patches = jnp.concatenate(shifted, -1).reshape(height * width, -1)
    return jnp.matmul(patches.T, patches, precision='highest') / len(patches)

  return jax.lax.map(moments, images).mean(0)


WIDTHS = {  # channels of the three groups
  'airbench94': (64, 256, 256),
  'airbench94_half': (32, 128, 128),
  'airbench95': (128, 384, 384),
}

ARCHITECTURES = tuple(
  Architecture(
    name,
    Airbench(num_classes=10, widths=widths),
    input_shape=(32, 32, 3),
    **CIFAR10,
    stages=STEM_AND_STAGES,
    source='Jordan, 94% on CIFAR-10 in 3.29 Seconds on a Single GPU, 2024',
    licence='no published weights',
    fit=whitening_filters,
    fit_rows=WHITENING_ROWS,
  )
  for name, widths in WIDTHS.items()
)
