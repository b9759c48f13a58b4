"""Stored scenes as a table, levels by factor, and the balanced mix of objects, by hand."""

import numpy as np
import pytest

from robustness.scenes import designs
from robustness.scenes import estimates as si_score
from tests.refusals import refused

EACH, POOLED = np.arange(4), np.zeros(4, int)
DESIGN = designs.cross('places', areas=(0.2, 0.5), angles=(0, 90), xs=(0.1, 0.35), side=64)
OBJECTS, BACKGROUNDS = np.array([0, 0, 4]), np.array([2, 7, 2])


def test_balanced_scenes_are_the_same_mix_in_every_group():
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


def test_levels_of_few_pairs_need_not_be_balanced():
  shown = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1]], bool)
  assert not si_score.balanced(shown, EACH[:3], POOLED[:3]).any()
  kept = si_score.balanced(shown, EACH[:3], POOLED[:3], share=0.5)
  np.testing.assert_array_equal(kept, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
  kept = si_score.balanced(shown, EACH[:3], POOLED[:3], share=1)
  np.testing.assert_array_equal(kept, [[1, 0, 0]] * 3)


def test_levels_are_told_apart_by_the_factors_that_vary():
  angles = (1.0, 161.0, 180.0, 181.0, 341.0, -180.0)
  levels = si_score.levels_of(designs.cross('made', areas=(0.2, 0.5), angles=angles))
  np.testing.assert_allclose(levels.angle, [1, 161, 180, -179, -19, 180] * 2)
  assert si_score.varying(levels) == {'size': ('area',), 'rotation': ('angle',)}
  place = si_score.places(levels, ('angle', 'x'))
  np.testing.assert_array_equal(place, [2, 3, 4, 0, 1, 4] * 2)
  assert not si_score.places(levels, ()).any()


def test_normalised():
  np.testing.assert_allclose(si_score.normalised([0.2, np.nan, 0.8]), [0.25, np.nan, 1])
  assert np.isnan(si_score.normalised([0.0, 0.0])).all()


def stored(kept: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
  """The kept scenes of the full cross as columns, in some order."""
  pair, level = (places[order] for places in np.nonzero(kept))
  names = ('x', 'y', 'area', 'angle')
  return {
    **{name: getattr(DESIGN, name)[level].astype(np.float32) for name in names},
    'object': OBJECTS[pair],
    'background': BACKGROUNDS[pair],
    'fraction_inside': np.linspace(0.6, 1, len(pair), dtype=np.float32),
  }


def test_any_order_with_gaps_gives_the_table():
  generator = np.random.default_rng(0)
  kept = generator.random((3, len(DESIGN))) < 0.8
  kept[:, 0] = True
  kept[2] |= ~kept[:2].any(0)  # every level occurs
  order = generator.permutation(int(kept.sum()))
  table = si_score.tabulate(stored(kept, order), 'places', 64)
  np.testing.assert_array_equal(table.spread(np.ones(len(table.pair), bool)), kept)
  for name in ('x', 'y', 'area', 'angle'):
    np.testing.assert_allclose(getattr(table.design, name), getattr(DESIGN, name), atol=1e-7)
  assert table.objects.tolist() == [0, 0, 4]
  assert table.design.min_inside == pytest.approx(0.6)
  values = generator.random((3, len(DESIGN)))
  spread = table.spread(values[kept][order], np.nan)
  np.testing.assert_array_equal(spread, np.where(kept, values, np.nan))


def test_what_is_no_table_of_scenes_is_refused():
  columns = stored(np.ones((3, len(DESIGN)), bool), np.arange(3 * len(DESIGN)))
  doubled = {name: np.append(values, values[3]) for name, values in columns.items()}
  twice = 'object 0 on background 2 is stored more than once'
  refused(twice, si_score.tabulate, doubled, 'places', 64)
  none = "no column 'x', so they are no stored scenes"
  refused(none, si_score.tabulate, {'label': np.zeros(3)}, 'size', 64)
