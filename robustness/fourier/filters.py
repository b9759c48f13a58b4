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
  """Returns the lowest |f_y| and |f_x| that a high-pass filter keeps, in cycles per image.

  On the shorter side of N pixels it is (N − B + 1) / 2 for the bandwidth B. On the longer side it
  is in proportion. Without a bandwidth it is 3/32 of each side, rounded, as for the published B =
  27 on 32 pixels. For instance, it is 3 for 28 pixels (B = 23) and 21 for 224 (B = 183).

  Args:
    height: height of the image in pixels.
    width: width of the image in pixels.
    bandwidth: B; 0 for the published one.

  Raises:
    InputError: the square of frequencies of this bandwidth is not symmetric on the shorter side.
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
  # Rounding may exceed the highest frequency, half of the side, on an odd side.
  lowest_y = min(round(lowest * height / side), height // 2)
  lowest_x = min(round(lowest * width / side), width // 2)
  return lowest_y, lowest_x


def centred_frequencies(side: int) -> np.ndarray:
  """Returns the frequencies along a side of an image, ascending with 0 in the centre, int [side].

  They are in cycles per image, from −⌊side / 2⌋. `side` is in pixels.
  """
  return np.arange(side) - side // 2


def high_pass(height: int, width: int, bandwidth: int = 0) -> np.ndarray:
  """Returns the mask of a high-pass filter, bool [H, W], true at the frequencies that it keeps.

  It keeps (f_y, f_x) if |f_y| and |f_x| are both at least the values of `lowest_kept`. Zero
  frequency is in the centre of the mask (`fftshift`); the kept frequencies are in the four corners.

  Args:
    height: height of the image in pixels.
    width: width of the image in pixels.
    bandwidth: B on the shorter side; 0 for the paper's high pass, see `lowest_kept`.
  """
  lowest_y, lowest_x = lowest_kept(height, width, bandwidth)
  fy, fx = np.abs(centred_frequencies(height)), np.abs(centred_frequencies(width))
  return (fy >= lowest_y)[:, None] & (fx >= lowest_x)


def low_pass(height: int, width: int, bandwidth: int) -> np.ndarray:
  """Returns the mask of a low-pass filter, bool [H, W], true at the frequencies that it keeps.

  It keeps |f| ≤ (B − 1)/2 on the axis of the shorter side. On the longer side the limit is in
  proportion. Zero frequency is in the centre of the mask (`fftshift`).

  Args:
    height: height of the image in pixels.
    width: width of the image in pixels.
    bandwidth: B, odd.

  Raises:
    InputError: the bandwidth is even, or not in 1..shorter side.
  """
  side = min(height, width)
  if not 0 < bandwidth <= side or bandwidth % 2 == 0:
    raise InputError(
      f'bandwidth is {bandwidth}; a low pass on {side} pixels takes an odd number in 1..{side}, '
      'so that the square of frequencies is symmetric about zero.'
    )
  fy, fx = np.abs(centred_frequencies(height)), np.abs(centred_frequencies(width))
  highest = (bandwidth - 1) // 2  # on the shorter side
  highest_y, highest_x = round(highest * height / side), round(highest * width / side)
  return (fy <= highest_y)[:, None] & (fx <= highest_x)


def half_spectrum(mask: np.ndarray) -> np.ndarray:
  """Converts a centred mask of frequencies [H, W] to the order of `rfft2`, [H, W // 2 + 1].

  The mask must be equal at f and −f, and has zero frequency in the centre.
  """
  return np.fft.ifftshift(mask)[:, : mask.shape[1] // 2 + 1]


def filtered_by_half(image: jax.Array, mask: jax.Array) -> jax.Array:
  """Returns an image with only the frequencies of a mask, float32 [H, W, C].

  Args:
    image: [H, W, C].
    mask: bool [H, W // 2 + 1] in the order of `rfft2`.
  """
  planes = jnp.moveaxis(image.astype(jnp.float32), -1, 0)
  spectrum = jnp.where(mask[None], jnp.fft.rfft2(planes), 0)
  return jnp.moveaxis(jnp.fft.irfft2(spectrum, planes.shape[1:]), 0, -1)


KINDS = {'low_pass': low_pass, 'high_pass': high_pass}
"""The filters by name; each is a function of height, width and bandwidth that returns a mask."""


def bandwidths(kind: str, side: int, max_count: int) -> list[int]:
  """Returns up to `max_count` valid bandwidths, evenly spaced from the smallest to the largest.

  A bandwidth is the side of the square of frequencies that a filter keeps. It is odd for a low
  pass, and for a high pass if the image has an even side. For a high pass on an odd side it is
  even.

  Args:
    kind: 'low_pass' or 'high_pass'.
    side: shorter side of the images in pixels.
    max_count: largest number of bandwidths.
  """
  # A low pass takes odd bandwidths, a high pass odd ones on even sides and even ones on odd sides.
  valid = range(1, side + 1, 2) if kind == 'low_pass' else range(1 + side % 2, side, 2)
  index = np.linspace(0, len(valid) - 1, min(max_count, len(valid)))
  return [valid[i] for i in np.unique(index.round().astype(int))]
