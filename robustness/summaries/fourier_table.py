"""The tables of Yin et al. (2019), measured beside published: table 1, 2 and 3, or table 4.

They are read from the part of the study `corruption_error`, whose baseline is the naturally trained
classifier. Classifiers are matched by label: natural, gaussian, adversarial, low_pass, high_pass,
auto_augment and fog_noise; one of another label has no published column.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.evaluation.study import Findings, Study
from robustness.figures.fourier_table import agreement
from robustness.metrics.published_fourier import TABLE_1, TABLE_2, TABLE_3, TABLE_4, PublishedTable
from robustness.results import Number, Results, Table
from robustness.wording.phrases import (
  PERCENT,
  NotReportedError,
  Reader,
  complement,
  for_all,
  percent,
  points,
  signed,
  told,
  words,
)

STUDY = 'corruption_error'
TABLES = {'cifar': (TABLE_3, 'fourier_cifar'), 'imagenet': (TABLE_4, 'fourier_imagenet')}


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.battery.summary.fourier_table`.

  Attributes:
    data: 'cifar' (tables 1 to 3) or 'imagenet' (table 4).
    baseline: label of the classifier that mCE and changes are from; the first of the config.
  """

  data: str = 'cifar'
  baseline: str = 'natural'

  def __post_init__(self) -> None:
    choice('config.battery.summary.fourier_table.data', self.data, TABLES)

  @property
  def published(self) -> PublishedTable:
    """The table of the paper."""
    return TABLES[self.data][0]

  @property
  def corruptions(self) -> str:
    """The set of corruptions that the paper's table averages over."""
    return TABLES[self.data][1]


def check(settings: Settings, labels: Sequence[str], studies: Mapping[str, Study]) -> None:
  """Refuses a run whose mCE would have another baseline than the paper's, or none.

  Raises:
    InputError: the baseline is missing or not first, or the part divides by something else.
  """
  where = 'config.battery.summary.fourier_table.baseline'
  for part, study in studies.items():
    if study.name != STUDY:
      continue
    if settings.baseline not in labels:
      raise InputError(
        f'{where} is {settings.baseline!r}, by whose errors mCE divides, but config.classifiers '
        f'are {", ".join(labels)}: add it, or name one of these.'
      )
    if settings.baseline != labels[0] or getattr(study, 'baseline', '') != 'first':
      raise InputError(
        f'{where} is {settings.baseline!r}, but config.battery.{part} divides by '
        f'{labels[0] if getattr(study, "baseline", "") == "first" else study.baseline!r}: '  # type: ignore[attr-defined]
        "put it first in config.classifiers, with config.battery.<part>.study.baseline='first'."
      )


def summarise(settings: Settings, parts: Mapping[str, Results]) -> Findings:
  """Returns the tables, and how many of the paper's changes of accuracy were found."""
  findings = Findings()
  results = _errors(parts)
  if results is None:
    return findings
  findings.tables[settings.published.name] = _accuracies(settings, results)
  if settings.data == 'cifar':
    if 'fog_noise' in results.prefixes and 'fog' in _names(results):
      findings.tables['table 1'] = _fog(results)
    findings.tables['table 2'] = _whole_percent(settings, results)
  findings.tables['agreement'] = _agreement(settings, results)
  return findings


def sentences(settings: Settings, parts: Mapping[str, Results]) -> list[str]:
  """Returns each classifier's mean accuracy beside the published one, and how changes agree."""
  results = _errors(parts)
  if results is None:
    return []
  sentences = (_told_averages, _told_changes)
  return told(results, [functools.partial(sentence, settings) for sentence in sentences])


def _told_averages(settings: Settings, reader: Reader) -> str:
  def clause(label: str) -> str:
    error = reader.number(f'mean_error/{settings.corruptions}', label)
    printed = settings.published.average.get(label)
    beside = '' if printed is None else f', published {100 * printed:.1f}{PERCENT}'
    return f'{label} {percent(complement(error))}{beside}'

  name = settings.published.name
  return f'mean accuracy under the corruptions of {name}: {reader.each(clause)}'


def _told_changes(settings: Settings, reader: Reader) -> str:
  reader.array('corruption')
  by_label = changes(settings, reader.results)
  return 'changes of accuracy of the published sign: ' + reader.others(
    lambda label: _told_agreement(label, by_label.get(label, {}))
  )


def _told_agreement(label: str, points_of: Mapping[str, tuple[float, Number]]) -> str:
  """A clause on which published changes of a classifier have the same sign here."""
  shown = {name: pair for name, pair in points_of.items() if _is_shown(pair[1])}
  if not shown:
    raise NotReportedError(label)
  same = sum((printed > 0) == (own.value > 0) for printed, own in shown.values())
  most = max(shown, key=lambda name: abs(shown[name][1].value))
  printed, own = shown[most]
  return (
    f'{label} {same} of the {len(shown)} whose interval excludes zero, the largest under '
    f'{words(most)}, {points(for_all(own, len(points_of)))}, published '
    f'{signed(100 * printed, 1)}'
  )


def _is_shown(change: Number) -> bool:
  """Whether the interval of a change excludes zero."""
  return change.low > 0 or change.high < 0


def draw(settings: Settings, parts: Mapping[str, Results]) -> dict[str, tuple[Any, str]]:
  """Returns {'agreement': (figure, caption)}: changes of accuracy, measured against published."""
  results = _errors(parts)
  points = changes(settings, results) if results else {}
  if not results or not any(points.values()):
    return {}
  n = results.numbers[f'{settings.baseline}/clean_error'].n
  caption = (
    f'Accuracy minus that of {settings.baseline} under each corruption, on {n} images with paired '
    f'intervals, against the same in {settings.published.name} of Yin et al. (2019). The line is '
    'agreement.'
  )
  return {'agreement': (agreement(points), caption)}


