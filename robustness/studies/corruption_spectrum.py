"""Spectra of corruptions: mean |F(C(x) - x)|, and how much of their energy is of high frequency.

Each row is shown clean and under every corruption and severity, and what the corruption changed is
measured; no classifier is used (Yin et al. 2019, sections 3 and 4.2, figure 2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.rows import Rows
from robustness.core.settings import choice, require_fractions
from robustness.corruptions.views import CLEAN, CorruptionViews, change
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import IMAGES, Evaluation, Findings
from robustness.evaluation.views import Views
from robustness.figures import corruption_spectrum as spectrum_figures
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass, lowest_kept
from robustness.metrics import averages, energy_fraction
from robustness.metrics.spectra import Averages, known_mean
from robustness.results import Results, Table
from robustness.wording import corruptions as wording

NORMALISATIONS = ('orthonormal', 'sum')
HIGH_FREQUENCY_FRACTION = Quantity(
  'high_frequency_fraction',
  'share of high frequency in the energy that a corruption adds',
  headline=True,
  paper='yin2019fourier',
)
RMS = Quantity('rms', 'root mean square change of pixels', kind='amount', low=0)
RADIAL = Quantity('radial_amplitude', 'amplitude of the change', kind='amount', low=0)


@dataclasses.dataclass(frozen=True)
class Study(CorruptionViews, study.Study):
  """Settings of the study `corruption_spectrum`, beside those of `CorruptionViews`.

  Attributes:
    channels: 'each' averages |F| over the channels, 'grey' takes |F| of their weighted sum.
    normalisation: of the discrete Fourier transform: 'orthonormal', or 'sum', which is √(HW) times
      as large (NumPy's default). Fractions of energy do not depend on it.
    severity: shown in the figure of spectra, if it is among `severities`.
    confidence: of all intervals.
  """

  name: ClassVar[str] = 'corruption_spectrum'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier', 'hendrycks2019benchmarking')
  needs_classifier: ClassVar[bool] = False

  channels: str = 'each'
  normalisation: str = 'orthonormal'
  severity: int = 3
  confidence: float = 0.95

  def __post_init__(self) -> None:
    super().__post_init__()
    choice('config.study.channels', self.channels, spectrum.CHANNELS)
    choice('config.study.normalisation', self.normalisation, NORMALISATIONS)
    require_fractions(self, 'config.study', 'confidence')

  @property
  def recording(self) -> dict[str, Any]:
    """All settings: more is measured than other studies of corruptions record."""
    return self.described

  def views(self, image_shape: tuple[int, int, int]) -> Views:
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

  def sample_arrays(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the gallery: the first image under each corruption and severity."""
    return self.gallery(rows, key)

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns mean spectra, energy fractions of high frequency, and the sizes of the changes.

    Arrays, of K corruptions and S severities: `spectrum` [K, S, H, W] and `clean_spectrum` [H, W]
    with `frequency_y` and `frequency_x`; with `_low` and `_high` `radial` [K, S, R], `clean_radial`
    [R] (at `radius`), `high_frequency_fraction` and `rms` [K, S]. An image that a corruption leaves
    as it is has no fraction; n says how many have one.
    """
    records = evaluations[0].records
    findings = Findings(
      arrays={'corruption': np.array(self.names), 'severity': np.array(self.severities)}
    )
    self._spectra(findings, records, image_shape)
    self._energies(findings, records, image_shape)
    findings.estimates = self._estimates(records, image_shape, findings.arrays['radius'])
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (HIGH_FREQUENCY_FRACTION, RMS, RADIAL)

  def _estimates(
    self, records: Records, image_shape: tuple[int, int, int], radii: np.ndarray
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results; those of the images themselves have corruption
    'clean'."""
    levels = [(name, severity) for name in self.names for severity in self.severities]
    views = pd.DataFrame([('clean', None), *levels], columns=['corruption', 'severity'])
    energy = records.table('measure/energy').astype(float)
    channels = 1 if self.channels == 'grey' else image_shape[2]
    parts = []
    for quantity, values in (
      (HIGH_FREQUENCY_FRACTION, energy_fraction(records.table('measure/high_energy'), energy)),
      (RMS, np.sqrt(energy / (np.prod(image_shape[:2]) * channels))),
    ):
      by_severity = Outcomes({IMAGES: values}, views)
      known = known_mean(self.by_corruption(values))
      whole = pd.DataFrame({'corruption': ['clean', *self.names]})
      by_corruption = Outcomes({IMAGES: np.column_stack([values[:, CLEAN], known])}, whole)
      parts += [
        means(quantity, by_corruption, ('corruption',), confidence=self.confidence),
        means(quantity, by_severity, ('corruption', 'severity'), confidence=self.confidence),
      ]
    rings = self._scale(image_shape) * records.table('measure/rings').astype(float)
    clean = np.arange(len(views)) == CLEAN
    for place, radius in enumerate(radii.tolist()):
      amplitude = Outcomes({IMAGES: rings[..., place]}, views)
      for by, where in ((('corruption',), clean), (('corruption', 'severity'), ~clean)):
        parts.append(
          means(
            RADIAL,
            amplitude,
            by,
            confidence=self.confidence,
            where=where,
            facets={'radius': radius},
          )
        )
    return parts

  def _scale(self, image_shape: tuple[int, int, int]) -> float:
    return 1.0 if self.normalisation == 'orthonormal' else float(np.prod(image_shape[:2])) ** 0.5

  def _spectra(
    self, findings: Findings, records: Records, image_shape: tuple[int, int, int]
  ) -> None:
    (height, width), scale = image_shape[:2], self._scale(image_shape)
    mean = spectrum.whole(records.total('spectrum'), width) * scale / records.layout.num_rows
    radial = averages(scale * records.table('measure/rings'), self.confidence, RADIAL.range)
    keep = high_pass(height, width, self.bandwidth)
    findings.arrays.update(
      {
        'clean_spectrum': mean[CLEAN].astype(np.float32),
        'spectrum': self.grid(mean).astype(np.float32),
        'frequency_y': np.arange(height) - height // 2,
        'frequency_x': np.arange(width) - width // 2,
        'radius': spectrum.measures(keep).radii,
        'high_pass_lowest': np.array(lowest_kept(height, width, self.bandwidth)),
        'high_pass_share': np.array(keep.mean()),
      }
    )
    for name, values in radial.arrays('radial').items():
      findings.arrays[f'clean_{name}'] = values[CLEAN]
      findings.arrays[name] = self.grid(values)

  def _energies(
    self, findings: Findings, records: Records, image_shape: tuple[int, int, int]
  ) -> None:
    energy = records.table('measure/energy').astype(float)
    channels = 1 if self.channels == 'grey' else image_shape[2]
    quantities = {
      HIGH_FREQUENCY_FRACTION: energy_fraction(records.table('measure/high_energy'), energy),
      RMS: np.sqrt(energy / (np.prod(image_shape[:2]) * channels)),
    }
    means = {}
    for quantity, values in quantities.items():
      name, bounds = quantity.name, quantity.range
      mean = averages(values, self.confidence, bounds)
      findings.arrays.update({n: self.grid(v) for n, v in mean.arrays(name).items()})
      findings.numbers[f'{name}/clean'] = mean.number(CLEAN)
      means[name] = averages(known_mean(self.by_corruption(values)), self.confidence, bounds)
      for k, corruption in enumerate(self.names):
        findings.numbers[f'{name}/{corruption}'] = means[name].number(k)
    findings.tables['high_frequency_fraction'] = self._table(findings, means)

  def _table(self, findings: Findings, means: Mapping[str, Averages]) -> Table:
    columns = ('corruption', 'mean', *(f'severity {s}' for s in self.severities), 'rms change', 'n')
    by_severity = findings.arrays['high_frequency_fraction']
    fraction, rms = means['high_frequency_fraction'], means['rms']
    return Table(
      columns,
      [
        [
          name,
          float(fraction.value[k]),
          *by_severity[k].tolist(),
          float(rms.value[k]),
          int(fraction.n[k]),
        ]
        for k, name in enumerate(self.names)
      ],
    )

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return spectrum_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.spectrum_sentences(results)
