"""Classifiers × tests: every part's headline numbers side by side, and each classifier's worst.

A headline of a part is a share of right predictions, whatever the study calls it, so that one axis
serves all; calibration has a table of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from robustness.core.settings import require
from robustness.evaluation.study import Findings, Study
from robustness.figures import style
from robustness.figures.accuracy_bars import accuracy_bars
from robustness.results import Number, Results, Table
from robustness.wording.corruptions import SETS
from robustness.wording.phrases import (
  NotReportedError,
  for_all,
  has_interval,
  joined,
  percent,
  told,
)


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.battery.summary.overview`.

  Attributes:
    worst: how many of the worst things of each classifier are told.
  """

  worst: int = 3

  def __post_init__(self) -> None:
    require(self.worst >= 0, 'config.battery.summary.overview.worst', self.worst, 'at least 0')


class Headline(NamedTuple):
  """A number of a study that the overview shows.

  Attributes:
    name: of the number, or what it begins with where `each`.
    words: what it is.
    is_error: whether it is a share of wrong predictions.
    each: whether all numbers that begin so are meant, the rest of their names in the words.
  """

  name: str
  words: str
  is_error: bool = False
  each: bool = False


HEADLINES: dict[str, tuple[Headline, ...]] = {
  'accuracy': (Headline('top1_accuracy', 'clean images'),),
  'corruption_error': (Headline('mean_error/', '', True, each=True),),
  'fourier_heatmap': (Headline('error_all_frequencies', 'Fourier basis noise', True),),
  'band_noise': (Headline('error/', 'noise,', True, each=True),),
  'attack_error': (Headline('attack_error', 'attacked images', True),),
  'si_score': (Headline('accuracy', 'composed scenes'),),
  'video_pm_k': (
    Headline('accuracy_anchor', 'video frames'),
    Headline('accuracy_pm_', 'video frames, worst neighbor, k =', each=True),
  ),
}
"""By study, what the table and the bars show; band noise only at its worst bandwidth."""

DETAILS: dict[str, tuple[Headline, ...]] = {
  'corruption_error': (Headline('error/', '', True, each=True),),
  'fourier_heatmap': (
    Headline('error_low_frequencies', 'Fourier basis noise of low frequency', True),
    Headline('error_mid_frequencies', 'Fourier basis noise of middle frequency', True),
    Headline('error_high_frequencies', 'Fourier basis noise of high frequency', True),
  ),
  'band_noise': (Headline('error/', 'band noise', True, each=True),),
  'attack_error': (Headline('attack_error', 'the worst attack on each image', True),),
  'video_pm_k': (Headline('accuracy_pm_', 'the worst neighboring frame, k =', each=True),),
}
"""By study, what is looked through for the worst: each with the clean accuracy on the same rows."""

CLEAN = {'accuracy': 'top1_accuracy', 'video_pm_k': 'accuracy_anchor'}
CALIBRATION = ('ece', 'brier', 'aurc')


def check(settings: Settings, labels: Sequence[str], studies: Mapping[str, Study]) -> None:
  """Nothing is refused: a study without headlines is in its own part of the report."""
  del settings, labels, studies


def summarise(settings: Settings, parts: Mapping[str, Results]) -> Findings:
  """Returns the tables `overview`, `worst` and, where it was measured,
  `overview of calibration`."""
  findings = Findings()
  shown = headlines(parts)
  labels = _labels(parts)
  rows = [
    [part, words, *(_text(numbers.get(label)) for label in labels)]
    for (part, words), numbers in shown.items()
  ]
  findings.tables['overview'] = Table(('part', 'accuracy on', *labels), rows)
  if settings.worst:
    findings.tables['worst'] = Table(
      ('classifier', 'rank', 'what hurts most'),
      [
        [label, rank + 1, sentence]
        for label in labels
        for rank, sentence in enumerate(worst(parts, label, settings.worst))
      ],
    )
  calibration = list(_calibration(parts))
  if calibration:
    findings.tables['overview of calibration'] = Table(('part', 'quantity', *labels), calibration)
  return findings


def sentences(settings: Settings, parts: Mapping[str, Results]) -> list[str]:
  """Returns what hurts each classifier most, of all parts."""
  del settings
  first = {label: losses(parts, label)[:1] for label in _labels(parts)}

  def clause(label: str) -> str:
    for words, number, clean, choices in first[label]:
      if has_interval(number) and has_interval(clean):
        return (
          f'{label} by {words}, with which it is right on '
          f'{percent(for_all(number, choices, 0, 1))}, without on {percent(clean)}'
        )
    raise NotReportedError(label)

  some = next(iter(parts.values()))
  return told(some, [lambda _: f'of all that was tried, hurt most are {joined(first, clause)}'])


def draw(settings: Settings, parts: Mapping[str, Results]) -> dict[str, tuple[Any, str]]:
  """Returns {'overview': (figure, caption)}: the table's accuracies as bars."""
  del settings
  shown = headlines(parts)
  labels = [label for label in _labels(parts) if any(label in n for n in shown.values())]
  bars = {
    words: {label: numbers[label] for label in labels if label in numbers}
    for (_, words), numbers in shown.items()
  }
  if not bars:
    return {}
  caption = (
    'Accuracy of each classifier in each test, with the interval that the part states; of several '
    'views the mean, of attacks and neighboring frames the worst, of band noise the worst band, '
    'with the interval that holds for all bands.'
  )
  return {'overview': (accuracy_bars(bars, width=style.PAGE_WIDTH), caption)}


