"""Augmentations in the Fourier domain: added plane waves, and recombined amplitudes and phases."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.augmix import AugMix, stack_variants
from robustness.augment.operations import Operations
from robustness.core.registry import setting, word

AXES = (-3, -2, -1)
"""Axes of the Fourier transform of recombined images: rows, columns and channels."""
DIRECTIONS = 448
"""The number of directions of waves, as in the released code."""


@dataclasses.dataclass(frozen=True)
class FourierBasis(Augmentation):
  """Adds a random plane wave to each channel of the image.

  A channel x becomes clip(x + σ·w, 0, 1). The wave w has the root mean square 1/32. Its strength σ
  is `smallest` plus a random number from an exponential distribution with the mean `mean`. The wave
  has 1, …, N periods across an image with N pixels on its longer side, with equal probabilities;
  more than N/2 periods alias. The direction is one of 448 angles from −π to 0.

  The result is [1 + waves, H, W, C] with the clean image first. Without `clean` it is [waves, H, W,
  C], or [H, W, C] for a single image. The objective `cross_entropy` averages the losses of all
  these images, and `jsd` also penalises differences of their predictions. If
  `config.training.auxiliary_norms` equals `waves`, images with waves have normalisation layers of
  their own, as in the released training.

  Attributes:
    smallest: smallest strength σ.
    mean: mean of the exponential distribution; 10 in the released command for ImageNet.
    waves: number of images with waves, each with independent random numbers.
    clean: whether the clean image is included.

  Reference:
    Vaish et al. (2024), Fourier-basis Functions to Bridge Augmentation Gap, section 3.
  """

  name = 'afa'
  gives_more_images = True
  resembles = ('single_frequency_greyscale',)
  smallest: float = setting(0.0, 'at least 0', lambda x: x >= 0)
  mean: float = setting(10.0, 'above 0', lambda x: x > 0)
  waves: int = setting(1, 'at least 1', lambda x: x >= 1)
  clean: bool = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with the clean image and images with plane waves, [1 + waves, H, W, C].

    Without `clean` they are [waves, H, W, C], or [H, W, C] for a single image.
    """
    image = example['image']
    height, width, channels = image.shape
    count = (self.waves, channels)
    key_frequency, key_direction, key_strength = jax.random.split(key, 3)
    frequency = jax.random.randint(key_frequency, count, 1, max(height, width) + 1)
    index = jax.random.randint(key_direction, count, 0, DIRECTIONS)
    direction = -jnp.linspace(0, jnp.pi, DIRECTIONS)[index]
    strength = self.smallest + self.mean * jax.random.exponential(key_strength, count)
    images = with_waves(image, frequency, direction, strength)
    return {**example, 'image': stack_variants(image, images, self.clean)}


def with_waves(
  image: jax.Array, frequency: jax.Array, direction: jax.Array, strength: jax.Array
) -> jax.Array:
  """Returns V versions of an image, with one plane wave added to each channel, [V, H, W, C].

  A wave is a sine of the position along its direction. Its root mean square is σ / 32. The result
  is clipped to [0, 1].

  Args:
    image: [H, W, C] in [0, 1].
    frequency: number of periods across the longer side of the image, [V, C].
    direction: angle in radians of the direction in which a wave varies, [V, C]; 0 is downwards.
    strength: strength σ of the waves, [V, C].
  """
  height, width = image.shape[:2]
  # rows and columns from the centre of the image, and the position along the direction in pixels
  y = jnp.linspace(-height / 2, height / 2, height)[None, :, None, None]
  x = jnp.linspace(-width / 2, width / 2, width)[None, None, :, None]
  # [V, H, W, C]
  along = y * jnp.cos(direction)[:, None, None] + x * jnp.sin(direction)[:, None, None]
  turns = frequency[:, None, None] / max(height, width) * along
  wave = jnp.sin(2 * jnp.pi * turns - jnp.pi / 4)
  wave /= jnp.sqrt((wave**2).sum((1, 2), keepdims=True))  # now of norm 1
  scale = strength[:, None, None] * (height * width) ** 0.5 / 32
  return jnp.clip(image[None] + scale * wave, 0, 1)


