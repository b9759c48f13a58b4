"""The command `robustness`: what it lists, what it says of the machine, and of what is wrong."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from input_pipeline.settings import SOURCES
from robustness.cli import doctor
from robustness.cli.main import USAGE, main
from robustness.config import packaged
from robustness.evaluation import study
from robustness.models import catalog
from robustness.workdir import PACKAGES
from tests.end_to_end.runs import ROOT

Captured = pytest.CaptureFixture[str]


def lines(capsys: Captured) -> dict[str, str]:
  """Returns {first word: the rest} of the indented lines that were printed."""
  printed = [line[2:] for line in capsys.readouterr().out.splitlines() if line.startswith('  ')]
  return {line.split()[0]: line.partition(' ')[2].strip() for line in printed}


@pytest.mark.parametrize(
  ('part', 'names'),
  [
    ('studies', study.STUDIES.classes()),
    ('classifiers', catalog.ARCHITECTURES),
    ('sources', SOURCES.classes()),
  ],
)
def test_a_part_is_listed_whole_and_each_name_has_a_line(capsys: Captured, part, names) -> None:
  assert main(['list', part]) == 0
  listed = lines(capsys)
  assert set(listed) == set(names)
  assert not [name for name, said in listed.items() if len(said) < 15]


def test_configs_are_listed_with_their_variants(capsys: Captured) -> None:
  assert main(['list', 'configs']) == 0
  output = capsys.readouterr().out
  assert {path.stem for path in (ROOT / 'configs').glob('*.py')} == set(packaged.files())
  for name in packaged.files():
    assert f'\n  {name} ' in output
  assert 'variants: digits, cifar10, cifar10_pair, imagenet\n' in output
  assert 'variants: efficientnet_lite0, resnet50, ' in output, 'the default first'


def test_the_doctor_says_what_each_missing_thing_would_give(
  capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(doctor, 'is_installed', lambda module: module != 'open_clip')
  assert main(['doctor']) == 0
  told = lines(capsys)
  assert told['devices'].startswith('8 × cpu')
  assert told['clip'].startswith("MISSING  would give: CLIP's tokenizer")
  assert told['torch'].startswith('yes ')
  assert {'jax', 'numpy'} <= set(told) & set(PACKAGES)


def test_the_doctor_knows_every_extra() -> None:
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  assert set(doctor.EXTRAS) == set(project['optional-dependencies'])


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['docter'], "did you mean 'doctor'"),
    (['fourier_heatmp', '--workdir=/tmp/x'], "did you mean 'fourier_heatmap'"),
    (['fourier_heatmp:cifar10'], 'config file fourier_heatmp does not exist'),
    (['none/of/these.py'], 'config file none/of/these.py does not exist'),
    (['list', 'study'], "robustness list study: did you mean 'studies'"),
    (['doctor', 'me'], "robustness doctor takes no further words; got 'me'"),
    (['report'], 'robustness report takes one workdir; 0 words'),
  ],
)
def test_a_wrong_word_is_answered_with_the_nearest(
  capsys: Captured, arguments: list[str], message: str
) -> None:
  assert main(arguments) == 2
  error = capsys.readouterr().err
  assert error.startswith('error: ') and message in error


def test_the_module_is_the_command_where_nothing_is_installed() -> None:
  command = [sys.executable, '-m', 'robustness', '--help']
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
  assert done.stdout == USAGE


def test_help_names_every_command(capsys: Captured) -> None:
  assert main([]) == 2 and main(['--help']) == 0
  usage = capsys.readouterr().out
  for word in ('NAME[:VARIANT] --workdir=DIR', 'list', 'doctor', 'report WORKDIR'):
    assert f'robustness {word}' in usage
