"""Errors by corruption and severity: the numbers, tables and arrays of a study of corruptions."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.corruptions.names import whole_sets
from robustness.corruptions.views import CLEAN, CorruptionViews
from robustness.estimates.comparison import benjamini_hochberg, mcnemar, paired_difference
from robustness.estimates.means import Estimate, Row, means, part, row, share_difference
from robustness.estimates.of_means import BOOTSTRAP, LOG_RATIO, of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity, errors_at
from robustness.evaluation import outcomes as recorded
from robustness.evaluation import study
from robustness.evaluation.study import Evaluation, Findings
from robustness.metrics import corruption_error as metrics
from robustness.metrics.corruption_error import Errors, Published
from robustness.metrics.failure_point import failure_point
from robustness.metrics.published import PublishedErrors
from robustness.metrics.view_shares import ViewShares, table_shares, view_shares
from robustness.results import Number, Table

MCE = Quantity(
  'mCE',
  'mean corruption error',
  kind='ratio',
  better='lower',
  headline=True,
  paper='hendrycks2019benchmarking',
)
RELATIVE_MCE = Quantity(
  'relative_mCE',
  'relative mean corruption error',
  kind='amount',
  better='lower',
  paper='hendrycks2019benchmarking',
)
FAILURE_SEVERITY = Quantity(
  'failure_severity',
  'severity at which accuracy falls below a share of the clean one',
  kind='amount',
  better='higher',
  unit='severity',
  low=1,
  high=5,
)

FIRST = 'first'
COMPARISON = (
  'first',
  'second',
  'tests in the family',
  'second significantly better',
  'second significantly worse',
  'false-discovery rate',
)


class ErrorReduction(CorruptionViews):
  """Reduces whether each image was wrong in each view.

  Attributes:
    baseline: `FIRST`, or whose published errors mCE divides by.
    top_k: k of the second error, if there are more classes than that.
    failure_share: of the clean accuracy; 0 looks for no failure point.
    confidence: of all intervals.
    false_discovery_rate: of the tests of a second classifier.
  """

  baseline: str
  top_k: int
  failure_share: float
  confidence: float
  false_discovery_rate: float

  @property
  @abc.abstractmethod
  def published(self) -> PublishedErrors | None:
    """The errors that mCE divides by, if not the first classifier's."""

  @abc.abstractmethod
  def wrong(self, evaluation: Evaluation, k: int) -> np.ndarray:
    """Returns whether the true class is not among the k first, clean and corrupted, [N, V]."""

  def reduced(self, evaluations: Sequence[Evaluation], clean: bool, note: str) -> Findings:
    """Reduces records of the study's own corruptions.

    Args:
      evaluations: of the classifiers.
      clean: whether clean images are in.
      note: of mCE, see `_incomparable`.
    """
    findings = Findings(
      arrays={'corruption': np.array(self.names), 'severity': np.array(self.levels)}
    )
    wrong = [self.wrong(evaluation, 1) for evaluation in evaluations]
    errors = [
      Errors(self._at_severities(table), table[:, CLEAN] if clean else None, self.names)
      for table in wrong
    ]
    for index, (evaluation, prefix) in enumerate(
      zip(evaluations, study.prefixes(evaluations), strict=True)
    ):
      self._errors(findings, evaluation, prefix, wrong[index], clean)
      self._means(findings, prefix, errors[index], errors[0], note)
      if self.failure_share and clean:
        self._failures(findings, prefix, ~wrong[index])
    self._table(findings, evaluations, clean)
    findings.estimates = self._estimates(evaluations, clean, note)
    if len(evaluations) > 1:
      self._comparisons(findings, evaluations, wrong, errors)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    further = errors_at(self.top_k) if self.top_k > 1 else ()
    return (ERROR, CLEAN_ERROR, MCE, RELATIVE_MCE, FAILURE_SEVERITY, *further)

  def _outcomes(self, evaluations: Sequence[Evaluation], k: int) -> Outcomes:
    """Returns whether the true class is not among the k first, with the facets of all views."""
    levels = [(name, severity) for name in self.names for severity in self.levels]
    views = pd.DataFrame([(None, None), *levels], columns=['corruption', 'severity'])
    if any(evaluation.rounds for evaluation in evaluations):
      return recorded.outcomes(evaluations, functools.partial(recorded.wrong, k=k), views)
    return Outcomes({e.label: self.wrong(e, k) for e in evaluations}, views)

  def _estimates(
    self, evaluations: Sequence[Evaluation], clean: bool, note: str
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results; see `robustness.estimates.table`."""
    parts: list[pd.DataFrame] = []
    for k in evaluations[0].top_k(self.top_k):
      error, of_clean = errors_at(k)
      outcomes = self._outcomes(evaluations, k)
      views = outcomes.views
      given: dict[str, Any] = {'confidence': self.confidence, 'test': True, 'decides': k == 1}
      if clean:
        only = np.arange(len(views)) == CLEAN
        parts.append(means(of_clean, outcomes, where=only, **given))
      parts.append(means(error, outcomes, ('corruption', 'severity'), **given))
      counted = views.severity.isin(self.severities).to_numpy()
      parts.append(
        means(error, outcomes, ('corruption',), confidence=self.confidence, where=counted)
      )
      for label, members in whole_sets(self.names).items():
        of_set = counted & views.corruption.isin(members).to_numpy()
        facets = {'corruption_set': label}
        parts.append(
          means(error, outcomes, confidence=self.confidence, where=of_set, facets=facets)
        )
        if k == 1:
          parts += self._ratios(outcomes, of_set, label, members, clean, note)
      if k == 1 and clean and self.failure_share:
        parts.append(self._failure_rows(outcomes))
    return parts

  def _ratios(
    self,
    outcomes: Outcomes,
    of_set: np.ndarray,
    label: str,
    members: Sequence[str],
    clean: bool,
    note: str,
  ) -> list[pd.DataFrame]:
    """Returns mCE and relative mCE of a set, against the first classifier or published errors."""
    given: dict[str, Any] = {'confidence': self.confidence, 'facets': {'corruption_set': label}}
    if not self.published:
      first = outcomes.labels[0]
      mce = of_means(
        MCE,
        outcomes,
        _ratio,
        ('corruption',),
        against=first,
        method=LOG_RATIO,
        where=of_set,
        **given,
      )
      if not clean:
        return [mce]
      filled = dataclasses.replace(outcomes, views=outcomes.views.fillna({'corruption': ''}))
      with_clean = of_set | (np.arange(len(of_set)) == CLEAN)
      relative = of_means(
        RELATIVE_MCE,
        filled,
        _excess_ratio,
        ('corruption',),
        against=first,
        where=with_clean,
        **given,
      )
      return [mce, relative]
    known = self.published.corrupted
    if not all(name in known for name in members):
      return []
    weight = np.array([1 / known.get(name, np.inf) for name in outcomes.views.corruption])
    scale = float(np.mean([1 / known[name] for name in members]))
    weighted = dataclasses.replace(outcomes, weight=weight)
    parts = [means(MCE, weighted, where=of_set, scale=scale, **given)]
    if clean and not np.isnan(self.published.clean):
      parts.append(self._relative_to_published(outcomes, of_set, members, given['facets']))
    for estimates in parts:
      own = estimates.versus == ''
      estimates.loc[own, 'note'] = [_joined(text, note) for text in estimates.note[own]]
    return parts

  def _relative_to_published(
    self, outcomes: Outcomes, of_set: np.ndarray, members: Sequence[str], facets: dict[str, Any]
  ) -> pd.DataFrame:
    """Returns relative mCE, a weighted mean of paired differences to the clean image."""
    assert self.published
    excess = {name: self.published.corrupted[name] - self.published.clean for name in members}
    weight = np.array([1 / excess.get(name, np.inf) for name in outcomes.views.corruption])
    scale = float(np.mean([1 / excess[name] for name in members]))
    rows: list[Row] = []
    for label, wrong in outcomes.common.values.items():
      when_clean = wrong[:, CLEAN, None]
      changed = {'gained': wrong & ~when_clean, 'lost': ~wrong & when_clean}
      own = dataclasses.replace(outcomes, values=changed, shown=None, weight=weight, design=None)
      (group,) = own.groups(where=of_set)
      gained, lost = (own.sums(name, group) for name in changed)
      estimate = share_difference(gained, lost, self.confidence)
      rows.append(row(label, '', RELATIVE_MCE, facets, estimate, self.confidence, scale))
    return part(rows)

  def _failure_rows(self, outcomes: Outcomes) -> pd.DataFrame:
    """Returns the failure severity of each corruption."""
    rows: list[Row] = []
    order = np.argsort(self.levels)
    severities = [self.levels[k] for k in order]
    for label, wrong in outcomes.common.values.items():
      for index, name in enumerate(self.names):
        right = ~self.by_corruption(wrong)[:, index, order]
        found = failure_point(
          right, ~wrong[:, CLEAN], severities, self.failure_share, self.confidence
        )
        estimate = Estimate(
          found.value, found.low, found.high, found.n, found.n, BOOTSTRAP, note=found.note
        )
        facets = {'corruption': name}
        rows.append(row(label, '', FAILURE_SEVERITY, facets, estimate, self.confidence))
    return part(rows)

  def _at_severities(self, values: np.ndarray) -> np.ndarray:
    """Returns values by image and view [N, V] at `severities`, [N, corruptions, severities]."""
    own = [self.levels.index(severity) for severity in self.severities]
    return self.by_corruption(values)[..., own]

  def _failures(self, findings: Findings, prefix: str, right: np.ndarray) -> None:
    """Adds `failure_severity/<corruption>` of a classifier that is right or not [N, V]."""
    order = np.argsort(self.levels)
    severities = [self.levels[k] for k in order]
    for index, name in enumerate(self.names):
      findings.numbers[f'{prefix}failure_severity/{name}'] = failure_point(
        self.by_corruption(right)[:, index, order],
        right[:, CLEAN],
        severities,
        self.failure_share,
        self.confidence,
      )

  def _errors(
    self, findings: Findings, evaluation: Evaluation, prefix: str, wrong: np.ndarray, clean: bool
  ) -> None:
    shares = {'error': self._shares(evaluation, wrong, 1)}
    for k in evaluation.top_k(self.top_k)[1:]:
      shares[f'top{k}_error'] = self._shares(evaluation, self.wrong(evaluation, k), k)
    for name, share in shares.items():
      grids = {key: self.grid(values) for key, values in share.arrays(name).items()}
      findings.arrays.update({prefix + key: values for key, values in grids.items()})
      if clean:
        findings.numbers[f'{prefix}clean_{name}'] = share.number(CLEAN)
    if evaluation.rounds:
      findings.arrays[f'{prefix}images'] = self.grid(evaluation.shown)

  def _shares(self, evaluation: Evaluation, wrong: np.ndarray, k: int) -> ViewShares:
    """Returns top-k errors by view: of all rows, [N, V], or of the rows that each view has."""
    if not evaluation.rounds:
      return table_shares(wrong, self.confidence)
    return view_shares(
      evaluation.rounds, lambda shard: shard['rank'] >= k, self.confidence, decides=k == 1
    )

  def _means(
    self, findings: Findings, prefix: str, errors: Errors, first: Errors, note: str
  ) -> None:
    """Adds the mean error, and mCE and relative mCE against the baseline, of every set recorded."""
    numbers = findings.numbers
    for index, name in enumerate(self.names):
      numbers[f'{prefix}error/{name}'] = metrics.mean_error(errors.of([index]), self.confidence)
    for label, members in self._positions().items():
      own, baseline = errors.of(members), self._baseline(first, members)
      if errors is first and self.baseline == FIRST:
        baseline = own
      numbers[f'{prefix}mean_error/{label}'] = metrics.mean_error(own, self.confidence)
      if baseline is None:
        continue
      ratios = {'mCE': metrics.mce(own, baseline, self.confidence)}
      known = isinstance(baseline, Errors) or not np.isnan(baseline.clean)
      if errors.clean is not None and known:
        ratios['relative_mCE'] = metrics.relative_mce(own, baseline, 0, self.confidence)
      for name, number in ratios.items():
        notes = '; '.join(filter(None, (number.note, note)))
        numbers[f'{prefix}{name}/{label}'] = dataclasses.replace(number, note=notes)

  def _positions(self) -> dict[str, list[int]]:
    """Where the corruptions of each set of `whole_sets` stand among `names`."""
    return {
      label: [self.names.index(name) for name in members]
      for label, members in whole_sets(self.names).items()
    }

  def _baseline(self, first: Errors, index: list[int]) -> Errors | Published | None:
    """Returns what mCE divides by, for some corruptions; None where one was not published."""
    if not self.published:
      return first.of(index)
    known = self.published.corrupted
    if not all(self.names[k] in known for k in index):
      return None
    return Published(np.array([known[self.names[k]] for k in index]), self.published.clean)

  def _table(self, findings: Findings, evaluations: Sequence[Evaluation], clean: bool) -> None:
    """Adds accuracies, mean over severities, as tables 3 and 4 of Yin et al. (2019) have them."""
    columns = {e.label: p for e, p in zip(evaluations, study.prefixes(evaluations), strict=True)}
    numbers = findings.numbers
    rows: list[list[Any]] = (
      [['clean images', *(1 - numbers[f'{p}clean_error'].value for p in columns.values())]]
      if clean
      else []
    )
    rows += [
      [name, *(1 - numbers[f'{p}error/{name}'].value for p in columns.values())]
      for name in self.names
    ]
    for label in whole_sets(self.names):
      rows.append(
        [
          f'average ({label})',
          *(1 - numbers[f'{p}mean_error/{label}'].value for p in columns.values()),
        ]
      )
      if all(f'{p}mCE/{label}' in numbers for p in columns.values()):
        mce = (numbers[f'{p}mCE/{label}'].value for p in columns.values())
        rows.append([f'mCE ({label})', *mce])
    findings.tables['accuracy'] = Table(('corruption', *columns), rows)

  def _comparisons(
    self,
    findings: Findings,
    evaluations: Sequence[Evaluation],
    wrong: Sequence[np.ndarray],
    errors: Sequence[Errors],
  ) -> None:
    """Adds the paired tests of every other classifier with the first, and differences of means."""
    tests, differences = [], []
    for evaluation, table, own in zip(evaluations[1:], wrong[1:], errors[1:], strict=True):
      counts = self._compare(findings, evaluation.label, wrong[0], table)
      tests.append([evaluations[0].label, evaluation.label, *counts, self.false_discovery_rate])
      for name, number in self._differences(errors[0], own).items():
        findings.numbers[f'{evaluation.label}/{name}'] = number
        differences.append(
          [name, f'{evaluation.label} - {evaluations[0].label}']
          + [number.value, number.low, number.high, _verdict(number)]
        )
    findings.tables['comparison'] = Table(COMPARISON, tests)
    findings.tables['differences'] = Table(
      ('quantity', 'of', 'difference', 'low', 'high', 'finding'), differences
    )

  def _differences(self, first: Errors, second: Errors) -> dict[str, Number]:
    """Returns the differences in mean error and mCE over each corruption and each set."""
    numbers = {
      f'error_difference/{name}': metrics.mean_error_difference(
        first.of([index]), second.of([index]), self.confidence
      )
      for index, name in enumerate(self.names)
    }
    for label, members in self._positions().items():
      pair = first.of(members), second.of(members)
      baseline = pair[0] if self.baseline == FIRST else self._baseline(first, members)
      numbers[f'mean_error_difference/{label}'] = metrics.mean_error_difference(
        *pair, self.confidence
      )
      if baseline is not None:
        numbers[f'mCE_difference/{label}'] = metrics.mce_difference(
          *pair, baseline, self.confidence
        )
    return numbers

  def _compare(
    self, findings: Findings, label: str, first: np.ndarray, second: np.ndarray
  ) -> list[int]:
    """Adds the paired tests view by view; returns how many, and how many are better and worse."""
    b, c = (~first & second).sum(0), (first & ~second).sum(0)
    difference, low, high = paired_difference(b, c, len(first), self.confidence)
    p_value = np.asarray(mcnemar(b, c))
    tests = benjamini_hochberg(p_value[CLEAN + 1 :], self.false_discovery_rate)
    arrays = {
      'difference': difference,
      'difference_low': low,
      'difference_high': high,
      'difference_p': p_value,
    }
    findings.arrays.update(
      {f'{label}/{name}': self.grid(np.asarray(value)) for name, value in arrays.items()}
    )
    shape = (len(self.names), len(self.levels))
    findings.arrays[f'{label}/difference_significant'] = tests.significant.reshape(shape)
    signs = (tests.significant & (sign * difference[CLEAN + 1 :] > 0) for sign in (-1, 1))
    return [tests.significant.size, *(int(chosen.sum()) for chosen in signs)]


def _ratio(own: np.ndarray, base: np.ndarray) -> np.ndarray:
  """Returns the mean over corruptions of errors over the baseline's, [..., K] -> [...]."""
  return (own / base).mean(-1)


def _excess_ratio(own: np.ndarray, base: np.ndarray) -> np.ndarray:
  """Returns the same of errors over and above the clean one, which comes first."""
  excess, reference = own[..., 1:] - own[..., :1], base[..., 1:] - base[..., :1]
  ratios = np.full(excess.shape, np.nan)
  np.divide(excess, reference, out=ratios, where=reference > metrics.ROUNDING)
  return ratios.mean(-1)


def _joined(*notes: str) -> str:
  return '; '.join(filter(None, notes))


def _verdict(difference: Number) -> str:
  """Says what the interval of a difference from the first classifier shows."""
  if difference.high < 0:
    return 'better'
  return 'worse' if difference.low > 0 else 'no significant difference'
