"""Every constant of the 19 corruptions, for the four image sizes that were published.

A corruption is a function `f(key, image, severity, constants)`: `severity` is an integer scalar in
1..5 that may be traced, `constants` is the corruption's entry below, static, five values for each
parameter. `at(constants['sigma'], severity)` is the value of one severity, and max(...) of the five
bounds the static sizes.

Sizes: 32 (CIFAR-10-C), 64 (Tiny-ImageNet-C), 224 (ImageNet-C), 299 (Inception). Any other image
takes the table whose side has the smallest |log(side / shorter side of the image)|; of two at one
distance the smaller. So 28 → 32, 45 → 32, 46 → 64, 96 → 64, 128 → 224, 256 → 224, 288 → 299.

Reference:
  Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and
  Perturbations, and the constants of its released generators.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.names import SEVERITIES
from robustness.errors import InputError

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
    return self.constants[name]


def at(values: Sequence[float] | np.ndarray, severity: jax.Array | int) -> jax.Array:
  """Returns the value of a severity in 1..5, [...] of [5, ...]; int32 or float32.

  Args:
    values: one for each severity.
    severity: integer scalar; may be traced.
  """
  array = np.asarray(values)
  kind = np.int32 if np.issubdtype(array.dtype, np.integer) else np.float32
  return jnp.asarray(array.astype(kind))[jnp.asarray(severity) - SEVERITIES[0]]


def table_for(height: int, width: int, side: int | None = None) -> Table:
  """Returns the constants for images of a size, by the rule at the top of this file.

  Args:
    height, width: of the images, in pixels.
    side: takes the table of this side whatever the size; None follows the rule.

  Raises:
    InputError: there is no table of that side.
  """
  if side is None:
    shorter = min(height, width)
    side = min(TABLES, key=lambda s: (abs(math.log(s / shorter)), s))
  if side not in TABLES:
    raise InputError(f'there are no constants for images of {side} pixels; valid: '
                     f'{", ".join(map(str, TABLES))}, or None for the nearest.')
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
    'gaussian_noise': _rows('sigma', .04, .06, .08, .09, .10),
    'shot_noise': _rows('photons', 500., 250., 100., 75., 50.),
    'impulse_noise': _rows('rate', .01, .02, .03, .05, .07),
    'speckle_noise': _rows('sigma', .06, .1, .12, .16, .2),
    'gaussian_blur': _rows('sigma', .4, .6, .7, .8, 1.),
    'defocus_blur': _rows('radius sigma', (.3, .4), (.4, .5), (.5, .6), (1., .2), (1.5, .1)),
    'glass_blur': _rows(GLASS, (.05, 1, 1), (.25, 1, 1), (.4, 1, 1), (.25, 1, 2), (.4, 1, 2)),
    'motion_blur': _rows('radius sigma', (6, 1.), (6, 1.5), (6, 2.), (8, 2.), (9, 2.5)),
    'zoom_blur': _zooms((1.06, .01), (1.11, .01), (1.16, .01), (1.21, .01), (1.26, .01)),
    'snow': _rows(SNOW, (.1, .2, 1., .6, 8, 3., .95), (.1, .2, 1., .5, 10, 4., .9),
                  (.15, .3, 1.75, .55, 10, 4., .9), (.25, .3, 2.25, .6, 12, 6., .85),
                  (.3, .3, 1.25, .65, 14, 12., .8)),
    'frost': {**_rows(FROST, (1., .2), (1., .3), (.9, .4), (.85, .4), (.75, .45)),
              'resize': (.2,) * 5},
    'fog': {**_rows(FOG, (.2, 3.), (.5, 3.), (.75, 2.5), (1., 2.), (1.5, 1.75)),
            'map_side': (32,) * 5},
    'brightness': _rows('shift', .05, .1, .15, .2, .3),
    'contrast': _rows('factor', .75, .5, .4, .3, .15),
    'saturate': _rows(SATURATE, (.3, 0.), (.1, 0.), (1.5, 0.), (2., .1), (2.5, .2)),
    'elastic_transform': _elastic(32, (0., 0., .08), (.05, .2, .07), (.08, .06, .06),
                                  (.1, .04, .05), (.1, .03, .03)),
    'pixelate': _rows('scale', .95, .9, .85, .75, .65),
    'jpeg_compression': _rows('quality', 80, 65, 58, 50, 40),
    'spatter': _rows(SPATTER, (.62, .1, .7, .7, .5, 0), (.65, .1, .8, .7, .5, 0),
                     (.65, .3, 1., .69, .5, 0), (.65, .1, .7, .69, .6, 1),
                     (.65, .1, .5, .68, .6, 1)),
}

IMAGENET = {
    'gaussian_noise': _rows('sigma', .08, .12, .18, .26, .38),
    'shot_noise': _rows('photons', 60., 25., 12., 5., 3.),
    'impulse_noise': _rows('rate', .03, .06, .09, .17, .27),
    'speckle_noise': _rows('sigma', .15, .2, .35, .45, .6),
    'gaussian_blur': _rows('sigma', 1., 2., 3., 4., 6.),
    'defocus_blur': _rows('radius sigma', (3., .1), (4., .5), (6., .5), (8., .5), (10., .5)),
    'glass_blur': _rows(GLASS, (.7, 1, 2), (.9, 2, 1), (1., 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    'motion_blur': _rows('radius sigma', (10, 3.), (15, 5.), (15, 8.), (15, 12.), (20, 15.)),
    'zoom_blur': _zooms((1.11, .01), (1.16, .01), (1.21, .02), (1.26, .02), (1.31, .03)),
    'snow': _rows(SNOW, (.1, .3, 3., .5, 10, 4., .8), (.2, .3, 2., .5, 12, 4., .7),
                  (.55, .3, 4., .9, 12, 8., .7), (.55, .3, 4.5, .85, 12, 8., .65),
                  (.55, .3, 2.5, .85, 12, 12., .55)),
    'frost': {**_rows(FROST, (1., .4), (.8, .6), (.7, .7), (.65, .7), (.6, .75)),
              'resize': (1.,) * 5},
    'fog': {**_rows(FOG, (1.5, 2.), (2., 2.), (2.5, 1.7), (2.5, 1.5), (3., 1.4)),
            'map_side': (256,) * 5},
    'brightness': _rows('shift', .1, .2, .3, .4, .5),
    'contrast': _rows('factor', .4, .3, .2, .1, .05),
    'saturate': _rows(SATURATE, (.3, 0.), (.1, 0.), (2., 0.), (5., .1), (20., .2)),
    # 244 is what the released generator has, for 224.
    'elastic_transform': _elastic(244, (2., .7, .1), (2., .08, .2), (.05, .01, .02),
                                  (.07, .01, .02), (.12, .01, .02)),
    'pixelate': _rows('scale', .6, .5, .4, .3, .25),
    'jpeg_compression': _rows('quality', 25, 18, 15, 10, 7),
    'spatter': _rows(SPATTER, (.65, .3, 4., .69, .6, 0), (.65, .3, 3., .68, .6, 0),
                     (.65, .3, 2., .68, .5, 0), (.65, .3, 1., .65, 1.5, 1),
                     (.67, .4, 1., .65, 1.5, 1)),
}

TINY = {
    'gaussian_noise': _rows('sigma', .04, .08, .12, .15, .18),
    'shot_noise': _rows('photons', 250., 100., 50., 30., 15.),
    'impulse_noise': _rows('rate', .01, .02, .05, .08, .14),
    'speckle_noise': _rows('sigma', .15, .2, .25, .3, .35),
    'gaussian_blur': _rows('sigma', .5, .75, 1., 1.25, 1.5),
    'defocus_blur': _rows('radius sigma', (.5, .6), (1., .1), (1.5, .1), (2.5, .01), (3., .1)),
    'glass_blur': _rows(GLASS, (.1, 1, 1), (.5, 1, 1), (.6, 1, 2), (.7, 2, 1), (.9, 2, 2)),
    'motion_blur': _rows('radius sigma', (10, 1.), (10, 1.5), (10, 2.), (10, 2.5), (12, 3.)),
    'zoom_blur': CIFAR['zoom_blur'],
    'snow': {**CIFAR['snow'], 'mix': (.8, .8, .7, .65, .6)},
    'frost': {**_rows(FROST, (1., .3), (.9, .4), (.8, .45), (.75, .5), (.7, .55)),
              'resize': (.3,) * 5},
    'fog': {**_rows(FOG, (.4, 3.), (.7, 3.), (1., 2.5), (1.5, 2.), (2., 1.75)),
            'map_side': (64,) * 5},
    'brightness': IMAGENET['brightness'],
    'contrast': IMAGENET['contrast'],
    'saturate': _rows(SATURATE, (.3, 0.), (.1, 0.), (2., 0.), (5., .1), (30., .2)),
    'elastic_transform': _elastic(64, (0., 0., .08), (.05, .3, .06), (.1, .08, .06),
                                  (.1, .03, .03), (.16, .03, .02)),
    'pixelate': _rows('scale', .9, .8, .7, .6, .5),
    'jpeg_compression': _rows('quality', 65, 58, 50, 40, 25),
    'spatter': _rows(SPATTER, (.62, .1, .7, .7, .6, 0), (.65, .1, .8, .7, .6, 0),
                     (.65, .3, 1., .69, .6, 0), (.65, .1, .7, .68, .6, 1),
                     (.65, .1, .5, .67, .6, 1)),
}

INCEPTION = {
    **IMAGENET,
    'gaussian_noise': _rows('sigma', .09, .13, .19, .27, .40),
    'shot_noise': _rows('photons', 50., 20., 10., 5., 3.),
    'impulse_noise': _rows('rate', .04, .07, .10, .18, .28),
    'speckle_noise': _rows('sigma', .16, .21, .36, .46, .61),
    'gaussian_blur': _rows('sigma', 1.5, 2.5, 3.5, 4.5, 6.5),
    'defocus_blur': _rows('radius sigma', (4., .1), (5., .5), (7., .5), (10., .5), (12., .5)),
    'glass_blur': _rows(GLASS, (.8, 1, 3), (1., 3, 1), (1.1, 2, 4), (1.2, 4, 2), (1.6, 5, 2)),
    'motion_blur': _rows('radius sigma', (12, 4.), (17, 6.), (17, 9.), (17, 13.), (22, 16.)),
    'fog': {**_rows(FOG, (1.5, 2.), (2., 2.), (2.5, 1.8), (2.5, 1.6), (3., 1.5)),
            'map_side': (512,) * 5},
    'elastic_transform': _elastic(360, (2., .7, .1), (2., .08, .2), (.05, .01, .02),
                                  (.07, .01, .02), (.12, .01, .02)),
    'pixelate': _rows('scale', .5, .4, .3, .25, .2),
    'jpeg_compression': _rows('quality', 23, 16, 13, 8, 5),
    'spatter': _rows(SPATTER, (.65, .3, 4., .69, .9, 0), (.65, .3, 3.5, .68, .9, 0),
                     (.65, .3, 3., .68, .8, 0), (.65, .3, 1.2, .65, 1.8, 1),
                     (.67, .4, 1.2, .65, 1.8, 1)),
}

TABLES = {side: Table(side, constants) for side, constants in (
    (32, CIFAR), (64, TINY), (224, IMAGENET), (299, INCEPTION))}
