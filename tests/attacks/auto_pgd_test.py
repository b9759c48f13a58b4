"""Auto-PGD: checkpoints, ball and box, strength against PGD, rows on their own, DLR."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from robustness.attacks import auto_pgd, pgd
from robustness.attacks.losses import dlr, margin
from robustness.core.errors import InputError
from tests.attacks.pgd_test import IMAGES, KEYS, LABELS, logits


def test_checkpoints_are_those_of_the_definition() -> None:
  """p = 0, .22, .41, .57, .70, .80, .87, .93, .99: by hand, for 100 steps."""
  ends = np.flatnonzero(auto_pgd.checkpoints(100)) + 1
  np.testing.assert_array_equal(ends, [22, 41, 57, 70, 80, 87, 93, 99])
  np.testing.assert_array_equal(auto_pgd.checkpoints(100)[ends - 1], np.diff(np.append(0, ends)))
  for steps in (1, 2, 7):
    spans = auto_pgd.checkpoints(steps)
    assert len(spans) == steps and spans.sum() <= steps


@pytest.mark.parametrize(('norm', 'epsilon'), [('linf', 0.05), ('l2', 0.5)])
def test_it_stays_in_ball_and_box_and_is_no_weaker_than_pgd(norm: str, epsilon: float) -> None:
  attacked = auto_pgd.attack(
    KEYS, logits, IMAGES, LABELS, auto_pgd.Settings(norm, epsilon, steps=20)
  )
  change = np.asarray(attacked - IMAGES).reshape(8, -1)
  length = np.abs(change).max(1) if norm == 'linf' else np.linalg.norm(change, axis=1)
  assert (length <= epsilon * (1 + 1e-5)).all() and (length > epsilon / 2).all()
  assert float(attacked.min()) >= 0 and float(attacked.max()) <= 1
  plain = pgd.attack(KEYS, logits, IMAGES, LABELS, pgd.Settings(norm, epsilon, 20, epsilon / 4))
  gained = margin(logits(attacked), LABELS) - margin(logits(IMAGES), LABELS)
  gained_by_pgd = margin(logits(plain), LABELS) - margin(logits(IMAGES), LABELS)
  assert (gained > 0.97 * gained_by_pgd).all()


def test_a_row_depends_on_its_own_key_image_and_label() -> None:
  settings = auto_pgd.Settings('linf', 0.1, steps=5, loss='dlr')
  whole = auto_pgd.attack(KEYS, logits, IMAGES, LABELS, settings)
  single = auto_pgd.attack(KEYS[2:3], logits, IMAGES[2:3], LABELS[2:3], settings)
  np.testing.assert_allclose(single[0], whole[2], atol=1e-6)


def test_dlr_ignores_shift_and_scale_and_is_above_zero_where_wrong() -> None:
  scores = jax.random.normal(jax.random.key(0), (6, 5))
  labels = np.arange(6) % 5
  values = np.asarray(dlr(scores, labels))
  np.testing.assert_allclose(dlr(3 * scores + 2, labels), values, rtol=1e-5)
  np.testing.assert_array_equal(values > 0, np.argmax(scores, 1) != labels)
  by_hand = dlr(np.array([[1.0, 4.0, 2.0, 0.0]], np.float32), np.array([1]))
  assert float(by_hand[0]) == pytest.approx(-(4 - 2) / (4 - 1))


def test_dlr_needs_three_classes() -> None:
  with pytest.raises(InputError, match='has 2 classes'):
    dlr(np.zeros((1, 2), np.float32), np.zeros(1, int))


@pytest.mark.parametrize(
  ('settings', 'message'),
  [({'steps': 0}, 'steps is 0'), ({'loss': 'ce'}, "loss is 'ce'"), ({'norm': 'l0'}, "'l0'")],
)
def test_bad_settings_are_named(settings, message) -> None:
  with pytest.raises(InputError, match=r'config\.classifier\.attack\.auto_pgd\..*' + message):
    auto_pgd.Settings(**settings)
