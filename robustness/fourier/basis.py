"""The real Fourier basis of images: its frequencies, basis images, and views that add them.

For the frequency (fy, fx), in cycles per image down and across, the basis image U has unit ℓ2 norm.
Its spectrum is zero except at (fy, fx) and at the mirror −(fy, fx) modulo the image size
(Yin et al. 2019, section 2). At row y and column x of an H × W image, with
θ = 2π (fy y / H + fx x / W),

  U(y, x) = √(2 / HW) cos(θ + φ)   if (fy, fx) differs from its mirror,
  U(y, x) = √(1 / HW) cos θ        if it is its own mirror (zero and Nyquist frequencies).

The paper does not state the phase φ. The phase 'reference' follows the authors' release: φ = π/4
for that frequency of a mirrored pair which is first in row-major order of the centred spectrum. The
phase 'cosine' is φ = 0. Spectra are centred (`fftshift`): index p of an axis of n is the frequency
p − n // 2, so that the Nyquist row and column of an even size come first.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from matplotlib.figure import Figure

from robustness.core import random_keys
from robustness.core.arguments import as_array, as_images, as_key, check_integers, check_within
from robustness.core.errors import InputError, SettingError
from robustness.core.settings import choice
from robustness.evaluation.views import Arrays, Views
from robustness.fourier.filters import centred_frequencies
from robustness.present import images

PHASES = {'reference': np.pi / 4, 'cosine': 0.0}
"""Phase φ in radians by its name."""
ROUNDING = 1e-6
"""How far the pixels that `perturb` takes may be outside of [0, 1]."""
CLEAN = 0
"""Index of the clean view; the frequencies follow."""


@dataclasses.dataclass(frozen=True)
class Frequencies:
  """The V distinct frequencies of a real image, or of a window of its spectrum.

  (fy, fx) and the mirror −(fy, fx) count as one frequency. The window is centred on zero frequency.

  Attributes:
    fy, fx: int32 [V], cycles per image down and across, of one frequency of each mirrored pair.
    cell: int32 [window height, window width], index into `fy` and `fx` for each position of the
      window. A mirror has the index of its frequency.
  """

  fy: np.ndarray
  fx: np.ndarray
  cell: np.ndarray

  def __len__(self) -> int:
    return len(self.fy)


def distinct_frequencies(height: int, width: int, window: int = 0) -> Frequencies:
  """Returns the distinct frequencies of an image, or of a window around zero frequency.

  A frequency (fy, fx) of a real image and the mirror (−fy, −fx), modulo the size, count as one.
  There are 514 in 32 × 32 pixels, 394 in 28 × 28, 25,090 in 224 × 224, and 1985 in a window of 63 ×
  63.

  Args:
    height: height of the image in pixels.
    width: width of the image in pixels.
    window: side of the centred square of frequencies, at most the shorter side; 0 takes all.

  Raises:
    InputError: the window is negative or larger than the image.
  """
  if window < 0 or window > min(height, width):
    limit = f'in 1..{min(height, width)} for images of {height} × {width} pixels'
    raise SettingError('window', window, f'{limit}, or 0 for all frequencies')
  rows, columns = (window, window) if window else (height, width)
  axis_y = centred_frequencies(rows).astype(np.int32)
  axis_x = centred_frequencies(columns).astype(np.int32)

  def indices(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns the position of each frequency (y[i], x[j]) in a spectrum, int [len(y), len(x)].

    Positions in the H × W spectrum count row by row, with zero frequency in the centre.
    """
    row, column = (y + height // 2) % height, (x + width // 2) % width
    return row[:, None] * width + column

  index, mirror_index = indices(axis_y, axis_x), indices(-axis_y, -axis_x)
  # The smaller index stands for a frequency and its mirror. `number` has, for each cell of the
  # window, the position of its pair in `distinct`.
  distinct, number = np.unique(np.minimum(index, mirror_index), return_inverse=True)
  # Back from an index, row · width + column, to cycles per image.
  fy, fx = distinct // width - height // 2, distinct % width - width // 2
  cells = number.reshape(rows, columns)
  return Frequencies(fy.astype(np.int32), fx.astype(np.int32), cells.astype(np.int32))


def basis_image(
  fy: jax.Array, fx: jax.Array, height: int, width: int, phase: str = 'reference'
) -> jax.Array:
  """Returns the Fourier basis image U of one frequency, a wave of ℓ2 norm 1.

  The wave is proportional to cos(2π (fy y / H + fx x / W) + φ). For the phase φ = 0, the images of
  (fy, fx) and the mirror −(fy, fx) are equal. For φ = π/4 they are orthogonal, and the paper uses
  the one that `distinct_frequencies` has.

  Args:
    fy: integer, cycles per image down; may be traced.
    fx: integer, cycles per image across; may be traced.
    height: H, height of the image in pixels.
    width: W, width of the image in pixels.
    phase: 'reference' for φ = π/4, as in the paper, or 'cosine' for φ = 0.

  Returns:
    float32 [height, width].

  Raises:
    InputError: the phase is unknown, or a frequency is no integer or, unless traced, above half a
      side.
  """
  choice('phase', phase, PHASES)
  _check_frequency(fy, fx, height, width)
  # The angle is θ + φ at row y and column x, with θ = 2π (fy y / H + fx x / W) and the phase φ.
  # Whole turns are removed first, which keeps float32 exact.
  turn_y = (fy * jnp.arange(height)) % height / height
  turn_x = (fx * jnp.arange(width)) % width / width
  is_own_mirror = (2 * fy % height == 0) & (2 * fx % width == 0)
  offset = jnp.where(is_own_mirror, 0.0, PHASES[phase])
  scale = jnp.where(is_own_mirror, 1.0, np.sqrt(2.0)) / np.sqrt(height * width)
  angle_y, angle_x = 2 * np.pi * turn_y + offset, 2 * np.pi * turn_x
  # The cosine of the sum of both angles is a product of matrices, [H, 2] and [2, W], because
  # cos(a + b) = cos a cos b − sin a sin b. XLA fuses a cosine into its users and computes it again
  # for every row of a batch; it does not fuse a product.
  factors_y = jnp.stack([jnp.cos(angle_y), -jnp.sin(angle_y)], 1)  # [H, 2]
  factors_x = jnp.stack([jnp.cos(angle_x), jnp.sin(angle_x)])  # [2, W]
  wave = jnp.matmul(factors_y, factors_x, precision='highest')
  return (scale * wave).astype(jnp.float32)


def _check_frequency(
  fy: ArrayLike, fx: ArrayLike, height: int, width: int, batch: tuple[int, ...] = ()
) -> None:
  """Raises InputError unless fy and fx are integers with |fy| ≤ height / 2 and |fx| ≤ width / 2.

  Args:
    fy: cycles per image down, one number or one for each image.
    fx: cycles per image across.
    height: height of the images in pixels.
    width: width of the images in pixels.
    batch: (B,) if there may be a frequency for each of B images.
  """
  for name, cycles, side in (('down (fy)', fy, height), ('across (fx)', fx, width)):
    valid = range(-(side // 2), side // 2 + 1)
    check_integers(f'the number of cycles per image {name}', cycles, batch, valid)


@random_keys.pinned()
def perturb(
  key: jax.Array | int,
  images: jax.Array,
  frequencies: ArrayLike,
  norm: ArrayLike,
  *,
  phase: str = 'reference',
  clip: bool = False,
) -> jax.Array:
  """Adds a Fourier basis image to images, x + r v U, in float32 (Yin et al. 2019, section 2).

  U is the basis image of a frequency, with ℓ2 norm 1 (`basis_image`). The sign r = ±1 is drawn for
  each image and channel. The function can be jitted and vmapped.

  Args:
    key: a random key or a seed. Image b of a batch draws from fold_in(key, b), a single image from
      the key.
    images: [H, W, C], or a batch [B, H, W, C], in [0, 1].
    frequencies: (fy, fx), integers [2], or a pair for each image [B, 2], in cycles per image down
      and across, from −⌊H/2⌋ and −⌊W/2⌋. (0, 0) is the mean. Heat maps have the frequencies of
      `distinct_frequencies`; their mirrors have other basis images.
    norm: v, the ℓ2 norm of the change of a channel, or one for each image [B].
    phase: 'reference' or 'cosine', the phase of the wave, see `basis_image`.
    clip: whether the result is clipped to [0, 1], unlike the paper.

  Raises:
    InputError: images have another shape or are integers, or frequencies are not integers. Images,
      frequencies or norms that are not traced are out of range.
  """
  images = as_images(images, callers='waves', rounding=ROUNDING)
  height, width, _ = images.shape[-3:]
  batch, pairs = images.shape[:-3], as_array('frequencies', frequencies)  # batch: () or (B,)
  are_pairs = pairs.shape in ((2,), (*batch, 2))  # one pair, or a pair for each image
  if not are_pairs or not jnp.issubdtype(pairs.dtype, jnp.integer):
    or_pairs = f', or a pair for each of {batch[0]} images: {(*batch, 2)}' if batch else ''
    raise InputError(
      f'frequencies are {pairs.dtype} of the shape {pairs.shape}; give cycles per image, integers '
      f'(fy, fx){or_pairs}.'
    )
  _check_frequency(pairs[..., 0], pairs[..., 1], height, width, batch)
  check_within('norm', norm, 'of at least 0, and finite', 0, float(np.finfo(np.float32).max), batch)
  key, frequency, norm = as_key(key), jnp.asarray(pairs, jnp.int32), jnp.asarray(norm, jnp.float32)
  if images.ndim == 3:
    return add_wave(key, images, frequency[0], frequency[1], norm, phase, clip)
  count = len(images)
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(count))
  fy, fx = jnp.broadcast_to(frequency, (count, 2)).T
  add_wave_to_each = jax.vmap(functools.partial(add_wave, phase=phase, clip=clip))
  return add_wave_to_each(keys, images, fy, fx, jnp.broadcast_to(norm, (count,)))


def add_wave(
  key: jax.Array,
  image: jax.Array,
  fy: jax.Array,
  fx: jax.Array,
  norm: ArrayLike,
  phase: str = 'reference',
  clip: bool = False,
) -> jax.Array:
  """Adds a Fourier basis image U to an image, x + r v U in each channel, [H, W, C].

  See Yin et al. (2019), section 2, and `basis_image`.

  Args:
    key: random key that draws the sign r = ±1 of each channel, with probability ½ each.
    image: [H, W, C] in [0, 1].
    fy: integer, cycles per image down.
    fx: integer, cycles per image across.
    norm: v, the ℓ2 norm of the change of one channel; the image changes by v √C.
    phase: 'reference' or 'cosine', the phase of the wave.
    clip: whether the result is clipped to [0, 1], unlike the paper.
  """
  height, width, channels = image.shape
  signs = jax.random.rademacher(key, (channels,), dtype=image.dtype)
  wave = basis_image(fy, fx, height, width, phase)
  perturbed = image + norm * wave[:, :, None] * signs[None, None, :]
  return jnp.clip(perturbed, 0, 1) if clip else perturbed


def wave_in_words(norm: float, clip: bool, phase: str = '') -> str:
  """Describes a perturbation, such as 'norm 4 in each channel, phase cosine, not clipped'.

  Args:
    norm: ℓ2 norm of the change of one channel.
    clip: whether images are clipped to [0, 1].
    phase: the phase of the waves; '' for noise, which has none.
  """
  phase = f', phase {phase}' if phase else ''
  return f'norm {norm:g} in each channel{phase}, {"clipped to [0, 1]" if clip else "not clipped"}'


def differences_from_paper(
  norm: float,
  published: Mapping[int, tuple[float, ...]],
  side: int,
  phase: str = 'reference',
  clip: bool = False,
) -> list[str]:
  """Returns how a perturbation differs from a paper, as phrases such as 'clipped'; [] if it does
  not.

  Args:
    norm: ℓ2 norm of the change of one channel.
    published: {side of the images in pixels: norms that the paper uses}.
    side: side of the images in pixels.
    phase: the phase of the waves, see `basis_image`; the papers use 'reference'.
    clip: whether images are clipped to [0, 1].
  """
  differences = []
  norms = published.get(side, ())
  if norm not in norms:
    norms_in_words = ' and '.join(f'{value:g}' for value in norms)
    if not norms:  # the paper has no images of this size
      norms_in_words = f'for {" and ".join(map(str, published))} pixels only'
    differences.append(f'norm {norm:g}, published {norms_in_words}')
  if phase != 'reference':
    differences.append(f'phase {phase}')
  if clip:
    differences.append('clipped')
  return differences


def wave_views(
  fy: np.ndarray, fx: np.ndarray, image_shape: Sequence[int], norm: float, phase: str, clip: bool
) -> Views:
  """Returns the clean view, and a view for each of V frequencies that adds a basis image.

  An image x becomes x + r v U, with the basis image U of the frequency and a sign r = ±1 that is
  drawn for each channel. The clean view has norm 0 and id 0. The id of a frequency is 1 + (fy mod
  H) W + (fx mod W).

  Args:
    fy: integers [V], cycles per image down.
    fx: integers [V], cycles per image across.
    image_shape: (H, W, C).
    norm: v, the ℓ2 norm of the change of one channel.
    phase: 'reference' or 'cosine', the phase of the wave.
    clip: whether images are clipped to [0, 1].
  """
  height, width, _ = image_shape

  def show(key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
    """Returns an image plus the basis image of a view's frequency, [H, W, C].

    Args:
      key: random key that draws the sign in each channel.
      row: columns of the image.
      view: `fy`, `fx` and `norm` of the view.
    """
    return add_wave(key, row['image'], view['fy'], view['fx'], view['norm'], phase, clip)

  clean_id, ids = 0, 1 + (fy % height) * width + fx % width
  return Views(
    show,
    ids=np.append(clean_id, ids).astype(np.int32),
    parameters={
      'fy': np.append(0, fy).astype(np.int32),
      'fx': np.append(0, fx).astype(np.int32),
      'norm': np.append(0, np.full(len(fy), norm)).astype(np.float32),
    },
  )


def wave_names(fy: np.ndarray, fx: np.ndarray) -> list[str]:
  """Returns the names of the views of `wave_views`, 'clean' and, for example, 'fy=-2, fx=5'."""
  return ['clean', *(f'fy={y}, fx={x}' for y, x in zip(fy, fx, strict=True))]


def sample_figure(
  frequencies: np.ndarray, pictures: np.ndarray, caption: str
) -> tuple[Figure, str]:
  """Draws a clean image and S perturbed ones, and returns the figure with its caption.

  Args:
    frequencies: integers [S, 2], (fy, fx) of each perturbed image.
    pictures: [1 + S, H, W, C], the clean image first.
    caption: the caption, returned unchanged.
  """
  waves = [f'({y}, {x})'.replace('-', '−') for y, x in frequencies]
  samples = dict(zip(['clean', *waves], pictures, strict=True))
  # One row of images, which has no title.
  return images.grid({'': samples}, '(vertical, horizontal) frequency in cycles per image'), caption
