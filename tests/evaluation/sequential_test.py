"""Tests runs in rounds, which show each view until its interval is narrow enough."""

import dataclasses
import shutil

import numpy as np
import pandas as pd
import pytest

from robustness import parallel
from robustness.config.experiment import Execution
from robustness.core.rows import ArrayRows, random_order
from robustness.estimates.fixed_width import MOST_LOOKS, fixed_size, plan
from robustness.estimates.intervals import SEQUENTIAL, clopper_pearson
from robustness.estimates.table import select
from robustness.evaluation.rounds import SequentialRecords
from robustness.measurement import evaluator_for, indices_of_round, measure
from robustness.present.notation import Notation
from robustness.studies.attack_error import AttackError
from robustness.studies.band_noise import BandNoise
from robustness.studies.corruption_error import CorruptionError
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_rows
from tests.present.made_results import sentences_of
from tests.refusals import bad_setting, refused
from tests.studies.conftest import classifier
from tests.table_rows import estimate

COUNT = 130
"""Number of images."""
STUDY = FourierHeatmap(norm=0.5, half_width=0.1, top_k=2)
DESIGN = STUDY.sequential_design
ENDS = ['value', 'low', 'high', 'n']
EXECUTION = Execution(seed=3)


def rows():
  """Returns rows that the network `tiny` answers right, but for every twentieth."""
  images = tiny_rows(COUNT).images
  labels = np.argmax(classifier('tiny', 0).predict(images), 1)
  return ArrayRows(images, np.where(np.arange(COUNT) % 20 == 0, (labels + 1) % 4, labels), CLASSES)


def run(folder, study=STUDY, execution=EXECUTION, labels=('tiny', 'other')):
  """Measures networks in rounds and returns the results."""
  classifiers = [classifier(label, seed) for seed, label in enumerate(labels)]
  return measure(study, execution, classifiers, rows(), folder)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('sequential')


@pytest.fixture(scope='module')
def results(folder):
  return run(folder)


def fixed_table(name, label='tiny'):
  """Returns a field [rows, views] of all rows in all views, in the order of the rounds."""
  study = dataclasses.replace(STUDY, half_width=0.0)
  network = classifier(label, int(label != 'tiny'))
  evaluator = evaluator_for(EXECUTION, study, network, rows(), parallel.create('jit'))
  ((*_, shard),) = evaluator.shards(rows(), evaluator.layout(COUNT))
  return shard[name][random_order(COUNT, EXECUTION.seed)]


def by_frequency(results, label, versus=''):
  """Returns the errors of a classifier by frequency."""
  errors = select(results.table, 'error', versus, frequency_y=..., frequency_x=...)
  return errors[errors.classifier == label]


def rounds(folder, label):
  """Returns the records of a classifier in rounds."""
  return SequentialRecords.open(folder / label, DESIGN)


@pytest.mark.slow
def test_every_recorded_cell_equals_the_cell_without_rounds(results, folder):
  assert results
  sequential = rounds(folder, 'tiny')
  expected = {name: fixed_table(name) for name in ('rank', 'example_id', 'probability')}
  for number, (records, views) in enumerate(zip(sequential.rounds, sequential.views, strict=True)):
    places = np.arange(number * sequential.design.trials, (number + 1) * sequential.design.trials)
    order = np.argsort(expected['example_id'][places])
    fixed = {name: values[places][order] for name, values in expected.items()}
    np.testing.assert_array_equal(records.column('example_id'), fixed['example_id'])
    np.testing.assert_array_equal(records.table('rank'), fixed['rank'][:, views])
    probability = fixed['probability'][:, views]
    np.testing.assert_allclose(records.table('probability'), probability, rtol=1e-5)


@pytest.mark.slow
def test_a_view_is_shown_until_its_interval_is_narrow(results):
  wrong = fixed_table('rank') > 0
  n = DESIGN.trials * np.arange(1, DESIGN.looks + 1)
  counts = wrong.cumsum(0)[n - 1]
  low, high = clopper_pearson(counts, n[:, None], DESIGN.level)
  finished = (high - low) / 2 <= STUDY.half_width
  finished[-1] = True
  counts_shown = n[finished.argmax(0)]
  assert len(np.unique(counts_shown)) > 2, 'views must differ in this test'
  ends = counts[finished.argmax(0), np.arange(len(counts_shown))]
  errors = by_frequency(results, 'tiny')
  np.testing.assert_array_equal(errors.n, counts_shown[1:])
  np.testing.assert_array_equal(errors.value, (ends / counts_shown)[1:])
  assert ((errors.high - errors.low) / 2 <= STUDY.half_width).all()
  assert estimate(results.table, 'tiny', 'clean_error').n == counts_shown[0]
  (zero,) = errors[(errors.frequency_y == 0) & (errors.frequency_x == 0)].itertuples()
  ring = estimate(results.table, 'tiny', 'error', radius=0)  # the frequency zero only
  assert (ring.value, ring.low, ring.high, ring.n) == (zero.value, zero.low, zero.high, zero.n)


