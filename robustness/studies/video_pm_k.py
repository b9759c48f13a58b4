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
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd
from absl import logging
from matplotlib.figure import Figure

from robustness.core.rows import Rows
from robustness.core.settings import parse
from robustness.core.typing import Facts
from robustness.estimates.means import means, part, row
from robustness.estimates.of_means import of_means
from robustness.estimates.outcomes import Outcomes as Values
from robustness.estimates.quantity import Quantity
from robustness.evaluation.failures import class_name
from robustness.evaluation.outcomes import ONE_VIEW, Evaluation
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import IMAGES, Figures, Findings, ImageShape, Recipes, Study
from robustness.models.label_space import MERGES
from robustness.present import charts
from robustness.present.images import show
from robustness.present.style import PAGE_WIDTH, percent, styled, whole
from robustness.results import FAILURE_IMAGES, Results, Table
from robustness.video import columns, metadata, testbed
from robustness.video import neighbor_estimates as metrics
from robustness.video.metadata import LABEL_RULES, NeighborSets, passed
from robustness.video.neighbor_estimates import SetOutcomes, distances, right_within
from robustness.video.predictions import FramePredictions, read_predictions, read_sets
from robustness.video.rescoring import FrameScores, Rescoring

PAPER = 'shankar2021image'
_headline = functools.partial(Quantity, headline=True, paper=PAPER)
_drawn = functools.partial(Quantity, drawn=True)
ANCHOR = _headline('accuracy_anchor', 'accuracy on anchor frames', better='higher')
PM_K = _headline(
  'accuracy_pm_k', 'accuracy on the worst frame within k frames (pm-k)', better='higher'
)
DROP = _headline(
  'drop_pm_k', 'drop from the anchor to the worst frame within k frames', better='lower', low=-1
)
NEIGHBORS_ONLY = _drawn(
  'accuracy_pm_k_neighbors_only',
  'accuracy on the worst neighbor within k frames, without the anchor',
  better='higher',
)
OFFSET_ERROR = _drawn('error', 'error by signed distance from the anchor', better='lower')
TURNED = _drawn(
  'turned_wrong',
  'share of sets with a right anchor and a wrong frame so far from it',
  better='lower',
)
CONDITIONAL = _drawn(
  'conditional_accuracy', 'accuracy k frames from an anchor that is right', better='higher'
)
STATIC = _drawn(
  'accuracy_static',
  'accuracy on the frame of each set on which most classifiers err',
  better='higher',
)
SLOPE = Quantity(
  'fit_slope', 'slope of accuracy pm-k over accuracy on anchors, across classifiers', 'amount'
)
INTERCEPT = Quantity(
  'fit_intercept', 'accuracy pm-k at none on anchors, on the line across classifiers', 'amount'
)
WITHIN = _drawn('pairs_within', 'pairs of frames at most an ℓ∞ distance, of 1, apart')
REVIEW_ANCHOR = Quantity('review_anchor', 'change by review of accuracy on anchor frames', low=-1)
REVIEW_WORST = Quantity('review_worst', 'change by review of accuracy pm-k', low=-1)
REVIEW_DROP = Quantity('review_drop', 'change by review of the drop pm-k', low=-2, high=2)

EVERY_CLASSIFIER = 'all classifiers'
"""What stands for a classifier where an estimate is across them."""
UNREVIEWED, REVIEWED = 'unreviewed', 'reviewed'
"""Values of the facet `frames`."""
FAILURES, AUTO = 'failures', 'auto'
FRAME_TYPE, FPS = 'frame_type', 'fps'
SUBSETS = (FRAME_TYPE, FPS)
DISTANCES = np.linspace(0, 1, 101).round(2)


