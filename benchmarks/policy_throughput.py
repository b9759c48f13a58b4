"""Images a second of training with each policy ÷ with flip and crop alone; PGD ÷ its passes.

  python -m benchmarks.policy_throughput
  python -m benchmarks.policy_throughput --network wide_resnet_28_10

A step is the whole of it: augmentation, forward and backward pass, update, on all devices. An
adversarial step of n has n gradients by the image and one by the weights: the last column divides
its time by the time of n + 1 plain steps. Microseconds are the time of the policy alone for one
image. `environment` is selective augmentation: four corruptions for a fifth of the classes each.
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
from robustness.core.rows import ArrayRows, numeric_columns
from robustness.models import catalog
from robustness.objectives.cross_entropy import JSD, CrossEntropy
from robustness.parallel.mesh import BATCH
from robustness.studies.systematic import Systematic
from robustness.training.training import Pipeline

PLAIN = 'flip, crop'
ENVIRONMENTS = Systematic().environments
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
  'environment': {'environment': {'transforms': ENVIRONMENTS, 'share': 0.5}},
}


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  parser = timing.options(__doc__, rounds=5, clock=True)
  parser.add_argument('--network', default='resnet20', help='a name of the catalog')
  parser.add_argument('--policies', nargs='*', default=list(POLICIES), choices=list(POLICIES))
  parser.add_argument('--steps', type=int, nargs='*', default=[1, 7], help='of PGD')
  parser.add_argument('--batch', type=int, default=128)
  args = parser.parse_args(arguments)
  rows = grouped_rows(catalog.get(args.network).input_shape, args.batch)

  def trains(**parts: Any) -> subject.Candidate:
    task = subject.training(args.network, rows, args.batch, 1000, pipeline=Pipeline(**parts))
    return subject.bare_steps(task, 1)

  candidates = {PLAIN: trains(policy=after_flip_and_crop({}))}
  for name in args.policies:
    objective = JSD() if name == 'augmix' else CrossEntropy()
    policies = after_flip_and_crop(POLICIES[name])
    candidates[name] = trains(policy=policies, objective=objective)
  for steps in args.steps:
    attack = PGD(steps=steps)
    candidates[f'pgd {steps}'] = trains(policy=after_flip_and_crop({}), attack=attack)
  timings = timing.alternate(candidates, args.rounds, timing.CLOCKS[args.clock])
  header = ('images/s', 'ratio (range)', 'policy alone, µs', 'time ÷ (n + 1) plain steps')
  timing.print_table(
    (f'{args.network}, batch {args.batch}', *header),
    (
      (
        name,
        f'{timings.rate(name):.4g}',
        timing.describe_ratio(timings.ratio(name, PLAIN)),
        f'{alone(POLICIES[name], args.batch):.3g}' if name in POLICIES else '',
        passes(timings, name),
      )
      for name in candidates
    ),
  )


def passes(timings: timing.Timings, name: str) -> str:
  """Returns the time of a step with PGD ÷ the time of n + 1 plain steps, as text."""
  attack, _, steps = name.partition(' ')
  if attack != 'pgd':
    return ''
  return timing.describe_ratio(timing.scaled(timings.ratio(PLAIN, name), 1 / (int(steps) + 1)))


def after_flip_and_crop(augmentations: dict[str, dict[str, Any]]) -> policy.Policy:
  """Returns flip and crop, then these augmentations."""
  return policy.Policy.of(flip={}, crop={}, **augmentations)


def grouped_rows(shape: tuple[int, int, int], size: int) -> ArrayRows:
  """Returns noise with class groups of equal size, from 0 to the number of `ENVIRONMENTS`."""
  groups = (np.arange(size) % (1 + len(ENVIRONMENTS))).astype(np.int32)
  return subject.stored_rows(shape, size, class_group=groups)


def alone(augmentations: dict[str, dict[str, Any]], size: int) -> float:
  """Returns the microseconds that a policy takes for one image on all devices, the least of 5."""
  devices = parallel.create('jit', size)
  batch = numeric_columns(next(grouped_rows((32, 32, 3), size).batches(size)))
  rows = devices.put_batch({**batch, 'target': np.eye(10, dtype=np.float32)[batch['label']]})
  augment = policy.Policy.of(**augmentations)
  apply: Callable[..., Any] = devices.compile(
    lambda x: augment(x, 0, jnp.int32(0), devices)['image'], (BATCH,), BATCH
  )

  def call() -> None:
    jax.block_until_ready(apply(rows))

  call()
  return min(timing.seconds(call) for _ in range(5)) / size * 1e6


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
