"""Tests reading image files of all kinds as grey or RGB pixels, and listing those of a folder."""

import errno
import functools
import os
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from input_pipeline import image_files
from input_pipeline.image_files import folders_in, images_in, looks_like, read_header, read_image
from robustness.core.pictures import SUFFIXES
from tests.cases import cases
from tests.refusals import refused

WEBP = pytest.mark.skipif('.webp' not in SUFFIXES, reason='this Pillow reads no WebP')
LOSSLESS = ['.png', '.bmp', pytest.param('.webp', marks=WEBP)]


@pytest.fixture
def pixels():
  """Returns random colours, uint8 [6, 9, 3]."""
  return np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


@pytest.mark.parametrize('suffix', LOSSLESS)
def test_lossless_formats_are_read_exactly(tmp_path, pixels, suffix):
  path = tmp_path / f'a{suffix}'
  Image.fromarray(pixels).save(path, lossless=True)
  np.testing.assert_array_equal(read_image(str(path), 3), pixels)
  assert read_header(str(path)) == ((6, 9), False)


@pytest.mark.parametrize('suffix', ['.png', '.bmp'])
def test_grey_is_read_as_one_channel_or_repeated_to_three(tmp_path, pixels, suffix):
  path = str(tmp_path / f'a{suffix}')
  Image.fromarray(pixels[..., 0]).save(path)
  assert read_header(path)[1]
  np.testing.assert_array_equal(read_image(path, 1), pixels[..., :1])
  np.testing.assert_array_equal(read_image(path, 3), np.repeat(pixels[..., :1], 3, axis=-1))


def test_an_alpha_channel_is_dropped(tmp_path, pixels):
  alpha = np.full((6, 9, 1), 7, np.uint8)
  Image.fromarray(np.concatenate([pixels, alpha], axis=-1)).save(tmp_path / 'rgba.png')
  np.testing.assert_array_equal(read_image(str(tmp_path / 'rgba.png'), 3), pixels)
  grey = np.concatenate([pixels[..., :1], alpha], axis=-1)
  Image.frombytes('LA', (9, 6), grey.tobytes()).save(tmp_path / 'la.png')
  np.testing.assert_array_equal(read_image(str(tmp_path / 'la.png'), 1), pixels[..., :1])


@pytest.mark.parametrize('transparency', [None, bytes([0, 255])])
def test_a_palette_becomes_rgb(tmp_path, transparency):
  image = Image.frombytes('P', (2, 1), bytes([0, 1]))
  image.putpalette([10, 20, 30, 200, 100, 50])
  options: dict[str, Any] = {} if transparency is None else {'transparency': transparency}
  image.save(tmp_path / 'a.png', **options)
  assert not read_header(str(tmp_path / 'a.png'))[1]
  read = read_image(str(tmp_path / 'a.png'), 3)
  np.testing.assert_array_equal(read, [[[10, 20, 30], [200, 100, 50]]])


def test_jpegs_of_cmyk_are_read_as_rgb_and_grey_ones_as_grey(tmp_path):
  red = Image.new('CMYK', (16, 16), (0, 255, 255, 0))
  red.save(tmp_path / 'a.jpg', quality=95)
  rgb = read_image(str(tmp_path / 'a.jpg'), 3)
  assert rgb.shape == (16, 16, 3)
  np.testing.assert_allclose(rgb.mean(axis=(0, 1)), [255, 0, 0], atol=6)
  ramp = np.tile(np.linspace(0, 255, 32).astype(np.uint8), (32, 1))
  Image.fromarray(ramp).save(tmp_path / 'a.jpeg', quality=95)
  assert read_header(str(tmp_path / 'a.jpeg'))[1]
  assert np.abs(read_image(str(tmp_path / 'a.jpeg'), 1)[..., 0].astype(int) - ramp).max() <= 6


def test_tiff_and_ppm_are_read_and_floating_point_is_refused(tmp_path, pixels):
  for suffix in ('.tif', '.ppm'):
    Image.fromarray(pixels).save(tmp_path / f'a{suffix}')
    np.testing.assert_array_equal(read_image(str(tmp_path / f'a{suffix}'), 3), pixels)
  assert [file.suffix for file in images_in(tmp_path)] == ['.ppm', '.tif']
  Image.fromarray(pixels[..., 0].astype(np.float32)).save(tmp_path / 'b.tif')
  refused(r'b\.tif: it is of floating point', read_image, str(tmp_path / 'b.tif'), 3)


def test_truncated_files_other_files_and_unexpected_colour_are_refused(tmp_path, pixels):
  noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
  for suffix in ('.png', '.jpg', '.bmp'):
    path = tmp_path / f'torn{suffix}'
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused(f'unreadable image .*torn{suffix}', read_image, str(path), 3)
  for content in (b'', b'not an image', b'\x89PNG\r\n\x1a\n'):
    (tmp_path / 'a.png').write_bytes(content)
    refused(r'unreadable image .*a\.png', read_header, str(tmp_path / 'a.png'))
  Image.fromarray(pixels).save(tmp_path / 'a.png')
  refused(r'a\.png is in colour', read_image, str(tmp_path / 'a.png'), 1)


