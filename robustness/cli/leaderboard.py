"""`robustness leaderboard`: the finished runs in a folder, checked and ranked on one static page.

robustness leaderboard DIR --add=WORKDIR
robustness leaderboard DIR --check
robustness leaderboard DIR --out=SITE

  Every folder DIR/NAME with results.csv, results.json and results.npz is an entry; one with records
  adds paired differences. Entries of the same study, settings and images are on one board. --add
  writes the entry of a finished run, or of NAME=WORKDIR under another name. --check says what is
  wrong with any, and ends with 1 if something is. --out writes the page.
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from robustness.cli import new_parser, verification
from robustness.combined import join_tasks
from robustness.comparison.boards import BoardEntry, boards_of
from robustness.comparison.entries import named_workdirs
from robustness.core.bounded_files import refuse_special
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import check_name
from robustness.core.typing import Facts
from robustness.estimates.intervals import BAYESIAN, BOOTSTRAP
from robustness.estimates.quantity import Quantity
from robustness.estimates.systematic import JOINT
from robustness.evaluation import recorded_study
from robustness.evaluation.layout import Layout
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.records import TIE_RANKS, Records, RecordsReader, is_per_view
from robustness.present import tables, text
from robustness.present.publish import Drawn, Presentation, publish, with_task_captions
from robustness.present.selection import values_that_rank
from robustness.results import JSON_NAME, SINGLE, Results, Table
from robustness.workdirs import finished_workdir, workdir

PRESENTED = Presentation('Leaderboard')
LEFT_OUT = 'entries left out'
"""Name of the table of entries that are not on the board, with the reason."""
PERCENTILES = (BOOTSTRAP, BAYESIAN, *JOINT.values())
"""Methods of intervals that may exclude the value."""


def main(arguments: Sequence[str]) -> int:
  """Checks the entries of a leaderboard and adds new ones.

  With `--out`, the page is written and the ranks are printed.

  Args:
    arguments: the command line after `robustness leaderboard`.

  Returns:
    The exit status: 0, or 1 if an entry is rejected.
  """
  options = _parser().parse_args(arguments)
  if options.out is not None:
    _check_out(options.out, options.folder)
  for reference in options.add:
    for line in add(options.folder, reference, options.study):
      print(line)
  entries, rejected = read(options.folder, options.study)
  result_studies = [entry.study for entry in entries if entry.study]
  recorded_study.refuse_unused_file(options.study, result_studies)
  environment = workdir.environment(shlex.join(['robustness', 'leaderboard', *arguments]))

  def build(accepted: Sequence[BoardEntry], folder: pathlib.Path | None) -> dict[str, Results]:
    """Returns the boards, tables that rank classifiers, and writes their pages.

    The pages also list `rejected`, {name of an entry that is left out: error}. `options` are the
    flags of the command, and `environment` the versions that are recorded.

    Args:
      accepted: the entries to rank.
      folder: folder for the pages; None writes none.

    Returns:
      {name: board}.
    """
    boards = boards_of(accepted, options.study)
    if folder is not None:
      _publish(folder, boards, environment, [entry.name for entry in accepted], rejected)
    return boards

  # Entries with which `build` fails are left out, and added to `rejected`.
  boards, entries = _build_without_faulty(build, entries, rejected, options.out)
  for entry in entries:
    if verification.NOT_REPRODUCED in entry.unverified:
      print(f'note: {entry.name}: {entry.unverified}', file=sys.stderr)
  for name, reason in rejected.items():
    print(f'error: {name}: {reason}', file=sys.stderr)
  if options.out is None:
    print(f'{len(entries)} entries are as they should be, {len(rejected)} are not.')
    return int(bool(rejected))
  for name, board in boards.items():
    print(name)
    for titled in tables.tables(board):
      print(titled.title, *text.lines(titled.table), '', sep='\n')
  print(f'written to {options.out}')
  return int(bool(rejected))


def _check_out(out: pathlib.Path, entries: pathlib.Path) -> None:
  """Raises InputError if the folder for pages is not usable.

  It must not be a file, a workdir, or inside the folder of the entries.

  Args:
    out: the folder for pages.
    entries: the folder of the entries.
  """
  workdir.refuse_results(out)
  path = out.resolve()
  if entries.resolve() in (path, *path.parents):
    raise InputError(f'--out is {out}, in the folder of the entries: give one elsewhere.')
  for folder in (path, *path.parents):
    if folder.exists() and not folder.is_dir():
      raise InputError(f'--out is {out}, and {folder} is a file: name a folder.')


Build = Callable[[Sequence['BoardEntry'], pathlib.Path | None], dict[str, Results]]
"""Returns the boards of entries by name, and writes their pages to a folder unless it is None."""


def _build_without_faulty(
  build: Build, entries: list[BoardEntry], rejected: dict[str, str], out: pathlib.Path | None
) -> tuple[dict[str, Results], list[BoardEntry]]:
  """Returns the boards of all entries except those that make `build` fail, and these entries.

  Entries are other people's, and an unforeseen fault in one must not stop the leaderboard. If
  `build` fails, entries are added one by one, and each with which it fails is left out.

  Args:
    build: function that builds boards, tables that rank classifiers, and writes their pages. Called
      with entries and a folder or None; returns {name: board}.
    entries: all entries.
    rejected: {name of an entry: error}. Entries that are left out are added.
    out: folder for the pages; None writes none.

  Returns:
    ({name: board}, the entries that are not left out).
  """
  try:
    return build(entries, out), entries
  except OSError:  # the folder `out` cannot be written to
    raise
  except Exception:
    accepted = list[BoardEntry]()
    for entry in entries:
      try:
        # Writing a page may fail too, so it is tried in a folder that is deleted.
        with tempfile.TemporaryDirectory() as scratch:
          build([*accepted, entry], pathlib.Path(scratch) if out else None)
      except OSError:
        raise
      except Exception as error:
        rejected[entry.name] = _error_text(error)
      else:
        accepted.append(entry)
    return build(accepted, out), accepted


def _error_text(error: Exception) -> str:
  """Returns the message of an InputError, or type and message of another error."""
  return str(error) if isinstance(error, InputError) else repr(error)


def _publish(
  out: pathlib.Path,
  boards: Mapping[str, Results],
  environment: Facts,
  names: Sequence[str],
  rejected: Mapping[str, str],
) -> None:
  """Writes the page of all boards, and a page for each board if there are several.

  A board is a table that ranks the classifiers of comparable entries.

  Args:
    out: the folder for the pages.
    boards: {name: board}.
    environment: versions and command, which are recorded.
    names: names of the entries on the boards.
    rejected: {name of an entry that is left out: error}.
  """
  config = {'entries': list(names)}
  figures: dict[str, Drawn] = {}
  results = Results('leaderboard', classifiers=[], data={}, settings={})  # without any board
  if len(boards) == 1:
    [results] = boards.values()
  elif boards:
    for name, board in boards.items():
      figures[name] = publish(workdir.task_folder(out, name), board, PRESENTED, environment, config)
    results = join_tasks(boards, {'tasks': list(boards)}, 'leaderboard')
  if rejected:
    table = Table(('entry', 'why'), [[*pair] for pair in rejected.items()])
    results = dataclasses.replace(results, tables={LEFT_OUT: table, **results.tables})
  publish(out, results, PRESENTED, environment, config, with_task_captions(figures))


def read(folder: pathlib.Path, study_file: str = '') -> tuple[list[BoardEntry], dict[str, str]]:
  """Reads and checks the entries of a leaderboard.

  An entry is valid if it has only files and folders, readable results of a single study, and the
  digest of the images. Saved predictions must reproduce the values. Quantities must be declared
  (kind, range, better direction) as in most comparable entries.

  Args:
    folder: the folder with a folder for each entry.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Returns:
    (valid entries sorted by name, {name of an invalid entry: error}).

  Raises:
    InputError: the folder does not exist, or has no results.
  """
  if not folder.is_dir():
    raise InputError(f'{folder} is no folder; give one with a folder for every entry.')
  paths = sorted(path for path in folder.iterdir() if os.path.lexists(path / JSON_NAME))
  if not paths:
    raise InputError(
      f'{folder} holds no entry: expected {folder}/NAME/{JSON_NAME} of finished runs.'
    )
  entries, rejected = list[BoardEntry](), dict[str, str]()
  for path in paths:
    try:
      entries.append(_read_entry(path, study_file))
    except Exception as error:  # the entry is somebody else's, and may be damaged in any way
      name = path.name if path.name.isprintable() else ascii(path.name)
      rejected[name] = _error_text(error)
  incompatible = _with_other_declarations(entries)
  entries = [entry for entry in entries if entry.name not in incompatible]
  return entries, dict(sorted({**rejected, **incompatible}.items()))


def add(folder: pathlib.Path, reference: str, study_file: str = '') -> Iterator[str]:
  """Adds a finished workdir to a leaderboard, and yields a line for each new entry.

  Each study of a workdir is an entry, in the folder DIR/NAME, or DIR/NAME-TASK for a study of a
  battery (a run of several studies). An entry has the results without images, and the rank of the
  true class among the predicted classes, for each image and perturbation. From these ranks most
  results can be computed again, and also paired differences. For a study that needs more than ranks
  they are left out. An entry that is not valid is removed again.

  A line is, for example, 'DIR/net: the results, and the rank of the true class for every answer'.

  Args:
    folder: the folder DIR of the leaderboard.
    reference: the finished workdir, PATH or NAME=PATH.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Raises:
    InputError: the entry exists already, or the workdir is unfinished or damaged.
  """
  [(name, path)] = named_workdirs([reference]).items()
  for task, finished in finished_workdir.read(path, study_file).items():
    entry = folder / '-'.join(filter(None, (name, task)))
    if entry.exists():
      raise InputError(f'{entry} exists: name the entry otherwise, as in --add=NAME={path}.')
    dataclasses.replace(finished.results, arrays={}).write(entry)
    written = _add_records(entry, finished)
    try:
      _read_entry(entry, study_file)
    except InputError as error:
      shutil.rmtree(entry)
      written = f'left out: {error}'
    yield f'{entry}: {written}'


def _add_records(entry: pathlib.Path, finished: finished_workdir.FinishedStudy) -> str:
  """Writes the rank of the true class for each image and perturbation to an entry.

  Nothing is written if the study cannot compute its results from ranks.

  Args:
    entry: the folder of the entry, which has the results.
    finished: the study of a finished workdir, with results and predictions.

  Returns:
    What the entry now has, in words.
  """
  study = finished.study
  if not study.needs_classifier or study.sequential_design or isinstance(study, RecordedStudy):
    return 'the results'
  for evaluation in finished.evaluations:
    _write_ranks(entry / workdir.RECORDS / evaluation.label, evaluation.records)
  # `describe` adds facts, such as what was measured, to the settings of the study.
  settings = {key: value for key, value in study.describe().items() if key not in study.facts}
  workdir.write_json(entry / workdir.CONFIG, {'study': settings})
  try:
    verification.differences_of_study(finished_workdir.read(entry)[SINGLE], is_strict=True)
  except InputError as error:
    shutil.rmtree(entry / workdir.RECORDS)
    (entry / workdir.CONFIG).unlink()
    return f'the results alone: ranks are not enough ({error})'
  return 'the results, and the rank of the true class for every answer'


def _write_ranks(folder: pathlib.Path, records: RecordsReader) -> None:
  """Writes the ranks of the true class for one classifier to a folder, as one compressed file.

  Labels and other columns of the images are written too.
  """
  names = records.read(0, 0).arrays  # fields of the first shard, the same in all shards
  arrays = {name: records.column(name) for name in names if not is_per_view(name)}  # [rows]
  # [rows, views]; the ranks among classes of equal score are missing in older records
  arrays |= {name: records.table(name) for name in TIE_RANKS if name in names}
  ranks = records.table('rank')  # [rows, views]
  arrays['rank'] = ranks.astype(np.min_scalar_type(ranks.max()))
  num_rows, num_views = ranks.shape
  one_shard = Layout(num_rows, num_views, block_rows=num_rows, chunk_views=num_views)
  Records(folder, one_shard, records.identity).write(0, 0, arrays, compress=True)


def _read_entry(path: pathlib.Path, study_file: str) -> BoardEntry:
  """Returns the entry in a folder, after checks.

  Args:
    path: the folder.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Raises:
    InputError: the results are not of a single study of classifiers, differ from the saved
      predictions, or have no value that ranks classifiers.
  """
  check_name(f'{path.parent}', path.name, is_key=False)
  refuse_special(path)
  results = Results.read(path)
  if results.tasks:
    raise InputError('a battery; give the folder tasks/TASK of each of its tasks.')
  if not results.classifiers:
    raise InputError('its results are of no classifier.')
  # An entry without records is on the board too, but without paired differences.
  study, unverified = None, verification.NO_RECORDS
  if (path / workdir.RECORDS).is_dir():
    [finished] = finished_workdir.read(path, study_file).values()  # of the only study
    study = finished.study
    unverified = verification.differences_of_study(finished)  # '' if all are reproduced
  entry = BoardEntry(path.name, path, results, unverified, study)
  if not entry.results.image_digest():
    raise InputError('its results do not say which images it saw: run it with this version.')
  _check_intervals(results)
  if all(values_that_rank(results, quantity).empty for quantity in results.quantities):
    raise InputError(f'no headline of the study {results.study} ranks classifiers.')
  return entry


def _check_intervals(results: Results) -> None:
  """Raises InputError if a value is outside its interval.

  Intervals from percentiles may exclude the value and are not checked.
  """
  table = results.table[~results.table.method.isin(PERCENTILES)]
  slack = 1e-9 * np.maximum(1, table.value.abs())
  outside = table[(table.low > table.value + slack) | (table.high < table.value - slack)]
  if len(outside):
    row = outside.iloc[0]
    raise InputError(
      f'{row["quantity"]} of {row.classifier} is {row.value:g}, outside of its interval, '
      f'[{row.low:g}, {row.high:g}]: damaged.'
    )


def _with_other_declarations(entries: Sequence[BoardEntry]) -> dict[str, str]:
  """Returns the entries that declare a quantity differently from most comparable entries.

  Comparable entries have the same study, settings and images. A declaration has kind, range, better
  direction and so on. If two declarations are equally frequent, the first counts.

  Returns:
    {name of an entry: reason}.
  """
  # {(protocol, name of a quantity): {declaration: the entries that have it}}
  groups: dict[tuple[str, str], dict[Quantity, list[BoardEntry]]] = {}
  for entry in entries:
    for quantity in entry.results.quantities:
      entries_by_declaration = groups.setdefault((entry.protocol, quantity.name), {})
      entries_by_declaration.setdefault(quantity, []).append(entry)
  reasons = {}
  for (_, name), entries_by_declaration in groups.items():
    majority, *minorities = sorted(entries_by_declaration.values(), key=len, reverse=True)
    for entry in itertools.chain(*minorities):
      reasons[entry.name] = (
        f'it declares the quantity {name} otherwise than {majority[0].name}: another version '
        'measured it. Run the same command again with one version.'
      )
  return reasons


def _parser() -> argparse.ArgumentParser:
  """Returns the parser of the command line."""
  parser = new_parser('robustness leaderboard', __doc__)
  parser.add_argument('folder', type=expanded, metavar='DIR', help='has a folder per entry')
  parser.add_argument(
    '--add', action='append', default=[], metavar='WORKDIR', help='add the entry of a finished run'
  )
  recorded_study.add_flag(parser)
  check_or_out = parser.add_mutually_exclusive_group()
  check_or_out.add_argument('--check', action='store_true', help='check the entries, the default')
  check_or_out.add_argument('--out', type=expanded, metavar='SITE', help='where the page goes')
  return parser