@dataclasses.dataclass(frozen=True)
class AmplitudesOfPairs(Augmentation):
  """Combines the Fourier phases of an image with the amplitudes of another image (APR-P).

  The Fourier transform is over rows, columns and channels. The label stays the same, so that the
  network learns to classify by phases. The other image is a random image of the batch. The
  combination may leave [0, 1], as in the released code, so put this augmentation last. The result
  has the clean and the combined image, [2, H, W, C].

  Unlike in the released code, each image is combined with the same probability independently of the
  batch. The released code adds the losses of both images, and the objective `cross_entropy`
  averages them.

  Attributes:
    probability: probability of combining an image; .6 for CIFAR-10, .5 for ImageNet.
    clean: whether the clean image is included. Without it, the result is [H, W, C].

  Reference:
    Chen et al. (2021), Amplitude-Phase Recombination: Rethinking Robustness of Convolutional Neural
    Networks in Frequency Domain, section 3.2.
  """

  name = 'apr_p'
  gives_more_images = True
  needs_partner = True
  resembles = ()
  probability: float = setting(0.6, 'in [0, 1]', lambda x: 0 <= x <= 1)
  clean: bool = True

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with the clean and the combined image, [2, H, W, C].

    Without `clean` it is the combined image alone, [H, W, C].
    """
    image = example['image']
    mixed = recombined(example['partner']['image'], image)
    mixed = jnp.where(jax.random.bernoulli(key, self.probability), mixed, image)
    return {**example, 'image': stack_variants(image, mixed[None], self.clean)}


@dataclasses.dataclass(frozen=True)
class AmplitudesOfOne(Augmentation):
  """Combines the Fourier amplitudes and phases of two distorted versions of one image (APR-S).

  The first version is the image after a random operation of AugMix, such as a rotation. With
  `probability`, a second operation makes a second version from the first. The result then has the
  amplitudes of one version and the phases of the other, at random which. It is truncated to 8-bit
  values. Otherwise the result is the first version.

  Attributes:
    severity: highest strength of an operation, see `AugMix`.
    probability: probability of the second operation.
    overflow: what happens to values outside 0..255: 'wrap' takes them modulo 256, as the released
      code does, 'clip' clips them.

  Reference:
    Chen et al. (2021), as for `AmplitudesOfPairs`.
  """

  name = 'apr_s'
  sequential = True
  severity: float = setting(3.0, 'in (0.1, 10]', lambda x: 0.1 < x <= 10)
  probability: float = setting(0.5, 'in [0, 1]', lambda x: 0 <= x <= 1)
  overflow: str = word('wrap', ('wrap', 'clip'))

  @property
  def _augmix(self) -> AugMix:
    """An AugMix with chains of one operation, used to draw the operations."""
    return AugMix(severity=self.severity, depth=1)

  @property
  def resembles(self) -> tuple[str, ...]:
    """Names of the image transforms, such as 'contrast', that the operations look like."""
    return self._augmix.resembles

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with a distorted image, [H, W, C].

    With `probability`, it combines two distorted versions of the image.
    """
    image, operations = example['image'], Operations(self._augmix.names, 'bilinear')
    key_once, key_twice, key_has_second, key_amplitudes = jax.random.split(key, 4)
    # chains of one operation; the shape () stands for a single chain
    first = self._augmix.chains(key_once, (), image.shape[:2])
    second = self._augmix.chains(key_twice, (), image.shape[:2])
    once = operations.in_sequence(image, first)

    def combined() -> jax.Array:
      """Returns the image that combines both versions."""
      return self._combined(key_amplitudes, once, operations.in_sequence(once, second))

    has_second = jax.random.bernoulli(key_has_second, self.probability)
    return {**example, 'image': jax.lax.cond(has_second, combined, lambda: once)}

  def _combined(self, key: jax.Array, once: jax.Array, twice: jax.Array) -> jax.Array:
    """Returns an image with the amplitudes of one version and the phases of the other.

    Args:
      key: random key of the choice which version provides the amplitudes.
      once: the image after one operation, [H, W, C].
      twice: the image after two operations, [H, W, C].
    """
    amplitudes_from_twice = jax.random.bernoulli(key)
    amplitudes = jnp.where(amplitudes_from_twice, twice, once)
    phases = jnp.where(amplitudes_from_twice, once, twice)
    levels = jnp.trunc(255 * recombined(amplitudes, phases))
    levels = levels % 256 if self.overflow == 'wrap' else jnp.clip(levels, 0, 255)
    return levels / 255


def recombined(amplitudes: jax.Array, phases: jax.Array) -> jax.Array:
  """Returns an image with the Fourier amplitudes of one image and the phases of another.

  Args:
    amplitudes: the image that provides amplitudes, float32 [..., H, W, C].
    phases: the image that provides phases, float32 [..., H, W, C].
  """
  amplitude = jnp.abs(jnp.fft.fftn(amplitudes, axes=AXES))
  unit = jnp.exp(1j * jnp.angle(jnp.fft.fftn(phases, axes=AXES)))  # complex numbers of modulus 1
  return jnp.fft.ifftn(amplitude * unit, axes=AXES).real.astype(phases.dtype)
