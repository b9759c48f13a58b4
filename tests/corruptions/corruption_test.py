"""The constants tables: complete, of five severities, the published spot values, the size rule."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.corruptions.catalog import CORRUPTIONS, TABLES, table_for
from robustness.corruptions.corruption import Strength
from robustness.corruptions.names import NAMES, OFFICIAL, SETS


@pytest.mark.parametrize('side', TABLES)
def test_every_corruption_has_five_values_of_every_parameter(side: int) -> None:
  published = SETS['c_bar_cifar' if side < 100 else 'c_bar_imagenet']
  assert set(TABLES[side].constants) >= {*NAMES, *published}
  for name, constants in TABLES[side].constants.items():
    assert all(set(constants) == set(other) for other in CORRUPTIONS[name].constants.values())
    assert all(len(values) == 5 for values in constants.values())


@pytest.mark.parametrize('side', TABLES)
def test_constants_between_the_severities_are_interpolated(side: int) -> None:
  table = TABLES[side].with_between((1.5, 4.25, 5.0))
  for name, own in TABLES[side].constants.items():
    for key, values in own.items():
      assert table[name][key][:5] == tuple(values)
      assert table[name][key][7] == pytest.approx(values[4])
  assert table['gaussian_noise']['sigma'][5] == pytest.approx(
    np.mean(TABLES[side]['gaussian_noise']['sigma'][:2])
  )
  assert table['sparkles']['magnitude'][6] == pytest.approx(
    np.dot((0.75, 0.25), TABLES[side]['sparkles']['magnitude'][3:])
  )
  qualities = TABLES[side]['jpeg_compression']['quality']
  assert table['jpeg_compression']['quality'][6] == round(0.75 * qualities[3] + 0.25 * qualities[4])
  zooms = table['zoom_blur']['zooms']
  assert zooms[0][-1] < zooms[5][-1] < zooms[1][-1] and zooms[5][1] == zooms[0][1]
  assert TABLES[side].with_between(()) is TABLES[side]


@pytest.mark.parametrize(
  ('side', 'name', 'parameter', 'values'),
  [
    (224, 'gaussian_noise', 'sigma', (0.08, 0.12, 0.18, 0.26, 0.38)),
    (32, 'gaussian_noise', 'sigma', (0.04, 0.06, 0.08, 0.09, 0.10)),
    (224, 'defocus_blur', 'radius', (3, 4, 6, 8, 10)),
    (224, 'elastic_transform', 'sigma', (170.8, 19.52, 2.44, 2.44, 2.44)),
    (224, 'elastic_transform', 'alpha', (488, 488, 12.2, 17.08, 29.28)),
    (224, 'elastic_transform', 'affine', (24.4, 48.8, 4.88, 4.88, 4.88)),
    (32, 'elastic_transform', 'alpha', (0, 1.6, 2.56, 3.2, 3.2)),
    (299, 'elastic_transform', 'alpha', (720, 720, 18, 25.2, 43.2)),
    (299, 'jpeg_compression', 'quality', (23, 16, 13, 8, 5)),
  ],
)
def test_published_values(side: int, name: str, parameter: str, values: tuple) -> None:
  np.testing.assert_allclose(TABLES[side][name][parameter], values, rtol=1e-12)


def test_zoom_factors_are_counted_as_float_ranges_yield_them() -> None:
  assert [len(z) for z in TABLES[224]['zoom_blur']['zooms']] == [12, 16, 11, 13, 11]
  assert [len(z) for z in TABLES[32]['zoom_blur']['zooms']] == [7, 12, 16, 21, 26]


def test_sets_are_those_of_the_papers() -> None:
  assert [
    len(SETS[s]) for s in ('official', 'extra', 'all', 'fourier_cifar', 'fourier_imagenet')
  ] == [15, 4, 19, 15, 12]
  assert set(SETS['fourier_cifar']) ^ set(OFFICIAL) == {
    'gaussian_noise',
    'frost',
    'gaussian_blur',
    'speckle_noise',
  }
  assert set(OFFICIAL) - set(SETS['fourier_imagenet']) == {'motion_blur', 'snow', 'frost'}


@pytest.mark.parametrize(
  ('shape', 'side'),
  [
    ((28, 28), 32),
    ((45, 45), 32),
    ((46, 46), 64),
    ((96, 200), 64),
    ((128, 128), 224),
    ((256, 256), 224),
    ((600, 288), 299),
    ((8, 8), 32),
    ((1000, 1000), 299),
    ((299, 224), 224),
  ],
)
def test_other_sizes_take_the_nearest_table(shape: tuple[int, int], side: int) -> None:
  assert table_for(*shape).side == side


def test_a_table_can_be_asked_for() -> None:
  assert table_for(32, 32, side=224).side == 224
  with pytest.raises(InputError, match='images of 96 pixels; valid: 32, 64, 224, 299'):
    table_for(96, 96, side=96)


def test_values_of_a_traced_severity() -> None:
  constants = {'sigma': (0.1, 0.2, 0.3, 0.4, 0.5), 'radius': (1, 2, 3, 4, 5)}
  pick = jax.jit(lambda s: Strength(constants, s)['sigma'])
  np.testing.assert_allclose([pick(s) for s in range(1, 6)], (0.1, 0.2, 0.3, 0.4, 0.5), rtol=1e-6)
  assert Strength(constants, 3)['radius'].dtype == np.int32
