"""A Keras model and a model behind HTTP give the records of the native network."""

from __future__ import annotations

import http.server
import io
import pathlib
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models.classifier import Classifier
from tests.evaluation.callable_step_test import assert_same, columns, evaluator
from tests.networks import CLASSES, SHAPE, tiny_classifier, tiny_rows


@pytest.fixture
def native_records(tmp_path: pathlib.Path) -> dict[str, np.ndarray]:
  return columns(evaluator(tiny_classifier()), tmp_path / 'native', tiny_rows())


def keras_model(keras: Any) -> Any:
  """The tiny network with the tiny classifier's weights and normalisation."""
  mean, std = np.asarray((0.5, 0.4, 0.3)), np.asarray((0.2, 0.3, 0.4))
  layers = keras.layers
  model = keras.Sequential(
    [
      keras.Input(SHAPE),
      layers.Rescaling((1 / std).tolist(), (-mean / std).tolist()),
      layers.Conv2D(8, 3, padding='same', activation='relu'),
      layers.GlobalAveragePooling2D(),
      layers.Rescaling(8.0),
      layers.Dense(len(CLASSES)),
    ]
  )
  params = tiny_classifier().variables['params']
  for index, name in ((1, 'stage1'), (4, 'head')):
    model.layers[index].set_weights([np.asarray(params[name][leaf]) for leaf in ('kernel', 'bias')])
  return model


@pytest.mark.filterwarnings('default')  # Keras and its backend announce what they will change
def test_a_keras_model(native_records, tmp_path: pathlib.Path) -> None:
  keras = pytest.importorskip('keras', reason="needs Keras (pip install '.[parity]')")
  model = keras_model(keras)
  classifier = Classifier.from_callable(
    lambda images: model.predict_on_batch(images), SHAPE, CLASSES, name='keras'
  )
  assert_same(columns(evaluator(classifier), tmp_path / 'found', tiny_rows()), native_records)


class Served(http.server.BaseHTTPRequestHandler):
  """Answers images in NumPy's file format with logits in the same."""

  forward: Any = None

  def do_POST(self) -> None:
    body = self.rfile.read(int(self.headers['Content-Length']))
    images, answer = np.load(io.BytesIO(body)), io.BytesIO()
    np.save(answer, np.asarray(type(self).forward(images)))
    self.send_response(200)
    self.send_header('Content-Length', str(len(answer.getvalue())))
    self.end_headers()
    self.wfile.write(answer.getvalue())

  def log_message(self, *unused: Any) -> None:
    """Keeps quiet."""


@pytest.fixture
def address() -> Iterator[str]:
  """A server on this machine with the tiny network, until the test ends."""
  network = tiny_classifier()
  forward = jax.jit(lambda images: network.forward(network.variables, images, ())[0])
  handler = type('Tiny', (Served,), {'forward': staticmethod(forward)})
  with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f'http://127.0.0.1:{server.server_port}/'
    server.shutdown()
    thread.join()


def asking(address: str) -> Classifier:
  def predict(images: np.ndarray) -> np.ndarray:
    body = io.BytesIO()
    np.save(body, images)
    with urllib.request.urlopen(address, body.getvalue(), timeout=30) as answer:
      return np.load(io.BytesIO(answer.read()))

  return Classifier.from_callable(predict, SHAPE, CLASSES, name='served')


def test_a_served_model(address: str, native_records, tmp_path: pathlib.Path) -> None:
  one = evaluator(asking(address))
  assert_same(columns(one, tmp_path / 'found', tiny_rows()), native_records)


def test_a_server_that_is_down_is_said_with_the_examples(tmp_path: pathlib.Path) -> None:
  with http.server.HTTPServer(('127.0.0.1', 0), Served) as server:
    closed = f'http://127.0.0.1:{server.server_port}/'
  with pytest.raises(InputError, match=r'served .*(URLError|refused)'):
    columns(evaluator(asking(closed)), tmp_path / 'found', tiny_rows())
