"""Tests that a user's network of each library becomes a classifier."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import robustness
from robustness.models.model import Model
from tests.cases import cases
from tests.networks import TinyNetwork
from tests.refusals import refused

IMAGES = np.random.default_rng(0).random((5, 8, 8, 3), np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(192, 4)).astype(np.float32)


def linear(images):
  return images.reshape(len(images), -1) @ WEIGHTS


class NnxNetwork(nnx.Module):
  def __init__(self, rngs, last=lambda logits: logits):
    self.head, self.drop = nnx.Linear(192, 4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
    self.last = last

  def __call__(self, images):
    return self.last(self.head(self.drop(images.reshape(len(images), -1))))


def test_a_module_of_linen_keeps_layers_and_the_digest_of_its_weights():
  module = TinyNetwork()
  variables = module.init(jax.random.key(0), IMAGES[:1])
  made = Model(module, variables, mean=(0.5,), std=(0.25,)).classifier(IMAGES)
  expected = module.apply(variables, (IMAGES - 0.5) / 0.25)
  np.testing.assert_allclose(made.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)
  assert 'stage1' in made.layers and len(made.provenance['sha256']) == 64
  assert made.provenance['preprocessing'] == {'mean': [0.5], 'std': [0.25]}
  assert made.class_names == ('0', '1', '2', '3') and made.name == 'TinyNetwork'


def test_a_module_of_nnx_runs_in_evaluation_mode():
  made = Model(NnxNetwork(nnx.Rngs(0))).classifier(IMAGES)
  assert 'head' in made.layers and made.predict(IMAGES).shape == (5, 4)


def test_functions_that_jax_traces_have_a_gradient_and_others_run_on_the_host():
  traced = Model(linear).classifier(IMAGES)
  on_host = Model(lambda images: np.asarray(linear(np.asarray(images)))).classifier(IMAGES)
  with_weights = Model(lambda w, images: images.reshape(len(images), -1) @ w, WEIGHTS)
  assert traced.host_function is None and on_host.host_function is not None
  for made in (traced, on_host, with_weights.classifier(IMAGES)):
    np.testing.assert_allclose(made.predict(IMAGES), linear(IMAGES), rtol=1e-5, atol=1e-5)


def test_a_function_may_change_its_images_in_place():
  def darker(images):
    images = np.asarray(images)
    images -= 0.5
    return linear(images)

  images = IMAGES.copy()
  made = Model(darker).classifier(images)
  np.testing.assert_allclose(made.predict(images), linear(IMAGES - 0.5), rtol=1e-5, atol=1e-5)
  np.testing.assert_array_equal(images, IMAGES)


def test_probabilities_become_logarithms():
  def probabilities(images):
    return jax.nn.softmax(linear(images))

  expected = np.log(probabilities(IMAGES))
  made = Model(probabilities, outputs='probabilities').classifier(IMAGES)
  np.testing.assert_allclose(made.predict(IMAGES), expected, rtol=1e-5, atol=1e-5)
  refused("give outputs='probabilities'", Model(probabilities).classifier, IMAGES)
  refused("give outputs='logits'", Model(linear, outputs='probabilities').classifier, IMAGES)


def test_the_layer_logits_of_a_network_with_probabilities_has_their_logarithms():
  network = NnxNetwork(nnx.Rngs(0), last=jax.nn.softmax)
  made = Model(network, outputs='probabilities').classifier(IMAGES)
  logits, layers = made.apply(made.variables, jnp.asarray(IMAGES), ('logits',))
  assert logits.max() < 0
  np.testing.assert_array_equal(layers['logits'], logits)


def test_channels_come_first_and_have_a_mean_and_std_each_if_set():
  mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
  first = Model(lambda x: linear(x.transpose(0, 2, 3, 1)), mean=mean, std=std, channels='first')
  last = Model(linear, mean=mean, std=std)
  logits_first, logits_last = (model.classifier(IMAGES).predict(IMAGES) for model in (first, last))
  np.testing.assert_allclose(logits_first, logits_last, rtol=1e-5)
  np.testing.assert_allclose(logits_first, linear((IMAGES - mean) / std), rtol=1e-3, atol=1e-3)
  for array in (np.array, jnp.array):
    model = robustness.classifier(linear, mean=array(mean), std=array(std))
    np.testing.assert_array_equal(model.classifier(IMAGES).predict(IMAGES), logits_last)
  single = robustness.classifier(linear, mean=0.5, std=np.float64(0.25))
  assert (single.mean, single.std) == ((0.5,), (0.25,))
  refused(
    'one for each channel of the images, which have 3',
    Model(linear, mean=(0.1, 0.2)).classifier,
    IMAGES,
  )
  refused('channels', Model, linear, channels='middle')
  failing = Model(lambda x: x.missing, channels='first')
  refused("got .B, C, H, W.; .* channels='last'", failing.classifier, IMAGES)


def test_class_names_come_from_the_model_or_else_from_the_data():
  names_of_data = ('a', 'b', 'c', 'd')
  assert Model(linear).classifier(IMAGES, names_of_data).class_names == names_of_data
  named = Model(linear, class_names=('w', 'x', 'y', 'z')).classifier(IMAGES, names_of_data)
  assert named.class_names == ('w', 'x', 'y', 'z')
  refused('4 outputs, and there are 3', Model(linear).classifier, IMAGES, names_of_data[:3])


def test_a_module_of_pytorch_may_take_channels_last():
  torch = pytest.importorskip('torch', reason='needs torch')
  module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 4)).eval()
  expected = module(torch.from_numpy(IMAGES)).detach().numpy()
  made = Model(module, channels='last').classifier(IMAGES)
  np.testing.assert_allclose(made.predict(IMAGES), expected, rtol=1e-5, atol=1e-6)


def test_modules_of_pytorch_take_channels_first_and_keep_their_layers():
  torch = pytest.importorskip('torch', reason='needs torch')
  layers = torch.nn.Conv2d(3, 2, 3), torch.nn.Dropout(), torch.nn.Flatten(), torch.nn.Linear(72, 4)
  module = torch.nn.Sequential(*layers)
  refused('training mode', Model(module).classifier, IMAGES)
  half = copy.deepcopy(module).eval().half()
  refused('float16: call module.float', Model(half).classifier, IMAGES)
  pair = type('Pair', (torch.nn.Module,), {'forward': lambda self, x: (x, x)})()
  refused('gives tuple, not a tensor', Model(pair.eval()).classifier, IMAGES)
  made = Model(module.eval(), mean=(0.5,)).classifier(IMAGES)
  tensor = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2) - 0.5)
  expected = module(tensor).detach().numpy()
  np.testing.assert_allclose(made.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)
  assert made.layers == ('0', '1', '2', '3', 'logits') and made.calls_host


def test_modules_of_keras_are_called_in_evaluation_mode():
  keras = pytest.importorskip('keras', reason='needs keras')
  layers = keras.layers.Flatten(), keras.layers.Dropout(0.5), keras.layers.Dense(4)
  module = keras.Sequential([keras.Input((8, 8, 3)), *layers])
  made = Model(module).classifier(IMAGES)
  kernel, bias = (np.asarray(weight) for weight in module.get_weights())
  expected = IMAGES.reshape(5, -1) @ kernel + bias
  np.testing.assert_allclose(made.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)


def test_modules_of_equinox_take_one_image_with_channels_first():
  equinox = pytest.importorskip('equinox', reason='needs equinox')
  layers = (
    equinox.nn.Lambda(jnp.ravel),
    equinox.nn.Dropout(),
    equinox.nn.Linear(192, 4, key=jax.random.key(0)),
  )
  module = equinox.nn.Sequential(layers)
  refused('training mode', Model(module).classifier, IMAGES)
  module = equinox.nn.inference_mode(module)
  made = Model(module).classifier(IMAGES)
  expected = jax.vmap(module)(IMAGES.transpose(0, 3, 1, 2))
  np.testing.assert_allclose(made.predict(IMAGES), expected, rtol=1e-5, atol=1e-6)


@cases(
  'module, message',
  (lambda x: linear(x) * jnp.nan, 'NaN'),
  (lambda x: linear(x - x.mean(0)), 'beside other images'),
  (lambda x: linear(x) + np.random.default_rng().normal(), 'called again: switch off dropout'),
  (lambda x: x, r'\(2, 8, 8, 3\) for 2 images'),
  (lambda x: (linear(x), None), 'gives a tuple .* returns the outputs alone'),
  (lambda x: {'logits': linear(x)}, 'gives a dict for 2 images'),
  (lambda x: x.missing, 'failed on images .2, 8, 8, 3.: AttributeError'),
  (linen.Dense(4), 'variables'),
  (7, 'no function'),
)
def test_models_that_cannot_classify_images_are_refused(module, message):
  refused(message, lambda: Model(module).classifier(IMAGES))
