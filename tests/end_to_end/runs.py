"""Runs the real configs, made small: in this process, or by `main.py` in other processes."""

import contextlib
import importlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from unittest import mock

import jax
import ml_collections
import numpy as np
import pandas as pd
import pytest
from flax import traverse_util
from PIL import Image

from robustness import launch
from robustness.cli import process, running, verification
from robustness.config import defaults
from robustness.models import weights
from robustness.present import publish
from robustness.results import DAMAGED_IMAGES, Results
from tests import commands, faults
from tests.commands import ROOT
from tests.networks import random_variables

pictures = commands.module_of('docs/pictures.py')
DEFAULT = 'fourier_heatmap.py'
DEFAULT_CHANGES: dict[str, Any] = {
  'study.window': 5,
  'views_per_step': 2,
  'training': {'steps': 40, 'checkpoint_every_steps': 4, 'learning_rate': 0.005},
}
SMALL: dict[str, Any] = {
  'data.num_images': 24,
  'batch_size': 8,
  'views_per_step': 5,
  'training': {'steps': 3, 'batch_size': 16, 'checkpoint_every_steps': 3, 'log_every_steps': 1},
}


def shrunk(
  name: str, variant: str = '', changes: Mapping[str, Any] | None = None
) -> ml_collections.ConfigDict:
  """Returns a config of `configs/` with fewer images and steps, and the same keys.

  Args:
    name: the file in `configs/`, without its ending.
    variant: of the config; without one, the default.
    changes: values by dotted key, or by section.
  """
  get_config = importlib.import_module(f'configs.{name}').get_config
  config = get_config(variant) if variant else get_config()
  defaults.add_sections(config)
  window = {'study.window': 5} if 'window' in config.get('study', {}) else {}
  small = {key: value for key, value in SMALL.items() if key.partition('.')[0] in config}
  config.update_from_flattened_dict({**flat(small), **window, **flat(changes)})
  if config.get('training', {}).get('lookahead'):  # at most the steps
    config.training.lookahead = min(config.training.lookahead, config.training.steps)
  return config


def two_environments(variant: str = 'digits') -> ml_collections.ConfigDict:
  """Returns a small config of systematic robustness on digits with two environments."""
  changes = {'study.samples': 100, 'study.severities': (5,), 'data.random_class_groups': 2}
  config = shrunk('systematic_corruptions', variant, changes)
  config.study.environments = ('gaussian_noise', 'contrast')
  for classifier in config.classifiers.values():
    classifier.augment.environment.transforms = config.study.environments
  return config


def flat(changes: Mapping[str, Any] | None) -> dict[str, Any]:
  return traverse_util.flatten_dict(dict(changes or {}), sep='.')


def run(
  config: ml_collections.ConfigDict, workdir: pathlib.Path, drawn: bool = True, devices: int = 2
) -> Results:
  """Runs a config on a number of devices and returns its results.

  Checks the sentences, figures and reports of the run, its tasks and seeds, and that the records
  give the same values. Without `drawn` there are no figures and reports, which take most of the
  time of a small run.
  """
  all_devices = jax.local_devices

  def first_devices(*arguments: Any, **options: Any) -> list[jax.Device]:
    return all_devices(*arguments, **options)[:devices]

  with contextlib.ExitStack() as during:
    overlapping = during.enter_context(faults.in_saved_figures())
    during.enter_context(mock.patch.object(jax, 'local_devices', first_devices))
    if not drawn:
      during.enter_context(mock.patch.object(publish, 'illustrate', lambda *_, **__: []))
    results = launch.run(config.to_dict(), workdir, 'python main.py')
  assert overlapping == [], overlapping
  verification.unverifiable(workdir)  # refuses values that the records do not give
  for path in workdir.rglob('results.json'):
    assert faults.in_results(Results.read(path.parent)) == [], path
    report = path.with_name('report.html')
    assert not report.is_file() or list(faults.in_page(report.read_text())) == [], report
  return results


