"""A low-pass filter in front of the network."""

from __future__ import annotations

import dataclasses

import jax

from robustness.core.settings import require
from robustness.fourier import filters

RESEMBLES = ('gaussian_blur', 'defocus_blur', 'motion_blur', 'zoom_blur', 'glass_blur', 'pixelate')


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.front_end.low_pass`.

  Attributes:
    bandwidth: B, the B × B square of frequencies centred on zero that is kept; 15 of 32
      pixels in the paper.
  """

  bandwidth: int = 15

  def __post_init__(self) -> None:
    require(
      self.bandwidth >= 1,
      'config.classifier.front_end.low_pass.bandwidth',
      self.bandwidth,
      'at least 1',
    )


def front_end(images: jax.Array, settings: Settings) -> jax.Array:
  """Keeps the B × B square of frequencies centred on zero; values may leave [0, 1].

  Args:
    images: [B, H, W, C] in [0, 1].
    settings: see there.

  Returns:
    Filtered images, float32 [B, H, W, C].

  Raises:
    InputError: a bandwidth that is no symmetric square of frequencies for this size.

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, section 2.
  """
  height, width = images.shape[1:3]
  return filters.filtered(images, filters.low_pass(height, width, settings.bandwidth))
