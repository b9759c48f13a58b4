"""The trade-off between frequencies: change of accuracy against share of high-frequency energy.

Every classifier is shown the same corrupted images, whose energies are measured as they are shown
(Yin et al. 2019, section 4.2, figure 6). The first classifier is the one that changes are from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from robustness.core.settings import require, require_fractions
from robustness.corruptions.views import CLEAN, CorruptionViews
from robustness.evaluation import study
from robustness.evaluation.study import Evaluation, Findings
from robustness.figures import tradeoff as tradeoff_figures
from robustness.fourier.filters import lowest_kept
from robustness.metrics import averages, energy_fraction
from robustness.metrics.corruption_error import Errors, mean_error_difference
from robustness.metrics.spectra import known_mean
from robustness.metrics.tradeoff import TradeOff, trade_off
from robustness.results import Number, Results, Table
from robustness.wording import corruptions as wording

LINES = ('slope', 'slope_over_corruptions', 'intercept', 'residual')


@dataclasses.dataclass(frozen=True)
class Study(CorruptionViews, study.Study):
  """Settings of the study `tradeoff`, beside those of `CorruptionViews`.

  Attributes:
    confidence: of all intervals.
  """

  name: ClassVar[str] = 'tradeoff'
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
    mean = averages(shares, self.confidence)
    findings.arrays.update(mean.arrays('high_frequency_fraction'))
    for k, name in enumerate(self.names):
      findings.numbers[f'high_frequency_fraction/{name}'] = mean.number(k)
    first, *others = (self._errors(evaluation) for evaluation in evaluations)
    for evaluation, errors in zip(evaluations[1:], others, strict=True):
      self._changes(findings, evaluation.label, first, errors)
      fitted = trade_off(shares, first.by_corruption, errors.by_corruption, self.confidence)
      self._line(findings, evaluation.label, fitted)
    self._tables(findings, [evaluation.label for evaluation in evaluations])
    return findings

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
