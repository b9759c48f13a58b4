"""Fourier heatmaps: error, and change of each layer's output, under every Fourier basis image.

Image x is shown as x + r v U_ij, with the basis image U_ij of norm 1, the norm v and a random sign
r (Yin et al. 2019, section 2, figures 3, 4, 8 and 9): once for every distinct frequency, and once
clean. `robustness.fourier.basis` has the conventions.
"""

import dataclasses
import functools
import operator
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
import pandas as pd

from robustness.core import settings
from robustness.core.errors import KEYS, InputError, renaming_section
from robustness.core.registry import are_distinct, setting, word
from robustness.core.rows import Rows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity, declare_amount, declare_error, errors_at
from robustness.estimates.simultaneous import significant
from robustness.evaluation import one_view
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.provenance import set_differences
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape, Study
from robustness.evaluation.views import Views, ViewTable
from robustness.fourier import basis
from robustness.fourier.maps import BANDS, FREQUENCY, band_map, bands
from robustness.models.imagenet_names import in_words
from robustness.present import charts, images
from robustness.results import Results, Table

PUBLISHED_WINDOWS: dict[int, dict[float, tuple[int, ...]]] = {
  32: {4.0: (0,)},
  224: {15.7: (63,), 40.0: (0, 63)},
}
"""Sides of the squares of frequencies in the heatmaps of Yin et al. (2019), 0 for all frequencies,
by the side of the images and the norm: CIFAR-10 (figure 3) and ImageNet (figures 4 and 9).
"""
PUBLISHED_IMAGES = {32: 1000}
"""Number of random test images in figure 3; other heatmaps are of complete test sets."""

LAYER_CHANGE = declare_amount(
  'layer_change', "change of a layer's output {waves}, mean L2 norm", drawn=True
)
CLASS_ERROR = declare_error('class_error', 'top-1 error on a class {waves}', drawn=True)
IN_BAND = declare_error(
  'class_error_in_band', 'top-1 error on a class {waves}, mean over a band', drawn=True
)
SIGNIFICANT = Quantity(
  'significant_frequencies',
  "share of frequencies whose error differs significantly from the first classifier's",
)
ALL = 'all'
"""The value of `classes` for a map of every class."""


