"""The command `robustness`: lists of parts, facts of the machine, refusals and clean ends."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import zipfile

import jax
import numpy as np
import pytest
from absl.testing import flagsaver

from input_pipeline.settings import SOURCES
from robustness import __version__, launch
from robustness.__main__ import COMMANDS, USAGE, main
from robustness.cli import doctor, leaderboard, process, running
from robustness.config import packaged
from robustness.config.defaults import default_config
from robustness.evaluation import study
from robustness.models import catalog
from robustness.parallel.processes import ALONE
from robustness.workdirs.workdir import PACKAGES
from tests.cases import cases
from tests.end_to_end.runs import ROOT


def lines(capsys):
  """Returns {first word: the rest} of the indented lines that were printed."""
  printed = [line[2:] for line in capsys.readouterr().out.splitlines() if re.match(r'  \S', line)]
  return {line.split()[0]: line.partition(' ')[2].strip() for line in printed}


LISTED = {'studies': study.STUDIES.classes(), 'sources': SOURCES.classes()}
LISTED |= {'classifiers': catalog.ARCHITECTURES}


@pytest.mark.parametrize(('part', 'names'), LISTED.items(), ids=LISTED)
def test_the_list_of_a_part_describes_every_name(capsys, part, names):
  assert main(['list', part]) == 0
  listed = lines(capsys)
  assert set(listed) == set(names)
  assert not [name for name, text in listed.items() if len(text) < 15]


def test_configs_are_listed_with_their_variants(capsys):
  assert main(['list', 'configs']) == 0
  output = capsys.readouterr().out
  assert {path.stem for path in (ROOT / 'configs').glob('*.py')} == set(packaged.files())
  for name in packaged.files():
    assert f'\n  {name} ' in output
  assert 'variants: digits, cifar10, cifar10_pair, imagenet, imagenet_pair\n' in output
  assert 'variants: efficientnet_lite0, resnet50, ' in output, 'the default first'
  assert 'variants:\n' not in output


def test_the_doctor_lists_every_extra_and_what_a_missing_one_would_add(capsys, monkeypatch):
  monkeypatch.setattr(doctor, 'is_installed', lambda module: module != 'open_clip')
  assert main(['doctor']) == 0
  message = lines(capsys)
  assert message['devices'].startswith('8 × cpu (backend cpu)')
  assert message['clip'].startswith("MISSING  would add: CLIP's tokenizer")
  assert message['torch'].startswith('yes ')
  assert message['imagecorruptions'].startswith("yes      frost's photographs")
  assert {'jax', 'numpy'} <= set(message) & set(PACKAGES)
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  assert set(doctor.EXTRAS) == set(project['optional-dependencies'])


def test_the_doctor_says_which_data_sets_lack_files(tmp_path, monkeypatch):
  splits = [{'name': 'test', 'shardLengths': ['2', '1']}]
  for name in ('whole', 'part', 'other'):
    folder = tmp_path / name / '1.0.0'
    folder.mkdir(parents=True)
    (folder / 'dataset_info.json').write_text(json.dumps({'splits': splits}))
    (folder / 'x-test.tfrecord-00000-of-00002').touch()
    if name != 'other':
      (folder / 'features.json').touch()
  (tmp_path / 'whole/1.0.0/x-test.tfrecord-00001-of-00002').touch()
  monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
  expected = f'{tmp_path}: part/1.0.0 (incomplete), whole/1.0.0'
  assert dict(doctor.data())['tfds'] == expected


def test_the_doctor_takes_no_folder_without_code_for_a_package(tmp_path, monkeypatch):
  (tmp_path / 'wandb_of_runs').mkdir()  # as the logs that some packages write where a run begins
  (tmp_path / 'module_of_ours.py').write_text('')
  monkeypatch.syspath_prepend(tmp_path)
  assert doctor.is_installed('module_of_ours') and doctor.is_installed('numpy')
  assert not doctor.is_installed('wandb_of_runs')


@cases(
  'arguments, message',
  (['docter'], "did you mean 'doctor'"),
  (['fourier_heatmp', '--workdir=/tmp/x'], "did you mean 'fourier_heatmap'"),
  (['fourier_heatmp:cifar10'], 'config file fourier_heatmp does not exist'),
  (['none/of/these.py'], 'config file none/of/these.py does not exist'),
  (
    ['tests'],
    'tests is a folder: give tests/config.json of a workdir, or `robustness report tests`',
  ),
  (['list', 'study'], "robustness list is 'study'; did you mean 'studies'"),
  (['compare', 'none/here', '--out=out'], 'none/here is no workdir'),
)
def test_a_wrong_word_is_answered_with_the_nearest(capsys, arguments, message):
  assert main(arguments) == 2
  error = capsys.readouterr().err
  assert error.startswith('error: ') and message in error


@cases(
  'arguments, message',
  (['--workdir=run'], 'give --config=NAME, or a file; '),
  (['--config=accuracy'], 'give --workdir=DIR, or --dry_run or --print_config.'),
  (['--config=nowhere'], 'config file nowhere does not exist'),
)
def test_a_run_without_a_config_or_workdir_is_refused(capsys, arguments, message):
  with pytest.raises(SystemExit, match='2'), flagsaver.flagsaver():
    main(arguments)
  assert f'error: {message}' in capsys.readouterr().err


def test_help_names_every_command_and_the_module_is_the_command(capsys):
  command = [sys.executable, '-m', 'robustness', '--help']
  process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
  assert process.stdout == USAGE
  assert main([]) == 2 and main(['--help']) == 0
  assert capsys.readouterr().out == 2 * USAGE
  assert not [name for name in ('NAME[:VARIANT]', *COMMANDS) if f'robustness {name} ' not in USAGE]


def test_the_versions_of_the_package_jax_and_flax_are_printed(capsys):
  assert main(['--version']) == 0
  assert capsys.readouterr().out.startswith(f'robustness {__version__} jax {jax.__version__} flax ')


class Interrupted:
  """An object that is interrupted by Ctrl-C while it is finalized."""

  def __del__(self):
    raise KeyboardInterrupt


def test_a_full_disk_is_one_line_in_every_command(monkeypatch, tmp_path, capsys):
  def fail(arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / 'site'))

  monkeypatch.setattr(leaderboard, 'main', fail)
  assert main(['leaderboard', 'board', '--add=run']) == 2
  assert capsys.readouterr().err.startswith(f'error: no space left on disk ({tmp_path / "site"}).')


def test_ctrl_c_in_a_finalizer_is_not_lost(monkeypatch, capsys):
  monkeypatch.setattr(sys, 'unraisablehook', running.raise_interrupt_again)
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with pytest.raises(KeyboardInterrupt):
      Interrupted()
      for _ in range(500):
        time.sleep(0.01)
  finally:
    signal.signal(signal.SIGINT, before)
  assert capsys.readouterr().err == ''


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')
def test_ctrl_c_while_an_archive_is_written_is_no_failure(monkeypatch, tmp_path, capsys):
  """zipfile then raises ValueError, also in its finalizers, because a member is still open."""

  def interrupt(*_):
    raise KeyboardInterrupt

  def write(*_):
    monkeypatch.setattr(zipfile, '_get_compressor', interrupt)
    np.savez(tmp_path / 'records.npz', correct=np.ones(3))

  monkeypatch.setattr(process, 'set_devices', lambda processes: None)  # JAX has begun
  monkeypatch.setattr(launch, 'run', write)
  status = running.run_command(
    default_config('accuracy'), str(tmp_path / 'run'), 'robustness accuracy'
  )
  assert status == process.INTERRUPTED
  assert capsys.readouterr().err.startswith('interrupted. Finished work is saved in')


def test_a_workdir_that_cannot_be_named_is_bad_input(monkeypatch, capsys):
  monkeypatch.setattr(process, 'set_devices', lambda processes: None)
  assert running.run_command(default_config('accuracy'), '~nobody-here/run', '') == 2
  assert '~nobody-here' in capsys.readouterr().err


def exhausted(*_):
  raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory allocating 1.00TiB.')


@cases(
  'fail, message',
  (lambda *_: np.empty(2**60, np.int8), 'not enough memory (Unable to allocate 1.00 EiB '),
  (exhausted, 'not enough memory on the device: give a smaller --config.batch_size or --config.vi'),
)
def test_too_little_memory_is_one_line(fail, message, monkeypatch, tmp_path, capsys):
  monkeypatch.setattr(process, 'set_devices', lambda processes: None)
  monkeypatch.setattr(launch, 'run', fail)
  monkeypatch.setattr(running, 'show_plan', fail)
  config, workdir = default_config('accuracy'), str(tmp_path / 'run')
  for status in (running.run_command(config, workdir, ''), running.dry_run(config.to_dict())):
    assert status == process.BAD_INPUT
  assert capsys.readouterr().err.count(f'error: {message}') == 2


@pytest.mark.slow
def test_an_interrupted_run_does_not_take_the_interpreter_apart(tmp_path):
  """The command ends without Python's exit handlers, because XLA's threads crash in them."""
  program = f"""
