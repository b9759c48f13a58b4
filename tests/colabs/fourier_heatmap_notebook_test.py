"""The notebook runs to its end on a finished workdir and draws; without one it says what to run."""

from __future__ import annotations

import pathlib

import pytest

from configs import fourier_heatmap
from robustness import launch
from tests.colabs import notebooks

NOTEBOOK = 'fourier_heatmap'


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


def test_it_draws_a_finished_run(workdir: pathlib.Path) -> None:
  outputs = notebooks.executed(NOTEBOOK, workdir)
  drawn = notebooks.pictures(outputs)
  assert len(drawn) == len(list((workdir / 'figures').glob('*.png'))) + 1
  assert 'natural/clean_error' in notebooks.printed(outputs)
  assert 'gaussian: clean error' in notebooks.printed(outputs)


def test_without_a_run_it_says_what_to_type(tmp_path: pathlib.Path) -> None:
  outputs = notebooks.executed(NOTEBOOK, tmp_path / 'nothing')
  assert '--config=configs/fourier_heatmap.py' in notebooks.printed(outputs)
  assert not notebooks.pictures(outputs)


def test_it_is_stored_without_outputs() -> None:
  assert not notebooks.stored_outputs(NOTEBOOK)
