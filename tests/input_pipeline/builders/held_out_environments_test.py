"""Tests the TFDS data set `held_out_environments`: its cells, splits and images."""

import collections
import pathlib

import jax
import numpy as np
import pytest
import tensorflow_datasets as tfds

from input_pipeline.builders.held_out_environments import HeldOutConfig, parse_name
from robustness.core import random_keys
from robustness.studies.systematic import Systematic
from tests.input_pipeline.builders.conftest import LABELS, SIDE, examples, pictures
from tests.refusals import refused

ENVIRONMENTS, SEVERITIES = ('rotation', 'contrast'), (2, 4)


def config(base_dir, **changes):
  """Returns a config with a as group 1 (rotated), c as group 2 (contrast) and b left over."""
  usual = {'environments': ENVIRONMENTS, 'severities': SEVERITIES, 'class_groups': (('a',), ('c',))}
  usual |= {'name': 'any', 'base': 'pictures', 'base_dir': str(base_dir), 'train_split': 'test'}
  return HeldOutConfig(**{**usual, **changes})


@pytest.fixture(scope='module')
def builder(base_dir, tmp_path_factory):
  """Returns the prepared builder of `config`."""
  folder = tmp_path_factory.mktemp('held_out')
  held_out = tfds.builder('held_out_environments', config=config(base_dir), data_dir=str(folder))
  held_out.download_and_prepare()
  return held_out


@pytest.mark.slow
def test_training_has_only_the_permitted_cells(builder):
  train = examples(builder, 'train')
  cells = collections.Counter((int(e['label']), int(e['environment'])) for e in train)
  class_sizes = np.bincount(LABELS)
  clean = {(label, 0): class_sizes[label] for label in range(3)}
  assert cells == {**clean, (0, 1): class_sizes[0], (2, 2): class_sizes[2]}
  assert all(e['seen'] for e in train)
  assert {int(e['level']) for e in train if e['environment'] == 2} <= set(SEVERITIES)
  assert {int(e['level']) for e in train if e['environment'] == 1} <= set(range(30, 360, 30))
  clean_images = {int(e['source_id']): e['image'] for e in train if e['environment'] == 0}
  np.testing.assert_array_equal(np.stack([clean_images[i] for i in range(11)]), pictures())


@pytest.mark.slow
def test_every_cell_of_environment_and_class_group_is_a_test_split(builder):
  names = {split for split in builder.info.splits if split.startswith('test')}
  assert names == {f'test_{e}_c{g}' for e in ('clean', 'rotation', 'contrast') for g in range(3)}
  for split in names:
    environment, group = split.removeprefix('test_').rsplit('_c', 1)
    for e in examples(builder, split):
      assert int(e['class_group']) == int(group) == {0: 1, 1: 0, 2: 2}[int(e['label'])]
      is_permitted = environment == 'clean' or split in ('test_rotation_c1', 'test_contrast_c2')
      assert bool(e['seen']) == is_permitted
  rotated = examples(builder, 'test_rotation_c0')
  turns = collections.Counter(int(e['level']) for e in rotated)
  assert turns == dict.fromkeys((90, 180, 270), np.bincount(LABELS)[1])


@pytest.mark.slow
def test_images_for_testing_equal_those_of_the_study(builder):
  study = Systematic(environments=ENVIRONMENTS, severities=SEVERITIES)
  views, key = study.views((SIDE, SIDE, 3)), random_keys.stream(0, study.name)
  images = pictures().astype(np.float32) / np.float32(255)
  show = jax.jit(views.show)
  splits = [f'test_{e}_c{g}' for e in ENVIRONMENTS for g in range(3)]
  stored = [e for split in splits for e in examples(builder, split)]
  assert len(stored) == 11 * (3 + 2), 'three angles and two severities of eleven images'
  for e in stored:
    place = views.parameters['environment'] == e['environment']
    view = int(np.flatnonzero(place & (views.parameters['level'] == e['level']))[0])
    example_key = random_keys.for_example(key, int(e['source_id']), views.ids[view])
    parameters = {name: values[view] for name, values in views.parameters.items()}
    image = show(example_key, {'image': images[int(e['source_id'])]}, parameters)
    np.testing.assert_array_equal(np.rint(np.asarray(image) * 255).astype(np.uint8), e['image'])


@pytest.mark.slow
def test_unusable_names_groups_and_splits_are_refused(base_dir, tmp_path, builder):
  rotation = parse_name('cifar10_rotation')
  assert rotation.environments == ('rotation',)
  groups = rotation.groups(tuple('abcdefghij')).describe()
  assert [len(groups[title]) for title in ('C1', 'left over')] == [5, 5]
  refused('<base>_corruptions', parse_name, 'cifar10_noise')
  refused('gaussian_noise', config, base_dir, environments=('noise',))
  refused("called 'x_rotation'", config, base_dir, name='x_rotation')
  refused(r'severities is 3; .* distinct numbers of 1\.\.5', config, base_dir, severities=3)
  refused("seed is '7'; it must be a whole number from 0", config, base_dir, seed='7')
  refused('classes_per_group is 2; it must be 0 where', config, base_dir, classes_per_group=2)
  for name, value in (('classes_per_group', -1), ('class_group_seed', '1')):
    refused(f'{name} is .*a whole number from 0', config, base_dir, **{name: value})
  other_split = tfds.builder(
    'held_out_environments', config=config(base_dir, train_split='nope'), data_dir=tmp_path / 'y'
  )
  refused("^train_split is 'nope'", other_split.download_and_prepare)
  one_group = tfds.builder(
    'held_out_environments', config=config(base_dir, class_groups=(('a',),)), data_dir=tmp_path
  )
  refused('1 class groups for 2 environments', one_group.download_and_prepare)
  one_image = tfds.builder(
    'held_out_environments', config=config(base_dir, test_split='test[:1]'), data_dir=tmp_path / 'x'
  )
  refused(r"split 'test\[:1\]' has no image of the classes of c", one_image.download_and_prepare)
  root = str(pathlib.Path(builder.data_path).parents[2])
  options = {'config': config(base_dir, class_groups=(('b',), ('c',))), 'data_dir': root}
  refused('class_group_seed|class_groups', tfds.builder, 'held_out_environments', **options)
