"""Numbers in words: digits that the interval leaves meaning to, signs, verdicts."""

from __future__ import annotations

import pytest

from robustness.results import Number, Results
from robustness.wording.number_labels import has_label, label_of
from robustness.wording.phrases import (
  NotReportedError,
  complement,
  for_all,
  largest,
  listed,
  percent,
  plain,
  points,
  verdict,
)


def number(value: float, low: float, high: float, interval: str = 'clopper-pearson 0.95') -> Number:
  return Number(value, low, high, 200, interval)


@pytest.mark.parametrize(
  ('ends', 'text'),
  [
    ((0.83, 0.80, 0.86), '83 % (80 to 86)'),
    ((0.041, 0.0296, 0.0552), '4.1 % (3.0 to 5.5)'),
    ((0.0131, 0.0129, 0.0134), '1.31 % (1.29 to 1.34)'),
    ((0.0, 0.0, 0.018), '0.0 % (0.0 to 1.8)'),
  ],
)
def test_percent(ends: tuple[float, float, float], text: str) -> None:
  assert percent(number(*ends)) == text.replace(' %', '\N{NO-BREAK SPACE}%')


def test_points_have_signs_and_a_rounded_zero_has_none() -> None:
  assert points(number(-0.21, -0.24, -0.18)) == '−21 points (−24 to −18)'
  assert points(number(0.001, -0.04, 0.042)) == '0 points (−4 to +4)'
  assert points(number(0.2, 0.17, 0.23), signs=False) == '20 points (17 to 23)'


@pytest.mark.parametrize(
  ('ends', 'text'),
  [
    ((0.81, 0.79, 0.841), '0.81 (0.79 to 0.84)'),
    ((-0.0151, -0.0152, -0.015), '−0.01510 (−0.01520 to −0.01500)'),
    ((3.5, 2.5, 4.5), '3.5 (2.5 to 4.5)'),
    ((120, 90, 150), '120 (90 to 150)'),
    ((1.0, 1.0, 1.0), '1.00 (1.00 to 1.00)'),
  ],
)
def test_plain(ends: tuple[float, float, float], text: str) -> None:
  assert plain(number(*ends)) == text


def test_what_an_interval_shows() -> None:
  assert verdict(number(-0.2, -0.3, -0.1), 'less', 'more') == 'less'
  assert verdict(number(0.2, 0.1, 0.3), 'less', 'more') == 'more'
  assert verdict(number(0.2, -0.1, 0.3), 'less', 'more') == 'no difference shown'


def test_what_is_widened_stays_what_it_can_be() -> None:
  over_seeds = {
    name: Number(value, 0.2, 0.5, 2, 'student over seeds 0.95')
    for name, value in (('fog', 0.35), *((f'snow {k}', 0.3) for k in range(14)))
  }
  name, chosen = largest(over_seeds)
  assert (name, chosen.low, chosen.high) == ('fog', 0, 1)
  difference = for_all(over_seeds['fog'], 15)
  assert (difference.low, difference.high) == (-1, 1)


def test_the_largest_has_an_interval_that_holds_for_all() -> None:
  name, chosen = largest({'a': number(0.5, 0.43, 0.57), 'b': number(0.2, 0.15, 0.26)})
  assert name == 'a' and chosen.low < 0.43 and chosen.high > 0.57
  assert percent(chosen).endswith(', for all 2 together)')
  assert largest({'a': number(0.5, 0.4, 0.6), 'b': number(0.2, 0.1, 0.3)}, -1)[0] == 'b'


def test_an_interval_that_cannot_be_widened_leaves_the_sentence_out() -> None:
  with pytest.raises(NotReportedError):
    largest({'a': number(1, 1, 1, 'exact'), 'b': number(0.5, 0.4, 0.6, 'exact')})


def test_lists_and_complements() -> None:
  assert [listed(list(words)) for words in ('', 'a', 'ab', 'abc')] == [
    '',
    'a',
    'a and b',
    'a, b and c',
  ]
  right = complement(number(0.1, 0.05, 0.2))
  assert (right.value, right.low, right.high) == pytest.approx((0.9, 0.8, 0.95))


@pytest.mark.parametrize(
  ('name', 'text'),
  [
    ('natural/error/gaussian_noise', 'natural: error under gaussian noise, mean over severities'),
    ('seed0/natural/mCE/official', 'seed 0, natural: mCE: mean error relative to the baseline'),
    ('errors/natural/clean_error', 'errors, natural: error on clean images'),
    ('rho_fog', 'ρ in fog'),
    ('accuracy_pm_10', 'accuracy on the worst frame up to 10 frames away (pm-k)'),
    ('own_number', 'own number'),
  ],
)
def test_labels(name: str, text: str) -> None:
  assert label_of(Results('any', [{'label': 'natural'}, {'label': 'b'}], {}, {}), name).startswith(
    text
  )
  assert has_label(name) == (name != 'own_number')


def test_the_only_classifier_is_not_named() -> None:
  assert label_of(Results('any', {'label': 'net'}, {}, {}), 'top1_accuracy') == 'top-1 accuracy'
