"""Tests reading cutouts and backgrounds of scenes, and the objects that are drawn in code."""

import pathlib

import numpy as np
import pytest
from PIL import Image

from input_pipeline import DataSettings, load
from input_pipeline.builders.si_score_scenes import make_plan
from input_pipeline.sources import drawn_objects
from input_pipeline.sources.scenes import (
  find_backgrounds,
  find_cutouts,
  read_background,
  read_cutout,
)
from robustness.scenes.classes import IMAGENET_INDEX, imagenet_index
from robustness.scenes.designs import cross
from tests.cases import cases
from tests.input_pipeline.domains import full_batch, settings_of
from tests.refusals import bad_setting, refused


def save(path, size=(8, 6), mode='RGBA'):
  """Writes noise of a size (width, height), opaque if it has an alpha channel; returns the path."""
  path.parent.mkdir(parents=True, exist_ok=True)
  image = Image.effect_noise(size, 60).convert(mode)
  if mode == 'RGBA':
    image.putalpha(Image.new('L', size, 255))
  image.save(path)
  return path


def test_cutouts_are_sorted_by_class_and_name(tmp_path):
  for name in ('koala/b.png', 'koala/a.png', 'bagel/z.png', '.hidden/x.png', 'koala/notes.txt'):
    save(tmp_path / name) if name.endswith('.png') else (tmp_path / name).write_text('')
  cutouts = find_cutouts(str(tmp_path))
  # file, class, label of ImageNet, position of the class, position in the class
  assert [(c.path.name, c.class_name, c.label, c.class_index, c.instance) for c in cutouts] == [
    ('z.png', 'bagel', 931, 0, 0),
    ('a.png', 'koala', 105, 1, 0),
    ('b.png', 'koala', 105, 1, 1),
  ]


def test_colours_of_transparent_pixels_are_kept_and_palettes_may_be_transparent(tmp_path):
  pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), np.uint8)
  Image.fromarray(pixels).save(tmp_path / 'one.png')
  np.testing.assert_array_equal(read_cutout(tmp_path / 'one.png'), pixels)
  image = Image.new('P', (4, 4), 1)
  image.putpixel((0, 0), 0)  # the transparent one of 16 pixels
  image.save(tmp_path / 'one.png', transparency=0)
  alpha = read_cutout(tmp_path / 'one.png')[..., 3]
  assert alpha[0, 0] == 0 and alpha.sum() == 15 * 255


def test_the_mask_of_a_translucent_cutout_has_pixels(tmp_path):
  cutout, ground = save(tmp_path / 'objects/koala/a.png', (8, 6)), (20, 20)
  with Image.open(cutout) as image:
    image.putalpha(Image.new('L', image.size, 100))
    image.save(cutout)
  for name in ('a', 'b'):
    save(tmp_path / f'grounds/{name}.png', ground, 'RGB')
  folders = {'foregrounds': f'{tmp_path}/objects', 'backgrounds': f'{tmp_path}/grounds'}
  batch = full_batch(load(settings_of('scenes', **folders, canvas=20)))
  assert batch['foreground_pixels'].tolist() == [48, 48]


def test_a_background_is_the_largest_square_at_the_top_left(tmp_path):
  wide = save(tmp_path / 'wide.png', (30, 20), 'RGB')
  tall = save(tmp_path / 'tall.png', (20, 30), 'L')
  with Image.open(wide) as image:
    np.testing.assert_array_equal(read_background(wide, 20), np.asarray(image)[:, :20])
  assert read_background(tall, 10).shape == (10, 10, 3)
  assert read_background(tall, 25).shape == (25, 25, 3), 'enlarged a little'
  refused('wide.png is 30×20 pixels; the canvas has 512×512', read_background, wide, 512)
  Image.fromarray(np.full((20, 20), 128 * 257, np.uint16)).save(tall)
  assert (read_background(tall, 20) == 128).all(), '16 bits'


@cases(
  'make, message',
  (lambda path: save(path, mode='RGB'), r'one.png has no alpha channel \(RGB\); save the object'),
  (lambda path: Image.new('RGBA', (3, 3)).save(path), 'one.png is transparent everywhere'),
  (lambda path: path.write_bytes(b'no image'), 'unreadable image .*one.png'),
)
def test_images_that_are_no_cutouts_are_refused(tmp_path, make, message):
  make(tmp_path / 'one.png')
  refused(message, read_cutout, tmp_path / 'one.png')


def test_folders_without_cutouts_or_of_unknown_classes_are_refused(tmp_path):
  folder = str(tmp_path)
  refused(bad_setting('config.data.scenes.foregrounds', ''), find_cutouts, '')
  refused(bad_setting('config.data.scenes.foregrounds'), find_cutouts, folder)
  refused(bad_setting('config.data.scenes.backgrounds'), find_backgrounds, folder)
  save(tmp_path / 'bagle/one.png')
  refused("folder 'bagle' .*did you mean 'bagel'", find_cutouts, folder)
  (tmp_path / 'bagle').rename(tmp_path / 'bagel')
  (tmp_path / 'lemon').mkdir()
  refused('lemon holds no PNG or WebP file', find_cutouts, folder)


