"""Low-pass and high-pass filters in front of a network.

Reference:
  Yin et al. (2019), A Fourier Perspective on Model Robustness, section 2.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from robustness.core.registry import Registry
from robustness.fourier import filters
from robustness.models.inputs import InputFilter


@dataclasses.dataclass(frozen=True)
class LowPass(InputFilter):
  """Keeps the B × B square of frequencies centred on zero; values may leave [0, 1].

  Attributes:
    bandwidth: B; 15 of 32 pixels in the paper. One that is no symmetric square of frequencies for
      the size of the images is refused.
  """

  name: ClassVar[str] = 'low_pass'
  resembles = (
    'gaussian_blur',
    'defocus_blur',
    'motion_blur',
    'zoom_blur',
    'glass_blur',
    'pixelate',
  )
  bandwidth: int = 15

  def __post_init__(self) -> None:
    self.require(self.bandwidth >= 1, 'bandwidth', 'at least 1')

  def __call__(self, images: jax.Array) -> jax.Array:
    """See `InputFilter`."""
    height, width = images.shape[1:3]
    return filters.filtered(images, filters.low_pass(height, width, self.bandwidth))


@dataclasses.dataclass(frozen=True)
class HighPass(InputFilter):
  """Keeps the B × B square of frequencies centred on the Nyquist frequency.

  Values may leave [0, 1]. It is not the complement of a low pass; with 32 pixels, B = 31 removes
  the zero row and column of frequencies.

  Attributes:
    bandwidth: B, see `LowPass`; 31 of 32 pixels in the paper.
  """

  name: ClassVar[str] = 'high_pass'
  resembles = ()
  bandwidth: int = 31

  def __post_init__(self) -> None:
    self.require(self.bandwidth >= 1, 'bandwidth', 'at least 1')

  def __call__(self, images: jax.Array) -> jax.Array:
    """See `InputFilter`."""
    height, width = images.shape[1:3]
    return filters.filtered(images, filters.high_pass(height, width, self.bandwidth))


INPUT_FILTERS = Registry('robustness.fourier.input_filters', InputFilter)  # type: ignore[type-abstract]
