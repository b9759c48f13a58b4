"""Accuracy on anchors and on the worst of their neighboring video frames: acc_orig and pm-k.

An anchor is a labelled frame of a video. Its neighbors are the frames of the same video within k
frames of it, and an anchor with its neighbors is a neighbor set. pm-k is the share of sets in which
every frame is classified right. Each distinct frame is shown to the classifier once. All estimates
are computed from the recorded outputs, so that another k or another rule for labels needs no
classifier. Intervals resample videos; sets with a common frame count as one video.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021; Gu et al., Using
Videos to Evaluate Image Model Robustness, 2019, for `conditional_accuracy`.
"""

import dataclasses
import functools
import operator
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import jax
import numpy as np
import pandas as pd
from absl import logging

from robustness.core.errors import KEYS
from robustness.core.paths import expanded
from robustness.core.registry import setting, word
from robustness.core.rows import Rows
from robustness.core.typing import PlainValue
from robustness.estimates.facets import Facet, ordered_facet
from robustness.estimates.intervals import EXACT
from robustness.estimates.means import published_row, table_of_rows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.estimates.tradeoff import linear_fit
from robustness.evaluation import study
from robustness.evaluation.failures import class_name
from robustness.evaluation.outcomes import ONE_VIEW, Evaluation, Recorded
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.views import ViewTable
from robustness.models.label_space import MERGES
from robustness.present import charts
from robustness.results import Findings, Results, Table
from robustness.video import accuracy_figures, columns, metadata, testbed, wrong_neighbors
from robustness.video import neighbor_estimates as metrics
from robustness.video.metadata import LABEL_RULES, NeighborSets, are_reviewed
from robustness.video.neighbor_estimates import SetOutcomes, right_within
from robustness.video.predictions import FramePredictions, read_predictions, read_sets
from robustness.video.rescoring import Rescoring


def all_right_within(
  right: SetOutcomes, distances: Sequence[int], include_anchor: bool = True
) -> np.ndarray:
  """Returns whether a classifier is right on all frames near the anchor, bool [A, D].

  An anchor is a labelled video frame.

  Args:
    right: whether the classifier is right on the frames near A anchors.
    distances: D distances from the anchor in frames.
    include_anchor: whether the anchor must be right too.
  """
  within = right_within(right, max(distances), include_anchor)  # at 0, 1, ..., max(distances)
  return within[..., np.asarray(distances)]


def drop_within(
  right: SetOutcomes, distances: Sequence[int], include_anchor: bool = True
) -> np.ndarray:
  """Returns the drop of correctness from an anchor to its worst nearby frame, [A, D].

  An anchor is a labelled video frame. If the anchor is included, the drop is True where the anchor
  is right and any frame is wrong. Otherwise it is right (1 or 0) for the anchor minus right for the
  worst neighbor: −1, 0 or 1.

  Args:
    right: whether a classifier is right on the frames near A anchors.
    distances: D distances from the anchor in frames.
    include_anchor: whether the anchor is one of the frames.
  """
  all_right = all_right_within(right, distances, include_anchor)
  anchor = right.is_anchor_right[..., None]
  return anchor & ~all_right if include_anchor else anchor.astype(float) - all_right


