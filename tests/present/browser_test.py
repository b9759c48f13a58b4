"""The report in Chromium, as on a desktop and a phone, in light and dark.

The first screen has card and table, nothing overflows, tables are sorted, links work, text has
enough contrast, and tables and citations are copied.
"""

import functools
import http.server
import math
import re
import threading
from typing import Any

import pytest
from matplotlib.figure import Figure

from robustness.present import style
from robustness.present.page import bibtex
from robustness.present.publish import Presentation, publish
from robustness.results import Results, Table
from tests.browser import chromium
from tests.present.made_results import made_results

pytestmark = pytest.mark.slow
ROWS = [['fog', 0.3, 20], ['blur', math.nan, 3], ['snow', -0.2, 100], ['ant', 0.1, 5]]
ENVIRONMENT = {'command': 12 * 'long ', 'seed': 0, 'started': '2026-05-04T03:02:01+00:00'}
DESK, PHONE = (1200, 900), (390, 844)  # width and height of the window, pixels
LEGIBLE = 4.5  # WCAG 2.2, success criterion 1.4.3: contrast of text of this size

CONTRASTS = """
() => {
  const parse = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = text => parse(text).map(c => c / 255)
    .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const backing = node => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('h1, h2, li, p, a, dt, dd, td, th, code, button, summary')]
    .map(node => {
      const pair = [light(getComputedStyle(node).color), light(backing(node))];
      const [high, low] = pair.sort((a, b) => b - a);
      return [node.outerHTML.slice(0, 80), (high + .05) / (low + .05)];
    });
}
"""


@pytest.fixture(scope='module')
def browser():
  yield from chromium()


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  del results
  figure = Figure(figsize=(7, 3), layout='constrained')
  figure.subplots().plot([0, 1])
  return {'a line': (figure, 'A line, which is straight.')}


@pytest.fixture(scope='module')
def address(tmp_path_factory):
  folder = tmp_path_factory.mktemp('published')
  results = made_results()
  results.tables['by_corruption'] = Table(('corruption', 'change', 'images'), ROWS)
  results.tables['of_one_row'] = Table(('corruption',), [['fog']])
  presented = Presentation('Errors under corruptions', ('yin2019fourier',), draw)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(style, 'VECTOR_FORMATS', ('svg',))
    publish(folder, results, presented, ENVIRONMENT, {'key': 300 * 'x'}, pdf=True)
  handler = functools.partial(Quiet, directory=str(folder))
  with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/report.html'
    server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
  def log_message(self, format: str, *arguments: Any) -> None:
    del format, arguments


@pytest.fixture(
  params=[(DESK, 'light'), (PHONE, 'light'), (PHONE, 'dark')], ids=['desk', 'phone', 'dark phone']
)
def page(browser, address, request):
  (width, height), scheme = request.param
  settings = {'viewport': {'width': width, 'height': height}, 'color_scheme': scheme}
  context = browser.new_context(**settings, permissions=['clipboard-read', 'clipboard-write'])
  window = context.new_page()
  complaints, requests = [], []
  window.on('pageerror', lambda error: complaints.append(str(error)))
  window.on('console', lambda message: complaints.append(message.text))
  window.on('request', lambda request: requests.append(request.url))
  window.goto(address)
  yield window
  outside = [url for url in requests if not url.startswith(('data:', address.rpartition('/')[0]))]
  assert not outside
  assert not [text for text in complaints if 'favicon' not in text and '404' not in text]
  context.close()


def names(page: Any) -> list[str]:
  return page.locator('[id="By%20corruption"] tbody th').all_inner_texts()


def fits(page: Any) -> bool:
  return page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')


def test_the_first_screen_has_card_table_and_figure_headings_an_order_and_an_alternative(page):
  card, table, figure = (page.locator(kind).first for kind in ('.card', 'table', 'figure'))
  ends = [box['y'] + box['height'] for box in (card.bounding_box(), table.bounding_box())]
  height = page.viewport_size['height']
  assert ends[0] < ends[1] < height and figure.bounding_box()['y'] < height
  headings = page.locator('h1, h2, h3').evaluate_all('nodes => nodes.map(node => node.tagName)')
  assert headings[:2] == ['H1', 'H2'] and set(headings[2:]) == {'H2', 'H3'}
  assert page.locator('img').get_attribute('alt') == 'a line: A line, which is straight.'
  assert page.locator('html').get_attribute('lang') == 'en'


