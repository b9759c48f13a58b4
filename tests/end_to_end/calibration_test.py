"""Calibration through the launch: of corrupted images, and of that very workdir's records."""

from __future__ import annotations

import pathlib

import pandas as pd
import pytest

from robustness.core.errors import InputError
from tests.end_to_end import runs
from tests.table_rows import estimate

pytestmark = pytest.mark.slow


def test_a_run_and_its_own_records_give_the_same_numbers(tmp_path: pathlib.Path) -> None:
  files = runs.save_networks(tmp_path)
  small = {'study.corruptions': ('fog', 'contrast'), 'study.severities': (5,)}
  changes = {**files, **small, 'study.resamples': 50}
  config = runs.shrunk('calibration', 'digits', changes)
  results = runs.run(config, tmp_path / 'run')
  stems = {path.stem for path in (tmp_path / 'run' / 'figures').iterdir()}
  assert {'reliability', 'ece_corruption'} <= stems
  assert any(stem.startswith('selective_error') for stem in stems)
  again = runs.shrunk('calibration', 'workdir', {'predictions': str(tmp_path / 'run')})
  again.study.resamples = 50
  from_records = runs.run(again, tmp_path / 'again')
  assert from_records.settings['of']['name'] == 'calibration'
  scored = results.table[results.table['class'].isna()].drop(columns='class')
  pd.testing.assert_frame_equal(from_records.table, scored)
  assert estimate(results.table, 'natural', 'ece', view='clean').n == 24
  (tmp_path / 'run' / 'results.json').unlink()
  with pytest.raises(InputError, match='not finished'):
    runs.run(again, tmp_path / 'third')
