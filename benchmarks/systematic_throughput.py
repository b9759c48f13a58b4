"""Training with selective augmentation ÷ plain training; the whole grid ÷ plain forward passes.

  python -m benchmarks.systematic_throughput
  python -m benchmarks.systematic_throughput --networks wide_resnet_28_10

A training step is the whole of it, on all devices. `in the step` shows T_k to C_k (Gaussian noise,
Gaussian blur, contrast and snow to a fifth of the classes each, half of their images) as the
augmentation `environment` does; `in tf.data` has the same transforms applied image by image on the
host, by a map of tf.data over all cores, before a plain step. The grid is the study `systematic`:
clean images and four corruptions at five severities, records discarded. The goals are .9 and .9.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing
from robustness import parallel
from robustness.augment.policy import Policy
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.environments import transforms
from robustness.evaluation.runner import Evaluator
from robustness.models import catalog
from robustness.models.inputs import Inputs
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.studies.systematic import Systematic
from robustness.training.settings import TrainingSettings
from robustness.training.step import TrainStep
from robustness.training.training import Pipeline, Training

PLAIN, DEVICE, HOST = 'plain', 'in the step', 'in tf.data'
NAMES = Systematic().environments
HEADER = ('measured', 'images/s', 'reference', 'ratio')
_GROUPS = 1 + len(NAMES)
_SHARE = 0.5


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints a table of ratios for each network."""
  parser = subject.options(__doc__, networks=('resnet20',), images=256, rounds=5, clock=True)
  parser.add_argument('--batch', type=int, default=128)
  parser.add_argument('--steps', type=int, default=4, help='that are timed together')
  parser.add_argument('--sizes', type=int, nargs='+', default=[32, 64, 128], help='of forward')
  parser.add_argument('--only', choices=['training', 'grid'], default='')
  given = parser.parse_args(arguments)
  clock = timing.CLOCKS[given.clock]
  for name in given.networks:
    lines = []
    if given.only != 'grid':
      candidates = trainings(name, given.batch, given.steps)
      timings = timing.alternate(candidates, given.rounds, clock)
      for measured, reference in ((DEVICE, PLAIN), (HOST, PLAIN), (DEVICE, HOST)):
        lines.append(line(timings, f'training, {measured}', measured, reference))
    if given.only != 'training':
      candidates = grids(name, given.images, given.sizes)
      best = timing.fastest({k: v for k, v in candidates.items() if k != 'grid'}, clock=clock)
      both = {key: candidates[key] for key in ('grid', best)}
      lines.append(line(timing.alternate(both, given.rounds, clock), 'grid', 'grid', best))
    timing.print_table((name, *HEADER[1:]), lines)


def line(timings: timing.Timings, title: str, name: str, reference: str) -> tuple[str, ...]:
  """Returns a row of the table."""
  ratio = timing.describe_ratio(timings.ratio(name, reference))
  return title, f'{timings.rate(name):.4g}', reference, ratio


def trainings(name: str, size: int, steps: int) -> dict[str, subject.Candidate]:
  """Returns `steps` steps of training on a plain batch, augmented in the step, and by tf.data."""
  ways = parallel.create('jit', size)
  rows = batch_of(size, catalog.get(name).input_shape)
  placed = ways.put_batch(rows)
  selective = {'environment': {'transforms': NAMES, 'share': _SHARE}}
  plain, augmented = (
    step_of(name, size, ways, Policy.of(flip={}, crop={}, **further)) for further in ({}, selective)
  )
  prepared = map(ways.put_batch, on_host(rows))
  sources: dict[str, tuple[Callable[[Any], None], Iterator[Any]]] = {
    PLAIN: (plain, itertools.repeat(placed)),
    DEVICE: (augmented, itertools.repeat(placed)),
    HOST: (plain, prepared),
  }

  def several(step: Callable[[Any], None], batches: Iterator[Any]) -> None:
    for _ in range(steps):
      step(next(batches))

  return {
    key: (functools.partial(several, *source), steps * size) for key, source in sources.items()
  }


def batch_of(size: int, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
  """Returns a batch of noise in 8-bit levels, as many images of each group as of those of none."""
  generator = np.random.default_rng(0)
  return {
    'image': generator.integers(0, 256, (size, *shape), np.uint8),
    'label': generator.integers(0, 10, size).astype(np.int32),
    'example_id': np.arange(size, dtype=np.int32),
    'class_group': (np.arange(size) % _GROUPS).astype(np.int32),
  }


def step_of(name: str, size: int, ways: Parallel, policy: Policy) -> Callable[[Any], None]:
  """Returns a step of training on a placed batch; the state goes on from call to call."""
  architecture = catalog.get(name)
  stored = batch_of(size, architecture.input_shape)
  training = Training(
    architecture.build(10),
    rows=ArrayRows(stored['image'], stored['label'], subject.CLASSES),
    inputs=Inputs(architecture.mean, architecture.std),
    settings=TrainingSettings(batch_size=size, steps=1000),
    pipeline=Pipeline(policy),
  )
  compiled = ways.compile(
    TrainStep(training, ways), (REPLICATED, BATCH), (REPLICATED, REPLICATED), donate=(0,)
  )
  state = [ways.replicate(jax.jit(training.initial_state)())]

  def step(batch: Any) -> None:
    state[0], metrics = compiled(state[0], batch)
    jax.block_until_ready(metrics)

  return step


def on_host(rows: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
  """Yields the batch again and again, its images transformed anew by a map of tf.data."""
  import tensorflow as tf

  cpu = jax.devices('cpu')[0]

  @jax.jit
  def transformed(image: jax.Array, environment: jax.Array, draw: jax.Array) -> jax.Array:
    key = jax.random.key(draw)
    severity = jax.random.randint(key, (), 1, 6).astype(jnp.float32)
    scaled = image.astype(jnp.float32) / 255
    return transforms.transform(key, scaled, environment, severity, NAMES)

  def shown(image: np.ndarray, group: np.ndarray, draw: np.ndarray) -> np.ndarray:
    generator = np.random.default_rng(int(draw))
    environment = np.int32(group if generator.random() < _SHARE else 0)
    with jax.default_device(cpu):
      return np.asarray(transformed(image, environment, np.uint32(draw)))

  def element(draw: tf.Tensor, row: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    given = (row['image'], row['class_group'], draw)
    image = tf.ensure_shape(tf.numpy_function(shown, given, tf.float32), row['image'].shape)
    return {**row, 'image': image}

  data = tf.data.Dataset.from_tensor_slices(rows).repeat().enumerate()
  data = data.map(element, num_parallel_calls=tf.data.AUTOTUNE).batch(len(rows['label']))
  return data.prefetch(2).as_numpy_iterator()


def grids(name: str, images: int, sizes: Sequence[int]) -> dict[str, subject.Candidate]:
  """Returns the evaluation of the whole grid, and plain forward passes by batch size."""
  network = subject.classifier(name)
  rows, study = subject.rows(network.input_shape, images), Systematic()
  views = study.views(rows.image_shape)
  key = random_keys.stream(0, study.stream)
  runner = Evaluator(network, views, key, parallel.create('jit'))
  passes = images * len(views)
  plain = subject.forwards(runner, rows, sizes, passes)
  return {'grid': subject.discarded(runner, rows), **plain}


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
