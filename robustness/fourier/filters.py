r"""Which frequencies a filter keeps.

A high pass of bandwidth B keeps the B × B square of frequencies centred on the highest one, the
Nyquist frequency (Yin et al. 2019, section 2). With N pixels a side that is |f| ≥ m on both axes,
m = (N - B + 1) / 2: 32 pixels and B = 27 keep |f_y| ≥ 3 and |f_x| ≥ 3. It is not the complement of
a low pass, which would keep what is high on either axis.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError

PUBLISHED = 27, 32
"""Bandwidth and side for which the paper gives the energy fraction of corruptions."""


def lowest_kept(height: int, width: int, bandwidth: int = 0) -> tuple[int, int]:
  """Returns the lowest |f| that a high pass keeps vertically and horizontally, in cycles per image.

  `bandwidth` is B on the shorter side, the longer side in proportion; 0 takes the published 27 of
  32 in proportion, 3 cycles in 32 pixels, rounded (23 for 28 pixels, 183 for 224).

  Raises:
    InputError: a bandwidth that is no symmetric square of frequencies of this side.
  """
  side = min(height, width)
  if not bandwidth:
    kept = (PUBLISHED[1] - PUBLISHED[0] + 1) / 2 / PUBLISHED[1]
    return max(1, round(kept * height)), max(1, round(kept * width))
  if not 0 < bandwidth < side or (side - bandwidth) % 2 == 0:
    kind = 'odd' if side % 2 == 0 else 'even'
    raise InputError(
      f'bandwidth is {bandwidth}; a high pass on {side} pixels takes an {kind} '
      f'number in 1..{side - 1}, so that the square of frequencies is symmetric.'
    )
  lowest = (side - bandwidth + 1) // 2
  # an odd side has no frequency at half its pixels
  rows, columns = (min(round(lowest * size / side), size // 2) for size in (height, width))
  return rows, columns


def high_pass(height: int, width: int, bandwidth: int = 0) -> np.ndarray:
  """Returns the frequencies that a high pass keeps (`lowest_kept`), bool [H, W], fftshifted."""
  lowest = lowest_kept(height, width, bandwidth)
  fy, fx = (np.abs(np.arange(n) - n // 2) for n in (height, width))
  return (fy >= lowest[0])[:, None] & (fx >= lowest[1])


def low_pass(height: int, width: int, bandwidth: int) -> np.ndarray:
  """Returns which frequencies a low pass keeps, bool [H, W], zero frequency in the centre.

  These are |f| ≤ (B − 1)/2 on both axes; on the longer side B is in proportion.
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


def half(kept: np.ndarray) -> np.ndarray:
  """Returns a symmetric map of frequencies [H, W] in the order of `rfft2`, [H, W // 2 + 1]."""
  return np.fft.ifftshift(kept)[:, : kept.shape[1] // 2 + 1]


def filtered_by_half(image: jax.Array, kept: jax.Array) -> jax.Array:
  """Returns an image [H, W, C] with only the frequencies that `half` keeps, float32."""
  planes = jnp.moveaxis(image.astype(jnp.float32), -1, 0)
  spectrum = jnp.where(kept[None], jnp.fft.rfft2(planes), 0)
  return jnp.moveaxis(jnp.fft.irfft2(spectrum, planes.shape[1:]), 0, -1)


KINDS = {'low_pass': low_pass, 'high_pass': high_pass}


def bandwidths(kind: str, side: int, most: int) -> list[int]:
  """Returns bandwidths of a filter of `KINDS` on a shorter side of `side` pixels, up to so many:
  from the least to the largest, evenly spread."""
  every = range(1, side + 1, 2) if kind == 'low_pass' else range(1 + side % 2, side, 2)
  index = np.linspace(0, len(every) - 1, min(most, len(every)))
  return [every[i] for i in np.unique(index.round().astype(int))]
