"""Every constant of the corruptions, for the four image sizes that were published.

A corruption is a function `f(key, image, severity, constants)`: `severity` is an integer scalar in
1..5 that may be traced, `constants` is the corruption's entry below, static, five values for each
parameter. `at(constants['sigma'], severity)` is the value of one severity, and max(...) of the five
bounds the static sizes.

Sizes: 32 (CIFAR-10-C), 64 (Tiny-ImageNet-C), 224 (ImageNet-C), 299 (Inception). Any other image
takes the table whose side has the smallest |log(side / shorter side of the image)|; of two at one
distance the smaller. So 28 → 32, 45 → 32, 46 → 64, 96 → 64, 128 → 224, 256 → 224, 288 → 299.

Reference:
  Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and
  Perturbations, and the constants of its released generators; `c_bar` has those of C-bar.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.corruptions import c_bar
from robustness.corruptions.names import SEVERITIES

Constants = Mapping[str, tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Table:
  """The constants of one image size.

  Attributes:
    side: of the images it was published for, in pixels; also its name.
    constants: {corruption: {parameter: five values}}.
  """

  side: int
  constants: Mapping[str, Constants]

  def __getitem__(self, name: str) -> Constants:
    if name not in self.constants:
      others = [str(side) for side, table in TABLES.items() if name in table.constants]
      raise InputError(
        f'{name} has no published constants for images of {self.side} pixels: ask for those of '
        f'another size, one of {", ".join(others)} (config.study.constants, or side=).'
      )
    return self.constants[name]

  def with_between(self, severities: Sequence[float]) -> Table:
    """Returns the table with further severities, numbers 6, 7, ..., after the five.

    Every constant is interpolated linearly between those of the two nearest severities; those that
    are integers (radii, iterations, JPEG quality, what spatter is of) are rounded, halves to even,
    and zoom factors have the interpolated last one in the steps of the severity below. The five
    stay as they are, and bounds over all severities too, so that their images do.

    Args:
      severities: in [1, 5].
    """
    if not severities:
      return self
    return Table(
      self.side,
      {
        name: {
          key: (*values, *(_between(values, s) for s in severities)) for key, values in own.items()
        }
        for name, own in self.constants.items()
      },
    )


def _between(values: Sequence[Any], severity: float) -> Any:
  """Returns the value at a severity in [1, 5] of five values."""
  below = min(int(severity), len(values) - 1)
  part = severity - below
  low, high = values[below - 1], values[below]
  if part in (0, 1):
    return high if part else low
  if isinstance(low, tuple):  # zoom factors
    step = low[1] - low[0]
    last = (1 - part) * low[-1] + part * high[-1]
    return tuple(np.arange(1, last + step / 2, step).tolist())
  value = (1 - part) * low + part * high
  return round(value) if isinstance(low, int) and isinstance(high, int) else value


def at(values: Sequence[float] | np.ndarray, severity: jax.Array | int) -> jax.Array:
  """Returns the value of a severity, [...] of [severities, ...]; int32 or float32.

  Args:
    values: one for each severity, from 1 on.
    severity: integer scalar; may be traced.
  """
  array = np.asarray(values)
  kind = np.int32 if np.issubdtype(array.dtype, np.integer) else np.float32
  return jnp.asarray(array.astype(kind))[jnp.asarray(severity) - SEVERITIES[0]]


def table_for(height: int, width: int, side: int | None = None) -> Table:
  """Returns the constants for images of a size, by the rule at the top of this file.

  Args:
    height: of the images, in pixels.
    width: of the images, in pixels.
    side: takes the table of this side whatever the size; None follows the rule.

  Raises:
    InputError: there is no table of that side.
  """
  if side is None:
    shorter = min(height, width)
    side = min(TABLES, key=lambda s: (abs(math.log(s / shorter)), s))
  if side not in TABLES:
    raise InputError(
      f'there are no constants for images of {side} pixels; valid: '
      f'{", ".join(map(str, TABLES))}, or None for the nearest.'
    )
  return TABLES[side]


def _rows(parameters: str, *severities: Sequence[Any] | float) -> Constants:
  """Turns one row for each severity into {parameter: five values}."""
  names = parameters.split()
  assert len(severities) == len(SEVERITIES)
  rows = [s if isinstance(s, tuple) else (s,) for s in severities]
  return {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}


def _zooms(*ends: tuple[float, float]) -> Constants:
  """Returns the zoom factors 1, 1 + step, ..., as a float range with an open end yields them."""
  return {'zooms': tuple(tuple(np.arange(1, end, step).tolist()) for end, step in ends)}


def _elastic(side: int, *severities: tuple[float, float, float]) -> Constants:
  """Scales (amplitude, smoothing, affine jitter) from image sides to pixels."""
  return _rows('alpha sigma affine', *(tuple(side * v for v in row) for row in severities))


SNOW = 'loc scale zoom threshold radius sigma mix'
FROST = 'image_weight frost_weight'
FOG = 'amount decay'
GLASS = 'sigma delta iterations'
SATURATE = 'factor shift'
SPATTER = 'loc scale sigma threshold strength mud'  # mud: strength is the sigma of its mask

CIFAR = {
  'gaussian_noise': _rows('sigma', 0.04, 0.06, 0.08, 0.09, 0.10),
  'shot_noise': _rows('photons', 500.0, 250.0, 100.0, 75.0, 50.0),
  'impulse_noise': _rows('rate', 0.01, 0.02, 0.03, 0.05, 0.07),
  'speckle_noise': _rows('sigma', 0.06, 0.1, 0.12, 0.16, 0.2),
  'gaussian_blur': _rows('sigma', 0.4, 0.6, 0.7, 0.8, 1.0),
  'defocus_blur': _rows('radius sigma', (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)),
  'glass_blur': _rows(GLASS, (0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
  'motion_blur': _rows('radius sigma', (6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)),
  'zoom_blur': _zooms((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
  'snow': _rows(
    SNOW,
    (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
    (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
  ),
  'frost': {
    **_rows(FROST, (1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    'resize': (0.2,) * 5,
  },
  'fog': {
    **_rows(FOG, (0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)),
    'map_side': (32,) * 5,
  },
  'brightness': _rows('shift', 0.05, 0.1, 0.15, 0.2, 0.3),
  'contrast': _rows('factor', 0.75, 0.5, 0.4, 0.3, 0.15),
  'saturate': _rows(SATURATE, (0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)),
  'elastic_transform': _elastic(
    32,
    (0.0, 0.0, 0.08),
    (0.05, 0.2, 0.07),
    (0.08, 0.06, 0.06),
    (0.1, 0.04, 0.05),
    (0.1, 0.03, 0.03),
  ),
  'pixelate': _rows('scale', 0.95, 0.9, 0.85, 0.75, 0.65),
  'jpeg_compression': _rows('quality', 80, 65, 58, 50, 40),
  'spatter': _rows(
    SPATTER,
    (0.62, 0.1, 0.7, 0.7, 0.5, 0),
    (0.65, 0.1, 0.8, 0.7, 0.5, 0),
    (0.65, 0.3, 1.0, 0.69, 0.5, 0),
    (0.65, 0.1, 0.7, 0.69, 0.6, 1),
    (0.65, 0.1, 0.5, 0.68, 0.6, 1),
  ),
}

IMAGENET = {
  'gaussian_noise': _rows('sigma', 0.08, 0.12, 0.18, 0.26, 0.38),
  'shot_noise': _rows('photons', 60.0, 25.0, 12.0, 5.0, 3.0),
  'impulse_noise': _rows('rate', 0.03, 0.06, 0.09, 0.17, 0.27),
  'speckle_noise': _rows('sigma', 0.15, 0.2, 0.35, 0.45, 0.6),
  'gaussian_blur': _rows('sigma', 1.0, 2.0, 3.0, 4.0, 6.0),
  'defocus_blur': _rows(
    'radius sigma', (3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5)
  ),
  'glass_blur': _rows(GLASS, (0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
  'motion_blur': _rows('radius sigma', (10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)),
  'zoom_blur': _zooms((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
  'snow': _rows(
    SNOW,
    (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
    (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
    (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
  ),
  'frost': {
    **_rows(FROST, (1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    'resize': (1.0,) * 5,
  },
  'fog': {
    **_rows(FOG, (1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
    'map_side': (256,) * 5,
  },
  'brightness': _rows('shift', 0.1, 0.2, 0.3, 0.4, 0.5),
  'contrast': _rows('factor', 0.4, 0.3, 0.2, 0.1, 0.05),
  'saturate': _rows(SATURATE, (0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)),
  # 244 is what the released generator has, for 224.
  'elastic_transform': _elastic(
    244,
    (2.0, 0.7, 0.1),
    (2.0, 0.08, 0.2),
    (0.05, 0.01, 0.02),
    (0.07, 0.01, 0.02),
    (0.12, 0.01, 0.02),
  ),
  'pixelate': _rows('scale', 0.6, 0.5, 0.4, 0.3, 0.25),
  'jpeg_compression': _rows('quality', 25, 18, 15, 10, 7),
  'spatter': _rows(
    SPATTER,
    (0.65, 0.3, 4.0, 0.69, 0.6, 0),
    (0.65, 0.3, 3.0, 0.68, 0.6, 0),
    (0.65, 0.3, 2.0, 0.68, 0.5, 0),
    (0.65, 0.3, 1.0, 0.65, 1.5, 1),
    (0.67, 0.4, 1.0, 0.65, 1.5, 1),
  ),
}

TINY = {
  'gaussian_noise': _rows('sigma', 0.04, 0.08, 0.12, 0.15, 0.18),
  'shot_noise': _rows('photons', 250.0, 100.0, 50.0, 30.0, 15.0),
  'impulse_noise': _rows('rate', 0.01, 0.02, 0.05, 0.08, 0.14),
  'speckle_noise': _rows('sigma', 0.15, 0.2, 0.25, 0.3, 0.35),
  'gaussian_blur': _rows('sigma', 0.5, 0.75, 1.0, 1.25, 1.5),
  'defocus_blur': _rows(
    'radius sigma', (0.5, 0.6), (1.0, 0.1), (1.5, 0.1), (2.5, 0.01), (3.0, 0.1)
  ),
  'glass_blur': _rows(GLASS, (0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
  'motion_blur': _rows('radius sigma', (10, 1.0), (10, 1.5), (10, 2.0), (10, 2.5), (12, 3.0)),
  'zoom_blur': CIFAR['zoom_blur'],
  'snow': {**CIFAR['snow'], 'mix': (0.8, 0.8, 0.7, 0.65, 0.6)},
  'frost': {
    **_rows(FROST, (1.0, 0.3), (0.9, 0.4), (0.8, 0.45), (0.75, 0.5), (0.7, 0.55)),
    'resize': (0.3,) * 5,
  },
  'fog': {
    **_rows(FOG, (0.4, 3.0), (0.7, 3.0), (1.0, 2.5), (1.5, 2.0), (2.0, 1.75)),
    'map_side': (64,) * 5,
  },
  'brightness': IMAGENET['brightness'],
  'contrast': IMAGENET['contrast'],
  'saturate': _rows(SATURATE, (0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (30.0, 0.2)),
  'elastic_transform': _elastic(
    64,
    (0.0, 0.0, 0.08),
    (0.05, 0.3, 0.06),
    (0.1, 0.08, 0.06),
    (0.1, 0.03, 0.03),
    (0.16, 0.03, 0.02),
  ),
  'pixelate': _rows('scale', 0.9, 0.8, 0.7, 0.6, 0.5),
  'jpeg_compression': _rows('quality', 65, 58, 50, 40, 25),
  'spatter': _rows(
    SPATTER,
    (0.62, 0.1, 0.7, 0.7, 0.6, 0),
    (0.65, 0.1, 0.8, 0.7, 0.6, 0),
    (0.65, 0.3, 1.0, 0.69, 0.6, 0),
    (0.65, 0.1, 0.7, 0.68, 0.6, 1),
    (0.65, 0.1, 0.5, 0.67, 0.6, 1),
  ),
}

INCEPTION = {
  **IMAGENET,
  'gaussian_noise': _rows('sigma', 0.09, 0.13, 0.19, 0.27, 0.40),
  'shot_noise': _rows('photons', 50.0, 20.0, 10.0, 5.0, 3.0),
  'impulse_noise': _rows('rate', 0.04, 0.07, 0.10, 0.18, 0.28),
  'speckle_noise': _rows('sigma', 0.16, 0.21, 0.36, 0.46, 0.61),
  'gaussian_blur': _rows('sigma', 1.5, 2.5, 3.5, 4.5, 6.5),
  'defocus_blur': _rows(
    'radius sigma', (4.0, 0.1), (5.0, 0.5), (7.0, 0.5), (10.0, 0.5), (12.0, 0.5)
  ),
  'glass_blur': _rows(GLASS, (0.8, 1, 3), (1.0, 3, 1), (1.1, 2, 4), (1.2, 4, 2), (1.6, 5, 2)),
  'motion_blur': _rows('radius sigma', (12, 4.0), (17, 6.0), (17, 9.0), (17, 13.0), (22, 16.0)),
  'fog': {
    **_rows(FOG, (1.5, 2.0), (2.0, 2.0), (2.5, 1.8), (2.5, 1.6), (3.0, 1.5)),
    'map_side': (512,) * 5,
  },
  'elastic_transform': _elastic(
    360,
    (2.0, 0.7, 0.1),
    (2.0, 0.08, 0.2),
    (0.05, 0.01, 0.02),
    (0.07, 0.01, 0.02),
    (0.12, 0.01, 0.02),
  ),
  'pixelate': _rows('scale', 0.5, 0.4, 0.3, 0.25, 0.2),
  'jpeg_compression': _rows('quality', 23, 16, 13, 8, 5),
  'spatter': _rows(
    SPATTER,
    (0.65, 0.3, 4.0, 0.69, 0.9, 0),
    (0.65, 0.3, 3.5, 0.68, 0.9, 0),
    (0.65, 0.3, 3.0, 0.68, 0.8, 0),
    (0.65, 0.3, 1.2, 0.65, 1.8, 1),
    (0.67, 0.4, 1.2, 0.65, 1.8, 1),
  ),
}


def _magnitudes(by_name: Mapping[str, tuple[float, ...]]) -> dict[str, Constants]:
  return {name: {'magnitude': values} for name, values in by_name.items()}


# C-bar was published for 32 and 224 pixels; its constants are in proportion to the side.
TABLES = {
  side: Table(side, {**constants, **_magnitudes(further)})
  for side, constants, further in (
    (32, CIFAR, c_bar.CIFAR),
    (64, TINY, c_bar.CIFAR),
    (224, IMAGENET, c_bar.IMAGENET),
    (299, INCEPTION, c_bar.IMAGENET),
  )
}
