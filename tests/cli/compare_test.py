"""`robustness compare` pairs workdirs with the same images and refuses those that share a part."""

import dataclasses
import functools
import json
import pathlib
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy import special

from robustness.cli import compare as program
from robustness.comparison.compare import PRINTED_FACETS
from robustness.comparison.entries import distinct_labels
from robustness.comparison.pairing import Answers, pair
from robustness.comparison.references import with_references
from robustness.estimates.comparison import mcnemar, paired_difference, sign_flip
from robustness.estimates.corruption_error import MCE
from robustness.estimates.fixed_width import plan
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.means import Estimate, table_of_rows
from robustness.estimates.means import estimate_row as table_row
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, ERROR, Quantity
from robustness.estimates.table import assemble, facets_of, select
from robustness.evaluation.records import Records
from robustness.evaluation.study import IMAGES, ViewTable
from robustness.present import headlines
from robustness.present.phrases import classifier_words
from robustness.results import Results
from robustness.studies import si_score
from robustness.studies.accuracy import Accuracy
from robustness.studies.corruption_error import CorruptionError
from tests import finished_runs
from tests.refusals import refused
from tests.table_rows import estimate

pytestmark = pytest.mark.usefixtures('undrawn')
COUNT = 40
FIRST = (np.arange(COUNT) % 4 > 0).tolist()
"""Whether each image is classified correctly by the first classifier: 30 of 40 are."""
SECOND = (np.arange(COUNT) % 10 > 0).tolist()
"""Whether each image is classified correctly by the second classifier: 36 of 40 are."""
TASKS, PAIRS = ('clean', 'fog'), np.arange(12)


def accuracy_of(out, label, versus='', **facets):
  """Returns the row with a classifier's accuracy in a group of views, or its difference."""
  facets = facets or {'view': 'as stored'}
  return estimate(Results.read(out).table, label, 'accuracy', versus, **facets)


def accuracy_rows(out):
  """Returns the rows of accuracies by group of views and of their differences."""
  table = Results.read(out).table
  return table[table['quantity'] == 'accuracy'].reset_index(drop=True)


def compare(folder, names, common=False):
  """Compares the runs with these names in a folder; writes to `out` and returns the results."""
  return program.run([str(folder / name) for name in names], folder / 'out', common)


@pytest.fixture
def workdirs(tmp_path):
  """The paths of two runs, `one` and `other`, on the same 40 images."""
  finished_runs.write(tmp_path / 'one', {'net': FIRST})
  finished_runs.write(tmp_path / 'other', {'net': SECOND})
  return str(tmp_path / 'one'), str(tmp_path / 'other')


def test_runs_on_the_same_images_are_paired(workdirs, tmp_path, capsys, monkeypatch):
  monkeypatch.undo()  # draws the figures
  out = tmp_path / 'out'
  assert program.main([*workdirs, f'--out={out}']) == 0
  printed = capsys.readouterr().out
  assert re.search('^ +value +minus one\ntop-1 accuracy .%. +one ', printed)
  assert 'in view as stored' not in printed, 'the headline states it'
  first, second = np.array(FIRST), np.array(SECOND)
  only_first, only_second = (first & ~second).sum(), (second & ~first).sum()
  error, low, high = paired_difference(only_first, only_second, COUNT)
  answers, difference = accuracy_of(out, 'other'), accuracy_of(out, 'other', 'one')
  assert (answers.value, answers.n) == (pytest.approx(second.mean()), COUNT)
  assert (answers.low, answers.high) == pytest.approx(clopper_pearson(second.sum(), COUNT))
  ends = (difference.value, difference.low, difference.high)
  assert ends == pytest.approx((-error, -high, -low))
  assert difference.p == pytest.approx(float(mcnemar(only_first, only_second)))
  assert difference.method == 'bonett-price'
  assert not difference.note
  results = Results.read(out)
  assert results.study == 'comparison' and not results.tasks
  study = estimate(results.table, 'other', 'top1_accuracy', 'one')
  assert study.value == pytest.approx(difference.value), 'what the study itself finds'
  kappa = estimate(results.table, 'other', 'error_consistency', view='as stored')
  agreement, chance = (first == second).mean(), first.mean() * second.mean()
  chance += (1 - first.mean()) * (1 - second.mean())
  assert (
    kappa.value == pytest.approx((agreement - chance) / (1 - chance)) and kappa.low < 0 < kappa.high
  )
  assert 'Top-1 accuracy' in (out / 'report.html').read_text()


