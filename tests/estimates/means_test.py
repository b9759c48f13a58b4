"""Tests means of outcomes by group, and their intervals for single trials and for clusters."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.estimates import quantity
from robustness.estimates.comparison import mcnemar, paired_difference
from robustness.estimates.corruption_error import MCE
from robustness.estimates.intervals import clopper_pearson, effective_trials, korn_graubard
from robustness.estimates.means import means, share_difference, share_in_clusters
from robustness.estimates.of_means import function_of_means
from robustness.estimates.outcomes import Group, Outcomes, Sums
from robustness.estimates.quantity import ACCURACY, CLEAN_ERROR, Quantity, errors_at
from tests.refusals import refused

ERROR = Quantity('error', 'top-1 error', better='lower')
CHANGE = Quantity('layer_change', 'change of a layer', kind='amount', low=0)
VIEWS = pd.DataFrame(
  {'corruption': ['clean', *['fog'] * 3, *['snow'] * 3], 'severity': [pd.NA, 1, 2, 3, 1, 2, 3]}
)

IS_CLEAN = (VIEWS.corruption == 'clean').to_numpy()


def made(seed: int = 0, n: int = 40) -> Outcomes:
  """Returns mistakes of two classifiers on n images in the seven `VIEWS`.

  Some images are harder than others, and all are easier when clean.
  """
  generator = np.random.default_rng(seed)
  hardness = generator.random((n, 1))
  wrong = {
    label: generator.random((n, len(VIEWS))) * 0.7 + 0.3 * hardness - 0.2 * IS_CLEAN > threshold
    for label, threshold in (('first', 0.5), ('second', 0.6))
  }
  return Outcomes(wrong, VIEWS)


def numbers(row) -> tuple[float, float, float]:
  """Returns the value and the ends of the interval of a row."""
  return row.value, row.low, row.high


def test_a_single_view_has_the_exact_interval_and_a_scale_multiplies_it():
  outcomes = made()
  table = means(ERROR, outcomes, ('corruption', 'severity'), paired=False)
  assert len(table) == 2 * 6  # the clean view has no severity
  row = table[(table.classifier == 'second') & (table.corruption == 'snow')].iloc[1]
  wrong = outcomes.values['second'][:, 5].sum()
  assert row.severity == 2 and row.method == 'clopper-pearson' and row.n == row.clusters == 40
  assert numbers(row) == pytest.approx((wrong / 40, *clopper_pearson(wrong, 40)))
  unscaled, scaled = (means(ERROR, made(), scale=scale).iloc[0] for scale in (1, 1.4))
  assert numbers(scaled) == pytest.approx([1.4 * number for number in numbers(unscaled)])


def test_views_of_an_image_are_one_cluster_and_equal_views_add_nothing():
  outcomes = made()
  table = means(ERROR, outcomes, ('corruption',))
  fog = outcomes.values['first'][:, 1:4].mean(1)
  row = table[(table.classifier == 'first') & (table.corruption == 'fog')].iloc[0]
  expected = korn_graubard(fog.mean(), fog.std(ddof=1), 40, 3)
  assert row.method == 'korn-graubard' and row.n == 40
  assert numbers(row) == pytest.approx((fog.mean(), *expected), abs=1e-12)
  hard = np.random.default_rng(3).random((100, 1)) < 0.3
  views = pd.DataFrame({'view': range(50)})
  (row,) = means(ERROR, Outcomes({'net': np.repeat(hard, 50, 1)}, views)).itertuples()
  assert (row.low, row.high) == pytest.approx(clopper_pearson(hard.sum(), 100), abs=0.002)
  (row,) = means(ERROR, Outcomes({'net': np.zeros((0, 50), bool)}, views)).itertuples()
  assert row.n == 0 and np.isnan([row.value, row.low, row.high]).all()


def test_differences_are_paired_in_one_view_and_in_several():
  outcomes = made()
  table = means(ERROR, outcomes, ('corruption',), test=True)
  pairs = table[table.versus == 'first'].set_index('corruption')
  first, second = outcomes.values['first'], outcomes.values['second']
  gained, lost = second & ~first, first & ~second
  in_snow = gained[:, 4:].mean(1), lost[:, 4:].mean(1)
  b, c = (share.mean() for share in in_snow)
  change = in_snow[0] - in_snow[1]
  size = effective_trials(b + c - (b - c) ** 2, change.var(ddof=1) / 40, 40, 120)
  expected = paired_difference(b * size, c * size, size)
  assert numbers(pairs.loc['snow']) == pytest.approx(expected, abs=1e-12)
  single = gained[:, 0].sum(), lost[:, 0].sum()
  assert numbers(pairs.loc['clean']) == pytest.approx(paired_difference(*single, 40))
  assert pairs.loc['clean'].p == pytest.approx(mcnemar(*single))


def test_weights_repeat_views_but_not_trials_and_only_whole_weights_are_tested():
  outcomes = made()
  views = pd.DataFrame({'radius': [0, 1, 1, 1, 2, 2, 2]})
  weight = np.array([1, 2, 2, 1, 1, 1, 1])
  weighted = Outcomes(outcomes.values, views, weight=weight)
  row = means(ERROR, weighted, ('radius',), paired=False).iloc[1]
  shares = outcomes.values['first'][:, 1:4] @ weight[1:4] / 5
  trials = 5**2 / 9  # the weights 2, 2 and 1: their sum squared over their sum of squares
  expected = korn_graubard(shares.mean(), shares.std(ddof=1), 40, trials)
  assert numbers(row) == pytest.approx((shares.mean(), *expected), abs=1e-12)
  for weight, has_test in ((np.full(len(VIEWS), 0.3), False), (np.arange(len(VIEWS)), True)):
    weighted = Outcomes(outcomes.values, VIEWS, weight=weight)
    row = means(ERROR, weighted, ('corruption',), test=True).iloc[-1]
    assert row.versus == 'first' and row.low < row.value < row.high
    assert np.isfinite(row.p) == has_test
  for weight, trials in (([1] * 7, 7), ([2] * 7, 7), ([1, 2, 2], 25 / 9)):
    group = Group({}, np.arange(len(weight)), np.array(weight, float))
    assert group.trials == pytest.approx(trials)


def sums_of(*shares: np.ndarray, views: int) -> list[Sums]:
  """Returns sums of shares [images], which are of some views each."""
  return [Sums(share, np.ones(len(share)), len(share), len(share) * views) for share in shares]


def test_the_interval_of_images_that_are_all_right_depends_on_their_number():
  all_wrong = share_in_clusters(*sums_of(np.zeros(20), views=75))
  assert all_wrong.value == all_wrong.low == 0
  assert all_wrong.high == pytest.approx(clopper_pearson(0, 20)[1])
  shares = np.zeros(20)
  shares[3] = 0.2
  one_wrong = share_in_clusters(*sums_of(shares, views=5))
  assert one_wrong.value == pytest.approx(0.01)
  assert 0 < one_wrong.low < 0.01 < one_wrong.high < clopper_pearson(1, 20)[1]


def test_a_difference_of_views_that_agree_counts_images_and_not_views():
  gained, lost = np.zeros(40), np.zeros(40)
  gained[:7], lost[20:22] = 1, 1
  single, many_views = (share_difference(*sums_of(gained, lost, views=n)) for n in (1, 75))
  assert numbers(single) == pytest.approx(paired_difference(7, 2, 40))
  assert numbers(many_views) == pytest.approx(paired_difference(7, 2, 40), abs=0.01)
  all_equal = share_difference(*sums_of(np.zeros(20), np.zeros(20), views=75))
  assert numbers(all_equal) == pytest.approx(paired_difference(0, 0, 20))
  extreme = share_difference(*sums_of(np.ones(3), np.zeros(3), views=5))
  assert extreme.value == extreme.high == 1 and extreme.low > -1


def test_an_amount_has_students_interval_within_its_range():
  values = np.abs(np.random.default_rng(0).normal(size=(12, 1)))
  values[0] = np.nan
  row = means(CHANGE, Outcomes({'net': values}, pd.DataFrame(index=range(1)))).iloc[0]
  mean = values[1:, 0].mean()
  half = stats.t.ppf(0.975, 10) * values[1:, 0].std(ddof=1) / np.sqrt(11)
  assert numbers(row) == pytest.approx((mean, max(0, mean - half), mean + half))
  assert row.n == row.clusters == 11 and row.method == 'student'


def test_a_mean_outside_the_range_of_its_quantity_is_refused():
  outcomes = Outcomes({'first': np.full((3, 7), 1.5)}, VIEWS)
  message = r"error of first is 1.5, outside its range \(0.0, 1.0\): .*kind='share'"
  refused(message, means, ERROR, outcomes)
  refused('is -1.5, outside', means, CHANGE, Outcomes({'first': np.full((3, 7), -1.5)}, VIEWS))


def test_a_difference_of_unsigned_integers_is_signed():
  ranks = {'first': np.full((3, 7), 2, np.uint8), 'second': np.full((3, 7), 1, np.uint8)}
  assert means(CHANGE, Outcomes(ranks, VIEWS)).value.tolist() == [2, 1, -1]


def test_an_unknown_facet_and_a_facet_named_like_a_column_of_the_table_are_refused():
  for name in ('value', 'n', 'p', 'note', 'classifier', 'task', 'seed', 'marked'):
    outcomes = Outcomes({'net': np.eye(2, dtype=bool)}, pd.DataFrame({name: [1, 2]}))
    refused(f"facet '{name}' has the name of a column", means, ERROR, outcomes, (name,))
  refused("no facet 'severities'; .*severity", means, ERROR, made(), ('severities',))


def test_outcomes_of_other_rows_or_views_than_those_of_the_first_classifier_are_refused():
  for shape in ((3, 6), (2, 7), (3,)):
    values = {'first': np.zeros((3, 7)), 'second': np.zeros(shape)}
    refused(r'outcomes of second have shape .*give \[3 rows, 7 views\]', Outcomes, values, VIEWS)


def test_a_quantity_is_refused_with_outcomes_of_another_statistic():
  ranks = {'first': {'rank': np.arange(12).reshape(3, 4)}, 'second': {'rank': np.ones((3, 4), int)}}
  views = pd.DataFrame({'corruption': ['fog', 'fog', 'snow', 'snow']})
  wrong = Outcomes.from_fields(CLEAN_ERROR, ranks, views)
  assert means(quantity.ERROR, wrong).value.tolist()[:2] == pytest.approx([11 / 12, 1])
  assert len(function_of_means(MCE, wrong)) == 3
  top5, _ = errors_at(5)
  for mismatched in (ACCURACY, top5, Quantity('gap', 'gap')):
    refused(f'{mismatched.name} is of the statistic .*Wrong', means, mismatched, wrong)
  refused(
    'mCE is of the statistic', function_of_means, MCE, Outcomes.from_fields(ACCURACY, ranks, views)
  )
  refused('gap has no statistic', Outcomes.from_fields, Quantity('gap', 'gap'), ranks, views)
  refused('error has no function of means', function_of_means, quantity.ERROR, wrong)


def test_views_are_combined_before_the_mean():
  wrong = {'net': np.array([[0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]], bool)}
  outcomes = Outcomes(wrong, pd.DataFrame({'epsilon': [1, 1, 2, np.nan], 'attack': [*'abab']}))
  under_any = outcomes.combined(('epsilon',), lambda values: values.any(1))
  assert under_any.views.epsilon.tolist() == [1, 2]
  assert means(ERROR, under_any, ('epsilon',)).value.tolist() == pytest.approx([2 / 3, 0])


def test_an_interval_over_a_cluster_with_nearly_all_trials_covers_the_share():
  generator, covered = np.random.default_rng(0), 0
  sizes = np.append(200, np.ones(9, int))  # effectively 1.1 clusters
  for _ in range(100):
    right = generator.binomial(sizes, generator.beta(2.4, 0.6, 10)).astype(float)
    measured = share_in_clusters(Sums(right, sizes.astype(float), n=209, trials=209.0))
    covered += measured.low <= 0.8 <= measured.high
  assert covered >= 95
