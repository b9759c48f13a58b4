"""AutoAttack as a view of `attack_error` ÷ its authors' package: same network, same images.

pip install git+https://github.com/fra31/auto-attack
python -m benchmarks.auto_attack_against_authors --weights FILE.th --data FILE.npz --epsilon .002
python -m benchmarks.auto_attack_against_authors --weights WORKDIR/checkpoints/LABEL --data FILE.npz

The weights are a published file of a ResNet for CIFAR, or the checkpoint of a training of this
project, from which the PyTorch twin is filled. The first table has the error after each attack, of
all attacks so far, on the same images, the interval of the paired difference, and how many images
only one side makes wrong. The second has images a second of both in one run, ours after
compilation; on a busy machine `--clock processor` counts processor time. The package runs
attack by attack, each on the images that are still right, and 'seconds' has its time by attack.
"""

import pathlib
import re
import tempfile
from collections.abc import Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np
from flax.traverse_util import flatten_dict

from benchmarks import subject, timing
from robustness import parallel
from robustness.attacks.auto_attack import QUERIES, STEPS, VERSIONS, AutoAttack
from robustness.attacks.balls import NORMS
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.estimates.comparison import mcnemar, paired_difference
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.staged import StagedEvaluator
from robustness.models import catalog, weights
from robustness.models.classifier import Classifier
from robustness.models.state_dict import read_arrays
from robustness.studies.attack_error import AttackError
from robustness.training.checkpoint import load_variables

NETWORK = 'resnet20'
KINDS = {'kernel': 'weight', 'scale': 'weight', 'bias': 'bias'}
KINDS |= {'mean': 'running_mean', 'var': 'running_var'}
THEIRS = {'apgd_ce': 'apgd-ce', 'apgd_t': 'apgd-t', 'fab_t': 'fab-t', 'apgd_dlr': 'apgd-dlr'}


def networks(file: str, name: str = NETWORK) -> tuple[Any, Classifier]:
  """Returns a network in PyTorch, and the same in JAX as a classifier, with the weights of a file.

  If `file` is '', both get the same random weights.
  """
  import torch

  from benchmarks.torch_networks import ResNet

  network = ResNet(int(name.removeprefix('resnet'))).eval()
  if not file:
    file = str(pathlib.Path(tempfile.mkdtemp()) / 'random.pth')
    torch.save(network.state_dict(), file)
  variables = weights.load(file, catalog.get(name))  # refuses what does not fit
  tensors = {name: torch.from_numpy(np.array(value)) for name, value in read_arrays(file).items()}
  network.load_state_dict(tensors, strict=False)  # counters of batches may be missing
  return network, subject.classifier(name, variables=variables)


def trained(folder: str) -> tuple[Any, Classifier]:
  """Returns a PyTorch network with the weights of a checkpoint, and the checkpoint's classifier."""
  import torch

  variables, _ = load_variables(pathlib.Path(folder))
  twin, _ = networks('')
  state = {}
  # a path is (collection, *layer, kind), such as ('params', 'stage1', 'block0', 'conv1', 'kernel')
  for (_, *layer, kind), value in flatten_dict(variables).items():
    name = re.sub(r'stage(\d)\.block(\d+)', r'layer\1.\2', '.'.join(layer))
    name = name.removeprefix('stem.').replace('head.dense', 'linear')
    name = {'conv': 'conv1', 'bn': 'bn1'}.get(name, name)
    # PyTorch has output axes first: of convolutions, linear maps and vectors
    axes = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}[np.ndim(value)]
    state[f'{name}.{KINDS[kind]}'] = torch.tensor(np.transpose(value, axes))
  twin.load_state_dict(state, strict=False)
  return twin, subject.classifier(NETWORK, variables=variables)


def evaluator_of_attack(network: Classifier, study: AttackError) -> Evaluator:
  """Returns the evaluator of view 1 of the study, the attacked one; view 0 is clean."""
  views = study.views(network.input_shape)
  key = random_keys.stream(0, study.name)
  return StagedEvaluator(network, views, key, parallel.create('jit')).with_views(np.array([1]))


def paired(ours: np.ndarray, theirs: np.ndarray) -> dict[str, str]:
  """Returns how two errors of the same images, bool [N], differ.

  The cells, by the heads of their columns, are the interval of the paired difference, the images
  that only one side makes wrong, and the p value of McNemar's test.
  """
  only_theirs, only_ours = int((theirs & ~ours).sum()), int((ours & ~theirs).sum())
  difference, low, high = paired_difference(only_theirs, only_ours, len(ours))
  interval = f'{difference:+.4f} ({low:+.4f} to {high:+.4f})'
  return {
    'theirs - ours, 95 %': interval,
    'only theirs, only ours': f'{only_theirs}, {only_ours}',
    'McNemar p': f'{float(mcnemar(only_theirs, only_ours)):.3g}',
  }


def our_stages(runner: Evaluator, data: ArrayRows) -> np.ndarray:
  """Returns the number of the attack that makes each image wrong, int [N]; see `their_stages`."""
  shards = runner.shards(data, runner.layout(data.num_examples))
  return np.concatenate([shard['measure/stage'][:, 0] for _, _, shard in shards])