_drawn = functools.partial(Quantity, drawn=True, better='higher')
"""Returns a quantity that figures show, given its name and words; higher is better by default."""
_headline = functools.partial(Quantity, headline=True, better='higher')
"""Returns a quantity that reports state first, given its name and words."""
ANCHOR = _headline(
  'accuracy_anchor', 'accuracy on anchor frames', statistic=operator.attrgetter('is_anchor_right')
)
PM_K = _headline(
  'accuracy_pm_k', 'accuracy on the worst frame within k frames (pm-k)', statistic=all_right_within
)
DROP = _headline(
  'drop_pm_k',
  'drop from the anchor to the worst frame within k frames',
  better='lower',
  low=-1,
  statistic=drop_within,
)
MEDIAN_DROP = Quantity('median_drop', 'median over classes of the drop', better='lower', low=-1)
NEIGHBORS_ONLY = _drawn(
  'accuracy_pm_k_neighbors_only',
  'accuracy on the worst neighbor within k frames, without the anchor',
  statistic=functools.partial(all_right_within, include_anchor=False),
)
OFFSET_ERROR = _drawn(
  'error',
  'error of the frame',
  better='lower',
  statistic=lambda right: right.by_offset(~right.is_neighbor_right, ~right.is_anchor_right),
)
TURNED = _drawn(
  'turned_wrong',
  'share of sets with a right anchor and a wrong frame',
  better='lower',
  statistic=lambda right: right.by_offset(right.mistakes, np.zeros_like(right.is_anchor_right)),
)
CONDITIONAL = _drawn(
  'conditional_accuracy',
  'accuracy k frames from an anchor that is right',
  # `near`: indices, among all offsets of the sets, of the offsets that are estimated.
  statistic=lambda right, near: right.by_offset(right.is_neighbor_right, right.is_anchor_right)[
    ..., near
  ],
)
STATIC = _drawn(
  'accuracy_static',
  'accuracy on the frame of each set on which most classifiers err',
  statistic=metrics.static_right,
)
SLOPE = Quantity(
  'fit_slope', 'slope of accuracy pm-k over accuracy on anchors, across classifiers', 'amount'
)
INTERCEPT = Quantity(
  'fit_intercept', 'accuracy pm-k at none on anchors, on the line across classifiers', 'amount'
)
DISTANCES = np.linspace(0, 1, 101).round(2)
"""Distances of the pixels of two frames at which cumulative distributions are estimated.

Pixels are in [0, 1].
"""


def _share_within(name: str, measure: str, column: int) -> Quantity:
  """Declares the cumulative distribution of pixel distances between two frames.

  It is the share of frame pairs within each of the 101 `DISTANCES` 0, .01, ..., 1. It is computed
  from the ℓ∞ and root mean square distances of P pairs, [P, 2].

  Args:
    name: name of the quantity in results.
    measure: description of the distance, for reports.
    column: which distance to use: 0 for ℓ∞, 1 for root mean square.
  """
  words = f'share of pairs at most this far apart ({measure})'
  return Quantity(name, words, drawn=True, statistic=functools.partial(_are_within, column))


def _are_within(column: int, distances: np.ndarray) -> np.ndarray:
  """Returns whether each frame pair is within each of the `DISTANCES`, bool [P, 101].

  Args:
    column: which distance to use: 0 for ℓ∞, 1 for root mean square.
    distances: ℓ∞ and root mean square distances of P pairs, [P, 2].
  """
  # The tolerance admits rounding: 51/255 as float32 is slightly above 0.2.
  return distances[:, column, None] <= DISTANCES + 1e-6


WITHIN = _share_within('pairs_within', 'ℓ∞', column=0)
WITHIN_RMS = _share_within('pairs_within_rms', 'root mean square', column=1)


def _review_change(name: str, words: str, signs: Sequence[int], size: float = 1) -> Quantity:
  """Declares a quantity: how much a review by people changes an accuracy on video frames.

  In the review, people leave out unsuitable frames. The quantity is a sum with signs of four
  accuracies, in this order: on anchors (labelled frames) and pm-k (on the worst frame near each
  anchor) before the review, then on anchors and pm-k after it. For example, the signs (−1, 0, 1, 0)
  make it the accuracy on anchors after the review minus before.

  Args:
    name: name of the quantity in results.
    words: description of the quantity for reports.
    signs: the sign (1, −1 or 0) of each of the four accuracies.
    size: largest possible absolute value.
  """
  # a function of the four mean accuracies
  change = functools.partial(_signed_sum, np.array(signs))
  return Quantity(name, words, low=-size, high=size, statistic=np.asarray, function=change)


def _signed_sum(signs: np.ndarray, accuracies: np.ndarray, baseline: np.ndarray) -> np.ndarray:
  """Returns the sum of four accuracies [..., 4] with signs, [...]; `baseline` is not used."""
  return accuracies @ signs


