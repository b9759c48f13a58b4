"""Tests LAION-C's corruptions against loops and Pillow with the same random numbers."""

import functools
import math

import jax
import numpy as np
import pytest
from PIL import Image, ImageDraw

from robustness.corruptions import SETS, corrupt, corrupt_each, laion_c
from robustness.corruptions.catalog import TABLES
from tests.cases import cases
from tests.corruptions.pictures import natural, with_draws
from tests.refusals import refused

SIDE = 64
LEVELS = np.rint(natural(SIDE, SIDE) * 255).astype(np.uint8)
BANDS = [(23, -7), (29, 0), (77, -1), (84, 0), (145, -4), (151, -1), (186, -4), (200, 0)]
"""First rows of bands, and how far glitch_this moves them to the right."""
MOVED_CHANNEL = [0, -3, 0]
"""The channel that glitch_this moves, and how far to the right and down."""
SHAPES = ('triangle', 'square', 'circle', 'star')


@functools.cache
def made(name: str, severity: int):
  """Returns the random numbers of a corruption, and the image, uint8 [64, 64, 3]."""
  image, key = (LEVELS / 255).astype(np.float32), jax.random.key(severity)
  draws, ours = jax.device_get(with_draws(name, 224)(key, image, severity))
  return draws, np.rint(ours * 255).astype(np.uint8)


def constants(name: str, severity: int):
  """Returns the constants of a corruption at a severity and 224 pixels."""
  return [values[severity - 1] for values in TABLES[224][name].values()]


