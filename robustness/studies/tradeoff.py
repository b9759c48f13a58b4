"""The trade-off between frequencies: change of accuracy against share of high-frequency energy.

Every classifier is shown the same corrupted images, generated or stored, and the energy of each
change is measured (Yin et al. 2019, section 4.2, figure 6). Changes of accuracy are relative to the
first classifier.
"""

import dataclasses
from collections.abc import Iterator

import pandas as pd

from robustness.corruptions.stored import StoredOrMade
from robustness.estimates.means import known_mean
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY
from robustness.estimates.table import select
from robustness.estimates.tradeoff import LINE, QUANTITIES, RESIDUAL, SLOPE, trade_off
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import IMAGES, Figures
from robustness.fourier.filters import lowest_kept
from robustness.present import charts
from robustness.present.forms import NamedPoints, named_points
from robustness.present.notation import Notation
from robustness.results import Results
from robustness.studies.corruption_spectrum import SHARE_OF_HIGH

HIGH_FREQUENCY_FRACTION = dataclasses.replace(SHARE_OF_HIGH, headline=False, reference='')


@dataclasses.dataclass(frozen=True)
class Tradeoff(StoredOrMade):
  """A study of whether robustness depends on the frequency of corruptions (Yin et al. 2019).

  For each classifier, its accuracy under each corruption minus the first classifier's is plotted
  against the high-frequency share of the corruption's energy.
  """

  title = 'Robustness by frequency: the trade-off'
  papers = ('yin2019fourier', 'hendrycks2019benchmarking')
  fewest_classifiers = 2
  needs_clean = True
  quantities = (*QUANTITIES, ACCURACY, CLEAN_ACCURACY, HIGH_FREQUENCY_FRACTION)

  def __post_init__(self) -> None:
    """Raises InputError for fewer than three corruptions, too few to fit a line."""
    super().__post_init__()
    valid = 'at least three corruptions, through which a line is drawn'
    self.require(len(self.names) >= 3, 'corruptions', valid)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields accuracy and high-frequency share of energy by corruption, and fitted lines.

    A line is fitted for each classifier but the first, to a point per corruption. The point is the
    accuracy minus the first classifier's accuracy, against the share of energy.
    """
    recorded.require_distinct()
    yield self.means(CLEAN_ACCURACY, recorded, where=recorded.views.corruption.isna().to_numpy())
    yield self.means(ACCURACY, recorded, ('corruption',))
    records = recorded.evaluations[0].records
    # Numerator and denominator of the share: the energies at high and at all frequencies.
    energies = tuple(records.table(f'measure/{name}') for name in ('high_energy', 'energy'))
    by_view = Outcomes.from_fields(HIGH_FREQUENCY_FRACTION, {IMAGES: energies}, recorded.views)
    shares = by_view.combined(('corruption',), known_mean)
    yield self.means(HIGH_FREQUENCY_FRACTION, shares, ('corruption',))
    right = recorded.outcomes(ACCURACY).values
    # [images, corruptions], the mean over severities
    errors = {label: 1 - self.by_corruption(values).mean(2) for label, values in right.items()}
    first, *later = errors
    for label in later:
      share_of_high = shares.values[IMAGES]
      yield trade_off(label, first, share_of_high, errors[first], errors[label], self.confidence)

  def figures(self, results: Results) -> Figures:
    """Returns a figure of change of accuracy against high-frequency share, and default figures.

    It has a panel for each classifier but the first, with a point for each corruption. The change
    of accuracy is from the first classifier.
    """
    # The shares of high frequency, which are of no classifier, have the label `IMAGES`.
    first, *later = (label for label in results.labels if label != IMAGES)
    # `...` selects any corruption.
    shares = select(results.table, HIGH_FREQUENCY_FRACTION.name, corruption=...)
    points = shares.set_index('corruption')
    panels = [_panel(results.table, label, first, points) for label in later]
    height, width, _ = results.data['image_shape']
    rows, columns = lowest_kept(height, width, self.bandwidth)
    caption = (
      f'Accuracy minus that of {first}, against the share of the energy of C(x) − x at |f_y| ≥ '
      f'{rows} and |f_x| ≥ {columns} cycles per image: {len(shares)} corruptions, mean over '
      f'severities and {shares.n.max():,} images. Bars are paired intervals; the line is fitted by '
      'least squares, its band and the brackets are intervals over images.'
    )
    x, y = 'share of high-frequency energy (%)', f'accuracy minus that of {first} (points)'
    return {'tradeoff': (named_points(panels, x, y), caption), **charts.draw(results)}


def _panel(table: pd.DataFrame, label: str, first: str, shares: pd.DataFrame) -> NamedPoints:
  """Returns one classifier's panel of change of accuracy against high-frequency share.

  It has a point for each corruption. Its titles are the name of the classifier, and the slope and
  residual of a fitted line.

  Args:
    table: the results.
    label: name of the classifier.
    first: name of the first classifier, from which changes are measured.
    shares: the high-frequency share of each corruption.
  """
  of_label = table[table.classifier == label]
  changes = select(of_label, ACCURACY.name, first, corruption=...).set_index('corruption')
  line = of_label[of_label['quantity'] == LINE.name]
  fit_in_words = []
  for quantity, unit in ((SLOPE, ''), (RESIDUAL, ' points')):
    for row in of_label[of_label['quantity'] == quantity.name].itertuples():  # one, or none
      fit_in_words.append(f'{quantity.name} {Notation(quantity).bare(row)}{unit}')
  if len(line):  # no line is fitted to few corruptions, and the table may then lack the column
    line = line.set_index('high_frequency_share')
  return NamedPoints((label, ', '.join(fit_in_words)), shares, changes, line)
