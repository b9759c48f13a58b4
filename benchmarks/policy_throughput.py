"""Images a second of training with each policy ÷ with flip and crop alone; PGD ÷ its passes.

  python -m benchmarks.policy_throughput
  python -m benchmarks.policy_throughput --network wide_resnet_28_10

A step is the whole of it: augmentation, forward and backward pass, update, on all devices. An
adversarial step of n has n gradients by the image and one by the weights: the last column divides
its time by that of n + 1 plain steps. Microseconds are those of the policy alone, for one image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing
from robustness import parallel
from robustness.attacks.pgd import PGD
from robustness.augment import policy
from robustness.core.rows import numeric_columns
from robustness.models import catalog
from robustness.objectives.cross_entropy import JSD, CrossEntropy
from robustness.parallel.mesh import BATCH
from robustness.training.training import Pipeline

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
  rows = subject.stored_rows(catalog.get(given.network).input_shape, given.batch)

  def trains(**parts: Any) -> subject.Candidate:
    task = subject.training(given.network, rows, given.batch, 1000, pipeline=Pipeline(**parts))
    return subject.bare_steps(task, 1)

  candidates = {PLAIN: trains(policy=chosen({}))}
  for name in given.policies:
    objective = JSD() if name == 'augmix' else CrossEntropy()
    candidates[name] = trains(policy=chosen(POLICIES[name]), objective=objective)
  for steps in given.steps:
    candidates[f'pgd {steps}'] = trains(policy=chosen({}), attack=PGD(steps=steps))
  timings = timing.alternate(candidates, given.rounds, timing.CLOCKS[given.clock])
  header = ('images/s', 'ratio (range)', 'policy alone, µs', 'time ÷ (n + 1) plain steps')
  timing.print_table(
    (f'{given.network}, batch {given.batch}', *header),
    (
      (
        name,
        f'{timings.rate(name):.4g}',
        timing.describe_ratio(timings.ratio(name, PLAIN)),
        f'{alone(POLICIES[name], given.batch):.3g}' if name in POLICIES else '',
        passes(timings, name),
      )
      for name in candidates
    ),
  )


def passes(timings: timing.Timings, name: str) -> str:
  """Returns the time of a step with PGD ÷ that of n + 1 plain steps, in words."""
  if not name.startswith('pgd'):
    return ''
  share = 1 / (int(name.split()[1]) + 1)
  return timing.describe_ratio(timing.scaled(timings.ratio(PLAIN, name), share))


def chosen(further: dict[str, dict[str, Any]]) -> policy.Policy:
  """Returns flip and crop, then the augmentations named."""
  return policy.Policy.of(flip={}, crop={}, **further)


def alone(further: dict[str, dict[str, Any]], size: int) -> float:
  """Returns the microseconds that a policy takes for one image, on all devices; the least of 5."""
  ways = parallel.create('jit', size)
  batch = numeric_columns(next(subject.stored_rows((32, 32, 3), size).batches(size)))
  rows = ways.put_batch({**batch, 'target': np.eye(10, dtype=np.float32)[batch['label']]})
  augment = policy.Policy.of(**further)
  apply: Callable[..., Any] = ways.compile(
    lambda x: augment(x, 0, jnp.int32(0), ways)['image'], (BATCH,), BATCH
  )

  def call() -> None:
    jax.block_until_ready(apply(rows))

  call()
  return min(timing.seconds(call) for _ in range(5)) / size * 1e6


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
