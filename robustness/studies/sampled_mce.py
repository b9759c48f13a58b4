"""mCE to a stated half-width from one view per image, drawn at random.

mCE relative to published errors is a weighted sum of the errors in 75 views (15 corruptions at 5
severities). It can be estimated without showing every image in all of them: here each image is
shown in one view, corrupted exactly as in the full set, and the number of images in a view is
proportional to its weight. The number of images for a half-width is known before the run. The views
depend only on data, images and seed, so that others can repeat the measurement.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting, word
from robustness.core.rows import Batch, Rows, random_order, with_column
from robustness.core.typing import PlainValue
from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.released import ReleasedSet
from robustness.corruptions.views import CorruptionViews
from robustness.estimates import stratified
from robustness.estimates.corruption_error import MCE
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.published import BASELINES, PublishedErrors
from robustness.estimates.quantity import ERROR, Quantity
from robustness.evaluation.outcomes import ONE_VIEW, Evaluation, Recorded, refuse_versions
from robustness.evaluation.study import Findings, ImageShape, Recipes
from robustness.evaluation.views import DRAWS, Arrays, Views, ViewTable
from robustness.results import Table

DRAWN = 'drawn_view'
"""Name of the column with the index of the view that is drawn for each image."""
SEED = 0
"""Seed of the random order in which images are assigned to views."""
ERRORS = dataclasses.replace(ERROR, reference='')
"""The top-1 error, without the error on clean images, which are not shown."""


@dataclasses.dataclass(frozen=True)
class SampledMCE(CorruptionViews):
  """A study that estimates mCE (mean corruption error) from one random corruption per image.

  Attributes:
    baseline: the published errors that mCE divides by: 'alexnet' or 'cifar10_standard'.
    mce_half_width: precision. The run is refused if it has too few images for a confidence interval
      of mCE of at most ± this wide, whatever the errors are.
  """

  title = 'mCE from one corruption an image'
  papers = ('hendrycks2019benchmarking',)
  lists_failures = False
  quantities = (MCE, ERRORS)

  baseline: str = word('cifar10_standard', ('alexnet', 'cifar10_standard'))
  mce_half_width: float = setting(0.1, 'above 0', lambda x: x > 0)

  def __post_init__(self) -> None:
    """Raises InputError unless the study has the corruptions and severities of mCE.

    mCE (mean corruption error) divides errors by published ones, which exist for all corruptions of
    the set 'official', averaged over five severities.
    """
    super().__post_init__()
    valid = "('official',), for which errors are published"
    self.require({*self.names} == {*self.published.corrupted}, 'corruptions', valid)
    self.require(len(self.severities) == 5, 'severities', f'{SEVERITIES}, over which mCE sums')

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The settings on which recorded predictions depend, with the name of the study.

    The name makes sure that no predictions are shared with studies that show every corruption.
    """
    return {**super().recording, 'name': self.name}

  @property
  def published(self) -> PublishedErrors:
    """The published errors that mCE (mean corruption error) divides by."""
    return BASELINES[self.baseline]

  @property
  def weights(self) -> np.ndarray:
    """The weights of views in mCE, [V], where a view is a corruption at one severity.

    The weight is 1 / (number of views × published mean error under the corruption). It is 0 for the
    clean view.
    """
    names = [name for name in self.names for _ in self.severities]  # the corruption of each view
    return np.array([0.0, *[1 / (len(names) * self.published.corrupted[name]) for name in names]])

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError for too few images, or for images that are versions of one image."""
    super().check(rows, recipes)
    refuse_versions(rows.without_images())  # raises if rows have the column `base_id`
    needed = self.num_needed
    if rows.num_examples < needed:
      problem = f'for which mCE needs {needed:,} images'
      fix = f'Give more ({KEYS.data.num_images}) or a larger half width.'
      raise self.refused('mce_half_width', problem, f'There are {rows.num_examples:,}. {fix}')

  @property
  def num_needed(self) -> int:
    """Smallest number of images for an mCE interval of at most ± `mce_half_width`.

    With this number the interval is narrow enough whatever the errors are.
    """
    return stratified.trials_needed(self.weights, self.mce_half_width, self.confidence)

  def views(self, image_shape: ImageShape) -> Views:
    """Returns how images are shown: each under one random corruption, in a single view.

    Other studies show every image under all 75 corruptions and severities of mCE, each a view
    with parameters. Here the column `drawn_view` of an image has the index of one of these, from 1,
    and `show` takes its parameters.
    """
    published = self.published
    if min(image_shape[:2]) != published.side:
      problem = f'whose errors were measured on {published.set_name} at {published.side} pixels'
      fix = f'These images are {image_shape[0]} × {image_shape[1]}.'
      raise self.refused('baseline', problem, fix)
    all_views = super().views(image_shape)

    def show(key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
      """Returns an image [H, W, C] with the corruption and severity that were drawn for it."""
      # The parameters of the view that was drawn for the image.
      drawn = {name: jax.numpy.asarray(x)[row[DRAWN]] for name, x in all_views.parameters.items()}
      image: jax.Array = all_views.show(key, row, drawn)
      return image

    return dataclasses.replace(
      all_views,
      show=show,
      ids=np.zeros(1, np.int32),
      parameters={},
      measure=None,  # the change by a corruption is not measured
      add_columns=lambda rows: _with_drawn_views(rows, self, all_views.ids),
    )

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the name of the only view."""
    return ViewTable.of(['one corruption an image, as often as it weighs in mCE'])

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns one row without columns: the only view has another corruption for each image."""
    return ONE_VIEW

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns mCE, errors by corruption and severity, and a table of the number of passes.

    The table `passes` has the forward passes of this run, the passes if each image had all
    corruptions, the precision `mce_half_width`, and the number of images that it needs.

    Args:
      evaluations: for each classifier, its predictions for images under one random corruption each.
      image_shape: not used.
    """
    count = evaluations[0].records.layout.num_rows  # number of images
    num_corrupted_views = len(self.weights) - 1  # without the clean view
    line = [count, count * num_corrupted_views, self.mce_half_width, self.num_needed]
    columns = ('passes', 'passes of all views', 'half width asked for', 'images needed for it')
    estimates = list(self.estimates(Recorded(evaluations)))
    return Findings(tables={'passes': Table(columns, [line])}, estimates=estimates)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields mCE and mean errors: over all corruptions, by corruption and by severity.

    Errors are first averaged over the images of each corruption and severity (view), then summed
    with weights, w_v for view v. The table also has paired differences between classifiers.

    Args:
      recorded: predictions of each classifier for N images. Each was shown in one random view.
    """
    recorded.require_distinct()  # raises if two rows are versions of one image
    # {classifier: whether it is wrong, bool [N]}
    wrong = {label: values[:, 0] for label, values in recorded.outcomes(ERRORS).values.items()}
    # {classifier: the view of each image, [N]}
    drawn_views = {e.label: e.records.column(DRAWN) for e in recorded.evaluations}
    first, *later = drawn_views
    views = drawn_views[first]
    for label in later:
      if not np.array_equal(drawn_views[label], views):
        raise InputError(
          f'{first} and {label} were shown the same images under other corruptions, '
          'for these depend on which images a run has: run both on the same images.'
        )
    rows = []
    for quantity, facets, weights in self._weighted_sums():
      for label, values in wrong.items():
        weighted_sum = stratified.estimate(values, views, weights, self.confidence)
        estimate = _cut_interval(weighted_sum, quantity.range)
        rows.append(estimate_row(label, '', quantity, facets, estimate, self.confidence))
        if label != first:
          difference = stratified.difference(wrong[first], values, views, weights, self.confidence)
          estimate = _cut_interval(difference, quantity.difference_range)
          rows.append(estimate_row(label, first, quantity, facets, estimate, self.confidence))
    yield table_of_rows(rows)

  def _weighted_sums(self) -> Iterator[tuple[Quantity, dict[str, Any], np.ndarray]]:
    """Yields what to estimate: quantity, columns that describe it, and weights of views, [V].

    The estimate is the weighted sum of the errors in V views (corruptions and severities).
    """
    all_views = super().facets((0, 0, 0))  # the same for images of any shape
    yield MCE, {}, self.weights
    is_corrupted = all_views.corruption.notna().to_numpy()
    yield ERRORS, {}, is_corrupted / is_corrupted.sum()
    for facet in ('corruption', 'severity'):
      for value in all_views[facet].dropna().unique():
        is_in_group = (all_views[facet] == value).to_numpy()
        yield ERRORS, {facet: value}, is_in_group / is_in_group.sum()

  def settings_differ(self, released: ReleasedSet, image_shape: ImageShape) -> dict[str, bool]:
    """Returns {deviation from the released data set: whether it applies}.

    For instance, images have one corruption each in this study.
    """
    differing = super().settings_differ(released, image_shape)
    return differing | {'one corruption an image, not all': True}


def _cut_interval(estimate: Estimate, valid: tuple[float, float]) -> Estimate:
  """Clips the confidence interval of an estimate to a valid range."""
  low, high = valid
  return dataclasses.replace(estimate, low=max(estimate.low, low), high=min(estimate.high, high))


def _with_drawn_views(rows: Rows, study: SampledMCE, ids: np.ndarray) -> Rows:
  """Adds two columns that say which corruption is drawn for each image.

  The column `DRAWN` ('drawn_view') has the index of the corruption and severity (the view), from 1.
  The column `DRAWS` has the view's id, which determines the random numbers.

  Args:
    rows: the data.
    study: the study, with the weights of views. Views with larger weights get more images.
    ids: the ids of all views, [V].
  """
  example_ids = rows.without_images()['example_id']
  num_rows = len(example_ids)
  num_images = stratified.allocated(study.weights, num_rows)  # for each view
  repeated_views = np.repeat(np.arange(len(num_images)), num_images)  # once for each of its images
  views = np.empty(num_rows, np.int32)  # the view of each row
  views[random_order(num_rows, SEED)] = repeated_views  # the first view gets the first random rows
  by_id = np.argsort(example_ids)  # ascending, to look views up by id
  sorted_ids, sorted_views = example_ids[by_id], views[by_id]

  def view_of(batch: Batch) -> np.ndarray:
    """Returns the index of the view drawn for each image of a batch, int32 [B]."""
    # Padding may have an id that no row has; the clip keeps its index in range.
    index = np.searchsorted(sorted_ids, batch['example_id']).clip(0, num_rows - 1)
    return np.asarray(sorted_views[index])

  # The description of the data states how views are drawn.
  facts = {'drawn_views': SEED, 'drawn_by_weights_of': study.baseline}
  with_views = with_column(rows, DRAWN, view_of, facts)
  return with_column(with_views, DRAWS, lambda batch: np.asarray(ids[batch[DRAWN]]), {})
