"""The site of the documentation is built without a warning and complete, and fetches nothing."""

import re

import pytest

from tests import commands
from tests.commands import ROOT

for package in ('mkdocs', 'material', 'mkdocstrings'):
  pytest.importorskip(package, reason=f"needs {package}: pip install '.[docs]'")

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def site(tmp_path_factory):
  folder = tmp_path_factory.mktemp('site')
  build = ('-m', 'mkdocs', 'build', '--strict', '--site-dir', folder)
  output = commands.python(*build, timeout=300, NO_MKDOCS_2_WARNING='1')
  assert 'WARNING' not in output, output
  return folder


def test_every_page_of_the_repository_is_on_the_site(site):
  for page in (ROOT / 'docs').rglob('*.md'):
    assert (site / page.relative_to(ROOT / 'docs').with_suffix('.html')).exists(), page
  assert not list(site.rglob('*.py'))


def test_the_home_page_is_the_readme_with_its_picture(site):
  page = (site / 'index.html').read_text()
  assert 'fourier_heatmap.py --workdir' in re.sub(r'<[^>]+>', '', page)
  pictures = re.findall(r'<img[^>]+src="([^"]+)"', page)
  assert all((site / picture).exists() for picture in pictures)
  thumbnails = re.findall(r'<a href="([^"]+)"><img', page)
  pages = [
    path
    for path in (ROOT / 'docs').rglob('*.md')
    if '](images/' in path.read_text() or '](../images/' in path.read_text()
  ]
  assert len(thumbnails) == len(pages) == len(pictures) - 1
  assert all((site / name).exists() for name in thumbnails)
  assert 'href="intervals.html"' in page and 'href="contributing.html"' in page


def test_the_reference_comes_from_docstrings(site):
  words = re.sub(r'<[^>]+>', '', (site / 'api/corruptions.html').read_text())
  assert 'corrupt_each' in words and 'Parameters:' in words
  assert 'top_k' in (site / 'api/studies.html').read_text()


def test_pages_fetch_nothing_from_elsewhere(site):
  pages = list(site.rglob('*.html'))
  assert len(pages) > 20
  for page in pages:
    fetched = r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//'
    assert not re.findall(fetched, page.read_text(encoding='utf-8')), page


def test_links_are_translated_from_files_to_pages():
  hooks = commands.module_of('docs/site_hooks.py')
  source = (
    '[a](docs/a.md#b) [c](CONTRIBUTING.md) ![d](docs/images/d.png) [e](https://e.org) [f](#g)'
  )
  assert hooks.translated(source, 'README.md', 'index.md') == (
    '[a](a.md#b) [c](contributing.md) ![d](images/d.png) [e](https://e.org) [f](#g)'
  )
  source = '[a](../../README.md#x) [b](../intervals.md) [c](other.md)'
  assert hooks.translated(source, 'docs/api/a.md', 'api/a.md') == (
    '[a](../index.md#x) [b](../intervals.md) [c](other.md)'
  )


def test_the_leaderboard_is_a_page_with_its_files(site):
  assert 'Leaderboard' in (site / 'leaderboard/report.html').read_text()
  assert 'href="leaderboard/report.html"' in (site / 'comparing.html').read_text()
  assert (site / 'leaderboard/results.csv').exists()