# The signs are of: anchors before, pm-k before, anchors after, pm-k after the review.
REVIEW_ANCHOR = _review_change(
  'review_anchor', 'change by review of accuracy on anchor frames', (-1, 0, 1, 0)
)
REVIEW_WORST = _review_change('review_worst', 'change by review of accuracy pm-k', (0, -1, 0, 1))
REVIEW_DROP = _review_change(
  'review_drop', 'change by review of the drop pm-k', (-1, 1, 1, -1), size=2
)
OFFSET = ordered_facet('offset', 'distance from the anchor', 'frames', words_of_many='distances')
DISTANCE = ordered_facet('distance', 'distance of the pixels, in [0, 1]', words_of_many='distances')
FPS = Facet('fps', 'frame rate', 'frames per second', place='at {} frames per second')
WITHOUT_FRAME_TYPE = Facet(
  'without_frame_type',
  'type of frame left out',
  place='without frames of type {}',
  words_of_many='types of frame',
)
FRAMES = Facet(
  'frames', 'frames before and after review', place='on {} frames', words_of_many='sets of frames'
)

EVERY_CLASSIFIER = 'all classifiers'
"""The label of estimates over all classifiers together."""
UNREVIEWED, REVIEWED = 'unreviewed', 'reviewed'
"""Values of the facet `frames`."""
AUTO = 'auto'
"""The value of `testbed` that finds the published models by the number of anchors."""
PUBLISHED = {'k': testbed.K, 'include_anchor': True, 'label_rule': metadata.FRAME}
"""Settings with which the published models were measured."""


