"""Means of outcomes by group: the same numbers as the metrics of single kinds of trials."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from robustness.core.errors import InputError
from robustness.estimates.comparison import mcnemar
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.metrics import clopper_pearson, mean_difference, mean_share, paired_difference

ERROR = Quantity('error', 'top-1 error', better='lower')
CHANGE = Quantity('layer_change', 'change of a layer', kind='amount', low=0)
VIEWS = pd.DataFrame(
  {'corruption': ['clean', *['fog'] * 3, *['snow'] * 3], 'severity': [pd.NA, 1, 2, 3, 1, 2, 3]}
)

IS_CLEAN = (VIEWS.corruption == 'clean').to_numpy()


def made(seed: int = 0, n: int = 40) -> Outcomes:
  """Outcomes of two classifiers on n images, some harder than others and all easier when clean."""
  generator = np.random.default_rng(seed)
  hardness = generator.random((n, 1))
  wrong = {
    label: generator.random((n, len(VIEWS))) * 0.7 + 0.3 * hardness - 0.2 * IS_CLEAN > threshold
    for label, threshold in (('first', 0.5), ('second', 0.6))
  }
  return Outcomes(wrong, VIEWS)


def ends(row) -> tuple[float, float, float]:
  return row.value, row.low, row.high


def test_a_view_of_independent_images_has_the_exact_interval():
  outcomes = made()
  table = means(ERROR, outcomes, ('corruption', 'severity'), paired=False)
  assert len(table) == 2 * 6  # the clean view has no severity
  row = table[(table.classifier == 'second') & (table.corruption == 'snow')].iloc[1]
  wrong = outcomes.values['second'][:, 5].sum()
  assert row.severity == 2 and row.method == 'clopper-pearson' and row.n == row.clusters == 40
  assert ends(row) == pytest.approx((wrong / 40, *clopper_pearson(wrong, 40)))


def test_several_views_of_an_image_are_one_cluster():
  outcomes = made()
  table = means(ERROR, outcomes, ('corruption',))
  fog = outcomes.values['first'][:, 1:4].mean(1)
  row = table[(table.classifier == 'first') & (table.corruption == 'fog')].iloc[0]
  expected = mean_share(fog, 3)
  assert row.method == 'korn-graubard' and row.n == 40
  assert ends(row) == pytest.approx((expected.value, expected.low, expected.high), abs=1e-12)


def test_differences_are_paired_and_of_several_views_too():
  outcomes = made()
  table = means(ERROR, outcomes, ('corruption',), test=True)
  pairs = table[table.versus == 'first'].set_index('corruption')
  first, second = outcomes.values['first'], outcomes.values['second']
  gained, lost = second & ~first, first & ~second
  expected = mean_difference(gained[:, 4:].mean(1), lost[:, 4:].mean(1), 3)
  assert ends(pairs.loc['snow']) == pytest.approx(
    (expected.value, expected.low, expected.high), abs=1e-12
  )
  single = gained[:, 0].sum(), lost[:, 0].sum()
  assert ends(pairs.loc['clean']) == pytest.approx(paired_difference(*single, 40))
  assert pairs.loc['clean'].p == pytest.approx(mcnemar(*single))


def test_weights_count_views_several_times_but_trials_once():
  outcomes = made()
  views = pd.DataFrame({'radius': [0, 1, 1, 1, 2, 2, 2]})
  weight = np.array([1, 2, 2, 1, 1, 1, 1])
  weighted = Outcomes(outcomes.values, views, weight=weight)
  row = means(ERROR, weighted, ('radius',), paired=False).iloc[1]
  share = outcomes.values['first'][:, 1:4] @ weight[1:4] / 5
  expected = mean_share(share, 25 / 9)
  assert ends(row) == pytest.approx((expected.value, expected.low, expected.high), abs=1e-12)


def test_an_amount_has_students_interval_within_its_range():
  values = np.abs(np.random.default_rng(0).normal(size=(12, 1))) * [[1]]
  values[0] = np.nan
  row = means(CHANGE, Outcomes({'net': values}, pd.DataFrame(index=range(1)))).iloc[0]
  known = values[1:, 0]
  half = 2.2281388519649385 * known.std(ddof=1) / np.sqrt(11)
  assert ends(row) == pytest.approx(
    (known.mean(), max(0, known.mean() - half), known.mean() + half)
  )
  assert row.n == row.clusters == 11 and row.method == 'student'


@pytest.mark.parametrize('name', ['value', 'n', 'p', 'note', 'classifier'])
def test_a_facet_that_is_named_like_a_column_of_the_table_is_refused(name):
  outcomes = Outcomes({'net': np.eye(2, dtype=bool)}, pd.DataFrame({name: [1, 2]}))
  with pytest.raises(InputError, match=f"facet '{name}' has the name of a column"):
    means(ERROR, outcomes, (name,))


def test_views_whose_weights_are_not_whole_have_no_test():
  outcomes = made()
  for weight, known in ((np.full(len(VIEWS), 0.3), False), (np.arange(len(VIEWS)), True)):
    weighted = Outcomes(outcomes.values, VIEWS, weight=weight)
    row = means(ERROR, weighted, ('corruption',), test=True).iloc[-1]
    assert row.versus == 'first' and row.low < row.value < row.high
    assert np.isfinite(row.p) == known


def test_a_facet_that_views_lack_is_refused_by_name():
  with pytest.raises(InputError, match="no facet 'severities'; .*severity"):
    means(ERROR, made(), ('severities',))
