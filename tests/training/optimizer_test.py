"""The optimiser against steps computed by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from robustness.training import TrainingSettings
from robustness.training.optimizer import create, decayed

PARAMS = {'conv': {'kernel': jnp.array([[1.0, -2.0]]), 'bias': jnp.array([0.5])},
          'bn': {'scale': jnp.array([1.5]), 'bias': jnp.array([0.25])}}


def _steps(settings, rates, gradients, start):
  optimizer = create(settings, lambda step: jnp.asarray(rates)[step])
  params = {'layer': {'kernel': jnp.asarray(start)}}
  state = optimizer.init(params)
  for gradient in gradients:
    updates, state = optimizer.update({'layer': {'kernel': jnp.asarray(gradient)}}, state, params)
    params = optax.apply_updates(params, updates)
  return float(params['layer']['kernel'])


@pytest.mark.parametrize('nesterov', [True, False])
def test_two_steps_equal_the_hand_computed_ones(nesterov):
  rates, gradients, theta, velocity, momentum, decay = (0.1, 0.05), (2.0, -1.0), 3.0, 0.0, 0.9, 0.01
  result = _steps(TrainingSettings(momentum=momentum, weight_decay=decay, nesterov=nesterov), rates,
                  gradients, theta)
  for rate, gradient in zip(rates, gradients, strict=True):
    gradient += decay * theta
    velocity = momentum * velocity + gradient
    theta -= rate * (gradient + momentum * velocity if nesterov else velocity)
  assert result == pytest.approx(theta, rel=1e-6)


def test_it_agrees_with_pytorch():
  torch = pytest.importorskip('torch', reason='PyTorch is not installed')
  gradients = np.random.default_rng(0).normal(size=8)
  parameter = torch.nn.Parameter(torch.tensor(0.7))
  optimizer = torch.optim.SGD([parameter], lr=0.3, momentum=0.9, weight_decay=0.02, nesterov=True)
  for gradient in gradients:
    parameter.grad = torch.tensor(gradient, dtype=torch.float32)
    optimizer.step()
  ours = _steps(TrainingSettings(weight_decay=0.02), [0.3] * 8, gradients, 0.7)
  assert ours == pytest.approx(float(parameter.detach()), rel=1e-5)


@pytest.mark.parametrize(('which', 'touched'), [('kernels', {'conv/kernel'}), (
    'all', {'conv/kernel', 'conv/bias', 'bn/scale', 'bn/bias'})])
def test_decay_touches_only_what_it_says(which, touched):
  settings = TrainingSettings(momentum=0.0, nesterov=False, weight_decay=0.5, decay=which)
  optimizer = create(settings, lambda step: 0.1)
  zeros = {layer: {name: jnp.zeros_like(x) for name, x in leaves.items()}
           for layer, leaves in PARAMS.items()}
  updates, _ = optimizer.update(zeros, optimizer.init(PARAMS), PARAMS)
  flags = decayed(PARAMS, which)
  for layer, leaves in PARAMS.items():
    for name, value in leaves.items():
      expected = -0.1 * 0.5 * value if f'{layer}/{name}' in touched else 0 * value
      np.testing.assert_allclose(updates[layer][name], expected, rtol=1e-6)
      assert flags[layer][name] == (f'{layer}/{name}' in touched)
