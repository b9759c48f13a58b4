"""The notebook runs to its end on a finished workdir and draws; without one it says what to run."""

from __future__ import annotations

import pathlib

import pytest

from tests.colabs import notebooks

NOTEBOOK = 'fourier_heatmap'


@pytest.mark.slow
def test_it_draws_a_finished_run(finished: pathlib.Path) -> None:
  outputs = notebooks.executed(NOTEBOOK, finished)
  drawn = notebooks.pictures(outputs)
  assert len(drawn) == len(list((finished / 'figures').glob('*.png'))) + 1
  assert 'natural/clean_error' in notebooks.printed(outputs)
  assert 'gaussian: clean error' in notebooks.printed(outputs)


@pytest.mark.slow
def test_without_a_run_it_says_what_to_type(tmp_path: pathlib.Path) -> None:
  outputs = notebooks.executed(NOTEBOOK, tmp_path / 'nothing')
  assert '--config=configs/fourier_heatmap.py' in notebooks.printed(outputs)
  assert not notebooks.pictures(outputs)


def test_it_is_stored_without_outputs() -> None:
  assert not notebooks.stored_outputs(NOTEBOOK)
