"""How evenly accuracy is spread over classes, on unchanged images."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.estimates.class_spread import class_spread
from robustness.estimates.quantity import ACCURACY, Quantity, declare_accuracy
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Recipes, Study

OVERALL = declare_accuracy('overall_accuracy', 'top-1 accuracy on all images', headline=True)
SPREAD = Quantity(
  'class_spread', 'standard deviation of accuracies over classes', better='lower', headline=True
)


@dataclasses.dataclass(frozen=True)
class ClassBalance(Study):
  """A study of how accuracy varies over classes, on unchanged images."""

  title = 'Balance of classes'
  quantities = (OVERALL, SPREAD, dataclasses.replace(ACCURACY, reference=OVERALL.name))

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if images have several labels each or all have the same class."""
    super().check(rows, recipes)
    labels = rows.without_images()['label']
    if labels.ndim > 1 or len(np.unique(labels)) < 2:
      raise InputError('the spread over classes needs images with one label each, of two classes.')

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields accuracy over all images, and the standard deviation of accuracies over classes.

    Accuracy over all images also has paired differences between classifiers.
    """
    recorded.require_distinct()
    yield self.means(OVERALL, recorded, test=True)
    labels = recorded.evaluations[0].records.column('label')
    for label, right in recorded.outcomes(OVERALL).values.items():  # bool [N, 1], a single view
      estimate = class_spread(right[:, 0], labels, self.confidence)
      yield self.table_of(label, [(SPREAD, {}, estimate)])
