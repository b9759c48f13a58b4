"""What holds of every notebook: it installs, makes a run in any folder, and ends with a picture."""

from __future__ import annotations

import json
import pathlib

import pytest
from nbclient.exceptions import CellExecutionError

from colabs import address
from robustness.results import Results
from tests.colabs import notebooks

CONFIGS = {
  'attack_error': 'attack_error',
  'battery': 'battery',
  'corruption_error': 'corruption_error',
  'fourier_heatmap': 'fourier_heatmap',
  'si_score': 'si_score',
  'systematic': 'systematic_corruptions',
  'tradeoff': 'tradeoff',
  'video_pm_k': 'video_pm_k',
}
"""The config that each notebook runs."""


def test_every_notebook_is_here() -> None:
  assert sorted(CONFIGS) == sorted(
    path.stem for path in (notebooks.ROOT / 'colabs').glob('*.ipynb')
  )


@pytest.mark.parametrize('name', CONFIGS)
def test_it_begins_with_the_badge_and_an_install_cell_of_the_address(name: str) -> None:
  path = notebooks.ROOT / 'colabs' / f'{name}.ipynb'
  stored = json.loads(path.read_text(encoding='utf-8'))
  assert stored == address.with_address(stored, name, address.repository())
  assert notebooks.read(name).cells[1] == notebooks.tagged(notebooks.read(name), 'install')


@pytest.mark.parametrize('name', CONFIGS)
def test_it_tells_the_command_of_the_whole_experiment(name: str) -> None:
  text = '\n'.join(cell.source for cell in notebooks.read(name).cells)
  assert f'robustness {CONFIGS[name]} --workdir={notebooks.workdir_of(name)}' in text
  assert f"load_config('{CONFIGS[name]}')" in text


@pytest.mark.slow
@pytest.mark.parametrize('name', CONFIGS)
def test_in_an_empty_folder_it_makes_a_run_and_draws_it(
  name: str, installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  cells = notebooks.executed(name, installed, tmp_path)
  assert notebooks.pictures(cells[-1:]), 'it ends with a picture'
  workdir = tmp_path / notebooks.workdir_of(name)
  labels = {entry['label'] for entry in Results.read(workdir).classifier}
  assert labels == {'whole', 'centre'} if name == 'si_score' else 'mine' in labels
  printed = notebooks.printed(cells)
  assert 'images/s' in printed, 'the progress of the run'
  assert 'warning' not in printed.lower()
  drawn = len(list((workdir / 'figures').glob('*.png')))
  own = name != 'battery'  # which shows the overview of the run, the others a picture of their own
  assert len(notebooks.pictures(cells)) >= drawn + own


@pytest.mark.slow
def test_a_folder_without_a_run_is_told(installed: pathlib.Path, tmp_path: pathlib.Path) -> None:
  with pytest.raises(CellExecutionError, match='no results.json in .*give the working directory'):
    notebooks.executed('tradeoff', installed, tmp_path, tmp_path / 'nothing')


@pytest.mark.parametrize('name', CONFIGS)
def test_it_is_stored_without_outputs(name: str) -> None:
  assert not notebooks.stored_outputs(name)