@dataclasses.dataclass(frozen=True)
class VideoPmK(study.ScoresPredictions):
  """A study of accuracy on the worst of neighboring video frames, pm-k (Shankar et al. 2021).

  An anchor is a labelled frame. Its neighbors are nearby frames of the same video. Together they
  are a neighbor set.

  Attributes:
    k: largest distance from the anchor in frames, at least 1. It is lowered if no neighbor is so
      far away.
    include_anchor: whether the anchor must be right too, as in the released scorer.
    label_rule: which labels count as right for a neighbor: 'frame' (its own) or 'anchor'.
    merge: how probabilities of fine classes are merged to coarse ones: 'max', 'sum' or 'mean'. ''
      keeps what the run recorded.
    testbed: published models to show in figures: 'imagenet_vid_robust' or 'ytbb_robust'. 'auto'
      selects by the number of anchors, and '' shows none. Published accuracy is pm-10, so they are
      left out with another k.
    failures: largest number of failures to show for each classifier: neighbor sets with a right
      anchor and wrong neighbors.
    distances: whether to compute pixel distances of anchors and neighbors, which reads all frames
      again.
    frames: root folder of the frames, to compute distances of stored frames. '' takes the resized
      and cropped frames that the classifier gets.
    reviewed: folder of the neighbor sets that passed a human review, if the data are the sets
      before it. Distances are then also computed for reviewed pairs. '' for none.
  """

  title = 'Accuracy on the worst of neighboring video frames'
  papers = ('shankar2021image',)
  lists_failures = False  # its own table and gallery show anchors with neighbors
  outputs = ('unprojected_logits',)
  prediction_settings = Rescoring
  described_facets = (OFFSET, DISTANCE, FPS, WITHOUT_FRAME_TYPE, FRAMES)
  quantities = (
    *(PM_K, ANCHOR, DROP, NEIGHBORS_ONLY, OFFSET_ERROR, TURNED, CONDITIONAL),
    *(STATIC, MEDIAN_DROP, SLOPE, INTERCEPT),
    *(WITHIN, WITHIN_RMS, REVIEW_ANCHOR, REVIEW_WORST, REVIEW_DROP),
  )

  k: int = setting(10, 'at least 1', lambda x: x >= 1)
  include_anchor: bool = True
  label_rule: str = word('frame', LABEL_RULES)
  merge: str = word('', ('', *MERGES))
  testbed: str = word(AUTO, ('', AUTO, *testbed.ANCHORS))
  failures: int = setting(6, 'at least 0', lambda x: x >= 0)
  distances: bool = False
  frames: str = ''
  reviewed: str = ''

  def __post_init__(self) -> None:
    """Raises InputError for settings of this study of video frames that contradict each other.

    If `testbed` names a set of published models for comparison, the settings that decide how
    predictions are scored, such as k, must be those of the publication. The settings `frames` and
    `reviewed` name folders for pixel distances between frames, and need `distances`.
    """
    super().__post_init__()
    # '' compares with no published models, and `AUTO` selects models that fit the settings.
    for key, value in PUBLISHED.items() if self.testbed not in ('', AUTO) else ():
      valid = f'{value!r}, as the models of {KEYS.study.testbed} were measured'
      self.require(getattr(self, key) == value, key, valid)
    needs_distances = bool(self.frames or self.reviewed)
    self.require(self.distances or not needs_distances, 'distances', 'True with frames or reviewed')

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The settings on which recorded outputs depend: only the name of the study.

    All other settings can change without running a classifier again.
    """
    return {'name': self.name, 'outputs': list(self.outputs)}

  @property
  def shown_as(self) -> dict[str, str]:
    """{'neighbors': their largest distance, whether the anchor counts, and the rule for labels}."""
    anchor = 'with the anchor' if self.include_anchor else 'neighbors alone'
    return {'neighbors': f'within {self.k} frames, {anchor}; labels of the {self.label_rule}'}

  @property
  def _comparable_testbed(self) -> str:
    """The setting `testbed`, or '' if this study scores differently than the published models."""
    return self.testbed if self.include_anchor and self.label_rule == metadata.FRAME else ''

  def differences(self, records: RecordsReader, image_shape: study.ImageShape) -> list[str]:
    """Returns deviations of this study of video frames from the published experiment.

    They are the title of the data if its frames were not reviewed by people, and settings with
    other values than in the paper, such as 'k 5'.
    """
    title = read_sets(records).title
    differences = [] if ', reviewed: ' in title else [title]  # reviewed sets say so in their title
    paper = {**PUBLISHED, 'merge': 'max'}
    # with merge='' the records keep how the run merged the scores of fine classes
    merge = self.merge or records.identity['classifier'].get('merge', 'max')
    settings = {**vars(self), 'merge': merge}
    return differences + [f'{key} {settings[key]}' for key in paper if settings[key] != paper[key]]

  def by_row(self, records: RecordsReader, image_shape: study.ImageShape) -> ViewTable:
    """Returns the names of the views, and the video clip of each frame for resampling."""
    # The columns that distinguish clips, as far as the records have them.
    names = {columns.GROUP, columns.PATH} & records.read(block=0, chunk=0).arrays.keys()
    units = columns.clip_numbers({name: records.column(name) for name in names})
    return dataclasses.replace(super().by_row(records, image_shape), units=units)

  def check(self, rows: Rows, recipes: study.Recipes) -> None:
    """Raises InputError if the data are not neighbor sets of video frames.

    A neighbor set is a labelled frame with nearby frames. The folders `reviewed` and `frames` are
    checked too.
    """
    columns.from_columns(rows.without_images())
    if self.reviewed:
      metadata.read(self.reviewed)
    self.require(not self.frames or expanded(self.frames).is_dir(), 'frames', 'a folder')

  def score_predictions(self, settings: Rescoring, folder: pathlib.Path) -> study.Scored:
    """Computes the study's results from files of predictions, without running a classifier.

    With the setting `distances` they include pixel distances of the frames in the folder `frames`.

    Args:
      settings: names the files of predictions.
      folder: folder of this run.

    Returns:
      The predictions, with the findings of the study.
    """
    scored = settings.scored(self, self.review, folder)
    if self.distances:
      self.require(bool(self.frames), 'frames', 'the folder of the frames')
      scored.findings.estimates.extend(self._distances(scored.evaluations, rows=None))
    return scored

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: study.ImageShape) -> Findings:
    """Returns the results, published models, and tables of neighbor sets.

    A neighbor set is a labelled frame (anchor) with nearby frames. The table `neighbor sets` has
    their numbers. The table `failures` has the sets with most wrong neighbors. If no neighbor is k
    frames away, k is lowered and a warning is logged.
    """
    predictions = self._predictions(evaluations)
    sets = _sets_of(predictions)
    reachable = self._with_reachable_k(sets)  # the study with the k that its estimates have
    if reachable.k < self.k:
      logging.warning(
        f'{KEYS.study.k} is {self.k}, but no neighbor is more than {reachable.k} frames from its '
        f'anchor: accuracy is given as pm-{reachable.k}.'
      )
    right = reachable._outcomes(predictions)
    counts = len(sets.anchors), len(sets.pairs.group), self.k, reachable.k
    estimates = list(reachable._estimates(right, sets))
    return Findings(
      tables={
        **testbed.published(assemble(estimates), self._comparable_testbed),
        'neighbor sets': Table(('anchors', 'pairs', 'k asked for', 'k reached'), [counts]),
        wrong_neighbors.NAME: wrong_neighbors.table(predictions, right, reachable.k, self.failures),
      },
      estimates=estimates,
    )

  def _predictions(self, evaluations: Sequence[Evaluation]) -> dict[str, FramePredictions]:
    """Returns {classifier: its predictions for all frames}.

    Raises:
      InputError: classifiers of compared runs have other neighbor sets.
    """
    Recorded(evaluations).require_equal_columns((columns.GROUP, columns.OFFSET))
    return {e.label: read_predictions(e.records, self.merge) for e in evaluations}

  def _with_reachable_k(self, sets: NeighborSets) -> Self:
    """Returns the study with a `k` of at most the largest distance of any neighbor."""
    # without `testbed`, whose published models are not shown with another k
    return dataclasses.replace(self, k=metrics.effective_k(sets, self.k), testbed='')

  def _outcomes(self, predictions: Mapping[str, FramePredictions]) -> SetOutcomes:
    """Returns which video frames each classifier has right."""
    outcomes = {}
    for label, predicted in predictions.items():
      outcomes[label] = metrics.outcomes(predicted.sets, predicted.prediction, self.label_rule)
    return SetOutcomes.stacked(outcomes)

  def _estimates(self, right: SetOutcomes, sets: NeighborSets) -> Iterator[pd.DataFrame]:
    """Yields all results: over all data, across classifiers, and for parts of the data.

    A neighbor set is an anchor (labelled frame of a video) with nearby frames. Accuracy pm-k counts
    the worst frame within k frames of the anchor, and the drop is the accuracy on anchors minus
    pm-k. The parts of the data are single classes, the data without frames of one type, and single
    frame rates. The median drop is over classes.

    Args:
      right: whether each classifier is right on each frame of the neighbor sets.
      sets: the neighbor sets, which are labelled frames with nearby frames.
    """
    yield from self._accuracies(right)
    # Reports first state pm-k without the facet k, so that the same estimate is listed again.
    yield self._means(PM_K, right, self._at_k, test=True).assign(note=f'k = {self.k}')
    yield from self._by_distance(right)
    yield from self._errors_by_offset(right)
    if len(right.models) > 1:
      yield from self._across_classifiers(right)
    by_class = list(self._by_class(right, sets))
    yield from by_class
    # `versus` is '' for a value, and names the other classifier for a difference.
    drops = pd.concat(by_class).query('quantity == @DROP.name and versus == ""')
    medians = drops.groupby('classifier', sort=False).value.median()
    rows = []
    for label, median in medians.items():  # `published_row` makes a row without an interval
      rows.append(published_row(label, MEDIAN_DROP, median, right.num_anchors, k=self.k))
    yield table_of_rows(rows)
    for frame_type, subset in metrics.without_frame_types(right, sets).items():
      yield from self._accuracies(subset, {'without_frame_type': frame_type})
    for rate, subset in metrics.by_fps(right, sets).items():
      yield from self._accuracies(subset, {'fps': rate})

  def _by_class(self, right: SetOutcomes, sets: NeighborSets) -> Iterator[pd.DataFrame]:
    """Yields accuracies by class of the labelled frame, which may have several classes.

    Args:
      right: whether each classifier is right on each frame of the neighbor sets.
      sets: the neighbor sets, which are labelled frames with nearby frames.
    """
    labels = sets.labels[sets.anchors]  # [A, labels], padded with −1
    for class_id in np.unique(labels[labels >= 0]).tolist():
      anchors = np.flatnonzero((labels == class_id).any(1))
      facets = {'class': class_name(class_id, sets.class_names)}
      yield from self._accuracies(right.of_anchors(anchors), facets)

  def _accuracies(
    self, right: SetOutcomes, facets: Mapping[str, object] | None = None
  ) -> Iterator[pd.DataFrame]:
    """Yields accuracy on anchors (labelled frames), accuracy pm-k, and the difference.

    Accuracy pm-k is on the worst frame within k frames of the anchor.

    Args:
      right: whether each classifier is right on each frame.
      facets: columns that describe the data in the results, such as {'class': 'dog'}.
    """
    facets_with_k = {**(facets or {}), 'k': self.k}
    yield self._means(ANCHOR, right, test=True, facets=facets)
    yield self._means(PM_K, right, self._at_k, test=True, facets=facets_with_k)
    yield self._means(DROP, right, self._at_k, facets=facets_with_k)

  @property
  def _at_k(self) -> tuple[Sequence[int], bool]:
    """The arguments (distances, include_anchor) of `all_right_within` for the distance k alone."""
    return [self.k], self.include_anchor

  def _all_right_within_k(self, right: SetOutcomes) -> np.ndarray:
    """Returns whether all frames within k of the anchor are right, bool [M, A].

    There are M classifiers and A anchors (labelled frames).
    """
    return all_right_within(right, *self._at_k)[..., 0]  # for the only distance, k

  def _means(
    self,
    quantity: Quantity,
    right: SetOutcomes,
    arguments: tuple[Any, ...] = (),
    views: pd.DataFrame = ONE_VIEW,
    counted: np.ndarray | None = None,
    **options: Any,
  ) -> pd.DataFrame:
    """Returns means of a quantity over neighbor sets, with intervals over videos.

    A neighbor set is a labelled frame with nearby frames. The quantity's statistic computes V
    values for each of A sets from the outcomes of one classifier.

    Args:
      quantity: the quantity.
      right: whether each classifier is right on each frame.
      arguments: further arguments of the statistic.
      views: table with a row for each of the V values, which describes it.
      counted: bool [A, V], which values to average; None averages all.
      **options: options of `estimates.means.means`, such as `facets`.
    """
    fields = {label: (right.of_model(k), *arguments) for k, label in enumerate(right.models)}
    outcomes = Outcomes.from_fields(quantity, fields, views, clusters=right.videos)
    if counted is not None:
      outcomes = outcomes.counting(counted)
    return self.means(quantity, outcomes, tuple(views.columns), **options)

  def _by_distance(self, right: SetOutcomes) -> Iterator[pd.DataFrame]:
    """Yields three accuracies as functions of the distance from the anchor in frames.

    An anchor is a labelled frame of a video, and a neighbor set is an anchor with the frames around
    it. pm-d counts a set as right if all its frames up to the distance d are.

    * pm-0 to pm-(k − 1); `_accuracies` has pm-k.
    * pm-0 to pm-k without the anchor.
    * Conditional accuracy: on frames at exactly this distance from an anchor that is right.

    Args:
      right: whether each classifier is right on each frame of A neighbor sets. A neighbor has an
        offset, its signed distance from the anchor.
    """
    # Each tuple has the arguments of the quantity's statistic, after the outcomes.
    distances = range(self.k)
    yield self._means(PM_K, right, (distances, self.include_anchor), pd.DataFrame({'k': distances}))
    distances = range(self.k + 1)
    yield self._means(NEIGHBORS_ONLY, right, (distances,), pd.DataFrame({'k': distances}))
    # Indices of the offsets up to k, the nearest first, without 0, the anchor itself.
    distance = np.abs(right.offsets)
    near = np.flatnonzero((distance > 0) & (distance <= self.k))
    near = near[np.argsort(distance[near], kind='stable')]
    # Whether a set has a frame at an offset and its anchor is right, [models, A, offsets].
    counted = right.is_anchor_right[..., None] & right.has_frame
    views = pd.DataFrame({'k': distance[near]})
    # One classifier at a time, because different sets count for each of them.
    for model, label in enumerate(right.models):
      alone = SetOutcomes.stacked({label: right.of_model(model)})
      yield self._means(CONDITIONAL, alone, (near,), views, counted[model][:, near])

  def _errors_by_offset(
    self, right: SetOutcomes, facets: Mapping[str, object] | None = None
  ) -> Iterator[pd.DataFrame]:
    """Yields two error rates as functions of the signed distance from the anchor in frames.

    An anchor is a labelled frame. `error` is the share of wrong frames at a distance.
    `turned_wrong` is the share of frames that are wrong although the anchor is right. With several
    classifiers it is also computed over all of them.

    The paper does not define the "% adversarial" of its figure 5; its values fit `turned_wrong`.

    Args:
      right: whether each classifier is right on each frame.
      facets: columns that describe the data in the results.
    """
    views = pd.DataFrame({'offset': right.offsets})
    yield self._means(OFFSET_ERROR, right, (), views, right.has_frame, facets=facets)
    yield _exact_at_anchor(self._means(TURNED, right, (), views, right.has_frame, facets=facets))
    if len(right.models) > 1:
      joint = right.as_one_model(EVERY_CLASSIFIER)
      yield _exact_at_anchor(self._means(TURNED, joint, (), views, joint.has_frame, facets=facets))

  def _across_classifiers(self, right: SetOutcomes) -> Iterator[pd.DataFrame]:
    """Yields results that need several classifiers: static accuracy and a fitted line.

    An anchor is a labelled frame of a video, and accuracy pm-k is on the worst frame within k
    frames of it. Static accuracy is on one fixed frame for each anchor, the one that most
    classifiers have wrong. The line is pm-k against accuracy on anchors, for three or more
    classifiers.

    Args:
      right: whether each classifier is right on each anchor and on the frames around it.
    """
    within_k = right.of_pairs(np.abs(right.offset) <= self.k)  # without farther neighbors
    hardest_pairs = metrics.static_pairs(within_k)  # anchor and fixed frame of each set
    yield self._means(STATIC, within_k, (hardest_pairs,))
    anchor_accuracies = right.is_anchor_right.mean(1)
    # A line needs three classifiers that are not all equally accurate.
    if len(anchor_accuracies) >= 3 and np.ptp(anchor_accuracies) > 0:
      pm_k = self._all_right_within_k(right).mean(1)
      fit = linear_fit(anchor_accuracies, pm_k, grid=[], confidence=self.confidence)
      at_k = {'k': self.k}
      measured = [(SLOPE, at_k, fit.slope), (INTERCEPT, at_k, fit.intercept)]
      yield self.table_of(EVERY_CLASSIFIER, measured)

  def review(
    self, unreviewed: Sequence[Evaluation], reviewed: Sequence[Evaluation]
  ) -> Iterator[pd.DataFrame]:
    """Yields accuracies before and after human review of video frames, and their changes.

    They are table 4 of the paper. Intervals resample videos.

    Args:
      unreviewed: predictions of each classifier on all frames, as before the review.
      reviewed: predictions of the same classifiers on the frames that passed the review.

    Raises:
      InputError: A reviewed anchor (labelled frame) is not among the unreviewed ones.
    """
    predictions_before = self._predictions(unreviewed)
    predictions_after = self._predictions(reviewed)
    sets, reviewed_sets = _sets_of(predictions_before), _sets_of(predictions_after)
    reviewed_rows = metrics.anchor_positions(sets, reviewed_sets)
    reachable = self._with_reachable_k(sets)
    before = reachable._outcomes(predictions_before)
    after = reachable._outcomes(predictions_after)
    for frames, right in ((UNREVIEWED, before), (REVIEWED, after)):
      yield from reachable._accuracies(right, {'frames': frames})
      yield from reachable._errors_by_offset(right, {'frames': frames})
    # The four accuracies that a change by review is a sum of (see `_review_change`) are four views:
    # anchor and pm-k before the review, then after it. Only reviewed sets count in the last two.
    counted = np.zeros((len(sets.anchors), 4), bool)
    counted[:, :2] = True
    counted[reviewed_rows, 2:] = True
    is_right = np.zeros((len(before.models), *counted.shape), bool)  # [models, sets, 4]
    is_right[..., 0] = before.is_anchor_right
    is_right[..., 1] = reachable._all_right_within_k(before)
    is_right[:, reviewed_rows, 2] = after.is_anchor_right
    is_right[:, reviewed_rows, 3] = reachable._all_right_within_k(after)
    fields = dict(zip(before.models, is_right, strict=True))
    views = pd.DataFrame({'view': range(4)})
    outcomes = Outcomes.from_fields(REVIEW_ANCHOR, fields, views, clusters=before.videos)
    outcomes = outcomes.counting(counted)
    at_k = {'k': reachable.k}
    for quantity, facets in ((REVIEW_ANCHOR, {}), (REVIEW_WORST, at_k), (REVIEW_DROP, at_k)):
      yield self.means(quantity, outcomes, ('view',), facets=facets)

  def row_estimates(self, rows: Rows, evaluations: Sequence[Evaluation]) -> Iterator[pd.DataFrame]:
    """Yields the distribution of pixel distances of neighboring frames, if `distances` is set.

    It is figure 10 of the paper; see `_distances`.
    """
    if self.distances:
      yield from self._distances(evaluations, rows)

  def _distances(
    self, evaluations: Sequence[Evaluation], rows: Rows | None
  ) -> Iterator[pd.DataFrame]:
    """Yields the share of frame pairs within each pixel distance 0, .01, ..., 1.

    A pair is an anchor (labelled frame) and a neighbor. There are shares of all pairs, of pairs
    that passed a review if `reviewed` is set, and of each classifier's mistakes: a right anchor
    with a wrong neighbor. Shares and their intervals never decrease with distance.

    Args:
      evaluations: recorded predictions of the classifiers.
      rows: data to read frames from, unless the setting `frames` names a folder; None for no data.
    """
    predictions = self._predictions(evaluations)
    sets = _sets_of(predictions)
    if self.frames or rows is None:
      image_of = metrics.stored_images(self.frames, sets.frames)
    else:
      image_of = metrics.row_images(rows)
    # The two distances of each pair, ℓ∞ and root mean square, [P, 2]. The statistics of `WITHIN`
    # and `WITHIN_RMS` are whether the first, or the second, is at most the distance of a view.
    pair_distances = metrics.distances(image_of, sets)
    is_accepted = np.ones(len(pair_distances), bool)  # without a review, every pair
    # {(label, name of the subset): bool [P]}; `IMAGES` is the label of what no classifier decides
    subsets = {(study.IMAGES, 'all pairs'): is_accepted}
    if self.reviewed:
      is_accepted = are_reviewed(sets, metadata.read(self.reviewed))
      subsets[study.IMAGES, 'reviewed pairs'] = is_accepted
    right = self._outcomes(predictions)
    for label, mistakes in zip(right.models, right.mistakes, strict=True):
      subsets[label, 'mistakes'] = mistakes & is_accepted
    # The neighbor set of each pair, or the video if videos have several sets.
    clusters = right.group if right.videos is None else right.videos[right.group]
    views = pd.DataFrame({'distance': DISTANCES})
    for (label, name), is_in_subset in subsets.items():
      fields = {label: pair_distances[is_in_subset]}
      for quantity in (WITHIN, WITHIN_RMS):
        outcomes = Outcomes.from_fields(quantity, fields, views, clusters=clusters[is_in_subset])
        shares = self.means(quantity, outcomes, ('distance',), facets={'pairs': name})
        yield _with_ascending_ends(shares)

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns {'failure_images': [E, 2, H, W, C]}, right anchors with wrong neighbors.

    See `wrong_neighbors.images`.
    """
    return wrong_neighbors.images(rows, findings.tables[wrong_neighbors.NAME])

  def figures(self, results: Results) -> study.Figures:
    """Returns the default figures, the paper's figures, and images of failures."""
    return {
      **charts.draw(results),
      **accuracy_figures.draw(results),
      **testbed.draw(results, self._comparable_testbed),
      **wrong_neighbors.draw(results),
    }


