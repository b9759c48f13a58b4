"""pm-k from records against counts row by row; the settings; what is examined afterwards."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, Rows
from robustness.estimates.table import assemble, select
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Evaluation, Findings
from robustness.labels import label_space
from robustness.models.classifier import Classifier
from robustness.neighbor_sets.columns import to_columns
from robustness.neighbor_sets.metadata import NeighborSets, from_mappings
from robustness.parallel.mesh import MeshParallel
from robustness.results import Results
from robustness.studies.video_pm_k import Study
from tests.networks import CLASSES, SHAPE, tiny_classifier
from tests.table_rows import assert_same, assert_same_arrays, estimate

CLIPS, SIDE = 12, 3


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
  folder: pathlib.Path, study: Study, labels: tuple[str, ...] = ('one',), block: int = 16
) -> list[Evaluation]:
  rows = made_rows(made_sets())
  return [
    Evaluation(label, recorded(folder / label, study, tiny_classifier(seed, label), rows, block))
    for seed, label in enumerate(labels)
  ]


def recorded(
  folder: pathlib.Path, study: Study, network: Classifier, rows: Rows, block: int = 0
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
  return evaluate(tmp_path_factory.mktemp('records'), Study(), ('one', 'two', 'three'))


def right_by_frame(records: Records, sets: NeighborSets) -> dict[str, bool]:
  prediction = records.column('prediction')
  return {
    name: int(p) in {int(v) for v in row if v >= 0}
    for name, p, row in zip(sets.frames, prediction, sets.labels, strict=True)
  }


@pytest.mark.parametrize('k', [1, 2, 3, 10])
def test_accuracies_are_those_counted_row_by_row(evaluations: list[Evaluation], k: int) -> None:
  sets, study = made_sets(), Study(k=k)
  only = evaluations[0]
  numbers = study.reduce([only], SHAPE).numbers
  right = right_by_frame(only.records, sets)
  anchors, whole, neighbors = 0, 0, 0
  for anchor, members, offsets in zip(sets.anchors, sets.neighbors, sets.offsets, strict=True):
    hit = right[sets.frames[anchor]]
    near = [right[sets.frames[m]] for m, o in zip(members, offsets, strict=True) if abs(o) <= k]
    anchors, whole = anchors + hit, whole + (hit and all(near))
    neighbors += all(near) if near else hit
  reached = min(k, SIDE)
  assert numbers['accuracy_anchor'].value == anchors / CLIPS
  assert numbers[f'accuracy_pm_{reached}'].value == whole / CLIPS
  assert numbers[f'accuracy_pm_{reached}_neighbors_only'].value == neighbors / CLIPS
  assert numbers[f'drop_pm_{reached}'].value == pytest.approx((anchors - whole) / CLIPS, abs=1e-12)
  assert 0 < whole <= anchors < CLIPS


def test_curves_and_tables_agree_with_the_numbers(evaluations: list[Evaluation]) -> None:
  study = Study(k=3)
  findings = study.reduce(evaluations[:1], SHAPE)
  assert findings.arrays['pm_k'][0] == findings.numbers['accuracy_anchor'].value
  assert findings.arrays['pm_k'][3] == findings.numbers['accuracy_pm_3'].value
  assert findings.arrays['offset'].tolist() == [-3, -2, -1, 0, 1, 2, 3]
  assert findings.arrays['offset_error'][3] == pytest.approx(1 - findings.arrays['pm_k'][0])
  assert [row[0] for row in findings.tables['by_class'].rows] == list(CLASSES)
  assert sum(row[1] for row in findings.tables['by_class'].rows) == CLIPS + 3, 'three of two labels'
  assert {row[0]: row[1] for row in findings.tables['by_fps'].rows} == {'25': 6, '30': 6}
  assert [row[0] for row in findings.tables['by_frame_type'].rows] == [
    'without i',
    'without p',
    'without b',
  ]


def test_the_cut_into_blocks_changes_nothing(
  evaluations: list[Evaluation], tmp_path: pathlib.Path
) -> None:
  study = Study(k=3)
  own, other = (
    study.reduce(several, SHAPE)
    for several in (evaluations[:1], evaluate(tmp_path, study, block=6))
  )
  assert own.numbers == other.numbers and own.tables['by_class'] == other.tables['by_class']


def test_neighbors_only_is_a_setting(evaluations: list[Evaluation]) -> None:
  study = Study(k=3, include_anchor=False)
  numbers = study.reduce(evaluations[:1], SHAPE).numbers
  assert numbers['accuracy_pm_3'] == numbers['accuracy_pm_3_neighbors_only']


def test_several_classifiers_share_a_static_set(evaluations: list[Evaluation]) -> None:
  study = Study(k=3)
  findings = study.reduce(evaluations, SHAPE)
  for label in ('one', 'two', 'three'):
    static = findings.numbers[f'{label}/accuracy_static'].value
    assert static >= findings.numbers[f'{label}/accuracy_pm_3_neighbors_only'].value
  assert [row[:3] for row in findings.tables['comparison'].rows] == [
    ['one', 'two', 'anchor'],
    ['one', 'two', 'pm-3'],
    ['one', 'three', 'anchor'],
    ['one', 'three', 'pm-3'],
  ]
  difference = (
    findings.numbers['two/accuracy_anchor'].value - findings.numbers['one/accuracy_anchor'].value
  )
  assert findings.tables['comparison'].rows[0][5] == pytest.approx(difference)
  drops = [findings.numbers[f'{label}/drop_pm_3'].value for label in ('one', 'two')]
  paired = findings.numbers['two/drop_difference_pm_3']
  assert paired.value == pytest.approx(drops[1] - drops[0])
  results = Results(
    'video_pm_k',
    [{'label': n} for n in ('one', 'two', 'three')],
    {},
    {'k': 3, 'include_anchor': True, 'testbed': '', 'confidence': 0.95},
    findings.numbers,
    findings.tables,
    findings.arrays,
  )
  drawn = {'pm_k', 'offset_error', 'conditional', 'by_class', 'static'}
  assert set(study.figures(results)) == drawn
  results.arrays['failure_images'] = np.zeros((1, 2, *SHAPE))  # of one alone, as `compare` keeps it
  assert set(study.figures(results)) == drawn


def test_classifiers_with_their_classes_in_another_order_are_counted_alike(
  evaluations: list[Evaluation], tmp_path: pathlib.Path
) -> None:
  study, names = Study(k=3), CLASSES[::-1]
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
  for name in ('accuracy_anchor', 'accuracy_pm_3'):
    assert findings.numbers[f'flipped/{name}'] == findings.numbers[f'one/{name}']
  classes = {row[0]: row[1:] for row in findings.tables['one/by_class'].rows}
  assert {row[0]: row[1:] for row in findings.tables['flipped/by_class'].rows} == classes


def test_failures_are_the_nearest_wrong_neighbors(evaluations: list[Evaluation]) -> None:
  sets, study = made_sets(), Study(k=3, failures=2, distances=True)
  only = evaluations[0]
  findings = study.reduce([only], SHAPE)
  right = right_by_frame(only.records, sets)
  rows = findings.tables['failures'].rows
  columns = findings.tables['failures'].columns
  assert len({column.strip() for column in columns}) == len(columns)
  for (anchor, neighbor), row in zip(findings.arrays['failure_rows'].tolist(), rows, strict=True):
    assert right[sets.frames[anchor]] and not right[sets.frames[neighbor]]
    near = [
      right[f'{sets.frames[anchor][:7]}{10 + o}.png']
      for o in range(-SIDE, SIDE + 1)
      if 0 < abs(o) < abs(row[2]) and f'{sets.frames[anchor][:7]}{10 + o}.png' in right
    ]
    assert all(near)
  share = [row[-2] / row[-1] for row in rows]
  assert share == sorted(share, reverse=True) and all(0 < s <= 1 for s in share)
  clips = [sets.frames[anchor][:7] for anchor in findings.arrays['failure_rows'][:, 0]]
  names = [[f'{clip}{10 + o}.png' for o in range(-3, 4) if o] for clip in clips]
  wrong = [sum(not right.get(name, True) for name in near) for near in names]
  assert [row[-2] for row in rows] == wrong
  examined = study.finding_arrays(made_rows(sets), findings)
  assert examined['failure_images'].shape == (len(rows), 2, *SHAPE) and 1 <= len(rows) <= 2
  images = made_rows(sets).images
  pairs = sets.pairs
  expected = np.abs(images[sets.anchors][pairs.group] - images[pairs.frame]).max((1, 2, 3))
  np.testing.assert_allclose(examined['distance'], expected, rtol=1e-6)


def test_each_of_several_classifiers_has_its_failures(evaluations: list[Evaluation]) -> None:
  study = Study(k=3, failures=2)
  findings = study.reduce(evaluations, SHAPE)
  alone = study.reduce([evaluations[1]], SHAPE)
  label = evaluations[1].label
  assert findings.tables[f'{label}/failures'].rows == alone.tables['failures'].rows
  examined = study.finding_arrays(made_rows(made_sets()), findings)
  for prefix in (f'{e.label}/' for e in evaluations):
    count = len(findings.tables[f'{prefix}failures'].rows)
    assert (f'{prefix}failure_images' in examined) == (count > 0)


def test_without_failures_there_are_no_pictures() -> None:
  empty = Findings(arrays={'failure_rows': np.zeros((0, 2), int)})
  assert Study().finding_arrays(made_rows(made_sets()), empty) == {}


@pytest.mark.parametrize(
  ('change', 'key'),
  [
    ({'k': 0}, 'k'),
    ({'failures': -1}, 'failures'),
    ({'confidence': 1.0}, 'confidence'),
    ({'label_rule': 'frames'}, 'label_rule'),
    ({'merge': 'mix'}, 'merge'),
    ({'testbed': 'vid'}, 'testbed'),
    ({'subsets': ('fsp',)}, 'subsets'),
  ],
)
def test_bad_settings_are_refused(change: dict, key: str) -> None:
  with pytest.raises(InputError, match=f'config.study.{key}'):
    Study(**change)


def test_a_merge_rule_needs_scores_to_merge(evaluations: list[Evaluation]) -> None:
  with pytest.raises(InputError, match="config.study.merge is 'sum'.*leave it ''"):
    Study(merge='sum').reduce(evaluations, SHAPE)


@pytest.mark.parametrize('include_anchor', [True, False])
def test_the_table_has_every_number_and_curve(
  evaluations: list[Evaluation], include_anchor: bool
) -> None:
  study = Study(k=3, include_anchor=include_anchor)
  findings = study.reduce(evaluations, SHAPE)
  results = assemble(findings.estimates)
  labels = [evaluation.label for evaluation in evaluations]
  ends = ('', '_low', '_high')
  for label in labels:
    for quantity, name, facets in (
      ('accuracy_anchor', 'accuracy_anchor', {}),
      ('accuracy_pm_k', 'accuracy_pm_3', {'k': 3}),
      ('accuracy_pm_k_neighbors_only', 'accuracy_pm_3_neighbors_only', {'k': 3}),
      ('accuracy_static', 'accuracy_static', {}),
      *([('drop_pm_k', 'drop_pm_3', {'k': 3})] if include_anchor else []),
    ):
      row = estimate(results, label, quantity, **facets)
      assert_same(row, findings.numbers[f'{label}/{name}'])
    for quantity, name, facet in (
      ('accuracy_pm_k', 'pm_k', 'k'),
      ('accuracy_pm_k_neighbors_only', 'pm_k_neighbors_only', 'k'),
      ('error', 'offset_error', 'offset'),
      ('conditional_accuracy', 'conditional', 'k'),
    ):
      rows = select(results, quantity, **{facet: ...})
      rows = rows[rows.classifier == label].sort_values(facet)
      assert_same_arrays(rows, *(findings.arrays[f'{label}/{name}{end}'] for end in ends))
  first, second = labels[:2]
  comparison = findings.tables['comparison'].rows
  for (_, _, frames, _, _, value, low, high, p), quantity, facets in zip(
    comparison, ('accuracy_anchor', 'accuracy_pm_k'), ({}, {'k': 3}), strict=False
  ):
    row = estimate(results, second, quantity, first, **facets)
    assert (row.value, row.low, row.high, row.p) == pytest.approx((value, low, high, p)), frames
  difference = findings.numbers[f'{second}/drop_difference_pm_3']
  row = estimate(results, second, 'drop_pm_k', first, k=3)
  assert row.value == pytest.approx(difference.value)
  if include_anchor:
    assert_same(row, difference)
  table = findings.tables[f'{second}/by_class']
  for name, n, value, low, high, *_ in table.rows:
    row = estimate(results, second, 'accuracy_anchor', **{'class': name})
    assert (row.n, row.value, row.low, row.high) == pytest.approx((n, value, low, high))
