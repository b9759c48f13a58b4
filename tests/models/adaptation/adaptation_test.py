"""Tests that each adaptation gives the logits of the same equations in PyTorch, batch by batch."""

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
from robustness.models.adaptation.zero import Zero, votes
from robustness.models.classifier import Classifier, from_linen
from robustness.models.small_images import CifarResNet
from tests.cases import cases
from tests.models.peers import peer
from tests.networks import SHAPE, imported, tiny_classifier
from tests.refusals import bad_setting, refused

RESNET8 = dataclasses.replace(catalog.get('resnet20'), name='resnet8', network=CifarResNet(10, 8))
IMAGES = np.random.default_rng(0).normal(0.3, 1, (20, 8, 8, 3)).astype(np.float32)
BATCHES = IMAGES[:8], IMAGES[8:16], IMAGES[16:]
"""Two batches of 8 images and one of 4."""
SOURCE_WEIGHT = 16 / (16 + 8)
"""Weight of the stored statistics if they count as 16 images next to a batch of 8."""
UNIFORM_ENTROPY = np.log(10)
"""Entropy of equal probabilities of the ten classes."""


def adapted_logits(adaptation, variables, observed=()):
  """Returns the logits [20, 10] of `BATCHES`, each given after the steps of the batches before it.

  The last batch is padded to 8 rows with pixels of 9. The batches `observed` come before the first
  step.
  """
  dtype = jax.tree.leaves(variables)[0].dtype
  network = RESNET8.build(10, dtype)
  apply = lambda variables, images: (network.apply(variables, images), {})  # noqa: E731
  layers = linen_layers(apply, variables, jax.ShapeDtypeStruct(IMAGES.shape, dtype))
  state = adaptation.begin(variables, layers, 10)

  def image_batch(batch):
    padded = np.pad(batch, ((0, 8 - len(batch)), (0, 0), (0, 0), (0, 0)), constant_values=9)
    keys = jax.random.split(jax.random.key(0), 8)
    return ImageBatch(jnp.asarray(padded, dtype), jnp.arange(8) < len(batch), keys)

  for batch in observed:
    state = adaptation.observe(apply, variables, state, image_batch(batch))
  step, logits = jax.jit(functools.partial(adaptation, apply)), []
  for batch in BATCHES:
    (batch_logits, _), state = step(variables, state, image_batch(batch))
    logits.append(np.asarray(batch_logits)[: len(batch)])
  return np.concatenate(logits)


@pytest.fixture
def network():
  """Returns a ResNet-8 in PyTorch, and its weights as variables of `RESNET8`.

  Its running statistics are far from the statistics of `IMAGES`.
  """
  torch = peer('torch')
  from benchmarks.torch_networks import ResNet

  torch.manual_seed(0)
  module = ResNet(8)
  for name, values in module.named_buffers():
    if 'running' in name:
      values.uniform_(0.05, 0.3)
  arrays = {name: value.numpy().copy() for name, value in module.state_dict().items()}
  return module, imported(RESNET8, arrays)


def torch_logits(logits_of_batch):
  """Returns the logits [20, 10] that a function of PyTorch gives for `BATCHES`."""
  torch = peer('torch')
  batches = (torch.from_numpy(batch.transpose(0, 3, 1, 2).copy()) for batch in BATCHES)
  return np.concatenate([logits_of_batch(batch).detach().numpy() for batch in batches])


def norms_of(module):
  return [m for m in module.modules() if isinstance(m, peer('torch').nn.BatchNorm2d)]


