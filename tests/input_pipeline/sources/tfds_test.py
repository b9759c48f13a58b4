"""TFDS names: exact reading in memory and streamed, and what is refused."""

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
from input_pipeline.tfds_sets import Split
from robustness.core.errors import InputError
from robustness.core.sampler import Epochs
from robustness.corruptions.names import NAMES, StoredPart
from robustness.studies.corruption_error import CorruptionError
from robustness.training.evaluation import split_validation
from tests.cases import cases
from tests.input_pipeline.domains import levels, read, settings_of, store, whole, write_domain
from tests.refusals import bad_setting, refused


def open_tfds(folder, name='tiny_set', **settings):
  return read('tfds', dataset=name, data_dir=str(folder), **settings)


@pytest.fixture(params=['in memory', 'streamed'])
def storage(request, monkeypatch):
  if request.param == 'streamed':
    monkeypatch.setattr(tfds_source, 'MAX_EXAMPLES_IN_MEMORY', 0)
  return request.param


def test_every_example_comes_once_in_the_files_order_in_subsets_and_blocks_too(tiny_tfds, storage):
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
  rows = open_tfds(tiny_tfds, num_images=11)
  batches = list(rows.batches(4, [0, 2]))
  assert [b['block'] for b in batches] == [0, 2]
  assert batches[0]['example_id'].tolist() == rows.indices[:4].tolist()
  assert batches[1]['example_id'][:3].tolist() == rows.indices[8:].tolist()


@pytest.mark.slow
def test_training_epochs_resume_and_processes(tiny_tfds, storage):
  rows = open_tfds(tiny_tfds)
  run = [b['example_id'] for b in itertools.islice(rows.training_batches(8, seed=0), 15)]
  epochs = np.concatenate(run)[:120].reshape(4, 30)
  for epoch in epochs:
    assert sorted(epoch) == list(range(30))
  assert len({tuple(epoch) for epoch in epochs}) == 4
  for step in (3, 4, 9):
    resumed = itertools.islice(rows.training_batches(8, 0, start_step=step), 3)
    np.testing.assert_array_equal([b['example_id'] for b in resumed], run[step : step + 3])
  halves = [itertools.islice(rows.training_batches(8, 0, 2, (p, 2)), 3) for p in range(2)]
  parts = [np.stack([b['example_id'] for b in half]) for half in halves]
  np.testing.assert_array_equal(np.concatenate(parts, axis=1), run[2:5])
  other = next(rows.training_batches(8, seed=1))['example_id']
  assert (other != run[0]).any()


def test_streamed_rows_in_an_order_of_their_own_are_refused(tiny_tfds, monkeypatch):
  monkeypatch.setattr(tfds_source, 'MAX_EXAMPLES_IN_MEMORY', 0)
  monkeypatch.setattr(pipeline_rows, '_MAX_READ_FOR_LABELS', 29)
  rows = open_tfds(tiny_tfds)
  assert rows.at(np.array([3, 28])).without_images()['label'].tolist() == [1, 0]
  message = r"too large for memory.*training\.balanced=''.*config\.data\.source='folder'"
  refused(message, rows.without_images)
  refused(message, rows.training_batches, 8, 0, sampler=Epochs(30, 0))


def test_a_slice_of_a_split(tiny_tfds):
  rows = open_tfds(tiny_tfds, split='test[10:20]')
  batch = next(rows.batches(10))
  np.testing.assert_array_equal(np.rint(batch['image'][:, 0, 0, 0] * 255), np.arange(10, 20))
  assert batch['example_id'].tolist() == list(range(10))
  assert rows.description['split'] == 'test[10:20]'
  assert rows.description['name'] == 'tiny_set/1.0.0'


@cases('places, expected', ([18, 19, 20, 21], [23, 24, 0, 1]), ([3, 21], [8, 1]), ([20], [0]))
def test_places_of_a_sum_of_slices_are_read_from_where_they_are(tiny_tfds, places, expected):
  split = Split(tfds.builder('tiny_set', data_dir=tiny_tfds), 'test[5:25]+train')
  assert split.num_examples == 22
  read = [*split.elements(np.array(places)).as_numpy_iterator()]
  assert [element['example_id'] for element in read] == places
  decoded = [tfds.features.Image().decode_example(element['stored'])[0, 0, 0] for element in read]
  assert np.array(decoded).tolist() == expected


