"""Sentences follow from the rows of the table, and `tests.faults` finds the ones that do not."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from robustness.estimates.means import means
from robustness.estimates.of_means import MeanRatio, function_of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, ERROR, Quantity
from robustness.estimates.table import assemble
from robustness.present import style, tables
from robustness.present.publish import Presentation, publish
from robustness.results import Results
from tests import faults
from tests.present.made_results import made_results, sentences_of

CHANGE = Quantity('change', 'relative change', 'amount', 'lower', low=0, headline=True)
RATIO = Quantity(
  'ratio',
  'error relative to the first',
  'ratio',
  'lower',
  headline=True,
  function=MeanRatio('corruption'),
)
GAP = Quantity(
  'gap',
  'gap of two groups',
  low=-1,
  headline=True,
  function=lambda values, _: values[..., 0] - values[..., 1],
)


def of_many_kinds(seed: int, n: int = 60) -> Results:
  """Returns random results of three classifiers with shares, amounts, ratios and differences."""
  generator = np.random.default_rng(seed)
  views = pd.DataFrame({'corruption': ['fog', 'fog', 'snow', 'snow'], 'severity': [1, 5, 1, 5]})
  rates = 0.2 + 0.7 * generator.random((3, 1, 4))
  labels = ('first', 'second', 'third')
  wrong = dict(zip(labels, generator.random((3, n, 4)) < rates, strict=True))
  right = Outcomes({label: ~values for label, values in wrong.items()}, views)
  errors = Outcomes(wrong, views)
  sizes = {label: generator.exponential(size=(n, 4)) for label in labels}
  table = assemble(
    [
      *(means(ERROR, errors, by) for by in ((), ('corruption',), ('severity',))),
      means(ERROR, errors, ('corruption', 'severity'), test=True),
      means(ACCURACY, right, ('corruption',)),
      means(CHANGE, Outcomes(sizes, views), ('severity',)),
      function_of_means(RATIO, errors),
      function_of_means(GAP, errors, ('corruption',)),
    ]
  )
  described = [{'label': label} for label in labels]
  quantities = (ERROR, ACCURACY, CHANGE, RATIO, GAP)
  return Results('made', described, {}, {}, table=table, quantities=quantities)


@pytest.mark.parametrize(
  'seed', [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_sentences_about_results_of_many_kinds_follow_from_their_rows(seed):
  results = of_many_kinds(seed)
  assert len(sentences_of(results)) >= 8
  assert faults.in_results(results) == []


@pytest.mark.slow
def test_a_report_has_texts_apart_and_links_that_lead_somewhere(tmp_path):
  results = of_many_kinds(0)
  with faults.in_saved_figures() as overlapping:
    publish(tmp_path, results, Presentation('Made'), {'command': 'python main.py'}, {})
  assert len(list((tmp_path / 'figures').glob('*.png'))) > 5 and overlapping == []
  assert list(faults.in_page((tmp_path / 'report.html').read_text())) == []


def test_impossible_rows_are_found():
  for changes, complaint in (
    ({'value': 1.2, 'high': 1.3}, 'do not ascend'),
    ({'low': -0.1}, 'do not ascend'),
    ({'value': 0.1, 'low': 0.2, 'high': 0.3}, 'do not ascend'),
    ({'quantity': 'odd'}, 'odd is not declared'),
  ):
    results = made_results()
    for name, value in changes.items():
      results.table.loc[results.table.index[0], name] = value
    assert complaint in ' '.join(faults.in_rows(results))


def test_sentences_with_a_value_outside_its_interval_and_repeated_ones_are_found():
  good = 'Top-1 error: net 30 % (20 to 40).'
  for text in ('30 % (31 to 40).', 'nan (nan to nan).', '30 %.', '−3 points (−2 to −1).'):
    assert list(faults.in_sentence(f'Top-1 error: net {text}'))
  assert list(faults.in_sentence(good[:-1])) and not list(faults.in_sentence(good))
  twice = list(faults.contradictions([good, good.replace('20', '15')]))
  assert twice == ['two values: Top-1 error: net  1']
  assert not list(faults.contradictions([good, good.replace('error', 'accuracy')]))
  together = f'{good.replace("40", "50")} Intervals are simultaneous over 3 networks.'
  assert not list(faults.contradictions([good, together]))


def test_estimates_missing_from_all_tables_and_broken_links_are_found(monkeypatch):
  results = made_results()
  monkeypatch.setattr(tables, 'MOST_ROWS', 3)
  assert list(faults.missing_rows(results)) == []
  monkeypatch.setattr(tables, 'left_out', lambda *_: [])
  assert 'error_corruption_severity is in no table' in faults.missing_rows(results)
  page = '<h1 id="top">Title</h1><a href="#top">up</a><p>{}</p>'
  assert list(faults.in_page(page.format('30 %'))) == []
  assert 'leads to #rows' in ' '.join(faults.in_page(page.format('<a href="#rows">rows</a>')))
  assert 'a value that is none' in ' '.join(faults.in_page(page.format('n = nan')))


def test_overlapping_texts_are_found_when_the_figure_is_saved(tmp_path):
  figure = Figure(figsize=(2, 2), layout='constrained')
  axes = figure.subplots()
  axes.set_xticks([0, 0.05, 1, 9], ['left', 'the next', 'right', 'not in sight'])
  axes.set_xlim(0, 1)
  with faults.in_saved_figures() as overlaps:
    style.save(figure, tmp_path / 'both.png')
  assert overlaps == ['both: “left” and “the next” overlap'] and (tmp_path / 'both.png').is_file()
  axes.set_xticks([0, 1], ['left', 'right'])
  assert list(faults.overlaps(figure)) == []
