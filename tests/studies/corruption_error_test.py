"""Tests the study `corruption_error`: its views, and its numbers against NumPy on made records."""

import dataclasses
import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness import corruptions
from robustness.core import random_keys
from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.views import CorruptionOptions
from robustness.estimates.corruption_error import failure_point
from robustness.estimates.of_means import Units
from robustness.estimates.published import BASELINES
from robustness.estimates.table import select
from robustness.evaluation.study import Evaluation
from robustness.studies.corruption_error import CorruptionError
from tests.end_to_end import runs
from tests.made_records import made
from tests.refusals import refused
from tests.studies import conftest
from tests.table_rows import estimate

SHAPE, ROWS = (32, 32, 3), 60
SMALL = CorruptionError(
  corruptions=('contrast', 'brightness', 'gaussian_noise'),
  severities=(1, 3),
  false_discovery_rate=0.2,
)
SHOWN = {'corruption_set': 'shown'}


def made_records(path, study: CorruptionError, label: str, seed: int, shape=SHAPE) -> Evaluation:
  """Writes random ranks [60, views]; errors grow with the severity and with the seed."""
  views = study.views(shape)
  generator = np.random.default_rng(seed)
  chance = 0.1 + 0.1 * views.parameters['severity'] + 0.05 * seed
  rank = (generator.random((ROWS, len(views))) < chance) * generator.integers(1, 9, (ROWS, 1))
  return made(path / label, {'rank': rank}, 16, 3, label=label)


def records_of_mistakes(path: pathlib.Path, **wrong: np.ndarray) -> list[Evaluation]:
  """Writes records of classifiers from their mistakes [images, views]."""
  return [made(path / label, {'rank': rank}) for label, rank in wrong.items()]


def ranks(evaluation: Evaluation) -> np.ndarray:
  return evaluation.records.table('rank')


def test_views_are_in_the_official_order_and_ids_do_not_depend_on_the_set():
  assert SMALL.names == ('gaussian_noise', 'brightness', 'contrast')
  assert len(CorruptionError().names) == 15
  assert len(CorruptionError(corruptions=('official', 'extra')).names) == 19
  views, all_views = SMALL.views(SHAPE), CorruptionError(corruptions=('all',)).views(SHAPE)
  assert len(views) == 1 + 3 * 2
  assert set(views.ids) <= set(all_views.ids)
  assert len(set(all_views.ids)) == 1 + 19 * 5
  image = np.random.default_rng(0).random(SHAPE, np.float32)
  np.testing.assert_array_equal(conftest.show_image(SMALL, image, 0, 5), image)
  key = random_keys.for_example(random_keys.stream(0, SMALL.stream), 5, views.ids[2])
  expected = corruptions.corrupt(key, image, 'gaussian_noise', 3)
  np.testing.assert_allclose(conftest.show_image(SMALL, image, 2, 5), expected, atol=1e-6)


def test_severities_between_the_five_are_views():
  study = dataclasses.replace(SMALL, between=(1.5, 2.25))
  views, without_between = study.views(SHAPE), SMALL.views(SHAPE)
  assert study.levels == (1, 1.5, 2.25, 3) and len(views) == 1 + 3 * 4
  assert views.parameters['severity'][1:5].tolist() == [1, 6, 7, 3]
  assert views.ids[[0, 1, 4, 5, 8]].tolist() == without_between.ids[:5].tolist()
  assert len(set(views.ids)) == len(views)
  single_level = dataclasses.replace(SMALL, between=(2.25,)).views(SHAPE)
  assert single_level.ids[2] == views.ids[3]
  image = np.full(SHAPE, 0.4, np.float32)
  expected = corruptions.corrupt(jax.random.key(0), image, 'brightness', 2.25)
  np.testing.assert_allclose(conftest.show_image(study, image, 7), expected)
  assert SMALL.recording != study.recording


def test_every_thousandth_of_a_severity_is_accepted():
  thousandths = tuple(number / 1000 for number in range(1001, 5000) if number % 1000)
  assert CorruptionError(between=thousandths).between == thousandths


def test_options_of_corruptions_change_views():
  picture = jnp.asarray(np.random.default_rng(0).random(SHAPE, np.float32))

  def blurred(options: CorruptionOptions) -> list[np.ndarray]:
    """Returns the picture with the draws of two examples."""
    study = CorruptionError(corruptions=('motion_blur',), severities=(5,), options=options)
    return [conftest.show_image(study, picture, 1, example) for example in (0, 1)]

  first, second = blurred(CorruptionOptions())
  assert np.abs(first - second).max() > 0.05, 'the direction of the motion is random'
  np.testing.assert_array_equal(*blurred(CorruptionOptions(motion_blur='fixed')))


