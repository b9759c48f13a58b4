"""Augmentations in the Fourier domain: waves that are added, amplitudes and phases recombined."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.augmix import AugMix, after
from robustness.augment.operations import Operations
from robustness.core.registry import setting, word

AXES = (-3, -2, -1)
DIRECTIONS = 448


@dataclasses.dataclass(frozen=True)
class FourierBasis(Augmentation):
  """Gives clip(x + σ·w, 0, 1), with w a plane wave of its own for each channel, of root mean square
  1/32, and σ ~ smallest + Exp(mean).

  The frequency is one of 1, …, N waves along an image of N pixels (those above N/2 alias), the
  direction one of 448 in [−π, 0]. The image is [1 + waves, H, W, C], the first as it was, whose
  losses `cross_entropy` averages and whose predictions `jsd` draws together; [waves, H, W, C]
  without `clean`, and [H, W, C] where that is one.

  As in the released training, images with waves pass through normalisation layers of their own
  where `config.training.auxiliary_norms` is `waves`; else all images of a row share them.

  Attributes:
    smallest: the least σ.
    mean: of the exponential distribution; 10 in the released command for ImageNet.
    waves: how many images are made, each with its own draws.
    clean: whether the image itself comes before them.

  Reference:
    Vaish et al. (2024), Fourier-basis Functions to Bridge Augmentation Gap, section 3.
  """

  name: ClassVar[str] = 'afa'
  gives_more_images: ClassVar[bool] = True
  resembles = ('single_frequency_greyscale',)
  smallest: float = setting(0.0, 'at least 0', lambda x: x >= 0)
  mean: float = setting(10.0, 'above 0', lambda x: x > 0)
  waves: int = setting(1, 'at least 1', lambda x: x >= 1)
  clean: bool = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image = example['image']
    shape, count = (image.shape[0], image.shape[1]), (self.waves, image.shape[2])
    key_frequency, key_direction, key_strength = jax.random.split(key, 3)
    frequency = jax.random.randint(key_frequency, count, 1, max(shape) + 1)
    place = jax.random.randint(key_direction, count, 0, DIRECTIONS)
    direction = -jnp.linspace(0, jnp.pi, DIRECTIONS)[place]
    strength = self.smallest + self.mean * jax.random.exponential(key_strength, count)
    made = with_waves(image, frequency, direction, strength)
    return {**example, 'image': after(image, made, self.clean)}


def with_waves(
  image: jax.Array, frequency: jax.Array, direction: jax.Array, strength: jax.Array
) -> jax.Array:
  """Returns an image [H, W, C] in [0, 1] with waves of given draws [V, C], [V, H, W, C]; see
  `FourierBasis`. Directions are in radians; 0 varies from row to row."""
  height, width = image.shape[:2]
  y = jnp.linspace(-height / 2, height / 2, height)[None, :, None, None]
  x = jnp.linspace(-width / 2, width / 2, width)[None, None, :, None]
  along = y * jnp.cos(direction)[:, None, None] + x * jnp.sin(direction)[:, None, None]
  turns = frequency[:, None, None] / max(height, width) * along
  wave = jnp.sin(2 * jnp.pi * turns - jnp.pi / 4)
  wave /= jnp.sqrt((wave**2).sum((1, 2), keepdims=True))
  scale = strength[:, None, None] * (height * width) ** 0.5 / 32
  return jnp.clip(image[None] + scale * wave, 0, 1)


@dataclasses.dataclass(frozen=True)
class AmplitudesOfPairs(Augmentation):
  """Gives an image with its own phases and the amplitudes of another of the batch (APR-P).

  The target stays, so that a network learns from phases. The spectrum is over rows, columns and
  channels. Values may leave [0, 1], as in the released code: put it last. The partner is the row at
  the mirrored place of the batch, in random order.

  The released code draws once for a batch whether it is mixed, and this for each row: the mean is
  the same. Its loss is the sum of both images', and `cross_entropy` takes their mean.

  Attributes:
    probability: of mixing a row; .6 for CIFAR-10, .5 for ImageNet.
    clean: whether the image itself comes first, [2, H, W, C].

  Reference:
    Chen et al. (2021), Amplitude-Phase Recombination: Rethinking Robustness of Convolutional Neural
    Networks in Frequency Domain, section 3.2.
  """

  name: ClassVar[str] = 'apr_p'
  gives_more_images: ClassVar[bool] = True
  needs_partner: ClassVar[bool] = True
  resembles = ()
  probability: float = setting(0.6, 'in [0, 1]', lambda x: 0 <= x <= 1)
  clean: bool = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image = example['image']
    mixed = recombined(example['partner']['image'], image)
    made = jnp.where(jax.random.bernoulli(key, self.probability), mixed, image)
    return {**example, 'image': after(image, made[None], self.clean)}


@dataclasses.dataclass(frozen=True)
class AmplitudesOfOne(Augmentation):
  """Varies an image by an operation of AugMix and, in half of the cases, recombines it with what a
  second operation makes of that: the amplitudes of one, the phases of the other (APR-S).

  Which is which is drawn. Results are 8-bit levels, cut towards zero.

  Attributes:
    severity: the highest level of an operation, see `AugMix`.
    probability: of recombining.
    overflow: 'wrap' takes levels outside 0..255 modulo 256, as the released code does, 'clip' cuts
      them.

  Reference:
    See `AmplitudesOfPairs`.
  """

  name: ClassVar[str] = 'apr_s'
  sequential: ClassVar[bool] = True
  severity: float = setting(3.0, 'in (0.1, 10]', lambda x: 0.1 < x <= 10)
  probability: float = setting(0.5, 'in [0, 1]', lambda x: 0 <= x <= 1)
  overflow: str = word('wrap', ('wrap', 'clip'))

  @property
  def _drawn(self) -> AugMix:
    return AugMix(severity=self.severity, depth=1)

  @property
  def resembles(self) -> tuple[str, ...]:
    return self._drawn.resembles

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image, operations = example['image'], Operations(self._drawn.names, 'bilinear')
    key_first, key_second, key_choice, key_coin = jax.random.split(key, 4)
    first, second = (
      self._drawn.chains(own, (), image.shape[:2]) for own in (key_first, key_second)
    )
    once = operations.in_sequence(image, first)

    def recombine() -> jax.Array:
      twice, swaps = operations.in_sequence(once, second), jax.random.bernoulli(key_coin)
      pair = jnp.where(swaps, twice, once), jnp.where(swaps, once, twice)
      levels = jnp.trunc(255 * recombined(*pair))
      levels = levels % 256 if self.overflow == 'wrap' else jnp.clip(levels, 0, 255)
      return levels / 255

    chosen = jax.random.bernoulli(key_choice, self.probability)
    return {**example, 'image': jax.lax.cond(chosen, recombine, lambda: once)}


def recombined(amplitudes: jax.Array, phases: jax.Array) -> jax.Array:
  """Returns the image whose spectrum has the amplitudes of one image and the phases of another,
  float32 [..., H, W, C], as both."""
  spectrum = jnp.abs(jnp.fft.fftn(amplitudes, axes=AXES))
  turned = jnp.exp(1j * jnp.angle(jnp.fft.fftn(phases, axes=AXES)))
  return jnp.fft.ifftn(spectrum * turned, axes=AXES).real.astype(phases.dtype)
