"""Tests that constants are as published, and that the numbers of corruptions do not change."""

import jax
import numpy as np
import pytest

from robustness.corruptions import names
from robustness.corruptions.catalog import CORRUPTIONS, TABLES, ConstantsTable, table_for
from robustness.corruptions.corruption import PUBLISHED as TABLES_OF_CONSTANTS
from robustness.corruptions.corruption import Strength, corruption
from robustness.corruptions.names import KNOWN, NAMED, NAMES, NUMBERS, OFFICIAL, SETS, STORED_SETS
from robustness.environments.transforms import ROTATION, get
from robustness.studies import corruption_error, flip_rate, systematic
from tests.refusals import refused

TINY_IMAGENET = """
gaussian_noise: sigma .04 .08 .12 .15 .18
shot_noise: photons 250 100 50 30 15
impulse_noise: rate .01 .02 .05 .08 .14
speckle_noise: sigma .15 .2 .25 .3 .35
gaussian_blur: sigma .5 .75 1 1.25 1.5
glass_blur: sigma .1 .5 .6 .7 .9, delta 1 1 1 2 2, iterations 1 1 2 1 2
defocus_blur: radius .5 1 1.5 2.5 3, sigma .6 .1 .1 .01 .1
motion_blur: radius 10 10 10 10 12, sigma 1 1.5 2 2.5 3
snow: loc .1 .1 .15 .25 .3, scale .2 .2 .3 .3 .3, zoom 1 1 1.75 2.25 1.25
snow: threshold .6 .5 .55 .6 .65, radius 8 10 10 12 14, sigma 3 4 4 6 12, mix .8 .8 .7 .65 .6
frost: image_weight 1 .9 .8 .75 .7, frost_weight .3 .4 .45 .5 .55, resize .3 .3 .3 .3 .3
fog: amount .4 .7 1 1.5 2, decay 3 3 2.5 2 1.75, map_side 64 64 64 64 64
brightness: shift .1 .2 .3 .4 .5
contrast: factor .4 .3 .2 .1 .05
saturate: factor .3 .1 2 5 30, shift 0 0 0 .1 .2
elastic_transform: alpha 0 3.2 6.4 6.4 10.24, sigma 0 19.2 5.12 1.92 1.92
elastic_transform: affine 5.12 3.84 3.84 1.92 1.28
pixelate: scale .9 .8 .7 .6 .5
jpeg_compression: quality 65 58 50 40 25
spatter: loc .62 .65 .65 .65 .65, scale .1 .1 .3 .1 .1, sigma .7 .8 1 .7 .5
spatter: threshold .7 .7 .69 .68 .67, brightness .6 .6 .6 .6 .6, edge .6 .6 .6 .6 .6
spatter: mud 0 0 0 1 1
"""
"""Five severities, as `make_tinyimagenet_c.py` of hendrycks/robustness has them."""
_IN_ORDER = """
gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost
fog brightness contrast elastic_transform pixelate jpeg_compression speckle_noise gaussian_blur
spatter saturate blue_noise_sample brownish_noise caustic_refraction checkerboard_cutout
circular_motion_blur cocentric_sine_waves inverse_sparkles lines perlin_noise pinch_and_twirl
plasma_noise ripple single_frequency_greyscale sparkles transverse_chromatic_abberation
glitched mosaic stickers vertical_lines geometric_shapes luminance_checkerboard
"""
PUBLISHED = {name: number for number, name in enumerate(_IN_ORDER.split())}
"""Numbers of the corruptions, which stored results depend on."""


