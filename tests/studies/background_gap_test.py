"""Tests the study `background_gap`: counts by hand, published values, and refusals."""

import dataclasses

import numpy as np
import pytest

from robustness.studies.background_gap import BackgroundGap
from tests.refusals import refused
from tests.studies.conftest import classifier, measured, rows
from tests.table_rows import estimate

COUNT = rows().num_examples
VARIANTS = np.array(['original', 'mixed_same', 'mixed_rand', 'mixed_same'])[np.arange(COUNT) % 4]
WITH_VARIANTS = dataclasses.replace(
  rows(), columns={'variant': VARIANTS, 'base_id': (np.arange(COUNT) // 4).astype(np.int32)}
)
RIGHT = np.argmax(classifier('', 0).predict(rows().images), 1) == rows().labels


@pytest.fixture(scope='module')
def table():
  return measured(BackgroundGap(), array_rows=WITH_VARIANTS)[0].table


def test_the_gap_is_the_difference_of_two_accuracies(table):
  on_same, on_random = (RIGHT[name == VARIANTS].mean() for name in ('mixed_same', 'mixed_rand'))
  for name in {*VARIANTS}:
    row = estimate(table, 'first', 'accuracy', variant=name)
    assert (row.value, row.n) == (RIGHT[name == VARIANTS].mean(), (name == VARIANTS).sum())
  gap = estimate(table, 'first', 'bg_gap')
  assert gap.value == pytest.approx(on_same - on_random) and gap.clusters == COUNT // 4
  assert gap.low <= gap.value <= gap.high
  assert estimate(table, 'second', 'bg_gap', 'first').low < 1


def test_a_gap_without_a_mistake_has_no_interval():
  predictions = np.argmax(classifier('', 0).predict(rows().images), 1)
  all_right = dataclasses.replace(WITH_VARIANTS, labels=predictions)
  table = measured(BackgroundGap(), ('first',), all_right)[0].table
  gap = estimate(table, 'first', 'bg_gap')
  assert gap.value == 0 and np.isnan([gap.low, gap.high]).all()
  assert gap.note == 'no interval: all resamples are equal'


def test_published_values_are_shown(table):
  assert estimate(table, 'ResNet-50', 'bg_gap').value == 0.073
  accuracy = estimate(table, 'ResNet-50', 'accuracy', variant='original')
  assert accuracy.value == 0.956 and np.isnan(accuracy.low)


def test_rows_without_the_two_variants_are_refused():
  refused('of the variants none; mixed_same and mixed_rand', BackgroundGap().check, rows(), {})
  foregrounds = dataclasses.replace(rows(), columns={'variant': np.repeat('only_fg', COUNT)})
  refused('of the variants only_fg; .*source=imagenet_9', BackgroundGap().check, foregrounds, {})
