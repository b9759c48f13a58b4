"""Low-pass and high-pass filters in front of a network (Yin et al. 2019, section 2)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.core.registry import Registry
from robustness.fourier import filters
from robustness.models.inputs import InputFilter


@dataclasses.dataclass(frozen=True)
class _Square(InputFilter):
  """Keeps a B × B square of frequencies; values may leave [0, 1].

  Attributes:
    bandwidth: B, refused where it is no symmetric square of frequencies for the size of images.
  """

  bandwidth: int

  def __post_init__(self) -> None:
    self.require(self.bandwidth >= 1, 'bandwidth', 'at least 1')

  def __call__(self, images: jax.Array) -> jax.Array:
    """See `InputFilter`."""
    height, width = images.shape[1:3]
    kept = filters.half(filters.KINDS[self.name](height, width, self.bandwidth))
    return jax.vmap(filters.filtered_by_half, (0, None))(images, jnp.asarray(kept))


@dataclasses.dataclass(frozen=True)
class LowPass(_Square):
  """Keeps the square centred on zero; 15 of 32 pixels in the paper."""

  name: ClassVar[str] = 'low_pass'
  resembles = ('blur',)
  bandwidth: int = 15


@dataclasses.dataclass(frozen=True)
class HighPass(_Square):
  """Keeps the square centred on the Nyquist frequency; 31 of 32 pixels in the paper.

  It is not the complement of a low pass; B = 31 removes the zero row and column of frequencies.
  """

  name: ClassVar[str] = 'high_pass'
  resembles = ()
  bandwidth: int = 31


INPUT_FILTERS = Registry('robustness.fourier.input_filters', InputFilter)  # type: ignore[type-abstract]
