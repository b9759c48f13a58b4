"""pm-k from records against counts row by row; the settings; what is examined afterwards."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, Rows
from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import assemble, select, to_csv
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Evaluation
from robustness.models import label_space
from robustness.models.classifier import Classifier
from robustness.parallel.mesh import MeshParallel
from robustness.results import Results
from robustness.studies.video_pm_k import VideoPmK
from robustness.video import metadata
from robustness.video.columns import to_columns
from robustness.video.metadata import NeighborSets, from_mappings
from robustness.video.predictions import FramePredictions
from tests.networks import CLASSES, SHAPE, tiny_classifier
from tests.table_rows import estimate

CLIPS, SIDE = 12, 3
KEY = random_keys.stream(0, 'video_pm_k')


def made_sets() -> NeighborSets:
  """Twelve clips: one without neighbors, one with a gap, every fourth with two labels."""
  sets, labels, facts = {}, {}, {}
  for clip in range(CLIPS):
    offsets = [o for o in range(-SIDE, SIDE + 1) if clip != 5 and o and (clip != 7 or o != 1)]
    names = [f'clip{clip:02d}/{10 + o}.png' for o in (0, *offsets)]
    sets[names[0]] = names[1:]
    own = [clip % 4, (clip + 1) % 4] if clip % 4 == 0 else [clip % 4]
    labels.update(dict.fromkeys(names, own))
    facts.update(
      {
        name: {'frame_type': 'ipb'[i % 3], 'fps': 25 + 5 * (clip % 2)}
        for i, name in enumerate(names)
      }
    )
  return from_mappings(sets, labels, CLASSES, facts)


def made_rows(sets: NeighborSets) -> ArrayRows:
  generator = np.random.default_rng(0)
  clip = np.array([int(name[4:6]) for name in sets.frames])
  colours = generator.random((CLIPS, 1, 1, 3), np.float32)[clip]
  own = generator.random((len(clip), 1, 1, 3), np.float32)
  images = np.broadcast_to(0.7 * colours + 0.3 * own, (len(clip), *SHAPE)).copy()
  columns = to_columns(sets)
  return ArrayRows(images, columns.pop('label'), CLASSES, columns=columns)


def evaluate(
  folder: pathlib.Path, study: VideoPmK, labels: tuple[str, ...] = ('one',), block: int = 16
) -> list[Evaluation]:
  rows = made_rows(made_sets())
  return [
    Evaluation(label, recorded(folder / label, study, tiny_classifier(seed, label), rows, block))
    for seed, label in enumerate(labels)
  ]


def recorded(
  folder: pathlib.Path, study: VideoPmK, network: Classifier, rows: Rows, block: int = 0
) -> Records:
  evaluator = Evaluator(
    network,
    study.views(SHAPE),
    random_keys.stream(0, study.name),
    MeshParallel(jax.devices()[:2]),
    (),
    network.select_outputs(study.outputs),
  )
  identity = {'classifier': {}, 'data': {}, 'classes': list(network.class_names)}
  records = Records(folder, evaluator.layout(rows.num_examples, block), identity)
  evaluator.evaluate(rows, records)
  return records


@pytest.fixture(scope='module')
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> list[Evaluation]:
  """Three networks' records, which no setting of the study changes."""
  return evaluate(tmp_path_factory.mktemp('records'), VideoPmK(), ('one', 'two', 'three'))


def right_by_frame(records: Records, sets: NeighborSets) -> dict[str, bool]:
  prediction = records.column('prediction')
  return {
    name: int(p) in {int(v) for v in row if v >= 0}
    for name, p, row in zip(sets.frames, prediction, sets.labels, strict=True)
  }


@pytest.mark.parametrize('k', [1, 2, 3, 10])
def test_accuracies_are_those_counted_row_by_row(evaluations: list[Evaluation], k: int) -> None:
  sets, study = made_sets(), VideoPmK(k=k)
  only = evaluations[0]
  table = assemble(study.reduce([only], SHAPE).estimates)
  right = right_by_frame(only.records, sets)
  anchors, whole, neighbors = 0, 0, 0
  for anchor, members, offsets in zip(sets.anchors, sets.neighbors, sets.offsets, strict=True):
    hit = right[sets.frames[anchor]]
    near = [right[sets.frames[m]] for m, o in zip(members, offsets, strict=True) if abs(o) <= k]
    anchors, whole = anchors + hit, whole + (hit and all(near))
    neighbors += all(near) if near else hit
  reached = min(k, SIDE)
  for name, count, facets in (
    ('accuracy_anchor', anchors, {}),
    ('accuracy_pm_k', whole, {'k': reached}),
    ('accuracy_pm_k_neighbors_only', neighbors, {'k': reached}),
    ('drop_pm_k', anchors - whole, {'k': reached}),
  ):
    row = estimate(table, 'one', name, **facets)
    ends = clopper_pearson(count, CLIPS)
    assert (row.value, row.low, row.high) == pytest.approx((count / CLIPS, *ends)), name
  assert estimate(table, 'one', 'accuracy_pm_k').value == whole / CLIPS, 'over all distances'
  assert 0 < whole <= anchors < CLIPS


