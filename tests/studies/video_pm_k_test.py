"""Tests the study `video_pm_k` against counts frame by frame, its failures and reviews."""

import copy
import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import stats

from robustness.core import random_keys
from robustness.core.rows import ArrayRows, Rows
from robustness.estimates.comparison import paired_difference
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import assemble, select, to_csv
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation
from robustness.models import label_space
from robustness.models.classifier import Classifier
from robustness.results import Results
from robustness.studies.video_pm_k import VideoPmK
from robustness.video import metadata
from robustness.video import neighbor_estimates as metrics
from robustness.video.columns import to_columns
from robustness.video.metadata import NeighborSets, from_mappings
from robustness.video.predictions import FramePredictions
from tests.networks import CLASSES, SHAPE, tiny_classifier
from tests.refusals import bad_setting, refused
from tests.studies.conftest import recorded, table_of
from tests.table_rows import estimate

CLIPS, SIDE = 12, 3
"""Number of clips, and of neighbors on each side of an anchor."""
KEY = random_keys.stream(0, 'video_pm_k')


def made_sets() -> NeighborSets:
  """Returns twelve clips of an anchor and up to six neighbors.

  Clip 5 has no neighbors, clip 7 lacks the one at offset 1; every fourth clip has two labels.
  """
  sets, labels, facts = {}, {}, {}
  for clip in range(CLIPS):
    gaps = {5: set(range(-SIDE, SIDE + 1)), 7: {0, 1}}.get(clip, {0})
    offsets = [o for o in range(-SIDE, SIDE + 1) if o not in gaps]
    names = [f'clip{clip:02d}/{10 + o}.png' for o in (0, *offsets)]
    sets[names[0]] = names[1:]
    classes = [clip % 4, (clip + 1) % 4] if clip % 4 == 0 else [clip % 4]
    labels.update(dict.fromkeys(names, classes))
    for i, name in enumerate(names):
      facts[name] = {'frame_type': 'ipb'[i % 3], 'fps': 25 + 5 * (clip % 2)}
  return from_mappings(sets, labels, CLASSES, facts)


def made_rows(sets: NeighborSets) -> ArrayRows:
  """Returns frames of one colour each; the frames of a clip have similar ones."""
  generator = np.random.default_rng(0)
  clip = np.array([int(name[4:6]) for name in sets.frames])
  colours = generator.random((CLIPS, 1, 1, 3), np.float32)[clip]
  frame_colours = generator.random((len(clip), 1, 1, 3), np.float32)
  images = np.broadcast_to(0.7 * colours + 0.3 * frame_colours, (len(clip), *SHAPE)).copy()
  columns = to_columns(sets)
  return ArrayRows(images, columns.pop('label'), CLASSES, columns=columns)


def evaluate(folder, study: VideoPmK, labels=('one',), block: int = 16) -> list[Evaluation]:
  """Returns evaluations of tiny networks, whose weights differ between labels."""
  rows = made_rows(made_sets())
  networks = [tiny_classifier(seed, label) for seed, label in enumerate(labels)]
  return [Evaluation(n.name, answered(folder / n.name, study, n, rows, block)) for n in networks]


def answered(folder, study: VideoPmK, network: Classifier, rows: Rows, block: int = 0) -> Records:
  """Writes records of a network on rows."""
  identity = {'classifier': {}, 'data': {}, 'classes': list(network.class_names)}
  return recorded(folder, study, network, rows, layout=(block,), identity=identity)


@pytest.fixture(scope='module')
def evaluations(tmp_path_factory):
  """Returns evaluations of three networks in shards of 16 frames."""
  return evaluate(tmp_path_factory.mktemp('records'), VideoPmK(), ('one', 'two', 'three'))


def right_by_frame(records: Records, sets: NeighborSets) -> dict[str, bool]:
  """Returns for the name of each frame whether the prediction is one of its labels."""
  prediction = records.column('prediction')
  answers = zip(sets.frames, prediction, sets.labels, strict=True)
  return {name: int(p) in {int(v) for v in row if v >= 0} for name, p, row in answers}


