"""Tests which answers are valid, and that a log keeps them through kills and full disks."""

import errno
import functools
import json
import os
from typing import Any

import pytest

from robustness.video import answers as answer_log
from robustness.video.answers import Answer, AnswerLog, ReviewPlan, check_name
from robustness.video.candidates import Item
from tests.cases import cases
from tests.refusals import refused
from tests.video.review_frames import answer, candidates

ABOUT = {'annotator': 'ann', 'round': 'individual', 'anchor': 'v/1.jpg'}
PAIR: dict[str, Any] = {**ABOUT, 'neighbor': 'v/2.jpg', 'label': 'correct', 'similar': 'similar'}
ANCHOR: dict[str, Any] = {**ABOUT, 'round': 'joint', 'neighbor': None, 'label': 'incorrect'}


@cases(
  'fields',
  PAIR,
  ANCHOR,
  {**PAIR, 'similar': 'dissimilar', 'reasons': ['motion', 'blur'], 'time': 1.5},
  {**PAIR, 'similar': 'dissimilar', 'feature': True},
  {**ANCHOR, 'added': [3, 5], 'shown': [0]},
)
def test_answers_survive_a_round_trip(fields):
  answer = Answer.from_json(fields)
  assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer


def test_only_a_correct_label_and_similar_frames_accept_a_pair():
  assert Answer.from_json(PAIR).accepts
  moved = {'similar': 'dissimilar', 'reasons': ['other']}
  for change in ({'label': 'unsure'}, {'label': 'incorrect'}, {'similar': 'unsure'}, moved):
    assert not Answer.from_json({**PAIR, **change}).accepts


@cases(
  'fields, message',
  ({**PAIR, 'similar': 'similiar'}, "did you mean 'similar'"),
  ({**PAIR, 'similar': None}, 'similar is None; valid'),
  ({**PAIR, 'label': 'yes'}, "label is 'yes'; valid"),
  ({**PAIR, 'round': 'third'}, "round is 'third'; valid"),
  ({**PAIR, 'similar': 'dissimilar'}, 'needs a reason'),
  ({**PAIR, 'similar': 'dissimilar', 'reasons': ['zoom']}, "reason is 'zoom'; valid"),
  ({**PAIR, 'reasons': ['motion']}, "'similar' has a reason"),
  ({**PAIR, 'feature': True}, 'visible in only one frame'),
  ({**PAIR, 'similar': 'unsure', 'feature': True}, "mark it 'dissimilar'"),
  ({**PAIR, 'added': [1]}, 'leave the neighbor out'),
  ({**ANCHOR, 'similar': 'similar'}, 'name the neighbor'),
  ({**ANCHOR, 'added': [True]}, r'added\[0\] is True; expected a whole number'),
  ({**ANCHOR, 'added': 3}, 'added is 3; expected a list'),
  ({**PAIR, 'feature': 1}, 'feature is 1; expected true or false'),
  ({**PAIR, 'reasons': 'motion'}, 'expected a list'),
  ({**PAIR, 'anchor': 3}, 'anchor is 3; expected a text'),
  ({**PAIR, 'reason': []}, "did you mean 'reasons'"),
  ({'annotator': 'ann', 'round': 'joint'}, 'anchor is missing'),
)
def test_contradictions_and_unknown_words_are_refused(fields, message):
  refused(message, Answer.from_json, fields)


def test_names_are_stripped_and_normalised_and_unsafe_ones_are_refused():
  for name in ('ann', ' Ann B. ', '7'):
    assert check_name(name) == name.strip()
  assert check_name('Zoe\u0308') == 'Zo\u00eb'
  for name in ('', ' ', '<b>', 'a/b', '../x', 'a\nb', 'x' * 41, None, '.hid'):
    refused('is not a name', check_name, name)


SETS = candidates()
FIRST, SECOND = (answer(SETS, Item('pair', number)) for number in (0, 1))


