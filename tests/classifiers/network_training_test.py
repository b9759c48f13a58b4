"""What a training of several processes asks of its batch, and which rows are held out."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np
import pytest

from robustness.classifiers.network_training import NetworkTraining, sides
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.core.sampler import held_out
from robustness.training.settings import TrainingSettings
from tests.networks import tiny_rows

UNITS = np.repeat(np.arange(20), 5)


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


@pytest.mark.parametrize('column', ['group_id', 'base_id'])
def test_frames_of_a_clip_and_versions_of_an_image_are_on_one_side(column: str) -> None:
  images = np.zeros((100, 2, 2, 1), np.float32)
  rows = ArrayRows(images, np.zeros(100, int), ('a',), columns={column: UNITS[::-1]})
  kept, held = sides(rows, 0.2)
  assert len(held) == 20 and len(kept) == 80
  assert not {*rows.columns[column][kept]} & {*rows.columns[column][held]}
  assert len(sides(rows, 0.0)[1]) == 0


def test_other_rows_are_held_out_one_by_one() -> None:
  rows = ArrayRows(np.zeros((100, 2, 2, 1), np.float32), np.zeros(100, int), ('a',))
  np.testing.assert_array_equal(sides(rows, 0.2)[1], held_out(100, 0.2)[1])
