"""Adapted networks have the logits of PyTorch's, batch after batch; others are refused."""

import copy
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from robustness.models import catalog
from robustness.models.adaptation import ImageBatch, cotta, linen_layers, moments
from robustness.models.adaptation.cotta import Cotta
from robustness.models.adaptation.eata import Eata
from robustness.models.adaptation.sar import Sar
from robustness.models.adaptation.statistics import Statistics
from robustness.models.adaptation.tent import Tent
from robustness.models.adaptation.zero import votes
from robustness.models.classifier import Classifier, from_linen
from robustness.models.small_images import CifarResNet
from tests.cases import cases
from tests.models.peers import peer
from tests.networks import SHAPE, imported, tiny_classifier
from tests.refusals import bad_setting, refused

RESNET8 = dataclasses.replace(catalog.get('resnet20'), name='resnet8', network=CifarResNet(10, 8))
IMAGES = np.random.default_rng(0).normal(0.3, 1, (20, 8, 8, 3)).astype(np.float32)
BATCHES = IMAGES[:8], IMAGES[8:16], IMAGES[16:]
SHARE = 16 / (16 + 8)


def answers(adaptation, variables, stored=()):
  """Logits of all batches; the last one is padded with rows of 9."""
  dtype = jax.tree.leaves(variables)[0].dtype
  network = RESNET8.build(10, dtype)
  apply = lambda variables, images: (network.apply(variables, images), {})  # noqa: E731
  layers = linen_layers(apply, variables, jax.ShapeDtypeStruct(IMAGES.shape, dtype))
  state = adaptation.begin(variables, layers, 10)

  def image_batch(batch):
    padded = np.pad(batch, ((0, 8 - len(batch)), (0, 0), (0, 0), (0, 0)), constant_values=9)
    keys = jax.random.split(jax.random.key(0), 8)
    return ImageBatch(jnp.asarray(padded, dtype), jnp.arange(8) < len(batch), keys)

  for batch in stored:
    state = adaptation.observe(apply, variables, state, image_batch(batch))
  step, logits = jax.jit(functools.partial(adaptation, apply)), []
  for batch in BATCHES:
    (answered, _), state = step(variables, state, image_batch(batch))
    logits.append(np.asarray(answered)[: len(batch)])
  return np.concatenate(logits)


@pytest.fixture
def network():
  """Returns a PyTorch network with statistics far from the images', and its weights as ours."""
  torch = peer('torch')
  from benchmarks.torch_networks import ResNet

  torch.manual_seed(0)
  module = ResNet(8)
  for name, values in module.named_buffers():
    if 'running' in name:
      values.uniform_(0.05, 0.3)
  arrays = {name: value.numpy().copy() for name, value in module.state_dict().items()}
  return module, imported(RESNET8, arrays)


def torch_answers(module, of_batch):
  torch = peer('torch')
  batches = (torch.from_numpy(batch.transpose(0, 3, 1, 2).copy()) for batch in BATCHES)
  return np.concatenate([of_batch(batch).detach().numpy() for batch in batches])


@pytest.mark.slow
@cases('weight', 0.0, SHARE, 1.0)
def test_mixed_statistics_match_pytorch(network, weight):
  module, variables = network
  torch = peer('torch')
  layers = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
  source = {layer: (layer.running_mean, layer.running_var) for layer in layers}

  def mix(layer, inputs):
    variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
    mixed = (
      weight * s + (1 - weight) * t for s, t in zip(source[layer], (mean, variance), strict=True)
    )
    layer.running_mean, layer.running_var = mixed

  for layer in layers:
    layer.register_forward_pre_hook(mix)
  expected = torch_answers(module.eval().requires_grad_(False), module)
  ours = answers(Statistics(source_weight=weight), variables)
  np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
  alone = np.concatenate([RESNET8.build(10).apply(variables, batch) for batch in BATCHES])
  assert (np.abs(ours - alone).max() < 1e-5) == (weight == 1)


@pytest.mark.slow
@cases(
  'optimizer, nesterov, rate, tolerance',
  ('sgd', True, 0.05, 1e-4),
  ('sgd', False, 0.05, 1e-4),
  ('adam', True, 1e-3, 1e-3),
)
def test_tent_matches_pytorch(network, optimizer, nesterov, rate, tolerance):
  torch = peer('torch')
  module = network[0].train().requires_grad_(False)
  layers = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
  learnt = [p for layer in layers for p in layer.requires_grad_(True).parameters()]
  kinds = {
    'adam': torch.optim.Adam,
    'sgd': functools.partial(torch.optim.SGD, momentum=0.9, nesterov=nesterov),
  }
  steps = kinds[optimizer](learnt, rate)

  def adapt(batch):
    logits = module(batch)
    loss = torch.distributions.Categorical(logits=logits).entropy().mean()
    steps.zero_grad()
    loss.backward()
    steps.step()
    return logits

  expected = torch_answers(module, adapt)
  tent = Tent(optimizer=optimizer, nesterov=nesterov, learning_rate=rate)
  ours = answers(tent, network[1])
  np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)
  still = answers(dataclasses.replace(tent, learning_rate=1e-12), network[1])
  np.testing.assert_array_equal(ours[:8], still[:8])  # answered before the first step
  assert np.abs(ours[8:] - still[8:]).max() > 10 * tolerance


