"""What studies of corruptions found, in words: errors, flips, spectra and the trade-off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robustness.results import Number, Results
from robustness.wording.phrases import (
  PERCENT,
  NotReportedError,
  Reader,
  counted,
  for_all,
  has_interval,
  largest,
  noted,
  number_of,
  percent,
  plain,
  points,
  told,
  verdict,
  words,
)

SETS = {
  'official': 'the 15 official corruptions',
  'c_bar_imagenet': 'the ten of ImageNet-C-bar',
  'c_bar_cifar': 'the ten of CIFAR-10-C-bar',
  'all': 'the 19 common corruptions',
  'extra': 'the four extra corruptions',
  'fourier_cifar': 'the 15 of Yin et al. on CIFAR-10',
  'fourier_imagenet': 'the 12 of Yin et al. on ImageNet',
  'shown': 'all corruptions shown',
}
"""Sets that a mean is taken over, the first one that there is being told."""


def error_sentences(results: Results) -> list[str]:
  """Returns mean errors, the worst corruption, mCE, and differences from the first classifier."""
  return told(
    results, [_errors, _worst, _differences, _most_different, _mce, _relative_mce, _failures]
  )


def _set(reader: Reader, quantity: str, label: str) -> str:
  known = reader.beginning(f'{quantity}/', label)
  return next((name for name in SETS if name in known), next(iter(known)))


def _under(name: str) -> str:
  return f'under {SETS.get(name, words(name))}'


def _errors(reader: Reader) -> str:
  name = _set(reader, 'mean_error', reader.first)

  def clause(label: str) -> str:
    error = reader.number(f'mean_error/{name}', label)
    said = f'{label} errs on {percent(error)}'
    clean = reader.results.numbers.get(reader.name('clean_error', label))
    return f'{said}, on clean images on {percent(clean)}' if has_interval(clean) else said

  number = reader.number(f'mean_error/{name}', reader.first)
  averaged = f'averaged over severities and {counted(number, "images")}'
  return f'{_under(name)}, {averaged}, {reader.each(clause)}'


def _largest(reader: Reader, quantity: str, label: str) -> tuple[str, Number]:
  """Returns the corruption of the largest number, and this; see `largest`. There are several."""
  numbers = reader.beginning(f'{quantity}/', label)
  if len(numbers) < 2:
    raise NotReportedError(label)
  return largest(numbers)


def _worst(reader: Reader) -> str:
  def clause(label: str) -> str:
    name, error = _largest(reader, 'error', label)
    return f'{label} errs most under {words(name)}: {percent(error)}'

  return f'of the corruptions, {reader.each(clause)}'


def _differences(reader: Reader) -> str:
  def clause(label: str) -> str:
    name = _set(reader, 'mean_error_difference', label)
    difference = reader.number(f'mean_error_difference/{name}', label)
    found = verdict(difference, 'lower error', 'higher error')
    return f'{label} {points(difference)} {_under(name)}, {found}'

  return f'mean error minus that of {reader.first}, on the same images: {reader.others(clause)}'


def _most_different(reader: Reader) -> str:
  def clause(label: str) -> str:
    numbers = reader.beginning('error_difference/', label)
    name = max(numbers, key=lambda key: abs(numbers[key].value))
    difference = for_all(numbers[name], len(numbers))
    return f'{label} under {words(name)}, by {points(difference)}'

  return f'the error differs most from that of {reader.first} for {reader.others(clause)}'


def _mce(reader: Reader) -> str:
  return f'by mCE (1 is the baseline): {reader.each(_ratio(reader, "mCE"))}'


def _relative_mce(reader: Reader) -> str:
  return (
    'by relative mCE, of what corruptions add to the clean error: '
    f'{reader.each(_ratio(reader, "relative_mCE"))}'
  )


def _ratio(reader: Reader, quantity: str) -> Callable[[str], str]:
  def clause(label: str) -> str:
    name = _set(reader, quantity, label)
    ratio = reader.number(f'{quantity}/{name}', label)
    if ratio.interval == 'exact':
      raise NotReportedError(label)  # the baseline itself
    return noted(f'{label} {plain(ratio)} {_under(name)}', ratio)

  return clause


def _failures(reader: Reader) -> str:
  share = float(reader.setting('failure_share'))

  def clause(label: str) -> str:
    severities = reader.beginning('failure_severity/', label)
    name = min(severities, key=lambda key: severities[key].value)
    start = reader.name('failure_severity/', label)
    count = sum(key.startswith(start) for key in reader.results.numbers)  # also what never fails
    levels = reader.results.arrays.get('severity', np.array([-np.inf, np.inf]))  # else over seeds
    severity = for_all(severities[name], count, levels.min(), levels.max())
    return f'{label} first under {words(name)}, at severity {plain(severity)}'

  return f'accuracy falls below {100 * share:g}{PERCENT} of the clean one: {reader.each(clause)}'


def flip_sentences(results: Results) -> list[str]:
  """Returns flip rates, the corruption with most flips, and differences from the first."""
  return told(results, [_flips, _flip_difference, _most_flips, _flip_ratio])


def _flips(reader: Reader) -> str:
  return (
    'from one frame of a sequence to the next, the prediction changes this often, for '
    f'{reader.shares("flip_rate", "in")}'
  )


def _most_flips(reader: Reader) -> str:
  def clause(label: str) -> str:
    name, rate = _largest(reader, 'flip_rate', label)
    return f'{label} under {words(name)}, {percent(rate)}'

  return f'predictions flip most often for {reader.each(clause)}'


def _flip_difference(reader: Reader) -> str:
  def clause(label: str) -> str:
    difference = reader.number('flip_rate_difference', label)
    return f'{label} {points(difference)}, {verdict(difference, "fewer flips", "more flips")}'

  return f'flip rate minus that of {reader.first}, on the same sequences: {reader.others(clause)}'


def _flip_ratio(reader: Reader) -> str:
  def clause(label: str) -> str:
    return f'{label} {plain(reader.number("flip_ratio", label))}'

  return f'flip rate relative to {reader.first}, mean over corruptions: {reader.others(clause)}'


def spectrum_sentences(results: Results) -> list[str]:
  """Returns which corruptions change high frequencies, and which images change most."""
  return told(results, [_highest_and_lowest, _of_the_images, _largest_change])


def _fractions(reader: Reader, quantity: str) -> dict[str, Number]:
  numbers = reader.beginning(f'{quantity}/')
  return {name: number for name, number in numbers.items() if name != 'clean'}


def _highest_and_lowest(reader: Reader) -> str:
  shares = _fractions(reader, 'high_frequency_fraction')
  name, share = largest(shares)
  said = f'of the energy that {words(name)} adds, {percent(share)} is of high frequency' + (
    ', more than of any other corruption' if len(shares) > 1 else ''
  )
  if len(shares) < 2:
    return said
  name, share = largest(shares, -1)
  return f'{said}; of that of {words(name)}, the least, {percent(share)}'


def _of_the_images(reader: Reader) -> str:
  share = reader.number('high_frequency_fraction/clean')
  return f'of the energy of the images themselves, {percent(share)} is of high frequency'


def _largest_change(reader: Reader) -> str:
  changes = _fractions(reader, 'rms')
  name, change = largest(changes)
  most = 'most, by' if len(changes) > 1 else 'by'
  return (
    f'{words(name)} changes pixels {most} {plain(change)} root mean square, where 1 is from '
    'black to white'
  )


def tradeoff_sentences(results: Results) -> list[str]:
  """Returns each classifier's line between the shares measured, how far corruptions lie off it, and
  the largest gain and loss."""
  return told(results, [_slopes, _misfit, _slopes_over_corruptions, _gains, _clean_changes])


def _slopes(reader: Reader) -> str:
  def clause(label: str) -> str:
    found = verdict(
      reader.number('slope', label),
      'it fares better at low frequency than at high',
      'it fares better at high frequency than at low',
    )
    least, most = (points(_on_the_line(reader, label, end)) for end in (0, -1))
    return (
      f'{label} {least} where {share[0]:.0f}{PERCENT} of what a corruption adds is of high '
      f'frequency, the least of those shown, and {most} where {share[-1]:.0f}{PERCENT} is, the '
      f'most: {found}'
    )

  share = 100 * reader.array('share')
  return (
    f'accuracy minus that of {reader.first}, on the line through the corruptions: '
    f'{reader.others(clause)}'
  )


def _on_the_line(reader: Reader, label: str, end: int) -> Number:
  """Returns the line's value at the first (0) or last (-1) share that was measured."""
  cells = [reader.array(f'line{of}', label)[end] for of in ('', '_low', '_high')]
  return number_of(cells, reader.number('slope', label).n, f'bootstrap {reader.confidence:g}')


