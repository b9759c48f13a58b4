"""Accuracy on low- and high-passed images by bandwidth (Yin et al. 2019, section 3, figure 1).

Every classifier is shown filtered images. A classifier that was trained with such a filter on its
input is also drawn at the bandwidth of this filter, as the paper's networks are.
"""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pandas as pd

from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, declare_accuracy
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Figures
from robustness.evaluation.views import Arrays
from robustness.fourier.band_study import BandStudy
from robustness.fourier.filters import filtered_by_half
from robustness.present import charts
from robustness.results import Results

TRAINED = declare_accuracy(
  'trained_accuracy',
  'top-1 accuracy of a network behind a filter, on images through it',
  drawn=True,
)


@dataclasses.dataclass(frozen=True)
class FilteredAccuracy(BandStudy):
  """A study of accuracy on low-pass and high-pass filtered images.

  Filtered images are not clipped to [0, 1]. The bandwidths are settings of `BandStudy`.
  """

  title = 'Accuracy on low- and high-passed images'
  papers = ('yin2019fourier',)
  quantities = (ACCURACY, CLEAN_ACCURACY, TRAINED)

  def _show(self, key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
    """Filters an image [H, W, C] and returns it; the clean view leaves it unchanged.

    Args:
      key: not used.
      row: the image, `row['image']`.
      view: `kept`, the mask of frequencies to keep, and `bandwidth`, which is 0 in the clean view.
    """
    image = row['image']
    return jnp.where(view['bandwidth'] > 0, filtered_by_half(image, view['kept']), image)

  @property
  def shown_as(self) -> dict[str, str]:
    """{'filtered to': the filters}, as in 'low_pass and high_pass squares of frequencies, …'."""
    return {'filtered to': f'{" and ".join(self.kinds)} squares of frequencies, not clipped'}

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, with a line at the accuracy of guessing.

    The line is in the figure of accuracy by kind of filter (`band`) and bandwidth.
    """
    figures, chance = super().figures(results), 100 / len(results.data['class_names'])
    name = f'{ACCURACY.name}_band_bandwidth'  # the default figure of accuracy by these two facets
    charts.with_line(figures, name, chance, f'guessing, {chance:.3g} %')
    return figures

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields accuracy by filter and bandwidth.

    A network that was trained with a filter on its input is also measured on unfiltered images.
    This accuracy is listed at the kind and bandwidth of the network's filter.
    """
    yield from super().estimates(recorded)
    is_clean = recorded.views.band.isna().to_numpy()  # views that the study does not filter
    for evaluation in recorded.evaluations:
      facts = evaluation.records.identity.get('classifier') or {}
      input_filter = facts.get('input_filter') or {}  # {} for a network without a filter
      if input_filter.get('name') in self.kinds:
        alone = Recorded([evaluation], recorded.views)
        facets = {'band': input_filter['name'], 'bandwidth': input_filter['bandwidth']}
        yield self.means(TRAINED, alone, where=is_clean, facets=facets)
