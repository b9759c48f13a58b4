"""The study `corruption_error`: views, and its numbers against plain numpy on made records."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness import corruptions
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.corruptions.settings import CorruptionOptions
from robustness.estimates.failure_point import failure_point
from robustness.estimates.published import BASELINES
from robustness.estimates.table import assemble, select
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.present import sentences
from robustness.results import Results
from robustness.studies.corruption_error import Study
from tests.table_rows import estimate

SHAPE, ROWS = (32, 32, 3), 60
SMALL = Study(
  corruptions=('contrast', 'brightness', 'gaussian_noise'),
  severities=(1, 3),
  false_discovery_rate=0.2,
)
SHOWN = {'corruption_set': 'shown'}


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


def table_of(study: Study, evaluations: list[Evaluation], shape: tuple[int, int, int] = SHAPE):
  return assemble(study.reduce(evaluations, shape).estimates)


def grid(table: pd.DataFrame, label: str, quantity: str = 'error', versus: str = '') -> np.ndarray:
  """Values by corruption and severity, in the order of the views."""
  rows = select(table, quantity, versus, corruption=..., severity=...)
  rows = rows[rows.classifier == label]
  return rows.value.to_numpy().reshape(rows.corruption.nunique(), -1)


def test_failure_points_are_found_and_means_are_over_the_severities(tmp_path: pathlib.Path):
  study = dataclasses.replace(SMALL, between=(1.5, 2.25), failure_share=0.9)
  evaluation = made_records(tmp_path, study, 'only', 0)
  table = table_of(study, [evaluation])
  wrong = ranks(evaluation) > 0
  error = wrong[:, 1:].mean(0).reshape(3, 4)
  np.testing.assert_allclose(grid(table, 'only'), error)
  severities = select(table, 'error', corruption='contrast', severity=...).severity
  assert severities.tolist() == [1, 1.5, 2.25, 3]
  mean = estimate(table, 'only', 'error', corruption_set='shown').value
  assert mean == pytest.approx(error[:, [0, 3]].mean())
  for index, name in enumerate(study.names):
    right = ~wrong[:, [0, *range(1 + 4 * index, 5 + 4 * index)]]
    expected = failure_point(right, np.array(study.levels), 0.9)
    row = estimate(table, 'only', 'failure_severity', corruption=name)
    assert (row.value, row.low, row.high, row.note) == pytest.approx(
      (expected.value, expected.low, expected.high, expected.note)
    )
    assert 1 <= expected.value <= 3
  (words,) = (q.words for q in study.quantities if q.name == 'failure_severity')
  assert words.endswith('below 90 % of that on clean images')


def test_errors_means_and_mce_against_plain_numpy(tmp_path: pathlib.Path):
  evaluations = [
    made_records(tmp_path, SMALL, label, seed) for seed, label in enumerate(('first', 'second'))
  ]
  table = table_of(SMALL, evaluations)
  wrong = [ranks(e) > 0 for e in evaluations]
  error = [w[:, 1:].mean(0).reshape(3, 2) for w in wrong]
  for index, label in enumerate(('first', 'second')):
    np.testing.assert_allclose(grid(table, label), error[index])
    top5 = (ranks(evaluations[index]) >= 5)[:, 1:].mean(0).reshape(3, 2)
    np.testing.assert_allclose(grid(table, label, 'top5_error'), top5)
    assert estimate(table, label, 'clean_error').value == wrong[index][:, 0].mean()
    mean = estimate(table, label, 'error', **SHOWN)
    assert mean.value == pytest.approx(error[index].mean())
    assert mean.low < mean.value < mean.high
    for place, name in enumerate(SMALL.names):
      own = estimate(table, label, 'error', corruption=name)
      assert own.value == pytest.approx(error[index][place].mean())
  ratio = (error[1].sum(1) / error[0].sum(1)).mean()
  clean = [w[:, 0].mean() for w in wrong]
  relative = ((error[1].mean(1) - clean[1]) / (error[0].mean(1) - clean[0])).mean()
  mce = estimate(table, 'second', 'mCE', **SHOWN)
  assert mce.value == pytest.approx(ratio)
  assert mce.low < ratio < mce.high
  assert estimate(table, 'second', 'relative_mCE', **SHOWN).value == pytest.approx(relative)
  assert estimate(table, 'first', 'mCE', **SHOWN).low == pytest.approx(1)


def test_differences_are_tested_in_pairs(tmp_path: pathlib.Path):
  evaluations = [
    made_records(tmp_path, SMALL, label, seed) for seed, label in ((0, 'first'), (4, 'second'))
  ]
  table = table_of(SMALL, evaluations)
  right = [ranks(e) == 0 for e in evaluations]
  b, c = (right[0] & ~right[1]).sum(0)[1:], (~right[0] & right[1]).sum(0)[1:]
  rows = select(table, 'error', 'first', corruption=..., severity=...)
  p = [
    stats.binomtest(int(x), int(x + y)).pvalue if x + y else 1 for x, y in zip(b, c, strict=True)
  ]
  np.testing.assert_allclose(rows.p, p)
  np.testing.assert_allclose(rows.value, (b - c) / ROWS)
  for facets in ({'corruption': 'contrast'}, SHOWN):
    own = [estimate(table, label, 'error', **facets).value for label in ('first', 'second')]
    row = estimate(table, 'second', 'error', 'first', **facets)
    assert row.low < row.value < row.high
    assert row.value == pytest.approx(own[1] - own[0])
  mce = estimate(table, 'second', 'mCE', **SHOWN)
  shifted = estimate(table, 'second', 'mCE', 'first', **SHOWN)
  assert (shifted.value, shifted.low) == pytest.approx((mce.value - 1, mce.low - 1))


@pytest.mark.parametrize('baseline', ['alexnet', 'cifar10_standard'])
def test_a_published_baseline_divides_by_its_errors(tmp_path: pathlib.Path, baseline: str):
  """Also where more corruptions were shown than it has errors of."""
  published = BASELINES[baseline]
  study = Study(corruptions=('all',), baseline=baseline)
  shape = (published.side, published.side, 3)
  evaluations = [made_records(tmp_path, study, label, s, shape) for s, label in enumerate('ab')]
  table = table_of(study, evaluations, shape)
  wrong = ranks(evaluations[1]) > 0
  by_corruption = wrong[:, 1:76].mean(0).reshape(15, 5).mean(1)
  known = np.array([published.corrupted[name] for name in study.names[:15]])
  row = estimate(table, 'b', 'mCE', corruption_set='official')
  assert row.value == pytest.approx((by_corruption / known).mean())
  assert row.low < row.value < row.high
  assert len(select(table, 'mCE', 'a', corruption_set='official')) == 1
  relative = select(table, 'relative_mCE', corruption_set='official').set_index('classifier')
  if np.isnan(published.clean):
    assert relative.empty, 'its clean error is not in the source'
  else:
    excess = (by_corruption - wrong[:, 0].mean()) / (known - published.clean)
    assert relative.value['b'] == pytest.approx(excess.mean())
  for label in ('all', 'extra', 'fourier_cifar'):
    assert len(select(table, 'error', corruption_set=label)) == 2
    assert select(table, 'mCE', None, corruption_set=label).empty, 'not published for all of it'


def test_the_standard_network_is_of_cifar10_c_alone():
  errors = list(BASELINES['cifar10_standard'].corrupted.values())
  assert np.mean(errors) == pytest.approx(0.2654, abs=5e-5)
  with pytest.raises(InputError, match='measured on CIFAR-10-C at 32 pixels'):
    Study(baseline='cifar10_standard').views((224, 224, 3))


def test_a_corruption_that_is_added_is_drawn_and_told(tmp_path: pathlib.Path):
  table = table_of(SMALL, [made_records(tmp_path, SMALL, 'only', 1)])
  errors = select(table, 'error', corruption=...).set_index('corruption').value
  table['corruption'] = table.corruption.replace({errors.idxmax(): 'my_own_blur'})
  results = Results('made', {'label': 'only'}, {}, {}, table=table, quantities=SMALL.quantities)
  figure, _ = SMALL.figures(results)['error_corruption']
  assert 'my own blur' in [text.get_text() for text in figure.axes[0].get_yticklabels()]
  assert any('under my own blur' in text for text in sentences.sentences(results))


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
  table = table_of(SMALL, evaluations)
  for quantity, facets in (('error', {'corruption': 'contrast'}), ('error', SHOWN), ('mCE', SHOWN)):
    row = estimate(table, 'second', quantity, **facets)
    assert row.value == row.low == 0
    assert row.high > 0.1, quantity
  assert estimate(table, 'second', 'error', 'first', **SHOWN).low > -0.7
  of_equals = estimate(table_of(SMALL, evaluations[1:]), 'third', 'error', 'second', **SHOWN)
  assert of_equals.low < -0.05 and of_equals.high > 0.05


def test_relative_mce_counts_the_resamples_it_leaves_out(tmp_path: pathlib.Path):
  study = Study(corruptions=('contrast',), severities=(1,))
  clean, corrupted = np.arange(20) < 2, np.arange(20) < 7
  corrupted[0], corrupted[18] = False, True
  table = np.stack([clean, corrupted], 1)
  evaluations = [records_of(tmp_path, study, label, table) for label in ('first', 'second')]
  row = estimate(table_of(study, evaluations), 'second', 'relative_mCE', **SHOWN)
  assert row.value == pytest.approx(1)
  assert 'of 1000 resamples' in row.note and 'left out' in row.note
  lost = np.stack([corrupted, clean], 1)
  evaluations[0] = records_of(tmp_path / 'lost', study, 'first', lost)
  undefined = estimate(table_of(study, evaluations), 'second', 'relative_mCE', **SHOWN)
  assert np.isnan([undefined.value, undefined.low, undefined.high]).all()
  assert undefined.note == 'undefined: the baseline errs no more than when clean under contrast'


def test_mce_without_errors_of_the_baseline_names_the_corruption(tmp_path: pathlib.Path):
  wrong = np.ones((20, 7), bool)
  first = wrong.copy()
  first[:, 5:] = False
  tables = {'first': first, 'second': wrong}
  evaluations = [records_of(tmp_path, SMALL, label, table) for label, table in tables.items()]
  table = table_of(SMALL, evaluations)
  for versus in ('', 'first'):
    row = estimate(table, 'second', 'mCE', versus, **SHOWN)
    assert np.isnan([row.value, row.low, row.high]).all()
    assert row.note == 'undefined: the mean of the baseline is 0 in contrast'


def test_mce_against_alexnet_says_why_it_is_not_the_published_kind(tmp_path: pathlib.Path):
  study = Study(baseline='alexnet')
  shape = (256, 224, 3)
  table = table_of(study, [made_records(tmp_path, study, 'only', 1, shape)], shape)
  for name in ('mCE', 'relative_mCE'):
    note = estimate(table, 'only', name, corruption_set='official').note
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
  expected = table_of(SMALL, evaluations)
  stored = [as_stored(evaluation, SMALL, tmp_path, clean) for evaluation in evaluations]
  table = table_of(dataclasses.replace(SMALL, source='stored', corruptions=('official',)), stored)
  if not clean:
    lost = expected.quantity.str.startswith(('clean', 'relative'))
    expected = expected[~lost].reset_index(drop=True)
  pd.testing.assert_frame_equal(table, expected)


def test_stored_and_generated_are_not_mixed_up(tmp_path: pathlib.Path):
  row = {'image': np.zeros(SHAPE, np.float32)}
  stored = {**row, 'corruption': np.int32(1), 'severity': np.int32(1), 'base_id': np.int32(0)}
  with pytest.raises(InputError, match='no corruption, severity, base_id'):
    Study(source='stored').views(SHAPE).show(None, row, {})
  with pytest.raises(InputError, match='would be corrupted again'):
    SMALL.views(SHAPE).show(None, stored, {})
  with pytest.raises(InputError, match="quantize .* left out with source='stored'"):
    Study(source='stored', quantize='floor')