@pytest.mark.parametrize('k', [1, 2, 3, 10])
def test_accuracies_equal_counts_by_anchor(evaluations, k):
  sets, study = made_sets(), VideoPmK(k=k)
  evaluation = evaluations[0]
  table = table_of(study, [evaluation])
  right = right_by_frame(evaluation.records, sets)
  anchors_right, sets_right, neighbors_right = 0, 0, 0
  for anchor, members, offsets in zip(sets.anchors, sets.neighbors, sets.offsets, strict=True):
    is_right = right[sets.frames[anchor]]
    near = [right[sets.frames[m]] for m, o in zip(members, offsets, strict=True) if abs(o) <= k]
    anchors_right, sets_right = anchors_right + is_right, sets_right + (is_right and all(near))
    neighbors_right += all(near) if near else is_right
  reached = min(k, SIDE)
  for name, count, facets in (
    ('accuracy_anchor', anchors_right, {}),
    ('accuracy_pm_k', sets_right, {'k': reached}),
    ('accuracy_pm_k_neighbors_only', neighbors_right, {'k': reached}),
    ('drop_pm_k', anchors_right - sets_right, {'k': reached}),
  ):
    row = estimate(table, 'one', name, **facets)
    ends = clopper_pearson(count, CLIPS)
    assert (row.value, row.low, row.high) == pytest.approx((count / CLIPS, *ends)), name
  overall = estimate(table, 'one', 'accuracy_pm_k')
  assert (overall.value, overall.note) == (sets_right / CLIPS, f'k = {reached}')
  assert 0 < sets_right <= anchors_right < CLIPS


def test_a_named_testbed_may_have_sets_without_frames_at_its_distance(evaluations):
  named, plain = (
    table_of(VideoPmK(testbed=name), evaluations[:1]) for name in ('imagenet_vid_robust', '')
  )
  pd.testing.assert_frame_equal(named, plain)


def test_curves_subsets_errors_and_conditional_accuracies_agree_with_the_counts(evaluations):
  table = table_of(VideoPmK(k=3), evaluations[:1])
  anchor = estimate(table, 'one', 'accuracy_anchor')
  assert estimate(table, 'one', 'accuracy_pm_k', k=0).value == anchor.value
  errors = select(table, 'error', offset=...).set_index('offset')
  assert errors.index.tolist() == [-3, -2, -1, 0, 1, 2, 3]
  assert errors.value[0] == pytest.approx(1 - anchor.value)
  classes = select(table, 'accuracy_anchor', **{'class': ...})
  assert classes['class'].tolist() == list(CLASSES)
  assert classes.n.sum() == CLIPS + 3, '3 of the 12 clips have two labels'
  drops = select(table, 'drop_pm_k', k=3, **{'class': ...})
  assert estimate(table, 'one', 'median_drop', k=3).value == np.median(drops.value)
  rates = select(table, 'accuracy_anchor', fps=...)
  assert dict(zip(rates.fps, rates.n, strict=True)) == {25: 6, 30: 6}
  kinds = select(table, 'drop_pm_k', k=3, without_frame_type=...).without_frame_type
  assert kinds.tolist() == ['i', 'p', 'b']
  sets, right = made_sets(), right_by_frame(evaluations[0].records, made_sets())
  names = sets.frames
  pairs = [  # (is the anchor right, is the neighbor right, offset)
    (right[names[sets.anchors[group]]], right[names[frame]], offset)
    for group, frame, offset in zip(*sets.pairs, strict=True)
  ]
  for offset in (-3, 1):
    neighbors = [neighbor for _, neighbor, o in pairs if o == offset]
    row, count = estimate(table, 'one', 'error', offset=offset), len(neighbors)
    assert (row.value, row.n) == (pytest.approx(1 - np.mean(neighbors)), count)
    assert (row.low, row.high) == pytest.approx(clopper_pearson(count - sum(neighbors), count))
    turned = [anchor and not neighbor for anchor, neighbor, o in pairs if o == offset]
    row = estimate(table, 'one', 'turned_wrong', offset=offset)
    assert (row.value, row.n) == (pytest.approx(np.mean(turned)), len(turned))
  at_anchor = estimate(table, 'one', 'turned_wrong', offset=0)
  assert at_anchor.value == at_anchor.low == at_anchor.high == 0, 'a right anchor is not wrong'
  assert at_anchor.n == CLIPS
  for k in (1, 2, 3):
    after_right = [neighbor for anchor, neighbor, o in pairs if anchor and abs(o) == k]
    row = estimate(table, 'one', 'conditional_accuracy', k=k)
    assert row.value == pytest.approx(np.mean(after_right)) and row.low < row.value <= row.high
    assert row.n <= len(after_right), 'both directions of an anchor are one cluster'


