"""The study `accuracy_by_factor`: groups by hand, bins, clusters, pairs, and what is refused."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from robustness.core.rows import ArrayRows, as_float32
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, ERROR
from robustness.evaluation import failures
from robustness.evaluation.study import Evaluation
from robustness.studies.accuracy_by_factor import AccuracyByFactor
from tests.cases import cases
from tests.refusals import refused
from tests.studies.conftest import classifier, recorded, rows, table_of
from tests.table_rows import estimate

GIVEN = rows()
COUNT = GIVEN.num_examples
POSES = np.array(['left', 'right', ''])[np.arange(COUNT) % 3]
SITES = np.arange(COUNT) // 4
RIGHT = np.argmax(classifier('', 0).predict(GIVEN.images), 1) == GIVEN.labels
WITH_COLUMNS = dataclasses.replace(
  GIVEN, columns={'pose': POSES, 'site': SITES, 'hour': np.linspace(0, 24, COUNT)}
)


def table(folder, study: AccuracyByFactor, given: ArrayRows = WITH_COLUMNS):
  study.check(given, {})
  return table_of(
    study,
    [
      Evaluation(label, recorded(folder / label, study, classifier(label, seed), given))
      for seed, label in enumerate(('first', 'second'))
    ],
  )


def test_groups_by_word_are_those_counted_by_hand(tmp_path):
  found = table(tmp_path, AccuracyByFactor(factors=('pose',), fewest=2))
  assert {*found['pose'].dropna()} == {'left', 'right'}, 'the empty word is none'
  for pose in ('left', 'right'):
    own = RIGHT[pose == POSES]
    row = estimate(found, 'first', 'accuracy', pose=pose)
    assert (row.value, row.n) == (own.mean(), len(own))
    low, high = clopper_pearson(own.sum(), len(own))
    np.testing.assert_allclose([row.low, row.high], [low, high])
    ratio = estimate(found, 'first', 'error_ratio', pose=pose).value
    assert ratio == pytest.approx((1 - own.mean()) / (1 - RIGHT.mean()))
  assert estimate(found, 'first', 'overall_accuracy').value == RIGHT.mean()
  assert not (found['pose'] == 'all images').any()
  difference = estimate(found, 'second', 'accuracy', 'first', pose='left')
  second = np.argmax(classifier('', 1).predict(GIVEN.images), 1) == GIVEN.labels
  assert difference.value == pytest.approx((second * 1.0 - RIGHT)[POSES == 'left'].mean())


def test_numbers_are_cut_at_quantiles_and_small_groups_left_out(tmp_path):
  found = table(tmp_path, AccuracyByFactor(factors=('hour',), bins=4, fewest=2))
  hours = found[(found.quantity == 'accuracy') & (found.versus == '')]
  assert sorted(set(hours.n)) == [COUNT // 4] and hours.hour.nunique() == 4
  every = AccuracyByFactor(factors=('site',), bins=0, fewest=4)
  assert table(tmp_path / 'sites', every)['site'].nunique() == COUNT // 4
  few = AccuracyByFactor(factors=('pose',), fewest=14)
  message = 'pose has 1 groups of at least 14 images; accuracy by it needs two.* config.study.bins'
  refused(message, few.check, WITH_COLUMNS, {})


MANY = np.arange(100)


@cases(
  'values, sizes',
  (1.7e9 + 864 * MANY, [20] * 5),
  (20230101 + MANY, [20] * 5),
  (np.linspace(2019.9, 2021.5, 100), [20] * 5),
  (np.maximum(MANY - 84, 0), [85, 15]),
  (np.minimum(MANY, 15), [15, 85]),
  (np.minimum(MANY, 5) + np.maximum(MANY - 94, 0), [5, 90, 5]),
)
def test_numbers_of_any_size_have_groups_and_a_frequent_one_its_own(values, sizes):
  levels = AccuracyByFactor()._levels('time', values, ())
  assert np.unique(levels, return_counts=True)[1].tolist() == sizes


def test_the_ratio_of_a_group_without_an_error_has_an_interval():
  pose, wrong = np.repeat(['front', 'side'], [10, 190]), np.repeat([0, 1, 0], [10, 19, 171])
  ranks, view = dict.fromkeys('ab', {'rank': wrong[:, None]}), pd.DataFrame(index=range(1))
  outcomes = (Outcomes.from_fields(quantity, ranks, view) for quantity in (ACCURACY, ERROR))
  study = AccuracyByFactor(factors=('pose',))
  found = pd.concat(study._estimates(*outcomes, {'pose': pose}))
  own, paired = (
    found[(found['quantity'] == 'error_ratio') & (found.versus == of)].iloc[0] for of in ('', 'a')
  )
  assert own.value == own.low == 0 and 1 < own.high < 4 and own.n == 200
  assert paired.low < paired.value == 0 < paired.high


def test_the_ratio_of_a_group_in_one_site_has_no_interval_and_says_why(tmp_path):
  places = np.where(SITES == 0, 'harbour', 'field')
  given = dataclasses.replace(GIVEN, columns={'place': places, 'site': SITES})
  study = AccuracyByFactor(factors=('place',), clusters='site', fewest=4)
  found = table(tmp_path, study, given)
  for place, versus in itertools.product(('harbour', 'field'), ('', 'first')):
    row = estimate(found, 'second', 'error_ratio', versus, place=place)
    assert np.isfinite(row.value) and np.isnan([row.low, row.high]).all()
    assert row.note == 'no interval: too few clusters, effectively 1.0'


def test_brightness_is_measured_in_the_images(tmp_path):
  study = AccuracyByFactor(factors=('brightness', 'contrast'), bins=2, fewest=2)
  records = recorded(tmp_path, study, classifier('first', 0), GIVEN)
  images = as_float32(GIVEN.images)
  np.testing.assert_allclose(records.column('brightness'), images.mean((1, 2, 3)), rtol=1e-5)
  np.testing.assert_allclose(records.column('contrast'), images.std((1, 2, 3)), rtol=1e-5)


def test_clusters_widen_intervals_and_pairs_are_given(tmp_path):
  alone = AccuracyByFactor(factors=('pose', 'class'), pairs=True, fewest=1)
  alike = dataclasses.replace(alone, clusters='site')
  found, joined = table(tmp_path / 'alone', alone), table(tmp_path / 'alike', alike)
  assert estimate(found, 'first', 'overall_accuracy').clusters == COUNT
  for quantity, facets in (('overall_accuracy', {}), ('error_ratio', {'pose': 'left'})):
    row = estimate(joined, 'first', quantity, **facets)
    assert (row.n, row.clusters) == (COUNT, COUNT // 4)
  some = dataclasses.replace(WITH_COLUMNS, columns={'site': np.where(POSES == 'left', POSES, '')})
  records = recorded(tmp_path / 'some', alike, classifier('first', 0), some)
  units = alike.by_row(records, GIVEN.image_shape).units
  assert len(set(units)) == 1 + (POSES != 'left').sum(), 'images of no known site are alone'
  one = Evaluation('first', recorded(tmp_path / 'one', alike, classifier('first', 0), WITH_COLUMNS))
  of_classes = failures.findings(alike, [one], GIVEN.image_shape)[0].estimates[0]
  assert (of_classes.clusters < of_classes.n).all(), 'classes have these clusters too'
  own = (POSES == 'left') & (GIVEN.labels == 1)
  pair = estimate(found, 'first', 'accuracy', pose='left', **{'class': '1'})
  assert (pair.value, pair.n) == (RIGHT[own].mean(), own.sum())


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


def test_a_column_named_as_what_is_measured_or_the_label_is_refused():
  for name in ('contrast', 'class'):
    named = dataclasses.replace(GIVEN, columns={name: POSES})
    refused(
      f"factors has '{name}', .* rename it",
      AccuracyByFactor(factors=(name,), fewest=1).check,
      named,
      {},
    )
  names = dataclasses.replace(GIVEN, columns={'class': np.array(GIVEN.class_names)[GIVEN.labels]})
  AccuracyByFactor(factors=('class',)).check(names, {})


def test_the_class_is_no_factor_of_images_with_several_labels():
  several = dataclasses.replace(GIVEN, labels=np.stack([GIVEN.labels, -np.ones(COUNT, int)], 1))
  refused('several labels', AccuracyByFactor(factors=('class',)).check, several, {})
