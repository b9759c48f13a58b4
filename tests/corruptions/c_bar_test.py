"""Tests every corruption of C-bar against a transcription of its definition, and its constants."""

import functools
import zlib

import jax
import numpy as np
import pytest
from scipy import stats

from robustness.corruptions import C_BAR, SETS, TABLES, corrupt, patterns
from robustness.corruptions.catalog import CORRUPTIONS
from robustness.corruptions.pixels import to_levels
from tests.cases import cases
from tests.corruptions import c_bar_transcription
from tests.corruptions.pictures import natural, share_within, table_of, with_draws
from tests.refusals import refused

SIDE, MIDDLE, LARGE = 32, 64, 224
COUNT = {SIDE: 3, MIDDLE: 1, LARGE: 1}
"""Images in `made` by their side."""
FIRST, LAST = 1, 5


def plain(draws: dict) -> dict[str, np.ndarray]:
  """Returns random numbers as NumPy arrays, floats in float64."""
  arrays = {name: np.asarray(value) for name, value in draws.items()}
  return {k: x.astype(float) if x.dtype.kind == 'f' else x for k, x in arrays.items()}


@functools.cache
def made(name: str, severity: int, side: int = SIDE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns images, ours and the transcription's, uint8 [N, side, side, 3]."""
  images = np.stack([natural(side, side, seed=seed) for seed in range(COUNT[side])])
  key = jax.random.key(zlib.crc32(name.encode()))
  eight_bits = np.rint(images * 255).astype(np.uint8)
  pairs = []
  for number, image in enumerate(images):
    draws, result = with_draws(name, side)(jax.random.fold_in(key, number), image, severity)
    result = to_levels(result, 'round' if CORRUPTIONS[name].rounded else 'floor')
    magnitude = table_of(name, side)['magnitude'][severity - 1]
    theirs = c_bar_transcription.FUNCTIONS[name](eight_bits[number], magnitude, plain(draws))
    pairs.append((np.rint(np.asarray(result) * 255).astype(np.uint8), theirs))
  first, second = zip(*pairs, strict=True)
  return eight_bits, np.stack(first), np.stack(second)


@pytest.mark.parametrize('severity', [FIRST, LAST])
@cases(
  'name, side',
  *((name, SIDE) for name in C_BAR),
  ('pinch_and_twirl', MIDDLE),  # 3 cells of 21 pixels, with centres between pixels
  *(pytest.param(name, LARGE, marks=pytest.mark.slow) for name in SETS['c_bar_imagenet']),
)
def test_every_corruption_is_its_definition(name, side, severity):
  """Some corruptions have further properties that do not depend on the random numbers."""
  images, ours, theirs = made(name, severity, side)
  assert (ours != images).mean() > 0.005
  assert share_within(ours / 255, theirs / 255, 1) > 0.9985
  assert (ours == theirs).mean() > 0.985
  magnitude = table_of(name, side)['magnitude'][severity - 1]
  if name in ('sparkles', 'inverse_sparkles'):
    assert (ours >= images).all()
  elif name == 'blue_noise_sample':
    black = (ours == 0).all(-1)
    assert (ours[~black] == images[~black]).all() and black.any()
    if side == LARGE:
      assert black.mean() == pytest.approx(stats.norm.cdf(0.3 * magnitude - 2.5), abs=0.01)
  elif name == 'checkerboard_cutout':
    grey = (ours == 128).all(-1)
    assert (ours[~grey] == images[~grey]).all()
  elif name in ('single_frequency_greyscale', 'cocentric_sine_waves'):
    limit = 19.6 if name == 'single_frequency_greyscale' else 6.4
    change = ours.astype(int) - images
    assert np.abs(change).max() <= limit * magnitude + 1
    free = ((ours > 0) & (ours < 255)).all(-1)
    assert np.ptp(change[free], axis=-1).max() <= 1


def test_sets_and_constants_are_the_published_ones():
  assert len(C_BAR) == 15 and set(C_BAR) == set(c_bar_transcription.FUNCTIONS)
  shared = set(SETS['c_bar_imagenet']) & set(SETS['c_bar_cifar'])
  assert len(shared) == 5 and all(len(SETS[s]) == 10 for s in ('c_bar_imagenet', 'c_bar_cifar'))
  for side, name, factor, derived in (
    (224, 'caustic_refraction', 0.05 * 224, (26.32, 35.84, 54.88, 73.92, 102.48)),
    (224, 'sparkles', 0.01 * 224, (2.24, 4.48, 6.72, 11.2, 13.44)),
    (224, 'plasma_noise', 6.4, (30.4, 44.8, 54.4, 59.2, 64)),
    (32, 'sparkles', 0.01 * 32, (0.224, 1.12, 1.792, 2.016, 2.24)),
    (32, 'ripple', 0.0025 * 32, (0.44, 0.48, 0.52, 0.6, 0.64)),
    (32, 'brownish_noise', 6.4, (16, 25.6, 35.2, 41.6, 44.8)),
  ):
    np.testing.assert_allclose(factor * np.array(TABLES[side][name]['magnitude']), derived)


def test_blue_noise_makes_the_published_share_of_pixels_black():
  """The share is Φ(.3m - 2.5) at severities 1 and 5."""
  images = np.full((64, SIDE, SIDE, 3), 0.5, np.float32)
  severity = np.repeat([1, 5], 32)
  black = np.asarray(corrupt(0, images, 'blue_noise_sample', severity)) == 0
  shares = black.mean((1, 2, 3)).reshape(2, 32).mean(1)
  np.testing.assert_allclose(shares, (0.011, 0.108), atol=0.002)


def test_no_gradient_of_perlin_noise_is_nan(monkeypatch):
  drawn = jax.random.randint  # The first hundred gradients become (0, 0), without a direction.
  monkeypatch.setattr(jax.random, 'randint', lambda *arguments: drawn(*arguments).at[:100].set(0))
  draws = jax.jit(lambda key: patterns.perlin_noise.draw(key, (SIDE, SIDE), {}))(jax.random.key(0))
  np.testing.assert_allclose(np.linalg.norm(draws['gradients'], axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize('name', ['plasma_noise', 'transverse_chromatic_abberation'])
def test_a_grey_image_takes_the_mean_over_the_channels(name):
  grey = np.float32(0.3) + np.float32(0.4) * natural(SIDE, SIDE)[..., :1]
  side = 224 if name == 'plasma_noise' else 32
  alone = np.asarray(corrupt(3, grey, name, 1, side=side))
  colour = np.asarray(corrupt(3, np.repeat(grey, 3, -1), name, 1, side=side))
  assert np.ptp(colour, axis=-1).max() > 0.05
  np.testing.assert_allclose(alone, colour.mean(-1, keepdims=True), atol=1e-6)


def test_bad_input_is_named():
  for change, message in (
    ({'name': 'lines', 'side': 224}, 'lines has no published constants for images of 224 pixels'),
    ({'name': 'perlin_noise'}, 'of 32 pixels: ask for those of another size, one of 224, 299'),
    ({'images': np.zeros((32, 30, 3))}, 'are not square, for which ripple is defined'),
    ({'name': 'brownish_noise', 'images': np.zeros((31, 31, 3))}, 'have an odd side'),
    ({'images': np.zeros((4, 4, 3))}, 'too small for ripple'),
  ):
    arguments = {'images': np.zeros((32, 32, 3)), 'name': 'ripple', 'severity': 3} | change
    refused(message, corrupt, 0, **arguments)
