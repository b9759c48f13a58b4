"""Cross-entropy, and AugMix's: reference values, and the released code's formula in PyTorch."""

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


def test_reference_values_and_log_k_of_uniform_logits_whatever_the_smoothing():
  log_p = np.asarray(LOGITS) - np.log(np.exp(np.asarray(LOGITS)).sum(-1, keepdims=True))
  plain = -(log_p[0, 0] + log_p[1, 2]) / 2
  assert float(cross_entropy(LOGITS, LABELS)) == pytest.approx(plain, rel=1e-6)
  smooth = 0.9 * plain - 0.1 * log_p.mean()
  assert float(cross_entropy(LOGITS, LABELS, 0.1)) == pytest.approx(smooth, rel=1e-6)
  for smoothing in (0.0, 0.1, 0.9):
    loss = cross_entropy(jnp.zeros((4, 10)), jnp.arange(4), smoothing)
    assert float(loss) == pytest.approx(np.log(10), rel=1e-6), 'uniform logits'


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


IMAGES = jnp.asarray(np.random.default_rng(0).normal(0, 3, (7, 3, 5)).astype(np.float32))
TARGET = jax.nn.one_hot(jnp.arange(7) % 5, 5)


def jsd(logits=IMAGES, weight=12.0):
  return JSD(weight)({'logits': logits}, {'target': TARGET}, {}, None)


@cases(
  'rows, expected',
  ([[60, 0, 0], [60, 0, 0], [60, 0, 0]], 0),
  ([[60, 0, 0], [0, 60, 0], [0, 0, 60]], np.log(3)),
  ([[60, 0, 0], [60, 0, 0], [0, 60, 0]], 2 / 3 * np.log(1.5) + np.log(3) / 3),
  ([[2, 0, 0], [0, 2, 0], [0, 0, 0]], 0.23158),
)
def test_reference_values_of_the_divergence(rows, expected):
  divergence = module.jensen_shannon(jnp.float32(rows)[None])
  assert float(divergence[0]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_loss_and_gradient_are_those_of_the_released_code():
  torch = pytest.importorskip('torch', reason='compares with PyTorch')
  functional = torch.nn.functional
  logits = torch.tensor(np.asarray(IMAGES), requires_grad=True)
  clean, first, second = (logits[:, v] for v in range(3))
  p = [functional.softmax(z, dim=1) for z in (clean, first, second)]
  mixture = torch.clamp(sum(p) / 3.0, 1e-7, 1).log()
  divergence = sum(functional.kl_div(mixture, q, reduction='batchmean') for q in p) / 3.0
  loss = functional.cross_entropy(clean, torch.arange(7) % 5) + 12 * divergence
  loss.backward()
  value, gradient = jax.value_and_grad(lambda z: jsd(z)[0].mean())(IMAGES)
  assert float(value) == pytest.approx(float(loss.detach()), rel=1e-5)
  np.testing.assert_allclose(gradient, logits.grad, atol=1e-5)


def test_without_the_divergence_it_is_the_cross_entropy_of_the_clean_image():
  losses, weights, state, metrics = jsd(weight=0.0)
  np.testing.assert_allclose(losses, module.cross_entropy(IMAGES[:, 0], TARGET), rtol=1e-6)
  assert (np.asarray(weights) == 1).all() and state == {}
  assert float(metrics['clean_loss']) == pytest.approx(float(losses.mean()), rel=1e-6)
  assert 0 < float(metrics['divergence']) < np.log(3)
  gradient = jax.grad(lambda z: jsd(z)[0].mean())(100 * IMAGES)
  assert np.isfinite(np.asarray(gradient)).all(), 'of certain predictions'


def test_mistakes_are_named():
  for smoothing in (-0.1, 1.0):
    refused(r'objective\.cross_entropy\.label_smoothing', CrossEntropy, smoothing)
  refused("'jsd' compares several images.*'augmix', 'prime' or 'repeat'", jsd, IMAGES[:, 0])
  refused(bad_setting('config.classifier.objective.jsd.weight', -1.0), JSD, weight=-1.0)
  refused(
    bad_setting('config.classifier.objective.jsd.label_smoothing', 1.0), JSD, label_smoothing=1.0
  )