@pytest.mark.parametrize('level', [2**31 - 1, -1])
def test_integers_of_32_bits_are_refused_as_their_white_is_unknown(tmp_path, level):
  Image.fromarray(np.full((2, 2), level, np.int32)).save(tmp_path / 'a.tif')
  for channels in (1, 3):
    refused('signed 32-bit integers', read_image, str(tmp_path / 'a.tif'), channels)


@pytest.mark.parametrize('suffix', ['.tif', '.png', '.pgm'])
def test_grey_of_16_bits_is_scaled_to_8_bits_in_every_format(tmp_path, suffix):
  path = str(tmp_path / f'a{suffix}')
  Image.fromarray(np.array([[0, 257, 32896, 65535]], np.uint16)).save(path)
  assert read_header(path)[1]
  assert read_image(path, 1)[0, :, 0].tolist() == [0, 1, 128, 255]


def test_grey_tiffs_of_16_bits_may_store_white_as_zero(tmp_path):
  picture = Image.fromarray(np.array([[0, 257, 32896, 65535]], np.uint16))
  picture.save(tmp_path / 'a.tif', tiffinfo={262: 0})
  assert read_image(str(tmp_path / 'a.tif'), 1)[0, :, 0].tolist() == [255, 254, 127, 0]


def test_levels_are_scaled_by_the_number_of_bits_in_the_file(tmp_path):
  """A TIFF stores two levels of 12 bits in three bytes; Pillow reads them without scaling."""
  offset = 8 + 2 + 8 * 12 + 4  # header, number of tags, eight tags of 12 bytes, next directory
  strip = bytes([0xFF, 0xF0, 0x00, 0x80, 0x08, 0x00])  # 4095, 0, 2048, 2048
  # width, height, bits, no compression, black is 0, place, channels and bytes of the strip
  entries = [(256, 4), (257, 1), (258, 12), (259, 1), (262, 1), (273, offset), (277, 1), (279, 6)]
  tags = b''.join(struct.pack('<HHII', tag, 4, 1, value) for tag, value in entries)
  header = b'II' + struct.pack('<HIH', 42, 8, len(entries))
  (tmp_path / 'a.tif').write_bytes(header + tags + bytes(4) + strip)
  assert read_image(str(tmp_path / 'a.tif'), 1)[0, :, 0].tolist() == [255, 0, 128, 128]


@pytest.mark.parametrize('search', [folders_in, looks_like, images_in])
def test_a_folder_without_access_is_refused(tmp_path, monkeypatch, search):
  """The superuser, who may run tests, has access to all folders."""

  def no_access(path, *arguments, **options):
    raise PermissionError(errno.EACCES, 'Permission denied', str(path))

  (tmp_path / 'a.png').touch()
  monkeypatch.setattr(Path, 'iterdir' if search != images_in else 'is_file', no_access)
  refused(f'{tmp_path}.* cannot be read: Permission denied', search, tmp_path)


def test_files_of_a_folder_that_are_no_images_are_counted_by_reason(tmp_path, pixels):
  for name in ('a.JFIF', 'deep/b.gif', '@eaDir/a.JFIF', '.trash/c.png', '#recycle/d.png'):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(tmp_path / name, 'PNG')
  for name in ('notes.txt', 'list.TXT', '.DS_Store', 'README', 'a.\x1b[2J', f'a.{"x" * 99}'):
    (tmp_path / name).write_text('no image')
  os.mkfifo(tmp_path / 'pipe.png')
  (tmp_path / 'broken.png').symlink_to(tmp_path / 'gone.png')
  left_out = Counter()
  files = images_in(tmp_path, left_out=left_out)
  assert [file.name for file in files] == ['a.JFIF', 'b.gif']
  assert +left_out == {
    'files .txt': 2,
    'files without a suffix': 1,
    'files of other suffixes': 2,
    'hidden files': 1,
    'hidden folders': 1,
    'folders of file servers and systems': 2,
    'links that lead nowhere, pipes and devices': 2,
  }


@cases(
  'labels, columns, message',
  (np.array([0.0, 1.9]), {}, r'labels .* float64 .* expected integers \[2\]'),
  (np.arange(3), {}, r'labels .* shape \(3,\); expected integers \[2\]'),
  (np.arange(2), {'label': np.zeros(2, int)}, "a column 'label'.* rename it"),
  (np.arange(2), {'hour': np.arange(3)}, r"column 'hour' .* shape \(3,\)"),
  (np.arange(2), {'hour': [1, 2]}, "column 'hour' .* is list"),
)
def test_labels_and_columns_are_of_the_files(labels, columns, message):
  files = ('a.png', 'b.png')
  images = functools.partial(image_files.file_images, files, class_names=('a', 'b'), channels=3)
  refused(message, images, labels=labels, title='mine', description={}, columns=columns)
