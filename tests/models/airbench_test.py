"""Tests airbench94: its whitening, its initial kernels, and its training against PyTorch."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.models import airbench, catalog
from tests.cases import cases
from tests.refusals import refused


def images(count=40, side=32, channels=3):
  """Returns random images of mean 0 that are smooth, as photographs are."""
  noise = np.random.default_rng(0).normal(size=(count, side, side, channels))
  return np.asarray(noise.cumsum(1).cumsum(2) / side, np.float32)


@pytest.mark.parametrize('channels', [1, 3])
def test_whitened_patches_have_identity_second_moments(channels):
  pictures = images(channels=channels)
  filters = airbench.whitening_filters(jnp.asarray(pictures))
  kernel = filters['batch_stats']['stem']['whitening']['kernel'].astype(np.float64)
  half = kernel.shape[-1] // 2  # the other half is the first with opposite signs
  np.testing.assert_array_equal(kernel[..., half:], -kernel[..., :half])
  windows = np.lib.stride_tricks.sliding_window_view(pictures, (2, 2), (1, 2))
  patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, half).astype(np.float64)
  moments = patches.T @ patches / len(patches)
  whitened = patches @ kernel.reshape(half, -1)[:, :half]
  eigenvalues = np.linalg.eigvalsh(moments)[::-1]
  expected = np.diag(eigenvalues / (eigenvalues + 5e-4))  # the authors add 5e-4 to eigenvalues
  np.testing.assert_allclose(whitened.T @ whitened / len(patches), expected, atol=2e-3)


@cases(
  'pictures, message',
  (np.full((40, 32, 32, 3), 0.5, np.float32), 'are constant'),
  (images(11), 'at least 12 training images'),
)
def test_images_that_cannot_be_whitened_are_refused(pictures, message):
  refused(message, airbench.whitening_filters, jnp.asarray(pictures))


@pytest.mark.slow
@cases('inputs, outputs', (24, 64), (64, 64), (8, 4))
def test_each_of_the_first_filters_returns_a_channel(inputs, outputs):
  kernel = airbench.identity_start(jax.random.key(0), (3, 3, inputs, outputs))
  x = jnp.asarray(images(2, 8, inputs))
  layout = ('NHWC', 'HWIO', 'NHWC')
  y = jax.lax.conv_general_dilated(x, kernel, (1, 1), 'SAME', dimension_numbers=layout)
  shared = min(inputs, outputs)
  np.testing.assert_array_equal(y[..., :shared], x[..., :shared])
  drawn = np.asarray(kernel[..., shared:])
  assert np.abs(drawn).max(initial=0) <= 1 / np.sqrt(9 * inputs)


@pytest.mark.parametrize('side', [31, 32])
def test_halving_is_max_pooling_with_its_gradient(side):
  x = jnp.asarray(images(2, side))
  ours, expected = (
    jax.grad(lambda x, pool=pool: (pool(x) ** 2).sum())(x)
    for pool in (airbench.halved, lambda x: nn.max_pool(x, (2, 2), (2, 2)))
  )
  np.testing.assert_array_equal(ours, expected)


@cases('side, classes', (32, 10), (28, 7), (64, 100), (9, 2))
def test_images_may_have_other_sizes_and_numbers_of_classes(side, classes):
  network = catalog.get('airbench94_half').build(classes)
  images = jnp.zeros((2, side, side, 3))
  logits, _ = jax.eval_shape(network.init_with_output, jax.random.key(0), images)
  assert logits.shape == (2, classes)


def test_images_without_nine_pixels_a_side_are_refused():
  network = catalog.get('airbench94').build(10)
  message = '8 × 8 pixels are too small'
  refused(message, jax.eval_shape, lambda: network.init(jax.random.key(0), jnp.zeros((1, 8, 8, 3))))


def peer(torch, variables):
  """Returns the network in PyTorch with these weights; its logits are 9 times ours."""
  from benchmarks.torch_networks import airbench as network

  module = network((32, 128, 128))
  params = variables['params']
  kernels = [variables['batch_stats']['stem']['whitening']['kernel']]
  biases = [params['stem']['whitening']['shift']]
  for stage in ('stage1', 'stage2', 'stage3'):
    kernels += [params[stage][f'conv{number}']['kernel'] for number in (1, 2)]
    biases += [params[stage][f'bn{number}']['bias'] for number in (1, 2)]
  convolutions = [layer for layer in module if isinstance(layer, torch.nn.Conv2d)]
  norms = [layer for layer in module if isinstance(layer, torch.nn.BatchNorm2d)]
  with torch.no_grad():
    for layer, kernel in zip(convolutions, kernels, strict=True):
      layer.weight[:] = torch.from_numpy(np.array(kernel).transpose(3, 2, 0, 1).copy())
    for layer, bias in zip([convolutions[0], *norms], biases, strict=True):
      layer.bias[:] = torch.from_numpy(np.array(bias))
    module[-1].weight[:] = torch.from_numpy(np.array(params['head']['dense']['kernel']).T.copy())
  return module


@pytest.mark.slow
def test_training_and_evaluation_match_pytorch():
  torch = pytest.importorskip('torch', reason='PyTorch is not installed')
  network = catalog.get('airbench94_half').build(10)
  pictures = images(16)
  variables = jax.jit(network.init)(jax.random.key(1), pictures[:1])
  fitted = airbench.whitening_filters(jnp.asarray(pictures))
  variables = {**variables, 'batch_stats': {**variables['batch_stats'], **fitted['batch_stats']}}
  module = peer(torch, variables)
  tensor = torch.from_numpy(pictures.transpose(0, 3, 1, 2).copy())

  def mean_square(params):
    changed = {**variables, 'params': params}
    logits, changed = network.apply(changed, pictures, train=True, mutable=['batch_stats'])
    return (logits**2).mean(), (logits, changed['batch_stats'])

  gradient = jax.jit(jax.value_and_grad(mean_square, has_aux=True))
  (_, (logits, statistics)), gradients = gradient(variables['params'])
  expected = module.train()(tensor) / 9
  (expected**2).mean().backward()
  np.testing.assert_allclose(logits, expected.detach().numpy(), atol=1e-4 * np.abs(logits).max())
  kernel = np.array(gradients['stage1']['conv1']['kernel'])
  theirs = module[2].weight.grad.numpy().transpose(2, 3, 1, 0)
  np.testing.assert_allclose(kernel, theirs, atol=1e-3 * np.abs(kernel).max())
  mean = module[4].running_mean.numpy()
  np.testing.assert_allclose(statistics['stage1']['bn1']['mean'], mean, atol=1e-5)
  logits = jax.jit(network.apply)({**variables, 'batch_stats': statistics}, pictures)
  expected = (module.eval()(tensor) / 9).detach().numpy()
  # PyTorch's running variance is divided by n - 1 and ours by n
  np.testing.assert_allclose(logits, expected, atol=0.02 * np.abs(expected).max())