def test_a_comparison_can_be_pickled(workdirs):
  results, _ = program.compare_tasks(program.read_entries(program.named_workdirs(workdirs)))
  copied = pickle.loads(pickle.dumps(results))
  assert copied.table.equals(results.table) and copied.to_latex() == results.to_latex()


def test_intervals_have_the_confidence_of_the_first_run(workdirs, tmp_path):
  config = json.dumps({'study': {'name': 'accuracy', 'confidence': 0.8}, 'seed': 0})
  (tmp_path / 'one' / 'config.json').write_text(config)
  program.run(workdirs, tmp_path / 'out')
  table = Results.read(tmp_path / 'out').table
  assert set(table.confidence) == {0.8}
  answers = accuracy_of(tmp_path / 'out', 'other')
  interval = clopper_pearson(np.sum(SECOND), COUNT, 0.8)
  assert (answers.low, answers.high) == pytest.approx(interval)


def test_one_view_of_a_sequential_run_has_the_interval_of_its_design():
  design = plan(0.1, 0.95)
  right = (np.arange(80) % 5 > 0)[:, None]
  table = ViewTable.of(['as stored'])
  answers = Answers(right, np.arange(80), table, 0.95, design).accuracy('as stored')
  assert (answers.value, answers.n, answers.method) == (0.8, 80, 'sequential clopper-pearson')
  assert (answers.low, answers.high) == pytest.approx(design.interval(64, 80))
  plain = Answers(right, np.arange(80), table, 0.95).accuracy('as stored')
  assert answers.low < plain.low and plain.high < answers.high


@pytest.mark.slow
def test_classifiers_have_one_label_in_all_parts_of_batteries(tmp_path, capsys):
  """The task fog of battery a lacks the classifier net, so the baseline there is other."""
  clean = {'net': FIRST, 'other': SECOND}
  for name in 'ab':
    shifted = {'other': SECOND} if name == 'a' else clean
    plain = finished_runs.write(tmp_path / f'{name}_plain', clean)
    fog = finished_runs.write_corrupted(tmp_path / f'{name}_fog', shifted, shifted)
    finished_runs.write_battery(tmp_path / name, {'clean': plain, 'fog': fog})
  out = tmp_path / 'out'
  assert program.main([str(tmp_path / 'a'), str(tmp_path / 'b'), f'--out={out}']) == 0
  tasks = {name: accuracy_rows(out / 'tasks' / name) for name in TASKS}
  assert set(tasks['clean'].classifier) == {'a net', 'a other', 'b net', 'b other'}
  assert set(tasks['fog'].classifier) == {'a other', 'b net', 'b other'}
  fog = tasks['fog'][tasks['fog'].versus != '']
  assert set(fog.note) == {'minus a other: a net is not in this task'}
  assert not tasks['clean'].note.str.contains('minus').any()
  assert capsys.readouterr().out.startswith('clean:\n')
  joined_results = Results.read(out)
  assert joined_results.study == 'comparison' and list(joined_results.by_task) == list(TASKS)
  for name, of_task in joined_results.by_task.items():
    single = Results.read(out / 'tasks' / name)
    pd.testing.assert_frame_equal(of_task.table, single.table)
    assert of_task.quantities == single.quantities


def test_tasks_that_measure_images_alone_are_left_out(tmp_path, monkeypatch):
  for name in 'ab':
    plain = finished_runs.write(tmp_path / f'{name}_plain', {IMAGES: FIRST})
    fog = finished_runs.write_corrupted(tmp_path / f'{name}_fog', {IMAGES: FIRST}, {IMAGES: SECOND})
    finished_runs.write_battery(tmp_path / name, {'clean': plain, 'fog': fog})
  monkeypatch.setattr(CorruptionError, 'needs_classifier', False)
  assert list(compare(tmp_path, 'ab').by_task) == ['clean']
  monkeypatch.setattr(Accuracy, 'needs_classifier', False)
  refused('a, b measure images alone: give workdirs of studies', compare, tmp_path, 'ab')


