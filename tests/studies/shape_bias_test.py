"""Tests the study `shape_bias`: counts by hand, published values, and refusals."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from robustness.core.rows import ArrayRows
from robustness.estimates.intervals import clopper_pearson
from robustness.models import label_space
from robustness.studies.shape_bias import ShapeBias
from tests.refusals import refused
from tests.studies.conftest import classifier, measured, rows, table_of
from tests.table_rows import estimate

CLASSES = np.asarray(rows().class_names)
SHAPES = CLASSES[rows().labels]
TEXTURES = np.roll(SHAPES, 7)
WITH_TEXTURES = dataclasses.replace(rows(), columns={'texture': TEXTURES})
ANSWERS = [CLASSES[np.argmax(classifier('', seed).predict(rows().images), 1)] for seed in (0, 1)]
"""Names that the first and the second network answer."""
IS_CONFLICT = SHAPES != TEXTURES


def counts(answers: np.ndarray, mask: np.ndarray) -> tuple[int, int]:
  """Returns how many answers name the shape and the texture, of pictures with a conflict."""
  mask = mask & IS_CONFLICT
  return (answers == SHAPES)[mask].sum(), (answers == TEXTURES)[mask].sum()


@pytest.fixture(scope='module')
def table():
  return measured(ShapeBias(), array_rows=WITH_TEXTURES)[0].table


def test_bias_is_the_share_of_shapes_among_shapes_and_textures(table):
  everywhere = np.ones(len(SHAPES), bool)
  for seed, label in enumerate(('first', 'second')):
    shape, texture = counts(ANSWERS[seed], everywhere)
    bias, decided = (estimate(table, label, name) for name in ('shape_bias', 'decided'))
    assert (bias.value, bias.n) == (shape / (shape + texture), shape + texture)
    np.testing.assert_allclose([bias.low, bias.high], clopper_pearson(shape, shape + texture))
    assert decided.value == (shape + texture) / IS_CONFLICT.sum()
  difference = estimate(table, 'second', 'shape_bias', 'first')
  first, second = (np.divide(*counts(a, everywhere)) for a in ANSWERS)
  assert difference.value == pytest.approx(second / (1 + second) - first / (1 + first))
  assert difference.low < difference.value < difference.high


def test_bias_by_class_is_of_the_pictures_with_its_shape(table):
  for name in np.unique(SHAPES[IS_CONFLICT]):
    shape, texture = counts(ANSWERS[0], name == SHAPES)
    row = estimate(table, 'first', 'shape_bias', **{'class': name})
    assert row.n == shape + texture
    assert row.value == pytest.approx(shape / (shape + texture), nan_ok=True)


def test_textures_are_found_by_the_names_that_labels_are_found_by():
  space = label_space.get('imagenet_vid')
  dog, fox = (space.class_names.index(name) for name in ('dog', 'fox'))
  wordnet = {label: identifier for identifier, label in space.aliases.items()}
  shapes, textures, answers = [dog] * 4, [dog, fox, fox, fox], [dog, dog, fox, 0]
  columns = {
    'label': np.array(shapes),
    'texture': np.array([wordnet[label] for label in textures]),
    'prediction': np.array(answers)[:, None],
  }
  records = SimpleNamespace(
    identity={'classes': list(space.class_names)}, column=columns.get, table=columns.get
  )
  networks = [SimpleNamespace(label=label, records=records) for label in ('network', 'other')]
  table = table_of(ShapeBias(), networks)
  bias, decided = (estimate(table, 'network', name) for name in ('shape_bias', 'decided'))
  assert (bias.value, bias.n) == (0.5, 2)
  assert (decided.value, decided.n) == (pytest.approx(2 / 3), 3)
  # Two networks that answer alike on three pictures may differ on others.
  difference = estimate(table, 'other', 'shape_bias', 'network')
  assert difference.value == 0 and np.isnan([difference.low, difference.high]).all()
  assert difference.note == 'no interval: all resamples are equal'


def test_published_values_have_no_intervals(table):
  humans = estimate(table, 'humans', 'shape_bias')
  assert humans.value == 0.959 and np.isnan(humans.low)
  assert estimate(table, 'humans', 'decided', **{'class': 'boat'}).value == 0.532
  assert estimate(table, 'ResNet-50 on stylized', 'shape_bias').value == 0.814
  assert not (
    (table.classifier == 'ResNet-50 on stylized') & (table['quantity'] == 'decided')
  ).any()


def test_rows_without_a_conflict_are_refused():
  study = ShapeBias()
  refused("no column 'texture'.*config.data.source=cue_conflict", study.check, rows(), {})
  agreeing = dataclasses.replace(rows(), columns={'texture': SHAPES})
  refused('no picture has the texture of another class', study.check, agreeing, {})
  numbers = dataclasses.replace(rows(), columns={'texture': np.arange(len(SHAPES))})
  refused("no column 'texture'", study.check, numbers, {})
  unknown = np.where(CLASSES[0] == TEXTURES, 'Poodle', TEXTURES)
  no_class = dataclasses.replace(rows(), columns={'texture': unknown})
  refused("column 'texture' names 'Poodle', which is no class", study.check, no_class, {})
  double_labels = ArrayRows(
    rows().images, rows().labels[:, None], rows().class_names, columns={'texture': TEXTURES}
  )
  refused('several labels', study.check, double_labels, {})


def test_classifiers_may_number_their_classes_differently():
  shapes, textures = np.array(['cat', 'dog', 'fox', 'cat']), np.array(['dog', 'fox', 'cat', 'fox'])
  answers = np.array(['cat', 'fox', 'fox', 'dog'])

  def network(classes: list[str]) -> SimpleNamespace:
    labels, predictions = (np.array([*map(classes.index, x)]) for x in (shapes, answers))
    columns = {'label': labels, 'texture': textures, 'prediction': predictions[:, None]}
    records = SimpleNamespace(identity={'classes': classes}, column=columns.get, table=columns.get)
    return SimpleNamespace(label=' '.join(classes), records=records)

  orders = [['cat', 'dog', 'fox'], ['fox', 'bird', 'cat', 'dog']]
  table = table_of(ShapeBias(), [network(classes) for classes in orders])
  for classes in orders:
    bias = estimate(table, ' '.join(classes), 'shape_bias')
    assert (bias.value, bias.n) == (pytest.approx(2 / 3), 3)
