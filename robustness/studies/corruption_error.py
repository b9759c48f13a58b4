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
from robustness.corruptions.catalog import table_for
from robustness.corruptions.names import SEVERITIES, whole_sets
from robustness.corruptions.released import RELEASED
from robustness.corruptions.stored import StoredOrMade
from robustness.corruptions.views import check_between, gallery_figure
from robustness.estimates.corruption_error import MCE, RELATIVE_MCE, failure_points
from robustness.estimates.published import BASELINES, PublishedErrors
from robustness.estimates.quantity import AMOUNT, CLEAN_ERROR, ERROR, Quantity, Right, errors_at
from robustness.estimates.table import select
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape
from robustness.evaluation.views import Views
from robustness.present import charts
from robustness.results import Results

FIRST = 'first'
"""The value of `baseline` that divides mCE by the errors of the first classifier."""
FAILURE_SEVERITY = Quantity(
  'failure_severity',
  'severity at which accuracy falls',
  AMOUNT,
  better='higher',
  unit='severity',
  low=1,
  high=5,
  statistic=Right(),
)


@dataclasses.dataclass(frozen=True)
class CorruptionError(StoredOrMade):
  """A study of error under corruptions; attributes are settings in addition to `StoredOrMade`'s.

  With `half_width`, a corruption is shown to images only until its error is known well enough, see
  `Study`.

  Attributes:
    source: 'generated' or 'stored' images; a stored set without clean images has no clean error and
      no relative mCE.
    baseline: the errors that mCE divides by: errors of the 'first' classifier of the config, or
      published errors: 'alexnet' (ImageNet-C) and 'cifar10_standard' (CIFAR-10-C) for the official
      15 corruptions, 'alexnet_3dcc' for the 12 of ImageNet-3DCC. Published errors need all
      severities. A set with corruptions for which no errors are published has no mCE.
    top_k: k of the second error, if there are more classes than that.
    between: severities between 1 and 5, such as 1.5, with interpolated constants
      (`corruptions.catalog.ConstantsTable.between`). Their errors are reported separately; means
      and mCE are over `severities`.
    failure_share: share of the clean accuracy below which a severity is a failure; 0 computes no
      failure severity.
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
    """Raises InputError for a setting that is not valid."""
    super().__post_init__()
    check_between('config.study.between', self.between)
    if self.published:
      self._check_published(self.published)

  @property
  def published(self) -> PublishedErrors | None:
    """The published errors that mCE, the mean corruption error, divides by.

    It is None if mCE divides by the errors of the first classifier.
    """
    return BASELINES.get(self.baseline)

  def _check_published(self, published: PublishedErrors) -> None:
    """Raises InputError if the settings lack a corruption or severity of the published errors."""
    # The name of the set that has all published corruptions, such as 'official'.
    needed_set, *_ = whole_sets(tuple(published.corrupted))
    has_corruptions = set(self.names) >= set(published.corrupted)
    has_severities = set(self.severities) == set(SEVERITIES)
    for key, is_complete, needed in (
      ('corruptions', has_corruptions, (needed_set,)),
      ('severities', has_severities, SEVERITIES),
    ):
      if not is_complete:
        raise self.refused(
          'baseline',
          f'published for the {key} {needed}, and the images have {getattr(self, key)}',
          f"Use all, or set {KEYS.study.baseline}='first' to divide by the first classifier.",
        )

  @property
  def recording(self) -> dict[str, Any]:
    """The settings that decide the records; studies with equal settings share records.

    For stored images they are the settings of the base class. For others, `between` is added if it
    is not empty, and `half_width` and `confidence` if `half_width` is not 0. With neither, the
    records are shared with other studies of corruptions.
    """
    if self.is_stored:
      return super().recording
    recording = super().recording | ({'between': self.between} if self.between else {})
    if self.half_width:
      recording |= {'half_width': self.half_width, 'confidence': self.confidence}
    return recording

  @property
  def severities_between(self) -> tuple[float, ...]:
    """The fractional severities that are shown too, such as 1.5."""
    return self.between

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the corruptions as views, or the identity for stored images.

    Raises InputError if the images have another size than the images of the baseline's errors.
    """
    published = self.published
    side = min(table_for(*image_shape[:2]).side, 224)  # images of 299 pixels are ImageNet's too
    if published and side != published.side:
      raise self.refused(
        'baseline',
        f'whose errors were measured on {published.set_name} at {published.side} pixels',
        f"These images are {image_shape[0]} × {image_shape[1]}. Set {KEYS.study.baseline}='first'.",
      )
    return super().views(image_shape)

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns the first image under each corruption and severity, for a figure."""
    return self.gallery(rows, key)

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The errors, mCE, relative mCE, and the severity at which a classifier fails.

    The words of this severity state the setting `failure_share`, for example as '50 %'.
    """
    share = f'{100 * self.failure_share:g} %'
    words = f'severity at which accuracy falls below {share} of that on clean images'
    failure = (dataclasses.replace(FAILURE_SEVERITY, words=words),) if self.failure_share else ()
    top_k = errors_at(self.top_k) if self.top_k > 1 else ()
    return (ERROR, CLEAN_ERROR, MCE, RELATIVE_MCE, *failure, *top_k)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields errors with paired tests, mCE, relative mCE and failure severities.

    Top-1 and top-k errors are by corruption and severity, by corruption, and by set of corruptions
    such as ImageNet-C's. The others are computed from top-1 errors: mCE, the mean over corruptions
    of errors divided by the baseline's; relative mCE, of errors minus the clean error; and the
    failure severity, at which accuracy falls below the share `failure_share` of the clean accuracy.
    """
    # `published` is None if mCE divides by the first classifier.
    views, published = recorded.views, self.published
    is_clean = views.corruption.isna()
    is_averaged = views.severity.isin(self.severities)  # means leave out severities of `between`
    # Relative mCE subtracts the clean error of the classifier and of the baseline.
    has_clean_errors = is_clean.any() and not (published and np.isnan(published.clean))
    ratios = (MCE, RELATIVE_MCE) if has_clean_errors else (MCE,)
    divisors = published.means if published else None
    for k in recorded.top_k(self.top_k):
      is_top_1 = k == 1  # with `half_width`, top-1 errors decide when a view needs no more images
      error, clean_error = errors_at(k)
      if is_clean.any():
        yield self.means(clean_error, recorded, where=is_clean, test=True, decides=is_top_1)
      yield self.means(error, recorded, ('corruption', 'severity'), test=True, decides=is_top_1)
      # With one severity, errors by corruption equal errors by corruption and severity.
      is_single = len(self.severities) == 1
      options = {'where': is_averaged, 'test': is_single, 'decides': is_top_1}
      yield self.means(error, recorded, ('corruption',), **options)
      for label, members in whole_sets(self.names).items():
        is_in_set = (is_averaged & views.corruption.isin(members)).to_numpy()
        facets = {'corruption_set': label}
        yield self.means(error, recorded, where=is_in_set, facets=facets, decides=is_top_1)
        has_divisors = not published or set(members) <= set(published.corrupted)
        if is_top_1 and has_divisors:
          for quantity in ratios:
            yield self.means(quantity, recorded, where=is_in_set, baseline=divisors, facets=facets)
      if is_top_1 and is_clean.any() and self.failure_share:
        outcomes = recorded.outcomes(FAILURE_SEVERITY)
        yield failure_points(FAILURE_SEVERITY, outcomes, self.failure_share, self.confidence)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the estimates, with a note on mCE if it is not comparable with published values.

    The mean error over a set of corruptions, such as ImageNet-C's, is left out if the set is
    published for images of another size.
    """
    sets = whole_sets(self.names, min(image_shape[:2]))
    estimates = [
      table[table['corruption_set'].isin(sets)] if 'corruption_set' in table else table
      for table in super().reduce(evaluations, image_shape).estimates
    ]
    note = self._incomparable(image_shape)
    if len(evaluations) == 1 and not self.published:  # mCE divides by the classifier itself
      note = self._baseline_advice(image_shape)
    if note:
      for table in estimates:
        is_mce = table.quantity.isin((MCE.name, RELATIVE_MCE.name)) & (table.versus == '')
        notes = ['; '.join(filter(None, (previous, note))) for previous in table.note[is_mce]]
        table.loc[is_mce, 'note'] = notes
    return Findings(estimates=estimates)

  def denominator(self, first: str) -> str:
    """Returns in words which errors mCE divides by; `first` is the first classifier's label."""
    if self.published:
      return f'{self.published.title} (published)'
    return f'{first}, the first classifier: published mCE divides by another'

  def _incomparable(self, image_shape: ImageShape) -> str:
    """Returns why mCE by published errors is not comparable with papers.

    It is '' if it is comparable or does not divide by published errors.
    """
    if not self.published:
      return ''
    released = RELEASED[self.published.side]
    differs = released.size_differs(image_shape)
    if not self.is_stored:
      differs |= self.settings_differ(released, image_shape)
    reasons = [reason for reason, holds in differs.items() if holds]
    return f'not comparable with published mCE: {"; ".join(reasons)}' if reasons else ''

  def _baseline_advice(self, image_shape: ImageShape) -> str:
    """Returns a note for a run of one classifier, because its mCE relative to itself is always 1.

    The note advises to set one of the published baselines that fit image size, corruptions and
    severities or, if none fits, to add a second classifier.
    """
    # The side of the published set that images are nearest to: 299 pixels are ImageNet-C's too.
    side, channels = min(table_for(*image_shape[:2]).side, 224), image_shape[2]
    baselines = [
      repr(name)
      for name, errors in BASELINES.items()
      if errors.side == side and channels == 3 and {*errors.corrupted} <= {*self.names}
    ]
    if not baselines or set(self.severities) != set(SEVERITIES):
      return 'for mCE give two classifiers'
    return f'for mCE set {self.key("baseline")} to {" or ".join(baselines)}'

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and one image under every corruption and severity."""
    figures = charts.draw(results)
    if 'gallery' in results.arrays:
      # `...` selects any corruption and severity.
      cells = select(results.table, ERROR.name, corruption=..., severity=...)
      caption = f'One image under every corruption and severity ({self.source}).'
      pictures = results.arrays['gallery']
      figures['gallery'] = gallery_figure(cells.corruption, cells.severity, pictures, caption)
    return figures