table_of = functools.partial(conftest.table_of, shape=SHAPE)


def grid(table: pd.DataFrame, label: str, quantity: str = 'error', versus: str = '') -> np.ndarray:
  """Returns the values of a classifier, [corruptions, severities]."""
  rows = select(table, quantity, versus, corruption=..., severity=...)
  rows = rows[rows.classifier == label]
  return rows.value.to_numpy().reshape(rows.corruption.nunique(), -1)


def test_failure_points_use_severities_between_the_five_and_means_do_not(tmp_path):
  study = dataclasses.replace(SMALL, between=(1.5, 2.25), failure_share=0.9)
  evaluation = made_records(tmp_path, study, 'only', 0)
  table = table_of(study, [evaluation])
  wrong = ranks(evaluation) > 0
  error = wrong[:, 1:].mean(0).reshape(3, 4)
  np.testing.assert_allclose(grid(table, 'only'), error)
  severities = select(table, 'error', corruption='contrast', severity=...).severity
  assert severities.tolist() == [1, 1.5, 2.25, 3]
  mean = estimate(table, 'only', 'error', corruption_set='shown').value
  assert mean == pytest.approx(error[:, [0, 3]].mean())
  for index, name in enumerate(study.names):
    right = ~wrong[:, [0, *range(1 + 4 * index, 5 + 4 * index)]]
    images = Units(right.astype(float), np.ones(right.shape), len(right))
    expected = failure_point(images, np.array(study.levels), 0.9)
    row = estimate(table, 'only', 'failure_severity', corruption=name)
    numbers = (expected.value, expected.low, expected.high)
    assert (row.value, row.low, row.high) == pytest.approx(numbers) and row.note == expected.note
    assert 1 <= expected.value <= 3
  (words,) = (q.words for q in study.quantities if q.name == 'failure_severity')
  assert words.endswith('below 90 % of that on clean images')


def test_a_failure_severity_of_few_clusters_has_no_interval():
  right, images = np.array([[9, 8, 7, 2]] * 4), np.full((4, 4), 10.0)
  few, enough = (Units(right[:k], images[:k], 10 * k, images=10) for k in (3, 4))
  severities = np.array([1, 2, 3])
  estimate_of_few = failure_point(few, severities, 0.5)
  assert np.isnan([estimate_of_few.low, estimate_of_few.high]).all()
  assert estimate_of_few.note == 'no interval: too few clusters, effectively 3.0'
  at_lowest = failure_point(few, severities, 0.95)
  assert at_lowest.note.startswith('at or before the lowest severity; no interval')
  estimate_of_enough = failure_point(enough, severities, 0.5)
  assert estimate_of_enough.value == estimate_of_few.value == estimate_of_enough.low


def test_errors_means_and_mce_against_plain_numpy(tmp_path):
  evaluations = [made_records(tmp_path, SMALL, k, s) for s, k in enumerate(('first', 'second'))]
  table = table_of(SMALL, evaluations)
  wrong = [ranks(e) > 0 for e in evaluations]
  error = [w[:, 1:].mean(0).reshape(3, 2) for w in wrong]
  for index, label in enumerate(('first', 'second')):
    np.testing.assert_allclose(grid(table, label), error[index])
    top5 = (ranks(evaluations[index]) >= 5)[:, 1:].mean(0).reshape(3, 2)
    np.testing.assert_allclose(grid(table, label, 'top5_error'), top5)
    assert estimate(table, label, 'clean_error').value == wrong[index][:, 0].mean()
    mean = estimate(table, label, 'error', **SHOWN)
    assert mean.value == pytest.approx(error[index].mean())
    assert mean.low < mean.value < mean.high
    for number, name in enumerate(SMALL.names):
      row = estimate(table, label, 'error', corruption=name)
      assert row.value == pytest.approx(error[index][number].mean())
  ratio = (error[1].sum(1) / error[0].sum(1)).mean()
  clean = [w[:, 0].mean() for w in wrong]
  relative = ((error[1].mean(1) - clean[1]) / (error[0].mean(1) - clean[0])).mean()
  mce = estimate(table, 'second', 'mCE', **SHOWN)
  assert mce.value == pytest.approx(ratio)
  assert mce.low < ratio < mce.high
  assert estimate(table, 'second', 'relative_mCE', **SHOWN).value == pytest.approx(relative)
  assert estimate(table, 'first', 'mCE', **SHOWN).low == pytest.approx(1)


