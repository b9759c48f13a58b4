"""Runs notebooks and stores what they show: `python -m colabs.outputs NAME ...`.

Bars of progress are left out and figures are coarse PNGs, so that the files stay small.
"""

from __future__ import annotations

import sys
import tempfile

import nbformat
from nbclient import NotebookClient

from colabs.address import ROOT

QUICK = """
import sys

import robustness
from robustness.present import style

sys.modules['clu'] = None
style.VECTOR_FORMATS, style.DPI = (), 80.0
print(robustness.__file__)
"""
"""In place of the cell that installs: coarse PNG figures alone, and no TensorBoard events, for
which TensorFlow would be imported."""


def main() -> None:
  """Runs the notebooks that the command line names, or all, and rewrites them in place."""
  for name in sys.argv[1:] or [path.stem for path in sorted((ROOT / 'colabs').glob('*.ipynb'))]:
    path = ROOT / 'colabs' / f'{name}.ipynb'
    notebook = nbformat.read(path, as_version=4)
    # the run uses another cell to install and changes metadata: both are put back after it
    metadata, install = notebook.metadata.copy(), notebook.cells[1]
    source, install.source = install.source, QUICK
    with tempfile.TemporaryDirectory() as folder:
      NotebookClient(notebook, timeout=None, record_timing=False).execute(cwd=folder)
    notebook.metadata, install.source, install.outputs = metadata, source, []
    for cell in notebook.cells:
      if outputs := cell.get('outputs'):  # without lines of progress, which are on stderr
        cell.outputs = [entry for entry in outputs if entry.get('name') != 'stderr']
    nbformat.write(notebook, path)


if __name__ == '__main__':
  main()
