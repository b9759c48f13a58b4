"""What studies of corruptions found, in words: errors, flips, spectra and the trade-off."""

from __future__ import annotations

from robustness.results import Number, Results
from robustness.wording.phrases import (
  PERCENT,
  NotReportedError,
  Reader,
  largest,
  number_of,
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
