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
  weights = {
    f'classifiers.{label}.weights': runs.save_weights(
      folder.with_name(f'{label}.safetensors'), 'small_cnn', seed
    )
    for seed, label in enumerate(('natural', 'adversarial'))
  }
  config = runs.shrunk('attack_error', 'digits', {**weights, 'study.attacks': ('fgsm',)})
  runs.run(config, folder)
  return folder


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, workdir: pathlib.Path) -> None:
  outputs = notebooks.drawn_run(NOTEBOOK, installed, workdir)
  assert len(notebooks.pictures(outputs)) == len(list((workdir / 'figures').glob('*.png'))) + 1
  text = notebooks.printed(outputs)
  for phrase in ('natural/attack_error', 'adversarial, fgsm at 0.05: turns', 'n = 24'):
    assert phrase in text
