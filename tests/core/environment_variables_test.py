"""Tests that an environment variable which JAX or Matplotlib refuses is named in one line."""

import pytest

from robustness.core import environment_variables
from tests.cases import cases
from tests.commands import python

ABSENT = 'JAX cannot start its devices with JAX_PLATFORMS='


@cases(
  'name, value, message',
  pytest.param(
    'JAX_PLATFORMS',
    'cuda',
    f'{ABSENT}cuda: this machine has no such device. Unset',
    marks=pytest.mark.slow,
  ),
  pytest.param(
    'JAX_PLATFORMS',
    'nonsense',
    f"{ABSENT}nonsense: Unable to initialize backend 'nonsense': ",
    marks=pytest.mark.slow,
  ),
  ('JAX_ENABLE_X64', 'maybe', 'the environment has JAX_ENABLE_X64=maybe: invalid truth value '),
  ('JAX_NUM_CPU_DEVICES', 'abc', 'the environment has JAX_NUM_CPU_DEVICES=abc: Invalid value '),
  pytest.param(
    'JAX_NUM_CPU_DEVICES', '0', 'JAX cannot start its devices with JAX_', marks=pytest.mark.slow
  ),
  pytest.param(
    'MPLBACKEND',
    'nonsense',
    'the environment has MPLBACKEND=nonsense: Key backend: ',
    marks=pytest.mark.slow,
  ),
  pytest.param(
    'XLA_FLAGS',
    '--xla_nonsense=1',
    'Unknown flag in XLA_FLAGS: --xla_nonsense=1',
    marks=pytest.mark.slow,
  ),
)
def test_the_doctor_names_the_variable_in_one_line(name, value, message):
  status = 1 if name == 'XLA_FLAGS' else 2  # XLA ends the process by itself
  *heading, line = python('-m', 'robustness', 'doctor', status=status, **{name: value}).splitlines()
  assert message in line
  assert status == 1 or line.startswith('error: ')
  assert heading in ([], ['machine'])


@pytest.mark.slow
@cases(
  'name, value, arguments',
  ('JAX_PLATFORMS', 'cuda', ('--workdir=WORKDIR',)),
  ('MPLBACKEND', 'nonsense', ('--print_config',)),
)
def test_a_run_names_the_variable_in_one_line(tmp_path, name, value, arguments):
  words = [word.replace('WORKDIR', str(tmp_path / 'run')) for word in arguments]
  output = python('main.py', '--config=accuracy', *words, status=2, **{name: value})
  assert len(output.splitlines()) == 1
  assert output.startswith('error: ') and f'{name}={value}' in output


def test_other_errors_have_no_advice(monkeypatch):
  monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
  with pytest.raises(ValueError) as raised:
    raise ValueError("'cpu' is no valid value")
  assert environment_variables.advice(raised.value) is None
