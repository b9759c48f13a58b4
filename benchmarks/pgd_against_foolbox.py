"""PGD as a view of `attack_error` ÷ foolbox's PGD on PyTorch: same network, images, steps.

python -m benchmarks.pgd_against_foolbox
python -m benchmarks.pgd_against_foolbox --weights FILE.th --data FILE.npz --epsilon .0039

Ours is the evaluation of one attacked view: n steps on all devices, the prediction, the spectrum of
what was added, records thrown away. foolbox gets the PyTorch twin of the network with the same
weights, all cores, and its best of two batch sizes: n steps and the prediction. Both begin at a
random point of the ball. The last columns give both errors on the same images with the interval of
their paired difference: without published weights and real images they say nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import subject, timing
from benchmarks.heatmap_against_loops import NETWORK, networks
from robustness import parallel
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.estimates.comparison import mcnemar, paired_difference
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import Views
from robustness.models import catalog
from robustness.models.classifier import Classifier
from robustness.studies.attack_error import AttackError

STEP_SIZE = 2 / 255
"""Of both, whatever ε is."""
HEADER = (
  'network',
  'ours, images/s',
  'foolbox, images/s',
  "foolbox's best",
  'ratio',
  'error, ours',
  'error, foolbox',
  'foolbox - ours, 95 %',
  'wrong with foolbox only, with ours only',
  'McNemar p',
)


def ours(network: Classifier, study: AttackError) -> Evaluator:
  """Returns the evaluator of the attacked view alone."""
  views = study.views(network.input_shape)
  attacked = dataclasses.replace(
    views, ids=views.ids[1:], parameters={k: v[1:] for k, v in views.parameters.items()}
  )
  assert isinstance(attacked, Views)
  key = random_keys.stream(0, study.name)
  return Evaluator(network, attacked, key, parallel.create('jit'))


def predictions(runner: Evaluator, data: ArrayRows) -> np.ndarray:
  """Returns whether each attacked image is wrong, bool [N]."""
  layout = runner.layout(data.num_examples)
  shards = [shard['rank'][:, 0] > 0 for _, _, shard in runner.shards(data, layout)]
  return np.concatenate(shards)


def foolbox_attack(
  network: Any, data: ArrayRows, study: AttackError, batch_size: int
) -> Callable[[], np.ndarray]:
  """Returns a call that attacks all images by foolbox and says which are wrong, bool [N]."""
  import foolbox
  import torch

  architecture = catalog.get(NETWORK)
  preprocessing = {'mean': list(architecture.mean), 'std': list(architecture.std), 'axis': -3}
  model = foolbox.PyTorchModel(
    network, bounds=(0, 1), preprocessing=preprocessing, device=torch.device('cpu')
  )
  settings = study.attack['pgd']
  attack = foolbox.attacks.LinfPGD(abs_stepsize=settings['step_size'], steps=settings['steps'])
  images = torch.from_numpy(data.images.transpose(0, 3, 1, 2).copy())
  labels = torch.from_numpy(data.labels.astype(np.int64))

  def call() -> np.ndarray:
    torch.manual_seed(0)
    wrong = [
      attack(model, x, y, epsilons=study.epsilon)[2].numpy()
      for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True)
    ]
    return np.concatenate(wrong)

  return call


def paired(own: np.ndarray, other: np.ndarray) -> list[str]:
  """Returns how errors [N] of both sides differ: the interval of the paired difference, how many
  images only one side makes wrong, and McNemar's p."""
  theirs, mine = int((other & ~own).sum()), int((own & ~other).sum())
  difference, low, high = paired_difference(theirs, mine, len(own))
  interval = f'{difference:+.4f} ({low:+.4f} to {high:+.4f})'
  return [interval, f'{theirs}, {mine}', f'{float(mcnemar(theirs, mine)):.3g}']


def measure(name: str, given: Any) -> list[object]:
  """Returns the row of one network."""
  settings = {'steps': given.steps, 'step_size': STEP_SIZE}
  study = AttackError(epsilon=given.epsilon, attack={'pgd': settings})
  peer, network = networks(given.weights, name)
  data = subject.rows(network.input_shape, given.images, given.data)
  runner = ours(network, study)
  ways = {
    f'foolbox, {size} a batch': (foolbox_attack(peer, data, study, size), given.images)
    for size in sorted({min(64, given.images), given.images})
  }
  best = timing.fastest(ways, 1)
  candidates = {'ours': (lambda: predictions(runner, data), given.images), best: ways[best]}
  timings = timing.alternate(candidates, given.rounds)
  own, other = predictions(runner, data), ways[best][0]()
  return [
    name,
    f'{timings.rate("ours"):.3g}',
    f'{timings.rate(best):.3g}',
    best,
    timing.describe_ratio(timings.ratio('ours', best)),
    f'{own.mean():.4f}',
    f'{other.mean():.4f}',
    *paired(own, other),
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(
    __doc__, networks=(NETWORK,), images=200, rounds=3, choices=subject.CIFAR_RESNETS
  )
  parser.add_argument('--epsilon', type=float, default=8 / 255)
  parser.add_argument('--steps', type=int, default=10)
  given = parser.parse_args(arguments)
  timing.print_table(HEADER, [measure(name, given) for name in given.networks])


if __name__ == '__main__':
  subject.one_device_and_thread_a_core()
  jax.config.update('jax_platforms', 'cpu')
  main()
