"""Running a notebook of `colabs/` where nothing but the installed package is found."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests import installation

ROOT = installation.ROOT
FINISHED = 'parameters'
INSTALL = 'install'


def read(name: str) -> Any:
  """Returns the notebook `colabs/<name>.ipynb`."""
  return nbformat.read(ROOT / 'colabs' / f'{name}.ipynb', as_version=4)


def tagged(notebook: Any, tag: str) -> Any:
  """Returns the only cell with a tag."""
  (cell,) = (c for c in notebook.cells if tag in c.metadata.get('tags', []))
  return cell


def executed(
  name: str, installed: pathlib.Path, folder: pathlib.Path, workdir: pathlib.Path | None = None
) -> list[list[Any]]:
  """Runs a notebook as it stands, but for the cell that installs.

  Args:
    name: of the notebook.
    installed: the fixture.
    folder: where it runs.
    workdir: a finished run to draw, or None: it makes one.

  Returns:
    The outputs of each cell with code.
  """
  notebook = read(name)
  tagged(notebook, INSTALL).source = 'import robustness\nprint(robustness.__file__)'
  if workdir:
    tagged(notebook, FINISHED).source = f'WORKDIR = {str(workdir)!r}'
  client = NotebookClient(notebook, timeout=300, kernel_name='python3')
  client.execute(cwd=str(folder), env=installation.environment(installed))
  cells = [cell.outputs for cell in notebook.cells if cell.cell_type == 'code']
  assert printed(cells[:1]).strip() == str(installed / 'site/robustness/__init__.py')
  return cells


def drawn_run(name: str, installed: pathlib.Path, workdir: pathlib.Path) -> list[list[Any]]:
  """Runs a notebook on a finished run, which stays as it is."""
  before = results_time(workdir)
  folder = workdir.with_name(f'{workdir.name}_drawn')
  folder.mkdir()
  cells = executed(name, installed, folder, workdir)
  assert results_time(workdir) == before
  assert [path.name for path in folder.iterdir()] == ['mine.py']
  return cells


def text_of_drawn_run(name: str, installed: pathlib.Path, workdir: pathlib.Path) -> str:
  """Returns what a notebook prints of a run, of which it shows all figures and one of its own."""
  cells = drawn_run(name, installed, workdir)
  assert len(pictures(cells)) == len(list((workdir / 'figures').glob('*.png'))) + 1
  return printed(cells)


def results_time(workdir: pathlib.Path) -> int:
  """Returns when the results were written, in nanoseconds."""
  return (workdir / 'results.json').stat().st_mtime_ns


def printed(cells: list[list[Any]]) -> str:
  """Returns all that was printed."""
  return ''.join(o.text for outputs in cells for o in outputs if o.output_type == 'stream')


def pictures(cells: list[list[Any]]) -> list[Any]:
  """Returns the outputs that are pictures."""
  return [o for outputs in cells for o in outputs if 'image/png' in o.get('data', {})]


def workdir_of(name: str) -> str:
  """Returns the folder in which a notebook makes its run."""
  text = '\n'.join(cell.source for cell in read(name).cells)
  (folder,) = re.findall(r"^  WORKDIR = '(\w+)'$", text, re.MULTILINE)
  return folder


def stored_outputs(name: str) -> list[Any]:
  """Returns the cells of a notebook that are stored with what they printed or drew."""
  return [c for c in read(name).cells if c.get('outputs') or c.get('execution_count')]
