"""The study `corruption_error`: views, and its numbers against plain numpy on made records."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from robustness import corruptions
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.corruptions.options import CorruptionOptions
from robustness.estimates.table import assemble, select
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.metrics.failure_point import failure_point
from robustness.metrics.published import ALEXNET_ERRORS, CIFAR10_STANDARD_ERRORS
from robustness.studies.corruption_error import Study
from tests.table_rows import assert_same, assert_same_arrays, estimate

SHAPE, ROWS = (32, 32, 3), 60
SMALL = Study(
  corruptions=('contrast', 'brightness', 'gaussian_noise'),
  severities=(1, 3),
  false_discovery_rate=0.2,
)


def made_records(
  path: pathlib.Path, study: Study, label: str, seed: int, shape: tuple[int, int, int] = SHAPE
) -> Evaluation:
  """Records whose error grows with severity."""
  views = study.views(shape)
  generator = np.random.default_rng(seed)
  chance = 0.1 + 0.1 * views.parameters['severity'] + 0.05 * seed
  rank = (generator.random((ROWS, len(views))) < chance) * generator.integers(1, 9, (ROWS, 1))
  records = Records(path / label, Layout(ROWS, len(views), 16, 3), {'label': label})
  for block in range(records.layout.num_blocks):
    for chunk in range(records.layout.num_chunks):
      rows, columns = records.layout.rows(block), records.layout.views(chunk)
      records.write(block, chunk, {'rank': rank[rows, columns].astype(np.int32)})
  return Evaluation(label, records)


def ranks(evaluation: Evaluation) -> np.ndarray:
  layout = evaluation.records.layout
  return np.stack([evaluation.records.column('rank', v) for v in range(layout.num_views)], 1)


def test_names_follow_the_official_order_and_sets_are_spelt_out():
  assert SMALL.names == ('gaussian_noise', 'brightness', 'contrast')
  assert len(Study().names) == 15
  assert len(Study(corruptions=('official', 'extra')).names) == 19


def test_views_are_the_corruptions_with_ids_that_do_not_depend_on_the_set():
  views, whole = SMALL.views(SHAPE), Study(corruptions=('all',)).views(SHAPE)
  assert len(views) == 1 + 3 * 2
  assert set(views.ids) <= set(whole.ids)
  assert len(set(whole.ids)) == 1 + 19 * 5
  image = np.random.default_rng(0).random(SHAPE, np.float32)
  key = random_keys.for_example(random_keys.stream(0, 'corruption_error'), 5, views.ids[2])
  shown = [
    views.show(key, {'image': image}, {k: v[i] for k, v in views.parameters.items()})
    for i in (0, 2)
  ]
  np.testing.assert_array_equal(shown[0], image)
  expected = corruptions.corrupt(key, image, 'gaussian_noise', 3)
  np.testing.assert_allclose(shown[1], expected, atol=1e-6)


def test_severities_between_the_five_have_views_of_their_own():
  study = dataclasses.replace(SMALL, between=(1.5, 2.25))
  views, plain = study.views(SHAPE), SMALL.views(SHAPE)
  assert study.levels == (1, 1.5, 2.25, 3) and len(views) == 1 + 3 * 4
  assert views.parameters['severity'][1:5].tolist() == [1, 6, 7, 3]
  assert views.ids[[0, 1, 4, 5, 8]].tolist() == plain.ids[:5].tolist()
  assert len(set(views.ids)) == len(views)
  one = dataclasses.replace(SMALL, between=(2.25,)).views(SHAPE)
  assert one.ids[2] == views.ids[3]
  row, key = {'image': np.full(SHAPE, 0.4, np.float32)}, jax.random.key(0)
  shown = views.show(key, row, {k: v[7] for k, v in views.parameters.items()})
  np.testing.assert_allclose(shown, corruptions.corrupt(key, row['image'], 'brightness', 2.25))
  assert SMALL.recording != study.recording


def test_failure_points_are_found_and_means_are_over_the_severities(tmp_path: pathlib.Path):
  study = dataclasses.replace(SMALL, between=(1.5, 2.25), failure_share=0.9)
  evaluation = made_records(tmp_path, study, 'only', 0)
  findings = study.reduce([evaluation], SHAPE)
  wrong = ranks(evaluation) > 0
  error = wrong[:, 1:].mean(0).reshape(3, 4)
  np.testing.assert_allclose(findings.arrays['error'], error)
  assert findings.arrays['severity'].tolist() == [1, 1.5, 2.25, 3]
  mean = findings.numbers['mean_error/shown'].value
  assert mean == pytest.approx(error[:, [0, 3]].mean())
  for index, name in enumerate(study.names):
    expected = failure_point(
      ~wrong[:, 1 + 4 * index : 5 + 4 * index], ~wrong[:, 0], study.levels, 0.9
    )
    assert findings.numbers[f'failure_severity/{name}'] == expected
    assert 1 <= expected.value <= 3


def test_errors_means_and_mce_against_plain_numpy(tmp_path: pathlib.Path):
  evaluations = [
    made_records(tmp_path, SMALL, label, seed) for seed, label in enumerate(('first', 'second'))
  ]
  findings = SMALL.reduce(evaluations, SHAPE)
  wrong = [ranks(e) > 0 for e in evaluations]
  error = [w[:, 1:].mean(0).reshape(3, 2) for w in wrong]
  for index, label in enumerate(('first', 'second')):
    np.testing.assert_allclose(findings.arrays[f'{label}/error'], error[index])
    top5 = (ranks(evaluations[index]) >= 5)[:, 1:].mean(0).reshape(3, 2)
    np.testing.assert_allclose(findings.arrays[f'{label}/top5_error'], top5)
    assert findings.numbers[f'{label}/clean_error'].value == wrong[index][:, 0].mean()
    mean = findings.numbers[f'{label}/mean_error/shown']
    assert mean.value == pytest.approx(error[index].mean())
    assert mean.low < mean.value < mean.high
  ratio = (error[1].sum(1) / error[0].sum(1)).mean()
  clean = [w[:, 0].mean() for w in wrong]
  relative = ((error[1].mean(1) - clean[1]) / (error[0].mean(1) - clean[0])).mean()
  mce = findings.numbers['second/mCE/shown']
  assert mce.value == pytest.approx(ratio)
  assert mce.low < ratio < mce.high
  assert findings.numbers['second/relative_mCE/shown'].value == pytest.approx(relative)
  assert findings.numbers['first/mCE/shown'].low == pytest.approx(1)


def test_differences_are_tested_in_pairs(tmp_path: pathlib.Path):
  evaluations = [
    made_records(tmp_path, SMALL, label, seed) for seed, label in ((0, 'first'), (4, 'second'))
  ]
  findings = SMALL.reduce(evaluations, SHAPE)
  right = [ranks(e) == 0 for e in evaluations]
  b, c = (right[0] & ~right[1]).sum(0)[1:], (~right[0] & right[1]).sum(0)[1:]
  p = np.array(
    [
      stats.binomtest(int(x), int(x + y)).pvalue if x + y else 1.0
      for x, y in zip(b, c, strict=True)
    ]
  )
  np.testing.assert_allclose(findings.arrays['second/difference_p'].ravel(), p)
  significant = stats.false_discovery_control(p) <= SMALL.false_discovery_rate
  assert significant.any()
  np.testing.assert_array_equal(
    findings.arrays['second/difference_significant'].ravel(), significant
  )
  np.testing.assert_allclose(findings.arrays['second/difference'].ravel(), (b - c) / ROWS)


def test_the_published_baseline_divides_by_alexnet(tmp_path: pathlib.Path):
  study = Study(baseline='alexnet')
  evaluation = made_records(tmp_path, study, 'only', 1, (224, 224, 3))
  findings = study.reduce([evaluation], (224, 224, 3))
  error = (ranks(evaluation) > 0)[:, 1:].mean(0).reshape(15, 5).mean(1)
  expected = (error / np.array(list(ALEXNET_ERRORS.values()))).mean()
  assert findings.numbers['mCE/official'].value == pytest.approx(expected)


def test_alexnet_serves_its_15_where_more_corruptions_were_shown(tmp_path: pathlib.Path):
  study, shape = Study(corruptions=('all',), baseline='alexnet'), (224, 224, 3)
  evaluations = [made_records(tmp_path, study, label, s, shape) for s, label in enumerate('ab')]
  findings = study.reduce(evaluations, shape)
  error = (ranks(evaluations[0]) > 0)[:, 1:76].mean(0).reshape(15, 5).mean(1)
  expected = (error / np.array(list(ALEXNET_ERRORS.values()))).mean()
  assert findings.numbers['a/mCE/official'].value == pytest.approx(expected)
  assert 'b/mCE_difference/official' in findings.numbers
  for label in ('all', 'extra', 'fourier_cifar'):
    assert f'a/mean_error/{label}' in findings.numbers
    assert f'a/mCE/{label}' not in findings.numbers, 'no errors were published for its corruptions'


def test_the_standard_network_is_a_baseline_of_cifar10_c(tmp_path: pathlib.Path):
  study, shape = Study(baseline='cifar10_standard'), (32, 32, 3)
  findings = study.reduce([made_records(tmp_path, study, 'only', 1, shape)], shape)
  error = np.array([findings.numbers[f'error/{name}'].value for name in study.names])
  expected = (error / np.array(list(CIFAR10_STANDARD_ERRORS.values()))).mean()
  assert findings.numbers['mCE/official'].value == pytest.approx(expected)
  assert 'relative_mCE/official' not in findings.numbers, 'its clean error is not in the source'
  assert np.mean(list(CIFAR10_STANDARD_ERRORS.values())) == pytest.approx(0.2654, abs=5e-5)
  with pytest.raises(InputError, match='measured on CIFAR-10-C at 32 pixels'):
    study.views((224, 224, 3))


def records_of(path: pathlib.Path, study: Study, label: str, wrong: np.ndarray) -> Evaluation:
  """Records of what is wrong, bool [rows, views]."""
  records = Records(path / label, Layout(*wrong.shape, *wrong.shape), {'label': label})
  records.write(0, 0, {'rank': wrong.astype(np.int32)})
  return Evaluation(label, records)


def test_twenty_images_all_right_have_no_interval_of_a_point(tmp_path: pathlib.Path):
  wrong = np.zeros((20, 7), bool)
  first = wrong.copy()
  first[:8, 1:] = True
  evaluations = [
    records_of(tmp_path, SMALL, label, table)
    for label, table in (('first', first), ('second', wrong), ('third', wrong))
  ]
  numbers = SMALL.reduce(evaluations, SHAPE).numbers
  for name in ('error/contrast', 'mean_error/shown', 'mCE/shown'):
    assert numbers[f'second/{name}'].value == numbers[f'second/{name}'].low == 0
    assert numbers[f'second/{name}'].high > 0.1, name
  assert numbers['second/mean_error_difference/shown'].low > -0.7
  of_equals = SMALL.reduce(evaluations[1:], SHAPE).numbers['third/mean_error_difference/shown']
  assert of_equals.low < -0.05 and of_equals.high > 0.05


def test_differences_of_means_are_given_with_their_family_of_tests(tmp_path: pathlib.Path):
  evaluations = [
    made_records(tmp_path, SMALL, label, seed) for seed, label in ((0, 'first'), (4, 'second'))
  ]
  findings = SMALL.reduce(evaluations, SHAPE)
  numbers = findings.numbers
  for name in ('error_difference/contrast', 'mean_error_difference/shown'):
    plain = name.replace('_difference', '')
    difference = numbers[f'second/{plain}'].value - numbers[f'first/{plain}'].value
    assert numbers[f'second/{name}'].value == pytest.approx(difference)
    assert numbers[f'second/{name}'].low < difference < numbers[f'second/{name}'].high
  mce, shifted = numbers['second/mCE/shown'], numbers['second/mCE_difference/shown']
  assert (shifted.value, shifted.low) == pytest.approx((mce.value - 1, mce.low - 1))
  ((first, second, tests, better, worse, rate),) = findings.tables['comparison'].rows
  assert (first, second, tests, rate) == ('first', 'second', 6, 0.2)
  significant = findings.arrays['second/difference_significant']
  assert better + worse == significant.sum() > 0
  rows = {row[0]: row for row in findings.tables['differences'].rows}
  assert rows['mean_error_difference/shown'][5] == 'worse'


def test_relative_mce_counts_the_resamples_it_leaves_out(tmp_path: pathlib.Path):
  study = Study(corruptions=('contrast',), severities=(1,))
  clean, corrupted = np.arange(20) < 2, np.arange(20) < 7
  corrupted[0], corrupted[18] = False, True
  table = np.stack([clean, corrupted], 1)
  evaluations = [records_of(tmp_path, study, label, table) for label in ('first', 'second')]
  number = study.reduce(evaluations, SHAPE).numbers['second/relative_mCE/shown']
  assert number.value == pytest.approx(1)
  assert 'of 1000 resamples' in number.note and 'left out' in number.note
  lost = np.stack([corrupted, clean], 1)
  evaluations[0] = records_of(tmp_path / 'lost', study, 'first', lost)
  undefined = study.reduce(evaluations, SHAPE).numbers['second/relative_mCE/shown']
  assert np.isnan([undefined.value, undefined.low, undefined.high]).all()
  assert undefined.note == 'undefined: the baseline errs no more than when clean under contrast'


def test_mce_without_errors_of_the_baseline_names_the_corruption(tmp_path: pathlib.Path):
  wrong = np.ones((20, 7), bool)
  first = wrong.copy()
  first[:, 5:] = False
  tables = {'first': first, 'second': wrong}
  evaluations = [records_of(tmp_path, SMALL, label, table) for label, table in tables.items()]
  numbers = SMALL.reduce(evaluations, SHAPE).numbers
  for name in ('second/mCE/shown', 'second/mCE_difference/shown'):
    assert np.isnan([numbers[name].value, numbers[name].low, numbers[name].high]).all()
    assert numbers[name].note == 'undefined: the baseline makes no error under contrast'


def test_mce_against_alexnet_says_why_it_is_not_the_published_kind(tmp_path: pathlib.Path):
  study = Study(baseline='alexnet')
  shape = (256, 224, 3)
  only = made_records(tmp_path, study, 'only', 1, shape)
  for name in ('mCE', 'relative_mCE'):
    note = study.reduce([only], shape).numbers[f'{name}/official'].note
    assert note.startswith('not comparable with published mCE: images are 256 × 224')
    assert 'frost is drawn' in note and 'not rounded to 8 bits' in note
  stored = dataclasses.replace(study, source='stored')
  assert stored._incomparable((224, 224, 3)) == ''
  assert SMALL._incomparable(SHAPE) == ''


def test_alexnet_is_no_baseline_of_images_of_32_pixels():
  with pytest.raises(InputError, match="32 × 32. Set config.study.baseline='first'"):
    Study(baseline='alexnet', constants=224).views(SHAPE)
  with pytest.raises(InputError, match='measured on ImageNet-C'):
    Study(baseline='alexnet', source='stored').views(SHAPE)


@pytest.mark.parametrize(
  ('settings', 'message'),
  [
    ({'corruptions': ('fogg',)}, "did you mean 'fog'"),
    ({'corruptions': ()}, 'not empty'),
    ({'severities': (0, 1)}, 'distinct numbers of 1..5'),
    ({'severities': (1, 1)}, 'distinct numbers of 1..5'),
    ({'quantize': 'ceil'}, "'floor'"),
    ({'between': (5.5,)}, r'between is 5\.5; it must be in \[1, 5\]'),
    ({'between': (0.9,)}, r'between is 0\.9; it must be in \[1, 5\]'),
    ({'between': (float('nan'),)}, r'between is nan; it must be in \[1, 5\]'),
    ({'between': (2.0,)}, 'no whole number'),
    ({'between': (2.00001,)}, 'a multiple of 1/1000'),
    ({'between': (3.5, 2.5)}, 'distinct and ascending'),
    ({'between': (1.5,), 'source': 'stored'}, "left out with source='stored'"),
    (
      {'protocol': 'as_released', 'source': 'stored'},
      "protocol is 'as_released'; .* left out with",
    ),
    ({'failure_share': 1.0}, 'config.study.failure_share'),
    ({'protocol': 'released'}, "protocol is 'released'; did you mean 'as_released'"),
    ({'protocol': 'as_released', 'quantize': 'round'}, 'which truncates'),
    ({'baseline': 'alexnet', 'corruptions': ('fog',)}, r"corruptions is \('fog',\)"),
    ({'baseline': 'alexnet', 'severities': (1, 5)}, r'severities="\(1, 2, 3, 4, 5\)"'),
  ],
)
def test_refuses(settings: dict, message: str):
  with pytest.raises(InputError, match=message):
    Study(**settings)


def test_images_too_small_for_a_corruption_are_refused_by_name():
  with pytest.raises(InputError, match='glass_blur'):
    Study(corruptions=('glass_blur',)).views((2, 2, 3))


def test_options_reach_the_views():
  picture = jnp.asarray(np.random.default_rng(0).random(SHAPE, np.float32))
  shown = []
  for options in (CorruptionOptions(), CorruptionOptions(motion_blur='fixed')):
    views = Study(corruptions=('motion_blur',), severities=(5,), options=options).views(SHAPE)
    view = {k: v[1] for k, v in views.parameters.items()}
    shown.append([views.show(jax.random.key(seed), {'image': picture}, view) for seed in (0, 1)])
  assert np.abs(shown[0][0] - shown[0][1]).max() > 0.05
  np.testing.assert_array_equal(*shown[1])


def test_missing_photographs_are_refused(tmp_path: pathlib.Path):
  with pytest.raises(InputError, match=r'frost1\.png'):
    Study(corruptions=('frost',), photographs=str(tmp_path)).views(SHAPE)


def as_stored(evaluation: Evaluation, study: Study, path: pathlib.Path, clean: bool) -> Evaluation:
  """The same answers as records of stored images, one row each, in another order."""
  table = ranks(evaluation)[:, 0 if clean else 1 :]
  numbers = np.array([(-1, 0)] * clean + study.parts)
  order = np.random.default_rng(1).permutation(table.size)
  part, base = np.divmod(order, ROWS)
  records = Records(path / 'stored' / evaluation.label, Layout(table.size, 1, 50, 1), {})
  for block in range(records.layout.num_blocks):
    rows = records.layout.rows(block)
    records.write(
      block,
      0,
      {
        'rank': table[base[rows], part[rows]][:, None],
        'base_id': base[rows],
        'corruption': numbers[part[rows], 0],
        'severity': numbers[part[rows], 1],
      },
    )
  return Evaluation(evaluation.label, records)


@pytest.mark.parametrize('clean', [True, False])
def test_stored_rows_give_the_same_findings(tmp_path: pathlib.Path, clean: bool):
  evaluations = [
    made_records(tmp_path, SMALL, label, seed) for seed, label in enumerate(('first', 'second'))
  ]
  expected = SMALL.reduce(evaluations, SHAPE)
  stored = [as_stored(evaluation, SMALL, tmp_path, clean) for evaluation in evaluations]
  study = dataclasses.replace(SMALL, source='stored', corruptions=('official',))
  findings = study.reduce(stored, SHAPE)
  assert findings.arrays.keys() == expected.arrays.keys()
  for name, array in expected.arrays.items():
    np.testing.assert_array_equal(findings.arrays[name], array, name)
  left_out = set() if clean else {n for n in expected.numbers if 'clean' in n or 'relative' in n}
  assert bool(left_out) != clean
  assert findings.numbers == {n: v for n, v in expected.numbers.items() if n not in left_out}
  assert (
    list(findings.tables['accuracy'].rows) == list(expected.tables['accuracy'].rows)[not clean :]
  )


def test_stored_and_generated_are_not_mixed_up(tmp_path: pathlib.Path):
  row = {'image': np.zeros(SHAPE, np.float32)}
  stored = {**row, 'corruption': np.int32(1), 'severity': np.int32(1), 'base_id': np.int32(0)}
  with pytest.raises(InputError, match='no corruption, severity, base_id'):
    Study(source='stored').views(SHAPE).show(None, row, {})
  with pytest.raises(InputError, match='would be corrupted again'):
    SMALL.views(SHAPE).show(None, stored, {})
  with pytest.raises(InputError, match="quantize .* left out with source='stored'"):
    Study(source='stored', quantize='floor')


@pytest.mark.parametrize('baseline', ['first', 'alexnet'])
def test_the_table_has_every_number(tmp_path: pathlib.Path, baseline: str):
  study, shape = SMALL, SHAPE
  if baseline != 'first':
    study, shape = Study(baseline=baseline, failure_share=0.8), (224, 224, 3)
  evaluations = [
    made_records(tmp_path, study, label, seed, shape)
    for seed, label in ((0, 'first'), (4, 'second'))
  ]
  findings = study.reduce(evaluations, shape)
  table = assemble(findings.estimates)
  told = 0
  for name, number in findings.numbers.items():
    label, quantity, *facet = name.split('/')
    versus = 'first' if quantity.endswith('_difference') else ''
    of_set = quantity.startswith(('mean_error', 'mCE', 'relative_mCE'))
    quantity = quantity.removesuffix('_difference').removeprefix('mean_')
    facets = {'corruption_set' if of_set else 'corruption': facet[0]} if facet else {}
    row = estimate(table, label, quantity, versus, **facets)
    assert_same(row, number)
    told += 1
  assert told == len(findings.numbers) > 10
  for label in ('first', 'second'):
    for quantity in ('error', 'top5_error'):
      rows = select(table, quantity, corruption=..., severity=...)
      arrays = [findings.arrays[f'{label}/{quantity}{end}'] for end in ('', '_low', '_high')]
      assert_same_arrays(rows[rows.classifier == label], *arrays)
  ends = ('', '_low', '_high', '_p')
  differences = [findings.arrays[f'second/difference{end}'] for end in ends]
  assert_same_arrays(select(table, 'error', 'first', corruption=..., severity=...), *differences)
