"""What the study `calibration` found, in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from robustness.results import Number, Results
from robustness.wording.phrases import (
  OVER_SEEDS,
  NotReportedError,
  Reader,
  has_interval,
  listed,
  plain,
  points,
  told,
  verdict,
  words,
)

QUANTITIES = {
  'ece': 'expected calibration error',
  'brier': 'Brier score of the predicted class',
  'aurc': 'area under the risk-coverage curve',
}
FIRST_GROUPS = ('clean', 'official', 'shown', 'all views')
"""Groups of views that are told, of those that there are; without any of them the last one is."""


def sentences(results: Results) -> list[str]:
  """Returns the calibration error of each, and whether it is over- or underconfident where that is
  shown, Brier score and AURC, and differences in the first."""
  return told(results, [*map(_of, QUANTITIES), _differences])


def _groups(reader: Reader, quantity: str, label: str) -> list[str]:
  known = list(reader.beginning(f'{quantity}/', label))
  return [group for group in FIRST_GROUPS if group in known] or known[-1:]


def _of(quantity: str) -> Callable[[Reader], str]:
  """Returns a sentence on one quantity."""

  def sentence(reader: Reader) -> str:
    def clause(label: str) -> str:
      numbers = reader.beginning(f'{quantity}/', label)
      said = [
        f'{plain(numbers[group])} {_on(group)}'
        f'{_leaning(reader, label, group) if quantity == "ece" else ""}'
        for group in _groups(reader, quantity, label)
      ]
      return f'{label} {listed(said)}'

    return f'{QUANTITIES[quantity]} (0 is best): {reader.each(clause)}'

  return sentence


def _leaning(reader: Reader, label: str, group: str) -> str:
  """Says by how much confidence lies above accuracy, or below, where its interval shows that."""
  number = reader.results.numbers.get(reader.name(f'overconfidence/{group}', label))
  if not has_interval(number) or number.low <= 0 <= number.high:
    return ''
  if number.value < 0:
    below = dataclasses.replace(number, value=-number.value, low=-number.high, high=-number.low)
    return f' (underconfident by {points(below, False)})'
  return f' (overconfident by {points(number, False)})'


def _differences(reader: Reader) -> str:
  def clause(label: str) -> str:
    numbers = reader.beginning('ece_difference/', label)
    groups = [group for group in FIRST_GROUPS if group in numbers] or list(numbers)[-1:]
    if not groups:
      raise NotReportedError(label)
    said = [f'{points(numbers[group])} {_on(group)}{_verdict(numbers[group])}' for group in groups]
    return f'{label} {listed(said)}'

  return f'expected calibration error minus that of {reader.first}: {reader.others(clause)}'


def _verdict(difference: Number) -> str:
  """Says which is better calibrated; not of a mean over seeds, in each of which the difference has
  what debiasing leaves of chance, so that their spread does not show it."""
  if OVER_SEEDS in difference.interval:
    return ''
  return f', {verdict(difference, "better calibrated", "worse calibrated")}'


def _on(group: str) -> str:
  named = {
    'clean': 'on clean images',
    'official': 'under the 15 official corruptions',
    'shown': 'under all corruptions shown',
    'all views': 'over all views',
  }
  return named.get(group, f'under {words(group)}')
