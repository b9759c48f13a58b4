"""Tests rows with class groups, their balanced order, and the augmentation that permits cells."""

import collections
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.core.rows import ArrayRows
from robustness.environments.balance import balanced_sampler
from robustness.environments.class_groups import groups_by_name, with_groups
from tests.cases import cases
from tests.refusals import bad_setting, refused

NAMES = tuple('abcdef')
GROUPS = groups_by_name((('a', 'b'), ('c', 'd')), NAMES)
SETTINGS = {'transforms': ('rotation', 'contrast'), 'angles': (90, 180, 270)}


def rows(size=60, groups=GROUPS, **columns):
  """Returns random images [size, 8, 8, 3], labelled 0..5 in turn, with their class groups."""
  images = np.random.default_rng(0).random((size, 8, 8, 3), np.float32)
  return with_groups(ArrayRows(images, np.arange(size) % 6, NAMES, columns=columns), groups)


def test_every_row_has_the_class_group_of_its_label():
  batch = next(rows().batches(12))
  np.testing.assert_array_equal(batch['class_group'][:6], [1, 1, 2, 2, 0, 0])
  trained = next(rows().training_batches(12, seed=0))
  np.testing.assert_array_equal(trained['class_group'], GROUPS.of_label[trained['label']])
  selected = rows().at(np.array([2, 4]))
  np.testing.assert_array_equal(next(selected.batches(2))['class_group'], [2, 0])
  assert rows().description['class_groups']['left over'] == ['e', 'f']
  assert rows().num_examples == 60
  arrays = rows().in_memory(2**20)
  np.testing.assert_array_equal(arrays.columns['class_group'], GROUPS.of_label[arrays.labels])
  assert rows().in_memory(10) is None


def test_rows_of_several_labels_have_no_class_groups():
  multi_label = ArrayRows(np.zeros((2, 4, 4, 3), np.float32), np.array([[0, 1], [1, -1]]), NAMES)
  refused('one label', next, with_groups(multi_label, GROUPS).batches(2))


@functools.cache
def _compiled(policy):
  return jax.jit(lambda batch, step: policy(batch, 0, step))


def _steps(source, policy, begin, end):
  """Yields the batches of 20 of these training steps, before and after the augmentation."""
  apply = _compiled(policy)
  for step, batch in zip(range(begin, end), source.training_batches(20, 0, begin), strict=False):
    target = jax.nn.one_hot(batch['label'], len(NAMES))
    numbers = {name: jnp.asarray(value) for name, value in batch.items()}
    yield numbers, apply({**numbers, 'target': target}, jnp.int32(step))


@pytest.mark.slow
@pytest.mark.parametrize('share', [0.0, 0.5, 1.0])
def test_no_step_ever_sees_a_held_out_cell(share):
  """Counts cells of 30 steps, of which the second half is resumed, and compares the images."""
  policy = Policy.of(environment={**SETTINGS, 'share': share})
  permitted = {(label, 0) for label in range(6)} | {(0, 1), (1, 1), (2, 2), (3, 2)}
  cells, transformed = set(), 0
  for begin, end in ((0, 15), (15, 30)):
    for before, after in _steps(rows(), policy, begin, end):
      environment = np.asarray(after['environment'])
      changed = (np.asarray(after['image']) != np.asarray(before['image'])).any((1, 2, 3))
      np.testing.assert_array_equal(changed, environment > 0)
      cells |= set(zip(np.asarray(after['label']).tolist(), environment.tolist(), strict=True))
      transformed += int((environment > 0).sum())
  assert cells <= permitted
  # Four of six classes are in a group; four standard deviations of a binomial are allowed.
  expected = share * 30 * 20 * 4 / 6
  assert abs(transformed - expected) <= 4 * np.sqrt(expected * (1 - share))
  if share == 0.5:
    assert cells == permitted


def test_levels_are_drawn_uniformly():
  policy = Policy.of(environment={**SETTINGS, 'share': 1.0})
  counts = np.zeros(4)
  for before, after in _steps(rows(), policy, 0, 40):
    for image, turned, label in zip(before['image'], after['image'], before['label'], strict=True):
      if label < 2:  # the classes of the first group, which is rotated
        turns = [np.array_equal(np.rot90(image, k), turned) for k in range(4)]
        counts[turns.index(True)] += 1
  assert counts[0] == 0
  standard_error = np.sqrt(1 / 3 * 2 / 3 / counts.sum())
  np.testing.assert_allclose(counts[1:] / counts.sum(), 1 / 3, atol=4 * standard_error)