def test_constants_are_the_published_ones_and_the_generators_at_64_pixels():
  lines = [line.partition(': ') for line in TINY_IMAGENET.strip().splitlines()]
  rows = [[name, *words.split()] for name, _, parts in lines for words in parts.split(', ')]
  assert table_for(64, 64).side == 64
  assert {name for name, *_ in rows} | {'zoom_blur'} == set(NAMES)
  for name, parameter, *values in rows:
    np.testing.assert_allclose(TABLES[64][name][parameter], np.array(values, float), rtol=1e-12)
    assert set(TABLES[64][name]) == {row[1] for row in rows if row[0] == name}
  ends = (1.06, 1.11, 1.16, 1.21, 1.26)
  for zooms, end in zip(TABLES[64]['zoom_blur']['zooms'], ends, strict=True):
    np.testing.assert_allclose(zooms, np.arange(1, end, 0.01), rtol=1e-12)
  for side, name, parameter, values in (
    (224, 'gaussian_noise', 'sigma', (0.08, 0.12, 0.18, 0.26, 0.38)),
    (32, 'gaussian_noise', 'sigma', (0.04, 0.06, 0.08, 0.09, 0.10)),
    (224, 'defocus_blur', 'radius', (3, 4, 6, 8, 10)),
    (224, 'elastic_transform', 'sigma', (170.8, 19.52, 2.44, 2.44, 2.44)),
    (224, 'elastic_transform', 'alpha', (488, 488, 12.2, 17.08, 29.28)),
    (224, 'elastic_transform', 'affine', (24.4, 48.8, 4.88, 4.88, 4.88)),
    (32, 'elastic_transform', 'alpha', (0, 1.6, 2.56, 3.2, 3.2)),
    (299, 'elastic_transform', 'alpha', (720, 720, 18, 25.2, 43.2)),
    (299, 'jpeg_compression', 'quality', (23, 16, 13, 8, 5)),
  ):
    np.testing.assert_allclose(TABLES[side][name][parameter], values, rtol=1e-12)
  # The numbers of zooms differ by severity, and between the two published tables.
  assert [len(z) for z in TABLES[224]['zoom_blur']['zooms']] == [12, 16, 11, 13, 11]
  assert [len(z) for z in TABLES[32]['zoom_blur']['zooms']] == [7, 12, 16, 21, 26]


@pytest.mark.parametrize('side', TABLES)
def test_every_parameter_has_five_values_and_is_interpolated_between_severities(side):
  published = SETS['c_bar_cifar' if side < 100 else 'c_bar_imagenet']
  tables = {
    name: corruption.constants[side]
    for name, corruption in CORRUPTIONS.items()
    if side in corruption.constants
  }
  assert set(tables) >= {*NAMES, *published}
  for name, constants in tables.items():
    assert all(set(constants) == set(other) for other in CORRUPTIONS[name].constants.values())
    assert all(len(values) == 5 for values in constants.values())
    assert TABLES[side][name] == constants
  table = ConstantsTable(side, (1.5, 4.25, 5.0))  # These are in the places 5, 6 and 7.
  for name, constants in tables.items():
    for key, values in constants.items():
      assert table[name][key][:5] == tuple(values)
      assert table[name][key][7] == pytest.approx(values[4])
  for name, key, place, expected in (
    ('gaussian_noise', 'sigma', 5, np.mean(tables['gaussian_noise']['sigma'][:2])),
    ('sparkles', 'magnitude', 6, np.dot((0.75, 0.25), tables['sparkles']['magnitude'][3:])),
  ):
    assert table[name][key][place] == pytest.approx(expected)
  qualities = tables['jpeg_compression']['quality']
  assert table['jpeg_compression']['quality'][6] == round(0.75 * qualities[3] + 0.25 * qualities[4])
  zooms = table['zoom_blur']['zooms']
  assert zooms[0][-1] < zooms[5][-1] < zooms[1][-1] and zooms[5][1] == zooms[0][1]


def test_every_table_of_constants_is_of_a_corruption():
  assert {*TABLES_OF_CONSTANTS} <= {*CORRUPTIONS}


def test_sets_of_corruptions_are_those_of_the_papers():
  counts = {'official': 15, 'extra': 4, 'all': 19, 'fourier_cifar': 15, 'fourier_imagenet': 12}
  assert {name: len(SETS[name]) for name in counts} == counts
  replaced = {'gaussian_noise', 'frost', 'gaussian_blur', 'speckle_noise'}
  assert set(SETS['fourier_cifar']) ^ set(OFFICIAL) == replaced
  assert set(OFFICIAL) - set(SETS['fourier_imagenet']) == {'motion_blur', 'snow', 'frost'}


