"""The report holds everything, refers to nothing outside, and escapes what it shows."""

from __future__ import annotations

import dataclasses
import html.parser

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ERROR
from robustness.estimates.table import assemble
from robustness.figures import save
from robustness.report.html import Context, write_report
from robustness.results import Number, Results, Table

VOID = {'meta', 'img', 'wbr'}


class Page(html.parser.HTMLParser):
  """Collects text and resources, and checks that tags are closed in order."""

  def __init__(self) -> None:
    super().__init__()
    self.open: list[str] = []
    self.resources: list[str] = []
    self.links: list[str] = []
    self.tags: list[str] = []
    self.text = ''

  def handle_starttag(self, tag, attrs):
    if tag not in VOID:
      self.open.append(tag)
    self.resources += [value for key, value in attrs if key in ('src', 'href')]
    self.links += [value for key, value in attrs if key == 'href']
    self.tags.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    self.text += data


@pytest.fixture
def page(tmp_path):
  return parsed(write_example(tmp_path))


def write_example(directory):
  save(Figure(figsize=(1, 1)), directory / 'figures' / 'map.png')
  results = Results(
    'fourier_heatmap',
    [{'label': 'plain'}, {'label': '<b>bold</b>'}],
    {'source': 'https://example.org/set', 'class_names': [f'class{i}' for i in range(100)]},
    {'norm': 4.0},
    {
      'clean_error': Number(0.041, 0.0296, 0.0552, 1000, 'clopper-pearson 0.95'),
      'none': Number(np.nan, np.nan, np.nan, 0, 'clopper-pearson 0.95'),
    },
    {'error_by_band': Table(['band', 'mean_error'], [['low', 0.12345], ['a & b', None]])},
  )
  return write_report(
    directory,
    results,
    [(directory / 'figures' / 'map.png', 'Error < 1 everywhere.')],
    Context(
      {'seed': 7, 'versions': {'jax': '0.10.2'}, 'devices': ['cpu', 'cpu']},
      {'study': {'name': 'fourier_heatmap', 'clip': False}},
      "python main.py --config=a.py --workdir='<out>'",
      [f'Finding {k} < 1 % (0 to 2).' for k in range(8)],
      ['yin2019fourier'],
    ),
  )


def parsed(path) -> Page:
  page = Page()
  page.feed(path.read_text(encoding='utf-8'))
  assert not page.open
  return page


@pytest.mark.parametrize(
  'text',
  [
    'Fourier heat maps',
    'What was found',
    'Finding 0 < 1 % (0 to 2).',
    'Finding 7 < 1 % (0 to 2).',
    '2 more',
    '95\N{NO-BREAK SPACE}% intervals',
    'error on clean images',
    'clean_error',
    '@inproceedings{yin2019fourier,',
    '@software{classifier_robustness,',
    '0.0410',
    '[0.0296, 0.0552]',
    '1000',
    'clopper-pearson 0.95',
    'error by band',
    '0.1235',
    'a & b',
    'Error < 1 everywhere.',
    'norm',
    '0.10.2',
    'versions.jax',
    'cpu, cpu',
    'seed',
    "--workdir='<out>'",
    '"clip": false',
    '<b>bold</b>',
    '… (100 in all)',
  ],
)
def test_the_page_says(page, text):
  assert text in page.text


def test_the_page_needs_nothing_else(page):
  assert [name for name in page.resources if name.startswith('data:image/png;base64,')]
  assert page.links == ['figures/map.png'], 'only to what lies beside the page'
  assert len(page.resources) == 2


def test_findings_come_first_and_headings_have_an_order(page):
  order = [page.text.index(text) for text in ('What was found', 'Figures', 'Numbers', 'cite')]
  assert order == sorted(order)
  headings = [tag for tag in page.tags if tag in ('h1', 'h2', 'h3')]
  assert headings[0] == 'h1' and set(headings[1:]) == {'h2'}


def test_figures_of_parts_are_linked_where_they_lie_in_each_format_there_is(tmp_path):
  png = tmp_path / 'parts/a b/figures/map.png'
  save(Figure(figsize=(1, 1)), png)
  png.with_suffix('.svg').touch()
  page = parsed(write_report(tmp_path, Results('a', {}, {}, {}), [(png, 'A map.')], Context()))
  assert page.links == [f'parts/a%20b/figures/map.{kind}' for kind in ('png', 'svg')]


def test_missing_numbers_are_words(page):
  assert 'not available' in page.text
  assert 'nan' not in page.text and 'None' not in page.text


def test_a_note_of_a_number_has_a_column_where_there_is_one(tmp_path):
  numbers = {'mCE': Number(0.7, 0.6, 0.8, 20, 'x'), 'other': Number(1.0, np.nan, np.nan, 1, 'x')}
  results = Results('corruption_error', {}, {}, {}, numbers)
  assert 'note' not in parsed(write_report(tmp_path, results, [], Context())).text
  numbers['mCE'] = dataclasses.replace(numbers['mCE'], note='not comparable: images are 28 × 28')
  page = parsed(write_report(tmp_path, results, [], Context())).text
  assert 'note' in page and 'not comparable: images are 28 × 28' in page and 'none' in page


def test_the_page_is_written_again_byte_for_byte(tmp_path):
  first = write_example(tmp_path).read_bytes()
  assert write_example(tmp_path).read_bytes() == first


def test_the_title_is_a_name_and_not_an_identifier(tmp_path):
  for study, title in (('video_pm_k', 'pm-k'), ('si_score', 'SI-Score'), ('my_study', 'My study')):
    page = parsed(write_report(tmp_path, Results(study, {}, {}, {}), [], Context()))
    assert title in page.text and 'pm k' not in page.text and 'Si score' not in page.text


def test_a_report_without_figures_and_numbers(tmp_path):
  page = write_report(tmp_path, Results('accuracy', {}, {}, {}), [], Context()).read_text()
  for title in ('What was found', 'Figures', 'Numbers'):
    assert f'<h2>{title}' not in page
  assert '<h2>How to cite' in page


def test_a_missing_figure_is_named(tmp_path):
  with pytest.raises(InputError, match=r'gone\.png does not exist'):
    write_report(tmp_path, Results('a', {}, {}, {}), [(tmp_path / 'gone.png', '')], Context())
  assert not (tmp_path / 'report.html').exists()


def test_a_figure_that_is_no_png_is_named(tmp_path):
  (tmp_path / 'bad.png').write_bytes(b'GIF89a')
  with pytest.raises(InputError, match=r'bad\.png is not a PNG'):
    write_report(tmp_path, Results('a', {}, {}, {}), [(tmp_path / 'bad.png', '')], Context())


def test_what_brackets_hold_is_said_of_results_that_are_a_table_alone(tmp_path):
  outcomes = Outcomes({'net': np.eye(4, dtype=bool)}, pd.DataFrame({'angle': range(4)}))
  table = assemble([means(ERROR, outcomes, confidence=0.9)])
  results = Results('shift', {'label': 'net'}, {}, {}, table=table, quantities=(ERROR,))
  page = write_report(tmp_path, results, [], Context(sentences=['A finding.'])).read_text()
  assert 'Brackets hold 90\N{NO-BREAK SPACE}% intervals' in page
  assert 'stands in results.csv.' in page and 'table of numbers' not in page
