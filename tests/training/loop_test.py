"""The training loop learns a separable problem, stops at signals, resumes and logs means."""

import dataclasses
import json
import os
import signal
import time
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.attacks.pgd import PGD
from robustness.augment.policy import Policy
from robustness.models.inputs import Inputs
from robustness.objectives.groups import IRM
from robustness.parallel import MeshParallel, PmapParallel
from robustness.training.checkpoint import Checkpoints, load_variables, newest_step
from robustness.training.loop import AHEAD, LAG, Meter, batches, compiled_step
from robustness.training.preemption import Preempted
from robustness.training.training import Pipeline
from tests.cases import cases
from tests.refusals import refused
from tests.training.conftest import ReadBy, TinyNet, assert_same, normalised

DEVICE_NUMBER = jnp.float32(1)


@cases(
  'settings, seed',
  ({}, 1),
  pytest.param({'learning_rate': 0.01, 'steps': 9}, 0, marks=pytest.mark.slow),
  ({'schedule': 'plateau', 'stem_epochs': 1.0, 'lookahead': 2}, 3),
)
def test_seeds_rates_lengths_and_data_sizes_share_one_program(make_task, rows, settings, seed):
  """The program of a step has seed, rate, length and rows as arguments, not as constants."""
  parallel = MeshParallel(jax.devices()[:1])

  def program(task):
    batch, scalars = next(batches(task, parallel, 0)), task.scalars(0)
    return compiled_step(task, parallel).lower(task.state_shapes(), batch, scalars).as_text()

  shared = {k: v for k, v in settings.items() if k not in ('learning_rate', 'steps')}
  pipeline = Pipeline(Policy.of(gaussian={}), PGD(epsilon=0.1, steps=1))
  first = program(make_task(None, {'pipeline': pipeline}, **shared))
  other = make_task(None, {'pipeline': pipeline, 'seed': seed}, **settings)
  assert program(other) == first
  fewer = dataclasses.replace(rows, images=rows.images[:40], labels=rows.labels[:40])
  fields = {'pipeline': pipeline, 'rows': fewer}
  assert program(make_task(None, fields, resident_bytes=2**30, **shared)) == first


def test_training_learns_logs_evaluates_and_saves(make_task, run, rows, recorder, tmp_path):
  settings = {'learning_rate': 0.2, 'log_every_steps': 20, 'evaluate_every_epochs': 10.0}
  task = make_task(epochs=20.0, steps=0, **settings)

  def evaluate(variables):
    logits = task.model.apply(variables, normalised(task, rows.images))
    return {'accuracy': float((logits.argmax(-1) == rows.labels).mean())}

  variables = run(task, tmp_path, evaluate=evaluate, facts={'architecture': 'tiny'})
  loss = recorder.series('train/loss')
  assert list(loss) == [20, 40, 60]
  assert loss[60] < 0.1 < loss[20] < np.log(3), 'log 3 is the loss of a guess'
  assert recorder.series('evaluation/accuracy')[60] == 1.0
  assert list(recorder.series('evaluation/accuracy')) == [30, 60]
  epochs = pytest.approx({20: 20 / 3, 40: 40 / 3, 60: 20})
  assert recorder.series('train/epoch') == epochs and recorder.series('train/epoch')[60] == 20.0
  assert all(rate > 0 for rate in recorder.series('train/images_per_second').values())
  saved, facts = load_variables(tmp_path)
  assert_same(saved, variables)
  assert (facts['architecture'], facts['training']['total_steps']) == ('tiny', 60)


def test_a_finished_training_is_returned_without_reading_a_batch(make_task, run, rows, tmp_path):
  first = run(make_task(), tmp_path)
  unread = ReadBy(rows, mock.Mock(side_effect=AssertionError('a batch was asked for')))
  assert_same(run(make_task(task={'rows': unread}), tmp_path), first)


