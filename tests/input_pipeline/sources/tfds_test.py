"""Tests reading TFDS data sets by name, in memory and streamed, and stored corruptions in them."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline import Preparation, image_files, load, tfds_sets
from input_pipeline import rows as pipeline_rows
from input_pipeline.corruption_parts import part_of_config
from input_pipeline.sources import tfds as tfds_source
from input_pipeline.sources.tfds import Tfds
from input_pipeline.tfds_sets import Split
from robustness.core.rows import columns_in_memory
from robustness.core.sampler import Epochs
from robustness.corruptions.names import NAMES, StoredPart
from robustness.studies.corruption_error import CorruptionError
from robustness.training.evaluation import split_validation
from tests.cases import cases
from tests.input_pipeline.domains import full_batch, levels, read, settings_of, store, write_domain
from tests.refusals import bad_setting, refused


def open_tfds(folder, name='tiny_set', **settings):
  return read('tfds', dataset=name, data_dir=str(folder), **settings)


@pytest.fixture(params=['in memory', 'streamed'])
def storage(request, monkeypatch):
  """Has the examples kept in memory or streamed from the files."""
  if request.param == 'streamed':
    monkeypatch.setattr(tfds_source, 'MAX_EXAMPLES_IN_MEMORY', 0)
  return request.param


def test_examples_come_once_in_the_order_of_the_files(tiny_tfds, storage):
  rows = open_tfds(tiny_tfds)
  assert rows.image_shape == (5, 7, 3) and rows.class_names == ('no', 'yes')
  batches = list(rows.batches(8))
  order = np.concatenate([b['example_id'][b['mask']] for b in batches])
  assert order.tolist() == list(range(30))
  for batch in batches:
    ids = batch['example_id'][batch['mask']]
    expected = ids.astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(batch['image'][batch['mask'], 0, 0, 0], expected)
    np.testing.assert_array_equal(batch['label'][batch['mask']], ids % 2)


def test_blocks_of_a_subset_are_read(tiny_tfds, storage):
  rows = open_tfds(tiny_tfds, num_images=11)
  batches = list(rows.batches(4, [0, 2]))
  assert [b['block'] for b in batches] == [0, 2]
  assert batches[0]['example_id'].tolist() == rows.indices[:4].tolist()
  assert batches[1]['example_id'][:3].tolist() == rows.indices[8:].tolist()


@pytest.mark.slow
def test_training_epochs_are_permutations_that_resume_and_are_shared_by_processes(
  tiny_tfds, storage
):
  rows = open_tfds(tiny_tfds)
  step_ids = [b['example_id'] for b in itertools.islice(rows.training_batches(8, seed=0), 15)]
  epochs = np.concatenate(step_ids).reshape(4, 30)
  for epoch in epochs:
    assert sorted(epoch) == list(range(30))
  assert len({tuple(epoch) for epoch in epochs}) == 4
  for step in (3, 4, 9):
    resumed = itertools.islice(rows.training_batches(8, 0, start_step=step), 3)
    np.testing.assert_array_equal([b['example_id'] for b in resumed], step_ids[step : step + 3])
  halves = [itertools.islice(rows.training_batches(8, 0, 2, (p, 2)), 3) for p in range(2)]
  half_ids = [np.stack([b['example_id'] for b in half]) for half in halves]
  np.testing.assert_array_equal(np.concatenate(half_ids, axis=1), step_ids[2:5])
  other_seed_ids = next(rows.training_batches(8, seed=1))['example_id']
  assert (other_seed_ids != step_ids[0]).any()


def test_rows_that_are_streamed_refuse_an_order_and_the_labels_of_too_many(tiny_tfds, monkeypatch):
  monkeypatch.setattr(tfds_source, 'MAX_EXAMPLES_IN_MEMORY', 0)
  monkeypatch.setattr(pipeline_rows, '_MAX_READ_FOR_LABELS', 29)  # of the 30 examples
  rows = open_tfds(tiny_tfds)
  assert rows.at(np.array([3, 28])).without_images()['label'].tolist() == [1, 0]
  message = r"too large for memory.*training\.balanced=''.*config\.data\.source='folder'"
  refused(message, rows.without_images)
  assert columns_in_memory(rows.at(np.array([3, 28]))) == {}
  refused(message, rows.training_batches, 8, 0, sampler=Epochs(30, 0))


def test_a_slice_of_a_split_is_read(tiny_tfds):
  rows = open_tfds(tiny_tfds, split='test[10:20]')
  batch = next(rows.batches(10))
  np.testing.assert_array_equal(np.rint(batch['image'][:, 0, 0, 0] * 255), np.arange(10, 20))
  assert batch['example_id'].tolist() == list(range(10))
  assert rows.description['split'] == 'test[10:20]'
  assert rows.description['name'] == 'tiny_set/1.0.0'


@cases(
  'positions, expected_levels', ([18, 19, 20, 21], [23, 24, 0, 1]), ([3, 21], [8, 1]), ([20], [0])
)
def test_examples_of_a_sum_of_slices_are_read_by_position(tiny_tfds, positions, expected_levels):
  split = Split(tfds.builder('tiny_set', data_dir=tiny_tfds), 'test[5:25]+test[9:7]+train')
  assert split.num_examples == 20 + 2
  elements = [*split.elements(np.array(positions)).as_numpy_iterator()]
  assert [element['example_id'] for element in elements] == positions
  image_levels = [
    tfds.features.Image().decode_example(element['stored'])[0, 0, 0] for element in elements
  ]
  assert np.array(image_levels).tolist() == expected_levels


@cases(
  'split, other_split, is_shared',
  ('train', 'test', False),
  ('test[:20]', 'test[20:]', False),
  ('train+test[:20]', 'test[19:]', True),
  ('test', 'test[90%:]', True),
)
def test_splits_share_images_if_their_slices_overlap(tiny_tfds, split, other_split, is_shared):
  source = Tfds('tiny_set', str(tiny_tfds))
  assert source.shares_images(split, source, other_split) == is_shared
  assert not source.shares_images(split, Tfds('uneven_set', str(tiny_tfds)), other_split)


@pytest.mark.slow
def test_examples_of_other_sizes_or_without_labels_are_refused_by_index(tiny_tfds, storage):
  rows = open_tfds(tiny_tfds, 'uneven_set')
  refused(r"split 'test', example 2 comes out as 6x9 .*crop=224", list, rows.batches(3))
  refused('example 2 comes out as 6x9', list, itertools.islice(rows.training_batches(2, seed=0), 3))
  assert next(open_tfds(tiny_tfds, 'uneven_set', resize=6, crop=5).batches(3))['mask'].all()
  message = 'example 0 has label -1: the split carries no labels'
  refused(message, list, open_tfds(tiny_tfds, 'unlabelled_set').batches(3))


@cases(
  'settings, message',
  ({'name': ''}, "config.data.tfds.dataset is ''"),
  (
    {'name': 'cifar1O'},
    bad_setting('config.data.tfds.dataset', 'cifar1O', words="did you mean 'cifar10'"),
  ),
  ({'name': 'zzzzqqq'}, bad_setting('config.data.tfds.dataset', 'zzzzqqq')),
  ({'name': 'cifar10:9.9.9'}, bad_setting('config.data.tfds.dataset', 'cifar10:9.9.9')),
  ({'split': 'tset'}, "split is 'tset'.* did you mean 'test'.* valid: 'test', 'train'"),
  ({'split': 'test[:abc]'}, r"config.data.split is 'test\[:abc\]'"),
  ({'split': 'test[:0]'}, r"split 'test\[:0\]' .* is empty; its splits: test \(30\)"),
  ({'split': 'test[3:2]'}, r"split 'test\[3:2\]' .* is empty"),
  ({'split': 'test[:9]+train+test[8:]'}, r"which reads images of 'tiny_set.*' twice"),
  ({'split': 'test[31:]'}, r'\[31:30\] incompatible with 30 examples'),
  ({'name': 'squad'}, "lacks the feature 'image' or 'label'; it has: "),
)
def test_unusable_names_and_splits_are_refused(tiny_tfds, settings, message):
  refused(message, open_tfds, tiny_tfds, **settings)


def test_an_error_of_a_download_says_where_to_put_the_data(tmp_path, monkeypatch):
  def offline(builder):
    raise ConnectionError('no route to host')

  monkeypatch.setattr(tfds.core.DatasetBuilder, 'download_and_prepare', offline)
  message = 'could not be downloaded .*no route to host.*data_dir=DIR'
  refused(message, open_tfds, tmp_path, 'cifar10')


def test_jpegs_have_the_pixels_that_pillow_decodes(tmp_path):
  picture = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
  examples = []
  for k, mode in enumerate(('RGB', 'L')):  # example 0 in colour, example 1 in grey
    path = tmp_path / f'{k}.jpg'
    Image.fromarray(picture).resize((90, 64)).convert(mode).save(path, quality=80)
    examples.append({'image': str(path), 'label': 0})
  features = {'image': tfds.features.Image(), 'label': tfds.features.ClassLabel(names=['a'])}
  store(tmp_path, 'jpegs', features, {'test': examples})
  images = full_batch(open_tfds(tmp_path, 'jpegs'))['image']
  for k, image in enumerate(images):
    pillow = image_files.read_image(str(tmp_path / f'{k}.jpg'), 1 if k else 3)
    np.testing.assert_array_equal(np.rint(image * 255), np.broadcast_to(pillow, image.shape))


def test_damaged_files_are_named_in_one_line(tmp_path, storage):
  write_domain(tmp_path, 'torn', '', {'test': [('a', k) for k in range(20)]}, ['a'])
  (file,) = tmp_path.glob('torn/1.0.0/*tfrecord*')
  file.write_bytes(file.read_bytes()[:-30])  # within the last example
  assert '\n' not in refused('torn', lambda: full_batch(open_tfds(tmp_path, 'torn')))


def test_a_home_folder_is_expanded(tiny_tfds, monkeypatch):
  monkeypatch.setenv('HOME', str(tiny_tfds.parent))
  builder = tfds_sets.find_builder('tiny_set', f'~/{tiny_tfds.name}')
  assert str(builder.data_path).startswith(f'{tiny_tfds}/')


def test_cifar10_has_1000_test_images_a_class_with_their_usual_mean(cifar10_dir):
  rows = open_tfds(cifar10_dir, 'cifar10')
  batches = list(rows.batches(512))
  ids = np.concatenate([b['example_id'][b['mask']] for b in batches])
  labels = np.concatenate([b['label'][b['mask']] for b in batches])
  assert ids.tolist() == list(range(10_000))
  assert np.bincount(labels).tolist() == [1000] * 10
  assert rows.class_names[:3] == ('airplane', 'automobile', 'bird')
  means = np.mean([b['image'][b['mask']].mean(axis=(0, 1, 2)) for b in batches[:-1]], axis=0)
  # The means of red, green and blue over CIFAR-10's test set; the last batch is left out.
  np.testing.assert_allclose(means, [0.494, 0.485, 0.450], atol=0.004)


FIRST_LEVELS = {'snow_1': 10, 'frosted_glass_blur_1': 40, 'snow_2': 70}
"""{config of `some_corrupted`: grey level of its first image}; see `write_config`."""
IMAGES_PER_CONFIG = 3


def write_config(folder, config, level, count=IMAGES_PER_CONFIG, odd='1'):
  """Writes grey images of the levels `level`, `level` + 10, ... as a config of `some_corrupted`.

  Their classes alternate between '0' and `odd`.
  """
  pictures = {'test': [('0' if k % 2 == 0 else odd, level + 10 * k) for k in range(count)]}
  write_domain(folder, 'some_corrupted', config, pictures, ('0', '1'))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Returns a TFDS folder with the configs of `FIRST_LEVELS`."""
  path = tmp_path_factory.mktemp('tfds')
  for config, level in FIRST_LEVELS.items():
    write_config(path, config, level)
  return path