def test_a_group_without_a_transform_stays_clean():
  policy = Policy.of(environment={'transforms': ('contrast',), 'share': 1.0})
  _, after = next(_steps(rows(), policy, 0, 1))
  assert set(np.asarray(after['environment']).tolist()) == {0, 1}


def test_rows_without_class_groups_are_refused():
  refused('class_groups', next, _steps(rows().rows, Policy.of(environment=SETTINGS), 0, 1))


@cases(
  'key, value, refused_value',
  ('share', 1.5, 1.5),
  ('transforms', ('blur',), 'blur'),
  ('severities', (6,), (6,)),
  ('angles', (), ()),
)
def test_unusable_settings_are_refused(key, value, refused_value):
  expected = bad_setting(f'config.classifier.augment.environment.{key}', refused_value)
  refused(expected, Policy.of, environment={key: value})


UNEQUAL = groups_by_name((('a', 'b', 'c'), ('d',)), NAMES)
TRANSFORMS = ('rotation', 'contrast')
POLICY = Policy.of(environment={'transforms': TRANSFORMS, 'angles': (90,)})
BATCH = 12


def unequal(size: int = 48, **columns: np.ndarray) -> Any:
  """Returns rows with three classes in group 1, one in group 2 and two left over."""
  return rows(size, UNEQUAL, **columns)


def test_every_batch_shows_each_environment_equally_often_and_no_held_out_cell():
  """The three environments are equally frequent, and in each the classes that it may have.

  These are all 6 classes in the clean one, the 3 of group 1 and the single one of group 2.
  """
  order = balanced_sampler('environment', unequal(), TRANSFORMS, 3)
  apply = jax.jit(lambda batch, step: POLICY(batch, 3, step))
  cells: collections.Counter = collections.Counter()
  steps = 40
  batches = itertools.islice(unequal().training_batches(BATCH, 3, sampler=order), steps)
  for step, batch in enumerate(batches):
    augmented = apply({name: jnp.asarray(value) for name, value in batch.items()}, jnp.int32(step))
    environment = np.asarray(augmented['environment'])
    np.testing.assert_array_equal(np.bincount(environment, minlength=3), [4, 4, 4])
    changed = (np.asarray(augmented['image']) != batch['image']).any((1, 2, 3))
    np.testing.assert_array_equal(changed, environment > 0)
    cells.update(zip(batch['label'].tolist(), environment.tolist(), strict=True))
  assert set(cells) == {*((label, 0) for label in range(6)), (0, 1), (1, 1), (2, 1), (3, 2)}
  assert cells[3, 2] == steps * BATCH / 3
  np.testing.assert_allclose([cells[k, 1] for k in range(3)], steps * BATCH / 9, rtol=0.06)
  np.testing.assert_allclose([cells[k, 0] for k in range(6)], steps * BATCH / 18, rtol=0.1)


def test_training_that_is_resumed_or_shared_by_processes_sees_the_same_rows():
  def batches(begin, share=(0, 1)):
    order = balanced_sampler('environment', unequal(), TRANSFORMS, 3)
    endless = unequal().training_batches(BATCH, 3, begin, share, sampler=order)
    return list(itertools.islice(endless, 6))

  full = batches(0)
  for name in ('example_id', 'sampled_environment'):
    values = np.stack([batch[name] for batch in full])
    resumed = np.stack([batch[name] for batch in batches(2)])
    np.testing.assert_array_equal(resumed[:4], values[2:])
    halves = [np.stack([b[name] for b in batches(0, (process, 2))]) for process in range(2)]
    np.testing.assert_array_equal(np.concatenate(halves, 1), values)


def test_stored_environments_and_labels_are_balanced():
  stored = unequal(environment=np.array([0] * 40 + [1] * 6 + [2] * 2))
  order = balanced_sampler('environment', stored, (), 0)
  batch = next(stored.training_batches(BATCH, 0, sampler=order))
  np.testing.assert_array_equal(np.bincount(batch['environment']), [4, 4, 4])
  assert 'sampled_environment' not in batch
  batch = next(
    unequal().training_batches(BATCH, 0, sampler=balanced_sampler('label', unequal(), (), 0))
  )
  np.testing.assert_array_equal(np.bincount(batch['label']), [2] * 6)
  assert balanced_sampler('', unequal(), TRANSFORMS, 0) is None


@cases(
  'column, source, message',
  ('enviroment', unequal(), "'enviroment'.*class_group"),
  ('weight', unequal(weight=np.ones(48, np.float32)), "'weight'"),
  ('environment', unequal().rows, 'needs class groups'),
  ('environment', unequal(3), "'contrast' has no training images"),
)
def test_columns_that_cannot_be_balanced_are_refused(column, source, message):
  refused(message, balanced_sampler, column, source, TRANSFORMS, 0)
