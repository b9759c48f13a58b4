"""Tests FAB, Square and AutoAttack: their definitions, images, flags, and the authors' code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from robustness.attacks import Arguments, balls, fab, margin, square, targeted_dlr
from robustness.attacks.auto_attack import VERSIONS, AutoAttack
from robustness.attacks.auto_pgd import AutoPGD
from robustness.attacks.fab import FAB
from robustness.attacks.in_turn import in_turn
from robustness.attacks.square import Square
from tests.attacks.attacks_test import GENERATOR, IMAGES, KEYS, LABELS, WEIGHTS, length, logits
from tests.cases import cases
from tests.refusals import refused

RADIUS = {'linf': 0.03, 'l2': 0.25, 'l1': 1.2}
"""Radii in which some of `IMAGES` fall to an attack and some do not."""
PREDICTED = np.asarray(logits(IMAGES).argmax(1))
"""Labels that all images have right before an attack."""
ATTACKS = [
  *(FAB(norm, epsilon, steps=9, targets=k) for norm, epsilon in RADIUS.items() for k in (0, 3)),
  *(Square(norm, epsilon, queries=60) for norm, epsilon in RADIUS.items()),
  *(AutoPGD(norm, epsilon, targets=3) for norm, epsilon in RADIUS.items()),
  *(AutoAttack(norm, RADIUS[norm], iterations=4, queries=9) for norm in ('linf', 'l1')),
]


@pytest.mark.slow
@pytest.mark.parametrize('attack', ATTACKS, ids=str)
def test_images_stay_in_ball_and_box_and_depend_on_their_row_alone(attack):
  call = jax.jit(lambda keys, images, labels: attack(keys, logits, images, labels))
  made = call(KEYS, IMAGES, PREDICTED)
  assert (length(made, attack.norm) <= attack.epsilon * (1 + 1e-5)).all()
  assert float(made.min()) >= 0 and float(made.max()) <= 1
  has_fallen = np.asarray(margin(logits(made), PREDICTED)) > 0
  assert 2 <= has_fallen.sum() < len(has_fallen), 'some images fall and some do not'
  if not isinstance(attack, Square):  # Square returns the best of its changes, not the clean image
    assert not length(made, attack.norm)[~has_fallen].any()
  is_sixth = np.arange(len(has_fallen)) == 5
  changed = [
    np.where(balls.as_image_factors(is_sixth), IMAGES, 1 - IMAGES),
    np.where(is_sixth, PREDICTED, (PREDICTED + 1) % 4),
  ]
  np.testing.assert_allclose(call(KEYS, *changed)[5], made[5], atol=1e-6)


def test_attacks_in_turn_run_on_right_rows_only_and_keep_what_fell():
  ran = []

  def run(number, arguments):
    labels = arguments.labels
    jax.debug.callback(lambda n, y: ran.append((int(n), y.tolist())), number, labels)
    return jnp.where(balls.as_image_factors(labels == number + 1), 1.0, arguments.images)

  def one_hot(x):  # the class is ten times the first pixel; above 0.4 all logits are 0
    return jax.nn.one_hot(jnp.round(10 * x[:, 0, 0, 0]).astype(int), 5)

  labels, right = jnp.arange(1, 4), jnp.asarray([True, False, True])
  images = jnp.broadcast_to(balls.as_image_factors(labels / 10), (3, 2, 2, 1))
  arguments = Arguments(KEYS[:3], one_hot, images, labels)
  adversarial, right = in_turn(run, 2, arguments, (images, right))
  jax.effects_barrier()
  # the row of label 2 is wrong at first and the row of label 1 falls to the first attack; the rows
  # that are left are repeated to fill the batch
  assert ran == [(0, [1, 3, 1]), (1, [3, 3, 3])] and right.tolist() == [False, False, True]
  np.testing.assert_array_equal(adversarial[1:], images[1:])


@cases('norm', *RADIUS)
def test_the_change_onto_a_plane_is_the_shortest(norm):
  """Compares with general solvers; a plane that misses the box gives the nearest corner."""
  points, normals = GENERATOR.random((6, 2, 2, 1)), GENERATOR.normal(size=(6, 2, 2, 1))
  gaps = np.array([0.1, -0.1, 0.5, -0.5, 0.0, 99.0])  # w · d
  offsets = -(normals * points).sum((1, 2, 3)) - gaps
  changes = np.asarray(fab.onto_plane(*map(jnp.float32, (points, normals, offsets)), norm))
  for x, w, gap, change in zip(
    *(a.reshape(6, -1) for a in (points, normals, gaps, changes)), strict=True
  ):
    room = np.where(w * gap > 0, 1 - x, x)  # distance to the bound towards the plane
    if abs(gap) > room @ np.abs(w):
      np.testing.assert_allclose(np.abs(change), room, atol=1e-6)
      continue
    assert change @ w == pytest.approx(gap, abs=1e-5)
    if norm == 'linf':
      sides = np.block([[np.eye(4), -np.ones((4, 1))], [-np.eye(4), -np.ones((4, 1))]])
      box = [*zip(-x, 1 - x, strict=True), (0, None)]
      best = linprog([0] * 4 + [1], sides, np.zeros(8), [[*w, 0]], [gap], box).fun
      assert np.abs(change).max() == pytest.approx(best, abs=1e-5)
    elif norm == 'l1':  # a change is an increase less a decrease, both at least 0
      box = [*zip(np.zeros(8), [*(1 - x), *x], strict=True)]
      best = linprog(np.ones(8), None, None, [[*w, *-w]], [gap], box).fun
      assert np.abs(change).sum() == pytest.approx(best, abs=1e-5)
    else:
      plane = {'type': 'eq', 'fun': lambda d, w=w, gap=gap: w @ d - gap}
      box = [*zip(-x, 1 - x, strict=True)]
      best = minimize(lambda d: d @ d, np.zeros(4), bounds=box, constraints=plane, tol=1e-12).fun
      assert change @ change == pytest.approx(best, abs=1e-4)


def test_windows_shrink_as_published_and_their_halves_are_opposite():
  np.testing.assert_array_equal(square.sides((32, 32), 1), [29, 20, 14, 10, 7, 5, 4, 3, 2, 1])
  np.testing.assert_array_equal(square.sides((32, 32), 3), [29, 21, 15, 11, 7, 5, 5, 3, 3, 3])
  for norm, order in (('l2', 2), ('l1', 1)):
    window = square.two_halves_pattern(3, norm)
    np.testing.assert_allclose(window, window[:, ::-1])
    assert (window[0] > 0).all() and (window[1:] < 0).all()
    assert np.linalg.norm(window.ravel(), order) == pytest.approx(1)
  np.testing.assert_allclose(window[0], window[0, 1] * np.array([1 / 17, 1, 1 / 17]), rtol=1e-6)


def test_the_targeted_loss_follows_from_its_definition_and_needs_four_classes():
  scores = np.array([[1.0, 4.0, 2.0, 0.0]], np.float32)
  value = targeted_dlr(scores, np.array([1]), np.array([3]))
  assert float(value[0]) == pytest.approx((0 - 4) / (4 - (1 + 0) / 2))
  refused('has 3 classes', targeted_dlr, scores[:, :3], np.array([1]), np.array([2]))


@pytest.mark.slow
@pytest.mark.parametrize('version', VERSIONS)
def test_rows_record_the_stage_to_which_they_fell_and_no_flag_is_raised(version):
  queries = {} if version == 'rand' else {'queries': 5}
  attack = AutoAttack(epsilon=0.03, version=version, iterations=3, **queries)
  adversarial, observed = jax.jit(lambda: attack.observed(KEYS, logits, IMAGES, LABELS))()
  is_wrong = np.asarray(margin(logits(adversarial), LABELS)) > 0
  np.testing.assert_array_equal(np.asarray(observed['stage']) <= len(attack.stages), is_wrong)
  np.testing.assert_array_equal(observed['stage'] == 0, LABELS != PREDICTED)
  assert not np.asarray(observed['no_gradient']).any() and not np.asarray(observed['random']).any()


@pytest.mark.slow
def test_what_falls_to_one_attack_falls_to_auto_attack_in_l1():
  """An attack gets the keys of its stage, folded with run 0 if it does not fold them itself."""
  ensemble = AutoAttack('l1', RADIUS['l1'], iterations=10, queries=30)
  stages = ensemble.members(4)
  assert [runs for _, runs in stages] == [5, 3, 3, 1]
  assert [runs for _, runs in ensemble.members(10)] == [5, 5, 9, 1]
  has_fallen = np.asarray(margin(logits(ensemble(KEYS, logits, IMAGES, PREDICTED)), PREDICTED)) > 0
  for number, (attack, _) in enumerate(stages, 1):
    keys = jax.vmap(lambda key, number=number: jax.random.fold_in(key, number))(KEYS)
    if not attack.in_turn:
      keys = jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys)
    adversarial = attack(keys, logits, IMAGES, PREDICTED)
    falls_to_one = np.asarray(margin(logits(adversarial), PREDICTED)) > 0
    assert falls_to_one.any() and has_fallen[falls_to_one].all(), attack.name
  assert not has_fallen.all()


@pytest.mark.slow
def test_a_network_without_gradient_is_noticed():
  def rounded(images):
    return logits(jnp.round(images))

  attack, labels = AutoAttack(epsilon=0.03, iterations=1, queries=1), rounded(IMAGES).argmax(1)
  _, observed = jax.jit(lambda: attack.observed(KEYS, rounded, IMAGES, labels))()
  assert np.asarray(observed['no_gradient']).all()


@pytest.mark.slow
def test_a_random_network_on_the_host_is_noticed():
  draw = np.random.default_rng(0)

  def noisy(images):
    kind = jax.ShapeDtypeStruct((len(images), 4), jnp.float32)
    noise = jax.pure_callback(lambda x: draw.normal(size=(len(x), 4)).astype('f'), kind, images)
    # the classifier lacks the last class
    return (logits(images) + 0.01 * jax.lax.stop_gradient(noise)).at[:, 3].set(-jnp.inf)

  attack = AutoAttack(epsilon=0.03, version='rand', iterations=1)
  differentiable = jax.custom_jvp(noisy)
  # the gradient has no noise, so the answers alone show that the network is random
  differentiable.defjvp(lambda x, dx: (noisy(*x), jax.jvp(logits, x, dx)[1].at[:, 3].set(0)))
  _, observed = jax.jit(lambda: attack.observed(KEYS, differentiable, IMAGES, LABELS))()
  assert np.asarray(observed['random']).all()


@pytest.mark.parametrize('norm', RADIUS)
def test_the_same_images_fall_to_fab_as_to_the_authors_code(norm):
  torch = pytest.importorskip('torch', reason="runs the authors' code")
  pytest.importorskip('autoattack', reason="runs the authors' code")
  from autoattack.fab_pt import FABAttack_PT

  weights = torch.tensor(np.asarray(WEIGHTS))
  theirs = FABAttack_PT(
    lambda x: torch.tanh(x.permute(0, 2, 3, 1).reshape(len(x), -1) - 0.5) @ weights,
    *({'linf': 'Linf', 'l2': 'L2', 'l1': 'L1'}[norm], 1, 20, RADIUS[norm]),
    targeted=True,
    device='cpu',
    n_target_classes=3,
  )
  images = torch.tensor(np.asarray(IMAGES).transpose(0, 3, 1, 2).copy())
  perturbed = theirs.perturb(images, torch.tensor(PREDICTED)).numpy().transpose(0, 2, 3, 1)
  ours = FAB(norm, RADIUS[norm], steps=20, targets=3)(KEYS, logits, IMAGES, PREDICTED)
  has_fallen = length(perturbed, norm) > 0
  np.testing.assert_array_equal(has_fallen, length(ours, norm) > 0)
  assert 2 <= has_fallen.sum() < 8 and IMAGES.shape == perturbed.shape


@cases(
  'kind, settings, message',
  (FAB, {'targets': -1}, r'fab\.targets is -1'),
  (FAB, {'steps': 0}, r'fab\.steps is 0'),
  (Square, {'queries': 0}, r'square\.queries is 0'),
  (AutoPGD, {'passes': 0}, r'auto_pgd\.passes is 0'),
  (AutoAttack, {'version': 'best'}, r"auto_attack\.version is 'best'.*'plus'"),
  (AutoAttack, {'version': 'rand', 'queries': 100}, r'auto_attack\.queries is 100'),
  (AutoAttack, {'norm': 'l3'}, r"auto_attack\.norm is 'l3'"),
  (AutoAttack, {'norm': 'l1', 'version': 'rand'}, r"auto_attack\.version is 'rand'.*'standard' in"),
)
def test_bad_settings_are_named(kind, settings, message):
  refused(r'config\.classifier\.attack\.' + message, kind, **settings)
