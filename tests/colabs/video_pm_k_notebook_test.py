"""The notebook of pm-k runs on a finished workdir and draws."""

from __future__ import annotations

import pathlib

import pytest

from configs import video_pm_k
from tests.colabs import notebooks
from tests.end_to_end import runs
from tests.table_rows import estimate
from tests.video.rescoring_test import saved

NOTEBOOK = 'video_pm_k'


@pytest.mark.slow
def test_it_draws_a_finished_run_and_scores_it_at_another_k(
  installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(saved(tmp_path)), str(tmp_path / 'sets')
  results = runs.run(config, tmp_path / 'run')
  text = notebooks.text_of_drawn_run(NOTEBOOK, installed, tmp_path / 'run')
  assert 'pm-5' not in text, 'the sets reach two frames'
  for k in (1, 2):
    row = estimate(results.table, 'one', 'accuracy_pm_k', k=k)
    assert f'pm-{k} {row.value:.4f}' in text
