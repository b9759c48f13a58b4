"""Tests the TFDS data set `corrupted`: its images are those of the study `corruption_error`."""

import shutil

import jax
import numpy as np
import pytest
import tensorflow_datasets as tfds

from input_pipeline.builders import corrupted, made_of
from input_pipeline.builders.corrupted import CorruptedConfig
from robustness.core import random_keys
from robustness.studies.corruption_error import CorruptionError
from tests.cases import cases
from tests.input_pipeline.builders.conftest import LABELS, SIDE, examples, pictures
from tests.input_pipeline.domains import full_batch, read
from tests.refusals import bad_setting, refused

COUNT = len(LABELS)
IMAGES = pictures().astype(np.float32) / np.float32(255)


def study_images(name, severity, seed=0, **settings):
  """Returns the images that `corruption_error` shows, float32 [COUNT, SIDE, SIDE, 3] in [0, 1]."""
  study = CorruptionError(corruptions=(name,), severities=(severity,), **settings)
  views = study.views((SIDE, SIDE, 3))
  key = random_keys.stream(seed, study.name)
  view = {k: v[1] for k, v in views.parameters.items()}

  def show(row):
    example_key = random_keys.for_example(key, row[0], views.ids[1])
    return views.show(example_key, {'image': row[1]}, view)

  show_one_by_one = jax.jit(lambda *rows: jax.lax.map(show, rows))
  return np.asarray(show_one_by_one(np.arange(COUNT), IMAGES))


def images_of(builder, split='test'):
  """Returns the stored images of a split, uint8 [N, H, W, 3]."""
  return np.stack([e['image'] for e in examples(builder, split)])


def corrupted_images(images, corruption, severity, **fields):
  """Returns images in [0, 1] as the builder corrupts them, uint8 [COUNT, SIDE, SIDE, 3]."""
  settings = {'corruption': corruption, 'severity': severity, 'constants': 32, **fields}
  config = CorruptedConfig(name='any', base='pictures', **settings)
  return corrupted.corruptor(config, (SIDE, SIDE, 3))(images, np.arange(COUNT))


@pytest.mark.slow
@pytest.mark.parametrize('quantize', ['floor', 'round'])
@pytest.mark.parametrize(('name', 'severity'), [('fog', 3), ('gaussian_noise', 5), ('frost', 2)])
def test_images_equal_those_of_the_study(name, severity, quantize):
  images = corrupted_images(IMAGES, name, severity, quantize=quantize, seed=4)
  expected = study_images(name, severity, 4, quantize=quantize, constants=32)
  np.testing.assert_array_equal(images.astype(np.float32) / np.float32(255), expected)
  assert images.dtype == np.uint8
  assert (images != pictures()).mean() > 0.3, 'the corruption changes the images'


@pytest.mark.slow
def test_examples_are_stored_in_the_order_of_the_base(build):
  builder = build()
  stored = examples(builder)
  assert [int(e['example_id']) for e in stored] == list(range(COUNT))
  assert [int(e['label']) for e in stored] == LABELS.tolist()
  images = np.stack([e['image'] for e in stored]).astype(np.float32) / np.float32(255)
  np.testing.assert_array_equal(images, study_images('fog', 3, quantize='floor'))
  assert builder.info.features['label'].names == ['a', 'b', 'c']
  assert set(builder.info.splits) == {'test'}


@pytest.mark.slow
def test_splits_and_slices_of_the_base_are_built(build):
  builder = build('brightness', 1, name='two', splits=('test[3:]', 'train'))
  counts = {split: info.num_examples for split, info in builder.info.splits.items()}
  assert counts == {'test': COUNT - 3, 'train': 2}
  clean = build('clean', 0, name='clean_too', splits=('test[3:]',))
  np.testing.assert_array_equal(images_of(clean), pictures()[3:])


@pytest.mark.slow
def test_metadata_state_all_settings_that_change_the_images(build, tmp_path):
  build('frost', 5, quantize='round', seed=3, name='mine', splits=('test[:2]',))
  metadata = tfds.builder('corrupted/mine', data_dir=str(tmp_path)).info.metadata
  expected = {'base': 'pictures/1.0.0', 'splits': ['test[:2]'], 'corruption': 'frost'}
  expected |= {'severity': 5, 'quantize': 'round', 'seed': 3, 'frost': 'procedural'}
  expected['constants'] = 32  # the constants for the size nearest to 16 pixels
  assert {name: metadata[name] for name in expected} == expected


def test_images_are_resized_and_cropped_as_the_input_pipeline_does(build, base_dir):
  builder = build('clean', 0, name='small', resize=12, crop=8)
  assert builder.info.features['image'].shape == (8, 8, 3)
  rows = read('tfds', dataset='pictures', data_dir=str(base_dir), resize=12, crop=8)
  np.testing.assert_array_equal(images_of(builder), np.rint(full_batch(rows)['image'] * 255))