def test_frames_that_turn_wrong_are_pooled_over_all_classifiers(evaluations):
  table = table_of(VideoPmK(k=3), evaluations)
  labels = [evaluation.label for evaluation in evaluations]
  for offset in (-3, 1):
    shares = [estimate(table, label, 'turned_wrong', offset=offset).value for label in labels]
    pooled = estimate(table, 'all classifiers', 'turned_wrong', offset=offset)
    assert len(shares) > 1 and pooled.value == pytest.approx(np.mean(shares))
    assert pooled.low <= pooled.value < pooled.high, 'also where no frame turns wrong'


def test_accuracies_can_leave_out_the_anchor(evaluations):
  table = table_of(VideoPmK(k=3, include_anchor=False), evaluations)
  names = ('accuracy_pm_k', 'accuracy_pm_k_neighbors_only')
  worst, neighbors = (estimate(table, 'two', name, k=3) for name in names)
  assert worst[['value', 'low', 'high']].equals(neighbors[['value', 'low', 'high']])
  drop = estimate(table, 'two', 'drop_pm_k', k=3)
  anchor = estimate(table, 'two', 'accuracy_anchor')
  assert drop.value == pytest.approx(anchor.value - worst.value)
  paired = estimate(table, 'two', 'drop_pm_k', 'one', k=3)
  assert -2 <= paired.low <= paired.value <= paired.high <= 2


def test_the_table_does_not_depend_on_the_size_of_blocks(evaluations, tmp_path):
  study = VideoPmK(k=3)
  in_small_blocks = evaluate(tmp_path, study, block=6)
  assert to_csv(table_of(study, evaluations[:1])) == to_csv(table_of(study, in_small_blocks))


def test_several_classifiers_are_compared_on_the_same_sets(evaluations):
  study, sets = VideoPmK(k=3), made_sets()
  findings = study.reduce(evaluations, SHAPE)
  table = assemble(findings.estimates)
  right = [right_by_frame(e.records, sets) for e in evaluations]
  members = zip(sets.anchors, sets.neighbors, strict=True)
  frames = [[sets.frames[f] for f in (anchor, *neighbors)] for anchor, neighbors in members]
  anchors = np.array([[hits[names[0]] for names in frames] for hits in right])
  worst = np.array([[all(hits[name] for name in names) for names in frames] for hits in right])
  for name, facets, hits in (('accuracy_anchor', {}, anchors), ('accuracy_pm_k', {'k': 3}, worst)):
    lost, gained = (hits[0] & ~hits[1]).sum(), (hits[1] & ~hits[0]).sum()
    changed = lost + gained
    row = estimate(table, 'two', name, 'one', **facets)
    p = stats.binomtest(min(lost, gained), changed).pvalue if changed else 1
    assert (row.value, row.p) == pytest.approx(((gained - lost) / CLIPS, p))
    assert (row.low, row.high) == pytest.approx(paired_difference(gained, lost, CLIPS)[1:])
  drops = anchors.astype(int) - worst
  row = estimate(table, 'two', 'drop_pm_k', 'one', k=3)
  larger, smaller = (drops[1] > drops[0]).sum(), (drops[1] < drops[0]).sum()
  assert [row.value, row.low, row.high] == pytest.approx(paired_difference(larger, smaller, CLIPS))
  for label in ('one', 'two', 'three'):
    neighbors = estimate(table, label, 'accuracy_pm_k_neighbors_only', k=3)
    assert estimate(table, label, 'accuracy_static').value >= neighbors.value
  line = stats.linregress(anchors.mean(1), worst.mean(1))
  for name, value in (('fit_slope', line.slope), ('fit_intercept', line.intercept)):
    assert estimate(table, 'all classifiers', name, k=3).value == pytest.approx(value)


