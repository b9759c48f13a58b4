"""The study `si_score`: its settings, and its numbers against plain NumPy on made records."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.estimates.table import assemble, select
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.metrics.scene_predictions import KEYS
from robustness.results import Results
from robustness.scenes import designs
from robustness.scenes.geometry import fraction_inside
from robustness.studies.si_score import Study
from tests.table_rows import assert_same, assert_same_arrays, estimate

PAIRS, SIDE = 12, 100
SMALL = Study(factor='cross', areas=(0.2, 0.5, 1.0), angles=(0.0, 30.0, 200.0))
PLACES = Study(factor='cross', areas=(0.2,), xs=(0.15, 0.5, 0.85), ys=(0.0, 0.6), min_inside=0.39)


def made_records(path: pathlib.Path, study: Study, label: str = 'one', seed: int = 0) -> Evaluation:
  """Answers at random, two backgrounds an object, objects of several shapes."""
  count = len(study.design)
  records = Records(path / label, Layout(PAIRS, count, 5, 4), {'label': label})
  rank = np.random.default_rng(seed).integers(0, 2, (PAIRS, count)).astype(np.int32)
  objects = np.arange(PAIRS) // 2
  columns = {
    'object': objects,
    'background': np.arange(PAIRS) % 5,
    'imagenet_class': np.array([105, 931, 951])[objects % 3],
    'foreground_size': np.stack([20 + 0 * objects, 20 + 4 * objects], 1),
  }
  for block in range(records.layout.num_blocks):
    for chunk in range(records.layout.num_chunks):
      rows, views = records.layout.rows(block), records.layout.views(chunk)
      records.write(
        block,
        chunk,
        {
          'rank': rank[rows, views],
          **{name: values[rows].astype(np.int32) for name, values in columns.items()},
        },
      )
  return Evaluation(label, records)


def answers(evaluation: Evaluation, study: Study) -> tuple[np.ndarray, np.ndarray]:
  """Right answers and scenes that count, [P, L], computed level by level."""
  records, design = evaluation.records, study.design
  right = np.stack([records.column('rank', v) == 0 for v in range(len(design))], 1)
  size = records.column('foreground_size')
  share = np.array(
    [
      [
        fraction_inside(s, design.area[i], design.angle[i], design.x[i], design.y[i], SIDE)
        for i in range(len(design))
      ]
      for s in size[::2]
    ]
  )
  return right, np.repeat(share, 2, axis=0) >= design.min_inside - 1e-6


def reduced(study: Study, evaluations: list[Evaluation]) -> Findings:
  return study.reduce(evaluations, (SIDE, SIDE, 3))


def test_accuracy_and_n_by_level_and_factor(tmp_path: pathlib.Path) -> None:
  evaluation = made_records(tmp_path, SMALL)
  right, shown = answers(evaluation, SMALL)
  assert 0 < shown.mean() < 1
  findings = reduced(SMALL, [evaluation])
  arrays = findings.arrays
  np.testing.assert_array_equal(arrays['n'], shown.sum(0))
  with np.errstate(invalid='ignore'):
    np.testing.assert_allclose(arrays['accuracy'], (right & shown).sum(0) / shown.sum(0))
  for factor, value, values in (
    ('size', 'area', (0.2, 0.5, 1.0)),
    ('rotation', 'angle', (-160.0, 0.0, 30.0)),
  ):
    np.testing.assert_allclose(arrays[f'{factor}/value'], values)
    for index, one in enumerate(values):
      part = np.isclose(arrays[value] % 360, one % 360)
      assert arrays[f'{factor}/n'][index] == shown[:, part].sum()
      expected = (right & shown)[:, part].sum() / max(1, shown[:, part].sum())
      assert np.nan_to_num(arrays[f'{factor}/accuracy'][index]) == pytest.approx(expected)
  assert np.nanmax(arrays['rotation/normalised']) == 1
  assert 'location/n' not in arrays
  assert findings.numbers['accuracy'].n == shown.sum()
  assert findings.numbers['accuracy'].value == pytest.approx((right & shown).sum() / shown.sum())


def test_the_balanced_mix_is_the_same_at_every_angle(tmp_path: pathlib.Path) -> None:
  evaluation = made_records(tmp_path, SMALL)
  right, shown = answers(evaluation, SMALL)
  arrays = reduced(SMALL, [evaluation]).arrays
  for area in (0.2, 0.5, 1.0):
    part = arrays['area'] == area
    kept = shown[:, part].all(1)
    np.testing.assert_array_equal(arrays['balanced_n'][part], kept.sum())
    if kept.any():
      np.testing.assert_allclose(arrays['balanced_accuracy'][part], right[kept][:, part].mean(0))


def test_the_balanced_curve_pools_the_same_pairs_and_sizes_at_every_angle(
  tmp_path: pathlib.Path,
) -> None:
  """At 80 and 100 % few angles have a scene: those would hold larger objects than the others."""
  study = Study(factor='rotation')
  evaluation = made_records(tmp_path, study)
  _, shown = answers(evaluation, study)
  large = study.design.area >= 0.8
  assert len(set(shown[:, large].sum(0))) > 1, 'the case is not seen'
  counts = reduced(study, [evaluation]).arrays['rotation/balanced_n']
  assert len(set(counts.tolist())) == 1 and counts[0] > 0


def test_a_balanced_map_leaves_out_places_of_few_pairs(tmp_path: pathlib.Path) -> None:
  evaluation = made_records(tmp_path, PLACES)
  _, shown = answers(evaluation, PLACES)
  for share in (0.0, 0.9, 1.0, -1.0):
    arrays = reduced(dataclasses.replace(PLACES, balanced_share=share), [evaluation]).arrays
    levels = shown.any(0) & (shown.mean(0) >= (0.9 if share < 0 else share))
    kept = shown[:, levels].all(1).sum()
    np.testing.assert_array_equal(arrays['balanced_n'], np.where(levels, kept, 0))


def test_maps_have_rows_for_y_and_columns_for_x(tmp_path: pathlib.Path) -> None:
  arrays = reduced(PLACES, [made_records(tmp_path, PLACES)]).arrays
  np.testing.assert_allclose(arrays['location/x'], [0.15, 0.5, 0.85])
  np.testing.assert_allclose(arrays['location/y'], [0, 0.6])
  for level in range(6):
    row, column = int(arrays['y'][level] > 0), [0.15, 0.5, 0.85].index(arrays['x'][level])
    assert arrays['location/n'][row, column] == arrays['n'][level]
    np.testing.assert_equal(arrays['location/accuracy'][row, column], arrays['accuracy'][level])
  assert np.nanmax(arrays['location/normalised']) == 1


def test_classes_and_differences(tmp_path: pathlib.Path) -> None:
  evaluations = [
    made_records(tmp_path, PLACES, label, seed) for seed, label in enumerate(('one', 'two'))
  ]
  findings = reduced(PLACES, evaluations)
  table = findings.tables['two/classes']
  assert [row[:2] for row in table.rows] == [['koala', 2], ['bagel', 2], ['lemon', 2]]
  assert sum(row[2] for row in table.rows) == findings.numbers['two/accuracy'].n
  expected = findings.arrays['two/accuracy'] - findings.arrays['one/accuracy']
  np.testing.assert_allclose(findings.arrays['two/difference'], expected)
  rows = {row[0]: row[1] for row in findings.tables['two/comparison'].rows}
  assert rows == {'level': np.isfinite(expected).sum(), 'location': np.isfinite(expected).sum()}
  by_place = findings.arrays['two/location/difference']
  np.testing.assert_allclose(
    by_place, findings.arrays['two/location/accuracy'] - findings.arrays['one/location/accuracy']
  )
  low, high = (findings.arrays[f'two/location/difference_{end}'] for end in ('low', 'high'))
  assert by_place.shape == (2, 3) and (low <= by_place).all() and (by_place <= high).all()


def test_stored_scenes_give_the_same_numbers(tmp_path: pathlib.Path) -> None:
  composed = made_records(tmp_path, PLACES)
  right, shown = answers(composed, PLACES)
  columns = {
    name: composed.records.column(name) for name in ('object', 'background', 'imagenet_class')
  }
  pair, level = np.nonzero(shown)
  order = np.random.default_rng(0).permutation(len(pair))
  pair, level = pair[order], level[order]
  stored = Records(tmp_path / 'stored', Layout(len(pair), 1, 7, 1), {})
  rows = {
    'rank': np.where(right[pair, level], 0, 3)[:, None],
    'object': columns['object'][pair],
    'background': columns['background'][pair],
    'label': columns['imagenet_class'][pair],
    'fraction_inside': np.ones(len(pair)),
    **{k: getattr(PLACES.design, k)[level] for k in ('x', 'y', 'area', 'angle')},
  }
  for block in range(stored.layout.num_blocks):
    part = stored.layout.rows(block)
    stored.write(
      block,
      0,
      {k: v[part].astype(np.float32 if v.dtype.kind == 'f' else np.int32) for k, v in rows.items()},
    )
  study = Study(factor='location', stored=True)
  assert len(study.views((224, 224, 3))) == 1
  findings = study.reduce([Evaluation('one', stored)], (224, 224, 3))
  expected = reduced(PLACES, [composed])
  for name in ('n', 'accuracy', 'location/accuracy', 'accuracy_low', 'balanced_n'):
    np.testing.assert_allclose(
      findings.arrays[name], expected.arrays[name], atol=1e-7, err_msg=name
    )
  assert findings.tables['classes'].rows == expected.tables['classes'].rows


def test_figures_need_the_results_alone(tmp_path: pathlib.Path) -> None:
  labels = ('one', 'two')
  described = [{'label': label} for label in labels]
  for study, names in (
    (SMALL, {'size', 'rotation', 'size_difference', 'rotation_difference'}),
    (PLACES, {'location', 'location_difference'}),
    (dataclasses.replace(PLACES, xs=PLACES.xs[:1]), {'location', 'location_difference'}),
  ):
    folder = tmp_path / '-'.join(sorted(names)) / str(len(study.xs))
    findings = reduced(study, [made_records(folder, study, k, i) for i, k in enumerate(labels)])
    results = Results(
      'si_score',
      described,
      {},
      {'false_discovery_rate': 0.05},
      findings.numbers,
      findings.tables,
      findings.arrays,
    )
    results.write(folder / 'results')
    figures = study.figures(Results.read(folder / 'results'))
    assert set(figures) == names
    for figure, caption in figures.values():
      figure.canvas.draw()
      assert caption.endswith('.')
    for name in names & {'size', 'rotation'}:
      entries = [text.get_text() for text in figures[name][0].legends[0].get_texts()]
      assert entries == ['one', 'two', 'balanced']


def test_designs_follow_the_settings() -> None:
  assert len(Study().design) == 100 and Study().canvas == 512
  assert len(Study(factor='location').design) == 441 and Study(factor='location').canvas == 500
  assert Study(factor='location').design.min_inside == 0.5
  assert len(Study(factor='grid').design) == 56**2
  assert Study(factor='grid', cells=4, ends=True).design.x.max() == 1
  assert Study(factor='rotation', min_inside=0.7).design.min_inside == 0.7
  views = Study(factor='rotation').views((64, 64, 3))
  assert len(views) == 72 and views.image_shape == (64, 64, 3) and len(set(views.ids)) == 72


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'factor': 'sizes'}, "did you mean 'size'"),
    ({'factor': 'cross', 'areas': (0.0,)}, 'above 0'),
    ({'factor': 'cross', 'xs': (2.0, 3.0)}, 'reaches into the image'),
    ({'balanced_share': 2.0}, r'balanced_share is 2.0; it must be in \[0, 1\]'),
    ({'min_inside': 1.5}, r'min_inside is 1.5; it must be in \[0, 1\]'),
    ({'measure': 'box'}, "'rectangle'"),
    ({'areas': (0.2, 0.2)}, r'areas is \(0.2, 0.2\); it must be distinct'),
    ({'xs': ()}, r'xs is \(\); it must be distinct'),
    ({'cells': 0, 'factor': 'grid'}, 'cells is 0'),
  ],
)
def test_bad_settings_are_refused(change: dict[str, object], message: str) -> None:
  with pytest.raises(InputError, match=message):
    Study(**change)  # type: ignore[arg-type]


def test_levels_without_any_scene_are_refused(tmp_path: pathlib.Path) -> None:
  study = Study(factor='cross', areas=(0.2,), xs=(0.0,), min_inside=0.9)
  with pytest.raises(InputError, match='no scene has 0.9 of its object inside'):
    reduced(study, [made_records(tmp_path, study)])


def test_backgrounds_must_be_square() -> None:
  with pytest.raises(InputError, match='square and in colour'):
    Study().views((32, 40, 3))
  assert designs.published('size').side == Study().canvas


@pytest.mark.parametrize('study', [SMALL, PLACES, Study(factor='rotation')])
def test_the_table_has_every_number_and_array(tmp_path: pathlib.Path, study: Study) -> None:
  evaluations = [
    made_records(tmp_path, study, label, seed) for seed, label in enumerate(('first', 'second'))
  ]
  findings = reduced(study, evaluations)
  results, arrays = assemble(findings.estimates), findings.arrays
  ends = ('', '_low', '_high')
  factors = [factor for factor in KEYS if f'{factor}/n' in arrays]
  levels = {key: ... for factor in factors for key in KEYS[factor]}
  for label in ('first', 'second'):
    own = select(results, 'accuracy', **levels)
    own = own[own.classifier == label]
    assert_same_arrays(own, *(arrays[f'{label}/accuracy{end}'] for end in ends))
    assert_same(estimate(results, label, 'accuracy'), findings.numbers[f'{label}/accuracy'])
    if f'{label}/gap' in findings.numbers:
      gap, row = findings.numbers[f'{label}/gap'], estimate(results, label, 'gap')
      assert (row.value, row.low, row.high) == pytest.approx((gap.value, gap.low, gap.high))
      assert row.clusters == gap.n
      balanced = findings.numbers[f'{label}/balanced_accuracy']
      assert_same(estimate(results, label, 'balanced_accuracy'), balanced)
    for name, _, *expected in findings.tables[f'{label}/classes'].rows:
      row = estimate(results, label, 'accuracy', **{'class': name})
      assert [row.n, row.value, row.low, row.high] == pytest.approx(expected, abs=1e-9)
  for factor in factors:
    keys = dict.fromkeys(KEYS[factor], ...)
    for quantity, name in (('accuracy', 'accuracy'), ('balanced_accuracy', 'balanced')):
      rows = select(results, quantity, **keys).sort_values([*KEYS[factor], 'classifier'])
      for label in ('first', 'second'):
        expected = arrays[f'{label}/{factor}/{name}']
        known = rows[rows.classifier == label].value
        np.testing.assert_allclose(known, expected.ravel(), atol=1e-9)
    pairs = select(results, 'accuracy', 'first', **keys).sort_values(list(KEYS[factor]))
    expected = [arrays[f'second/{factor}/difference{end}'] for end in (*ends, '_p')]
    assert_same_arrays(pairs, *expected)
    normalised = select(results, 'normalised_accuracy', 'first', **keys)
    values = arrays[f'second/{factor}/normalised_difference']
    known = normalised.sort_values(list(KEYS[factor])).value
    np.testing.assert_allclose(known, values.ravel(), atol=1e-9)
