"""Tests the study `frequency_shortcuts`: sets are symmetric and hold the classes' waves."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from robustness import parallel
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.estimates.table import assemble, select
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Evaluation
from robustness.fourier import spectrum
from robustness.fourier.filters import filtered_by_half
from robustness.models.classifier import Classifier
from robustness.studies.frequency_shortcuts import FrequencyShortcuts
from tests.cases import cases
from tests.made_records import made
from tests.refusals import bad_setting, refused

STUDY = FrequencyShortcuts(sets=12)
SHAPE, CLASSES = (16, 16, 1), ('slow', 'fast')


@cases('height, width', (16, 16), (16, 20), (15, 13))
def test_a_set_keeps_a_frequency_with_its_opposite(height, width):
  image = np.random.default_rng(0).random((height, width, 2), np.float32)
  masks = FrequencyShortcuts(sets=40).masks(height, width)
  np.testing.assert_array_equal(masks[:12], STUDY.masks(height, width))
  assert abs(masks.mean() - 0.8**3) < 0.08
  for half in masks[:5]:
    plane = spectrum.full_map(half, width)
    spectrum_in_set = np.fft.fft2(image, axes=(0, 1)) * np.fft.ifftshift(plane)[..., None]
    filtered = np.fft.ifft2(spectrum_in_set, axes=(0, 1))
    assert np.abs(filtered.imag).max() < 1e-6
    np.testing.assert_allclose(filtered_by_half(image, half), filtered.real, atol=1e-5)


def waves(cycles):
  """Returns a cosine [16] of some cycles."""
  return np.cos(2 * np.pi * cycles * np.arange(16) / 16)


def rows(count=40):
  """Returns images of waves of 2 cycles (slow) and of 5 (fast), in turn."""
  labels = np.arange(count) % 2
  columns = np.stack([waves(2), waves(5)])[labels]
  images = 0.5 + 0.2 * np.broadcast_to(columns[:, None, :, None], (count, *SHAPE))
  return ArrayRows(images.astype(np.float32), labels, CLASSES)


def test_the_set_of_a_class_holds_the_frequency_of_the_class(tmp_path):
  def forward(variables, images, layers):
    energy = [jnp.abs((images[..., 0] * waves(c)[None, None]).mean((1, 2))) for c in (2, 5)]
    slow, fast = energy
    return 100 * jnp.stack([slow - 0.03, fast - 0.03], 1), {}

  classifier = Classifier('waves', forward, None, SHAPE, CLASSES, provenance={'made': 'here'})
  views, key = STUDY.views(SHAPE), random_keys.stream(0, STUDY.name)
  evaluator = Evaluator(classifier, views, key, parallel.create('jit'))
  records = Records(tmp_path, evaluator.layout(40), {'classes': list(CLASSES)})
  evaluator.evaluate(rows(), records)
  assert STUDY.view_table(SHAPE).clean == 0 and len(STUDY.view_table(SHAPE).names) == 13
  findings = STUDY.reduce([Evaluation('waves', records)], SHAPE)
  table = assemble(findings.estimates)
  for quantity in ('accuracy_through_set', 'accuracy_when_whole'):
    by_class = select(table, quantity, **{'class': ...})
    assert by_class.value.tolist() == [1, 1] and by_class.n.tolist() == [10, 10], 'half of 20'
  mistaken = select(table, 'taken_for_class', **{'class': ...})
  assert mistaken.n.tolist() == [10, 10] and set(mistaken.value) <= {0, 1}
  sets = findings.arrays['sets/waves']
  assert sets.shape == (2, 16, 9) and sets[0, 0, 2] and sets[1, 0, 5]


def test_the_order_and_names_of_classes_may_differ_between_classifiers(tmp_path):
  label, study = np.arange(20) % 2, FrequencyShortcuts(sets=3, grids=(2,))
  random = np.random.default_rng(0)
  columns = {'rank': np.zeros((20, 4), int), 'probability': random.random((20, 4))}
  evaluations = [
    made(
      tmp_path / '-'.join(classes),
      {**columns, 'label': labels, 'prediction': np.repeat(labels[:, None], 4, 1)},
      classes=list(classes),
    )
    for labels, classes in ((label, CLASSES), (3 - label, ('a', 'b', 'n2', 'n1')))
  ]
  findings = study.reduce(evaluations, (8, 8, 1))
  table = assemble(findings.estimates)
  assert select(table, 'taken_for_class', **{'class': ...}).value.tolist() == [0] * 4
  first, second = findings.arrays.values()
  np.testing.assert_array_equal(first, second)
  merged = made(tmp_path / 'merged', {**columns, 'label': 0 * label, 'prediction': columns['rank']})
  refused('these rows are of one class', study.reduce, [merged], (8, 8, 1))


def test_rows_that_cannot_be_halved_are_refused():
  message = "chooses on half of the images of a class, and 'slow' has one"
  refused(message, STUDY.check, rows(3).at(np.array([0, 1])), {})
  refused('these rows are of one class', STUDY.check, rows(8).at(np.arange(0, 8, 2)), {})
  multilabel = dataclasses.replace(rows(4), labels=np.array([[0, 1]] * 4), example_ids=np.arange(4))
  refused('these rows have several labels', STUDY.check, multilabel, {})
  refused(bad_setting('config.study.grids', (9,)), FrequencyShortcuts(grids=(9,)).views, (8, 10, 3))