@pytest.mark.slow
def test_classifiers_of_compared_runs_with_other_sets_are_refused(tmp_path):
  study, rows, network = VideoPmK(k=2), made_rows(made_sets()), tiny_classifier(0, 'net')
  columns = {**rows.columns, 'offset': -rows.columns['offset']}
  of_rows = {'first': rows, 'second': dataclasses.replace(rows, columns=columns)}
  first, second = (
    Evaluation(label, answered(tmp_path / label, study, network, of_label, 16))
    for label, of_label in of_rows.items()
  )
  refused("'offset' has other values for second than", study.reduce, [first, second], SHAPE)
  assert study.reduce([first], SHAPE).estimates


def test_figures_show_the_table_and_the_failures(evaluations):
  study, rows = VideoPmK(k=3, failures=2), made_rows(made_sets())
  findings = study.reduce(evaluations[:2], SHAPE)
  described = [{'label': evaluation.label} for evaluation in evaluations[:2]]
  results = Results('video_pm_k', described, {}, study.describe(), tables=findings.tables)
  results.arrays = study.sample_arrays(rows, KEY, findings)
  results.table, results.quantities = assemble(findings.estimates), study.quantities
  figures = study.figures(results)
  assert {'failures_one', 'failures_two', 'accuracy_pm_k_k'} <= set(figures)
  assert 'testbed' not in figures, 'published accuracies are of k = 10'
  failures = findings.tables['failures']
  cells = dict(zip(failures.columns, failures.rows[0], strict=True))
  titles = [axes.get_title() for axes in figures['failures_one'][0].axes]
  assert titles[0].startswith(f'→ {cells["anchor predicted"]} '.replace('_', ' '))
  assert any(f'({cells["offset"]})'.replace('-', '−') in title for title in titles)
  del results.arrays['failure_images']  # results that were read without the data lack it
  assert 'failures_one' not in study.figures(results)


def test_the_order_of_classes_does_not_change_the_table(evaluations, tmp_path):
  study, names = VideoPmK(k=3), CLASSES[::-1]
  network = tiny_classifier(0, 'flipped')

  def forward(*arguments):
    logits, outputs = network.forward(*arguments)
    return logits[:, ::-1], {name: values[:, ::-1] for name, values in outputs.items()}

  flipped = dataclasses.replace(network, class_names=names, forward=forward)
  rows = label_space.align(made_rows(made_sets()), names, 'flipped')
  records = answered(tmp_path, study, flipped, rows)
  findings = study.reduce([evaluations[0], Evaluation('flipped', records)], SHAPE)
  table = assemble(findings.estimates)
  table = table[table.versus == ''].set_index('classifier')
  tables = [table.loc[label].reset_index(drop=True) for label in ('one', 'flipped')]
  pd.testing.assert_frame_equal(*tables)