def test_beam_writes_the_same_images(build):
  pytest.importorskip('apache_beam', reason='the extra `beam` is optional')
  plain, beam = build('snow', 4), build('snow', 4, name='by_beam', beam=True)
  np.testing.assert_array_equal(images_of(beam), images_of(plain))


@cases(
  'fields, message',
  ({'corruption': 'frogs'}, bad_setting('corruption', 'frogs', words="did you mean 'frost'")),
  ({'severity': 0}, bad_setting('severity', 0)),
  ({'severity': 3.0}, bad_setting('severity', 3.0)),
  ({'corruption': 'clean'}, bad_setting('severity', 1)),
  ({'quantize': 'ceil'}, bad_setting('quantize', 'ceil')),
  ({'constants': 48}, bad_setting('constants', 48)),
  ({'interpolation': 'bilinear'}, bad_setting('interpolation', 'bilinear')),
  ({'base': ''}, bad_setting('base', '')),
  ({'splits': ('test[:3]', 'test[5:]')}, bad_setting('splits', ('test[:3]', 'test[5:]'))),
  ({'splits': 'test[:32]'}, bad_setting('splits', 'test[:32]', words='a tuple')),
  ({'splits': {'test': 'test[:32]'}}, bad_setting('splits', {'test': 'test[:32]'}, 'a tuple')),
  ({'name': 'pictures_snow_2'}, bad_setting('name', 'pictures_snow_2')),
  ({'name': 'pictures_fog_1', 'seed': 1}, 'chooses seed needs a name of its own'),
  ({'seed': 1}, 'chooses seed needs a name of its own'),
  (
    {'base': 'imagenet2012', 'resize': 256, 'crop': 224},
    'chooses interpolation, resized_by needs a name',
  ),
)
def test_unusable_configs_are_refused(fields, message):
  settings = {'base': 'pictures', 'corruption': 'fog', 'severity': 1, **fields}
  refused(message, CorruptedConfig, **settings)


@cases(
  'name, message',
  ('pictures_fogg_3', "corruption is 'fogg'; did you mean 'fog'"),
  ('pictures_fog_6', r"<base>_<corruption>_<severity>, .* 'cifar10_fog_3'"),
  ('pictures', '<base>_<corruption>_<severity>'),
  ('fog', 'cifar10_fog_3'),
)
def test_names_of_another_form_are_refused(name, message, base_dir):
  refused(message, tfds.builder, f'corrupted/{name}', data_dir=str(base_dir))


def test_the_first_config_is_the_default(base_dir):
  first = tfds.builder('corrupted', data_dir=str(base_dir))
  assert first.builder_config.name == first.BUILDER_CONFIGS[0].name, 'as in TFDS'
  refused("'corrupted/cifar10_fog_3'", tfds.load, 'corrupted', split='test', data_dir=str(base_dir))


def test_images_that_are_too_small_for_a_corruption_are_refused(build):
  refused('too small for glass_blur', build, 'glass_blur', 1, name='tiny', resize=2)


@pytest.mark.slow
@cases(
  'fields, message',
  ({'severity': 5}, 'settings.severity: 3 → 5'),
  ({'splits': ('train',)}, r"settings.splits: \[\] → \['train'\]"),
)
def test_another_config_under_the_same_name_is_refused(build, fields, message):
  images = images_of(build(name='c10fog'))
  refused(message, build, **{'corruption': 'fog', 'severity': 3, **fields}, name='c10fog')
  np.testing.assert_array_equal(images_of(build(name='c10fog', beam=True)), images)


@cases('max_bytes, message', (made_of.WHOLE, 'inputs_sha256.base'), (0, ''))
def test_all_bytes_of_a_small_base_and_the_ends_of_a_large_one_are_compared(
  build, base_dir, tmp_path, monkeypatch, max_bytes, message
):
  monkeypatch.setattr(made_of, 'ENDS', 16)
  monkeypatch.setattr(made_of, 'WHOLE', max_bytes)
  copy = tmp_path / 'copy'
  shutil.copytree(base_dir / 'pictures', copy / 'pictures')
  build(name='mine', base_dir=str(copy))
  (file,) = copy.glob('pictures/*/*-test.tfrecord*')
  stored = bytearray(file.read_bytes())
  stored[len(stored) // 2] ^= 1  # one bit, far from both ends
  file.write_bytes(stored)
  if message:
    refused(message, build, name='mine', base_dir=str(copy))
  else:
    build(name='mine', base_dir=str(copy))