def test_the_order_of_the_images_does_not_matter(tmp_path):
  order = np.random.default_rng(0).permutation(COUNT)
  finished_runs.write(tmp_path / 'a', {'net': FIRST})
  finished_runs.write(tmp_path / 'b', {'net': np.array(SECOND)[order].tolist()}, order.tolist())
  finished_runs.write(tmp_path / 'c', {'net': SECOND})
  tables = []
  for name in 'bc':
    out = tmp_path / f'out_{name}'
    program.run([str(tmp_path / 'a'), f'second={tmp_path / name}'], out)
    tables.append(accuracy_rows(out))
  pd.testing.assert_frame_equal(*tables)
  assert set(tables[0].classifier) == {'a', 'second'}


def test_other_data_are_not_paired(tmp_path):
  finished_runs.write(tmp_path / 'a', {'net': FIRST})
  data = {'source': 'folder', 'path': '/x', 'num_examples': COUNT}
  finished_runs.write(tmp_path / 'b', {'net': SECOND}, data=data)
  results = compare(tmp_path, 'ab')
  other = accuracy_of(tmp_path / 'out', 'b', 'a')
  assert (other.method, other.note) == ('newcombe', 'other images') and np.isnan(other.p)
  first, second = (accuracy_of(tmp_path / 'out', label) for label in 'ab')
  assert other.value == pytest.approx(second.value - first.value)
  newcombe = np.hypot(second.value - second.low, first.high - first.value)
  assert other.value - other.low == pytest.approx(newcombe)
  reasons = results.tables['not compared by the study itself'].rows
  assert reasons == [['not all classifiers were shown the same images']]
  assert set(results.table['quantity']) == {'accuracy'}
  assert list(map(classifier_words, results.classifiers)) == [
    '',
    f'on {COUNT} images of folder x, 28 × 28 pixels',
  ]


def test_other_labels_of_the_same_images_are_noted(tmp_path):
  finished_runs.write(tmp_path / 'a', {'net': FIRST}, digests=range(COUNT))
  finished_runs.write(tmp_path / 'b', {'net': SECOND}, digests=range(COUNT))
  read = [Records.open(tmp_path / name / 'records/net') for name in 'ab']
  for records in read:
    records.identity = {**records.identity, 'classes': ['x', 'y']}
  assert not pair(*read, ('a', 'b'), False).note
  column, labels = read[1].column, np.arange(COUNT)
  read[1].column = lambda name: labels if name == 'label' else column(name)
  assert pair(*read, ('a', 'b'), False).note == 'some images have other labels'


def test_images_shared_in_part_are_refused(tmp_path):
  finished_runs.write(tmp_path / 'a', {'net': FIRST})
  finished_runs.write(tmp_path / 'b', {'net': SECOND[:30]}, range(10, 40))
  refused(r'a and b share 30 of 40 and 30 images.*--common', compare, tmp_path, 'ab')


def test_images_of_no_known_class_are_right_for_nobody(workdirs, tmp_path):
  without_classes = {'labels': 'of no known class'}
  for header in (tmp_path / 'one').glob('records/**/header.json'):
    finished_runs.edit(header, lambda header: header['identity']['data'].update(without_classes))
  refused('one: a comparison counts what is right, and', program.run, workdirs, tmp_path / 'out')


def test_changed_files_are_refused(tmp_path):
  finished_runs.write(tmp_path / 'a', {'net': FIRST}, digests=range(COUNT))
  finished_runs.write(tmp_path / 'b', {'net': SECOND}, digests=range(1, COUNT + 1))
  refused('files were changed between the runs, or arrays', compare, tmp_path, 'ab')