@pytest.mark.slow
def test_failures_are_the_nearest_wrong_neighbors(evaluations):
  sets, study = made_sets(), VideoPmK(k=3, failures=2)
  evaluation = evaluations[0]
  findings = study.reduce([evaluation], SHAPE)
  right = right_by_frame(evaluation.records, sets)
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
  separate = [row for e in evaluations for row in study.reduce([e], SHAPE).tables['failures'].rows]
  assert study.reduce(evaluations, SHAPE).tables['failures'].rows == separate
  images = made_rows(sets).images
  pictures = study.sample_arrays(made_rows(sets), KEY, findings)['failure_images']
  assert pictures.shape == (len(rows), 2, *SHAPE) and 1 <= len(rows) <= 2
  np.testing.assert_array_equal(pictures[0, 1], images[rows[0]['neighbor row']])
  study = dataclasses.replace(study, failures=0)
  assert study.sample_arrays(made_rows(sets), KEY, study.reduce(evaluations, SHAPE)) == {}


def test_distances_are_of_all_pairs_of_reviewed_pairs_and_of_mistakes(evaluations, tmp_path):
  sets, rows = made_sets(), made_rows(made_sets())
  assert list(VideoPmK().row_estimates(rows, evaluations)) == []
  # These records hold no paths: a review names their frames by row.
  members = zip(sets.anchors, sets.neighbors, strict=True)
  first_neighbors = {f'row {a}': [f'row {frame}' for frame in near[:2]] for a, near in members}
  labels = {f'row {n}': [0] for n in range(len(sets.frames))}
  metadata.write(from_mappings(first_neighbors, labels, CLASSES), tmp_path)
  study = VideoPmK(k=3, distances=True, reviewed=str(tmp_path))
  table = assemble(list(study.row_estimates(rows, evaluations[:1])))
  pairs, right = sets.pairs, right_by_frame(evaluations[0].records, sets)
  change = rows.images[sets.anchors][pairs.group] - rows.images[pairs.frame]
  distance = np.abs(change).max((1, 2, 3))
  rms = np.sqrt((change**2).mean((1, 2, 3)))
  reviewed = np.concatenate([np.arange(len(n)) < 2 for n in sets.neighbors])
  is_right = np.array([right[name] for name in sets.frames])
  mistake = is_right[sets.anchors][pairs.group] & ~is_right[pairs.frame]
  for label, name, mask in (
    ('images', 'all pairs', np.ones(len(distance), bool)),
    ('images', 'reviewed pairs', reviewed),
    ('one', 'mistakes', reviewed & mistake),
  ):
    curve = select(table, 'pairs_within', pairs=name, distance=...)
    curve = curve[curve.classifier == label]
    assert (curve.low.diff()[1:] >= 0).all() and (curve.high.diff()[1:] >= 0).all()
    assert tuple(curve.iloc[-1][['low', 'high']]) == (1, 1)
    for limit in (0.1, 0.25, 1):
      row = estimate(table, label, 'pairs_within', pairs=name, distance=limit)
      assert (row.value, row.n) == (pytest.approx((distance[mask] <= limit).mean()), mask.sum())
      assert row.low <= row.value <= row.high
      row = estimate(table, label, 'pairs_within_rms', pairs=name, distance=limit)
      assert row.value == pytest.approx((rms[mask] <= limit).mean())


def test_distances_are_of_frames_as_they_are_stored(evaluations, tmp_path):
  sets, rows = made_sets(), made_rows(made_sets())
  shade = 51 * (np.arange(len(sets.frames)) % 6)  # 51/255 is 0.2, but rounds up in 32 bits
  for row, grey in enumerate(shade.tolist()):  # 9 × 5, which is not the size of the rows
    Image.new('RGB', (9, 5), (grey,) * 3).save(tmp_path / f'row {row}', 'PNG')
  study = VideoPmK(distances=True, frames=str(tmp_path))
  table = assemble(list(study.row_estimates(rows, evaluations[:1])))
  pairs = sets.pairs
  distance = np.abs(shade[sets.anchors[pairs.group]] - shade[pairs.frame]) / 255
  for name in ('pairs_within', 'pairs_within_rms'):
    row = estimate(table, 'images', name, pairs='all pairs', distance=0.2)
    assert row.value == pytest.approx((distance <= 0.2).mean()) and 0 < row.value < 1
  (tmp_path / 'row 3').unlink()
  refused('unreadable image .*row 3', lambda: list(study.row_estimates(rows, evaluations)))


