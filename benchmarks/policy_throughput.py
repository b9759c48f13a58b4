"""Images a second of training with each policy ÷ with flip and crop alone; PGD ÷ its passes.

  python -m benchmarks.policy_throughput
  python -m benchmarks.policy_throughput --network wide_resnet_28_10

A step is the whole of it: augmentation, forward and backward pass, update, on all devices. An
adversarial step of n has n gradients by the image and one by the weights: the last column divides
its time by that of n + 1 plain steps. Microseconds are those of the policy alone, for one image.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing
from robustness import parallel
from robustness.attacks.pgd import PGD
from robustness.augment import policy
from robustness.core.rows import ArrayRows
from robustness.models import catalog
from robustness.models.inputs import Inputs
from robustness.objectives.cross_entropy import JSD, CrossEntropy
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.training.settings import TrainingSettings
from robustness.training.step import TrainStep
from robustness.training.training import Pipeline, Training

PLAIN = 'flip, crop'
PAPER = {'policy': 'cifar10_reference_95', 'without': ('Brightness', 'Contrast')}
POLICIES: dict[str, dict[str, dict[str, Any]]] = {
  'gaussian': {'gaussian': {}},
  'patch_gaussian': {'patch_gaussian': {}},
  'fog_noise': {'fog_noise': {}},
  'mixup': {'mixup': {}},
  'auto_augment': {'auto_augment': PAPER},
  'rand_augment': {'rand_augment': {}},
  'corruption': {'corruption': {'left_out': ('fog',)}},
  'augmix': {'augmix': {}},
}


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  parser = timing.options(__doc__, rounds=5, clock=True)
  parser.add_argument('--network', default='resnet20', help='a name of the catalog')
  parser.add_argument('--policies', nargs='*', default=list(POLICIES), choices=list(POLICIES))
  parser.add_argument('--steps', type=int, nargs='*', default=[1, 7], help='of PGD')
  parser.add_argument('--batch', type=int, default=128)
  given = parser.parse_args(arguments)
  ways = parallel.create('jit', given.batch)
  trains = functools.partial(candidate, given.network, given.batch, ways)
  candidates = {PLAIN: trains(Pipeline(chosen({})))}
  for name in given.policies:
    objective = JSD()
    pipeline = Pipeline(
      chosen(POLICIES[name]), None, objective if name == 'augmix' else CrossEntropy()
    )
    candidates[name] = trains(pipeline)
  for steps in given.steps:
    attack = PGD(steps=steps)
    candidates[f'pgd {steps}'] = trains(Pipeline(chosen({}), attack))
  timings = timing.alternate(candidates, given.rounds, timing.CLOCKS[given.clock])
  header = ('images/s', 'ratio (range)', 'policy alone, µs', 'time ÷ (n + 1) plain steps')
  timing.print_table(
    (f'{given.network}, batch {given.batch}', *header),
    (
      (
        name,
        f'{timings.rate(name):.4g}',
        timing.describe_ratio(timings.ratio(name, PLAIN)),
        f'{alone(POLICIES[name], given.batch, ways):.3g}' if name in POLICIES else '',
        passes(timings, name),
      )
      for name in candidates
    ),
  )


def passes(timings: timing.Timings, name: str) -> str:
  """Returns the time of a step with PGD ÷ that of n + 1 plain steps, in words."""
  if not name.startswith('pgd'):
    return ''
  steps = int(name.split()[1])
  median, low, high = timings.ratio(name, PLAIN)
  return timing.describe_ratio(tuple(1 / (rate * (steps + 1)) for rate in (median, high, low)))  # type: ignore[arg-type]


def chosen(further: dict[str, dict[str, Any]]) -> policy.Policy:
  """Returns flip and crop, then the augmentations named."""
  return policy.Policy.of(flip={}, crop={}, **further)


def batch_of(size: int, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
  """Returns a batch of noise in 8-bit levels."""
  generator = np.random.default_rng(0)
  return {
    'image': generator.integers(0, 256, (size, *shape)).astype(np.float32) / 255,
    'label': generator.integers(0, 10, size).astype(np.int32),
    'example_id': np.arange(size, dtype=np.int32),
  }


def candidate(network: str, size: int, ways: Parallel, pipeline: Pipeline) -> subject.Candidate:
  """Returns one step of training on placed rows, and its number of images."""
  architecture = catalog.get(network)
  stored = batch_of(size, architecture.input_shape)
  training = Training(
    architecture.build(10),
    rows=ArrayRows(stored['image'], stored['label'], subject.CLASSES),
    inputs=Inputs(architecture.mean, architecture.std),
    settings=TrainingSettings(batch_size=size, steps=1000),
    pipeline=pipeline,
  )
  step = ways.compile(TrainStep(training, ways), (REPLICATED, BATCH), (REPLICATED, REPLICATED))
  state = ways.replicate(jax.jit(training.initial_state)())
  rows = ways.put_batch(stored)
  return (lambda: jax.block_until_ready(step(state, rows))), size


def alone(further: dict[str, dict[str, Any]], size: int, ways: Parallel) -> float:
  """Returns the microseconds that a policy takes for one image, on all devices; the least of 5."""
  rows = ways.put_batch(batch_of(size, (32, 32, 3)))
  augment = policy.Policy.of(**further)
  some = {'target': jax.nn.one_hot(rows['label'], 10)}
  apply: Callable[..., Any] = ways.compile(
    lambda x: augment({**x, **some}, 0, jnp.int32(0), ways)['image'], (BATCH,), BATCH
  )
  jax.block_until_ready(apply(rows))
  call = functools.partial(lambda: jax.block_until_ready(apply(rows)))
  return min(timing.seconds(call) for _ in range(5)) / size * 1e6


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
