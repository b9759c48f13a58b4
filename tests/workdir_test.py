"""A workdir belongs to one config once there is work in it."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import pytest

from robustness import workdir
from robustness.core.errors import InputError

CONFIG = {'seed': 0, 'study': {'name': 'accuracy', 'layers': ('a', 'b')}}


def test_config_is_written_and_accepted_again(tmp_path: pathlib.Path) -> None:
  path = workdir.prepare(tmp_path / 'new/deep', CONFIG)
  assert json.loads((path / 'config.json').read_text())['study']['layers'] == ['a', 'b']
  (path / 'records').mkdir()
  assert workdir.prepare(tmp_path / 'new/deep', CONFIG) == path


@pytest.mark.parametrize(
  'work',
  [
    'records/net/rows000000-views000000.npz',
    'seed1/records/noise-1234/net/round000/rows000000-views000000.npz',
    'checkpoints/net/checkpoints/100',
    'results.json',
  ],
)
def test_another_config_is_refused_by_key(tmp_path: pathlib.Path, work: str) -> None:
  workdir.prepare(tmp_path, CONFIG)
  (tmp_path / work).parent.mkdir(parents=True, exist_ok=True)
  (tmp_path / work).touch()
  content = (tmp_path / 'config.json').read_bytes()
  other = {'seed': 1, 'study': {'name': 'accuracy', 'layers': ('a',), 'norm': 4.0}}
  with pytest.raises(InputError) as raised:
    workdir.prepare(tmp_path, other)
  for line in (
    'config.seed: 0 → 1',
    "config.study.layers: ['a', 'b'] → ['a']",
    'config.study.norm: None → 4.0',
  ):
    assert line in str(raised.value)
  assert (tmp_path / 'config.json').read_bytes() == content


def test_a_config_without_work_gives_way_to_a_corrected_one(tmp_path: pathlib.Path) -> None:
  workdir.prepare(tmp_path, CONFIG)
  for begun in (
    'checkpoints/net/classifier.json',
    'seed1/checkpoints/net/checkpoints/100.orbax-checkpoint-tmp',
    'records/net/header.json',
    'figures/cells.png',
  ):
    (tmp_path / begun).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / begun).touch()
  workdir.prepare(tmp_path, {**CONFIG, 'seed': 1})
  assert json.loads((tmp_path / 'config.json').read_text())['seed'] == 1


def test_a_part_that_an_earlier_version_had_not_is_no_other_config(tmp_path: pathlib.Path) -> None:
  def config(policy: tuple[str, ...], attack: str, **further: dict[str, int]) -> dict[str, Any]:
    augment = {'policy': policy, 'crop': {'padding': 4}, **further}
    attacks = {'name': attack, 'pgd': {'steps': 7}, **further}
    return {'classifiers': {'net': {'augment': augment, 'attack': attacks}}}

  workdir.prepare(tmp_path, config(('crop',), 'auto_pgd'))
  (tmp_path / 'results.json').touch()
  later = config(('crop',), 'auto_pgd', cutout={'size': 16})
  later['classifiers']['net']['attack']['pgd'] = {'steps': 8}
  workdir.prepare(tmp_path, later)
  later['classifiers']['net']['augment']['crop'] = {'padding': 2}
  with pytest.raises(InputError, match=r'net\.augment\.crop\.padding: 4 → 2\nUse'):
    workdir.prepare(tmp_path, later)
  with pytest.raises(InputError, match=r'augment\.policy: '):
    workdir.prepare(tmp_path, config(('crop', 'cutout'), 'auto_pgd', cutout={'size': 16}))


@pytest.mark.parametrize('content', [b'{"seed":', b'\xff\xfe{}'])
def test_damaged_config_is_named(tmp_path: pathlib.Path, content: bytes) -> None:
  (tmp_path / 'results.json').touch()
  (tmp_path / 'config.json').write_bytes(content)
  with pytest.raises(InputError, match=r'config\.json is truncated or no JSON'):
    workdir.prepare(tmp_path, CONFIG)


def test_a_config_whose_battery_is_no_section_is_named(tmp_path: pathlib.Path) -> None:
  (tmp_path / 'results.json').touch()
  (tmp_path / 'config.json').write_text('{"battery": 5}')
  with pytest.raises(InputError, match=r'config\.json: battery is 5; expected an object'):
    workdir.prepare(tmp_path, CONFIG)


def test_a_file_in_the_place_of_the_workdir_is_refused(tmp_path: pathlib.Path) -> None:
  (tmp_path / 'file').write_text('')
  with pytest.raises(InputError, match='file cannot be made'):
    workdir.prepare(tmp_path / 'file', CONFIG)


def test_a_workdir_that_cannot_be_written_to_is_refused(
  tmp_path: pathlib.Path, monkeypatch
) -> None:
  def read_only(*unused: object) -> None:
    raise OSError(errno.EROFS, 'Read-only file system', 'somewhere')

  monkeypatch.setattr('robustness.workdir.write_atomically', read_only)
  with pytest.raises(InputError, match=r'cannot be written to \(Read-only file system\)'):
    workdir.prepare(tmp_path, CONFIG)


def test_environment_tells_versions_devices_and_seed() -> None:
  described = workdir.environment(7, 'python main.py')
  assert described['versions']['jax'] == jax.__version__
  assert len(described['devices']) == jax.device_count()
  assert (described['seed'], described['command'], described['processes']) == (
    7,
    'python main.py',
    1,
  )
  json.dumps(described)


def test_a_second_run_in_a_workdir_is_refused(tmp_path: pathlib.Path) -> None:
  path = tmp_path / 'run'
  with workdir.locked(path):
    with (
      pytest.raises(InputError, match=rf'another run works in .*/run \(process {os.getpid()} on'),
      workdir.locked(path),
    ):
      pass
  with workdir.locked(path):
    pass


def test_a_killed_run_holds_its_workdir_no_longer(tmp_path: pathlib.Path) -> None:
  program = f"""
import sys
from robustness import workdir
with workdir.locked({str(tmp_path)!r}):
  print('locked', flush=True)
  sys.stdin.read()
"""
  command = [sys.executable, '-c', program]
  with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
    assert other.stdout is not None and other.stdout.readline() == b'locked\n'
    with pytest.raises(InputError, match=rf'process {other.pid} '), workdir.locked(tmp_path):
      pass
    other.kill()
    other.wait()
    with workdir.locked(tmp_path):
      pass


def test_only_the_first_of_several_processes_locks(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  with workdir.locked(tmp_path):
    monkeypatch.setattr(jax, 'process_index', lambda: 1)
    with workdir.locked(tmp_path):
      pass


@pytest.mark.parametrize('given', ['', '~nosuchuser/run', 'a\0b'])
def test_what_is_no_folder_is_refused(given: str) -> None:
  with pytest.raises(InputError, match='--workdir is|unknown user|is no path'):
    workdir.prepare(given, CONFIG)
