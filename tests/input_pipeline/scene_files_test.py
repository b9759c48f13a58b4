"""Cutouts and backgrounds on disk: found, read as they are meant, refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from input_pipeline.scene_files import find_backgrounds, find_cutouts, read_background, read_cutout
from robustness.core.errors import InputError


def save(path: Path, size: tuple[int, int] = (8, 6), mode: str = 'RGBA') -> Path:
  path.parent.mkdir(parents=True, exist_ok=True)
  image = Image.effect_noise(size, 60).convert(mode)
  if mode == 'RGBA':
    image.putalpha(Image.new('L', size, 255))
  image.save(path)
  return path


def test_cutouts_are_known_by_class_and_place(tmp_path: Path) -> None:
  for name in ('koala/b.png', 'koala/a.png', 'bagel/z.png', '.hidden/x.png', 'koala/notes.txt'):
    save(tmp_path / name) if name.endswith('.png') else (tmp_path / name).write_text('seen')
  cutouts = find_cutouts(str(tmp_path))
  assert [(c.path.name, c.class_name, c.label, c.class_index, c.instance) for c in cutouts] == [
    ('z.png', 'bagel', 931, 0, 0),
    ('a.png', 'koala', 105, 1, 0),
    ('b.png', 'koala', 105, 1, 1),
  ]


def test_colours_under_transparency_stay(tmp_path: Path) -> None:
  pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), np.uint8)
  Image.fromarray(pixels).save(tmp_path / 'one.png')
  np.testing.assert_array_equal(read_cutout(tmp_path / 'one.png'), pixels)


def test_a_palette_with_transparency_is_a_cutout(tmp_path: Path) -> None:
  image = Image.new('P', (4, 4), 1)
  image.putpixel((0, 0), 0)
  image.save(tmp_path / 'one.png', transparency=0)
  alpha = read_cutout(tmp_path / 'one.png')[..., 3]
  assert alpha[0, 0] == 0 and alpha.sum() == 15 * 255


def test_a_background_is_the_square_at_the_top_left(tmp_path: Path) -> None:
  wide, tall = (
    save(tmp_path / 'wide.png', (30, 20), 'RGB'),
    save(tmp_path / 'tall.png', (20, 30), 'L'),
  )
  with Image.open(wide) as image:
    np.testing.assert_array_equal(read_background(wide, 20), np.asarray(image)[:, :20])
  assert read_background(tall, 10).shape == (10, 10, 3)
  assert read_background(tall, 25).shape == (25, 25, 3), 'enlarged a little'


@pytest.mark.parametrize(
  ('make', 'message'),
  [
    (lambda p: save(p, mode='RGB'), r'one.png has no alpha channel \(RGB\); save the object'),
    (lambda p: Image.new('RGBA', (3, 3)).save(p), 'one.png is transparent everywhere'),
    (lambda p: p.write_bytes(b'no image'), 'unreadable image .*one.png'),
  ],
)
def test_what_is_no_cutout_is_named(tmp_path: Path, make, message: str) -> None:
  make(tmp_path / 'one.png')
  with pytest.raises(InputError, match=message):
    read_cutout(tmp_path / 'one.png')


def test_a_small_background_is_named(tmp_path: Path) -> None:
  path = save(tmp_path / 'small.png', (30, 20), 'RGB')
  with pytest.raises(InputError, match='small.png is 30×20 pixels; the canvas has 512×512'):
    read_background(path, 512)


def test_folders_that_cannot_be_meant_are_named(tmp_path: Path) -> None:
  with pytest.raises(InputError, match="config.data.foregrounds is '', which is not a folder"):
    find_cutouts('')
  with pytest.raises(InputError, match='holds no class folders'):
    find_cutouts(str(tmp_path))
  with pytest.raises(InputError, match='config.data.backgrounds is .* which holds no image'):
    find_backgrounds(str(tmp_path))
  save(tmp_path / 'bagle/one.png')
  with pytest.raises(InputError, match="folder 'bagle' .*did you mean 'bagel'"):
    find_cutouts(str(tmp_path))
  (tmp_path / 'bagle').rename(tmp_path / 'bagel')
  (tmp_path / 'lemon').mkdir()
  with pytest.raises(InputError, match='lemon holds no PNG or WebP file'):
    find_cutouts(str(tmp_path))
