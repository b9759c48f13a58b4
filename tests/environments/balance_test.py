"""Rows with class groups, in which order, and what the selective augmentation makes of them."""

import collections
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.environments.balance import balanced
from robustness.environments.class_groups import by_name, with_groups
from tests.cases import cases
from tests.refusals import bad_setting, refused

NAMES = tuple('abcdef')
GROUPS = by_name((('a', 'b'), ('c', 'd')), NAMES)
SETTINGS = {'transforms': ('rotation', 'contrast'), 'angles': (90, 180, 270)}


def rows(size=60, groups=GROUPS, **columns):
  images = np.random.default_rng(0).random((size, 8, 8, 3), np.float32)
  return with_groups(ArrayRows(images, np.arange(size) % 6, NAMES, columns=columns), groups)


def test_every_row_has_its_class_group_and_one_label():
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
  multi_label = ArrayRows(np.zeros((2, 4, 4, 3), np.float32), np.array([[0, 1], [1, -1]]), NAMES)
  refused('one label', next, with_groups(multi_label, GROUPS).batches(2))


@functools.cache
def _compiled(policy):
  return jax.jit(lambda batch, step: policy(batch, 0, step))


def _steps(source, policy, begin, end):
  apply = _compiled(policy)
  for step, batch in zip(range(begin, end), source.training_batches(20, 0, begin), strict=False):
    target = jax.nn.one_hot(batch['label'], len(NAMES))
    numbers = {name: jnp.asarray(value) for name, value in batch.items()}
    yield numbers, apply({**numbers, 'target': target}, jnp.int32(step))


@pytest.mark.slow
@pytest.mark.parametrize('share', [0.0, 0.5, 1.0])
def test_no_step_ever_sees_a_held_out_cell(share):
  """Counted over 30 steps, the last half after a resume, with the images themselves as witness."""
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
  expected = share * 30 * 20 * 4 / 6
  assert abs(transformed - expected) <= 4 * np.sqrt(expected * (1 - share))
  if share == 0.5:
    assert cells == permitted


def test_levels_are_drawn_uniformly():
  policy = Policy.of(environment={**SETTINGS, 'share': 1.0})
  counts = np.zeros(4)
  for before, after in _steps(rows(), policy, 0, 40):
    for image, turned, label in zip(before['image'], after['image'], before['label'], strict=True):
      if label < 2:
        turns = [np.array_equal(np.rot90(image, k), turned) for k in range(4)]
        counts[turns.index(True)] += 1
  assert counts[0] == 0
  np.testing.assert_allclose(counts[1:] / counts.sum(), 1 / 3, atol=4 * 0.47 / counts.sum() ** 0.5)


def test_groups_beyond_the_transforms_stay_clean():
  policy = Policy.of(environment={'transforms': ('contrast',), 'share': 1.0})
  _, after = next(_steps(rows(), policy, 0, 1))
  assert set(np.asarray(after['environment']).tolist()) == {0, 1}


def test_rows_without_groups_and_bad_settings_are_refused():
  with pytest.raises(InputError, match='class_groups'):
    plain = rows().rows
    next(_steps(plain, Policy.of(environment=SETTINGS), 0, 1))
  for bad, message in (
    ({'share': 1.5}, bad_setting('config.classifier.augment.environment.share', 1.5)),
    (
      {'transforms': ('blur',)},
      bad_setting('config.classifier.augment.environment.transforms', 'blur'),
    ),
    ({'severities': (6,)}, bad_setting('config.classifier.augment.environment.severities', (6,))),
    ({'angles': ()}, bad_setting('config.classifier.augment.environment.angles', ())),
  ):
    refused(message, Policy.of, environment=bad)


UNEQUAL = by_name((('a', 'b', 'c'), ('d',)), NAMES)
TRANSFORMS = ('rotation', 'contrast')
POLICY = Policy.of(environment={'transforms': TRANSFORMS, 'angles': (90,)})
BATCH = 12


def unequal(size: int = 48, **columns: np.ndarray) -> Any:
  return rows(size, UNEQUAL, **columns)


def test_every_batch_shows_each_environment_equally_often_and_no_held_out_cell():
  """Class frequencies are (1 + 1/|C_k| · |C|)/|C| / 3 of the classes of C_k, 1/|C|/3 of others."""
  order = balanced('environment', unequal(), TRANSFORMS, 3)
  apply = jax.jit(lambda batch, step: POLICY(batch, 3, step))
  cells: collections.Counter = collections.Counter()
  steps = 40
  for step, batch in enumerate(
    itertools.islice(unequal().training_batches(BATCH, 3, sampler=order), steps)
  ):
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


def test_a_resumed_and_a_shared_training_see_the_same_rows():
  def batches(begin, share=(0, 1)):
    order = balanced('environment', unequal(), TRANSFORMS, 3)
    return list(
      itertools.islice(unequal().training_batches(BATCH, 3, begin, share, sampler=order), 6)
    )

  full = batches(0)
  for name in ('example_id', 'sampled_environment'):
    values = np.stack([batch[name] for batch in full])
    resumed = np.stack([batch[name] for batch in batches(2)])
    np.testing.assert_array_equal(resumed[:4], values[2:])
    halves = [np.stack([b[name] for b in batches(0, (process, 2))]) for process in range(2)]
    np.testing.assert_array_equal(np.concatenate(halves, 1), values)


def test_stored_environments_and_classes_are_balanced_by_their_column():
  stored = unequal(environment=np.array([0] * 40 + [1] * 6 + [2] * 2))
  order = balanced('environment', stored, (), 0)
  batch = next(stored.training_batches(BATCH, 0, sampler=order))
  np.testing.assert_array_equal(np.bincount(batch['environment']), [4, 4, 4])
  assert 'sampled_environment' not in batch
  batch = next(unequal().training_batches(BATCH, 0, sampler=balanced('label', unequal(), (), 0)))
  np.testing.assert_array_equal(np.bincount(batch['label']), [2] * 6)
  assert balanced('', unequal(), TRANSFORMS, 0) is None


@cases(
  'column, source, message',
  ('enviroment', unequal(), "'enviroment'.*class_group"),
  ('weight', unequal(weight=np.ones(48, np.float32)), "'weight'"),
  ('environment', unequal().rows, 'needs class groups'),
  ('environment', unequal(3), "'contrast' has no training images"),
)
def test_what_cannot_be_balanced_is_refused(column, source, message):
  refused(message, balanced, column, source, TRANSFORMS, 0)
