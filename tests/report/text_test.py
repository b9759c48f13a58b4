"""Tables as text."""

import math

from robustness.report import text
from robustness.report.text import SHOWN, lines, summary
from robustness.results import Number, Results, Table


def test_columns_are_even_and_numbers_end_below_each_other() -> None:
  table = Table(
    ('', 'natural', 'published'), [['clean images', 0.5, 0.96259], ['mCE', math.nan, None]]
  )
  assert lines(table) == [
    '              natural  published',
    'clean images   0.5000     0.9626',
    'mCE                 -          -',
  ]


def test_a_summary_has_intervals_and_each_note_once() -> None:
  note = 'no cell is left'
  numbers = {
    'clean_error': Number(0.022, 0.0138, 0.0331, 1000, 'clopper-pearson 0.95'),
    'slope': Number(math.nan, math.nan, math.nan, 0, '', note),
    'residual': Number(math.nan, math.nan, math.nan, 0, '', note),
  }
  assert summary(Results('tradeoff', {}, {}, {}, numbers)) == [
    'tradeoff       value          interval     n',
    'clean_error   0.0220  [0.0138, 0.0331]  1000',
    'slope [1]          -              none     0',
    'residual [1]       -              none     0',
    '[1] no cell is left',
  ]


def test_a_summary_is_short_and_of_no_numbers_empty() -> None:
  number = Number(0.5, 0.4, 0.6, 10, '')
  many = {f'n{index}': number for index in range(SHOWN + 7)}
  told = summary(Results('accuracy', {}, {}, {}, many))
  assert len(told) == 1 + SHOWN + 1 and told[-1] == '... and 7 more in results.json'
  assert summary(Results('fourier_preview', {}, {}, {}, {})) == []


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
