"""The training loop on a separable problem, and the means that it logs."""

from __future__ import annotations

import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models.inputs import Inputs
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.training import Preempted, load_variables, train
from robustness.training.feed import AHEAD
from robustness.training.loop import LAG, Meter

DEVICE_NUMBER = jnp.float32(1)


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


def _metrics(loss, norm=1.0, rate=0.1):
  return {
    'loss': np.float32(loss),
    'gradient_norm': np.float32(norm),
    'learning_rate': np.float32(rate),
  }


def test_means_since_the_last_summary_and_the_last_learning_rate():
  meter = Meter(10)
  for step, loss in enumerate((1.0, 2.0, 6.0)):
    meter.add(step, _metrics(loss, rate=0.5 / (step + 1)))
  first = meter.summary()
  assert first['loss'] == pytest.approx(3.0)
  assert first['learning_rate'] == pytest.approx(0.5 / 3)
  assert first['images_per_second'] > 0
  meter.add(3, _metrics(8.0))
  assert meter.summary()['loss'] == pytest.approx(8.0)


def test_a_pause_takes_the_first_step_after_it_out_of_the_rate():
  meter = Meter(10)
  meter.add(0, _metrics(1.0))
  assert 'images_per_second' not in meter.summary()
  meter.pause()
  meter.add(1, _metrics(1.0))
  assert 'images_per_second' not in meter.summary()


@pytest.mark.parametrize(
  ('bad', 'message'),
  [
    (_metrics(np.nan), 'loss is nan at step 5 .learning rate 0.1.*Lower config.training.learning_'),
    (_metrics(1.0, np.inf), 'gradient norm is inf at step 5'),
  ],
)
def test_a_number_that_is_not_finite_names_step_and_fix_when_metrics_are_read(bad, message):
  for read in (Meter.flush, Meter.summary):
    meter = Meter(10)
    meter.add(5, bad)
    meter.add(6, _metrics(1.0))
    with pytest.raises(InputError, match=message):
      read(meter)


def test_metrics_are_fetched_once_and_for_all_steps():
  fetched = []

  def fetch(metrics):
    fetched.append(len(metrics))
    return metrics

  meter = Meter(10, fetch)
  for step in range(5):
    meter.add(step, _metrics(float(step)))
  assert fetched == []
  assert meter.summary()['loss'] == pytest.approx(2.0)
  assert fetched == [5]


def test_the_host_waits_for_the_step_before_the_last_two():
  """A transfer would be seen; waiting is all that `add` does with what is on a device."""
  meter, step = Meter(10), jax.jit(lambda x: {'loss': x, 'gradient_norm': x, 'learning_rate': x})
  with jax.transfer_guard('disallow_explicit'):
    for number in range(LAG + 2):
      meter.add(number, step(DEVICE_NUMBER))
      assert len(meter._under_way) <= LAG
  assert meter.summary()['loss'] == pytest.approx(1.0)
