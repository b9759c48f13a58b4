"""Tests PGD, FGSM and Auto-PGD: their steps, the ball and box of their images, and bad settings."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.attacks import Attack, auto_pgd, balls, cross_entropy, dlr, margin, targeted_dlr
from robustness.attacks.auto_pgd import AutoPGD
from robustness.attacks.fab import FAB
from robustness.attacks.pgd import FGSM, PGD
from robustness.attacks.square import Square
from tests.cases import cases
from tests.refusals import refused

GENERATOR = np.random.default_rng(0)
WEIGHTS = jnp.asarray(GENERATOR.normal(size=(6 * 5 * 3, 4)).astype(np.float32))
IMAGES = jnp.asarray(GENERATOR.random((8, 6, 5, 3), np.float32))
LABELS = jnp.arange(8) % 4
KEYS = jax.random.split(jax.random.key(1), 8)


def logits(images: jax.Array) -> jax.Array:
  """Returns the logits [N, 4] of a network with one layer and random `WEIGHTS`."""
  return jnp.tanh(images.reshape(len(images), -1) - 0.5) @ WEIGHTS


def attacked(attack, keys=KEYS, network=logits):
  """Returns the adversarial images of `IMAGES` with `LABELS`."""
  return attack(keys, network, IMAGES, LABELS)


def gradient(images: jax.Array) -> np.ndarray:
  """Returns the gradient of each image's cross-entropy, [8, 6, 5, 3]."""
  return np.asarray(jax.grad(lambda x: cross_entropy(logits(x), LABELS).sum())(jnp.asarray(images)))


def length(images: jax.Array, norm: str) -> np.ndarray:
  """Returns the norm of the changes of `IMAGES`, [8]."""
  change = np.asarray(images - IMAGES).reshape(8, -1)
  return np.linalg.norm(change, {'linf': np.inf, 'l2': 2, 'l1': 1}[norm], axis=1)


def pgd_iterate(attack: PGD) -> np.ndarray:
  """Returns the last iterate of PGD, computed image by image."""
  image, x, epsilon = np.asarray(IMAGES), np.asarray(IMAGES), attack.epsilon
  for _ in range(attack.steps):
    g, x = gradient(jnp.asarray(x)), x.copy()
    for i in range(len(x)):
      if attack.norm == 'linf':
        change = np.clip(x[i] + attack.step_size * np.sign(g[i]) - image[i], -epsilon, epsilon)
      else:
        change = x[i] + attack.step_size * g[i] / np.linalg.norm(g[i]) - image[i]
        change *= min(1, epsilon / np.linalg.norm(change))
      x[i] = np.clip(image[i] + change, 0, 1)
  return x


@cases('norm, epsilon, size', ('linf', 0.05, 0.02), ('l2', 0.5, 0.2))
def test_the_last_iterate_of_pgd_follows_from_its_definition(norm, epsilon, size):
  attack = PGD(norm, epsilon, steps=5, step_size=size, random_start=False)
  made = attacked(attack)
  np.testing.assert_allclose(made, pgd_iterate(attack), atol=2e-6)
  assert (cross_entropy(logits(made), LABELS) > cross_entropy(logits(IMAGES), LABELS)).all()


@cases('norm, epsilon', ('linf', 0.1), ('l2', 1.0))
def test_fgsm_is_one_step_of_length_epsilon(norm, epsilon):
  g = gradient(IMAGES)
  norms = np.linalg.norm(g.reshape(8, -1), axis=1).reshape(-1, 1, 1, 1)
  direction = np.sign(g) if norm == 'linf' else g / norms
  expected = np.clip(np.asarray(IMAGES) + epsilon * direction, 0, 1)
  np.testing.assert_allclose(attacked(FGSM(norm, epsilon)), expected, atol=2e-6)


@cases(
  'attack',
  PGD('linf', 0.1, steps=7, step_size=0.05),
  PGD('l2', 0.7, steps=7, step_size=0.35),
  AutoPGD('linf', 0.05, steps=20),
  AutoPGD('l2', 0.5, steps=20),
  AutoPGD('l1', 2.0, steps=20),
)
def test_perturbations_stay_in_ball_and_box(attack):
  made = attacked(attack)
  lengths = length(made, attack.norm)
  assert (lengths <= attack.epsilon * (1 + 1e-5)).all() and (lengths > attack.epsilon / 2).all()
  assert float(made.min()) >= 0 and float(made.max()) <= 1
  if attack.norm == 'l1':
    assert ((made != IMAGES).sum((1, 2, 3)) < 45).all(), 'of 90 values, few change'
  elif isinstance(attack, AutoPGD):
    plain = attacked(PGD(attack.norm, attack.epsilon, steps=20, step_size=attack.epsilon / 4))
    clean, auto_pgd_margin, pgd_margin = (margin(logits(x), LABELS) for x in (IMAGES, made, plain))
    assert (auto_pgd_margin - clean > 0.97 * (pgd_margin - clean)).all(), 'no weaker than PGD'