def open_corrupted(path, name='some_corrupted/*', **settings):
  return read('tfds_corrupted', pattern=name, data_dir=str(path), **settings)


@pytest.mark.slow
def test_configs_are_ordered_by_corruption_then_severity(folder):
  rows = open_corrupted(folder)
  batch = full_batch(rows)
  assert levels(batch['image']) == [40, 50, 60, 10, 20, 30, 70, 80, 90]
  glass, snow = NAMES.index('glass_blur'), NAMES.index('snow')
  assert batch['corruption'].tolist() == [glass] * 3 + [snow] * 6
  assert batch['severity'].tolist() == [1] * 6 + [2] * 3
  assert batch['base_id'].tolist() == [0, 1, 2] * 3
  assert batch['example_id'].tolist() == list(range(9))
  assert sorted(next(rows.training_batches(9, 0))['example_id']) == list(range(9))
  assert rows.description['stored'] is True and rows.description['base_images'] == IMAGES_PER_CONFIG
  assert full_batch(open_corrupted(folder, 'some_corrupted/snow_2'))['severity'].tolist() == [2] * 3


@pytest.mark.slow
def test_a_study_refuses_configs_that_lack_one_of_its_corruptions(folder):
  rows = open_corrupted(folder)
  study = CorruptionError(source='stored', corruptions=('snow', 'glass_blur'), severities=(1,))
  study.check(rows, {})
  lacking = dataclasses.replace(study, corruptions=('snow', 'fog'))
  refused('the set lacks fog', lacking.check, rows, {})


