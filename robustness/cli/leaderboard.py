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
import json
import pathlib
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness import comparison, workdir
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.estimates.intervals import z_value
from robustness.estimates.means import Estimate, Row, part, row
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import COUNT, Quantity
from robustness.estimates.ranks import METHOD, ranks
from robustness.estimates.table import SUBJECT, assemble, facets_of
from robustness.evaluation.records import Layout, Records, RecordsReader, is_of_views
from robustness.present import tables, text
from robustness.present.page import classifier_words
from robustness.present.publish import Presentation, captioned, publish
from robustness.present.sentences import leading, level_groups
from robustness.results import JSON_NAME, SINGLE, WHICH_NUMBERS, Results, Table, joined

PRESENTED = Presentation('Leaderboard')
RANK = Quantity('rank', 'rank', kind=COUNT, better='lower', low=1, headline=True)
DIGEST = 'digest of the images'
PROVENANCE = 'where every number comes from'
TOLD = ('classifier', 'entry', 'network and training', 'weights', 'images', 'version', 'commit')
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
  for workdir_given in given.add:
    for line in add(given.folder, workdir_given):
      print(line)
  entries, wrong = read(given.folder)
  for line in wrong:
    print(f'error: {line}', file=sys.stderr)
  if given.out is None:
    print(f'{len(entries)} entries are as they should be, {len(wrong)} are not.')
    return int(bool(wrong))
  boards = boards_of(entries)
  environment = workdir.environment(shlex.join(['robustness', 'leaderboard', *arguments]))
  config = {'entries': [entry.name for entry in entries]}
  if len(boards) == 1:
    [whole] = boards.values()
    publish(given.out, whole, PRESENTED, environment, config)
  else:
    figures = {
      name: publish(workdir.task_folder(given.out, name), board, PRESENTED, environment, config)
      for name, board in boards.items()
    }
    whole = joined(boards, {'tasks': list(boards)}, 'leaderboard')
    publish(given.out, whole, PRESENTED, environment, config, captioned(figures))
  for name, board in boards.items():
    print(name)
    for own in tables.tables(board):
      print(own.title, *text.lines(own.table), '', sep='\n')
  print(f'written to {given.out}')
  return int(bool(wrong))


def protocol_of(results: Results) -> dict[str, object]:
  """Returns the settings that must be alike for numbers to be compared."""
  return {k: v for k, v in results.settings.items() if k not in OF_THE_MACHINE}


@dataclasses.dataclass(frozen=True)
class BoardEntry:
  """One folder of a board: its name, results, and whether records of every answer lie beside."""

  name: str
  folder: pathlib.Path
  results: Results
  has_records: bool

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


def read(folder: pathlib.Path) -> tuple[list[BoardEntry], list[str]]:
  """Returns the entries of a folder, sorted by name, and what is wrong with others, a line each.

  An entry needs readable results of a single study, that say the digest of the images, whose
  estimates lie within the ranges of their quantities and whose quantities are declared as those of
  the other entries of their board.

  Raises:
    InputError: the folder does not exist, or holds no results.
  """
  if not folder.is_dir():
    raise InputError(f'{folder} is no folder; give one with a folder for every entry.')
  places = sorted(path.parent for path in folder.glob(f'*/{JSON_NAME}'))
  if not places:
    raise InputError(
      f'{folder} holds no entry: expected {folder}/NAME/{JSON_NAME} of finished runs.'
    )
  entries, wrong = list[BoardEntry](), list[str]()
  for place in places:
    try:
      entry = _entry(place)
      _check_alike(entry, entries)
    except InputError as error:
      wrong.append(f'{place.name}: {error}')
    else:
      entries.append(entry)
  return entries, wrong


def add(folder: pathlib.Path, given: str) -> Iterator[str]:
  """Writes an entry for each study of a finished workdir, PATH or NAME=PATH, and says where.

  An entry has the results without pictures, and for every answer the rank of the true class, with
  which entries are paired and the table is checked. A study that needs more has the results alone.

  Raises:
    InputError: the entry is there already, or see `workdir.read`.
  """
  [(name, path)] = comparison.named_workdirs([given]).items()
  for task, finished in workdir.read(path).items():
    place = folder / '-'.join(filter(None, (name, task)))
    if place.exists():
      raise InputError(f'{place} exists: name the entry otherwise, as in --add=NAME={path}.')
    dataclasses.replace(finished.results, arrays={}).write(place)
    written = 'the results'
    if finished.study.needs_classifier and not finished.study.sequential_design:
      for evaluation in finished.evaluations:
        _write_ranks(place / workdir.RECORDS / evaluation.label, evaluation.records)
      study = finished.study
      section = {key: value for key, value in study.describe().items() if key not in study.facts}
      workdir.write_json(place / workdir.CONFIG, {'study': section})
      try:
        _check_answers(workdir.read(place)[SINGLE])
        written += ', and the rank of the true class for every answer'
      except InputError as error:
        written = f'the results alone: ranks are not enough ({error})'
        shutil.rmtree(place / workdir.RECORDS)
        (place / workdir.CONFIG).unlink()
    try:
      _entry(place)
    except InputError as error:
      shutil.rmtree(place)
      written = f'left out: {error}'
    yield f'{place}: {written}'


