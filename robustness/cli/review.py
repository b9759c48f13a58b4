"""`robustness review`: serves the review page, or writes what a review decided.

robustness review --frames=DIR --metadata=DIR --answers=FILE
robustness review export --metadata=DIR --answers=FILE --out=DIR
"""

import argparse
import dataclasses
import signal
import threading
from collections.abc import Sequence

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.present import tables, text
from robustness.results import Results
from robustness.video import answers, building, decisions, metadata
from robustness.video.candidates import Candidates, ReviewFrames
from robustness.video.review_rounds import ReviewRounds
from robustness.video.review_server import ReviewServer, is_loopback

_SERVE_DESCRIPTION = (
  'Serves a page on which annotators review neighbor sets; `robustness review export --help` is '
  'about what is written of their answers.'
)


def main(arguments: Sequence[str]) -> int:
  """Serves the page on which people review neighbor sets, or exports a review; returns 0.

  Args:
    arguments: the command line after `robustness review`; 'export' as the first word exports.
  """
  if arguments and arguments[0] == 'export':
    export(export_parser().parse_args(arguments[1:]))
  else:
    serve(serve_parser().parse_args(arguments))
  return 0


def serve(flags: argparse.Namespace) -> None:
  """Serves the page on which people review neighbor sets, until Ctrl-C or SIGTERM.

  A neighbor set is an anchor, one frame of a video, with the frames around it. For each of these
  frames, people say whether it is similar to the anchor and has the anchor's label.

  Args:
    flags: flags of `robustness review`, such as `metadata`, `answers` (the file that answers are
      added to), `frames`, `host` and `port`.
  """
  annotator = None if flags.annotator is None else answers.check_name(flags.annotator)
  candidates = _candidates(flags)
  frames = ReviewFrames(flags.frames, candidates.sets.frames)
  # Settings from the user's flags; others are as in the log's earlier answers, or defaults.
  names = {field.name for field in dataclasses.fields(answers.ReviewPlan)}
  settings = {k: v for k, v in vars(flags).items() if k in names and v is not None}
  with answers.AnswerLog(flags.answers, candidates.digest, settings) as log:
    rounds = ReviewRounds(candidates, log.plan, log.answers)
    with ReviewServer(rounds, log, frames, flags.host, flags.port, annotator) as server:
      if threading.current_thread() is threading.main_thread():
        # A shell starts background commands with SIGINT ignored, and Python then keeps it so.
        for number in (signal.SIGINT, signal.SIGTERM):
          signal.signal(number, signal.default_int_handler)
      print(
        f'{len(candidates.pairs)} pairs of {len(candidates.sets.anchors)} anchors; answers go to '
        f'{log.path} ({len(log.answers)} are there).'
      )
      if not is_loopback(server.host):
        everyone = 'Whoever reaches this machine can see the frames and answer under any name'
        print(f'{everyone}: there is no password.')
      print(f'Open {server.url} (Ctrl-C stops).', flush=True)
      try:
        server.serve_forever()
      except KeyboardInterrupt:
        print(f'\nStopped. Every answer is in {log.path}; give the same command to go on.')