@pytest.mark.slow
def test_a_subset_takes_the_same_base_images_of_every_config(folder):
  rows = open_corrupted(folder, num_images=2)
  batches = list(rows.batches(4, [0, 1]))
  images = np.concatenate([b['image'][b['mask']] for b in batches])
  all_images = full_batch(open_corrupted(folder))['image']
  np.testing.assert_array_equal(images, all_images[rows.indices])
  assert len(set(np.concatenate([b['base_id'][b['mask']] for b in batches]).tolist())) == 2


def test_corruption_and_severity_are_read_from_the_name_of_a_config():
  assert part_of_config('brightness_1') == StoredPart(NAMES.index('brightness'), 1)
  assert part_of_config('elastic_4') == StoredPart(NAMES.index('elastic_transform'), 4)
  assert part_of_config('brightness_6') is None and part_of_config('brightness') is None


def test_configs_that_are_missing_ambiguous_or_no_corruptions_are_refused(folder, tmp_path):
  message = r"fog_\*', which no prepared config .*valid:"
  refused(message, open_corrupted, folder, 'some_corrupted/fog_*')
  refused(
    bad_setting('config.data.tfds_corrupted.pattern'),
    open_corrupted,
    tmp_path,
    'cifar10_corrupted/*',
  )
  write_config(tmp_path, 'snow_1', 0)
  write_config(tmp_path, 'snow_2', 0, count=2)
  refused('snow_1/1.0.0 and .*snow_2/1.0.0 differ .*3 and 2', open_corrupted, tmp_path)
  for name in ('glass_blur_1', 'frosted_glass_blur_1'):
    write_config(tmp_path, name, 0)
  twice = 'frosted_glass_blur_1/1.0.0 and .*/glass_blur_1/1.0.0 both hold .*: give a narrower'
  refused(twice, open_corrupted, tmp_path, 'some_corrupted/*glass_blur_1')
  write_config(tmp_path, 'snowy', 0)
  refused('snowy/1.0.0. says of no corruption', open_corrupted, tmp_path, 'some_corrupted/snowy')


