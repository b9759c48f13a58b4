"""Results of a battery and of several seeds: one table, its sentences and figures."""

import copy
import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest

from robustness.combined import join_tasks, mean_over_seeds
from robustness.estimates import means as rows_of_means
from robustness.estimates.intervals import CLOPPER_PEARSON
from robustness.estimates.means import Estimate, estimate_row, means
from robustness.estimates.quantity import ACCURACY, ERROR, Quantity
from robustness.estimates.table import assemble, facets_of
from robustness.present import charts, style, tables
from robustness.present.summary import (
  _without_intervals,
  battery_findings,
  draw_seeds,
  most_changed,
  present_run,
)
from robustness.results import SUMMARIES, Results
from robustness.studies.accuracy import Accuracy
from tests import faults
from tests.estimates.means_test import made
from tests.present.headlines_test import made as headlined

CHANGED = Quantity('changed', 'changed answers', better='lower')
LABELS = [{'label': label} for label in made().labels]


def task(quantity: Quantity, by: tuple[str, ...]) -> Results:
  """Returns results of a task that measures a quantity by these facets."""
  table = assemble([means(quantity, made(), by)])
  declared = (quantity,) if quantity.name == 'error' else (ERROR, quantity)
  settings = {'num_examples': 5}, {'name': 'made'}
  return Results('made', LABELS, *settings, table=table, quantities=declared)


def test_the_table_of_a_battery_holds_the_rows_and_declarations_of_each_part(tmp_path):
  tasks = {'clean': task(ERROR, ()), 'far': task(CHANGED, ('corruption', 'severity'))}
  named_as_setting = join_tasks({'precision': tasks['far']}, {'precision': 'float32'})
  assert named_as_setting.by_task['precision'].study == 'made'
  join_tasks(tasks, {}).write(tmp_path)
  read = Results.read(tmp_path)
  assert facets_of(read.table) == ['task', 'corruption', 'severity']
  for name, part in tasks.items():
    rows = read.table[read.table.task == name].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows[list(part.table.columns)], part.table, check_dtype=False)
  assert len(read.table) == sum(len(part.table) for part in tasks.values())
  assert read.quantities == (ERROR, CHANGED)
  # Two tasks that declare one name differently each keep their declaration.
  renamed = dataclasses.replace(ERROR, words='error over all scenes')
  tasks = {'one': task(ERROR, ('corruption',)), 'two': task(renamed, ())}
  join_tasks(tasks, {}).write(tmp_path)
  read = Results.read(tmp_path)
  assert read.quantities == (ERROR, renamed)
  for name, part in tasks.items():
    read_part = read.by_task[name]
    assert read_part.quantities == part.quantities and read_part.study == 'made'
    pd.testing.assert_frame_equal(read_part.table, part.table)


def test_a_task_that_is_called_accuracy_keeps_its_name_among_errors():
  estimate = Estimate(0.75, 0.65, 0.85, 80, 80, CLOPPER_PEARSON)
  rows = rows_of_means.table_of_rows([estimate_row('net', '', ACCURACY, {}, estimate, 0.95)])
  results = Results('made', [], {}, {}, table=assemble([rows]), quantities=(ACCURACY,))
  noisy = dataclasses.replace(results, table=results.table.assign(value=0.8))
  first = battery_findings({'accuracy_clean': results, 'noise': noisy})[0].text
  assert first.startswith('Of all tasks, net errs most in accuracy clean: top-1 error, 25\xa0%')


@pytest.mark.parametrize('summary', SUMMARIES)
@pytest.mark.parametrize('has_seeds', [False, True])
def test_reports_on_several_tasks_and_seeds_can_be_pickled(summary, has_seeds):
  presentation = present_run(summary, {'errors': Accuracy(), 'other': Accuracy()}, has_seeds)
  assert pickle.loads(pickle.dumps(presentation)).title == presentation.title


def test_sentences_of_parts_follow_their_names_and_their_figures_are_not_repeated():
  battery = join_tasks({'one': task(ERROR, ('corruption',)), 'two': task(ERROR, ())}, {})
  assert not charts.draw(battery) and not list(tables.tables(battery))
  presented = present_run('', {})
  first, *_, last = (finding.text for finding in presented.findings(battery))
  assert first.startswith('Of all tasks, first errs most in one: ') and last.startswith('two: ')
  assert list(presented.figures(battery)) == ['overview_share_lower']


SLOPE = Quantity('slope', 'slope', kind='amount', headline=True)
BY_SEED = {
  seed: headlined({ACCURACY: {'a': (first,), 'b': (0.5,)}, SLOPE: {'a': (2.0 + seed,)}})
  for seed, first in ((0, 0.8), (7, 0.9))
}
THREE_SEEDS = {**BY_SEED, 9: BY_SEED[7]}


