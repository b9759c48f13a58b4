"""The training loop on a separable problem."""

from __future__ import annotations

import json
import os
import signal

import jax
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models.inputs import Inputs
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.training import Preempted, load_variables, train
from robustness.training.feed import AHEAD


@pytest.fixture
def parallel():
  return MeshParallel(jax.devices()[:2])


def _assert_same(first, second):
  jax.tree.map(np.testing.assert_array_equal, first, second)


def test_it_learns_logs_evaluates_and_saves(make_task, rows, recorder, parallel, tmp_path):
  task = make_task(
    epochs=20.0, steps=0, learning_rate=0.2, log_every_steps=20, evaluate_every_epochs=10.0
  )

  def evaluate(variables):
    images = (rows.images - np.array(task.inputs.mean, np.float32)) / np.array(
      task.inputs.std, np.float32
    )
    logits = task.model.apply(variables, images)
    return {'accuracy': float((logits.argmax(-1) == rows.labels).mean())}

  variables = train(
    task,
    directory=tmp_path,
    parallel=parallel,
    writer=recorder,
    evaluate=evaluate,
    facts={'architecture': 'tiny'},
  )
  loss = recorder.series('train/loss')
  assert list(loss) == [20, 40, 60]
  assert loss[60] < 0.1 < loss[20] < np.log(3)
  assert recorder.series('evaluation/accuracy')[60] == 1.0
  assert list(recorder.series('evaluation/accuracy')) == [30, 60]
  assert recorder.series('train/epoch') == {
    20: pytest.approx(20 / 3),
    40: pytest.approx(40 / 3),
    60: 20.0,
  }
  assert all(rate > 0 for rate in recorder.series('train/images_per_second').values())
  saved, facts = load_variables(tmp_path)
  _assert_same(saved, variables)
  assert (facts['architecture'], facts['training']['total_steps']) == ('tiny', 60)


def test_a_finished_training_is_returned_without_reading_a_batch(
  make_task, recorder, parallel, tmp_path
):
  first = train(make_task(), directory=tmp_path, parallel=parallel, writer=recorder)

  def refuse(*unused):
    raise AssertionError('a batch was asked for')

  again = train(
    make_task(task={'batches': refuse}), directory=tmp_path, parallel=parallel, writer=recorder
  )
  _assert_same(again, first)


@pytest.mark.parametrize('kind', [MeshParallel, PmapParallel])
def test_sigterm_saves_and_the_same_call_continues_to_the_same_bits(
  make_task, tiny_net, rows, recorder, kind, tmp_path
):
  parallel = kind(jax.devices()[:2])
  handler = signal.getsignal(signal.SIGTERM)
  starts = []

  def batches(batch_size, seed, start_step):
    starts.append(start_step)
    for step, batch in enumerate(
      rows.training_batches(batch_size, seed, start_step), start_step + 1
    ):
      if step == AHEAD + 1 and len(starts) == 1:
        os.kill(os.getpid(), signal.SIGTERM)
      yield batch

  task = make_task(tiny_net(parallel.axis_name), {'batches': batches}, checkpoint_every_steps=0)
  arguments = {'parallel': parallel, 'writer': recorder}
  with pytest.raises(Preempted, match='after step 2 of 6'):  # batches are read ahead
    train(task, directory=tmp_path / 'cut', **arguments)
  assert signal.getsignal(signal.SIGTERM) == handler
  resumed = train(task, directory=tmp_path / 'cut', **arguments)
  assert starts == [0, 2]
  _assert_same(resumed, train(task, directory=tmp_path / 'whole', **arguments))


def test_a_plateau_is_remembered_over_a_stop(make_task, rows, recorder, parallel, tmp_path):
  def batches(batch_size, seed, start_step):
    for step, batch in enumerate(
      rows.training_batches(batch_size, seed, start_step), start_step + 1
    ):
      if step == 5 and not (tmp_path / 'stopped').exists():
        (tmp_path / 'stopped').touch()
        os.kill(os.getpid(), signal.SIGTERM)
      yield batch

  settings = {
    'schedule': 'plateau',
    'learning_rate': 1e-12,
    'steps': 9,
    'log_every_steps': 1,
    'freeze_statistics': True,
  }
  task = make_task(task={'batches': batches}, **settings)
  arguments = {'parallel': parallel, 'writer': recorder}
  with pytest.raises(Preempted):
    train(task, directory=tmp_path / 'cut', **arguments)
  resumed = train(task, directory=tmp_path / 'cut', **arguments)
  rates = [rate / 1e-12 for rate in recorder.series('train/learning_rate').values()]
  assert rates == pytest.approx([1.0] * 5 + [0.1] * 3 + [0.01], rel=1e-4), 'epochs of 3 steps'
  _assert_same(resumed, train(task, directory=tmp_path / 'whole', **arguments))


def test_a_diverging_training_stops_and_saves_no_spoilt_state(
  make_task, recorder, parallel, tmp_path
):
  with pytest.raises(InputError, match=r'(loss|gradient norm) is (nan|inf) at step \d+'):
    train(
      make_task(learning_rate=1e30, checkpoint_every_steps=1, steps=50),
      directory=tmp_path,
      parallel=parallel,
      writer=recorder,
    )
  saved, _ = load_variables(tmp_path)
  assert json.loads(next((tmp_path / 'checkpoints').glob('*/position/metadata')).read_text())
  assert set(saved) == {'params', 'batch_stats'}


def test_a_batch_that_does_not_divide_and_a_model_of_another_axis_are_refused(
  make_task, tiny_net, recorder, parallel, tmp_path
):
  arguments = {'directory': tmp_path, 'parallel': parallel, 'writer': recorder}
  divisors = '1 micro-batches × 1 processes × 2 devices'
  with pytest.raises(InputError, match=f'batch_size is 33; .*{divisors}'):
    train(make_task(batch_size=33), **arguments)
  with pytest.raises(InputError, match="built with axis_name='data'; .*needs None"):
    train(make_task(tiny_net('data')), **arguments)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'inputs': Inputs(mean=(0.1, 0.2))}, 'mean has 2 values for images of 3 channels'),
    ({'inputs': Inputs(std=(0.0,))}, r'std is \(0.0,\)'),
    ({'num_examples': 0}, 'no rows to train on'),
  ],
)
def test_bad_tasks_are_refused(make_task, change, message):
  with pytest.raises(InputError, match=message):
    make_task(task=change)
