"""The notebook of batteries draws a finished battery."""

from __future__ import annotations

import pathlib

import pytest

from robustness.present import headlines
from tests.colabs import notebooks
from tests.end_to_end import runs


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
  weights = runs.save_networks(tmp_path)
  fog = {'corruptions': ('fog',), 'severities': (5,)}
  corrupted = {f'battery.corruptions.study.{key}': value for key, value in fog.items()}
  parts = {'battery.parts': ('clean', 'corruptions')}
  workdir = tmp_path / 'run'
  results = runs.run(runs.shrunk('battery', 'digits', {**parts, **corrupted, **weights}), workdir)
  cells = notebooks.drawn_run('battery', installed, workdir)
  assert len(notebooks.pictures(cells)) == len(list(workdir.glob('figures/overview_*.png')))
  text = notebooks.printed(cells)
  assert 'clean: accuracy on 24 images' in text and 'corruptions: corruption_error' in text
  outputs = [o.get('data', {}) for cell in cells for o in cell]
  table, worst, *_ = [data['text/markdown'] for data in outputs if 'text/markdown' in data]
  for row in headlines.table(results.by_part).rows:
    assert '| ' + ' | '.join(map(str, row)) + ' |' in table
  assert 'Of all parts natural is worst in' in worst
