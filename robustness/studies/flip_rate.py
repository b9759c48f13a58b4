"""Flip rate: how often the prediction changes along a sequence of ever stronger corruption.

Each row is shown as a sequence of frames for every corruption, whose severity rises evenly; what
the corruption draws is the same in all frames, so that consecutive frames differ little. The
sequences are made on the device and are not those of ImageNet-P: rates compare with each other
only.

Reference:
  Hendrycks & Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and
  Perturbations, section 4.2 (flip probability and flip rate).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.settings import choice, require, require_fractions
from robustness.corruptions.catalog import apply, checked_table, numbered
from robustness.corruptions.names import FINEST, KNOWN, SETS, STREAM, view_id
from robustness.estimates.means import means
from robustness.estimates.of_means import LOG_RATIO, of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import DRAWS, Views
from robustness.figures import accuracy_bars
from robustness.metrics.corruption_error import Errors, mean_error, mean_error_difference
from robustness.metrics.shares import mean_ratio
from robustness.results import Number, Results, Table
from robustness.wording import corruptions as wording

PAPER = 'hendrycks2019benchmarking'
FLIP_RATE = Quantity(
  'flip_rate',
  'share of consecutive frames with different predictions',
  better='lower',
  headline=True,
  paper=PAPER,
)
FLIP_RATIO = Quantity(
  'flip_ratio',
  'flip rate relative to the first classifier, mean over corruptions',
  kind='ratio',
  better='lower',
  paper=PAPER,
)


@dataclasses.dataclass(frozen=True)
class Study(study.Study):
  """Settings of the study `flip_rate`.

  Attributes:
    corruptions: names, or names of sets, as in `corruption_error`.
    frames: of a sequence.
    lowest: severity of the first frame.
    highest: of the last.
    constants: the table of constants: 32, 64, 224 or 299; 0 takes the nearest to the image size.
    confidence: of intervals.
  """

  name: ClassVar[str] = 'flip_rate'
  papers: ClassVar[tuple[str, ...]] = ('hendrycks2019benchmarking',)

  corruptions: tuple[str, ...] = ('official',)
  frames: int = 9
  lowest: float = 1.0
  highest: float = 5.0
  constants: int = 0
  confidence: float = 0.95

  def __post_init__(self) -> None:
    for name in self.corruptions:
      choice('config.study.corruptions', name, (*SETS, *KNOWN))
    require(bool(self.corruptions), 'config.study.corruptions', self.corruptions, 'not empty')
    for key in ('lowest', 'highest'):
      severity = getattr(self, key)
      require(1 <= severity <= 5, f'config.study.{key}', severity, 'in [1, 5]')
    require(self.lowest < self.highest, 'config.study.lowest', self.lowest, f'below {self.highest}')
    most = int((self.highest - self.lowest) * FINEST) + 1
    require(2 <= self.frames <= most, 'config.study.frames', self.frames, f'in 2..{most}')
    require_fractions(self, 'config.study', 'confidence')

  @property
  def stream(self) -> str:
    """That of all studies of corruptions."""
    return STREAM

  @property
  def names(self) -> tuple[str, ...]:
    """The corruptions, sets spelt out, each once, in the order of `KNOWN`."""
    included = {name for entry in self.corruptions for name in SETS.get(entry, (entry,))}
    return tuple(name for name in KNOWN if name in included)

  @property
  def severities(self) -> np.ndarray:
    """Of the frames, ascending."""
    even = np.linspace(self.lowest, self.highest, self.frames)
    return np.round(even * FINEST) / FINEST

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the frames of each corruption; all frames of one have the same draws."""
    side = self.constants or None
    numbers, between = numbered(self.severities)
    checked_table(image_shape[:2], self.names, None, side, {}, between)

    def show(
      key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
    ) -> jax.Array:
      return apply(
        key,
        row['image'],
        view['corruption'],
        view['severity'],
        names=self.names,
        side=side,
        between=between,
      )

    first = min(self.severities)
    return Views(
      show,
      np.array([view_id(n, s) for n in self.names for s in self.severities], np.int32),
      {
        'corruption': np.repeat(np.arange(len(self.names), dtype=np.int32), self.frames),
        'severity': np.tile(np.asarray(numbers, np.int32), len(self.names)),
        DRAWS: np.repeat(np.array([view_id(n, first) for n in self.names], np.int32), self.frames),
      },
      sequential=True,
    )

  def name_views(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns '<corruption> <severity>' of each frame."""
    del image_shape
    return [f'{name} {severity:.4g}' for name in self.names for severity in self.severities]

  @property
  def shown_as(self) -> dict[str, str]:
    """See `robustness.evaluation.study.Study`."""
    side = f'{self.constants} pixels' if self.constants else 'the nearest size'
    levels = f'severity {self.lowest:g} to {self.highest:g}'
    return {'sequences': f'{self.frames} frames of {levels}, constants of {side}'}

  def differences(self, records: Records, image_shape: tuple[int, int, int]) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return [*super().differences(records, image_shape), 'sequences are not those of ImageNet-P']

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns `flip_rate/<corruption>`, their mean `flip_rate`, and for every classifier but the
    first `flip_rate_difference`, its mean rate minus the first's with a paired interval, and
    `flip_ratio`, the mean over corruptions of its rate ÷ the first's (mFR of the paper).

    A flip rate is the mean over images of the share of consecutive frames with different
    predictions. The array `flips` [corruptions, frames - 1] has it by place in the sequence.
    """
    del image_shape
    findings = Findings(arrays={'corruption': np.array(self.names), 'severity': self.severities})
    flips = [self._flips(evaluation) for evaluation in evaluations]
    for evaluation, prefix, own in zip(
      evaluations, study.prefixes(evaluations), flips, strict=True
    ):
      findings.arrays[f'{prefix}flips'] = own.corrupted.mean(0)
      for k, name in enumerate(self.names):
        findings.numbers[f'{prefix}flip_rate/{name}'] = mean_error(own.of([k]), self.confidence)
      findings.numbers[f'{prefix}flip_rate'] = mean_error(own, self.confidence)
      if evaluation is not evaluations[0]:
        difference = mean_error_difference(flips[0], own, self.confidence)
        findings.numbers[f'{prefix}flip_rate_difference'] = difference
        findings.numbers[f'{prefix}flip_ratio'] = self._ratio(own, flips[0], evaluations[0].label)
    findings.tables['flip rate'] = self._table(findings, evaluations)
    changed = {e.label: own.corrupted for e, own in zip(evaluations, flips, strict=True)}
    findings.estimates = self._estimates(changed)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (FLIP_RATE, FLIP_RATIO)

  def _estimates(self, flips: Mapping[str, np.ndarray]) -> list[pd.DataFrame]:
    """Returns the rows of the table of results, of changes [N, corruptions, frames - 1]."""
    places = [(name, frame) for name in self.names for frame in range(1, self.frames)]
    views = pd.DataFrame(places, columns=['corruption', 'frame'])
    changed = {label: own.reshape(len(own), -1) for label, own in flips.items()}
    outcomes = Outcomes(changed, views)
    given: dict[str, Any] = {'confidence': self.confidence}
    return [
      means(FLIP_RATE, outcomes, **given),
      means(FLIP_RATE, outcomes, ('corruption',), **given),
      means(FLIP_RATE, outcomes, ('corruption', 'frame'), paired=False, **given),
      of_means(
        FLIP_RATIO,
        outcomes,
        lambda own, base: (own / base).mean(-1),
        ('corruption',),
        against=outcomes.labels[0],
        method=LOG_RATIO,
        **given,
      ),
    ]

  def _ratio(self, own: Errors, first: Errors, label: str) -> Number:
    """Returns the mean over corruptions of a classifier's rate ÷ that of the first, `label`."""
    ratio = mean_ratio(own.by_corruption, first.by_corruption, self.confidence)
    steady = np.logical_not(first.corrupted.any((0, 2)))
    if not steady.any():
      return ratio
    return dataclasses.replace(
      ratio, note=f'undefined: {label} never flips under {first.named(steady)}'
    )

  def _flips(self, evaluation: Evaluation) -> Errors:
    """Returns whether the prediction changed from each frame to the next, [N, K, frames - 1]."""
    predictions = evaluation.records.table('prediction')
    shown = predictions.reshape(len(predictions), len(self.names), self.frames)
    return Errors(shown[..., 1:] != shown[..., :-1], None, self.names)

  def _table(self, findings: Findings, evaluations: Sequence[Evaluation]) -> Table:
    prefixes = study.prefixes(evaluations)
    measures = {name: f'flip_rate/{name}' for name in self.names} | {'mean': 'flip_rate'}
    return Table(
      ('corruption', *(evaluation.label for evaluation in evaluations)),
      [
        [name, *(findings.numbers[prefix + measure].value for prefix in prefixes)]
        for name, measure in measures.items()
      ],
    )

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """Returns the bars `flip_rate`."""
    names = [str(name) for name in results.arrays['corruption']]
    bars = {
      name.replace('_', ' '): {
        label: results.numbers[f'{prefix}flip_rate/{name}']
        for label, prefix in results.prefixes.items()
      }
      for name in names
    }
    caption = (
      f'Share of consecutive frames with different predictions, {self.frames} frames of rising '
      'severity with the same draws, with intervals over images.'
    )
    return {'flip_rate': (accuracy_bars(bars, 'flip rate (%)'), caption)}

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.flip_sentences(results)
