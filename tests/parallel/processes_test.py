"""What several processes are told; that they agree is tested in end_to_end/processes_test.py."""

from __future__ import annotations

import logging
from collections.abc import Callable

import jax
import pytest

from robustness.core.errors import InputError
from robustness.parallel import processes
from robustness.parallel.processes import ALONE, Processes, wait_until


def test_one_process_joins_nothing_and_leaves_regularly() -> None:
  ALONE.join()
  assert not jax.distributed.is_initialized()
  assert ALONE.end_together(lambda: 2) == 2
  assert Processes('host:1', 2, 1).end_together(lambda: 0) == 0
  with pytest.raises(ZeroDivisionError):
    ALONE.end_together(lambda: 1 // 0)


@pytest.mark.parametrize('work, status', [(lambda: 75, 75), (lambda: 1 // 0, 1)])
def test_several_that_failed_end_at_once(
  monkeypatch: pytest.MonkeyPatch,
  capsys: pytest.CaptureFixture[str],
  work: Callable[[], int],
  status: int,
) -> None:
  ended: list[int] = []
  monkeypatch.setattr('os._exit', ended.append)
  Processes('host:1', 2, 1).end_together(work)
  assert ended == [status]
  assert ('ZeroDivisionError' in capsys.readouterr().err) == (status == 1)


@pytest.mark.parametrize(
  'bad', [Processes('', 2, 0), Processes('host:1', 2, 2), Processes('host:1', 2, -1)]
)
def test_bad_flags_are_refused(bad: Processes) -> None:
  with pytest.raises(InputError, match=r'--process_id in 0\.\.1'):
    bad.join()


def test_waiting_looks_again_and_says_for_what(
  monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
  caplog.set_level(logging.INFO)
  monkeypatch.setattr(processes, 'POLL_SECONDS', 0.0)
  monkeypatch.setattr(processes, 'LINE_SECONDS', 0.0)
  answers = iter([False, False, True])
  wait_until(lambda: next(answers), 'the training of natural')
  assert caplog.messages == ['waiting for the training of natural by other processes'] * 2
