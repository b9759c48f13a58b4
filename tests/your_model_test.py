"""The files of docs/your_model.md give what the models in them give by themselves."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from robustness.models import from_file
from robustness.models.classifier import Classifier

PAGE = pathlib.Path(__file__).resolve().parent.parent / 'docs/your_model.md'
MEAN, STD = np.float32((0.4914, 0.4822, 0.4465)), np.float32((0.2470, 0.2435, 0.2616))
IMAGES = np.random.default_rng(0).random((3, 32, 32, 3), np.float32)


def files(section: str) -> list[str]:
  """Returns the Python files that a section of the page prints."""
  text = PAGE.read_text(encoding='utf-8').split(f'\n## {section}\n')[1].split('\n## ')[0]
  return re.findall(r'^```python\n(.*?)^```', text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
  monkeypatch.chdir(tmp_path)
  from_file.forget()
  return tmp_path


def run(source: str) -> dict[str, Any]:
  """Runs a printed file as it stands and returns its names."""
  space: dict[str, Any] = {'__name__': 'mine'}
  exec(compile(source, 'mine.py', 'exec'), space)
  return space


def load(source: str) -> Classifier:
  pathlib.Path('mine.py').write_text(source)
  classifier = from_file.load('mine.py:network', 'mine')
  assert classifier.num_classes == len(set(classifier.class_names))
  return classifier


def normalised(images: np.ndarray) -> np.ndarray:
  return (images - MEAN) / STD


def assert_close(logits: np.ndarray, expected: np.ndarray) -> None:
  assert np.ptp(expected) > 1e-3
  np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_pytorch(folder: pathlib.Path) -> None:
  torch = pytest.importorskip('torch', reason='needs torch')
  (source,) = files('PyTorch')
  torch.manual_seed(0)
  module = run(source)['module']()
  torch.save(module.state_dict(), 'network.pt')
  with torch.inference_mode():
    inputs = torch.from_numpy(np.ascontiguousarray(normalised(IMAGES).transpose(0, 3, 1, 2)))
    expected = module.eval()(inputs).numpy()
  assert_close(load(source).predict(IMAGES), expected)


def test_timm(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  timm = pytest.importorskip('timm', reason='needs timm')
  torch = pytest.importorskip('torch', reason='needs torch')
  (source,) = files('timm')
  torch.manual_seed(0)
  module = timm.create_model('resnet18.a1_in1k', pretrained=False)
  monkeypatch.setattr(timm, 'create_model', lambda name, pretrained: module)  # fetches nothing
  classifier = load(source)
  assert classifier.input_shape == (224, 224, 3) and classifier.class_names[0] == 'n01440764'
  images = np.random.default_rng(0).random((2, 224, 224, 3), np.float32)
  inputs = (images - np.float32((0.485, 0.456, 0.406))) / np.float32((0.229, 0.224, 0.225))
  with torch.inference_mode():
    expected = module(torch.from_numpy(np.ascontiguousarray(inputs.transpose(0, 3, 1, 2)))).numpy()
  assert_close(classifier.predict(images), expected)


def test_onnx(folder: pathlib.Path) -> None:
  onnx = pytest.importorskip('onnx', reason='needs onnx')
  pytest.importorskip('onnxruntime', reason='needs onnxruntime')
  (source,) = files('ONNX')
  weights = np.random.default_rng(1).normal(size=(3, 10)).astype(np.float32)
  helper = onnx.helper
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
classifier = network()
logits = classifier.predict(images)
np.testing.assert_allclose(np.exp(logits), expected, rtol=1e-4)
np.testing.assert_allclose(expected.sum(1), 1, rtol=1e-5)
assert np.ptp(expected) > 1e-3
if classifier.host_function is None:
  import jax
  gradient = jax.grad(lambda x: classifier.forward(classifier.variables, x, ())[0][:, 0].sum())
  assert float(abs(gradient(images)).max()) > 0
print(keras.backend.backend(), classifier.host_function is None)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
  ('number', 'backend', 'native'), [(0, 'tensorflow', False), (0, 'jax', False), (1, 'jax', True)]
)
def test_keras(folder: pathlib.Path, number: int, backend: str, native: bool) -> None:
  """In a process of its own: Keras chooses its backend once."""
  pytest.importorskip('keras', minversion='3', reason='needs Keras 3')
  pytest.importorskip(backend, reason=f'needs {backend}')
  script = KERAS.format(source=files('Keras 3')[number])
  answer = subprocess.run(
    [sys.executable, '-c', script],
    env={**os.environ, 'KERAS_BACKEND': backend, 'PYTHONPATH': str(PAGE.parent.parent)},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    timeout=300,
    check=False,
  )
  assert answer.returncode == 0, answer.stdout
  assert answer.stdout.split()[-2:] == [backend, str(native)]


def stored_network(generator: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
  """Returns weights of the network that the two Flax sections print, in the names of NNX."""
  shapes = {
    'conv': {'kernel': (3, 3, 3, 16), 'bias': (16,)},
    'norm': {'scale': (16,), 'bias': (16,), 'mean': (16,), 'var': (16,)},
    'head': {'kernel': (16, 10), 'bias': (10,)},
  }
  return {
    part: {
      name: (np.abs if name == 'var' else np.asarray)(
        generator.normal(size=shape).astype(np.float32)
      )
      for name, shape in arrays.items()
    }
    for part, arrays in shapes.items()
  }


def by_hand(weights: dict[str, dict[str, np.ndarray]], images: np.ndarray) -> np.ndarray:
  """The network in NumPy: convolution with zero padding, normalisation, ReLU, mean, linear."""
  padded = np.pad(normalised(images), ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float64)
  windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
  convolved = np.einsum('bijcyx,yxco->bijo', windows, weights['conv']['kernel'])
  norm = weights['norm']
  scaled = (convolved + weights['conv']['bias'] - norm['mean']) / np.sqrt(norm['var'] + 1e-5)
  active = np.maximum(scaled * norm['scale'] + norm['bias'], 0).mean((1, 2))
  return active @ weights['head']['kernel'] + weights['head']['bias']


@pytest.mark.parametrize('section', ['Flax Linen', 'Flax NNX'])
def test_flax(folder: pathlib.Path, section: str) -> None:
  from flax import serialization

  weights = stored_network(np.random.default_rng(2))
  stored: dict[str, Any] = weights
  if section == 'Flax Linen':
    statistics = {name: weights['norm'][name] for name in ('mean', 'var')}
    affine = {name: weights['norm'][name] for name in ('scale', 'bias')}
    stored = {'params': {**weights, 'norm': affine}, 'batch_stats': {'norm': statistics}}
  pathlib.Path('network.msgpack').write_bytes(serialization.msgpack_serialize(stored))
  (source,) = files(section)
  classifier = load(source)
  assert {'conv', 'norm', 'head', 'logits'} <= set(classifier.layers)
  assert_close(classifier.predict(IMAGES), by_hand(weights, IMAGES))


def test_every_section_has_a_test() -> None:
  sections = re.findall(r'^## (.*)$', PAGE.read_text(encoding='utf-8'), re.MULTILINE)
  assert sections == ['PyTorch', 'timm', 'ONNX', 'Keras 3', 'Flax Linen', 'Flax NNX']
  assert [len(files(section)) for section in sections] == [1, 1, 1, 2, 1, 1]