@cases('norm, epsilon', ('linf', 8 / 255), ('l2', 0.7))
def test_a_step_is_a_quarter_of_the_radius_unless_it_is_given(norm, epsilon):
  explicit = PGD(norm, epsilon, steps=3, step_size=epsilon / 4)
  np.testing.assert_array_equal(attacked(PGD(norm, epsilon, steps=3)), attacked(explicit))


@pytest.mark.parametrize('norm', ['linf', 'l2'])
@pytest.mark.parametrize('gap', [5.0, 67.0, 80.0])
def test_a_confident_prediction_is_attacked_with_the_whole_radius(norm, gap):
  """Float32 holds the gradient, near exp(−gap), but for the larger gaps not its square."""

  def confident(images):
    return gap * jax.nn.one_hot(LABELS, 4) + 0.1 * logits(images)

  made = attacked(PGD(norm, 0.2, steps=4, step_size=0.1, random_start=False), network=confident)
  assert (length(made, norm) > 0.15).all(), 'of the radius 0.2; the box cuts some'


def test_the_direction_of_a_gradient_does_not_depend_on_its_size():
  g = jnp.asarray(GENERATOR.normal(size=(6, 5, 3)).astype(np.float32))
  direction = jax.jit(lambda g: balls.steepest_direction(g, 'l2'))
  for size in (2.0**-100, 2.0**-20, 2.0**90):
    np.testing.assert_array_equal(direction(g * size), direction(g))
  np.testing.assert_allclose(direction(g), g / np.linalg.norm(g), rtol=1e-6)
  assert not np.asarray(direction(0 * g)).any()


@pytest.mark.shared_bits
@cases(
  'attack',
  PGD('linf', 0.1, steps=3),
  PGD('l2', 0.1, steps=3),
  AutoPGD('linf', 0.1, loss='dlr'),
  AutoPGD('l1', 2.0),
)
def test_a_row_depends_on_its_key_image_and_label_alone(attack):
  full = attacked(attack)
  single = attack(KEYS[2:3], logits, IMAGES[2:3], LABELS[2:3])
  np.testing.assert_allclose(single[0], full[2], atol=1e-6)
  assert not np.allclose(attacked(attack, KEYS[::-1]), full, atol=1e-4)


def test_no_gradient_passes_through_an_attack():
  total = jax.grad(lambda images: PGD(steps=2)(KEYS, logits, images, LABELS).sum())
  assert not np.asarray(total(IMAGES)).any()


@cases(
  'attack',
  PGD(),
  FGSM(),
  AutoPGD(steps=3),
  *(
    pytest.param(attack, marks=pytest.mark.slow)
    for attack in (AutoPGD('l1', steps=3), FAB(steps=3, targets=0), FAB(steps=3, targets=1))
  ),
)
def test_a_gradient_of_nan_gives_images_of_nan(attack):
  def confident(images):  # the probabilities of other classes are exactly 0
    return jnp.log(jax.nn.softmax(1e4 * logits(images)))

  labels = logits(IMAGES).argmax(-1)
  made = np.asarray(attack(KEYS, confident, IMAGES, labels))
  assert np.isnan(made[labels > 0]).any((1, 2, 3)).all()


@pytest.mark.parametrize('loss', [dlr, lambda z, y: targeted_dlr(z, y, (y + 1) % 5)])
@pytest.mark.parametrize('num_finite', [1, 2, 3, 4])
def test_dlr_has_a_gradient_beside_classes_that_the_classifier_lacks(loss, num_finite):
  scores = jax.random.normal(jax.random.key(0), (6, 5))
  lacks = jnp.arange(5) >= num_finite
  gradient = jax.grad(lambda z: loss(jnp.where(lacks, -jnp.inf, z), z.argmax(1)).sum())(scores)
  assert np.isfinite(gradient).all()


def test_targets_that_the_classifier_lacks_leave_images_finite():
  partial = lambda x: jnp.where(jnp.arange(4) < 3, logits(x), -jnp.inf)  # noqa: E731
  made = AutoPGD('linf', 1e-4, steps=3, targets=3)(KEYS, partial, IMAGES, partial(IMAGES).argmax(1))
  assert np.isfinite(made).all()


