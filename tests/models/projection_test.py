"""Projection onto coarser label spaces."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models import label_space
from robustness.models.classifier import Classifier
from robustness.models.imagenet_names import NAMES
from robustness.models.label_space import LabelSpace
from robustness.models.projection import project, project_logits, restrict

SPACE = LabelSpace('pairs', ('a', 'b', 'none'), {}, ((0, 2), (1,), ()), 'four')
LOGITS = jnp.array([[1.0, 3.0, 2.0, 9.0], [0.0, -1.0, 5.0, 0.0]])


@pytest.mark.parametrize(
  ('merge', 'expected'),
  [
    ('max', [[2.0, 3.0], [5.0, -1.0]]),
    ('sum', [[np.logaddexp(1, 2), 3.0], [np.logaddexp(0, 5), -1.0]]),
    ('mean', [[np.logaddexp(1, 2) - np.log(2), 3.0], [np.logaddexp(0, 5) - np.log(2), -1.0]]),
  ],
)
def test_reference_values_and_no_member_is_minus_infinity(merge, expected):
  got = np.asarray(jax.jit(lambda x: project_logits(x, SPACE, merge))(LOGITS))
  np.testing.assert_allclose(got[:, :2], expected, rtol=1e-6)
  assert (got[:, 2] == -np.inf).all()


@pytest.mark.parametrize(
  ('logits', 'space', 'merge', 'message'),
  [
    (LOGITS, SPACE, 'median', "'median'.*'max'"),
    (LOGITS[:, :2], SPACE, 'max', 'class 2 among others; there are 2 classes'),
    (LOGITS, LabelSpace('flat', ('a',)), 'max', "'flat' has no members"),
  ],
)
def test_what_cannot_be_merged_is_refused(logits, space, merge, message):
  with pytest.raises(InputError, match=message):
    project_logits(logits, space, merge)


def imagenet_classifier(names=NAMES) -> Classifier:
  def forward(variables, images, layers):
    brightness = images.mean((1, 2, 3))
    logits = jnp.zeros((len(images), len(names))).at[:, 404 % len(names)].set(brightness)
    return logits, {'logits': logits} if 'logits' in layers else {}

  return Classifier('network', forward, None, (2, 2, 1), names)


def test_a_projected_classifier_predicts_coarse_classes():
  coarse = project(imagenet_classifier(), 'imagenet_vid', 'sum')
  logits, layers = coarse.forward(None, jnp.full((3, 2, 2, 1), 50.0), ('logits',))
  assert logits.shape == layers['logits'].shape == (3, 30)
  assert coarse.class_names[int(logits[0].argmax())] == 'airplane'
  assert coarse.provenance == {'label_space': 'imagenet_vid', 'merge': 'sum'}
  assert coarse.aliases == label_space.get('imagenet_vid').aliases


def test_a_callable_is_projected_on_the_host():
  scores = np.zeros((1, 1000), np.float32)
  scores[0, 404] = 5
  own = Classifier.from_callable(lambda x: np.repeat(scores, len(x), 0), (2, 2, 1), NAMES)
  coarse = project(own, 'imagenet_vid')
  logits = coarse.predict(np.zeros((2, 2, 2, 1), np.float32))
  assert logits.shape == (2, 30) and (logits.argmax(1) == 0).all()


def test_other_classes_than_the_spaces_are_refused():
  with pytest.raises(InputError, match='network tells 10 classes apart.*classes of imagenet'):
    project(imagenet_classifier(tuple('abcdefghij')), 'imagenet_vid')
  with pytest.raises(InputError, match="'imagenet' is made of the classes of no other"):
    project(imagenet_classifier(), 'imagenet')


def test_unprojected_logits_can_be_recorded():
  fine = imagenet_classifier()
  coarse = project(fine, 'imagenet_vid')
  images = jnp.full((2, 2, 2, 1), 50.0)
  layers = coarse.forward(None, images, ('unprojected_logits', 'logits'))[1]
  assert {name: x.shape[1] for name, x in layers.items()} == {
    'unprojected_logits': 1000,
    'logits': 30,
  }
  assert coarse.select_outputs(('unprojected_logits',)) == ('unprojected_logits',)
  assert fine.select_outputs(('unprojected_logits',)) == ('logits',)


def test_a_classifier_chooses_among_the_classes_of_the_data():
  classifier = imagenet_classifier()
  some = restrict(classifier, (NAMES[7], NAMES[404], NAMES[2]))
  got = some.predict(np.full((2, *classifier.input_shape), 0.5, np.float32))
  np.testing.assert_allclose(got, [[0, 0.5, 0]] * 2)
  assert some.class_names == (NAMES[7], NAMES[404], NAMES[2])
  assert some.provenance['label_space'] == 'data'
  with pytest.raises(InputError, match="1 of 2 classes of the data are none .* first 'tenche'"):
    restrict(classifier, ('tenche', NAMES[2]))
  with pytest.raises(InputError, match='one class of'):
    restrict(classifier, (NAMES[2], NAMES[2]))
