"""The trade-off between frequencies: change of accuracy against share of high-frequency energy.

Every classifier is shown the same corrupted images, whose energies are measured as they are shown
(Yin et al. 2019, section 4.2, figure 6). The first classifier is the one that changes are from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from robustness.core.settings import require, require_fractions
from robustness.corruptions.views import CLEAN, CorruptionViews
from robustness.estimates.means import STUDENT, Estimate, Row, arrays, means, part, row
from robustness.estimates.of_means import BOOTSTRAP
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, Quantity
from robustness.evaluation import outcomes as recorded
from robustness.evaluation import study
from robustness.evaluation.study import IMAGES, Evaluation, Findings
from robustness.figures import tradeoff as tradeoff_figures
from robustness.fourier.filters import lowest_kept
from robustness.metrics import averages, energy_fraction
from robustness.metrics.corruption_error import Errors, mean_error_difference
from robustness.metrics.spectra import known_mean
from robustness.metrics.tradeoff import TradeOff, trade_off
from robustness.results import Number, Results, Table
from robustness.wording import corruptions as wording

LINES = ('slope', 'slope_over_corruptions', 'intercept', 'residual')

LINE_QUANTITIES = {
  'slope': Quantity(
    'slope',
    'slope of accuracy change by share of high frequency, over images',
    kind='amount',
    headline=True,
    paper='yin2019fourier',
  ),
  'slope_over_corruptions': Quantity(
    'slope_over_corruptions',
    'slope of accuracy change by share of high frequency, over corruptions',
    kind='amount',
  ),
  'intercept': Quantity(
    'intercept', 'accuracy change where a corruption has no high frequency', kind='amount'
  ),
  'residual': Quantity(
    'residual', 'root mean square distance of the corruptions from the line', kind='amount', low=0
  ),
}
LINE = Quantity('line', 'accuracy change on the line through the corruptions', kind='amount')
HIGH_FREQUENCY_FRACTION = Quantity(
  'high_frequency_fraction', 'share of high frequency in the energy that a corruption adds'
)


@dataclasses.dataclass(frozen=True)
class Study(CorruptionViews, study.Study):
  """Settings of the study `tradeoff`, beside those of `CorruptionViews`.

  Attributes:
    confidence: of all intervals.
  """

  name: ClassVar[str] = 'tradeoff'
  title: ClassVar[str] = 'Robustness by frequency: the trade-off'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier', 'hendrycks2019benchmarking')
  fewest_classifiers: ClassVar[int] = 2

  confidence: float = 0.95

  def __post_init__(self) -> None:
    super().__post_init__()
    require(
      len(self.names) >= 3,
      'config.study.corruptions',
      self.corruptions,
      'at least three corruptions, through which a line is drawn',
    )
    require_fractions(self, 'config.study', 'confidence')

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns shares of high-frequency energy, changes of accuracy, and the lines through them.

    Numbers: `high_frequency_fraction/<corruption>`, mean over images and severities; for every
    classifier but the first `<label>/accuracy_change/<corruption>` and `/clean`, its accuracy minus
    the first's, and `<label>/slope`, `slope_over_corruptions`, `intercept` and `residual` (see
    `robustness.metrics.tradeoff`). Arrays: `high_frequency_fraction` and `<label>/accuracy_change`
    [K], `share` and `<label>/line` [G], with `_low` and `_high`.
    """
    findings = Findings(
      arrays={
        'corruption': np.array(self.names),
        'high_pass_lowest': np.array(lowest_kept(*image_shape[:2], self.bandwidth)),
      }
    )
    shares = self._shares(evaluations[0])
    mean = averages(shares, self.confidence, HIGH_FREQUENCY_FRACTION.range)
    findings.arrays.update(mean.arrays('high_frequency_fraction'))
    for k, name in enumerate(self.names):
      findings.numbers[f'high_frequency_fraction/{name}'] = mean.number(k)
    first, *others = (self._errors(evaluation) for evaluation in evaluations)
    findings.estimates = self._estimates(evaluations, shares)
    n = len(shares)
    for evaluation, errors in zip(evaluations[1:], others, strict=True):
      self._changes(findings, evaluation.label, first, errors)
      fitted = trade_off(shares, first.by_corruption, errors.by_corruption, self.confidence)
      self._line(findings, evaluation.label, fitted)
      findings.estimates += self._line_rows(evaluation.label, evaluations[0].label, fitted, n)
    self._tables(findings, [evaluation.label for evaluation in evaluations])
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (ACCURACY, CLEAN_ACCURACY, *LINE_QUANTITIES.values(), LINE, HIGH_FREQUENCY_FRACTION)

  def _estimates(self, evaluations: Sequence[Evaluation], shares: np.ndarray) -> list[pd.DataFrame]:
    """Returns accuracies with their changes, and shares of high frequency, by corruption."""
    levels = [(name, severity) for name in self.names for severity in self.levels]
    views = pd.DataFrame([(None, None), *levels], columns=['corruption', 'severity'])
    right = recorded.outcomes(evaluations, recorded.right, views)
    only = np.arange(len(views)) == CLEAN
    of_images = Outcomes({IMAGES: shares}, pd.DataFrame({'corruption': self.names}))
    given: dict[str, Any] = {'confidence': self.confidence}
    return [
      means(CLEAN_ACCURACY, right, where=only, **given),
      means(ACCURACY, right, ('corruption',), **given),
      means(HIGH_FREQUENCY_FRACTION, of_images, ('corruption',), **given),
    ]

  def _line_rows(self, label: str, versus: str, fitted: TradeOff, n: int) -> list[pd.DataFrame]:
    """Returns the line of a classifier: slope, intercept, residual, and the line itself."""
    rows: list[Row] = []
    for name, quantity in LINE_QUANTITIES.items():
      number = fitted.numbers[name]
      ends = number.value, number.low, number.high
      method = STUDENT if name == 'slope_over_corruptions' else BOOTSTRAP
      estimate = Estimate(*ends, number.n, number.n, method, note=number.note)
      rows.append(row(label, versus, quantity, {}, estimate, self.confidence))
    shares = pd.DataFrame({'high_frequency_share': fitted.share})
    line = arrays(
      LINE,
      label,
      shares,
      fitted.line,
      fitted.low,
      fitted.high,
      n=n,
      method=BOOTSTRAP,
      confidence=self.confidence,
      versus=versus,
    )
    return [part(rows), line]

  def _shares(self, evaluation: Evaluation) -> np.ndarray:
    """Returns each image's share under each corruption [N, K], mean over severities."""
    energies = (evaluation.records.table(f'measure/{n}') for n in ('high_energy', 'energy'))
    return known_mean(self.by_corruption(energy_fraction(*energies)))

  def _errors(self, evaluation: Evaluation) -> Errors:
    wrong = evaluation.records.table('rank') > 0
    return Errors(self.by_corruption(wrong), wrong[:, CLEAN], self.names)

  def _changes(self, findings: Findings, label: str, first: Errors, second: Errors) -> None:
    """Adds accuracy minus the first classifier's, paired, by corruption and on clean images."""

    def change(before: np.ndarray, after: np.ndarray) -> Number:
      return mean_error_difference(Errors(after), Errors(before), self.confidence)

    clean = (errors.clean for errors in (first, second))
    numbers = {'clean': change(*(wrong[:, None, None] for wrong in clean if wrong is not None))}
    for k, name in enumerate(self.names):
      numbers[name] = change(first.corrupted[:, [k]], second.corrupted[:, [k]])
    for name, number in numbers.items():
      findings.numbers[f'{label}/accuracy_change/{name}'] = number
    for field, end in (('value', ''), ('low', '_low'), ('high', '_high')):
      values = [getattr(numbers[name], field) for name in self.names]
      findings.arrays[f'{label}/accuracy_change{end}'] = np.array(values)

  def _line(self, findings: Findings, label: str, fitted: TradeOff) -> None:
    findings.numbers.update({f'{label}/{name}': fitted.numbers[name] for name in LINES})
    findings.arrays['share'] = fitted.share
    for name, values in (('', fitted.line), ('_low', fitted.low), ('_high', fitted.high)):
      findings.arrays[f'{label}/line{name}'] = values

  def _tables(self, findings: Findings, labels: Sequence[str]) -> None:
    """Adds the points of the figure, ordered by share, and the lines."""
    numbers, others = findings.numbers, labels[1:]
    order = np.argsort(-findings.arrays['high_frequency_fraction'])
    findings.tables['accuracy change'] = Table(
      ('corruption', 'share of high frequency', *(f'{label} - {labels[0]}' for label in others)),
      [
        [
          name,
          numbers[f'high_frequency_fraction/{name}'].value,
          *(numbers[f'{label}/accuracy_change/{name}'].value for label in others),
        ]
        for name in (self.names[k] for k in order)
      ],
    )
    ends = ('value', 'low', 'high')
    findings.tables['lines'] = Table(
      ('classifier', *(f'{name} {end}' for name in LINES for end in ends)),
      [
        [label, *(getattr(numbers[f'{label}/{name}'], end) for name in LINES for end in ends)]
        for label in others
      ],
    )

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return tradeoff_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.tradeoff_sentences(results)
