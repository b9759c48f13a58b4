"""The notebook runs to its end on a finished workdir and draws."""

from __future__ import annotations

import pathlib

import pytest

from tests.colabs import notebooks

NOTEBOOK = 'fourier_heatmap'


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, finished: pathlib.Path) -> None:
  outputs = notebooks.drawn_run(NOTEBOOK, installed, finished)
  drawn = notebooks.pictures(outputs)
  assert len(drawn) == len(list((finished / 'figures').glob('*.png'))) + 1
  assert 'natural/clean_error' in notebooks.printed(outputs)
  assert 'gaussian: clean error' in notebooks.printed(outputs)