@pytest.fixture
def double(network):
  """Yields the network of `network`, surer of its classes, and its weights, in double precision."""
  with jax.enable_x64(True):
    module = network[0].train()
    module.linear.weight.data *= 6
    arrays = {name: value.numpy().copy() for name, value in module.state_dict().items()}
    yield module.double(), jax.tree.map(jnp.float64, imported(RESNET8, arrays))


def learnt_by(module, kind='BatchNorm2d'):
  """Parameters of the layers of a kind; no others have a gradient."""
  torch = peer('torch')
  module.requires_grad_(False)
  layers = [m for m in module.modules() if isinstance(m, getattr(torch.nn, kind, torch.nn.Module))]
  return [p.requires_grad_() for layer in layers for p in layer.parameters(recurse=False)]


def entropies(logits):
  return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def batches_in_double(images):
  return [peer('torch').from_numpy(b.transpose(0, 3, 1, 2).astype(float)) for b in images]


@pytest.mark.slow
@cases('redundancy, fisher_weight', (0.6, 2000.0), (0.95, 50.0), (2.0, 0.0))
def test_eata_equals_its_equations_in_pytorch(double, redundancy, fisher_weight):
  torch = peer('torch')
  module, variables = double
  learnt, margin = learnt_by(module), 0.9 * np.log(10)
  trained = [p.detach().clone() for p in learnt]
  optimizer = torch.optim.SGD(learnt, 0.02, momentum=0.9)
  stored = BATCHES[1], BATCHES[0]
  fisher = [0 for _ in learnt]
  for batch in batches_in_double(stored):
    logits = module(batch)
    loss = torch.nn.functional.cross_entropy(logits, logits.argmax(1))
    fisher = [
      f + g**2 / len(stored) for f, g in zip(fisher, torch.autograd.grad(loss, learnt), strict=True)
    ]
  expected, mean, counts = [], None, []
  for batch in batches_in_double(BATCHES):
    logits = module(batch)
    shares, amounts = logits.softmax(1).detach(), entropies(logits)
    selected = amounts < margin
    if mean is not None:
      selected &= torch.nn.functional.cosine_similarity(mean[None], shares) < redundancy
    expected.append(logits.detach().numpy())
    counts.append(int(selected.sum()))
    if not counts[-1]:
      continue
    weighted = (margin - amounts.detach()).exp() * amounts
    penalty = sum((f * (p - t) ** 2).sum() for f, p, t in zip(fisher, learnt, trained, strict=True))
    optimizer.zero_grad()
    (weighted[selected].mean() + fisher_weight * penalty).backward()
    optimizer.step()
    average = shares[selected].mean(0)
    mean = average if mean is None else 0.9 * mean + 0.1 * average
  assert counts[0] and (redundancy > 1 or min(counts) < min(map(len, BATCHES)))
  eata = Eata(margin=0.9, redundancy=redundancy, fisher_weight=fisher_weight, learning_rate=0.02)
  measured = answers(eata, variables, stored if fisher_weight else ())
  np.testing.assert_allclose(measured, np.concatenate(expected), rtol=0, atol=1e-9)
  still = answers(dataclasses.replace(eata, learning_rate=1e-15), variables)
  assert np.abs(measured[8:] - still[8:]).max() > 1e-3


