"""What holds of every notebook: without a run it says what to type, and no outputs are stored."""

from __future__ import annotations

import pathlib

import pytest

from tests.colabs import notebooks

CONFIGS = {
  'attack_error': 'attack_error',
  'corruption_error': 'corruption_error',
  'fourier_heatmap': 'fourier_heatmap',
  'si_score': 'si_score',
  'systematic': 'systematic_corruptions',
  'tradeoff': 'tradeoff',
  'video_pm_k': 'video_pm_k',
}
"""The config that each notebook names."""


def test_every_notebook_is_here() -> None:
  assert sorted(CONFIGS) == sorted(
    path.stem for path in (notebooks.ROOT / 'colabs').glob('*.ipynb')
  )


@pytest.mark.slow
@pytest.mark.parametrize('name', CONFIGS)
def test_without_a_run_it_says_what_to_type(name: str, tmp_path: pathlib.Path) -> None:
  outputs = notebooks.executed(name, tmp_path / 'nothing')
  assert f'--config=configs/{CONFIGS[name]}.py' in notebooks.printed(outputs)
  assert not notebooks.pictures(outputs)


@pytest.mark.parametrize('name', CONFIGS)
def test_it_is_stored_without_outputs(name: str) -> None:
  assert not notebooks.stored_outputs(name)
