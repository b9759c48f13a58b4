"""Environments that come equally often: as the sampler draws them and as the augmentation shows."""

from __future__ import annotations

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, Rows
from robustness.environments.balance import sampler
from robustness.environments.class_groups import by_name, with_groups

NAMES = tuple('abcdef')
GROUPS = by_name((('a', 'b', 'c'), ('d',)), NAMES)
POLICY = Policy.of(environment={'transforms': ('rotation', 'contrast'), 'angles': (90,)})
PARTS = POLICY.augmentations
BATCH = 12


def rows(size: int = 48, **columns: np.ndarray) -> Rows:
  images = np.random.default_rng(0).random((size, 4, 4, 1), np.float32)
  plain = ArrayRows(images, np.arange(size) % 6, NAMES, columns=columns)
  return with_groups(plain, GROUPS)


def test_every_batch_shows_each_environment_equally_often_and_no_held_out_cell() -> None:
  """Class frequencies are (1 + 1/|C_k| · |C|)/|C| / 3 of the classes of C_k, 1/|C|/3 of others."""
  order = sampler('environment', rows(), PARTS, 3)
  apply = jax.jit(lambda batch, step: POLICY(batch, 3, step))
  cells: collections.Counter = collections.Counter()
  steps = 40
  for step, batch in enumerate(
    itertools.islice(rows().training_batches(BATCH, 3, sampler=order), steps)
  ):
    shown = apply({name: jnp.asarray(value) for name, value in batch.items()}, jnp.int32(step))
    environment = np.asarray(shown['environment'])
    np.testing.assert_array_equal(np.bincount(environment, minlength=3), [4, 4, 4])
    changed = (np.asarray(shown['image']) != batch['image']).any((1, 2, 3))
    np.testing.assert_array_equal(changed, environment > 0)
    cells.update(zip(batch['label'].tolist(), environment.tolist(), strict=True))
  assert set(cells) == {*((label, 0) for label in range(6)), (0, 1), (1, 1), (2, 1), (3, 2)}
  assert cells[3, 2] == steps * BATCH / 3
  np.testing.assert_allclose([cells[k, 1] for k in range(3)], steps * BATCH / 9, rtol=0.06)
  np.testing.assert_allclose([cells[k, 0] for k in range(6)], steps * BATCH / 18, rtol=0.1)


def test_a_resumed_and_a_shared_training_see_the_same_rows() -> None:
  def batches(begin: int, *share: int) -> list[dict]:
    order = sampler('environment', rows(), PARTS, 3)
    return list(
      itertools.islice(rows().training_batches(BATCH, 3, begin, *share, sampler=order), 6)
    )

  whole = batches(0)
  for name in ('example_id', 'sampled_environment'):
    values = np.stack([batch[name] for batch in whole])
    resumed = np.stack([batch[name] for batch in batches(2)])
    np.testing.assert_array_equal(resumed[:4], values[2:])
    halves = [np.stack([b[name] for b in batches(0, process, 2)]) for process in range(2)]
    np.testing.assert_array_equal(np.concatenate(halves, 1), values)


def test_stored_environments_and_classes_are_balanced_by_their_column() -> None:
  stored = rows(environment=np.array([0] * 40 + [1] * 6 + [2] * 2))
  order = sampler('environment', stored, (), 0)
  batch = next(stored.training_batches(BATCH, 0, sampler=order))
  np.testing.assert_array_equal(np.bincount(batch['environment']), [4, 4, 4])
  assert 'sampled_environment' not in batch
  batch = next(rows().training_batches(BATCH, 0, sampler=sampler('label', rows(), (), 0)))
  np.testing.assert_array_equal(np.bincount(batch['label']), [2] * 6)
  assert sampler('', rows(), PARTS, 0) is None


@pytest.mark.parametrize(
  ('column', 'given', 'message'),
  [
    ('enviroment', rows(), "'enviroment'.*class_group"),
    ('weight', rows(weight=np.ones(48, np.float32)), "'weight'"),
    ('environment', rows().rows, 'needs class groups'),
    ('environment', rows(3), "'contrast' has no training images"),
  ],
)
def test_what_cannot_be_balanced_is_refused(column, given, message) -> None:
  with pytest.raises(InputError, match=message):
    sampler(column, given, PARTS, 0)
