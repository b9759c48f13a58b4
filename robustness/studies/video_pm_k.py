"""Accuracy on anchors and on the worst of their neighboring video frames: acc_orig and pm-k.

Rows are the distinct frames of neighbor sets, shown as they are, each once. Everything is computed
from the recorded scores, so that another k, merge rule or label rule needs no classifier.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from absl import logging

from robustness.core.rows import Rows
from robustness.core.settings import choice, parse, require, require_fractions
from robustness.estimates.comparison import paired_accuracies
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes as EstimatedOutcomes
from robustness.estimates.quantity import Quantity
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.figures import video_pm_k as pm_k_figures
from robustness.figures.video_testbed import AUTO
from robustness.labels.label_space import MERGES
from robustness.metrics import neighbor_analysis as analysis
from robustness.metrics import neighbor_estimates, video_testbed
from robustness.metrics import neighbor_sets as metrics
from robustness.metrics.accuracy import proportion
from robustness.metrics.frame_predictions import FramePredictions, read_predictions
from robustness.metrics.neighbor_analysis import ACCURACY_COLUMNS, Accuracies
from robustness.metrics.neighbor_sets import Outcomes
from robustness.neighbor_sets import columns, metadata
from robustness.neighbor_sets.frame_distance import distances
from robustness.neighbor_sets.metadata import LABEL_RULES, NeighborSets
from robustness.neighbor_sets.reviewed_pairs import passed
from robustness.rescoring.frame_predictions import Rescoring
from robustness.rescoring.frame_scores import FrameScores
from robustness.results import FAILURE_IMAGES, Results, Table
from robustness.wording import video as wording

STATIC = Quantity(
  'accuracy_static',
  'accuracy on the frame of each set on which most classifiers err',
  better='higher',
)
FAILURE_ROWS = 'failure_rows'
FRAME_TYPE, FPS = 'frame_type', 'fps'
SUBSETS = (FRAME_TYPE, FPS)
COMPARISON = (
  'first',
  'second',
  'frames',
  'only first right',
  'only second right',
  'accuracy, second - first',
  'low',
  'high',
  'McNemar p',
)


@dataclasses.dataclass(frozen=True)
class Study(study.Study):
  """Settings of the study `video_pm_k`.

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
    confidence: of all intervals.
  """

  name: ClassVar[str] = 'video_pm_k'
  papers: ClassVar[tuple[str, ...]] = ('shankar2021image',)
  lists_failures: ClassVar[bool] = False  # its own table and gallery show anchors with neighbors
  outputs: ClassVar[tuple[str, ...]] = ('unprojected_logits',)

  k: int = 10
  include_anchor: bool = True
  label_rule: str = 'frame'
  merge: str = ''
  subsets: tuple[str, ...] = ()
  testbed: str = 'auto'
  failures: int = 6
  distances: bool = False
  reviewed: str = ''
  confidence: float = 0.95

  def __post_init__(self) -> None:
    require(self.k >= 1, 'config.study.k', self.k, 'at least 1')
    require(self.failures >= 0, 'config.study.failures', self.failures, 'at least 0')
    require_fractions(self, 'config.study', 'confidence')
    choice('config.study.label_rule', self.label_rule, LABEL_RULES)
    choice('config.study.merge', self.merge, ('', *MERGES))
    choice('config.study.testbed', self.testbed, ('', AUTO, *video_testbed.ANCHORS))
    for name in self.subsets:
      choice('config.study.subsets', name, SUBSETS)

  def check_rows(self, rows: Rows) -> None:
    """Refuses rows that are no frames of neighbor sets."""
    columns.check_names(next(rows.batches(1, [0])))

  def prediction_scores(self, config: Mapping[str, Any]) -> FrameScores:
    """See `robustness.evaluation.study.Study`; the keys are those of `Rescoring`."""
    return FrameScores(parse(Rescoring, config, 'config'), self)

  def finding_arrays(self, rows: Rows, findings: Findings) -> dict[str, np.ndarray]:
    """Returns `failure_images` [E, 2, H, W, C] (anchor, neighbor) of every classifier.

    With `distances` also `distance` [P], the ℓ∞ distances of the pairs.
    """
    arrays = findings.arrays
    extra = {}
    for name, failure_rows in arrays.items():
      if name.endswith(FAILURE_ROWS) and len(failure_rows):
        images = {
          row: next(rows.batches(1, [row]))['image'][0] for row in np.unique(failure_rows).tolist()
        }
        extra[name.removesuffix(FAILURE_ROWS) + FAILURE_IMAGES] = np.stack(
          [np.stack([images[r] for r in pair]) for pair in failure_rows.tolist()]
        )
    if self.distances:
      extra['distance'] = distances(
        rows, arrays['anchor_row'], arrays['pair_row'], arrays['pair_group']
      )
    return extra

  @property
  def shown_as(self) -> dict[str, str]:
    """See `robustness.evaluation.study.Study`."""
    anchor = 'with the anchor' if self.include_anchor else 'neighbors alone'
    return {'neighbors': f'within {self.k} frames, {anchor}; labels of the {self.label_rule}'}

  def differences(self, records: Records, image_shape: tuple[int, int, int]) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    anchors = len(read_predictions(records, self.merge).sets.anchors)
    known = anchors in video_testbed.ANCHORS.values()
    return [] if known else [f'{anchors} anchors, which no published set has']

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns `accuracy_anchor`, `accuracy_pm_<k>`, their `drop`, and where it comes from.

    Arrays: `pm_k` [k + 1] and `pm_k_neighbors_only`, `offset_error` by `offset`, `conditional` [k],
    each with `_low` and `_high`; what was right, `anchor_right` [A] and `neighbor_right` [P]; the
    pairs `pair_group`, `pair_offset`, `pair_row` and `anchor_row`, with `reviewed` also
    `pair_reviewed`. Tables: `by_class`, `by_frame_type`, `by_fps`, `failures`; for several
    classifiers `comparison`, and of each but the first the number `drop_difference_pm_<k>`, paired.
    <k> is `metrics.effective_k`, the last of the array `k`.
    """
    del image_shape
    predictions = [read_predictions(evaluation.records, self.merge) for evaluation in evaluations]
    within = self._within(predictions[0].sets)
    return within._reduced(evaluations, predictions)

  def _within(self, sets: NeighborSets) -> Study:
    """Returns the study with a k that neighbors of the sets reach."""
    k = metrics.effective_k(sets, self.k)
    if k < self.k:
      logging.warning(
        'config.study.k is %d, but no neighbor is more than %d frames from its anchor: accuracy is '
        'given as pm-%d.',
        self.k,
        k,
        k,
      )
    return dataclasses.replace(self, k=k)

  def _reduced(
    self, evaluations: Sequence[Evaluation], predictions: Sequence[FramePredictions]
  ) -> Findings:
    sets = predictions[0].sets
    outcomes = [
      metrics.outcomes(own.sets, own.prediction, self.label_rule)  # by its own classes
      for own in predictions
    ]
    findings = Findings(
      arrays={
        'k': np.arange(self.k + 1),
        'pair_group': sets.pairs.group,
        'pair_offset': sets.pairs.offset,
        'pair_row': sets.pairs.frame,
        'anchor_row': sets.anchors,
      }
    )
    prefixes = study.prefixes(evaluations)
    for predicted, own, prefix in zip(predictions, outcomes, prefixes, strict=True):
      self._accuracies(findings, own, prefix)
      self._curves(findings, own, prefix)
      self._tables(findings, own, predicted.sets, prefix)
      self._failures(findings, predicted, own, prefix)
    by_label = {e.label: own for e, own in zip(evaluations, outcomes, strict=True)}
    findings.estimates = self._estimates(by_label, sets)
    if self.reviewed:
      findings.arrays['pair_reviewed'] = passed(sets, metadata.read(self.reviewed))
    if len(evaluations) > 1:
      self._together(findings, outcomes, [e.label for e in evaluations])
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (*neighbor_estimates.QUANTITIES, STATIC)

  def _estimates(self, outcomes: Mapping[str, Outcomes], sets: NeighborSets) -> list[pd.DataFrame]:
    """Returns the rows of the table of results: of all sets, of each class, and of the subsets."""
    given = self.k, self.include_anchor, self.confidence
    parts = neighbor_estimates.accuracies(outcomes, *given)
    parts += neighbor_estimates.curves(outcomes, *given)
    labels = sets.labels[sets.anchors]
    for number in np.unique(labels[labels >= 0]).tolist():
      own = np.flatnonzero((labels == number).any(1))
      of_class = {label: every.of_anchors(own) for label, every in outcomes.items()}
      name = sets.class_names[number] if sets.class_names else str(number)
      parts += neighbor_estimates.accuracies(of_class, *given, {'class': name})
    for facet, known, divide in self._subsets(sets):
      if known or facet in self.subsets:
        divided = {label: divide(own, sets) for label, own in outcomes.items()}
        for key in next(iter(divided.values())):
          subset = {label: own[key] for label, own in divided.items()}
          name = 'without_frame_type' if facet == FRAME_TYPE else facet
          parts += neighbor_estimates.accuracies(subset, *given, {name: key})
    if len(outcomes) > 1:
      right = dict(zip(outcomes, self._static(list(outcomes.values())), strict=True))
      one = pd.DataFrame(index=range(1))
      table = EstimatedOutcomes({label: own[:, None] for label, own in right.items()}, one)
      parts.append(means(STATIC, table, confidence=self.confidence))
    return parts

  def _subsets(self, sets: NeighborSets) -> tuple[tuple[str, bool, Any], ...]:
    """Returns each kind of subset, whether the sets tell it, and how outcomes are divided by it."""
    return (
      (FRAME_TYPE, sets.frame_types is not None, analysis.without_frame_types),
      (FPS, sets.fps is not None, analysis.by_fps),
    )

  def _static(self, outcomes: Sequence[Outcomes]) -> np.ndarray:
    """Returns whether classifiers are right on the frame of each set on which most err, [M, A]."""
    several = metrics.stacked(outcomes)
    within = several.of_pairs(np.abs(several.offset) <= self.k)
    return metrics.static_right(within, metrics.static_choice(within))

  def _accuracies(self, findings: Findings, outcomes: Outcomes, prefix: str) -> None:
    whole = analysis.accuracies(outcomes, self.k, self.include_anchor, self.confidence)
    neighbors = metrics.worst_right(outcomes, self.k, include_anchor=False)
    findings.numbers.update(
      {
        f'{prefix}accuracy_anchor': whole.anchor,
        f'{prefix}accuracy_pm_{self.k}': whole.worst,
        f'{prefix}drop_pm_{self.k}': whole.drop,
        f'{prefix}accuracy_pm_{self.k}_neighbors_only': proportion(
          int(neighbors.sum()), outcomes.num_anchors, self.confidence
        ),
      }
    )
    findings.arrays.update(
      {f'{prefix}anchor_right': outcomes.anchor, f'{prefix}neighbor_right': outcomes.neighbor}
    )

  def _curves(self, findings: Findings, outcomes: Outcomes, prefix: str) -> None:
    def add(name: str, count: np.ndarray, n: Any) -> None:
      low, high = clopper_pearson(count, n, self.confidence)
      share = np.divide(count, n, out=np.full(len(count), np.nan), where=np.asarray(n) > 0)
      keep(name, (share, low, high))

    def keep(name: str, rate: Sequence[Any]) -> None:
      for end, values in zip(('', '_low', '_high'), rate, strict=True):
        findings.arrays[f'{prefix}{name}{end}'] = np.asarray(values)

    add('pm_k', metrics.pm_k_counts(outcomes, self.k, self.include_anchor), outcomes.num_anchors)
    add('pm_k_neighbors_only', metrics.pm_k_counts(outcomes, self.k, False), outcomes.num_anchors)
    errors = metrics.error_by_offset(outcomes)
    findings.arrays['offset'] = errors.offset
    add('offset_error', errors.wrong, errors.n)
    keep('conditional', metrics.conditional_accuracy(outcomes, self.k).rate(self.confidence))

  def _tables(
    self, findings: Findings, outcomes: Outcomes, sets: NeighborSets, prefix: str
  ) -> None:
    labels = sets.labels[sets.anchors]
    table = analysis.by_class(outcomes, labels, self.k, self.include_anchor, self.confidence)
    names = {c: sets.class_names[c] if sets.class_names else str(c) for c in table}
    findings.tables[f'{prefix}by_class'] = _table('class', {names[c]: a for c, a in table.items()})
    for name, known, divide in self._subsets(sets):
      if known or name in self.subsets:
        parts = {
          f'without {key}' if name == FRAME_TYPE else str(key): analysis.accuracies(
            part, self.k, self.include_anchor, self.confidence
          )
          for key, part in divide(outcomes, sets).items()
        }
        findings.tables[f'{prefix}by_{name}'] = _table(name, parts)

  def _failures(
    self, findings: Findings, predictions: FramePredictions, outcomes: Outcomes, prefix: str
  ) -> None:
    """Adds the most damaged sets: a right anchor, and the largest share of its neighbors wrong.

    The frame shown is the nearest one that turns the anchor wrong.
    """
    sets, pairs = predictions.sets, predictions.sets.pairs
    near = np.abs(pairs.offset) <= self.k
    wrong = np.flatnonzero(outcomes.anchor[pairs.group] & ~outcomes.neighbor & near)
    count = np.bincount(pairs.group[wrong], minlength=len(sets.anchors))
    of = np.bincount(pairs.group[near], minlength=len(sets.anchors))
    order = wrong[np.lexsort((np.abs(pairs.offset[wrong]), pairs.group[wrong]))]
    nearest = order[np.unique(pairs.group[order], return_index=True)[1]]
    share = count[pairs.group[nearest]] / of[pairs.group[nearest]]
    first = nearest[np.argsort(-share, kind='stable')][: self.failures]
    shown = np.stack([sets.anchors[pairs.group[first]], pairs.frame[first]], 1)

    def named(label: int) -> str:
      return sets.class_names[label] if sets.class_names else str(label)

    rows = [
      [
        sets.frames[a],
        sets.frames[b],
        int(pairs.offset[pair]),
        ', '.join(named(int(v)) for v in sets.labels[a] if v >= 0),
        named(int(predictions.prediction[a])),
        float(predictions.confidence[a]),
        named(int(predictions.prediction[b])),
        float(predictions.confidence[b]),
        int(count[pairs.group[pair]]),
        int(of[pairs.group[pair]]),
      ]
      for pair, (a, b) in zip(first, shown.tolist(), strict=True)
    ]
    findings.arrays[prefix + FAILURE_ROWS] = shown
    findings.tables[f'{prefix}failures'] = Table(
      (
        'anchor',
        'neighbor',
        'offset',
        'labels',
        'anchor predicted',
        'anchor probability',
        'neighbor predicted',
        'neighbor probability',
        'neighbors wrong',
        'of',
      ),
      rows,
    )

  def _together(
    self, findings: Findings, outcomes: Sequence[Outcomes], labels: Sequence[str]
  ) -> None:
    """Adds the static set, and paired comparisons with the first classifier, drops among them."""
    several = metrics.stacked(outcomes)
    static = self._static(outcomes)
    worst = metrics.worst_right(several, self.k, self.include_anchor)
    for label, right in zip(labels, static, strict=True):
      findings.numbers[f'{label}/accuracy_static'] = proportion(
        int(right.sum()), len(right), self.confidence
      )
    rows = [
      [labels[0], labels[index], name, *paired_accuracies(right[0], right[index], self.confidence)]
      for index in range(1, len(labels))
      for name, right in (('anchor', several.anchor), (f'pm-{self.k}', worst))
    ]
    findings.tables['comparison'] = Table(COMPARISON, rows)
    drops = several.anchor.astype(int) - worst
    for label, own in zip(labels[1:], drops[1:], strict=True):
      difference = metrics.drop_difference(drops[0], own, self.include_anchor, self.confidence)
      findings.numbers[f'{label}/drop_difference_pm_{self.k}'] = difference
    if len(labels) >= 3 and np.ptp(several.anchor.mean(1)) > 0:
      fit = analysis.linear_fit(several.anchor.mean(1), worst.mean(1), [0.0, 1.0], self.confidence)
      findings.numbers.update({'fit_slope': fit.slope, 'fit_intercept': fit.intercept})

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return pm_k_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.sentences(results)


def _table(title: str, parts: Mapping[str, Accuracies]) -> Table:
  return Table(
    (title, *ACCURACY_COLUMNS),
    [
      [
        name,
        part.anchor.n,
        *(getattr(number, end) for number in part for end in ('value', 'low', 'high')),
      ]
      for name, part in parts.items()
    ],
  )
