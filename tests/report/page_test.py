"""The report in a real browser, on a desk and on a phone: tables are sorted, nothing overflows."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from robustness.report.html import Context, write_report
from robustness.results import Number, Results, Table
from tests.browser import chromium

ROWS = [['fog', 0.3, 20], ['blur', math.nan, 3], ['snow', -0.2, 100], ['ant', 0.1, 5]]


@pytest.fixture(scope='module')
def browser() -> Iterator[Any]:
  yield from chromium()


@pytest.fixture(params=[1200, 390])
def page(browser: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[Any]:
  """A report in a window of a desk's width and of a phone's; it must not complain."""
  results = Results('accuracy', {'label': 'net'}, {}, {}, {'top1': Number(0.5, 0.4, 0.6, 9, '')})
  results.tables['by_corruption'] = Table(('corruption', 'change', 'images'), ROWS)
  file = write_report(tmp_path, results, [], Context({}, {'key': 'x' * 300}, 'python main.py'))
  window = browser.new_context(viewport={'width': request.param, 'height': 800}).new_page()
  complaints: list[str] = []
  window.on('pageerror', lambda error: complaints.append(str(error)))
  window.on('console', lambda said: complaints.append(said.text))
  window.goto(file.as_uri())
  yield window
  assert not complaints
  window.context.close()


def names(page: Any) -> list[str]:
  return page.locator('section', has_text='by corruption').locator('tbody th').all_inner_texts()


def test_a_head_sorts_up_down_and_back(page: Any) -> None:
  stored = [str(row[0]) for row in ROWS]
  press = page.get_by_role('button', name='change').click
  expected = (['snow', 'ant', 'fog', 'blur'], ['fog', 'ant', 'snow', 'blur'], stored)
  for order, state in zip(expected, ('ascending', 'descending', None), strict=True):
    press()
    assert names(page) == order, 'what is not available stands last'
    assert page.locator('th', has_text='change').get_attribute('aria-sort') == state
  page.get_by_role('button', name='corruption').press('Enter')
  assert names(page) == sorted(stored), 'by keys too'
  page.get_by_role('button', name='images').click()
  assert names(page) == ['blur', 'ant', 'fog', 'snow']
  assert page.locator('[aria-sort]').count() == 1


def test_the_page_is_no_wider_than_the_window(page: Any) -> None:
  assert page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')


def test_a_table_of_one_row_has_nothing_to_sort(page: Any) -> None:
  assert page.locator('section', has_text='numbers').first.get_by_role('button').count() == 0
