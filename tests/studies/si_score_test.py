"""Tests the study `si_score`: its settings, and its numbers against NumPy on made records."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from robustness.core.rows import ArrayRows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.table import select
from robustness.evaluation.study import Evaluation
from robustness.scenes import designs, views
from robustness.scenes.geometry import place
from robustness.studies import si_score
from robustness.studies.si_score import SiScore
from tests.cases import cases
from tests.made_records import made
from tests.refusals import bad_setting, refused
from tests.studies import conftest
from tests.table_rows import estimate

PAIRS, SIDE = 12, 100
"""Number of pairs of an object and a background, and the side of a scene in pixels."""
SMALL = SiScore(factor='cross', areas=(0.2, 0.5, 1.0), angles=(0.0, 30.0, 200.0))
PLACES = SiScore(factor='cross', areas=(0.2,), xs=(0.15, 0.5, 0.85), ys=(0.0, 0.6), min_inside=0.39)


def made_records(path, study: SiScore, label: str = 'one', seed: int = 0) -> Evaluation:
  """Writes records of random answers to objects of several shapes on two backgrounds each."""
  count = len(study.design)
  rank = np.random.default_rng(seed).integers(0, 2, (PAIRS, count)).astype(np.int32)
  objects = np.arange(PAIRS) // 2
  columns = {
    'object': objects,
    'background': np.arange(PAIRS) % 5,
    'imagenet_class': np.array([105, 931, 951])[objects % 3],
    'foreground_size': np.stack([20 + 0 * objects, 20 + 4 * objects], 1),
  }
  return made(path / label, {'rank': rank, **columns}, 5, 4, label=label)


def fractions_inside(evaluation: Evaluation, study: SiScore) -> np.ndarray:
  """Returns the fraction of each object inside the scene, [pairs, levels]."""
  design, size = study.design, evaluation.records.column('foreground_size')
  levels = np.stack([design.area, design.angle, design.x, design.y], 1)
  share = np.array([[place(s, *level, SIDE).fraction for level in levels] for s in size[::2]])
  return np.repeat(share, 2, axis=0)


def answers(evaluation: Evaluation, study: SiScore) -> tuple[np.ndarray, np.ndarray]:
  """Returns where answers are right and where scenes count, each [pairs, levels]."""
  counted = fractions_inside(evaluation, study) >= study.design.min_inside - 1e-6
  return evaluation.records.table('rank') == 0, counted


def table_of(study: SiScore, *evaluations: Evaluation) -> pd.DataFrame:
  return conftest.table_of(study, evaluations, (SIDE, SIDE, 3))


def by(table: pd.DataFrame, quantity: str, *facets: str, versus: str = '') -> pd.DataFrame:
  """Returns the rows of a quantity, indexed by the values of facets."""
  rows = select(table, quantity, versus, **dict.fromkeys(facets, ...))
  return rows.astype(dict.fromkeys(facets, float)).set_index(list(facets)).sort_index()


@pytest.mark.slow
def test_accuracies_and_their_n_overall_by_level_by_factor_and_balanced(tmp_path):
  evaluation = made_records(tmp_path, SMALL)
  right, counted = answers(evaluation, SMALL)
  assert 0 < counted.mean() < 1
  table, design = table_of(SMALL, evaluation), SMALL.design
  levels = by(table, 'accuracy', 'area', 'angle')
  for level, (area, angle) in enumerate(zip(design.area, design.angle, strict=True)):
    row, is_counted = levels.loc[(area, angle - 360 * (angle > 180))], counted[:, level]
    assert row.n == is_counted.sum()
    np.testing.assert_allclose(row.value, right[is_counted, level].mean() if row.n else np.nan)
  for key, values in (('area', (0.2, 0.5, 1.0)), ('angle', (-160.0, 0.0, 30.0))):
    factor = by(table, 'accuracy', key)
    np.testing.assert_allclose(factor.index, values)
    for setting in values:
      has_setting = np.isclose(getattr(design, key) % 360, setting % 360)
      assert factor.n[setting] == counted[:, has_setting].sum()
      expected = (right & counted)[:, has_setting].sum() / max(1, counted[:, has_setting].sum())
      assert np.nan_to_num(factor.value[setting]) == pytest.approx(expected)
  assert by(table, 'normalised_accuracy', 'angle').value.max() == 1
  assert 'x' not in table.columns
  overall = estimate(table, 'one', 'accuracy')
  assert overall.n == counted.sum()
  assert overall.clusters == len(np.unique(np.nonzero(counted)[0] // 2))
  assert overall.value == pytest.approx((right & counted).sum() / counted.sum())
  levels = by(table, 'balanced_accuracy', 'area', 'angle')
  for area in (0.2, 0.5, 1.0):
    has_setting = SMALL.design.area == area
    is_complete = counted[:, has_setting].all(1)
    assert (levels.n[area] == is_complete.sum()).all()
    if is_complete.any():
      # The rows are sorted by angle, in which 200° is -160°.
      expected = right[is_complete][:, has_setting].mean(0)[[2, 0, 1]]
      np.testing.assert_allclose(levels.value[area], expected)
  gap = estimate(table, 'one', 'gap')
  levels = [by(table, name, 'area', 'angle').value for name in ('accuracy', 'balanced_accuracy')]
  assert gap.value == pytest.approx((levels[0] - levels[1]).mean())
  assert gap.low < gap.value < gap.high and gap.n == overall.n


def test_a_gap_without_a_mistake_has_an_interval_of_the_same_scenes_alone():
  levels = designs.levels_of(designs.cross('', areas=(0.2, 0.8)))
  counted = {'one': np.ones((6, 2), bool)}
  right = Outcomes({'one': np.ones((6, 2), bool)}, levels, counted)
  fewer = dataclasses.replace(right, counted={'one': np.arange(6)[:, None] > [0, 0]})
  of_all, of_fewer = (si_score._gap(right, mix, 'one', 0.95) for mix in (right, fewer))
  assert (of_all.value, of_all.low, of_all.high) == (0, 0, 0)
  assert of_fewer.value == 0 and np.isnan([of_fewer.low, of_fewer.high]).all()


def test_the_levels_are_stated_with_the_scenes():
  lines = SiScore(factor='cross', areas=(0.1, 0.4), angles=(0.0, 90.0)).shown_as
  assert (lines['areas'], lines['angles'], lines['cells']) == ('0.1, 0.4', '0, 90', 'none')
  assert SiScore().shown_as['areas'] == '0.01 to 1, 100 values'
  assert SiScore(stored=True).shown_as['areas'] == 'as stored'


@pytest.mark.slow
def test_the_balanced_curve_pools_the_same_pairs_and_sizes_at_every_angle(tmp_path):
  """Few angles have a scene at 80 and 100 %: their objects would be larger than at the others."""
  study = SiScore(factor='rotation')
  evaluation = made_records(tmp_path, study)
  _, counted = answers(evaluation, study)
  large = study.design.area >= 0.8
  assert len(set(counted[:, large].sum(0))) > 1, 'the case does not occur'
  counts = by(table_of(study, evaluation), 'balanced_accuracy', 'angle').n
  assert counts.nunique() == 1 and counts.iloc[0] > 0


@pytest.mark.slow
def test_a_balanced_map_leaves_out_places_that_few_pairs_reach(tmp_path):
  evaluation = made_records(tmp_path, PLACES)
  _, counted = answers(evaluation, PLACES)
  rows = by(table_of(PLACES, evaluation), 'balanced_accuracy', 'x', 'y')
  levels = counted.any(0) & (counted.mean(0) >= 0.9)
  expected = np.where(levels, counted[:, levels].all(1).sum(), 0)
  assert 0 in expected and expected.any()
  for x, y, count in zip(PLACES.design.x, PLACES.design.y, expected, strict=True):
    assert rows.n[x, y] == count


def test_a_normalised_map_is_divided_by_the_best_place_that_most_pairs_reach(tmp_path):
  evaluation = made_records(tmp_path, PLACES)
  _, counted = answers(evaluation, PLACES)
  is_reached = counted.mean(0) >= 0.9
  assert is_reached.any() and (counted.any(0) & ~is_reached).any(), 'the case does not occur'
  table = table_of(PLACES, evaluation)
  rows, levels = (by(table, f'{kind}accuracy', 'x', 'y') for kind in ('normalised_', ''))
  places = [*zip(PLACES.design.x[is_reached], PLACES.design.y[is_reached], strict=True)]
  assert set(rows.index) == set(places)
  accuracies = levels.value[places]
  np.testing.assert_allclose(rows.value[places], accuracies / accuracies.max())


def test_a_place_that_exactly_the_smallest_share_of_pairs_reach_is_on_the_map():
  levels = pd.DataFrame({'y': 0.5, 'x': np.repeat([0.2, 0.5], 21)})  # 21 angles at each place
  counted = np.arange(10)[:, None] < np.repeat([9, 8], 21)  # 10 pairs
  outcomes = Outcomes({'one': counted}, levels, {'one': counted})
  assert si_score._has_enough_scenes(outcomes, ('y', 'x')).tolist() == [True] * 21 + [False] * 21


def test_there_is_no_normalised_map_if_no_place_is_reached_by_most_pairs(tmp_path):
  study = SiScore(factor='cross', areas=(0.2,), xs=(0.1, 0.9), min_inside=0.69)
  evaluation = made_records(tmp_path, study)
  share = answers(evaluation, study)[1].mean(0)
  assert ((share > 0) & (share < 0.9)).all(), 'the case does not occur'
  table = table_of(study, evaluation)
  assert len(by(table, 'accuracy', 'x', 'y')) == 2
  assert not len(by(table, 'normalised_accuracy', 'x', 'y'))


def test_classes_and_differences(tmp_path):
  first, second = (made_records(tmp_path, PLACES, k, seed) for seed, k in enumerate(('one', 'two')))
  table = table_of(PLACES, first, second)
  right, counted = answers(second, PLACES)
  classes = select(table, 'accuracy', **{'class': ...}).query('classifier == "two"')
  assert classes['class'].tolist() == ['koala', 'bagel', 'lemon']
  assert classes.clusters.tolist() == [2, 2, 2]
  assert classes.n.sum() == estimate(table, 'two', 'accuracy').n == counted.sum()
  koala = np.isin(np.arange(PAIRS) // 2, (0, 3))[:, None]  # objects 0 and 3 of six
  assert classes.value.iloc[0] == pytest.approx((right & counted & koala).sum() / classes.n.iloc[0])
  accuracies = by(table, 'accuracy', 'y', 'x')
  pairs = by(table, 'accuracy', 'y', 'x', versus='one')
  values = [accuracies[accuracies.classifier == label].value for label in ('one', 'two')]
  np.testing.assert_allclose(pairs.value, values[1] - values[0])
  assert len(pairs) == 6 and pairs.p.notna().all()
  assert ((pairs.low <= pairs.value) & (pairs.value <= pairs.high)).all()


def test_stored_and_composed_scenes_have_the_same_table(tmp_path):
  composed = made_records(tmp_path, PLACES)
  right, fraction = answers(composed, PLACES)[0], fractions_inside(composed, PLACES)
  names = 'object', 'background', 'imagenet_class'
  columns = {name: composed.records.column(name) for name in names}
  pair, level = np.nonzero(fraction > 0)
  order = np.random.default_rng(0).permutation(len(pair))
  pair, level = pair[order], level[order]
  rows = {
    'rank': np.where(right[pair, level], 0, 3)[:, None],
    'object': columns['object'][pair],
    'background': columns['background'][pair],
    'label': columns['imagenet_class'][pair],
    'fraction_inside': fraction[pair, level],
    **{k: getattr(PLACES.design, k)[level] for k in ('x', 'y', 'area', 'angle')},
  }
  single = {k: v.astype(np.float32) if v.dtype.kind == 'f' else v for k, v in rows.items()}
  stored = made(tmp_path / 'stored' / 'one', single, 7)
  study = SiScore(factor='location', stored=True, min_inside=PLACES.min_inside)
  assert len(study.views((224, 224, 3))) == 1
  images = np.zeros((len(pair), 4, 4, 1), np.uint8)
  scenes = ArrayRows(images, rows['label'], (), columns={k: rows[k] for k in designs.COLUMNS})
  message = "factor is 'size', of which all scenes have one: they look like the set of location"
  refused(message, SiScore(stored=True).check, scenes, {})
  percent = {**scenes.columns, 'area': 100 * rows['area']}
  refused('not percent', study.check, dataclasses.replace(scenes, columns=percent), {})
  no_scenes = "no column 'x', so they are no stored scenes"
  refused(no_scenes, study.check, ArrayRows(images, rows['label'], ()), {})
  from_stored, from_composed = table_of(study, stored), table_of(PLACES, composed)
  order = ['quantity', 'class', 'y', 'x']
  tables = [table.sort_values(order, ignore_index=True) for table in (from_stored, from_composed)]
  pd.testing.assert_frame_equal(*tables, check_dtype=False, rtol=1e-6)
  stored.records.identity['classes'] = [f'mine {k}' for k in range(960)]
  assert table_of(study, stored)['class'].dropna().str.startswith('mine ').all()


def test_maps_of_scenes_half_inside_and_of_all_scenes_are_side_by_side(tmp_path):
  study = dataclasses.replace(PLACES, min_inside=-1.0)
  evaluation = made_records(tmp_path, study)
  (right, counted), fraction = answers(evaluation, study), fractions_inside(evaluation, study)
  assert ((fraction > 0) & ~counted).any() and study.design.min_inside == 0.5
  table, design = table_of(study, evaluation), study.design
  for quantity, has_scene in (('accuracy', counted), ('accuracy_of_all_scenes', fraction > 0)):
    rows = by(table, quantity, 'x', 'y')
    for level, (x, y) in enumerate(zip(design.x, design.y, strict=True)):
      pairs = has_scene[:, level]
      assert rows.n[x, y] == pairs.sum()
      if pairs.any():
        assert rows.value[x, y] == pytest.approx(right[pairs, level].mean())
  normalised = by(table, 'normalised_accuracy_of_all_scenes', 'x', 'y').value
  accuracy = by(table, 'accuracy_of_all_scenes', 'x', 'y').value
  np.testing.assert_allclose(normalised, accuracy / accuracy.max())
  without_limit = table_of(dataclasses.replace(study, min_inside=0.0), evaluation)
  assert not without_limit['quantity'].str.endswith('of_all_scenes').any()


def test_stored_scenes_count_from_half_inside_where_places_vary():
  assert SiScore(factor='location', stored=True).design.min_inside == 0.5
  assert SiScore(factor='grid', stored=True).design.min_inside == 0.5
  assert SiScore(factor='size', stored=True).design.min_inside == 0
  assert SiScore(factor='location', stored=True, min_inside=0.0).design.min_inside == 0


def test_the_published_number_of_scenes_is_of_objects_at_least_half_inside():
  """The published set has 479,184 scenes of 1228 pairs, 390.2 of 441 places a pair.

  All places would make 541,548 scenes.
  """
  design, counts = designs.published('location'), []
  for aspect in (1, 1.5, 2):
    size = np.array([[300, int(300 * aspect)]])
    fraction = views.fractions_inside(design, size, size.prod(1), design.side)
    counts.append(int((fraction >= design.min_inside).sum()))
    assert (fraction > 0).all()
  assert counts == [393, 389, 385]
  assert min(counts) < 479_184 / 1228 < max(counts)


def test_all_stored_scenes_of_a_size_count_and_classes_have_imagenet_names(tmp_path):
  columns = {'object': np.arange(3), 'background': np.arange(3), 'x': np.full(3, 0.5)}
  columns |= {'y': np.full(3, 0.5), 'angle': np.zeros(3), 'area': np.full(3, 0.2)}
  columns |= {'fraction_inside': np.full(3, 0.25), 'label': np.array([281, 105, 281])}
  stored = made(tmp_path / 'one', {'rank': np.array([[0], [0], [4]]), **columns}, 2)
  table = table_of(SiScore(stored=True), stored)
  assert estimate(table, 'one', 'accuracy').n == 3
  classes = select(table, 'accuracy', **{'class': ...})
  assert classes['class'].tolist() == ['koala', 'tabby']
  refused('no scene has 0.5', table_of, SiScore('location', stored=True), stored)


def test_designs_follow_the_settings_and_a_design_without_scenes_is_refused(tmp_path):
  assert len(SiScore().design) == 100 and SiScore().canvas == 512
  assert len(SiScore(factor='location').design) == 441 and SiScore(factor='location').canvas == 500
  assert SiScore(factor='location').design.min_inside == 0.5
  assert len(SiScore(factor='grid').design) == 56**2
  assert SiScore(factor='grid', cells=4).design.x.max() == 7 / 8
  near = SiScore(factor='cross', areas=(0.201, 0.202)).view_table((512, 512, 3))
  assert len(set(near.names)) == 2
  assert SiScore(factor='grid', areas=(0.1,)).design.area[0] == 0.1
  for factor, areas in (('location', (0.1,)), ('grid', (0.1, 0.2))):
    refused(bad_setting('config.study.areas', areas), SiScore, factor=factor, areas=areas)
  for angles in ((0.0, 90.0, 360.0), (-90.0, 270.0)):
    refused('no whole turns apart', SiScore, factor='cross', angles=angles)
  for places, least in (((0.5,), 0.95), ((0.3,), 0.5), ((0.1, 0.5), 0.5)):
    assert SiScore(factor='cross', xs=places).design.min_inside == least
    assert designs.cross('mine', xs=places).min_inside == least
  assert SiScore(factor='rotation', min_inside=0.7).design.min_inside == 0.7
  turned = SiScore(factor='rotation').views((64, 64, 3))
  assert len(turned) == 72 and turned.image_shape == (64, 64, 3) and len(set(turned.ids)) == 72
  study = SiScore(factor='cross', areas=(0.2,), xs=(0.0,), min_inside=0.9)
  message, sizes = 'no scene has 0.9 of its object inside', np.full((3, 2), 20)
  refused(message, table_of, study, made_records(tmp_path, study))
  images, columns = np.zeros((3, SIDE, SIDE, 3), np.uint8), {'foreground_size': sizes}
  refused(message, study.check, ArrayRows(images, np.zeros(3, int), (), columns=columns), {})


@cases(
  'factor, stored, count, expected',
  ('size', True, 92_884, ''),
  ('location', True, 541_548, ''),
  ('location', True, 882, '882 of 479184 or 541548 scenes'),
  ('grid', True, 92_884, 'scenes by grid'),
  ('size', False, 92_884, 'scenes are composed here of other objects and backgrounds'),
)
def test_stored_scenes_are_comparable_if_there_are_as_many_as_published(
  tmp_path, factor, stored, count, expected
):
  records = made_records(tmp_path, SMALL).records
  records.layout = dataclasses.replace(records.layout, num_rows=count)
  differences = SiScore(factor, stored=stored).differences(records, (SIDE, SIDE, 3))
  assert '; '.join(differences) == expected