def test_curves_and_subsets_agree_with_the_whole(evaluations: list[Evaluation]) -> None:
  table = assemble(VideoPmK(k=3).reduce(evaluations[:1], SHAPE).estimates)
  anchor = estimate(table, 'one', 'accuracy_anchor')
  assert estimate(table, 'one', 'accuracy_pm_k', k=0).value == anchor.value
  errors = select(table, 'error', offset=...).set_index('offset')
  assert errors.index.tolist() == [-3, -2, -1, 0, 1, 2, 3]
  assert errors.value[0] == pytest.approx(1 - anchor.value)
  classes = select(table, 'accuracy_anchor', **{'class': ...})
  assert classes['class'].tolist() == list(CLASSES)
  assert classes.n.sum() == CLIPS + 3, 'three of two labels'
  rates = select(table, 'accuracy_anchor', fps=...)
  assert dict(zip(rates.fps, rates.n, strict=True)) == {25: 6, 30: 6}
  kinds = select(table, 'drop_pm_k', k=3, without_frame_type=...).without_frame_type
  assert kinds.tolist() == ['i', 'p', 'b']


def test_errors_and_conditional_accuracies_are_those_counted_frame_by_frame(
  evaluations: list[Evaluation],
) -> None:
  sets, right = made_sets(), right_by_frame(evaluations[0].records, made_sets())
  table = assemble(VideoPmK(k=3).reduce(evaluations[:1], SHAPE).estimates)
  pairs = [
    (right[sets.frames[sets.anchors[group]]], right[sets.frames[frame]], offset)
    for group, frame, offset in zip(*sets.pairs, strict=True)
  ]
  for offset in (-3, 1):
    at = [neighbor for _, neighbor, distance in pairs if distance == offset]
    row = estimate(table, 'one', 'error', offset=offset)
    assert (row.value, row.n) == (pytest.approx(1 - np.mean(at)), len(at))
    assert (row.low, row.high) == pytest.approx(clopper_pearson(len(at) - sum(at), len(at)))
  for k in (1, 2, 3):
    given = [neighbor for anchor, neighbor, distance in pairs if anchor and abs(distance) == k]
    row = estimate(table, 'one', 'conditional_accuracy', k=k)
    assert row.value == pytest.approx(np.mean(given)) and row.low < row.value <= row.high
    assert row.n <= len(given), 'both directions of an anchor are one cluster'


def test_the_cut_into_blocks_changes_nothing(
  evaluations: list[Evaluation], tmp_path: pathlib.Path
) -> None:
  study = VideoPmK(k=3)
  tables = [
    to_csv(assemble(study.reduce(several, SHAPE).estimates))
    for several in (evaluations[:1], evaluate(tmp_path, study, block=6))
  ]
  assert tables[0] == tables[1]


def test_neighbors_only_is_a_setting(evaluations: list[Evaluation]) -> None:
  table = assemble(VideoPmK(k=3, include_anchor=False).reduce(evaluations, SHAPE).estimates)
  worst, neighbors = (
    estimate(table, 'two', name, k=3) for name in ('accuracy_pm_k', 'accuracy_pm_k_neighbors_only')
  )
  assert worst[['value', 'low', 'high']].equals(neighbors[['value', 'low', 'high']])
  drop = estimate(table, 'two', 'drop_pm_k', k=3)
  anchor = estimate(table, 'two', 'accuracy_anchor')
  assert drop.value == pytest.approx(anchor.value - worst.value)
  paired = estimate(table, 'two', 'drop_pm_k', 'one', k=3)
  assert -2 <= paired.low <= paired.value <= paired.high <= 2


