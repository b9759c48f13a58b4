"""Tests classifiers in a user's Python file, which 16 numbers from fixed images identify."""

import numpy as np
import pytest

from robustness.classifiers import ClassifierSettings, Images, from_file, resolve_section
from robustness.evaluation.layout import Layout
from robustness.evaluation.records import TOLERANCES, Records
from robustness.models.classifier import Classifier
from tests.cases import cases
from tests.networks import SHAPE
from tests.refusals import refused

SOURCE = """
import jax, jax.numpy as jnp, numpy as np
import robustness
from robustness.models.classifier import Classifier

def score(images):
  return images.mean((1, 2, 3))[:, None] * np.arange(3, dtype=np.float32)

def make():
  return Classifier.from_callable(score, (6, 5, 3), ('a', 'b', 'c'), provenance={'version': 2})

ready = make()
number = 3

def broken():
  raise RuntimeError('no weights here')

def of_64(images):
  assert len(images) == 64, 'not 64 images'
  return np.zeros((len(images), 2), np.float32)

fixed = Classifier.from_callable(of_64, (6, 5, 3), 'ab', batch_size=64)
unfixed = Classifier.from_callable(of_64, (6, 5, 3), 'ab')

def scores(x, k): return x.mean((1, 2, 3))[:, None] * jnp.arange(k)[None] * 8
def classifier(f):
  return Classifier('traced', lambda v, x, l: (f(x), {}), {}, (6, 5, 3), ('a', 'b', 'c'))
def softmax(): return classifier(lambda x: jax.nn.softmax(scores(x, 3)))
def four_logits(): return classifier(lambda x: scores(x, 4))
def integers(): return classifier(lambda x: scores(x, 3).astype(jnp.int32))
def traced(): return classifier(lambda x: scores(x, 3))
def model():
  return robustness.classifier(lambda x: scores(x, 3), mean=[0.5], class_names=('a', 'b', 'c'))
def of_any_size(): return robustness.classifier(lambda x: scores(x, 3))
"""
WEIGHTS = np.random.default_rng(3).normal(size=(90, 4)).astype(np.float32)


@pytest.fixture
def file(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(SOURCE)
  return path


def load(reference: str) -> Classifier:
  kind = resolve_section(ClassifierSettings(name=reference))
  assert isinstance(kind, from_file.FromFile)
  return kind.load('mine', Images(SHAPE, ()), 'float32')


@pytest.mark.parametrize('name', ['make', 'ready'])
def test_a_classifier_or_a_function_that_returns_one_is_loaded(file, name):
  classifier = load(f'{file}:{name}')
  assert classifier.name == 'mine' and classifier.num_classes == 3
  images = np.full((2, *SHAPE), 0.5, np.float32)
  np.testing.assert_allclose(classifier.predict(images), [[0, 0.5, 1.0]] * 2, rtol=1e-6)
  assert classifier.provenance['version'] == 2


def test_the_provenance_changes_with_the_file(file):
  before = load(f'{file}:make').provenance
  file.write_text(SOURCE + '\n# changed\n')
  assert load(f'{file}:make').provenance != before


@cases(
  'name, message',
  ('mak', "has no 'mak'.*'make'"),
  ('number', 'number in .*mine.py is a int, not a Classifier'),
  ('score', 'raised TypeError'),
  ('broken', 'mine.py, line .* in broken, raised RuntimeError: no weights here'),
  ('softmax', 'probabilities .* where logits are expected'),
  ('four_logits', r'gives \(4, 4\) for 4 images and 3 class names'),
  ('integers', 'gives int32; logits are floats'),
  ('unfixed', 'AssertionError: not 64 images.*give batch_size='),
)
def test_other_objects_are_refused_by_name(file, name, message):
  error = refused(message, load, f'{file}:{name}')
  assert ('batch_size' in error) == (name == 'unfixed'), 'advice for functions on the host alone'


@pytest.mark.parametrize('name', ['traced', 'fixed'])
def test_classifiers_are_identified_by_sixteen_numbers(file, name):
  assert len(load(f'{file}:{name}').provenance[from_file.KEY]) == 16


def on_host(function, **options):
  return Classifier.from_callable(function, SHAPE, 'abcd', **options)


def probed(weights):
  """Returns the sixteen numbers of a linear classifier with weights [90, 4]."""
  weights = weights.astype(np.float32)
  return from_file.probe(on_host(lambda images: images.reshape(len(images), -1) @ weights))


def test_the_sixteen_numbers_are_finite_and_the_same_each_time():
  first = probed(WEIGHTS)
  assert len(first) == 16 and np.isfinite(first).all() and len(set(first)) == 16
  assert probed(WEIGHTS) == first


def test_the_fixed_images_are_four_different_ones_in_range():
  images = from_file.fixed_images(SHAPE)
  assert images.dtype == np.float32 and images.shape == (4, *SHAPE)
  assert images.min() >= 0 and images.max() <= 1
  assert len({image.tobytes() for image in images}) == 4


@cases('change, is_equal', (1e-6, True), (1e-4, True), (1e-2, False), (1.0, False))
def test_records_continue_with_the_same_network_and_refuse_another(tmp_path, change, is_equal):
  other = WEIGHTS * (1 + change * np.sign(np.random.default_rng(4).normal(size=WEIGHTS.shape)))
  layout = Layout(1, 1, 1, 1)
  first, second = ({'classifier': {from_file.KEY: probed(w)}} for w in (WEIGHTS, other))
  Records(tmp_path, layout, first).write(0, 0, {'rank': np.zeros((1, 1), np.int32)})
  if is_equal:
    assert Records(tmp_path, layout, second).identity == first, 'the recorded numbers stay'
  else:
    refused(from_file.KEY, Records, tmp_path, layout, second)
  assert TOLERANCES == {from_file.KEY: from_file.TOLERANCE}


def test_certain_predictions_have_finite_numbers_and_random_ones_have_a_word():
  certain = on_host(lambda x: np.eye(4)[np.zeros(len(x), int)], outputs='probabilities')
  assert np.isfinite(from_file.probe(certain)).all()
  generator = np.random.default_rng(0)
  random = on_host(lambda x: generator.normal(size=(len(x), 4)))
  assert from_file.probe(random) == from_file.RANDOM


def test_a_model_of_the_python_api_takes_the_images_and_classes_of_the_run(file):
  images = Images((4, 7, 1), ('x', 'y', 'z'))
  for name, classes in (('model', ('a', 'b', 'c')), ('of_any_size', images.class_names)):
    kind = resolve_section(ClassifierSettings(name=f'{file}:{name}'))
    made = kind.load('mine', images, 'float32')
    assert (made.input_shape, made.class_names, made.name) == (images.shape, classes, 'mine')
    assert kind.channels == 1 and len(made.provenance['outputs_on_fixed_images']) == 16
