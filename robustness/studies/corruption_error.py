"""Corruption error: error under common corruptions by severity, mean error, mCE, relative mCE.

Each row is shown clean and under every corruption and severity of the settings (Hendrycks and
Dietterich 2019; Yin et al. 2019, tables 2 to 4). The corruptions are those of
`robustness.corruptions`, made on the device and not stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from robustness import study
from robustness.corruptions.names import SETS, SEVERITIES
from robustness.corruptions.shown import CLEAN, ShownCorruptions
from robustness.errors import InputError
from robustness.figures import corruption_error as corruption_figures
from robustness.metrics.accuracy import average, proportion
from robustness.metrics.comparison import benjamini_hochberg, mcnemar, paired_difference
from robustness.metrics.corruption_error import (
  bootstrap,
  corruption_errors,
  relative_mean_corruption_error,
)
from robustness.metrics.intervals import clopper_pearson
from robustness.metrics.published import ALEXNET_CLEAN_ERROR, ALEXNET_ERRORS
from robustness.results import Results, Table
from robustness.rows import Rows
from robustness.settings import choice, require
from robustness.study import Evaluation, Findings

FIRST, ALEXNET = 'first', 'alexnet'


@dataclasses.dataclass(frozen=True)
class Study(ShownCorruptions):
  """Settings of the study `corruption_error`, beside those of `ShownCorruptions`.

  Attributes:
    baseline: whose errors mCE divides by: 'first' (the first classifier of the config) or 'alexnet'
      (published, ImageNet, official 15 at all severities).
    top_k: k of the second error.
    confidence: of all intervals.
    false_discovery_rate: of the paired tests over corruptions and severities.
  """

  name: ClassVar[str] = 'corruption_error'
  outputs: ClassVar[tuple[str, ...]] = ()
  layers: ClassVar[tuple[str, ...]] = ()

  baseline: str = FIRST
  top_k: int = 5
  confidence: float = 0.95
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    choice('config.study.baseline', self.baseline, (FIRST, ALEXNET))
    require(self.top_k >= 1, 'config.study.top_k', self.top_k, 'at least 1')
    for name in ('confidence', 'false_discovery_rate'):
      require(0 < getattr(self, name) < 1, f'config.study.{name}', getattr(self, name), 'in (0, 1)')
    if self.baseline == ALEXNET and (set(self.names) != set(ALEXNET_ERRORS)
                                     or set(self.severities) != set(SEVERITIES)):
      raise InputError("config.study.baseline='alexnet' is published for the official 15 at all "
                       "severities: set config.study.corruptions=('official',).")

  def illustrate(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the gallery: the first image under each corruption and severity."""
    return self.gallery(rows, key)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
             ) -> Findings:
    """Returns errors by corruption and severity, their means, mCE and relative mCE.

    Arrays, [corruptions, severities]: `error`, `error_low`, `error_high`, `top<k>_error`; for a
    second classifier `<label>/difference` with `_low`, `_high`, `_p` and `_significant`.
    """
    del image_shape
    findings = Findings(arrays={'corruption': np.array(self.names),
                                'severity': np.array(self.severities)})
    wrong = [self._wrong(evaluation, 1) for evaluation in evaluations]
    for evaluation, prefix, own in zip(evaluations, study.prefixes(evaluations), wrong,
                                       strict=True):
      self._errors(findings, evaluation, prefix, own)
      self._means(findings, prefix, own, wrong[0])
    self._table(findings, evaluations)
    for index, evaluation in enumerate(evaluations[1:], start=1):
      self._compare(findings, evaluation.label, wrong[0], wrong[index])
    return findings

  def _wrong(self, evaluation: Evaluation, k: int) -> np.ndarray:
    """Returns whether each row is wrong in each view, bool [N, V]."""
    layout = evaluation.records.layout
    wrong = np.zeros((layout.num_rows, layout.num_views), bool)
    for shard in evaluation.records.shards():
      wrong[shard.rows, shard.views] = shard['rank'] >= k
    return wrong

  def _errors(self, findings: Findings, evaluation: Evaluation, prefix: str, wrong: np.ndarray
              ) -> None:
    n = len(wrong)
    tables = {'error': wrong, f'top{self.top_k}_error': self._wrong(evaluation, self.top_k)}
    for name, table in tables.items():
      counts = table.sum(0)
      low, high = clopper_pearson(counts, n, self.confidence)
      findings.arrays.update({f'{prefix}{name}': self.grid(counts / n),
                              f'{prefix}{name}_low': self.grid(np.asarray(low)),
                              f'{prefix}{name}_high': self.grid(np.asarray(high))})
      findings.numbers[f'{prefix}clean_{name}'] = proportion(int(counts[CLEAN]), n, self.confidence)

  def _means(self, findings: Findings, prefix: str, own: np.ndarray, first: np.ndarray) -> None:
    """Adds the mean error, and mCE and relative mCE against the baseline, of every set recorded."""
    per_row = own[:, CLEAN + 1:].reshape(len(own), len(self.names), -1).mean(2)
    for name, share in zip(self.names, per_row.T, strict=True):
      findings.numbers[f'{prefix}error/{name}'] = average(share, self.confidence)
    for label, members in self._sets().items():
      index = [self.names.index(name) for name in members]
      findings.numbers[f'{prefix}mean_error/{label}'] = average(per_row[:, index].mean(1),
                                                                self.confidence)
      reference = self._reference(first, index)
      for statistic, function in (('mCE', _mce), ('relative_mCE', _relative_mce)):
        def values(weights: np.ndarray, function: Any = function, index: list[int] = index,
                   reference: Any = reference) -> np.ndarray:
          rates = weights @ per_row[:, index], weights @ own[:, CLEAN].astype(float)
          base = reference(weights)
          return np.array([function(e, c, b, d) for e, c, b, d
                           in zip(*rates, *base, strict=True)])
        findings.numbers[f'{prefix}{statistic}/{label}'] = bootstrap(values, len(own), 0,
                                                                     self.confidence)

  def _sets(self) -> dict[str, tuple[str, ...]]:
    """The named sets all of whose corruptions were shown, and 'shown' if none is all of them."""
    sets = {label: members for label, members in SETS.items() if set(members) <= set(self.names)}
    whole = any(set(members) == set(self.names) for members in sets.values())
    return sets if whole else {**sets, 'shown': self.names}

  def _reference(self, first: np.ndarray, index: list[int]
                 ) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns a function from weights [B, N] to the baseline's errors [B, K] and clean errors."""
    if self.baseline == ALEXNET:
      errors = np.array([ALEXNET_ERRORS[self.names[k]] for k in index])
      return lambda weights: (np.tile(errors, (len(weights), 1)),
                              np.full(len(weights), ALEXNET_CLEAN_ERROR))
    per_row = first[:, CLEAN + 1:].reshape(len(first), len(self.names), -1).mean(2)[:, index]
    return lambda weights: (weights @ per_row, weights @ first[:, CLEAN].astype(float))

  def _table(self, findings: Findings, evaluations: Sequence[Evaluation]) -> None:
    """Adds accuracies, mean over severities, as tables 3 and 4 of Yin et al. (2019) have them."""
    columns = {e.label: p for e, p in zip(evaluations, study.prefixes(evaluations), strict=True)}
    numbers = findings.numbers
    rows: list[list[Any]] = [['clean images', *(1 - numbers[f'{p}clean_error'].value
                                                for p in columns.values())]]
    rows += [[name, *(1 - numbers[f'{p}error/{name}'].value for p in columns.values())]
             for name in self.names]
    for label in self._sets():
      rows.append([f'average ({label})', *(1 - numbers[f'{p}mean_error/{label}'].value
                                           for p in columns.values())])
      rows.append([f'mCE ({label})', *(numbers[f'{p}mCE/{label}'].value
                                       for p in columns.values())])
    findings.tables['accuracy'] = Table(('corruption', *columns), rows)

  def _compare(self, findings: Findings, label: str, first: np.ndarray, second: np.ndarray) -> None:
    b, c = (~first & second).sum(0), (first & ~second).sum(0)
    difference, low, high = paired_difference(b, c, len(first), self.confidence)
    p_value = np.asarray(mcnemar(b, c))
    tests = benjamini_hochberg(p_value[CLEAN + 1:], self.false_discovery_rate)
    arrays = {'difference': difference, 'difference_low': low, 'difference_high': high,
              'difference_p': p_value}
    findings.arrays.update({f'{label}/{name}': self.grid(np.asarray(value))
                            for name, value in arrays.items()})
    shape = (len(self.names), len(self.severities))
    findings.arrays[f'{label}/difference_significant'] = tests.significant.reshape(shape)

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.study.Study`."""
    return corruption_figures.draw(results)


def _mce(error: np.ndarray, clean: float, baseline: np.ndarray, baseline_clean: float) -> float:
  del clean, baseline_clean
  if np.any(baseline <= 0):
    return float('nan')
  return float(corruption_errors(error, baseline).mean())


def _relative_mce(error: np.ndarray, clean: float, baseline: np.ndarray, baseline_clean: float
                  ) -> float:
  return relative_mean_corruption_error(error, clean, baseline, baseline_clean)


