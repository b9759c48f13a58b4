"""The files of docs/your_model.md give classifiers with the outputs of the models in them."""

import pathlib
import re
from typing import Any

import jax
import numpy as np
import pytest

from robustness.classifiers import ClassifierSettings, Images, from_file, resolve_section
from robustness.models.classifier import Classifier
from tests import commands
from tests.cases import cases

PAGE = commands.ROOT / 'docs/your_model.md'
MEAN, STD = np.float32((0.4914, 0.4822, 0.4465)), np.float32((0.2470, 0.2435, 0.2616))
IMAGES = np.random.default_rng(0).random((3, 32, 32, 3), np.float32)


def files(section: str) -> list[str]:
  """Returns the Python files that a section of the page prints."""
  text = PAGE.read_text(encoding='utf-8').split(f'\n## {section}\n')[1].split('\n## ')[0]
  return re.findall(r'^```python\n(.*?)^```', text, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  from_file.forget()


def load(source: str) -> Classifier:
  """Returns the classifier of a user's file, as a run loads it."""
  pathlib.Path('mine.py').write_text(source)
  kind = resolve_section(ClassifierSettings(name='mine.py:network'))
  classifier = kind.load('mine', Images((32, 32, 3), ()), 'float32')
  assert classifier.num_classes == len(set(classifier.class_names))
  return classifier


def executed(source: str) -> dict[str, Any]:
  """Runs a file and returns its variables by name."""
  variables: dict[str, Any] = {'__name__': 'mine'}
  exec(compile(source, 'mine.py', 'exec'), variables)
  return variables


def normalised(images: np.ndarray, mean: np.ndarray = MEAN, std: np.ndarray = STD) -> np.ndarray:
  return (images - mean) / std


def assert_close(logits: np.ndarray, expected: np.ndarray) -> None:
  assert np.ptp(expected) > 1e-3
  np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_a_pytorch_module_has_its_logits():
  torch = pytest.importorskip('torch', reason='needs torch')
  (source,) = files('PyTorch')
  torch.manual_seed(0)
  module = executed(source)['module']()
  torch.save(module.state_dict(), 'network.pt')
  inputs = torch.from_numpy(normalised(IMAGES).transpose(0, 3, 1, 2).copy())
  assert_close(load(source).predict(IMAGES), module.eval()(inputs).detach().numpy())


def test_an_onnx_graph_has_its_logits():
  onnx = pytest.importorskip('onnx', reason='needs onnx')
  pytest.importorskip('onnxruntime', reason='needs onnxruntime')
  (source,) = files('ONNX')
  weights, helper = np.random.default_rng(1).normal(size=(3, 10)).astype(np.float32), onnx.helper
  shapes = (('images', ('B', 3, 32, 32)), ('logits', ('B', 10)))
  described = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes]
  nodes = [
    helper.make_node('ReduceMean', ['images'], ['mean'], axes=[2, 3], keepdims=0),
    helper.make_node('MatMul', ['mean', 'weights'], ['logits']),
  ]
  stored = [onnx.numpy_helper.from_array(weights, 'weights')]
  graph = helper.make_graph(nodes, 'mean', described[:1], described[1:], stored)
  versions = [helper.make_opsetid('', 13)]
  onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=9), 'network.onnx')
  assert_close(load(source).predict(IMAGES), normalised(IMAGES).mean((1, 2)) @ weights)


KERAS = """
import sys
import numpy as np
{source}
inputs = keras.Input((32, 32, 3))
x = keras.layers.Rescaling(2., -1.)(inputs)
x = keras.layers.BatchNormalization()(keras.layers.Conv2D(8, 3, strides=2)(x))
x = keras.layers.GlobalAveragePooling2D()(keras.layers.Dropout(.5)(x))
keras.Model(inputs, keras.layers.Dense(10, activation='softmax')(x)).save('network.keras')
images = np.random.default_rng(0).random((3, 32, 32, 3), np.float32)
expected = keras.saving.load_model('network.keras').predict(images, verbose=0)
made = network()
classifier = made.classifier(images) if hasattr(made, 'classifier') else made
logits = classifier.predict(images)
np.testing.assert_allclose(np.exp(logits), expected, rtol=1e-4)
np.testing.assert_allclose(expected.sum(1), 1, rtol=1e-5)
assert np.ptp(expected) > 1e-3
if classifier.host_function is None:
  import jax
  gradient = jax.grad(lambda x: classifier.forward(classifier.variables, x, ())[0][:, 0].sum())
  assert float(abs(gradient(images)).max()) > 0
  model = keras.saving.load_model('network.keras')
  model.layers[-1].set_weights([1e4 * w for w in model.layers[-1].get_weights()])
  model.save('network.keras')  # its softmax is exactly 0 and 1
  classifier = network()
  assert float(classifier.predict(images).min()) < -80
  assert np.isfinite(gradient(images)).all()
print(keras.backend.backend(), classifier.host_function is None)
"""


