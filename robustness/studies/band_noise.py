"""Error under noise of one norm with frequencies inside or outside a centred square.

White noise is filtered, scaled to the norm and added to the image (Yin et al. 2019, section 4.1 and
figure 5).
"""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.core.registry import setting
from robustness.estimates.quantity import CLEAN_ERROR, ERROR
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import ImageShape
from robustness.evaluation.views import Arrays
from robustness.fourier import basis
from robustness.fourier.band_study import BandStudy
from robustness.fourier.filters import filtered_by_half

PUBLISHED_NORMS = {32: (8.0,)}
"""Norms in the paper by the side of the images in pixels."""
MIN_NORM = 1e-12
"""Smallest norm that noise is divided by, which keeps it finite if its norm is 0."""


@dataclasses.dataclass(frozen=True)
class BandNoise(BandStudy):
  """A study of error under Gaussian noise that is limited to a band of frequencies.

  Attributes:
    norm: ℓ2 norm of the noise in each channel, above 0. The paper has 8 for CIFAR-10.
    clip: whether noisy images are clipped to [0, 1], which the paper does not do.
  """

  title = 'Error under noise by band of frequencies'
  papers = ('yin2019fourier',)
  quantities = (ERROR, CLEAN_ERROR)

  norm: float = setting(8.0, 'a finite number above 0', lambda x: 0 < x < float('inf'))
  clip: bool = False

  def _show(self, key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
    """Adds band-limited Gaussian noise to an image [H, W, C] and returns the result.

    The noise has the ℓ2 norm `norm` in each channel.

    Args:
      key: random key.
      row: the image, `row['image']`, in [0, 1].
      view: `kept`, the frequencies of the noise, and `bandwidth`. If this is 0, the image is
        unchanged.
    """
    image = row['image']
    noise = filtered_by_half(jax.random.normal(key, image.shape), view['kept'])
    length = jnp.sqrt((noise**2).sum((0, 1), keepdims=True))
    noisy = image + self.norm * noise / jnp.maximum(length, MIN_NORM)  # no division by 0
    if self.clip:
      noisy = jnp.clip(noisy, 0, 1)
    return jnp.where(view['bandwidth'] > 0, noisy, image)

  @property
  def shown_as(self) -> dict[str, str]:
    """{'noise': the norm of the noise in each channel, and whether images are clipped}."""
    return {'noise': basis.wave_in_words(self.norm, self.clip)}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns deviations from the published experiment, such as another norm of the noise."""
    side = image_shape[0]
    differing = basis.differences_from_paper(self.norm, PUBLISHED_NORMS, side, clip=self.clip)
    return [*super().differences(records, image_shape), *differing]