@pytest.mark.slow
def test_mixed_sizes_are_refused_naming_the_index(tiny_tfds, storage):
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
  ({'name': 'squad'}, "lacks the feature 'image' or 'label'; it has: "),
)
def test_bad_names_and_splits(tiny_tfds, settings, message):
  refused(message, open_tfds, tiny_tfds, **settings)


def test_a_download_that_fails_says_how_to_mend_it(tmp_path, monkeypatch):
  def offline(builder):
    raise ConnectionError('no route to host')

  monkeypatch.setattr(tfds.core.DatasetBuilder, 'download_and_prepare', offline)
  message = 'could not be downloaded .*no route to host.*data_dir=DIR'
  refused(message, open_tfds, tmp_path, 'cifar10')


def test_jpegs_have_the_pixels_that_pillow_decodes(tmp_path):
  picture = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
  examples = []
  for k, mode in enumerate(('RGB', 'L')):
    path = tmp_path / f'{k}.jpg'
    Image.fromarray(picture).resize((90, 64)).convert(mode).save(path, quality=80)
    examples.append({'image': str(path), 'label': 0})
  features = {'image': tfds.features.Image(), 'label': tfds.features.ClassLabel(names=['a'])}
  store(tmp_path, 'jpegs', features, {'test': examples})
  images = whole(open_tfds(tmp_path, 'jpegs'))['image']
  for k, image in enumerate(images):
    pillow = image_files.read_image(str(tmp_path / f'{k}.jpg'), 1 if k else 3)
    np.testing.assert_array_equal(np.rint(image * 255), np.broadcast_to(pillow, image.shape))


@pytest.mark.parametrize('storage', ['in memory', 'streamed'], indirect=True)
def test_damaged_files_are_named(tmp_path, storage):
  write_domain(tmp_path, 'torn', '', {'test': [('a', k) for k in range(20)]}, ['a'])
  (file,) = tmp_path.glob('torn/1.0.0/*tfrecord*')
  file.write_bytes(file.read_bytes()[:-30])
  with pytest.raises(InputError, match='torn') as raised:
    whole(open_tfds(tmp_path, 'torn'))
  assert len(str(raised.value).splitlines()) == 1


def test_a_home_folder_is_expanded(tiny_tfds, monkeypatch):
  monkeypatch.setenv('HOME', str(tiny_tfds.parent))
  builder = tfds_sets.find_builder('tiny_set', f'~/{tiny_tfds.name}')
  assert str(builder.data_path).startswith(f'{tiny_tfds}/')


def test_cifar10(cifar10_dir):
  rows = open_tfds(cifar10_dir, 'cifar10')
  batches = list(rows.batches(512))
  order = np.concatenate([b['example_id'][b['mask']] for b in batches])
  labels = np.concatenate([b['label'][b['mask']] for b in batches])
  assert order.tolist() == list(range(10_000))
  assert np.bincount(labels).tolist() == [1000] * 10
  assert rows.class_names[:3] == ('airplane', 'automobile', 'bird')
  means = np.mean([b['image'][b['mask']].mean(axis=(0, 1, 2)) for b in batches[:-1]], axis=0)
  np.testing.assert_allclose(means, [0.494, 0.485, 0.450], atol=0.004)  # the test set's known means


CONFIGS = {'snow_1': 10, 'frosted_glass_blur_1': 40, 'snow_2': 70}  # by name, their first level
N = 3


def write_config(folder, config, level, count=N, odd='1'):
  """Writes a config of `some_corrupted` as TFDS would: grey levels that grow by 10, labelled 0, 1,
  0, or `odd` in place of 1."""
  pictures = {'test': [('0' if k % 2 == 0 else odd, level + 10 * k) for k in range(count)]}
  write_domain(folder, 'some_corrupted', config, pictures, ('0', '1'))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp('tfds')
  for config, level in CONFIGS.items():
    write_config(path, config, level)
  return path


def open_corrupted(path, name='some_corrupted/*', **settings):
  return read('tfds_corrupted', pattern=name, data_dir=str(path), **settings)


