"""A cheap preview of a Fourier heatmap: the Fourier transform of the gradient of the loss.

To first order, adding v r U_f changes the loss by v Σ_c r_c ⟨∇_c, U_f⟩, with the norm v, the basis
image U_f of frequency f, and the gradient ∇_c and a sign r_c = ±1 in channel c. The root mean
square over signs and phases of U_f is v S(f), where the sensitivity is S(f) = (Σ_c |F(∇_c)(f)|²)^½
with the orthonormal transform F. The mean of S over images is drawn next to a measured heatmap, if
there is one.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy

from robustness.attacks import Logits, cross_entropy
from robustness.core.rows import Rows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, Quantity, declare_amount, declare_error
from robustness.estimates.table import ESTIMATE, SUBJECT
from robustness.evaluation.outcomes import ONE_VIEW, Evaluation, Recorded
from robustness.evaluation.study import Findings, ImageShape, Recipes, require_single_labels
from robustness.evaluation.views import Arrays, Views, stored_view
from robustness.fourier import spectrum
from robustness.fourier.basis import Frequencies, distinct_frequencies
from robustness.fourier.maps import BANDS, FREQUENCY, BeginsWithMap, band_map

BAND_ENERGY = 'band_energy'
"""Name of the recorded energy by band."""


def energy_per_cell(energy: np.ndarray, cells: Sequence[int]) -> np.ndarray:
  """Returns the mean energy per frequency in each band, relative to all frequencies.

  The result, [N, bands], is 1 everywhere for an image with equal energy at all frequencies. It is
  NaN for an image without energy.

  Args:
    energy: energy of each image in each band, [N, bands].
    cells: number of frequencies in each band.
  """
  total = energy.sum(1, keepdims=True)
  share = energy / np.where(total > 0, total, np.nan)
  # The share of the energy divided by the share of the cells; a band without cells has no energy.
  return np.asarray(share * (sum(cells) / np.maximum(cells, 1)))


SENSITIVITY_PER_CELL = Quantity(
  'sensitivity_per_cell',
  'squared sensitivity of a frequency of a band, relative to the mean frequency',
  kind='ratio',
  headline=True,
  statistic=energy_per_cell,
)
SENSITIVITY = declare_amount(
  'sensitivity', 'sensitivity of the loss to a frequency', unit='loss per unit of norm', drawn=True
)
MEASURED_ERROR = declare_error('measured_error', 'top-1 error of the finished heat map', drawn=True)
RANK_CORRELATION = Quantity(
  'rank_correlation',
  "Spearman's rank correlation of sensitivity and measured error",
  kind='amount',
  low=-1,
  high=1,
)


@dataclasses.dataclass(frozen=True)
class FourierPreview(BeginsWithMap):
  """A study that predicts a Fourier heatmap from the gradient of the loss.

  Attributes:
    heat_map: folder (workdir) of a finished Fourier heatmap to compare the prediction with.
      Classifiers are matched by label, unless the heatmap has a single one. '' compares nothing.
  """

  title = 'Preview of a Fourier heat map'
  papers = ('yin2019fourier',)
  lists_failures = False
  quantities = (SENSITIVITY_PER_CELL, CLEAN_ERROR, SENSITIVITY, MEASURED_ERROR, RANK_CORRELATION)

  heat_map: str = ''

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the only view, unchanged images, in which the sensitivity is measured.

    The sensitivity of the loss to a wave of frequency f is S(f) = (Σ_channels |F(∂loss/∂x)(f)|²)^½,
    with F the Fourier transform. Its sum over images is recorded, [H, W // 2 + 1], and for each
    image its energy Σ S(f)² in each band of frequencies, [bands].
    """
    if self._map is not None:
      self._map.check_shape(image_shape)
    band_of_cell = band_map(image_shape)
    # The weight of each frequency of the half spectrum in the sum over a band, [bands, H, W // 2 +
    # 1]: 0 outside the band, 2 for a frequency with a mirror image that is left out, and else 1.
    weights = np.stack([spectrum.measures(band_of_cell == band).high for band in BANDS])

    def band_energies(row: Arrays, image: jax.Array, view: Arrays, logits: Logits) -> Arrays:
      """Returns {`BAND_ENERGY`: Σ S(f)² of an image in each band, [bands]}."""
      squared = _squared_sensitivity(row, image, view, logits)  # [H, W // 2 + 1]
      return {BAND_ENERGY: (squared[None] * weights).sum((1, 2))}

    def sensitivity(row: Arrays, image: jax.Array, view: Arrays, logits: Logits) -> Arrays:
      """Returns {'sensitivity': S(f) of an image, [H, W // 2 + 1]}, to be summed over images."""
      return {'sensitivity': jnp.sqrt(_squared_sensitivity(row, image, view, logits))}

    return dataclasses.replace(
      stored_view(),
      show=lambda key, row, view, logits: row['image'],
      uses_classifier=True,
      measure=band_energies,
      total=sensitivity,
    )

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if images have several labels, since the gradient needs one."""
    require_single_labels(rows, 'the preview')

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the sensitivity of the loss by frequency and by band, and its fit to a heatmap.

    The sensitivity S(f) is the root mean square change of the loss, to first order, by a wave of
    norm 1 and frequency f. `sensitivity_per_cell` of a band is 1 if the band is as sensitive as the
    mean frequency. It averages over images the mean of S(f)² in the band divided by the mean over
    all frequencies. With a measured heatmap, Spearman's ρ between sensitivity and error is added.
    It has no interval, because neighbouring frequencies are not independent.
    """
    recorded = Recorded(evaluations)
    estimates = [self.means(CLEAN_ERROR, recorded, test=True)]
    num_cells = [int((band_map(image_shape) == band).sum()) for band in BANDS]
    arguments = {}  # {classifier: the arguments of `energy_per_cell`}
    for evaluation in evaluations:
      energy = evaluation.records.table(f'measure/{BAND_ENERGY}')[:, 0]  # in the only view
      arguments[evaluation.label] = energy.astype(float), num_cells
    # A band without frequencies, in small images, is None: `means` skips it.
    bands = [band if count else None for band, count in zip(BANDS, num_cells, strict=True)]
    views = pd.DataFrame({'band': bands})
    clusters = recorded.clusters
    by_band = Outcomes.from_fields(SENSITIVITY_PER_CELL, arguments, views, clusters=clusters)
    estimates.append(self.means(SENSITIVITY_PER_CELL, by_band, ('band',)))
    for evaluation in evaluations:
      n = evaluation.records.layout.num_rows
      (half_total,) = evaluation.records.total('sensitivity')  # of the only view
      mean = spectrum.full_map(half_total, image_shape[1]) / n
      estimates += self._sensitivity_estimates(evaluation.label, mean, n)
    return Findings(estimates=estimates)

  def _sensitivity_estimates(
    self, label: str, sensitivity: np.ndarray, n: int
  ) -> list[pd.DataFrame]:
    """Returns a table of sensitivity by frequency, and a comparison with a heatmap if there is one.

    The comparison has two tables: the errors of the heatmap, and their rank correlation with the
    sensitivity.

    Args:
      label: name of the classifier.
      sensitivity: mean sensitivity of the loss to a wave of each frequency, [H, W], with zero
        frequency in the centre.
      n: number of images.
    """
    height, width = sensitivity.shape
    f = distinct_frequencies(height, width)
    facets = pd.DataFrame({'frequency_y': f.fy, 'frequency_x': f.fx})
    tables = [self.arrays(SENSITIVITY, label, facets, _values_at(f, sensitivity), n=n)]
    if self._map is None:
      return tables
    rows = self._map.classifier_rows(label)
    # The columns of a table of results with the facets fy and fx; the heatmap's have others too.
    columns = [*SUBJECT, *FREQUENCY, *ESTIMATE]
    tables.append(rows[columns].assign(classifier=label, quantity=MEASURED_ERROR.name))
    # The correlation is over the frequencies that the heatmap measured.
    measured = distinct_frequencies(height, width, self._map.window)
    values, error = _values_at(measured, sensitivity), self._map.error(label, measured)
    # A constant has no correlation.
    vary = np.ptp(values) > 0 and np.ptp(error) > 0
    rho = scipy.stats.spearmanr(values, error).statistic if vary else np.nan
    tables.append(self.arrays(RANK_CORRELATION, label, ONE_VIEW, np.array([rho]), n=len(measured)))
    return tables


def _values_at(f: Frequencies, spectrum_map: np.ndarray) -> np.ndarray:
  """Returns the values of a map of all frequencies, [H, W], at F distinct frequencies, [F].

  Zero frequency is in the centre of the map.
  """
  height, width = spectrum_map.shape
  return spectrum_map[f.fy + height // 2, f.fx + width // 2]


def _squared_sensitivity(row: Arrays, image: jax.Array, view: Arrays, logits: Logits) -> jax.Array:
  """Returns the power spectrum of the loss gradient at an image x, [H, W // 2 + 1].

  It is S(f)² = Σ_channels |F(∂loss/∂x)|², with F the Fourier transform.

  Args:
    row: the label, `row['label']`.
    image: the image x, [H, W, C].
    view: not used.
    logits: function from images [1, H, W, C] to logits.
  """
  gradient = jax.grad(lambda x: cross_entropy(logits(x[None]), row['label'][None])[0])(image)
  return (spectrum.half_magnitude(gradient) ** 2).sum(-1)
