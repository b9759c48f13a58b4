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
from robustness.present.choice import leading, levels
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
"""Methods of intervals that need not hold the value."""
OF_THE_MACHINE = ('parallel', 'precision', 'batch_size', 'views_per_step', 'seed', 'seeds')
"""Settings that are no part of a protocol; results name them."""


def main(arguments: Sequence[str]) -> int:
  """Checks the entries, writes the page, and prints ranks; returns 0, or 1 if an entry is wrong."""
  given = _parser().parse_args(arguments)
  if given.out is not None:
    workdir.refuse_results(given.out)
    out = given.out.resolve()
    if given.folder.resolve() in (out, *out.parents):
      raise InputError(f'--out is {given.out}, in the folder of the entries: give one elsewhere.')
    if files := [path for path in (out, *out.parents) if path.exists() and not path.is_dir()]:
      raise InputError(f'--out is {given.out}, and {files[0]} is a file: name a folder.')
  for workdir_given in given.add:
    for line in add(given.folder, workdir_given, given.study):
      print(line)
  entries, wrong = read(given.folder, given.study)
  recorded_study.check_used(given.study, [entry.study for entry in entries if entry.study])
  environment = workdir.environment(shlex.join(['robustness', 'leaderboard', *arguments]))

  def build(chosen: Sequence[BoardEntry], folder: pathlib.Path | None) -> dict[str, Results]:
    boards = boards_of(chosen, given.study)
    if folder is not None:
      _publish(folder, boards, environment, [entry.name for entry in chosen], wrong)
    return boards

  boards = _built(build, entries, wrong, given.out)
  for entry in entries:
    if verification.NOT_REPRODUCED in entry.unverified:
      print(f'note: {entry.name}: {entry.unverified}', file=sys.stderr)
  for name, reason in wrong.items():
    print(f'error: {name}: {reason}', file=sys.stderr)
  if given.out is None:
    print(f'{len(entries)} entries are as they should be, {len(wrong)} are not.')
    return int(bool(wrong))
  for name, board in boards.items():
    print(name)
    for titled in tables.tables(board):
      print(titled.title, *text.lines(titled.table), '', sep='\n')
  print(f'written to {given.out}')
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
  further = {LEFT_OUT: Table(('entry', 'why'), [[*pair] for pair in wrong.items()])}
  figures: dict[str, Drawn] = {}
  if len(boards) == 1:
    [whole] = boards.values()
  elif boards:
    figures = {
      name: publish(workdir.task_folder(out, name), board, PRESENTED, environment, config)
      for name, board in boards.items()
    }
    whole = joined(boards, {'tasks': list(boards)}, 'leaderboard')
  else:
    whole = Results('leaderboard', [], {}, {})
  if wrong:
    whole = dataclasses.replace(whole, tables={**further, **whole.tables})
  publish(out, whole, PRESENTED, environment, config, captioned(figures))


def protocol_of(results: Results) -> dict[str, object]:
  """Returns the settings that must be alike for numbers to be compared."""
  return {k: v for k, v in results.settings.items() if k not in OF_THE_MACHINE}


@dataclasses.dataclass(frozen=True)
class BoardEntry:
  """One folder of a board.

  Attributes:
    name: of the folder.
    folder: its path.
    results: what it holds.
    has_records: whether records of every answer are in it.
    unverified: which of its values records do not give, in words; '' for none.
    study: of its records; None without.
  """

  name: str
  folder: pathlib.Path
  results: Results
  has_records: bool
  unverified: str
  study: Study | None

  @property
  def digest(self) -> str:
    """Of the images; '' where the results do not say it."""
    table = self.results.tables.get(WHICH_NUMBERS, Table((), ()))
    return next((str(row[1]) for row in table.rows if row[0] == DIGEST and len(row) == 2), '')

  @property
  def protocol(self) -> str:
    """What must be alike for numbers to be compared, as JSON: study, settings and images."""
    images = self.digest or self.results.data
    return json.dumps([self.results.study, protocol_of(self.results), images], sort_keys=True)


