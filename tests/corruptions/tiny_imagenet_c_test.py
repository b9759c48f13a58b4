"""Corruptions at 64 pixels: constants of Tiny-ImageNet-C's generator, its files step by step."""

from __future__ import annotations

import io
from typing import Any

import jax
import numpy as np
from PIL import Image

from robustness.corruptions import table_for
from robustness.corruptions.names import NAMES, SEVERITIES
from robustness.corruptions.views import CorruptionViews
from tests.corruptions.digital_test import reference
from tests.corruptions.pictures import natural, share_within, smooth, zoom_blur

SIDE = 64
# By parameter, five severities each, as `make_tinyimagenet_c.py` of hendrycks/robustness has them.
PUBLISHED: dict[str, dict[str, tuple[Any, ...]]] = {
  'gaussian_noise': {'sigma': (0.04, 0.08, 0.12, 0.15, 0.18)},
  'shot_noise': {'photons': (250, 100, 50, 30, 15)},
  'impulse_noise': {'rate': (0.01, 0.02, 0.05, 0.08, 0.14)},
  'speckle_noise': {'sigma': (0.15, 0.2, 0.25, 0.3, 0.35)},
  'gaussian_blur': {'sigma': (0.5, 0.75, 1, 1.25, 1.5)},
  'glass_blur': {
    'sigma': (0.1, 0.5, 0.6, 0.7, 0.9),
    'delta': (1, 1, 1, 2, 2),
    'iterations': (1, 1, 2, 1, 2),
  },
  'defocus_blur': {'radius': (0.5, 1, 1.5, 2.5, 3), 'sigma': (0.6, 0.1, 0.1, 0.01, 0.1)},
  'motion_blur': {'radius': (10, 10, 10, 10, 12), 'sigma': (1, 1.5, 2, 2.5, 3)},
  'zoom_blur': {
    'zooms': tuple(tuple(np.arange(1, e, 0.01)) for e in (1.06, 1.11, 1.16, 1.21, 1.26))
  },
  'snow': {
    'loc': (0.1, 0.1, 0.15, 0.25, 0.3),
    'scale': (0.2, 0.2, 0.3, 0.3, 0.3),
    'zoom': (1, 1, 1.75, 2.25, 1.25),
    'threshold': (0.6, 0.5, 0.55, 0.6, 0.65),
    'radius': (8, 10, 10, 12, 14),
    'sigma': (3, 4, 4, 6, 12),
    'mix': (0.8, 0.8, 0.7, 0.65, 0.6),
  },
  'frost': {
    'image_weight': (1, 0.9, 0.8, 0.75, 0.7),
    'frost_weight': (0.3, 0.4, 0.45, 0.5, 0.55),
    'resize': (0.3,) * 5,
  },
  'fog': {'amount': (0.4, 0.7, 1, 1.5, 2), 'decay': (3, 3, 2.5, 2, 1.75), 'map_side': (64,) * 5},
  'brightness': {'shift': (0.1, 0.2, 0.3, 0.4, 0.5)},
  'contrast': {'factor': (0.4, 0.3, 0.2, 0.1, 0.05)},
  'saturate': {'factor': (0.3, 0.1, 2, 5, 30), 'shift': (0, 0, 0, 0.1, 0.2)},
  'elastic_transform': {
    'alpha': (0, 3.2, 6.4, 6.4, 10.24),
    'sigma': (0, 19.2, 5.12, 1.92, 1.92),
    'affine': (5.12, 3.84, 3.84, 1.92, 1.28),
  },
  'pixelate': {'scale': (0.9, 0.8, 0.7, 0.6, 0.5)},
  'jpeg_compression': {'quality': (65, 58, 50, 40, 25)},
  'spatter': {
    'loc': (0.62, 0.65, 0.65, 0.65, 0.65),
    'scale': (0.1, 0.1, 0.3, 0.1, 0.1),
    'sigma': (0.7, 0.8, 1, 0.7, 0.5),
    'threshold': (0.7, 0.7, 0.69, 0.68, 0.67),
    'strength': (0.6, 0.6, 0.6, 0.6, 0.6),
    'mud': (0, 0, 0, 1, 1),
  },
}
WITHOUT_DRAWS = (
  'gaussian_blur',
  'zoom_blur',
  'brightness',
  'contrast',
  'saturate',
  'pixelate',
  'jpeg_compression',
)


def test_constants_are_those_of_the_generator() -> None:
  table = table_for(SIDE, SIDE)
  assert (table.side, set(PUBLISHED)) == (SIDE, set(NAMES))
  for name, parameters in PUBLISHED.items():
    assert set(table[name]) == set(parameters), name
    for parameter, values in parameters.items():
      for ours, theirs in zip(table[name][parameter], values, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, err_msg=f'{name} {parameter}')


def as_generated(name: str, picture: np.ndarray, severity: int) -> np.ndarray:
  """A file of the set: corrupted in float64, truncated, stored as JPEG of quality 85."""
  constants = [values[severity - 1] for values in PUBLISHED[name].values()]
  x = picture.astype(np.float64)
  if name == 'gaussian_blur':
    made = smooth(x, constants[0])
  elif name == 'zoom_blur':
    made = zoom_blur(x, constants[0])
  else:
    made = reference(name, picture, constants)
  file = io.BytesIO()
  levels = np.floor(np.clip(made, 0, 1) * 255 + 2**-12).astype(np.uint8)
  Image.fromarray(levels).save(file, 'JPEG', quality=85, optimize=True)
  return np.asarray(Image.open(file)) / 255


def test_files_made_here_are_those_of_the_generator() -> None:
  """All that draws nothing, at every severity: 35 files."""
  study = CorruptionViews(corruptions=WITHOUT_DRAWS, protocol='as_released')
  picture = natural(SIDE, SIDE, seed=4)
  views = study.views(picture.shape)
  show = jax.jit(views.show)
  parameters = [
    {name: values[place] for name, values in views.parameters.items()}
    for place in range(1, len(views))
  ]
  ours = [show(jax.random.key(0), {'image': picture}, entry) for entry in parameters]
  names = [(name, severity) for name in study.names for severity in SEVERITIES]
  assert len(names) == len(ours) == 35
  for (name, severity), shown in zip(names, ours, strict=True):
    theirs = as_generated(name, picture, severity)
    assert share_within(shown, theirs, 2) > 0.99, (name, severity)