@pytest.mark.slow
@cases('number, backend, native', (0, 'tensorflow', False), (0, 'jax', False), (1, 'jax', True))
def test_a_keras_model_has_its_probabilities(number, backend, native):
  """Runs in a separate process, because Keras chooses its backend once."""
  pytest.importorskip('keras', minversion='3', reason='needs Keras 3')
  pytest.importorskip(backend, reason=f'needs {backend}')
  variables = {'KERAS_BACKEND': backend, 'PYTHONPATH': str(commands.ROOT)}
  program, folder = KERAS.format(source=files('Keras 3')[number]), pathlib.Path.cwd()
  output = commands.python('-c', program, cwd=folder, timeout=300, **variables)
  assert output.split()[-2:] == [backend, str(native)]


@pytest.mark.parametrize('section', ['Flax Linen', 'Flax NNX'])
def test_flax_modules_have_the_logits_of_their_formula(section):
  from flax import serialization

  generator = np.random.default_rng(2)
  shapes = {
    'conv': {'kernel': (3, 3, 3, 16), 'bias': (16,)},
    'norm': {'scale': (16,), 'bias': (16,), 'mean': (16,), 'var': (16,)},
    'head': {'kernel': (16, 10), 'bias': (10,)},
  }
  weights = {
    layer: {name: generator.normal(size=s).astype(np.float32) for name, s in layer_shapes.items()}
    for layer, layer_shapes in shapes.items()
  }
  norm, head = weights['norm'], weights['head']
  norm['var'] = np.abs(norm['var'])
  stored: dict[str, Any] = weights
  if section == 'Flax Linen':
    statistics, affine = ({k: norm[k] for k in ks} for ks in (('mean', 'var'), ('scale', 'bias')))
    stored = {'params': {**weights, 'norm': affine}, 'batch_stats': {'norm': statistics}}
  pathlib.Path('network.msgpack').write_bytes(serialization.msgpack_serialize(stored))
  source = files(section)[0]
  classifier = load(source)
  assert {'conv', 'norm', 'head', 'logits'} <= set(classifier.layers)
  padded = np.pad(normalised(IMAGES), ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float64)
  windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
  convolved = np.einsum('bijcyx,yxco->bijo', windows, weights['conv']['kernel'])
  scaled = (convolved + weights['conv']['bias'] - norm['mean']) / np.sqrt(norm['var'] + 1e-5)
  active = np.maximum(scaled * norm['scale'] + norm['bias'], 0).mean((1, 2))
  assert_close(classifier.predict(IMAGES), active @ head['kernel'] + head['bias'])


def test_every_section_has_a_test():
  sections = re.findall(r'^## (.*)$', PAGE.read_text(encoding='utf-8'), re.MULTILINE)
  by_name, flax = 'timm and transformers by name', ('Flax Linen', 'Flax NNX')
  assert sections == ['PyTorch', by_name, 'ONNX', 'Keras 3', *flax, 'Equinox']
  assert [len(files(section)) for section in sections] == [1, 0, 1, 2, 1, 2, 1]


def test_an_nnx_model_of_a_library_is_wrapped_in_a_module_of_logits():
  nnx = pytest.importorskip('flax.nnx')
  source = files('Flax NNX')[1]
  classifier = load(source)
  model = executed(source)['Theirs'](nnx.Rngs(0))
  expected = model((IMAGES - 0.5) / 0.5, return_features=False)['logits']
  assert_close(classifier.predict(IMAGES), np.asarray(expected))
  assert 'model/patches' in classifier.layers


def test_an_equinox_module_has_its_logits_and_a_gradient():
  eqx = pytest.importorskip('equinox', reason='needs equinox')
  (source,) = files('Equinox')
  model = executed(source)['module'](jax.random.key(3))
  eqx.tree_serialise_leaves('network.eqx', model)
  expected = np.stack([model(image) for image in ((IMAGES - 0.5) / 0.5).transpose(0, 3, 1, 2)])
  classifier = load(source)
  assert_close(classifier.predict(IMAGES), expected)
  gradient = jax.grad(lambda x: classifier.apply(classifier.variables, x, ())[0][:, 0].sum())
  assert np.abs(gradient(IMAGES)).max() > 0