def read(folder: pathlib.Path, study_file: str = '') -> tuple[list[BoardEntry], dict[str, str]]:
  """Returns the entries of a folder, sorted by name, and what is wrong with others by their names.

  An entry has files and folders only, readable results of a single study, that say the digest of
  the images, values that its records give, if it has records, and quantities that are declared as
  in most other entries of its board. `study_file` is FILE.py:NAME that the user gives for the study
  of that name; no file that an entry names is run.

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


def add(folder: pathlib.Path, given: str, study_file: str = '') -> Iterator[str]:
  """Writes an entry for each study of a finished workdir, PATH or NAME=PATH, and says where.

  An entry has the results without pictures, and for every answer the rank of the true class, with
  which entries are paired and the table is checked. A study that needs more has the results alone.

  Raises:
    InputError: the entry is there already, or see `workdir.read`.
  """
  [(name, path)] = comparison.named_workdirs([given]).items()
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
  own = Records(folder, Layout(*ranks.shape, *ranks.shape), records.identity)
  places = {name: records.table(name) for name in PLACES_OF_TIES if name in names}
  arrays = {**columns, **places, 'rank': ranks.astype(np.min_scalar_type(ranks.max()))}
  own.write(0, 0, arrays, compress=True)


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
  reasons = [verification.of_study(of) for of in finished.values()]
  unverified = '; '.join(filter(None, reasons)) if finished else verification.NO_RECORDS
  study = next((of.study for of in finished.values()), None)
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
  """Yields the entries that declare a quantity otherwise than most of their board, and why each is
  wrong; of equally many the declaration of the first entry holds."""
  declared: dict[tuple[str, str], dict[Quantity, list[BoardEntry]]] = {}
  for entry in entries:
    for quantity in entry.results.quantities:
      by_words = declared.setdefault((entry.protocol, quantity.name), {})
      by_words.setdefault(quantity, []).append(entry)
  reasons: dict[str, tuple[BoardEntry, str]] = {}
  for (_, name), groups in declared.items():
    first, *others = sorted(groups.values(), key=len, reverse=True)
    for entry in itertools.chain(*others):
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
  used, parts = list[Quantity](), list[pd.DataFrame]()
  ranked: dict[str, tuple[Quantity, pd.DataFrame]] = {}
  for quantity in first.quantities:
    own = pd.concat([_values(entry, quantity, labels) for entry in entries])
    if len(own):
      used.append(quantity)
      parts.append(own)
      ranked |= {level.words: (quantity, level.rows) for level in levels(own, quantity)}
  for words, (quantity, own) in ranked.items():
    by = {'ranked_by': words} if len(ranked) > 1 else {}
    parts.append(part([*_ranked(quantity, own, by)]))
  compared = _compared(entries, used, study_file)
  provenance = [line for entry in entries for line in _provenance(entry, labels)]
  return dataclasses.replace(
    first,
    classifiers=[
      {**own, 'label': labels[entry.name, own['label']]}
      for entry in entries
      for own in entry.results.classifiers
    ],
    tables={PROVENANCE: Table(COLUMNS, provenance), WHICH_NUMBERS: first.tables[WHICH_NUMBERS]},
    arrays={},
    table=assemble([*parts, *compared]),
    quantities=(RANK, *dict.fromkeys([*used, comparison.ACCURACY, comparison.EFFECTIVE])),
  )


def _values(
  entry: BoardEntry, quantity: Quantity, labels: Mapping[tuple[str, str], str]
) -> pd.DataFrame:
  """Returns what ranks an entry by a quantity, under the board's labels."""
  own = _ranking(entry.results, quantity)
  return own.assign(classifier=[labels[entry.name, label] for label in own.classifier])


def _ranking(results: Results, quantity: Quantity) -> pd.DataFrame:
  """Returns an entry's own values of a quantity over the most; none where it ranks nothing, as
  where each run has a baseline of its own."""
  rows = leading(results.over_seeds.table, quantity)
  ranks = quantity.headline and bool(quantity.better)
  compares = not rows.note.str.contains(ITSELF, regex=False).any()
  return rows[(rows.versus == '') & rows.value.notna() & ranks & compares]


def _ranked(quantity: Quantity, own: pd.DataFrame, facets: Mapping[str, str]) -> Iterator[Row]:
  """Yields the ranks of values with intervals.

  A rank is 1 + the number of classifiers that are better for sure. Errors of values, half an
  interval over its quantile, are taken to be independent; those on the same images go together, so
  that classifiers are told apart less often here than they could be.
  """
  known = own[own.low.notna()]
  if len(known) < 2:
    return
  quantile = np.array([z_value(confidence) for confidence in known.confidence])
  errors = (known.high - known.low).to_numpy(float) / 2 / quantile
  sign = 1 if quantity.better == 'higher' else -1
  confidence = float(known.confidence.min())
  found = ranks(sign * known.value.to_numpy(float), errors, confidence)
  for label, n, low, high in zip(known.classifier, known.n, found.low, found.high, strict=True):
    estimate = Estimate(float(low), float(low), float(high), int(n), int(n), METHOD)
    yield row(label, '', RANK, facets, estimate, confidence)


def _compared(
  entries: Sequence[BoardEntry], used: Sequence[Quantity], study_file: str
) -> list[pd.DataFrame]:
  """Returns paired differences from the first entry, in accuracy and the quantities that are used,
  and effective robustness; none where an entry has no records, or only results of a study in a
  file that is not run.

  An entry the records of which cannot be paired with those of the others is left out.
  """
  paired = [entry for entry in entries if not isinstance(entry.study, RecordedStudy)]
  if not all(entry.has_records for entry in paired):
    return []
  file = study_file if any(entry.study and entry.study.file for entry in paired) else ''
  for chosen in (paired, *([other for other in paired if other is not one] for one in paired)):
    if sum(len(entry.results.labels) for entry in chosen) < 2:
      continue
    folders = {entry.name: entry.folder for entry in chosen}
    try:
      [of_task] = comparison.read_entries(folders, file).values()
      table = comparison.compare(of_task, common=False, baseline=of_task[0].label).table
    except InputError as error:
      print(f'note: {", ".join(folders)}: {error}', file=sys.stderr)
      continue
    leads = [leading(table, quantity) for quantity in dict.fromkeys([*used, comparison.ACCURACY])]
    above = table[table['quantity'] == comparison.EFFECTIVE.name]
    return [*(each[each.versus != ''] for each in leads), above]
  return []


def _provenance(entry: BoardEntry, labels: Mapping[tuple[str, str], str]) -> Iterator[list[str]]:
  environment = entry.results.environment
  for own in entry.results.classifiers:
    yield [
      labels[entry.name, own['label']],
      entry.name,
      classifier_words(own),
      str(own.get('sha256', ''))[:12],
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
