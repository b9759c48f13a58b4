"""Top-1 and top-k accuracy on images as they are: the smallest study."""

import dataclasses
from collections.abc import Iterator

import pandas as pd

from robustness.core.registry import setting
from robustness.estimates.quantity import ACCURACY, Quantity, Right, declare_accuracy
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Study


def accuracy_at(k: int) -> Quantity:
  """Returns the quantity for top-k accuracy; only top-1 is a headline of reports."""
  name, words = f'top{k}_accuracy', f'top-{k} accuracy'
  return declare_accuracy(name, words, headline=k == 1, statistic=Right(k))


@dataclasses.dataclass(frozen=True)
class Accuracy(Study):
  """A study of accuracy on unchanged images; attributes are its settings.

  Attributes:
    top_k: k of the second accuracy, such as `top5_accuracy`, if there are more classes than that.
  """

  title = 'Accuracy'
  allows_adaptation = True
  not_recorded = ('top_k',)

  top_k: int = setting(5, 'at least 1', lambda x: x >= 1)

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The quantities `top1_accuracy`, `top<k>_accuracy`, and `accuracy` by class."""
    return *(accuracy_at(k) for k in sorted({1, self.top_k})), ACCURACY

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields top-1 and top-k accuracy, each with a paired test against the first classifier."""
    for k in recorded.top_k(self.top_k):
      yield self.means(accuracy_at(k), recorded, test=True)
