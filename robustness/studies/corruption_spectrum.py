"""Spectra of corruptions: mean |F(C(x) - x)|, and how much of their energy is of high frequency.

Each row is shown clean and under every corruption and severity, and what the corruption changed is
measured; no classifier is used (Yin et al. 2019, sections 3 and 4.2, figure 2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.rows import Rows
from robustness.corruptions.views import CLEAN, CorruptionViews, change, gallery_figure
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import AMOUNT, Quantity
from robustness.estimates.spectra import energy_fraction, known_mean
from robustness.estimates.table import select
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import IMAGES, Evaluation, Figures, Findings, ImageShape
from robustness.evaluation.views import Views
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass, lowest_kept
from robustness.present import charts, style
from robustness.present.spectra import DECADES, spectrum_panels
from robustness.results import Results, Table

NORMALISATIONS = ('orthonormal', 'sum')
SHARE_OF_HIGH = Quantity(
  'high_frequency_fraction',
  'share of high frequency in the energy that a corruption adds',
  headline=True,
  reference='clean_high_frequency_fraction',
  paper='yin2019fourier',
)
CLEAN_SHARE = Quantity(
  'clean_high_frequency_fraction', 'share of high frequency in the energy of the images'
)
RMS = Quantity('rms', 'root mean square change of pixels', AMOUNT, low=0, headline=True)
CLEAN_RMS = Quantity('clean_rms', 'root mean square of the pixels', AMOUNT, low=0)
RADIAL = Quantity('radial_amplitude', 'mean |F| of the change', AMOUNT, low=0, headline=True)
CLEAN_RADIAL = Quantity('clean_radial_amplitude', 'mean |F| of the images', AMOUNT, low=0)
CHANGES, IMAGES_THEMSELVES = (SHARE_OF_HIGH, RMS, RADIAL), (CLEAN_SHARE, CLEAN_RMS, CLEAN_RADIAL)
BY_RADIUS = f'{RADIAL.name}_corruption_radius'
HIGH_PASS = 'high pass'
KEPT = ('keeps |f_y| from', 'keeps |f_x| from', 'share of the energy of white noise')


@dataclasses.dataclass(frozen=True)
class CorruptionSpectrum(CorruptionViews):
  """Settings, beside those of `CorruptionViews`.

  Attributes:
    channels: 'each' averages |F| over the channels, 'grey' takes |F| of their weighted sum.
    normalisation: of the discrete Fourier transform: 'orthonormal', or 'sum', which is √(HW) times
      as large (NumPy's default). Fractions of energy do not depend on it.
    severity: shown in the figure of spectra, if it is among `severities`.
  """

  title: ClassVar[str] = 'Spectra of common corruptions'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier', 'hendrycks2019benchmarking')
  needs_classifier: ClassVar[bool] = False
  quantities = (*CHANGES, *IMAGES_THEMSELVES)

  channels: str = 'each'
  normalisation: str = 'orthonormal'
  severity: int = 3
  confidence: float = 0.95

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('channels', spectrum.CHANNELS)
    self.choose('normalisation', NORMALISATIONS)

  @property
  def recording(self) -> dict[str, Any]:
    """All settings: more is measured than other studies of corruptions record."""
    return self.describe()

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view, whose spectrum is that of the images, and the corrupted ones, whose
    spectra are those of the change."""
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))

    def magnitude(
      row: Mapping[str, jax.Array], shown: jax.Array, view: Mapping[str, jax.Array]
    ) -> jax.Array:
      return spectrum.half_magnitude(change(row, shown, view), self.channels)

    return dataclasses.replace(
      super().views(image_shape),
      image_shape=image_shape,
      measure=lambda row, shown, view: measures(magnitude(row, shown, view)),
      total=lambda row, shown, view: {'spectrum': magnitude(row, shown, view).mean(-1)},
    )

  def sample_arrays(self, rows: Rows, key: jax.Array, found: Findings) -> dict[str, np.ndarray]:
    """Returns the gallery: the first image under each corruption and severity."""
    return self.gallery(rows, key)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the table of results, mean spectra as pictures, and what the high pass keeps.

    The pictures are mean |F|, zero frequency in the centre: `spectrum` [corruptions, severities, H,
    W] of the changes and `clean_spectrum` [H, W] of the images.
    """
    records, (height, width) = evaluations[0].records, image_shape[:2]
    scale = 1.0 if self.normalisation == 'orthonormal' else float(height * width) ** 0.5
    total = spectrum.whole(records.total('spectrum'), width)
    mean = (total * scale / records.layout.num_rows).astype(np.float32)
    keep = high_pass(height, width, self.bandwidth)
    lowest = lowest_kept(height, width, self.bandwidth)
    return Findings(
      estimates=list(self._estimates(records, image_shape, scale, spectrum.measures(keep).radii)),
      arrays={'clean_spectrum': mean[CLEAN], 'spectrum': self.grid(mean)},
      tables={HIGH_PASS: Table(KEPT, [[*lowest, float(keep.mean())]])},
    )

  def _estimates(
    self, records: RecordsReader, image_shape: ImageShape, scale: float, radii: np.ndarray
  ) -> Iterator[pd.DataFrame]:
    """Yields the table of results.

    An image that a corruption leaves as it is has no share of high frequency; n says how many have
    one. Means over severities are over the images' own means.
    """
    views = self.facets(image_shape)
    clean = views.corruption.isna().to_numpy()
    energy = records.table('measure/energy').astype(float)
    pixels = np.prod(image_shape[:2]) * (1 if self.channels == 'grey' else image_shape[2])
    share = energy_fraction(records.table('measure/high_energy'), energy)
    for k, values in enumerate((share, np.sqrt(energy / pixels))):
      by_view = Outcomes({IMAGES: values}, views)
      yield self.means(IMAGES_THEMSELVES[k], by_view, where=clean)
      own_means = known_mean(self.by_corruption(values))
      by_name = Outcomes({IMAGES: own_means}, pd.DataFrame({'corruption': self.names}))
      yield self.means(CHANGES[k], by_name, ('corruption',))
      yield self.means(CHANGES[k], by_view, ('corruption', 'severity'))
    rings = scale * records.table('measure/rings').astype(float)
    at = views.loc[views.index.repeat(len(radii))].assign(radius=np.tile(radii, len(views)))
    by_ring = Outcomes({IMAGES: rings.reshape(len(rings), -1)}, at)
    yield self.means(CLEAN_RADIAL, by_ring, ('radius',), where=clean.repeat(len(radii)))
    for facets in (('corruption', 'radius'), ('corruption', 'severity', 'radius')):
      yield self.means(RADIAL, by_ring, facets)

  def figures(self, results: Results) -> Figures:
    """Returns those of the table, the mean spectra and one image under every corruption."""
    figures = charts.draw(results)
    figure, caption = figures[BY_RADIUS]
    own = select(results.table, CLEAN_RADIAL.name, radius=...)
    largest = max(results.table.value[results.table.quantity == RADIAL.name].max(), own.value.max())
    for axes in figure.axes:
      axes.plot(own.radius.astype(float), own.value, color='0.3', linestyle='--', linewidth=0.8)
      style.log_scale(axes)
      axes.set_ylim(largest * 10.0**-DECADES, 1.5 * largest)
    figures[BY_RADIUS] = figure, f'{caption} Dashed: the images.'
    middle = self.levels[len(self.levels) // 2]
    severity = self.severity if self.severity in self.levels else middle
    shares = select(results.table, SHARE_OF_HIGH.name, corruption=..., severity=severity)
    share = select(results.table, CLEAN_SHARE.name)
    titles = [
      f'{name}, {style.percent(value)}'
      for name, value in zip(
        ('clean images', *(name.replace('_', ' ') for name in self.names)),
        (*share.value, *shares.value),
        strict=True,
      )
    ]
    place = self.levels.index(severity)
    spectra = [results.arrays['clean_spectrum'], *results.arrays['spectrum'][:, place]]
    sides = (np.arange(side) - side // 2 for side in spectra[0].shape)
    figures['spectra'] = (
      spectrum_panels(titles, spectra, *sides),
      f'Mean |F(x)| of the clean images, and mean |F(C(x) − x)| at severity {severity}, with the '
      f'share of high frequency in the energy; {own.n.iloc[0]} images, zero frequency in the '
      'centre, one logarithmic scale.',
    )
    caption = 'One image under every corruption and severity.'
    gallery = results.arrays['gallery']
    figures['gallery'] = gallery_figure(self.names, self.levels, gallery, caption)
    return figures
