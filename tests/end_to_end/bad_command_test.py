"""What can be wrong in a command: its flags, its config file, and Ctrl-C before the run begins."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.end_to_end import runs
from tests.end_to_end.runs import DEFAULT

COMMAND_LINES = (
  ('--config.study.norrm=4', "unknown key config.study.norrm: did you mean 'norm'?"),
  ('--config.study.clip=maybe', 'config.study.clip=maybe'),
  ('config.seed=4', "'config.seed=4' is no flag"),
  ('--compilation_cache=/dev/null/x', 'cannot be kept in /dev/null/x (Not a directory)'),
  ('--workdri=/tmp', "Unknown command line flag 'workdri'"),
  ('--config.study.phase=sine', "config.study.phase is 'sine'; did you mean 'cosine'?"),
  ('--config.study.name=fourier_heatmp', "did you mean 'fourier_heatmap'"),
)

SEVERITIES = {
  'severities=(0,)': 'config.study.severities is (0,); it must be distinct numbers of 1..5',
  "severities=('three',)": "config.study.severities must be an int; got 'three'",
  'between=(5.01,)': 'config.study.between is 5.01; it must be in [1, 5]',
  'between=(nan,)': "config.study.between must be a float; got '(nan,)'",
}

OTHER_COMMANDS = (
  *(
    ('corruption_error.py', f'--config.study.{setting}', message)
    for setting, message in SEVERITIES.items()
  ),
  (
    'corruption_error.py',
    '--config.study.protocol=as_released',
    'the images are 28 × 28, and released sets have sides of 32, 64, 224 pixels',
  ),
  (
    'battery.py',
    '--config.battery.c_bar.study.protocol=as_released',
    "config.battery.c_bar.study.protocol is 'as_released', but the images are 28 × 28",
  ),
  (
    'battery.py',
    "--config.battery.parts=('clean','corruption')",
    "names 'corruption'; did you mean 'corruptions' or 'calibration'?",
  ),
  (
    'corruption_error.py:robustbench',
    '--config.data.path=nowhere',
    "config.data.path is 'nowhere', which is not a folder",
  ),
)

CONFIG_FILES = (
  ('nowhere.py', 'config file configs/nowhere.py does not exist'),
  (
    'train.py:cifar100',
    "no variant 'cifar100'; did you mean 'cifar10'? valid: 'cifar10', 'digits'",
  ),
  ('accuracy.py:x', 'config file configs/accuracy.py: get_config cannot be called'),
)


@pytest.fixture(scope='module')
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
  """{flag or config: exit status and output} of the commands below."""

  def workdir() -> pathlib.Path:
    return tmp_path_factory.mktemp('command')

  commands = {
    **{flag: runs.arguments(workdir(), DEFAULT, flags=(flag,)) for flag, _ in COMMAND_LINES},
    **{config: runs.arguments(workdir(), config, small=False) for config, _ in CONFIG_FILES},
    **{
      config + flag: runs.arguments(workdir(), config, flags=(flag,), small=False)
      for config, flag, _ in OTHER_COMMANDS
    },
  }
  return dict(zip(commands, runs.forked([*commands.values()]), strict=True))


def check_refused(answer: tuple[int, str], message: str) -> None:
  status, output = answer
  errors = [line for line in output.splitlines() if line.startswith('error: ')]
  assert status == 2 and len(errors) == 1, output
  assert message in errors[0] and 'Traceback' not in output, output


@pytest.mark.parametrize(('flag', 'message'), COMMAND_LINES)
def test_command_line(answers: dict[str, tuple[int, str]], flag: str, message: str) -> None:
  check_refused(answers[flag], message)


@pytest.mark.parametrize(('config', 'flag', 'message'), OTHER_COMMANDS)
def test_settings_of_corruptions_and_batteries(
  answers: dict[str, tuple[int, str]], config: str, flag: str, message: str
) -> None:
  check_refused(answers[config + flag], message)


@pytest.mark.parametrize(('config', 'message'), CONFIG_FILES)
def test_config_file(answers: dict[str, tuple[int, str]], config: str, message: str) -> None:
  status, output = answers[config]
  assert status == 2 and f'error: {message}' in output and 'Traceback' not in output, output


@pytest.mark.parametrize('module', ['robustness.run', 'configs_of_the_user'])
def test_ctrl_c_before_the_run_begins_is_one_line(tmp_path: pathlib.Path, module: str) -> None:
  """While the command imports, and while it reads the config."""
  (tmp_path / 'mine.py').write_text('import configs_of_the_user')
  program = f"""
import runpy, sys

class Interrupting:
  def find_spec(self, name, path=None, target=None):
    if name == {module!r}:
      raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.argv = ['main.py', '--config={tmp_path / 'mine.py'}', '--workdir={tmp_path / 'run'}']
runpy.run_path('main.py', run_name='__main__')
"""
  ended = subprocess.run(
    [sys.executable, '-c', program], cwd=runs.ROOT, capture_output=True, text=True, check=False
  )
  assert ended.returncode == 130
  assert 'Traceback' not in ended.stderr
  assert ended.stderr.strip().splitlines()[-1].endswith('the same command begins it.')