def _misfit(reader: Reader) -> str:
  """Tells how far corruptions lie off the line. Where other images could explain it, the interval
  reaches 0."""

  def clause(label: str) -> str:
    residual = reader.number('residual', label)
    found = 'a straight line does not fit' if residual.low > 0 else 'no lack of fit shown'
    return f'{label} {points(residual, False)}, {found}'

  return f'how far the corruptions lie off that line, root mean square: {reader.others(clause)}'


def _slopes_over_corruptions(reader: Reader) -> str:
  def clause(label: str) -> str:
    slope = reader.number('slope_over_corruptions', label)
    return f'{label} {points(slope)}, {verdict(slope, "falling", "rising")}'

  count = reader.number('slope_over_corruptions', reader.labels[-1]).n
  return (
    f'taken as drawn from all corruptions, the {count} shown leave the slope less certain: '
    f'{reader.others(clause)}'
  )


def _gains(reader: Reader) -> str:
  def clause(label: str) -> str:
    changes = reader.beginning('accuracy_change/', label)
    changes = {name: number for name, number in changes.items() if name != 'clean'}
    said = []
    for sign, way in ((1, 'gains most'), (-1, 'loses most')):
      name, change = largest(changes, sign, -1.0)
      if (change.low > 0, change.high < 0)[sign < 0]:
        said.append(f'{way} under {words(name)}, {points(change)}')
    if not said:
      raise NotReportedError(label)
    return f'{label} {" and ".join(said)}'

  return f'compared with {reader.first}, {reader.others(clause)}'


def _clean_changes(reader: Reader) -> str:
  return f'on clean images, accuracy minus that of {reader.first}: ' + reader.others(
    lambda label: f'{label} {points(reader.number("accuracy_change/clean", label))}'
  )
