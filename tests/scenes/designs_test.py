"""Tests designs of scenes: published levels, numbers, backgrounds, balance, and stored tables."""

import itertools

import numpy as np
import pytest

from robustness.scenes import designs
from tests.cases import cases
from tests.refusals import bad_setting, refused

PAIRS = 614 * designs.BACKGROUNDS_PER_OBJECT  # of the 614 published objects


def test_published_designs_have_the_published_levels_and_numbers_of_scenes():
  size, rotation, location = map(designs.published, ('size', 'rotation', 'location'))
  assert PAIRS == 1228
  counts = (size, 100, 122_800), (rotation, 72, 88_416), (location, 441, 541_548)
  for design, levels, scenes in counts:
    ids = design.image_ids(PAIRS)
    assert len(design) == levels and ids.shape == (PAIRS, levels)
    np.testing.assert_array_equal(np.sort(ids.ravel()), np.arange(scenes))
  np.testing.assert_allclose(size.area, [k / 100 for k in range(1, 101)], rtol=0, atol=0)
  assert (size.side, size.min_inside) == (rotation.side, rotation.min_inside) == (512, 0.95)
  assert rotation.angle[:18].tolist() == [*range(1, 342, 20)]
  assert rotation.area[::18].tolist() == [0.2, 0.5, 0.8, 1.0]
  assert (location.side, location.min_inside) == (500, 0.5)
  grid_points = [(x, y) for x in range(21) for y in range(21)]
  np.testing.assert_allclose(np.stack([location.x, location.y], 1) * 20, grid_points, atol=1e-12)
  for design in (size, rotation):
    assert set(design.x) == set(design.y) == {0.5}


def test_scenes_are_numbered_in_the_order_of_the_released_generator():
  design = designs.cross('small', areas=(0.1, 0.2), angles=(0, 90), xs=(0, 1), ys=(0, 0.5, 1))
  loop = itertools.product((0, 1), (0, 0.5, 1), (0.1, 0.2), (0, 90), range(3))
  numbers = design.image_ids(3)
  for number, (x, y, area, angle, pair) in enumerate(loop):
    [[level_pair, level]] = np.argwhere(numbers == number)
    level_factors = (design.x[level], design.y[level], design.area[level], design.angle[level])
    assert (level_pair, level_factors) == (pair, (x, y, area, angle))


def test_a_grid_has_the_centres_of_its_cells():
  centres = designs.grid(56)
  assert len(centres) == 56 * 56
  assert centres.x.min() == pytest.approx(0.5 / 56) and centres.x.max() == pytest.approx(55.5 / 56)
  patch = np.floor(centres.x * 14).astype(int)
  _, counts = np.unique(patch, return_counts=True)
  assert set(counts) == {4 * 56}, 'four columns of centres in each of 14 columns of patches'


def test_backgrounds_of_an_object_differ_and_follow_the_seed_as_in_the_released_generator():
  drawn = designs.draw_backgrounds(50, 5, seed=1)
  assert drawn.shape == (50, 2)
  assert all(len(set(row)) == 2 for row in drawn.tolist())
  assert set(drawn.ravel()) == set(range(5))
  np.testing.assert_array_equal(drawn, designs.draw_backgrounds(50, 5, seed=1))
  assert (drawn != designs.draw_backgrounds(50, 5, seed=2)).any()
  state = np.random.get_state()
  try:
    np.random.seed(0)
    expected = [np.random.choice(6, 2, replace=False) for _ in range(7)]
  finally:
    np.random.set_state(state)
  np.testing.assert_array_equal(designs.draw_backgrounds(7, 6), expected)


def test_unusable_factors_grids_and_names_are_refused():
  refused(bad_setting('area', 0.0), designs.cross, 'none', areas=(0.0, 0.1))
  refused(bad_setting('area', 50.0), designs.cross, 'percent', areas=(20.0, 50.0))
  refused('number of backgrounds is 1; it must be at least 2', designs.draw_backgrounds, 3, 1)
  refused("did you mean 'location'", designs.published, 'locations')
  refused(bad_setting('x'), designs.cross, 'nan', xs=(np.nan,))
  refused(bad_setting('area', (0,)), designs.cross, 'empty', angles=())


EACH, POOLED = np.arange(4), np.zeros(4, int)  # four levels as four groups, and as one
DESIGN = designs.cross('places', areas=(0.2, 0.5), angles=(0, 90), xs=(0.1, 0.35), side=64)
OBJECTS, BACKGROUNDS = np.array([0, 0, 4]), np.array([2, 7, 2])


