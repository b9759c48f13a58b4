r"""Masks of the frequencies that low-pass and high-pass filters keep.

A high pass of bandwidth B keeps the B × B square of frequencies centred on the highest one, the
Nyquist frequency (Yin et al. 2019, section 2). With N pixels a side these are |f| ≥ m on both axes,
m = (N - B + 1) / 2: 32 pixels and B = 27 keep |f_y| ≥ 3 and |f_x| ≥ 3. It is not the complement of
a low pass, which keeps frequencies that are high on either axis.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError

PUBLISHED = 27, 32
"""Bandwidth and side of the energy fractions of corruptions in the paper."""


def lowest_kept(height: int, width: int, bandwidth: int = 0) -> tuple[int, int]:
  """Returns the lowest |f| that a high pass keeps vertically and horizontally, in cycles per image.

  `bandwidth` is B on the shorter side; the longer side is in proportion. 0 scales the published 27
  of 32 pixels, with |f| ≥ 3, to the size and rounds (23 for 28 pixels, 183 for 224).

  Raises:
    InputError: The bandwidth is no symmetric square of frequencies of this side.
  """
  side = min(height, width)
  if not bandwidth:
    share = (PUBLISHED[1] - PUBLISHED[0] + 1) / 2 / PUBLISHED[1]
    return max(1, round(share * height)), max(1, round(share * width))
  if not 0 < bandwidth < side or (side - bandwidth) % 2 == 0:
    kind = 'odd' if side % 2 == 0 else 'even'
    raise InputError(
      f'bandwidth is {bandwidth}; a high pass on {side} pixels takes an {kind} '
      f'number in 1..{side - 1}, so that the square of frequencies is symmetric.'
    )
  lowest = (side - bandwidth + 1) // 2
  # An odd side has no frequency at half its pixels.
  rows, columns = (min(round(lowest * size / side), size // 2) for size in (height, width))
  return rows, columns


def high_pass(height: int, width: int, bandwidth: int = 0) -> np.ndarray:
  """Returns the frequencies that a high pass keeps (`lowest_kept`), bool [H, W], fftshifted."""
  lowest = lowest_kept(height, width, bandwidth)
  fy, fx = (np.abs(np.arange(n) - n // 2) for n in (height, width))
  return (fy >= lowest[0])[:, None] & (fx >= lowest[1])


def low_pass(height: int, width: int, bandwidth: int) -> np.ndarray:
  """Returns the frequencies that a low pass keeps, bool [H, W], zero frequency in the centre: those
  with |f| ≤ (B − 1)/2 on both axes, in proportion on the longer side."""
  side = min(height, width)
  if not 0 < bandwidth <= side or bandwidth % 2 == 0:
    raise InputError(
      f'bandwidth is {bandwidth}; a low pass on {side} pixels takes an odd number in 1..{side}, '
      'so that the square of frequencies is symmetric about zero.'
    )
  fy, fx = (np.abs(np.arange(n) - n // 2) for n in (height, width))
  highest = (bandwidth - 1) // 2
  return (fy <= round(highest * height / side))[:, None] & (fx <= round(highest * width / side))


def half(mask: np.ndarray) -> np.ndarray:
  """Returns the half [H, W // 2 + 1], in the order of `rfft2`, of a symmetric map [H, W]."""
  return np.fft.ifftshift(mask)[:, : mask.shape[1] // 2 + 1]


def filtered_by_half(image: jax.Array, mask: jax.Array) -> jax.Array:
  """Returns an image [H, W, C], float32, with the frequencies in `mask`, bool [H, W // 2 + 1]."""
  planes = jnp.moveaxis(image.astype(jnp.float32), -1, 0)
  spectrum = jnp.where(mask[None], jnp.fft.rfft2(planes), 0)
  return jnp.moveaxis(jnp.fft.irfft2(spectrum, planes.shape[1:]), 0, -1)


KINDS = {'low_pass': low_pass, 'high_pass': high_pass}


def bandwidths(kind: str, side: int, max_count: int) -> list[int]:
  """Returns up to `max_count` evenly spaced bandwidths, with the smallest and the largest, of a
  filter in `KINDS` for a shorter side of `side` pixels."""
  valid = range(1, side + 1, 2) if kind == 'low_pass' else range(1 + side % 2, side, 2)
  index = np.linspace(0, len(valid) - 1, min(max_count, len(valid)))
  return [valid[i] for i in np.unique(index.round().astype(int))]