@pytest.mark.slow
@cases('weight', 0.0, SOURCE_WEIGHT, 1.0)
def test_mixed_statistics_match_pytorch(network, weight):
  module, variables = network
  torch = peer('torch')
  layers = norms_of(module)
  source = {layer: (layer.running_mean, layer.running_var) for layer in layers}

  def mix(layer, inputs):
    variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
    mixed = (
      weight * s + (1 - weight) * t for s, t in zip(source[layer], (mean, variance), strict=True)
    )
    layer.running_mean, layer.running_var = mixed

  for layer in layers:
    layer.register_forward_pre_hook(mix)
  expected = torch_logits(module.eval().requires_grad_(False))
  ours = adapted_logits(Statistics(source_weight=weight), variables)
  np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
  unadapted = np.concatenate([RESNET8.build(10).apply(variables, batch) for batch in BATCHES])
  assert (np.abs(ours - unadapted).max() < 1e-5) == (weight == 1)


def trainable_norms(module):
  """Returns the parameters of the batch norms, which alone have a gradient afterwards."""
  module.requires_grad_(False)
  return [p.requires_grad_() for layer in norms_of(module) for p in layer.parameters()]


@pytest.mark.slow
@cases(
  'optimizer, nesterov, rate, tolerance',
  ('sgd', True, 0.05, 1e-4),
  ('sgd', False, 0.05, 1e-4),
  ('adam', True, 1e-3, 1e-3),
)
def test_tent_matches_pytorch(network, optimizer, nesterov, rate, tolerance):
  torch = peer('torch')
  module = network[0].train()
  optimizers = {
    'adam': torch.optim.Adam,
    'sgd': functools.partial(torch.optim.SGD, momentum=0.9, nesterov=nesterov),
  }
  torch_optimizer = optimizers[optimizer](trainable_norms(module), rate)

  def adapt(batch):
    logits = module(batch)
    loss = torch.distributions.Categorical(logits=logits).entropy().mean()
    torch_optimizer.zero_grad()
    loss.backward()
    torch_optimizer.step()
    return logits

  expected = torch_logits(adapt)
  tent = Tent(optimizer=optimizer, nesterov=nesterov, learning_rate=rate)
  ours = adapted_logits(tent, network[1])
  np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)
  untrained = adapted_logits(dataclasses.replace(tent, learning_rate=1e-12), network[1])
  np.testing.assert_array_equal(ours[:8], untrained[:8])  # their logits precede the first step
  assert np.abs(ours[8:] - untrained[8:]).max() > 10 * tolerance


@pytest.fixture
def double(network):
  """Yields the network and the variables of `network` in float64, with 6 times its last weights.

  Its predictions are confident enough for EATA and SAR to select some rows and not others.
  """
  with jax.enable_x64(True):
    module = network[0].train()
    module.linear.weight.data *= 6
    arrays = {name: value.numpy().copy() for name, value in module.state_dict().items()}
    yield module.double(), jax.tree.map(jnp.float64, imported(RESNET8, arrays))


def entropies(logits):
  """Returns the entropy of each row of PyTorch's logits, [B]."""
  return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def in_float64(batches):
  """Returns batches as float64 tensors with channels first."""
  return [peer('torch').from_numpy(b.transpose(0, 3, 1, 2).astype(float)) for b in batches]