@pytest.fixture
def file(tmp_path):
  """A file with the answers `FIRST` and `SECOND`, to sets of the digest 'digest'."""
  with AnswerLog(tmp_path / 'made' / 'answers.jsonl', 'digest') as log:
    log.append(FIRST)
    log.append(SECOND)
  return tmp_path / 'made' / 'answers.jsonl'


def test_answers_are_on_disk_when_append_returns(file, monkeypatch):
  assert answer_log.read(file, 'digest') == (ReviewPlan(), [FIRST, SECOND])
  sizes: list[int] = []
  with AnswerLog(file, 'digest') as log:
    assert log.answers == [FIRST, SECOND]
    before = file.stat().st_size
    monkeypatch.setattr(os, 'fsync', lambda _: sizes.append(file.stat().st_size))
    log.append(FIRST)
  assert sizes == [file.stat().st_size] and sizes[0] > before, 'one fsync, after the whole line'


@pytest.mark.parametrize('length', [1, 20, -1])
def test_a_line_truncated_by_a_kill_is_skipped_and_removed(file, length):
  content = file.read_bytes()
  *complete, last = content.splitlines(keepends=True)
  file.write_bytes(b''.join(complete) + last[:length])
  assert answer_log.read(file, 'digest')[1] == [FIRST]
  with AnswerLog(file, 'digest') as log:
    log.append(SECOND)
  assert file.read_bytes() == content
  file.write_bytes(complete[0][:30])  # A truncated header is written again.
  with AnswerLog(file, 'digest') as log:
    assert log.answers == []
  assert file.read_bytes() == complete[0]


def test_other_files_other_sets_and_broken_lines_are_refused_unchanged(file, tmp_path):
  for content in (b'{"a/1.jpg": [0]}', b'{}\n', b'hello\n', b'[1]\n', b'\x89'):
    (tmp_path / 'labels.json').write_bytes(content)
    refused('is no file of answers', AnswerLog, tmp_path / 'labels.json', 'digest')
    assert (tmp_path / 'labels.json').read_bytes() == content
  refused('about other sets', AnswerLog, file, 'another')
  lines = file.read_bytes().split(b'\n')
  file.write_bytes(b'\n'.join([lines[0], lines[1][:-5], *lines[2:]]))
  refused('line 2, cannot be read', AnswerLog, file, 'digest')


def test_a_review_keeps_its_plan(tmp_path):
  opened = functools.partial(AnswerLog, tmp_path / 'answers.jsonl', 'digest')
  with opened({'annotators_per_pair': 4}):
    pass
  with opened() as log:
    assert log.plan == ReviewPlan(annotators_per_pair=4)
  refused('--annotators_per_pair=3, but .* begun with 4', opened, {'annotators_per_pair': 3})
  refused('--annotators_per_pair is 0; it must be at least 1', opened, {'annotators_per_pair': 0})
  refused('joint_votes', ReviewPlan, joint_votes=-1)


def test_a_second_server_is_refused(file):
  pytest.importorskip('fcntl', reason='needs locks of POSIX')
  with AnswerLog(file, 'digest'):
    refused('is open in another server', AnswerLog, file, 'digest')
  with AnswerLog(file, 'digest'):
    pass


def test_a_full_disk_leaves_whole_lines(file, monkeypatch):
  content, write = file.read_bytes(), os.write
  with AnswerLog(file, 'digest') as log:
    monkeypatch.setattr(os, 'write', lambda to, line: write(to, line[:10]))
    with pytest.raises(OSError, match='only a part'):
      log.append(FIRST)
    assert file.read_bytes() == content

    def fail_to_write(*_):
      raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(os, 'write', fail_to_write)
    with pytest.raises(OSError, match='No space'):
      log.append(FIRST)
    new = file.with_name('new.jsonl')
    refused('cannot be written .*No space.*: give another', AnswerLog, new, 'digest')
    monkeypatch.setattr(os, 'write', write)
    log.append(FIRST)
  assert answer_log.read(file, 'digest')[1] == [FIRST, SECOND, FIRST]
