"""The inputs of a network: images in [0, 1] after an input filter and normalisation."""

import abc
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.registry import PACKAGES, Part
from robustness.core.settings import require

SAME = 1e-3
"""Largest difference of a filtered pixel that counts as rounding."""


@dataclasses.dataclass(frozen=True)
class InputFilter(Part):
  """Base class of filters, with fields set by `config.classifier.input_filter.<name>.<field>`.

  An input filter is part of the classifier: training and evaluation share it, and gradients of
  attacks pass through it. The filters are in `robustness.fourier.input_filters`.
  """

  section = 'config.classifier.input_filter'

  @abc.abstractmethod
  def __call__(self, images: jax.Array) -> jax.Array:
    """Returns filtered images [B, H, W, C] of images in [0, 1], before normalisation."""

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """The transforms, or families of transforms, that filtered images resemble; () for none.

    Names are from `robustness.environments.transforms` and `robustness.corruptions.names.FAMILIES`.
    If a training must not show a transform to some classes, a filter that resembles it is refused.
    """

  def filtered(self, images: jax.Array) -> jax.Array:
    """Returns the filtered images; InputError if they have another shape or are no floats."""
    filtered = self(images)
    shape, dtype = jnp.shape(filtered), jnp.result_type(filtered)
    if shape != images.shape or not jnp.issubdtype(dtype, jnp.floating):
      raise InputError(
        f'the input filter {self.name!r} gives {dtype} {list(shape)} for images '
        f'{list(images.shape)}: give floats of the shape that it gets.'
      )
    return filtered

  def check(self, image_shape: tuple[int, int, int]) -> None:
    """Raises InputError unless the filter takes images of this shape.

    A filter of a user is refused if an image depends on the others that it is filtered with.
    """
    if type(self).__module__.partition('.')[0] in PACKAGES:
      jax.eval_shape(self.filtered, jax.ShapeDtypeStruct((1, *image_shape), jnp.float32))
      return
    images = np.random.default_rng(0).random((2, *image_shape), np.float32)
    of_two, of_one = (self.filtered(jnp.asarray(images[:count])) for count in (2, 1))
    if not np.allclose(of_two[0], of_one[0], atol=SAME, equal_nan=True):
      raise InputError(
        f'the input filter {self.name!r} gives an image other values beside a second one than '
        'alone: compute each image [H, W, C] of a batch for itself, without random numbers.'
      )


@dataclasses.dataclass(frozen=True)
class Inputs:
  """The input filter and the normalisation before a network, in training and in evaluation.

  Attributes:
    mean: number that is subtracted from pixels in [0, 1], one per channel or one for all.
    std: number that the difference is divided by, one per channel or one for all.
    input_filter: filter that is applied before normalisation; None for none.
  """

  mean: Sequence[float] = (0.0,)
  std: Sequence[float] = (1.0,)
  input_filter: InputFilter | None = None

  def __call__(self, images: jax.Array) -> jax.Array:
    """Returns the network's input, [B, H, W, C], of images [B, H, W, C] in [0, 1]."""
    if self.input_filter:
      images = self.input_filter.filtered(images)
    self.check(images.shape[-1])
    mean = jnp.asarray(self.mean, jnp.float32).reshape(1, 1, 1, -1)
    std = jnp.asarray(self.std, jnp.float32).reshape(1, 1, 1, -1)
    return (images - mean) / std

  def check(self, channels: int) -> None:
    """Raises InputError unless mean and std fit pixels in [0, 1] and the number of channels."""
    if max(self.mean, default=0) > 1 or min(self.std, default=1) <= 0:
      raise InputError(
        f'mean is {self.mean} and std is {self.std}; of images in [0, 1] no mean is above 1 and no '
        'std is 0. Divide those of images in 0..255 by 255.'
      )
    for name, values in (('mean', self.mean), ('std', self.std)):
      valid = f'one number, or one for each channel of the images, which have {channels}'
      require(len(values) in (1, channels), name, values, valid)