def test_fab_attacks_logits_of_half_precision():
  half = lambda images: logits(images).astype(jnp.bfloat16)  # noqa: E731
  made = FAB(steps=3, targets=0, epsilon=0.1)(KEYS, half, IMAGES, half(IMAGES).argmax(-1))
  assert made.dtype == jnp.float32 and (made != IMAGES).any()


def test_scale_multiplies_epsilon_and_step_size_without_another_compilation():
  attack = PGD('linf', 0.02, steps=3, step_size=0.01)
  scaled = jax.jit(lambda scale: attack(KEYS, logits, IMAGES, LABELS, scale))
  expected = attacked(PGD('linf', 0.08, steps=3, step_size=0.04))
  np.testing.assert_allclose(scaled(jnp.float32(4.0)), expected, atol=1e-6)
  scaled(jnp.float32(2.0))
  assert scaled._cache_size() == 1


def test_an_attack_that_changes_the_shape_of_images_is_refused():
  @dataclasses.dataclass(frozen=True)
  class Cut(Attack):
    name = 'cut'
    resembles = ()

    def __call__(self, keys, logits, images, labels, scale=1.0):
      return images[:, :2]

  message = r"'cut' gives images of \[\d+, 2, .* for \["
  refused(message, Cut().worst, 1, KEYS, logits, IMAGES, LABELS)


def test_images_of_a_users_attack_are_projected_into_the_ball():
  @dataclasses.dataclass(frozen=True)
  class Inverse(Attack):
    name, file = 'inverse', {'file': 'mine.py'}
    resembles = ()

    def __call__(self, keys, logits, images, labels, scale=1.0):
      return jnp.where(images > 0, 1 - images, jnp.nan)

  images = IMAGES.at[0, 0, 0, 0].set(0.0)
  worst = Inverse('linf', 0.02).worst(1, KEYS, logits, images, LABELS, 2.0)
  assert np.isnan(worst[0, 0, 0, 0]) and np.isnan(worst).sum() == (np.asarray(images) == 0).sum()
  inside = np.clip(images + np.clip(1 - 2 * images, -0.04, 0.04), 0, 1)
  np.testing.assert_allclose(np.nan_to_num(worst), np.where(images > 0, inside, 0), atol=1e-6)


@pytest.mark.slow
def test_restarts_keep_the_image_of_largest_margin():
  attack = PGD('l2', 0.5, steps=1, step_size=0.05)
  folded = [jax.vmap(lambda key, r=r: jax.random.fold_in(key, r))(KEYS) for r in (1, 2)]
  runs = jnp.stack([attacked(attack, keys) for keys in (KEYS, *folded)])
  best = np.asarray(jnp.stack([margin(logits(images), LABELS) for images in runs])).argmax(0)
  worst = attack.worst(3, KEYS, logits, IMAGES, LABELS)
  assert len(set(best)) > 1, 'different runs are best for different images'
  np.testing.assert_allclose(worst, np.asarray(runs)[best, np.arange(8)], atol=1e-6)
  np.testing.assert_array_equal(attack.worst(1, KEYS, logits, IMAGES, LABELS), runs[0])


def test_a_restart_without_a_gradient_is_the_result():
  @dataclasses.dataclass(frozen=True)
  class Missing(Attack):
    """Returns an image of NaN for a quarter of the keys."""

    name = 'missing'
    resembles = ()

    def __call__(self, keys, logits, images, labels, scale=1.0):
      is_missing = jax.vmap(jax.random.bits)(keys) % 4 == 0
      return jnp.where(is_missing[:, None, None, None], jnp.nan, images)

  later_keys = [jax.vmap(jax.random.fold_in, (0, None))(KEYS, run) for run in (1, 2)]
  runs = [Missing()(keys, logits, IMAGES, LABELS) for keys in (KEYS, *later_keys)]
  is_missing = np.isnan(runs).any((2, 3, 4))  # [runs, B]
  assert (is_missing.any(0) & ~is_missing[0]).any() and not is_missing.any(0).all()
  worst = Missing().worst(3, KEYS, logits, IMAGES, LABELS)
  np.testing.assert_array_equal(np.isnan(worst).all((1, 2, 3)), is_missing.any(0))


def test_checkpoints_of_auto_pgd_follow_from_their_definition():
  """Computed by hand: p = 0, .22, .41, .57, .70, .80, .87, .93, .99 of 100 steps."""
  ends = np.flatnonzero(auto_pgd.checkpoints(100)) + 1
  np.testing.assert_array_equal(ends, [22, 41, 57, 70, 80, 87, 93, 99])
  np.testing.assert_array_equal(auto_pgd.checkpoints(100)[ends - 1], np.diff(np.append(0, ends)))
  for steps in (1, 2, 7):
    spans = auto_pgd.checkpoints(steps)
    assert len(spans) == steps and spans.sum() <= steps