SIZES = {'koala/a.png': (20, 31), 'koala/b.png': (40, 12), 'bagel/a.png': (9, 9)}


def cutout(width, height):
  """Returns random colours, of which three columns at the left are transparent."""
  pixels = np.random.default_rng(width).integers(0, 256, (height, width, 4), np.uint8)
  pixels[..., 3] = 255 * (np.arange(width) > 2)
  return Image.fromarray(pixels)


@pytest.fixture
def folders(tmp_path):
  """Returns the folders of three cutouts and of four backgrounds, by setting."""
  for name, (width, height) in SIZES.items():
    path = tmp_path / 'objects' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    cutout(width, height).save(path)
  (tmp_path / 'grounds').mkdir()
  for index in range(4):
    Image.effect_noise((70 + index, 64), 50).save(tmp_path / f'grounds/{index}.png')
  return {'foregrounds': str(tmp_path / 'objects'), 'backgrounds': str(tmp_path / 'grounds')}


def settings(**changes):
  return settings_of('scenes', **{'canvas': 48, **changes})


def test_a_row_is_a_cutout_with_one_of_its_two_backgrounds(folders):
  rows = load(settings(**folders))
  batch = full_batch(rows)
  assert rows.num_examples == 6 and rows.image_shape == (48, 48, 3)
  assert batch['label'].tolist() == [931] * 2 + [105] * 4 == batch['imagenet_class'].tolist()
  assert batch['object'].tolist() == [0, 0, 1, 1, 2, 2]
  assert all(len(set(batch['background'][i : i + 2])) == 2 for i in (0, 2, 4))
  assert batch['foreground_size'].tolist() == [[9, 9]] * 2 + [[31, 20]] * 2 + [[12, 40]] * 2
  assert batch['foreground'].shape == (6, 40, 40, 4)
  files = [pathlib.Path(folders['foregrounds'], name) for name in sorted(SIZES)]
  for row in range(6):
    pixels = read_cutout(files[batch['object'][row]])
    height, width = pixels.shape[:2]
    np.testing.assert_array_equal(batch['foreground'][row, :height, :width], pixels)
    assert not batch['foreground'][row, height:].any()
    assert batch['foreground_pixels'][row] == (pixels[..., 3] == 255).sum()
    ground = pathlib.Path(folders['backgrounds'], f'{batch["background"][row]}.png')
    np.testing.assert_allclose(batch['image'][row] * 255, read_background(ground, 48), atol=1e-3)


def test_pairs_are_fixed_and_a_subset_keeps_them(folders):
  def pairs(**changes):
    batch = full_batch(load(settings(**folders, **changes)))
    return list(zip(batch['object'].tolist(), batch['background'].tolist(), strict=True))

  assert pairs() == pairs()
  assert set(pairs(num_images=3)) < set(pairs())


def test_unusable_cutouts_and_backgrounds_are_refused(folders):
  for changes, message in (
    ({'canvas': 200}, 'the canvas has 200×200'),
    ({'backgrounds': ''}, bad_setting('config.data.scenes.backgrounds', '')),
  ):
    refused(message, load, settings(**{**folders, **changes}))
  single = pathlib.Path(folders['foregrounds']) / '../single'
  save(single / 'ground.png', (64, 64), 'RGB')
  refused('number of backgrounds is 1', load, settings(**{**folders, 'backgrounds': str(single)}))
  path = pathlib.Path(folders['foregrounds'], 'koala/b.png')
  cutout(400, 20).save(path)
  too_long = 'koala/b.png is 400×20 .* 16 times'
  refused(too_long, load, settings(**folders))
  refused(too_long, make_plan, cross('mine', side=48), folders, 0, 'rectangle')
  Image.new('RGBA', (40, 12)).save(path)
  refused('koala/b.png.* is transparent everywhere', list, load(settings(**folders)).batches(6))
  save(path, mode='RGB')
  refused('koala/b.png has no alpha channel', load, settings(**folders))


def test_drawn_objects_are_tight_cutouts_of_classes_of_imagenet():
  assert {*drawn_objects.DRAWINGS} <= {*IMAGENET_INDEX}
  for name in drawn_objects.DRAWINGS:
    pixels = drawn_objects.draw(name)
    alpha = pixels[..., 3]
    assert set(np.unique(alpha)) == {0, 255}
    assert all(side.any() for side in (alpha[0], alpha[-1], alpha[:, 0], alpha[:, -1])), 'tight'
    assert max(alpha.shape) > 0.75 * drawn_objects.SIDE
    np.testing.assert_array_equal(pixels, drawn_objects.draw(name))


def test_drawn_scenes_need_no_file():
  rows = load(DataSettings(drawn_objects.DrawnScenes(32)))
  batch = full_batch(rows)
  assert rows.num_examples == 2 * len(drawn_objects.DRAWINGS)
  assert set(batch['label'].tolist()) == set(map(imagenet_index, drawn_objects.DRAWINGS))
  assert 'drawn in code' in rows.description['cutouts']
  assert batch['image'].std(axis=(1, 2)).min() > 0.005, 'no background is of one colour'
