"""The numbers that corruptions draw by, written down a second time: they must not change."""

from __future__ import annotations

from robustness.corruptions.catalog import CORRUPTIONS
from robustness.corruptions.names import KNOWN, NAMED, NUMBERS, view_id
from robustness.environments.transforms import ROTATION, get
from robustness.studies import corruption_error, flip_rate, systematic

_IN_ORDER = """
gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost
fog brightness contrast elastic_transform pixelate jpeg_compression speckle_noise gaussian_blur
spatter saturate blue_noise_sample brownish_noise caustic_refraction checkerboard_cutout
circular_motion_blur cocentric_sine_waves inverse_sparkles lines perlin_noise pinch_and_twirl
plasma_noise ripple single_frequency_greyscale sparkles transverse_chromatic_abberation
"""
PUBLISHED = {name: number for number, name in enumerate(_IN_ORDER.split())}


def test_published_numbers_stay() -> None:
  assert {name: NUMBERS.get(name) for name in PUBLISHED} == PUBLISHED


def test_every_corruption_has_a_number_of_its_own() -> None:
  assert {name: one.name for name, one in CORRUPTIONS.items()} == {name: name for name in KNOWN}
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
