"""The file of answers: whole lines only, one server, one set of sets, one plan."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from robustness.core.errors import InputError
from robustness.video import review_answer_log as answer_log
from robustness.video.review_answer_log import AnswerLog
from robustness.video.review_candidates import Item
from robustness.video.review_plan import Plan
from tests.video.review_frames import answer, candidates

SETS = candidates()
FIRST, SECOND = (answer(SETS, Item('pair', number)) for number in (0, 1))


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
  """A file with two answers."""
  with AnswerLog(tmp_path / 'made' / 'answers.jsonl', 'digest') as log:
    log.append(FIRST)
    log.append(SECOND)
  return tmp_path / 'made' / 'answers.jsonl'


def test_answers_are_there_again(file: pathlib.Path) -> None:
  assert answer_log.read(file, 'digest') == (Plan(), [FIRST, SECOND])
  with AnswerLog(file, 'digest') as log:
    assert log.answers == [FIRST, SECOND]


def test_an_answer_is_on_the_disk_before_append_returns(
  file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  seen: list[int] = []
  with AnswerLog(file, 'digest') as log:
    before = file.stat().st_size
    monkeypatch.setattr(os, 'fsync', lambda _: seen.append(file.stat().st_size - before))
    log.append(FIRST)
  assert seen == [file.stat().st_size - before] and seen[0] > 0


@pytest.mark.parametrize('kept', [1, 20, -1])
def test_a_line_that_a_kill_cut_short_is_passed_over_and_removed(
  file: pathlib.Path, kept: int
) -> None:
  content = file.read_bytes()
  start = content.rstrip(b'\n').rfind(b'\n') + 1
  file.write_bytes(content[:start] + content[start:][:kept])
  assert answer_log.read(file, 'digest')[1] == [FIRST]
  with AnswerLog(file, 'digest') as log:
    log.append(SECOND)
  assert file.read_bytes() == content


def test_a_header_that_a_kill_cut_short_is_written_again(file: pathlib.Path) -> None:
  header = file.read_bytes().split(b'\n')[0]
  file.write_bytes(header[:30])
  with AnswerLog(file, 'digest') as log:
    assert log.answers == []
  assert file.read_bytes() == header + b'\n'


@pytest.mark.parametrize('content', [b'{"a/1.jpg": [0]}', b'{}\n', b'hello\n', b'[1]\n', b'\x89'])
def test_another_file_is_refused_and_left_as_it_is(tmp_path: pathlib.Path, content: bytes) -> None:
  (tmp_path / 'labels.json').write_bytes(content)
  with pytest.raises(InputError, match='is no file of answers'):
    AnswerLog(tmp_path / 'labels.json', 'digest')
  assert (tmp_path / 'labels.json').read_bytes() == content


def test_answers_about_other_sets_are_refused(file: pathlib.Path) -> None:
  with pytest.raises(InputError, match='about other sets'):
    AnswerLog(file, 'another')


def test_a_broken_line_in_the_middle_is_named(file: pathlib.Path) -> None:
  lines = file.read_bytes().split(b'\n')
  file.write_bytes(b'\n'.join([lines[0], lines[1][:-5], *lines[2:]]))
  with pytest.raises(InputError, match='line 2, cannot be read'):
    AnswerLog(file, 'digest')


def test_a_review_keeps_its_plan(tmp_path: pathlib.Path) -> None:
  path = tmp_path / 'answers.jsonl'
  AnswerLog(path, 'digest', {'annotators_per_pair': 4}).close()
  with AnswerLog(path, 'digest') as log:
    assert log.plan == Plan(annotators_per_pair=4)
  with pytest.raises(InputError, match='--annotators_per_pair=3, but .* begun with 4'):
    AnswerLog(path, 'digest', {'annotators_per_pair': 3})
  with pytest.raises(InputError, match='give at least 1'):
    AnswerLog(tmp_path / 'new.jsonl', 'digest', {'annotators_per_pair': 0})


def test_a_second_server_is_refused(file: pathlib.Path) -> None:
  pytest.importorskip('fcntl', reason='needs locks of POSIX')
  with AnswerLog(file, 'digest'):
    with pytest.raises(InputError, match='is open in another server'):
      AnswerLog(file, 'digest')
  AnswerLog(file, 'digest').close()


def test_a_full_disk_leaves_whole_lines(
  file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  content, write = file.read_bytes(), os.write
  with AnswerLog(file, 'digest') as log:
    monkeypatch.setattr(os, 'write', lambda to, line: write(to, line[:10]))
    with pytest.raises(OSError, match='only a part'):
      log.append(FIRST)
    assert file.read_bytes() == content

    def full(*_: object) -> int:
      raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(os, 'write', full)
    with pytest.raises(OSError, match='No space'):
      log.append(FIRST)
    monkeypatch.setattr(os, 'write', write)
    log.append(FIRST)
  assert answer_log.read(file, 'digest')[1] == [FIRST, SECOND, FIRST]
