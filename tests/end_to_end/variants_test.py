"""Every config of configs/, made small: what it leaves, run again, run otherwise."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.table import facets_of, select
from robustness.results import Results
from robustness.training import loop
from tests.end_to_end import runs
from tests.table_rows import estimate

HEAT_MAP, ACCURACY = 'fourier_heatmap', 'accuracy'


def check_workdir(workdir: pathlib.Path, results: Results, trained: bool) -> None:
  """What every run leaves."""
  for name in (
    'config.json',
    'environment.json',
    'log.jsonl',
    'results.json',
    'results.npz',
    'results.csv',
    'report.html',
  ):
    assert (workdir / name).stat().st_size > 0, name
  assert ('train/loss' in (workdir / 'log.jsonl').read_text()) == trained
  assert runs.shard_times(workdir)
  pictures = sorted((workdir / 'figures').glob('*.png'))
  assert pictures
  assert all(p.read_bytes().startswith(b'\x89PNG') for p in pictures)
  page = (workdir / 'report.html').read_text()
  assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//|@import|url\(\s*["\']?http', page)
  assert page.count('data:image/png;base64,') == len(pictures)
  pd.testing.assert_frame_equal(Results.read(workdir).table, results.table)
  whole = results.table[results.table[facets_of(results.table)].isna().all(axis=1)]
  assert len(whole) and set(whole.n) == {24} and (whole.method != '').all()
  assert (whole.low.le(whole.value) & whole.value.le(whole.high)).all()


def check_maps(results: Results) -> None:
  """Errors of every classifier at the 13 distinct frequencies of a window of 5 × 5."""
  errors = select(results.table, 'error', frequency_y=..., frequency_x=...)
  assert len(errors) == 13 * len(results.prefixes) and set(errors.n) == {24}
  assert (errors.low.between(0, errors.value) & errors.high.between(errors.value, 1)).all()


def check_repeats(
  config: Any, workdir: pathlib.Path, other: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  """The same workdir again computes nothing; another cut of the work gives equal answers."""
  files = {
    name: (workdir / name).read_bytes() for name in ('results.json', 'results.csv', 'results.npz')
  }
  times = runs.shard_times(workdir)

  def no_step(*unused: Any) -> None:
    raise AssertionError('a training step was asked for')

  with monkeypatch.context() as patched:
    patched.setattr(loop, '_Run', no_step)
    runs.run(config, workdir)
  assert runs.shard_times(workdir) == times
  assert files == {name: (workdir / name).read_bytes() for name in files}
  config.update_from_flattened_dict({'batch_size': 16, 'views_per_step': 3})
  runs.run(config, other)
  runs.assert_same_findings(workdir, other)
  assert len(runs.shard_times(other)) != len(times)


@pytest.mark.slow
def test_heat_map_of_digits(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  config = runs.shrunk(HEAT_MAP, 'digits', {'study.layers': ('stages',)})
  results = runs.run(config, tmp_path / 'first')
  check_workdir(tmp_path / 'first', results, trained=True)
  check_maps(results)
  assert list(results.prefixes) == ['natural', 'gaussian']
  differences = select(results.table, 'error', 'natural', frequency_y=..., frequency_x=...)
  assert set(differences.classifier) == {'gaussian'} and differences.p.notna().all()
  changes = select(results.table, 'layer_change', layer=..., frequency_y=..., frequency_x=...)
  assert len(changes[changes.layer == 'stage1']) == 2 * 13
  weights = {
    f'classifiers.{label}.weights': str(tmp_path / 'first/checkpoints' / label)
    for label in results.prefixes
  }
  config.update_from_flattened_dict(weights)
  runs.run(config, tmp_path / 'second')
  runs.assert_same_findings(tmp_path / 'first', tmp_path / 'second')
  check_repeats(config, tmp_path / 'second', tmp_path / 'third', monkeypatch)


@pytest.mark.usefixtures('shallow_resnet')
@pytest.mark.slow
def test_heat_map_of_cifar10(
  cifar10_dir: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  file = runs.save_weights(tmp_path / 'one.safetensors', 'resnet20')
  config = runs.shrunk(
    HEAT_MAP,
    'cifar10',
    {'classifier.weights': file, 'data.data_dir': str(cifar10_dir), 'study.window': 5},
  )
  results = runs.run(config, tmp_path / 'first')
  check_workdir(tmp_path / 'first', results, trained=False)
  check_maps(results)
  assert results.settings['norm'] == 4.0
  check_repeats(config, tmp_path / 'first', tmp_path / 'second', monkeypatch)


@pytest.mark.usefixtures('shallow_resnet')
@pytest.mark.slow
def test_heat_map_of_a_cifar10_pair(cifar10_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
  files = runs.save_networks(tmp_path, ('first', 'second'), 'resnet20')
  config = runs.shrunk(HEAT_MAP, 'cifar10_pair', {**files, 'data.data_dir': str(cifar10_dir)})
  results = runs.run(config, tmp_path / 'run')
  check_workdir(tmp_path / 'run', results, trained=False)
  check_maps(results)
  errors = select(results.table, 'error', None, frequency_y=..., frequency_x=...)
  first, second, difference = np.split(errors.value.to_numpy(), 3)
  np.testing.assert_allclose(difference, second - first, atol=1e-12)


def test_accuracy_of_digits(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  file = runs.save_weights(tmp_path / 'one.safetensors', 'small_cnn')
  config = runs.shrunk(ACCURACY, changes={'classifier.weights': file})
  results = runs.run(config, tmp_path / 'first')
  check_workdir(tmp_path / 'first', results, trained=False)
  top1, top5 = (estimate(results.table, *results.labels, f'top{k}_accuracy').value for k in (1, 5))
  assert 0 <= top1 <= top5 <= 1
  check_repeats(config, tmp_path / 'first', tmp_path / 'second', monkeypatch)


@pytest.mark.slow
def test_training_on_digits(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  config = runs.shrunk(
    'train',
    'digits',
    {
      'training.steps': 60,
      'training.batch_size': 64,
      'training.log_every_steps': 20,
      'training.checkpoint_every_steps': 20,
    },
  )
  results = runs.run(config, tmp_path / 'first')
  check_workdir(tmp_path / 'first', results, trained=True)
  accuracy = estimate(results.table, *results.labels, 'top1_accuracy').value
  assert accuracy > 0.4, '60 steps on digits; chance is 0.1'
  check_repeats(config, tmp_path / 'first', tmp_path / 'first_again', monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_training_on_cifar10(cifar10_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
  config = runs.shrunk(
    'train',
    'cifar10',
    {'data.data_dir': str(cifar10_dir), 'training.steps': 2, 'training.batch_size': 8},
  )
  results = runs.run(config, tmp_path / 'run')
  check_workdir(tmp_path / 'run', results, trained=True)
  assert {'top1_accuracy', 'top5_accuracy'} <= set(results.table.quantity)
