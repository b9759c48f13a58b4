"""Corruption error: error under common corruptions by severity, mean error, mCE, relative mCE.

Each row is shown clean and under every corruption and severity of the settings (Hendrycks and
Dietterich 2019; Yin et al. 2019, tables 2 to 4). The corruptions are those of
`robustness.corruptions`, made on the device; or each row is a stored corrupted image, shown as it
is, whose columns tell corruption, severity and base image.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.corruptions.catalog import table_for
from robustness.corruptions.checks import check_between
from robustness.corruptions.names import SEVERITIES, whole_sets
from robustness.corruptions.released import RELEASED
from robustness.corruptions.stored import CLEAN_PART, GENERATED, StoredOrMade, parts_of
from robustness.corruptions.views import gallery_figure
from robustness.estimates.corruption_error import MCE, RELATIVE_MCE, mce, relative_mce
from robustness.estimates.failure_point import failure_points
from robustness.estimates.means import means
from robustness.estimates.published import BASELINES, PublishedErrors
from robustness.estimates.quantity import AMOUNT, CLEAN_ERROR, ERROR, Quantity, errors_at
from robustness.estimates.table import select
from robustness.evaluation.outcomes import Recorded, wrong
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape
from robustness.evaluation.views import Views
from robustness.present import charts
from robustness.results import Results

FIRST = 'first'
FAILURE_SEVERITY = Quantity(
  'failure_severity', 'severity at which accuracy falls', AMOUNT, 'higher', 'severity', 1, 5
)


@dataclasses.dataclass(frozen=True)
class CorruptionError(StoredOrMade):
  """Settings, beside those of `CorruptionViews`; `half_width` shows views in rounds, see `Study`.

  Attributes:
    source: 'generated' corrupts the rows; 'stored' takes rows that are corrupted already, and
      reports those of `corruptions` and `severities` that are there. Without stored clean images
      there is no clean error and no relative mCE.
    baseline: whose errors mCE divides by: 'first' (the first classifier of the config), or
      published ones of the official 15 at all severities, 'alexnet' (ImageNet-C) or
      'cifar10_standard' (CIFAR-10-C). Further corruptions may be shown; sets that hold one have no
      mCE then.
    top_k: k of the second error, if there are more classes than that.
    between: further severities between those of 1..5, such as 1.5, whose constants are interpolated
      (`robustness.corruptions.catalog.Table.with_between`). They have errors of their own; means
      and mCE are over `severities`.
    failure_share: of clean accuracy; the severity at which accuracy falls below it is reported for
      each corruption. 0 does not look for it.
  """

  title: ClassVar[str] = 'Error under common corruptions'
  papers: ClassVar[tuple[str, ...]] = ('hendrycks2019benchmarking', 'yin2019fourier')

  not_stored: ClassVar[tuple[str, ...]] = ('between', 'half_width')

  half_width: float = 0.0
  source: str = GENERATED
  baseline: str = FIRST
  top_k: int = 5
  confidence: float = 0.95
  false_discovery_rate: float = 0.05
  between: tuple[float, ...] = ()
  failure_share: float = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('baseline', (FIRST, *BASELINES))
    self.require(self.top_k >= 1, 'top_k', 'at least 1')
    check_between('config.study.between', self.between)
    self.require(0 <= self.failure_share < 1, 'failure_share', 'in [0, 1); 0 looks for no failure')
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
    """See `CorruptionViews`; errors in rounds and between severities have more records."""
    if self.is_stored:
      return super().recording
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

  def views(self, image_shape: ImageShape) -> Views:
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

  def sample_arrays(self, rows: Rows, key: jax.Array, found: Findings) -> dict[str, np.ndarray]:
    """Returns the gallery: the first image under each corruption and severity; of stored rows those
    that come in equal parts."""
    if not self.is_stored:
      return self.gallery(rows, key)
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

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `Study`."""
    share = f'{100 * self.failure_share:g} %'
    words = f'severity at which accuracy falls below {share} of that on clean images'
    failure = (dataclasses.replace(FAILURE_SEVERITY, words=words),) if self.failure_share else ()
    further = errors_at(self.top_k) if self.top_k > 1 else ()
    return (ERROR, CLEAN_ERROR, MCE, RELATIVE_MCE, *failure, *further)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields top-1 and top-k errors by corruption and severity with paired tests, their means by
    corruption and by set of corruptions (`whole_sets`), mCE and relative mCE, failure severities.
    """
    views = recorded.views
    clean, counted = views.corruption.isna(), views.severity.isin(self.severities)
    for k in recorded.evaluations[0].top_k(self.top_k):
      error, of_clean = errors_at(k)
      outcomes = recorded.outcomes(functools.partial(wrong, k=k))
      if clean.any():
        yield self.means(of_clean, outcomes, where=clean, test=True, decides=k == 1)
      by_view = ('corruption', 'severity')
      yield self.means(error, outcomes, by_view, test=True, decides=k == 1)
      yield self.means(error, outcomes, ('corruption',), where=counted)
      for label, members in whole_sets(self.names).items():
        of_set = (counted & views.corruption.isin(members)).to_numpy()
        own: dict[str, Any] = {'facets': {'corruption_set': label}, 'confidence': self.confidence}
        yield means(error, outcomes, where=of_set, **own)
        if k == 1 and (not self.published or set(members) <= set(self.published.corrupted)):
          yield mce(outcomes, of_set, self.published, **own)
          if clean.any() and not (self.published and np.isnan(self.published.clean)):
            yield relative_mce(outcomes, of_set, self.published, **own)
      if k == 1 and clean.any() and self.failure_share:
        yield failure_points(FAILURE_SEVERITY, outcomes, self.failure_share, self.confidence)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """See `Study`; stored images are joined to images × views first.

    mCE by published errors says why it is not the published kind, where it is not.
    """
    shown, views = self, self.facets(image_shape)
    if self.is_stored:
      parts = parts_of(evaluations[0].records)
      shown = self.of_stored(parts)
      first = 0 if CLEAN_PART in parts else 1
      views = shown.facets(image_shape)[first:].reset_index(drop=True)
      evaluations = [self.of_images(evaluation, image_shape) for evaluation in evaluations]
    estimates = list(shown.estimates(Recorded(evaluations, views)))
    note = self._incomparable(image_shape)
    for part in estimates if note else ():
      own = part.quantity.isin((MCE.name, RELATIVE_MCE.name)) & (part.versus == '')
      part.loc[own, 'note'] = ['; '.join(filter(None, (known, note))) for known in part.note[own]]
    return Findings(estimates=estimates)

  def denominator(self, first: str) -> str:
    """See `StoredOrMade`."""
    if self.published:
      return f'{self.published.of} (published)'
    return f'{first}, the first classifier: published mCE divides by another'

  def _incomparable(self, image_shape: ImageShape) -> str:
    """Says why mCE by published errors is not the published kind; '' if it is, or there is none."""
    if not self.published:
      return ''
    released = RELEASED[self.published.side]
    reasons = released.size_differences(image_shape)
    if not self.is_stored:
      reasons += released.setting_differences(self, image_shape)
    return f'not comparable with published mCE: {"; ".join(reasons)}' if reasons else ''

  def figures(self, results: Results) -> Figures:
    """Returns those of the table, and one image under every corruption and severity."""
    figures = charts.draw(results)
    if 'gallery' in results.arrays:
      cells = select(results.table, ERROR.name, corruption=..., severity=...)
      caption = f'One image under every corruption and severity ({self.source}).'
      figures['gallery'] = gallery_figure(
        cells.corruption, cells.severity, results.arrays['gallery'], caption
      )
    return figures