def test_the_figure_of_seeds_has_a_line_per_headline_with_a_dot_per_seed():
  ((name, (figure, caption)),) = draw_seeds(mean_over_seeds(BY_SEED)).items()
  assert name == 'seeds' and 'Each of 2 seeds (dots) and their mean. ' in caption
  (finding,) = _without_intervals(mean_over_seeds(BY_SEED).over_seeds)
  assert finding.text.startswith('Means over 2 seeds have no interval')
  assert not _without_intervals(mean_over_seeds(THREE_SEEDS).over_seeds)
  shares, slope = figure.axes
  texts = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
  assert texts == [['top-1 accuracy, a', 'top-1 accuracy, b'], ['slope, a']]
  assert shares.get_xlabel() == 'value (%)' and slope.get_xlabel() == 'value'
  dots = np.concatenate([line.get_xdata() for line in shares.lines if line.get_marker() == 'o'])
  assert sorted(dots) == pytest.approx([50, 50, 80, 90])
  means = [line.get_color() for line in shares.lines if line.get_marker() == style.MARKERS[3]]
  assert means == [style.colour(0), style.colour(1)]


def test_the_caption_has_the_confidence_of_the_means_and_undeclared_headlines_are_all_drawn():
  for results in (by_seed := copy.deepcopy(THREE_SEEDS)).values():
    results.table['confidence'] = 0.9
  _, caption = draw_seeds(mean_over_seeds(by_seed))['seeds']
  assert ' with 90 % intervals (Student, over seeds). ' in caption
  many = [headlined({ERROR: {'a': np.arange(8) / count}}) for count in (8, 9, 10)]
  _, caption = draw_seeds(mean_over_seeds(dict(enumerate(many))))['seeds']
  assert f'{charts.JOINT} (Student, ' in caption
  plain = headlined({Quantity('x', 'x'): {'a': (0.5,)}})
  assert list(draw_seeds(mean_over_seeds({0: plain, 1: plain}))) == ['seeds']


def test_headlines_of_differences_alone_have_no_figure_of_seeds():
  for results in (by_seed := copy.deepcopy(BY_SEED)).values():
    table = results.table[results.table.classifier == 'a']
    results.table = table.assign(versus='b')
  assert draw_seeds(mean_over_seeds(by_seed)) == {}


def test_long_names_of_classifiers_leave_room_for_their_values():
  names = 'n' * 100, 'word ' * 20
  long = {k: headlined({ACCURACY: {names[0]: (0.1 * k,), names[1]: (0.5,)}}) for k in (1, 2)}
  figure, _ = draw_seeds(mean_over_seeds(long))['seeds']
  assert list(faults.overlaps(figure)) == []
  assert figure.axes[0].bbox.width > 200


def test_shares_that_seeds_lack_are_not_the_ones_that_change_most():
  first_seed = headlined({ACCURACY: {'a': (0.4,), 'b': (0.5,)}})
  by_seed = {
    seed: dataclasses.replace(
      first_seed,
      table=first_seed.table.assign(
        value=first_seed.table.value + 0.01 * seed * (first_seed.table.classifier == 'a')
      ),
    )
    for seed in range(5)
  }
  for seed in (0, 1):  # two of five seeds, whose interval is wide: Student's t is 12.7
    class_row = (
      by_seed[seed]
      .table.iloc[:1]
      .assign(classifier='b', value=0.7 + 0.005 * seed, **{'class': 'lynx'})
    )
    by_seed[seed] = dataclasses.replace(
      by_seed[seed], table=assemble([by_seed[seed].table, class_row])
    )
  (finding,) = most_changed(mean_over_seeds(by_seed))
  assert 'lynx' not in finding.text and ' a, ' in finding.text


def test_the_share_that_changes_most_is_found_although_intervals_are_cut():
  by_seed = {
    seed: headlined({ACCURACY: {'a': (a,), 'b': (b,)}})
    for seed, (a, b) in enumerate([(0.2, 0.0), (0.5, 0.5), (0.8, 1.0)])
  }
  (finding,) = most_changed(mean_over_seeds(by_seed))
  assert ' is b, top-1 accuracy: 50' in finding.text and finding.text.endswith('(0 to 100).')


def test_a_task_without_estimates_has_no_share_that_changes_most():
  by_seed = {}
  for seed, results in THREE_SEEDS.items():
    without_rows = dataclasses.replace(results, table=results.table[:0])
    by_seed[seed] = join_tasks({'clean': results, 'pictures': without_rows}, {})
  (finding,) = most_changed(mean_over_seeds(by_seed))
  assert ' clean, b minus a, ' in finding.text


@pytest.mark.parametrize('battery', [False, True])
def test_the_share_that_another_seed_changes_most_is_stated_as_a_mean(battery):
  by_seed: dict[int, Results] = THREE_SEEDS
  if battery:
    by_seed = {seed: join_tasks({'clean': results}, {}) for seed, results in THREE_SEEDS.items()}
  (finding,) = most_changed(mean_over_seeds(by_seed))
  sentence, rows = finding.text, finding.rows
  assert len(rows) == 1
  assert sentence.replace('\N{NO-BREAK SPACE}', ' ') == (
    'Over 3 seeds, the share that another seed changes most is '
    f'{"clean, " if battery else ""}b minus a, top-1 accuracy: −37 points (−51 to −22).'
  )
