"""`robustness leaderboard`: the finished runs in a folder, checked and ranked on one static page.

robustness leaderboard DIR --add=WORKDIR
robustness leaderboard DIR --check
robustness leaderboard DIR --out=SITE

  Every folder DIR/NAME with results.csv, results.json and results.npz is an entry; one with records
  adds paired differences. Entries of the same study, settings and images are on one board. --add
  writes the entry of a finished run, or of NAME=WORKDIR under another name. --check says what is
  wrong with any, and ends with 1 if something is. --out writes the page.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness import comparison, workdir
from robustness.cli import verification
from robustness.core.bounded_files import refuse_special
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import check_name
from robustness.core.typing import Facts
from robustness.estimates.intervals import BAYESIAN, BOOTSTRAP, z_value
from robustness.estimates.means import Estimate, Row, part, row
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import COUNT, Quantity
from robustness.estimates.ranks import METHOD, ranks
from robustness.estimates.systematic import JOINT
from robustness.estimates.table import assemble
from robustness.evaluation import recorded_study
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.records import (
  PLACES_OF_TIES,
  Layout,
  Records,
  RecordsReader,
  is_of_views,
)
from robustness.evaluation.study import Study
from robustness.present import tables, text
from robustness.present.choice import overall_choices, overall_rows
from robustness.present.page import classifier_words
from robustness.present.publish import Drawn, Presentation, captioned, publish
from robustness.results import JSON_NAME, SINGLE, WHICH_NUMBERS, Results, Table, joined

PRESENTED = Presentation('Leaderboard')
RANK = Quantity('rank', 'rank', kind=COUNT, better='lower', low=1, headline=True)
DIGEST = 'digest of the images'
PROVENANCE = 'where every number comes from'
COLUMNS = (
  *('classifier', 'entry', 'network and training', 'weights', 'images', 'version', 'commit'),
  'values',
)
LEFT_OUT = 'entries left out'
FROM_RECORDS = 'as records give'
PERCENTILES = (BOOTSTRAP, BAYESIAN, *JOINT.values())
"""Methods of intervals that may exclude the value."""
OF_THE_MACHINE = ('parallel', 'precision', 'batch_size', 'views_per_step', 'seed', 'seeds')
"""Settings in results that are no part of a protocol."""


def main(arguments: Sequence[str]) -> int:
  """Checks the entries, writes the page, and prints ranks; returns 0, or 1 if an entry is wrong."""
  options = _parser().parse_args(arguments)
  if options.out is not None:
    workdir.refuse_results(options.out)
    out = options.out.resolve()
    if options.folder.resolve() in (out, *out.parents):
      raise InputError(f'--out is {options.out}, in the folder of the entries: give one elsewhere.')
    if files := [path for path in (out, *out.parents) if path.exists() and not path.is_dir()]:
      raise InputError(f'--out is {options.out}, and {files[0]} is a file: name a folder.')
  for path in options.add:
    for line in add(options.folder, path, options.study):
      print(line)
  entries, wrong = read(options.folder, options.study)
  recorded_study.check_used(options.study, [entry.study for entry in entries if entry.study])
  environment = workdir.environment(shlex.join(['robustness', 'leaderboard', *arguments]))

  def build(accepted: Sequence[BoardEntry], folder: pathlib.Path | None) -> dict[str, Results]:
    boards = boards_of(accepted, options.study)
    if folder is not None:
      _publish(folder, boards, environment, [entry.name for entry in accepted], wrong)
    return boards

  boards = _built(build, entries, wrong, options.out)
  for entry in entries:
    if verification.NOT_REPRODUCED in entry.unverified:
      print(f'note: {entry.name}: {entry.unverified}', file=sys.stderr)
  for name, reason in wrong.items():
    print(f'error: {name}: {reason}', file=sys.stderr)
  if options.out is None:
    print(f'{len(entries)} entries are as they should be, {len(wrong)} are not.')
    return int(bool(wrong))
  for name, board in boards.items():
    print(name)
    for titled in tables.tables(board):
      print(titled.title, *text.lines(titled.table), '', sep='\n')
  print(f'written to {options.out}')
  return int(bool(wrong))


Build = Callable[[Sequence['BoardEntry'], pathlib.Path | None], dict[str, Results]]


def _built(
  build: Build, entries: list[BoardEntry], wrong: dict[str, str], out: pathlib.Path | None
) -> dict[str, Results]:
  """Returns the boards of the entries, written to `out`; moves entries with which boards cannot be
  built to `wrong`.

  Entries are other people's, and a fault that no check foresees must not stop the board: where it
  cannot be built of all entries, they are added one by one.
  """
  try:
    return build(entries, out)
  except OSError:  # of the folder that is written, and of no entry
    raise
  except Exception:
    taken = list[BoardEntry]()
    for entry in list(entries):
      try:
        with tempfile.TemporaryDirectory() as scratch:
          build([*taken, entry], pathlib.Path(scratch) if out else None)
      except OSError:
        raise
      except Exception as error:
        wrong[entry.name] = str(error) if isinstance(error, InputError) else repr(error)
        entries.remove(entry)
      else:
        taken.append(entry)
    return build(entries, out)


def _publish(
  out: pathlib.Path,
  boards: Mapping[str, Results],
  environment: Facts,
  names: Sequence[str],
  wrong: Mapping[str, str],
) -> None:
  """Writes the page of all boards, and one for each of many; entries left out are a table."""
  config = {'entries': list(names)}
  tables_of_errors = {LEFT_OUT: Table(('entry', 'why'), [[*pair] for pair in wrong.items()])}
  figures: dict[str, Drawn] = {}
  if len(boards) == 1:
    [results] = boards.values()
  elif boards:
    figures = {
      name: publish(workdir.task_folder(out, name), board, PRESENTED, environment, config)
      for name, board in boards.items()
    }
    results = joined(boards, {'tasks': list(boards)}, 'leaderboard')
  else:
    results = Results('leaderboard', [], {}, {})
  if wrong:
    results = dataclasses.replace(results, tables={**tables_of_errors, **results.tables})
  publish(out, results, PRESENTED, environment, config, captioned(figures))


def protocol_of(results: Results) -> dict[str, object]:
  """Returns the settings that must be equal for numbers to be compared."""
  return {k: v for k, v in results.settings.items() if k not in OF_THE_MACHINE}


@dataclasses.dataclass(frozen=True)
class BoardEntry:
  """One folder of a board.

  Attributes:
    name: name of the folder.
    folder: path of the folder.
    results: results in the folder.
    has_records: whether the folder has records of every answer.
    unverified: values that the records do not confirm, in words; '' for none.
    study: study of the records; None without records.
  """

  name: str
  folder: pathlib.Path
  results: Results
  has_records: bool
  unverified: str
  study: Study | None

  @property
  def digest(self) -> str:
    """The digest of the images; '' if the results do not state it."""
    table = self.results.tables.get(WHICH_NUMBERS, Table((), ()))
    return next((str(row[1]) for row in table.rows if row[0] == DIGEST and len(row) == 2), '')

  @property
  def protocol(self) -> str:
    """The study, settings and images as JSON; entries with the same protocol share a board."""
    images = self.digest or self.results.data
    return json.dumps([self.results.study, protocol_of(self.results), images], sort_keys=True)


def read(folder: pathlib.Path, study_file: str = '') -> tuple[list[BoardEntry], dict[str, str]]:
  """Returns the entries of a folder, sorted by name, and what is wrong with others by their names.

  An entry has only files and folders, and readable results of a single study that state the digest
  of the images. Records, if any, must confirm its values, and its quantities are declared as in
  most entries of its board. `study_file` is the user's FILE.py:NAME for the study NAME; no file
  that an entry names is run.

  Raises:
    InputError: the folder does not exist, or holds no results.
  """
  if not folder.is_dir():
    raise InputError(f'{folder} is no folder; give one with a folder for every entry.')
  places = sorted(path for path in folder.iterdir() if os.path.lexists(path / JSON_NAME))
  if not places:
    raise InputError(
      f'{folder} holds no entry: expected {folder}/NAME/{JSON_NAME} of finished runs.'
    )
  entries, wrong = list[BoardEntry](), dict[str, str]()
  for place in places:
    try:
      entries.append(_entry(place, study_file))
    except Exception as error:  # the entry is somebody else's, and may be damaged in any way
      name = place.name if place.name.isprintable() else ascii(place.name)
      wrong[name] = str(error) if isinstance(error, InputError) else repr(error)
  for entry, reason in _declared_otherwise(entries):
    wrong[entry.name] = reason
    entries.remove(entry)
  return entries, dict(sorted(wrong.items()))


def add(folder: pathlib.Path, reference: str, study_file: str = '') -> Iterator[str]:
  """Writes an entry for each study of a finished workdir, PATH or NAME=PATH; yields their paths.

  An entry has the results without pictures, and the rank of the true class for every answer, which
  pairs entries and checks the table. A study that needs more records has only results.

  Raises:
    InputError: the entry is there already, or see `workdir.read`.
  """
  [(name, path)] = comparison.named_workdirs([reference]).items()
  tasks = workdir.read(path, study_file)
  for task, finished in tasks.items():
    place = folder / '-'.join(filter(None, (name, task)))
    if place.exists():
      raise InputError(f'{place} exists: name the entry otherwise, as in --add=NAME={path}.')
    dataclasses.replace(finished.results, arrays={}).write(place)
    written = 'the results'
    study = finished.study
    can_be_recorded = study.needs_classifier and not study.sequential_design
    if can_be_recorded and not isinstance(study, RecordedStudy):
      for evaluation in finished.evaluations:
        _write_ranks(place / workdir.RECORDS / evaluation.label, evaluation.records)
      section = {key: value for key, value in study.describe().items() if key not in study.facts}
      workdir.write_json(place / workdir.CONFIG, {'study': section})
      try:
        verification.of_study(workdir.read(place)[SINGLE], is_strict=True)
        written += ', and the rank of the true class for every answer'
      except InputError as error:
        written = f'the results alone: ranks are not enough ({error})'
        shutil.rmtree(place / workdir.RECORDS)
        (place / workdir.CONFIG).unlink()
    try:
      _entry(place, study_file)
    except InputError as error:
      shutil.rmtree(place)
      written = f'left out: {error}'
    yield f'{place}: {written}'


def _write_ranks(folder: pathlib.Path, records: RecordsReader) -> None:
  """Writes records in one compressed shard with the columns of the rows and ranks alone."""
  names = records.read(0, 0).arrays
  columns = {name: records.column(name) for name in names if not is_of_views(name)}
  ranks = records.table('rank')
  ranked = Records(folder, Layout(*ranks.shape, *ranks.shape), records.identity)
  places = {name: records.table(name) for name in PLACES_OF_TIES if name in names}
  arrays = {**columns, **places, 'rank': ranks.astype(np.min_scalar_type(ranks.max()))}
  ranked.write(0, 0, arrays, compress=True)


def _entry(place: pathlib.Path, study_file: str) -> BoardEntry:
  check_name(f'{place.parent}', place.name, is_key=False)
  refuse_special(place)
  results = Results.read(place)
  if results.tasks:
    raise InputError('a battery; give the folder tasks/TASK of each of its tasks.')
  if not results.classifiers:
    raise InputError('its results are of no classifier.')
  # Results alone are enough for all but paired differences.
  finished = {}
  if (place / workdir.RECORDS).is_dir():
    finished = workdir.read(place, study_file)
  reasons = [verification.of_study(task) for task in finished.values()]
  unverified = '; '.join(filter(None, reasons)) if finished else verification.NO_RECORDS
  study = next((task.study for task in finished.values()), None)
  entry = BoardEntry(place.name, place, results, bool(finished), unverified, study)
  if not entry.digest:
    raise InputError('its results do not say which images it saw: run it with this version.')
  _check_intervals(results)
  if all(_ranking(results, quantity).empty for quantity in results.quantities):
    raise InputError(f'no headline of the study {results.study} ranks classifiers.')
  return entry


def _check_intervals(results: Results) -> None:
  """Raises InputError for a value outside of its interval, which none but percentiles allow."""
  table = results.table[~results.table.method.isin(PERCENTILES)]
  slack = 1e-9 * np.maximum(1, table.value.abs())
  outside = table[(table.low > table.value + slack) | (table.high < table.value - slack)]
  if len(outside):
    row = outside.iloc[0]
    raise InputError(
      f'{row["quantity"]} of {row.classifier} is {row.value:g}, outside of its interval, '
      f'[{row.low:g}, {row.high:g}]: damaged.'
    )


def _declared_otherwise(entries: Sequence[BoardEntry]) -> Iterator[tuple[BoardEntry, str]]:
  """Yields the entries that declare a quantity otherwise than most of their board, with the reason.

  In a tie the declaration of the first entry holds."""
  declared: dict[tuple[str, str], dict[Quantity, list[BoardEntry]]] = {}
  for entry in entries:
    for quantity in entry.results.quantities:
      by_words = declared.setdefault((entry.protocol, quantity.name), {})
      by_words.setdefault(quantity, []).append(entry)
  reasons: dict[str, tuple[BoardEntry, str]] = {}
  for (_, name), groups in declared.items():
    first, *minorities = sorted(groups.values(), key=len, reverse=True)
    for entry in itertools.chain(*minorities):
      reasons[entry.name] = (
        entry,
        f'it declares the quantity {name} otherwise than {first[0].name}: another version measured '
        'it. Run the same command again with one version.',
      )
  yield from reasons.values()


def boards_of(entries: Sequence[BoardEntry], study_file: str = '') -> dict[str, Results]:
  """Returns a board for each protocol, by a short name: classifiers of all entries with values,
  intervals and ranks; paired differences from the first where all entries kept their records.

  The quantities are the headlines of the study, each level of them ranked.
  """
  by_protocol: dict[str, list[BoardEntry]] = {}
  for entry in entries:
    by_protocol.setdefault(entry.protocol, []).append(entry)
  named: dict[str, Results] = {}
  for group in by_protocol.values():
    study = group[0].results.study
    numbered = (f'{study} {number}' for number in itertools.count(2))
    name = next(name for name in itertools.chain([study], numbered) if name not in named)
    named[name] = _board(group, study_file)
  return named


def _board(entries: Sequence[BoardEntry], study_file: str) -> Results:
  first = entries[0].results
  labels = comparison.distinct_labels(
    {e.name: {*e.results.labels, *(c['label'] for c in e.results.classifiers)} for e in entries}
  )
  quantities, parts = list[Quantity](), list[pd.DataFrame]()
  ranked: dict[str, tuple[Quantity, pd.DataFrame]] = {}
  for quantity in first.quantities:
    rows = pd.concat([_values(entry, quantity, labels) for entry in entries])
    if len(rows):
      quantities.append(quantity)
      parts.append(rows)
      ranked |= {level.words: (quantity, level.rows) for level in overall_choices(rows, quantity)}
  for words, (quantity, rows) in ranked.items():
    facets = {'ranked_by': words} if len(ranked) > 1 else {}
    parts.append(part([*_ranked(quantity, rows, facets)]))
  compared = _compared(entries, quantities, study_file)
  provenance = [line for entry in entries for line in _provenance(entry, labels)]
  return dataclasses.replace(
    first,
    classifiers=[
      {**classifier, 'label': labels[entry.name, classifier['label']]}
      for entry in entries
      for classifier in entry.results.classifiers
    ],
    tables={PROVENANCE: Table(COLUMNS, provenance), WHICH_NUMBERS: first.tables[WHICH_NUMBERS]},
    arrays={},
    table=assemble([*parts, *compared]),
    quantities=(RANK, *dict.fromkeys([*quantities, comparison.ACCURACY, comparison.EFFECTIVE])),
  )


def _values(
  entry: BoardEntry, quantity: Quantity, labels: Mapping[tuple[str, str], str]
) -> pd.DataFrame:
  """Returns the estimates that rank an entry by a quantity, with the board's labels."""
  rows = _ranking(entry.results, quantity)
  return rows.assign(classifier=[labels[entry.name, label] for label in rows.classifier])


