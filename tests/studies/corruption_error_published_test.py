"""The study's own numbers from accuracies that were published: averages and mCE as printed.

AugMix's mCE of 65.3 on ImageNet-C is not among them: that takes its errors by corruption, of which
no table was at hand.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.published import TABLE_3, TABLE_4, PublishedTable
from robustness.estimates.table import assemble
from robustness.evaluation.study import Evaluation
from robustness.studies.corruption_error import CorruptionError
from tests.made_records import made
from tests.table_rows import estimate

ROWS = 10_000  # an accuracy of four decimals is a whole number of them
LABELS = ('natural', 'high_pass', 'auto_augment')


def made_records(
  path: pathlib.Path,
  study: CorruptionError,
  label: str,
  clean: float,
  accuracies: Mapping[str, float],
) -> Evaluation:
  """Records in which the clean view and each corruption have the given accuracies, exactly."""
  given = np.array([clean, *(accuracies[name] for name in study.names)])
  wrong = np.arange(ROWS)[:, None] >= np.round(given * ROWS)[None, :]
  return made(path / label, {'rank': 9 * wrong}, label=label)


def reduced(
  folder: pathlib.Path, study: CorruptionError, table: PublishedTable, shape: tuple[int, int, int]
) -> pd.DataFrame:
  evaluations = [
    made_records(folder, study, label, table.clean[label], table.corrupted[label])
    for label in LABELS
  ]
  return assemble(study.reduce(evaluations, shape).estimates)


def test_averages_of_table_4(tmp_path: pathlib.Path) -> None:
  study = CorruptionError(corruptions=('fourier_imagenet',), severities=(3,))
  rows = reduced(tmp_path, study, TABLE_4, (224, 224, 3))
  for label in LABELS:
    average = 1 - estimate(rows, label, 'error', corruption_set='fourier_imagenet').value
    assert average == pytest.approx(TABLE_4.average[label], abs=6e-5), label
    clean = 1 - estimate(rows, label, 'clean_error').value
    assert clean == pytest.approx(TABLE_4.clean[label])


def test_averages_and_mce_of_table_3(tmp_path: pathlib.Path) -> None:
  study = CorruptionError(corruptions=('fourier_cifar',), severities=(3,))
  rows = reduced(tmp_path, study, TABLE_3, (32, 32, 3))
  for label in LABELS:
    average = 1 - estimate(rows, label, 'error', corruption_set='fourier_cifar').value
    assert average == pytest.approx(TABLE_3.average[label], abs=6e-5), label
    mce = estimate(rows, label, 'mCE', corruption_set='fourier_cifar').value
    assert mce == pytest.approx(TABLE_3.mce[label], abs=3e-4), label