@pytest.mark.slow
@cases('redundancy, fisher_weight', (0.6, 2000.0), (0.95, 50.0), (2.0, 0.0))
def test_eata_equals_its_equations_in_pytorch(double, redundancy, fisher_weight):
  torch = peer('torch')
  module, variables = double
  parameters, max_entropy = trainable_norms(module), 0.9 * UNIFORM_ENTROPY
  initial = [p.detach().clone() for p in parameters]
  optimizer = torch.optim.SGD(parameters, 0.02, momentum=0.9)
  observed = BATCHES[1], BATCHES[0]
  fisher = [0 for _ in parameters]
  for batch in in_float64(observed):
    logits = module(batch)
    loss = torch.nn.functional.cross_entropy(logits, logits.argmax(1))
    gradient = torch.autograd.grad(loss, parameters)
    fisher = [f + g**2 / len(observed) for f, g in zip(fisher, gradient, strict=True)]
  expected, mean, num_selected = [], None, []
  for batch in in_float64(BATCHES):
    logits = module(batch)
    probabilities, entropy = logits.softmax(1).detach(), entropies(logits)
    is_selected = entropy < max_entropy
    if mean is not None:
      cosines = torch.nn.functional.cosine_similarity(mean[None], probabilities)
      is_selected &= cosines < redundancy
    expected.append(logits.detach().numpy())
    num_selected.append(int(is_selected.sum()))
    if not num_selected[-1]:
      continue
    weighted = (max_entropy - entropy.detach()).exp() * entropy
    penalty = sum(
      (f * (p - p0) ** 2).sum() for f, p, p0 in zip(fisher, parameters, initial, strict=True)
    )
    optimizer.zero_grad()
    (weighted[is_selected].mean() + fisher_weight * penalty).backward()
    optimizer.step()
    selected_mean = probabilities[is_selected].mean(0)
    mean = selected_mean if mean is None else 0.9 * mean + 0.1 * selected_mean
  # A redundancy above 1, the largest cosine, leaves no row out.
  assert num_selected[0] and (redundancy > 1 or min(num_selected) < min(map(len, BATCHES)))
  eata = Eata(margin=0.9, redundancy=redundancy, fisher_weight=fisher_weight, learning_rate=0.02)
  ours = adapted_logits(eata, variables, observed if fisher_weight else ())
  np.testing.assert_allclose(ours, np.concatenate(expected), rtol=0, atol=1e-9)
  untrained = adapted_logits(dataclasses.replace(eata, learning_rate=1e-15), variables)
  assert np.abs(ours[8:] - untrained[8:]).max() > 1e-3


@pytest.mark.slow
@cases('recovery', 0.0, 10.0)
def test_sar_equals_its_equations_in_pytorch(double, recovery):
  """A loss is never below 0 and always below 10, so weights are reset never or after each step."""
  torch = peer('torch')
  module, variables = double
  parameters, max_entropy, radius = trainable_norms(module), 0.9 * UNIFORM_ENTROPY, 0.05
  initial = [p.detach().clone() for p in parameters]
  optimizer, average, expected = None, None, []
  for batch in in_float64(BATCHES):
    optimizer = optimizer or torch.optim.SGD(parameters, 0.1, momentum=0.9)
    logits = module(batch)
    expected.append(logits.detach().numpy())
    entropy = entropies(logits)
    is_reliable = entropy < max_entropy
    gradient = torch.autograd.grad(entropy[is_reliable].mean(), parameters)
    norm = torch.sqrt(sum((g**2).sum() for g in gradient))
    before = [p.detach().clone() for p in parameters]
    for p, g in zip(parameters, gradient, strict=True):
      p.data += radius * g / norm
    perturbed_entropy = entropies(module(batch))[is_reliable]
    loss = perturbed_entropy[perturbed_entropy < max_entropy].mean()
    optimizer.zero_grad()
    loss.backward()
    for p, b in zip(parameters, before, strict=True):
      p.data.copy_(b)
    optimizer.step()
    average = loss.item() if average is None else 0.9 * average + 0.1 * loss.item()
    if average < recovery:
      optimizer = None
      for p, p0 in zip(parameters, initial, strict=True):
        p.data.copy_(p0)
  sar = Sar(margin=0.9, radius=radius, recovery=recovery, learning_rate=0.1)
  ours = adapted_logits(sar, variables)
  np.testing.assert_allclose(ours, np.concatenate(expected), rtol=0, atol=1e-9)
  untrained = adapted_logits(dataclasses.replace(sar, learning_rate=1e-15), variables)
  assert (np.abs(ours - untrained).max() > 1e-3) == (recovery == 0)


