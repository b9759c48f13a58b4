"""Tests the TFDS data set `si_score_scenes`: numbers, factors, tables and pixels of its scenes."""

import csv
import dataclasses
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline.builders.si_score_scenes import (
  CHUNK,
  ScenesConfig,
  SiScoreScenes,
  encode,
  make_plan,
  pair_examples,
)
from input_pipeline.sources.scenes import read_background, read_cutout
from input_pipeline.sources.si_score import FACTORS, read_metadata
from robustness.models.imagenet_names import WNIDS
from robustness.scenes import designs
from tests import refusals
from tests.cases import cases
from tests.input_pipeline.domains import full_batch, read
from tests.refusals import bad_setting
from tests.scenes.composition_test import composed

SIDE = 32
DESIGN = designs.cross(
  'places', areas=(0.1, 0.3), angles=(0, 30), xs=(0, 0.5, 1), ys=(0.5,), side=SIDE, min_inside=0.6
)


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
  """Returns the folders of three cutouts of two classes, and of four backgrounds, by setting."""
  root = tmp_path_factory.mktemp('parts')
  generator = np.random.default_rng(0)
  for name, size in (('bagel/a', (20, 14)), ('koala/a', (9, 21)), ('koala/b', (30, 30))):
    pixels = generator.integers(0, 256, (*size, 4), np.uint8)
    diagonal = np.add.outer(np.arange(size[0]), np.arange(size[1]))
    pixels[..., 3] = np.where(diagonal > max(size) / 2, 255, 0)
    path = root / 'cutouts' / f'{name}.png'
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
  (root / 'grounds').mkdir()
  for number in range(4):
    pixels = generator.integers(0, 256, (SIDE + number, SIDE + 4, 3), np.uint8)
    Image.fromarray(pixels).save(root / 'grounds' / f'{number}.png')
  return {'foregrounds': str(root / 'cutouts'), 'backgrounds': str(root / 'grounds')}


def prepared(config, data_dir):
  """Returns the builder of a config after preparing it."""
  builder = SiScoreScenes(config=config, data_dir=data_dir)
  builder.download_and_prepare()
  return builder


@pytest.fixture(scope='module')
def built(folders, tmp_path_factory):
  config = ScenesConfig('places', design=DESIGN, **folders)
  return prepared(config, tmp_path_factory.mktemp('tfds'))


def examples(builder):
  """Returns the scenes in the order of their numbers."""
  scenes = tfds.as_numpy(builder.as_dataset(split='test'))
  return sorted(scenes, key=lambda example: int(example['image_id']))


