"""Running a notebook of `colabs/` on a workdir, for the tests of all of them."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def read(name: str) -> Any:
  """Returns the notebook `colabs/<name>.ipynb`."""
  return nbformat.read(ROOT / 'colabs' / f'{name}.ipynb', as_version=4)


def executed(name: str, folder: pathlib.Path) -> list[Any]:
  """Runs a notebook on a workdir and returns the outputs of all its cells."""
  notebook = read(name)
  (cell,) = (c for c in notebook.cells if 'parameters' in c.metadata.get('tags', []))
  cell.source = f'WORKDIR = {str(folder)!r}'
  environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
  client = NotebookClient(notebook, timeout=120, kernel_name='python3')
  client.execute(cwd=str(ROOT), env=environment)
  return [output for c in notebook.cells if c.cell_type == 'code' for output in c.outputs]


def printed(outputs: list[Any]) -> str:
  """Returns all that was printed."""
  return ''.join(output.text for output in outputs if output.output_type == 'stream')


def pictures(outputs: list[Any]) -> list[Any]:
  """Returns the outputs that are pictures."""
  return [output for output in outputs if 'image/png' in output.get('data', {})]


def stored_outputs(name: str) -> list[Any]:
  """Returns the cells of a notebook that are stored with what they printed or drew."""
  return [c for c in read(name).cells if c.get('outputs') or c.get('execution_count')]
