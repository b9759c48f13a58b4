"""`sentences.findings` puts the rows of a table of results into words."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, ERROR, Quantity
from robustness.estimates.simultaneous import widen_for_family
from robustness.estimates.table import OVER_SEEDS, assemble, select, with_facet
from robustness.present import sentences
from robustness.present.notation import Notation
from robustness.results import NO_SPREAD, Results
from tests import faults
from tests.present.made_results import made_results, sentences_of

SPACE = '\N{NO-BREAK SPACE}'


def starting(results: Results, start: str) -> list[str]:
  """Returns the sentences about results that begin with these words."""
  return [text for text in sentences_of(results) if text.startswith(start)]


def test_the_level_and_its_difference_are_one_sentence(results):
  finding = sentences.findings(results)[0]
  levels = select(results.table, 'error').set_index('classifier')
  value, low, high = (f'{100 * levels.loc["first", end]:.0f}' for end in ('value', 'low', 'high'))
  assert finding.text.startswith(f'Top-1 error: first {value}{SPACE}% ({low} to {high}); second ')
  row = select(results.table, 'error', 'first').iloc[0]
  low, high = (f'{-100 * end:.0f}' for end in (row.high, row.low))
  assert finding.text.endswith(
    f', better than first by {-100 * row.value:.0f}{SPACE}points ({low} to {high}).'
  )
  assert finding.figure == 'error' and set(finding.rows.versus) == {'', 'first'}


@pytest.mark.parametrize(
  'better, comparative', [('lower', 'worse'), ('higher', 'better'), ('', 'higher')]
)
def test_a_significant_difference_says_which_is_better_and_by_how_much(better, comparative):
  quantity = dataclasses.replace(ERROR, better=better, biased=True)
  wrong = {'first': np.arange(90)[:, None] % 5 < 1, 'second': np.arange(90)[:, None] % 2 < 1}
  table = assemble([means(quantity, Outcomes(wrong, pd.DataFrame(index=range(1))))])
  results = Results('made', [], {}, {}, table=table, quantities=(quantity,))
  [text] = sentences_of(results)
  row = table[table.versus == 'first'].iloc[0]
  low, high = (f'{100 * end:.0f}' for end in (row.low, row.high))
  assert text.endswith(f', {comparative} than first by 30{SPACE}points ({low} to {high}).')
  table['method'] = OVER_SEEDS
  [text] = sentences_of(results)
  assert text.endswith(', which seeds alone do not test.') and 'minus first +30' in text


def test_a_note_on_all_overall_estimates_is_stated_once(results):
  is_overall = results.table.corruption.isna() & results.table.severity.isna()
  for notes, end in (('k = 10', ' Note: k = 10.'), (['k = 10', '', ''], '')):
    results.table.loc[is_overall, 'note'] = notes
    text = sentences.findings(results)[0].text
    assert text.endswith(end) and text.count('k = 10') == bool(end)


def test_differences_in_one_sentence_have_simultaneous_intervals():
  random = np.random.default_rng(0)
  wrong = {f'net {k}': random.random((200, 1)) < 0.3 + 0.05 * k for k in range(4)}
  table = assemble([means(ERROR, Outcomes(wrong, pd.DataFrame(index=range(1))))])
  [finding] = sentences.findings(Results('made', [], {}, {}, table=table, quantities=(ERROR,)))
  assert finding.text.endswith(' Differences are simultaneous over 3 networks.')
  for row in table[table.versus != ''].itertuples():
    wide = widen_for_family(table.loc[row.Index], 3, ERROR)
    difference = finding.rows[
      (finding.rows.classifier == row.classifier) & (finding.rows.versus != '')
    ].iloc[0]
    assert (difference.low, difference.high) == (wide.low, wide.high) and difference.low < row.low


def test_the_highest_of_many_holds_for_all_places_and_networks(results):
  findings = {
    finding.figure: finding for finding in sentences.findings(results) if 'ighest' in finding.text
  }
  rows = select(results.table, 'error', corruption=...)
  row = rows.loc[rows[rows.classifier == 'first'].value.idxmax()]
  wide = Notation(ERROR).full(widen_for_family(row, 4, ERROR))
  text = findings['error_corruption'].text
  start = f'Highest top-1 error of 2 corruptions: first {wide} under {row.corruption}; second '
  assert text.startswith(start)
  assert text.endswith(' Intervals are simultaneous over 2 corruptions and 2 networks.')
  count = len(select(results.table, 'error', corruption=..., severity=...)) // 2
  end = f'simultaneous over {count} pairs of corruptions and severities and 2 networks.'
  assert findings['error_corruption_severity'].text.endswith(end)


def test_places_of_difference_match_the_figure_and_the_largest_has_a_simultaneous_interval():
  """The classifier b errs on 30 of 60 images in four corruptions, 40 in fog; a on 30 in haze."""
  second = np.zeros((60, 8), bool)
  second[:30, :4] = True
  second[:40, 0] = True
  first = np.zeros((60, 8), bool)
  first[:30, 4] = True
  names = ['fog', 'snow', 'frost', 'rain', 'haze', 'dust', 'sand', 'dusk']
  views = pd.DataFrame({'corruption': names})
  outcomes = Outcomes({'a': first, 'b': second}, views)
  table = assemble([means(ERROR, outcomes, ('corruption',), test=True)])
  results = Results('made', [], {}, {}, table=table, quantities=(ERROR,))
  [text] = starting(results, 'Of 8 corruptions, ')
  row = table[(table.versus == 'a') & (table.corruption == 'fog')].iloc[0]
  wide = Notation(ERROR, True).full(widen_for_family(row, 8, ERROR))
  assert text == (
    'Of 8 corruptions, b errs less than a under haze and more under fog, snow, frost and rain; '
    f'the largest difference, {wide}, is under fog. Intervals are simultaneous over 8 corruptions.'
  )
  table.loc[table.p.notna(), 'p'] = 1.0
  [text] = starting(results, 'Of 8 corruptions, ')
  assert text.startswith('Of 8 corruptions, b is not shown to differ from a under any; the largest')


def test_a_largest_difference_that_is_not_significant_is_called_so():
  subject = {'classifier': 'b', 'versus': 'a', 'quantity': 'error'}
  estimate = {'n': 90, 'clusters': 90, 'method': 'bonett-price', 'confidence': 0.95, 'family': 1}
  values = [(0.02, 1e-4, 0.01), (0.3, 0.2, 0.5), *[(0.0, 1.0, 0.01)] * 6]
  rows = pd.DataFrame(
    {**subject, **estimate, 'value': value, 'low': value - half, 'high': value + half, 'p': p}
    for value, p, half in values
  ).assign(corruption=['fog', 'snow', *'abcdef'], note='')
  results = Results('made', [], {}, {}, table=assemble([rows]), quantities=(ERROR,))
  [text] = starting(results, 'Of 8 corruptions')
  assert 'b errs more than a under fog; the largest difference, +30' in text
  assert ', not significant, is under snow.' in text


def test_many_frequencies_are_a_share_and_the_few_exceptions_are_named():
  pairs = [(y, x) for y in range(10) for x in range(12)]
  views = pd.DataFrame(pairs, columns=['frequency_y', 'frequency_x'])
  first = np.tile(np.arange(50)[:, None] < 30, 120)  # an error of 60 %
  second = np.zeros_like(first)
  second[:, pairs.index((3, 1))] = True
  second[:30, :6] = True  # no difference at 6 of 120 frequencies, so 113 / 120 = 94 % are less
  waves = dataclasses.replace(ERROR, words='top-1 error under waves')
  outcomes = Outcomes({'natural': first, 'gaussian': second}, views)
  table = assemble([means(waves, outcomes, tuple(views), test=True)])
  results = Results('made', [], {}, {}, table=table, quantities=(waves,))
  [text] = starting(results, 'Of 120 ')
  start = 'gaussian errs less than natural at 94 % and more at ±(3, 1); the largest difference'
  assert text.startswith(f'Of 120 frequencies under waves, {start}')
  assert faults.in_results(results) == []


def test_many_of_few_places_are_a_number_and_not_a_share():
  first = np.tile(np.arange(60)[:, None] < 30, 9)
  second = np.where(np.arange(9) < 7, first & (np.arange(60)[:, None] < 8), first)
  second[:50, 8] = True
  views = pd.DataFrame({'corruption': [f'c{k}' for k in range(9)]})
  outcomes = Outcomes({'first': first, 'second': second}, views)
  table = assemble([means(ERROR, outcomes, ('corruption',), test=True)])
  differ, highest = sentences_of(Results('', [], {}, {}, table=table, quantities=(ERROR,)))
  compared = 'Of 9 corruptions, second errs less than first under 7 and more under c8'
  assert differ.startswith(f'{compared}; the largest difference, −37')
  assert differ.endswith('Intervals are simultaneous over 9 corruptions.')
  assert highest == (
    f'Highest top-1 error of 9 corruptions: second 83{SPACE}% (65 to 95) under c8. '
    'Intervals are simultaneous over 9 corruptions and 2 networks.'
  )


def test_a_quantity_that_is_no_error_is_called_better_or_higher():
  for better, comparative in (('higher', 'is better'), ('', 'is higher')):
    quantity = Quantity('q', 'quality', better=better, headline=True)
    answers = {'a': np.zeros((60, 2), bool), 'b': np.ones((60, 2), bool)}
    outcomes = Outcomes(answers, pd.DataFrame({'corruption': ['fog', 'snow']}))
    table = assemble([means(quantity, outcomes, ('corruption',), test=True)])
    table = table[table.corruption.notna()].assign(severity=3)
    table = assemble([table, table.assign(severity=4)])
    results = Results('made', [], {}, {}, table=table, quantities=(quantity,))
    [text] = starting(results, 'Quality: of 4 pairs of corruptions and severities, b')
    assert (
      f'b {comparative} than a in all; the largest difference, ' in text and 'everywhere.' in text
    )


def test_a_value_that_is_undefined_in_some_views_or_draws_has_a_note():
  results = made_results()
  levels = select(results.table, 'error').index
  results.table.loc[levels, 'note'] = ['undefined in 1 of 4 views; few', 'all are']
  [text, *_] = sentences_of(results)
  first, second = text.split('; second ')
  assert first.endswith('), undefined in 1 of 4 views, few') and 'all are' not in second
  corrupted = select(results.table, 'error', corruption=...)
  results.table.loc[corrupted.index, 'note'] = 'undefined in a draw'
  [largest] = starting(results, 'Highest top-1 error of 2 corruptions: ')
  assert 'under fog, undefined in a draw;' in largest and 'snow, undefined in a draw.' in largest


def test_differences_that_cannot_be_widened_have_no_sentence_of_their_own():
  results = made_results()
  overall = [select(results.table, 'error', versus) for versus in ('', 'first')]
  results.table = pd.concat(overall, ignore_index=True)
  is_value = results.table.versus == ''
  results.table.loc[is_value, ['low', 'high']] = np.nan
  results.table.loc[~is_value, 'method'] = 'regression'
  assert sentences.findings(results) == []


@pytest.mark.parametrize('versus', ['', 'first'])
def test_values_without_an_interval_are_not_chosen_as_the_extreme(versus):
  results = made_results()
  rows = select(results.table, 'error', versus, corruption=..., severity=...)
  place = rows.value.abs().idxmax()
  results.table.loc[place, ['low', 'high']] = np.nan
  count = len(rows) // (1 if versus else 2)
  start = f'Of {count} pairs' if versus else f'Highest top-1 error of {count} pairs'
  before = rows.loc[place]
  [text] = starting(results, start.replace(str(count), str(count - 1) if versus else str(count)))
  assert f'under {before.corruption} at severity {before.severity}' not in text


def test_the_second_highest_place_is_not_named_if_the_highest_has_no_spread_over_seeds():
  results = made_results()
  rows = select(results.table, 'error', corruption=..., severity=...)
  place = rows.value.idxmax()
  results.table.loc[place, ['low', 'high', 'note']] = np.nan, np.nan, NO_SPREAD
  [text] = starting(results, f'Highest top-1 error of {len(rows) // 2} pairs')
  [label] = {'first', 'second'} - {rows.classifier[place]}
  assert f'pairs of corruptions and severities: {label} ' in text and ';' not in text


@pytest.mark.parametrize('versus', ['', 'first'])
def test_no_value_is_the_highest_of_equal_ones(versus):
  results = made_results()
  rows = select(results.table, 'error', versus, corruption=...)
  results.table.loc[rows[rows.classifier == 'second'].index, ['value', 'low', 'high']] = 0.0
  start = 'Of 2 corruptions' if versus else 'Highest top-1 error of 2 corruptions'
  texts = starting(results, start)
  assert len(texts) == 1 and ('everywhere' in texts[0]) == bool(versus)
  assert ('second' in texts[0]) == bool(versus)


def test_equally_high_places_are_all_named_with_the_widest_interval():
  results = made_results()
  rows = select(results.table, 'error', corruption=..., severity=...)
  indices = rows[rows.classifier == 'second'].index
  results.table.loc[indices, ['value', 'low', 'high']] = 0.1, 0.09, 0.11
  for place, value, width in ((0, 0.3, 0.1), (1, 0.1 + 0.2, 0.2)):
    ends = value, value - width, value + width
    results.table.loc[indices[place], ['value', 'low', 'high']] = ends
  [text] = starting(results, f'Highest top-1 error of {len(indices)} pairs')
  wide = widen_for_family(results.table.loc[indices[1]], len(rows), ERROR)
  places = [
    f'{row.corruption} at severity {row.severity}' for row in rows.loc[indices[:2]].itertuples()
  ]
  clause = text.split('second ')[1]
  assert clause.startswith(f'{Notation(ERROR).full(wide)} under ')
  assert all(place.split()[0] in clause for place in places) and ' and ' in clause.split('. ')[0]


def test_many_names_have_one_sentence_even_where_few_have_an_interval(results):
  [(_, row)] = select(results.table, 'error').iloc[:1].iterrows()
  low = {k: np.nan if k < 4 else row.low for k in range(10)}
  rows = [{**row, 'corruption': f'c{k}', 'value': row.value + k / 1000, 'low': low[k]} for k in low]
  by_corruption = dataclasses.replace(results, table=assemble([pd.DataFrame(rows)]))
  [text] = sentences_of(by_corruption)
  assert text.startswith('Highest top-1 error of 6 corruptions: first')


def test_a_quantity_without_an_overall_value_has_a_sentence_per_name_and_none_per_seed(results):
  table = results.table[results.table.corruption.notna()]
  findings = sentences.findings(Results('made', [], {}, {}, table=table, quantities=(ERROR,)))
  starts = [finding.text.partition(':')[0] for finding in findings[:2]]
  assert starts == ['Top-1 error under fog', 'Top-1 error under snow']
  seeded = with_facet(results.table, 'seed', 3)
  with_seed = assemble([seeded, results.table])
  again = Results('made', results.classifiers, {}, {}, table=with_seed, quantities=(ERROR,))
  assert sentences_of(again) == sentences_of(results)


def test_a_lowest_value_that_equals_the_level_is_not_repeated():
  """pm-k falls with k, and its value over all distances is the one at the largest k."""
  right = np.random.default_rng(0).random((2, 400, 3)) < [0.9, 0.5, 0.1]
  outcomes = Outcomes({'net': right[0], 'other': right[1]}, pd.DataFrame({'k': [0, 1, 2]}))
  by_k = means(ACCURACY, outcomes, ('k',))
  over_all = by_k[by_k.k == 2].assign(k=None)
  labels = [{'label': 'net'}, {'label': 'other'}]
  table = assemble([over_all, by_k])
  texts = sentences_of(Results('made', labels, {}, {}, table=table, quantities=(ACCURACY,)))
  assert texts[0].startswith('Top-1 accuracy: net ')
  assert not any('owest' in text for text in texts)


def test_an_error_and_its_accuracy_have_one_set_of_sentences():
  wrong = np.random.default_rng(0).random((2, 90, 8)) < 0.4
  views = pd.DataFrame({'corruption': [f'c{k}' for k in range(8)]})
  errors = Outcomes({'a': wrong[0], 'b': wrong[1]}, views)
  right = Outcomes({'a': ~wrong[0], 'b': ~wrong[1]}, views)
  parts = [
    means(quantity, outcomes, by, test=True)
    for quantity, outcomes in ((ACCURACY, right), (ERROR, errors))
    for by in ((), ('corruption',))
  ]
  results = Results('made', [], {}, {}, table=assemble(parts), quantities=(ACCURACY, ERROR))
  texts = sentences_of(results)
  assert len(texts) == 3 and not any('error' in text or 'errs' in text for text in texts)


def test_classes_come_after_corruptions_and_few_facets_before_many():
  pairs = [(kind, label) for kind in 'abcdefgh' for label in '01234567']
  views = pd.DataFrame(pairs, columns=['corruption', 'class'])
  wrong = Outcomes({'net': np.random.default_rng(0).random((60, 64)) < 0.4}, views)
  by = (('corruption', 'class'), ('class',), ('corruption',))
  table = assemble([means(ERROR, wrong, facets) for facets in by])
  findings = sentences.findings(Results('made', [], {}, {}, table=table, quantities=(ERROR,)))
  assert [finding.facets for finding in findings] == [
    *(('corruption',), ('class',), ('corruption', 'class'))
  ]


def test_the_highest_of_corruptions_is_stated_beside_the_values_of_few_classes():
  pairs = [(kind, label) for kind in 'abcdefgh' for label in '012']
  views = pd.DataFrame(pairs, columns=['corruption', 'class'])
  wrong = Outcomes({'net': np.random.default_rng(0).random((60, 24)) < 0.4}, views)
  table = assemble([means(ERROR, wrong, facets) for facets in (('class',), ('corruption',))])
  texts = sentences_of(Results('made', [], {}, {}, table=table, quantities=(ERROR,)))
  assert [text.partition(':')[0] for text in texts] == [
    'Top-1 error, net',
    'Highest top-1 error of 8 corruptions',
  ]