def _errors(parts: Mapping[str, Results]) -> Results | None:
  """Returns the results of the part with errors by corruption, if it was run."""
  return next((results for results in parts.values() if results.study == STUDY), None)


def _names(results: Results) -> list[str]:
  return [str(name) for name in results.arrays['corruption']]


def _mean(results: Results, label: str, quantity: str, name: str) -> float:
  number = results.numbers.get(f'{results.prefixes[label]}{quantity}/{name}')
  return number.value if number else math.nan


def _accuracies(settings: Settings, results: Results) -> Table:
  """Returns accuracies by corruption, their average and mCE, each beside the published one."""
  published, group = settings.published, settings.corruptions
  labels = list(results.prefixes)
  columns = [text for label in labels for text in (label, f'{label}, published')]

  def cells(measured: Mapping[str, float], printed: Mapping[str, float]) -> list[float]:
    return [v for label in labels for v in (measured[label], printed.get(label, math.nan))]

  clean = {
    label: 1 - results.numbers[f'{p}clean_error'].value for label, p in results.prefixes.items()
  }
  rows: list[list[Any]] = [['clean images', *cells(clean, published.clean)]]
  for name in _names(results):
    own = {label: 1 - _mean(results, label, 'error', name) for label in labels}
    printed = {label: by_name.get(name) for label, by_name in published.corrupted.items()}
    rows.append([name, *cells(own, {k: v for k, v in printed.items() if v is not None})])
  average = {label: 1 - _mean(results, label, 'mean_error', group) for label in labels}
  rows.append(['average', *cells(average, published.average)])
  mce = {label: _mean(results, label, 'mCE', group) for label in labels}
  rows.append(['mCE', *cells(mce, published.mce)])
  return Table(('', *columns), rows)


def _fog(results: Results) -> Table:
  """Returns accuracy on clean images and under fog by severity, trained plainly and on fog noise.

  A loss under fog that is no larger than on clean images is no harm to fog in particular.
  """
  row, severities = _names(results).index('fog'), results.arrays['severity'].tolist()
  rows = []
  for label, printed in TABLE_1.items():
    if label in results.prefixes:
      prefix, clean = results.prefixes[label], TABLE_3.clean.get(label, math.nan)
      error = [
        results.numbers[f'{prefix}clean_error'].value,
        *results.arrays[f'{prefix}error'][row],
      ]
      rows.append([label, *(1 - float(value) for value in error)])
      rows.append([f'{label}, published', clean, *(printed[s - 1] for s in severities)])
  return Table(('trained', 'clean', *(f'fog {severity}' for severity in severities)), rows)


def _whole_percent(settings: Settings, results: Results) -> Table:
  """Returns table 2: averages, mCE and accuracies in whole percent."""
  published, names = settings.published, _names(results)
  group = settings.corruptions
  rows = []
  for label in (label for label in TABLE_2 if label in results.prefixes):
    own = [1 - _mean(results, label, 'mean_error', group), _mean(results, label, 'mCE', group)]
    rows.append(
      [label, *map(_percent, [*own, *(1 - _mean(results, label, 'error', n) for n in names)])]
    )
    printed = [published.average[label], published.mce[label]]
    by_name = published.corrupted[label]
    rows.append(
      [
        f'{label}, published',
        *map(_percent, [*printed, *(by_name.get(n, math.nan) for n in names)]),
      ]
    )
  return Table(('model', 'acc', 'mCE', *names), rows)


def _percent(fraction: float) -> int | None:
  return None if math.isnan(fraction) else round(100 * fraction)


def changes(settings: Settings, results: Results) -> dict[str, dict[str, tuple[float, Number]]]:
  """Returns by classifier and corruption the published change of accuracy and the measured one.

  A change is the accuracy minus that of the baseline; only what the paper has too is in.
  """
  published, points = settings.published, {}
  for label, prefix in list(results.prefixes.items())[1:]:
    printed = published.corrupted.get(label, {})
    points[label] = {
      name: (
        printed[name] - published.corrupted['natural'][name],
        _reversed(results.numbers[f'{prefix}error_difference/{name}']),
      )
      for name in _names(results)
      if name in printed and f'{prefix}error_difference/{name}' in results.numbers
    }
  return points


def _reversed(difference: Number) -> Number:
  """Returns the difference of accuracies from that of errors."""
  return dataclasses.replace(
    difference, value=-difference.value, low=-difference.high, high=-difference.low
  )


def _agreement(settings: Settings, results: Results) -> Table:
  """Returns for each classifier which of the published changes have the same sign here.

  A sign is shown where the interval of the measured change excludes zero.
  """
  rows = []
  for label, points_of in changes(settings, results).items():
    kinds: dict[str, list[str]] = {'same': [], 'opposite': [], 'not shown': []}
    for name, (printed, measured) in points_of.items():
      shown = _is_shown(measured)
      same = (printed > 0) == (measured.value > 0)
      kinds['not shown' if not shown else 'same' if same else 'opposite'].append(name)
    if points_of:
      rows.append([label, *(', '.join(names) or 'none' for names in kinds.values())])
  return Table(('classifier', 'same sign as published', 'opposite sign', 'no sign shown'), rows)
