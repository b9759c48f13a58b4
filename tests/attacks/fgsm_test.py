"""FGSM against its formula, restarts, and several ε in one compilation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.attacks import fgsm, pgd, restarts
from robustness.attacks.losses import cross_entropy, margin
from robustness.core.errors import InputError
from tests.attacks.pgd_test import IMAGES, KEYS, LABELS, logits


@pytest.mark.parametrize('norm', ['linf', 'l2'])
def test_it_is_one_step_of_length_epsilon(norm: str) -> None:
  epsilon = 0.1 if norm == 'linf' else 1.0
  gradient = np.asarray(jax.grad(lambda x: cross_entropy(logits(x), LABELS).sum())(IMAGES))
  length = np.linalg.norm(gradient.reshape(8, -1), axis=1).reshape(-1, 1, 1, 1)
  direction = np.sign(gradient) if norm == 'linf' else gradient / length
  attacked = fgsm.attack(KEYS, logits, IMAGES, LABELS, fgsm.Settings(norm, epsilon))
  expected = np.clip(np.asarray(IMAGES) + epsilon * direction, 0, 1)
  np.testing.assert_allclose(attacked, expected, atol=2e-6)


def test_scale_is_another_epsilon_and_step_size_of_one_compilation() -> None:
  settings = pgd.Settings('linf', 0.02, 3, 0.01)
  scaled = jax.jit(lambda scale: pgd.attack(KEYS, logits, IMAGES, LABELS, settings, scale))
  np.testing.assert_allclose(
    scaled(jnp.float32(4.0)),
    pgd.attack(KEYS, logits, IMAGES, LABELS, pgd.Settings('linf', 0.08, 3, 0.04)),
    atol=1e-6,
  )
  scaled(jnp.float32(2.0))
  assert scaled._cache_size() == 1


def test_restarts_keep_the_worst_of_each_image() -> None:
  settings = pgd.Settings('l2', 0.5, 1, 0.05)

  def run(keys: jax.Array) -> jax.Array:
    return pgd.attack(keys, logits, IMAGES, LABELS, settings)

  folded = [jax.vmap(lambda key, r=r: jax.random.fold_in(key, r))(KEYS) for r in (1, 2)]
  runs = jnp.stack([run(KEYS), *map(run, folded)])
  margins = jnp.stack([margin(logits(images), LABELS) for images in runs])
  kept = restarts.worst(run, KEYS, logits, LABELS, 3)
  best = np.asarray(margins).argmax(0)
  assert len(set(best)) > 1, 'the case decides between runs'
  np.testing.assert_allclose(kept, np.asarray(runs)[best, np.arange(8)], atol=1e-6)
  np.testing.assert_array_equal(restarts.worst(run, KEYS, logits, LABELS, 1), runs[0])


@pytest.mark.parametrize(
  ('settings', 'message'), [({'norm': 'l1'}, "norm is 'l1'"), ({'epsilon': 2.0}, 'epsilon is 2.0')]
)
def test_bad_settings_are_named(settings, message) -> None:
  with pytest.raises(InputError, match=r'config\.classifier\.attack\.fgsm\.' + message):
    fgsm.Settings(**settings)