@pytest.mark.slow
def test_means_and_differences_use_the_images_that_all_views_have(results):
  columns, rows = results.tables['passes'].columns, results.tables['passes'].rows
  common = rows[0][columns.index('images that all views have')]
  order = random_order(COUNT, EXECUTION.seed)
  for label in ('tiny', 'other'):
    damaged = [row for row in results.tables['most damaged images'].rows if row[0] == label]
    images, views = [row[1] for row in damaged], [row[6] for row in damaged]
    assert images and set(images) <= set(order[:common])
    places = [STUDY.view_table(SHAPE).names.index(view) for view in views]
    assert (fixed_table('rank', label)[np.argsort(order)][images, places] > 0).all()
  wrong = [fixed_table('rank', label)[:common] > 0 for label in ('tiny', 'other')]
  cell = STUDY.frequencies(SHAPE).cell
  row = estimate(results.table, 'tiny', 'error')
  assert row.n == common
  assert row.value == pytest.approx(wrong[0][:, 1:][:, cell].mean())
  differences = by_frequency(results, 'other', 'tiny')
  expected = (wrong[1].mean(0) - wrong[0].mean(0))[1:]
  np.testing.assert_allclose(differences.value, expected, atol=1e-12)
  assert set(differences.n) == {common}


def test_passes_spent_and_saved_are_stated(results):
  table = results.tables['passes']
  assert [row[0] for row in table.rows] == ['tiny', 'other']
  for row in table.rows:
    stated = dict(zip(table.columns, row, strict=True))
    clean = estimate(results.table, stated['classifier'], 'clean_error').n
    passes = [clean, *by_frequency(results, stated['classifier']).n]
    assert stated['passes'] == sum(passes)
    fixed = fixed_size(0.1, 0.95) * len(passes)
    assert stated['passes of the fixed design'] == fixed
    assert stated['saved'] == pytest.approx(1 - sum(passes) / fixed)
    extent = [stated[f'images of a view, {end}'] for end in ('fewest', 'most')]
    assert extent == [min(passes), max(passes)]


def test_the_sentence_on_the_worst_cell_counts_the_images_of_the_cell(results):
  errors = by_frequency(results, 'tiny')
  worst = errors.loc[errors.value.idxmax()]
  level = 1 - 0.05 / (2 * len(errors) * MOST_LOOKS)  # two classifiers have the frequencies
  adjusted = worst.copy()
  ends = clopper_pearson(round(worst.value * worst.n), worst.n, level)
  adjusted[['low', 'high', 'family']] = *ends, 2 * len(errors)
  (largest,) = [text for text in sentences_of(results) if f'of {len(errors)} frequencies: ' in text]
  assert Notation(STUDY.quantities[0]).full(adjusted) in largest


@pytest.mark.slow
@pytest.mark.parametrize('deleted', ['round001', 'shard'])
def test_a_resumed_run_has_the_same_results(results, folder, tmp_path, deleted):
  shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
  finished = len(rounds(folder, 'tiny').rounds)
  if deleted == 'shard':
    sorted((tmp_path / 'tiny' / 'round000').glob('*.npz'))[-1].unlink()
  for number in range(1 if deleted == 'shard' else 2, finished):
    shutil.rmtree(tmp_path / 'tiny' / f'round{number:03d}')
  refused(r'is not finished|header.json is no file', rounds, tmp_path, 'tiny')
  resumed = run(tmp_path)
  pd.testing.assert_frame_equal(resumed.table, results.table)
  for name, values in results.arrays.items():
    np.testing.assert_array_equal(resumed.arrays[name], values)
  refused('half_width', run, tmp_path, dataclasses.replace(STUDY, half_width=0.12))


