"""Values, intervals and facets are printed with the right digits, units and words."""

import dataclasses

import numpy as np
import pandas as pd

from robustness.estimates.facets import Facet
from robustness.estimates.jackknife import too_few
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import ERROR, Quantity
from robustness.present.notation import (
  MINUS,
  Notation,
  condition_words,
  conditions_of,
  number,
  plural,
  value_words,
)
from robustness.studies.fourier_attack import QUERIES
from tests.cases import cases
from tests.estimates.means_test import CHANGE

SPACE = '\N{NO-BREAK SPACE}'
MCE = Quantity('mCE', 'mCE', 'ratio', unit='%')


@cases(
  'quantity, difference, ends, text',
  (ERROR, False, (0.312, 0.301, 0.324), f'31.2{SPACE}% (30.1 to 32.4)'),
  (ERROR, False, (0.075, 0.016, 0.204), f'8{SPACE}% (2 to 20)'),
  (ERROR, False, (1 - 0.925, 0.016, 0.204), f'8{SPACE}% (2 to 20)'),
  (ERROR, True, (-0.21, -0.24, 0.001), f'{MINUS}21{SPACE}points ({MINUS}24 to 0)'),
  (Quantity('gain', 'gain', low=-1), False, (0.2, 0.1, 0.3), f'+20{SPACE}points (+10 to +30)'),
  (CHANGE, False, (1.5, 1.25, 1.75), '1.5 (1.2 to 1.8)'),
  (MCE, True, (0.0512, 0.049, 0.0534), f'+5.12{SPACE}points (+4.90 to +5.34)'),
  (CHANGE, False, (1.5e-7, 1e-7, 2e-7), '0.00000015 (0.00000010 to 0.00000020)'),
  (ERROR, False, (0.5, np.nan, np.nan), f'50.0{SPACE}%'),
  (ERROR, False, (0.0004, np.nan, np.nan), f'0.040{SPACE}%'),
  (ERROR, True, (-0.000029, np.nan, np.nan), f'0.0{SPACE}points'),
  (ERROR, True, (0.176, np.nan, np.nan), f'+17.6{SPACE}points'),
  (MCE, False, (0.6834, np.nan, np.nan), f'68.3{SPACE}%'),
  (MCE, False, (1.0, np.nan, np.nan), f'100.0{SPACE}%'),
  (CHANGE, False, (0.00312, np.nan, np.nan), '0.00312'),
  (CHANGE, False, (12.345, np.nan, np.nan), '12.3'),
  (CHANGE, False, (0.00312, 0.00312, 0.00312), '0.00312 (0.00312 to 0.00312)'),
  (CHANGE, False, (0.0, np.nan, np.nan), '0.00'),
  (ERROR, False, (2e-17, 0.0, 3e-16), f'0.0{SPACE}% (0.0 to 0.0)'),
  (ERROR, False, (1.0, 1 - 2e-16, 1.0), f'100.0{SPACE}% (100.0 to 100.0)'),
  (*(CHANGE, True, (-0.03, -0.07, -0.0004)), f'{MINUS}0.0300 ({MINUS}0.0700 to {MINUS}0.0004)'),
)
def test_numbers_have_one_notation(quantity, difference, ends, text):
  row = dataclasses.make_dataclass('Row', ['value', 'low', 'high', 'family', 'note'])(*ends, 1, '')
  assert Notation(quantity, difference).full(row) == text


def test_an_estimate_of_too_few_clusters_says_why_it_has_no_interval():
  fields = ['value', 'low', 'high', 'family', 'note']
  note = f'undefined in 1 view: all alike; {too_few(2.04)}'
  row = dataclasses.make_dataclass('Row', fields)(0.5, np.nan, np.nan, 1, note)
  text = Notation(Quantity('ratio', 'ratio', kind='ratio')).full(row)
  assert text == '0.500 (no interval: too few clusters, effectively 2.0)'


def test_the_ratio_of_a_classifier_to_itself_is_100_percent_without_an_interval():
  row = pd.Series({'value': 1.0, 'low': 1.0, 'high': 1.0, 'note': f'{ITSELF}; for mCE give two'})
  assert Notation(MCE).full(row) == f'100{SPACE}%'


