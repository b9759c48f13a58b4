"""Fixtures of tests of trainings: a tiny network, a separable problem and a recorder of scalars."""

import jax
import numpy as np
import pytest
from flax import linen as nn

from robustness.core.rows import ArrayRows
from robustness.models.inputs import Inputs
from robustness.models.layers import FEATURES
from robustness.parallel.mesh import BATCH, REPLICATED, MeshParallel
from robustness.training.loop import train
from robustness.training.settings import TrainingSettings
from robustness.training.step import TrainStep
from robustness.training.training import Training


class TinyNet(nn.Module):
  """A convolution, batch normalisation if `norm`, the mean over pixels, and three logits."""

  axis_name: str | None = None
  norm: bool = True

  @nn.compact
  def __call__(self, x, train=False):
    x = nn.Conv(6, (3, 3), name='conv')(x)
    if self.norm:
      x = nn.BatchNorm(not train, momentum=0.9, axis_name=self.axis_name, name='bn')(x)
    features = nn.relu(x).mean((1, 2))
    self.sow('intermediates', FEATURES, features)
    return nn.Dense(3, name='head')(features)


class Recorder:
  """A writer that keeps the scalars of each step, in order."""

  def __init__(self):
    self.lines = []

  def write_scalars(self, step, scalars):
    self.lines.append((step, dict(scalars)))

  def flush(self):
    """Does nothing, because lines are kept at once."""

  def series(self, name):
    """Returns the values of a scalar by step."""
    return {step: scalars[name] for step, scalars in self.lines if name in scalars}


def separable_rows():
  """Returns 96 noisy images of 6 × 6 pixels in three classes, each with one bright channel."""
  generator = np.random.default_rng(0)
  labels = np.arange(96) % 3
  images = generator.uniform(0, 0.6, (96, 6, 6, 3)).astype(np.float32)
  images[np.arange(96), :, :, labels] += 0.4
  return ArrayRows(images, labels, ('red', 'green', 'blue'))


class ReadBy:
  """Rows with the training batches that `read` makes of the batches and the first step."""

  def __init__(self, rows, read):
    self._rows, self._read = rows, read

  def __getattr__(self, name):
    return getattr(self._rows, name)

  def training_batches(self, size, seed, start_step=0, *options):
    return self._read(self._rows.training_batches(size, seed, start_step, *options), start_step)


def normalised(task, images):
  """Returns images with the mean and standard deviation that the network of a task expects."""
  mean, std = (np.array(x, np.float32) for x in (task.inputs.mean, task.inputs.std))
  return (images - mean) / std


def compiled_step(task, parallel):
  """Returns the compiled training step: (state, batch) to (state, metrics)."""
  return parallel.compile(TrainStep(task, parallel), (REPLICATED, BATCH), (REPLICATED, REPLICATED))


def assert_same(first, second):
  jax.tree.map(np.testing.assert_array_equal, first, second)


def assert_close(first, second, rtol=1e-4, atol=1e-5):
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), first, second)


@pytest.fixture
def rows():
  return separable_rows()


@pytest.fixture
def recorder():
  return Recorder()


@pytest.fixture
def make_task(rows):
  """Returns a function from a model, fields and settings to a training on the separable rows.

  By default it has 6 steps, which are two epochs.
  """

  def make(model=None, task=None, **settings):
    defaults = {'steps': 6, 'batch_size': 32, 'learning_rate': 0.5, 'checkpoint_every_steps': 2}
    defaults['resident_bytes'] = 0
    arguments = {
      'rows': rows,
      'inputs': Inputs((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)),
      'settings': TrainingSettings(**{**defaults, **settings}),
    }
    return Training(model or TinyNet(), **{**arguments, **(task or {})})

  return make


@pytest.fixture
def run(recorder):
  """Returns a function that trains a task in a folder, on two devices unless others are given."""

  def run(task, directory, parallel=None, **arguments):
    parallel = parallel or MeshParallel(jax.devices()[:2])
    return train(task, directory=directory, parallel=parallel, writer=recorder, **arguments)

  return run


@pytest.fixture(scope='session')
def start():
  """Returns a function from a task to its initial state, computed once for each network."""
  states = {}

  def initial(task):
    if task.model.norm not in states:
      states[task.model.norm] = jax.tree.map(np.asarray, task.initial_state())
    return states[task.model.norm]

  return initial