def test_the_table_is_the_nearest_by_the_shorter_side_or_the_one_of_a_side():
  for shape, side in (
    *(((28, 28), 32), ((45, 45), 32), ((46, 46), 64), ((96, 200), 64), ((128, 128), 224)),
    *(((256, 256), 224), ((600, 288), 299), ((8, 8), 32), ((1000, 1000), 299), ((299, 224), 224)),
  ):
    assert table_for(*shape).side == side
  assert table_for(32, 32, side=224).side == 224
  refused('images of 96 pixels; valid: 32, 64, 224, 299', table_for, 96, 96, side=96)


def test_strength_picks_the_values_of_a_traced_severity():
  constants = {'sigma': (0.1, 0.2, 0.3, 0.4, 0.5), 'radius': (1, 2, 3, 4, 5)}
  pick = jax.jit(lambda s: Strength(constants, s)['sigma'])
  np.testing.assert_allclose([pick(s) for s in range(1, 6)], (0.1, 0.2, 0.3, 0.4, 0.5), rtol=1e-6)
  assert Strength(constants, 3)['radius'].dtype == np.int32


def test_numbers_of_corruptions_and_the_ids_of_views_that_follow_do_not_change():
  assert {name: NUMBERS.get(name) for name in PUBLISHED} == PUBLISHED
  assert {name: corruption.name for name, corruption in CORRUPTIONS.items()} == {
    name: name for name in KNOWN
  }
  assert {number: name for name, number in NUMBERS.items()} == NAMED
  assert [NUMBERS[name] for name in STORED_SETS['imagenet_3dcc']] == list(range(40, 52))
  assert len(NAMED) == len(NUMBERS) and max(NAMED) < 200, 'the ids of rotations begin at 1000'
  for name, number in PUBLISHED.items():
    assert names.view_id(name, 3) == 5 * number + 3 == get(name).view_base + 3
    assert names.view_id(name, 2.5) == 1_002_500 + 5000 * number
  assert get(ROTATION).view_base == 1000
  corruptions = ('sparkles', 'fog', 'lines')
  bases = [5 * PUBLISHED[name] for name in ('fog', 'lines', 'sparkles')]
  ids = [number + severity for number in bases for severity in range(1, 6)]
  shape = (32, 32, 3)
  assert corruption_error.CorruptionError(corruptions=corruptions).views(shape).ids.tolist() == [
    0,
    *ids,
  ]
  flips = flip_rate.FlipRate(corruptions=corruptions, frames=5).views(shape)
  assert flips.ids.tolist() == ids
  assert flips.parameters['draws'].tolist() == [number + 1 for number in bases for _ in range(5)]
  environments = systematic.Systematic(environments=('fog', ROTATION)).views(shape).ids.tolist()
  assert environments[:6] == [0, *ids[:5]] and min(environments[6:]) > 1000


def test_a_contained_set_for_images_of_another_size_is_left_out():
  assert 'fourier_imagenet' in names.whole_sets(OFFICIAL)
  assert 'fourier_cifar' in names.whole_sets(SETS['all'])
  assert list(names.whole_sets(OFFICIAL, 32)) == ['official']
  assert 'fourier_imagenet' in names.whole_sets(OFFICIAL, 224)
  assert 'fourier_cifar' in names.whole_sets(SETS['all'], 32)
  assert 'fourier_cifar' not in names.whole_sets(SETS['all'], 224)
  alone = names.whole_sets(SETS['fourier_imagenet'], 32)
  assert list(alone) == ['fourier_imagenet'], 'it is the only set of these corruptions'


def test_an_odd_width_is_refused_where_sides_must_be_even():
  even = corruption('factor', {32: (1, 1, 1, 1, 1)}, 'alone', even=True)(lambda *_: None)
  even.check_side((30, 32), even.constants[32])
  refused('have an odd side', even.check_side, (32, 33), even.constants[32])