def their_stages(
  twin: Any, data: ArrayRows, attack: AutoAttack, clock: timing.Clock
) -> tuple[np.ndarray, dict[str, float]]:
  """Runs the authors' package attack by attack; returns a number for each image, and the seconds.

  A number, int [N], says which attack makes an image wrong, from 1; 0 if it is wrong before, and
  the number of attacks + 1 if it stays right. Seconds are by attack.
  """
  import autoattack
  import torch

  architecture = catalog.get(NETWORK)
  mean, std = (torch.tensor(x)[None, :, None, None] for x in (architecture.mean, architecture.std))
  package = autoattack.AutoAttack(
    lambda x: twin((x - mean) / std),
    attack.norm.capitalize(),
    attack.epsilon,
    seed=0,
    verbose=False,
    version=attack.version,
    device='cpu',
  )
  package.apgd.n_iter = package.apgd_targeted.n_iter = package.fab.n_iter = attack.iterations
  for apgd in (package.apgd, package.apgd_targeted):  # checkpoints are set when they are made
    apgd.n_iter_orig = attack.iterations  # of all ascents in l1
    for key, share in (('n_iter_2', 0.22), ('n_iter_min', 0.06), ('size_decr', 0.03)):
      setattr(apgd, key, max(int(share * attack.iterations), 1))
  package.square.n_queries = attack.queries
  images = torch.from_numpy(data.images.transpose(0, 3, 1, 2).copy())
  labels = torch.from_numpy(data.labels.astype(np.int64))
  with torch.no_grad():
    wrong = (package.get_logits(images).argmax(1) != labels).numpy()
  stages = VERSIONS[attack.version]
  stage, seconds = np.where(wrong, 0, len(stages) + 1), {}
  for number, name in enumerate(stages, 1):
    right, begin = np.flatnonzero(stage > len(stages)), clock()
    package.attacks_to_run = [THEIRS.get(name, name)]
    attacked = images[:0]
    if len(right):
      attacked = package.run_standard_evaluation(images[right], labels[right])
    with torch.no_grad():
      wrong = (package.get_logits(attacked).argmax(1) != labels[right]).numpy()
    stage[right[wrong]] = number
    seconds[name] = clock() - begin
  return stage, seconds


def measure(args: Any) -> None:
  """Attacks the same images with this project's AutoAttack and the authors', and prints two tables.

  The first has the errors after each attack, the second the rates.
  """
  settings = {key: getattr(args, key) for key in ('version', 'iterations', 'queries')}
  attack = AutoAttack(args.norm, args.epsilon, **settings)
  study = AttackError(
    attacks=(attack.name,), attack={attack.name: settings}, norm=attack.norm, epsilon=attack.epsilon
  )
  is_checkpoint = args.weights and pathlib.Path(args.weights).is_dir()
  twin, network = (trained if is_checkpoint else networks)(args.weights)
  data = subject.rows(network.input_shape, args.images, args.data)
  runner = evaluator_of_attack(network, study)
  answers = network.predict(data.images).argmax(1)
  # Compile all steps before the time is taken: with wrong labels no image is left to attack, and
  # the number of correct images is replaced so that steps do not end early.
  missed = ArrayRows(data.images, ((answers + 1) % 10).astype(np.int32), subject.CLASSES)
  with mock.patch.object(StagedEvaluator, '_num_right', return_value=1):
    our_stages(runner, missed)
  clock = timing.CLOCKS[args.clock]
  begin = clock()
  ours = our_stages(runner, data)
  taken = clock() - begin
  theirs, seconds = their_stages(twin, data, attack, clock)
  # `ours` and `theirs` are the numbers of the attack that made an image wrong: 0 if it was before
  lines = []
  for number, name in enumerate(('clean', *VERSIONS[attack.version])):
    wrong, their_wrong = ours <= number, theirs <= number
    errors = {'ours': f'{wrong.mean():.4f}', 'theirs': f'{their_wrong.mean():.4f}'}
    lines.append({'after': name, **errors, **paired(wrong, their_wrong)})
  timing.print_table(lines)
  rate, their_rate = args.images / taken, args.images / sum(seconds.values())
  by_attack = ', '.join(f'{name} {value:.1f}' for name, value in seconds.items())
  rates = {'ours, images/s': f'{rate:.3g}', 'theirs, images/s': f'{their_rate:.3g}'}
  ratio = {'ratio': f'{rate / their_rate:.2f}', 'seconds, theirs': by_attack}
  timing.print_table([{'network': NETWORK, 'images': args.images, **rates, **ratio}])


def main(arguments: Sequence[str] | None = None) -> None:
  """Compares AutoAttack here with the package of its authors."""
  parser = subject.options(__doc__, networks=(), images=100, clock=True)
  parser.add_argument('--norm', default='linf', choices=NORMS)
  parser.add_argument('--epsilon', type=float, default=8 / 255)
  parser.add_argument('--version', default='standard', choices=tuple(VERSIONS))
  parser.add_argument('--iterations', type=int, default=STEPS)
  parser.add_argument('--queries', type=int, default=QUERIES)
  measure(parser.parse_args(arguments))


if __name__ == '__main__':
  subject.one_device_and_thread_a_core()
  jax.config.update('jax_platforms', 'cpu')
  main()
