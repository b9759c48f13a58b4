"""Levels and pairs of SI-Score, stored scenes as a table, and the balanced mix, by hand."""

import itertools

import numpy as np
import pytest

from robustness.scenes import designs
from tests.refusals import bad_setting, refused

PAIRS = 614 * designs.BACKGROUNDS_PER_OBJECT  # of the published objects


def test_published_designs_have_as_many_scenes_and_the_levels_as_published():
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
  places = [(x, y) for x in range(21) for y in range(21)]
  np.testing.assert_allclose(np.stack([location.x, location.y], 1) * 20, places, atol=1e-12)
  for design in (size, rotation):
    assert set(design.x) == set(design.y) == {0.5}


def test_numbers_follow_the_generators_loop():
  design = designs.cross('small', areas=(0.1, 0.2), angles=(0, 90), xs=(0, 1), ys=(0, 0.5, 1))
  loop = itertools.product((0, 1), (0, 0.5, 1), (0.1, 0.2), (0, 90), range(3))
  numbers = design.image_ids(3)
  for number, (x, y, area, angle, pair) in enumerate(loop):
    [[level_pair, level]] = np.argwhere(numbers == number)
    level_factors = (design.x[level], design.y[level], design.area[level], design.angle[level])
    assert (level_pair, level_factors) == (pair, (x, y, area, angle))


def test_a_grid_has_cell_centres():
  centres = designs.grid(56)
  assert len(centres) == 56 * 56
  assert centres.x.min() == pytest.approx(0.5 / 56) and centres.x.max() == pytest.approx(55.5 / 56)
  patch = np.floor(centres.x * 14).astype(int)
  assert set(np.unique(patch, return_counts=True)[1]) == {4 * 56}, 'a patch of ViT/16 has 4 × 4'


def test_backgrounds_differ_within_an_object_repeat_with_the_seed_and_are_the_generators():
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


def test_impossible_designs_are_refused():
  refused(bad_setting('area', 0.0), designs.cross, 'none', areas=(0.0, 0.1))
  refused(bad_setting('area', 50.0), designs.cross, 'percent', areas=(20.0, 50.0))
  refused('number of backgrounds is 1; it must be at least 2', designs.draw_backgrounds, 3, 1)
  refused("did you mean 'location'", designs.published, 'locations')
  refused(bad_setting('x'), designs.cross, 'nan', xs=(np.nan,))
  refused(bad_setting('area', (0,)), designs.cross, 'empty', angles=())
  refused(bad_setting('cells', 0), designs.grid, 0)


EACH, POOLED = np.arange(4), np.zeros(4, int)
DESIGN = designs.cross('places', areas=(0.2, 0.5), angles=(0, 90), xs=(0.1, 0.35), side=64)
OBJECTS, BACKGROUNDS = np.array([0, 0, 4]), np.array([2, 7, 2])


def test_balanced_scenes_are_the_same_mix_in_every_group_but_levels_of_few_pairs():
  counts = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], bool)
  np.testing.assert_array_equal(designs.balanced(counts, EACH, POOLED).sum(0), [1, 1, 1, 1])
  hidden = np.append(counts, np.zeros((3, 1), bool), 1)
  mask = designs.balanced(hidden, range(5), [0] * 5)
  np.testing.assert_array_equal(mask.sum(0), [1, 1, 1, 1, 0])
  mask = designs.balanced(counts, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(mask, [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
  no_size = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0]], bool)
  mask = designs.balanced(no_size, [0, 1, 0, 1], [0, 0, 1, 1])
  np.testing.assert_array_equal(mask, [[1, 1, 0, 0]] * 3, 'the second size is not at every angle')
  mask = designs.balanced(counts[:, :3], [0, 1, 0], [0, 0, 1])
  np.testing.assert_array_equal(mask, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
  counts = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1]], bool)
  assert not designs.balanced(counts, EACH[:3], POOLED[:3]).any()
  mask = designs.balanced(counts, EACH[:3], POOLED[:3], share=0.5)
  np.testing.assert_array_equal(mask, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
  mask = designs.balanced(counts, EACH[:3], POOLED[:3], share=1)
  np.testing.assert_array_equal(mask, [[1, 0, 0]] * 3)


def test_levels_are_told_apart_by_the_factors_that_vary_and_normalised_by_the_largest():
  angles = (1.0, 161.0, 180.0, 181.0, 341.0, -180.0)
  levels = designs.levels_of(designs.cross('made', areas=(0.2, 0.5), angles=angles))
  np.testing.assert_allclose(levels.angle, [1, 161, 180, -179, -19, 180] * 2)
  assert designs.varying(levels) == {'size': ('area',), 'rotation': ('angle',)}
  place = designs.group_levels(levels, ('angle', 'x'))
  np.testing.assert_array_equal(place, [2, 3, 4, 0, 1, 4] * 2)
  assert not designs.group_levels(levels, ()).any()
  np.testing.assert_allclose(designs.normalised([0.2, np.nan, 0.8]), [0.25, np.nan, 1])
  assert np.isnan(designs.normalised([0.0, 0.0])).all()


def stored(mask: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
  """The kept scenes of the full cross as columns, in some order."""
  pair, level = (places[order] for places in np.nonzero(mask))
  names = ('x', 'y', 'area', 'angle')
  return {
    **{name: getattr(DESIGN, name)[level].astype(np.float32) for name in names},
    'object': OBJECTS[pair],
    'background': BACKGROUNDS[pair],
    'fraction_inside': np.linspace(0.6, 1, len(pair), dtype=np.float32),
  }


def test_any_order_with_gaps_gives_the_table():
  generator = np.random.default_rng(0)
  mask = generator.random((3, len(DESIGN))) < 0.8
  mask[:, 0] = True
  mask[2] |= ~mask[:2].any(0)  # every level occurs
  order = generator.permutation(int(mask.sum()))
  table = designs.tabulate(stored(mask, order), 'places', 64)
  np.testing.assert_array_equal(table.spread(np.ones(len(table.pair), bool)), mask)
  for name in ('x', 'y', 'area', 'angle'):
    np.testing.assert_allclose(getattr(table.design, name), getattr(DESIGN, name), atol=1e-7)
  assert table.objects.tolist() == [0, 0, 4]
  assert table.design.min_inside == pytest.approx(0.6)
  values = generator.random((3, len(DESIGN)))
  spread = table.spread(values[mask][order], np.nan)
  np.testing.assert_array_equal(spread, np.where(mask, values, np.nan))


def test_what_is_no_table_of_scenes_is_refused():
  columns = stored(np.ones((3, len(DESIGN)), bool), np.arange(3 * len(DESIGN)))
  doubled = {name: np.append(values, values[3]) for name, values in columns.items()}
  twice = 'object 0 on background 2 is stored more than once'
  refused(twice, designs.tabulate, doubled, 'places', 64)