def _labels(parts: Mapping[str, Results]) -> list[str]:
  """Returns the classifiers in order; a part may lack those that it cannot measure."""
  return list(max(parts.values(), key=lambda results: len(results.prefixes)).prefixes)


def headlines(parts: Mapping[str, Results]) -> dict[tuple[str, str], dict[str, Number]]:
  """Returns accuracies by (part, words), by classifier."""
  table: dict[tuple[str, str], dict[str, Number]] = {}
  for part, results in parts.items():
    for label, prefix in results.prefixes.items():
      for words, number in _found(results, prefix, HEADLINES.get(results.study, ())):
        table.setdefault((part, words), {})[label] = number
    if results.study == 'band_noise':
      _keep_worst(table, part)
  return table


def _keep_worst(table: dict[tuple[str, str], dict[str, Number]], part: str) -> None:
  """Leaves of a part's rows the one in which some classifier is least accurate, with intervals that
  hold for all of them."""
  own = [key for key in table if key[0] == part]
  worst_key = min(own, key=lambda key: min(number.value for number in table[key].values()))
  chosen = {label: _for_all(number, len(own)) for label, number in table[worst_key].items()}
  for key in own:
    if key != worst_key:
      del table[key]
  table[worst_key] = chosen


def _for_all(number: Number, count: int) -> Number:
  """Returns one of `count` accuracies with the interval for all, or without if there is none."""
  try:
    return for_all(number, count, 0, 1)
  except NotReportedError:
    return dataclasses.replace(number, low=math.nan, high=math.nan)


def _found(
  results: Results, prefix: str, chosen: Sequence[Headline]
) -> Iterator[tuple[str, Number]]:
  """Yields words and accuracy of every number that the headlines choose."""
  for headline in chosen:
    start = f'{prefix}{headline.name}'
    for name, number in results.numbers.items():
      rest = name.removeprefix(start)
      if name == start or (headline.each and name.startswith(start) and not _is_aside(rest)):
        words = f'{headline.words} {SETS.get(rest, rest.replace("_", " "))}'.strip()
        yield words, accuracy(number) if headline.is_error else number


def _is_aside(name: str) -> bool:
  """Whether a number says nearly what another does: papers' own sets, pm-k without the anchor."""
  return name.startswith('fourier_') or name.endswith('_neighbors_only')


def accuracy(error: Number) -> Number:
  """Returns 1 - error with its interval."""
  return dataclasses.replace(error, value=1 - error.value, low=1 - error.high, high=1 - error.low)


class Loss(NamedTuple):
  """What a classifier loses by one view, or group of views.

  Attributes:
    words: what it is shown.
    accuracy: on that; it was chosen among `choices`.
    clean: accuracy without it, on the same rows.
    choices: how many were looked through, in all parts.
  """

  words: str
  accuracy: Number
  clean: Number
  choices: int

  @property
  def size(self) -> float:
    """The accuracy lost, a fraction."""
    return self.clean.value - self.accuracy.value


def losses(parts: Mapping[str, Results], label: str) -> list[Loss]:
  """Returns of each part what a classifier loses most by, if it loses, the worst first.

  Of each part the one view, or group of views, in which it loses most against the clean images of
  that part is taken; the parts are ordered by that loss.
  """
  found, choices = [], 0
  for results in parts.values():
    if label not in results.prefixes:
      continue
    prefix = results.prefixes[label]
    clean = _clean(results, prefix)
    details = list(_found(results, prefix, DETAILS.get(results.study, ())))
    if clean is not None and details:
      words, number = min(details, key=lambda pair: pair[1].value)
      found.append(Loss(words, number, clean, 0))
      choices += len(details)
  lost = [loss._replace(choices=choices) for loss in found if loss.size > 0]
  return sorted(lost, key=lambda loss: -loss.size)


def worst(parts: Mapping[str, Results], label: str, count: int) -> list[str]:
  """Returns phrases on what a classifier loses most by, the worst first; see `losses`.

  Intervals hold for all that was looked through.
  """
  return [
    f'{loss.words}: accuracy {_text(_for_all(loss.accuracy, loss.choices))}, '
    f'{100 * loss.size:.1f} points below {loss.clean.value:.3f} without it '
    f'(n = {loss.accuracy.n}; interval for all {loss.choices} looked through)'
    for loss in losses(parts, label)[:count]
  ]


def _clean(results: Results, prefix: str) -> Number | None:
  name = CLEAN.get(results.study)
  if name:
    return results.numbers.get(f'{prefix}{name}')
  error = results.numbers.get(f'{prefix}clean_error')
  return accuracy(error) if error else None


def _text(number: Number | None) -> str:
  """A fraction with its interval, if it has one: '0.412 [0.380, 0.445]'."""
  if number is None:
    return 'not measured'
  if math.isnan(number.low):
    return f'{number.value:.3f} without interval'
  return f'{number.value:.3f} [{number.low:.3f}, {number.high:.3f}]'


def _calibration(parts: Mapping[str, Results]) -> Iterator[list[Any]]:
  """Yields rows of the clean images and of each set of corruptions."""
  for part, results in parts.items():
    if results.study != 'calibration':
      continue
    first = next(iter(results.prefixes.values()))
    for quantity in CALIBRATION:
      start = f'{first}{quantity}/'
      for group in ('clean', 'official', 'shown'):
        if f'{start}{group}' in results.numbers:
          yield [
            part,
            f'{quantity}, {group}',
            *(_text(results.numbers[f'{p}{quantity}/{group}']) for p in results.prefixes.values()),
          ]