def _write_ranks(folder: pathlib.Path, records: RecordsReader) -> None:
  """Writes records in one compressed shard with the columns of the rows and `rank` alone."""
  names = records.read(0, 0).arrays
  columns = {name: records.column(name) for name in names if not is_of_views(name)}
  ranks = records.table('rank')
  own = Records(folder, Layout(*ranks.shape, *ranks.shape), records.identity)
  own.write(0, 0, {**columns, 'rank': ranks.astype(np.min_scalar_type(ranks.max()))}, compress=True)


def _check_answers(finished: workdir.FinishedStudy) -> None:
  """Refuses headlines that the answers beside them do not give."""
  reduced = finished.study.reduce(finished.evaluations, finished.image_shape)
  found, stated = assemble(reduced.estimates), finished.results.table
  for quantity in finished.results.quantities:
    own = [leading(table, quantity.name) for table in (stated, found) if quantity.headline]
    if own and len(own[1]):
      keys = [*SUBJECT, *facets_of(own[1])]
      both = own[0].merge(own[1], 'outer', keys)
      one, other = (both[[f'{end}_{of}' for end in ('value', 'low', 'high')]] for of in 'xy')
      if not np.allclose(one.to_numpy(float), other.to_numpy(float), rtol=1e-6, equal_nan=True):
        raise InputError(f'its answers do not give its {quantity.name}: damaged, or altered.')


def _entry(place: pathlib.Path) -> BoardEntry:
  results = Results.read(place)
  if results.tasks:
    raise InputError('a battery; give the folder tasks/TASK of each of its tasks.')
  if not results.classifiers:
    raise InputError('its results are of no classifier.')
  # Results alone are enough for all but paired differences.
  finished = workdir.read(place) if (place / workdir.RECORDS).is_dir() else {}
  entry = BoardEntry(place.name, place, results, bool(finished))
  if not entry.digest:
    raise InputError('its results do not say which images it saw: run it with this version.')
  for quantity in results.quantities:
    own = results.table[results.table['quantity'] == quantity.name]
    low, high = quantity.range
    bad = own[(own.versus == '') & ((own.value < low) | (own.value > high))]
    if len(bad):
      value = bad.value.iloc[0]
      raise InputError(f'{quantity.name} is {value:g}, outside [{low:g}, {high:g}]: damaged.')
  if all(_ranking(results, quantity).empty for quantity in results.quantities):
    raise InputError(f'no headline of the study {results.study} ranks classifiers.')
  for of in finished.values():
    _check_answers(of)
  return entry


def _check_alike(entry: BoardEntry, others: Sequence[BoardEntry]) -> None:
  own = {quantity.name: quantity for quantity in entry.results.quantities}
  for other in others:
    if other.protocol != entry.protocol:  # a board of its own
      continue
    for quantity in other.results.quantities:
      if own.get(quantity.name, quantity) != quantity:
        raise InputError(
          f'it declares the quantity {quantity.name} otherwise than {other.name}: another version '
          'measured it. Run the same command again with one version.'
        )


def boards_of(entries: Sequence[BoardEntry]) -> dict[str, Results]:
  """Returns a board for each protocol, by a short name: classifiers of all entries with values,
  intervals and ranks; paired differences from the first where all entries kept their records.

  The quantities are the headlines of the study, each level of them ranked.
  """
  by_protocol: dict[str, list[BoardEntry]] = {}
  for entry in entries:
    by_protocol.setdefault(entry.protocol, []).append(entry)
  counts: dict[str, int] = {}
  named = {}
  for several in by_protocol.values():
    study = several[0].results.study
    counts[study] = counts.get(study, 0) + 1
    number = f' {counts[study]}' if counts[study] > 1 else ''
    named[f'{study}{number}'] = _board(several)
  return named


def _board(entries: Sequence[BoardEntry]) -> Results:
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
      ranked |= {words: (quantity, rows) for words, rows, _ in level_groups(own, quantity)}
  for words, (quantity, own) in ranked.items():
    by = {'ranked_by': words} if len(ranked) > 1 else {}
    parts.append(part([*_ranked(quantity, own, by)]))
  compared = _compared(entries, used) if all(entry.has_records for entry in entries) else []
  provenance = [line for entry in entries for line in _provenance(entry, labels)]
  return dataclasses.replace(
    first,
    classifiers=[
      {**own, 'label': labels[entry.name, own['label']]}
      for entry in entries
      for own in entry.results.classifiers
    ],
    tables={PROVENANCE: Table(TOLD, provenance), WHICH_NUMBERS: first.tables[WHICH_NUMBERS]},
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
  rows = leading(results.over_seeds.table, quantity.name)
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


def _compared(entries: Sequence[BoardEntry], used: Sequence[Quantity]) -> list[pd.DataFrame]:
  """Returns paired differences from the first entry, in accuracy and the quantities that are used,
  and effective robustness."""
  if sum(len(entry.results.labels) for entry in entries) < 2:
    return []
  [own] = comparison.read_entries({entry.name: entry.folder for entry in entries}).values()
  table = comparison.compare(own, common=False, baseline=own[0].label).table
  several = [leading(table, of.name) for of in dict.fromkeys([*used, comparison.ACCURACY])]
  above = table[table['quantity'] == comparison.EFFECTIVE.name]
  return [*(each[each.versus != ''] for each in several), above]


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
  either = parser.add_mutually_exclusive_group()
  either.add_argument('--check', action='store_true', help='check the entries, the default')
  either.add_argument('--out', type=expanded, metavar='SITE', help='where the page goes')
  return parser