@cases('severity', 1, 2, 5)
def test_vertical_lines_are_those_that_pillow_draws(severity):
  count, step = constants('vertical_lines', severity)
  picture = Image.new('RGB', (SIDE, SIDE))
  draw, luma = ImageDraw.Draw(picture), np.asarray(Image.fromarray(LEVELS).convert('L'))
  for line in range(count):
    x = line / count * SIDE
    columns = slice(int(x), min(int(x + SIDE / count), SIDE))
    before = (x, 0)
    for y in range(0, SIDE, step):
      block = LEVELS[y : y + step, columns].reshape(-1, 3)
      total, count_of = luma[y : y + step, columns].sum(dtype=int), max(len(block), 1)
      colour = tuple((block.sum(0, dtype=int) // count_of).tolist())
      bent = -40 * (1 - int(total) // count_of / 255) if len(block) else -40
      draw.line((*before, x + bent, y), fill=colour)
      before = (x + bent, y)
  np.testing.assert_array_equal(made('vertical_lines', severity)[1], np.asarray(picture))


@cases('severity', 1, 5)
def test_shapes_are_those_that_pillow_draws(severity):
  draws, ours = made('geometric_shapes', severity)
  picture = Image.fromarray(LEVELS.copy())
  draw = ImageDraw.Draw(picture)
  for number in range(*constants('geometric_shapes', severity)):
    (y, x), size = draws['place'][number].tolist(), int(draws['size'][number])
    fill, shape = tuple(draws['colour'][number].tolist()), SHAPES[int(draws['kind'][number])]
    if shape == 'triangle':
      draw.polygon([(x, y), (x + size, y), (x + size / 2, y + size)], fill)
    elif shape == 'star':
      angles = [math.radians(36 * k + int(draws['turn'][number])) for k in range(10)]
      radii = [size / 1.2, size / 2.4] * 5
      corners = [
        (x + r * math.sin(a), y + r * math.cos(a)) for r, a in zip(radii, angles, strict=True)
      ]
      draw.polygon(corners, fill)
    else:
      box = (x, y, x + size, y + size)
      (draw.rectangle if shape == 'square' else draw.ellipse)(box, fill)
  # Pillow rounds coordinates towards 0, so shapes beyond the upper and left edge may differ.
  inside = np.s_[laion_c.REACH :, laion_c.REACH :]
  assert (ours[inside] == np.asarray(picture)[inside]).all(-1).mean() > 0.998
  assert (ours == np.asarray(picture)).all(-1).mean() > 0.99


@cases('severity', 1, 5)
def test_stickers_cover_the_ones_before_them(severity):
  draws, ours = made('stickers', severity)
  (tiles,) = laion_c.load_tiles(None, (16,))
  expected = LEVELS.copy()
  for number in range(*constants('stickers', severity)):
    y, x = draws['corner'][number].tolist()
    expected[y : y + 16, x : x + 16] = tiles[int(draws['picture'][number]) % len(tiles)]
  np.testing.assert_array_equal(ours, expected)


@cases('severity', 1, 3, 5)
def test_cells_of_the_checkerboard_are_lighter_and_darker_in_turn(severity):
  drawn, ours = made('luminance_checkerboard', severity)
  low, high = constants('luminance_checkerboard', severity)
  change = low + np.asarray(drawn, float) * (high - low)
  change[(np.indices(change.shape).sum(0) % 2) == 1] *= -1
  pixels = np.kron(change, np.ones((14, 14)))[:SIDE, :SIDE, None]
  expected = np.clip(LEVELS + pixels, 0, 255).astype(np.uint8)
  assert np.abs(ours.astype(int) - expected).max() <= 1 and (ours == expected).mean() > 0.999


@cases('severity', 1, 3, 4)
def test_tiles_of_a_mosaic_have_the_nearest_mean_colour(severity):
  """Sides of tiles are 4, 8 and 16 pixels and divide the side of the image."""
  (side,) = constants('mosaic', severity)
  (tiles,) = laion_c.load_tiles(None, (side,))
  colours = np.asarray(Image.fromarray(LEVELS).resize((SIDE // side,) * 2), float)
  distance = np.square(colours[:, :, None] - tiles.mean((1, 2))).sum(-1)
  expected = np.block([[[tiles[k]] for k in row] for row in distance.argmin(-1)])
  np.testing.assert_array_equal(made('mosaic', severity)[1], expected)


def test_glitches_are_the_ones_of_glitch_this():
  """The values are of version 1.0.3 with seed 1 at level 2 and 224 pixels."""
  shift, moved = laion_c.draw_glitches(2, 224, 224)
  starts = np.flatnonzero(np.diff(shift, prepend=0))
  assert list(zip(starts.tolist(), shift[starts].tolist(), strict=True)) == BANDS
  assert moved.tolist() == MOVED_CHANNEL
  for severity in (1, 5):
    ours = made('glitched', severity)[1]
    shift, (channel, _, _) = laion_c.draw_glitches(*constants('glitched', severity), SIDE, SIDE)
    assert (ours[::2] == 0).all()
    shifted = [c for c in range(3) if c != channel]
    for row in range(1, SIDE, 2):
      np.testing.assert_array_equal(
        ours[row][:, shifted], np.roll(LEVELS[row], shift[row], 0)[:, shifted]
      )


@pytest.mark.slow
@pytest.mark.parametrize('name', SETS['laion_c'])
def test_grey_images_and_severities_between_two_are_supported(name):
  grey = LEVELS[None, :, :, :1] / np.float32(255)
  between = np.asarray(corrupt(0, grey, name, 2.5, side=224))
  assert between.shape == grey.shape and (between != grey).mean() > 0.05


def test_tiles_and_stickers_come_from_a_folder(tmp_path):
  for name, level in (('a/x.png', 30), ('b.jpg', 200)):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    Image.fromarray(np.full((300, 280, 3), level, np.uint8)).save(tmp_path / name)
  dark = np.full((28, 28, 3), 60 / 255, np.float32)
  tiled = corrupt(0, dark, 'mosaic', 1, side=224, photographs=tmp_path)
  np.testing.assert_allclose(tiled, 30 / 255, atol=1e-6)
  assert laion_c.describe(str(tmp_path))['count'] == 2
  for name in ('._b.jpg', '.cache/b.jpg', 'b.jpg'):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b'no picture')
    laion_c.load_tiles.cache_clear()
    assert name == 'b.jpg' or laion_c.describe(str(tmp_path))['count'] == 2
  refused(r'unreadable image .*b.jpg', laion_c.describe, str(tmp_path))
  refused('no folder with pictures for mosaic', laion_c.describe, str(tmp_path / 'none'))

  without_folder = {'names': ('mosaic',), 'options': {'mosaic': {'photographs': None}}, 'side': 224}
  procedural = corrupt(0, dark[None], 'mosaic', 1, side=224)
  np.testing.assert_array_equal(corrupt_each(0, dark[None], 0, 1, **without_folder), procedural)

  options = {'side': 224, 'photographs': [LEVELS]}
  mixed = {'names': ('mosaic',), 'options': {'mosaic': {'photographs': [LEVELS]}}, 'side': 224}
  refused('photographs of mosaic must be a folder', corrupt_each, 0, dark[None], 0, 1, **mixed)
  refused('photographs of stickers must be a folder', corrupt, 0, dark, 'stickers', 1, **options)
