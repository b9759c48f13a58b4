"""What a training of several processes asks of its batch."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any, cast

import jax
import pytest

from robustness.classifiers.network_training import NetworkTraining
from robustness.core.errors import InputError
from robustness.training.settings import TrainingSettings
from tests.networks import tiny_rows


def test_a_batch_that_does_not_divide_names_all_its_divisors(
  monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
  experiment: Any = SimpleNamespace(execution=SimpleNamespace(parallel='jit'))
  unused: Any = None
  rows = cast(Any, tiny_rows())
  settings = TrainingSettings(batch_size=20, accumulate=4)
  training = NetworkTraining(experiment, rows, unused, tmp_path, unused)
  assert training._parallel(settings).num_devices == 5
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  with pytest.raises(
    InputError,
    match=r'batch_size is 20; it must be a multiple of 2 processes × 4 micro-batches = 8, and of '
    r'that × 8 devices of each process',
  ):
    training._parallel(settings)
  assert training._parallel(settings, own=True).num_devices == 5
