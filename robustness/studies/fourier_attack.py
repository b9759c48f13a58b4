"""Single-query Fourier attack: the worst frequencies of a Fourier heatmap, added with a large norm.

Adding a Fourier basis image needs no gradient and only the query that is counted (Yin et al. 2019,
section 4.4, figure 7 c and d). Error is not measured on the images that choose the frequencies.
"""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError, renaming_section
from robustness.core.registry import setting, word
from robustness.core.rows import Rows
from robustness.core.settings import require
from robustness.estimates.facets import ordered_facet
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity, declare_error
from robustness.estimates.table import assemble, select
from robustness.evaluation import one_view
from robustness.evaluation.outcomes import BASE, Recorded, image_numbers
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape, Recipes
from robustness.evaluation.views import Views, ViewTable
from robustness.fourier import basis
from robustness.fourier.maps import BeginsWithMap
from robustness.present import charts
from robustness.results import Results

WAVE_ERROR = declare_error('wave_error', 'top-1 error under the wave of one query alone')
QUERIES = ordered_facet(
  'queries', 'queries', place='after {} queries', words_of_many='numbers of queries'
)

PUBLISHED_NORMS = {224: (24.0, 15.7)}
"""Norms in the paper by the side of the images in pixels."""
SHOWN = 4
"""Number of perturbed images in the figure."""