def write_metadata(folder, config, **settings):
  """Writes the metadata that the builder `corrupted` writes to a prepared config."""
  metadata = {'settings': {'corruption': config[:-2], 'severity': int(config[-1]), **settings}}
  file = folder / 'some_corrupted' / config / '1.0.0' / 'metadata.json'
  file.write_text(json.dumps({**metadata, 'inputs_sha256': {'base': 'f0', 'photographs': config}}))


def test_configs_of_other_images_or_settings_are_refused(tmp_path):
  write_config(tmp_path, 'snow_1', 0)
  write_config(tmp_path, 'snow_2', 0, odd='0')
  message = r'snow_1/1.0.0 and .*snow_2/1.0.0 are not made of .*\(label of example 1: 1 → 0\): give'
  refused(message, open_corrupted, tmp_path)
  write_config(tmp_path / 'built', 'snow_1', 0)
  write_config(tmp_path / 'built', 'fog_2', 0)
  write_metadata(tmp_path / 'built', 'snow_1', seed=0)
  write_metadata(tmp_path / 'built', 'fog_2', seed=0)
  assert open_corrupted(tmp_path / 'built').num_examples == 2 * IMAGES_PER_CONFIG
  write_metadata(tmp_path / 'built', 'fog_2', seed=7)
  refused(r'\(seed: 0 → 7\)', open_corrupted, tmp_path / 'built')


@pytest.mark.slow
def test_labels_and_base_images_of_configs_need_no_reading_of_images(folder, monkeypatch):
  monkeypatch.setattr(pipeline_rows, '_MAX_READ_FOR_LABELS', 0)
  rows = open_corrupted(folder)
  assert (
    rows.without_images()['label'].tolist() == [0, 1, 0] * 3 == full_batch(rows)['label'].tolist()
  )
  base, (training, validation) = rows.without_images()['base_id'], split_validation(rows, 0.3)
  assert len(validation) == 3, 'one of the three base images, in each config'
  assert not {*base[training]} & {*base[validation]}


@pytest.mark.parametrize('source', ['tfds_corrupted', 'tfds'])
def test_stored_corruptions_are_resized_without_a_second_crop(folder, source):
  key = {'tfds': 'dataset', 'tfds_corrupted': 'pattern'}[source]
  settings = settings_of(source, **{key: 'some_corrupted/snow_1', 'data_dir': str(folder)})
  rows = load(settings, preparation=Preparation('weights', 6, 8, 'bilinear'))
  assert (rows.description['resize'], rows.description['crop']) == (6, 6)
  assert rows.description['crop_margin'].startswith('none')