@pytest.mark.slow
@cases('threshold, is_symmetric', (1.0, False), (0.0, True))
def test_cotta_equals_its_equations_in_pytorch(double, monkeypatch, threshold, is_symmetric):
  torch = peer('torch')
  monkeypatch.setattr(cotta, 'random_view', lambda key, images: images * 0.9 + 0.02)
  module, variables = double
  teacher = copy.deepcopy(module)
  optimizer, expected = torch.optim.Adam(module.parameters(), 1e-3), []
  for batch in in_float64(BATCHES):
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
  ours = adapted_logits(adaptation, variables)
  np.testing.assert_allclose(ours, np.concatenate(expected), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_cotta_restores_the_share_of_weights_that_is_set(double):
  """If every weight is restored after each step, the teacher averages students of one step."""
  unrestored, restored = (
    adapted_logits(Cotta(threshold=0.0, restored=share, decay=0.5), double[1])
    for share in (0.0, 1.0)
  )
  # Only the third batch comes after two steps, the second with another student.
  np.testing.assert_array_equal(unrestored[:16], restored[:16])
  assert np.abs(unrestored[16:] - restored[16:]).max() > 1e-6


def test_views_of_cotta_lie_in_range_and_depend_on_the_key():
  images = jnp.asarray(np.random.default_rng(1).uniform(size=(2, 16, 16, 3)), jnp.float32)
  view = jax.jit(cotta.random_view)
  first, second = (view(jax.random.key(seed), images) for seed in (0, 1))
  for viewed in (first, second):
    assert viewed.shape == images.shape and viewed.min() >= 0 and viewed.max() <= 1
  assert np.abs(first - second).max() > 0.05
  grey = jnp.full((1, 16, 16, 1), 0.5)
  assert np.ptp(np.asarray(view(jax.random.key(2), grey))) < 0.06, 'only noise changes it'
  # A square in the middle moves by up to 2 of 16 pixels, as in the authors' code.
  square = jnp.zeros_like(grey).at[:, 6:10, 6:10].set(1)
  views = np.concatenate([view(jax.random.key(seed), square)[..., 0] for seed in range(40)])
  bright = np.maximum(views - 0.1, 0)
  rows = (bright.sum(2) @ (np.arange(16) - 7.5)) / bright.sum((1, 2))
  assert 1.7 < np.abs(rows).max() < 2.3


def test_zero_takes_the_votes_of_confident_views_and_breaks_ties_by_the_next():
  rng, num_ties = np.random.default_rng(0), 0
  vote = jax.jit(votes, static_argnums=1)
  for _ in range(200):
    logits = rng.normal(0, 3, (12, 4))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    by_entropy = np.argsort(-(probabilities * np.log(probabilities)).sum(1))
    predictions = logits.argmax(1)[by_entropy]
    counts = np.bincount(predictions[:4], minlength=4)
    tied = np.flatnonzero(counts == counts.max())
    num_ties += len(tied) > 1
    later = [prediction for prediction in predictions[4:] if prediction in tied]
    if len(tied) == 1 or later:
      expected = tied[0] if len(tied) == 1 else later[0]
      assert np.argmax(vote(jnp.asarray(logits), 4)) == expected
  assert num_ties > 20
  assert Zero(num_views=100, voting_share=0.29).num_voting == 29  # a product below 29 in floats


class Normalised(nn.Module):
  """A batch norm, which gets its input as a keyword, and a dense layer over the mean pixel."""

  axis: int = -1

  @nn.compact
  def __call__(self, x, train=False):
    x = nn.BatchNorm(use_running_average=not train, axis=self.axis, name='norm')(x=x)
    return nn.Dense(3, name='dense')(x.mean((1, 2)))


def normalised_classifier():
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
  'name, num_tent, num_sar',
  ('vit_b16', 25, 18),  # two in each of 12 blocks, and the last; SAR leaves 3 blocks and the last
  ('clip_vit_b32', 26, 19),
  ('convnext_tiny', 23, 18),
  ('swin_tiny', 29, 23),
  ('resnet50_gn', 53, 43),
)
def test_tent_and_sar_adapt_the_norms_of_networks_without_batch_norm(name, num_tent, num_sar):
  """SAR adapts no norm of the last blocks, as in the authors' code."""
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
  assert counts == [num_tent, num_sar]


