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
    bandwidth: B, the side of the square; a square of this side must be symmetric about its centre
      for the size of the images.
  """

  bandwidth: int

  def __post_init__(self) -> None:
    """Raises InputError for a bandwidth below 1."""
    self.require(self.bandwidth >= 1, 'bandwidth', 'at least 1')

  def __call__(self, images: jax.Array) -> jax.Array:
    """Returns the filtered images, float32 [N, H, W, C]."""
    height, width = images.shape[1:3]
    mask = filters.half_spectrum(filters.KINDS[self.name](height, width, self.bandwidth))
    return jax.vmap(filters.filtered_by_half, (0, None))(images, jnp.asarray(mask))


@dataclasses.dataclass(frozen=True)
class LowPass(_Square):
  """Keeps the B × B square centred on zero frequency; B = 15 for 32 pixels in Yin et al. (2019)."""

  name = 'low_pass'
  resembles = ('blur',)
  bandwidth: int = 15


@dataclasses.dataclass(frozen=True)
class HighPass(_Square):
  """Keeps the B × B square of the highest frequencies, centred on the Nyquist frequency.

  Yin et al. (2019) have B = 31 for 32 pixels, which removes all frequencies with f_y = 0 or
  f_x = 0. This is not the complement of a low pass. Results may leave [0, 1].

  Attributes:
    bandwidth: B.
  """

  name = 'high_pass'
  resembles = ()
  bandwidth: int = 31


INPUT_FILTERS = Registry('robustness.fourier.input_filters', InputFilter)  # type: ignore[type-abstract]
"""The filters by name, for `input_filter` in a classifier's section of the config."""
