"""Projected gradient descent: against a loop written out, the ball, the box, batches and keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from robustness.attacks import balls, pgd
from robustness.core.errors import InputError

GENERATOR = np.random.default_rng(0)
WEIGHTS = jnp.asarray(GENERATOR.normal(size=(6 * 5 * 3, 4)).astype(np.float32))
IMAGES = jnp.asarray(GENERATOR.random((8, 6, 5, 3), np.float32))
LABELS = jnp.arange(8) % 4
KEYS = jax.random.split(jax.random.key(1), 8)


def logits(images: jax.Array) -> jax.Array:
  return jnp.tanh(images.reshape(len(images), -1) - 0.5) @ WEIGHTS


def losses(images: jax.Array) -> np.ndarray:
  return np.asarray(
    optax.softmax_cross_entropy_with_integer_labels(logits(jnp.asarray(images)), LABELS)
  )


def by_hand(settings: pgd.Settings) -> np.ndarray:
  image, x = np.asarray(IMAGES), np.asarray(IMAGES)
  gradient = jax.grad(
    lambda x: optax.softmax_cross_entropy_with_integer_labels(logits(x), LABELS).sum()
  )
  for _ in range(settings.steps):
    g = np.asarray(gradient(jnp.asarray(x)))
    for i in range(len(x)):
      if settings.norm == 'linf':
        change = np.clip(
          x[i] + settings.step_size * np.sign(g[i]) - image[i], -settings.epsilon, settings.epsilon
        )
      else:
        change = x[i] + settings.step_size * g[i] / np.linalg.norm(g[i]) - image[i]
        change *= min(1, settings.epsilon / np.linalg.norm(change))
      x = np.concatenate([x[:i], np.clip(image[i] + change, 0, 1)[None], x[i + 1 :]])
  return x


@pytest.mark.parametrize(('norm', 'epsilon', 'size'), [('linf', 0.05, 0.02), ('l2', 0.5, 0.2)])
def test_iterates_are_those_of_the_definition(norm: str, epsilon: float, size: float) -> None:
  settings = pgd.Settings(norm, epsilon, 5, size, random_start=False)
  attacked = pgd.attack(KEYS, logits, IMAGES, LABELS, settings)
  np.testing.assert_allclose(attacked, by_hand(settings), atol=2e-6)
  assert (losses(np.asarray(attacked)) > losses(np.asarray(IMAGES))).all()


@pytest.mark.parametrize(('norm', 'epsilon'), [('linf', 0.1), ('l2', 0.7)])
def test_perturbations_stay_in_ball_and_box(norm: str, epsilon: float) -> None:
  attacked = pgd.attack(KEYS, logits, IMAGES, LABELS, pgd.Settings(norm, epsilon, 7, epsilon / 2))
  change = np.asarray(attacked - IMAGES).reshape(8, -1)
  length = np.abs(change).max(1) if norm == 'linf' else np.linalg.norm(change, axis=1)
  assert (length <= epsilon * (1 + 1e-5)).all() and (length > epsilon / 2).all()
  assert float(attacked.min()) >= 0 and float(attacked.max()) <= 1


@pytest.mark.parametrize('norm', ['linf', 'l2'])
@pytest.mark.parametrize('gap', [5.0, 67.0, 80.0])
def test_a_sure_prediction_is_attacked_with_the_whole_radius(norm: str, gap: float) -> None:
  """exp(−gap), and so the gradient, is no less than float32's 1e-38; its square is."""

  def sure(images: jax.Array) -> jax.Array:
    return gap * jax.nn.one_hot(LABELS, 4) + 0.1 * logits(images)

  settings = pgd.Settings(norm, 0.2, 4, 0.1, random_start=False)
  change = np.asarray(pgd.attack(KEYS, sure, IMAGES, LABELS, settings) - IMAGES).reshape(8, -1)
  length = np.abs(change).max(1) if norm == 'linf' else np.linalg.norm(change, axis=1)
  assert (length > 0.15).all(), 'less where the box cuts it'


def test_the_direction_of_a_gradient_does_not_depend_on_its_size() -> None:
  gradient = jnp.asarray(GENERATOR.normal(size=(6, 5, 3)).astype(np.float32))
  direction = jax.jit(lambda g: balls.direction(g, 'l2'))
  for size in (2.0**-100, 2.0**-20, 2.0**90):
    np.testing.assert_array_equal(direction(gradient * size), direction(gradient))
  plain = gradient / np.linalg.norm(gradient)
  np.testing.assert_allclose(direction(gradient), plain, rtol=1e-6)
  assert not np.asarray(direction(0 * gradient)).any()


@pytest.mark.parametrize('norm', ['linf', 'l2'])
def test_a_row_depends_on_its_own_key_image_and_label(norm: str) -> None:
  settings = pgd.Settings(norm, 0.1, 3, 0.03)
  whole = pgd.attack(KEYS, logits, IMAGES, LABELS, settings)
  single = pgd.attack(KEYS[2:3], logits, IMAGES[2:3], LABELS[2:3], settings)
  np.testing.assert_allclose(single[0], whole[2], atol=1e-6)
  other = pgd.attack(KEYS[::-1], logits, IMAGES, LABELS, settings)
  assert not np.allclose(other, whole, atol=1e-4)


def test_no_gradient_passes_through_an_attack() -> None:
  settings = pgd.Settings(steps=2)
  gradient = jax.grad(lambda images: pgd.attack(KEYS, logits, images, LABELS, settings).sum())(
    IMAGES
  )
  assert not np.asarray(gradient).any()


@pytest.mark.parametrize(
  ('settings', 'message'),
  [
    ({'norm': 'l1'}, r"norm is 'l1'"),
    ({'epsilon': 0.0}, r'epsilon is 0\.0'),
    ({'epsilon': 8.0}, r'epsilon is 8\.0.*8/255'),
    ({'steps': 0}, r'steps is 0'),
    ({'step_size': -1.0}, r'step_size is -1\.0'),
    ({'statistics': 'both'}, r"statistics is 'both'"),
  ],
)
def test_bad_settings_are_named(settings, message) -> None:
  with pytest.raises(InputError, match=r'config\.classifier\.attack\.pgd\.' + message):
    pgd.Settings(**settings)