def assert_pictures(config: str, workdir: pathlib.Path) -> None:
  """Checks that a run of a config has the figures that the documentation shows."""
  for figure in pictures.linked().get(config, ()):
    assert (workdir / f'figures/{figure}.png').stat().st_size > 0


def refused(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  capsys: pytest.CaptureFixture[str],
  monkeypatch: pytest.MonkeyPatch,
) -> str:
  """Runs `main` on a config that it refuses; returns its one message, without 'error: '."""
  monkeypatch.setattr('robustness.cli.process.set_devices', lambda processes: None)
  capsys.readouterr()
  status = running.run_command(config, str(workdir), 'python main.py')
  assert status == process.BAD_INPUT
  (line,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith('error: ')]
  assert not (workdir / 'results.json').exists()
  return line.removeprefix('error: ')


def save_image(path: pathlib.Path, pixels: np.ndarray, **options: int) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  Image.fromarray(pixels).save(path, **options)


def save_weights(path: pathlib.Path, name: str, seed: int = 0, num_classes: int = 10) -> str:
  weights.save_variables(path, random_variables(name, num_classes, seed), {})
  return str(path)


NETWORK = """
import numpy as np
from robustness.models.classifier import Classifier
from robustness.models.imagenet_names import WNIDS

{source}

def network():
  return Classifier.from_callable(scores, {shape}, {classes}, outputs='logits')
"""
LINEAR = """
weights = np.random.default_rng({seed}).normal(size=(16 * 16 * 3, 1000)).astype(np.float32)
bias = np.zeros(1000, np.float32)
{change}

def scores(images):
  return (images - .5).reshape(len(images), -1) @ weights + bias
"""
WRAPPED = """
import jax
from robustness.models import catalog, weights

variables, _ = weights.load_variables({path!r})
module = catalog.get('small_cnn').build(10)
forward = jax.jit(lambda images: module.apply(variables, images))

def scores(images):
  return np.asarray(forward(images))
"""
DIGITS = tuple(map(str, range(10)))


def write_network(
  path: pathlib.Path, source: str, shape: tuple[int, ...], classes: Any = 'WNIDS'
) -> str:
  """Writes a file with a classifier of NumPy, by default of ImageNet; `source` defines `scores`."""
  path.write_text(NETWORK.format(source=source, shape=shape, classes=classes))
  return f'{path}:network'


def linear_network(path: pathlib.Path, seed: int = 0, change: str = '') -> str:
  return write_network(path, LINEAR.format(seed=seed, change=change), (16, 16, 3))


def wrap_second(config: ml_collections.ConfigDict, folder: pathlib.Path) -> None:
  """Replaces the classifiers by an untrained network and the same one in a user's file."""
  for classifier in config.classifiers.values():
    classifier.train = False
  path = save_weights(folder / 'digits.safetensors', 'small_cnn')
  config.classifiers.natural.weights = path
  source = WRAPPED.format(path=path)
  name = write_network(folder / 'mine.py', source, (28, 28, 1), DIGITS)
  config.classifiers.gaussian.name = name


def save_networks(
  folder: pathlib.Path, labels: Sequence[str] = ('natural', 'gaussian'), name: str = 'small_cnn'
) -> dict[str, Any]:
  """Saves a network with random weights for each label; returns the changes that load them."""
  return {
    f'classifiers.{label}.weights': save_weights(folder / f'{label}.safetensors', name, seed)
    for seed, label in enumerate(labels)
  }


def trained(
  workdir: pathlib.Path, labels: Iterable[str] = ('natural', 'gaussian')
) -> dict[str, str]:
  """Returns the changes of a config that load the networks which a run trained."""
  return {f'classifiers.{name}.weights': str(workdir / 'checkpoints' / name) for name in labels}


def arrays(workdir: pathlib.Path) -> dict[str, np.ndarray]:
  with np.load(workdir / 'results.npz') as file:
    return {name: file[name] for name in file.files}


def document(workdir: pathlib.Path) -> dict[str, Any]:
  return json.loads((workdir / 'results.json').read_text())


