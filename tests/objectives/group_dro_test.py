"""Group DRO against the released algorithm written out, and its use of devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.objectives.cross_entropy import cross_entropy
from robustness.objectives.group_dro import GroupDRO

LOGITS = jnp.asarray(np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32))
LABELS = jnp.arange(12) % 3
GROUPS = jnp.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
BATCH = {'target': jax.nn.one_hot(LABELS, 3), 'label': LABELS, 'environment': GROUPS}
SETTINGS = GroupDRO(column='environment', groups=3, step_size=0.5)


def run(state, settings=SETTINGS, batch=BATCH, logits=LOGITS, total=lambda x: x):
  return settings({'logits': logits}, batch, state, total)


def test_shares_and_loss_are_those_of_the_algorithm() -> None:
  share = np.full(3, 1 / 3)
  state = SETTINGS.initial_state(10)
  each = np.asarray(cross_entropy(LOGITS, BATCH['target']))
  for _ in range(4):
    losses, weights, state, metrics = run(state)
    means = np.array([each[np.asarray(GROUPS) == group].mean() for group in range(3)])
    share = share * np.exp(0.5 * means)
    share /= share.sum()
    np.testing.assert_allclose(state['share'], share, rtol=1e-5)
    loss = (losses * weights).sum() / weights.sum()
    assert float(loss) == pytest.approx(float(share @ means), rel=1e-5)
    assert float(metrics['worst_group_loss']) == pytest.approx(means.max(), rel=1e-5)


def test_the_worst_group_gains() -> None:
  state = SETTINGS.initial_state(3)
  for _ in range(20):
    *_, state, _ = run(state)
  each = np.asarray(cross_entropy(LOGITS, BATCH['target']))
  worst = np.argmax([each[np.asarray(GROUPS) == group].mean() for group in range(3)])
  assert int(np.argmax(state['share'])) == worst and float(state['share'].max()) > 0.5


def test_classes_are_groups_by_default() -> None:
  settings = GroupDRO()
  assert settings.columns == ('label',)
  assert settings.initial_state(7)['share'].shape == (7,)
  assert SETTINGS.columns == ('environment',)


def test_a_group_that_is_not_there_has_no_weight_and_keeps_its_share() -> None:
  settings = GroupDRO(column='environment', groups=5, step_size=0.1)
  _, weights, state, _ = run(settings.initial_state(3), settings)
  assert np.isfinite(np.asarray(weights)).all()
  np.testing.assert_allclose(state['share'][3:], state['share'][3], rtol=1e-6)
  outside = {**BATCH, 'environment': GROUPS.at[0].set(9)}
  assert float(run(settings.initial_state(3), settings, outside)[1][0]) == 0


def test_devices_share_their_sums() -> None:
  halves = jax.tree.map(lambda x: x.reshape(2, 6, *x.shape[1:]), (BATCH, LOGITS))
  state = SETTINGS.initial_state(3)

  def half(batch, logits):
    return run(state, batch=batch, logits=logits, total=lambda x: jax.lax.psum(x, 'data'))

  _, weights, after, _ = jax.vmap(half, axis_name='data')(*halves)
  _, expected, whole, _ = run(state)
  np.testing.assert_allclose(weights.ravel(), expected, rtol=1e-6)
  np.testing.assert_allclose(after['share'][0], whole['share'], rtol=1e-6)


@pytest.mark.parametrize(
  ('settings', 'message'),
  [({'column': ''}, 'column'), ({'groups': -1}, 'groups'), ({'step_size': 0.0}, 'step_size')],
)
def test_bad_settings_are_named(settings, message) -> None:
  with pytest.raises(InputError, match=rf'objective\.group_dro\.{message}'):
    GroupDRO(**settings)
