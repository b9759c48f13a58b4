"""Whether classifiers know when they are wrong: on clean and corrupted images, or in any run.

Estimates are calibration error, Brier score and selective risk (`robustness.estimates.calibration`)
by view. Views are the same as in the study `corruption_error` (Ovadia et al. 2019, figure 2); a
battery shares the records of both. With `config.predictions` they are the views of a finished
workdir of any study except `si_score`, and only its records are read.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting
from robustness.corruptions.stored import StoredOrMade
from robustness.estimates import calibration as metrics
from robustness.estimates.calibration import BINS, OVERCONFIDENCE, Draws, Predictions, Scores
from robustness.estimates.facets import ordered_facet
from robustness.estimates.means import Estimate, Measured
from robustness.estimates.quantity import ACCURACY, Quantity, declare_amount, declare_error
from robustness.evaluation.outcomes import Evaluation
from robustness.evaluation.study import Figures, ImageShape, Scored, ScoresPredictions
from robustness.evaluation.views import ViewTable
from robustness.present import charts, reliability
from robustness.results import Findings, Results
from robustness.workdirs.finished_workdir import WorkdirPredictions

COVERAGES = np.arange(1, 21) / 20
"""Shares of the images that are answered in curves of selective risk."""
SEED = 0
"""Seed of the bootstrap."""


def _error(name: str, words: str, headline: bool = False) -> Quantity:
  """Declares a calibration error in [0, 1] as a reported quantity.

  Args:
    name: name in results, such as 'ece'.
    words: name in reports, such as 'debiased expected calibration error'.
    headline: whether the error is among the main numbers of a report.
  """
  return Quantity(name, words, 'amount', 'lower', low=0, high=1, headline=headline, biased=True)


EXPECTED = _error('ece', 'debiased expected calibration error', headline=True)
ERRORS = (
  EXPECTED,
  _error('brier', 'Brier score of the predicted class'),
  _error('aurc', 'area under the risk-coverage curve'),
  _error('excess_aurc', 'excess area under the risk-coverage curve'),
  _error('ece_equal_mass', 'debiased expected calibration error in bins of equal mass'),
  _error('rms_calibration_error', 'debiased root mean squared calibration error'),
)
"""Errors that are estimated by group of views, with intervals, and by view."""
BIASED_ERRORS = (
  _error('ece_biased', 'expected calibration error, not debiased'),
  _error('ece_equal_mass_biased', 'expected calibration error in bins of equal mass, not debiased'),
  _error('rms_calibration_error_biased', 'root mean squared calibration error, not debiased'),
)
"""Errors before debiasing, which are estimated only by view."""
EXCESS = Quantity(OVERCONFIDENCE, 'mean confidence minus accuracy', low=-1)
MEAN_CONFIDENCE = Quantity('mean_confidence', 'mean confidence')
SELECTIVE = declare_error('selective_error', 'top-1 error of the images answered', drawn=True)
IN_BINS = (
  declare_amount('bin_size', 'images in a bin of confidence', unit='images'),
  Quantity('bin_confidence', 'mean confidence in a bin'),
  Quantity('bin_accuracy', 'top-1 accuracy in a bin of confidence'),
)
COVERAGE = ordered_facet('coverage', 'share of images answered', words_of_many='shares of images')
BIN = ordered_facet('bin', 'bin of confidence', words_of_many='bins')


@dataclasses.dataclass(frozen=True)
class Calibration(ScoresPredictions, StoredOrMade):
  """A study of calibration, on clean and corrupted images or from another run's predictions.

  Attributes:
    bins: number of confidence bins of calibration errors.
    resamples: number of bootstrap samples for confidence intervals.
  """

  title = 'Confidence against accuracy'
  papers = ('ovadia2019can',)
  prediction_settings = WorkdirPredictions
  described_facets = (COVERAGE, BIN)
  quantities = (
    *(*ERRORS, EXCESS, dataclasses.replace(ACCURACY, headline=False), MEAN_CONFIDENCE),
    *(SELECTIVE, *BIASED_ERRORS, *IN_BINS),
  )

  bins: int = setting(BINS, '1 to 10,000', lambda x: 1 <= x <= 10**4)
  resamples: int = setting(1000, '1 to 100,000', lambda x: 1 <= x <= 10**5)

  def score_predictions(self, settings: WorkdirPredictions, folder: pathlib.Path) -> Scored:
    """Computes calibration from the predictions that an earlier run has stored.

    The views (ways to perturb images) are taken from the earlier run. Hence settings of corruptions
    have no effect and are left out of the results.

    Args:
      settings: names the folder of the earlier run.
      folder: not used.
    """
    keys = 'name', 'bins', 'resamples', 'confidence'  # the settings that the results state
    return settings.scored(self.estimate_views, {key: getattr(self, key) for key in keys})

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns calibration errors, accuracy and confidence by corruption and severity.

    See `estimate_views`. Data sets of stored corrupted images, such as ImageNet-C, are rearranged
    so that the versions of an image are together.
    """
    _, recorded = self.joined(evaluations, image_shape)
    _, table = self.by_image(evaluations[0].records, image_shape)
    return self.estimate_views(recorded.evaluations, table)

  def estimate_views(
    self, evaluations: Sequence[Evaluation], table: ViewTable, seed: int = SEED
  ) -> Findings:
    """Returns calibration errors, accuracy and confidence for each view and group of views.

    A view is one way to perturb the images, such as fog at severity 3. A group, such as all
    severities of fog, has the mean over its views. Groups have confidence intervals and differences
    from the first classifier.

    Args:
      evaluations: recorded predictions of classifiers on the same images.
      table: names of the views and groups.
      seed: seed of the bootstrap.

    Raises:
      InputError: Some views leave out images, or images are not independent, such as versions of
        one image.
    """
    # `counted` says which views leave out images, and `units` which images are dependent.
    if table.counted is not None or table.units is not None:
      raise InputError(
        'calibration needs every image exactly once in every view, and independent images for its '
        'intervals: these are scenes, images of one object or versions of one image. '
        'Give a workdir of another study, or of accuracy_by_factor without '
        f'{KEYS.study.clusters}.'
      )
    draws = Draws.generate(evaluations[0].records.layout.num_rows, self.resamples, seed)
    findings = Findings()
    first = evaluations[0].label
    for evaluation in evaluations:
      label, records = evaluation.label, evaluation.records
      confidence = records.table('confidence').T  # [V, N]
      is_right = records.table('rank').T == 0  # rank 0: the true class is the predicted one
      # The predictions in each view, sorted by confidence.
      predictions = list(map(Predictions.sort, confidence, is_right))
      by_view = [metrics.scores(view, draws, self.bins) for view in predictions]
      # {name of a view or group: its scores, which are means over the views of a group}
      scores = {}
      for name, views in _views_by_name(table).items():
        scores[name] = Scores.mean([by_view[view] for view in views])
      findings.estimates.append(self.table_of(label, self._values(scores, table)))
      if label == first:
        first_scores = scores
      else:
        differences = []
        for name in table.groups:
          for quantity in ERRORS:
            estimate = scores[name].minus(first_scores[name], quantity.name, self.confidence)
            differences.append((quantity, table.facets_of(name), estimate))
        findings.estimates.append(self.table_of(label, differences, versus=first))
      findings.estimates += self._curves(label, predictions, table)
    return findings

  def _values(self, scores: Mapping[str, Scores], table: ViewTable) -> Iterator[Measured]:
    """Yields the quantities of a classifier for each view and each group of views.

    Calibration errors of groups have bootstrap intervals. Single views have none, but also have the
    errors before debiasing.

    Args:
      scores: {name of a view or group: values of the quantities}.
      table: names of the views (such as fog at severity 3) and groups (such as fog).
    """
    for name, measured in scores.items():
      not_debiased = BIASED_ERRORS if name in table.names else ()
      for quantity in (*ERRORS, EXCESS, ACCURACY, MEAN_CONFIDENCE, *not_debiased):
        if name in table.groups and quantity in (*ERRORS, EXCESS):
          estimate = measured.estimate(quantity.name, self.confidence)
        else:
          estimate = Estimate.without_interval(float(measured.values[quantity.name]), measured.n)
        yield quantity, table.facets_of(name), estimate

  def _curves(
    self, label: str, views: Sequence[Predictions], table: ViewTable
  ) -> Iterator[pd.DataFrame]:
    """Yields tables for risk-coverage curves and reliability diagrams of a classifier.

    The risk at coverage c is the top-1 error on the fraction c of images with the most confident
    predictions. It is computed for each view (such as fog at severity 3) and each group of views.
    Reliability is the accuracy and mean confidence in bins of equal width, for each view.

    Args:
      label: name of the classifier.
      views: predictions of the classifier in each view.
      table: names of the views and groups.
    """
    views_by_name = _views_by_name(table)
    facets = pd.DataFrame([dict(table.facets_of(name)) for name in views_by_name])
    n = len(views[0].order)
    by_view = np.stack([view.selective_error(COVERAGES) for view in views])  # [V, coverages]
    # The curve of a group is the mean curve of its views.
    risks = np.concatenate([by_view[indices].mean(0) for indices in views_by_name.values()])
    by_coverage = facets.merge(pd.DataFrame({'coverage': COVERAGES}), how='cross')
    yield self.arrays(SELECTIVE, label, by_coverage, risks, n=n)
    numbers = pd.DataFrame({'bin': np.arange(1, self.bins + 1)})
    by_bin = facets[: len(views)].merge(numbers, how='cross')  # single views come before groups
    # The size, confidence and accuracy of each bin, in the order of `IN_BINS`, [V, 3, bins].
    in_bins = np.stack([view.binned(view.equal_width(self.bins)) for view in views])
    for index, quantity in enumerate(IN_BINS):
      yield self.arrays(quantity, label, by_bin, in_bins[:, index].ravel(), n=n)

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and the reliability diagram as `reliability`."""
    return {'reliability': reliability.draw(results), **charts.draw(results)}


def _views_by_name(table: ViewTable) -> dict[str, Sequence[int]]:
  """Returns {name of a view or of a group: indices of its views}, with single views first."""
  single_views = {name: [view] for view, name in enumerate(table.names)}
  return {**single_views, **table.groups}
