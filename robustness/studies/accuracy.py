"""Top-1 and top-k accuracy on images as they are: the smallest study."""

import dataclasses
from collections.abc import Iterator

import pandas as pd

from robustness.core.registry import setting
from robustness.estimates.quantity import ACCURACY, Quantity, Right, declare_accuracy
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Study


def accuracy_at(k: int) -> Quantity:
  """Declares top-k accuracy as a reported quantity, named `top<k>_accuracy`.

  Only top-1 accuracy is among the main numbers of a report.
  """
  name, words = f'top{k}_accuracy', f'top-{k} accuracy'
  return declare_accuracy(name, words, headline=k == 1, statistic=Right(k))


@dataclasses.dataclass(frozen=True)
class Accuracy(Study):
  """A study of top-1 and top-k accuracy on unchanged images.

  Attributes:
    top_k: the k of top-k accuracy, which is left out if there are no more than k classes.
  """

  title = 'Accuracy'
  allows_adaptation = True
  not_recorded = ('top_k',)

  top_k: int = setting(5, 'at least 1', lambda x: x >= 1)

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities: `top1_accuracy`, `top<k>_accuracy` and per-class `accuracy`."""
    return *(accuracy_at(k) for k in sorted({1, self.top_k})), ACCURACY

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields tables of top-1 and top-k accuracy, each with tests against the first classifier."""
    for k in recorded.top_k(self.top_k):
      yield self.means(accuracy_at(k), recorded, test=True)
