"""AugMix's objective: reference values, and the released code's formula in PyTorch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.objectives import jsd
from robustness.objectives.cross_entropy import cross_entropy

LOGITS = jnp.asarray(np.random.default_rng(0).normal(0, 3, (7, 3, 5)).astype(np.float32))
TARGET = jax.nn.one_hot(jnp.arange(7) % 5, 5)


def objective(logits=LOGITS, **settings):
  return jsd.objective({'logits': logits}, {'target': TARGET}, {}, jsd.Settings(**settings), None)


@pytest.mark.parametrize(
  ('rows', 'expected'),
  [
    ([[60, 0, 0], [60, 0, 0], [60, 0, 0]], 0),
    ([[60, 0, 0], [0, 60, 0], [0, 0, 60]], np.log(3)),
    ([[60, 0, 0], [60, 0, 0], [0, 60, 0]], 2 / 3 * np.log(1.5) + np.log(3) / 3),
    ([[2, 0, 0], [0, 2, 0], [0, 0, 0]], 0.23158),
  ],
)
def test_reference_values(rows, expected) -> None:
  assert float(jsd.jensen_shannon(jnp.float32(rows)[None])[0]) == pytest.approx(expected, abs=1e-5)


def test_loss_and_gradient_are_those_of_the_released_code() -> None:
  torch = pytest.importorskip('torch', reason='compares with PyTorch')
  functional = torch.nn.functional
  logits = torch.tensor(np.asarray(LOGITS), requires_grad=True)
  clean, first, second = (logits[:, v] for v in range(3))
  p = [functional.softmax(z, dim=1) for z in (clean, first, second)]
  mixture = torch.clamp(sum(p) / 3.0, 1e-7, 1).log()
  divergence = sum(functional.kl_div(mixture, q, reduction='batchmean') for q in p) / 3.0
  loss = functional.cross_entropy(clean, torch.arange(7) % 5) + 12 * divergence
  loss.backward()
  value, gradient = jax.value_and_grad(lambda z: objective(z)[0].mean())(LOGITS)
  assert float(value) == pytest.approx(float(loss.detach()), rel=1e-5)
  np.testing.assert_allclose(gradient, logits.grad, atol=1e-5)


def test_without_the_divergence_it_is_the_cross_entropy_of_the_clean_image() -> None:
  losses, weights, state, metrics = objective(weight=0.0)
  np.testing.assert_allclose(losses, cross_entropy(LOGITS[:, 0], TARGET), rtol=1e-6)
  assert (np.asarray(weights) == 1).all() and state == {}
  assert float(metrics['clean_loss']) == pytest.approx(float(losses.mean()), rel=1e-6)
  assert 0 < float(metrics['divergence']) < np.log(3)


def test_certain_predictions_have_a_finite_gradient() -> None:
  gradient = jax.grad(lambda z: objective(z)[0].mean())(100 * LOGITS)
  assert np.isfinite(np.asarray(gradient)).all()


def test_mistakes_are_named() -> None:
  with pytest.raises(InputError, match="'jsd' compares several images.*'augmix' or 'repeat'"):
    objective(LOGITS[:, 0])
  with pytest.raises(InputError, match=r'objective\.jsd\.weight is -1'):
    jsd.Settings(weight=-1.0)
  with pytest.raises(InputError, match=r'objective\.jsd\.label_smoothing is 1'):
    jsd.Settings(label_smoothing=1.0)
