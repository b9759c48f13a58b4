"""Whether classifiers know when they are wrong: clean, corrupted, or in the views of any run.

Calibration error, Brier score and selective risk (`robustness.metrics.calibration`) by view: under
common corruptions (Ovadia et al. 2019, figure 2), which are those of the study `corruption_error`
and share its records in a battery; or, with `config.predictions`, in the views of a finished
workdir of whatever study, from its records alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from robustness.core.settings import parse, require, require_fractions
from robustness.corruptions.stored_views import GENERATED, StoredOrMade
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.figures import calibration as calibration_figures
from robustness.metrics import calibration as metrics
from robustness.metrics.calibration import (
  BIASED,
  BINS,
  OVERCONFIDENCE,
  QUANTITIES,
  Draws,
  Predictions,
  Scores,
)
from robustness.rescoring.workdir_predictions import WorkdirPredictions, WorkdirScores
from robustness.results import Number, Results, Table
from robustness.wording import calibration as wording

COVERAGES = np.arange(1, 21) / 20
"""Shares of images that are answered, of the curves of selective risk."""
SEED = 0  # of the bootstrap


@dataclasses.dataclass(frozen=True)
class Study(StoredOrMade, study.Study):
  """Settings of the study `calibration`, beside those of `CorruptionViews`.

  Attributes:
    source: 'generated' corrupts the rows; 'stored' takes rows that are corrupted already, and
      scores those of `corruptions` and `severities` that are there.
    bins: M, of confidence.
    resamples: bootstrap samples of the images.
    confidence: of all intervals.
  """

  name: ClassVar[str] = 'calibration'
  papers: ClassVar[tuple[str, ...]] = ('ovadia2019can',)

  source: str = GENERATED
  bins: int = BINS
  resamples: int = 1000
  confidence: float = 0.95

  def __post_init__(self) -> None:
    super().__post_init__()
    self.check_source()
    for key in ('bins', 'resamples'):
      require(getattr(self, key) >= 1, f'config.study.{key}', getattr(self, key), 'at least 1')
    require_fractions(self, 'config.study', 'confidence')

  def prediction_scores(self, config: Mapping[str, Any]) -> WorkdirScores:
    """See `robustness.evaluation.study.Study`; the keys are those of `WorkdirPredictions`."""
    own = {key: getattr(self, key) for key in ('name', 'bins', 'resamples', 'confidence')}
    return WorkdirScores(parse(WorkdirPredictions, config, 'config'), self.reduced, own)

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Reduces the corrupted views, made or stored; see `reduced`."""
    if not self.is_stored:
      return self.reduced(evaluations, self.name_views(image_shape), self.group_views(image_shape))
    joined = [self.of_images(evaluation, image_shape) for evaluation in evaluations]
    _, table = self.by_image(evaluations[0].records, image_shape)
    return self.reduced(joined, table.names, table.groups)

  @property
  def recording(self) -> dict[str, Any]:
    """See `CorruptionViews`; of stored images nothing but predictions is recorded."""
    return self.described if self.is_stored else super().recording

  def reduced(
    self,
    evaluations: Sequence[Evaluation],
    names: Sequence[str],
    groups: Mapping[str, Sequence[int]],
  ) -> Findings:
    """Returns every quantity by view, and its mean over the views of each group.

    Numbers, with q of `QUANTITIES`: `<q>/<group>`, `overconfidence/<group>`, and of several
    classifiers `<label>/<q>_difference/<group>`, its own minus the first's on the same images.
    Arrays: `view` [V]; by view `<q>` [V], `accuracy` and `mean_confidence` [V], the values of
    `BIASED` [V], `bin_size`, `bin_confidence` and `bin_accuracy` [V, bins],
    `selective_error` [V, coverages] by `coverage`.

    Args:
      evaluations: classifiers on the same images.
      names: of the V views.
      groups: places of views by what they are together.
    """
    findings = Findings(arrays={'view': np.array(names), 'coverage': COVERAGES})
    draws = Draws.of(evaluations[0].records.layout.num_rows, self.resamples, SEED)
    rows: list[list[Any]] = []
    first: list[Scores] = []
    prefixes = study.prefixes(evaluations)
    for evaluation, prefix in zip(evaluations, prefixes, strict=True):
      views = self._views(evaluation.records, draws, findings, prefix)
      first = first or views
      for group, members in groups.items():
        of_group = [views[view] for view in members]
        numbers = self._means(of_group)
        findings.numbers.update({f'{prefix}{q}/{group}': n for q, n in numbers.items()})
        means = [
          float(np.mean([findings.arrays[f'{prefix}{name}'][view] for view in members]))
          for name in ('accuracy', 'mean_confidence')
        ]
        rows.append([evaluation.label, group, *means, *(numbers[q].value for q in QUANTITIES)])
        if views is not first:
          differences = self.differences_of([first[view] for view in members], of_group)
          findings.numbers.update({f'{prefix}{q}/{group}': n for q, n in differences.items()})
    findings.tables['calibration'] = Table(
      ('classifier', 'views', 'accuracy', 'mean confidence', *QUANTITIES), rows
    )
    return findings

  def _views(self, records: Records, draws: Draws, findings: Findings, prefix: str) -> list[Scores]:
    """Returns the scores of every view; adds arrays by view."""
    confidence, correct = records.table('confidence'), records.table('rank') == 0
    predictions = [
      Predictions.of(confidence[:, view], correct[:, view]) for view in range(confidence.shape[1])
    ]
    scored = [metrics.scores(each, draws, self.bins) for each in predictions]
    arrays = {
      **{name: np.array([s.values[name] for s in scored]) for name in scored[0].values},
      'accuracy': correct.mean(0),
      'mean_confidence': confidence.mean(0, dtype=float),
      'selective_error': np.stack([each.selective_error(COVERAGES) for each in predictions]),
      **{
        f'bin_{field}': np.stack([getattr(s.bins, field) for s in scored])
        for field in metrics.Bins._fields
      },
    }
    findings.arrays.update({f'{prefix}{name}': values for name, values in arrays.items()})
    return scored

  def _means(self, views: Sequence[Scores]) -> dict[str, Number]:
    """Returns the mean of each quantity over views, resampled by image."""
    numbers, n = {}, views[0].num_images
    text = f'bootstrap over images {self.confidence:g}'
    for name in QUANTITIES:
      value, biased, drawn, calibrated = _mean(views, name)
      low, high = metrics.interval(value, biased, drawn, calibrated, n, self.confidence)
      numbers[name] = Number(value, low, high, n, text)
    value, seen, drawn, calibrated = _mean(views, OVERCONFIDENCE)
    ends = metrics.difference_interval(value, drawn, n, self.confidence, seen, calibrated)
    numbers[OVERCONFIDENCE] = Number(value, *ends, n, text)
    return numbers

  def differences_of(self, first: Sequence[Scores], second: Sequence[Scores]) -> dict[str, Number]:
    """Returns the second's means over views minus the first's, resampled together."""
    numbers, n = {}, first[0].num_images
    for name in QUANTITIES:
      base, base_seen, base_drawn, base_calibrated = _mean(first, name)
      own, seen, drawn, calibrated = _mean(second, name)
      by_chance = None
      if calibrated is not None and base_calibrated is not None:
        # Outcomes of one draw would be right and wrong together, and their difference too narrow.
        by_chance = calibrated - np.roll(base_calibrated, 1)
      low, high = metrics.difference_interval(
        own - base, drawn - base_drawn, n, self.confidence, seen - base_seen, by_chance
      )
      text = f'paired bootstrap over images {self.confidence:g}'
      numbers[f'{name}_difference'] = Number(own - base, low, high, n, text)
    return numbers

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return calibration_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.sentences(results)


def _mean(views: Sequence[Scores], name: str) -> tuple[float, float, np.ndarray, np.ndarray | None]:
  """Returns means over views of a quantity: the estimate, with chance in it, of bootstrap samples
  [B], and of calibrated outcomes [B] where these say something of it."""
  value, seen = (
    float(np.mean([view.values[key] for view in views])) for key in (name, BIASED.get(name, name))
  )
  calibrated = [view.calibrated[name] for view in views if name in view.calibrated]
  return (
    value,
    seen,
    np.mean([view.drawn[name] for view in views], axis=0),
    np.mean(calibrated, axis=0) if calibrated else None,
  )
