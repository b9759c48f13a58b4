"""The smallest study: top-1 and top-k accuracy on the images as they are (the identity view)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from robustness.core.settings import require, require_fractions
from robustness.estimates.comparison import paired_accuracies
from robustness.estimates.means import means
from robustness.estimates.quantity import Quantity
from robustness.evaluation import study
from robustness.evaluation.outcomes import outcomes, right
from robustness.evaluation.study import Evaluation, Findings
from robustness.figures.accuracy_bars import accuracy_bars
from robustness.metrics.accuracy import top_k_accuracy, top_k_correct
from robustness.results import Results, Table
from robustness.wording import accuracy as wording

COMPARISON = (
  'first',
  'second',
  'only first right',
  'only second right',
  'top-1 accuracy, second - first',
  'low',
  'high',
  'McNemar p',
)


def accuracy_at(k: int) -> Quantity:
  """Returns the top-k accuracy."""
  return Quantity(f'top{k}_accuracy', f'top-{k} accuracy', better='higher', headline=k == 1)


@dataclasses.dataclass(frozen=True)
class Study(study.Study):
  """Settings of the study `accuracy`.

  Attributes:
    top_k: k of the second accuracy; 5 gives `top5_accuracy`, if there are more classes than that.
    confidence: of all intervals.
  """

  name: ClassVar[str] = 'accuracy'

  top_k: int = 5
  confidence: float = 0.95

  def __post_init__(self) -> None:
    require(self.top_k >= 1, 'config.study.top_k', self.top_k, 'at least 1')
    require_fractions(self, 'config.study', 'confidence')

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return tuple(accuracy_at(k) for k in sorted({1, self.top_k}))

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns `top1_accuracy` and `top<k>_accuracy`; for several classifiers a paired table too."""
    del image_shape
    findings = Findings()
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      rank = evaluation.records.column('rank')
      for k in evaluation.top_k(self.top_k):
        findings.numbers[f'{prefix}top{k}_accuracy'] = top_k_accuracy(rank, k, self.confidence)
    for k in evaluations[0].top_k(self.top_k):
      quantity = accuracy_at(k)
      answers = outcomes(evaluations, functools.partial(right, k=k))
      findings.estimates.append(means(quantity, answers, confidence=self.confidence, test=True))
    if len(evaluations) > 1:
      rows = [self._compare(first, second) for first, second in study.pairs(evaluations)]
      findings.tables['comparison'] = Table(COMPARISON, rows)
    return findings

  def _compare(self, first: Evaluation, second: Evaluation) -> list[Any]:
    correct = [top_k_correct(e.records.column('rank'), 1) for e in (first, second)]
    return [first.label, second.label, *paired_accuracies(correct[0], correct[1], self.confidence)]

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    caption = f'Accuracy with {100 * self.confidence:g} % Clopper–Pearson intervals.'
    bars = {
      label: {
        f'top-{k}': results.numbers[f'{prefix}top{k}_accuracy']
        for k in sorted({1, self.top_k})
        if f'{prefix}top{k}_accuracy' in results.numbers
      }
      for label, prefix in results.prefixes.items()
    }
    return {'accuracy': (accuracy_bars(bars), caption)}

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.sentences(results)
