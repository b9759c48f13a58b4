"""Accuracy on anchors and on the worst of their neighboring video frames: acc_orig and pm-k.

Rows are the distinct frames of neighbor sets, shown as they are, each once. Everything is computed
from the recorded scores, so that another k, merge rule or label rule needs no classifier. An anchor
with its neighbors is the unit of all intervals.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021; Gu et al., Using
Videos to Evaluate Image Model Robustness, 2019, for `conditional_accuracy`.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd
from absl import logging
from matplotlib.figure import Figure

from robustness.core.errors import KEYS
from robustness.core.paths import expanded
from robustness.core.registry import setting, word
from robustness.core.rows import Rows
from robustness.core.typing import PlainValue
from robustness.estimates.facets import Facet
from robustness.estimates.intervals import EXACT
from robustness.estimates.means import Estimate, part, row
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.estimates.tradeoff import linear_fit
from robustness.evaluation.failures import class_name
from robustness.evaluation.outcomes import ONE_VIEW, Evaluation
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import (
  IMAGES,
  Figures,
  ImageShape,
  Recipes,
  Scored,
  ScoresPredictions,
)
from robustness.evaluation.views import ViewTable
from robustness.models.label_space import MERGES
from robustness.present import charts, failures
from robustness.present.notation import number
from robustness.results import FAILURE_IMAGES, Findings, Results, Table
from robustness.video import accuracy_figures, columns, metadata, testbed
from robustness.video import neighbor_estimates as metrics
from robustness.video.metadata import LABEL_RULES, NeighborSets, are_reviewed
from robustness.video.neighbor_estimates import SetOutcomes, distances, right_within
from robustness.video.predictions import FramePredictions, read_predictions, read_sets
from robustness.video.rescoring import Rescoring


def worst(right: SetOutcomes, distances: Sequence[int], include_anchor: bool = True) -> np.ndarray:
  """Returns whether all frames within some distances from the anchor are right, bool [A, D]."""
  return right_within(right, max(distances), include_anchor)[..., np.asarray(distances)]


def drop(right: SetOutcomes, distances: Sequence[int], include_anchor: bool = True) -> np.ndarray:
  """Returns whether the anchor is right and a frame within a distance wrong, [A, 1]; without the
  anchor among these frames, the difference of both, -1 to 1."""
  of_worst, anchor = worst(right, distances, include_anchor), right.anchor[..., None]
  return anchor & ~of_worst if include_anchor else anchor.astype(float) - of_worst


_drawn = functools.partial(Quantity, drawn=True, better='higher')
_error = functools.partial(Quantity, drawn=True, better='lower')
_accuracy = functools.partial(Quantity, headline=True, better='higher')
ANCHOR = _accuracy(
  'accuracy_anchor', 'accuracy on anchor frames', statistic=operator.attrgetter('anchor')
)
PM_K = _accuracy(
  'accuracy_pm_k', 'accuracy on the worst frame within k frames (pm-k)', statistic=worst
)
DROP = _accuracy(
  'drop_pm_k',
  'drop from the anchor to the worst frame within k frames',
  better='lower',
  low=-1,
  statistic=drop,
)
MEDIAN_DROP = Quantity('median_drop', 'median over classes of the drop', better='lower', low=-1)
NEIGHBORS_ONLY = _drawn(
  'accuracy_pm_k_neighbors_only',
  'accuracy on the worst neighbor within k frames, without the anchor',
  statistic=functools.partial(worst, include_anchor=False),
)
OFFSET_ERROR = _error(
  'error',
  'error of the frame',
  statistic=lambda right: metrics.by_offset(right, ~right.neighbor, ~right.anchor),
)
TURNED = _error(
  'turned_wrong',
  'share of sets with a right anchor and a wrong frame so far from it',
  statistic=lambda right: metrics.by_offset(right, right.mistakes, np.zeros_like(right.anchor)),
)
CONDITIONAL = _drawn(
  'conditional_accuracy',
  'accuracy k frames from an anchor that is right',
  statistic=lambda right, near: metrics.by_offset(right, right.neighbor, right.anchor)[..., near],
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


def _is_within(place: int, distances: np.ndarray) -> np.ndarray:
  """Returns whether pairs are at most `DISTANCES` apart by one of two distances [P, 2], [P, D]."""
  return distances[:, place, None] <= DISTANCES + 1e-6  # 51/255 in 32 bits is above .2


WITHIN, WITHIN_RMS = (
  Quantity(
    name,
    f'share of pairs at most this far apart ({measure})',
    drawn=True,
    statistic=functools.partial(_is_within, place),
  )
  for place, (name, measure) in enumerate(
    {'pairs_within': 'ℓ∞', 'pairs_within_rms': 'root mean square'}.items()
  )
)


def _review(name: str, words: str, signs: Sequence[int], size: float = 1) -> Quantity:
  """Returns a change by review: anchors and worst frames before it, then after it, by `signs`."""
  weights = np.array(signs)
  declared = functools.partial(Quantity, name, words, low=-size, high=size, statistic=np.asarray)
  return declared(function=lambda means, _: means @ weights)


REVIEW_ANCHOR = _review(
  'review_anchor', 'change by review of accuracy on anchor frames', (-1, 0, 1, 0)
)
REVIEW_WORST = _review('review_worst', 'change by review of accuracy pm-k', (0, -1, 0, 1))
REVIEW_DROP = _review('review_drop', 'change by review of the drop pm-k', (-1, 1, 1, -1), 2)
OFFSET = Facet('offset', 'distance from the anchor', 'frames', True, '', 'distances')
DISTANCE = Facet('distance', 'distance of the pixels, in [0, 1]', '', True, '', 'distances')
FPS = Facet('fps', 'frame rate', 'frames per second', place='at {} frames per second')
WITHOUT_FRAME_TYPE = Facet(
  'without_frame_type',
  'type of frame left out',
  place='without frames of type {}',
  words_of_many='types of frame',
)
FRAMES = Facet(
  'frames', 'frames before and after review', '', False, 'on {} frames', 'sets of frames'
)

EVERY_CLASSIFIER = 'all classifiers'
"""The label of estimates across classifiers."""
UNREVIEWED, REVIEWED = 'unreviewed', 'reviewed'
"""Values of the facet `frames`."""
FAILURES, AUTO = 'failures', 'auto'


@dataclasses.dataclass(frozen=True)
class VideoPmK(ScoresPredictions):
  """Settings.

  Attributes:
    k: largest distance from the anchor in frames; curves go from 0 to k. Above the largest distance
      of a neighbor in the sets, that distance takes its place.
    include_anchor: whether the anchor must be right too, as in the released scorer.
    label_rule: which labels count for a neighbor: of its 'frame', or of its 'anchor'.
    merge: '' keeps the run's projection onto a coarser label space; 'max', 'sum' or 'mean' of the
      members' probabilities projects the recorded scores again.
    testbed: published models that figures show with the classifiers, 'imagenet_vid_robust' or
      'ytbb_robust'; 'auto' takes the one with the same number of anchors, if any, and '' none. They
      have pm-10: with another k, or no neighbor at 10 frames, none is drawn.
    failures: how many sets of each classifier with a right anchor and wrong neighbors are shown.
    distances: whether ℓ∞ and root-mean-square distances of pairs are computed, which reads all
      frames once more.
    frames: root folder of the frames' paths: distances are then of frames as they are stored. ''
      takes them as they are shown, resized and cropped.
    reviewed: folder of the reviewed sets where the data are the candidates, '' for none: distances
      are then of all pairs, of the reviewed ones, and of mistakes on these.
  """

  title: ClassVar[str] = 'Accuracy on the worst of neighboring video frames'
  papers: ClassVar[tuple[str, ...]] = ('shankar2021image',)
  lists_failures: ClassVar[bool] = False  # its own table and gallery show anchors with neighbors
  outputs: ClassVar[tuple[str, ...]] = ('unprojected_logits',)
  prediction_settings: ClassVar[type] = Rescoring
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
    super().__post_init__()
    self.require(
      self.testbed in ('', AUTO) or self.k == testbed.K,
      *('k', f'{testbed.K}, at which the models of {KEYS.study.testbed} were measured'),
    )
    needs_distances = bool(self.frames or self.reviewed)
    valid = 'True with frames or reviewed'
    self.require(self.distances or not needs_distances, 'distances', valid)

  @property
  def recording(self) -> dict[str, PlainValue]:
    """See `Study`: every setting but the outputs chooses among records."""
    return {'name': self.name, 'outputs': list(self.outputs)}

  @property
  def shown_as(self) -> dict[str, str]:
    anchor = 'with the anchor' if self.include_anchor else 'neighbors alone'
    return {'neighbors': f'within {self.k} frames, {anchor}; labels of the {self.label_rule}'}

  @property
  def _published(self) -> str:
    """The testbed, where its accuracies follow the same rules; else ''."""
    return self.testbed if self.include_anchor and self.label_rule == metadata.FRAME else ''

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    sets = read_sets(records)
    usual = {'k': testbed.K, 'include_anchor': True, 'label_rule': metadata.FRAME, 'merge': ''}
    changed = [f'{key} {getattr(self, key)}' for key in usual if getattr(self, key) != usual[key]]
    return ([] if ', reviewed: ' in sets.title else [sets.title]) + changed

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """See `Study`; frames of one clip are a unit."""
    names = {columns.GROUP, columns.PATH} & records.read(0, 0).arrays.keys()
    units = columns.clip_numbers({name: records.column(name) for name in names})
    return dataclasses.replace(super().by_row(records, image_shape), units=units)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Refuses rows that are no frames of neighbor sets, and folders that are none."""
    columns.check_names(next(rows.batches(1, [0])))
    if self.reviewed:
      metadata.read(self.reviewed)
    self.require(not self.frames or expanded(self.frames).is_dir(), 'frames', 'a folder')

  def score_predictions(self, settings: Rescoring, folder: pathlib.Path) -> Scored:
    """See `ScoresPredictions`."""
    scored = settings.scored(self, self.review, folder)
    if self.distances:
      self.require(bool(self.frames), 'frames', 'the folder of the frames')
      scored.findings.estimates.extend(self._distances(scored.evaluations))
    return scored

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the table of results, and as tables of facts the sets and the most damaged of them.

    The k of the estimates is `metrics.effective_k`.
    """
    predictions = self._predictions(evaluations)
    sets = next(iter(predictions.values())).sets
    within = self._within(sets)
    if within.k < self.k:
      logging.warning(
        f'{KEYS.study.k} is %d, but no neighbor is more than %d frames from its anchor: accuracy '
        'is given as pm-%d.',
        *(self.k, within.k, within.k),
      )
    right = within._outcomes(predictions)
    facts = len(sets.anchors), len(sets.pairs.group), self.k, within.k
    estimates = list(within._parts(right, sets))
    return Findings(
      tables={
        **testbed.published(assemble(estimates), self._published),
        'neighbor sets': Table(('anchors', 'pairs', 'k asked for', 'k reached'), [facts]),
        FAILURES: within._failures(predictions, right),
      },
      estimates=estimates,
    )

  def _predictions(self, evaluations: Sequence[Evaluation]) -> dict[str, FramePredictions]:
    return {e.label: read_predictions(e.records, self.merge) for e in evaluations}

  def _within(self, sets: NeighborSets) -> VideoPmK:
    """Returns the study with a k that neighbors of the sets reach."""
    return dataclasses.replace(self, k=metrics.effective_k(sets, self.k))

  def _outcomes(self, predictions: Mapping[str, FramePredictions]) -> SetOutcomes:
    """Returns which frames each classifier got right; labels are in the order of its classes."""
    return SetOutcomes.stacked(
      {
        label: metrics.outcomes(predicted.sets, predicted.prediction, self.label_rule)
        for label, predicted in predictions.items()
      }
    )

  def _parts(self, right: SetOutcomes, sets: NeighborSets) -> Iterator[pd.DataFrame]:
    """Yields estimates of all sets, across classifiers, and of each class and subset of sets."""
    yield from self._accuracies(right)
    yield self._means(PM_K, right, self._at_k, test=True)  # over all distances: at k
    yield from self._curves(right)
    yield from self._by_offset(right)
    if len(right.models) > 1:
      yield from self._across(right)
    by_class = list(self._by_class(right, sets))
    yield from by_class
    drops = pd.concat(by_class).query('quantity == @DROP.name and versus == ""')
    medians = drops.groupby('classifier', sort=False).value.median()
    n, at_k = right.num_anchors, {'k': self.k}
    yield part(
      [
        row(str(k), '', MEDIAN_DROP, at_k, Estimate(v, np.nan, np.nan, n, n, ''), np.nan)
        for k, v in medians.items()
      ]
    )
    for frame_type, subset in metrics.without_frame_types(right, sets).items():
      yield from self._accuracies(subset, {'without_frame_type': frame_type})
    for rate, subset in metrics.by_fps(right, sets).items():
      yield from self._accuracies(subset, {'fps': rate})

  def _by_class(self, right: SetOutcomes, sets: NeighborSets) -> Iterator[pd.DataFrame]:
    """Yields the accuracies on the sets of each class."""
    labels = sets.labels[sets.anchors]
    for class_id in np.unique(labels[labels >= 0]).tolist():
      anchors = np.flatnonzero((labels == class_id).any(1))  # sets count for each of their labels
      facets = {'class': class_name(class_id, sets.class_names)}
      yield from self._accuracies(right.of_anchors(anchors), facets)

  def _accuracies(
    self, right: SetOutcomes, facets: Mapping[str, object] | None = None
  ) -> Iterator[pd.DataFrame]:
    """Yields accuracy on anchors, pm-k and the drop of sets with these facets."""
    at_k = {**(facets or {}), 'k': self.k}
    yield self._means(ANCHOR, right, test=True, facets=facets)
    yield self._means(PM_K, right, self._at_k, test=True, facets=at_k)
    yield self._means(DROP, right, self._at_k, facets=at_k)

  @property
  def _at_k(self) -> tuple[Sequence[int], bool]:
    """The distances and `include_anchor` with which `worst` is over all frames within k."""
    return [self.k], self.include_anchor

  def _worst(self, right: SetOutcomes) -> np.ndarray:
    """Returns whether all frames within k are right, [M, A]."""
    return worst(right, *self._at_k)[..., 0]

  def _means(
    self,
    quantity: Quantity,
    right: SetOutcomes,
    settings: tuple[Any, ...] = (),
    views: pd.DataFrame = ONE_VIEW,
    counted: np.ndarray | None = None,
    test: bool = False,
    facets: Mapping[str, object] | None = None,
  ) -> pd.DataFrame:
    """Returns means of a quantity by the facets of the views over what counts, bool [A, V].

    `settings` are further arguments of its statistic. See `estimates.means.means`.
    """
    outcomes = _measured(quantity, right, settings, views, counted)
    return self.means(quantity, outcomes, tuple(views.columns), test=test, facets=facets)

  def _curves(self, right: SetOutcomes) -> Iterator[pd.DataFrame]:
    """Yields pm-0 to pm-(k − 1), pm-0 to pm-k of neighbors alone, and the accuracy at exactly 1 to
    k frames from a right anchor, over both directions."""
    for quantity, settings, count in (
      (PM_K, (self.include_anchor,), self.k),
      (NEIGHBORS_ONLY, (), self.k + 1),
    ):
      distances = range(count)
      views = pd.DataFrame({'k': distances})
      yield self._means(quantity, right, (distances, *settings), views)
    offsets = np.unique(np.append(right.offset, 0))
    nearest = np.argsort(np.abs(offsets), kind='stable')  # the anchor first
    near = nearest[1 : (np.abs(offsets) <= self.k).sum()]
    counted = metrics.by_offset(right, right.anchor[:, right.group], right.anchor)[..., near]
    views = pd.DataFrame({'k': np.abs(offsets[near])})
    for place, label in enumerate(right.models):
      alone = SetOutcomes.stacked({label: right.of_model(place)})
      yield self._means(CONDITIONAL, alone, (near,), views, counted[place])

  def _by_offset(
    self, right: SetOutcomes, facets: Mapping[str, object] | None = None
  ) -> Iterator[pd.DataFrame]:
    """Yields how often frames at each signed distance are wrong, and wrong with a right anchor.

    Shares are over the sets with such a frame; the second also over all classifiers together, with
    a cluster for each video.

    The paper's figure 5 has a "% adversarial" that it does not define; its ticks, up to 8, fit a
    right anchor and a wrong frame, which is never so at the anchor itself, where the share is 0.
    """
    every = np.ones(right.num_anchors, bool)
    has_frame = metrics.by_offset(right, np.ones_like(right.group, bool), every)
    views = pd.DataFrame({'offset': np.unique(np.append(right.offset, 0))})
    yield self._means(OFFSET_ERROR, right, (), views, has_frame, facets=facets)
    turned = _measured(TURNED, right, (), views, has_frame)
    yield _exact_at_anchor(self.means(TURNED, turned, ('offset',), facets=facets))
    if len(right.models) > 1:
      every_set = np.tile(np.arange(right.num_anchors), len(right.models))
      together = dataclasses.replace(
        turned,
        values={EVERY_CLASSIFIER: np.concatenate([*turned.values.values()])},
        shown={EVERY_CLASSIFIER: has_frame[every_set]},
        clusters=every_set if right.videos is None else right.videos[every_set],
      )
      yield _exact_at_anchor(self.means(TURNED, together, ('offset',), facets=facets))

  def _across(self, right: SetOutcomes) -> Iterator[pd.DataFrame]:
    """Yields accuracy on one static set, and the line of accuracy pm-k over that on anchors."""
    near = right.of_pairs(np.abs(right.offset) <= self.k)
    yield self._means(STATIC, near, (metrics.static_pairs(near),))
    anchor = right.anchor.mean(1)
    if len(anchor) >= 3 and np.ptp(anchor) > 0:
      fit = linear_fit(anchor, self._worst(right).mean(1), [], self.confidence)
      yield part(
        [
          row(EVERY_CLASSIFIER, '', quantity, {'k': self.k}, estimate, self.confidence)
          for quantity, estimate in ((SLOPE, fit.slope), (INTERCEPT, fit.intercept))
        ]
      )

  def review(
    self, unreviewed: Sequence[Evaluation], reviewed: Sequence[Evaluation]
  ) -> Iterator[pd.DataFrame]:
    """Yields accuracies before and after the review of the sets, and its changes.

    Videos are resampled with their sets before and after (the paper's table 4).

    A reviewed anchor that is not among the unreviewed is refused.
    """
    predictions = [self._predictions(evaluations) for evaluations in (unreviewed, reviewed)]
    sets = [next(iter(by_label.values())).sets for by_label in predictions]
    within, place = self._within(sets[0]), metrics.positions(*sets)
    before, after = map(within._outcomes, predictions)
    for frames, right in ((UNREVIEWED, before), (REVIEWED, after)):
      yield from within._accuracies(right, {'frames': frames})
      yield from within._by_offset(right, {'frames': frames})
    counted = np.ones((len(sets[0].anchors), 4), bool)
    counted[:, 2:] = np.isin(np.arange(len(counted)), place)[:, None]
    values = np.zeros((len(before.models), *counted.shape), bool)
    values[..., :2] = np.stack([before.anchor, within._worst(before)], -1)
    values[:, place, 2:] = np.stack([after.anchor, within._worst(after)], -1)
    fields, views = dict(zip(before.models, values, strict=True)), pd.DataFrame({'view': range(4)})
    settings = {'shown': dict.fromkeys(fields, counted), 'clusters': before.videos}
    outcomes = Outcomes.from_fields(REVIEW_ANCHOR, fields, views, **settings)
    at_k = {'k': within.k}
    for quantity, facets in ((REVIEW_ANCHOR, {}), (REVIEW_WORST, at_k), (REVIEW_DROP, at_k)):
      yield self.means(quantity, outcomes, ('view',), facets=facets)

  def row_estimates(self, rows: Rows, evaluations: Sequence[Evaluation]) -> Iterator[pd.DataFrame]:
    """Yields with `distances` the cumulative distributions of distances (the paper's figure 10).

    They are of all pairs, of the pairs that passed the review where it is known, and of each
    classifier's mistakes: wrong neighbors of right anchors. Shares and the ends of their intervals
    do not fall with the distance; all pairs are within 1.
    """
    if self.distances:
      yield from self._distances(evaluations, rows)

  def _distances(
    self, evaluations: Sequence[Evaluation], rows: Rows | None = None
  ) -> Iterator[pd.DataFrame]:
    predictions = self._predictions(evaluations)
    sets = next(iter(predictions.values())).sets
    pairs = sets.pairs
    if self.frames or rows is None:
      image_of = metrics.stored_images(self.frames, sets.frames)
    else:
      image_of = metrics.row_images(rows)
    far = distances(image_of, sets.anchors, pairs.frame, pairs.group)
    every = np.ones(len(far), bool)
    has_passed = are_reviewed(sets, metadata.read(self.reviewed)) if self.reviewed else every
    subsets = {(IMAGES, 'all pairs'): every}
    units = pairs.group if sets.videos is None else sets.videos[pairs.group]
    if self.reviewed:
      subsets[IMAGES, 'reviewed pairs'] = has_passed
    right = self._outcomes(predictions)
    for label, mistakes in zip(right.models, right.mistakes, strict=True):
      subsets[label, 'mistakes'] = mistakes & has_passed
    views = pd.DataFrame({'distance': DISTANCES})
    for (label, name), is_in in subsets.items():
      for quantity in (WITHIN, WITHIN_RMS):
        outcomes = Outcomes.from_fields(quantity, {label: far[is_in]}, views, clusters=units[is_in])
        shares = self.means(quantity, outcomes, ('distance',), facets={'pairs': name})
        shares['low'], shares['high'] = shares.low.cummax(), shares.high[::-1].cummin()
        is_certain = (shares.distance == 1) & (shares.n > 0)
        shares.loc[is_certain, ['low', 'high', 'method']] = 1.0, 1.0, EXACT
        yield shares

  def _failures(self, predictions: Mapping[str, FramePredictions], right: SetOutcomes) -> Table:
    """Returns each classifier's most damaged sets: a right anchor, and the largest share of wrong
    neighbors. The stated neighbor is the nearest wrong one."""
    rows, near = [], np.abs(right.offset) <= self.k
    for (label, predicted), mistakes in zip(predictions.items(), right.mistakes, strict=True):
      sets, pairs = predicted.sets, predicted.sets.pairs
      wrong = np.flatnonzero(mistakes & near)
      count = np.bincount(pairs.group[wrong], minlength=len(sets.anchors))
      neighbors = np.bincount(pairs.group[near], minlength=len(sets.anchors))
      order = wrong[np.lexsort((np.abs(pairs.offset[wrong]), pairs.group[wrong]))]
      nearest = order[np.unique(pairs.group[order], return_index=True)[1]]
      share = count[pairs.group[nearest]] / neighbors[pairs.group[nearest]]
      for pair in nearest[np.argsort(-share, kind='stable')][: self.failures]:
        group = int(pairs.group[pair])
        anchor, neighbor = int(sets.anchors[group]), int(pairs.frame[pair])
        titles = (class_name(v, sets.class_names) for v in sets.labels[anchor].tolist() if v >= 0)
        cells: dict[str, object] = {
          'classifier': label,
          'anchor': sets.frames[anchor],
          'neighbor': sets.frames[neighbor],
          'offset': int(pairs.offset[pair]),
          'labels': ', '.join(titles),
        }
        for name, frame in (('anchor', anchor), ('neighbor', neighbor)):
          number = int(predicted.prediction[frame])
          words = class_name(number, sets.class_names) if number >= 0 else 'nothing'
          cells[f'{name} predicted'] = words
          cells[f'{name} probability'] = float(predicted.confidence[frame])
          cells[f'{name} row'] = frame
        rows.append({**cells, 'neighbors wrong': int(count[group]), 'of': int(neighbors[group])})
    return Table(tuple(rows[0]) if rows else ('classifier',), [list(row.values()) for row in rows])

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns `failure_images` [E, 2, H, W, C], anchor and neighbor of each row of `failures`."""
    table = findings.tables[FAILURES]
    if not table.rows:
      return {}
    pairs = pd.DataFrame(table.rows, columns=table.columns)[['anchor row', 'neighbor row']]
    pairs = pairs.to_numpy()
    image = {
      frame: next(rows.batches(1, [frame]))['image'][0] for frame in np.unique(pairs).tolist()
    }
    return {FAILURE_IMAGES: np.stack([np.stack([image[f] for f in p]) for p in pairs.tolist()])}

  def figures(self, results: Results) -> Figures:
    return {
      **charts.draw(results),
      **accuracy_figures.draw(results),
      **testbed.draw(results, self._published),
      **_galleries(results),
    }


def _measured(
  quantity: Quantity,
  right: SetOutcomes,
  settings: tuple[Any, ...],
  views: pd.DataFrame,
  counted: np.ndarray | None,
) -> Outcomes:
  """Returns the outcomes of a quantity for every model; videos are the units."""
  fields = {label: (right.of_model(place), *settings) for place, label in enumerate(right.models)}
  shown_to = None if counted is None else dict.fromkeys(right.models, counted)
  return Outcomes.from_fields(quantity, fields, views, shown=shown_to, clusters=right.videos)


def _exact_at_anchor(shares: pd.DataFrame) -> pd.DataFrame:
  """Returns shares by offset with an interval of no width at 0, where they are 0 by definition."""
  shares.loc[shares.offset == 0, ['low', 'high', 'method']] = 0.0, 0.0, EXACT
  return shares


def _galleries(results: Results) -> dict[str, tuple[Figure, str]]:
  table, images = results.tables.get(FAILURES), results.arrays.get(FAILURE_IMAGES)
  if table is None or images is None or len(images) != len(table.rows):
    return {}
  sets = pd.DataFrame(table.rows, columns=table.columns)
  sets['above'] = [
    [
      failures.taken(row['anchor predicted'], row['anchor probability']),
      f'{failures.taken(row["neighbor predicted"], row["neighbor probability"])} '
      f'({number(row["offset"])})',
    ]
    for row in sets.to_dict('records')
  ]
  return {
    f'{FAILURES}_{label}': (
      failures.gallery(images[damaged.index], damaged.above),
      f'Of the sets whose anchor {label} gets right, those with the largest share of wrong '
      'neighbors: the anchor above the nearest one that is wrong, with prediction, probability and '
      'distance in frames.',
    )
    for label, damaged in sets.groupby('classifier', sort=False)
  }
