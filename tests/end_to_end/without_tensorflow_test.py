"""A machine without TensorFlow and other packages: the same run, bit for bit."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from tests.end_to_end import runs
from tests.end_to_end.conftest import Start

CHANGES = {'data.source': 'npz', 'study.window': 5, 'data.num_images': 20, 'seed': 3}
SCRIPT = 'tests/end_to_end/bare_machine.py'


@pytest.fixture(scope='module')
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A `.npz` file of grey images, 60 to train on and 30 to measure."""
  path = tmp_path_factory.mktemp('arrays') / 'data.npz'
  generator = np.random.default_rng(0)
  splits = {'train': 60, 'test': 30}
  images = {
    f'x_{split}': generator.integers(0, 256, (n, 28, 28), np.uint8) for split, n in splits.items()
  }
  labels = {f'y_{split}': np.arange(n) % 4 for split, n in splits.items()}
  np.savez(path, class_names=np.array(list('abcd')), **images, **labels)
  return path


@pytest.mark.slow
def test_a_run_without_tensorflow_is_the_run_with_it(
  archive: pathlib.Path, tmp_path: pathlib.Path, start: Start
) -> None:
  changes = {**CHANGES, 'data.path': archive}
  output = {
    machine: runs.finish(
      start(tmp_path / machine, 'fourier_heatmap.py', changes, program=(SCRIPT, machine))
    )
    for machine in ('bare', 'tf.data')
  }
  bare, full = tmp_path / 'bare', tmp_path / 'tf.data'
  runs.assert_same_findings(bare, full)
  ours, theirs = runs.document(bare), runs.document(full)
  assert ours['data'] == theirs['data'], 'the same rows'
  assert ours['classifier'] == theirs['classifier'], 'the same SHA-256 of the weights'
  assert all(len(c['sha256']) == 64 for c in ours['classifier'])
  for label in ('natural', 'gaussian'):
    assert f'{label}: no TensorBoard events (tensorflow is not installed)' in output['bare']
    assert list((full / 'tensorboard' / label).iterdir())
  assert not (bare / 'tensorboard').exists()
  for name in ('report.html', 'figures/error_frequency_y_frequency_x.png', 'log.jsonl'):
    assert (bare / name).stat().st_size > 0
