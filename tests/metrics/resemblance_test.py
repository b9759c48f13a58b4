"""Minimal sample distance: by hand, its properties, and the paper's mixture of two transforms."""

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.metrics.resemblance import mean_distance, minimal_sample_distance

DRAW = np.random.default_rng(0)
AUGMENTATION, CORRUPTION = DRAW.normal(size=(40, 7)), DRAW.normal(2, size=(30, 7))


def test_by_hand():
  corruption = [[3, 0], [5, 0]]  # mean (4, 0)
  assert minimal_sample_distance([[0, 0], [4, 3], [9, 0]], corruption) == 3
  assert mean_distance([[0, 0], [8, 6]], corruption) == 3


def test_it_is_zero_where_a_sample_is_the_corruption_and_never_grows_with_samples():
  mean = CORRUPTION.mean(0, keepdims=True)
  assert minimal_sample_distance(np.concatenate([AUGMENTATION, mean]), CORRUPTION) == 0
  falling = [minimal_sample_distance(AUGMENTATION[:n], CORRUPTION) for n in range(1, 41)]
  assert falling == sorted(falling, reverse=True) and falling[-1] < falling[0]


def test_it_is_not_symmetric_and_the_distance_of_means_is():
  forth, back = (
    minimal_sample_distance(a, b)
    for a, b in ((AUGMENTATION, CORRUPTION), (CORRUPTION, AUGMENTATION))
  )
  assert abs(forth - back) > 0.01
  assert mean_distance(AUGMENTATION, CORRUPTION) == pytest.approx(
    mean_distance(CORRUPTION, AUGMENTATION)
  )
  shuffled = DRAW.permutation(AUGMENTATION)
  assert minimal_sample_distance(shuffled, CORRUPTION) == forth


@pytest.mark.parametrize('share', [0.01, 0.1, 0.5])
def test_an_augmentation_that_holds_a_little_of_the_corruption_is_near_it(share):
  """The notebook's demonstration: MSD hardly depends on the share, the distance of means does."""
  far = DRAW.normal(10, size=(1000, 7))
  near = DRAW.normal(2, 0.1, size=(1000, 7))
  mixed = np.where(np.arange(1000)[:, None] < 1000 * share, near, far)
  target = DRAW.normal(2, 0.1, size=(100, 7))
  assert minimal_sample_distance(mixed, target) < 0.5
  assert mean_distance(mixed, target) == pytest.approx((1 - share) * 8 * 7**0.5, rel=0.05)


def test_what_is_wrong_is_named():
  with pytest.raises(InputError, match=r'augmentation has the shape \(0, 7\)'):
    minimal_sample_distance(np.zeros((0, 7)), CORRUPTION)
  with pytest.raises(InputError, match='corruption has the shape'):
    mean_distance(AUGMENTATION, np.zeros(7))
  with pytest.raises(InputError, match='7 features and corruption 6'):
    minimal_sample_distance(AUGMENTATION, CORRUPTION[:, :6])
