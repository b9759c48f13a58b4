"""A tiny network, a separable problem and a recorder of scalars."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from flax import linen as nn

from robustness.core.rows import ArrayRows
from robustness.models.inputs import Inputs
from robustness.models.layers import FEATURES
from robustness.training import Training, TrainingSettings


class TinyNet(nn.Module):
  """Convolution, batch normalisation or none, mean over pixels, three logits."""

  axis_name: str | None = None
  norm: bool = True

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    x = nn.Conv(6, (3, 3), name='conv')(x)
    if self.norm:
      x = nn.BatchNorm(not train, momentum=0.9, axis_name=self.axis_name, name='bn')(x)
    features = nn.relu(x).mean((1, 2))
    self.sow('intermediates', FEATURES, features)
    return nn.Dense(3, name='head')(features)


@dataclasses.dataclass
class Recorder:
  """Keeps what is written, in order."""

  lines: list[tuple[int, dict[str, Any]]] = dataclasses.field(default_factory=list)

  def write_scalars(self, step: int, scalars: dict[str, Any]) -> None:
    self.lines.append((step, dict(scalars)))

  def flush(self) -> None:
    """Nothing waits."""

  def series(self, name: str) -> dict[int, float]:
    return {step: scalars[name] for step, scalars in self.lines if name in scalars}


def separable_rows() -> ArrayRows:
  """96 noisy images of 6 × 6 pixels, one bright channel for each of three classes."""
  generator = np.random.default_rng(0)
  labels = np.arange(96) % 3
  images = generator.uniform(0, 0.6, (96, 6, 6, 3)).astype(np.float32)
  images[np.arange(96), :, :, labels] += 0.4
  return ArrayRows(images, labels, ('red', 'green', 'blue'))


@pytest.fixture
def rows() -> ArrayRows:
  return separable_rows()


@pytest.fixture
def recorder() -> Recorder:
  return Recorder()


@pytest.fixture
def tiny_net() -> type[TinyNet]:
  return TinyNet


@pytest.fixture
def make_task(rows):
  """Returns a function from settings to a task on the separable rows."""

  def make(model: nn.Module | None = None, task: dict | None = None, **settings) -> Training:
    defaults = {'steps': 6, 'batch_size': 32, 'learning_rate': 0.5, 'checkpoint_every_steps': 2}
    return Training(
      model or TinyNet(),
      **{
        'batches': rows.training_batches,
        'num_examples': 96,
        'image_shape': (6, 6, 3),
        'inputs': Inputs((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)),
        'settings': TrainingSettings(**{**defaults, **settings}),
        **(task or {}),
      },
    )

  return make


@pytest.fixture(scope='session')
def start():
  """Returns a function from a task to its initial state, computed once for each network."""
  states: dict[bool, Any] = {}

  def initial(task):
    if task.model.norm not in states:
      states[task.model.norm] = jax.tree.map(np.asarray, task.initial_state())
    return states[task.model.norm]

  return initial