@dataclasses.dataclass(frozen=True)
class FourierHeatmap(Study):
  """A study of Fourier heatmaps: error under each Fourier basis image (Yin et al. 2019).

  Attributes:
    norm: ℓ2 norm of the perturbation in each channel, above 0. The paper has 4 for CIFAR-10 and
      15.7 for ImageNet.
    phase: phase of the waves: 'reference' is π/4, as in the authors' code, and 'cosine' is 0.
    clip: whether perturbed images are clipped to [0, 1], which the paper does not do.
    window: side of the centred square of frequencies; 0 takes all. The paper has 63 for ImageNet.
    layers: layers in which the change of the output is measured. ('stages',) means stem, stages and
      logits, as in figure 8.
    top_k: the k of a second heatmap, of top-k error, which is left out if there are no more than k
      classes.
    classes: names of classes with a heatmap each, or ('all',).
    half_width: precision. A frequency is shown to images until the confidence interval of its error
      is at most ± this wide; 0 shows it to all images. See `Study`.
  """

  title = 'Fourier heat maps'
  papers = ('yin2019fourier',)
  not_recorded = ('classes', 'top_k')

  half_width: float = 0.0
  norm: float = setting(4.0, 'a finite number above 0', lambda x: 0 < x < float('inf'))
  phase: str = word('reference', basis.PHASES)
  clip: bool = False
  window: int = 0
  layers: tuple[str, ...] = ()
  top_k: int = setting(5, 'at least 1', lambda x: x >= 1)
  classes: tuple[str, ...] = setting((), 'distinct', are_distinct)
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    """Raises InputError if the setting `classes` is not valid.

    `classes` names the classes that get a heatmap of error over Fourier frequencies each; ('all',)
    names all classes. It must be () if `half_width` is set: a heatmap of a class needs all images
    of the class at every frequency, and `half_width` stops at a frequency as soon as its interval
    is narrow enough.
    """
    super().__post_init__()
    is_valid = ALL not in self.classes or len(self.classes) == 1
    self.require(is_valid, 'classes', f'names of classes, or {ALL!r} alone')
    valid = f'() with {KEYS.study.half_width}, which shows images in rounds'
    self.require(not (self.classes and self.half_width), 'classes', valid)

  def check_classes(self, rows: Rows) -> None:
    """Raises InputError if the setting `classes` names an unknown class, or one without any image.

    Names may be WordNet identifiers and are compared as English words. ('all',) names every class.

    Args:
      rows: the images to measure on.
    """
    names = () if self.classes == (ALL,) else self.classes
    class_numbers = _class_numbers(rows.class_names)
    labels = rows.without_images()['label'] if names else ()
    for name, english_name in zip(names, in_words(names), strict=True):
      if english_name not in class_numbers:
        settings.choice(self.key('classes'), name, (ALL, *class_numbers))  # raises SettingError
      elif class_numbers[english_name] not in labels:
        raise InputError(
          f'{self.key("classes")} names {name!r}, of which there is no image among '
          f'{rows.num_examples}: give more ({KEYS.data.num_images}; 0 takes all).'
        )

  def frequencies(self, image_shape: ImageShape) -> basis.Frequencies:
    """Returns the distinct frequencies of the heatmap, from the setting `window`."""
    with renaming_section('window', self.key('window')):  # an error states 'config.study.window'
      return basis.distinct_frequencies(image_shape[0], image_shape[1], self.window)

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view, then one view for each distinct frequency.

    A view is one way to perturb each image.
    """
    f = self.frequencies(image_shape)
    return basis.wave_views(f.fy, f.fx, image_shape, self.norm, self.phase, self.clip)

  @property
  def shown_as(self) -> dict[str, str]:
    """Describes the perturbation and its frequencies for a report.

    The keys are 'perturbation' and 'frequencies'.
    """
    return {
      'perturbation': basis.wave_in_words(self.norm, self.clip, self.phase),
      'frequencies': f'the {self.window} × {self.window} lowest' if self.window else 'all',
    }

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns deviations from published heatmaps, such as another norm of the perturbation.

    The size of the window of frequencies and the number of images are also compared.
    """
    side = image_shape[0]
    # `PUBLISHED_WINDOWS` is {size of the images: {norm: windows}}.
    norms = {size: tuple(by_norm) for size, by_norm in PUBLISHED_WINDOWS.items()}
    changed = basis.differences_from_paper(self.norm, norms, side, self.phase, self.clip)
    windows_by_norm = PUBLISHED_WINDOWS.get(side, {})
    windows = windows_by_norm.get(self.norm, ())
    if not windows:  # a norm that is not published may have the window of any published norm
      windows = tuple(sorted(set().union(*windows_by_norm.values())))
    if windows and self.window not in windows:
      published = ' and '.join(map(_window_in_words, windows))
      changed.append(f'window {_window_in_words(self.window)}, published {published}')
    if self.half_width:
      changed.append(f'each frequency on as many images as ± {self.half_width:g} takes')
    data, count = records.identity.get('data', {}), records.layout.num_rows
    return [*set_differences(data, count, PUBLISHED_IMAGES.get(side, 0)), *changed]

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, 'clean' and one per frequency, and groups of views.

    The groups are 'clean', 'all frequencies', and 'low', 'mid' and 'high frequencies'. Frequencies
    f = (fy, fx) are low for |f| < s/8, and high for |f| ≥ s/4, with s the shorter side of the
    image.
    """
    f, band_of_cell = self.frequencies(image_shape), band_map(image_shape, self.window)
    # The view of each cell of the heatmap. `f.cell` has the index of the cell's frequency, which is
    # the same for a frequency and its mirror; view 0 is the clean one.
    view_of_cell = 1 + f.cell
    by_band = {band: view_of_cell[band_of_cell == band].tolist() for band in BANDS}
    bands_with_cells = {f'{band} frequencies': views for band, views in by_band.items() if views}
    all_views = view_of_cell.ravel().tolist()
    groups = {'clean': [basis.CLEAN], 'all frequencies': all_views, **bands_with_cells}
    return ViewTable.of(basis.wave_names(f.fy, f.fx), groups)

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns the arrays for figures of perturbed images and of basis images.

    Returns:
      `sample_images` [S, H, W, C], the first image of the data, clean and under a few frequencies.
      `sample_frequencies` [S, 2], their (fy, fx), with (0, 0) for the clean image. `basis_images`
      [2 r + 1, 2 r + 1, H, W], the basis images with |fy|, |fx| ≤ r, where r is at most 3.
    """
    row = one_view.read_row(rows, 0)
    height, width, _ = row['image'].shape
    f = self.frequencies(row['image'].shape)
    # `f.cell[row, column]` is the index of the frequency at a position of the window. Frequency 0
    # is in the centre, and (−step, −step) is `step` rows above it and `step` columns to the left.
    centre_y, centre_x = (side // 2 for side in f.cell.shape)
    # Steps along the diagonal, at least 1; none in a window of one cell.
    largest_step = min(centre_y, centre_x)
    shares = (0, 0.25, 0.5, 0.75, 1) if largest_step else ()
    steps = sorted({max(1, round(largest_step * share)) for share in shares})
    diagonal = [f.cell[centre_y - step, centre_x - step] for step in steps]
    views = [basis.CLEAN, *(basis.CLEAN + 1 + index for index in diagonal)]
    # The frequencies of the basis images: a square around zero, as far as it fits in the window.
    r = min(3, (min(f.cell.shape) - 1) // 2)
    around = f.cell[centre_y - r : centre_y + r + 1, centre_x - r : centre_x + r + 1]
    wave = functools.partial(basis.basis_image, height=height, width=width, phase=self.phase)
    waves = jax.jit(jax.vmap(jax.vmap(wave)))(f.fy[around], f.fx[around])
    return {
      'sample_images': np.stack([one_view.show(self, row, view, key) for view in views]),
      'sample_frequencies': np.array([(-step, -step) for step in (0, *steps)], np.int32),
      'basis_images': np.asarray(waves),
    }

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities: errors by frequency, errors of classes, changes of layers.

    Their descriptions state the norm, as in 'under waves of norm 4'.
    """

    def with_norm(quantity: Quantity) -> Quantity:
      """Puts the norm into the description of a quantity."""
      words = quantity.words.format(waves=f'under waves of norm {self.norm:g}')
      return dataclasses.replace(quantity, words=words)

    of_classes = (with_norm(CLASS_ERROR), with_norm(IN_BAND)) if self.classes else ()
    top_k = self._errors(self.top_k) if self.top_k > 1 else ()
    return (*self._errors(1), SIGNIFICANT, *of_classes, with_norm(LAYER_CHANGE), *top_k)

  def _errors(self, k: int) -> tuple[Quantity, Quantity]:
    """Declares the top-k errors on perturbed and on clean images as reported quantities."""
    error, clean = errors_at(k)
    words = f'{error.words} under waves of norm {self.norm:g}'
    return dataclasses.replace(error, words=words, drawn=True), clean

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns a table with a row per view: its frequency, band, and radius |f|.

    The columns are `frequency_y`, `frequency_x`, `band` ('low', 'mid' or 'high') and `radius`,
    rounded to a whole number. The first row, for the clean view, is NaN.
    """
    f = self.frequencies(image_shape)
    band = bands(f.fy, f.fx, image_shape[:2])
    radius = np.floor(np.hypot(f.fy, f.fx) + 0.5)  # rounded, halves up
    views = pd.DataFrame({'frequency_y': f.fy, 'frequency_x': f.fx, 'band': band, 'radius': radius})
    with_clean = views.astype(object).reindex([-1, *range(len(f))])  # there is no row −1: NaN
    return with_clean.reset_index(drop=True)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns errors and changes of layers by frequency, and errors by band and radius |f|.

    A heatmap has a cell for each frequency of a Fourier wave that is added to the images. A wave of
    frequency f is also one of −f, so that the two cells have one view and one row of results. In
    means over frequencies every cell counts once, so most views count twice. With `half_width`,
    the number of images differs between views. Means and differences are then over the images that
    were shown in all views.

    Args:
      evaluations: for each classifier, its records of N images in V views: the clean image, then
        the image plus a wave for each distinct frequency.
      image_shape: height, width and channels of the images.
    """
    frequencies = self.frequencies(image_shape)
    # {band, or 'all': (number of cells in the window that is measured, and in the whole heatmap)}
    num_cells = self._num_cells(image_shape)
    # The number of heatmap cells of each view: 1 for the clean view, and for a frequency 2 if its
    # mirror image is another cell, else 1.
    weight = np.append(1, np.bincount(frequencies.cell.ravel(), minlength=len(frequencies)))
    recorded = Recorded(evaluations, self.facets(image_shape))
    estimates: list[pd.DataFrame] = []
    for k in recorded.top_k(self.top_k):
      error, _ = self._errors(k)  # the quantities on perturbed and on clean images
      wrong = dataclasses.replace(recorded.outcomes(error), weight=weight)
      estimates += self._error_estimates(k, wrong, num_cells)
    estimates += self._by_class(recorded, weight)
    counts = [[band, num_shown, total] for band, (num_shown, total) in num_cells.items()]
    table = Table(('frequencies', 'cells shown', 'cells of the image'), counts)
    estimates += self._layer_estimates(recorded)
    return Findings(tables={'bands': table}, estimates=estimates)

  def _error_estimates(
    self, k: int, wrong: Outcomes, num_cells: Mapping[str, tuple[int, int]]
  ) -> Iterator[pd.DataFrame]:
    """Yields tables of top-k error on clean images, and under a Fourier wave of each frequency.

    For k = 1 there are also means over all frequencies, by band (low, mid, high) and by radius |f|.
    A heatmap shows the errors, with a cell for each frequency; a setting restricts it to a window
    of low frequencies. If the window has only a part of a band, a note on the mean says so.

    Args:
      k: A prediction is right if the true class is among the k best.
      wrong: whether each of N images is wrong in each of V views, [N, V]: clean, then with the wave
        of each frequency.
      num_cells: {band, or 'all': (number of cells in the window, in the whole heatmap)}.
    """
    error, clean_error = self._errors(k)  # the quantities with waves, and on clean images
    is_perturbed = np.arange(len(wrong.views)) != basis.CLEAN
    # Only top-1 errors are tested. With `half_width` they decide when a view needs no more images.
    is_top_1 = k == 1
    yield self.means(clean_error, wrong, where=~is_perturbed, test=is_top_1, decides=is_top_1)
    by_frequency = self.means(error, wrong, FREQUENCY, test=is_top_1, decides=is_top_1)
    yield by_frequency
    if k > 1:
      return
    yield from self._significant_shares(by_frequency)
    window = f'the window of {self.window} × {self.window} shows'
    notes = {}  # {band: how much of it the window shows; '' for all of it}
    for band, (num_shown, total) in num_cells.items():
      is_complete = num_shown == total
      notes[band] = '' if is_complete else f'{window} {num_shown} of {total} cells'
    yield self.means(error, wrong, where=is_perturbed).assign(note=notes['all'])
    by_band = self.means(error, wrong, ('band',), where=is_perturbed)
    yield by_band.assign(note=[notes[band] for band in by_band['band']])
    yield self.means(error, wrong, ('radius',), where=is_perturbed)

  def _significant_shares(self, by_frequency: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yields the share of frequencies at which a classifier differs from the first one.

    There are two shares, of frequencies with significantly less error and with more. The
    false-discovery rate is over the frequencies of all classifiers.

    Args:
      by_frequency: results with the differences of top-1 error at each frequency.
    """
    differences = by_frequency[by_frequency.versus != '']  # from the first classifier
    error, _ = self._errors(1)
    is_significant = significant(differences, error, self.false_discovery_rate)
    by_classifier = differences.assign(marked=is_significant).groupby('classifier', sort=False)
    for label, rows in by_classifier:
      has_less, has_more = rows.marked & (rows.value < 0), rows.marked & (rows.value > 0)
      counts = np.array([has_less.sum(), has_more.sum()])  # numbers of frequencies
      facets = pd.DataFrame({'finding': ['less error', 'more error']})
      shares = self.arrays(SIGNIFICANT, label, facets, counts / len(rows), n=rows.n.iloc[0])
      rate = f'at a false-discovery rate of {self.false_discovery_rate:g}'
      shares['note'] = [f'{count} of {len(rows)} frequencies, {rate}' for count in counts]
      yield shares

  def _by_class(self, recorded: Recorded, weight: np.ndarray) -> Iterator[pd.DataFrame]:
    """Yields top-1 errors of single classes, by frequency and by band (low, mid, high).

    The classes are in the setting `classes`; 'all' means every class with an image.

    Args:
      recorded: recorded predictions.
      weight: [V], weight of each view (a way of perturbing images) in means over a band: the number
        of its cells in the heatmap. It is 2 for a frequency f with a mirror −f, else 1.
    """
    if not self.classes:
      return
    wrong = dataclasses.replace(recorded.outcomes(CLASS_ERROR), weight=weight)
    records = recorded.evaluations[0].records
    is_perturbed = np.arange(len(wrong.views)) != basis.CLEAN
    names = list(records.identity['classes'])
    labels = records.column('label').reshape(records.layout.num_rows, -1)
    present = [names[k] for k in np.unique(labels[labels >= 0])]  # labels are padded with −1
    class_numbers = _class_numbers(names)
    class_names = present if self.classes == (ALL,) else self.classes
    # English names, such as 'sea lion', in place of WordNet identifiers.
    for name, english_name in zip(class_names, in_words(class_names), strict=True):
      settings.choice('config.study.classes', english_name, class_numbers)  # raises SettingError
      has_class = (labels == class_numbers[english_name]).any(1)  # an image may have several labels
      of_class = wrong.of_rows(has_class)
      facets = {'class': name}
      yield self.means(CLASS_ERROR, of_class, FREQUENCY, facets=facets)
      yield self.means(IN_BAND, of_class, ('band',), where=is_perturbed, facets=facets)

  def _layer_estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields the mean change of each layer's output under each frequency.

    The change of layer h is the mean over images x of ‖z_h(x) − z_h(x̃)‖₂. Here x̃ is x with the
    basis image added, and z_h is the output of the layer. Distances are read from recorded fields
    such as 'layer_change/stage1'.
    """
    for evaluation in recorded.evaluations:
      # all blocks have the same fields, so that the first one has the names of the layers
      for name in evaluation.records.read(block=0, chunk=0).arrays:
        prefix, _, layer = name.partition('/')
        if prefix == LAYER_CHANGE.name:
          alone = Recorded([evaluation], recorded.views)
          # the statistic of one layer: the recorded field itself
          change = dataclasses.replace(LAYER_CHANGE, statistic=operator.itemgetter(name))
          yield self.means(change, alone, FREQUENCY, facets={'layer': layer})

  def _num_cells(self, image_shape: ImageShape) -> dict[str, tuple[int, int]]:
    """Counts the cells of each band: {band: (number in the window, in the whole heatmap)}.

    The bands are 'all', 'low', 'mid' and 'high'. The window is the centred square of frequencies
    that is measured.
    """
    # The band of each cell, 'low', 'mid' or 'high'; the side 0 selects the whole heatmap.
    window, full = band_map(image_shape, self.window), band_map(image_shape, 0)
    by_band = {band: (int((window == band).sum()), int((full == band).sum())) for band in BANDS}
    return {'all': (window.size, full.size), **by_band}

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and figures of a perturbed image and of basis images.

    Heatmaps of layers are scaled to their maximum; see `_with_relative_changes`.
    """
    pictures = results.arrays
    norm = f'norm {self.norm:g} in each channel'
    caption = f'One image with waves of {norm}, from low to high frequency.'
    frequencies = pictures['sample_frequencies'][1:]  # entry 0 is for the clean image
    waves = images.basis_figure(pictures['basis_images'])
    return {
      **charts.draw(_with_relative_changes(results)),
      'sample_images': basis.sample_figure(frequencies, pictures['sample_images'], caption),
      'basis': (waves, 'Basis images around zero frequency.'),
    }


def _with_relative_changes(results: Results) -> Results:
  """Divides changes of layers by their maximum over frequencies, for figures.

  Layers are sorted in network order. The name of a layer states its maximum, as in 'stage1, largest
  3.21'.
  """
  is_change = results.table['quantity'] == LAYER_CHANGE.name
  quantities = {quantity.name: quantity for quantity in results.quantities}
  if not is_change.any() or LAYER_CHANGE.name not in quantities:
    return results
  layers = [layer for facts in results.classifiers for layer in facts.get('layers', ())]
  # {layer: its position in the network}
  position = {layer: index for index, layer in enumerate(dict.fromkeys(layers))}
  changes, other_rows = results.table[is_change], results.table[~is_change]
  changes = changes.sort_values('layer', key=lambda names: names.map(position), kind='stable')
  largest = changes.groupby(['classifier', 'layer']).value.transform('max')
  titles = changes.layer + ', largest ' + largest.map('{:.3g}'.format)
  # A layer without any change has the largest 0: the division by NaN leaves it without a value.
  relative = changes[['value', 'low', 'high']].div(largest.where(largest > 0), axis=0)
  table = pd.concat([other_rows, changes.assign(layer=titles, **relative)])
  change = quantities[LAYER_CHANGE.name]
  words = f'{change.words}, share of the largest in its map'
  quantities[change.name] = dataclasses.replace(change, words=words, kind='share')
  return dataclasses.replace(results, table=table, quantities=tuple(quantities.values()))


def _window_in_words(window: int) -> str:
  """Returns the size of a window in words: '63 × 63', or 'all frequencies' for 0."""
  return f'{window} × {window}' if window else 'all frequencies'


def _class_numbers(names: Sequence[str]) -> dict[str, int]:
  """Returns {name: index of the class}, with both spellings, such as 'sea_lion' and 'sea lion'.

  Args:
    names: one name for each class, in the order of the indices.
  """
  pairs = enumerate(zip(names, in_words(names), strict=True))
  return {name: label for label, both_names in pairs for name in both_names}