@cases('radius', 0.5, 3.0, 100.0)
def test_the_projection_in_l1_is_the_nearest_change_in_ball_and_box(radius):
  """Compares with a bisection in the threshold λ, in float64; some values are at the bound 1."""
  image = np.where(np.asarray(IMAGES) > 0.8, 1.0, np.asarray(IMAGES))
  change = GENERATOR.normal(size=image.shape) * GENERATOR.choice([0, 0.01, 1], image.shape)
  room = np.where(change > 0, 1 - image, image)
  low, high = np.zeros((8, 1, 1, 1)), np.full((8, 1, 1, 1), 10.0)
  for _ in range(60):
    middle = (low + high) / 2
    is_inside = np.clip(np.abs(change) - middle, 0, room).sum((1, 2, 3), keepdims=True) <= radius
    low, high = np.where(is_inside, low, middle), np.where(is_inside, middle, high)
  expected = image + np.sign(change) * np.clip(np.abs(change) - high, 0, room)
  made = balls.clipped(*map(jnp.float32, (image, change)), 'l1', radius)
  np.testing.assert_allclose(made, expected, atol=2e-6)


def test_a_step_in_l1_changes_the_values_of_largest_gradient_by_equal_amounts():
  gradient = jnp.asarray([[[3.0, -1.0, 0.0]], [[-4.0, 2.0, 0.5]]])
  for count, expected in (
    (1, [0, 0, 0, -1, 0, 0]),
    (2.5, [1, 0, 0, -1, 1, 0]),  # a count is rounded up
    (9, [1, -1, 0, -1, 1, 1]),  # a gradient of 0 has no direction
  ):
    made = np.ravel(auto_pgd.sparse_direction(gradient, jnp.float32(count)))
    np.testing.assert_allclose(made, np.divide(expected, np.abs(expected).sum()), atol=1e-7)
  assert not np.asarray(auto_pgd.sparse_direction(0 * gradient, jnp.float32(2))).any()


def test_dlr_ignores_shift_and_scale_and_is_above_zero_where_wrong():
  scores, labels = jax.random.normal(jax.random.key(0), (6, 5)), np.arange(6) % 5
  values = np.asarray(dlr(scores, labels))
  np.testing.assert_allclose(dlr(3 * scores + 2, labels), values, rtol=1e-5)
  np.testing.assert_array_equal(values > 0, np.argmax(scores, 1) != labels)
  value = dlr(np.array([[1.0, 4.0, 2.0, 0.0]], np.float32), np.array([1]))
  assert float(value[0]) == pytest.approx(-(4 - 2) / (4 - 1))
  message = "has 2 classes: take 'auto_pgd' or 'pgd' with the loss 'cross_entropy'"
  refused(message, dlr, np.zeros((1, 2), np.float32), np.zeros(1, int))


@cases(
  'kind, settings, message',
  (PGD, {'norm': 'l1'}, r"pgd\.norm is 'l1'.*valid: 'l2', 'linf'\."),
  (AutoPGD, {'norm': 'l3'}, r"auto_pgd\.norm is 'l3'.*'l1'"),
  (PGD, {'epsilon': 0.0}, r'pgd\.epsilon is 0\.0'),
  (PGD, {'epsilon': 8.0}, r'pgd\.epsilon is 8\.0.*8/255'),
  (PGD, {'steps': 0}, r'pgd\.steps is 0'),
  (PGD, {'step_size': -1.0}, r'pgd\.step_size is -1\.0'),
  (PGD, {'statistics': 'both'}, r"pgd\.statistics is 'both'"),
  (FGSM, {'epsilon': 2.0}, r'fgsm\.epsilon is 2\.0'),
  (AutoPGD, {'steps': 0}, r'auto_pgd\.steps is 0'),
  (AutoPGD, {'loss': 'ce'}, r"auto_pgd\.loss is 'ce'"),
  (AutoPGD, {'loss': 'dlr', 'targets': 2}, r"auto_pgd\.loss is 'dlr'.*a loss of its own"),
  (Square, {'loss': 'dlr'}, r"square\.loss is 'dlr'.*a loss of its own"),
)
def test_bad_settings_are_named(kind, settings, message):
  refused(r'config\.classifier\.attack\.' + message, kind, **settings)
