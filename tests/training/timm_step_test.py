"""A step of fine-tuning equals timm's with the same weights, batch and random draws."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util

from robustness.augment.policy import Policy, row_keys
from robustness.core.rows import ArrayRows
from robustness.models.inputs import Inputs
from robustness.models.layers import DROP_PATH
from robustness.objectives.cross_entropy import CrossEntropy
from robustness.parallel.mesh import MeshParallel
from robustness.training import optimizer
from robustness.training.depth import drop_factors
from robustness.training.settings import TrainingSettings
from robustness.training.training import Pipeline, Training
from tests.models import families_parity_test as families
from tests.models.peers import peer
from tests.networks import imported
from tests.training.conftest import compiled_step

SIZE, SEED, RATE, SMOOTHING = 8, 3, 0.4, 0.1
LARGE_RATE = 1e4  # of plain gradient descent, so that the update has the digits of the gradient
NAMES = 'convnext_tiny', 'swin_tiny', 'deit3_s16', 'efficientnetv2_s'
CASES = {case.name: case for case in reversed([*families._cases()]) if case.name in NAMES}
POLICY = Policy.of(mixup_or_cutmix={})


def peers(name):
  """Returns the peer with random weights, our thin architecture and the variables of both."""
  from tests.models import parity

  case = CASES[name]
  network = parity.randomise(case.make(case.sides[0], drop_path_rate=RATE))
  architecture, side = families.thin(case), case.sides[0]
  return (
    network,
    architecture,
    imported(architecture, parity.arrays(network), None, (side, side, 3)),
  )


@functools.cache
def training(name):
  """Returns a training of one step of gradient descent on noise, and its batch."""
  _, architecture, variables = peers(name)
  side = CASES[name].sides[0]
  images = np.random.default_rng(1).uniform(size=(SIZE, side, side, 3)).astype(np.float32)
  names = tuple(map(str, range(families.CLASSES)))
  rows = ArrayRows(images, np.arange(SIZE) % families.CLASSES, names)
  settings = TrainingSettings(
    steps=1,
    batch_size=SIZE,
    learning_rate=LARGE_RATE,
    schedule='constant',
    momentum=0.0,
    nesterov=False,
    weight_decay=0.0,
    drop_path=RATE * drop_path_of_last(name),
  )
  task = Training(
    architecture.build(families.CLASSES),
    rows,
    Inputs((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)),
    settings,
    Pipeline(POLICY, objective=CrossEntropy(SMOOTHING)),
    SEED,
    variables,
  )
  return task, next(iter(rows.training_batches(SIZE, SEED, 0)))


def drop_path_of_last(name):
  """Returns the share of timm's drop path rate in the last block, (n − 1) / n in EfficientNets."""
  count = len(blocks(peers(name)[0]))
  return (count - 1) / count if name.startswith('efficientnet') else 1


def blocks(network):
  """Returns the blocks of timm's network that have stochastic depth."""
  return [m for m in network.modules() if hasattr(m, 'drop_path') or hasattr(m, 'drop_path1')]


def names_of_branches(block):
  return ('drop_path1', 'drop_path2') if hasattr(block, 'drop_path1') else ('drop_path',)


def shares(batch):
  """Returns λ of every pixel, [B, H, W], from the same draws for white rows and black partners."""
  is_white = np.arange(SIZE) < SIZE // 2
  image = np.broadcast_to(is_white[:, None, None, None], batch['image'].shape).astype(np.float32)
  target = jax.nn.one_hot(batch['label'], families.CLASSES)
  mixed = np.asarray(POLICY({**batch, 'image': image, 'target': target}, SEED, 0)['image'][..., 0])
  return np.where(is_white[:, None, None], mixed, 1 - mixed)


def mixed_by_timm(monkeypatch, batch):
  """Returns images and smoothed targets as timm's Mixup makes them with our λ and boxes."""
  torch, mixup = peer('torch'), peer('timm.data.mixup')
  from tests.models import parity

  shared = shares(batch)
  is_cutmix = np.isin(shared, (0, 1)).all((1, 2))
  assert 0 < is_cutmix.sum() < SIZE
  boxes = []
  for share in shared[is_cutmix]:
    ends = [np.flatnonzero((share == 0).any(axis)) for axis in (1, 0)]
    boxes.append([end for x in ends for end in ((x[0], x[-1] + 1) if len(x) else (0, 0))])
  drawn = iter(boxes)
  monkeypatch.setattr(mixup, 'rand_bbox', lambda *_, **__: next(drawn))
  mixer = mixup.Mixup(0.8, 1.0, mode='elem', label_smoothing=SMOOTHING, num_classes=7)
  lam = np.where(is_cutmix, 0.5, shared[:, 0, 0]).astype(np.float32)
  monkeypatch.setattr(mixer, '_params_per_elem', lambda _: (lam, is_cutmix))
  images = parity.torch_images(np.asarray(batch['image']))
  images, targets = mixer(images, torch.from_numpy(np.array(batch['label'], np.int64)))
  return images.numpy().transpose(0, 2, 3, 1), targets.numpy()


