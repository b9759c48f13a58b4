"""The notebook runs to its end on a finished workdir and draws."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.colabs import notebooks
from tests.end_to_end import runs

NOTEBOOK = 'tradeoff'


@pytest.fixture(scope='module')
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A finished run of the default experiment, made small."""
  changes: dict[str, Any] = {
    'study.corruptions': ('gaussian_noise', 'contrast', 'brightness', 'fog'),
    'study.severities': (5,),
  }
  folder = tmp_path_factory.mktemp('run')
  for seed, label in enumerate(('natural', 'gaussian')):
    file = runs.save_weights(folder / f'{label}.safetensors', 'small_cnn', seed)
    changes[f'classifiers.{label}.weights'] = file
  runs.run(runs.shrunk('tradeoff', changes=changes), folder)
  return folder


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, workdir: pathlib.Path) -> None:
  outputs = notebooks.drawn_run(NOTEBOOK, installed, workdir)
  assert len(notebooks.pictures(outputs)) == len(list((workdir / 'figures').glob('*.png'))) + 1
  printed = notebooks.printed(outputs)
  assert 'gaussian/slope' in printed and 'student over corruptions' in printed
  assert 'gaussian_noise       median' in printed
