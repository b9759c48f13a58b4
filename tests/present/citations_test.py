"""Citations: BibTeX that parses, and agrees with CITATION.cff and the version."""

from __future__ import annotations

import pathlib
import re

import pytest

from robustness import __version__
from robustness.present.citations import PAPERS, bibtex

CITATION = pathlib.Path(__file__).resolve().parents[2] / 'CITATION.cff'


def plain(text: str) -> str:
  return re.sub(r'[{}]', '', text)


def entries(text: str) -> dict[str, dict[str, str]]:
  """Returns the fields of BibTeX entries by key; braces must be balanced."""
  assert text.count('{') == text.count('}')
  return {
    match[1]: dict(re.findall(r'^  (\w+) += \{(.*)\},?$', match[2], re.MULTILINE))
    for match in re.finditer(r'^@\w+\{(\w+),\n(.*?)^\}', text, re.MULTILINE | re.DOTALL)
  }


def test_every_entry_is_whole() -> None:
  written = entries(bibtex(PAPERS))
  assert list(written) == [*PAPERS, 'classifier_robustness']
  for key in PAPERS:
    fields = written[key]
    assert {'author', 'title', 'year'} < set(fields)
    assert {'booktitle', 'journal'} & set(fields)
    assert key.startswith(fields['author'].partition(',')[0].lower() + fields['year'])
    assert all(name.count(', ') == 1 for name in fields['author'].split(' and '))
  assert written['classifier_robustness']['version'] == __version__


def test_the_papers_of_the_citation_file_are_here_word_for_word() -> None:
  yaml = pytest.importorskip('yaml')
  document = yaml.safe_load(CITATION.read_text())
  assert document['version'] == __version__
  by_title = {plain(fields['title']): fields for fields in entries(bibtex(PAPERS)).values()}
  for reference in document['references']:
    fields = by_title[reference['title']]
    people = [f'{name["family-names"]}, {name["given-names"]}' for name in reference['authors']]
    assert fields['author'].split(' and ') == people
    assert fields['year'] == str(reference['year'])
    if 'collection-title' in reference:
      assert fields['booktitle'] == reference['collection-title']