@pytest.mark.usefixtures('results')
def test_images_of_later_rounds_are_those_of_their_records(folder):
  data = rows()
  data.images[indices_of_round(1, COUNT, EXECUTION.seed, DESIGN)[-1]] = 0.5
  setup = STUDY, EXECUTION, [classifier('tiny', 0)]
  refused('round001 holds answers on other images', measure, *setup, data, folder)


@pytest.mark.slow
def test_pmap_and_other_shards_have_the_same_errors(results, tmp_path):
  execution = dataclasses.replace(EXECUTION, parallel='pmap', batch_size=8, views_per_step=3)
  by_pmap = run(tmp_path, STUDY, execution, ['tiny'])
  expected = by_frequency(results, 'tiny')[ENDS]
  np.testing.assert_array_equal(by_frequency(by_pmap, 'tiny')[ENDS], expected)


@pytest.mark.usefixtures('results')
def test_each_process_computes_a_share_of_the_chunks_of_a_round(folder, tmp_path):
  first = rounds(folder, 'tiny').rounds[0]
  evaluator = evaluator_for(EXECUTION, STUDY, classifier('tiny', 0), rows(), parallel.create('jit'))
  places = np.sort(random_order(COUNT, EXECUTION.seed)[: first.layout.num_rows])
  records = type(first)(tmp_path, first.layout, first.identity)
  counts = []
  for process in range(2):
    evaluator.evaluate(rows().at(places), records, process, 2)
    counts.append(len(list(tmp_path.glob('*.npz'))))
  assert first.layout.num_blocks == 1
  assert counts[0] == -(-first.layout.num_chunks // 2)
  assert not records.missing()
  np.testing.assert_array_equal(records.table('rank'), first.table('rank'))


@cases(
  'half_width, count, needed',
  (0.05, 4, 'at least 384'),
  (0.05, 400, 'up to {most}'),
  (1e-4, 4, 'at least 96,036,470'),
  (1e-30, 4, r'9\.6e\+59'),
)
def test_too_few_images_are_refused_with_how_many_are_needed(half_width, count, needed):
  study = dataclasses.replace(STUDY, half_width=half_width)
  needed = needed.format(most=plan(0.05, STUDY.confidence).most_trials)
  expected = bad_setting(
    'config.study.half_width', half_width, f'{needed} images.*There are {count}'
  )
  refused(expected, study.check, tiny_rows(count), {})
  STUDY.check(rows(), {})


@pytest.mark.slow
def test_attacks_are_shown_in_rounds(tmp_path):
  study = AttackError(attacks=('fgsm',), epsilons=(0.002, 0.3), half_width=0.1)
  results = run(tmp_path, study, labels=['tiny'])
  errors = select(results.table, 'error', attack='fgsm', epsilon=...)
  assert len(errors) == 3 and errors.n.nunique() > 1 and set(errors.method) == {SEQUENTIAL}
  worst = select(results.table, 'attack_error', epsilon=...)
  np.testing.assert_array_equal(worst[ENDS], errors[ENDS], 'a single attack is the worst')
  (clean,) = select(results.table, 'clean_high_frequency').itertuples()
  assert clean.n == min(*errors.n, select(results.table, 'clean_error').n.item())
  assert study.figures(results)


def test_bands_are_shown_in_rounds(tmp_path):
  study = BandNoise(norm=4.0, kinds=('low_pass',), half_width=0.1)
  results = run(tmp_path, study, labels=['tiny'])
  errors = select(results.table, 'error', band='low_pass', bandwidth=...)
  assert errors.n.nunique() > 1 and set(errors.method) == {SEQUENTIAL}
  assert ((errors.high - errors.low) / 2 <= 0.1).all() and study.figures(results)


def test_corruptions_are_shown_in_rounds_and_their_means_are_of_common_images(tmp_path):
  names, severities = ('contrast', 'brightness'), (1, 5)
  study = CorruptionError(corruptions=names, severities=severities, half_width=0.1, top_k=2)
  results = run(tmp_path, study, labels=['tiny'])
  cells = select(results.table, 'error', corruption=..., severity=...)
  assert cells.n.nunique() > 1 and ((cells.high - cells.low) / 2 <= 0.1).all()
  counts = [estimate(results.table, 'tiny', 'clean_error').n, *cells.n]
  assert counts == SequentialRecords.open(tmp_path / 'tiny', study.sequential_design).shown.tolist()
  passes = results.tables['passes']
  common = passes.rows[0][passes.columns.index('images that all views have')]
  assert estimate(results.table, 'tiny', 'error', corruption='contrast').n == common