def correct(seed):
  """Returns correlated correct answers, clean and in four views of each image: bool [40, 5]."""
  generator = np.random.default_rng(seed)
  return generator.normal(size=(COUNT, 1)) + 0.3 * generator.normal(size=(COUNT, 5)) > -0.5


def test_images_that_three_runs_share_are_the_same_in_all_numbers_whatever_their_order(tmp_path):
  random = np.random.default_rng(0)
  ids = {'a': np.arange(40), 'b': random.permutation(30) + 10, 'c': random.permutation(25)}
  right = {name: random.integers(0, 2, 40) for name in ids}
  for name, rows in ids.items():
    finished_runs.write(tmp_path / name, {'net': right[name][rows].tolist()}, rows.tolist())
  results = compare(tmp_path, 'abc', common=True)
  # b has the images 10 to 39 and c the images 0 to 24, so all three share 10 to 24.
  assert estimate(results.table, 'a', 'top1_accuracy').n == 15
  for name in ids:
    level = accuracy_of(tmp_path / 'out', name)
    assert (level.n, level.value) == (15, pytest.approx(right[name][10:25].mean()))
  for name in 'bc':
    expected = (right[name] - right['a'])[10:25].mean()
    assert accuracy_of(tmp_path / 'out', name, 'a').value == pytest.approx(expected)


@pytest.mark.parametrize('paired', [True, False])
def test_stored_versions_of_an_image_are_not_counted_as_separate_images(tmp_path, paired):
  """Stored versions and versions made in the run give equal tables with 40 images a row."""
  tables = []
  for stored in (True, False):
    folder = tmp_path / f'stored_{stored}'
    for seed, name in enumerate('ab'):
      answers = {'net': correct(seed)}
      digest = 0 if paired or name == 'a' else 1000
      finished_runs.write_versions(folder / name, answers, stored, first_digest=digest)
    results = compare(folder, 'ab')
    assert ('mCE' in set(results.table['quantity'])) == paired
    tables.append(accuracy_rows(folder / 'out').dropna(axis=1, how='all'))
  pd.testing.assert_frame_equal(*tables)
  assert set(tables[0].n) == {COUNT}
  assert views_of(tables[0]) == ['clean', 'fog', 'contrast', '1', '5', 'shown']
  first, second = (correct(seed)[:, 1:].sum(1, dtype=int) for seed in (0, 1))
  together = accuracy_of(folder / 'out', 'b', 'a', corruption_set='shown')
  p = float(sign_flip(second - first)) if paired else float('nan')
  assert together.p == pytest.approx(p, nan_ok=True)


def views_of(table):
  """Returns the groups of views of a table as texts, in the order of the rows."""
  facets = table[facets_of(table)]
  return list(dict.fromkeys(' '.join(map(str, row.dropna())) for _, row in facets.iterrows()))


def replace_value(workdir, column, old, new):
  """Replaces a value in a column of the stored rows of a run."""
  records = Records.open(workdir / 'records' / 'net')
  arrays = dict(records.read(0, 0).arrays)
  arrays[column] = np.where(arrays[column] == old, new, arrays[column])
  records.write(0, 0, arrays)


def test_only_views_that_all_have_are_compared(tmp_path):
  """Clean images of one run alone and means over different severities are left out."""
  finished_runs.write_versions(tmp_path / 'a', {'net': correct(0)}, True)
  finished_runs.write_versions(tmp_path / 'b', {'net': correct(1)}, True, False, 1000)
  finished_runs.write_versions(tmp_path / 'c', {'net': correct(2)}, True, False, 2000)
  compare(tmp_path, 'ab')
  assert views_of(accuracy_rows(tmp_path / 'out')) == ['fog', 'contrast', '1', '5', 'shown']
  replace_value(tmp_path / 'b', 'severity', 5, 3)
  compare(tmp_path, 'ab')
  assert views_of(accuracy_rows(tmp_path / 'out')) == ['1']
  replace_value(tmp_path / 'c', 'severity', 1, 3)
  refused(r'b, .*c have no group of views in common', compare, tmp_path, 'bc')
  finished_runs.write_versions(tmp_path / 'd', {'net': correct(3)}, True)
  replace_value(tmp_path / 'd', 'base_id', 0, COUNT)
  message = 'a and d share stored images, but not which are versions of one image'
  refused(message, compare, tmp_path, 'ad')


