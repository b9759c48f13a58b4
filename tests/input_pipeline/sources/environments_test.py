"""Tests reading images in environments, from folders, JSON files, lists and TFDS data sets."""

import itertools
import json
import logging
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.image_classification.domainnet import domainnet

from input_pipeline import load, tfds_sets
from input_pipeline.sources import environments
from tests.cases import cases
from tests.input_pipeline.domains import (
  full_batch,
  levels,
  read,
  save_grey,
  settings_of,
  write_domain,
)
from tests.refusals import bad_setting, refused

STYLES, CLASSES = ('cartoon', 'photo', 'sketch'), ('cat', 'dog', 'pig')
PER_CELL = 4


@pytest.fixture(autouse=True)
def forget_logged_choices():
  """Lets the choice of the clean environment be logged again, which happens once a process."""
  environments._log_choice.cache_clear()


@pytest.fixture(scope='module')
def styles(tmp_path_factory):
  """Returns a folder of grey images STYLE/CLASS/k.png of the level 60 · style + 10 · class + k."""
  root = tmp_path_factory.mktemp('styles')
  for s, style in enumerate(STYLES):
    for c, name in enumerate(CLASSES):
      for k in range(PER_CELL):
        save_grey(root / style / name / f'{k}.png', 60 * s + 10 * c + k)
  return root


def settings(path, **changes):
  """Returns settings with photo as the clean environment, cat as group 1 and dog as group 2."""
  usual = {'clean_environment': 'photo', 'class_groups': (('cat',), ('dog',))}
  return settings_of('environments', path, **{**usual, **changes})