@pytest.mark.slow
@cases('recovery', 0.0, 10.0)
def test_sar_equals_its_equations_in_pytorch(double, recovery):
  torch = peer('torch')
  module, variables = double
  learnt, margin, radius = learnt_by(module), 0.9 * np.log(10), 0.05
  trained = [p.detach().clone() for p in learnt]
  optimizer, average, expected = None, None, []
  for batch in batches_in_double(BATCHES):
    optimizer = optimizer or torch.optim.SGD(learnt, 0.1, momentum=0.9)
    logits = module(batch)
    expected.append(logits.detach().numpy())
    amounts = entropies(logits)
    is_reliable = amounts < margin
    gradient = torch.autograd.grad(amounts[is_reliable].mean(), learnt)
    norm = torch.sqrt(sum((g**2).sum() for g in gradient))
    before = [p.detach().clone() for p in learnt]
    for p, g in zip(learnt, gradient, strict=True):
      p.data += radius * g / norm
    near = entropies(module(batch))[is_reliable]
    loss = near[near < margin].mean()
    optimizer.zero_grad()
    loss.backward()
    for p, b in zip(learnt, before, strict=True):
      p.data.copy_(b)
    optimizer.step()
    average = loss.item() if average is None else 0.9 * average + 0.1 * loss.item()
    if average < recovery:
      optimizer = None
      for p, t in zip(learnt, trained, strict=True):
        p.data.copy_(t)
  sar = Sar(margin=0.9, radius=radius, recovery=recovery, learning_rate=0.1)
  measured = answers(sar, variables)
  np.testing.assert_allclose(measured, np.concatenate(expected), rtol=0, atol=1e-9)
  still = answers(dataclasses.replace(sar, learning_rate=1e-15), variables)
  assert (np.abs(measured - still).max() > 1e-3) == (recovery == 0)


