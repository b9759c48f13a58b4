"""Layers that several networks share, with the conventions that published weights expect.

Padding is symmetric, one pixel for a 3×3 kernel, also with stride 2. (Linen's 'SAME' pads an even
image on one side only.) Batch norm has ε = 1e-5 and momentum 0.9, which PyTorch writes as 0.1. One
difference from PyTorch remains: running variances average the biased variance of batches, divided
by n, where PyTorch divides by n − 1.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypedDict, Unpack

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax.typing import DTypeLike

from robustness.core.typing import PyTree
from robustness.models import convolution_gradients
from robustness.models.naming import Path

EPSILON = 1e-5
"""The ε that norms add to the variance."""
MOMENTUM = 0.9
"""The share of the running statistics of batch norm that a training step keeps."""
UNUSED_CHANNELS = 16
"""Number of zero channels that `DepthwiseConv` adds on a CPU where a power of two would be slow."""
Norm = Literal['batch', 'group']
FEATURES = 'features'
"""The name under which a head sows the inputs of its linear map, [B, F], in `intermediates`."""
DROP_PATH = 'drop_path'
"""The collection of variables with the `factors` [B, 2] of each block in stochastic depth."""

he_normal = nn.initializers.variance_scaling(2.0, 'fan_in', 'normal')
"""The initialiser of kernels: normal with variance 2 / (number of inputs of an output)."""


class Common(TypedDict):
  """The arguments `dtype` and `axis_name` of `Layer`, common to all layers of a network."""

  dtype: DTypeLike
  axis_name: str | None


class Layer(nn.Module, kw_only=True):
  """Base class of the layers of a network.

  Attributes:
    dtype: dtype of the computation; parameters, running statistics and logits are float32.
    axis_name: pmap axis that batch norm averages over in training; None for no axis.
  """

  dtype: DTypeLike = jnp.float32
  axis_name: str | None = None

  @property
  def common(self) -> Common:
    """The arguments to pass on to the layers inside this one."""
    return {'dtype': self.dtype, 'axis_name': self.axis_name}

  def drop_path(self, x: jax.Array, branch: int = 0) -> jax.Array:
    """Applies stochastic depth to the output of a residual branch.

    In training, each sample of `x` is multiplied by 0 or by 1 / (probability of keeping the
    branch). The factors are the variable `factors` [B, branches] in the collection `DROP_PATH`.
    Without this variable, as in evaluation, `x` is returned unchanged.

    Args:
      x: output of the branch, [B, ...].
      branch: number of the branch in its block, 0 or 1.
    """
    if not self.has_variable(DROP_PATH, 'factors'):
      return x
    factors: jax.Array = self.get_variable(DROP_PATH, 'factors')[:, branch]
    return x * factors.reshape(-1, *[1] * (x.ndim - 1)).astype(x.dtype)  # [B, 1, ..., 1]


class Network(Layer):
  """Base class of networks: `network(images, train=False)` returns logits [B, num_classes].

  Images are [B, H, W, C] and normalised, of any height and width unless a network says more. With
  `train=True`, batch norm uses the batch's statistics and updates the collection `batch_stats`.

  Attributes:
    num_classes: number of logits.
    can_drop_paths: whether all residual blocks support stochastic depth.
  """

  can_drop_paths: ClassVar[bool] = False
  num_classes: int = 1000

  @property
  def drop_path_rises(self) -> bool:
    """Whether stochastic depth drops later blocks more often, instead of all equally often."""
    return True


batch_norm = functools.partial(nn.BatchNorm, momentum=MOMENTUM, epsilon=EPSILON)
"""Batch normalisation over all axes except channels.

The first argument says whether it uses the running statistics. If not, it normalises by the batch
and updates them.
"""


def convolution(features: int, kernel: int, stride: int = 1, **options: Any) -> nn.Conv:
  """Returns a square convolution without bias and with symmetric padding.

  Args:
    features: number of output channels.
    kernel: side of the kernel in pixels; kernel // 2 pixels are padded on every side.
    stride: stride in both directions.
    **options: further arguments of `nn.Conv`. `kernel_init` is `he_normal` by default.
  """
  options.setdefault('kernel_init', he_normal)
  return nn.Conv(
    features,
    kernel_size=(kernel, kernel),
    strides=(stride, stride),
    padding=kernel // 2,
    use_bias=False,
    conv_general_dilated=convolution_gradients.convolution,
    **options,
  )


class GroupNorm(nn.Module):
  """Group normalisation: each image is normalised over groups of channels, then scaled and shifted.

  Mean and variance are computed in float32, or in the type of `x` if that is wider. The variance is
  the mean of squared differences from the mean.

  Attributes:
    groups: number of groups, each of consecutive channels.
    epsilon: ε, which is added to the variance.
    dtype: dtype of the output.

  Reference:
    Wu and He, Group Normalization, 2018, equations 1 to 3 and 7.
  """

  groups: int = 32
  epsilon: float = EPSILON
  dtype: DTypeLike = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Returns `x` [B, H, W, C] normalised, scaled and shifted; `groups` must divide C."""
    channels = x.shape[-1]
    scale = self.param('scale', nn.initializers.ones, (channels,))[None, None, None]
    bias = self.param('bias', nn.initializers.zeros, (channels,))[None, None, None]
    x = at_least_float32(x)
    # Sums go over positions first, then over the channels of a group: `x` keeps its four axes, and
    # XLA's CPU compiler fuses each pass into one loop. Linen's layer reshapes `x` into groups and
    # takes 1.3 times as long.
    centred = x - self._group_means(x)
    variance = self._group_means(centred**2)
    return (centred * (jax.lax.rsqrt(variance + self.epsilon) * scale) + bias).astype(self.dtype)

  def _group_means(self, x: jax.Array) -> jax.Array:
    """Returns the means over each group of channels and all positions.

    The result [B, 1, 1, C] repeats the mean of a group for each of its channels.
    """
    size = x.shape[-1] // self.groups
    means = x.mean((1, 2)).reshape(len(x), self.groups, size).mean(-1)
    return jnp.repeat(means, size, axis=1)[:, None, None]


