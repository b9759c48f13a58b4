"""Low-pass and high-pass filters, as masks of the frequencies that they keep.

A low pass of bandwidth B keeps the B × B square of frequencies centred on zero. A high pass keeps
the B × B square centred on the highest frequency, the Nyquist frequency (Yin et al. 2019,
section 2). On N pixels a side, these are the frequencies with |f_y| ≥ m and |f_x| ≥ m,
m = (N − B + 1) / 2; for example m = 3 for N = 32 and B = 27. A high pass is not the complement of
a low pass, since it removes frequencies that are low on either axis.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError

PUBLISHED = 27, 32
"""The paper's high pass for energy fractions of corruptions: bandwidth B and side N in pixels."""


def lowest_kept(height: int, width: int, bandwidth: int = 0) -> tuple[int, int]:
  """Returns the lowest |f_y| and |f_x| that a high pass keeps, in cycles per image.

  Args:
    height: Height of the image in pixels.
    width: Width of the image in pixels.
    bandwidth: B on the shorter side of N pixels, where the result is (N − B + 1) / 2; on the longer
      side it is in proportion. 0 gives 3/32 of each side, rounded, as the published B = 27 does on
      32 pixels: 3 for 28 pixels (B = 23), 21 for 224 (B = 183).

  Raises:
    InputError: The square of frequencies of this bandwidth is not symmetric on this side.
  """
  side = min(height, width)
  if not bandwidth:
    published_bandwidth, published_side = PUBLISHED
    # The lowest frequency that the paper's high pass keeps, 3, as a share of its 32 pixels.
    share = (published_side - published_bandwidth + 1) / 2 / published_side
    return max(1, round(share * height)), max(1, round(share * width))
  removed = side - bandwidth  # side of the square of frequencies −r..r that is removed, 2 r + 1
  is_symmetric = removed % 2 == 1
  if not 0 < bandwidth < side or not is_symmetric:
    kind = 'odd' if side % 2 == 0 else 'even'
    raise InputError(
      f'bandwidth is {bandwidth}; a high pass on {side} pixels takes an {kind} '
      f'number in 1..{side - 1}, so that the square of frequencies is symmetric.'
    )
  lowest = (removed + 1) // 2  # r + 1
  # Rounding may exceed the highest frequency, size // 2, on an odd side.
  lowest_y, lowest_x = (min(round(lowest * size / side), size // 2) for size in (height, width))
  return lowest_y, lowest_x


def high_pass(height: int, width: int, bandwidth: int = 0) -> np.ndarray:
  """Returns the mask of a high pass, bool [H, W], true at the frequencies that it keeps.

  It keeps (f_y, f_x) if |f_y| and |f_x| are both at least the frequencies of `lowest_kept`, which
  also explains the `bandwidth`; 0 is the paper's high pass. Zero frequency is in the centre of the
  mask (`fftshift`), so that the kept frequencies are in its four corners.
  """
  lowest_y, lowest_x = lowest_kept(height, width, bandwidth)
  fy, fx = (np.abs(np.arange(n) - n // 2) for n in (height, width))
  return (fy >= lowest_y)[:, None] & (fx >= lowest_x)


def low_pass(height: int, width: int, bandwidth: int) -> np.ndarray:
  """Returns the mask of a low pass, bool [H, W], true at the frequencies that it keeps.

  These have |f| ≤ (B − 1)/2 on both axes, with B the `bandwidth` on the shorter side; the longer
  side is in proportion. Zero frequency is in the centre.

  Raises:
    InputError: The bandwidth is even, or not in 1..shorter side.
  """
  side = min(height, width)
  if not 0 < bandwidth <= side or bandwidth % 2 == 0:
    raise InputError(
      f'bandwidth is {bandwidth}; a low pass on {side} pixels takes an odd number in 1..{side}, '
      'so that the square of frequencies is symmetric about zero.'
    )
  fy, fx = (np.abs(np.arange(n) - n // 2) for n in (height, width))
  highest = (bandwidth - 1) // 2
  return (fy <= round(highest * height / side))[:, None] & (fx <= round(highest * width / side))


def half_spectrum(mask: np.ndarray) -> np.ndarray:
  """Returns the half spectrum [H, W // 2 + 1] of a mask [H, W] that is equal at f and −f.

  The mask has zero frequency in the centre, the half the order of `rfft2`.
  """
  return np.fft.ifftshift(mask)[:, : mask.shape[1] // 2 + 1]


def filtered_by_half(image: jax.Array, mask: jax.Array) -> jax.Array:
  """Returns an image, float32 [H, W, C], in which only the frequencies of a mask remain.

  `mask` is bool [H, W // 2 + 1] in the order of `rfft2`.
  """
  planes = jnp.moveaxis(image.astype(jnp.float32), -1, 0)
  spectrum = jnp.where(mask[None], jnp.fft.rfft2(planes), 0)
  return jnp.moveaxis(jnp.fft.irfft2(spectrum, planes.shape[1:]), 0, -1)


KINDS = {'low_pass': low_pass, 'high_pass': high_pass}
"""The filters by name; each is a function of height, width and bandwidth that returns a mask."""


def bandwidths(kind: str, side: int, max_count: int) -> list[int]:
  """Returns up to `max_count` valid bandwidths, evenly spaced from the smallest to the largest.

  A bandwidth is the side of the square of frequencies that are kept. It is odd for a low pass, and
  for a high pass on an even side; it is even for a high pass on an odd side.

  Args:
    kind: 'low_pass' or 'high_pass'.
    side: Shorter side of the images in pixels.
    max_count: Largest number of bandwidths.
  """
  # A low pass takes odd bandwidths, a high pass odd ones on even sides and even ones on odd sides.
  valid = range(1, side + 1, 2) if kind == 'low_pass' else range(1 + side % 2, side, 2)
  index = np.linspace(0, len(valid) - 1, min(max_count, len(valid)))
  return [valid[i] for i in np.unique(index.round().astype(int))]
