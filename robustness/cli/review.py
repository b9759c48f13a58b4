"""`robustness review`: serves the review page, or writes what a review decided.

robustness review --frames=DIR --metadata=DIR --answers=FILE
robustness review export --metadata=DIR --answers=FILE --out=DIR
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.models import label_space
from robustness.present import tables
from robustness.results import Results, Table
from robustness.video import metadata
from robustness.video import review_access as access
from robustness.video import review_answer_log as answer_log
from robustness.video import review_ballots as ballots
from robustness.video import review_decisions as decisions
from robustness.video import review_summary as summary
from robustness.video.review_answers import check_name
from robustness.video.review_candidates import Candidates
from robustness.video.review_frame_folder import FrameFolder
from robustness.video.review_plan import Plan
from robustness.video.review_rounds import Rounds
from robustness.video.review_server import ReviewServer

PLAN = tuple(field.name for field in dataclasses.fields(Plan))


def main(arguments: Sequence[str]) -> int:
  """Runs the command and returns the exit status: 0, or 2 for bad input."""
  try:
    if arguments and arguments[0] == 'export':
      export(export_parser().parse_args(arguments[1:]))
    else:
      serve(serve_parser().parse_args(arguments))
  except InputError as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  return 0


def serve(flags: argparse.Namespace) -> None:
  """Serves the page until it is interrupted."""
  if flags.annotator is not None:
    flags.annotator = check_name(flags.annotator)
  candidates = _candidates(flags)
  frames = FrameFolder(flags.frames, candidates.sets.frames)
  settings = {key: value for key in PLAN if (value := getattr(flags, key)) is not None}
  with answer_log.AnswerLog(flags.answers, candidates.digest, settings) as log:
    rounds = Rounds(candidates, log.plan, log.answers)
    with ReviewServer(rounds, log, frames, flags.host, flags.port, flags.annotator) as server:
      _stop_on_signals()
      _greet(server)
      try:
        server.serve_forever()
      except KeyboardInterrupt:
        print(f'\nStopped. Every answer is in {log.path}; give the same command to go on.')


def _stop_on_signals() -> None:
  """Lets SIGINT and SIGTERM end the server in order, in the background too.

  A shell starts background commands with SIGINT ignored, and Python then leaves it so.
  """
  if threading.current_thread() is threading.main_thread():
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, signal.default_int_handler)


def export(flags: argparse.Namespace) -> None:
  """Writes the reviewed sets and prints Table 1 and the agreement."""
  rule = ballots.rule(flags.rule)
  candidates = _candidates(flags)
  rounds = Rounds(candidates, *answer_log.read(flags.answers, candidates.digest))
  decided = decisions.decide(rounds, rule)
  if flags.unsettled == 'refuse':
    decisions.require_settled(decided, candidates)
  reviewed = decisions.reviewed_sets(candidates, decided)
  results = _results(rounds, decided, flags)
  metadata.write(reviewed, flags.out)
  estimated = [(titled.title, titled.table) for titled in tables.tables(results)]
  for name, table in [*results.tables.items(), *estimated]:
    print(f'{name}\n{_text(table)}\n')
  print(f'{len(reviewed.anchors)} sets with {len(reviewed.pairs.frame)} pairs are in {flags.out}.')
  if flags.results:
    results.write(flags.results)


def _text(table: Table) -> str:
  """Returns a table with aligned columns."""
  cells = [[str(value) for value in row] for row in (table.columns, *table.rows)]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  return '\n'.join(
    '  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for row in cells
  )


def _results(rounds: Rounds, decided: decisions.Decisions, flags: argparse.Namespace) -> Results:
  return Results(
    'review',
    {},
    {'metadata': rounds.candidates.digest, 'annotators': rounds.annotators()},
    {'rule': flags.rule, 'unsettled': flags.unsettled, **dataclasses.asdict(rounds.plan)},
    tables={'counts': summary.counts(rounds, decided), 'reasons': summary.reasons(rounds)},
    table=summary.table(rounds, decided),
    quantities=summary.QUANTITIES,
  )


def _greet(server: ReviewServer) -> None:
  candidates = server.rounds.candidates
  print(
    f'{len(candidates.pairs)} pairs of {len(candidates.sets.anchors)} anchors; answers go to '
    f'{server.log.path} ({len(server.log.answers)} are there).'
  )
  if not access.is_loopback(server.host):
    print(
      'Whoever reaches this machine can see the frames and answer under any name: there is no '
      'password.'
    )
  print(f'Open {server.url} (Ctrl-C stops).', flush=True)


def _candidates(flags: argparse.Namespace) -> Candidates:
  sets = metadata.read(flags.metadata)
  return Candidates(sets, _class_names(flags.classes, sets.class_names))


def _class_names(given: str | None, own: Sequence[str]) -> Mapping[int, str]:
  if given is None:
    return dict(enumerate(own or label_space.get('imagenet_vid').class_names))
  if not given.endswith('.json'):
    return dict(enumerate(label_space.get(given).class_names))
  advice = 'Give --classes a JSON file {"0": "airplane", ...}, imagenet_vid or youtube_bb.'
  entries = json_files.read(expanded(given), {str: (str, list)}, advice)
  try:
    return {
      int(number): str(name if isinstance(name, str) else name[-1])
      for number, name in entries.items()
    }
  except (ValueError, IndexError) as error:
    raise InputError(f'--classes={given} cannot be read ({error}). {advice}') from error


def _common(description: str, command: str) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(command, description=description, allow_abbrev=False)
  parser.add_argument(
    '--metadata',
    required=True,
    metavar='DIR',
    help='pmsets.json and labels.json of the sets under review',
  )
  parser.add_argument(
    '--answers', required=True, metavar='FILE', help='where the answers are, one JSON object a line'
  )
  parser.add_argument(
    '--classes',
    metavar='NAME|FILE',
    help='names of the classes: imagenet_vid, youtube_bb or a JSON file (the '
    "metadata's class index, or else imagenet_vid)",
  )
  return parser


def serve_parser() -> argparse.ArgumentParser:
  """Returns the flags of the server."""
  parser = _common('Serves a page on which annotators review neighbor sets.', 'robustness review')
  parser.add_argument(
    '--frames',
    required=True,
    metavar='DIR',
    help='the folder in which the paths of the metadata begin',
  )
  parser.add_argument(
    '--annotators_per_pair',
    type=int,
    metavar='N',
    help='how many annotators answer alone about each pair (2)',
  )
  parser.add_argument(
    '--joint_votes',
    type=int,
    metavar='N',
    help='how many vote in the joint round (as many as answer alone)',
  )
  parser.add_argument(
    '--densify',
    action='store_true',
    default=None,
    help='show every anchor alone first, to add the classes its labels lack',
  )
  parser.add_argument('--annotator', metavar='NAME', help='who answers (the page asks)')
  parser.add_argument('--port', type=int, default=8000, help='0 takes a free one (8000)')
  parser.add_argument(
    '--host', default='127.0.0.1', help='address to bind to (127.0.0.1: this machine only)'
  )
  return parser


def export_parser() -> argparse.ArgumentParser:
  """Returns the flags of the export."""
  parser = _common(
    'Writes the reviewed sets, Table 1 and the agreement of the annotators.',
    'robustness review export',
  )
  parser.add_argument('--out', required=True, metavar='DIR', help='folder of the reviewed sets')
  parser.add_argument(
    '--rule',
    default='strict_majority',
    metavar='NAME',
    help=f'when votes keep a pair: {", ".join(ballots.RULES)} (strict_majority)',
  )
  parser.add_argument(
    '--unsettled',
    choices=('refuse', 'drop'),
    default='refuse',
    help='what to do where answers are still awaited (refuse)',
  )
  parser.add_argument(
    '--results', metavar='DIR', help='also write the tables as results.json there'
  )
  return parser