def test_several_classifiers_are_compared_on_the_same_sets(evaluations: list[Evaluation]) -> None:
  study, sets = VideoPmK(k=3), made_sets()
  findings = study.reduce(evaluations, SHAPE)
  table = assemble(findings.estimates)
  right = [right_by_frame(e.records, sets) for e in evaluations]
  anchors = np.array([[own[sets.frames[a]] for a in sets.anchors] for own in right])
  worst = np.array(
    [
      [
        all(own[sets.frames[f]] for f in (anchor, *members))
        for anchor, members in zip(sets.anchors, sets.neighbors, strict=True)
      ]
      for own in right
    ]
  )
  for name, facets, own in (('accuracy_anchor', {}, anchors), ('accuracy_pm_k', {'k': 3}, worst)):
    b, c = (own[0] & ~own[1]).sum(), (own[1] & ~own[0]).sum()
    row = estimate(table, 'two', name, 'one', **facets)
    expected = (c - b) / CLIPS, stats.binomtest(min(b, c), b + c).pvalue if b + c else 1
    assert (row.value, row.p) == pytest.approx(expected)
    assert (row.low, row.high) == pytest.approx(paired_difference(c, b, CLIPS)[1:])
  drops = anchors.astype(int) - worst
  row = estimate(table, 'two', 'drop_pm_k', 'one', k=3)
  more, less = (drops[1] > drops[0]).sum(), (drops[1] < drops[0]).sum()
  assert [row.value, row.low, row.high] == pytest.approx(paired_difference(more, less, CLIPS))
  for label in ('one', 'two', 'three'):
    neighbors = estimate(table, label, 'accuracy_pm_k_neighbors_only', k=3)
    assert estimate(table, label, 'accuracy_static').value >= neighbors.value
  line = stats.linregress(anchors.mean(1), worst.mean(1))
  for name, value in (('fit_slope', line.slope), ('fit_intercept', line.intercept)):
    assert estimate(table, 'all classifiers', name, k=3).value == pytest.approx(value)


def test_figures_are_those_of_the_table_and_of_failures(evaluations: list[Evaluation]) -> None:
  study, rows = VideoPmK(k=3, failures=2, testbed='ytbb_robust'), made_rows(made_sets())
  findings = study.reduce(evaluations[:2], SHAPE)
  results = Results(
    'video_pm_k',
    [{'label': evaluation.label} for evaluation in evaluations[:2]],
    {},
    study.describe(),
    tables=findings.tables,
    arrays=study.sample_arrays(rows, KEY, findings),
    table=assemble(findings.estimates),
    quantities=study.quantities,
  )
  figures = study.figures(results)
  assert {'testbed', 'failures_one', 'failures_two', 'accuracy_pm_k_k'} <= set(figures)
  cells = dict(
    zip(findings.tables['failures'].columns, findings.tables['failures'].rows[0], strict=True)
  )
  titles = [axes.get_title() for axes in figures['failures_one'][0].axes]
  assert titles[0].startswith(f'{cells["anchor predicted"]} '.replace('_', ' '))
  assert any(f'({cells["offset"]})'.replace('-', '−') in title for title in titles)
  del results.arrays['failure_images']  # as where no row is at hand
  assert 'failures_one' not in study.figures(results)


def test_classifiers_with_their_classes_in_another_order_are_counted_alike(
  evaluations: list[Evaluation], tmp_path: pathlib.Path
) -> None:
  study, names = VideoPmK(k=3), CLASSES[::-1]
  network = tiny_classifier(0, 'flipped')
  flipped = dataclasses.replace(
    network,
    class_names=names,
    forward=lambda *given: tuple(
      part[:, ::-1] if index == 0 else {n: v[:, ::-1] for n, v in part.items()}
      for index, part in enumerate(network.forward(*given))
    ),
  )
  rows = label_space.align(made_rows(made_sets()), names, {}, 'flipped')
  records = recorded(tmp_path, study, flipped, rows)
  findings = study.reduce([evaluations[0], Evaluation('flipped', records)], SHAPE)
  table = assemble(findings.estimates)
  own = table[table.versus == ''].groupby('classifier')
  one, other = (own.get_group(label).drop(columns='classifier') for label in ('one', 'flipped'))
  pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True))


def test_failures_are_the_nearest_wrong_neighbors(evaluations: list[Evaluation]) -> None:
  sets, study = made_sets(), VideoPmK(k=3, failures=2)
  only = evaluations[0]
  findings = study.reduce([only], SHAPE)
  right = right_by_frame(only.records, sets)
  failures = findings.tables['failures']
  rows = [dict(zip(failures.columns, row, strict=True)) for row in failures.rows]
  for row in rows:
    anchor, neighbor = (sets.frames[row[f'{name} row']] for name in ('anchor', 'neighbor'))
    assert right[anchor] and not right[neighbor]
    assert neighbor == f'{anchor[:7]}{10 + row["offset"]}.png'
    near = {o: right.get(f'{anchor[:7]}{10 + o}.png', True) for o in range(-SIDE, SIDE + 1) if o}
    assert all(hit for o, hit in near.items() if abs(o) < abs(row['offset']))
    assert row['neighbors wrong'] == len(near) - sum(near.values())
  share = [row['neighbors wrong'] / row['of'] for row in rows]
  assert share == sorted(share, reverse=True) and all(0 < s <= 1 for s in share)
  images = made_rows(sets).images
  shown = study.sample_arrays(made_rows(sets), KEY, findings)['failure_images']
  assert shown.shape == (len(rows), 2, *SHAPE) and 1 <= len(rows) <= 2
  np.testing.assert_array_equal(shown[0, 1], images[rows[0]['neighbor row']])