@pytest.mark.slow
@cases('threshold, is_symmetric', (1.0, False), (0.0, True))
def test_cotta_equals_its_equations_in_pytorch(double, monkeypatch, threshold, is_symmetric):
  torch = peer('torch')
  monkeypatch.setattr(cotta, 'view', lambda key, images: images * 0.9 + 0.02)
  module, variables = double
  learnt = learnt_by(module, 'Module')
  teacher = copy.deepcopy(module)
  optimizer, expected = torch.optim.Adam(learnt, 1e-3), []
  for batch in batches_in_double(BATCHES):
    with torch.no_grad():
      target = teacher(batch * 0.9 + 0.02 if threshold else batch)
    expected.append(target.numpy())
    logits = module(batch)
    loss = -(target.softmax(1) * logits.log_softmax(1)).sum(1)
    if is_symmetric:
      loss = (loss - (logits.softmax(1) * target.log_softmax(1)).sum(1)) / 2
    optimizer.zero_grad()
    loss.mean().backward()
    optimizer.step()
    with torch.no_grad():
      for slow, fast in zip(teacher.parameters(), module.parameters(), strict=True):
        slow.mul_(0.9).add_(0.1 * fast)
  settings = {'decay': 0.9, 'restored': 0.0, 'is_symmetric': is_symmetric}
  adaptation = Cotta(threshold=threshold, **({'num_views': 3} if threshold else {}), **settings)
  measured = answers(adaptation, variables)
  np.testing.assert_allclose(measured, np.concatenate(expected), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_cotta_returns_weights_to_the_trained_ones(double):
  """If every weight returns after each step, the teacher is an average of one-step students."""
  unreturned, returned = (
    answers(Cotta(threshold=0.0, restored=share, decay=0.5), double[1]) for share in (0.0, 1.0)
  )
  np.testing.assert_array_equal(unreturned[:16], returned[:16])
  assert np.abs(unreturned[16:] - returned[16:]).max() > 1e-6


def test_views_of_cotta_are_images_that_differ():
  images = jnp.asarray(np.random.default_rng(1).uniform(size=(2, 16, 16, 3)), jnp.float32)
  show = jax.jit(cotta.view)
  first, second = (show(jax.random.key(seed), images) for seed in (0, 1))
  for view in (first, second):
    assert view.shape == images.shape and view.min() >= 0 and view.max() <= 1
  assert np.abs(first - second).max() > 0.05
  flat = jnp.full((1, 16, 16, 1), 0.5)
  assert np.ptp(np.asarray(show(jax.random.key(2), flat))) < 0.06, 'noise alone'


def test_zero_takes_the_votes_of_sure_views_and_breaks_ties_by_the_next():
  rng, num_ties = np.random.default_rng(0), 0
  vote = jax.jit(votes, static_argnums=1)
  for _ in range(200):
    logits = rng.normal(0, 3, (12, 4))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    order = np.argsort(-(shares * np.log(shares)).sum(1))
    choices = logits.argmax(1)[order]
    counts = np.bincount(choices[:4], minlength=4)
    tied = np.flatnonzero(counts == counts.max())
    num_ties += len(tied) > 1
    later = [choice for choice in choices[4:] if choice in tied]
    if len(tied) == 1 or later:
      expected = tied[0] if len(tied) == 1 else later[0]
      assert np.argmax(vote(jnp.asarray(logits), 4)) == expected
  assert num_ties > 20


class Normalised(nn.Module):
  """A map of normalised images; the normalisation gets its input as a keyword."""

  axis: int = -1

  @nn.compact
  def __call__(self, x, train=False):
    x = nn.BatchNorm(use_running_average=not train, axis=self.axis, name='norm')(x=x)
    return nn.Dense(3, name='dense')(x.mean((1, 2)))


def normalised():
  module = Normalised()
  variables = module.init(jax.random.key(0), jnp.zeros((1, *SHAPE)))
  facts = {'name': 'a', 'input_shape': SHAPE, 'class_names': ('a', 'b', 'c')}
  return from_linen(module, variables, mean=(0.5,), std=(0.3,), **facts)


def test_a_network_with_an_inner_jit_is_adapted_after_an_earlier_trace():
  module, images = Normalised(), jnp.asarray(IMAGES)
  variables = module.init(jax.random.key(0), images)
  image_batch = ImageBatch(
    images, jnp.ones(len(images), bool), jax.random.split(jax.random.key(0), 20)
  )
  inside = jax.jit(module.apply)

  def adapted(function):
    apply = lambda variables, images: (function(variables, images), {})  # noqa: E731
    return jax.jit(lambda changed: Statistics()(apply, changed, (), image_batch)[0][0])(variables)

  plain = inside(variables, images)
  expected = adapted(module.apply)
  assert np.abs(expected - plain).max() > 0.1
  np.testing.assert_allclose(adapted(inside), expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(inside(variables, images), plain)
  other = Normalised(axis=1)
  initial = {**other.init(jax.random.key(0), images)}
  apply = lambda variables, images: (other.apply(variables, images), {})  # noqa: E731
  refused('norm is not over the last axis', Statistics(), apply, initial, (), image_batch)


def test_fixed_filters_among_the_statistics_are_not_adapted():
  layer = {'mean': np.zeros(2), 'var': np.ones(2)}
  variables = {
    'params': {'stem': {'shift': np.zeros(2)}, 'norm': {'bias': np.zeros(2)}},
    'batch_stats': {'stem': {'kernel': np.zeros((2, 2))}, 'norm': layer},
  }
  layers = {('stem',): nn.Conv, ('norm',): nn.BatchNorm}
  assert {*Tent().begin(variables, layers, 2)['weights']} == {('params', 'norm', 'bias')}


@pytest.mark.slow
@cases(
  'name, of_tent, of_sar',
  ('vit_b16', 25, 18),  # SAR leaves the last three blocks and the norm, as the authors' code
  ('clip_vit_b32', 26, 19),
  ('convnext_tiny', 23, 18),
  ('swin_tiny', 29, 23),
  ('resnet50_gn', 53, 43),
)
def test_norms_of_networks_without_batch_norm_adapt(name, of_tent, of_sar):
  architecture = catalog.get(name)
  module, images = architecture.build(10), jnp.zeros((1, *architecture.input_shape))
  variables = jax.eval_shape(module.init, jax.random.key(0), images)
  layers = linen_layers(
    lambda variables, images: (module.apply(variables, images), {}),
    variables,
    jax.ShapeDtypeStruct(images.shape, jnp.float32),
  )
  counts = [
    sum(adaptation.is_learnt(path, layers) for path in layers) for adaptation in (Tent(), Sar())
  ]
  assert counts == [of_tent, of_sar]


def test_moments_ignore_padded_rows():
  x, mask = np.random.default_rng(1).normal(3, 2, (5, 4, 3, 2)), np.array([1, 1, 0, 1, 0], bool)
  mean, variance = moments(jnp.asarray(x, jnp.float32), jnp.asarray(mask), 1)
  np.testing.assert_allclose(mean, x[mask].mean((0, 1, 2)), rtol=1e-6)
  np.testing.assert_allclose(variance, x[mask].var((0, 1, 2), ddof=1), rtol=1e-5)


def test_bad_settings_and_networks_without_batch_norm_are_refused():
  tent = 'config.classifier.adaptation.tent'
  refused(f"{tent}.optimizer is 'adamw'", Tent, optimizer='adamw')
  refused(f'{tent}.nesterov is False; it must be True', Tent, nesterov=False)
  refused(f'{tent}.learning_rate is 0.0; it must be above 0', Tent, learning_rate=0.0)
  refused('statistics.source_weight is 16.0; it must be in', Statistics, source_weight=16.0)
  named = Classifier.from_callable(lambda x: x[:, 0, 0], SHAPE, ('a', 'b', 'c'))
  for classifier in (tiny_classifier(), named):
    for adaptation, layers in ((Statistics(), 'batch normalisation'), (Tent(), 'normalisation')):
      refused(f'adapts {layers}.* has none', classifier.with_adaptation, adaptation)
  refused(bad_setting(f'{tent}.steps', 1), Tent, protocol='episodic')
  single = Statistics(batch_size=1)
  refused(r'batch_size is 1; it must be at least 2', normalised().with_adaptation, single)
  assert normalised().with_adaptation(Statistics(batch_size=1, source_weight=0.9))
  assert tiny_classifier().with_adaptation(None).adaptation is None