def stopped(rows, last, starts):
  """Returns rows that send SIGTERM with batch `last` when they are read for the first time.

  The first step of each reading is appended to `starts`.
  """

  def read(batches, start):
    starts.append(start)
    for step, batch in enumerate(batches, start + 1):
      if step == last and len(starts) == 1:
        os.kill(os.getpid(), signal.SIGTERM)
      yield batch

  return {'rows': ReadBy(rows, read)}


@pytest.mark.slow
@pytest.mark.parametrize('kind', [MeshParallel, PmapParallel])
def test_sigterm_saves_and_the_same_call_resumes_to_the_same_bits(
  make_task, run, rows, kind, tmp_path
):
  parallel, handler, starts = kind(jax.devices()[:2]), signal.getsignal(signal.SIGTERM), []
  model, task = TinyNet(parallel.axis_name), stopped(rows, AHEAD + 1, starts)
  task = make_task(model, task, checkpoint_every_steps=0)
  with pytest.raises(Preempted, match='after step 2 of 6'):  # batches are read ahead
    run(task, tmp_path / 'cut', parallel)
  assert signal.getsignal(signal.SIGTERM) == handler
  resumed = run(task, tmp_path / 'cut', parallel)
  assert starts == [0, 2]
  assert_same(resumed, run(task, tmp_path / 'whole', parallel))


@pytest.mark.slow
def test_sigterm_in_the_last_step_also_stops_later_work(make_task, run, rows, tmp_path):
  def evaluate(variables):
    os.kill(os.getpid(), signal.SIGTERM)
    return {'accuracy': 0.5}

  with pytest.raises(Preempted, match='after step 6 of 6 and saved'):
    run(make_task(evaluate_every_epochs=0.0), tmp_path, evaluate=evaluate)
  unread = ReadBy(rows, mock.Mock(side_effect=AssertionError('a batch was asked for')))
  again = make_task(task={'rows': unread}, evaluate_every_epochs=0.0)
  assert_same(run(again, tmp_path), load_variables(tmp_path)[0])


def test_sigterm_during_the_last_save_waits_for_it(make_task, run, tmp_path, monkeypatch):
  wait = Checkpoints.wait

  def stop(checkpoints):
    os.kill(os.getpid(), signal.SIGTERM)
    wait(checkpoints)

  monkeypatch.setattr(Checkpoints, 'wait', stop)
  with pytest.raises(Preempted, match='after step 6 of 6 and saved'):
    run(make_task(), tmp_path)
  assert newest_step(tmp_path) == 6


@pytest.mark.slow
def test_the_factor_of_a_plateau_survives_a_stop(make_task, run, rows, recorder, tmp_path):
  settings = {'schedule': 'plateau', 'learning_rate': 1e-12, 'freeze_statistics': True}
  task = make_task(task=stopped(rows, 5, []), steps=9, log_every_steps=1, **settings)
  with pytest.raises(Preempted):
    run(task, tmp_path / 'cut')
  resumed = run(task, tmp_path / 'cut')
  rates = [rate / 1e-12 for rate in recorder.series('train/learning_rate').values()]
  assert rates == pytest.approx([1.0] * 5 + [0.1] * 3 + [0.01], rel=1e-4), 'epochs of 3 steps'
  assert_same(resumed, run(task, tmp_path / 'whole'))


def test_a_diverging_training_stops_and_saves_no_state_that_is_not_finite(make_task, run, tmp_path):
  task = make_task(learning_rate=1e30, checkpoint_every_steps=1, steps=50)
  refused(r'(loss|gradient norm) is (nan|inf) at step \d+', run, task, tmp_path)
  saved, _ = load_variables(tmp_path)
  assert json.loads(next((tmp_path / 'checkpoints').glob('*/position/metadata')).read_text())
  assert set(saved) == {'params', 'batch_stats'}


def test_indivisible_batches_and_models_of_another_axis_are_refused(make_task, run, tmp_path):
  divisors = '1 micro-batches × 1 processes × 2 devices'
  refused(f'batch_size is 33; .*{divisors}', run, make_task(batch_size=33), tmp_path)
  other = make_task(TinyNet('data'))
  refused("built with axis_name='data'; .*needs None", run, other, tmp_path)
  assert not list(tmp_path.iterdir())