def _ranking(results: Results, quantity: Quantity) -> pd.DataFrame:
  """Returns the estimates of a quantity with the fewest facets, which rank the classifiers.

  There are none if entries cannot be compared by them, such as ratios to a baseline in one run.
  """
  rows = overall_rows(results.over_seeds.table, quantity)
  ranks = quantity.headline and bool(quantity.better)
  compares = not rows.note.str.contains(ITSELF, regex=False).any()
  return rows[(rows.versus == '') & rows.value.notna() & ranks & compares]


def _ranked(quantity: Quantity, rows: pd.DataFrame, facets: Mapping[str, str]) -> Iterator[Row]:
  """Yields the ranks of values with intervals.

  A rank is 1 + the number of classifiers that are significantly better. The standard errors, half
  an interval divided by its quantile, are taken as independent, which is conservative for values on
  the same images.
  """
  bounded = rows[rows.low.notna()]
  if len(bounded) < 2:
    return
  quantile = np.array([z_value(confidence) for confidence in bounded.confidence])
  errors = (bounded.high - bounded.low).to_numpy(float) / 2 / quantile
  sign = 1 if quantity.better == 'higher' else -1
  confidence = float(bounded.confidence.min())
  bounds = ranks(sign * bounded.value.to_numpy(float), errors, confidence)
  for label, n, low, high in zip(
    bounded.classifier, bounded.n, bounds.low, bounds.high, strict=True
  ):
    estimate = Estimate(float(low), float(low), float(high), int(n), int(n), METHOD)
    yield row(label, '', RANK, facets, estimate, confidence)


