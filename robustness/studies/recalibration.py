"""Rescaled confidence and prediction sets, fitted to held-out images, under corruption.

A random share of the unchanged images is held out. They fit the scalings of
`robustness.estimates.scaling` and the thresholds of `robustness.estimates.prediction_sets`; all
other images measure these, clean and corrupted (Ovadia et al. 2019, figure 2, has temperature
scaling under shift).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from robustness.core import decimals
from robustness.core.errors import KEYS, InputError
from robustness.core.registry import are_distinct, setting
from robustness.core.rows import Rows
from robustness.corruptions.stored import StoredOrMade
from robustness.corruptions.views import CLEAN
from robustness.estimates import calibration, prediction_sets, scaling
from robustness.estimates.calibration import BINS, Draws, Predictions, Scores
from robustness.estimates.facets import Facet
from robustness.estimates.means import Estimate, Row, estimate_row, table_of_rows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, Quantity, declare_amount
from robustness.evaluation.outcomes import Evaluation, Recorded, refuse_versions
from robustness.evaluation.records import Shard
from robustness.evaluation.study import Figures, Recipes
from robustness.present import charts
from robustness.results import Results
from robustness.studies.calibration import EXPECTED

LOGITS = 'output/logits'
"""Name of the recorded logits."""
SEED = 0
"""Seed of the split, of the random numbers U of prediction sets, and of the bootstrap."""
FEWEST = 20
"""Fewest images that are held out, and fewest that are measured."""
ECE = dataclasses.replace(EXPECTED, by=('view', 'scaling'))
LIKELIHOOD = declare_amount(
  'nll',
  'negative log-likelihood',
  better='lower',
  unit='nats',
  statistic=operator.itemgetter('nll'),
)
# Right and covered are recorded as 0 or 1 in float32, like all `Recalibration._fields`.
RIGHT = dataclasses.replace(
  ACCURACY, headline=False, reference='', statistic=lambda fields: fields['right'] > 0
)
COVERED = Quantity(
  'set_coverage',
  'share of images whose prediction set holds the class ({promised} promised)',
  headline=True,
  by=('view', 'score'),
  extreme='lowest',
  statistic=lambda fields: fields['covered'] > 0,
)
SIZE = declare_amount(
  'set_size',
  'size of a prediction set',
  unit='classes',
  drawn=True,
  statistic=lambda fields: fields['size'].astype(float),
)
STRATIFIED = Quantity(
  'size_stratified_violation', 'largest gap of coverage over strata of set size', better='lower'
)
BY_CLASS = Quantity('class_coverage_gap', 'mean gap of coverage over classes', better='lower')
FITTED = declare_amount('temperature', 'temperature fitted on the images held out')
SCALING = Facet('scaling', 'scaling', place='with {} scaling', places={'none': 'without scaling'})
GROUPS = (('view',), ('severity',), ('corruption',), ('corruption', 'severity'))
"""The facets of each table of estimates: all corrupted views together, each severity, each
corruption, and each single view. The clean view is separate in the first two, because it has the
facets view 'clean' and severity 0, and it is absent in the others, because it has no corruption.
"""
SCALING_FIELDS, SET_FIELDS = ('nll', 'confidence', 'right'), ('covered', 'size')
"""What is measured of each image: with a scaling −log p of the true class, the confidence, and
whether the prediction is right; by a score whether the set has the true class, and its size.
"""
ENDS = ('', '_low', '_high')
"""Ends of the names of `SET_FIELDS` at the threshold q, and at both ends of its interval."""


Fields = Mapping[str, Mapping[str, np.ndarray]]
"""Measured values, {classifier: {field: values [N, V] by image and view}}."""


@dataclasses.dataclass(frozen=True)
class Recalibration(StoredOrMade):
  """A study of recalibrated confidence and conformal prediction sets, under corruption.

  Attributes:
    held_out: random fraction of the images to fit on, which are not measured. Half of them fit the
      scalings, half the thresholds of prediction sets.
    scalings: names of scalings of the logits: 'temperature', 'vector' and 'matrix'.
    penalty: λ of vector and matrix scaling; 0 selects it by cross-validation.
    scores: scores of prediction sets, which have all classes with a score up to a threshold. 'lac'
      is 1 − p of a class. 'aps' sums the probabilities of all classes that are at least as
      probable. 'raps' is 'aps' with a penalty. p is after temperature scaling, if `scalings` has
      it.
    alpha: α. Prediction sets have the true class with probability 1 − α, for images drawn like the
      held-out ones.
    raps_penalty: λ of 'raps', the penalty on each class beyond `raps_rank`.
    raps_rank: k of 'raps', the largest rank of a class without penalty.
    bins: number of confidence bins of calibration errors.
    resamples: number of bootstrap samples for calibration errors.
  """

  title = 'Rescaled confidence and prediction sets'
  papers = ('guo2017calibration', 'ovadia2019can', 'angelopoulos2021uncertainty')
  outputs = ('logits',)
  described_facets = (SCALING,)
  needs_clean = True
  held_out: float = setting(0.5, 'in (0, 1)', lambda x: 0 < x < 1)
  scalings: tuple[str, ...] = setting(scaling.KINDS, 'distinct', are_distinct)
  penalty: float = setting(
    0.0,
    'at least 0 and finite',
    lambda x: 0 <= x < np.inf,
    only_with=('scalings', 'vector', 'matrix'),
  )
  scores: tuple[str, ...] = setting(prediction_sets.SCORES, 'distinct', are_distinct)
  alpha: float = setting(0.1, 'in (0, 1)', lambda x: 0 < x < 1, only_with=('scores',))
  raps_penalty: float = setting(
    0.01, 'at least 0 and finite', lambda x: 0 <= x < np.inf, only_with=('scores', 'raps')
  )
  raps_rank: int = setting(5, 'at least 0', lambda x: x >= 0, only_with=('scores', 'raps'))
  bins: int = setting(BINS, '1 to 10,000', lambda x: 1 <= x <= 10**4)
  resamples: int = setting(200, '1 to 100,000', lambda x: 1 <= x <= 10**5)

  def __post_init__(self) -> None:
    """Raises InputError for an unknown scaling or score, or if neither is selected.

    Scalings recalibrate logits, and scores define prediction sets.
    """
    super().__post_init__()
    self.choose('scalings', scaling.KINDS)
    self.choose('scores', prediction_sets.SCORES)
    self.require(bool(self.scalings or self.scores), 'scalings', 'not empty without scores')

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError unless there are enough images to fit on and to measure.

    Images must have one label each. They may be versions of one image only in a stored set of
    corruptions.
    """
    super().check(rows, recipes)
    columns = rows.without_images()
    if not self.is_stored:
      refuse_versions(columns)
    _single_labels(columns['label'])  # raises if an image has several labels
    # A part of a stored set is one corruption at one severity, and has every image once.
    num_parts = rows.description['parts'] if self.is_stored else 1
    self._split(rows.num_examples // num_parts)  # raises if there are too few images

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities; the description of coverage states 1 − α, such as '90 %'."""
    promised = f'{100 * (1 - self.alpha):g} %'
    covered = dataclasses.replace(COVERED, words=COVERED.words.format(promised=promised))
    return (ECE, covered, SIZE, LIKELIHOOD, RIGHT, STRATIFIED, BY_CLASS, FITTED)

  @property
  def recording(self) -> dict[str, Any]:
    """The settings on which recorded logits depend; equal settings share recorded logits."""
    return {**super().recording, 'outputs': list(self.outputs)}

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields tables of results on rescaled confidence and on prediction sets.

    A scaling maps logits to better calibrated ones. A prediction set has all classes with a score
    up to a threshold, and holds the true class with a promised probability. Both are fitted to
    held-out images and measured on the others. Results are over all corruptions, by severity, by
    corruption, and by both.

    The tables are, in this order: the fitted temperature of each classifier; for each scaling the
    likelihood, the accuracy and the calibration errors; and for each score of prediction sets the
    coverage, the size and two gaps of the coverage.

    Args:
      recorded: the logits of each classifier for all images in V views: clean, and under each
        corruption at each severity.
    """
    recorded.require_distinct()  # raises if two rows are versions of one image
    # `GROUPS` averages views by these columns: the clean view gets severity 0 and view 'clean'.
    view = np.where(recorded.views.corruption.isna(), 'clean', 'corrupted')
    views = recorded.views.assign(severity=recorded.views.severity.fillna(0).astype(int), view=view)
    # The indices of images that scalings are fitted to, that decide on thresholds, and the others.
    fitting, deciding, measured = self._split(recorded.evaluations[0].records.layout.num_rows)
    fits = {}  # {classifier: its scalings and thresholds}
    values = {}  # {classifier: [n, V, F]}, F values as in `_fields` of the n measured images
    labels = {}  # {classifier: the classes of the n images}
    for evaluation in recorded.evaluations:
      label, records = evaluation.label, evaluation.records
      fits[label] = self._fit(evaluation, fitting, deciding)
      values[label] = records.values(fits[label].measured)[measured]
      labels[label] = _single_labels(records.column('label'))[measured]
    for label, fitted in fits.items():  # a table with the fitted temperature of each classifier
      if scaling.TEMPERATURE in fitted.scalings:
        temperature = 1 / float(fitted.scalings[scaling.TEMPERATURE].weight)
        estimate = Estimate.without_interval(temperature, n=len(fitting))
        yield self.table_of(label, [(FITTED, {}, estimate)])
    resamples = Draws.generate(len(measured), self.resamples, SEED)
    for name in (scaling.NONE, *self.scalings):
      fields = self._select_fields(values, name, SCALING_FIELDS)
      right = Outcomes.from_fields(RIGHT, fields, views)
      losses = Outcomes.from_fields(LIKELIHOOD, fields, views)
      notes = {label: fitted.note(name) for label, fitted in fits.items()}
      facets = {'scaling': name}
      for by in GROUPS:
        likelihood = self.means(LIKELIHOOD, losses, by, facets=facets)
        yield likelihood.assign(note=likelihood.classifier.map(notes))
        yield self.means(RIGHT, right, by, facets=facets)
      yield self._calibration(fields, right, facets, resamples)
    for name in self.scores:
      # At the threshold, and then at both ends of its interval.
      by_threshold = [self._select_fields(values, name, SET_FIELDS, end) for end in ENDS]
      yield from self._coverage_and_size(name, by_threshold, views, fits)
      # The gaps are by corruption and severity only, and at the threshold itself.
      facets_of_gaps = views.drop(columns='view').assign(score=name)
      for label, at_threshold in by_threshold[0].items():
        is_covered, sizes = at_threshold['covered'] > 0, at_threshold['size']
        largest_gap = prediction_sets.size_stratified_violation(is_covered, sizes, self.alpha)
        yield self.arrays(STRATIFIED, label, facets_of_gaps, largest_gap, n=len(sizes))
        mean_gap = prediction_sets.class_coverage_gap(is_covered, labels[label], self.alpha)
        yield self.arrays(BY_CLASS, label, facets_of_gaps, mean_gap, n=len(sizes))

  def _coverage_and_size(
    self,
    score: str,
    by_threshold: Sequence[Fields],
    views: pd.DataFrame,
    fits: Mapping[str, _Fitted],
  ) -> Iterator[pd.DataFrame]:
    """Yields coverage and size of the prediction sets of one score.

    Results are over all corruptions, by severity, by corruption, and by both. Intervals include the
    random choice of the held-out images that determine the threshold q.

    Args:
      score: name of the score, such as 'aps'.
      by_threshold: {classifier: {'covered' or 'size': values [N, V]}} at three thresholds: q, and
        the low and the high end of its interval.
      views: table with the corruption and severity of each of V views.
      fits: {classifier: whether the true class is in the prediction set, for the n images that
        determine q, and other facts}.
    """
    # Correlations with the first classifier, for the intervals of differences from it.
    is_in_set = np.stack([fitted.is_in_set[score] for fitted in fits.values()]).astype(float)
    correlations = [_correlation(is_in_set[0], of_classifier) for of_classifier in is_in_set]
    for by in GROUPS:
      for quantity in (COVERED, SIZE):
        measured = []  # tables of estimates at q, and at the low and high end of its interval
        for fields in by_threshold:
          outcomes = Outcomes.from_fields(quantity, fields, views)
          measured.append(self.means(quantity, outcomes, by, facets={'score': score}))
        at_q, *at_ends = measured
        ends = [estimates.value.to_numpy() for estimates in at_ends]
        yield prediction_sets.with_threshold_draw(at_q, ends, correlations, quantity)

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, with the stated coverage 1 − α in captions.

    The figure of coverage against severity also has a line at 1 − α.
    """
    figures, stated = charts.draw(results), 100 * (1 - self.alpha)
    for name, (figure, caption) in figures.items():
      if name.startswith(COVERED.name) and not name.endswith('_difference'):
        figures[name] = figure, f'{caption} The stated coverage is 1 − α = {stated:g} %.'
    charts.with_line(figures, f'{COVERED.name}_severity_score', stated, 'the stated coverage')
    return figures

  @property
  def _fields(self) -> list[tuple[str, str]]:
    """The F values that are measured for every image and view, as pairs (value, method).

    The method is a scaling or a score, for instance ('nll', 'temperature').
    """
    set_fields = [field + end for end in ENDS for field in SET_FIELDS]
    fields = [(field, name) for name in (scaling.NONE, *self.scalings) for field in SCALING_FIELDS]
    return fields + [(field, name) for name in self.scores for field in set_fields]

  def _select_fields(
    self, measured: Mapping[str, np.ndarray], name: str, fields: Sequence[str], end: str = ''
  ) -> dict[str, dict[str, np.ndarray]]:
    """Selects the values of one scaling or score: {classifier: {field: values [N, V]}}.

    Args:
      measured: {classifier: values [N, V, F]} in the order of `_fields`.
      name: name of the scaling or score.
      fields: names of values: 'nll', 'confidence' and 'right' of a scaling, or 'covered' and 'size'
        of a score.
      end: for a score, the threshold: '' is the fitted one, '_low' and '_high' are the ends of its
        interval.
    """
    indices = {field: self._fields.index((field + end, name)) for field in fields}
    selected = {}
    for label, values in measured.items():
      selected[label] = {field: values[..., index] for field, index in indices.items()}
    return selected

  def _split(self, num_images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Splits images at random into three parts; returns the indices of each, ascending.

    Args:
      num_images: number of images.

    Returns:
      The images that scalings are fitted to, the images that determine the thresholds of prediction
      sets, and the images to measure. The first two are the held-out images, half each.
    """
    more_images = f'Give more images ({KEYS.data.num_images})'
    num_held_out = round(self.held_out * num_images)
    if min(num_held_out, num_images - num_held_out) < FEWEST:
      problem = f'of {num_images} images {num_held_out}'
      fewest = f'At least {FEWEST} are fitted on and at least {FEWEST} measured.'
      raise self.refused('held_out', problem, fix=f'{fewest} {more_images}.')
    num_fitting = num_held_out // 2
    num_deciding = num_held_out - num_fitting
    # With n < 1/α − 1 images, no score has a rank of (n + 1)(1 − α): the threshold is ∞.
    needed = decimals.ceil(1 / self.alpha) - 1
    if num_deciding < needed:
      problem = f'and {num_deciding} images held out decide thresholds, of which it needs {needed}'
      fix = f'{more_images}, or a larger alpha.'
      raise self.refused('alpha', problem, f'With fewer every class is in every set. {fix}')
    order = np.random.default_rng(SEED).permutation(num_images)
    fitting, deciding, measured = np.split(order, (num_fitting, num_held_out))
    return np.sort(fitting), np.sort(deciding), np.sort(measured)

  def _fit(self, evaluation: Evaluation, fitting: np.ndarray, deciding: np.ndarray) -> _Fitted:
    """Fits scalings of the logits and thresholds of prediction sets to clean images.

    Args:
      evaluation: recorded logits of a classifier.
      fitting: indices of the images that scalings are fitted to.
      deciding: indices of the images that determine the thresholds.

    Raises:
      InputError: The classifier cannot predict the class of some images.
    """
    records = evaluation.records
    logits, labels = records.column(LOGITS, CLEAN), _single_labels(records.column('label'))
    can_predict = np.isfinite(logits).all(0)  # the logits of missing classes are −∞
    if not can_predict[labels].all():
      raise InputError(
        f'{evaluation.label} cannot predict the class of some images, which no scaling mends: '
        'measure it on images of the classes that it has.'
      )
    fitting_logits = logits[fitting][:, can_predict]
    # Labels are indices of columns of these logits. If class 2 of 0 to 3 cannot be predicted, the
    # classes 0, 1 and 3 have the columns 0, 1 and 2.
    column_of_class = can_predict.cumsum() - 1
    fitting_labels = column_of_class[labels[fitting]]
    scalings = {scaling.NONE: scaling.Scaling()}
    for kind in self.scalings:
      scalings[kind] = scaling.fit(kind, fitting_logits, fitting_labels, self.penalty)
    num_without_image = int(can_predict.sum()) - len(np.unique(fitting_labels))
    uniform = np.random.default_rng(SEED).random(len(labels))
    fitted = _Fitted(self, scalings, can_predict, num_without_image, uniform, labels)
    # The thresholds are added last, because scores are computed with the scalings.
    for name, scores in fitted.prediction_set_scores(logits[deciding], uniform[deciding]).items():
      true_scores = np.take_along_axis(scores, labels[deciding][:, None], 1)[:, 0]
      threshold = prediction_sets.threshold(true_scores, self.alpha, self.confidence)
      fitted.thresholds[name] = threshold
      fitted.is_in_set[name] = true_scores <= threshold.q
    return fitted

  def _calibration(
    self, fields: Fields, right: Outcomes, facets: Mapping[str, str], resamples: Draws
  ) -> pd.DataFrame:
    """Returns expected calibration errors with one scaling of the logits.

    Results are over all corruptions, by severity, by corruption, and by both. The table also has
    differences from the first classifier.

    Args:
      fields: {classifier: {'confidence': values [N, V]}} for N images in V views.
      right: whether predictions are right, [N, V].
      facets: {'scaling': name of the scaling}.
      resamples: bootstrap samples of the images.
    """
    rows: list[Row] = []
    groups = [group for by in GROUPS for group in right.groups(by)]
    first = right.labels[0]
    first_scores: list[Scores] = []  # of the first classifier, by group
    for label, is_right in right.values.items():
      # Confidence and correctness are [N, V]: they are transposed to take view by view.
      predictions = map(Predictions.sort, fields[label]['confidence'].T, is_right.T)
      scores_by_view = [calibration.scores(view, resamples, self.bins) for view in predictions]
      for number, group in enumerate(groups):
        scores = Scores.mean([scores_by_view[view] for view in group.views])
        all_facets = {**facets, **group.facets}
        estimate = scores.estimate(ECE.name, self.confidence)
        rows.append(estimate_row(label, '', ECE, all_facets, estimate, self.confidence))
        if label == first:
          first_scores.append(scores)
        else:
          estimate = scores.minus(first_scores[number], ECE.name, self.confidence)
          rows.append(estimate_row(label, first, ECE, all_facets, estimate, self.confidence))
    return table_of_rows(rows)


@dataclasses.dataclass(frozen=True)
class _Fitted:
  """Scalings and thresholds of prediction sets of one classifier, fitted to held-out images.

  Attributes:
    study: the study with its settings.
    scalings: {name: scaling of the logits}.
    can_predict: bool [K], whether the classifier can predict each class.
    num_without_image: number of these classes without an image to fit scalings to.
    uniform: random numbers in [0, 1) for randomised scores, one per image, [N].
    labels: int [N], classes of all images.
    thresholds: {score: threshold q}. Prediction sets have the classes that score at most q.
    is_in_set: {score: bool [n]}, whether the prediction set has the true class, for the n images
      that determine q.
  """

  study: Recalibration
  scalings: Mapping[str, scaling.Scaling]
  can_predict: np.ndarray
  num_without_image: int
  uniform: np.ndarray
  labels: np.ndarray
  thresholds: dict[str, prediction_sets.Threshold] = dataclasses.field(default_factory=dict)
  is_in_set: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

  def note(self, name: str) -> str:
    """Returns a note if a scaling has parameters of classes without an image to fit, else ''.

    Only 'vector' and 'matrix' scaling have parameters of single classes.

    Args:
      name: name of the scaling.
    """
    count = self.num_without_image if name in (scaling.VECTOR, scaling.MATRIX) else 0
    return f'{count} classes have no image that is fitted on' if count else ''

  def rescaled(self, name: str, logits: np.ndarray) -> np.ndarray:
    """Rescales logits [..., K]; classes that the classifier cannot predict get −∞.

    Args:
      name: name of the scaling, such as 'temperature'.
      logits: [..., K].
    """
    scaled = np.full(logits.shape, -np.inf)
    scaled[..., self.can_predict] = self.scalings[name](logits[..., self.can_predict].astype(float))
    return scaled

  def prediction_set_scores(self, logits: np.ndarray, uniform: np.ndarray) -> dict[str, np.ndarray]:
    """Computes the scores of classes for prediction sets: {kind of score: [..., K]}.

    A prediction set has the classes with a score up to a threshold. Scores are computed from
    probabilities, after temperature scaling if it is fitted.

    Args:
      logits: [..., K].
      uniform: random numbers in [0, 1), [...], for the randomised scores 'aps' and 'raps'.
    """
    name = scaling.TEMPERATURE if scaling.TEMPERATURE in self.scalings else scaling.NONE
    probabilities = special.softmax(self.rescaled(name, logits), -1)
    penalty, rank = self.study.raps_penalty, self.study.raps_rank  # only 'raps' uses them
    return {
      kind: prediction_sets.scores(kind, probabilities, uniform, penalty, rank)
      for kind in self.study.scores
    }

  def measured(self, shard: Shard) -> np.ndarray:
    """Measures n images in v views and returns F values for each, float32 [n, v, F].

    `self` has what was fitted for one classifier: scalings of the logits, and for each score the
    threshold of prediction sets. With each scaling the values are −log p of the true class, the
    confidence, and whether the prediction is right. For each score they are whether the prediction
    set has the true class, and its size. Sets are measured at the threshold and at both ends of its
    interval.

    Args:
      shard: recorded logits of some of the images.
    """
    logits = shard[LOGITS]
    labels = np.broadcast_to(self.labels[shard.rows, None], logits.shape[:2])
    uniform = np.broadcast_to(self.uniform[shard.rows, None], logits.shape[:2])
    fields = []  # in the order of `Recalibration._fields`
    for name in self.scalings:
      scaled = self.rescaled(name, logits)
      loss = scaling.negative_log_likelihood(scaled, labels)  # −log p of the true class
      confidence = special.softmax(scaled, -1).max(-1)
      is_right = scaled.argmax(-1) == labels
      fields += [loss, confidence, is_right]
    for name, scores in self.prediction_set_scores(logits, uniform).items():
      for threshold in self.thresholds[name]:  # q, and both ends of its interval
        is_in_set = (scores <= threshold) & self.can_predict
        is_covered = np.take_along_axis(is_in_set, labels[..., None], -1)[..., 0]
        fields += [is_covered, is_in_set.sum(-1)]
    return np.stack(fields, -1).astype(np.float32)


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
  """Returns Pearson's correlation of two arrays, or 0 if either is constant."""
  first, second = first - first.mean(), second - second.mean()
  scale = np.sqrt((first**2).sum() * (second**2).sum())
  return float((first * second).sum() / scale) if scale else 0.0


def _single_labels(labels: np.ndarray) -> np.ndarray:
  """Returns the class of each image, [N], from labels [N] or [N, L] padded with −1.

  Raises:
    InputError: An image has several labels.
  """
  columns = labels.reshape(len(labels), -1)
  if (columns[:, 1:] >= 0).any():
    raise InputError(
      'some images have several labels, and a scaling is fitted on one: choose rows of one label.'
    )
  return columns[:, 0]
