"""The report holds everything, refers to nothing outside, and escapes what it shows."""

from __future__ import annotations

import dataclasses
import html.parser
import pathlib
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.estimates.quantity import Quantity
from robustness.present.page import Context, write_report
from robustness.present.sentences import findings
from robustness.present.style import save
from robustness.results import Results, Table
from tests.present.made_results import made_results

VOID = {'meta', 'img', 'wbr'}
SPACE = '\N{NO-BREAK SPACE}'


class Page(html.parser.HTMLParser):
  """Collects text, links and anchors, and checks that tags are closed in order."""

  def __init__(self) -> None:
    super().__init__()
    self.open: list[str] = []
    self.resources: list[str] = []
    self.links: list[str] = []
    self.anchors: list[str] = []
    self.tags: list[str] = []
    self.text = ''

  def handle_starttag(self, tag: str, attrs: Any) -> None:
    if tag not in VOID:
      self.open.append(tag)
    self.resources += [value for key, value in attrs if key == 'src']
    self.links += [value for key, value in attrs if key == 'href']
    self.anchors += [value for key, value in attrs if key == 'id']
    self.tags.append(tag)

  def handle_endtag(self, tag: str) -> None:
    assert self.open.pop() == tag

  def handle_data(self, data: str) -> None:
    self.text += data


def write_example(directory: pathlib.Path) -> pathlib.Path:
  names = ('error_corruption', 'error_severity')
  for name in names:
    save(Figure(figsize=(1, 1)), directory / 'figures' / f'{name}.png')
  made = made_results()
  described = {'architecture': 'small_cnn', 'weights': 'trained here', 'step': 40}
  results = dataclasses.replace(
    made,
    classifier=[{**own, **described, 'note': '<b>bold</b>'} for own in made.classifier],
    data={
      'source': 'https://example.org/set',
      'num_examples': 200,
      'class_names': [f'class{i}' for i in range(100)],
    },
    settings={'norm': 4.0},
    tables={'which_numbers_these_are': Table(['what', 'is'], [['a & b', None], ['c', 0.12345]])},
  )
  return write_report(
    directory,
    results,
    [(directory / 'figures' / f'{name}.png', f'{name} < 1 everywhere.') for name in names],
    Context(
      'Error under <corruptions>',
      {
        'seed': 7,
        'started': '2026-05-04T03:02:01+00:00',
        'versions': {'jax': '0.10.2'},
        'devices': ['cpu cpu', 'cpu cpu'],
        'git_commit': 'abc123',
      },
      {'study': {'name': 'fourier_heatmap', 'clip': False}},
      "python main.py --config=a.py --workdir='<out>'",
      findings(results),
      ['yin2019fourier'],
      90.2,
    ),
  )


def parsed(path: pathlib.Path) -> Page:
  page = Page()
  page.feed(path.read_text(encoding='utf-8'))
  assert not page.open
  return page


@pytest.fixture(scope='module')
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
  return parsed(write_example(tmp_path_factory.mktemp('report')))


@pytest.mark.parametrize(
  'text',
  [
    'Error under <corruptions>',
    '200 images of https://example.org/set',
    'small cnn, trained here 40 steps, <b>bold</b>',
    '2026-05-04, 90 s, 2 × cpu',
    'abc123',
    "--workdir='<out>'",
    'top-1 error (%)',
    'second − first',
    '\\begin{tabular}{lrrr}',
    'error_corruption < 1 everywhere.',
    'The largest top-1 error by corruption: first under',
    f'95{SPACE}% intervals',
    'another training of the same kind',
    '@inproceedings{yin2019fourier,',
    '@software{classifier_robustness,',
    'a & b',
    '0.1235',
    'norm',
    'versions.jax',
    '"clip": false',
    '… (100 in all)',
  ],
)
def test_the_page_says(page: Page, text: str) -> None:
  assert text in page.text


def test_the_first_screen_has_card_table_and_main_figure_before_the_findings(page: Page) -> None:
  order = ['Error under <corr', 'abc123', 'top-1 error (%)', 'error_corruption <', 'The largest']
  places = [page.text.index(text) for text in order]
  assert places == sorted(places)
  assert page.text.index('error_severity < 1') > places[-1], 'other figures follow'


def test_the_page_needs_nothing_else(page: Page) -> None:
  assert all(name.startswith('data:image/png;base64,') for name in page.resources)
  assert len(page.resources) == 2
  outside = [link for link in page.links if not link.startswith('#')]
  beside = ('results.', 'config.json', 'environment.json', 'figures/')
  assert outside and all(link.startswith(beside) for link in outside)


def test_contents_figures_and_rows_are_where_links_lead(page: Page) -> None:
  inside = [link.removeprefix('#') for link in page.links if link.startswith('#')]
  assert len(page.anchors) == len(set(page.anchors))
  assert set(inside) <= set(page.anchors)
  assert {'Findings', 'figure-error_corruption', 'rows-error_corruption_severity'} <= set(inside)


