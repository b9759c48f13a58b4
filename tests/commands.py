"""Runs commands in separate processes and returns their output."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]


def module_of(file: str) -> types.ModuleType:
  """Imports a Python file of the checkout that is in no package, such as docs/pictures.py."""
  spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, ROOT / file)
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def environment(**variables: str) -> dict[str, str]:
  """Returns the environment of a process on the CPU, with the default number of devices."""
  inherited = {k: v for k, v in os.environ.items() if k != 'JAX_NUM_CPU_DEVICES'}
  return {**inherited, 'JAX_PLATFORMS': 'cpu', 'PYTHONUNBUFFERED': '1', **variables}


def start(*command: str, cwd: pathlib.Path = ROOT, **variables: str) -> subprocess.Popen[str]:
  printed = {'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT, 'text': True}
  return subprocess.Popen(command, cwd=cwd, env=environment(**variables), **printed)


def output_of(
  *command: str | os.PathLike[str], status: int = 0, timeout: float = 600, **options
) -> str:
  """Returns the output of a command that ends with this exit status."""
  process = start(*map(str, command), **options)
  try:
    output, _ = process.communicate(timeout=timeout)
  finally:
    process.kill()
  assert process.returncode == status, output
  return output


def python(*arguments: str | os.PathLike[str], **options) -> str:
  return output_of(sys.executable, *arguments, **options)
