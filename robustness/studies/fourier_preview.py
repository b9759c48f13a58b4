"""A cheap preview of a heat map: the Fourier transform of the loss gradient, one pass an image.

To first order the loss changes under v r U_f by v Σ_c r_c ⟨∇_c, U_f⟩, whose root mean square over
signs r_c = ±1 and phases of U_f is v S(f), S(f) = (Σ_c |F(∇_c)(f)|²)^½ with the orthonormal
transform. The mean of S over images is drawn beside a measured heat map, if one is given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy import stats

from robustness.attacks.losses import cross_entropy
from robustness.core.rows import Rows
from robustness.core.settings import require_fractions
from robustness.estimates.means import arrays, means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, Quantity
from robustness.evaluation import outcomes as recorded
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import Views, identity
from robustness.figures import fourier_preview as preview_figures
from robustness.fourier import spectrum
from robustness.fourier.basis import distinct_frequencies
from robustness.fourier.finished_map import BeginsWithMap
from robustness.metrics import averages, energy_fraction
from robustness.metrics.accuracy import proportion
from robustness.metrics.fourier import bands
from robustness.results import Results, Table
from robustness.wording import fourier as wording

BAND_ENERGY = 'band_energy'
BANDS = ('low', 'mid', 'high')

SENSITIVITY_PER_CELL = Quantity(
  'sensitivity_per_cell',
  'squared sensitivity of a frequency of a band, relative to the mean frequency',
  kind='ratio',
  headline=True,
)
SENSITIVITY = Quantity(
  'sensitivity', 'sensitivity of the loss to a frequency', kind='amount', low=0
)
RANK_CORRELATION = Quantity(
  'rank_correlation',
  "Spearman's rank correlation of sensitivity and measured error",
  kind='amount',
  low=-1,
  high=1,
)


@dataclasses.dataclass(frozen=True)
class Study(BeginsWithMap, study.Study):
  """Settings of the study `fourier_preview`.

  Attributes:
    heat_map: workdir of a finished heat map to compare with, of the classifier of the same label or
      of all if it has one; '' draws the preview alone.
    confidence: of all intervals.
  """

  name: ClassVar[str] = 'fourier_preview'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier',)
  lists_failures: ClassVar[bool] = False

  heat_map: str = ''
  confidence: float = 0.95

  def __post_init__(self) -> None:
    require_fractions(self, 'config.study', 'confidence')

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the identity view, which sums S(f) of the gradient at the image over rows, and
    measures how much of Σ S(f)² of each row is in each band of frequencies."""
    if self._map is not None:
      self._map.check_shape(image_shape)
    height, width = image_shape[:2]
    masks = bands(*_axes(height, width), (height, width)).values()
    weights = np.stack([spectrum.measures(mask).high for mask in masks])

    return dataclasses.replace(
      identity(),
      show=lambda key, row, view, logits: row['image'],
      uses_classifier=True,
      measure=lambda *shown: {BAND_ENERGY: (_squares(*shown)[None] * weights).sum((1, 2))},
      total=lambda *shown: {'sensitivity': jnp.sqrt(_squares(*shown))},
    )

  def check_rows(self, rows: Rows) -> None:
    """Refuses rows with several labels each: the gradient is that of the loss of one."""
    study.require_single_labels(rows, 'the preview')

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns the mean sensitivity, and its rank correlation with a measured map.

    Numbers: `clean_error`, and `sensitivity_per_cell/<band>`, the mean over images of the mean of
    S(f)² over the cells of a band (low, mid, high; `robustness.metrics.fourier.bands`) ÷ its mean
    over all cells: 1 where a band is as sensitive as the whole map.

    Arrays: `sensitivity` [H, W] in units of loss per unit of norm, zero frequency in the centre,
    with `frequency_y` and `frequency_x`; with a heat map `measured_error` over `measured_y`
    and `measured_x`. The table `rank correlation` has Spearman's ρ over the distinct frequencies of
    the measured window. It describes two maps and has no interval: neighbouring frequencies are no
    independent draws.
    """
    height, width = image_shape[:2]
    axis_y, axis_x = _axes(height, width)
    findings = Findings(arrays={'frequency_y': axis_y, 'frequency_x': axis_x})
    rows: list[list[Any]] = []
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      records = evaluation.records
      n = records.layout.num_rows
      wrong = int((records.column('rank') > 0).sum())
      findings.numbers[f'{prefix}clean_error'] = proportion(wrong, n, self.confidence)
      sensitivity = spectrum.whole(records.total('sensitivity')[0], width) / n
      findings.arrays[f'{prefix}sensitivity'] = sensitivity.astype(np.float32)
      self._bands(findings, records, prefix, (height, width))
      if self._map is not None:
        error = self._map.error(evaluation.label)
        findings.arrays[f'{prefix}measured_error'] = error
        rows.append([evaluation.label, *self._correlation(sensitivity, error)])
    findings.estimates = self._estimates(evaluations, findings, (height, width))
    if self._map is not None:
      findings.arrays['measured_y'], findings.arrays['measured_x'] = self._map.axes
      findings.tables['rank correlation'] = Table(
        ('classifier', "Spearman's rho of sensitivity and measured error", 'frequencies'), rows
      )
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (SENSITIVITY_PER_CELL, CLEAN_ERROR, SENSITIVITY, RANK_CORRELATION)

  def _estimates(
    self, evaluations: Sequence[Evaluation], findings: Findings, size: tuple[int, int]
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results; a frequency and its mirror are one row."""
    wrong = recorded.outcomes(evaluations, recorded.wrong)
    parts = [means(CLEAN_ERROR, wrong, confidence=self.confidence, test=True)]
    frequencies = distinct_frequencies(*size)
    _, first = np.unique(frequencies.cell, return_index=True)
    places = pd.DataFrame({'frequency_y': frequencies.fy, 'frequency_x': frequencies.fx})
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      label, records = evaluation.label, evaluation.records
      n = records.layout.num_rows
      sensitivity = findings.arrays[f'{prefix}sensitivity'].ravel()[first]
      parts.append(arrays(SENSITIVITY, label, places, sensitivity, n=n))
      by_band = self._per_cell(records, size)
      if by_band:
        values = np.stack(list(by_band.values()), 1)
        table = Outcomes({label: values}, pd.DataFrame({'band': list(by_band)}))
        parts.append(means(SENSITIVITY_PER_CELL, table, ('band',), confidence=self.confidence))
      if self._map is not None:
        whole = findings.arrays[f'{prefix}sensitivity'], findings.arrays[f'{prefix}measured_error']
        rank, count = self._correlation(*whole)
        one = pd.DataFrame(index=range(1))
        parts.append(arrays(RANK_CORRELATION, label, one, np.array([rank]), n=count))
    return parts

  def _per_cell(self, records: Records, size: tuple[int, int]) -> dict[str, np.ndarray]:
    """Returns each image's mean over the cells of a band ÷ that over all cells, [N], by band."""
    if f'measure/{BAND_ENERGY}' not in records.read(0, 0).arrays:
      return {}
    energy = records.table(f'measure/{BAND_ENERGY}')[:, 0].astype(float)
    share = energy_fraction(energy, energy.sum(1, keepdims=True))
    cells = {band: int(mask.sum()) for band, mask in bands(*_axes(*size), size).items()}
    whole = sum(cells.values())
    return {
      band: share[:, index] * (whole / cells[band])
      for index, band in enumerate(BANDS)
      if cells[band]
    }

  def _bands(
    self, findings: Findings, records: Records, prefix: str, size: tuple[int, int]
  ) -> None:
    """Adds the means of bands, a cell; records of earlier versions have none.

    A band's total says how many cells it has: of a map of 32 × 32, 831 of 1024 are high.
    """
    for band, values in self._per_cell(records, size).items():
      number = averages(values, self.confidence, SENSITIVITY_PER_CELL.range).number()
      findings.numbers[f'{prefix}sensitivity_per_cell/{band}'] = number

  def _correlation(self, sensitivity: np.ndarray, error: np.ndarray) -> tuple[float, int]:
    """Returns Spearman's ρ over the distinct frequencies that were measured, and their number."""
    height, width = sensitivity.shape
    rows, columns = error.shape
    whole = (rows, columns) == (height, width)
    cell = distinct_frequencies(height, width, 0 if whole else rows).cell
    _, first = np.unique(cell, return_index=True)
    top, left = height // 2 - rows // 2, width // 2 - columns // 2
    inside = sensitivity[top : top + rows, left : left + columns]
    pair = inside.ravel()[first], error.ravel()[first]
    if min(np.ptp(values) for values in pair) == 0:
      return float('nan'), len(first)
    return float(stats.spearmanr(*pair).statistic), len(first)

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return preview_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.preview_sentences(results)


def _axes(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the frequencies of rows and columns, zero in the centre."""
  return np.arange(height) - height // 2, np.arange(width) - width // 2


def _squares(
  row: Mapping[str, jax.Array],
  shown: jax.Array,
  view: Mapping[str, jax.Array],
  logits: Callable[[jax.Array], jax.Array],
) -> jax.Array:
  """Returns S(f)² of the gradient at an image, [H, W // 2 + 1]; XLA computes it once a step."""
  del view
  gradient = jax.grad(lambda image: cross_entropy(logits(image[None]), row['label'][None])[0])(
    shown
  )
  return (spectrum.half_magnitude(gradient) ** 2).sum(-1)
