"""An installed Chromium without a window, for the tests of pages."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')


def chromium() -> Iterator[Any]:
  """Yields a running browser, or skips the test without a browser or Playwright."""
  sync_api = pytest.importorskip(
    'playwright.sync_api', reason="needs Playwright: pip install '.[browser]'"
  )
  executable = os.environ.get('CHROMIUM') or next(filter(None, map(shutil.which, NAMES)), None)
  if executable is None:
    pytest.skip('needs an installed Chromium or Chrome (or its path in CHROMIUM)')
  with sync_api.sync_playwright() as playwright:
    running = playwright.chromium.launch(executable_path=executable, args=['--no-sandbox'])
    yield running
    running.close()
