"""Tests ImageNet-W's watermark: its place, opacity, text of a font file, and what is refused."""

import jax
import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from robustness.corruptions import corrupt
from robustness.corruptions.catalog import CORRUPTIONS, TABLES
from robustness.corruptions.views import CorruptionOptions
from robustness.corruptions.watermark import coverage
from tests.corruptions.pictures import natural
from tests.refusals import refused

FONT = f'{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf'
BLACK = np.zeros((224, 224, 3), np.float32)


@pytest.mark.parametrize('side, size', [(224, 36), (384, 62), (512, 82), (518, 84), (64, 10)])
def test_three_equal_pairs_of_characters_fill_the_line(side, size):
  page = coverage(side, side)
  rows, columns = np.flatnonzero(page.any(1)), np.flatnonzero(page.any(0))
  # The text begins at 1 % and 40 % of the side; the font ascends 1.151 sizes, its glyphs .88.
  y, x = 0.4 * side + np.ceil(1.151 * size) - 0.88 * size, 0.01 * side
  assert y <= rows[0] and rows[-1] <= y + size
  assert x <= columns[0] and columns[-1] <= x + 6 * size
  first, second, third = (page[:, int(x) + 2 * size * k :][:, 1 : 2 * size] for k in range(3))
  np.testing.assert_array_equal(first, second)
  np.testing.assert_array_equal(first, third)
  assert 0.10 < page.sum() / (6 * size**2) < 0.14, 'the share of the line that is ink'


def test_opacity_grows_with_severity_and_is_one_half_at_severity_3():
  largest = [np.asarray(corrupt(0, BLACK, 'watermark', s)).max() for s in range(1, 6)]
  np.testing.assert_allclose(largest, [0.1, 0.25, 0.5, 0.75, 1], rtol=1e-6)
  np.testing.assert_array_equal(corrupt(0, BLACK + 1, 'watermark', 4), BLACK + 1)
  grey = np.asarray(corrupt(0, BLACK[..., :1], 'watermark', 3))
  np.testing.assert_array_equal(grey, np.asarray(corrupt(0, BLACK, 'watermark', 3))[..., :1])


def test_a_watermark_under_vmap_and_jit_lightens_each_image_by_its_opacity():
  images, table = np.stack([natural(64, 80), natural(64, 80, seed=1)]), TABLES[64]['watermark']

  def marked(image, severity):
    return CORRUPTIONS['watermark'](jax.random.key(0), image, severity, table)

  mapped = jax.jit(jax.vmap(marked))(images, np.array([3, 5]))
  expected = [
    image + opacity * coverage(64, 80)[..., None] * (1 - image)
    for image, opacity in zip(images, (0.5, 1), strict=True)
  ]
  np.testing.assert_allclose(mapped, expected, atol=1e-6)


def test_text_in_the_font_of_a_file_is_drawn_as_by_pillow():
  image = natural(224, 224)
  page = Image.fromarray(np.rint(image * 255).astype(np.uint8)).convert('RGBA')
  text = Image.new('RGBA', page.size, (255, 255, 255, 0))
  placed = {'xy': (2.24, 89.6), 'fill': (255, 255, 255, 128)}
  ImageDraw.Draw(text).text(text='捷径' * 3, font=ImageFont.truetype(FONT, 36), **placed)
  theirs = np.asarray(Image.alpha_composite(page, text).convert('RGB')) / 255
  ours = np.asarray(corrupt(0, image, 'watermark', 3, font=FONT))
  assert np.abs(ours - image).max() > 0.2
  np.testing.assert_allclose(ours, theirs, atol=1.5 / 255)
  assert CorruptionOptions(watermark=FONT).non_default() == {'watermark': {'font': FONT}}


def test_small_images_and_other_files_are_refused():
  refused('too small for watermark: it needs 32', corrupt, 0, BLACK[:30], 'watermark', 1)
  refused('no font file', corrupt, 0, BLACK, 'watermark', 1, font=__file__)
