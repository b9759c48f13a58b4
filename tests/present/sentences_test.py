"""Findings in words follow from the rows of the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ERROR, Quantity
from robustness.estimates.table import assemble, select, with_facet
from robustness.present import sentences
from robustness.present.notation import Notation, verdict
from robustness.results import Results
from tests.present.made_results import made_results

SPACE = '\N{NO-BREAK SPACE}'


@pytest.fixture(scope='module')
def results() -> Results:
  return made_results()


def test_the_level_and_its_difference_are_one_sentence(results: Results) -> None:
  found = sentences.findings(results)[0]
  own = select(results.table, 'error').set_index('classifier')
  value, low, high = (f'{100 * own.loc["first", end]:.0f}' for end in ('value', 'low', 'high'))
  assert found.text.startswith(f'Top-1 error: first {value}{SPACE}% ({low} to {high}); second ')
  row = select(results.table, 'error', 'first').iloc[0]
  assert found.text.endswith(
    f', minus first {Notation(ERROR, True).full(row)}: {verdict(row, ERROR)}.'
  )
  assert found.figure == 'error' and set(found.rows.versus) == {'', 'first'}


def test_the_worst_of_many_has_the_interval_of_all(results: Results) -> None:
  told = {found.figure: found.text for found in sentences.findings(results) if worst(found)}
  assert told['error_corruption'].startswith('The largest top-1 error by corruption: first under ')
  assert told['error_corruption'].count('for all 2 together') == 2
  rows = select(results.table, 'error', corruption=..., severity=...)
  count = int((rows.classifier == 'first').sum())
  assert told['error_corruption_severity'].count(f'for all {count} together') == 2


def worst(found: sentences.Finding) -> bool:
  return found.text.startswith('The largest top-1 error')


def test_the_largest_difference_of_many_has_the_interval_of_all(results: Results) -> None:
  rows = select(results.table, 'error', 'first', corruption=...)
  row = rows.loc[rows.value.abs().idxmax()]
  widened = sentences.for_all(row, len(rows), ERROR)
  assert widened is not None and widened.low < row.low < row.high < widened.high
  assert (
    f'The largest difference in top-1 error by corruption: second minus first under '
    f'{row.corruption}, {Notation(ERROR, True).full(widened)}: {verdict(widened, ERROR)}.'
  ) in sentences.sentences(results)


@pytest.mark.parametrize('versus', ['', 'first'])
def test_a_largest_of_those_with_an_interval_alone_says_so(versus: str) -> None:
  made = made_results()
  rows = select(made.table, 'error', versus, corruption=...)
  made.table.loc[rows.value.abs().idxmax(), ['low', 'high']] = np.nan
  words = 'difference in top-1 error' if versus else 'top-1 error'
  start = f'The largest {words} by corruption'
  [told] = [
    text for text in sentences.sentences(made) if text.startswith((f'{start}:', f'{start},'))
  ]
  assert told.startswith(f'{start}, of those with an interval: ')


def test_a_quantity_without_a_value_over_all_is_told_by_its_few_names(results: Results) -> None:
  table = results.table[results.table.corruption.notna()]
  told = sentences.findings(Results('made', {}, {}, {}, table=table, quantities=(ERROR,)))
  assert [found.text.partition(':')[0] for found in told[:2]] == [
    'Top-1 error under fog',
    'Top-1 error under snow',
  ]


def test_both_ends_of_an_axis_are_told_with_what_their_intervals_show() -> None:
  wrong = np.random.default_rng(0).random((400, 3)) < [0.1, 0.5, 0.9]
  same = np.repeat(wrong[:, :1], 3, 1)
  outcomes = Outcomes({'net': wrong, 'same': same}, pd.DataFrame({'severity': [1, 3, 5]}))
  table = assemble([means(ERROR, outcomes, ('severity',))])
  labels = [{'label': 'net'}, {'label': 'same'}]
  results = Results('made', labels, {}, {}, table=table, quantities=(ERROR,))
  told = sentences.sentences(results)[-1]
  assert told.startswith('Top-1 error at severity 1 and at severity 5: net ')
  assert 'higher there; same ' in told and told.endswith('the intervals overlap.')


def test_single_seeds_are_not_told(results: Results) -> None:
  seeded = with_facet(results.table, 'seed', 3)
  both = assemble([seeded, results.table])
  again = Results('made', results.classifier, {}, {}, table=both, quantities=(ERROR,))
  assert sentences.sentences(again) == sentences.sentences(results)


def test_the_interval_of_the_worst_is_wider_than_its_own(results: Results) -> None:
  rows = select(results.table, 'error', corruption=...)
  row = rows.iloc[0]
  widened = sentences.for_all(row, 15, ERROR)
  assert widened is not None and widened.family == 15
  assert widened.low < row.low < row.value < row.high < widened.high


def test_an_interval_that_is_widened_stays_in_the_range_of_its_quantity() -> None:
  views = pd.DataFrame({'angle': [0, 90, 180]})
  probability = Quantity('probability', 'probability', 'amount', 'higher', low=0, high=1)
  values = np.array([[0.1, 0.5, 0.9], [0.9, 0.2, 0.4], [0.2, 0.8, 0.7]])
  row = means(probability, Outcomes({'net': values}, views), ('angle',)).iloc[0]
  widened = sentences.for_all(row, 3, probability)
  assert widened is not None and (widened.low, widened.high) == (0, 1)


def test_a_share_times_a_factor_is_not_widened_as_a_share() -> None:
  views = pd.DataFrame({'corruption': ['fog', 'snow']})
  wrong = np.random.default_rng(0).random((40, 2)) < 0.5
  ratio = Quantity('mCE', 'mCE', 'ratio', 'lower')
  row = means(ratio, Outcomes({'net': wrong}, views), ('corruption',), scale=1.8).iloc[0]
  assert sentences.for_all(row, 2, ratio) is None
  resampled = sentences.for_all(pd.Series({**row, 'method': 'bootstrap'}), 2, ratio)
  assert resampled is not None and resampled.low < row.low < row.high < resampled.high