def test_places_are_in_words():
  facets = [
    ('corruption', 'motion_blur'),
    ('severity', 3),
    ('class', '7'),
    ('shift', -2),
    ('k', 10),
  ]
  words = ['under motion blur', 'at severity 3', 'in class 7', f'at shift {MINUS}2', 'at k = 10']
  assert [value_words(ERROR.facet(name), value) for name, value in facets] == words
  assert condition_words(ERROR, ['corruption', 'severity'], ['fog', 3]) == 'under fog at severity 3'
  assert condition_words(ERROR, ['severity', 'k'], [3, 10]) == 'at severity 3 and k = 10'
  sets = ('official', 'extra', 'c_bar_cifar', 'fourier_cifar')
  assert [value_words(ERROR.facet('corruption_set'), name) for name in sets] == [
    *('over the official corruptions', 'over the four extra corruptions'),
    'over the CIFAR-10-C-bar corruptions',
    'over the Yin et al. (2019) CIFAR-10-C corruptions',
  ]


@cases(
  'name, value, text',
  ('severity', 0.0555556, 'at severity 0.056'),
  ('severity', 1.25, 'at severity 1.25'),
  ('severity', 2.995, 'at severity 2.995'),
  ('area', 123.4, 'over 123 of the image'),
  ('year', 2023.0, 'at year 2023'),
  ('area', 1e-7, 'over 1e−07 of the image'),
  ('epsilon', 8 / 255, 'at ε = 8/255'),
  ('epsilon', 0.1, 'at ε = 0.1'),
  ('epsilon', 0.2, 'at ε = 0.2'),
  ('view', 'corrupted', 'on corrupted images'),
  ('scaling', 'none', 'without scaling'),
  ('scaling', 'vector', 'with vector scaling'),
)
def test_a_value_of_a_facet_is_printed_without_needless_digits(name, value, text):
  area = Facet('area', 'area', place='over {} of the image')
  scaling = Facet('scaling', 's', place='with {} scaling', places={'none': 'without scaling'})
  quantity = dataclasses.replace(ERROR, facets=(area, scaling))
  assert value_words(quantity.facet(name), value) == text


def test_a_frequency_is_one_place_with_its_mirror():
  facets = ['frequency_y', 'frequency_x']
  places = [condition_words(ERROR, facets, pair) for pair in ((-3, 1), (0, -2), (0, 0), (4, -4))]
  expected = ['±(3, −1)', '±(0, 2)', '(0, 0)', '±(4, −4)']
  assert places == [f'at frequency {pair}' for pair in expected]
  assert (
    condition_words(ERROR, ['layer', *facets], ['stem', 1, 2])
    == 'in layer stem at frequency ±(1, 2)'
  )


def test_up_to_four_places_are_named_and_the_others_are_counted():
  def places(*names: object, by: str = 'corruption') -> str:
    return conditions_of(ERROR, pd.DataFrame({by: names, 'severity': 3}), (by, 'severity'))

  assert places('fog') == 'under fog at severity 3'
  assert places('fog', 'snow') == 'under fog and snow at severity 3'
  assert places(*'abcd') == 'under a, b, c and d at severity 3'
  assert places(*'abcde') == 'under a, b, c and 2 others at severity 3'
  queries = pd.DataFrame({'queries': range(1, 10)})
  quantity = dataclasses.replace(ERROR, facets=(QUERIES,))
  assert conditions_of(quantity, queries, ('queries',)) == 'after 1, 2, 3 and 6 other queries'
  assert places('1', '2', by='class') == 'in classes 1 and 2 at severity 3'
  pairs = pd.DataFrame({'frequency_y': [3, 4], 'frequency_x': [1, 0]})
  assert conditions_of(ERROR, pairs, tuple(pairs)) == 'at frequency ±(3, 1) and ±(4, 0)'


def test_the_plural_of_facets():
  assert [plural(ERROR, [name]) for name in ('corruption', 'severity', 'class', 'epsilon')] == [
    *('corruptions', 'severities', 'classes', 'radii')
  ]
  assert plural(ERROR, ['pixels']) == 'pixels'
  assert plural(ERROR, ['attack', 'epsilon']) == 'pairs of attacks and radii'
  assert plural(ERROR, ['frequency_y', 'frequency_x']) == 'frequencies'


def test_whole_numbers_have_all_their_digits():
  assert [number(x) for x in (20230101, 2023.0, -3, 0.25, 1e-7, float('nan'))] == [
    '20230101',
    '2023',
    '−3',
    '0.25',
    '1e−07',
    'nan',
  ]