@pytest.mark.slow
def test_parts_go_by_corruption_then_severity_in_subsets_and_blocks_too(folder):
  rows = open_corrupted(folder)
  batch = whole(rows)
  assert levels(batch['image']) == [40, 50, 60, 10, 20, 30, 70, 80, 90]
  glass, snow = NAMES.index('glass_blur'), NAMES.index('snow')
  assert batch['corruption'].tolist() == [glass] * 3 + [snow] * 6
  assert batch['severity'].tolist() == [1] * 6 + [2] * 3
  assert batch['base_id'].tolist() == [0, 1, 2] * 3
  assert batch['example_id'].tolist() == list(range(9))
  assert sorted(next(rows.training_batches(9, 0))['example_id']) == list(range(9))
  assert rows.description['stored'] is True and rows.description['base_images'] == N
  study = CorruptionError(source='stored', corruptions=('snow', 'glass_blur'), severities=(1,))
  study.check(rows, {})
  refused(
    'the set lacks fog', dataclasses.replace(study, corruptions=('snow', 'fog')).check, rows, {}
  )
  rows = open_corrupted(folder, num_images=2)
  every = whole(open_corrupted(folder))
  batches = list(rows.batches(4, [0, 1]))
  read = np.concatenate([b['image'][b['mask']] for b in batches])
  np.testing.assert_array_equal(read, every['image'][rows.indices])
  assert len(set(np.concatenate([b['base_id'][b['mask']] for b in batches]).tolist())) == 2
  assert whole(open_corrupted(folder, 'some_corrupted/snow_2'))['severity'].tolist() == [2] * 3


def test_names_of_configs():
  assert part_of_config('brightness_1') == StoredPart(NAMES.index('brightness'), 1)
  assert part_of_config('elastic_4') == StoredPart(NAMES.index('elastic_transform'), 4)
  assert part_of_config('brightness_6') is None and part_of_config('brightness') is None


def test_what_is_refused(folder, tmp_path):
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


def note(folder, config, **settings):
  """Notes in a prepared config what our own builder notes."""
  noted = {'settings': {'corruption': config[:-2], 'severity': int(config[-1]), **settings}}
  file = folder / 'some_corrupted' / config / '1.0.0' / 'metadata.json'
  file.write_text(json.dumps({**noted, 'inputs_sha256': {'base': 'f0', 'photographs': config}}))


def test_parts_of_other_images_or_settings_are_refused(tmp_path):
  write_config(tmp_path, 'snow_1', 0)
  write_config(tmp_path, 'snow_2', 0, odd='0')
  message = r'snow_1/1.0.0 and .*snow_2/1.0.0 are not made of .*\(label of example 1: 1 → 0\): give'
  refused(message, open_corrupted, tmp_path)
  write_config(tmp_path / 'own', 'snow_1', 0)
  write_config(tmp_path / 'own', 'fog_2', 0)
  note(tmp_path / 'own', 'snow_1', seed=0)
  note(tmp_path / 'own', 'fog_2', seed=0)
  assert open_corrupted(tmp_path / 'own').num_examples == 2 * N
  note(tmp_path / 'own', 'fog_2', seed=7)
  refused(r'\(seed: 0 → 7\)', open_corrupted, tmp_path / 'own')


@pytest.mark.slow
def test_labels_of_many_parts_are_known_without_reading_them(folder, monkeypatch):
  monkeypatch.setattr(pipeline_rows, '_MAX_READ_FOR_LABELS', 0)
  rows = open_corrupted(folder)
  assert rows.without_images()['label'].tolist() == [0, 1, 0] * 3 == whole(rows)['label'].tolist()
  base, (trained, held) = rows.without_images()['base_id'], split_validation(rows, 0.3)
  assert len(held) == 3 and not {*base[trained]} & {*base[held]}


@pytest.mark.parametrize('source', ['tfds_corrupted', 'tfds'])
def test_images_are_not_cropped_a_second_time(folder, source):
  key = {'tfds': 'dataset', 'tfds_corrupted': 'pattern'}[source]
  settings = settings_of(source, **{key: 'some_corrupted/snow_1', 'data_dir': str(folder)})
  rows = load(settings, preparation=Preparation('weights', 6, 8, 'bilinear'))
  assert (rows.description['resize'], rows.description['crop']) == (6, 6)
  assert rows.description['crop_margin'].startswith('none')
