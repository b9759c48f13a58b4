"""Processes of one run that save their own networks at the same time do not disturb each other."""

from __future__ import annotations

import pathlib

import pytest

from tests.parallel.pairs import run_two
from tests.training import saving_apart


@pytest.mark.slow
def test_saves_of_two_processes_do_not_meet(tmp_path: pathlib.Path) -> None:
  run_two('-m', saving_apart.__name__, more=(tmp_path,), seconds=90)
  last = str(saving_apart.SAVES)
  assert all((tmp_path / str(index) / 'checkpoints' / last).is_dir() for index in range(2))
