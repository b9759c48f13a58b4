"""The notebook of corruption error runs to its end on a finished workdir, and without one."""

from __future__ import annotations

import pathlib
from typing import Any

import nbformat
import pytest

from tests.colabs import fourier_heatmap_notebook_test as other
from tests.end_to_end import runs

NOTEBOOK = other.ROOT / 'colabs' / 'corruption_error.ipynb'


@pytest.fixture(scope='module')
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A finished run of the default experiment, made small."""
  folder = tmp_path_factory.mktemp('run')
  weights = {f'classifiers.{label}.weights': runs.save_weights(
      folder.with_name(f'{label}.safetensors'), 'small_cnn', seed)
             for seed, label in enumerate(('natural', 'gaussian'))}
  config = runs.shrunk('corruption_error', 'digits', {
      **weights, 'study.corruptions': ('gaussian_noise', 'brightness'),
      'study.severities': (1, 5)})
  runs.run(config, folder)
  return folder


@pytest.fixture(autouse=True)
def this_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(other, 'NOTEBOOK', NOTEBOOK)


def pictures(outputs: list[Any]) -> list[Any]:
  return [output for output in outputs if 'image/png' in output.get('data', {})]


def test_it_draws_a_finished_run(workdir: pathlib.Path) -> None:
  outputs = other.executed(workdir)
  assert len(pictures(outputs)) == len(list((workdir / 'figures').glob('*.png'))) + 1
  printed = other.printed(outputs)
  for phrase in ('frost: not shown', 'gaussian/mCE/shown', 'right under all,'):
    assert phrase in printed


def test_without_a_run_it_says_what_to_type(tmp_path: pathlib.Path) -> None:
  outputs = other.executed(tmp_path / 'nothing')
  assert '--config=configs/corruption_error.py' in other.printed(outputs)
  assert not pictures(outputs)


def test_it_is_stored_without_outputs() -> None:
  cells = nbformat.read(NOTEBOOK, as_version=4).cells
  assert not [c for c in cells if c.get('outputs') or c.get('execution_count')]
