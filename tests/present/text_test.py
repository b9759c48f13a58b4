"""What the terminal prints."""

import math

from robustness.estimates.quantity import ACCURACY, Quantity
from robustness.present import text
from robustness.present.text import lines, summary
from robustness.results import Results, Table
from tests.present.headlines_test import made


def test_columns_are_even_and_numbers_end_below_each_other() -> None:
  table = Table(
    ('', 'natural', 'published'), [['clean images', 0.5, 0.96259], ['mCE', math.nan, None]]
  )
  assert lines(table) == [
    '              natural  published',
    'clean images   0.5000     0.9626',
    'mCE                 -          -',
  ]


def test_a_summary_has_values_and_differences_with_intervals_and_each_note_once() -> None:
  slope = Quantity('slope', 'slope', kind='amount', headline=True)
  hidden = Quantity('aside', 'aside')
  results = made({ACCURACY: {'a': (0.5,), 'b': (0.7,)}, slope: {'a': (2,)}, hidden: {'a': (1,)}})
  results.table.loc[results.table.classifier == 'a', 'note'] = 'few images'
  head, first, second, slope_line, note = summary(results)
  assert head.split() == ['value', 'minus', 'a']
  assert first.startswith('top-1 accuracy (%)  a') and first.endswith('50 (36 to 64) [1]')
  assert second.split('  ')[-2:] == ['70 (55 to 82)', '+20 (+7 to +31)']
  assert slope_line.startswith('slope               a') and 'aside' not in slope_line
  assert note == '[1] few images' and len({line.rindex('(') for line in (first, second)}) == 2


def test_a_summary_of_nothing_is_empty() -> None:
  assert summary(Results('fourier_preview', {}, {}, {})) == []


def test_the_first_sentences_are_told_in_lines_of_a_terminal() -> None:
  clauses = 'On clean images,\nfirst errs on 4 % (3 to 5);\nsecond errs on 5 % (4 to 6).'
  long = f'{30 * "word "}end.'
  told = text.findings([clauses, long, 'Three.', 'Four.', 'Five.', 'Six.'])
  assert told[:3] == [
    '* On clean images,',
    '    first errs on 4 % (3 to 5);',
    '    ' + clauses.split('\n')[2],
  ]
  assert told[3].startswith('* word') and told[4].startswith('    word')
  assert max(map(len, told)) <= text.WIDTH
  assert told[-3:] == ['* Three.', '* Four.', '... and 2 more in the report']
  assert text.findings([]) == []