def _compared(
  entries: Sequence[BoardEntry], quantities: Sequence[Quantity], study_file: str
) -> list[pd.DataFrame]:
  """Returns paired differences from the first entry in the quantities and in accuracy, and
  effective robustness; none if an entry has no records.

  An entry is left out if its study is in a file that is not run, or if its records cannot be paired
  with other entries.
  """
  paired = [entry for entry in entries if not isinstance(entry.study, RecordedStudy)]
  if not all(entry.has_records for entry in paired):
    return []
  file = study_file if any(entry.study and entry.study.file for entry in paired) else ''
  for group in (
    paired,
    *([member for member in paired if member is not left_out] for left_out in paired),
  ):
    if sum(len(entry.results.labels) for entry in group) < 2:
      continue
    folders = {entry.name: entry.folder for entry in group}
    try:
      [pairable] = comparison.read_entries(folders, file).values()
      table = comparison.compare(pairable, common=False, baseline=pairable[0].label).table
    except InputError as error:
      print(f'note: {", ".join(folders)}: {error}', file=sys.stderr)
      continue
    leads = [
      overall_rows(table, quantity)
      for quantity in dict.fromkeys([*quantities, comparison.ACCURACY])
    ]
    above = table[table['quantity'] == comparison.EFFECTIVE.name]
    return [*(estimates[estimates.versus != ''] for estimates in leads), above]
  return []


def _provenance(entry: BoardEntry, labels: Mapping[tuple[str, str], str]) -> Iterator[list[str]]:
  environment = entry.results.environment
  for classifier in entry.results.classifiers:
    yield [
      labels[entry.name, classifier['label']],
      entry.name,
      classifier_words(classifier),
      str(classifier.get('sha256', ''))[:12],
      entry.digest,
      str(environment.get('robustness', '')),
      str(environment.get('git_commit') or '')[:12],
      entry.unverified or FROM_RECORDS,
    ]


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    'robustness leaderboard',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('folder', type=expanded, metavar='DIR', help='a folder an entry')
  entry = 'add the entry of a finished run'
  parser.add_argument('--add', action='append', default=[], metavar='WORKDIR', help=entry)
  recorded_study.add_flag(parser)
  either = parser.add_mutually_exclusive_group()
  either.add_argument('--check', action='store_true', help='check the entries, the default')
  either.add_argument('--out', type=expanded, metavar='SITE', help='where the page goes')
  return parser
