"""Low-pass and high-pass filters applied to a network's input (Yin et al. 2019, section 2)."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.core.registry import Registry
from robustness.fourier import filters
from robustness.models.inputs import InputFilter


@dataclasses.dataclass(frozen=True)
class _Square(InputFilter):
  """Base class of filters that keep a B × B square of frequencies; results may leave [0, 1].

  Attributes:
    bandwidth: B. The square must be symmetric about its centre: B is odd, but even for a high pass
      on images with an odd side.
  """

  bandwidth: int

  def __post_init__(self) -> None:
    """Raises InputError if the bandwidth is below 1."""
    self.require(self.bandwidth >= 1, 'bandwidth', 'at least 1')

  def __call__(self, images: jax.Array) -> jax.Array:
    """Returns the filtered images, float32 [N, H, W, C]."""
    height, width = images.shape[1:3]
    mask = filters.half_spectrum(filters.KINDS[self.name](height, width, self.bandwidth))
    return jax.vmap(filters.filtered_by_half, (0, None))(images, jnp.asarray(mask))


@dataclasses.dataclass(frozen=True)
class LowPass(_Square):
  """Low-pass filter that keeps the B × B square of frequencies centred on zero.

  Yin et al. (2019) have B = 15 for 32 pixels. Results may leave [0, 1].

  Attributes:
    bandwidth: B, odd.
  """

  name = 'low_pass'
  resembles = ('blur',)
  bandwidth: int = 15


@dataclasses.dataclass(frozen=True)
class HighPass(_Square):
  """High-pass filter that keeps the B × B square centred on the Nyquist frequency.

  Yin et al. (2019) have B = 31 for 32 pixels, which removes all frequencies with f_y = 0 or f_x =
  0. The filter is not the complement of a low pass. Results may leave [0, 1].

  Attributes:
    bandwidth: B, odd for images with an even side and even for an odd side.
  """

  name = 'high_pass'
  resembles = ()
  bandwidth: int = 31


INPUT_FILTERS = Registry('robustness.fourier.input_filters', InputFilter)  # type: ignore[type-abstract]
"""The filters by name, for `input_filter` in a classifier's section of the config."""
