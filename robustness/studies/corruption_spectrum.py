"""Spectra of corruptions: mean |F(C(x) − x)|, and the share of its energy at high frequencies.

Each image x is shown clean and under every corruption C and severity, generated or stored, and the
change is measured; no classifier is used (Yin et al. 2019, sections 3 and 4.2, figure 2).
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.core.registry import setting, word
from robustness.core.rows import Batch, Rows, with_column
from robustness.corruptions import stored
from robustness.corruptions.names import CLEAN_PART, StoredPart
from robustness.corruptions.stored import CLEAN_IMAGE, StoredOrMade
from robustness.corruptions.views import CLEAN, change, gallery_figure
from robustness.estimates.means import energy_fraction, known_mean
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity, declare_amount
from robustness.estimates.table import select
from robustness.evaluation.outcomes import versions
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import IMAGES, Evaluation, Figures, Findings, ImageShape
from robustness.evaluation.views import Arrays, Views
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass, lowest_kept
from robustness.present import charts, style
from robustness.present.maps import DECADES, spectrum_panels
from robustness.present.notation import sentence
from robustness.results import Results, Table

NORMALISATIONS = ('orthonormal', 'sum')
"""Scales of the discrete Fourier transform, see the setting `normalisation`."""
SHARE_OF_HIGH = Quantity(
  'high_frequency_fraction',
  'share of high frequency in the energy that a corruption adds',
  headline=True,
  reference='clean_high_frequency_fraction',
  statistic=energy_fraction,
)
CLEAN_SHARE = Quantity(
  'clean_high_frequency_fraction',
  'share of high frequency in the energy of the images',
  statistic=energy_fraction,
)


def root_mean_square(energy: np.ndarray, pixels: int) -> np.ndarray:
  """Converts an energy, the sum of squares of `pixels` values, to their root mean square."""
  return np.sqrt(energy / pixels)


_rms = functools.partial(declare_amount, statistic=root_mean_square)
"""Returns a quantity that is a root mean square of energies, given its name and words."""
_radial = functools.partial(declare_amount, statistic=np.positive)
"""Returns a quantity that is a mean of amplitudes |F|, given its name and words."""
RMS = _rms('rms', 'root mean square change of pixels', headline=True)
CLEAN_RMS = _rms('clean_rms', 'root mean square of the pixels')
RADIAL = _radial('radial_amplitude', 'mean |F| of the change', headline=True)
CLEAN_RADIAL = _radial('clean_radial_amplitude', 'mean |F| of the images')
BY_RADIUS = f'{RADIAL.name}_corruption_radius'
"""Name of the default figure of amplitudes by |f|."""
HIGH_PASS = 'high pass'
"""Title of the table of what the high pass keeps."""
SLOTS = 'slots'
"""Name of the column with the sum that the spectrum of an image is added to, see `_with_slots`."""
MOST_ROWS = 512
"""Most rows of a shard of records, unless the config asks for more."""
HIGH_PASS_COLUMNS = ('keeps |f_y| from', 'keeps |f_x| from', 'share of the energy of white noise')
"""Columns of the table `HIGH_PASS`, which has one row."""


@dataclasses.dataclass(frozen=True)
class CorruptionSpectrum(StoredOrMade):
  """A study of the Fourier spectra of corruptions, without a classifier.

  Attributes:
    channels: 'each' averages the amplitudes |F| over the colour channels. 'grey' takes |F| of the
      grey image .299 R + .587 G + .114 B.
    normalisation: scale of the discrete Fourier transform, 'orthonormal' or 'sum' (NumPy's default,
      √(HW) times as large). Fractions of energy do not depend on it.
    severity: severity in the figure of spectra.
  """

  title = 'Spectra of common corruptions'
  needs_labels = False
  papers = ('yin2019fourier', 'hendrycks2019benchmarking')
  needs_classifier = False
  needs_clean = True
  quantities = (SHARE_OF_HIGH, RMS, RADIAL, CLEAN_SHARE, CLEAN_RMS, CLEAN_RADIAL)

  channels: str = word('each', spectrum.CHANNELS)
  normalisation: str = word('orthonormal', NORMALISATIONS)
  severity: int = setting(3, 'in 1..5', lambda x: 1 <= x <= 5)

  @property
  def recording(self) -> dict[str, Any]:
    """The settings on which recorded spectra depend: all except the confidence level."""
    return {key: value for key, value in self.describe().items() if key != 'confidence'}

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view, then a view for each corruption and severity.

    A view is one way to perturb each image. The spectra of clean images are measured in the clean
    view, and the spectra of the changes by corruptions in the others.
    """
    return dataclasses.replace(
      super().views(image_shape),
      image_shape=image_shape,
      measure=self._measure,
      total=self._total,
      add_columns=_with_slots if self.is_stored else None,
    )

  def _measure(self, row: Arrays, image: jax.Array, view: Arrays) -> Arrays:
    """Returns the energies and the mean amplitudes by frequency |f| of a corruption's change.

    See `_magnitude` for the arguments.
    """
    height, width, _ = image.shape
    measures = spectrum.measures(high_pass(height, width, self.bandwidth))  # called with |F|
    return measures(self._magnitude(row, image, view))

  def _magnitude(self, row: Arrays, image: jax.Array, view: Arrays) -> jax.Array:
    """Returns the Fourier amplitudes |F| of a corruption's change, [H, W // 2 + 1, C].

    C is 1 if `channels` is 'grey'.

    Args:
      row: the clean image, [H, W, C], and for stored images the severity.
      image: the corrupted image, [H, W, C].
      view: the severity of generated images. If it is 0, the amplitudes are of `image` itself.
    """
    if self.is_stored:
      clean, severity = row[CLEAN_IMAGE], row['severity']
    else:
      clean, severity = row['image'], view['severity']
    return spectrum.half_magnitude(change(image, clean, severity), self.channels)

  def _total(self, row: Arrays, image: jax.Array, view: Arrays) -> dict[str, jax.Array]:
    """Returns one image's contribution to the mean spectrum, as {'spectrum': amplitudes}.

    The amplitudes are averaged over channels, [H, W // 2 + 1]. They are later summed over images.
    Stored images show different corruptions, and therefore have S sums (`_with_slots`). Their
    amplitudes are [S, H, W // 2 + 1], and 0 except in the entry of the sum that the image is added
    to.
    """
    mean = self._magnitude(row, image, view).mean(-1)
    if self.is_stored:
      mean = jnp.multiply.outer(row[SLOTS], mean)  # [S, H, W // 2 + 1]; `SLOTS` is one-hot, [S]
    return {'spectrum': mean}

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns the first image of the data under each corruption and severity, for a figure."""
    return self.gallery(rows, key)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Reduces what was measured for each image to the findings of the study.

    The study shows each image x in V = 1 + corruptions · severities views: clean, and as C(x) under
    each corruption at each severity. It measures the Fourier amplitudes |F| of x and of the changes
    C(x) − x.

    Args:
      evaluations: one evaluation, with the records of all images.
      image_shape: (H, W, channels) of the images.

    Returns:
      Findings with
        `estimates`, tables of results: shares of high frequency, and amplitudes;
        `arrays`: `clean_spectrum` [H, W], the mean |F| of clean images with zero frequency in the
          centre, and `spectrum` [corruptions, severities, H, W], the mean |F| of changes.
          `corruption` and `severity` name its first two axes;
        `tables`: a description of the high-pass filter that defines high frequencies.
    """
    height, width = image_shape[:2]
    # If corrupted images are stored, each is a row of `evaluations`. `joined` brings the rows of
    # one clean image together as views, and `study` has the corruptions and severities found.
    study, recorded = self.joined(evaluations, image_shape)
    records, by_image = evaluations[0].records, recorded.evaluations[0].records
    # |F| summed over all images, in each view, for one half of the frequencies.
    total = _total_by_part(records, study.parts) if self.is_stored else records.total('spectrum')
    # Recorded amplitudes are those of the orthonormal transform; 'sum' leaves out its factor.
    scale = 1.0 if self.normalisation == 'orthonormal' else float(height * width) ** 0.5
    # Mean |F| at all frequencies, [V, H, W], the clean view first.
    mean = (spectrum.full_map(total, width) * scale / by_image.layout.num_rows).astype(np.float32)
    is_high = high_pass(height, width, self.bandwidth)  # bool [H, W]
    lowest = lowest_kept(height, width, self.bandwidth)  # high frequencies begin here: f_y and f_x
    return Findings(
      estimates=list(study._estimates(by_image, image_shape, scale)),
      arrays={
        'clean_spectrum': mean[CLEAN],
        # [V − 1, H, W] becomes [corruptions, severities, H, W]
        'spectrum': study.grid(mean[CLEAN + 1 :]),
        'corruption': np.array(study.names),
        'severity': np.array(study.severities),
      },
      tables={HIGH_PASS: Table(HIGH_PASS_COLUMNS, [[*lowest, float(is_high.mean())]])},
    )

  def _estimates(
    self, records: RecordsReader, image_shape: ImageShape, scale: float
  ) -> Iterator[pd.DataFrame]:
    """Yields tables of results: share of high frequency, size of the change, amplitude by |f|.

    The rows of a table are estimates with intervals: means over images of a value in one view. A
    view is an image under one corruption at one severity, where the values describe the change
    C(x) − x; or the clean image x, where they describe x itself. An image that a corruption leaves
    unchanged has no share and is not counted. For means over severities, each image's values are
    averaged first.

    Args:
      records: what was measured for N images in V views.
      image_shape: height, width and channels of the images.
      scale: factor for the amplitudes |F|: √(HW) for the normalisation 'sum', 1 for 'orthonormal'.
    """
    views = self.facets(image_shape)  # V rows with `corruption` and `severity`, None if clean
    is_clean = views.corruption.isna().to_numpy()  # bool [V]
    energy = records.table('measure/energy').astype(float)  # Σ |F|² over frequencies, [N, V]
    high_energy = records.table('measure/high_energy')  # the sum over high frequencies, [N, V]
    # The number of values that an energy is a sum of: the pixels of all channels, or of one grey.
    num_values = math.prod(image_shape[:2]) if self.channels == 'grey' else math.prod(image_shape)
    clusters = versions(records)  # stored versions of one image are resampled together
    # The quantity, the same of clean images, and the arguments of the statistic of both.
    for quantity, clean_quantity, arguments in (
      (SHARE_OF_HIGH, CLEAN_SHARE, (high_energy, energy)),
      (RMS, CLEAN_RMS, (energy, num_values)),
    ):
      # Results have `IMAGES` in place of a classifier. `by_view` has a value per image and view.
      by_view = Outcomes.from_fields(quantity, {IMAGES: arguments}, views, clusters=clusters)
      yield self.means(clean_quantity, by_view, where=is_clean)
      # The mean of an image over severities, without those at which it has no share.
      by_corruption = by_view.combined(('corruption',), known_mean)
      yield self.means(quantity, by_corruption, ('corruption',))
      yield self.means(quantity, by_view, ('corruption', 'severity'))
    # The mean |F| in each ring of frequencies of about equal |f|, [N, V, rings].
    amplitudes = {IMAGES: records.table('measure/rings').astype(float) * scale}
    # |f| of each ring, in cycles per image.
    radii = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth)).radii
    # Each pair of view and ring counts as a view below, V · rings in all.
    ring_views = views.merge(pd.DataFrame({'radius': radii}), how='cross')
    by_ring = Outcomes.from_fields(RADIAL, amplitudes, ring_views, clusters=clusters)
    yield self.means(CLEAN_RADIAL, by_ring, ('radius',), where=is_clean.repeat(len(radii)))
    for facets in (('corruption', 'radius'), ('corruption', 'severity', 'radius')):
      yield self.means(RADIAL, by_ring, facets)

  def figures(self, results: Results) -> Figures:
    """Draws the figures of this study of the spectra of corruptions.

    They are the default figures of the quantities, the mean spectra of all corruptions at one
    severity, and a gallery of one corrupted image.

    Args:
      results: the results of the study: a table of estimates, and arrays such as spectra.

    Returns:
      {name: (figure, caption)}.
    """
    figures = charts.draw(results)  # the default figures
    for name, (figure, caption) in figures.items():
      for legend in figure.legends:  # no classifier is measured, only the images
        legend.remove()
      if name.startswith(SHARE_OF_HIGH.name):  # the caption says which frequencies are high
        figures[name] = figure, f'{caption} {sentence(_high_in_words(results))}'
    figure, caption = figures[BY_RADIUS]  # amplitudes |F| over the distance |f| from frequency 0
    # `...` selects the estimates that have any value in the column.
    clean = select(results.table, CLEAN_RADIAL.name, radius=...)
    _add_clean_amplitudes(figure, clean, results.table[results.table.quantity == RADIAL.name])
    figures[BY_RADIUS] = figure, f'{caption} Dashed: the clean images themselves.'
    shares = select(results.table, SHARE_OF_HIGH.name, corruption=..., severity=...)
    # Corruptions and severities without repetition, in the order of the table.
    names, levels = list(dict.fromkeys(shares.corruption)), list(dict.fromkeys(shares.severity))
    figures['spectra'] = self._spectra(results, names, levels, num_images=clean.n.iloc[0])
    caption = 'One image under every corruption and severity.'
    figures['gallery'] = gallery_figure(names, levels, results.arrays['gallery'], caption)
    return figures

  def _spectra(
    self, results: Results, names: Sequence[str], levels: Sequence[int], num_images: int
  ) -> tuple[Figure, str]:
    """Returns a figure of the mean spectra of corruptions at one severity, and its caption.

    The severity is the setting `severity`, or the middle one if that one was not measured.

    Args:
      results: the results of the study.
      names: the corruptions, in the order of the array `spectrum`.
      levels: the severities, in the order of the array `spectrum`.
      num_images: number of images, for the caption.
    """
    severity = self.severity if self.severity in levels else levels[len(levels) // 2]
    shares = select(results.table, SHARE_OF_HIGH.name, corruption=..., severity=severity)
    # A panel of the clean images, then one of each corruption; titles state the share.
    panels = ['clean images', *(name.replace('_', ' ') for name in names)]
    values = (*select(results.table, CLEAN_SHARE.name).value, *shares.value)
    titles = [f'{name}, {style.percent(v)}' for name, v in zip(panels, values, strict=True)]
    changes = results.arrays['spectrum'][:, levels.index(severity)]  # [corruptions, H, W]
    return (
      spectrum_panels(titles, [results.arrays['clean_spectrum'], *changes]),
      f'Mean |F(x)| of the clean images, and mean |F(C(x) − x)| at severity {severity}, with the '
      f'share of high frequency in the energy ({_high_in_words(results)}); {num_images:,} images, '
      'zero frequency in the centre, one logarithmic scale.',
    )


def _add_clean_amplitudes(figure: Figure, clean: pd.DataFrame, changes: pd.DataFrame) -> None:
  """Adds a dashed line for clean images to a figure of amplitude against frequency |f|.

  All axes get the same logarithmic scale and a legend.

  Args:
    figure: the figure with the amplitudes of corruptions.
    clean: results with the amplitudes of clean images, one row per `radius` |f|.
    changes: results with the amplitudes of corruptions.
  """
  radius = clean.radius.astype(float)
  largest = max(changes.value.max(), clean.value.max())
  for axes in figure.axes:
    for line in axes.get_lines():
      # The curve is labelled as if `IMAGES` were a classifier; other lines get no entry.
      line.set_label('change' if line.get_label() == IMAGES else '')
    axes.plot(radius, clean.value, '--', color='0.3', linewidth=0.8, label='clean images')
    style.log_scale(axes)
    axes.set_ylim(largest * 10.0**-DECADES, 1.5 * largest)
  style.legend_above(figure)


def _with_slots(rows: Rows) -> Rows:
  """Adds clean images to stored corrupted ones, and a column that says how to sum spectra.

  A mean spectrum is needed for each part: the images of one corruption and severity, which are
  consecutive. Sums are stored for blocks of at most 512 consecutive images (`MOST_ROWS`), which may
  touch several parts. A block therefore has S sums ("slots"), with S the largest number of parts in
  a block. Images of part p are added to slot p modulo S, so that the parts of a block, which are
  consecutive, have different slots.

  Returns:
    The data with the column `slots`, one-hot float32 [B, S].
  """
  number_of_part = {tuple(part): number for number, part in enumerate(stored.parts_of_rows(rows))}
  num_parts = len(number_of_part)
  part_size = rows.num_examples // num_parts
  # A block touches at most ⌈MOST_ROWS / part_size⌉ parts, or one more if it begins within a part.
  num_slots = min(num_parts, math.ceil(MOST_ROWS / part_size) + 1)

  def one_hot_slots(batch: Batch) -> np.ndarray:
    """Says for each image of a batch which sum its spectrum is added to, as one-hot [B, S].

    Images are summed by part, a corruption at one severity. `number_of_part` numbers the parts, and
    part p is added to sum p modulo S of the S sums that a block of images has.

    Args:
      batch: columns of the images, with `corruption` and `severity`.
    """
    parts = stored.parts_in(batch['corruption'], batch['severity'])
    # Padding is in no part; it is not summed, so that any slot will do.
    slots = [number_of_part.get(part, 0) % num_slots for part in parts]
    return np.eye(num_slots, dtype=np.float32)[slots]

  return with_column(stored.with_clean_images(rows), SLOTS, one_hot_slots, {})


def _high_in_words(results: Results) -> str:
  """Describes which frequencies count as high, for captions."""
  [[rows, columns, _]] = results.tables[HIGH_PASS].rows
  return f'high frequency is |f_y| ≥ {rows} and |f_x| ≥ {columns} cycles per image'


def _total_by_part(records: RecordsReader, parts: Sequence[StoredPart]) -> np.ndarray:
  """Returns summed spectra by corruption and severity, float64 [1 + P, H, W // 2 + 1].

  Entry 0 is for clean images. Results are stored in blocks of consecutive images with S sums each,
  and a block may touch several parts (corruption and severity). Sum p modulo S of a block has the
  images of part p; see `_with_slots`.

  Args:
    records: stored results, with the sums of each block.
    parts: the P pairs of corruption and severity.

  Raises:
    InputError: A block has images of more than S parts.
  """
  # {part: its number}, in order of occurrence as in `_with_slots`
  number_of_part: dict[tuple[int, int], int] = {}
  totals: dict[tuple[int, int], np.ndarray] = {}
  for shard in records.shards():
    (sums,) = shard['total/spectrum']  # [S, H, W // 2 + 1], of the only view
    # The parts of the block, without repetition and in order.
    in_block = dict.fromkeys(stored.parts_in(shard['corruption'], shard['severity']))
    if len(in_block) > len(sums):
      raise InputError(
        f'a block of config.batch_size={records.layout.block_rows} rows holds {len(in_block)} '
        f'corruptions and severities: set it to at most {MOST_ROWS}, and use another workdir.'
      )
    for part in in_block:
      number = number_of_part.setdefault(part, len(number_of_part))  # a new part gets the next one
      totals[part] = totals.get(part, 0) + sums[number % len(sums)]
  return np.stack([totals[part] for part in (CLEAN_PART, *parts)])
