"""The notebook runs to its end on a finished workdir and draws."""

from __future__ import annotations

import pathlib

import pytest

from tests.colabs import notebooks
from tests.end_to_end import runs

NOTEBOOK = 'tradeoff'


@pytest.fixture(scope='module')
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A finished run of the default experiment, made small."""
  folder = tmp_path_factory.mktemp('run')
  changes = {
    **runs.save_networks(folder),
    'study.corruptions': ('gaussian_noise', 'contrast', 'brightness', 'fog'),
    'study.severities': (5,),
  }
  runs.run(runs.shrunk('tradeoff', changes=changes), folder)
  return folder


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, workdir: pathlib.Path) -> None:
  printed = notebooks.text_of_drawn_run(NOTEBOOK, installed, workdir)
  assert 'slope_over_corruptions' in printed and 'student' in printed
  assert 'gaussian_noise       median' in printed
