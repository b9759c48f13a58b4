"""Writes the repository's address into the badge and the install cell of every notebook.

python colabs/address.py

The address is `tool.colabs.repository` in pyproject.toml, OWNER/NAME on GitHub: change it there.
"""

from __future__ import annotations

import json
import pathlib
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLAB = 'https://colab.research.google.com'


def repository() -> str:
  """Returns OWNER/NAME."""
  settings = tomllib.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))
  return settings['tool']['colabs']['repository']


def badge(name: str, address: str) -> str:
  """Returns the line that every notebook begins with, which opens it in Colab."""
  page = f'{COLAB}/github/{address}/blob/main/colabs/{name}.ipynb'
  return f'[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({page})\n'


def installation(address: str) -> str:
  """Returns the source of the cell that installs the package."""
  return f'%pip install --quiet "git+https://github.com/{address}"'


def with_address(notebook: dict[str, Any], name: str, address: str) -> dict[str, Any]:
  """Returns a notebook, as JSON holds it, with an address in its first two cells."""
  first, install, *others = notebook['cells']
  first = {**first, 'source': [badge(name, address), *first['source'][1:]]}
  install = {**install, 'source': [installation(address)]}
  return {**notebook, 'cells': [first, install, *others]}


def main() -> None:
  """Rewrites the notebooks in place."""
  for path in sorted((ROOT / 'colabs').glob('*.ipynb')):
    notebook = with_address(json.loads(path.read_text(encoding='utf-8')), path.stem, repository())
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(f'{text}\n', encoding='utf-8')


if __name__ == '__main__':
  main()
