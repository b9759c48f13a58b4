"""A run without TensorFlow and other optional packages has the bits of a run with them."""

import numpy as np
import pytest

from tests.end_to_end import runs

CHANGES = {'data.source': 'npz', 'study.window': 5, 'data.num_images': 20, 'seed': 3}


@pytest.mark.slow
def test_a_run_without_tensorflow_is_the_run_with_it(tmp_path, start):
  """The archive has 60 grey images for training and 30 for the measurement."""
  generator, arrays = np.random.default_rng(0), {'class_names': np.array(list('abcd'))}
  for split, count in (('train', 60), ('test', 30)):
    arrays[f'x_{split}'] = generator.integers(0, 256, (count, 28, 28), np.uint8)
    arrays[f'y_{split}'] = np.arange(count) % 4
  np.savez(tmp_path / 'data.npz', **arrays)
  changes = {**CHANGES, 'data.npz.path': tmp_path / 'data.npz'}
  output = {}
  for machine in ('bare', 'tf.data'):
    process = start(tmp_path / machine, runs.DEFAULT, changes, machine=machine)
    output[machine] = runs.finish(process)
  bare, full = tmp_path / 'bare', tmp_path / 'tf.data'
  runs.assert_same_findings(bare, full)
  ours, theirs = runs.document(bare), runs.document(full)
  assert ours['data'] == theirs['data'], 'the same rows'
  assert ours['classifiers'] == theirs['classifiers'], 'the same SHA-256 of the weights'
  assert all(len(c['sha256']) == 64 for c in ours['classifiers'])
  for label in ('natural', 'gaussian'):
    assert f'{label}: no TensorBoard events (clu is not installed)' in output['bare']
    assert list((full / 'tensorboard' / label).iterdir())
  assert not (bare / 'tensorboard').exists()
  for name in ('report.html', 'figures/error_frequency_y_frequency_x.png', 'log.jsonl'):
    assert (bare / name).stat().st_size > 0