def export(flags: argparse.Namespace) -> None:
  """Writes the neighbor sets that people have accepted, and prints counts and agreement.

  Args:
    flags: flags of `robustness review export`, such as `metadata`, `answers`, `rule` and `out`.

  Raises:
    InputError: a flag is wrong. Also if pairs have too few answers for a decision, unless
      `--unsettled=drop` leaves them out.
  """
  choice('--rule', flags.rule, decisions.RULES)
  candidates = _candidates(flags)
  if metadata.find(flags.out.resolve()) == metadata.find(flags.metadata.resolve()):
    raise InputError(f'--out={flags.out} holds the sets under review: give another folder.')
  plan, given_answers = answers.read(flags.answers, candidates.digest)
  rounds = ReviewRounds(candidates, plan, given_answers)
  decided = decisions.decide(rounds, decisions.RULES[flags.rule])
  if flags.unsettled == 'refuse':
    decided.require_settled(candidates)
  reviewed = decisions.reviewed_sets(candidates, decided)
  results = Results(
    'review',
    classifiers=[],
    data={'metadata': candidates.digest, 'annotators': rounds.annotators()},
    settings={'rule': flags.rule, 'unsettled': flags.unsettled, **dataclasses.asdict(plan)},
    tables={'counts': decisions.counts(rounds, decided), 'reasons': decisions.reasons(rounds)},
    table=decisions.table(rounds, decided),
    quantities=decisions.QUANTITIES,
  )
  metadata.write(reviewed, flags.out)
  estimated = [(titled.title, titled.table) for titled in tables.tables(results)]
  for name, table in [*results.tables.items(), *estimated]:
    print(name, *text.lines(table), '', sep='\n')
  print(f'{len(reviewed.anchors)} sets with {len(reviewed.pairs.frame)} pairs are in {flags.out}.')
  if flags.results:
    results.write(flags.results)


def _candidates(flags: argparse.Namespace) -> Candidates:
  """Returns the neighbor sets under review, with the names of their classes.

  Args:
    flags: `metadata` is the folder of the sets. `classes` names the classes if the sets do not: a
      label space such as 'imagenet_vid', or a file.
  """
  sets = metadata.read(flags.metadata)
  names = sets.class_names
  if not names:
    names, _labels = building.vocabulary(flags.classes)
  return Candidates(sets, dict(enumerate(names)))


def _common(description: str, command: str) -> argparse.ArgumentParser:
  """Returns a parser with the flags that serving and exporting a review share.

  Args:
    description: text of `--help`, above the flags.
    command: the words of the command, such as 'robustness review'.
  """
  parser = argparse.ArgumentParser(command, description=description, allow_abbrev=False)
  add = parser.add_argument
  add('--metadata', required=True, type=expanded, help='folder of the sets under review')
  add('--answers', required=True, type=expanded, metavar='FILE', help='a line of JSON per answer')
  classes = 'label space, or text file with a class on each line, if the sets name no classes'
  add('--classes', metavar='NAME|FILE', default='imagenet_vid', help=classes)
  return parser


def serve_parser() -> argparse.ArgumentParser:
  """Returns the flags of the server."""
  parser = _common(_SERVE_DESCRIPTION, 'robustness review')
  add = parser.add_argument
  add('--frames', required=True, type=expanded, help='folder that paths in the metadata begin in')
  add('--annotators_per_pair', type=int, metavar='N', help='people who judge a pair alone (2)')
  add('--joint_votes', type=int, metavar='N', help='people who then vote jointly (as many)')
  densify = 'show every anchor alone first, to add the classes its labels lack'
  add('--densify', action='store_true', default=None, help=densify)
  add('--annotator', metavar='NAME', help='name of who answers (the page asks)')
  add('--port', type=int, default=8000, help='port; 0 takes a free one (8000)')
  add('--host', default='127.0.0.1', help='address to bind to (127.0.0.1: this machine only)')
  return parser


def export_parser() -> argparse.ArgumentParser:
  """Returns the flags of the export."""
  description = 'Writes the reviewed sets, Table 1 and the agreement of the annotators.'
  parser = _common(description, 'robustness review export')
  add = parser.add_argument
  add('--out', required=True, type=expanded, help='folder of the reviewed sets')
  rules = f'when votes keep a pair: {", ".join(decisions.RULES)} (strict_majority)'
  add('--rule', default='strict_majority', metavar='NAME', help=rules)
  unsettled = 'what to do with pairs that await further answers (refuse)'
  add('--unsettled', choices=('refuse', 'drop'), default='refuse', help=unsettled)
  add('--results', type=expanded, help='also write the tables as results.json there')
  return parser