def max_pool(x: jax.Array, *, padding: int = 0, covers_all: bool = False) -> jax.Array:
  """Returns the maximum over 3×3 windows of `x` [B, H, W, C] with stride 2.

  Args:
    x: features [B, H, W, C].
    padding: pixels of −∞ that are added on every side.
    covers_all: whether to pad the end of even sides by one more pixel. Every pixel is then in a
      window, as with PyTorch's `ceil_mode`.
  """
  pads = [(padding, padding + (covers_all and side % 2 == 0)) for side in x.shape[1:3]]
  return nn.max_pool(x, window_shape=(3, 3), strides=(2, 2), padding=pads)


class DepthwiseConv(nn.Module):
  """Depthwise convolution: filters each channel with its own K × K kernel.

  The output is y[i, j, c] = Σ_{u, v} k[u, v, c] x[s i + u, s j + v, c] for the kernel k and the
  stride s. It is computed as a sum of K² products, which XLA compiles to one loop. XLA's own
  grouped convolution takes 12 to 60 times as long on a CPU. Sums are in float32, or in the kernel's
  type if that is wider.

  Attributes:
    kernel: side K of the kernel in pixels.
    stride: stride s of the convolution.
    dtype: dtype of the output.
    use_bias: whether to add a bias to each channel.
    pads_like_tensorflow: whether padding is TensorFlow's 'SAME', with the extra pixel of an odd
      padding at the end; otherwise K // 2 pixels on every side.
  """

  kernel: int
  stride: int = 1
  dtype: DTypeLike = jnp.float32
  use_bias: bool = False
  pads_like_tensorflow: bool = True

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Convolves each channel with a filter of its own, to [B, ⌈H / stride⌉, ⌈W / stride⌉, C].

    The convolution is a sum of shifted and weighted images, which XLA computes faster on CPUs.

    Args:
      x: [B, H, W, C].
    """
    side, stride, image_sides, channels = self.kernel, self.stride, x.shape[1:3], x.shape[-1]
    weights = self.param('kernel', he_normal, (side, side, 1, channels))
    pads = [(side // 2, side // 2)] * 2
    if self.pads_like_tensorflow:
      pads = jax.lax.padtype_to_pads(image_sides, (side, side), (stride, stride), 'SAME')
    # images shifted by a large power of two share few cache lines and take up to 4 times as long
    is_large_power_of_two = channels >= 128 and channels.bit_count() == 1
    is_slow = is_large_power_of_two and jax.default_backend() == 'cpu'
    unused = UNUSED_CHANNELS if is_slow else 0
    padded = jnp.pad(x.astype(weights.dtype), ((0, 0), *pads, (0, unused)))
    if unused:
      wide_weights = jnp.pad(weights, ((0, 0), (0, 0), (0, 0), (0, unused)))
      # without a barrier XLA would remove the unused channels, which only change memory addresses
      padded, wide_weights = jax.lax.optimization_barrier((padded, wide_weights))
      padded, weights = padded[..., :channels], wide_weights[..., :channels]
    # numbers of rows and columns from the first to the last one under an entry of the kernel
    rows, columns = (stride * ((size - 1) // stride) + 1 for size in image_sides)
    products = []
    for u in range(side):
      for v in range(side):
        inputs = padded[:, u : u + rows : stride, v : v + columns : stride]
        products.append(weights[None, None, u, v] * inputs)
    total = functools.reduce(jnp.add, products)
    if self.use_bias:
      bias = self.param('bias', nn.initializers.zeros_init(), x.shape[-1:])
      total += bias[None, None, None]
    return total.astype(self.dtype)


class NormRelu(Layer):
  """Batch norm followed by ReLU, as one named layer.

  Studies can record the output of a named layer.
  """

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Normalises and rectifies `x` of shape [B, H, W, C]."""
    return nn.relu(batch_norm(not train, **self.common, name='bn')(x))