import atexit, os
from robustness import launch
from robustness.cli import running
running.run_command = lambda *_, **__: running.exit_with(running.INTERRUPTED, 'interrupted.')
atexit.register(os.abort)
running.begin(['run', '--config=accuracy', '--workdir={tmp_path}'], ['run'])
"""
  command = [sys.executable, '-c', program]
  ended = subprocess.run(command, capture_output=True, text=True, check=False)
  assert (ended.returncode, ended.stderr) == (130, 'interrupted.\n')


@cases(
  'name, value, is_kept',
  ('JAX_NUM_CPU_DEVICES', '3', True),
  ('XLA_FLAGS', '--xla_force_host_platform_device_count=3', True),
  ('XLA_FLAGS', '--xla_gpu_deterministic_ops=true', False),
)
def test_a_number_of_devices_that_the_environment_asks_for_is_kept(
  monkeypatch, name, value, is_kept
):
  changes: list[str] = []
  for other in ('JAX_NUM_CPU_DEVICES', 'XLA_FLAGS'):
    monkeypatch.delenv(other, raising=False)
  monkeypatch.setenv(name, value)
  monkeypatch.setattr(process.host, 'keep_freed_memory', lambda: True)
  monkeypatch.setattr(jax.config, 'update', lambda key, number: changes.append(key))
  process.set_devices(ALONE)
  assert changes == ([] if is_kept else ['jax_num_cpu_devices'])
