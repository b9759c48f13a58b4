"""Tests the study `accuracy_by_factor`: groups, bins, clusters, pairs of factors, and refusals."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from robustness.core.rows import ArrayRows, as_float32
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, ERROR
from robustness.estimates.table import select
from robustness.evaluation import failures
from robustness.studies.accuracy_by_factor import AccuracyByFactor
from tests.cases import cases
from tests.made_records import made
from tests.refusals import refused
from tests.studies.conftest import classifier, measured, rows, table_of
from tests.table_rows import estimate

ROWS = rows()
COUNT = ROWS.num_examples
POSES = np.array(['left', 'right', ''])[np.arange(COUNT) % 3]
SITES = np.arange(COUNT) // 4
"""Sites of four images each."""
RIGHT = np.argmax(classifier('', 0).predict(ROWS.images), 1) == ROWS.labels
WITH_COLUMNS = dataclasses.replace(
  ROWS, columns={'pose': POSES, 'site': SITES, 'hour': np.linspace(0, 24, COUNT)}
)


def table(study: AccuracyByFactor, array_rows: ArrayRows = WITH_COLUMNS):
  return measured(study, array_rows=array_rows)[0].table


def test_accuracies_of_groups_are_counts_by_hand():
  estimates = table(AccuracyByFactor(factors=('pose',), fewest=2))
  assert {*estimates['pose'].dropna()} == {'left', 'right'}, 'an empty word is no group'
  for pose in ('left', 'right'):
    right_in_pose = RIGHT[pose == POSES]
    row = estimate(estimates, 'first', 'accuracy', pose=pose)
    assert (row.value, row.n) == (right_in_pose.mean(), len(right_in_pose))
    low, high = clopper_pearson(right_in_pose.sum(), len(right_in_pose))
    np.testing.assert_allclose([row.low, row.high], [low, high])
    ratio = estimate(estimates, 'first', 'error_ratio', pose=pose).value
    assert ratio == pytest.approx((1 - right_in_pose.mean()) / (1 - RIGHT.mean()))
  assert estimate(estimates, 'first', 'overall_accuracy').value == RIGHT.mean()
  assert not (estimates['pose'] == 'all images').any()
  difference = estimate(estimates, 'second', 'accuracy', 'first', pose='left')
  second = np.argmax(classifier('', 1).predict(ROWS.images), 1) == ROWS.labels
  assert difference.value == pytest.approx((second * 1.0 - RIGHT)[POSES == 'left'].mean())


def test_numbers_are_binned_at_quantiles_and_small_groups_are_left_out():
  estimates = table(AccuracyByFactor(factors=('hour',), bins=4, fewest=2))
  hours = select(estimates, 'accuracy', hour=...)
  assert sorted(set(hours.n)) == [COUNT // 4] and hours.hour.nunique() == 4
  without_bins = AccuracyByFactor(factors=('site',), bins=0, fewest=4)
  assert table(without_bins)['site'].nunique() == COUNT // 4
  large_groups = AccuracyByFactor(factors=('pose',), fewest=14)
  message = 'pose has 1 groups of at least 14 images; accuracy by it needs two.* config.study.bins'
  refused(message, large_groups.check, WITH_COLUMNS, {})


def test_large_whole_numbers_that_are_equal_as_floats_are_different_levels():
  numbers = 2**60 + np.arange(COUNT) % 3
  with_numbers = dataclasses.replace(ROWS, columns={'camera': numbers})
  estimates = table(AccuracyByFactor(factors=('camera',), fewest=2), with_numbers)
  assert estimates['camera'].nunique() == 3
  for number in np.unique(numbers):
    row, right = (
      estimate(estimates, 'first', 'accuracy', camera=str(number)),
      RIGHT[numbers == number],
    )
    assert (row.n, row.value) == (len(right), right.mean())


MANY = np.arange(100)


@cases(
  'values, sizes',
  (1.7e9 + 864 * MANY, [20] * 5),  # times in seconds
  (20230101 + MANY, [20] * 5),  # dates
  (np.linspace(2019.9, 2021.5, 100), [20] * 5),  # years
  (np.maximum(MANY - 84, 0), [85, 15]),
  (np.minimum(MANY, 15), [15, 85]),
  (np.minimum(MANY, 5) + np.maximum(MANY - 94, 0), [5, 90, 5]),
)
def test_bins_cover_numbers_of_any_size_and_a_frequent_number_is_a_group(values, sizes):
  levels = AccuracyByFactor()._levels('time', values, ())
  assert np.unique(levels, return_counts=True)[1].tolist() == sizes


def test_the_ratio_of_a_group_without_an_error_has_an_interval():
  # None of 10 images from the front is wrong, and 19 of 190 from the side.
  pose, wrong = np.repeat(['front', 'side'], [10, 190]), np.repeat([0, 1, 0], [10, 19, 171])
  ranks, view = dict.fromkeys('ab', {'rank': wrong[:, None]}), pd.DataFrame(index=range(1))
  outcomes = (Outcomes.from_fields(quantity, ranks, view) for quantity in (ACCURACY, ERROR))
  study = AccuracyByFactor(factors=('pose',))
  estimates = pd.concat(study._estimates(*outcomes, {'pose': pose}))
  ratio = estimates[(estimates['quantity'] == 'error_ratio') & (estimates.versus == '')].iloc[0]
  paired = estimates[(estimates['quantity'] == 'error_ratio') & (estimates.versus == 'a')].iloc[0]
  assert ratio.value == ratio.low == 0 and 1 < ratio.high < 4 and ratio.n == 200
  assert paired.low < paired.value == 0 < paired.high


def test_any_word_may_be_a_level():
  renamed = np.where(POSES == 'left', 'all images', POSES)
  study = AccuracyByFactor(factors=('pose',), fewest=1)
  estimates = table(study, dataclasses.replace(ROWS, columns={'pose': renamed}))
  row = estimate(estimates, 'first', 'error_ratio', pose='all images')
  assert row.value == estimate(table(study), 'first', 'error_ratio', pose='left').value


def test_the_ratio_of_a_group_in_one_site_has_a_note_instead_of_an_interval():
  places = np.where(SITES == 0, 'harbour', 'field')
  with_places = dataclasses.replace(ROWS, columns={'place': places, 'site': SITES})
  study = AccuracyByFactor(factors=('place',), clusters='site', fewest=4)
  estimates = table(study, with_places)
  for place, versus in itertools.product(('harbour', 'field'), ('', 'first')):
    row = estimate(estimates, 'second', 'error_ratio', versus, place=place)
    assert np.isfinite(row.value) and np.isnan([row.low, row.high]).all()
    assert row.note == 'no interval: too few clusters, effectively 1.0'


def test_brightness_is_measured_in_the_images():
  study = AccuracyByFactor(factors=('brightness', 'contrast'), bins=2, fewest=2)
  results, evaluation = measured(study, ('first',))
  records = evaluation.records
  images = as_float32(ROWS.images)
  np.testing.assert_allclose(records.column('brightness'), images.mean((1, 2, 3)), rtol=1e-5)
  np.testing.assert_allclose(records.column('contrast'), images.std((1, 2, 3)), rtol=1e-5)


@pytest.mark.slow
def test_estimates_count_clusters():
  unclustered = AccuracyByFactor(factors=('pose', 'class'), pairs=True, fewest=1)
  clustered = dataclasses.replace(unclustered, clusters='site')
  by_site = table(clustered)
  assert estimate(table(unclustered), 'first', 'overall_accuracy').clusters == COUNT
  for quantity, facets in (('overall_accuracy', {}), ('error_ratio', {'pose': 'left'})):
    row = estimate(by_site, 'first', quantity, **facets)
    assert (row.n, row.clusters) == (COUNT, COUNT // 4)
  partly_placed = dataclasses.replace(ROWS, columns={'site': np.where(POSES == 'left', POSES, '')})
  study = dataclasses.replace(clustered, factors=('class',), pairs=False)
  results, evaluation = measured(study, ('first',), partly_placed)
  units = clustered.by_row(evaluation.records, ROWS.image_shape).units
  assert len(set(units)) == 1 + (POSES != 'left').sum(), 'an image without a site is a cluster'
  results, evaluation = measured(clustered, ('first',), WITH_COLUMNS)
  by_class = failures.findings(clustered, [evaluation], ROWS.image_shape)[0].estimates[0]
  assert (by_class.clusters < by_class.n).all(), 'accuracies of classes count clusters too'


def test_pairs_of_factors_are_groups():
  estimates = table(AccuracyByFactor(factors=('pose', 'class'), pairs=True, fewest=1))
  is_in_pair = (POSES == 'left') & (ROWS.labels == 1)
  pair = estimate(estimates, 'first', 'accuracy', pose='left', **{'class': ROWS.class_names[1]})
  assert (pair.value, pair.n) == (RIGHT[is_in_pair].mean(), is_in_pair.sum())


@cases(
  'settings, message',
  ({'factors': ('poise',)}, "a column in config.study.factors is 'poise'; .*'pose'"),
  ({'factors': ('value',)}, "factors has 'value', the name of a column of the table of results"),
  ({'factors': ('pose',), 'clusters': 'object'}, "clusters is 'object'; valid"),
  ({'factors': ('pose',), 'clusters': 'class'}, "clusters is 'class'; valid"),
  ({'factors': ('pose',), 'clusters': 'contrast'}, "clusters is 'contrast'; valid"),
)
def test_columns_that_the_data_lack_are_refused(settings, message):
  refused(message, AccuracyByFactor(**settings).check, WITH_COLUMNS, {})


def test_a_column_with_the_name_of_a_measure_or_of_the_label_is_refused():
  for name in ('contrast', 'class'):
    named = dataclasses.replace(ROWS, columns={name: POSES})
    study = AccuracyByFactor(factors=(name,), fewest=1)
    refused(f"factors has '{name}', .* rename it", study.check, named, {})
  names = dataclasses.replace(ROWS, columns={'class': np.array(ROWS.class_names)[ROWS.labels]})
  AccuracyByFactor(factors=('class',)).check(names, {})


def test_the_class_as_factor_is_refused_for_multilabel_images():
  multilabel = dataclasses.replace(ROWS, labels=np.stack([ROWS.labels, -np.ones(COUNT, int)], 1))
  refused('several labels', AccuracyByFactor(factors=('class',)).check, multilabel, {})


@pytest.mark.parametrize('absent', [np.nan, np.inf])
def test_images_without_a_strength_have_no_level_and_no_failure_point(absent, tmp_path):
  strength = np.append(np.arange(60) % 5, [absent, absent, absent])
  columns = {'level': strength, 'base_id': np.arange(63) // 5, 'label': np.zeros(63, np.int32)}
  rank = (np.arange(63) < 10).astype(np.int32)[:, None]  # two of twelve pictures are always wrong
  evaluation = made(tmp_path / 'one', {'rank': rank, **columns}, 16, 1, label='one')
  study = AccuracyByFactor(factors=('level',), strength='level', fewest=2)
  estimates = table_of(study, [evaluation], (8, 8, 3))
  point = estimate(estimates, 'one', 'failure_point')
  assert (point.value, point.n) == (pytest.approx((2 * 0 + 10 * 5) / 12), 12)
  assert {*select(estimates, 'accuracy', level=...).level} == {*range(5)}
  copied, other = (
    made(tmp_path / name, {'rank': rank, **columns, 'level': levels}, 16, 1, label=name)
    for name, levels in (('copy', strength), ('other', strength[::-1]))
  )
  assert study.reduce([evaluation, copied], (8, 8, 3)).estimates
  message = "'level' has other values for other than for one"  # in two workdirs that are compared
  refused(message, study.reduce, [evaluation, other], (8, 8, 3))
  one_picture = {**columns, 'base_id': np.zeros(63, int)}
  pictures = made(tmp_path / 'pictures', {'rank': rank, **one_picture}, 16, 1, label='other')
  refused("'base_id' has other values", study.reduce, [evaluation, pictures], (8, 8, 3))


def test_drops_and_failure_points_are_counts_by_hand():
  """Three pictures under two shifts at three strengths; one picture lacks a shift."""
  shift, picture, strength = (x.ravel() for x in np.indices((2, 3, 3)))
  right = [[[1, 1, 0], [1, 0, 1], [1, 1, 1]], [[0, 1, 1], [1, 1, 0], [0, 0, 0]]]
  is_shown = (shift == 0) | (picture < 2)
  columns = {'shift': np.array(['fog', 'snow'])[shift], 'scale': strength / 2, 'base_id': picture}
  columns = {name: values[is_shown] for name, values in columns.items()}
  ranks = {'a': {'rank': 1 - np.ravel(right)[is_shown, None]}}
  outcomes = Outcomes.from_fields(ACCURACY, ranks, pd.DataFrame(index=range(1)))
  study = AccuracyByFactor(factors=('shift', 'scale'), bins=0, fewest=2, strength='scale')
  estimates = pd.concat(study._by_strength(outcomes, columns, columns['base_id']))
  drops = estimates[estimates.quantity == 'accuracy_drop'].set_index(['shift', 'scale'])
  expected = {('fog', 0.5): 1 / 3, ('fog', 1): 1 / 3, ('snow', 0.5): -1 / 2, ('snow', 1): 0}
  assert drops.value.to_dict() == pytest.approx(expected)
  assert drops.n.to_list() == [3, 3, 2, 2] and (drops.low < drops.value).all()
  points = estimates[estimates.quantity == 'failure_point'].set_index('shift').value
  assert points['fog'] == pytest.approx((1 + 0.5 + 1.5) / 3) and points['snow'] == 0.5
  assert points[points.index.isna()].item() == pytest.approx((1 + 0.5 + 1.5 + 0 + 1) / 5)


@pytest.mark.parametrize('absent', [np.nan, None])
def test_pictures_without_a_level_count_in_the_failure_point_of_all(absent):
  strength, picture = (x.ravel() for x in np.indices((2, 6)))
  age = np.where(picture < 3, absent, 30.0)  # three of six pictures have no age
  ranks = {'a': {'rank': (picture < 3).astype(int)[:, None]}}
  outcomes = Outcomes.from_fields(ACCURACY, ranks, pd.DataFrame(index=range(1)))
  study = AccuracyByFactor(factors=('age', 'scale'), fewest=2, strength='scale')
  columns = {'age': age, 'scale': strength}
  points = pd.concat(study._by_strength(outcomes, columns, picture))
  points = points[points.quantity == 'failure_point'].set_index('age')
  assert points.loc[30.0, ['value', 'n']].tolist() == [2, 3]
  of_all = points[points.index.isna()]
  assert of_all[['value', 'n']].to_numpy().tolist() == [[1, 6]]


@cases(
  'settings, message',
  ({'strength': 'hour'}, 'config.study.strength.*base_id'),
  ({'factors': ('pose',), 'strength': 'pose'}, 'needs numbers'),
)
def test_strengths_need_numbers_and_pictures(settings, message):
  study = AccuracyByFactor(**{'factors': ('hour',), 'fewest': 2, **settings})
  refused(message, study.check, WITH_COLUMNS, {})


def test_several_images_of_a_picture_at_one_strength_are_refused():
  scale, picture, shift = (x.ravel() for x in np.indices((2, COUNT // 4, 2)))
  columns = {'scale': scale / 2, 'base_id': picture, 'shift': np.array(['fog', 'snow'])[shift]}
  versions = dataclasses.replace(ROWS, columns=columns)
  study = AccuracyByFactor(factors=('shift', 'scale'), fewest=2, strength='scale')
  study.check(versions, {})
  alone = dataclasses.replace(study, factors=('scale',))
  refused('picture 0 has several images of strength 0. Add', alone.check, versions, {})