@cases(
  'change, message',
  ({'inputs': Inputs(mean=(0.1, 0.2))}, 'one for each channel of the images, which have 3'),
  ({'inputs': Inputs((123.7, 116.3, 103.5), (58.4,))}, 'Divide those of images in 0..255 by 255'),
  ({'inputs': Inputs(std=(0.0,))}, r'std is \(0.0,\)'),
)
def test_bad_tasks_are_refused(make_task, change, message):
  refused(message, make_task, task=change)


def _metrics(loss, norm=1.0, rate=0.1):
  """Returns the metrics of a step."""
  metrics = {'loss': loss, 'gradient_norm': norm, 'learning_rate': rate}
  return {name: np.float32(value) for name, value in metrics.items()}


def test_a_summary_has_means_since_the_last_one_and_the_last_learning_rate():
  meter = Meter(10)
  for step, loss in enumerate((1.0, 2.0, 6.0)):
    meter.add(step, _metrics(loss, rate=0.5 / (step + 1)))
  first = meter.summary()
  assert first['loss'] == pytest.approx(3.0)
  assert first['learning_rate'] == pytest.approx(0.5 / 3)
  assert first['images_per_second'] > 0
  meter.add(3, _metrics(8.0))
  assert meter.summary()['loss'] == pytest.approx(8.0)
  meter = Meter(10)
  for step in (0, 1):  # a pause takes the first step after it out of the rate
    meter.add(step, _metrics(1.0))
    assert 'images_per_second' not in meter.summary()
    meter.pause()


def test_the_rate_begins_at_the_end_of_the_first_step_for_a_host_that_is_slower_than_its_steps():
  meter = Meter(10)
  meter.add(0, _metrics(1.0))
  time.sleep(0.05)  # as for reading the next batch
  meter.add(1, _metrics(1.0))
  assert meter.summary()['images_per_second'] <= 10 / 0.05


@cases(
  'bad, message',
  (_metrics(np.nan), 'loss is nan at step 5 .learning rate 0.1.*Lower config.training.learning_'),
  (_metrics(1.0, np.inf), 'gradient norm is inf at step 5'),
)
def test_a_number_that_is_not_finite_names_step_and_fix_when_metrics_are_read(bad, message):
  for read in (Meter.flush, Meter.summary):
    meter = Meter(10)
    meter.add(5, bad)
    meter.add(6, _metrics(1.0))
    refused(message, read, meter)


def test_metrics_are_fetched_once_and_the_host_waits_for_the_step_before_the_last_two():
  """`add` transfers nothing, which would be an error here, and waits for a step on a device."""
  fetch = mock.Mock(side_effect=lambda metrics: metrics)
  meter = Meter(10, fetch)
  for step in range(5):
    meter.add(step, _metrics(float(step)))
  fetch.assert_not_called()
  assert meter.summary()['loss'] == pytest.approx(2.0)
  assert [len(call.args[0]) for call in fetch.call_args_list] == [5]
  meter, step = Meter(10), jax.jit(lambda x: {'loss': x, 'gradient_norm': x, 'learning_rate': x})
  with jax.transfer_guard('disallow_explicit'):
    for number in range(LAG + 2):
      meter.add(number, step(DEVICE_NUMBER))
      assert len(meter._running) <= LAG
  assert meter.summary()['loss'] == pytest.approx(1.0)


@cases(
  'pipeline',
  pytest.param(Pipeline(attack=PGD(steps=2)), marks=pytest.mark.slow),
  pytest.param(Pipeline(Policy.of(mixup={}, gaussian={})), marks=pytest.mark.slow),
  Pipeline(objective=IRM(column='label', environments=3)),
)
def test_trainings_give_the_same_weights_where_jax_has_64_bits(make_task, run, pipeline, tmp_path):
  weights = {}
  for bits in (32, 64):
    with jax.enable_x64(bits == 64):
      weights[bits] = run(make_task(None, {'pipeline': pipeline}, steps=3), tmp_path / f'{bits}')
  assert_same(weights[32], weights[64])
