"""What heads the findings: few rows of headline quantities, and the worst of many."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, ERROR, Quantity
from robustness.estimates.table import assemble
from robustness.present import choice, headlines
from robustness.present.summary import battery_findings
from robustness.results import Results, joined

COUNT = 50
CORRUPTIONS = ('fog', 'snow', 'frost', 'blur', 'rain', 'sand', 'haze', 'dusk')
ATTACK = Quantity('attack_error', 'error under attack', better='lower', headline=True)
SCORE = Quantity('score', 'score', kind='amount', better='lower', headline=True)


def made(of: Mapping[Quantity, Mapping[str, Sequence[float]]]) -> Results:
  parts, labels = [], dict[str, None]()
  for quantity, by_label in of.items():
    labels |= dict.fromkeys(by_label)
    count = len(next(iter(by_label.values())))
    named = {'corruption': CORRUPTIONS[:count]} if count > 1 else {}
    views, values = pd.DataFrame(named, index=range(count)), {}
    for label, given in by_label.items():
      shares = np.arange(COUNT)[:, None] < np.round(COUNT * np.array(given))
      amounts = np.broadcast_to(np.array(given), shares.shape)
      values[label] = shares if quantity.kind == 'share' else amounts
    parts.append(means(quantity, Outcomes(values, views), tuple(named)))
  described, data = [{'label': label} for label in labels], {'num_examples': COUNT}
  return Results('made', described, data, {}, table=assemble(parts), quantities=tuple(of))


SEVERAL = {'plain': (0.2, 0.6, *6 * [0.1]), 'other': (0.3, 0.3, 0.9, *5 * [0.2])}
TASKS = {
  'clean': made({ACCURACY: {'plain': (0.96,), 'other': (0.9,)}}),
  'corruptions': made({ERROR: SEVERAL}),
  'attack': made({ATTACK: {'plain': (1.0,)}, SCORE: {'plain': (3.0,)}}),
}


def test_a_classifier_whose_value_is_undefined_has_its_note_in_the_row():
  results = made({ACCURACY: {'a': (0.9,), 'b': (0.5,), 'c': (0.6,)}, ERROR: {'a': (0.2, 0.4)}})
  rows = results.table
  lost = (rows.classifier == 'b') & (rows.versus == '') & (rows['quantity'] == ACCURACY.name)
  results.table.loc[lost, ['value', 'low', 'high']] = np.nan
  results.table.loc[lost, 'note'] = 'undefined; b compensates'
  table = headlines.table({'': results})
  assert table.columns[:4] == ('', 'a', 'b', 'c')
  assert table.rows[0][2] == 'undefined' and table.rows[0][3].startswith('60')


def test_few_values_are_a_row_each_and_of_many_the_worst_is():
  few = made({ERROR: {'a': (0.2, 0.4), 'b': (0.2, 0.2)}})
  table = headlines.table({'': few})
  assert table.columns == ('', 'a', 'b', 'b − a')
  names = [f'top-1 error under {name} (%)' for name in ('fog', 'snow')]
  assert [row[0] for row in table.rows] == names
  assert table.rows[1][1].startswith('40 (') and table.rows[1][3].startswith('−20 (')
  ((name, first, other, note),) = headlines.table({'': TASKS['corruptions']}).rows
  assert name == 'highest top-1 error of 8 corruptions (%)'
  low, high = (round(100 * end) for end in clopper_pearson(30, COUNT, 1 - 0.05 / 16))
  assert first == f'60 ({low} to {high}) under snow'
  assert other.endswith('frost') and note == 'simultaneous over 8 corruptions and 2 networks'


def test_a_single_estimate_is_named_by_its_place_and_no_worst():
  own = made({ERROR: {'a': (0.2, 0.4), 'b': (0.3, 0.5)}})
  own.table = own.table[own.table.corruption == 'snow'].assign(score='knn')
  ((name, *values),) = headlines.table({'': own}).rows
  assert name.startswith('top-1 error under snow') and 'of 1' not in name
  assert values[0].startswith('40 (') and values[1].startswith('50 (')


def test_of_several_as_bad_each_is_named():
  for quantity, values in ((ERROR, [0.9, 0.9]), (ACCURACY, [0.1, 0.1])):
    several = made({quantity: {'plain': (*values, *6 * [0.5])}})
    ((_, worst, note),) = headlines.table({'': several}).rows
    assert worst.endswith(') under fog and snow') and note == 'simultaneous over 8 corruptions'
  ((_, same, _),) = headlines.table({'': made({ERROR: {'plain': 8 * [0.5]}})}).rows
  assert same.endswith(') everywhere')


def test_what_is_over_all_comes_before_what_is_by_a_facet_or_by_class():
  views = pd.DataFrame({'class': ['ant', 'bee']})
  by_class = means(ERROR, Outcomes({'a': np.eye(2, dtype=bool)}, views), ('class',))
  single, several = made({ERROR: {'a': (0.2,)}}), made({ERROR: {'a': (0.2, 0.4)}})
  for of, names in (
    (single, ['top-1 error']),
    (several, ['top-1 error under fog', 'top-1 error under snow']),
  ):
    of.table = assemble([of.table, by_class])
    assert [headline.name for headline in choice.headlines({'': of})] == names
  of.table = assemble([by_class])
  words = [headline.words for headline in choice.headlines({'': of})]
  assert words == ['top-1 error in class ant', 'top-1 error in class bee']


def test_a_classifier_without_a_headline_has_no_column_and_notes_have_one():
  of = made({ERROR: {'a': (0.2,), 'b': (0.4,)}})
  of.table.loc[0, 'note'] = 'few images'
  table = headlines.table({'': of})
  assert table.columns[-1] == 'note' and table.rows[0][-1] == 'a: few images'
  every = made({ERROR: {'a': (0.2,), 'b': (0.4,), 'c': (0.4,)}})
  for notes, joined_notes in (
    (('few', 'few', 'none', '', 'few'), 'a, b, c − a: few; c: none'),
    (5 * ['few'], 'few'),
  ):
    every.table['note'] = notes
    assert headlines.table({'': every}).rows[0][-1] == joined_notes, 'once if of all'
  of.table = of.table[of.table.classifier == 'b']
  assert headlines.table({'': of}).columns == ('', 'b', 'b − a')


def test_the_headlines_of_a_battery_and_the_largest_error_of_each_classifier():
  whole = joined(TASKS, {})
  table = headlines.table(whole.by_task)
  rows = {row[0]: row[1:] for row in table.rows}
  assert table.columns == ('', 'plain', 'other', 'other − plain', 'note')
  assert list(rows) == [
    *('clean: top-1 accuracy (%)', 'corruptions: highest top-1 error of 8 corruptions (%)'),
    *('attack: error under attack (%)', 'attack: score'),
  ]
  gain = dataclasses.replace(ACCURACY, name='gain', low=-1)
  auroc = Quantity('auroc', 'area under the ROC curve', better='higher', headline=True)
  unlike = {quantity.name: made({quantity: {'plain': (0.0,)}}) for quantity in (gain, auroc)}
  places = choice.worst_tasks(choice.headlines({**TASKS, **unlike}), 'plain')
  assert [chosen.task for chosen, _ in places] == ['attack', 'clean'], 'errors over all alone'
  low, _ = clopper_pearson(COUNT, COUNT, 1 - 0.05 / 2)
  assert places[0][1].low == pytest.approx(low) and places[0][1].family == 2
  attacked, missing, *_ = rows['attack: error under attack (%)']
  assert attacked.startswith('100 (') and missing == ''
  low, high = (100 * end for end in clopper_pearson(45, COUNT, 1 - 0.05 / 16))
  largest = f'90 ({low:.0f} to {high:.0f}) under frost'
  assert rows['corruptions: highest top-1 error of 8 corruptions (%)'][1] == largest


def test_the_overview_tells_where_each_is_worst_and_draws_each_unit_and_direction():
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


def test_what_two_parts_have_alike_heads_once():
  once = [chosen.name for chosen in choice.headlines(TASKS)]
  assert [chosen.name for chosen in choice.headlines({**TASKS, 'again': TASKS['clean']})] == once


def test_a_quantity_heads_a_report_by_the_facets_it_declares_in_their_order():
  by = dataclasses.replace(ERROR, by=('kind', 'view', 'absent'))
  views = pd.DataFrame(
    [('b', 'corrupted'), ('a', 'corrupted'), ('b', 'clean'), ('a', 'clean')],
    columns=['kind', 'view'],
  )
  wrong = Outcomes({'net': np.eye(4, dtype=bool)}, views)
  table = assemble([means(by, wrong), means(by, wrong, ('kind', 'view'))])
  of = Results('made', [{'label': 'net'}], {}, {}, table=table, quantities=(by,))
  places = [chosen.place for chosen in choice.headlines({'': of})]
  kinds = 'corrupted', 'clean'
  assert places == [f'in {kind} on {view} images' for kind in 'ba' for view in kinds]
  of.table = assemble([means(by, wrong)])
  assert [chosen.words for chosen in choice.headlines({'': of})] == ['top-1 error']


def test_a_reference_by_the_same_facets_chooses_what_is_farthest_beyond_it_and_is_told():
  taken = Quantity('taken', 'share of others', drawn=True)
  through = Quantity('through', 'share', headline=True, extreme='highest', reference='taken')
  of = made({through: {'net': (0.9, 0.8, *6 * [0.1])}, taken: {'net': (0.9, 0.1, *6 * [0.1])}})
  (first, share, *_), (second, others, *_) = headlines.table({'': of}).rows
  assert (first, second) == ('share, clearest of 8 corruptions (%)', 'share of others, there (%)')
  assert share.startswith('80 (') and share.endswith(' under snow')
  assert others.startswith('10 (') and others.endswith(' under snow')


def test_single_classes_come_after_all_that_is_by_another_facet():
  facets = {'class': [f'class {name}' for name in CORRUPTIONS], 'corruption': CORRUPTIONS}
  quantities = ERROR, ATTACK
  tables = [
    means(
      quantity, Outcomes({'a': np.eye(count, 8, dtype=bool)}, pd.DataFrame({name: values})), (name,)
    )
    for count, quantity in enumerate(quantities, 8)
    for name, values in facets.items()
  ]
  of = Results('made', [{'label': 'a'}], {}, {}, table=assemble(tables), quantities=quantities)
  by = [chosen.facets[0] for chosen in choice.choices(of)]
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
  worst = choice.worst_tasks(choice.headlines(tasks), 'a')
  assert all('class' not in chosen.facets for chosen, _ in worst)
  found = [
    c
    for name in tasks
    for c in choice.heads(tasks[name].table, tasks[name].quantities[0], (), name)
  ]
  assert [chosen.task for chosen, _ in choice.worst_tasks(found, 'a')] == ['y', 'z']
