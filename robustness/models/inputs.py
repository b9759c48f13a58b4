"""The inputs of a network: images in [0, 1] after an input filter and normalisation."""

import abc
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.registry import Part
from robustness.core.settings import require
from robustness.core.user_code import PACKAGES

SAME = 1e-3
"""Largest difference of a filtered pixel that counts as rounding."""


@dataclasses.dataclass(frozen=True)
class InputFilter(Part):
  """Base class of input filters, which change images before a classifier's network.

  An input filter is part of the classifier: training and evaluation share it, and gradients of
  attacks pass through it. Its fields are set by `config.classifier.input_filter.<name>.<field>`.
  The filters are in `robustness.fourier.input_filters`.
  """

  section = 'config.classifier.input_filter'

  @abc.abstractmethod
  def __call__(self, images: jax.Array) -> jax.Array:
    """Returns filtered images [B, H, W, C] of images in [0, 1], before normalisation."""

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """Names of the image transforms that the filter resembles; () for none.

    For example, a low-pass filter resembles ('blur',). Names of families of transforms are allowed
    too. The names are in `robustness.environments.transforms` and
    `robustness.corruptions.names.FAMILIES`.

    Some trainings hide a transform from some classes. They refuse filters that resemble this
    transform.
    """

  def filtered(self, images: jax.Array) -> jax.Array:
    """Returns the filtered images [B, H, W, C].

    Raises:
      InputError: the result has another shape than `images`, or is not of a floating-point type.
    """
    filtered = self(images)
    shape, dtype = jnp.shape(filtered), jnp.result_type(filtered)
    if shape != images.shape or not jnp.issubdtype(dtype, jnp.floating):
      raise InputError(
        f'the input filter {self.name!r} gives {dtype} {list(shape)} for images '
        f'{list(images.shape)}: give floats of the shape that it gets.'
      )
    return filtered

  def check(self, image_shape: tuple[int, int, int]) -> None:
    """Checks that the filter accepts images of this shape [H, W, C].

    Filters of users must also filter each image independently of the rest of the batch.

    Raises:
      InputError: the filter fails a check.
    """
    if type(self).__module__.partition('.')[0] in PACKAGES:  # a filter of this project
      jax.eval_shape(self.filtered, jax.ShapeDtypeStruct((1, *image_shape), jnp.float32))
      return
    images = np.random.default_rng(0).random((2, *image_shape), np.float32)
    together = self.filtered(jnp.asarray(images))
    alone = self.filtered(jnp.asarray(images[:1]))
    if not np.allclose(together[0], alone[0], atol=SAME, equal_nan=True):
      raise InputError(
        f'the input filter {self.name!r} gives an image other values beside a second one than '
        'alone: compute each image [H, W, C] of a batch for itself, without random numbers.'
      )


@dataclasses.dataclass(frozen=True)
class Inputs:
  """The preprocessing of a network's images: a filter, then normalisation.

  Attributes:
    mean: mean of pixels in [0, 1], one number per channel or one for all.
    std: standard deviation of pixels in [0, 1], one number per channel or one for all.
    input_filter: filter to apply before normalisation; None for none.
  """

  mean: Sequence[float] = (0.0,)
  std: Sequence[float] = (1.0,)
  input_filter: InputFilter | None = None

  def __call__(self, images: jax.Array) -> jax.Array:
    """Filters and normalises images [B, H, W, C] in [0, 1], as the network takes them.

    The filter, if there is one, comes first; then (x − mean) / std.
    """
    if self.input_filter:
      images = self.input_filter.filtered(images)
    self.check(images.shape[-1])
    mean = jnp.asarray(self.mean, jnp.float32).reshape(1, 1, 1, -1)
    std = jnp.asarray(self.std, jnp.float32).reshape(1, 1, 1, -1)
    return (images - mean) / std

  def check(self, channels: int) -> None:
    """Checks the values and the lengths of `mean` and `std`.

    Args:
      channels: number of channels of the images.

    Raises:
      InputError: a mean is above 1, a std is not positive, or the length is neither 1 nor
        `channels`.
    """
    if max(self.mean, default=0) > 1 or min(self.std, default=1) <= 0:
      raise InputError(
        f'mean is {self.mean} and std is {self.std}; of images in [0, 1] no mean is above 1 and no '
        'std is 0. Divide those of images in 0..255 by 255.'
      )
    for name, values in (('mean', self.mean), ('std', self.std)):
      valid = f'one number, or one for each channel of the images, which have {channels}'
      require(len(values) in (1, channels), name, values, valid)
