"""The site of the documentation is built without a warning and complete, and fetches nothing."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

for package in ('mkdocs', 'material', 'mkdocstrings'):
  pytest.importorskip(package, reason=f"needs {package}: pip install '.[docs]'")


@pytest.fixture(scope='module')
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp('site')
  answer = subprocess.run(
    [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--site-dir', str(folder)],
    cwd=ROOT,
    env={**os.environ, 'NO_MKDOCS_2_WARNING': '1'},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    timeout=300,
    check=False,
  )
  assert answer.returncode == 0 and 'WARNING' not in answer.stdout, answer.stdout
  return folder


@pytest.fixture(scope='module')
def hooks() -> types.ModuleType:
  spec = importlib.util.spec_from_file_location('site_hooks', ROOT / 'docs/site_hooks.py')
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def html(site: pathlib.Path, page: str) -> str:
  return (site / page).read_text(encoding='utf-8')


def test_every_page_of_the_repository_is_there(site: pathlib.Path) -> None:
  for page in (ROOT / 'docs').rglob('*.md'):
    assert (site / page.relative_to(ROOT / 'docs').with_suffix('.html')).exists(), page
  assert not list(site.rglob('*.py'))


def test_the_home_page_is_the_readme_with_its_picture(site: pathlib.Path) -> None:
  page = html(site, 'index.html')
  assert 'fourier_heatmap.py --workdir' in re.sub(r'<[^>]+>', '', page)
  (picture,) = re.findall(r'<img[^>]+src="([^"]+)"', page)
  assert (site / picture).exists()
  assert 'href="intervals.html"' in page and 'href="contributing.html"' in page


def test_the_reference_comes_from_docstrings(site: pathlib.Path) -> None:
  words = re.sub(r'<[^>]+>', '', html(site, 'api/corruptions.html'))
  assert 'corrupt_each' in words and 'Parameters:' in words
  assert 'top_k' in html(site, 'api/studies.html')


def test_pages_fetch_nothing_from_elsewhere(site: pathlib.Path) -> None:
  pages = list(site.rglob('*.html'))
  assert len(pages) > 20
  for page in pages:
    text = page.read_text(encoding='utf-8')
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//', text), (
      page
    )


def test_links_are_translated_from_files_to_pages(hooks: types.ModuleType) -> None:
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
