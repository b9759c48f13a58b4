"""The views of studies that add waves: the clean image, then one view for each frequency."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
from matplotlib.figure import Figure

from robustness.evaluation.views import Views
from robustness.fourier.basis import perturb
from robustness.present import images

CLEAN = 0
"""Index of the clean view; frequencies follow it."""


def wave_views(
  fy: np.ndarray,
  fx: np.ndarray,
  image_shape: tuple[int, int, int],
  norm: float,
  phase: str,
  clip: bool,
) -> Views:
  """Returns the clean view (norm 0, id 0), then x + r v U of each frequency.

  The id of a frequency is 1 + (fy mod H) W + (fx mod W), whichever others there are.

  Args:
    fy, fx: int [V], of `robustness.fourier.basis.distinct_frequencies`.
    image_shape: height, width and channels.
    norm, phase, clip: of `robustness.fourier.basis.perturb`.
  """
  height, width, _ = image_shape

  def show(
    key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
  ) -> jax.Array:
    return perturb(key, row['image'], view['fy'], view['fx'], view['norm'], phase, clip)

  return Views(
    show,
    np.append(CLEAN, 1 + fy % height * width + fx % width).astype(np.int32),
    {
      'fy': np.append(0, fy).astype(np.int32),
      'fx': np.append(0, fx).astype(np.int32),
      'norm': np.append(0, np.full(len(fy), norm)).astype(np.float32),
    },
  )


def wave_names(fy: np.ndarray, fx: np.ndarray) -> list[str]:
  """Returns the names of these views: 'clean', then 'fy=<fy>, fx=<fx>'."""
  return ['clean', *(f'fy={y}, fx={x}' for y, x in zip(fy, fx, strict=True))]


def sample_figure(
  frequencies: np.ndarray, pictures: np.ndarray, caption: str
) -> tuple[Figure, str]:
  """Draws an image clean, then with the wave of each (fy, fx) [S, 2]; pictures [1 + S, H, W, C]."""
  waves = [f'({y}, {x})'.replace('-', '−') for y, x in frequencies]
  samples = dict(zip(['clean', *waves], pictures, strict=True))
  return images.grid({'': samples}, '(vertical, horizontal) frequency in cycles per image'), caption
