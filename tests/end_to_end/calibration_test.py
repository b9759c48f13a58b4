"""Calibration through the launch: of corrupted images, and of that very workdir's records."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from tests.end_to_end import runs

pytestmark = pytest.mark.slow


def test_a_run_and_its_own_records_give_the_same_numbers(tmp_path: pathlib.Path) -> None:
  files = runs.save_networks(tmp_path)
  small = {'study.corruptions': ('fog', 'contrast'), 'study.severities': (5,)}
  changes = {**files, **small, 'study.resamples': 50}
  config = runs.shrunk('calibration', 'digits', changes)
  results = runs.run(config, tmp_path / 'run')
  stems = {path.stem for path in (tmp_path / 'run' / 'figures').iterdir()}
  assert {stem for stem in stems if not stem.startswith('failures')} == {
    'reliability',
    'selective_error',
    'by_severity',
  }
  again = runs.shrunk('calibration', 'workdir', {'predictions': str(tmp_path / 'run')})
  again.study.resamples = 50
  from_records = runs.run(again, tmp_path / 'again')
  assert from_records.numbers == results.numbers
  assert from_records.settings['of']['name'] == 'calibration'
  np.testing.assert_array_equal(
    from_records.arrays['gaussian/bin_size'], results.arrays['gaussian/bin_size']
  )
  assert results.numbers['natural/ece/clean'].n == 24
  (tmp_path / 'run' / 'results.json').unlink()
  with pytest.raises(InputError, match='not finished'):
    runs.run(again, tmp_path / 'third')
