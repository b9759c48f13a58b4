"""Writes the line that opens a notebook in Colab, and the cell that installs, into every notebook.

python colabs/address.py

The line needs the repository's address on GitHub, `tool.colabs.repository` in pyproject.toml;
without one it is left out. The cell installs the newest wheel in the notebook's folder. Where there
is none, it needs the installed package, and says how to make a wheel where that is missing too.
"""

from __future__ import annotations

import json
import pathlib
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLAB = 'https://colab.research.google.com'
INSTALL = """import importlib.util
import pathlib

wheels = sorted(pathlib.Path().glob('classifier_robustness-*.whl'), key=lambda p: p.stat().st_mtime)
if wheels:
  %pip install --quiet {wheels[-1]}
elif importlib.util.find_spec('robustness') is None:  # the package is not on PyPI yet
  raise ImportError('Run `pip wheel . --no-deps` in a clone; put the wheel beside the notebook.')"""


def repository() -> str:
  """Returns 'owner/name' of the project's repository on GitHub, or '' if it has none yet."""
  settings = tomllib.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))
  return settings['tool']['colabs']['repository']


def with_address(notebook: dict[str, Any], name: str, address: str) -> dict[str, Any]:
  """Returns a notebook with the link that opens it in Colab, and with the cell that installs.

  Args:
    notebook: the content of the notebook's file; its first two cells are the title and the cell
      that installs, and are rewritten.
    name: name of the file without '.ipynb'.
    address: 'owner/name' of the repository on GitHub; '' leaves the link out.
  """
  first, install, *others = notebook['cells']
  text = ''.join(first['source'])
  text = text[text.index('# ') :]  # from the title, without the link of an earlier call
  if address:
    page = f'{COLAB}/github/{address}/blob/main/colabs/{name}.ipynb'
    text = f'[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({page})\n\n{text}'
  first = {**first, 'source': text.splitlines(keepends=True)}
  install = {**install, 'source': INSTALL.splitlines(keepends=True)}
  return {**notebook, 'cells': [first, install, *others]}


def main() -> None:
  """Rewrites the notebooks in place."""
  for path in sorted((ROOT / 'colabs').glob('*.ipynb')):
    notebook = with_address(json.loads(path.read_text(encoding='utf-8')), path.stem, repository())
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(f'{text}\n', encoding='utf-8')


if __name__ == '__main__':
  main()
