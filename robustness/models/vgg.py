"""VGG-16 and VGG-19, plain and with batch norm: 3×3 convolutions between poolings.

Reference: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image
Recognition, 2015, table 1, columns D and E.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.models.layers import FEATURES, at_least_float32, batch_norm, he_normal
from robustness.models.naming import (
  FLAT_IMAGE,
  OUTPUT_FIRST,
  OUTPUT_FIRST_POINTWISE,
  Path,
  Scheme,
  Stored,
  pytorch_array,
)

CONVOLUTIONS_PER_STAGE = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
WIDTHS = (64, 128, 256, 512, 512)
NORMS = ('none', 'batch')
POOLED_SIDE = 7
HIDDEN = 4096


class Stage(nn.Module):
  """3×3 convolutions with ReLU, and batch norm if wanted; then the maximum of 2×2 windows."""

  features: int
  num_convolutions: int
  norm: str = 'none'
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, H // 2, W // 2, features]."""
    for index in range(self.num_convolutions):
      x = nn.Conv(
        self.features,
        (3, 3),
        padding=1,
        dtype=self.dtype,
        kernel_init=he_normal,
        name=f'conv{index}',
      )(x)
      if self.norm == 'batch':
        x = batch_norm(train, dtype=self.dtype, axis_name=self.axis_name, name=f'norm{index}')(x)
      x = nn.relu(x)
    return nn.max_pool(x, (2, 2), (2, 2))


class Perceptron(nn.Module):
  """Means over 7×7 parts of the image, two hidden layers with ReLU, and the map to logits."""

  num_classes: int
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to logits [B, num_classes], in float32 or wider."""
    x = nn.relu(
      nn.Conv(HIDDEN, (POOLED_SIDE, POOLED_SIDE), padding='VALID', dtype=self.dtype, name='fc1')(
        part_means(x, POOLED_SIDE)
      )[:, 0, 0]
    )
    x = nn.relu(nn.Dense(HIDDEN, dtype=self.dtype, name='fc2')(x))
    x = at_least_float32(x)
    self.sow('intermediates', FEATURES, x)
    return nn.Dense(self.num_classes, dtype=x.dtype, name='dense')(x)


class VGG(nn.Module):
  """VGG without dropout.

  Layers: `stage1` to `stage5`, each after its pooling, and `head`, in it `fc1` and `fc2`.

  Attributes:
    num_classes: number of logits.
    depth: number of weighted layers, a key of `CONVOLUTIONS_PER_STAGE`.
    norm: one of `NORMS`.
    dtype: what is computed in; parameters, statistics and logits are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  num_classes: int
  depth: int = 16
  norm: str = 'none'
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    Args:
      x: images after the architecture's own normalisation, of height and width 32 or more.
      train: True uses batch statistics and updates the collection `batch_stats`.
    """
    x = x.astype(self.dtype)
    for index, number in enumerate(CONVOLUTIONS_PER_STAGE[self.depth]):
      stage = Stage(
        WIDTHS[index], number, self.norm, self.dtype, self.axis_name, name=f'stage{index + 1}'
      )
      x = stage(x, train)
    return Perceptron(self.num_classes, self.dtype, name='head')(x)


def part_means(x: jax.Array, parts: int) -> jax.Array:
  """Returns the means of `x` [B, H, W, C] over a grid of parts, [B, parts, parts, C].

  Part i of a side of n pixels goes from ⌊i n / parts⌋ to ⌈(i + 1) n / parts⌉; parts overlap where n
  is no multiple.
  """
  rows, columns = (jnp.asarray(_averages(side, parts), x.dtype) for side in x.shape[1:3])
  return jnp.einsum('ph,bhwc,qw->bpqc', rows, x, columns)


def _averages(side: int, parts: int) -> np.ndarray:
  """Returns the matrix [parts, side] that averages each part."""
  pixels, index = np.arange(side)[None, :], np.arange(parts)[:, None]
  inside = (pixels >= index * side // parts) & (pixels < -(-(index + 1) * side // parts))
  return inside / inside.sum(axis=1, keepdims=True)


def build(num_classes: int, dtype: Any, axis_name: str | None, depth: int, norm: str) -> nn.Module:
  """Returns the network of `depth` weighted layers; see `VGG` for the arguments.

  Raises:
    InputError: an unknown depth or norm.
  """
  if depth not in CONVOLUTIONS_PER_STAGE:
    valid = ', '.join(map(str, CONVOLUTIONS_PER_STAGE))
    raise InputError(f'no VGG of depth {depth}; valid: {valid}')
  if norm not in NORMS:
    raise InputError(f'no norm {norm!r}: {nearest(norm, NORMS)}')
  return VGG(num_classes, depth, norm, dtype, axis_name)


def schemes(depth: int, norm: str) -> tuple[Scheme, ...]:
  """Returns torchvision's and timm's names, which differ in the head only."""
  indices = _feature_indices(depth, norm)

  def locate(path: Path, heads: dict[str, str], timm: bool) -> Stored:
    *layer, leaf = path[1:]
    if layer[0] != 'head':
      return pytorch_array(f'features.{indices[layer[0], layer[1]]}', leaf)
    if layer[1] == 'fc1':
      return pytorch_array(heads['fc1'], leaf, OUTPUT_FIRST if timm else FLAT_IMAGE)
    pointwise = timm and layer[1] == 'fc2'
    return pytorch_array(
      heads[layer[1]], leaf, OUTPUT_FIRST_POINTWISE if pointwise else OUTPUT_FIRST
    )

  torchvision = {'fc1': 'classifier.0', 'fc2': 'classifier.3', 'dense': 'classifier.6'}
  timm = {'fc1': 'pre_logits.fc1', 'fc2': 'pre_logits.fc2', 'dense': 'head.fc'}
  ignored = ('*.num_batches_tracked',)
  return (
    Scheme('torchvision', lambda path: locate(path, torchvision, False), ignored),
    Scheme('timm', lambda path: locate(path, timm, True), ignored),
  )


def _feature_indices(depth: int, norm: str) -> dict[tuple[str, str], int]:
  """Returns the place of each convolution and norm among the layers, ReLUs and poolings too."""
  indices: dict[tuple[str, str], int] = {}
  index = 0
  for stage, number in enumerate(CONVOLUTIONS_PER_STAGE[depth], start=1):
    for convolution in range(number):
      indices[f'stage{stage}', f'conv{convolution}'] = index
      indices[f'stage{stage}', f'norm{convolution}'] = index + 1
      index += 3 if norm == 'batch' else 2
    index += 1
  return indices