@pytest.fixture
def of_timm(monkeypatch):
  """Returns a function from a name to timm's images, targets, loss, gradients (as our
  parameters) and network."""
  torch, _ = peer('torch'), peer('timm')
  from tests.models import parity

  class Factor(torch.nn.Module):
    def __init__(self, factors):
      super().__init__()
      self.factors = torch.from_numpy(np.array(factors))

    def forward(self, x):
      return x * self.factors.reshape(-1, *[1] * (x.ndim - 1))

  def compute(name):
    network, architecture, variables = peers(name)
    task, batch = training(name)
    images, targets = mixed_by_timm(monkeypatch, batch)
    keys = row_keys(batch, SEED, DROP_PATH, jnp.int32(0))
    rises = task.model.drop_path_rises  # in timm it always rises, in DeiT III's release it does not
    drawn = drop_factors(variables['params'], task.settings.drop_path, keys, rises)
    drawn = traverse_util.flatten_dict(drawn).values()
    for index, (block, factors) in enumerate(zip(blocks(network), drawn, strict=True)):
      expected = task.settings.drop_path * index / (len(drawn) - 1)
      for branch, part in enumerate(names_of_branches(block)):
        drop_prob = getattr(getattr(block, part), 'drop_prob', 0)
        assert not rises or drop_prob == pytest.approx(expected)
        setattr(block, part, Factor(factors[:, branch]))
    assert any((np.asarray(x) == 0).any() for x in drawn)
    mean, std = (np.array(x, np.float32) for x in (task.inputs.mean, task.inputs.std))
    logits = network.train()(parity.torch_images((images - mean) / std))
    loss = peer('timm.loss').SoftTargetCrossEntropy()(logits, torch.from_numpy(targets))
    loss.backward()
    gradients = {n: p.grad.numpy().copy() for n, p in network.named_parameters()}
    arrays = {**parity.arrays(network), **gradients}
    shape = batch['image'].shape[1:]
    gradients = imported(architecture, arrays, None, shape)['params']
    return images, targets, loss.item(), gradients, network

  return compute


@pytest.mark.slow
@pytest.mark.parametrize('name', NAMES)
def test_a_step_has_timms_images_targets_loss_and_gradients(name, of_timm):
  images, targets, loss, gradients, _ = of_timm(name)
  task, batch = training(name)
  target = jax.nn.one_hot(batch['label'], families.CLASSES)
  mixed = POLICY({**batch, 'target': target}, SEED, jnp.int32(0))
  np.testing.assert_allclose(mixed['image'], images, atol=1e-6)
  np.testing.assert_allclose(optax.smooth_labels(mixed['target'], SMOOTHING), targets, atol=1e-6)
  single = MeshParallel(jax.devices()[:1])
  state = task.initial_state()
  after, metrics = compiled_step(task, single)(single.replicate(state), single.put_batch(batch))
  assert float(metrics['loss']) == pytest.approx(loss, rel=1e-4)
  flat = traverse_util.flatten_dict(gradients, sep='/')
  largest = max(np.abs(x).max() for x in flat.values())
  changes = jax.tree.map(lambda a, b: np.asarray(a - b) / LARGE_RATE, state.params, after.params)
  for path, change in traverse_util.flatten_dict(changes, sep='/').items():
    bound = 1e-4 * np.abs(flat[path]).max() + 1e-6 * largest
    assert np.abs(change - flat[path]).max() <= bound, path


@pytest.mark.slow
@pytest.mark.parametrize('name', NAMES)
def test_an_update_is_timms_with_its_groups_of_parameters(name, of_timm):
  """AdamW with layer decay, and RMSProp of EfficientNetV2, two steps of equal gradients."""
  optim, torch = peer('timm.optim'), peer('torch')
  from tests.models import parity

  *_, gradients, network = of_timm(name)
  _, architecture, variables = peers(name)
  if name.startswith('efficientnet'):
    settings = TrainingSettings(optimizer='rmsprop', epsilon=1e-3, weight_decay=0.1)
    groups = optim.param_groups_weight_decay(network, 0.1)
    theirs = optim.RMSpropTF(groups, 0.01, alpha=0.9, eps=1e-3, momentum=0.9)
  else:
    settings = TrainingSettings(optimizer='adamw', weight_decay=0.1, layer_decay=0.8)
    excluded = network.no_weight_decay() if hasattr(network, 'no_weight_decay') else ()
    groups = optim.param_groups_layer_decay(network, 0.1, excluded, layer_decay=0.8)
    theirs = torch.optim.AdamW([{**g, 'lr': 0.01 * g['lr_scale']} for g in groups])
  ours = optimizer.create(settings, 0.01)
  params, state = variables['params'], ours.init(variables['params'])
  for _ in range(2):
    theirs.step()
    updates, state = ours.update(gradients, state, params, value=0.0)
    params = optax.apply_updates(params, updates)
  side = CASES[name].sides[0]
  expected = imported(architecture, parity.arrays(network), None, (side, side, 3))['params']
  for path, value in traverse_util.flatten_dict(params, sep='/').items():
    other = traverse_util.flatten_dict(expected, sep='/')[path]
    np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6, err_msg=path)
