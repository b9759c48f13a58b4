"""The notebook of attacks runs on a finished workdir."""

from __future__ import annotations

import pathlib

import pytest

from tests.colabs import notebooks
from tests.end_to_end import runs

NOTEBOOK = 'attack_error'


@pytest.fixture(scope='module')
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A finished run of the default experiment, made small."""
  folder = tmp_path_factory.mktemp('run')
  weights = runs.save_networks(folder, ('natural', 'adversarial'))
  config = runs.shrunk('attack_error', 'digits', {**weights, 'study.attacks': ('fgsm',)})
  runs.run(config, folder)
  return folder


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, workdir: pathlib.Path) -> None:
  text = notebooks.text_of_drawn_run(NOTEBOOK, installed, workdir)
  for phrase in ('attack_error', 'adversarial, fgsm at 0.05: turns', 'of 2'):
    assert phrase in text
