"""Levels by factor, and the balanced mix of objects, by hand."""

from __future__ import annotations

import numpy as np

from robustness.scenes import designs
from robustness.scenes import estimates as si_score

EACH, POOLED = np.arange(4), np.zeros(4, int)


def test_balanced_scenes_are_the_same_mix_in_every_group() -> None:
  shown = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], bool)
  np.testing.assert_array_equal(si_score.balanced(shown, EACH, POOLED).sum(0), [1, 1, 1, 1])
  hidden = np.append(shown, np.zeros((3, 1), bool), 1)
  kept = si_score.balanced(hidden, range(5), [0] * 5)
  np.testing.assert_array_equal(kept.sum(0), [1, 1, 1, 1, 0])
  kept = si_score.balanced(shown, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(kept, [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
  no_size = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0]], bool)
  kept = si_score.balanced(no_size, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(kept, [[1, 1, 0, 0]] * 3, 'the second size is not at every angle')
  kept = si_score.balanced(shown[:, :3], [0, 1, 0], [0, 0, 1])
  np.testing.assert_array_equal(kept, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])


def test_levels_of_few_pairs_need_not_be_balanced() -> None:
  shown = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1]], bool)
  assert not si_score.balanced(shown, EACH[:3], POOLED[:3]).any()
  kept = si_score.balanced(shown, EACH[:3], POOLED[:3], share=0.5)
  np.testing.assert_array_equal(kept, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
  kept = si_score.balanced(shown, EACH[:3], POOLED[:3], share=1)
  np.testing.assert_array_equal(kept, [[1, 0, 0]] * 3)


def test_levels_are_told_apart_by_the_factors_that_vary() -> None:
  angles = (1.0, 161.0, 180.0, 181.0, 341.0, -180.0)
  levels = si_score.levels_of(designs.cross('made', areas=(0.2, 0.5), angles=angles))
  np.testing.assert_allclose(levels.angle, [1, 161, 180, -179, -19, 180] * 2)
  assert si_score.varying(levels) == {'size': ('area',), 'rotation': ('angle',)}
  place = si_score.places(levels, ('angle', 'x'))
  np.testing.assert_array_equal(place, [2, 3, 4, 0, 1, 4] * 2)
  assert not si_score.places(levels, ()).any()


def test_normalised_and_mean_of_finite() -> None:
  np.testing.assert_allclose(si_score.normalised([0.2, np.nan, 0.8]), [0.25, np.nan, 1])
  assert np.isnan(si_score.normalised([0.0, 0.0])).all()
  values = np.array([[1, np.nan, 2], [np.nan] * 3])
  np.testing.assert_array_equal(si_score.mean_of_finite(values), [1.5, np.nan])
