"""The pictures of the base data set: smooth, coloured, and all different."""

from __future__ import annotations

import numpy as np

SIDE = 16
LABELS = np.arange(11, dtype=np.int64) % 3


def pictures() -> np.ndarray:
  """uint8 [11, SIDE, SIDE, 3]."""
  y, x = np.mgrid[:SIDE, :SIDE] / SIDE
  waves = np.stack([np.sin((3 + c) * x + y * (2 - c)) for c in range(3)], -1)
  contrast = np.linspace(0.2, 1, len(LABELS))[:, None, None, None]
  return np.rint(127 + 100 * waves[None] * contrast).astype(np.uint8)
