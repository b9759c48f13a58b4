"""Several processes exchange texts, check that they agree and end together.

end_to_end/processes_test.py has whole runs.
"""

import itertools

import jax
import numpy as np
import pytest

from robustness.parallel import processes
from robustness.parallel.processes import ALONE, Processes, check_config, check_workdir, exchange
from tests.cases import cases
from tests.parallel.pairs import run_two
from tests.refusals import refused

EXCHANGED_AND_REFUSED = """
import sys
import jax
from robustness.parallel.processes import Processes, exchange

processes = Processes(sys.argv[1], 2, int(sys.argv[2]))

def work():
  jax.config.update('jax_platforms', 'cpu')
  processes.join()
  print(exchange('names', 'é' * (3 * processes.index)), exchange('empty', ''))
  return 2

processes.end_together(work)
"""


@pytest.fixture
def join(monkeypatch):
  """Returns a function that makes this process the first of two.

  The second process answers with the given replies in order. The function returns the list of
  barriers at which the processes wait.
  """

  def joined(replies):
    waited: list[str] = []
    sizes = [np.int32(len(value.encode())) for value in replies]
    rows = [np.frombuffer(value.encode(), np.uint8) for value in replies]
    answers = itertools.chain.from_iterable(zip(sizes, rows, strict=True))

    def gather(value):
      other = np.asarray(next(answers))
      if value.ndim:
        other = np.pad(other, (0, len(value) - len(other)))
      return np.stack([value, other])

    monkeypatch.setattr(processes, '_wait', lambda key, seconds: waited.append(key))
    monkeypatch.setattr(processes.multihost_utils, 'process_allgather', gather)
    monkeypatch.setattr(jax, 'process_count', lambda: 2)
    monkeypatch.setattr(jax.distributed, 'is_initialized', lambda: True)
    return waited

  return joined


def test_a_single_process_joins_no_others_and_returns_or_raises():
  ALONE.join()
  assert not jax.distributed.is_initialized()
  assert ALONE.end_together(lambda: 2) == 2
  assert exchange('nothing', 'own') == ['own']
  with pytest.raises(ZeroDivisionError):
    ALONE.end_together(lambda: 1 // 0)


def _lose() -> int:
  raise RuntimeError('UNKNOWN: Gloo all-reduce failed: Connection closed by peer')


@cases(
  'work, status, printed',
  (lambda: 130, 130, ''),
  (lambda: 1 // 0, 1, 'ZeroDivisionError'),
  (_lose, 75, 'another process of this run ended, so process 0 ends too; see its output'),
)
def test_a_process_that_fails_waits_briefly_for_others_and_exits(
  join, monkeypatch, capsys, work, status, printed
):
  waited, ended = join([]), list[int]()
  monkeypatch.setattr('os._exit', ended.append)
  monkeypatch.setattr(processes, 'LAST_SECONDS', 0.0)
  Processes('host:1', 2, 0).end_together(work)
  assert ended == [status] and waited == ['the end of all that fail']
  errors = capsys.readouterr().err
  assert printed in errors
  assert ('Traceback' in errors) == (status == 1)


@pytest.mark.slow
def test_two_processes_exchange_values_and_exit_with_their_status():
  for output in run_two('-c', EXCHANGED_AND_REFUSED, status=2, seconds=120):
    assert "['', 'ééé'] ['', '']" in output


def test_a_lost_process_is_recognised_by_an_error_or_its_cause(join):
  assert not processes.peer_is_lost(ValueError('Gloo all-reduce failed')), 'there is no other'
  join([])
  assert processes.peer_is_lost(ValueError('Gloo all-reduce failed'))
  assert not processes.peer_is_lost(ValueError('of another kind'))
  late = TimeoutError('Timed out while waiting for a barrier.')
  late.__cause__ = ValueError('UNAVAILABLE: Socket closed')
  assert processes.peer_is_lost(late)


def test_values_come_in_the_order_of_the_processes(join):
  waited = join(['other', 'ö', ''])
  assert exchange('names', 'own') == ['own', 'other']
  assert exchange('again', '') == ['', 'ö']
  assert exchange('again', 'own again') == ['own again', '']
  assert len(set(waited)) == 3, 'a barrier is used once'


def test_other_configs_are_refused_with_the_process_and_the_keys(join):
  join(['{"seed": 1, "training": {"steps": 3}}'])
  message = r'process 1 was started with another config.*\n  config\.seed: 0 → 1\nGive'
  refused(message, check_config, {'seed': 0, 'training': {'steps': 3}})
  join(['{"norm": NaN}'])
  check_config({'norm': np.nan})  # a setting's own check refuses it


def test_numbers_of_numpy_in_a_config_are_accepted():
  check_config({'seed': np.int64(1)})


def test_a_workdir_that_a_process_does_not_see_or_cannot_make_is_refused(join, tmp_path):
  join(['', '/elsewhere'])
  refused(r'not there for process 1 \(/elsewhere\)', check_workdir, tmp_path / 'new')
  assert not list((tmp_path / 'new').iterdir())
  join([''])
  (tmp_path / 'file').touch()
  message = r'process 0: workdir .*file.* cannot be made'
  refused(message, check_workdir, tmp_path / 'file')


@cases(
  'bad, message',
  *[
    (Processes(*place), r'--coordinator=HOST:PORT and --process_id in 0\.\.1')
    for place in (('', 2, 0), ('host', 2, 0), ('host:1', 2, 2), ('host:1', 2, -1))
  ],
  (Processes(index=1), '--process_id=1 is one of several processes'),
  (Processes('host:1', 2, 0, detect=True), 'leave out --coordinator'),
  (Processes(detect=True), '--distributed finds no cluster here: .* needs SLURM'),
)
def test_bad_flags_are_refused(bad, message, monkeypatch):
  monkeypatch.setattr(jax.config, 'update', lambda *unused: None)
  refused(message, bad.join)
