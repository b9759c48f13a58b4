"""Findings in words follow from the rows of the table."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, ERROR
from robustness.estimates.table import assemble, select, with_facet
from robustness.present import sentences
from robustness.present.notation import Notation, verdict
from robustness.results import Results
from tests.present.made_results import made_results

SPACE = '\N{NO-BREAK SPACE}'


def test_the_level_and_its_difference_are_one_sentence(results):
  found = sentences.findings(results)[0]
  own = select(results.table, 'error').set_index('classifier')
  value, low, high = (f'{100 * own.loc["first", end]:.0f}' for end in ('value', 'low', 'high'))
  assert found.text.startswith(f'Top-1 error: first {value}{SPACE}% ({low} to {high}); second ')
  row = select(results.table, 'error', 'first').iloc[0]
  difference = f'minus first {Notation(ERROR, True).full(row)}: {verdict(row, ERROR)}.'
  assert found.text.endswith(f', {difference}')
  assert found.figure == 'error' and set(found.rows.versus) == {'', 'first'}


def test_the_worst_and_the_largest_difference_of_many_have_the_interval_of_all(results):
  largest = 'The largest top-1 error'
  found = sentences.findings(results)
  told = {own.figure: own.text for own in found if own.text.startswith(largest)}
  assert told['error_corruption'].startswith('The largest top-1 error by corruption: first under ')
  assert told['error_corruption'].count('for both') == 2
  rows = select(results.table, 'error', corruption=..., severity=...)
  count = int((rows.classifier == 'first').sum())
  assert told['error_corruption_severity'].count(f'for all {count} together') == 2
  rows = select(results.table, 'error', 'first', corruption=...)
  row = rows.loc[rows.value.abs().idxmax()]
  widened = sentences.for_all(row, len(rows), ERROR)
  assert widened is not None and widened.low < row.low < row.high < widened.high
  told = f'{row.corruption}, {Notation(ERROR, True).full(widened)}: {verdict(widened, ERROR)}.'
  start = 'The largest difference in top-1 error by corruption: second minus first under'
  assert f'{start} {told}' in sentences.sentences(results)


def test_a_value_over_fewer_things_than_others_says_so():
  made = made_results()
  own = select(made.table, 'error').index
  made.table.loc[own, 'note'] = ['undefined in 1 of 4 views; few', 'all are']
  [told, *_] = sentences.sentences(made)
  first, second = told.split('; second ')
  assert first.endswith('), undefined in 1 of 4 views, few') and 'all are' not in second
  corrupted = select(made.table, 'error', corruption=...)
  made.table.loc[corrupted.index, 'note'] = 'undefined in a draw'
  start = 'The largest top-1 error by corruption: '
  [largest] = [text for text in sentences.sentences(made) if text.startswith(start)]
  assert largest.count('for both), undefined in a draw') == 2


@pytest.mark.parametrize('versus', ['', 'first'])
def test_a_largest_of_those_with_an_interval_alone_says_so(versus):
  made = made_results()
  rows = select(made.table, 'error', versus, corruption=...)
  made.table.loc[rows.value.abs().idxmax(), ['low', 'high']] = np.nan
  words = 'difference in top-1 error' if versus else 'top-1 error'
  starts = tuple(f'The largest {words} by corruption{mark}' for mark in ':,')
  [told] = [text for text in sentences.sentences(made) if text.startswith(starts)]
  assert told.startswith(f'{starts[1]} of those with an interval: ')


@pytest.mark.parametrize('versus', ['', 'first'])
def test_no_value_is_the_largest_of_equal_ones(versus):
  made = made_results()
  rows = select(made.table, 'error', versus, corruption=...)
  made.table.loc[rows[rows.classifier == 'second'].index, ['value', 'low', 'high']] = 0.0
  start = f'The largest {"difference in " if versus else ""}top-1 error by corruption:'
  told = [text for text in sentences.sentences(made) if text.startswith(start)]
  assert [text.count('second') for text in told] == ([] if versus else [0])


@pytest.mark.parametrize('versus', ['', 'first'])
def test_of_several_as_large_none_is_named_and_both_signs_are_told(versus):
  """The interval is the widest of those that are as large."""
  made = made_results()
  rows = select(made.table, 'error', versus, corruption=..., severity=...)
  own = rows[rows.classifier == 'second'].index
  made.table.loc[own, ['value', 'low', 'high']] = 0.1, 0.09, 0.11
  for place, value, width in ((0, 0.3, 0.1), (1, 0.1 + 0.2, 0.2), (2, -0.3, 0.1)):
    if versus or value > 0:
      made.table.loc[own[place], ['value', 'low', 'high']] = value, value - width, value + width
  start = f'The largest {"difference in " if versus else ""}top-1 error by corruption and severity:'
  [text] = [text for text in sentences.sentences(made) if text.startswith(start)]
  told = text.split('second')[1:]
  wide = sentences.for_all(made.table.loc[own[1]], len(own), ERROR)
  end = ': higher, worse' if versus else '.'
  higher, lower = (f' minus first {sign}' if versus else '' for sign in ('higher', 'lower'))
  notation = Notation(ERROR, bool(versus))
  assert told[0].startswith(f'{higher} at 2 places alike, {notation.full(wide)}{end}')
  place = f'under {rows.loc[own[2], "corruption"]} at severity {rows.loc[own[2], "severity"]}'
  assert [text.split(f', −30{SPACE}points')[0] for text in told[1:]] == (
    [f'{lower} {place}'] if versus else []
  )


def test_many_names_of_which_few_have_an_interval_are_not_told_one_by_one(results):
  [(_, row)] = select(results.table, 'error').iloc[:1].iterrows()
  low = {k: np.nan if k < 4 else row.low for k in range(10)}
  rows = [{**row, 'corruption': f'c{k}', 'value': row.value + k / 1000, 'low': low[k]} for k in low]
  several = dataclasses.replace(results, table=assemble([pd.DataFrame(rows)]))
  [told] = sentences.sentences(several)
  assert told.startswith('The largest top-1 error by corruption, of those with an interval: first')


def test_a_quantity_without_a_value_over_all_is_told_by_its_few_names_and_no_single_seed(results):
  table = results.table[results.table.corruption.notna()]
  told = sentences.findings(Results('made', [], {}, {}, table=table, quantities=(ERROR,)))
  starts = [found.text.partition(':')[0] for found in told[:2]]
  assert starts == ['Top-1 error under fog', 'Top-1 error under snow']
  seeded = with_facet(results.table, 'seed', 3)
  both = assemble([seeded, results.table])
  again = Results('made', results.classifiers, {}, {}, table=both, quantities=(ERROR,))
  assert sentences.sentences(again) == sentences.sentences(results)


def test_a_smallest_that_is_the_level_is_not_told_again():
  """pm-k falls with k, and is over all distances that at the largest."""
  right = np.random.default_rng(0).random((2, 400, 3)) < [0.9, 0.5, 0.1]
  outcomes = Outcomes({'net': right[0], 'other': right[1]}, pd.DataFrame({'k': [0, 1, 2]}))
  by_k = means(ACCURACY, outcomes, ('k',))
  whole = by_k[by_k.k == 2].assign(k=None)
  labels = [{'label': 'net'}, {'label': 'other'}]
  table = assemble([whole, by_k])
  told = sentences.sentences(Results('made', labels, {}, {}, table=table, quantities=(ACCURACY,)))
  assert told[0].startswith('Top-1 accuracy: net ')
  assert not any(text.startswith('The smallest top-1 accuracy') for text in told)
