"""Error under common corruptions by severity, mean error, mCE and relative mCE.

Each image is shown clean and under every corruption and severity of the settings (Hendrycks and
Dietterich 2019; Yin et al. 2019, tables 2 to 4). `robustness.corruptions` computes the corruptions
on the device. Alternatively each row is a stored corrupted image, with corruption, severity and the
number of its clean image as columns.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS
from robustness.core.registry import setting, word
from robustness.core.rows import Rows
from robustness.corruptions.names import SEVERITIES, whole_sets
from robustness.corruptions.released import RELEASED
from robustness.corruptions.stored import StoredOrMade
from robustness.corruptions.views import check_between, gallery_figure, side_of_nearest_set
from robustness.estimates.corruption_error import MCE, RELATIVE_MCE, failure_points
from robustness.estimates.means import join_notes
from robustness.estimates.published import BASELINES, PublishedErrors
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity, declare_accuracy, errors_at
from robustness.estimates.table import select
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape
from robustness.evaluation.views import Views
from robustness.present import charts
from robustness.results import Results

FIRST = 'first'
"""The value of `baseline` that divides mCE by the errors of the first classifier."""
FAILURE_SEVERITY = declare_accuracy(
  'failure_severity', 'severity of failure', kind='amount', unit='severity', low=1, high=5
)


@dataclasses.dataclass(frozen=True)
class CorruptionError(StoredOrMade):
  """A study of classification error under common corruptions, such as ImageNet-C's.

  Attributes:
    source: 'generated' corrupts the images in this run; 'stored' reads corrupted images. A stored
      set without clean images has no clean error and no relative mCE.
    baseline: the errors that mCE (mean corruption error) divides by. 'first' takes the first
      classifier of the config. 'alexnet' (ImageNet-C), 'cifar10_standard' (CIFAR-10-C) and
      'alexnet_3dcc' (ImageNet-3DCC) take published errors, which need all severities and
      corruptions of the published set.
    top_k: the k of top-k error, which is left out if there are no more than k classes.
    between: fractional severities, such as 1.5, with interpolated constants of the corruptions.
      Their errors are reported, but means and mCE are over `severities` only.
    failure_share: A classifier fails at a severity if its accuracy is below this fraction of the
      clean accuracy. 0 reports no severity of failure.
    half_width: precision. A corruption is shown to images until the confidence interval of its
      error is at most ± this wide; 0 shows it to all images. See `Study`.
  """

  title = 'Error under common corruptions'
  papers = ('hendrycks2019benchmarking', 'yin2019fourier')

  not_stored = ('between', 'half_width')

  half_width: float = 0.0
  baseline: str = word(FIRST, (FIRST, *BASELINES))
  top_k: int = setting(5, 'at least 1', lambda x: x >= 1)
  false_discovery_rate: float = 0.05
  between: tuple[float, ...] = ()
  failure_share: float = setting(0.0, 'in [0, 1); 0 looks for no failure', lambda x: 0 <= x < 1)

  def __post_init__(self) -> None:
    """Raises InputError for invalid settings of this study of error under corruptions.

    `between` lists severities between the whole ones, such as 2.5. `baseline` may name published
    errors; then the study must measure the conditions that they were published for.
    """
    super().__post_init__()
    check_between('config.study.between', self.between)
    if self.published:
      self._check_published(self.published)

  @property
  def published(self) -> PublishedErrors | None:
    """The published errors that mCE (mean corruption error) divides by, such as AlexNet's.

    None if mCE divides by the errors of the first classifier.
    """
    return BASELINES.get(self.baseline)

  def _check_published(self, published: PublishedErrors) -> None:
    """Raises InputError if errors are published for other conditions than the study measures.

    The setting `baseline` names a classifier with published errors, such as AlexNet, which the
    measured errors are divided by. The study must measure all corruptions that `published` has an
    error for, and exactly the severities 1 to 5, over which the published errors are averaged.
    """
    needed = ''
    if not set(published.corrupted) <= set(self.names):
      # The name of the set with exactly the published corruptions, such as 'official'.
      set_name, *_ = whole_sets(tuple(published.corrupted))
      needed = f'corruptions {(set_name,)}, and the images have {self.corruptions}'
    elif set(self.severities) != set(SEVERITIES):
      needed = f'severities {SEVERITIES}, and the images have {self.severities}'
    if needed:
      fix = f"Use all, or set {KEYS.study.baseline}='first' to divide by the first classifier."
      raise self.refused('baseline', f'published for the {needed}', fix)

  @property
  def recording(self) -> dict[str, Any]:
    """The settings on which recorded predictions depend, as {name: value}.

    Studies with equal settings share predictions. `between` and `half_width` are left out at their
    defaults, so that predictions are shared with other studies of corruptions. They do not apply
    to stored images.
    """
    if self.is_stored:
      return super().recording
    recording = super().recording | ({'between': self.between} if self.between else {})
    if self.half_width:
      recording |= {'half_width': self.half_width, 'confidence': self.confidence}
    return recording

  @property
  def severities_between(self) -> tuple[float, ...]:
    """The fractional severities, such as 1.5, that are measured in addition to whole ones."""
    return self.between

  def views(self, image_shape: ImageShape) -> Views:
    """Returns one view per corruption and severity, or a single one for stored images.

    A view is one way to perturb each image.

    Raises:
      InputError: The images have another size than those that published errors were measured on.
    """
    published = self.published
    if published and published.side != side_of_nearest_set(image_shape):
      problem = f'whose errors were measured on {published.set_name} at {published.side} pixels'
      size = f'These images are {image_shape[0]} × {image_shape[1]}.'
      raise self.refused('baseline', problem, f"{size} Set {KEYS.study.baseline}='first'.")
    return super().views(image_shape)

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns the first image of the data under each corruption and severity, for a figure."""
    return self.gallery(rows, key)

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities: errors, mCE, relative mCE, and the severity of failure.

    The description of the last one states the setting `failure_share`, for instance '50 %'.
    """
    share = f'{100 * self.failure_share:g} %'
    words = f'severity at which accuracy falls below {share} of that on clean images'
    failure = (dataclasses.replace(FAILURE_SEVERITY, words=words),) if self.failure_share else ()
    top_k = errors_at(self.top_k) if self.top_k > 1 else ()
    return (ERROR, CLEAN_ERROR, MCE, RELATIVE_MCE, *failure, *top_k)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields tables of error, mCE, relative mCE and the severity at which a classifier fails.

    * Top-1 and top-k errors are by corruption and severity, by corruption, and by set of
      corruptions, such as ImageNet-C's. They have paired tests between classifiers.
    * mCE is the mean over corruptions of top-1 error divided by the baseline's error. Relative mCE
      subtracts the clean error from both first.
    * A classifier fails at the severity at which its accuracy falls below `failure_share` times the
      clean accuracy.

    Args:
      recorded: predictions of each classifier for all images in V views: clean, and under each
        corruption at each severity. `recorded.views` is a table with these two for each view.
    """
    views, published = recorded.views, self.published
    is_clean = views.corruption.isna()
    is_in_means = views.severity.isin(self.severities)  # means leave out severities of `between`
    # Relative mCE needs the clean errors of the classifier and of the baseline.
    has_clean_errors = is_clean.any() and not (published and np.isnan(published.clean))
    ratios = (MCE, RELATIVE_MCE) if has_clean_errors else (MCE,)
    divisors = published.means if published else None  # None: the first classifier's errors
    for k in recorded.top_k(self.top_k):
      is_top_1 = k == 1  # with `half_width`, top-1 errors decide when a view needs no more images
      error, clean_error = errors_at(k)
      if is_clean.any():
        yield self.means(clean_error, recorded, where=is_clean, test=True, decides=is_top_1)
      yield self.means(error, recorded, ('corruption', 'severity'), test=True, decides=is_top_1)
      # With one severity these are the errors of the line above, and are tested like them.
      is_tested = len(self.severities) == 1
      yield self.means(
        error, recorded, ('corruption',), where=is_in_means, test=is_tested, decides=is_top_1
      )
      for label, members in whole_sets(self.names).items():
        is_in_set = (is_in_means & views.corruption.isin(members)).to_numpy()
        facets = {'corruption_set': label}
        yield self.means(error, recorded, where=is_in_set, facets=facets, decides=is_top_1)
        # mCE divides top-1 errors; published ones may lack a corruption of the set.
        if is_top_1 and (not published or set(members) <= set(published.corrupted)):
          for quantity in ratios:
            yield self.means(quantity, recorded, where=is_in_set, baseline=divisors, facets=facets)
      if is_top_1 and is_clean.any() and self.failure_share:
        outcomes = recorded.outcomes(FAILURE_SEVERITY)
        yield failure_points(FAILURE_SEVERITY, outcomes, self.failure_share, self.confidence)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the findings of this study of error under corruptions.

    They are the tables of `estimates` with two changes. The mean error over a published set of
    corruptions, such as ImageNet-C's, is left out if the set is for images of another size. Rows
    with mCE (mean corruption error) have a note if it is not comparable with published values.

    Args:
      evaluations: the records of each classifier.
      image_shape: height, width and channels of the images.
    """
    sets = whole_sets(self.names, min(image_shape[:2]))  # the sets that fit this size
    estimates = [
      table[table['corruption_set'].isin(sets)] if 'corruption_set' in table else table
      for table in super().reduce(evaluations, image_shape).estimates
    ]
    note = self._incomparable(image_shape)
    if len(evaluations) == 1 and not self.published:  # mCE divides by the classifier itself
      note = self._baseline_advice(image_shape)
    if note:
      for table in estimates:
        # Only rows with values: a difference from the first classifier names that in `versus`.
        is_mce = table.quantity.isin((MCE.name, RELATIVE_MCE.name)) & (table.versus == '')
        table.loc[is_mce, 'note'] = [join_notes(previous, note) for previous in table.note[is_mce]]
    return Findings(estimates=estimates)

  def denominator(self, first: str) -> str:
    """Describes the errors that mCE (mean corruption error) divides by, for reports.

    Args:
      first: name of the first classifier.
    """
    if self.published:
      return f'{self.published.title} (published)'
    return f'{first}, the first classifier: published mCE divides by another'

  def _incomparable(self, image_shape: ImageShape) -> str:
    """Returns why mCE is not comparable with published values; '' if it is comparable.

    mCE (mean corruption error) is the error under corruptions divided by published errors of
    another classifier, such as AlexNet. It is comparable if the images were corrupted as the
    authors' released code does. If mCE divides by the first classifier, no comparison is expected,
    and the result is ''.
    """
    if not self.published:
      return ''
    released = RELEASED[self.published.side]  # the authors' settings for images of this size
    # {phrase for a difference: whether it is present}
    differences = released.size_differs(image_shape)
    if not self.is_stored:
      differences |= self.settings_differ(released, image_shape)
    reasons = [phrase for phrase, is_present in differences.items() if is_present]
    return f'not comparable with published mCE: {"; ".join(reasons)}' if reasons else ''

  def _baseline_advice(self, image_shape: ImageShape) -> str:
    """Returns a note on how to get a useful mCE in a run with a single classifier.

    Relative to itself its mCE is always 1. The note names the published baselines that fit image
    size, corruptions and severities. If none fits, it asks for a second classifier.
    """
    side = side_of_nearest_set(image_shape)
    baselines = [
      repr(name)
      for name, errors in BASELINES.items()
      if errors.side == side and set(errors.corrupted) <= set(self.names)
    ]
    is_in_colour, has_all_severities = image_shape[2] == 3, set(self.severities) == set(SEVERITIES)
    if baselines and is_in_colour and has_all_severities:
      return f'for mCE set {self.key("baseline")} to {" or ".join(baselines)}'
    return 'for mCE give two classifiers'

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and a gallery of one image under all corruptions."""
    figures = charts.draw(results)
    if 'gallery' in results.arrays:
      # `...` selects any corruption and severity.
      cells = select(results.table, ERROR.name, corruption=..., severity=...)
      caption = f'One image under every corruption and severity ({self.source}).'
      pictures = results.arrays['gallery']
      figures['gallery'] = gallery_figure(cells.corruption, cells.severity, pictures, caption)
    return figures
