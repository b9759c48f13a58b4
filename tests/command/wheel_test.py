"""The wheel gives the command, with the packaged configs, far from any checkout."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.end_to_end.runs import ROOT


def output_of(folder: pathlib.Path, *command: str | os.PathLike[str], status: int = 0) -> str:
  """Runs a command in a folder and returns what it printed."""
  kept = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'JAX_NUM_CPU_DEVICES')}
  answer = subprocess.run(
    command,
    cwd=folder,
    env={**kept, 'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(folder / 'site')},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    timeout=240,
    check=False,
  )
  assert answer.returncode == status, answer.stdout
  return answer.stdout


@pytest.fixture(scope='module')
def installed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A folder with the wheel of a copy of this checkout, and what pip makes of it in `site`."""
  folder = tmp_path_factory.mktemp('installed')
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
  return folder


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_data_file(installed: pathlib.Path) -> None:
  (wheel,) = (installed / 'wheel').glob('*.whl')
  with zipfile.ZipFile(wheel) as archive:
    names = {name for name in archive.namelist() if '.dist-info/' not in name}
  kept = ('.py', '.npz', '.html', '.css', '.js')
  wanted = {
    str(path.relative_to(ROOT))
    for package in ('robustness', 'input_pipeline')
    for path in (ROOT / package).rglob('*')
    if path.suffix in kept
  }
  configs = {f'robustness/configs/{path.name}' for path in (ROOT / 'configs').glob('*.py')}
  assert names == wanted | configs


@pytest.mark.slow
def test_a_packaged_config_runs_by_name(installed: pathlib.Path) -> None:
  command = installed / 'site/bin/robustness'
  pixels = ('corruption_spectrum', '--workdir=run', '--config.data.num_images=2')
  study = ("--config.study.corruptions=('brightness',)", '--config.study.severities=(5,)')
  output = output_of(installed, command, *pixels, *study)
  assert 'results in ' in output
  environment = json.loads((installed / 'run/environment.json').read_text())
  assert environment['command'].startswith('robustness corruption_spectrum --workdir=run')
  page = (installed / 'run/report.html').read_bytes()
  (installed / 'run/report.html').unlink()
  printed = output_of(installed, command, 'report', 'run')
  assert printed.strip().endswith('run/report.html')
  assert (installed / 'run/report.html').read_bytes() == page


@pytest.mark.slow
def test_an_unknown_name_is_answered_with_the_nearest(installed: pathlib.Path) -> None:
  command = installed / 'site/bin/robustness'
  assert "did you mean 'corruption_spectrum'" in output_of(
    installed, command, 'corruption_spectum', '--workdir=run', status=2
  )
