"""Corruption error: error under common corruptions by severity, mean error, mCE, relative mCE.

Each row is shown clean and under every corruption and severity of the settings (Hendrycks and
Dietterich 2019; Yin et al. 2019, tables 2 to 4). The corruptions are those of
`robustness.corruptions`, made on the device; or each row is a stored corrupted image, shown as it
is, whose columns tell corruption, severity and base image.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import choice, require, require_fractions
from robustness.corruptions import released
from robustness.corruptions.checks import check_between
from robustness.corruptions.error_reduction import FIRST, ErrorReduction
from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.severities import table_for
from robustness.corruptions.stored_parts import CLEAN_PART
from robustness.corruptions.stored_views import GENERATED, StoredOrMade, parts_of
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import Views
from robustness.figures import corruption_error as corruption_figures
from robustness.metrics.published import BASELINES, PublishedErrors
from robustness.results import Results
from robustness.sequential.study import SequentialStudy, without_fixed
from robustness.wording import corruptions as wording


@dataclasses.dataclass(frozen=True)
class Study(StoredOrMade, ErrorReduction, SequentialStudy):
  """Settings of the study `corruption_error`, beside those of `CorruptionViews` and `half_width` of
  `SequentialStudy`.

  Attributes:
    source: 'generated' corrupts the rows; 'stored' takes rows that are corrupted already, and
      reports those of `corruptions` and `severities` that are there. Without stored clean images
      there is no clean error and no relative mCE.
    baseline: whose errors mCE divides by: 'first' (the first classifier of the config), or
      published ones of the official 15 at all severities, 'alexnet' (ImageNet-C) or
      'cifar10_standard' (CIFAR-10-C). Further corruptions may be shown; sets that hold one have no
      mCE then.
    top_k: k of the second error, if there are more classes than that.
    confidence: of all intervals.
    false_discovery_rate: of the paired tests over corruptions and severities.
    between: further severities between those of 1..5, such as 1.5, whose constants are interpolated
      (`robustness.corruptions.severities.Table.with_between`). They have errors of their own; means
      and mCE are over `severities`.
    failure_share: of clean accuracy; the severity at which accuracy falls below it is reported for
      each corruption. 0 does not look for it.
  """

  name: ClassVar[str] = 'corruption_error'
  papers: ClassVar[tuple[str, ...]] = ('hendrycks2019benchmarking', 'yin2019fourier')

  source: str = GENERATED
  baseline: str = FIRST
  top_k: int = 5
  confidence: float = 0.95
  false_discovery_rate: float = 0.05
  between: tuple[float, ...] = ()
  failure_share: float = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    SequentialStudy.__post_init__(self)
    self.check_source('between', 'half_width')
    choice('config.study.baseline', self.baseline, (FIRST, *BASELINES))
    require(self.top_k >= 1, 'config.study.top_k', self.top_k, 'at least 1')
    require_fractions(self, 'config.study', 'confidence', 'false_discovery_rate')
    check_between('config.study.between', self.between)
    require(
      0 <= self.failure_share < 1,
      'config.study.failure_share',
      self.failure_share,
      'in [0, 1); 0 looks for no failure',
    )
    if self.published:
      self._check_published(self.published)

  @property
  def published(self) -> PublishedErrors | None:
    """The published errors that mCE divides by; None where it divides by the first classifier's."""
    return BASELINES.get(self.baseline)

  def _check_published(self, published: PublishedErrors) -> None:
    """Refuses less than the errors were published for, key by key."""
    given = (
      ('corruptions', self.corruptions, set(self.names) >= set(published.corrupted), ('official',)),
      ('severities', self.severities, set(self.severities) == set(SEVERITIES), SEVERITIES),
    )
    for key, value, valid, needed in given:
      if not valid:
        raise InputError(
          f'config.study.{key} is {value}, but config.study.baseline={self.baseline!r} is '
          f'published for {needed}: set config.study.{key}="{needed}", or '
          "config.study.baseline='first' to divide by the first classifier."
        )

  @property
  def recording(self) -> dict[str, Any]:
    """See `CorruptionViews`; of stored images nothing but predictions is recorded."""
    if self.is_stored:
      return without_fixed(self.described)
    sequential = {'half_width': self.half_width, 'confidence': self.confidence}
    return {
      **super().recording,
      **({'between': self.between} if self.between else {}),
      **(sequential if self.half_width else {}),
    }

  @property
  def severities_between(self) -> tuple[float, ...]:
    """See `CorruptionViews`."""
    return self.between

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the corruptions as views, or the identity for stored images.

    Raises:
      InputError: errors on large images are the baseline of small ones, or the reverse.
    """
    published = self.published
    if published and min(table_for(*image_shape[:2]).side, 224) != published.side:
      raise InputError(
        f'config.study.baseline is {self.baseline!r}, whose errors were measured on '
        f'{published.set_name} at {published.side} pixels; these images are {image_shape[0]} × '
        f'{image_shape[1]}. '
        "Set config.study.baseline='first'."
      )
    return super().views(image_shape)

  def sample_arrays(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the gallery: the first image under each corruption and severity."""
    return self._stored_gallery(rows) if self.is_stored else self.gallery(rows, key)

  def _stored_gallery(self, rows: Rows) -> dict[str, np.ndarray]:
    """Returns the gallery of rows that come in equal parts; of others none."""
    num_parts = rows.description.get('parts', 0)
    if not num_parts:
      return {}
    firsts = range(0, rows.num_examples, rows.num_examples // num_parts)
    images = {
      (int(b['corruption'][0]), int(b['severity'][0])): b['image'][0]
      for b in rows.batches(1, list(firsts))
    }
    chosen = self.of_stored(list(images))
    gallery = np.stack([images[part] for part in chosen.parts])
    clean = {'gallery_clean': images[CLEAN_PART]} if CLEAN_PART in images else {}
    return {'gallery': chosen.grid(gallery, clean=False), **clean}

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns errors by corruption and severity, their means, mCE and relative mCE.

    With `failure_share` also `failure_severity/<corruption>`. Arrays, [corruptions, severities]:
    `error`, `error_low`, `error_high`, `top<k>_error`; for a second classifier
    `<label>/difference` with `_low`, `_high`, `_p` and `_significant`. For it also the numbers
    `<label>/error_difference/<corruption>`, `mean_error_difference/<set>` and
    `mCE_difference/<set>`, its own minus the first's, and the tables `comparison` (how many tests
    are one family) and `differences`.
    """
    note = self._incomparable(image_shape)
    if not self.is_stored:
      return self.reduced(evaluations, True, note)
    parts = parts_of(evaluations[0].records)
    joined = [self.of_images(evaluation, image_shape) for evaluation in evaluations]
    return self.of_stored(parts).reduced(joined, CLEAN_PART in parts, note)

  def denominator(self, first: str) -> str:
    """See `StoredOrMade`."""
    if self.published:
      return f'{self.published.of} (published)'
    return f'{first}, the first classifier: published mCE divides by another'

  def _incomparable(self, image_shape: tuple[int, int, int]) -> str:
    """Says why mCE by published errors is not the published kind; '' if it is, or there is none."""
    if not self.published:
      return ''
    reasons = released.size_difference(image_shape, self.published.side)
    if not self.is_stored:
      reasons += released.setting_differences(self, image_shape, self.published.side)
    return f'not comparable with published mCE: {"; ".join(reasons)}' if reasons else ''

  def wrong(self, evaluation: Evaluation, k: int) -> np.ndarray:
    """Returns whether each image is wrong, clean and in each corrupted view, bool [N, V].

    None is where no clean images are stored.
    """
    layout = evaluation.records.layout
    lacking = len(self.parts) + 1 - layout.num_views if self.is_stored else 0
    wrong = np.zeros((layout.num_rows, lacking + layout.num_views), bool)
    for shard in evaluation.records.shards():
      wrong[:, lacking:][shard.rows, shard.views] = shard['rank'] >= k
    return wrong

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return corruption_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.error_sentences(results)
