"""The notebook runs to its end on a finished workdir and draws."""

from __future__ import annotations

import pathlib

import pytest

from tests.colabs import notebooks

NOTEBOOK = 'fourier_heatmap'


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, finished: pathlib.Path) -> None:
  text = notebooks.text_of_drawn_run(NOTEBOOK, installed, finished)
  assert 'clean_error' in text and 'gaussian: clean error' in text