def test_the_sets_of_a_video_are_one_cluster():
  names = ['8Lx004yCltY_10/1.png', '8Lx004yCltY_20/1.png', 'KxDh7a8_AmU_30/1.png', 'other/1.png']
  sets = from_mappings({name: [] for name in names}, dict.fromkeys(names, [0]))
  right = metrics.outcomes(sets, np.array([0, 0, 1, 0]))
  for outcomes, clusters, method in (
    (right, 3, 'korn-graubard'),
    (right.of_anchors(np.array([0, 2, 3])), 3, 'clopper-pearson'),  # one set of each video
  ):
    table = assemble(list(VideoPmK()._accuracies(metrics.SetOutcomes.stacked({'one': outcomes}))))
    row = estimate(table, 'one', 'accuracy_anchor')
    assert (row.n, row.clusters, row.method) == (outcomes.num_anchors, clusters, method)


def test_changes_by_a_review_equal_counts(evaluations, monkeypatch):
  labels = {f'v{v}/{f}.png': [0] for v in range(4) for f in (3, 4, 5)}
  unreviewed = {'v0/3.png': ['v0/4.png'], 'v1/3.png': ['v1/4.png'], 'v2/3.png': []}
  unreviewed['v3/3.png'] = ['v3/4.png', 'v3/5.png']
  reviewed = {'v0/3.png': [], 'v1/3.png': ['v1/4.png'], 'v3/3.png': ['v3/5.png']}
  wrong = {'v0/4.png', 'v2/3.png', 'v3/4.png'}

  def answers(sets: dict) -> Any:
    neighbor_sets = from_mappings(sets, labels)
    prediction = np.array([int(frame in wrong) for frame in neighbor_sets.frames])
    return {'net': FramePredictions(neighbor_sets, prediction, prediction)}

  monkeypatch.setattr(VideoPmK, '_predictions', lambda _, sets: answers(sets))
  # Before the review 3 of 4 anchors and 1 of 4 sets are right; after it all that are left are.
  for sets, changes in (
    (reviewed, {'anchor': 1 - 3 / 4, 'worst': 1 - 1 / 4, 'drop': 0 - 2 / 4}),
    (unreviewed, {'anchor': 0, 'worst': 0, 'drop': 0}),
  ):
    table = assemble(list(VideoPmK().review(unreviewed, sets)))
    for name, change in changes.items():
      row = estimate(table, 'net', f'review_{name}', **({} if name == 'anchor' else {'k': 2}))
      assert row.value == pytest.approx(change) and row.n == 4
      if change:
        assert row.low <= row.value <= row.high
      else:
        assert np.isnan(row.low) and row.note == 'no interval: all resamples are equal'
    assert estimate(table, 'net', 'accuracy_pm_k', k=2, frames='unreviewed').value == 1 / 4
    assert estimate(table, 'net', 'error', offset=1, frames='unreviewed').value == 2 / 3


def test_a_rule_that_merges_scores_is_refused_for_records_without_scores(evaluations):
  study = VideoPmK(merge='sum')
  refused(bad_setting('config.study.merge', 'sum'), study.reduce, evaluations, SHAPE)


def test_differences_from_the_paper_name_the_rule_that_merged_scores(evaluations):
  as_in_paper = evaluations[0].records
  summed = copy.copy(as_in_paper)
  identity = as_in_paper.identity
  summed.identity = {**identity, 'classifier': {**identity['classifier'], 'merge': 'sum'}}
  for records, merge, expected in (
    (as_in_paper, '', []),
    (as_in_paper, 'max', []),
    (as_in_paper, 'mean', ['merge mean']),
    (summed, '', ['merge sum']),
    (summed, 'max', []),
  ):
    title, *differing = VideoPmK(merge=merge).differences(records, SHAPE)
    assert title.startswith('neighbor sets') and differing == expected
