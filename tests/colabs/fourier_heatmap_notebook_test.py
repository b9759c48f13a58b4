"""The notebook runs to its end on a finished workdir and draws; without one it says what to run."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from configs import fourier_heatmap
from robustness import launch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOTEBOOK = ROOT / 'colabs' / 'fourier_heatmap.ipynb'


@pytest.fixture(scope='module')
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A finished run of the default experiment, made small."""
  config = fourier_heatmap.get_config()
  config.data.num_images = 16
  config.study.window = 5
  config.training.steps = 3
  config.training.batch_size = 32
  folder = tmp_path_factory.mktemp('run')
  launch.run(config.to_dict(), folder)
  return folder


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


def test_it_draws_a_finished_run(workdir: pathlib.Path) -> None:
  outputs = executed(workdir)
  drawn = [o for o in outputs if 'image/png' in o.get('data', {})]
  assert len(drawn) == len(list((workdir / 'figures').glob('*.png'))) + 1
  assert 'natural/clean_error' in printed(outputs)
  assert 'gaussian: clean error' in printed(outputs)


def test_without_a_run_it_says_what_to_type(tmp_path: pathlib.Path) -> None:
  outputs = executed(tmp_path / 'nothing')
  assert '--config=configs/fourier_heatmap.py' in printed(outputs)
  assert not [o for o in outputs if 'image/png' in o.get('data', {})]


def test_it_is_stored_without_outputs() -> None:
  cells = nbformat.read(NOTEBOOK, as_version=4).cells
  assert not [c for c in cells if c.get('outputs') or c.get('execution_count')]
