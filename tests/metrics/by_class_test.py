"""Accuracy by class against counts by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from robustness.metrics import by_class as module
from robustness.metrics.by_class import Outcomes, by_class

LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
PREDICTIONS = np.array([0, 0, 0, 2, 2, 2, 0, 2, 2])
MISTAKES = np.array([[0, 2, 1], [1, 0, 1], [1, 2, 2]])
SINGLE = Outcomes(LABELS, (LABELS == PREDICTIONS).astype(float), 1, MISTAKES)


def test_classes_are_ordered_by_accuracy_with_what_they_are_taken_for() -> None:
  rows = by_class(SINGLE, ('ant', 'bee')).rows
  assert [row[0] for row in rows] == ['bee', 'ant', '2']
  assert rows[0][1:3] == [3, 0.0] and rows[0][5:] == ['2', pytest.approx(2 / 3)]
  assert rows[1][2] == 0.75 and rows[1][5:] == ['2', 0.25]
  assert rows[2][2] == 1 and rows[2][5:] == ['none', 0.0]
  exact = stats.binomtest(3, 4).proportion_ci(0.95, 'exact')
  assert rows[1][3:5] == pytest.approx([exact.low, exact.high])


def test_only_the_most_affected_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(module, 'MOST', 1)
  assert [row[0] for row in by_class(SINGLE).rows] == ['1']
  every = module.accuracies(SINGLE, ('ant', 'bee', 'ant'))
  assert [entry.name for entry in every] == ['ant (0)', 'bee', 'ant (2)']
  assert [entry.accuracy.value for entry in every] == [0.75, 0, 1]


def test_over_views_classes_are_ordered_by_what_they_lose() -> None:
  """Bees are the least accurate and lose nothing; ants lose half, all of it in fog."""
  outcomes = Outcomes(
    np.array([0, 0, 1, 1]),
    np.array([0.5, 0.5, 0, 0]),
    2,
    np.array([[0, 1, 2], [1, 0, 4]]),
    np.array([True, True, False, False]),
    np.array([[np.nan, 1.0, 0.0], [np.nan, 0.0, 0.0]]),
    ('clean', 'snow', 'fog'),
  )
  table = by_class(outcomes, ('ant', 'bee'))
  first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
  assert (first['class'], first['accuracy'], first['lost']) == ('ant', 0.5, 0.5)
  assert (first['least accurate in'], first['accuracy there']) == ('fog', 0.0)
  assert (first['most often taken for'], first['share taken for it']) == ('bee', 0.5)
  assert (second['class'], second['lost'], second['share taken for it']) == ('bee', 0.0, 1.0)
  assert first['low'] < 0.5 < first['high']
  least = by_class(dataclasses.replace(outcomes, clean=None), ('ant', 'bee'))
  assert 'lost' not in least.columns and least.rows[0][0] == 'bee'
