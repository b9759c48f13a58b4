"""Headline quantities come first: each value if there are few, the worst one if there are many."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from robustness.combined import join_tasks
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, ERROR, Quantity
from robustness.estimates.table import assemble
from robustness.present import charts, headlines, selection, summary, text
from robustness.present.summary import battery_findings
from robustness.results import Results

COUNT = 50
CORRUPTIONS = ('fog', 'snow', 'frost', 'blur', 'rain', 'sand', 'haze', 'dusk')
ATTACK = Quantity('attack_error', 'error under attack', better='lower', headline=True)
SCORE = Quantity('score', 'score', kind='amount', better='lower', headline=True)


def made(by_quantity: Mapping[Quantity, Mapping[str, Sequence[float]]]) -> Results:
  """Returns results of 50 images with these values of each quantity and classifier.

  A classifier has one value over all images, or one for each of the first `CORRUPTIONS`.
  """
  parts, labels = [], dict[str, None]()
  for quantity, by_label in by_quantity.items():
    labels |= dict.fromkeys(by_label)
    count = len(next(iter(by_label.values())))
    facets = {'corruption': CORRUPTIONS[:count]} if count > 1 else {}
    views, values = pd.DataFrame(facets, index=range(count)), {}
    for label, numbers in by_label.items():
      shares = np.arange(COUNT)[:, None] < np.round(COUNT * np.array(numbers))
      amounts = np.broadcast_to(np.array(numbers), shares.shape)
      values[label] = shares if quantity.kind == 'share' else amounts
    parts.append(means(quantity, Outcomes(values, views), tuple(facets)))
  described, data = [{'label': label} for label in labels], {'num_examples': COUNT}
  return Results('made', described, data, {}, table=assemble(parts), quantities=tuple(by_quantity))


CORRUPTION_ERRORS = {'plain': (0.2, 0.6, *6 * [0.1]), 'other': (0.3, 0.3, 0.9, *5 * [0.2])}
TASKS = {
  'clean': made({ACCURACY: {'plain': (0.96,), 'other': (0.9,)}}),
  'corruptions': made({ERROR: CORRUPTION_ERRORS}),
  'attack': made({ATTACK: {'plain': (1.0,)}, SCORE: {'plain': (3.0,)}}),
}


def test_an_undefined_value_has_its_note_in_the_row():
  results = made({ACCURACY: {'a': (0.9,), 'b': (0.5,), 'c': (0.6,)}, ERROR: {'a': (0.2, 0.4)}})
  rows = results.table
  lost = (rows.classifier == 'b') & (rows.versus == '') & (rows['quantity'] == ACCURACY.name)
  results.table.loc[lost, ['value', 'low', 'high']] = np.nan
  results.table.loc[lost, 'note'] = 'undefined; b compensates'
  table = headlines.table({'': results})
  assert table.columns[:4] == ('', 'a', 'b', 'c')
  assert table.rows[0][2] == 'undefined' and table.rows[0][3].startswith('60')


def test_single_classes_have_at_most_three_lines_in_the_terminal():
  names, shares = list('abcdefghij'), np.arange(COUNT)[:, None] < np.arange(30, 50, 2)
  parts, quantities = [], []
  for name in ('one', 'two', 'three'):
    quantity = Quantity(name, f'accuracy {name}', better='higher', headline=True)
    outcomes = Outcomes({'x': shares, 'y': shares}, pd.DataFrame({'class': names}))
    parts.append(means(quantity, outcomes, ('class',)))
    quantities.append(quantity)
  described, data = [{'label': label} for label in 'xy'], {'num_examples': COUNT}
  results = Results('made', described, data, {}, table=assemble(parts), quantities=(*quantities,))
  lines = text.summary(results)
  assert sum('in class' in line for line in lines) == 2, 'a second headline would have four'
  assert lines[-1] == 'further headlines of single classes are in the report'


def test_few_values_have_a_row_each_and_many_have_one_row_for_the_worst():
  few = made({ERROR: {'a': (0.2, 0.4), 'b': (0.2, 0.2)}})
  table = headlines.table({'': few})
  assert table.columns == ('', 'a', 'b', 'b − a')
  names = [f'top-1 error under {name} (%)' for name in ('fog', 'snow')]
  assert [row[0] for row in table.rows] == names
  assert table.rows[1][1].startswith('40 (') and table.rows[1][3].startswith('−20 (')
  ((name, first, other, note),) = headlines.table({'': TASKS['corruptions']}).rows
  assert name == 'highest top-1 error of 8 corruptions (%)'
  # 8 corruptions × 2 networks are 16 simultaneous intervals; 30 of 50 images are wrong.
  low, high = (round(100 * end) for end in clopper_pearson(30, COUNT, 1 - 0.05 / 16))
  assert first == f'60 ({low} to {high}) under snow'
  assert other.endswith('frost') and note == 'simultaneous over 8 corruptions and 2 networks'


def test_a_single_estimate_is_named_by_its_place_and_not_called_the_highest():
  single = made({ERROR: {'a': (0.2, 0.4), 'b': (0.3, 0.5)}})
  single.table = single.table[single.table.corruption == 'snow'].assign(score='knn')
  ((name, *values),) = headlines.table({'': single}).rows
  assert name.startswith('top-1 error under snow') and 'of 1' not in name
  assert values[0].startswith('40 (') and values[1].startswith('50 (')


def test_equally_bad_corruptions_are_all_named():
  for quantity, values in ((ERROR, [0.9, 0.9]), (ACCURACY, [0.1, 0.1])):
    tied = made({quantity: {'plain': (*values, *6 * [0.5])}})
    ((_, worst, note),) = headlines.table({'': tied}).rows
    assert worst.endswith(') under fog and snow') and note == 'simultaneous over 8 corruptions'
  ((_, everywhere, _),) = headlines.table({'': made({ERROR: {'plain': 8 * [0.5]}})}).rows
  assert everywhere.endswith(') everywhere')


def test_a_value_over_all_comes_before_values_by_a_facet_or_by_class():
  views = pd.DataFrame({'class': ['ant', 'bee']})
  by_class = means(ERROR, Outcomes({'a': np.eye(2, dtype=bool)}, views), ('class',))
  single, by_corruption = made({ERROR: {'a': (0.2,)}}), made({ERROR: {'a': (0.2, 0.4)}})
  for results, names in (
    (single, ['top-1 error']),
    (by_corruption, ['top-1 error under fog', 'top-1 error under snow']),
  ):
    results.table = assemble([results.table, by_class])
    assert [headline.name for headline in selection.headlines({'': results})] == names
  battery = {'clean': dataclasses.replace(results, table=assemble([by_class])), 'noisy': single}
  tasks = [finding.task for finding in battery_findings(battery)]
  assert tasks[0] == 'noisy' and 'clean' in tasks, 'classes come after the next tasks'
  assert [headline.task for headline in selection.headlines(battery)] == ['noisy', 'clean', 'clean']
  results.table = assemble([by_class])
  words = [headline.words for headline in selection.headlines({'': results})]
  assert words == ['top-1 error in class ant', 'top-1 error in class bee']


def test_a_classifier_without_a_headline_has_no_column_and_notes_have_one():
  results = made({ERROR: {'a': (0.2,), 'b': (0.4,)}})
  results.table.loc[0, 'note'] = 'few images'
  table = headlines.table({'': results})
  assert table.columns[-1] == 'note' and table.rows[0][-1] == 'a: few images'
  three = made({ERROR: {'a': (0.2,), 'b': (0.4,), 'c': (0.4,)}})
  for notes, joined_notes in (
    (('few', 'few', 'none', '', 'few'), 'a, b, c − a: few; c: none'),
    (5 * ['few'], 'few'),
  ):
    three.table['note'] = notes
    assert headlines.table({'': three}).rows[0][-1] == joined_notes, 'once if all have it'
  results.table = results.table[results.table.classifier == 'b']
  assert headlines.table({'': results}).columns == ('', 'b', 'b − a')


def test_a_battery_lists_the_headlines_of_its_tasks_and_the_worst_tasks_of_a_classifier():
  battery = join_tasks(TASKS, {})
  table = headlines.table(battery.by_task)
  rows = {row[0]: row[1:] for row in table.rows}
  assert table.columns == ('', 'plain', 'other', 'other − plain', 'note')
  assert list(rows) == [
    *('clean: top-1 accuracy (%)', 'corruptions: highest top-1 error of 8 corruptions (%)'),
    *('attack: error under attack (%)', 'attack: score'),
  ]
  gain = dataclasses.replace(ACCURACY, name='gain', low=-1)
  auroc = Quantity('auroc', 'area under the ROC curve', better='higher', headline=True)
  unlike = {quantity.name: made({quantity: {'plain': (0.0,)}}) for quantity in (gain, auroc)}
  places = summary.worst_tasks(selection.headlines({**TASKS, **unlike}), 'plain')
  assert [headline.task for headline, _ in places] == ['attack', 'clean'], 'errors over all alone'
  low, _ = clopper_pearson(COUNT, COUNT, 1 - 0.05 / 2)
  assert places[0][1].low == pytest.approx(low) and places[0][1].family == 2
  attacked, missing, *_ = rows['attack: error under attack (%)']
  assert attacked.startswith('100 (') and missing == ''
  low, high = (100 * end for end in clopper_pearson(45, COUNT, 1 - 0.05 / 16))
  largest = f'90 ({low:.0f} to {high:.0f}) under frost'
  assert rows['corruptions: highest top-1 error of 8 corruptions (%)'][1] == largest


def test_the_overview_says_where_a_classifier_is_worst_and_draws_each_unit_and_direction():
  plain, other = (finding.text for finding in battery_findings(TASKS)[:2])
  low, high = (100 * end for end in clopper_pearson(2, COUNT, 1 - 0.05 / 2))
  attack, clean = plain.split('Of all tasks, plain errs most in ')[1].split('; then ')
  assert attack.startswith('attack: error under attack, 100\N{NO-BREAK SPACE}% (')
  interval = f'({low:.0f} to {high:.0f})'
  end = 'Intervals are simultaneous over 2 errors of the tasks.'
  assert clean == f'clean: top-1 error, 4\N{NO-BREAK SPACE}% {interval}. {end}', '1 − accuracy'
  assert other.startswith('clean: '), 'it has one error over all'
  first = battery_findings({'clean': TASKS['clean']})[0].text
  assert first.startswith('clean: '), 'no choice'
  figures = headlines.draw(TASKS)
  assert set(figures) == {'overview_share_higher', 'overview_share_lower', 'overview_amount_lower'}
  figure, caption = figures['overview_share_lower']
  assert len(figure.axes[0].get_yticks()) == 2 and 'lower is better' in caption
  assert f' intervals{charts.JOINT}.' in caption
  _, caption = figures['overview_share_higher']
  assert ' intervals. Differences are from plain, paired; a dot marks ' in caption
  in_percent = Quantity('mCE', 'mCE', 'ratio', 'lower', '%', headline=True)
  assert list(headlines.draw({'': made({in_percent: {'plain': (1.0,)}})})) == [
    'overview_ratio_percent_lower'
  ]


def test_the_terminal_lists_classifiers_as_the_config_does_and_heads_a_single_one():
  results = made({ERROR: {'b': (0.2,), 'a': (0.4,)}})
  config = [{'label': label} for label in ('a', 'b')]
  _, first, second = text.summary(dataclasses.replace(results, classifiers=config))
  assert first.startswith('top-1 error (%)  a  40 (') and second.strip().startswith('b  20 (')
  first, second = text.summary(made({ERROR: {'alone': (0.2,)}}))
  assert first.strip() == 'alone' and second.startswith('top-1 error (%)  20 (')


def test_a_headline_that_two_parts_share_is_listed_once():
  repeated = selection.headlines({**TASKS, 'again': TASKS['clean']})
  names = [headline.name for headline in selection.headlines(TASKS)]
  assert [headline.name for headline in repeated] == names


def test_a_quantity_heads_a_report_by_the_facets_it_declares_in_their_order():
  by = dataclasses.replace(ERROR, by=('kind', 'view', 'absent'))
  views = pd.DataFrame(
    [('b', 'corrupted'), ('a', 'corrupted'), ('b', 'clean'), ('a', 'clean')],
    columns=['kind', 'view'],
  )
  wrong = Outcomes({'net': np.eye(4, dtype=bool)}, views)
  table = assemble([means(by, wrong), means(by, wrong, ('kind', 'view'))])
  results = Results('made', [{'label': 'net'}], {}, {}, table=table, quantities=(by,))
  places = [headline.condition for headline in selection.headlines({'': results})]
  kinds = 'corrupted', 'clean'
  assert places == [f'in {kind} on {view} images' for kind in 'ba' for view in kinds]
  results.table = assemble([means(by, wrong)])
  assert [headline.words for headline in selection.headlines({'': results})] == ['top-1 error']


def test_the_share_farthest_above_its_reference_is_chosen_and_the_reference_has_a_row():
  """Frost is as far above its reference as snow, with another value that is not reported."""
  reference = Quantity('taken', 'share of others', drawn=True)
  through = Quantity('through', 'share', headline=True, extreme='highest', reference='taken')
  values = {through: (0.9, 0.8, 0.9, *5 * [0.1]), reference: (0.9, 0.1, 0.2, *5 * [0.1])}
  results = made({quantity: {'net': shares} for quantity, shares in values.items()})
  (first, share, *_), (second, reference_share, *_) = headlines.table({'': results}).rows
  assert (first, second) == ('share, clearest of 8 corruptions (%)', 'share of others, there (%)')
  assert share.startswith('80 (') and share.endswith(' under snow')
  assert reference_share.startswith('10 (') and reference_share.endswith(' under snow')


def test_single_classes_come_after_values_by_any_other_facet():
  facets = {'class': [f'class {name}' for name in CORRUPTIONS], 'corruption': CORRUPTIONS}
  quantities = ERROR, ATTACK
  tables = [
    means(
      quantity, Outcomes({'a': np.eye(count, 8, dtype=bool)}, pd.DataFrame({name: values})), (name,)
    )
    for count, quantity in enumerate(quantities, 8)
    for name, values in facets.items()
  ]
  results = Results('made', [{'label': 'a'}], {}, {}, table=assemble(tables), quantities=quantities)
  by = [candidate.facets[0] for candidate in selection.selections(results)]
  assert by and by == sorted(by, key=lambda name: name == 'class')


def test_a_single_class_is_no_task_in_which_a_classifier_errs_most():
  views = pd.DataFrame({'class': ['ant', 'bee']})
  by_class = means(ERROR, Outcomes({'a': np.eye(4, 2, dtype=bool)}, views), ('class',))
  over_all = means(
    ATTACK, Outcomes({'a': np.eye(4, 1, dtype=bool)}, pd.DataFrame(index=range(1))), ()
  )
  tasks = {
    name: Results('made', [{'label': 'a'}], {}, {}, table=assemble([table]), quantities=(quantity,))
    for name, table, quantity in (
      ('x', by_class, ERROR),
      ('y', over_all, ATTACK),
      ('z', over_all, ATTACK),
    )
  }
  worst = summary.worst_tasks(selection.headlines(tasks), 'a')
  assert all('class' not in headline.facets for headline, _ in worst)
  candidates = [
    head
    for name in tasks
    for head in selection.headlines_of_quantity(
      tasks[name].table, tasks[name].quantities[0], (), name
    )
  ]
  assert [headline.task for headline, _ in summary.worst_tasks(candidates, 'a')] == ['y', 'z']