def test_moments_ignore_padded_rows():
  x, mask = np.random.default_rng(1).normal(3, 2, (5, 4, 3, 2)), np.array([1, 1, 0, 1, 0], bool)
  mean, variance = moments(jnp.asarray(x, jnp.float32), jnp.asarray(mask), 1)
  np.testing.assert_allclose(mean, x[mask].mean((0, 1, 2)), rtol=1e-6)
  np.testing.assert_allclose(variance, x[mask].var((0, 1, 2), ddof=1), rtol=1e-5)


@cases(
  'adaptation, settings, message',
  (Tent, {'optimizer': 'adamw'}, r"tent\.optimizer is 'adamw'"),
  (Tent, {'nesterov': False}, r'tent\.nesterov is False; it must be True'),
  (Tent, {'learning_rate': 0.0}, r'tent\.learning_rate is 0\.0; it must be above 0'),
  (Tent, {'protocol': 'episodic'}, bad_setting('config.classifier.adaptation.tent.steps', 1)),
  (Zero, {'order': 'label_shift'}, r"zero\.order is 'label_shift'"),
  (Statistics, {'source_weight': 16.0}, r'statistics\.source_weight is 16\.0; it must be in'),
)
def test_bad_settings_are_refused(adaptation, settings, message):
  if isinstance(message, str):
    message = r'config\.classifier\.adaptation\.' + message
  refused(message, adaptation, **settings)


def test_networks_without_layers_to_adapt_are_refused():
  on_host = Classifier.from_callable(lambda x: x[:, 0, 0], SHAPE, ('a', 'b', 'c'))
  for classifier in (tiny_classifier(), on_host):
    for adaptation, layers in ((Statistics(), 'batch normalisation'), (Tent(), 'normalisation')):
      refused(f'adapts {layers}.* has none', classifier.with_adaptation, adaptation)
  assert tiny_classifier().with_adaptation(None).adaptation is None


def test_statistics_of_a_single_image_need_stored_ones():
  adapted = normalised_classifier().with_adaptation
  refused(r'batch_size is 1; it must be at least 2', adapted, Statistics(batch_size=1))
  assert adapted(Statistics(batch_size=1, source_weight=0.9))


def test_a_mixture_without_batch_norm_to_mix_in_is_refused():
  key = 'config.classifier.adaptation.zero.source_weight'
  refused(bad_setting(key, 0.5), tiny_classifier().with_adaptation, Zero(source_weight=0.5))
  assert tiny_classifier().with_adaptation(Zero()).adaptation


@cases('adaptation', Tent(), Eata(), Sar())
def test_norms_without_scales_and_biases_to_adapt_are_refused(adaptation):
  class Bare(nn.Module):
    @nn.compact
    def __call__(self, x):
      return nn.Dense(2)(nn.LayerNorm(use_scale=False, use_bias=False)(x))

  refused(bad_setting('config.classifier.adaptation.name'), begun, Bare(), adaptation)


def test_sar_without_a_norm_outside_of_its_fixed_layers_is_refused():
  class OneNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
      return nn.LayerNorm(name='norm')(x)

  refused(bad_setting('config.classifier.adaptation.name'), begun, OneNorm(), Sar())
  assert begun(OneNorm(), Sar(fixed_layers=()))['weights']


def begun(module, adaptation):
  """Returns the state of an adaptation of random weights before the first batch."""
  images = jnp.zeros((1, 4))
  variables = module.init(jax.random.key(0), images)
  apply = lambda variables, images: (module.apply(variables, images), {})  # noqa: E731
  return adaptation.begin(variables, linen_layers(apply, variables, images), 2)