def _sets_of(predictions: Mapping[str, FramePredictions]) -> NeighborSets:
  """Returns the neighbor sets (labelled frames with nearby frames), shared by all classifiers."""
  return next(iter(predictions.values())).sets


def _with_ascending_ends(shares: pd.DataFrame) -> pd.DataFrame:
  """Narrows intervals of a cumulative distribution so that both ends never decrease.

  The distribution is of distances between frames, the largest difference of a pixel in [0, 1]. All
  of them are at most 1, so the share up to the distance 1 gets the interval [1, 1].

  Args:
    shares: table of shares by ascending distance; it is changed in place and returned.
  """
  shares['low'] = shares.low.cummax()
  shares['high'] = shares.high[::-1].cummin()
  is_certain = (shares.distance == 1) & (shares.n > 0)
  shares.loc[is_certain, ['low', 'high', 'method']] = 1.0, 1.0, EXACT
  return shares


def _exact_at_anchor(shares: pd.DataFrame) -> pd.DataFrame:
  """Sets the interval at offset 0, the anchor itself, to [0, 0].

  The anchor cannot be right and wrong, so that the share there is 0 by definition.

  Args:
    shares: table of the shares of wrong frames with a right anchor, by offset from the anchor; it
      is changed in place and returned.
  """
  shares.loc[shares.offset == 0, ['low', 'high', 'method']] = 0.0, 0.0, EXACT
  return shares
