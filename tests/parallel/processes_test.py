"""What several processes are told and say; that they agree is tested in end_to_end/."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import jax
import pytest

from robustness.core.errors import InputError
from robustness.parallel import agreement, meeting
from robustness.parallel.meeting import ProcessLostError, exchange, lost
from robustness.parallel.processes import ALONE, Processes
from tests.parallel.pairs import run_two

REFUSED_AND_SLOW_TO_LEAVE = """
import os, sys, time
import jax
from robustness.parallel.processes import Processes

address, index = sys.argv[1], int(sys.argv[2])
end = os._exit
if index:  # process 0, and the service with it, is gone long before
  os._exit = lambda status: (time.sleep(3), end(status))
processes = Processes(address, 2, index)

def work():
  processes.join()
  print('refused', index)
  return 2

processes.end_together(work)
"""


class Service:
  """A coordination service in which the other processes have said what `others` holds."""

  def __init__(self, others: dict[str, str]) -> None:
    self.said = dict(others)

  def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
    assert allow_overwrite or key not in self.said
    self.said[key] = value

  def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
    del timeout_in_ms
    if key not in self.said:
      raise jax.errors.JaxRuntimeError(f'DEADLINE_EXCEEDED: {key}')
    return self.said[key]

  def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
    return [(name, value) for name, value in self.said.items() if name.startswith(key)]

  def wait_at_barrier(self, name: str, timeout_in_ms: int) -> None:
    raise jax.errors.JaxRuntimeError(f'DEADLINE_EXCEEDED: {name} {timeout_in_ms}')


@pytest.fixture
def join(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Service]:
  """Makes this process the first of two, of which the other has said something."""

  def joined(others: dict[str, str]) -> Service:
    service = Service(others)
    monkeypatch.setattr(meeting, '_numbers', iter(range(9)))
    monkeypatch.setattr(meeting, '_client', lambda: service)
    monkeypatch.setattr(jax, 'process_count', lambda: 2)
    monkeypatch.setattr(jax.distributed, 'is_initialized', lambda: True)
    return service

  return joined


def test_one_process_joins_nothing_and_leaves_regularly() -> None:
  ALONE.join()
  assert not jax.distributed.is_initialized()
  assert ALONE.end_together(lambda: 2) == 2
  assert exchange('nothing', 'own') == ['own']
  with pytest.raises(ZeroDivisionError):
    ALONE.end_together(lambda: 1 // 0)


def _lose() -> int:
  raise RuntimeError('UNKNOWN: Gloo all-reduce failed: Connection closed by peer')


@pytest.mark.parametrize(
  ('work', 'status', 'printed'),
  [
    (lambda: 130, 130, ''),
    (lambda: 1 // 0, 1, 'ZeroDivisionError'),
    (_lose, 75, 'another process of this run ended, so process 0 ends too. It was killed'),
  ],
)
def test_one_that_fails_says_so_to_the_others_and_ends_at_once(
  join: Callable,
  monkeypatch: pytest.MonkeyPatch,
  capsys: pytest.CaptureFixture[str],
  work: Callable[[], int],
  status: int,
  printed: str,
) -> None:
  service, ended = join({}), list[int]()
  monkeypatch.setattr('os._exit', ended.append)
  Processes('host:1', 2, 0).end_together(work)
  assert ended == [status]
  assert service.said == {'ended/0': str(status)}
  errors = capsys.readouterr().err
  assert printed in errors
  assert ('Traceback' in errors) == (status == 1)


@pytest.mark.slow
def test_who_is_slow_to_leave_keeps_its_status_when_process_0_is_gone() -> None:
  outputs = run_two('-c', REFUSED_AND_SLOW_TO_LEAVE, status=2, seconds=120)
  for index, output in enumerate(outputs):
    assert f'refused {index}' in output and 'another process of this run ended' not in output


def test_who_waits_hears_that_another_one_ended(join: Callable) -> None:
  join({'ended/1': '2'})
  with pytest.raises(
    ProcessLostError, match=r'process 1 \(status 2\) ended.* See there'
  ) as failure:
    exchange('the records of natural', '')
  assert failure.value.status == 2
  assert lost(ValueError('Gloo all-reduce failed')).status == 2  # type: ignore[union-attr]
  assert lost(ValueError('of another kind')) is None
  try:
    try:
      raise ValueError('UNAVAILABLE: Socket closed')
    except ValueError as reason:
      raise TimeoutError('Timed out while waiting for a barrier.') from reason
  except TimeoutError as wrapped:
    assert lost(wrapped).status == 2  # type: ignore[union-attr]


def test_values_come_in_the_order_of_the_processes(join: Callable) -> None:
  join({'0/names/1': 'other', '1/again/1': 'other again'})
  assert exchange('names', 'own') == ['own', 'other']
  assert exchange('again', 'own') == ['own', 'other again']


def test_other_configs_are_refused_with_the_process_and_the_keys(join: Callable) -> None:
  join({'0/the config/1': '{"seed": 1, "training": {"steps": 3}}'})
  with pytest.raises(
    InputError, match=r'process 1 was started with another config.*\n  config\.seed: 0 → 1\nGive'
  ):
    agreement.check_config({'seed': 0, 'training': {'steps': 3}})


def test_a_workdir_that_another_process_does_not_see_is_refused(
  join: Callable, tmp_path: pathlib.Path
) -> None:
  join({'0/a file in the workdir/1': '', '1/who sees it/1': '/elsewhere'})
  with pytest.raises(InputError, match=r'not there for process 1 \(/elsewhere\)'):
    agreement.check_workdir(tmp_path / 'new')
  assert not list((tmp_path / 'new').iterdir())


def test_a_workdir_that_cannot_be_made_is_refused(join: Callable, tmp_path: pathlib.Path) -> None:
  join({'0/a file in the workdir/1': ''})
  (tmp_path / 'file').touch()
  with pytest.raises(InputError, match=r'process 0: workdir .*file.* cannot be made'):
    agreement.check_workdir(tmp_path / 'file')


@pytest.mark.parametrize(
  'bad',
  [
    Processes('', 2, 0),
    Processes('host', 2, 0),
    Processes('host:1', 2, 2),
    Processes('host:1', 2, -1),
  ],
)
def test_bad_flags_are_refused(bad: Processes) -> None:
  with pytest.raises(InputError, match=r'--coordinator=HOST:PORT and --process_id in 0\.\.1'):
    bad.join()


def test_a_number_of_a_process_without_others_is_refused() -> None:
  with pytest.raises(InputError, match='--process_id=1 is one of several processes'):
    Processes(index=1).join()


def test_a_cluster_and_numbers_of_ones_own_exclude_each_other() -> None:
  with pytest.raises(InputError, match='leave out --coordinator'):
    Processes('host:1', 2, 0, detect=True).join()
