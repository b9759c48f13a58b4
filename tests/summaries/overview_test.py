"""The overview of a battery: accuracies side by side, and the worst in words from the numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robustness.metrics import clopper_pearson, proportion
from robustness.results import Number, Results
from robustness.summaries import overview
from robustness.summaries.overview import Settings

LABELS = ('plain', 'other')
KIND = 'clopper-pearson 0.95'


def results(study: str, values: dict[str, tuple[float, ...]], labels=LABELS) -> Results:
  prefixes = [''] if len(labels) == 1 else [f'{label}/' for label in labels]
  numbers = {
    f'{prefix}{name}': Number(value[place], value[place] - 0.02, value[place] + 0.02, 50, KIND)
    for name, value in values.items()
    for place, prefix in enumerate(prefixes)
  }
  described = [{'label': label} for label in labels]
  return Results(study, described[0] if len(labels) == 1 else described, {}, {}, numbers)


PARTS = {
  'clean': results('accuracy', {'top1_accuracy': (0.95, 0.9)}),
  'corruptions': results(
    'corruption_error',
    {
      'clean_error': (0.05, 0.1),
      'error/fog': (0.6, 0.3),
      'error/shot_noise': (0.2, 0.5),
      'mean_error/official': (0.4, 0.4),
      'mean_error/fourier_cifar': (0.3, 0.3),
      'error_difference/fog': (0.0, -0.3),
    },
  ),
  'bands': results(
    'band_noise',
    {'clean_error': (0.05, 0.1), 'error/low_pass_3': (0.1, 0.1), 'error/low_pass_9': (0.3, 0.8)},
  ),
  'attack': results(
    'attack_error', {'clean_error': (0.05,), 'attack_error': (0.99,)}, labels=('plain',)
  ),
  'calibration': results('calibration', {'ece/clean': (0.02, 0.03), 'ece/official': (0.1, 0.2)}),
}


def test_the_table_has_accuracies_of_all_and_says_what_was_not_measured() -> None:
  table = overview.summarise(Settings(), PARTS).tables['overview']
  rows = {(row[0], row[1]): row[2:] for row in table.rows}
  assert table.columns == ('part', 'accuracy on', *LABELS)
  assert rows['clean', 'clean images'] == ['0.950 [0.930, 0.970]', '0.900 [0.880, 0.920]']
  assert rows['corruptions', 'the 15 official corruptions'][0] == '0.600 [0.580, 0.620]'
  low, high = clopper_pearson(10, 50, 1 - 0.05 / 2)
  assert rows['bands', 'noise, low pass 9'][1] == f'0.200 [{low:.3f}, {high:.3f}]', 'of two bands'
  assert ('bands', 'noise, low pass 3') not in rows
  assert rows['attack', 'attacked images'] == ['0.010 [-0.010, 0.030]', 'not measured']


def test_the_worst_are_told_in_order_of_what_is_lost_one_of_each_part() -> None:
  told = overview.worst(PARTS, 'plain', 3)
  assert [sentence.partition(':')[0] for sentence in told] == [
    'the worst attack on each image',
    'fog',
    'band noise low pass 9',
  ]
  low, high = clopper_pearson(20, 50, 1 - 0.05 / 5)
  assert told[1] == (
    f'fog: accuracy 0.400 [{low:.3f}, {high:.3f}], 55.0 points below 0.950 without it (n = 50; '
    'interval for all 5 looked through)'
  )
  assert overview.worst(PARTS, 'other', 1)[0].startswith('band noise low pass 9')


def test_a_loss_of_nothing_is_not_told() -> None:
  parts = {'c': results('corruption_error', {'clean_error': (0.5, 0.5), 'error/fog': (0.4, 0.6)})}
  assert overview.worst(parts, 'plain', 3) == []
  assert len(overview.worst(parts, 'other', 3)) == 1


def test_calibration_has_a_table_and_bars_are_drawn_of_the_rest() -> None:
  findings = overview.summarise(Settings(), PARTS)
  assert findings.tables['overview of calibration'].rows[1][:2] == ['calibration', 'ece, official']
  figure, caption = overview.draw(Settings(), PARTS)['overview']
  assert len(figure.axes[0].get_yticks()) == 4 and 'accuracy' in caption.lower()


@pytest.mark.parametrize('count', [-1])
def test_settings_are_checked(count: int) -> None:
  with pytest.raises(ValueError, match=r'overview\.worst is -1'):
    Settings(worst=count)


def test_the_sentence_has_the_worst_of_each_with_intervals() -> None:
  exact = {
    name: dataclasses.replace(part, numbers={k: number_of(n) for k, n in part.numbers.items()})
    for name, part in PARTS.items()
  }
  (sentence,) = overview.sentences(Settings(), exact)
  assert sentence.replace('\N{NO-BREAK SPACE}', ' ').startswith(
    'Of all that was tried, hurt most are plain by the worst attack on each image, with which it '
    'is right on 0 % (0 to 10, for all 5 together), without on 96 % (86 to 100); other by band '
    'noise low pass 9, with which it is right on 20 % ('
  )
  assert ', for all 4 together)' in sentence


def test_an_interval_that_cannot_be_widened_is_left_out() -> None:
  part = PARTS['corruptions']
  odd = {k: dataclasses.replace(n, interval='made 0.95') for k, n in part.numbers.items()}
  parts = {'c': dataclasses.replace(part, numbers=odd)}
  assert overview.worst(parts, 'plain', 1)[0].startswith('fog: accuracy 0.400 without interval')


def test_the_worst_of_many_is_covered_as_often_as_it_says() -> None:
  """Of 15 corruptions with the same error the plain interval of the worst holds too seldom."""
  random, held, plain, runs = np.random.default_rng(0), 0, 0, 300
  for _ in range(runs):
    wrong = random.binomial(200, 0.4, 15)
    numbers = {f'error/{k}': proportion(int(count), 200) for k, count in enumerate(wrong)}
    numbers['clean_error'] = proportion(10, 200)
    part = Results('corruption_error', {'label': 'plain'}, {}, {}, numbers)
    [told] = overview.worst({'c': part}, 'plain', 3)
    low, high = (float(end) for end in told.partition('[')[2].partition(']')[0].split(', '))
    held += low <= 0.6 <= high
    accuracy = overview.losses({'c': part}, 'plain')[0].accuracy
    plain += accuracy.low <= 0.6 <= accuracy.high
  assert plain / runs < 0.85 and held / runs >= 0.95


def number_of(made: Number) -> Number:
  return proportion(round(abs(made.value) * made.n), made.n)