def test_differences_are_tested_in_pairs(tmp_path):
  evaluations = [made_records(tmp_path, SMALL, k, s) for s, k in ((0, 'first'), (4, 'second'))]
  table = table_of(SMALL, evaluations)
  right = [ranks(e) == 0 for e in evaluations]
  lost, gained = (right[0] & ~right[1]).sum(0)[1:], (~right[0] & right[1]).sum(0)[1:]
  rows = select(table, 'error', 'first', corruption=..., severity=...)
  pairs = zip(lost, gained, strict=True)
  p = [stats.binomtest(int(x), int(x + y)).pvalue if x + y else 1 for x, y in pairs]
  np.testing.assert_allclose(rows.p, p)
  np.testing.assert_allclose(rows.value, (lost - gained) / ROWS)
  for facets in ({'corruption': 'contrast'}, SHOWN):
    errors = [estimate(table, label, 'error', **facets).value for label in ('first', 'second')]
    row = estimate(table, 'second', 'error', 'first', **facets)
    assert row.low < row.value < row.high
    assert row.value == pytest.approx(errors[1] - errors[0])
  mce = estimate(table, 'second', 'mCE', **SHOWN)
  shifted = estimate(table, 'second', 'mCE', 'first', **SHOWN)
  assert (shifted.value, shifted.low) == pytest.approx((mce.value - 1, mce.low - 1))


@pytest.mark.parametrize('baseline', ['alexnet', 'cifar10_standard'])
def test_a_published_baseline_divides_by_its_errors(tmp_path, baseline):
  """The mean is over the 15 official corruptions, also where all 19 were shown."""
  published = BASELINES[baseline]
  if baseline == 'cifar10_standard':  # The mean of the 15 errors is published too.
    assert np.mean(list(published.corrupted.values())) == pytest.approx(0.2654, abs=5e-5)
  study = CorruptionError(corruptions=('all',), baseline=baseline)
  shape = (published.side, published.side, 3)
  evaluations = [made_records(tmp_path, study, label, s, shape) for s, label in enumerate('ab')]
  table = table_of(study, evaluations, shape=shape)
  wrong = ranks(evaluations[1]) > 0
  by_corruption = wrong[:, 1:76].mean(0).reshape(15, 5).mean(1)
  baseline_errors = np.array([published.corrupted[name] for name in study.names[:15]])
  row = estimate(table, 'b', 'mCE', corruption_set='official')
  assert row.value == pytest.approx((by_corruption / baseline_errors).mean())
  assert row.low < row.value < row.high
  assert len(select(table, 'mCE', 'a', corruption_set='official')) == 1
  relative = select(table, 'relative_mCE', corruption_set='official').set_index('classifier')
  if np.isnan(published.clean):
    assert relative.empty, 'the clean error of the baseline is not published'
  else:
    excess = (by_corruption - wrong[:, 0].mean()) / (baseline_errors - published.clean)
    assert relative.value['b'] == pytest.approx(excess.mean())
  for label in ('all', 'extra', *(['fourier_cifar'] if published.side == 32 else [])):
    assert len(select(table, 'error', corruption_set=label)) == 2
    assert select(table, 'mCE', None, corruption_set=label).empty, 'not all are published'


def test_mce_of_a_single_classifier_has_a_note_about_the_setting(tmp_path):
  study, baselines = CorruptionError(), {32: "to 'cifar10_standard'", 224: "to 'alexnet'", 28: ''}
  for side, baseline in baselines.items():
    shape = (side, side, 3 if baseline else 1)
    table = table_of(study, [made_records(tmp_path / str(side), study, 'a', 0, shape)], shape=shape)
    note = estimate(table, 'a', 'mCE', corruption_set='official').note
    fix = f'set config.study.baseline {baseline}' if baseline else 'give two classifiers'
    assert note == f'the baseline itself; for mCE {fix}'


