"""Functions on NumPy arrays as classifiers, called by hand."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models.callables import CheckedFunction
from robustness.models.classifier import Classifier
from tests.networks import CLASSES, SHAPE, tiny_classifier

IMAGES = np.random.default_rng(0).random((5, *SHAPE), np.float32)


def score(images: np.ndarray) -> np.ndarray:
  return images.mean((1, 2, 3))[:, None] * np.arange(len(CLASSES), dtype=np.float32)


def test_calls_have_the_asked_size_and_padding_is_cut_off() -> None:
  sizes = []

  def noted(images: np.ndarray) -> np.ndarray:
    sizes.append(len(images))
    return score(images)

  logits = CheckedFunction(noted, 4, batch_size=2)(IMAGES)
  assert sizes == [2, 2, 2]
  np.testing.assert_array_equal(logits, score(IMAGES))


def test_the_function_may_change_its_images() -> None:
  before = IMAGES.copy()

  def greedy(images: np.ndarray) -> np.ndarray:
    images *= 2
    return score(images)

  CheckedFunction(greedy, 4)(IMAGES)
  np.testing.assert_array_equal(IMAGES, before)


@pytest.mark.parametrize('dtype', [np.float16, np.float64])
def test_other_floats_become_float32(dtype) -> None:
  assert CheckedFunction(lambda x: score(x).astype(dtype), 4)(IMAGES).dtype == np.float32


def test_probabilities_become_their_logarithms() -> None:
  given = np.asarray([[0, 0.25, 0.75], [1, 0, 0]], np.float32)
  logits = CheckedFunction(lambda x: given, 3, 'probabilities')(IMAGES[:2])
  np.testing.assert_array_equal(logits[:, 0], [-np.inf, 0])
  np.testing.assert_allclose(jax.nn.softmax(logits), given, atol=1e-7)


@pytest.mark.parametrize('row', [[0.5, 0.6, 0.1], [1.5, -0.5, 0], [3, 2, 1]])
def test_rows_that_are_no_probabilities_are_refused(row) -> None:
  given = np.asarray([[0.2, 0.3, 0.5], row], np.float32)
  with pytest.raises(InputError, match="sum .*outputs='logits'"):
    CheckedFunction(lambda x: given, 3, 'probabilities')(IMAGES[:2])


def test_one_row_that_looks_like_probabilities_is_no_reason_to_refuse_logits() -> None:
  given = np.asarray([[0.2, 0.3, 0.5], [4, -1, 2]], np.float32)
  np.testing.assert_array_equal(CheckedFunction(lambda x: given, 3)(IMAGES[:2]), given)


def test_nan_is_left_for_the_runner() -> None:
  given = np.asarray([[np.nan, 1, 2], [4, -1, 2]], np.float32)
  np.testing.assert_array_equal(CheckedFunction(lambda x: given, 3)(IMAGES[:2]), given)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'outputs': 'softmax'}, "outputs is 'softmax'.*probabilities"),
    ({'batch_size': -1}, 'batch_size is -1'),
    ({'class_names': ()}, 'has no classes'),
    ({'function': 'network.onnx'}, "'network.onnx' is no function"),
  ],
)
def test_what_cannot_be_a_classifier_is_refused_at_once(change, message) -> None:
  arguments = {'function': score, 'input_shape': SHAPE, 'class_names': CLASSES, **change}
  with pytest.raises(InputError, match=message):
    Classifier.from_callable(**arguments)


@pytest.mark.parametrize(
  'classifier', [tiny_classifier(), Classifier.from_callable(score, SHAPE, CLASSES)]
)
@pytest.mark.parametrize(
  ('images', 'message'),
  [
    (IMAGES * 255, r'values lie in \[.*must lie in \[0, 1\]: divide'),
    (IMAGES - 0.5, r'\[0, 1\]'),
    (np.full_like(IMAGES, np.nan), r'\[nan, nan\]'),
    ((IMAGES * 255).astype(np.uint8), 'takes float32 images .*got uint8'),
    (IMAGES.transpose(0, 3, 1, 2), r'got float32 of shape \(5, 3, 6, 5\)'),
  ],
)
def test_image_batches_that_no_classifier_takes(classifier, images, message) -> None:
  with pytest.raises(InputError, match=message):
    classifier.predict(images)


def test_predict_gives_the_logits_of_either_kind() -> None:
  native = tiny_classifier()
  np.testing.assert_allclose(
    native.predict(IMAGES), native.forward(native.variables, IMAGES, ())[0], rtol=1e-6
  )
  logits = Classifier.from_callable(score, SHAPE, CLASSES).predict(IMAGES)
  np.testing.assert_array_equal(logits, score(IMAGES))


def test_provenance_tells_callables_apart() -> None:
  own = Classifier.from_callable(score, SHAPE, CLASSES, provenance={'sha256': 'ab'})
  assert own.provenance == {'kind': 'callable', 'outputs': 'logits', 'sha256': 'ab'}