def cells(data):
  """Returns (environment, class) of every row by its pixels; its columns must say the same."""
  batch = full_batch(load(data))
  pixel_cells = [(STYLES[v // 60], CLASSES[v % 60 // 10]) for v in levels(batch['image'])]
  environments = ('photo', *(style for style in STYLES if style != 'photo'))
  columns = zip(batch['environment'], batch['label'], strict=True)
  assert pixel_cells == [(environments[e], CLASSES[label]) for e, label in columns]
  return pixel_cells


def test_testing_has_all_cells_training_the_permitted_ones_and_they_share_no_image(styles):
  tested = cells(settings(styles))
  assert set(tested) == {(style, name) for style in STYLES for name in CLASSES}
  assert len(tested) == 9, 'one of the four images of each of the nine cells'
  trained = cells(settings(styles, split='train'))
  permitted = {('photo', name) for name in CLASSES} | {('cartoon', 'cat'), ('sketch', 'dog')}
  assert set(trained) == permitted and len(trained) == 3 * len(permitted), 'the other three'
  assert set(cells(settings(styles, split='clean'))) == {('photo', name) for name in CLASSES}
  split_images = (
    full_batch(load(settings(styles, split=split)))['image'] for split in ('clean', 'test')
  )
  assert not set.intersection(*(set(levels(images)) for images in split_images))


def test_json_files_list_the_same_rows_as_folders_and_may_state_splits(styles, tmp_path):
  document = {
    style: {name: [str(p) for p in sorted((styles / style / name).iterdir())] for name in CLASSES}
    for style in STYLES
  }
  listed = tmp_path / 'styles.json'
  listed.write_text(json.dumps(document))
  assert cells(settings(listed, split='train')) == cells(settings(styles, split='train'))
  train, test = (
    {style: {name: files[part] for name, files in c.items()} for style, c in document.items()}
    for part in (slice(2), slice(2, None))
  )
  listed.write_text(json.dumps({'train': train, 'test': test}))
  assert len(cells(settings(listed))) == 18, 'two images of each of the nine cells'


@pytest.fixture
def listed_files(styles, tmp_path):
  """Returns {split: files of the split} after writing `styles` and its lists to `tmp_path`.

  Lists are called <style>_<split>.txt, as DomainNet releases them; the number of the class is 7.
  """
  shutil.copytree(styles, tmp_path, dirs_exist_ok=True)
  listed = {'train': set(), 'test': set()}
  for style in STYLES:
    files = sorted(str(file.relative_to(styles)) for file in (styles / style).rglob('*.*'))
    for split, members in (('train', files[::2]), ('test', files[1::2])):
      (tmp_path / f'{style}_{split}.txt').write_text(''.join(f'{file} 7\n' for file in members))
      listed[split] |= {str(tmp_path / file) for file in members}
  return listed


def test_lists_as_domainnet_releases_them_define_the_splits(listed_files, tmp_path):
  (tmp_path / '._sketch_test.txt').write_bytes(b'written by macOS')
  for split, expected in listed_files.items():
    cells = settings(tmp_path).source.read()[split].values()
    assert {file for classes in cells for files in classes.values() for file in files} == expected


@pytest.mark.usefixtures('listed_files')
def test_lists_that_are_incomplete_or_name_other_files_are_refused(tmp_path):
  style = 'sketch'
  (tmp_path / 'infograph').mkdir()
  refused('has no infograph_train.txt and info', settings(tmp_path).source.read)
  (tmp_path / 'infograph').rmdir()
  path = tmp_path / f'{style}_test.txt'
  for line, message in (
    ('one.png 7', r"_test\.txt, line 1 is 'one.png 7'; it must be"),
    ('photo/dog/0.png 7', r"line 1 is 'photo/dog/0.png 7'; it must be"),
    (f'{style}/dog/none.png 7', 'names 1 files that do not exist: .*of one release'),
    (f'{style}/dog/none.png 3', 'earlier lines number this class 7'),
    ('', 'lists no images'),
  ):
    path.write_text(line)
    refused(message, settings(tmp_path).source.read)
  path.unlink()
  refused(f'{style}_test.txt is missing', settings(tmp_path).source.read)
  shutil.rmtree(tmp_path / style)
  path.write_text('')
  refused(f'no folder of {style}: unpack {style}.zip', settings(tmp_path).source.read)


def test_unusable_folders_json_files_and_settings_are_refused(styles, tmp_path):
  clean = 'config.data.environments.clean_environment'
  refused(bad_setting(clean, 'foto'), load, settings(styles, clean_environment='foto'))
  refused('config.data.environments.path', load, settings(tmp_path / 'none'))
  (tmp_path / 'empty.json').write_text('{"train": {}, "test": {}}')
  refused(bad_setting('config.data.environments.path'), load, settings(tmp_path / 'empty.json'))
  refused('holds no images', load, settings(tmp_path))
  (tmp_path / 'foregrounds/koala').mkdir(parents=True)
  shutil.copy(next(styles.rglob('*.png')), tmp_path / 'foregrounds/koala')
  refused(bad_setting(clean, 'real'), load, settings(tmp_path, clean_environment='real'))
  for split in ('train', 'test'):
    shutil.copytree(tmp_path / 'foregrounds', tmp_path / 'split' / 'photo' / split)
  refused("folders of splits, 'train' and 'test'", load, settings(tmp_path / 'split'))
  refused('folders of splits', load, settings(tmp_path / 'split' / 'photo'))
  refused("names 'cow'", load, settings(styles, class_groups=(('cow',),)))
  refused(
    bad_setting('config.data.split', 'validation'), load, settings(styles, split='validation')
  )
  listed = tmp_path / 'styles.json'
  for text, message in (
    ('{', 'no JSON'),
    ('{"photo": {}}', bad_setting('config.data.environments.path')),
    ('{"photo": ["a.png"]}', 'photo is a list; expected an object. It must hold'),
    ('{"photo": {"cat": "a.png"}}', "photo.cat is 'a.png'; expected a list"),
    ('{"photo": {"cat": ["a.png"]}}', 'do not exist: .*a.png'),
  ):
    listed.write_text(text)
    refused(message, load, settings(listed))


def test_an_empty_cell_is_refused_unless_it_is_allowed(styles, tmp_path):
  listed = tmp_path / 'styles.json'
  document = {
    style: {name: [str(styles / style / name / f'{k}.png') for k in range(4)] for name in classes}
    for style, classes in (('photo', ('cat', 'dog')), ('sketch', ('cat',)))
  }
  listed.write_text(json.dumps(document))
  incomplete = settings(listed, class_groups=(('cat',),))
  refused('1 of 4 cells have no images: sketch/dog', load, incomplete)
  assert load(settings(listed, class_groups=(('cat',),), allow_missing=True)).num_examples == 3


def test_a_file_that_is_listed_twice_is_refused(styles, tmp_path):
  (tmp_path / 'link.png').symlink_to(styles / 'photo/cat/0.png')
  first, second = (str(styles / 'photo' / 'cat' / f'{k}.png') for k in range(2))
  first_by_another_path = str(styles / 'photo' / '..' / 'photo' / 'cat' / '0.png')
  listed = tmp_path / 'styles.json'
  for document, places in (
    ({'photo': {'cat': [first]}, 'sketch': {'cat': [second, first]}}, 'photo/cat and sketch/cat'),
    ({'photo': {'cat': [first], 'dog': [first_by_another_path]}}, 'photo/cat and photo/dog'),
    ({'photo': {'cat': [first, 'link.png']}}, 'photo/cat and photo/cat'),
    (
      {'train': {'photo': {'cat': [second, first]}}, 'test': {'photo': {'cat': [first]}}},
      'train/photo/cat and test/photo/cat',
    ),
  ):
    listed.write_text(json.dumps(document))
    refused(f'has {first} in {places}: an image', load, settings(listed))


def test_a_file_of_a_folder_that_a_link_repeats_is_refused(styles, tmp_path):
  """Otherwise it could be trained on in one environment and tested in another."""
  folder = shutil.copytree(styles, tmp_path / 'styles')
  (folder / 'sketch/dog/link.png').symlink_to(folder / 'photo/dog/0.png')
  refused('0.png in photo/dog and sketch/dog: an image is of one', load, settings(folder))


def test_which_environment_is_clean_is_logged_once(styles, caplog):
  for split in ('test', 'train'):
    with caplog.at_level(logging.INFO):
      rows = load(settings(styles, clean_environment='', split=split))
    assert rows.description['environments'][0] == 'cartoon'
  messages = [
    r.getMessage()
    for r in caplog.records
    if 'config.data.environments.clean_environment' in r.getMessage()
  ]
  assert messages == [
    "clean images, of the environment that all classes are trained in, are those of 'cartoon': "
    "config.data.environments.clean_environment chooses another of 'cartoon', 'photo', 'sketch'"
  ]


DOMAINNET_CLASSES = ('airplane', 'ant', 'zebra')  # three of the 345


def pictures(base):
  """Returns {split: [(class, grey level)]} with six images a class to train and three to test.

  The levels are base + 20 · class + k, with k = 0..5 in training and k = 10..12 in testing.
  """
  return {
    split: [(name, base + 20 * c + k) for k in ks for c, name in enumerate(DOMAINNET_CLASSES)]
    for split, ks in (('train', range(6)), ('test', range(10, 13)))
  }


@pytest.fixture(scope='module')
def domains(tmp_path_factory):
  """Returns a TFDS folder with the configs `real`, `painting` and `sketch` of DomainNet.

  Two images of `real` are stored twice in its training split, and one of them also in the test
  split of `sketch`. The test split of `painting` has no zebra.
  """
  path = tmp_path_factory.mktemp('domains')
  labels = domainnet._CLASS_NAMES
  real, painting, sketch = pictures(0), pictures(60), pictures(120)
  real['train'] += real['train'][:2]
  sketch['test'] = [*sketch['test'], real['train'][0]]
  painting['test'] = [(name, level) for name, level in painting['test'] if name != 'zebra']
  for config, splits in (('real', real), ('painting', painting), ('sketch', sketch)):
    write_domain(path, 'domainnet', config, splits, labels)
  return path


def open_rows(folder, path='tfds:domainnet/real,painting,sketch', **changes):
  """Returns rows of DomainNet with real as clean, airplane as group 1 and ant as group 2."""
  settings = {
    'clean_environment': 'real',
    'class_groups': (('airplane',), ('ant',)),
    'allow_missing': True,
  }
  return read('environments', path, data_dir=str(folder), **{**settings, **changes})


@pytest.mark.slow
def test_testing_has_every_image_of_tfds_once_and_none_of_training(domains):
  rows = open_rows(domains)
  batch = full_batch(rows)
  stored = [*pictures(0)['test'], *pictures(60)['test'], *pictures(120)['test']]
  expected = [(name, n) for name, n in stored if not (name == 'zebra' and 60 <= n < 120)]
  assert levels(batch['image']) == [level for _, level in expected]
  assert [rows.class_names[k] for k in batch['label']] == [name for name, _ in expected]
  assert batch['environment'].tolist() == [0] * 9 + [1] * 6 + [2] * 9
  assert batch['example_id'].tolist() == list(range(24))
  description = rows.description
  assert description['duplicates_left_out'] == [0, 0, 1]
  assert description['images_by_environment'] == [9, 6, 9]
  missing = description['missing_cells']
  assert 'painting/zebra' in missing and 'sketch/zebra' not in missing
  assert len(missing) == 3 * 342 + 1, '345 - 3 classes of each config, and painting/zebra'
  assert description['data_sets'][1] == 'domainnet/painting/1.0.0'
  subset = open_rows(domains, num_images=7)
  images = np.concatenate([b['image'][b['mask']] for b in subset.batches(3)])
  np.testing.assert_array_equal(levels(images), np.array(levels(batch['image']))[subset.indices])


@pytest.mark.slow
def test_training_batches_of_tfds_mix_the_permitted_cells_and_resume(domains, monkeypatch):
  monkeypatch.setattr(tfds_sets, 'SHUFFLE_BUFFER', 4)
  rows = open_rows(domains, split='train')
  batch = full_batch(rows)
  permitted = {
    *(level for _, level in pictures(0)['train']),
    *(level for name, level in pictures(60)['train'] if name == 'airplane'),
    *(level for name, level in pictures(120)['train'] if name == 'ant'),
  }
  assert sorted(levels(batch['image'])) == sorted(permitted)
  assert rows.num_examples == 30, '18 of real, 6 airplanes of painting, 6 ants of sketch'
  assert rows.description['duplicates_left_out'] == [2, 0, 0]
  steps = list(itertools.islice(rows.training_batches(10, seed=0), 9))
  ids = np.concatenate([step['example_id'] for step in steps]).reshape(3, 30)
  for epoch in ids:
    assert sorted(epoch) == list(range(30))
  assert len({tuple(epoch) for epoch in ids}) == 3
  for step in steps:
    expected = np.array(levels(batch['image']))[step['example_id']]
    np.testing.assert_array_equal(step['image'][:, 0, 0, 0], expected)
  assert all(len(set(step['environment'].tolist())) > 1 for step in steps)
  resumed = itertools.islice(rows.training_batches(10, seed=0, start_step=4), 2)
  np.testing.assert_array_equal([step['example_id'] for step in resumed], ids.reshape(9, 10)[4:6])
  assert set(open_rows(domains, split='clean').description['images_by_environment'][1:]) == {0}


@cases(
  'changes, message',
  # Of 3 · 345 cells only those of `DOMAINNET_CLASSES` have images, without painting/zebra: 8.
  ({'allow_missing': False}, r'1027 of 1035 cells have no images: real/aircraft_carrier'),
  (
    {'path': 'tfds:domainnet/real,scetch'},
    bad_setting('config.data.environments.path', words="did you mean 'sketch'"),
  ),
  ({'path': 'tfds:domainnet/real'}, 'two different configs'),
  ({'path': 'tfds:mnist'}, "'mnist' has: none"),
  ({'path': 'tfds:domain_net'}, bad_setting('config.data.environments.path', 'domain_net')),
  ({'class_groups': (('zebra',),)}, "no class of group 1 has images of 'painting'"),
)
def test_unusable_configs_and_groups_of_tfds_are_refused(domains, changes, message):
  refused(message, open_rows, domains, **changes)


def test_configs_of_different_classes_are_refused(tmp_path):
  for config, labels in (('a', ['cat', 'dog']), ('b', ['cat', 'cow'])):
    pictures = {'train': [('cat', 1)], 'test': [('cat', 2)]}
    write_domain(tmp_path, 'made_domains', config, pictures, labels)
  message = 'have different classes'
  refused(message, open_rows, tmp_path, 'tfds:made_domains', clean_environment='a')


def test_configs_that_are_not_prepared_are_downloaded_and_named_on_failure(domains, monkeypatch):
  def offline(builder):
    raise ConnectionError(builder.info.full_name)

  monkeypatch.setattr(tfds.core.DatasetBuilder, 'download_and_prepare', offline)
  message = r'domainnet/clipart/1\.0\.0.*could not be downloaded'
  refused(message, open_rows, domains, 'tfds:domainnet')


def test_files_that_are_not_read_from_folders_are_counted(tmp_path, save_image):
  for cell, number in itertools.product(('a/x', 'a/y', 'b/x', 'b/y'), (1, 2)):
    save_image(tmp_path / cell / f'{number}.gif')
  for other in ('b/@eaDir/x/1.png', 'a/1.png'):
    save_image(tmp_path / other)
  (tmp_path / 'a/x/list.txt').touch()
  rows = read('environments', tmp_path)
  assert rows.num_examples == 4 and rows.description['left_out'] == {
    'files .txt': 1,
    'folders of file servers and systems': 1,
    'pictures outside class folders': 1,
  }