def test_relative_mce_counts_the_resamples_it_leaves_out(tmp_path):
  study = CorruptionError(corruptions=('contrast',), severities=(1,))
  clean, corrupted = np.arange(20) < 2, np.arange(20) < 7  # 2 and 7 of 20 images are wrong
  corrupted[0], corrupted[18] = False, True  # some resamples then have no excess error
  wrong, less_wrong = np.stack([clean, corrupted], 1), np.stack([corrupted, clean], 1)
  more_wrong, unaffected = wrong.copy(), np.stack([clean, clean], 1)
  more_wrong[19, 1] = True  # 6 mistakes more than when clean, where the first has 5
  mistakes = {'first': wrong, 'second': more_wrong, 'third': unaffected}
  table = table_of(study, records_of_mistakes(tmp_path, **mistakes))
  row = estimate(table, 'second', 'relative_mCE', **SHOWN)
  assert row.value == pytest.approx(6 / 5)
  assert 'of 1000 resamples' in row.note and 'left out' in row.note
  row = estimate(table, 'third', 'relative_mCE', **SHOWN)
  assert row.value == 0 and np.isnan([row.low, row.high]).all(), 'all resamples are 0'
  evaluations = records_of_mistakes(tmp_path / 'less', first=less_wrong, second=wrong)
  undefined = estimate(table_of(study, evaluations), 'second', 'relative_mCE', **SHOWN)
  assert np.isnan([undefined.value, undefined.low, undefined.high]).all()
  assert undefined.note == 'undefined: the baseline errs no more than when clean under contrast'


def test_mce_without_errors_of_the_baseline_names_the_corruption(tmp_path):
  wrong = np.ones((20, 7), bool)
  right_in_contrast = wrong.copy()
  right_in_contrast[:, 5:] = False
  table = table_of(SMALL, records_of_mistakes(tmp_path, first=right_in_contrast, second=wrong))
  for versus in ('', 'first'):
    row = estimate(table, 'second', 'mCE', versus, **SHOWN)
    assert np.isnan([row.value, row.low, row.high]).all()
    assert row.note == 'undefined: the mean of the baseline is 0 in contrast'


def test_mce_against_alexnet_notes_differences_from_published_mce(tmp_path):
  study = CorruptionError(baseline='alexnet')
  shape = (256, 224, 3)
  table = table_of(study, [made_records(tmp_path, study, 'only', 1, shape)], shape=shape)
  for name in ('mCE', 'relative_mCE'):
    note = estimate(table, 'only', name, corruption_set='official').note
    assert note.startswith('not comparable with published mCE: images are 256 × 224')
    assert 'frost is drawn' in note and 'not rounded to 8 bits' in note
  stored = dataclasses.replace(study, source='stored')
  assert stored._incomparable((224, 224, 3)) == ''
  assert SMALL._incomparable(SHAPE) == ''


def test_rows_photographs_and_parts_that_do_not_fit_the_settings_are_refused(tmp_path):
  row = {'image': np.zeros(SHAPE, np.float32)}
  stored = {**row, 'corruption': np.int32(1), 'severity': np.int32(1), 'base_id': np.int32(0)}
  refused('would be corrupted again', SMALL.views(SHAPE).show, None, stored, {})
  frost = CorruptionError(corruptions=('frost',), photographs=str(tmp_path))
  refused(r'frost1\.png', frost.views, SHAPE)
  against_published = CorruptionError(source='stored', baseline='cifar10_standard')
  parts = [(number, severity) for number in (1, 2) for severity in SEVERITIES]
  message = r"published for the corruptions .*official.*the images have .*'shot_noise'.*'first'"
  refused(message, against_published.restricted_to_stored, parts)


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_a_stored_set_runs_end_to_end_and_the_report_names_it(tmp_path):
  folder = tmp_path / 'CIFAR-10-C'
  folder.mkdir()
  np.save(folder / 'labels.npy', np.tile(np.arange(4), 5))
  for name in ('fog', 'snow'):
    images = np.random.default_rng(0).integers(0, 256, (20, *SHAPE), np.uint8)
    np.save(folder / f'{name}.npy', images)
  section = {'path': str(folder), 'clean_dataset': ''}
  changes = {'data.cifar10_c': section, 'data.num_images': 3}
  changes['classifier.weights'] = runs.save_weights(tmp_path / 'one.safetensors', 'resnet20')
  results = runs.run(runs.shrunk('corruption_error', 'cifar10_c', changes), tmp_path / 'run')
  assert results.settings['source'] == 'stored' and results.data['stored'] is True
  by_corruption = select(results.table, 'error', corruption=...)
  assert by_corruption.corruption.tolist() == ['snow', 'fog']
  assert by_corruption.n.tolist() == [3, 3]
  assert not {'clean_error', 'relative_mCE'} & set(results.table.quantity)
  assert results.arrays['gallery'].shape == (2, 5, *SHAPE)
  report = (tmp_path / 'run' / 'report.html').read_text()
  assert 'read as they are stored' in report and 'hence no clean error' in report
