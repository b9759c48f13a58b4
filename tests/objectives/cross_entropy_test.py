"""Cross-entropy with label smoothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.objectives import cross_entropy as module

LOGITS = jnp.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
LABELS = jnp.array([0, 2])


def cross_entropy(logits, labels, smoothing=0.0):
  """The mean of the objective's losses, whose weights are all 1."""
  batch = {'target': jax.nn.one_hot(labels, logits.shape[-1])}
  settings = module.Settings(label_smoothing=smoothing)
  losses, weights, _, metrics = module.objective({'logits': logits}, batch, {}, settings, None)
  assert metrics == {} and (np.asarray(weights) == 1).all()
  return losses.mean()


def test_reference_values():
  log_p = np.asarray(LOGITS) - np.log(np.exp(np.asarray(LOGITS)).sum(-1, keepdims=True))
  plain = -(log_p[0, 0] + log_p[1, 2]) / 2
  assert float(cross_entropy(LOGITS, LABELS)) == pytest.approx(plain, rel=1e-6)
  smooth = 0.9 * plain - 0.1 * log_p.mean()
  assert float(cross_entropy(LOGITS, LABELS, 0.1)) == pytest.approx(smooth, rel=1e-6)


def test_uniform_logits_cost_log_k_whatever_the_smoothing():
  for smoothing in (0.0, 0.1, 0.9):
    loss = cross_entropy(jnp.zeros((4, 10)), jnp.arange(4), smoothing)
    assert float(loss) == pytest.approx(np.log(10), rel=1e-6)


def test_smoothing_has_its_minimum_at_the_smoothed_target():
  target = jnp.log(jnp.array([[0.1 / 3, 0.1 / 3 + 0.9, 0.1 / 3]]))
  best = float(cross_entropy(target, jnp.array([1]), 0.1))
  for shift in (-0.3, 0.3):
    assert float(cross_entropy(target.at[0, 1].add(shift), jnp.array([1]), 0.1)) > best


def test_bfloat16_logits_are_summed_in_float32_and_large_ones_stay_finite():
  loss = cross_entropy(jnp.array([[1e4, -1e4]], jnp.bfloat16), jnp.array([1]))
  assert loss.dtype == jnp.float32
  assert float(loss) == pytest.approx(2e4, rel=1e-2)


def test_several_images_of_a_row_cost_the_mean_of_their_losses():
  several = jnp.stack([LOGITS, 2 * LOGITS, LOGITS[::-1]], 1)
  batch = {'target': jax.nn.one_hot(LABELS, 3)}
  losses = module.objective({'logits': several}, batch, {}, module.Settings(0.1), None)[0]
  single = [
    module.objective({'logits': several[:, v]}, batch, {}, module.Settings(0.1), None)[0]
    for v in range(3)
  ]
  np.testing.assert_allclose(losses, np.mean(single, 0), rtol=1e-6)


def test_a_mixed_target_costs_the_mixture_of_the_losses():
  targets = jax.nn.one_hot(jnp.array([0, 1]), 3), jax.nn.one_hot(jnp.array([2, 0]), 3)
  losses = [module.cross_entropy(LOGITS, target) for target in targets]
  mixed = module.cross_entropy(LOGITS, 0.3 * targets[0] + 0.7 * targets[1])
  np.testing.assert_allclose(mixed, 0.3 * losses[0] + 0.7 * losses[1], rtol=1e-6)


@pytest.mark.parametrize('smoothing', [-0.1, 1.0])
def test_a_bad_smoothing_is_named(smoothing):
  with pytest.raises(InputError, match='label_smoothing'):
    module.Settings(label_smoothing=smoothing)
