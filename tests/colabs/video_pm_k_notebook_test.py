"""The notebook of pm-k runs on a finished workdir and draws; without one it says what to run."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import nbformat
from nbclient import NotebookClient

from configs import video_pm_k
from tests.end_to_end import runs
from tests.rescoring_test import saved

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOTEBOOK = ROOT / 'colabs' / 'video_pm_k.ipynb'


def executed(folder: pathlib.Path) -> list[Any]:
  """Runs the notebook on a workdir and returns the outputs of all its cells."""
  notebook = nbformat.read(NOTEBOOK, as_version=4)
  cell, = (c for c in notebook.cells if 'parameters' in c.metadata.get('tags', []))
  cell.source = f'WORKDIR = {str(folder)!r}'
  environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
  client = NotebookClient(notebook, timeout=120, kernel_name='python3')
  client.execute(cwd=str(ROOT), env=environment)
  return [output for c in notebook.cells if c.cell_type == 'code' for output in c.outputs]


def printed(outputs: list[Any]) -> str:
  return ''.join(output.text for output in outputs if output.output_type == 'stream')


def test_it_draws_a_finished_run_and_scores_it_at_another_k(tmp_path: pathlib.Path) -> None:
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(saved(tmp_path)), str(tmp_path / 'sets')
  results = runs.run(config, tmp_path / 'run')
  outputs = executed(tmp_path / 'run')
  drawn = [o for o in outputs if 'image/png' in o.get('data', {})]
  assert len(drawn) == len(list((tmp_path / 'run/figures').glob('*.png'))) + 1, 'the testbed'
  for k in (1, 2, 5):
    assert f'pm-{k} {results.arrays["pm_k"][k]:.4f}' in printed(outputs)


def test_without_a_run_it_says_what_to_type(tmp_path: pathlib.Path) -> None:
  outputs = executed(tmp_path / 'nothing')
  assert '--config=configs/video_pm_k.py' in printed(outputs)
  assert not [o for o in outputs if 'image/png' in o.get('data', {})]


def test_it_is_stored_without_outputs() -> None:
  cells = nbformat.read(NOTEBOOK, as_version=4).cells
  assert not [c for c in cells if c.get('outputs') or c.get('execution_count')]