def test_headings_have_an_order(page: Page) -> None:
  headings = [tag for tag in page.tags if tag in ('h1', 'h2', 'h3')]
  assert headings[0] == 'h1' and 'h1' not in headings[1:]
  assert headings.index('h2') < headings.index('h3')


def test_figures_of_parts_are_folded_and_linked_where_they_lie(tmp_path: pathlib.Path) -> None:
  png = tmp_path / 'parts/a b/figures/map.png'
  save(Figure(figsize=(1, 1)), png)
  png.with_suffix('.svg').touch()
  page = parsed(write_report(tmp_path, Results('a', {}, {}, {}), [(png, 'A map.')], Context()))
  files = [link for link in page.links if link.endswith(('png', 'svg', 'pdf'))]
  assert files == [f'parts/a%20b/figures/map.{kind}' for kind in ('png', 'svg')]
  assert 'Part a b' in page.text and '1 figure' in page.text


def test_names_that_are_nearly_one_have_places_of_their_own(tmp_path: pathlib.Path) -> None:
  names = ['a b/figures/x', 'a_b/figures/x', 'A b/figures/x', 'A b/figures/X', 'A b/figures/x y']
  files = [tmp_path / 'parts' / f'{name}.png' for name in names]
  for file in files:
    save(Figure(figsize=(1, 1)), file)
  page = parsed(
    write_report(
      tmp_path, Results('a', {}, {}, {}), [(file, 'A map.') for file in files], Context()
    )
  )
  assert len(page.anchors) == len(set(page.anchors))
  assert page.tags.count('figure') == len(names)


def test_a_finding_leads_to_a_figure_of_its_own_quantity(tmp_path: pathlib.Path) -> None:
  made = made_results()
  other = Quantity('error_change', 'change of the error')
  made.quantities = (*made.quantities, other)
  names = ('error_change_corruption', 'error_severity')
  figures = [(tmp_path / f'{name}.png', 'A map.') for name in names]
  for file, _ in figures:
    save(Figure(figsize=(1, 1)), file)
  page = parsed(write_report(tmp_path, made, figures, Context(findings=findings(made)[:1])))
  assert [link for link in page.links if link.startswith('#figure')] == ['#figure-error_severity']


def test_files_are_linked_where_they_are_there(tmp_path: pathlib.Path) -> None:
  made = made_results()
  made.write(tmp_path)
  page = parsed(write_report(tmp_path, made, [], Context()))
  links = [link for link in page.links if not link.startswith('#')]
  assert links == ['results.csv', 'results.json', 'results.npz']


def test_missing_numbers_are_words(page: Page) -> None:
  assert 'nan' not in page.text and 'None' not in page.text


def test_the_page_is_written_again_byte_for_byte(tmp_path: pathlib.Path) -> None:
  first = write_example(tmp_path).read_bytes()
  assert write_example(tmp_path).read_bytes() == first


def test_the_title_of_a_study_without_one_is_its_name(tmp_path: pathlib.Path) -> None:
  page = write_report(tmp_path, Results('my_study', {}, {}, {}), [], Context()).read_text()
  assert '<h1>My study</h1>' in page


def test_a_report_without_figures_and_estimates(tmp_path: pathlib.Path) -> None:
  page = write_report(tmp_path, Results('accuracy', {}, {}, {}), [], Context()).read_text()
  for title in ('Findings', 'Figures', 'Tables'):
    assert f'<h2>{title}' not in page
  assert '<h2>How to cite' in page


def test_a_missing_figure_is_named(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match=r'gone\.png does not exist'):
    write_report(tmp_path, Results('a', {}, {}, {}), [(tmp_path / 'gone.png', '')], Context())
  assert not (tmp_path / 'report.html').exists()


def test_a_figure_that_is_no_png_is_named(tmp_path: pathlib.Path) -> None:
  (tmp_path / 'bad.png').write_bytes(b'GIF89a')
  with pytest.raises(InputError, match=r'bad\.png is not a PNG'):
    write_report(tmp_path, Results('a', {}, {}, {}), [(tmp_path / 'bad.png', '')], Context())


def test_rows_that_no_table_holds_are_named(tmp_path: pathlib.Path) -> None:
  made = made_results()
  rows = [made.table.iloc[:1].assign(corruption=f'c{k}') for k in range(130)]
  many = pd.concat(rows, ignore_index=True)
  results = dataclasses.replace(made, table=many)
  page = parsed(write_report(tmp_path, results, [], Context(findings=findings(results))))
  assert 'In results.csv alone: top-1 error by corruption: 130 rows.' in page.text
  assert 'rows-error_corruption' not in page.anchors and 'results.csv' in page.links
  assert not any(link.startswith('#rows') for link in page.links), 'no link leads nowhere'