@dataclasses.dataclass(frozen=True)
class FourierAttack(BeginsWithMap):
  """A study of single-query Fourier attacks (Yin et al. 2019).

  Images are perturbed by the Fourier basis images to which the classifier is most sensitive.

  Attributes:
    heat_map: folder (workdir) of a finished Fourier heatmap, which says where each classifier has
      the largest errors. Classifiers are matched by label, unless the heatmap has a single one. ''
      needs no heatmap: all frequencies are tried, a random half of the images selects the worst,
      and the other half is measured.
    norm: ℓ2 norm of the perturbation in each channel, above 0. The paper has 24 for ImageNet.
    queries: how many of the worst frequencies are tried on an image.
    phase: phase of the waves: 'reference' is π/4, as in the authors' code, and 'cosine' is 0.
    clip: whether perturbed images are clipped to [0, 1], which the paper does not do.
    window: without a heatmap, side of the centred square of frequencies to select from; 0 takes
      all.
  """

  title = 'Attack with single Fourier basis images'
  papers = ('yin2019fourier',)
  described_facets = (QUERIES,)

  heat_map: str = ''
  norm: float = setting(24.0, 'a finite number above 0', lambda x: 0 < x < float('inf'))
  queries: int = setting(10, 'at least 1', lambda x: x >= 1)
  phase: str = word('reference', basis.PHASES)
  clip: bool = False
  window: int = 0
  false_discovery_rate: float = 0.05

  def _frequencies(self, image_shape: ImageShape) -> basis.Frequencies:
    """Returns the distinct frequencies from which the worst are selected.

    They are the frequencies of the heatmap, or without a heatmap of the setting `window`.
    """
    if self._map:
      return basis.distinct_frequencies(*image_shape[:2], self._map.window)
    with renaming_section('window', self.key('window')):  # an error states 'config.study.window'
      return basis.distinct_frequencies(*image_shape[:2], self.window)

  def _candidates(self, image_shape: ImageShape) -> np.ndarray:
    """Returns the frequencies to evaluate, as ascending indices into `_frequencies`.

    A heatmap is the result of an earlier run, with the error of each classifier at each frequency.
    Without a heatmap all frequencies are evaluated. Otherwise these are the `self.queries`
    frequencies at which each classifier has the largest errors.

    Args:
      image_shape: height, width and channels of the images.
    """
    frequencies = self._frequencies(image_shape)
    if self._map is None:
      return np.arange(len(frequencies))
    self._map.check_shape(image_shape)
    labels = set(self._map.rows.classifier)
    worst = [_worst(self._map.error(label, frequencies), self.queries) for label in labels]
    return np.unique(np.concatenate(worst))

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view, then a view for each frequency to evaluate.

    A view is one way to perturb each image. Its id is the same as in a heatmap.

    Raises:
      SettingError: `queries` is larger than the number of frequencies.
    """
    num_frequencies = len(self._frequencies(image_shape))
    valid = f'at most {num_frequencies}, the number of distinct frequencies'
    self.require(self.queries <= num_frequencies, 'queries', valid)
    waves = self._waves(image_shape)
    return basis.wave_views(*waves, image_shape, self.norm, self.phase, self.clip)

  def _waves(self, image_shape: ImageShape) -> tuple[np.ndarray, np.ndarray]:
    """Returns the frequencies fy and fx of the perturbed views, int [V − 1] each.

    They are in cycles per image, vertical and horizontal. Of V views, the first is clean.
    """
    frequencies, candidates = self._frequencies(image_shape), self._candidates(image_shape)
    return frequencies.fy[candidates], frequencies.fx[candidates]

  @property
  def shown_as(self) -> dict[str, str]:
    """{'perturbation': norm and phase of the waves, and whether images are clipped}."""
    return {'perturbation': basis.wave_in_words(self.norm, self.clip, self.phase)}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns deviations from the published experiment, such as 'clipped'.

    They concern the norm, the phase and clipping.
    """
    side = image_shape[0]
    changed = basis.differences_from_paper(self.norm, PUBLISHED_NORMS, side, self.phase, self.clip)
    return [*super().differences(records, image_shape), *changed]

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views: 'clean' and one per frequency.

    The views are grouped as 'clean' and 'all frequencies'.
    """
    names = basis.wave_names(*self._waves(image_shape))
    waves = list(range(basis.CLEAN + 1, len(names)))
    return ViewTable.of(names, {'clean': [basis.CLEAN], 'all frequencies': waves})

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if no images would be left to measure the attack on.

    Some images serve to find the worst frequencies, and the attack is measured on all others. If a
    heatmap of an earlier run is given, its images have found them, so the data must have other
    images. The records of that run identify its images if it read the same data set. Without a
    heatmap, there must be two images at least that are not versions of each other.
    """
    if self._map is None:
      columns = rows.without_images()
      images = np.unique(columns[BASE if BASE in columns else 'example_id'])
      valid = 'at least 2, not versions of one image'
      require(len(images) >= 2, 'config.data.num_images', rows.num_examples, valid)
    elif self._map.shares_images(rows.description):
      # Both runs read the same data set. With these keys equal, they chose the same images of it.
      choice_of_images = 'num_examples', 'subset_seed'
      data_of_map = self._map.results.data
      if all(rows.description.get(key) == data_of_map.get(key) for key in choice_of_images):
        raise InputError(
          f'{KEYS.study.heat_map} {self.heat_map!r} was measured on the very images of this run, '
          'and frequencies must not be chosen on the images that they are measured on: set another '
          f"{KEYS.data.split} or config.seed with {KEYS.data.num_images}, or heat_map=''."
        )
      self._map.records()  # only checks: raises InputError if they are missing

  def _measured(self, records: RecordsReader) -> np.ndarray:
    """Returns which images are measured, bool [N]: those that did not select frequencies.

    Frequencies are selected on the images of the heatmap, or else on a random half of the data.

    Args:
      records: recorded predictions for N images.
    """
    count = records.layout.num_rows
    if self._map is None:
      image = image_numbers(records)
      # A distinct random number for each image; all its versions have the same.
      random_number = np.random.default_rng(0).permutation(image.max() + 1)[image]
      return random_number % 2 == 1
    is_unseen = ~self._map.are_measured(records)
    if not is_unseen.any():
      raise InputError(
        f'all {count} images of this run are among those of {KEYS.study.heat_map} '
        f'{self.heat_map!r}, which chose the frequencies: take other images.'
      )
    return is_unseen

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported top-1 errors: after n queries, on clean images, and under single waves.

    The description of the first states the norm of the waves.
    """
    words = f'{ERROR.words} under the worst waves of norm {self.norm:g}'
    return (dataclasses.replace(ERROR, words=words), CLEAN_ERROR, WAVE_ERROR)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Computes the success of an attack that adds single Fourier waves to images.

    The attack queries the classifier with an image plus one wave at a time, first at the frequency
    at which the classifier has the largest error, then at the next worst. After n queries an image
    counts as wrong if any of them makes it wrong. A heatmap of an earlier run (`self._map`) gives
    the errors that select the worst frequencies. Without one, half of the images select them, and
    the other half is measured.

    Args:
      evaluations: for each classifier, its records of N images in V views: first the clean image,
        then the image plus one wave for each candidate, a frequency that may be used.
      image_shape: height, width and channels of the images.

    Returns:
      Findings with estimates of the error on clean images, after each number of queries, and under
      each wave alone.
    """
    # The frequencies that may be selected; `candidates` are ascending indices into `frequencies`.
    frequencies, candidates = self._frequencies(image_shape), self._candidates(image_shape)
    numbers = range(1, self.queries + 1)
    first_wave = basis.CLEAN + 1  # index of the view of the first candidate
    wrong_after, wave_errors = {}, []
    is_measured = self._measured(evaluations[0].records)  # bool [N]
    outcomes = Recorded(evaluations, self.facets(image_shape)).outcomes(ERROR)
    for label, wrong in outcomes.values.items():  # bool [N, V]
      # The error at each frequency, which selects the worst ones.
      if self._map is None:  # then every frequency is a candidate and has a view
        selecting_error = wrong[~is_measured, first_wave:].mean(0)
      else:
        selecting_error = self._map.error(label, frequencies)
      worst = _worst(selecting_error, self.queries)  # indices of frequencies, the worst first
      fy, fx = frequencies.fy[worst], frequencies.fx[worst]
      waves = pd.DataFrame({'queries': numbers, 'frequency_y': fy, 'frequency_x': fx})
      # `candidates` ascend and contain `worst`, so that a binary search finds its positions.
      views_of_worst = first_wave + np.searchsorted(candidates, worst)
      wrong_under_each = wrong[:, views_of_worst]  # [N, queries]
      under_each = dataclasses.replace(outcomes, values={label: wrong_under_each}, views=waves)
      wave_errors.append(self.means(WAVE_ERROR, under_each.of_rows(is_measured), tuple(waves)))
      # Column n: whether any of the waves up to number n makes the prediction wrong.
      wrong_under_any = np.logical_or.accumulate(wrong_under_each, axis=1)
      clean_wrong = wrong[:, [basis.CLEAN]]  # after no query
      wrong_after[label] = np.concatenate([clean_wrong, wrong_under_any], axis=1)
    views = pd.DataFrame({'queries': [None, *numbers]})  # None for clean images
    attacked = dataclasses.replace(outcomes, values=wrong_after, views=views).of_rows(is_measured)
    is_clean = views.queries.isna().to_numpy()
    clean_errors = self.means(CLEAN_ERROR, attacked, where=is_clean, test=True)
    errors = self.means(ERROR, attacked, ('queries',), test=True)
    return Findings(estimates=[clean_errors, errors, *wave_errors])

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns {'sample_images': [S, H, W, C]}, the first image of the data for a figure.

    It is shown clean, then under each of the first classifier's worst frequencies.
    """
    row = one_view.read_row(rows, 0)
    waves = np.stack(self._waves(rows.image_shape), 1)  # (fy, fx) of each view after the clean one
    worst = _worst_waves(assemble(findings.estimates))
    # The index in `waves` of each worst frequency.
    indices = [int(np.argmax((waves == wave).all(1))) for wave in worst]
    views = [basis.CLEAN, *(basis.CLEAN + 1 + index for index in indices)]
    return {'sample_images': np.stack([one_view.show(self, row, view, key) for view in views])}

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and a figure of one image under the worst frequencies."""
    waves, pictures = _worst_waves(results.table), results.arrays['sample_images']
    norm = f'norm {self.norm:g} in each channel'
    caption = f'One image with the worst waves of the first classifier, {norm}.'
    return {**charts.draw(results), 'sample_images': basis.sample_figure(waves, pictures, caption)}


def _worst_waves(table: pd.DataFrame) -> np.ndarray:
  """Returns the worst frequencies of the first classifier, at most 4, int [S, 2].

  They are (fy, fx) in cycles per image, the worst first.

  Args:
    table: the results, with the errors under single waves, `wave_error`.
  """
  # `queries` is the rank of a wave, 1 for the worst. `...` selects any value of a facet.
  waves = select(table, WAVE_ERROR.name, queries=..., frequency_y=..., frequency_x=...)
  of_first = waves[waves.classifier == waves.classifier.iloc[0]].sort_values('queries')[:SHOWN]
  return of_first[['frequency_y', 'frequency_x']].to_numpy(int)


def _worst(error: np.ndarray, count: int) -> np.ndarray:
  """Returns the indices of the `count` largest errors, in descending order."""
  return np.argsort(-error, kind='stable')[:count]
