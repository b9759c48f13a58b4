"""Tests cross-entropy and AugMix's loss: reference values, and the authors' formula in PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.objectives import cross_entropy as module
from robustness.objectives.cross_entropy import JSD, CrossEntropy
from tests.cases import cases
from tests.refusals import bad_setting, refused

LOGITS = jnp.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
LABELS = jnp.array([0, 2])


def cross_entropy(logits, labels, smoothing=0.0):
  """Returns the mean of the objective's losses, after checking that all weights are 1."""
  batch = {'target': jax.nn.one_hot(labels, logits.shape[-1])}
  losses, weights, _, metrics = CrossEntropy(smoothing)({'logits': logits}, batch, {}, None)
  assert metrics == {} and (np.asarray(weights) == 1).all()
  return losses.mean()


def test_cross_entropy_has_reference_values():
  log_p = np.asarray(LOGITS) - np.log(np.exp(np.asarray(LOGITS)).sum(-1, keepdims=True))
  plain = -(log_p[0, 0] + log_p[1, 2]) / 2
  assert float(cross_entropy(LOGITS, LABELS)) == pytest.approx(plain, rel=1e-6)
  smooth = 0.9 * plain - 0.1 * log_p.mean()
  assert float(cross_entropy(LOGITS, LABELS, 0.1)) == pytest.approx(smooth, rel=1e-6)
  for smoothing in (0.0, 0.1, 0.9):
    loss = cross_entropy(jnp.zeros((4, 10)), jnp.arange(4), smoothing)
    assert float(loss) == pytest.approx(np.log(10), rel=1e-6), 'of equal logits of 10 classes'


def test_bfloat16_logits_are_summed_in_float32_and_large_ones_stay_finite():
  loss = cross_entropy(jnp.array([[1e4, -1e4]], jnp.bfloat16), jnp.array([1]))
  assert loss.dtype == jnp.float32
  assert float(loss) == pytest.approx(2e4, rel=1e-2)


def test_several_images_of_a_row_cost_the_mean_of_their_losses():
  images = jnp.stack([LOGITS, 2 * LOGITS, LOGITS[::-1]], 1)
  batch = {'target': jax.nn.one_hot(LABELS, 3)}
  losses, *single = (
    CrossEntropy(0.1)({'logits': logits}, batch, {}, None)[0]
    for logits in (images, *jnp.moveaxis(images, 1, 0))
  )
  np.testing.assert_allclose(losses, np.mean(single, 0), rtol=1e-6)


def test_a_mixed_target_costs_the_mixture_of_the_losses():
  targets = jax.nn.one_hot(jnp.array([0, 1]), 3), jax.nn.one_hot(jnp.array([2, 0]), 3)
  losses = [module.cross_entropy(LOGITS, target) for target in targets]
  mixed = module.cross_entropy(LOGITS, 0.3 * targets[0] + 0.7 * targets[1])
  np.testing.assert_allclose(mixed, 0.3 * losses[0] + 0.7 * losses[1], rtol=1e-6)


VIEWS = jnp.asarray(np.random.default_rng(0).normal(0, 3, (7, 3, 5)).astype(np.float32))
"""Logits of 5 classes for 7 rows of a clean image and two augmented ones."""
TARGET = jax.nn.one_hot(jnp.arange(7) % 5, 5)


def jsd(logits=VIEWS, weight=12.0):
  """Returns losses, weights, state and metrics of AugMix's objective."""
  return JSD(weight)({'logits': logits}, {'target': TARGET}, {}, None)


@cases(
  'rows, expected',
  ([[60, 0, 0], [60, 0, 0], [60, 0, 0]], 0),
  ([[60, 0, 0], [0, 60, 0], [0, 0, 60]], np.log(3)),
  ([[60, 0, 0], [60, 0, 0], [0, 60, 0]], 2 / 3 * np.log(1.5) + np.log(3) / 3),
  ([[2, 0, 0], [0, 2, 0], [0, 0, 0]], 0.23158),  # entropy of the mean less the mean entropy
)
def test_the_divergence_has_reference_values(rows, expected):
  """Logits of 60 are as good as certain."""
  divergence = module.jensen_shannon(jnp.float32(rows)[None])
  assert float(divergence[0]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_loss_and_gradient_match_the_authors_formula_in_pytorch():
  torch = pytest.importorskip('torch', reason='compares with PyTorch')
  functional = torch.nn.functional
  logits = torch.tensor(np.asarray(VIEWS), requires_grad=True)
  clean, first, second = (logits[:, v] for v in range(3))
  p = [functional.softmax(z, dim=1) for z in (clean, first, second)]
  mixture = torch.clamp(sum(p) / 3.0, 1e-7, 1).log()
  divergence = sum(functional.kl_div(mixture, q, reduction='batchmean') for q in p) / 3.0
  loss = functional.cross_entropy(clean, torch.arange(7) % 5) + 12 * divergence
  loss.backward()
  value, gradient = jax.value_and_grad(lambda z: jsd(z)[0].mean())(VIEWS)
  assert float(value) == pytest.approx(float(loss.detach()), rel=1e-5)
  np.testing.assert_allclose(gradient, logits.grad, atol=1e-5)


def test_without_the_divergence_the_loss_is_the_cross_entropy_of_the_clean_image():
  losses, weights, state, metrics = jsd(weight=0.0)
  np.testing.assert_allclose(losses, module.cross_entropy(VIEWS[:, 0], TARGET), rtol=1e-6)
  assert (np.asarray(weights) == 1).all() and state == {}
  assert float(metrics['clean_loss']) == pytest.approx(float(losses.mean()), rel=1e-6)
  assert 0 < float(metrics['divergence']) < np.log(3)
  gradient = jax.grad(lambda z: jsd(z)[0].mean())(100 * VIEWS)
  assert np.isfinite(np.asarray(gradient)).all(), 'certain predictions have finite gradients'


@cases(
  'objective, setting, value',
  (CrossEntropy, 'label_smoothing', -0.1),
  (CrossEntropy, 'label_smoothing', 1.0),
  (JSD, 'label_smoothing', 1.0),
  (JSD, 'weight', -1.0),
)
def test_bad_settings_are_refused(objective, setting, value):
  key = f'config.classifier.objective.{objective.name}.{setting}'
  refused(bad_setting(key, value), objective, **{setting: value})


def test_a_single_image_of_a_row_is_refused():
  refused("'jsd' compares several images.*'augmix', 'prime' or 'repeat'", jsd, VIEWS[:, 0])
