"""Tests FMN and DDN: their distances, the images at these distances, and bad settings."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.attacks.ddn import DDN
from robustness.attacks.fmn import FMN
from tests.attacks.attacks_test import IMAGES, KEYS, WEIGHTS, length, logits
from tests.cases import cases
from tests.refusals import refused

LABELS = logits(IMAGES).argmax(-1).at[:2].add(1) % 4
"""Labels that the first two images have wrong without an attack, and the other six right."""
ATTACKS = FMN('linf', steps=60), FMN('l2', steps=60), FMN('l1', steps=60), DDN(steps=60)


def nearest(attack, network=logits, keys=KEYS):
  """Returns the distance of each nearest adversarial image, [8], and the images."""
  return jax.jit(lambda keys: attack.nearest(keys, network, IMAGES, LABELS))(keys)


@cases('attack', *ATTACKS)
def test_a_distance_is_the_norm_of_the_change_to_a_wrong_image_in_the_box(attack):
  distance, images = map(np.asarray, nearest(attack))
  np.testing.assert_allclose(distance, length(images, attack.norm), rtol=1e-6)
  assert (distance[:2] == 0).all() and (distance[2:] > 0).all() and np.isfinite(distance).all()
  assert images.min() >= 0 and images.max() <= 1
  assert (logits(images).argmax(-1) != LABELS).all()


@cases('attack', *ATTACKS)
def test_the_distance_to_a_plane_is_found_within_three_percent(attack):
  """The distance for linear logits of margin m is |m| / ‖∇m‖ in the dual norm, inside the box."""
  images = 0.45 + 0.1 * IMAGES

  def linear(x):
    return (x.reshape(8, -1) - 0.5) @ WEIGHTS[:, :2] / 10

  scores, normal = linear(images), (WEIGHTS[:, 0] - WEIGHTS[:, 1]) / 10
  dual = jnp.linalg.norm(normal, {'linf': 1, 'l2': 2, 'l1': np.inf}[attack.norm])
  expected = jnp.abs(scores[:, 0] - scores[:, 1]) / dual
  attack = dataclasses.replace(attack, steps=300)
  distance, _ = attack.nearest(KEYS, linear, images, scores.argmax(-1))
  assert (distance >= expected * (1 - 1e-5)).all() and (distance <= 1.03 * expected).all()


@cases(
  'attack', *(a if a.norm == 'l2' else pytest.param(a, marks=pytest.mark.slow) for a in ATTACKS)
)
def test_distances_do_not_depend_on_other_rows_or_devices_and_fall_with_more_steps(attack):
  distance, _ = nearest(attack)
  pair = attack.nearest(KEYS[2:4], logits, IMAGES[2:4], LABELS[2:4])
  np.testing.assert_allclose(pair[0], distance[2:4], rtol=1e-4)
  devices = jax.device_count()
  rows = [a.reshape(devices, -1, *a.shape[1:]) for a in (KEYS, IMAGES, LABELS)]
  mapped = jax.pmap(lambda k, x, y: attack.nearest(k, logits, x, y))(*rows)
  # programs of one row and of eight round otherwise, by some 1e-7 a step
  np.testing.assert_allclose(mapped[0].reshape(-1), distance, rtol=1e-4, atol=5e-6)
  few, _ = nearest(dataclasses.replace(attack, steps=10))
  assert (distance <= few + 1e-6).all() and float(distance.sum()) < float(few.sum())


@cases('attack', *ATTACKS)
def test_an_attack_in_a_ball_gives_the_nearest_image_or_the_clean_one(attack):
  distance, images = map(np.asarray, nearest(attack))
  radius = float(np.median(distance[2:]) * 1.001)
  made = dataclasses.replace(attack, epsilon=radius / 2)(KEYS, logits, IMAGES, LABELS, 2.0)
  is_inside = (distance <= radius).reshape(-1, 1, 1, 1)
  assert 2 < is_inside.sum() < 8
  np.testing.assert_allclose(made, np.where(is_inside, images, IMAGES), atol=1e-6)


@cases('attack', *ATTACKS)
def test_without_a_gradient_distances_are_infinite_and_images_are_clean(attack):
  distance, images = nearest(attack, lambda x: jax.nn.one_hot(LABELS, 4) + 0 * logits(x))
  assert np.isinf(distance).all()
  np.testing.assert_array_equal(images, IMAGES)


@cases('attack', FMN(steps=3), DDN(steps=3))
def test_a_gradient_of_nan_gives_distances_and_images_of_nan(attack):
  def confident(images):  # the probabilities of other classes are exactly 0
    return jnp.log(jax.nn.softmax(1e4 * logits(images)))

  distance, images = nearest(attack, confident)
  is_right = confident(IMAGES).argmax(-1) == LABELS
  assert np.isnan(distance[is_right & (LABELS > 0)]).all()
  assert np.isnan(images[is_right & (LABELS > 0)]).any((1, 2, 3)).all()


@cases(
  'kind, settings, message',
  (FMN, {'loss': 'dlr'}, r"fmn\.loss is 'dlr'.*a loss of its own"),
  (FMN, {'step_size': 0.0}, r'fmn\.step_size is 0\.0'),
  (DDN, {'norm': 'linf'}, r"ddn\.norm is 'linf'.*'l2'"),
  (DDN, {'steps': 0}, r'ddn\.steps is 0'),
)
def test_bad_settings_are_named(kind, settings, message):
  refused(r'config\.classifier\.attack\.' + message, kind, **settings)
