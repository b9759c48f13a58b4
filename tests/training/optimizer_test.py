"""The optimizer against steps computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util

from robustness.models import catalog
from robustness.training import depth
from robustness.training.optimizer import create, has_decay, is_in_head, rate_factor
from robustness.training.schedule import learning_rate
from robustness.training.settings import TrainingSettings
from tests.cases import cases

PARAMS = {
  'conv': {'kernel': jnp.array([[1.0, -2.0]]), 'bias': jnp.array([0.5])},
  'bn': {'scale': jnp.array([1.5]), 'bias': jnp.array([0.25])},
}
GRADIENT = jax.tree.map(lambda x: jnp.full_like(x, 2.0), PARAMS)
PLAIN = {'momentum': 0.0, 'nesterov': False}


def _updated(settings, gradients, params=PARAMS, rates=(0.1, 0.1)):
  """Returns the parameters after a step with each gradient."""
  state = create(settings).init(params)
  for gradient, rate in zip(gradients, rates, strict=False):
    updates, state = create(settings, rate).update(gradient, state, params)
    params = optax.apply_updates(params, updates)
  return params


@pytest.mark.parametrize('nesterov', [True, False])
def test_two_steps_equal_the_hand_computed_ones(nesterov):
  rates, gradients, theta, velocity, momentum, decay = (0.1, 0.05), (2.0, -1.0), 3.0, 0.0, 0.9, 0.01
  settings = TrainingSettings(momentum=momentum, weight_decay=decay, nesterov=nesterov)
  trees = [{'layer': {'kernel': jnp.asarray(x)}} for x in (theta, *gradients)]
  params = _updated(settings, trees[1:], trees[0], rates)
  for rate, gradient in zip(rates, gradients, strict=True):
    gradient += decay * theta
    velocity = momentum * velocity + gradient
    theta -= rate * (gradient + momentum * velocity if nesterov else velocity)
  assert float(params['layer']['kernel']) == pytest.approx(theta, rel=1e-6)


@pytest.mark.slow
def test_rates_of_parameters_equal_parameter_groups_of_pytorch():
  torch = pytest.importorskip('torch', reason='PyTorch is not installed')
  generator = np.random.default_rng(0)
  params = {
    'stem': {'whitening': {'shift': jnp.array([0.5])}},
    'stage1': {'conv': {'kernel': jnp.array([1.0])}, 'bn1': {'bias': jnp.array([0.25])}},
    'head': {'dense': {'kernel': jnp.array([-1.0]), 'bias': jnp.array([0.1])}},
  }
  recipe = {'momentum': 0.85, 'weight_decay': 0.02, 'decay': 'all', 'bias_rate': 64.0}
  schedule = {'steps': 40, 'learning_rate': 0.3, 'schedule': 'triangular', 'stem_epochs': 0.5}
  settings = TrainingSettings(**recipe, **schedule)
  rate = learning_rate(settings, 100)
  state, leaves = create(settings).init(params), jax.tree.leaves(params)
  peers = [torch.nn.Parameter(torch.tensor(np.array(leaf))) for leaf in leaves]
  paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(params)]
  factors = [64.0 if 'bn1' in path else 1.0 for path in paths]
  # PyTorch's momentum holds decay too: with λ/64 and 64·η the product is the same.
  decays = [{'params': [p], 'weight_decay': 0.02 / f} for p, f in zip(peers, factors, strict=True)]
  theirs = torch.optim.SGD(decays, lr=0.1, momentum=0.85, nesterov=True)
  for step in range(40):
    gradients = [generator.normal(size=1).astype(np.float32) for _ in leaves]
    tree = jax.tree.unflatten(jax.tree.structure(params), list(map(jnp.asarray, gradients)))
    ours = create(settings, rate(step), stem_rate=float(step < 5))
    updates, state = ours.update(tree, state, params)
    params = optax.apply_updates(params, updates)
    for peer, gradient, path in zip(peers, gradients, paths, strict=True):
      peer.grad = None if 'stem' in path and step >= 5 else torch.from_numpy(gradient)
    for group, factor in zip(theirs.param_groups, factors, strict=True):
      group['lr'] = factor * float(rate(step))
    theirs.step()
  for ours_leaf, peer in zip(jax.tree.leaves(params), peers, strict=True):
    np.testing.assert_allclose(ours_leaf, peer.detach().numpy(), rtol=1e-5)


@cases(
  'decay, decayed',
  ('none', set()),
  ('kernels', {'conv/kernel'}),
  ('all', {'conv/kernel', 'conv/bias', 'bn/scale', 'bn/bias'}),
)
def test_decay_acts_on_the_selected_parameters(decay, decayed):
  settings = TrainingSettings(**PLAIN, weight_decay=0.5, decay=decay)
  optimizer = create(settings, 0.1)
  zeros = jax.tree.map(jnp.zeros_like, PARAMS)
  updates, _ = optimizer.update(zeros, optimizer.init(PARAMS), PARAMS)
  trees = PARAMS, updates, has_decay(PARAMS, decay)
  values, updates, flags = (traverse_util.flatten_dict(tree, sep='/') for tree in trees)
  for name, value in values.items():
    expected = -0.1 * 0.5 * value if name in decayed else 0 * value
    np.testing.assert_allclose(updates[name], expected, rtol=1e-6)
    assert flags[name] == (name in decayed)


def _factors(settings, losses, epoch_steps):
  """Returns the factor of the rate after each step of a training with these losses."""
  optimizer = create(settings, 0.1, epoch_steps)
  state, factors = optimizer.init(PARAMS), []
  for loss in losses:
    _, state = optimizer.update(PARAMS, state, PARAMS, value=jnp.float32(loss))
    factors.append(float(rate_factor(state)))
  return factors


def test_a_plateau_of_the_mean_loss_of_an_epoch_lowers_the_rate():
  settings = TrainingSettings(schedule='plateau')
  epochs = [(3.0, 1.0), (2.5, 0.5), (0.0, 3.1), (2.0, 1.2), (1.0, 1.0), (5.0, 5.0), (4.0, 4.0)]
  losses = [loss for epoch in epochs for loss in epoch]  # means 2, 1.5, 1.55, 1.6, 1, 5, 4
  expected = [1.0] * 5 + [0.1] * 2 + [1e-2] * 4 + [1e-3] * 2 + [1e-4]
  assert _factors(settings, losses, 2) == pytest.approx(expected)


def test_the_lowered_rate_scales_the_update():
  settings = TrainingSettings(schedule='plateau', **PLAIN, weight_decay=0.0)
  optimizer = create(settings, 0.2)
  state = optimizer.init(PARAMS)
  for loss, factor in ((1.0, 1.0), (1.0, 0.1), (0.5, 0.1)):
    updates, state = optimizer.update(PARAMS, state, PARAMS, value=jnp.float32(loss))
    expected = -0.2 * factor * PARAMS['conv']['kernel']
    np.testing.assert_allclose(updates['conv']['kernel'], expected, rtol=1e-6)
  assert float(rate_factor(create(TrainingSettings()).init(PARAMS))) == 1.0


def test_adamw_and_lamb_equal_explicit_steps():
  settings = TrainingSettings(optimizer='adamw', weight_decay=0.05)
  params = _updated(settings, [GRADIENT, jax.tree.map(jnp.negative, GRADIENT)])
  for layer, name, decay in (('conv', 'kernel', 0.05), ('bn', 'scale', 0.0)):
    theta, mean, square = np.asarray(PARAMS[layer][name], np.float64), 0.0, 0.0
    for step, g in enumerate((2.0, -2.0), 1):
      mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
      ratio = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
      theta = theta - 0.1 * (ratio + decay * theta)
    np.testing.assert_allclose(params[layer][name], theta, rtol=1e-5)
  settings = TrainingSettings(optimizer='lamb', weight_decay=0.0)
  params = _updated(settings, [GRADIENT])
  kernel = np.asarray(PARAMS['conv']['kernel'], np.float64)
  update = np.ones_like(kernel)  # Adam's first step is the gradient's sign
  ratio = np.linalg.norm(kernel) / np.linalg.norm(update)
  np.testing.assert_allclose(params['conv']['kernel'], kernel - 0.1 * ratio * update, rtol=1e-5)


def test_rmsprop_equals_explicit_steps():
  settings = TrainingSettings(
    optimizer='rmsprop', momentum=0.8, epsilon=1e-3, weight_decay=0.05, learning_rate=0.1
  )
  params = _updated(settings, [GRADIENT, jax.tree.map(jnp.negative, GRADIENT)])
  for layer, name, decay in (('conv', 'kernel', 0.05), ('bn', 'scale', 0.0)):
    theta, square, velocity = np.asarray(PARAMS[layer][name], np.float64), 1.0, 0.0
    for g in (2.0, -2.0):
      g = g + decay * theta
      square = 0.9 * square + 0.1 * g * g
      velocity = 0.8 * velocity + 0.1 * g / np.sqrt(square + 1e-3)
      theta = theta - velocity
    np.testing.assert_allclose(params[layer][name], theta, rtol=1e-5)


def test_clipping_is_by_the_global_norm():
  clipped = [TrainingSettings(clip_norm=norm, **PLAIN, weight_decay=0.0) for norm in (0.5, 50.0)]
  tight, loose = (_updated(settings, [GRADIENT]) for settings in clipped)
  change = jax.tree.map(lambda a, b: (a - b) / 0.1, PARAMS, tight)
  assert float(optax.tree.norm(change)) == pytest.approx(0.5, rel=1e-5)
  np.testing.assert_allclose(loose['conv']['bias'], 0.5 - 0.2, rtol=1e-6)


@pytest.mark.parametrize('rate', [0.0, 0.1])
def test_the_rate_of_the_backbone_is_multiplied(rate):
  params = {**PARAMS, 'head': {'dense': {'kernel': jnp.array([[1.0]])}}}
  gradient = jax.tree.map(lambda x: jnp.full_like(x, 2.0), params)
  settings = TrainingSettings(backbone_rate_multiplier=rate, **PLAIN, weight_decay=0.0)
  after = _updated(settings, [gradient], params)
  np.testing.assert_allclose(after['head']['dense']['kernel'], [[1 - 0.2]], rtol=1e-6)
  np.testing.assert_allclose(after['bn']['scale'], [1.5 - 0.2 * rate], rtol=1e-6)


@pytest.mark.parametrize('name', ['small_cnn', 'vgg16', 'squeezenet1_1', 'vit_s32'])
def test_only_the_map_to_logits_is_in_the_head(name):
  """The two hidden dense layers of VGG belong to the backbone, although they are in `head`."""
  architecture = catalog.get(name)
  images = jax.ShapeDtypeStruct((1, *architecture.input_shape), jnp.float32)
  variables = jax.eval_shape(architecture.build(4).init, jax.random.key(0), images)
  flags = traverse_util.flatten_dict(is_in_head(variables['params']), sep='/')
  assert {path for path, last in flags.items() if last} == {'head/dense/kernel', 'head/dense/bias'}


@cases(
  'name, depths, layer_of_paths',
  (
    'convnext_tiny',
    (3, 3, 9, 3),
    {'patches/bias': 0, 'stage2/halve/kernel': 4, 'stage4/block2/scale': 18, 'norm/bias': 19},
  ),
  ('swin_tiny', (2, 2, 6, 2), {'stem/bias': 0, 'stage4/join/kernel': 11, 'norm/bias': 12}),
  ('vit_s32', (12,), {'embedding/position': 0, 'block10/norm1/bias': 11, 'norm/bias': 12}),
  ('deit3_s16', (12,), {'embedding/class_token': 0, 'block0/scale1': 1, 'norm/scale': 12}),
  pytest.param(
    'efficientnetv2_s',
    (2, 4, 4, 6, 9, 15),
    {'stem/bn/bias': 0, 'stage3/block0/expand/bn/bias': 7, 'top/conv/kernel': 40},
    marks=pytest.mark.slow,
  ),
)
def test_the_rate_falls_by_layer_from_the_head_to_the_stem(name, depths, layer_of_paths):
  architecture = catalog.get(name)
  images = jax.ShapeDtypeStruct((1, *architecture.input_shape), jnp.float32)
  params = jax.eval_shape(architecture.build(4).init, jax.random.key(0), images)['params']
  layers = traverse_util.flatten_dict(depth.layer_numbers(params), sep='/')
  assert {path: layers[path] for path in layer_of_paths} == layer_of_paths
  assert {*layers.values()} == {*range(sum(depths) + 2)}
  assert layers['head/dense/kernel'] == sum(depths) + 1
  factors = traverse_util.flatten_dict(depth.rate_factors(params, 0.8), sep='/')
  for path, layer in layers.items():
    assert factors[path] == pytest.approx(0.8 ** (sum(depths) + 1 - layer))


@pytest.mark.parametrize('optimizer', ['sgd', 'adamw', 'lamb', 'rmsprop'])
def test_layer_decay_multiplies_the_whole_step(optimizer):
  names = 'stem', 'block0', 'block1', 'head'
  params = {name: {'kernel': jnp.array([[1.0, -2.0]])} for name in names}
  gradient = jax.tree.map(lambda x: x + 0.5, params)
  plain = PLAIN if optimizer == 'sgd' else {}
  steps = {}
  for decay in (1.0, 0.5):
    settings = TrainingSettings(optimizer=optimizer, layer_decay=decay, weight_decay=0.1, **plain)
    after = _updated(settings, [gradient], params)
    steps[decay] = jax.tree.map(jnp.subtract, after, params)
  for name, factor in zip(names, (0.125, 0.25, 0.5, 1), strict=True):
    expected = factor * steps[1.0][name]['kernel']
    np.testing.assert_allclose(steps[0.5][name]['kernel'], expected, rtol=1e-5)
