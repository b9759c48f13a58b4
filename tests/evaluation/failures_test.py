"""Tests the lists of most damaged images and most affected classes on records by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.estimates.intervals import korn_graubard
from robustness.estimates.table import assemble
from robustness.evaluation import failures as listing
from robustness.evaluation.study import Evaluation, Study
from robustness.evaluation.views import ViewTable
from robustness.workdirs import finished_workdir
from tests import finished_runs, made_records
from tests.cases import cases
from tests.table_rows import estimate

NAMES = ('clean', 'fog', 'snow')
LABELS = np.array([0, 0, 1, 1, 1], np.int32)
PREDICTION = np.array([[0, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]], np.int32)
CONFIDENCE = np.float32(
  [[0.9, 0.6, 0.7], [0.9, 0.8, 0.5], [0.9, 0.95, 0.6], [0.8, 0.9, 0.9], [0.9, 0.9, 0.9]]
)
"""Answers to five images of two classes in three views. Image 13 is always wrong, 14 always right.
"""


def records(folder, block=2, chunk=2, labels=LABELS, classes=('ant', 'bee'), views=3):
  """Writes records of the answers above; an image may have several labels."""
  right = (labels.reshape(5, 1, -1) == PREDICTION[..., None]).any(-1)
  fields = {'prediction': PREDICTION, 'rank': ~right, 'confidence': CONFIDENCE}
  columns = {'label': labels, 'example_id': np.arange(10, 15)}
  fields['probability'] = np.where(right, CONFIDENCE, 1 - CONFIDENCE)
  arrays = {**{name: array[:, :views] for name, array in fields.items()}, **columns}
  return made_records.made(folder, arrays, block, chunk, classes=list(classes)).records


def failures(made, views):
  """Returns the listed images and classes, the table of estimates and the places of pictures."""

  class Made(Study):
    name = 'made'

    def by_image(self, records, image_shape):
      return records, views

    def by_row(self, records, image_shape):
      return views

  findings, places = listing.findings(Made(), [Evaluation('net', made)], (2, 2, 1))
  images, classes = (
    [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    for table in (findings.tables['most damaged images'], findings.tables['most affected classes'])
  )
  by_class, table = {row['class']: row for row in classes}, assemble(findings.estimates)
  places = places['net'].tolist()
  return SimpleNamespace(images=images, classes=by_class, table=table, places=places)


def of_class(listed, name, quantity='accuracy'):
  """Returns the estimate of a quantity of a class."""
  return estimate(listed.table, 'net', quantity, **{'class': name})


@cases('block, chunk', (2, 2), (5, 3), (1, 1))
def test_images_that_are_right_when_clean_are_ordered_by_damage(tmp_path, block, chunk):
  """Image 13 is wrong when clean, 14 never; 12 has lost more of its probability than 10."""
  listed = failures(records(tmp_path, block, chunk), ViewTable(NAMES, 0))
  assert [row['image'] for row in listed.images] == [12, 10, 11]
  assert listed.places == [[2, 1], [0, 2], [1, 2]], 'row, view of the most confident mistake'
  first = listed.images[0]
  assert (first['views wrong'], first['of'], first['class']) == (2, 2, 'bee')
  assert (first['shown in'], first['taken for']) == ('fog', 'ant')
  assert first['taken for when clean'] == 'bee'
  shares = [first[name] for name in ('confidence', 'confidence when clean')]
  assert [*shares, first['probability of its class']] == pytest.approx([0.95, 0.9, 0.45 / 2])
  assert list(listed.classes) == ['ant', 'bee'], 'ants lose 3/4, bees 1/3'
  assert of_class(listed, 'ant').value == pytest.approx(1 / 4)
  assert of_class(listed, 'ant', 'clean_accuracy').value == 1
  assert of_class(listed, 'bee').value == pytest.approx(1 / 3)
  assert of_class(listed, 'bee', 'clean_accuracy').value == pytest.approx(2 / 3)
  ant, bee = listed.classes.values()
  assert (ant['images'], ant['views wrong'], ant['of']) == (2, 3, 4)
  accuracies = [(row['accuracy when clean'], row['accuracy lost']) for row in (ant, bee)]
  assert accuracies == [(1, 3 / 4), (pytest.approx(2 / 3), pytest.approx(1 / 3))]
  assert (ant['least accurate in'], bee['least accurate in']) == ('snow', '2 views alike')
  assert (bee['most often taken for'], bee['times']) == ('ant', 4)


def test_classes_without_a_clean_view_are_ordered_by_accuracy(tmp_path, monkeypatch):
  """A class has the interval of Korn and Graubard over its images, or the exact one of one view."""
  listed = failures(records(tmp_path), ViewTable(NAMES))
  assert list(listed.classes) == ['bee', 'ant'], 'right in 4 of 9 and 3 of 6 views'
  assert [row['accuracy'] for row in listed.classes.values()] == pytest.approx([4 / 9, 1 / 2])
  shares = np.array([1 / 3, 2 / 3])
  low, high = korn_graubard(shares.mean(), shares.std(ddof=1), 2, 3)
  row = of_class(listed, 'ant')
  assert (row.low, row.high, row.n) == (pytest.approx(low), pytest.approx(high), 2)
  monkeypatch.setattr(listing, 'MOST_CLASSES', 1)
  counted = np.arange(3) == [[1]] * 5
  single = failures(records(tmp_path), ViewTable(NAMES, counted=counted))
  assert list(single.classes) == ['bee'] and len(single.table) == 2
  exact = stats.binomtest(1, 3).proportion_ci(0.95, 'exact')
  row = of_class(single, 'bee')
  assert (row.value, row.low, row.high) == pytest.approx((1 / 3, exact.low, exact.high))


def test_the_least_accurate_view_is_left_out_with_a_single_view(tmp_path):
  for count, clean in ((1, None), (1, 0), (2, 0)):
    made = records(tmp_path / f'{count}', views=count)
    classes = failures(made, ViewTable(NAMES[:count], clean)).classes
    assert classes and not any('least accurate in' in row for row in classes.values())


def test_stored_versions_of_an_image_are_one_image_of_its_class(tmp_path):
  """The table by class equals the table of the same images corrupted in the run."""
  right = np.random.default_rng(0).random((30, 5)) > 0.4
  tables = []
  for stored in (True, False):
    folder = finished_runs.write_versions(tmp_path / str(stored), {'net': right}, stored)
    made = finished_workdir.read(folder)['']
    findings, _ = listing.findings(made.study, made.evaluations, made.image_shape)
    tables.append((findings.tables[listing.AFFECTED_CLASSES], assemble(findings.estimates)))
  assert tables[0][0] == tables[1][0]
  pd.testing.assert_frame_equal(tables[0][1], tables[1][1])
  accuracy = tables[0][1].iloc[0]
  assert (accuracy.n, accuracy.value) == (30, pytest.approx(right[:, 1:].mean()))


def test_views_that_do_not_count_are_left_out(tmp_path):
  """Ants count in one view each and bees in two; four of six views of bees are taken for ants."""
  counted = np.ones((2, 5, 3), bool)
  counted[0, 2, 1:], counted[1, :2, 1] = False, False
  made = records(tmp_path)
  without, with_classes = (failures(made, ViewTable(NAMES, 0, mask)) for mask in counted)
  assert [row['image'] for row in without.images] == [10, 11]
  counts = {name: (row['times'], row['of']) for name, row in with_classes.classes.items()}
  assert counts == {'ant': (2, 2), 'bee': (4, 6)}


def test_without_a_clean_view_every_mistake_counts(tmp_path, monkeypatch):
  monkeypatch.setattr(listing, 'MOST_IMAGES', 1)
  listed = failures(records(tmp_path), ViewTable(('first', 'second', 'third')))
  [first] = listed.images
  assert (first['image'], first['views wrong'], first['of']) == (13, 3, 3)
  assert first['taken for when clean'] is first['confidence when clean'] is None
  named = failures(records(tmp_path), ViewTable(NAMES, rows=['a', 'b', 'c', 'fog 3', 'e']))
  assert named.images[0]['shown in'] == 'fog 3'


def test_an_image_with_two_labels_counts_in_both_classes(tmp_path):
  """The first image is of both classes, so that either prediction is right."""
  labels = np.stack([LABELS, np.array([1, -1, -1, -1, -1])], 1).astype(np.int32)
  made = failures(records(tmp_path, labels=labels), ViewTable(NAMES, 0))
  assert [row['image'] for row in made.images] == [12, 11] and made.images[0]['class'] == 'bee'
  assert (made.classes['ant']['images'], made.classes['bee']['images']) == (2, 4)
  assert of_class(made, 'ant').value == pytest.approx(3 / 4), 'both views of 10, fog of 11'
  assert of_class(made, 'bee').value == pytest.approx(4 / 8), 'both views of 10 and of 14'
  assert made.classes['bee']['most often taken for'] == 'ant'


def test_classes_of_imagenet_have_names(tmp_path):
  made = failures(records(tmp_path, classes=('n01440764', 'n02219486')), ViewTable(NAMES, 0))
  assert set(made.classes) == {'tench', 'ant'}
  assert (made.images[0]['class'], made.images[0]['taken for']) == ('ant', 'tench')
