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
import pandas as pd

from robustness.core.settings import parse, require, require_fractions
from robustness.corruptions.stored_views import GENERATED, StoredOrMade
from robustness.estimates.means import Row, arrays, of_number, part
from robustness.estimates.quantity import ACCURACY, Quantity
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.view_table import ViewTable
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


def _error(name: str, words: str, headline: bool = False) -> Quantity:
  return Quantity(name, words, 'amount', 'lower', low=0, high=1, headline=headline)


ERRORS = (
  _error('ece', 'expected calibration error, debiased', headline=True),
  _error('brier', 'Brier score of the predicted class', headline=True),
  _error('aurc', 'area under the risk-coverage curve', headline=True),
  _error('excess_aurc', 'area under the risk-coverage curve above the least possible one'),
  _error('ece_equal_mass', 'expected calibration error, bins of equal mass, debiased'),
  _error('rms_calibration_error', 'root mean squared calibration error, debiased'),
  _error('ece_biased', 'expected calibration error with chance in it'),
  _error('ece_equal_mass_biased', 'expected calibration error, equal mass, with chance in it'),
  _error('rms_calibration_error_biased', 'root mean squared calibration error, with chance in it'),
)
"""By view and by group, those with chance in them by view alone."""
LEANING = Quantity(OVERCONFIDENCE, 'mean confidence minus accuracy', low=-1)
MEAN_CONFIDENCE = Quantity('mean_confidence', 'mean confidence')
SELECTIVE = Quantity('selective_error', 'top-1 error of the images answered', better='lower')
IN_BINS = (
  Quantity('bin_size', 'images in a bin of confidence', 'amount', unit='images', low=0),
  Quantity('bin_confidence', 'mean confidence in a bin'),
  Quantity('bin_accuracy', 'top-1 accuracy in a bin of confidence'),
)
BOOTSTRAP = 'bootstrap'


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
    joined = [self.of_images(evaluation, image_shape) for evaluation in evaluations]
    _, table = self.by_image(evaluations[0].records, image_shape)
    return self.reduced(joined, table)

  @property
  def recording(self) -> dict[str, Any]:
    """See `CorruptionViews`; of stored images nothing but predictions is recorded."""
    return self.described if self.is_stored else super().recording

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (*ERRORS, LEANING, ACCURACY, MEAN_CONFIDENCE, SELECTIVE, *IN_BINS)

  def reduced(self, evaluations: Sequence[Evaluation], table: ViewTable) -> Findings:
    """Returns every quantity by view, and its mean over the views of each group.

    Numbers, with q of `QUANTITIES`: `<q>/<group>`, `overconfidence/<group>`, and of several
    classifiers `<label>/<q>_difference/<group>`, its own minus the first's on the same images.
    Arrays: `view` [V]; by view `<q>` [V], `accuracy` and `mean_confidence` [V], the values of
    `BIASED` [V], `bin_size`, `bin_confidence` and `bin_accuracy` [V, bins],
    `selective_error` [V, coverages] by `coverage`.

    Args:
      evaluations: classifiers on the same images.
      table: what the V views and their groups are.
    """
    findings = Findings(arrays={'view': np.array(table.names), 'coverage': COVERAGES})
    draws = Draws.of(evaluations[0].records.layout.num_rows, self.resamples, SEED)
    rows: list[list[Any]] = []
    estimates: list[Row] = []
    of_views = [table.facets_of(name) for name in table.names]
    first: list[Scores] = []
    prefixes = study.prefixes(evaluations)
    for evaluation, prefix in zip(evaluations, prefixes, strict=True):
      views = self._views(evaluation.records, draws, findings, prefix)
      first = first or views
      findings.estimates += self._by_view(findings, evaluation.label, prefix, table)
      for group, members in table.groups.items():
        facets = table.facets_of(group)
        of_group = [views[view] for view in members]
        numbers = self._means(of_group)
        findings.numbers.update({f'{prefix}{q}/{group}': n for q, n in numbers.items()})
        means = [
          float(np.mean([findings.arrays[f'{prefix}{name}'][view] for view in members]))
          for name in ('accuracy', 'mean_confidence')
        ]
        rows.append([evaluation.label, group, *means, *(numbers[q].value for q in QUANTITIES)])
        if facets not in of_views:
          n = numbers[OVERCONFIDENCE].n
          for quantity, value in zip((ACCURACY, MEAN_CONFIDENCE), means, strict=True):
            none = Number(value, np.nan, np.nan, n, '')
            given = evaluation.label, '', quantity, facets, none, '', self.confidence
            estimates.append(of_number(*given))
        estimates += self._rows(evaluation.label, '', facets, numbers)
        if views is not first:
          differences = self.differences_of([first[view] for view in members], of_group)
          findings.numbers.update({f'{prefix}{q}/{group}': n for q, n in differences.items()})
          estimates += self._rows(evaluation.label, evaluations[0].label, facets, differences)
    findings.estimates.append(part(estimates))
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
    by_view = {
      **{name: np.array([s.values[name] for s in scored]) for name in scored[0].values},
      'accuracy': correct.mean(0),
      'mean_confidence': confidence.mean(0, dtype=float),
      'selective_error': np.stack([each.selective_error(COVERAGES) for each in predictions]),
      **{
        f'bin_{field}': np.stack([getattr(s.bins, field) for s in scored])
        for field in metrics.Bins._fields
      },
    }
    findings.arrays.update({f'{prefix}{name}': values for name, values in by_view.items()})
    return scored

  def _rows(
    self, label: str, versus: str, facets: Mapping[str, Any], numbers: Mapping[str, Number]
  ) -> list[Row]:
    """Returns rows of the table of results of numbers of one group of views."""
    known = {quantity.name: quantity for quantity in self.quantities}
    named = {name.removesuffix('_difference'): number for name, number in numbers.items()}
    return [
      of_number(label, versus, known[name], facets, number, BOOTSTRAP, self.confidence)
      for name, number in named.items()
    ]

  def _by_view(
    self, findings: Findings, label: str, prefix: str, table: ViewTable
  ) -> list[pd.DataFrame]:
    """Returns rows of the table of results of all that is known view by view, without intervals.

    A view that is a group of its own has its quantities there.
    """
    facets = pd.DataFrame([dict(table.facets_of(name)) for name in table.names])
    groups = [table.facets_of(name) for name in table.groups]
    apart = np.array([table.facets_of(name) not in groups for name in table.names])
    n = int(findings.arrays[f'{prefix}bin_size'][0].sum())
    parts = []
    for quantity in (*ERRORS, LEANING, ACCURACY, MEAN_CONFIDENCE):
      values = findings.arrays[prefix + quantity.name]
      shown = apart if quantity.name in (*QUANTITIES, OVERCONFIDENCE) else np.ones_like(apart)
      parts.append(arrays(quantity, label, facets[shown], values[shown], n=n))
    for quantity, facet, along in (
      (SELECTIVE, 'coverage', COVERAGES),
      *((quantity, 'bin', np.arange(1, self.bins + 1)) for quantity in IN_BINS),
    ):
      every = facets.loc[facets.index.repeat(len(along))]
      by_both = every.assign(**{facet: np.tile(along, len(facets))})
      values = findings.arrays[prefix + quantity.name].ravel()
      parts.append(arrays(quantity, label, by_both, values, n=n))
    return parts

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