def write_scene_run(folder, stored):
  """Writes a workdir with 12 pairs of 4 objects and 3 backgrounds, each at 3 places.

  Scenes with too little of the object inside the image do not count: the classifier one is wrong
  on all of them and the classifier two is right.
  """
  places = (0.1, 0.5, 0.9)
  size = np.stack([20 + 0 * PAIRS, 20 + 4 * (PAIRS // 3)], 1)
  study = si_score.SiScore(factor='cross', areas=(0.2,), xs=places, min_inside=0.75)
  columns = {'object': PAIRS // 3, 'background': PAIRS % 3, 'imagenet_class': 105 + 0 * PAIRS}
  composed = {**columns, 'foreground_size': size}
  counted = study._visible_fractions(composed.__getitem__, finished_runs.SHAPE[0]) >= np.float32(
    0.75
  )
  assert 0 < counted.mean() < 1
  answers = np.random.default_rng(0).random((2, *counted.shape)) > 0.4
  right = {'one': np.where(counted, answers[0], False), 'two': np.where(counted, answers[1], True)}
  if not stored:
    return finished_runs.write_scenes(folder, study, right, composed)
  pair, level = np.divmod(np.arange(counted.size), len(places))
  scene_columns = {name: values[pair] for name, values in columns.items()}
  scene_columns |= {k: getattr(study.design, k)[level] for k in ('x', 'y', 'area', 'angle')}
  scene_columns['fraction_inside'] = np.where(counted, 1, 0.1).ravel()
  released = si_score.SiScore(factor='location', stored=True, min_inside=0.75)
  single = {label: answers.reshape(-1, 1) for label, answers in right.items()}
  return finished_runs.write_scenes(folder, released, single, scene_columns)


@pytest.mark.slow
@pytest.mark.parametrize('stored', [True, False])
def test_scenes_that_do_not_count_are_left_out_and_objects_are_the_clusters(tmp_path, stored):
  run = write_scene_run(tmp_path / 'run', stored)
  program.run([str(run)], tmp_path / 'out')
  facets = {'view': 'as stored' if stored else 'all views'}
  first, second = (accuracy_of(tmp_path / 'out', label, **facets) for label in ('one', 'two'))
  for row in (first, second):
    study = estimate(Results.read(tmp_path / 'out').table, row.classifier, 'accuracy')
    assert (row.n, row.clusters) == (study.n, 4) and row.clusters < row.n
    assert (row.value, row.low, row.high) == pytest.approx((study.value, study.low, study.high))
  difference = accuracy_of(tmp_path / 'out', 'two', 'one', **facets)
  assert difference.value == pytest.approx(second.value - first.value)
  assert difference.p > 0.1, 'four objects are too few for significance'


@pytest.mark.slow
def test_enough_classifiers_have_effective_robustness(tmp_path, monkeypatch):
  """Accuracies in fog are 0.1 below the clean 0.9, 0.8, 0.7 and 0.6, but 0.2 above the last."""
  monkeypatch.undo()  # draws the figures
  clean, shifted = (
    {f'net{i}': (np.arange(COUNT) >= wrong).tolist() for i, wrong in enumerate(numbers)}
    for numbers in ((4, 8, 12, 16), (8, 12, 16, 8))
  )
  finished_runs.write_corrupted(tmp_path / 'run', clean, shifted)
  compare(tmp_path, ['run'])
  table = Results.read(tmp_path / 'out').table
  of_fog = functools.partial(estimate, corruption='fog')
  above, on_line = (of_fog(table, name, 'effective_robustness') for name in ('net3', 'net1'))
  assert above.value > 0.2 and above.low > 0 and above.method == 'bootstrap'
  assert abs(on_line.value) < 0.1


def test_headlines_are_printed_first_then_accuracies_clean_and_over_all_other_views(
  tmp_path, capsys
):
  finished_runs.write_versions(tmp_path / 'a', {'net': correct(0), 'other': correct(1)}, False)
  assert program.main([str(tmp_path / 'a'), f'--out={tmp_path / "out"}']) == 0
  printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith('top-1')]
  assert [line.partition(' (')[0] for line in printed] == [
    *('top-1 error over the shown corruptions', 'top-1 accuracy on clean images'),
    *('top-1 accuracy in view shown', 'top-1 error on clean images'),
  ]


def test_the_printed_summary_begins_with_the_mce_where_a_study_has_one():
  value, clean = Estimate(0.5, 0.4, 0.6, 10, 10, 'exact'), {'view': 'clean'}
  measured = (ACCURACY, clean), (MCE, {}), (ERROR, {})
  table = assemble(
    [
      table_of_rows(
        [table_row('net', '', quantity, facets, value, 0.95) for quantity, facets in measured]
      )
    ]
  )
  quantities = MCE, ERROR, ACCURACY
  settings = {PRINTED_FACETS: [clean]}
  results = Results('comparison', [], {}, settings, table=table, quantities=quantities)
  names = [row.name for row in headlines.headline_texts(program._keep_printed(results).by_task)]
  clean_words = 'top-1 accuracy on clean images (%)'
  assert names == ['mean corruption error (%)', 'top-1 error (%)', clean_words]


def test_figures_of_a_study_of_a_wrong_form_are_refused(monkeypatch):
  monkeypatch.setattr(Accuracy, 'figures', lambda self, results: [1])
  results = Results('comparison', [], {}, {}, table=assemble([]))
  refused('figures of comparison', program._presentation(Accuracy()).figures, results)


def test_the_clean_accuracy_of_a_study_is_printed_once():
  value, clean = Estimate(0.5, 0.4, 0.6, 10, 10, 'exact'), {'view': 'clean'}
  measured = (ACCURACY, clean), (CLEAN_ACCURACY, {})
  rows = [table_row('net', '', quantity, facets, value, 0.95) for quantity, facets in measured]
  table = assemble([table_of_rows(rows)])
  settings, quantities = {PRINTED_FACETS: [clean]}, (ACCURACY, CLEAN_ACCURACY)
  results = Results('comparison', [], {}, settings, table=table, quantities=quantities)
  assert program._keep_printed(results).table['quantity'].tolist() == [CLEAN_ACCURACY.name]


def test_an_accuracy_that_equals_a_headline_by_chance_is_printed_with_the_others():
  share = Quantity('share', 'share', headline=True, better='higher')
  measured = ((share, {}, (0.5, 0.3)), (ACCURACY, {'view': 'clean'}, (0.5, 0.4)))
  measured += ((ACCURACY, {'view': 'shown'}, (0.5, 0.3)),)
  rows = [
    table_row(label, '', quantity, facets, Estimate(value, 0, 1, 10, 10, 'exact'), 0.95)
    for quantity, facets, values in measured
    for label, value in zip('ab', values, strict=True)
  ]
  views = [facets for quantity, facets, _ in measured if quantity is ACCURACY]
  table = assemble([table_of_rows(rows)])
  settings = {PRINTED_FACETS: views}
  results = Results('comparison', [], {}, settings, table=table, quantities=(share, ACCURACY))
  printed = program._keep_printed(results).table
  accuracies = printed[printed['quantity'] == ACCURACY.name]
  assert accuracies[['classifier', 'view']].to_numpy().tolist() == [['a', 'clean'], ['b', 'clean']]


@pytest.mark.slow
def test_effective_robustness_is_estimated_from_two_reference_sets(tmp_path):
  """All classifiers but net2 are on a plane in the logits of their accuracies on three sets."""
  wrong = np.array([[4, 9, 11, 16, 18, 24], [10, 6, 15, 9, 20, 17]])
  accuracy = special.logit(1 - wrong / COUNT)
  third = special.expit(0.6 * accuracy[0] + 0.3 * accuracy[1] - 0.5)
  third[2] += 0.25
  counts = {'one': wrong[0], 'two': wrong[1], 'third': np.rint((1 - third) * COUNT).astype(int)}
  tasks = {}
  for name, numbers in counts.items():
    right = {f'net{i}': (np.arange(COUNT) >= n).tolist() for i, n in enumerate(numbers)}
    finished_runs.write(tmp_path / name, right, data={'name': name})
    tasks[name] = tmp_path / name
  battery = str(finished_runs.write_battery(tmp_path / 'battery', tasks))
  arguments = [battery, f'--out={tmp_path / "out"}', '--reference=one', '--reference=two']
  assert program.main(arguments) == 0
  table = Results.read(tmp_path / 'out').table
  values = select(table, 'effective_robustness', task='third', view=..., reference='one and two')
  by_name = values.set_index('classifier').value
  assert by_name['net2'] == pytest.approx(0.25, abs=0.05) and by_name.idxmax() == 'net2'
  tasks = {}
  for name, answers in Results.read(tmp_path / 'out').by_task.items():
    table = answers.table[answers.table['quantity'] == 'accuracy'].astype(object)
    unknown = table.assign(quantity='change_norm', value=np.nan, n=0)
    tasks[name] = dataclasses.replace(answers, table=assemble([table, unknown]))
  repeated = with_references(tasks, ['one', 'two'])['third'].table
  robustness = select(repeated, 'effective_robustness', view=..., reference='one and two')
  assert robustness.n.tolist() == [COUNT] * 6 and robustness.value.tolist() == values.value.tolist()
  plain = tasks['one'].table
  in_fog = plain.assign(view=None, corruption='fog', value=plain.value[::-1].to_numpy())
  corrupted = dataclasses.replace(tasks['one'], table=assemble([in_fog, plain]))
  refused(
    '--reference=one: .* but of fog, ', with_references, tasks | {'one': corrupted}, ['one', 'two']
  )
  with_overall = assemble([in_fog, plain.assign(view='all views')])
  corrupted = dataclasses.replace(corrupted, table=with_overall)
  repeated = with_references(tasks | {'one': corrupted}, ['one', 'two'])['third'].table
  robustness = select(repeated, 'effective_robustness', view=..., reference='one and two')
  assert robustness.value.tolist() == values.value.tolist()
  refused("'three'", program.run, [battery], tmp_path / 'out', references=['three'])
  refused('every task', program.run, [battery], tmp_path / 'out', references=list(counts))


def test_a_quantity_of_comparison_and_study_by_the_same_facets_is_listed_once(tmp_path):
  """The rows of the comparison, with intervals, replace those that calibration has without."""
  for seed, name in enumerate('ab'):
    answers = {'net': correct(seed)}
    finished_runs.write_versions(tmp_path / name, answers, False, name='calibration')
  compare(tmp_path, 'ab')
  table = Results.read(tmp_path / 'out').table
  for facets in ({'corruption': 'fog'}, {'view': 'clean'}):
    row = estimate(table, 'b', 'accuracy', **facets)
    assert row.low < row.value < row.high
  alone = estimate(table, 'b', 'accuracy', corruption='fog', severity=1)
  assert alone.value == pytest.approx(correct(1)[:, 1].mean()) and np.isnan(alone.low)
  assert estimate(table, 'b', 'ece', 'a', corruption='fog').method == 'bootstrap'


def test_classifiers_of_all_workdirs_have_distinct_labels():
  labels = distinct_labels({'net': {'a'}, 'other': {'net', 'a'}})
  assert set(labels.values()) == {'net a', 'other net', 'other a'}
  with_spaces = distinct_labels({'a b': {'c', 'x'}, 'a': {'b c', 'x'}, 'z': {'c', 'b c'}})
  assert set(with_spaces.values()) > {'a b / c', 'a / b c'} and len(set(with_spaces.values())) == 6


def test_workdirs_of_one_name_are_refused_before_anything_is_written(workdirs, tmp_path):
  refused('have one name', program.main, [*2 * workdirs[:1], f'--out={tmp_path / "out"}'])
  labelled = 2 * [f'a={workdirs[0]}']
  refused(f'in first={workdirs[0]}', program.main, [*labelled, f'--out={tmp_path / "out"}'])
  assert not (tmp_path / 'out').exists()


def test_different_studies_and_unfinished_ones_are_refused(workdirs, tmp_path):
  clean = {'net': FIRST}
  finished_runs.write_corrupted(tmp_path / 'fog', clean, clean)
  finished_runs.write_corrupted(tmp_path / 'five', clean, clean, severity=5)
  next(pathlib.Path(workdirs[1]).glob('records/*/*.npz')).unlink()
  for names, message in (
    (('one', 'fog'), 'one has results of accuracy and fog of corruption_error'),
    (('fog', 'five'), r'fog and five were shown .* differently.*severities: \(1,\)'),
    (('one', 'other'), 'not finished'),
    (('one',), 'at least two classifiers'),
  ):
    refused(message, compare, tmp_path, names)
  refused('is a workdir: give a folder', program.run, list(workdirs), pathlib.Path(workdirs[0]))


PRIVATE = """
from robustness.corruptions.corruption import corruption

@corruption('factor', {32: (.9, .8, .7, .6, .5)}, family='alone')
def darken(key, image, strength):
  return image * strength['factor']
"""


def test_a_private_corruption_is_compared_without_its_file_or_left_out(tmp_path, capsys):
  file, clean, shifted = tmp_path / 'mine.py', {'net': FIRST}, {'net': SECOND}
  file.write_text(PRIVATE)
  names = {'one': ('fog', f'{file}:darken'), 'same': ('fog', f'{file}:darken'), 'fog': ('fog',)}
  for name, corruptions in names.items():
    finished_runs.write_corrupted(tmp_path / name, clean, shifted, corruptions=corruptions)
  file.write_text(PRIVATE.replace('image *', '0 *'))
  finished_runs.write_corrupted(tmp_path / 'changed', clean, shifted, corruptions=names['one'])
  file.write_text('raise AssertionError("the file of results is run")')
  expected = pytest.approx(np.mean(SECOND))
  compare(tmp_path, ('one', 'same'))
  for corruption in ('fog', 'darken'):
    accuracy = accuracy_of(tmp_path / 'out', 'same', corruption=corruption)
    assert accuracy.value == expected
  assert not capsys.readouterr().err
  for other in ('fog', 'changed'):
    results = compare(tmp_path, ('one', other))
    assert 'note: one: not all runs show the same darken 1: left out\n' in capsys.readouterr().err
    accuracy = accuracy_of(tmp_path / 'out', other, corruption='fog')
    assert accuracy.value == expected
    assert set(results.table.corruption.dropna()) == {'fog'}
    assert {'error', 'mCE'} <= set(results.table['quantity'])
    assert results.settings['corruptions'] == ('fog',) and 'files' not in results.settings


def test_a_typed_label_names_the_only_classifier_of_its_workdir(tmp_path, capsys):
  finished_runs.write(tmp_path / 'one', {'net': FIRST})
  finished_runs.write(tmp_path / 'other', {'plain': SECOND})
  typed = [f'mine={tmp_path / "one"}', str(tmp_path / 'other')]
  program.main([*typed, f'--out={tmp_path / "out"}'])
  assert set(Results.read(tmp_path / 'out').labels) == {'mine', 'plain'}
  labels = distinct_labels({'mine': {'a', 'b'}, 'x': {'c'}}, typed=('mine', 'x'))
  assert set(labels.values()) == {'a', 'b', 'x'}


def test_tasks_that_one_run_lacks_are_named(tmp_path, capsys):
  for name, tasks in (('a', ('clean', 'fog')), ('b', ('clean',))):
    parts = {
      'clean': finished_runs.write(tmp_path / f'{name}_plain', {'net': FIRST}),
      'fog': finished_runs.write_corrupted(
        tmp_path / f'{name}_fog', {'net': FIRST}, {'net': SECOND}
      ),
    }
    finished_runs.write_battery(tmp_path / name, {task: parts[task] for task in tasks})
  program.main([str(tmp_path / 'a'), str(tmp_path / 'b'), f'--out={tmp_path / "out"}'])
  assert 'note: task fog is left out: only a has it' in capsys.readouterr().err
