"""A small convolutional network for digits: quick to train and quick to run on two CPU cores."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.layers import ConvNormRelu, LinearHead

WIDTHS = (16, 32, 64)


class SmallCNN(nn.Module):
  """Three strided convolutions with batch norm and ReLU, then a linear map of all positions.

  Layers: `stage1` (5×5 kernel), `stage2` and `stage3` (3×3), each after its ReLU and each halving
  the image, and `head`. The head sees where a feature lies, so trained weights belong to one image
  size: on digits that is worth a point and a half of accuracy over the mean of the positions.

  Attributes:
    num_classes: number of logits.
    dtype: what is computed in; parameters, statistics and logits are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  num_classes: int
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    Args:
      x: images after the architecture's own normalisation, of any height and width.
      train: True uses batch statistics and updates the collection `batch_stats`.
    """
    x = x.astype(self.dtype)
    for index, features in enumerate(WIDTHS):
      kernel = 5 if index == 0 else 3
      stage = ConvNormRelu(
        features, kernel, 2, self.dtype, self.axis_name, name=f'stage{index + 1}'
      )
      x = stage(x, train)
    return LinearHead(self.num_classes, pool=False, name='head')(x)


def build(num_classes: int, dtype: Any, axis_name: str | None) -> nn.Module:
  """Returns the network; see `SmallCNN` for the arguments."""
  return SmallCNN(num_classes, dtype, axis_name)
