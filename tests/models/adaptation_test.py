"""Adapted networks have the logits of PyTorch's, batch after batch; others are refused."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from robustness.models import catalog
from robustness.models.adaptation import Statistics, Tent, moments
from robustness.models.classifier import Classifier
from robustness.models.small_images import CifarResNet
from tests.cases import cases
from tests.models.peers import peer
from tests.networks import SHAPE, imported, tiny_classifier
from tests.refusals import refused

RESNET8 = dataclasses.replace(catalog.get('resnet20'), name='resnet8', network=CifarResNet(10, 8))
IMAGES = np.random.default_rng(0).normal(0.3, 1, (20, 8, 8, 3)).astype(np.float32)
BATCHES = IMAGES[:8], IMAGES[8:16], IMAGES[16:]
SHARE = 16 / (16 + 8)


def answers(adaptation, variables):
  """Logits of all batches; the last one is padded with rows of 9."""
  network = RESNET8.build(10)

  @jax.jit
  def step(variables, state, images, mask):
    (logits, _), state = adaptation(
      lambda changed: (network.apply(changed, images), {}), variables, state, mask
    )
    return logits, state

  state, logits = adaptation.begin(variables), []
  for batch in BATCHES:
    padded = np.pad(batch, ((0, 8 - len(batch)), (0, 0), (0, 0), (0, 0)), constant_values=9)
    answered, state = step(variables, state, padded, np.arange(8) < len(batch))
    logits.append(np.asarray(answered)[: len(batch)])
  return np.concatenate(logits)


@pytest.fixture
def network():
  """Returns a PyTorch network with statistics far from the images', and its weights as ours."""
  torch = peer('torch')
  from benchmarks.torch_networks import ResNet

  torch.manual_seed(0)
  module = ResNet(8)
  for name, values in module.named_buffers():
    if 'running' in name:
      values.uniform_(0.05, 0.3)
  arrays = {name: value.numpy().copy() for name, value in module.state_dict().items()}
  return module, imported(RESNET8, arrays)


def torch_answers(module, of_batch):
  torch = peer('torch')
  batches = (torch.from_numpy(batch.transpose(0, 3, 1, 2).copy()) for batch in BATCHES)
  return np.concatenate([of_batch(batch).detach().numpy() for batch in batches])


@pytest.mark.slow
@cases('weight', 0.0, SHARE, 1.0)
def test_mixed_statistics_match_pytorch(network, weight):
  module, variables = network
  torch = peer('torch')
  layers = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
  source = {layer: (layer.running_mean, layer.running_var) for layer in layers}

  def mix(layer, inputs):
    variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
    mixed = (
      weight * s + (1 - weight) * t for s, t in zip(source[layer], (mean, variance), strict=True)
    )
    layer.running_mean, layer.running_var = mixed

  for layer in layers:
    layer.register_forward_pre_hook(mix)
  expected = torch_answers(module.eval().requires_grad_(False), module)
  ours = answers(Statistics(source_weight=weight), variables)
  np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
  alone = np.concatenate([RESNET8.build(10).apply(variables, batch) for batch in BATCHES])
  assert (np.abs(ours - alone).max() < 1e-5) == (weight == 1)


@pytest.mark.slow
@cases(
  'optimizer, nesterov, rate, tolerance',
  ('sgd', True, 0.05, 1e-4),
  ('sgd', False, 0.05, 1e-4),
  ('adam', True, 1e-3, 1e-3),
)
def test_tent_matches_pytorch(network, optimizer, nesterov, rate, tolerance):
  torch = peer('torch')
  module = network[0].train().requires_grad_(False)
  layers = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
  learnt = [p for layer in layers for p in layer.requires_grad_(True).parameters()]
  kinds = {
    'adam': torch.optim.Adam,
    'sgd': functools.partial(torch.optim.SGD, momentum=0.9, nesterov=nesterov),
  }
  steps = kinds[optimizer](learnt, rate)

  def adapt(batch):
    logits = module(batch)
    loss = torch.distributions.Categorical(logits=logits).entropy().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
    return logits

  expected = torch_answers(module, adapt)
  tent = Tent(optimizer=optimizer, nesterov=nesterov, learning_rate=rate)
  ours = answers(tent, network[1])
  np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)
  still = answers(dataclasses.replace(tent, learning_rate=1e-12), network[1])
  np.testing.assert_array_equal(ours[:8], still[:8])  # answered before the first step
  assert np.abs(ours[8:] - still[8:]).max() > 10 * tolerance


class Normalised(nn.Module):
  """A map of normalised images; the normalisation gets its input as a keyword."""

  axis: int = -1

  @nn.compact
  def __call__(self, x, train=False):
    x = nn.BatchNorm(use_running_average=not train, axis=self.axis, name='norm')(x=x)
    return nn.Dense(3, name='dense')(x.mean((1, 2)))


def test_a_network_with_an_inner_jit_is_adapted_after_an_earlier_trace():
  module, images = Normalised(), jnp.asarray(IMAGES)
  variables, mask = module.init(jax.random.key(0), images), jnp.ones(len(images), bool)
  inside = jax.jit(module.apply)

  def adapted(function):
    apply = lambda changed: (function(changed, images), {})  # noqa: E731
    return jax.jit(lambda changed: Statistics()(apply, changed, (), mask)[0][0])(variables)

  plain = inside(variables, images)
  expected = adapted(module.apply)
  assert np.abs(expected - plain).max() > 0.1
  np.testing.assert_allclose(adapted(inside), expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(inside(variables, images), plain)
  other = Normalised(axis=1)
  initial = {**other.init(jax.random.key(0), images)}
  apply = lambda changed: (other.apply(changed, images), {})  # noqa: E731
  refused('norm is not over the last axis', Statistics(), apply, initial, (), mask)


def test_fixed_filters_among_the_statistics_are_not_adapted():
  layer = {'mean': np.zeros(2), 'var': np.ones(2)}
  variables = {
    'params': {'stem': {'shift': np.zeros(2)}, 'norm': {'bias': np.zeros(2)}},
    'batch_stats': {'stem': {'kernel': np.zeros((2, 2))}, 'norm': layer},
  }
  assert {*Tent().begin(variables)[0]} == {('params', 'norm', 'bias')}


def test_moments_ignore_padded_rows():
  x, mask = np.random.default_rng(1).normal(3, 2, (5, 4, 3, 2)), np.array([1, 1, 0, 1, 0], bool)
  mean, variance = moments(jnp.asarray(x, jnp.float32), jnp.asarray(mask), 1)
  np.testing.assert_allclose(mean, x[mask].mean((0, 1, 2)), rtol=1e-6)
  np.testing.assert_allclose(variance, x[mask].var((0, 1, 2), ddof=1), rtol=1e-5)


def test_bad_settings_and_networks_without_batch_norm_are_refused():
  tent = 'config.classifier.adaptation.tent'
  refused(f"{tent}.optimizer is 'adamw'", Tent, optimizer='adamw')
  refused(f'{tent}.nesterov is False; it must be True', Tent, nesterov=False)
  refused(f'{tent}.learning_rate is 0.0; it must be above 0', Tent, learning_rate=0.0)
  refused('statistics.source_weight is 16.0; it must be in', Statistics, source_weight=16.0)
  named = Classifier.from_callable(lambda x: x[:, 0, 0], SHAPE, ('a', 'b', 'c'))
  for classifier in (tiny_classifier(), named):
    refused('adapts batch normalisation, and .* has none', classifier.with_adaptation, Tent())
  assert tiny_classifier().with_adaptation(None).adaptation is None
