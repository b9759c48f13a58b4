"""`robustness review` serves frames, keeps answers when it is killed, and exports them."""

import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from robustness.cli.review import export_parser, main, serve_parser
from robustness.estimates.intervals import clopper_pearson
from robustness.results import Results
from robustness.video import metadata
from tests.cases import cases
from tests.commands import ROOT
from tests.refusals import refused
from tests.table_rows import estimate
from tests.video.review_frames import candidates, path, save_frames
from tests.video.review_serving import Client


@pytest.fixture
def flags(tmp_path):
  """The flags of a server for the small sets; the classes of ImageNet-Vid are the default."""
  metadata.write(candidates().sets, tmp_path / 'sets')
  save_frames(tmp_path / 'frames', candidates())
  places = {'metadata': 'sets', 'answers': 'answers.jsonl', 'frames': 'frames'}
  return {**{key: str(tmp_path / name) for key, name in places.items()}, 'port': '0'}


def words(flags, *omitted):
  """Returns flags as words of the command line, without some keys."""
  return [f'--{key}={value}' for key, value in flags.items() if key not in omitted]


@contextmanager
def running(flags, end):
  """Runs the command, yields its port and then ends it by a signal."""
  # A shell starts background jobs with SIGINT ignored, so this does too.
  shell = ['sh', '-c', 'trap "" INT; exec "$@"', 'sh']
  command = [*shell, sys.executable, '-m', 'robustness', 'review', *words(flags)]
  process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
  assert process.stdout is not None
  with process, process.stdout as lines:
    try:
      address = next(match for line in lines if (match := re.search(r'127\.0\.0\.1:(\d+)/', line)))
      yield int(address[1])
    finally:
      process.send_signal(end)
      printed = lines.read()
  assert end == signal.SIGKILL or 'give the same command to go on' in printed


def work(port, annotator, count=100):
  """Answers up to `count` questions, rejecting the pair 0, and returns how many were answered."""
  client, answered = Client(port, annotator), 0
  turn = client.next()
  while turn['item'] and answered < count:
    turn = client.answer(turn['item'], keep=turn['item']['id'] != 'pair:0')
    answered += 1
  return answered


@pytest.mark.slow
def test_a_killed_review_is_continued_and_exported(flags, tmp_path, capsys):
  with running(flags, signal.SIGKILL) as port:
    assert work(port, 'ann', count=4) == 4
  export = ['export', *words(flags, 'frames', 'port'), f'--out={tmp_path / "reviewed"}']
  export.append(f'--results={tmp_path / "results"}')
  refused('answers are awaited about 6 anchors and pairs', main, export)
  with running(flags, signal.SIGINT) as port:
    assert (work(port, 'ann'), work(port, 'bob'), work(port, 'ann')) == (2, 7, 1)
  assert main(export) == 0
  assert '2 sets with 5 pairs' in capsys.readouterr().out
  sets = json.loads((tmp_path / 'reviewed' / 'metadata' / 'pmsets.json').read_text())
  frames = {0: (11, 12), 1: (9, 11, 12)}
  assert sets == {path(c, 10): [path(c, n) for n in numbers] for c, numbers in frames.items()}
  results = Results.read(tmp_path / 'results')
  assert results.tables['counts'].rows[-1] == ['pairs accepted, of those reviewed', 5, 6]
  row = estimate(results.table, 'review', 'pairs_accepted')
  assert (row.value, row.n) == (5 / 6, 6), 'only the pair 0 is rejected'
  assert (row.low, row.high) == pytest.approx(clopper_pearson(5, 6))
  assert results.settings['annotators_per_pair'] == 2


@pytest.mark.slow
def test_an_unfinished_review_can_be_exported_in_part(flags, tmp_path, capsys):
  with running({**flags, 'annotators_per_pair': '1'}, signal.SIGKILL) as port:
    work(port, 'ann', count=3)
  export = ['export', *words(flags, 'frames', 'port'), f'--out={tmp_path / "reviewed"}']
  assert main([*export, '--rule=ytbb', '--unsettled=drop']) == 0
  assert '1 sets with 2 pairs' in capsys.readouterr().out
  refused("did you mean 'strict_majority'", main, [*export, '--rule=majority'])
  for folder in ('sets', 'sets/metadata', 'frames/../sets'):  # they hold the candidates
    refused('holds the sets under review', main, [*export, f'--out={tmp_path / folder}'])


@cases(
  'change, message',
  ({'frames': '{tmp}/sets'}, '8 of 8 frames are missing'),
  ({'metadata': '{tmp}/frames'}, 'no pmsets.json'),
  ({'answers': '{tmp}/sets'}, 'cannot be written'),
  ({'annotators_per_pair': '0'}, 'at least 1'),
  ({'classes': 'imagenet_vidd'}, "did you mean 'imagenet_vid'"),
  ({'classes': '{tmp}/none.txt'}, 'label space is'),
  ({'classes': '{tmp}/short.txt'}, 'none of the 1 classes'),
  ({'port': '70000'}, 'cannot serve on .*port 70000'),
  ({'host': 'no.such.host.invalid'}, 'cannot serve on no.such.host.invalid.*another --port'),
)
def test_bad_flags_are_refused(flags, tmp_path, change, message):
  (tmp_path / 'short.txt').write_text('cat')
  answered = {key: value.format(tmp=tmp_path) for key, value in change.items()}
  refused(message, main, words({**flags, **answered}))


def test_the_document_names_every_flag_and_key():
  text = (ROOT / 'docs' / 'review.md').read_text(encoding='utf-8')
  actions = [*serve_parser()._actions, *export_parser()._actions]
  defined = {flag for action in actions for flag in action.option_strings}
  assert set(re.findall(r'--\w+', text)) == defined - {'-h', '--help'}
  script = (ROOT / 'robustness' / 'video' / 'page' / 'review.js').read_text(encoding='utf-8')
  keys = re.findall(r"(?:button\(|\n? {4}|\[)'([a-z1-3]|Enter|Backspace|Space)',", script)
  keys += re.findall(r"\w+: '([a-z])'", script)
  assert len(set(keys)) == 16
  for key in keys:
    assert f'`{key.upper() if len(key) == 1 else key}`' in text, key
