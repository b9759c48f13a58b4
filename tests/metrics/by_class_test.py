"""Accuracy by class against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robustness.metrics import by_class as module
from robustness.metrics.by_class import by_class

LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
PREDICTIONS = np.array([0, 0, 0, 2, 2, 2, 0, 2, 2])


def test_classes_are_ordered_by_accuracy_with_what_they_are_taken_for() -> None:
  rows = by_class(LABELS, PREDICTIONS, LABELS == PREDICTIONS, ('ant', 'bee'))
  assert [row[0] for row in rows] == ['bee', 'ant', '2']
  assert rows[0][1:3] == [3, 0.0] and rows[0][5:] == ['2', pytest.approx(2 / 3)]
  assert rows[1][2] == 0.75 and rows[1][5:] == ['2', 0.25]
  assert rows[2][2] == 1 and rows[2][5:] == ['none', 0.0]
  exact = stats.binomtest(3, 4).proportion_ci(0.95, 'exact')
  assert rows[1][3:5] == pytest.approx([exact.low, exact.high])


def test_only_the_least_accurate_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(module, 'MOST', 1)
  assert [row[0] for row in by_class(LABELS, PREDICTIONS, LABELS == PREDICTIONS)] == ['1']