@pytest.mark.slow
def test_scenes_are_numbered_in_the_order_of_the_generator_and_kept_where_visible(built, folders):
  scenes, pairs = examples(built), 6
  drawn = designs.draw_backgrounds(3, 4).ravel()
  numbers = set()
  for example in scenes:
    level, pair = divmod(int(example['image_id']), pairs)
    numbers.add(int(example['image_id']))
    assert (example['object'], example['background']) == (pair // 2, drawn[pair])
    for name in ('area', 'angle', 'x', 'y'):
      assert example[name] == np.float32(getattr(DESIGN, name)[level])
    assert WNIDS[example['label']] == ('n07693725' if pair < 2 else 'n01882714')
    assert example['fraction_inside'] >= np.float32(0.6)
  assert 0 < len(numbers) == len(scenes) < pairs * len(DESIGN)
  central = {number for number in range(pairs * len(DESIGN)) if DESIGN.x[number // pairs] == 0.5}
  assert numbers == central, 'at an edge 0.5 of an object is inside, less than 0.6'
  assert built.info.metadata['full_cross'] == pairs * len(DESIGN)


@pytest.mark.slow
def test_pixels_equal_those_of_the_composition(built, folders):
  objects = sorted(Path(folders['foregrounds']).rglob('*.png'))
  grounds = sorted(Path(folders['backgrounds']).iterdir())
  for example in examples(built)[::5]:
    foreground = read_cutout(objects[example['object']]).astype(np.float32) / 255
    ground = read_background(grounds[example['background']], SIDE).astype(np.float32) / 255
    factors = [float(example[name]) for name in ('area', 'angle', 'x', 'y')]
    expected, inside = composed(foreground, ground, *factors, rotate=factors[1] != 0)
    assert example['image'].shape == (SIDE, SIDE, 3)
    difference = np.abs(example['image'] - np.asarray(expected) * 255)
    assert difference.max() < 2.5, 'cutouts are rounded to 8 bits after resizing'
    assert (difference <= 1.01).mean() > 0.99, 'almost all pixels differ by one level at most'
    assert example['fraction_inside'] == pytest.approx(float(inside))


@pytest.mark.slow
def test_beam_writes_the_same_scenes(built, folders, tmp_path):
  pytest.importorskip('apache_beam', reason='the extra `beam` is optional')
  by_beam = prepared(ScenesConfig('places', design=DESIGN, beam=True, **folders), tmp_path)
  for scene, expected in zip(examples(by_beam), examples(built), strict=True):
    assert scene.keys() == expected.keys()
    for name, value in expected.items():
      np.testing.assert_array_equal(scene[name], value, err_msg=name)


@pytest.mark.slow
def test_tables_describe_the_scenes(built):
  table = read_metadata(built.data_path / 'metadata.csv')
  scenes = examples(built)
  assert table['image_id'].tolist() == [int(e['image_id']) for e in scenes]
  for factor, column in FACTORS.items():
    atol = 1e-4 if factor == 'fraction_inside' else 0  # written with four decimals
    np.testing.assert_allclose(table[column], [e[factor] for e in scenes], rtol=1e-6, atol=atol)
  objects = np.array([e['object'] for e in scenes])
  assert table['foreground_class'].tolist() == np.array([0, 1, 1])[objects].tolist()
  assert table['foreground_instance'].tolist() == np.array([0, 0, 1])[objects].tolist()
  classes = [*csv.reader(io.StringIO((built.data_path / 'foreground_classes.csv').read_text()))]
  assert classes == [['int', 'label'], ['931', 'bagel'], ['105', 'koala']]
  assert (built.data_path / 'backgrounds.csv').read_text().splitlines()[1] == '0,0.png'


@pytest.mark.slow
def test_scenes_are_loaded_by_name_and_read_as_rows(built):
  scenes = examples(built)
  data_dir = str(built.data_path.parents[2])
  settings = {'dataset': 'si_score_scenes/places', 'data_dir': data_dir}
  batch = full_batch(read('si_score', **settings))
  message = bad_setting('config.data.si_score.metadata', 'other.csv')
  refusals.refused(message, read, 'si_score', metadata='other.csv', **settings)
  order = np.argsort(batch['image_id'])
  for name in ('image_id', 'area', 'angle'):
    assert batch[name][order].tolist() == [e[name] for e in scenes]
  images = np.rint(batch['image'][order] * 255)
  np.testing.assert_array_equal(images, [e['image'] for e in scenes])
  assert tfds.builder_cls('si_score_scenes') is SiScoreScenes
  assert len(tfds.load('si_score_scenes/places', split='test', data_dir=data_dir)) == len(scenes)


def test_png_is_exact_and_jpeg_close(folders, tmp_path):
  smooth = np.add.outer(np.arange(64), np.arange(64))[..., None].repeat(3, -1).astype(np.uint8)
  smooth += np.random.default_rng(0).integers(0, 40, smooth.shape, np.uint8)
  error = {}
  for encoding in ('png', 'jpeg'):
    decoded = np.asarray(Image.open(io.BytesIO(encode(smooth, encoding)))).astype(int)
    error[encoding] = np.abs(decoded - smooth).mean()
  assert error['png'] == 0 < error['jpeg'] < 20  # levels; the noise has up to 40
  strict = dataclasses.replace(DESIGN, min_inside=0.99)
  builder = prepared(ScenesConfig('places', design=strict, encoding='jpeg', **folders), tmp_path)
  assert builder.info.features['image'].encoding_format == 'jpeg'
  assert {e['image'].shape for e in examples(builder)} == {(SIDE, SIDE, 3)}


def plan_of(design, folders, measure='rectangle'):
  return make_plan(design, folders, seed=0, measure=measure)


def test_an_object_is_larger_if_its_mask_measures_the_area(folders):
  design = designs.cross('one', areas=(0.1,), side=SIDE)
  plans = [plan_of(design, folders, measure) for measure in ('rectangle', 'mask')]
  examples = [example for plan in plans for _, example in pair_examples(plan, 'png', 0)]
  scenes = [np.asarray(Image.open(example['image'])).astype(int) for example in examples]
  ground = read_background(plans[0].backgrounds[plans[0].grounds[0]], SIDE).astype(int)
  covered = [(np.abs(image - ground).max(-1) > 1).mean() for image in scenes]
  by_rectangle, by_mask = covered
  assert by_rectangle < by_mask, 'a mask fills only a part of its rectangle'


def test_the_location_set_keeps_objects_that_are_half_inside(folders):
  design = dataclasses.replace(designs.published('location'), side=SIDE)
  plan = plan_of(design, folders)
  corners = (np.isin(design.x, (0, 1))) & np.isin(design.y, (0, 1))
  assert not plan.is_visible[:, corners].any()
  assert plan.is_visible[:, (design.x == 0.5) & (design.y == 0.5)].all()


def test_unusable_configs_are_refused_before_scenes_are_composed(folders, tmp_path):
  def refused(message, **changes):
    config = ScenesConfig(**{'name': 'places', 'design': DESIGN, **folders, **changes})
    refusals.refused(message, prepared, config, tmp_path)

  refused("did you mean 'location'", name='locations', design=None)
  refused(bad_setting('foregrounds'), foregrounds=str(tmp_path / 'none'))
  refused('background .*0.png is 36×32 pixels; the canvas has 512×512', name='size', design=None)
  outside = designs.cross('out', xs=(5.0,), side=SIDE)
  refused("no scene of design 'out' has 0.5 of its object inside; the most is 0", design=outside)
  refusals.refused(
    bad_setting('encoding', 'jpg', words="did you mean 'jpeg'"), ScenesConfig, encoding='jpg'
  )


@pytest.mark.slow
def test_a_scene_does_not_depend_on_its_chunk(folders):
  many = designs.cross('many', areas=np.linspace(0.1, 0.4, CHUNK + 3), side=SIDE, min_inside=0)
  few = designs.cross('few', areas=many.area[-1:], side=SIDE, min_inside=0)
  plans = [plan_of(design, folders) for design in (many, few)]
  in_second_chunk, alone = (
    [*pair_examples(plan, 'png', 2)][-1][1]['image'].getvalue() for plan in plans
  )
  assert in_second_chunk == alone


@cases(
  'changes, message',
  ({'seed': 1}, 'settings.seed: 0 → 1'),
  ({'encoding': 'jpeg'}, "settings.encoding: 'png' → 'jpeg'"),
  ({'design': dataclasses.replace(DESIGN, min_inside=0.5)}, 'settings.min_inside: 0.6 → 0.5'),
  ({'design': dataclasses.replace(DESIGN, x=DESIGN.x / 2)}, 'settings.levels_sha256'),
)
def test_another_config_under_the_same_name_is_refused(built, folders, changes, message):
  data_dir = Path(built.data_path).parents[2]
  config = ScenesConfig('places', **{'design': DESIGN, **folders, **changes})
  refusals.refused(message, prepared, config, data_dir)
  assert prepared(ScenesConfig('places', design=DESIGN, **folders), data_dir).is_prepared()


def test_other_backgrounds_under_the_same_name_are_refused(built, folders, tmp_path):
  other = tmp_path / 'grounds'
  shutil.copytree(folders['backgrounds'], other)
  data_dir = Path(built.data_path).parents[2]
  config = ScenesConfig('places', design=DESIGN, **{**folders, 'backgrounds': str(other)})
  assert prepared(config, data_dir).is_prepared()
  Image.new('RGB', (SIDE, SIDE)).save(other / '0.png')
  refusals.refused('inputs_sha256.backgrounds: (?!.*foregrounds)', prepared, config, data_dir)