@dataclasses.dataclass(frozen=True)
class VideoPmK(Study):
  """Settings.

  Attributes:
    k: largest distance from the anchor in frames; curves go from 0 to k. Above the largest distance
      of a neighbor in the sets, that distance takes its place.
    include_anchor: whether the anchor must be right too, as in the released scorer.
    label_rule: whose labels count for a neighbor, its own ('frame') or its 'anchor''s.
    merge: '' keeps the run's own projection onto a coarser label space; 'max', 'sum' or 'mean' of
      the members' probabilities projects the recorded scores anew.
    subsets: of 'frame_type' and 'fps', refused if the data do not tell; () is those they tell.
    testbed: published models to draw the classifiers among, 'imagenet_vid_robust' or 'ytbb_robust';
      'auto' takes the one of as many anchors, if there is one, and '' none.
    failures: how many sets of each classifier with a right anchor and wrong neighbors are shown.
    distances: whether ℓ∞ distances of pairs are computed, which reads all frames once more.
    reviewed: folder of the reviewed sets where the data are the candidates, '' for none: distances
      are then those of all, of the reviewed, and of mistakes on the reviewed pairs.
  """

  title: ClassVar[str] = 'Accuracy on the worst of neighboring video frames'
  papers: ClassVar[tuple[str, ...]] = (PAPER,)
  lists_failures: ClassVar[bool] = False  # its own table and gallery show anchors with neighbors
  outputs: ClassVar[tuple[str, ...]] = ('unprojected_logits',)
  quantities = (
    *(PM_K, ANCHOR, DROP, NEIGHBORS_ONLY, OFFSET_ERROR, TURNED, CONDITIONAL),
    *(STATIC, SLOPE, INTERCEPT),
    *(WITHIN, REVIEW_ANCHOR, REVIEW_WORST, REVIEW_DROP),
  )

  k: int = 10
  include_anchor: bool = True
  label_rule: str = 'frame'
  merge: str = ''
  subsets: tuple[str, ...] = ()
  testbed: str = AUTO
  failures: int = 6
  distances: bool = False
  reviewed: str = ''
  confidence: float = 0.95

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(self.k >= 1, 'k', 'at least 1')
    self.require(self.failures >= 0, 'failures', 'at least 0')
    self.choose('label_rule', LABEL_RULES)
    self.choose('merge', ('', *MERGES))
    self.choose('testbed', ('', AUTO, *testbed.ANCHORS))
    self.choose('subsets', SUBSETS)

  @property
  def shown_as(self) -> dict[str, str]:
    """See `Study`."""
    anchor = 'with the anchor' if self.include_anchor else 'neighbors alone'
    return {'neighbors': f'within {self.k} frames, {anchor}; labels of the {self.label_rule}'}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """See `Study`."""
    anchors = len(read_sets(records).anchors)
    known = anchors in testbed.ANCHORS.values()
    return [] if known else [f'{anchors} anchors, which no published set has']

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Refuses rows that are no frames of neighbor sets."""
    columns.check_names(next(rows.batches(1, [0])))

  def prediction_scores(self, config: Facts) -> FrameScores:
    """See `ScoresPredictions`; the keys are those of `Rescoring`."""
    return FrameScores(parse(Rescoring, config, 'config'), self, self.review)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the table of results, and as tables of facts the sets and the most damaged of them.

    The k of the estimates is `metrics.effective_k`.
    """
    predictions = self._predictions(evaluations)
    sets = next(iter(predictions.values())).sets
    within = self._within(sets)
    if within.k < self.k:
      logging.warning(
        'config.study.k is %d, but no neighbor is more than %d frames from its anchor: accuracy is '
        'given as pm-%d.',
        self.k,
        within.k,
        within.k,
      )
    outcomes = within._outcomes(predictions)
    facts = len(sets.anchors), len(sets.pairs.group), self.k, within.k
    return Findings(
      tables={
        'neighbor sets': Table(('anchors', 'pairs', 'k asked for', 'k reached'), [facts]),
        FAILURES: within._failures(predictions, outcomes),
      },
      estimates=list(within._parts(outcomes, sets)),
    )

  def _predictions(self, evaluations: Sequence[Evaluation]) -> dict[str, FramePredictions]:
    return {e.label: read_predictions(e.records, self.merge) for e in evaluations}

  def _within(self, sets: NeighborSets) -> VideoPmK:
    """Returns the study with a k that neighbors of the sets reach."""
    return dataclasses.replace(self, k=metrics.effective_k(sets, self.k))

  def _outcomes(self, predictions: Mapping[str, FramePredictions]) -> dict[str, SetOutcomes]:
    """Returns what each classifier got right, by the labels in the order of its own classes."""
    return {
      label: metrics.outcomes(own.sets, own.prediction, self.label_rule)
      for label, own in predictions.items()
    }

  def _parts(
    self, outcomes: Mapping[str, SetOutcomes], sets: NeighborSets
  ) -> Iterator[pd.DataFrame]:
    """Yields estimates of all sets, across classifiers, and of each class and subset of sets."""
    yield from self._accuracies(outcomes)
    yield self._means(PM_K, self._worst(outcomes), test=True)  # over all distances: at k
    yield from self._curves(outcomes)
    yield from self._by_offset(outcomes)
    if len(outcomes) > 1:
      yield from self._across(outcomes)
    labels = sets.labels[sets.anchors]
    for number in np.unique(labels[labels >= 0]).tolist():
      own = np.flatnonzero((labels == number).any(1))  # a set of several labels is in each
      name = class_name(number, sets.class_names)
      distinct = f'{name} ({number})' if sets.class_names.count(name) > 1 else name
      of_class = {label: every.of_anchors(own) for label, every in outcomes.items()}
      yield from self._accuracies(of_class, {'class': distinct})
    for facet, name, known, divide in (
      ('without_frame_type', FRAME_TYPE, sets.frame_types, metrics.without_frame_types),
      (FPS, FPS, sets.fps, metrics.by_fps),
    ):
      if known is not None or name in self.subsets:
        divided: dict[str, Any] = {label: divide(own, sets) for label, own in outcomes.items()}
        for key in next(iter(divided.values())):
          yield from self._accuracies(
            {label: own[key] for label, own in divided.items()}, {facet: key}
          )

  def _accuracies(
    self, outcomes: Mapping[str, SetOutcomes], facets: Mapping[str, object] | None = None
  ) -> Iterator[pd.DataFrame]:
    """Yields accuracy on anchors, pm-k and the drop of some sets, whose facets are given."""
    anchor = {label: own.anchor[:, None] for label, own in outcomes.items()}
    worst = self._worst(outcomes)
    drop = {
      label: anchor[label] & ~worst[label]
      if self.include_anchor
      else anchor[label].astype(float) - worst[label]
      for label in outcomes
    }
    at_k = {**(facets or {}), 'k': self.k}
    yield self._means(ANCHOR, anchor, test=True, facets=facets)
    yield self._means(PM_K, worst, test=True, facets=at_k)
    yield self._means(DROP, drop, facets=at_k)

  def _worst(self, outcomes: Mapping[str, SetOutcomes]) -> dict[str, np.ndarray]:
    """Returns whether all frames within k are right, [A, 1]."""
    return {
      label: right_within(own, self.k, self.include_anchor)[:, -1:]
      for label, own in outcomes.items()
    }

  def _means(
    self,
    quantity: Quantity,
    values: Mapping[str, np.ndarray],
    views: pd.DataFrame = ONE_VIEW,
    shown: Mapping[str, np.ndarray] | None = None,
    test: bool = False,
    facets: Mapping[str, object] | None = None,
  ) -> pd.DataFrame:
    """Returns means of values [A, V] by the facets of the views; see `estimates.means.means`."""
    by = tuple(views.columns)
    given = Values(values, views, shown)
    return means(quantity, given, by, confidence=self.confidence, test=test, facets=facets)

  def _curves(self, outcomes: Mapping[str, SetOutcomes]) -> Iterator[pd.DataFrame]:
    """Yields pm-0 to pm-(k − 1), pm-0 to pm-k of neighbors alone, and the accuracy at exactly 1 to
    k frames from a right anchor, over both directions."""
    for quantity, with_anchor, count in (
      (PM_K, self.include_anchor, self.k),
      (NEIGHBORS_ONLY, False, self.k + 1),
    ):
      right = {
        label: right_within(own, self.k, with_anchor)[:, :count] for label, own in outcomes.items()
      }
      yield self._means(quantity, right, pd.DataFrame({'k': range(count)}))
    for label, own in outcomes.items():
      offsets = np.unique(np.append(own.offset, 0))
      near = (offsets != 0) & (np.abs(offsets) <= self.k)
      hit = metrics.by_offset(own, own.neighbor, own.anchor)[:, near]
      there = metrics.by_offset(own, own.anchor[own.group], own.anchor)[:, near]
      views = pd.DataFrame({'k': np.abs(offsets[near])})
      curve = self._means(CONDITIONAL, {label: hit}, views, {label: there})
      yield curve.sort_values('k', kind='stable')

  def _by_offset(
    self, outcomes: Mapping[str, SetOutcomes], facets: Mapping[str, object] | None = None
  ) -> Iterator[pd.DataFrame]:
    """Yields how often frames at each signed distance are wrong, and wrong beside a right anchor,
    over the sets with such a frame; the latter also over all classifiers together.

    The paper's figure 5 has a "% adversarial" that it does not define; its ticks, up to 8, fit a
    right anchor and a wrong frame, which is never so at the anchor itself.
    """
    first = next(iter(outcomes.values()))
    there = metrics.by_offset(first, np.ones_like(first.group, bool), np.ones_like(first.anchor))
    views = pd.DataFrame({'offset': np.unique(np.append(first.offset, 0))})
    wrong = {
      label: metrics.by_offset(own, ~own.neighbor, ~own.anchor) for label, own in outcomes.items()
    }
    turned = {
      label: metrics.by_offset(
        own, own.anchor[own.group] & ~own.neighbor, np.zeros_like(own.anchor)
      )
      for label, own in outcomes.items()
    }
    together = {EVERY_CLASSIFIER: np.mean([*turned.values()], axis=0)} if len(turned) > 1 else {}
    for quantity, values in ((OFFSET_ERROR, wrong), (TURNED, turned), (TURNED, together)):
      if values:
        yield self._means(quantity, values, views, dict.fromkeys(values, there), facets=facets)

  def _across(self, outcomes: Mapping[str, SetOutcomes]) -> Iterator[pd.DataFrame]:
    """Yields accuracy on one static set, and the line of accuracy pm-k over that on anchors."""
    several = SetOutcomes.stacked(list(outcomes.values()))
    static = metrics.static_right(several.of_pairs(np.abs(several.offset) <= self.k))
    yield self._means(
      STATIC, {label: own[:, None] for label, own in zip(outcomes, static, strict=True)}
    )
    anchor = several.anchor.mean(1)
    if len(anchor) >= 3 and np.ptp(anchor) > 0:
      worst = right_within(several, self.k, self.include_anchor)[..., -1].mean(1)
      fit = testbed.linear_fit(anchor, worst, [], self.confidence)
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

    Anchors are resampled with what there is of them before and after (the paper's table 4).

    A reviewed anchor that is not among the unreviewed is refused.
    """
    both = [self._predictions(evaluations) for evaluations in (unreviewed, reviewed)]
    sets = [next(iter(predictions.values())).sets for predictions in both]
    within, place = self._within(sets[0]), metrics.positions(*sets)
    before, after = (within._outcomes(predictions) for predictions in both)
    for frames, outcomes in ((UNREVIEWED, before), (REVIEWED, after)):
      yield from within._accuracies(outcomes, {'frames': frames})
      yield from within._by_offset(outcomes, {'frames': frames})
    shown = np.ones((len(sets[0].anchors), 4), bool)
    shown[:, 2:] = np.isin(np.arange(len(shown)), place)[:, None]
    values = {label: np.zeros_like(shown) for label in before}
    for columns_of, rows, outcomes in (
      (slice(2), slice(None), before),
      (slice(2, 4), place, after),
    ):
      for label, own in outcomes.items():
        worst = right_within(own, within.k, self.include_anchor)[:, -1]
        values[label][rows, columns_of] = np.stack([own.anchor, worst], 1)
    table = Values(values, pd.DataFrame({'view': range(4)}), dict.fromkeys(values, shown))
    changes: tuple[tuple[Quantity, list[int], dict[str, int]], ...] = (
      (REVIEW_ANCHOR, [-1, 0, 1, 0], {}),
      (REVIEW_WORST, [0, -1, 0, 1], {'k': within.k}),
      (REVIEW_DROP, [-1, 1, 1, -1], {'k': within.k}),
    )
    for quantity, signs, facets in changes:
      yield of_means(
        quantity,
        table,
        functools.partial(lambda signs, own, _: own @ signs, np.array(signs)),
        ('view',),
        confidence=self.confidence,
        facets=facets,
      )

  def row_estimates(self, rows: Rows, evaluations: Sequence[Evaluation]) -> Iterator[pd.DataFrame]:
    """Yields with `distances` the cumulative distributions of ℓ∞ distances (the paper's figure 10).

    They are of all pairs, of those that passed the review where that is known, and of each
    classifier's mistakes: wrong neighbors of right anchors.
    """
    if not self.distances:
      return
    predictions = self._predictions(evaluations)
    sets = next(iter(predictions.values())).sets
    pairs = sets.pairs
    near = distances(rows, sets.anchors, pairs.frame, pairs.group)[:, None] <= DISTANCES
    every = np.ones(len(near), bool)
    known = passed(sets, metadata.read(self.reviewed)) if self.reviewed else every
    chosen = {(IMAGES, 'all pairs'): every}
    if self.reviewed:
      chosen[IMAGES, 'reviewed pairs'] = known
    for label, own in self._outcomes(predictions).items():
      chosen[label, 'mistakes'] = own.anchor[own.group] & ~own.neighbor & known
    views = pd.DataFrame({'distance': DISTANCES})
    for (label, name), some in chosen.items():
      table = Values({label: near[some]}, views, clusters=pairs.group[some])
      yield means(WITHIN, table, ('distance',), confidence=self.confidence, facets={'pairs': name})

  def _failures(
    self, predictions: Mapping[str, FramePredictions], outcomes: Mapping[str, SetOutcomes]
  ) -> Table:
    """Returns each classifier's most damaged sets: a right anchor, and the largest share of wrong
    neighbors. The neighbor told of is the nearest one that is wrong."""
    rows = []
    for label, own in predictions.items():
      sets, pairs, right = own.sets, own.sets.pairs, outcomes[label]
      near = np.abs(pairs.offset) <= self.k
      wrong = np.flatnonzero(right.anchor[pairs.group] & ~right.neighbor & near)
      count = np.bincount(pairs.group[wrong], minlength=len(sets.anchors))
      of = np.bincount(pairs.group[near], minlength=len(sets.anchors))
      order = wrong[np.lexsort((np.abs(pairs.offset[wrong]), pairs.group[wrong]))]
      nearest = order[np.unique(pairs.group[order], return_index=True)[1]]
      share = count[pairs.group[nearest]] / of[pairs.group[nearest]]
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
          cells[f'{name} predicted'] = class_name(int(own.prediction[frame]), sets.class_names)
          cells[f'{name} probability'] = float(own.confidence[frame])
          cells[f'{name} row'] = frame
        rows.append({**cells, 'neighbors wrong': int(count[group]), 'of': int(of[group])})
    return Table(tuple(rows[0]) if rows else ('classifier',), [list(row.values()) for row in rows])

  def sample_arrays(self, rows: Rows, key: jax.Array, found: Findings) -> dict[str, np.ndarray]:
    """Returns `failure_images` [E, 2, H, W, C], anchor and neighbor of each row of `failures`."""
    shown = pd.DataFrame(found.tables[FAILURES].rows, columns=found.tables[FAILURES].columns)
    if shown.empty:
      return {}
    pairs = shown[['anchor row', 'neighbor row']].to_numpy()
    image = {
      frame: next(rows.batches(1, [frame]))['image'][0] for frame in np.unique(pairs).tolist()
    }
    return {FAILURE_IMAGES: np.stack([np.stack([image[f] for f in p]) for p in pairs.tolist()])}

  def figures(self, results: Results) -> Figures:
    """See `Study`."""
    return {**charts.draw(results), **testbed.draw(results), **_galleries(results)}


def _galleries(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws each classifier's most damaged sets (the paper's figure 1)."""
  table, images = results.tables.get(FAILURES), results.arrays.get(FAILURE_IMAGES)
  if table is None or images is None or len(images) != len(table.rows):
    return {}
  shown = pd.DataFrame(table.rows, columns=table.columns)
  return {
    f'{FAILURES}_{label}': (
      _gallery(images[own.index], own),
      f'Of the sets whose anchor {label} gets right, those with the largest share of wrong '
      'neighbors: the anchor above the nearest one that is wrong, with prediction, probability and '
      'distance in frames.',
    )
    for label, own in shown.groupby('classifier', sort=False)
  }


@styled
def _gallery(images: np.ndarray, rows: pd.DataFrame) -> Figure:
  """Draws pictures [E, 2, H, W, C], anchors above neighbors, with what was predicted."""
  count, _, height, width = images.shape[:4]
  cell = min(1.6, PAGE_WIDTH / count)
  figure = Figure(figsize=(cell * count, 2 * cell * height / width + 0.8), layout='constrained')
  grid = figure.subplots(2, count, squeeze=False)
  for column, (pair, told) in enumerate(zip(images, rows.to_dict('records'), strict=True)):
    for axes, image, name in zip(grid[:, column], pair, ('anchor', 'neighbor'), strict=True):
      text = f'{told[f"{name} predicted"]} {percent(told[f"{name} probability"])}'
      distance = f' ({whole(told["offset"])})' if name == 'neighbor' else ''
      show(axes, image)
      axes.set_title(textwrap.fill(f'{text}{distance}'.replace('_', ' '), 22), fontsize=6)
  return figure
