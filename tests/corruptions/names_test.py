"""The numbers that corruptions draw by, written down a second time: they must not change."""

from __future__ import annotations

from robustness.corruptions.catalog import FUNCTIONS
from robustness.corruptions.names import C_BAR, KNOWN, NAMED, NAMES, NUMBERS, view_id
from robustness.environments.transforms import ROTATION, get
from robustness.studies import corruption_error, flip_rate, systematic

PUBLISHED = {
  'gaussian_noise': 0,
  'shot_noise': 1,
  'impulse_noise': 2,
  'defocus_blur': 3,
  'glass_blur': 4,
  'motion_blur': 5,
  'zoom_blur': 6,
  'snow': 7,
  'frost': 8,
  'fog': 9,
  'brightness': 10,
  'contrast': 11,
  'elastic_transform': 12,
  'pixelate': 13,
  'jpeg_compression': 14,
  'speckle_noise': 15,
  'gaussian_blur': 16,
  'spatter': 17,
  'saturate': 18,
  'blue_noise_sample': 19,
  'brownish_noise': 20,
  'caustic_refraction': 21,
  'checkerboard_cutout': 22,
  'circular_motion_blur': 23,
  'cocentric_sine_waves': 24,
  'inverse_sparkles': 25,
  'lines': 26,
  'perlin_noise': 27,
  'pinch_and_twirl': 28,
  'plasma_noise': 29,
  'ripple': 30,
  'single_frequency_greyscale': 31,
  'sparkles': 32,
  'transverse_chromatic_abberation': 33,
}


def test_published_numbers_stay() -> None:
  assert {name: NUMBERS.get(name) for name in PUBLISHED} == PUBLISHED


def test_every_corruption_has_a_number_of_its_own() -> None:
  assert set(NUMBERS) == {*NAMES, *C_BAR} == set(FUNCTIONS) and tuple(NUMBERS) == KNOWN
  assert {number: name for name, number in NUMBERS.items()} == NAMED
  assert len(NAMED) == len(NUMBERS) and max(NAMED) < 200, 'rotations have 1000 + degrees'


def test_views_draw_by_these_numbers() -> None:
  for name, number in PUBLISHED.items():
    assert view_id(name, 3) == 5 * number + 3 == get(name).view_base + 3
    assert view_id(name, 2.5) == 1_002_500 + 5000 * number
  assert get(ROTATION).view_base == 1000


def test_studies_show_them_by_these_numbers() -> None:
  chosen = ('sparkles', 'fog', 'lines')
  own = [5 * PUBLISHED[name] for name in ('fog', 'lines', 'sparkles')]
  ids = [number + severity for number in own for severity in range(1, 6)]
  shape = (32, 32, 3)
  assert corruption_error.CorruptionError(corruptions=chosen).views(shape).ids.tolist() == [0, *ids]
  flips = flip_rate.FlipRate(corruptions=chosen, frames=5).views(shape)
  assert flips.ids.tolist() == ids
  assert flips.parameters['draws'].tolist() == [number + 1 for number in own for _ in range(5)]
  environments = systematic.Systematic(environments=('fog', ROTATION)).views(shape).ids.tolist()
  assert environments[:6] == [0, *ids[:5]] and min(environments[6:]) > 1000
