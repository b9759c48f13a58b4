"""Tests functions on NumPy arrays as classifiers, and the images that classifiers refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.models.callables import CheckedFunction
from robustness.models.classifier import Classifier
from robustness.models.inputs import Inputs
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_classifier
from tests.refusals import bad_setting, refused

IMAGES = np.random.default_rng(0).random((5, *SHAPE), np.float32)


def score(images):
  """Returns logits of four classes, 0 to 3 times an image's mean."""
  return images.mean((1, 2, 3))[:, None] * np.arange(len(CLASSES), dtype=np.float32)


def test_calls_have_the_batch_size_and_may_change_their_images():
  sizes, before = [], IMAGES.copy()

  def doubling(images):
    sizes.append(len(images))
    logits = score(images)
    images *= 2
    return logits

  logits = CheckedFunction(doubling, 4, batch_size=2)(IMAGES)
  assert sizes == [2, 2, 2], 'the last batch is padded'
  np.testing.assert_array_equal(logits, score(IMAGES))
  np.testing.assert_array_equal(IMAGES, before)


@pytest.mark.parametrize('dtype', [np.float16, np.float64, jnp.bfloat16])
def test_other_floats_become_float32(dtype):
  assert CheckedFunction(lambda x: score(x).astype(dtype), 4)(IMAGES).dtype == np.float32


def test_probabilities_become_their_logarithms():
  rows = np.asarray([[0, 0.25, 0.75], [1, 0, 0]], np.float32)
  logits = CheckedFunction(lambda x: rows, 3, 'probabilities')(IMAGES[:2])
  np.testing.assert_array_equal(logits[:, 0], [-np.inf, 0])
  np.testing.assert_allclose(jax.nn.softmax(logits), rows, atol=1e-7)


@pytest.mark.parametrize('row', [[0.5, 0.6, 0.1], [1.5, -0.5, 0], [3, 2, 1]])
def test_rows_that_are_not_probabilities_are_refused(row):
  rows = np.asarray([[0.2, 0.3, 0.5], row], np.float32)
  message = "sum .*outputs='logits'"
  refused(message, CheckedFunction(lambda x: rows, 3, 'probabilities'), IMAGES[:2])


@pytest.mark.parametrize('row', [[0.2, 0.3, 0.5], [np.nan, 1, 2]])
def test_one_row_of_logits_may_look_like_probabilities_or_hold_nan(row):
  rows = np.asarray([row, [4, -1, 2]], np.float32)
  np.testing.assert_array_equal(CheckedFunction(lambda x: rows, 3)(IMAGES[:2]), rows)


@cases(
  'change, message',
  ({'outputs': 'softmax'}, bad_setting('outputs', 'softmax')),
  ({'batch_size': -1}, 'batch_size is -1'),
  ({'class_names': ()}, 'has no classes'),
  ({'class_names': ('a', 'b', 'a')}, "callable call the classes 0 and 2 all 'a'"),
  ({'function': 'network.onnx'}, "'network.onnx' is no function"),
)
def test_bad_arguments_are_refused_at_once(change, message):
  arguments = {'function': score, 'input_shape': SHAPE, 'class_names': CLASSES, **change}
  refused(message, Classifier.from_callable, **arguments)


NETWORK = tiny_classifier()
CALLABLE = Classifier.from_callable(score, SHAPE, CLASSES, provenance={'sha256': 'ab'})


@pytest.mark.parametrize('classifier', [NETWORK, CALLABLE])
@cases(
  'images, message',
  (IMAGES * 255, r'values lie in \[.*must lie in \[0, 1\]: divide'),
  (IMAGES - 0.5, r'\[0, 1\]'),
  (np.full_like(IMAGES, np.nan), f'{IMAGES.size} of {IMAGES.size} image values are NaN'),
  ((IMAGES * 255).astype(np.uint8), 'takes float32 images .*got uint8'),
  (IMAGES.transpose(0, 3, 1, 2), r'got float32 of shape \(5, 3, 6, 5\)'),
)
def test_bad_image_batches_are_refused(classifier, images, message):
  refused(message, classifier.predict, images)


def test_no_images_have_no_logits():
  assert CALLABLE.predict(IMAGES[:0]).shape == (0, len(CLASSES))


@cases('name', 'mean', 'std')
def test_a_mean_or_std_has_one_value_or_one_for_each_channel(name):
  message = f'{name} is .*channel.*{SHAPE[2]}'
  refused(message, Inputs(**{name: (0.5,) * (SHAPE[2] + 1)}), IMAGES)


def test_predict_returns_the_logits_of_networks_and_callables():
  expected = NETWORK.forward(NETWORK.variables, IMAGES, ())[0]
  np.testing.assert_allclose(NETWORK.predict(IMAGES), expected, rtol=1e-6)
  np.testing.assert_array_equal(CALLABLE.predict(IMAGES), score(IMAGES))
  assert CALLABLE.provenance == {'kind': 'callable', 'outputs': 'logits', 'sha256': 'ab'}