def assert_same_findings(first: pathlib.Path, second: pathlib.Path) -> None:
  """Checks that two runs have equal estimates, facts and arrays.

  Layer changes and the probabilities of single images may differ by rounding.
  """
  table, other = (Results.read(folder).table for folder in (first, second))
  layers = table.quantity == 'layer_change'
  pd.testing.assert_frame_equal(table[~layers], other[~layers], check_exact=True)
  pd.testing.assert_frame_equal(table[layers], other[layers], rtol=1e-4)
  facts = [document(folder)['tables'] for folder in (first, second)]
  images = [tables.pop(DAMAGED_IMAGES, {'rows': []})['rows'] for tables in facts]
  assert facts[0] == facts[1]
  for first_row, second_row in zip(*images, strict=True):
    assert first_row == [  # probabilities are equal to rounding, as in records
      pytest.approx(x, rel=2e-5) if isinstance(x, float) else x for x in second_row
    ]
  values, other_values = arrays(first), arrays(second)
  assert values.keys() == other_values.keys()
  for name, value in values.items():
    np.testing.assert_array_equal(value, other_values[name], err_msg=name)


def log(workdir: pathlib.Path, key: str = '') -> list[dict[str, Any]]:
  """Returns the lines of a run's log, or the lines with a key."""
  lines = map(json.loads, (workdir / 'log.jsonl').read_text().splitlines())
  return [line for line in lines if not key or key in line]


def shard_times(workdir: pathlib.Path) -> dict[str, int]:
  """Returns when each file of records was written, in nanoseconds, by its path in the workdir."""
  return {
    str(p.relative_to(workdir)): p.stat().st_mtime_ns
    for p in sorted((workdir / 'records').rglob('*.npz'))
  }


def arguments(
  workdir: pathlib.Path,
  config: str,
  changes: Mapping[str, Any] | None = None,
  flags: tuple[str, ...] = (),
  small: bool = True,
) -> list[str]:
  """Returns the flags of main.py for a run of a config, by default made small."""
  values = {**flat(SMALL if small else {}), **flat(changes)}
  settings = [f'--config.{key}={value}' for key, value in values.items()]
  return [f'--config=configs/{config}', f'--workdir={workdir}', *settings, *flags]


def forked(arguments: Sequence[list[str]]) -> list[tuple[int, str]]:
  """Returns exit status and output of main.py for each list of arguments, see `forked_commands`."""
  program = [sys.executable, 'tests/end_to_end/forked_commands.py']
  printed = {'stdout': subprocess.PIPE, 'text': True, 'timeout': 240, 'check': True}
  inputs = {'input': json.dumps(arguments), 'env': commands.environment(), 'cwd': ROOT}
  answer = subprocess.run(program, **inputs, **printed)
  return [(status, output) for status, output in json.loads(answer.stdout)]


def start(*positional: Any, machine: str = 'own', **named: Any) -> subprocess.Popen[str]:
  """Starts main.py in a process on a machine of `machine.py`, with the flags of `arguments`."""
  program = (sys.executable, 'tests/end_to_end/machine.py', machine)
  command = [*program, *arguments(*positional, **named)]
  if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited from a background job
    signal.signal(signal.SIGINT, signal.default_int_handler)
  return commands.start(*command)


def finish(process: subprocess.Popen[str], status: int = 0, seconds: float = 240) -> str:
  """Waits for the end of a process with this exit status and returns its output."""
  output, _ = process.communicate(timeout=seconds)
  assert process.returncode == status, output
  assert 'Traceback' not in output, output
  return output


def wait_for(
  process: subprocess.Popen[str], condition: Callable[[], bool], seconds: float = 240
) -> None:
  """Waits until a condition holds while a process runs."""
  deadline = time.monotonic() + seconds
  while not condition():
    if process.poll() is not None:
      raise AssertionError(f'ended before that: {process.communicate()[0]}')
    assert time.monotonic() < deadline
    time.sleep(0.002)


def free_port() -> int:
  with socket.socket() as opened:
    opened.bind(('127.0.0.1', 0))
    return opened.getsockname()[1]
