"""Tests frost's photographs from a folder or a package, and the procedural pictures."""

import importlib.util

import numpy as np
import pytest
from PIL import Image

from robustness.corruptions import textures
from tests.corruptions.pictures import write_photographs
from tests.refusals import refused


def test_a_folder_gives_five_pictures_in_order_with_a_digest_of_their_pixels(tmp_path):
  assert textures.describe('') == {'source': 'procedural'}
  write_photographs(tmp_path)
  textures_read = textures.load_photographs(str(tmp_path))
  assert [p.shape for p in textures_read] == [(70 + i, 80, 3) for i in range(5)]
  assert all(p.dtype == np.uint8 for p in textures_read)
  colours = np.array([p[0, 0] for p in textures_read]).astype(int)
  # The last two photographs are JPEG files, which change colours slightly.
  assert np.abs(colours - [(50 * i, 20, 30) for i in range(5)]).max() <= 3
  first = textures.describe(str(tmp_path))
  assert (first['source'], first['from']) == ('photographs', tmp_path.name)
  Image.new('RGB', (9, 9)).save(tmp_path / 'frost3.png')
  assert textures.describe(str(tmp_path))['sha256'] != first['sha256']


def test_a_missing_or_broken_file_or_package_is_named(tmp_path, monkeypatch):
  write_photographs(tmp_path)
  file = tmp_path / 'frost2.png'
  noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
  Image.fromarray(noise).save(file)
  file.write_bytes(b'\0\1\2\3'.join(file.read_bytes().rsplit(b'IDAT', 1)))
  refused('unreadable image .*frost2.png', textures.load_photographs, str(tmp_path))
  (tmp_path / 'frost4.jpg').unlink()
  refused(
    'no frost4.jpg in .*Left empty, frost is procedural', textures.load_photographs, str(tmp_path)
  )
  refused('no frost1.png', textures.load_photographs, str(tmp_path / 'nowhere'))
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  refused("'imagecorruptions' is not installed.*pip install", textures.load_photographs)


def test_the_packages_photographs_are_the_released_ones():
  if importlib.util.find_spec(textures.PACKAGE) is None:
    pytest.skip(f'needs the package {textures.PACKAGE}')
  textures_read = textures.load_photographs()
  sizes = [(600, 900), (315, 560), (315, 560), (350, 527), (495, 660)]
  assert [p.shape[:2] for p in textures_read] == sizes
  np.testing.assert_array_equal(textures_read[1], textures_read[2])
  np.testing.assert_allclose(textures_read[0].mean((0, 1)), textures.COLOURS[0], atol=1)


def test_procedural_pictures_resemble_the_photographs():
  textures_read = textures.procedural_textures()
  assert textures_read is textures.procedural_textures()
  assert len(textures_read) == 5
  np.testing.assert_array_equal(textures_read[1], textures_read[2])
  looks = zip(textures_read, textures.COLOURS, textures.CONTRASTS, strict=True)
  for picture, colour, contrast in looks:
    assert picture.shape == (*textures.SIDES, 3) and picture.dtype == np.uint8
    assert np.abs(picture.mean((0, 1)) - colour).max() < 12
    assert abs(picture.std((0, 1)).mean() - contrast) < 6
    energy = np.abs(np.fft.fft2(picture[..., 1] - picture[..., 1].mean())) ** 2
    fy, fx = (np.fft.fftfreq(side) for side in textures.SIDES)
    frequency = np.hypot(fy[:, None], fx)
    assert energy[frequency < 0.1].sum() > 0.4 * energy.sum()