def test_a_table_is_copied_as_latex_and_a_citation_too(page):
  page.locator('.copies').first.locator('summary').click()
  table = page.locator('.copies').first.locator('pre.copied', has_text='tabular')
  copied = []
  for block in (table, page.locator('pre.copied').last):
    block.get_by_role('button').click()
    block.get_by_text('copied').wait_for()
    copied.append(page.evaluate('navigator.clipboard.readText()'))
  assert copied[0].startswith('\\begin{tabular}{lrrr}') and copied[1] == bibtex(['yin2019fourier'])


def test_print_hides_navigation_links_and_buttons(page):
  page.emulate_media(media='print')
  for kind in ('nav', '.copies', '.links', 'button'):
    assert not page.locator(kind).first.is_visible()
  assert page.locator('table').first.is_visible()
  page.emulate_media(media='screen')


def test_the_page_is_no_wider_than_the_window(page):
  assert fits(page)
  for summary in page.locator('summary').all():
    summary.click()
  assert fits(page), 'with all that was folded too'


def test_a_head_sorts_up_down_and_back(page):
  stored = [str(row[0]) for row in ROWS]
  press = page.get_by_role('button', name='change').click
  expected = (['snow', 'ant', 'fog', 'blur'], ['fog', 'ant', 'snow', 'blur'], stored)
  for order, state in zip(expected, ('ascending', 'descending', None), strict=True):
    press()
    assert names(page) == order, 'what is not available stands last'
    assert page.locator('th', has_text='change').get_attribute('aria-sort') == state
  table = page.locator('[id="By%20corruption"]')
  table.get_by_role('button', name='corruption').press('Enter')
  assert names(page) == sorted(stored), 'by keys too'
  table.get_by_role('button', name='images').click()
  assert names(page) == ['blur', 'ant', 'fog', 'snow']
  assert page.locator('[aria-sort]').count() == 1
  one_row = page.locator('[id="Of%20one%20row"]')
  assert one_row.get_by_role('button').count() == 0, 'nothing to sort'


def test_each_figure_is_linked_in_three_formats_that_answer(page, address):
  links = page.locator('figcaption a')
  assert links.all_inner_texts() == ['PNG', 'SVG', 'PDF']
  kinds = {'PNG': 'image/png', 'SVG': 'image/svg+xml', 'PDF': 'application/pdf'}
  for link in links.all():
    target = address.replace('report.html', link.get_attribute('href'))
    answer = page.request.get(target)
    assert answer.ok and answer.headers['content-type'] == kinds[link.inner_text()]
    assert link.get_attribute('aria-label') == f'a line as {link.inner_text()}'


def test_all_text_is_legible_and_figures_stand_on_white(page):
  for node, contrast in page.evaluate(CONTRASTS):
    assert contrast >= LEGIBLE, node
  image = page.locator('figure img')
  style = 'node => getComputedStyle(node).backgroundColor'
  assert image.evaluate(style) == 'rgb(255, 255, 255)', 'drawn in black'
  dark = page.evaluate('matchMedia("(prefers-color-scheme: dark)").matches')
  colour = page.locator('body').evaluate(style)
  assert (max(map(int, re.findall(r'\d+', colour))) < 64) == dark, 'its own colours in the dark'


def test_a_report_that_is_opened_as_a_file_works_too(browser, address, tmp_path):
  context = browser.new_context(viewport={'width': 390, 'height': 844})
  window = context.new_page()
  window.goto(address)
  file = tmp_path / 'report.html'
  file.write_text(window.evaluate('fetch("report.html").then(answer => answer.text())'))
  window.goto(file.as_uri())
  assert window.locator('figure img').evaluate('node => node.complete && node.naturalWidth > 0')
  assert fits(window)
  context.close()
