"""Installs the package with pip outside of the checkout and runs commands with it."""

import os
import pathlib
import shutil
import sys

from tests import commands
from tests.commands import ROOT


def install(folder: pathlib.Path) -> None:
  """Builds the wheel of a copy of this checkout in `wheel` and installs it in `site`."""
  source = folder / 'source'
  for name in ('robustness', 'input_pipeline', 'configs'):
    shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns('__pycache__'))
  for name in ('setup.py', 'pyproject.toml', 'README.md', 'LICENSE'):
    shutil.copy(ROOT / name, source / name)
  pip = (sys.executable, '-m', 'pip', '--disable-pip-version-check', '--quiet')
  output_of(folder, *pip, 'wheel', '--no-deps', '--no-build-isolation', '-w', 'wheel', source)
  (wheel,) = (folder / 'wheel').glob('*.whl')
  output_of(folder, *pip, 'install', '--no-deps', '--no-compile', '--target', 'site', wheel)
  shutil.rmtree(source)


def environment(folder: pathlib.Path) -> dict[str, str]:
  return commands.environment(PYTHONPATH=str(folder / 'site'))


def output_of(folder: pathlib.Path, *command: str | os.PathLike[str], status: int = 0) -> str:
  return commands.output_of(*command, cwd=folder, status=status, PYTHONPATH=str(folder / 'site'))