def test_each_of_several_classifiers_has_its_failures(evaluations: list[Evaluation]) -> None:
  study = VideoPmK(k=3, failures=2)
  together = study.reduce(evaluations, SHAPE).tables['failures'].rows
  alone = [row for e in evaluations for row in study.reduce([e], SHAPE).tables['failures'].rows]
  assert together == alone


def test_without_failures_there_are_no_pictures(evaluations: list[Evaluation]) -> None:
  study = VideoPmK(failures=0)
  findings = study.reduce(evaluations, SHAPE)
  assert study.sample_arrays(made_rows(made_sets()), KEY, findings) == {}


def test_distances_are_of_all_of_the_reviewed_pairs_and_of_mistakes(
  evaluations: list[Evaluation], tmp_path: pathlib.Path
) -> None:
  sets, rows = made_sets(), made_rows(made_sets())
  assert list(VideoPmK().row_estimates(rows, evaluations)) == []
  members = zip(sets.anchors, sets.neighbors, strict=True)  # frames of these records have no paths
  kept = {f'row {anchor}': [f'row {frame}' for frame in several[:2]] for anchor, several in members}
  metadata.write(
    from_mappings(kept, {f'row {n}': [0] for n in range(len(sets.frames))}, CLASSES), tmp_path
  )
  study = VideoPmK(k=3, distances=True, reviewed=str(tmp_path))
  table = assemble(list(study.row_estimates(rows, evaluations[:1])))
  pairs, right = sets.pairs, right_by_frame(evaluations[0].records, sets)
  distance = np.abs(rows.images[sets.anchors][pairs.group] - rows.images[pairs.frame]).max(
    (1, 2, 3)
  )
  reviewed = np.concatenate([np.arange(len(n)) < 2 for n in sets.neighbors])
  mistake = [
    right[sets.frames[sets.anchors[g]]] and not right[sets.frames[f]]
    for g, f in zip(pairs.group, pairs.frame, strict=True)
  ]
  for label, name, chosen in (
    ('images', 'all pairs', np.ones(len(distance), bool)),
    ('images', 'reviewed pairs', reviewed),
    ('one', 'mistakes', reviewed & mistake),
  ):
    for at in (0.1, 0.25, 1):
      row = estimate(table, label, 'pairs_within', pairs=name, distance=at)
      assert (row.value, row.n) == (pytest.approx((distance[chosen] <= at).mean()), chosen.sum())
      assert row.low <= row.value <= row.high


def test_a_review_changes_accuracies_by_what_is_counted(
  evaluations: list[Evaluation], monkeypatch: pytest.MonkeyPatch
) -> None:
  names = {f'v{v}/{f}.png': [0] for v in range(4) for f in (3, 4, 5)}
  whole = {
    'v0/3.png': ['v0/4.png'],
    'v1/3.png': ['v1/4.png'],
    'v2/3.png': [],
    'v3/3.png': ['v3/4.png', 'v3/5.png'],
  }
  kept = {'v0/3.png': [], 'v1/3.png': ['v1/4.png'], 'v3/3.png': ['v3/5.png']}
  wrong = {'v0/4.png', 'v2/3.png', 'v3/4.png'}

  def answers(sets: dict) -> Any:
    own = from_mappings(sets, names)
    prediction = np.array([int(frame in wrong) for frame in own.frames])
    return {'net': FramePredictions(own, prediction, prediction)}

  monkeypatch.setattr(VideoPmK, '_predictions', lambda _, sets: answers(sets))
  for after, changes in (
    (kept, {'anchor': 1 - 3 / 4, 'worst': 1 - 1 / 4, 'drop': 0 - 2 / 4}),
    (whole, {'anchor': 0, 'worst': 0, 'drop': 0}),
  ):
    table = assemble(list(VideoPmK().review(whole, after)))
    for name, change in changes.items():
      row = estimate(table, 'net', f'review_{name}', **({} if name == 'anchor' else {'k': 2}))
      assert row.value == pytest.approx(change) and row.low <= row.value <= row.high
      assert row.n == 4 and (change or row.low == row.high == 0)
    assert estimate(table, 'net', 'accuracy_pm_k', k=2, frames='unreviewed').value == 1 / 4
    assert estimate(table, 'net', 'error', offset=1, frames='unreviewed').value == 2 / 3


def test_a_merge_rule_needs_scores_to_merge(evaluations: list[Evaluation]) -> None:
  with pytest.raises(InputError, match="config.study.merge is 'sum'.*leave it ''"):
    VideoPmK(merge='sum').reduce(evaluations, SHAPE)
