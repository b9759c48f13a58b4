"""Runs in rounds (`config.study.half_width`) are read again and compared with fixed designs."""

import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from robustness.cli import compare
from robustness.estimates.table import assemble, select
from robustness.results import Results
from robustness.workdirs import finished_workdir
from tests.end_to_end import runs
from tests.refusals import refused
from tests.table_rows import estimate

pytestmark = pytest.mark.slow


def test_a_heat_map_in_rounds(tmp_path):
  changes = {'study.half_width': 0.14, 'data.num_images': 64, 'study.window': 3}
  config = runs.shrunk('fourier_heatmap', 'digits', changes)
  results = runs.run(config, tmp_path / 'run')
  assert {row[0] for row in results.tables['passes'].rows} == {'natural', 'gaussian'}
  errors = select(results.table, 'error', frequency_y=..., frequency_x=...)
  assert len(errors) == 2 * 5 and ((errors.high - errors.low) / 2 <= 0.14).all()
  assert 'images of a view, most' in (tmp_path / 'run/report.html').read_text()

  study = finished_workdir.read_task(tmp_path / 'run', '')
  for evaluation in study.evaluations:
    assert evaluation.rounds.shown[0] == estimate(results.table, evaluation.label, 'clean_error').n
    errors_of_classifier = errors[errors.classifier == evaluation.label]
    np.testing.assert_array_equal(evaluation.rounds.shown[1:], errors_of_classifier.n)
  again = assemble(study.study.reduce(study.evaluations, study.image_shape).estimates)
  reduced = select(again, 'error', frequency_y=..., frequency_x=...)
  interval = ['value', 'low', 'high']
  np.testing.assert_array_equal(reduced[interval], errors[interval])

  check_comparison(config, tmp_path, results)
  shutil.rmtree(sorted((tmp_path / 'run/records/natural').glob('round*'))[-1])
  refused('header.json is no file', finished_workdir.read_task, tmp_path / 'run', '')


def check_comparison(config: Any, folder: pathlib.Path, results: Results) -> None:
  """Checks that a run without rounds has the same answers on the images that both have."""
  weights = runs.trained(folder / 'run', results.prefixes)
  config.update_from_flattened_dict({**weights, 'study.half_width': 0.0})
  runs.run(config, folder / 'fixed', drawn=False)
  pair = [f'{name}={folder / name}' for name in ('run', 'fixed')]
  table = compare.run(pair, folder / 'compared', True, '').table
  is_fixed = (table['quantity'] == 'accuracy') & (table.classifier == 'fixed natural')
  assert set(table[is_fixed & (table.versus != '')].value) == {0.0}