def test_balanced_scenes_have_the_same_pairs_in_every_group():
  """Masks are [pairs, levels]. Levels of one stratum are pooled, those of two groups compared."""
  stored = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], bool)
  np.testing.assert_array_equal(designs.select_balanced(stored, EACH, POOLED).sum(0), [1, 1, 1, 1])
  without_scenes = np.append(stored, np.zeros((3, 1), bool), 1)
  mask = designs.select_balanced(without_scenes, range(5), [0] * 5)
  np.testing.assert_array_equal(mask.sum(0), [1, 1, 1, 1, 0])
  mask = designs.select_balanced(stored, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(mask, [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
  mask = designs.select_balanced(stored[:, :3], [0, 1, 0], [0, 0, 1])
  np.testing.assert_array_equal(mask, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])


def test_a_level_that_is_missing_in_a_group_is_left_out_of_the_balanced_mix():
  stored = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0]], bool)
  mask = designs.select_balanced(stored, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(mask, [[1, 1, 0, 0]] * 3, 'the second size is not at every angle')


@cases(
  'share, expected',
  (0, [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
  (0.5, [[1, 1, 0], [1, 1, 0], [0, 0, 0]]),
  (1, [[1, 0, 0], [1, 0, 0], [1, 0, 0]]),
)
def test_groups_of_less_than_a_share_of_the_pairs_are_left_out(share, expected):
  """The three groups have scenes of 3, 2 and 1 of the 3 pairs."""
  stored = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1]], bool)
  mask = designs.select_balanced(stored, EACH[:3], POOLED[:3], share=share)
  np.testing.assert_array_equal(mask, expected)


def test_levels_are_grouped_by_the_factors_that_vary():
  angles = (1.0, 161.0, 180.0, 181.0, 341.0, -180.0)
  levels = designs.levels_of(designs.cross('made', areas=(0.2, 0.5), angles=angles))
  np.testing.assert_allclose(levels.angle, [1, 161, 180, -179, -19, 180] * 2)
  assert designs.varying_factors(levels) == {'size': ('area',), 'rotation': ('angle',)}
  group = designs.group_levels(levels, ('angle', 'x'))
  np.testing.assert_array_equal(group, [2, 3, 4, 0, 1, 4] * 2)
  assert not designs.group_levels(levels, ()).any()


def test_a_curve_is_normalised_by_its_largest_value():
  np.testing.assert_allclose(designs.divided_by_largest([0.2, np.nan, 0.8]), [0.25, np.nan, 1])
  assert np.isnan(designs.divided_by_largest([0.0, 0.0])).all()


def columns_of(mask: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the columns of the scenes of a mask [pairs, levels], in an order."""
  pair, level = (indices[order] for indices in np.nonzero(mask))
  names = ('x', 'y', 'area', 'angle')
  return {
    **{name: getattr(DESIGN, name)[level].astype(np.float32) for name in names},
    'object': OBJECTS[pair],
    'background': BACKGROUNDS[pair],
    'fraction_inside': np.linspace(0.6, 1, len(pair), dtype=np.float32),
  }


def test_scenes_in_any_order_and_with_gaps_give_the_table():
  generator = np.random.default_rng(0)
  mask = generator.random((3, len(DESIGN))) < 0.8
  mask[:, 0] = True
  mask[2] |= ~mask[:2].any(0)  # so that every level occurs
  order = generator.permutation(int(mask.sum()))
  table = designs.tabulate(columns_of(mask, order), 'places', 64)
  np.testing.assert_array_equal(table.spread(np.ones(len(table.pair), bool)), mask)
  for name in ('x', 'y', 'area', 'angle'):
    np.testing.assert_allclose(getattr(table.design, name), getattr(DESIGN, name), atol=1e-7)
  assert table.objects.tolist() == [0, 0, 4]
  assert table.design.min_inside == pytest.approx(0.6)
  values = generator.random((3, len(DESIGN)))
  spread = table.spread(values[mask][order], np.nan)
  np.testing.assert_array_equal(spread, np.where(mask, values, np.nan))


def test_a_scene_that_is_stored_twice_is_refused():
  columns = columns_of(np.ones((3, len(DESIGN)), bool), np.arange(3 * len(DESIGN)))
  doubled = {name: np.append(values, values[3]) for name, values in columns.items()}
  refused(
    'object 0 on background 2 is stored more than once', designs.tabulate, doubled, 'places', 64
  )


@cases(
  'key, value, message',
  ('fraction_inside', 95.0, r'fraction_inside is 95.0; it must be a fraction in \[0, 1\]'),
  ('fraction_inside', -1.0, 'a fraction in'),
  ('area', np.nan, 'area is .*; it must be a finite number for each scene'),
  ('angle', '20', 'a finite number'),
  ('x', [0.5], 'a finite number'),
)
def test_numbers_of_stored_scenes_that_are_invalid_are_refused(key, value, message):
  columns = columns_of(np.ones((3, len(DESIGN)), bool), np.arange(3 * len(DESIGN)))
  columns[key] = np.array([value] * len(columns[key]))
  refused(message, designs.tabulate, columns, 'places', 64)