class ConvNorm(Layer):
  """Convolution, normalisation and optionally ReLU, as one named layer.

  Studies can record the output of a named layer.

  Attributes:
    features: number of output channels.
    kernel: side of the kernel in pixels.
    stride: stride of the convolution.
    rectified: whether ReLU follows.
    norm: 'batch' or 'group'.
    norm_name: name of the normalisation layer among the variables.
  """

  features: int
  kernel: int = 3
  stride: int = 1
  rectified: bool = True
  norm: Norm = 'batch'
  norm_name: str = 'bn'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies a convolution and a norm, to [B, ⌈H / stride⌉, ⌈W / stride⌉, features].

    A ReLU follows if `rectified` is True.

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch; group norm ignores it.
    """
    x = convolution(self.features, self.kernel, self.stride, dtype=self.dtype, name='conv')(x)
    if self.norm == 'group':
      x = GroupNorm(dtype=self.dtype, name=self.norm_name)(x)
    else:
      x = batch_norm(not train, **self.common, name=self.norm_name)(x)
    return nn.relu(x) if self.rectified else x


class Stage(Layer):
  """A stage of a network: the blocks `block0`, `block1`, ... in sequence.

  Attributes:
    block: function that returns a block. It is called with `stride`, `name`, `dtype` and
      `axis_name`.
    num_blocks: number of blocks.
    stride: stride of the first block; the others have stride 1.
  """

  block: Callable[..., nn.Module]
  num_blocks: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies `num_blocks` blocks one after another; the first one has the stride of the stage.

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch.

    Returns:
      [B, ⌈H / stride⌉, ⌈W / stride⌉, features of the blocks].
    """
    for index in range(self.num_blocks):
      stride = self.stride if index == 0 else 1
      x = self.block(stride=stride, **self.common, name=f'block{index}')(x, train)
    return x


def residual_stages(
  x: jax.Array,
  train: bool,
  block: Callable[..., nn.Module],
  features: int,
  num_blocks: Sequence[int],
  **common: Unpack[Common],
) -> jax.Array:
  """Applies the residual stages `stage1`, `stage2`, ... of a network to features.

  Call this function inside the network's `__call__`. Each stage after the first halves height and
  width and doubles the number of channels.

  Args:
    x: features [B, H, W, C].
    train: whether batch norm uses the batch's statistics and updates its running statistics.
    block: function that returns a block, called with its number of channels and the arguments that
      `Stage` adds.
    features: number of channels of the first stage.
    num_blocks: number of blocks of each stage.
    **common: `dtype` and `axis_name` of the layers, see `Layer`.
  """
  for index, count in enumerate(num_blocks):
    stage_block = functools.partial(block, features * 2**index)
    stride = 1 if index == 0 else 2
    x = Stage(stage_block, count, stride, **common, name=f'stage{index + 1}')(x, train)
  return x


def at_least_float32(x: jax.Array) -> jax.Array:
  """Converts `x` to float32, unless its dtype is wider, such as float64."""
  return x.astype(jnp.promote_types(x.dtype, jnp.float32))


class LinearHead(nn.Module):
  """The last layer of a network: global average pooling and a linear map to logits.

  Both are computed in float32 or wider.

  Attributes:
    num_classes: number of logits.
    pool: whether to average over positions; otherwise the linear map takes the flattened features.
  """

  num_classes: int
  pool: bool = True

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to logits [B, num_classes] by a linear layer.

    With `pool` the mean over positions comes first, otherwise features are flattened. The input of
    the linear layer is kept as the output of the layer 'features'.
    """
    x = at_least_float32(x)
    x = jnp.mean(x, axis=(1, 2)) if self.pool else x.reshape(x.shape[0], -1)
    self.sow('intermediates', FEATURES, x)
    return nn.Dense(self.num_classes, dtype=x.dtype, name='dense')(x)


def sown_features(intermediates: PyTree) -> jax.Array | None:
  """Returns the inputs [B, F] of a network's last linear map, from its intermediates.

  Args:
    intermediates: the collection `intermediates` of a forward pass.

  Returns:
    The features that `LinearHead` stored by `sow`, or None.
  """
  flat: dict[Path, tuple[jax.Array, ...]] = traverse_util.flatten_dict(intermediates)
  # a value has an entry for each call of `sow`
  return next((value[0] for path, value in flat.items() if path[-1] == FEATURES), None)


def first_calls(intermediates: PyTree) -> dict[str, PyTree]:
  """Returns {path of a module, such as 'stage1/block0': output of its first call}.

  Args:
    intermediates: the tree that Linen or NNX collects with `capture_intermediates`.
  """
  flat = traverse_util.flatten_dict(intermediates)
  calls = {path[:-1]: outputs for path, outputs in flat.items() if path[-1] == '__call__'}
  return {'/'.join(map(str, module)): outputs[0] for module, outputs in calls.items()}
