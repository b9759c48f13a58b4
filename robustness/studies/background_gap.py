"""Accuracy on ImageNet-9 with exchanged backgrounds, and the gain by right backgrounds.

  bg_gap  accuracy on 'mixed_same' − accuracy on 'mixed_rand'

In both, the background is from another image than the foreground: in 'mixed_same' from the same
class, in 'mixed_rand' from a random one. Versions of one foreground are resampled together.

Reference: Xiao et al., Noise or signal: the role of image backgrounds in object recognition, ICLR
2021.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError, or_column
from robustness.core.rows import Rows
from robustness.estimates.facets import Facet
from robustness.estimates.means import published_row, table_of_rows
from robustness.estimates.published import BACKGROUNDS
from robustness.estimates.quantity import Quantity, Right, declare_accuracy
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Recipes, Study

VARIANT, MIXED = 'variant', ('mixed_same', 'mixed_rand')
"""The column with the variant, and the two variants that the gap is between."""
PICTURES = 4050
"""Number of images of each variant in the released set, which published values are of."""
ACCURACY = declare_accuracy('accuracy', 'top-1 accuracy', headline=True)
GAP = Quantity(
  'bg_gap',
  'gain of accuracy by backgrounds of the right class',
  better='lower',
  low=-1.0,
  headline=True,
  statistic=Right(),
  function=lambda means, baseline: means[..., 0] - means[..., 1],  # in the order of `MIXED`
)


@dataclasses.dataclass(frozen=True)
class BackgroundGap(Study):
  """A study of accuracy on ImageNet-9 images with exchanged backgrounds.

  The data need a column `variant`, such as 'mixed_same' or 'mixed_rand'.
  """

  title = 'Backgrounds'
  lists_failures = False
  papers = ('xiao2021noise',)
  quantities = (ACCURACY, GAP)
  described_facets = (Facet(VARIANT, 'variant', place='on {}'),)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError unless the data have the variants 'mixed_same' and 'mixed_rand'."""
    super().check(rows, recipes)
    names = set(rows.without_images().get(VARIANT, np.array(())).tolist())
    if not names.issuperset(MIXED):
      raise InputError(
        f'the images are of the variants {", ".join(sorted(map(str, names))) or "none"}; '
        f'{" and ".join(MIXED)} are compared: set {KEYS.data.source}=imagenet_9'
        + or_column(VARIANT)
      )

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields accuracy by variant of the data set, and the gap between two variants.

    Variants of ImageNet-9 differ in the backgrounds of the objects. The gap is the accuracy on
    'mixed_same' (background of another image of the same class) minus the accuracy on 'mixed_rand'
    (background of a random class). Published values are added.

    Args:
      recorded: records with the predictions of all classifiers and the variant of each image.
    """
    recorded.require_equal_columns((VARIANT,))
    variants = recorded.evaluations[0].records.column(VARIANT).astype(str)
    # The gap is the first name's accuracy minus the second's.
    names = [*MIXED, *sorted(set(variants) - set(MIXED))]
    is_variant = variants[:, None] == np.array(names)  # [images, variants]
    # Whether predictions are right. The accuracy is a mean of these, the gap a difference of means.
    by_variant = recorded.outcomes(GAP).in_groups(is_variant, pd.DataFrame({VARIANT: names}))
    yield self.means(ACCURACY, by_variant, (VARIANT,), test=True)
    yield self.means(GAP, by_variant, (VARIANT,), where=np.isin(names, MIXED))
    rows = []
    for name, values in BACKGROUNDS.items():  # the name of a variant, or 'bg_gap'
      quantity, facets = (GAP, {}) if name == GAP.name else (ACCURACY, {VARIANT: name})
      for label, value in values.items():
        rows.append(published_row(label.replace('_', ' '), quantity, value, PICTURES, **facets))
    yield table_of_rows(rows)
