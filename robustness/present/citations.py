"""How to cite what was run: BibTeX of the papers that studies are from, and of this software."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable

from robustness import __version__

_FILE = importlib.resources.files('robustness.present') / 'papers.bib'
PAPERS: dict[str, str] = {
  key: entry
  for entry, key in re.findall(r'(@\w+{(\w+),.*?\n}\n)', _FILE.read_text('utf-8'), re.DOTALL)
}
"""The BibTeX entry of each paper by its key; those of CITATION.cff and what studies build on."""

SOFTWARE = f"""\
@software{{classifier_robustness,
  author    = {{{{The authors}}}},
  title     = {{classifier-robustness: how robust image classifiers are, measured in {{JAX}}}},
  version   = {{{__version__}}}
}}
"""


def bibtex(papers: Iterable[str]) -> str:
  """Returns the entries of papers by key, and below them that of this software."""
  return '\n'.join([*(PAPERS[key] for key in papers), SOFTWARE])
