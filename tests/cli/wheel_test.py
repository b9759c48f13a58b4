"""The wheel installs the command and the packaged configs without a checkout."""

import json
import zipfile

import pytest

from tests.installation import ROOT, output_of


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_data_file(installed):
  (wheel,) = (installed / 'wheel').glob('*.whl')
  with zipfile.ZipFile(wheel) as archive:
    names = {name for name in archive.namelist() if '.dist-info/' not in name}
  suffixes = ('.py', '.npz', '.toml', '.csv', '.html', '.css', '.js', '.txt', '.bib')
  expected = {
    str(path.relative_to(ROOT))
    for package in ('robustness', 'input_pipeline')
    for path in (ROOT / package).rglob('*')
    if path.suffix in suffixes
  }
  configs = {f'robustness/configs/{path.name}' for path in (ROOT / 'configs').glob('*.py')}
  assert names == expected | configs


@pytest.mark.slow
def test_a_packaged_config_runs_by_name(installed):
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
