"""What studies of bands of frequencies share: bandwidths as views, and shares by bandwidth."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.rows import Rows
from robustness.core.settings import choice, require, require_fractions
from robustness.estimates.means import means
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, CLEAN_ERROR, ERROR, Quantity
from robustness.evaluation import one_view, study
from robustness.evaluation import outcomes as recorded
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import Views
from robustness.fourier.filters import KINDS, bandwidths, half
from robustness.metrics.view_shares import compare_with_first, view_shares
from robustness.sequential.study import SequentialStudy

CLEAN = 0
"""Index of the clean view; the bands follow it, kind by kind."""

MOST = 16
"""Bandwidths of a kind, where none are given."""


@dataclasses.dataclass(frozen=True)
class BandStudy(SequentialStudy):
  """A study whose views are low- and high-centred squares of frequencies, shown to all images or
  in rounds (`half_width`, see `SequentialStudy`).

  A subclass shows a row in a view, of which `kept` bool [H, W // 2 + 1] says which frequencies are
  kept (all in the clean view) and `bandwidth` is B (0 in the clean view).

  Attributes:
    quantity: 'error' or 'accuracy', the share of rows that is counted.
    kinds: 'low_pass' keeps the B × B square of frequencies centred on zero, 'high_pass' the one
      centred on the Nyquist frequency (Yin et al. 2019, section 2).
    bandwidths: B on the shorter side, for each kind; () takes up to 16, evenly spread over those
      that there are.
    confidence: of all intervals.
    false_discovery_rate: of the paired tests of two classifiers.
  """

  quantity: ClassVar[str]

  kinds: tuple[str, ...] = tuple(KINDS)
  bandwidths: tuple[int, ...] = ()
  confidence: float = 0.95
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    for kind in self.kinds:
      choice('config.study.kinds', kind, KINDS)
    for key in ('kinds', 'bandwidths'):
      values = getattr(self, key)
      require(len(set(values)) == len(values), f'config.study.{key}', values, 'distinct')
    require(bool(self.kinds), 'config.study.kinds', self.kinds, 'not empty')
    require(
      all(b >= 1 for b in self.bandwidths), 'config.study.bandwidths', self.bandwidths, 'at least 1'
    )
    require_fractions(self, 'config.study', 'confidence', 'false_discovery_rate')

  def bands(self, image_shape: tuple[int, int, int]) -> dict[str, list[int]]:
    """Returns the bandwidths of each kind, ascending."""
    side = min(image_shape[:2])
    return {kind: sorted(self.bandwidths) or _spread(bandwidths(kind, side)) for kind in self.kinds}

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the clean view (id 0), then each kind at each bandwidth.

    The id is 2 B, plus 1 for a high pass: draws do not depend on which others a run holds.

    Raises:
      InputError: a bandwidth that is no symmetric square of frequencies for this size, such as an
        even one for an even side.
    """
    height, width, _ = image_shape
    table = [(kind, b) for kind, several in self.bands(image_shape).items() for b in several]
    kept = [half(KINDS[kind](height, width, b)) for kind, b in table]
    return Views(
      self._show,
      np.array([0, *(2 * b + (kind == 'high_pass') for kind, b in table)], np.int32),
      {
        'bandwidth': np.array([0, *(b for _, b in table)], np.int32),
        'high_pass': np.array([0, *(kind == 'high_pass' for kind, _ in table)], np.int32),
        'kept': np.stack([np.ones((height, width // 2 + 1), bool), *kept]),
      },
    )

  def name_views(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns 'clean', then '<kind>_<bandwidth>'."""
    return ['clean', *_names(self.bands(image_shape))]

  @abc.abstractmethod
  def _show(
    self, key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
  ) -> jax.Array:
    """Shows one row in one view."""

  def samples(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the first image as up to five bands of each kind show it.

    Returns:
      For each kind `sample_images/<kind>` [S, H, W, C] and `sample_bandwidths/<kind>` [S].
    """
    row = one_view.read_row(rows, 0)
    views = self.views(row['image'].shape)
    arrays, start = {}, CLEAN + 1
    for kind, several in self.bands(row['image'].shape).items():
      chosen = start + np.unique(np.linspace(0, len(several) - 1, 5).round().astype(int))
      images = [one_view.show(self, row, view, key) for view in chosen]
      arrays[f'sample_images/{kind}'] = np.stack(images)
      arrays[f'sample_bandwidths/{kind}'] = views.parameters['bandwidth'][chosen]
      start += len(several)
    return arrays

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns the share of wrong (or right) rows by kind and bandwidth, with paired differences.

    With q the quantity, numbers: `clean_<q>` and `<q>/<kind>_<B>`. Arrays, for each kind of K
    bandwidths: `<kind>/bandwidth` [K], `<kind>/<q>` [K] with `_low` and `_high`, of a sequential
    design `<kind>/images` [K] (n of each; differences are of the images that all views have); for a
    second classifier `<label>/<kind>/difference` [K] and its like, its own minus the first's.
    """
    findings, bands = Findings(), self.bands(image_shape)
    counted = {}
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      rank = evaluation.records.table('rank')
      counted[evaluation.label] = rank > 0 if self.quantity == 'error' else rank == 0
      self._shares(findings, evaluation, prefix, bands)
    findings.arrays.update({f'{kind}/bandwidth': np.array(b) for kind, b in bands.items()})
    findings.estimates = self._estimates(evaluations, bands)
    if len(evaluations) > 1:
      self._compare(findings, counted, bands)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (ERROR, CLEAN_ERROR) if self.quantity == 'error' else (ACCURACY, CLEAN_ACCURACY)

  def _estimates(
    self, evaluations: Sequence[Evaluation], bands: Mapping[str, list[int]]
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results."""
    table = [(None, None), *((kind, b) for kind, several in bands.items() for b in several)]
    views = pd.DataFrame(table, columns=['band', 'bandwidth'])
    statistic = recorded.wrong if self.quantity == 'error' else recorded.right
    outcomes = recorded.outcomes(evaluations, statistic, views)
    in_bands, when_clean = self.quantities
    only = np.arange(len(views)) == CLEAN
    return [
      means(when_clean, outcomes, confidence=self.confidence, where=only, test=True),
      means(in_bands, outcomes, ('band', 'bandwidth'), confidence=self.confidence, test=True),
    ]

  def _shares(
    self, findings: Findings, evaluation: Evaluation, prefix: str, bands: Mapping[str, list[int]]
  ) -> None:
    wrong = self.quantity == 'error'
    shares = view_shares(
      evaluation.counted, lambda shard: (shard['rank'] > 0) == wrong, self.confidence
    )
    names = [f'clean_{self.quantity}', *(f'{self.quantity}/{name}' for name in _names(bands))]
    for view, name in enumerate(names):
      findings.numbers[prefix + name] = shares.number(view)
    arrays = shares.arrays(self.quantity)
    if evaluation.rounds:
      arrays['images'] = evaluation.shown
    self._by_kind(findings, arrays, prefix, bands)

  def _compare(
    self, findings: Findings, counted: Mapping[str, np.ndarray], bands: Mapping[str, list[int]]
  ) -> None:
    differences, findings.tables['comparison'] = compare_with_first(
      self.quantity, counted, ['clean', *_names(bands)], self.confidence, self.false_discovery_rate
    )
    for label, arrays in differences.items():
      self._by_kind(findings, arrays, f'{label}/', bands)

  def _by_kind(
    self,
    findings: Findings,
    arrays: Mapping[str, np.ndarray],
    prefix: str,
    bands: Mapping[str, list[int]],
  ) -> None:
    """Adds arrays by view [V], cut by kind and without the clean view."""
    start = CLEAN + 1
    for kind, several in bands.items():
      stop = start + len(several)
      findings.arrays.update(
        {f'{prefix}{kind}/{name}': values[start:stop] for name, values in arrays.items()}
      )
      start = stop


def _names(bands: Mapping[str, list[int]]) -> list[str]:
  return [f'{kind}_{bandwidth}' for kind, several in bands.items() for bandwidth in several]


def _spread(values: list[int]) -> list[int]:
  """Returns up to `MOST` of the values, the first and the last among them."""
  index = np.linspace(0, len(values) - 1, min(MOST, len(values)))
  return [values[i] for i in np.unique(index.round().astype(int))]
