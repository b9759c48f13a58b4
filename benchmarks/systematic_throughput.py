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

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing
from robustness import parallel
from robustness.augment.policy import Policy
from robustness.core import random_keys
from robustness.core.rows import ArrayRows, numeric_columns
from robustness.environments import transforms
from robustness.evaluation.runner import Evaluator
from robustness.models import catalog
from robustness.studies.systematic import Systematic
from robustness.training.training import Pipeline

PLAIN, DEVICE, HOST = 'plain', 'in the step', 'in tf.data'
NAMES = Systematic().environments
HEADER = ('measured', 'images/s', 'reference', 'ratio')
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
  groups = (np.arange(size) % (1 + len(NAMES))).astype(np.int32)  # as many of each as of none
  rows = subject.stored_rows(catalog.get(name).input_shape, size, class_group=groups)
  selective = {'environment': {'transforms': NAMES, 'share': _SHARE}}
  plain, augmented = (
    subject.training(
      name, rows, size, 1000, pipeline=Pipeline(Policy.of(flip={}, crop={}, **further))
    )
    for further in ({}, selective)
  )
  prepared = map(parallel.create('jit', size).put_batch, on_host(rows))
  return {
    PLAIN: subject.bare_steps(plain, steps),
    DEVICE: subject.bare_steps(augmented, steps),
    HOST: subject.bare_steps(plain, steps, prepared),
  }


def on_host(rows: ArrayRows) -> Iterator[dict[str, np.ndarray]]:
  """Yields the rows again and again, their images transformed anew by a map of tf.data."""
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

  batch = numeric_columns(next(rows.batches(rows.num_examples, stored=True)))
  data = tf.data.Dataset.from_tensor_slices(batch).repeat().enumerate()
  data = data.map(element, num_parallel_calls=tf.data.AUTOTUNE).batch(rows.num_examples)
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
