"""Boards: tables that rank the classifiers of finished runs with equal settings and images."""

import collections
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.comparison.compare import EFFECTIVE, compare
from robustness.comparison.entries import distinct_labels, read_entries
from robustness.core.errors import InputError
from robustness.core.typing import Facts
from robustness.estimates.intervals import z_value
from robustness.estimates.means import Estimate, Row, estimate_row, table_of_rows
from robustness.estimates.quantity import ACCURACY, COUNT, Quantity
from robustness.estimates.ranks import METHOD, ranks
from robustness.estimates.table import assemble
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.study import Study
from robustness.present.phrases import classifier_words
from robustness.present.selection import overall_rows, overall_selections, values_that_rank
from robustness.results import WHICH_NUMBERS, Results, Table

RANK = Quantity('rank', 'rank', kind=COUNT, better='lower', low=1, headline=True)
PROVENANCE = 'where every number comes from'
"""Name of the table with the origin of every classifier's numbers."""


@dataclasses.dataclass(frozen=True)
class BoardEntry:
  """An entry of a leaderboard: a folder with the results of a run.

  Attributes:
    name: name of the folder.
    folder: path of the folder.
    results: results in the folder.
    unverified: text about values that the saved predictions do not reproduce; '' if they reproduce
      all.
    study: study of the saved predictions; None if there are no predictions.
  """

  name: str
  folder: pathlib.Path
  results: Results
  unverified: str
  study: Study | None

  @property
  def protocol(self) -> str:
    """Text that is equal for entries that can be ranked together.

    It is the study, its settings and the images as JSON. Images are identified by their digest, or
    without one by their description.
    """
    images = self.results.image_digest() or self.results.data
    return json.dumps([self.results.study, self.results.protocol, images], sort_keys=True)


def boards_of(entries: Sequence[BoardEntry], study_file: str = '') -> dict[str, Results]:
  """Returns the boards of a leaderboard, tables that rank classifiers, as {name: board}.

  Entries with the same study, settings and images share a board. A board is named after the study;
  a second one of a study is 'STUDY 2'. It has values with intervals and ranks of all classifiers,
  ranked by each main result of the study. If all entries have saved predictions, it also has paired
  differences from the first classifier.

  Args:
    entries: the valid entries.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
  """
  by_protocol: dict[str, list[BoardEntry]] = {}
  for entry in entries:
    by_protocol.setdefault(entry.protocol, []).append(entry)
  boards: dict[str, Results] = {}
  counts = collections.Counter[str]()
  for group in by_protocol.values():
    study = group[0].results.study
    counts[study] += 1
    name = study if counts[study] == 1 else f'{study} {counts[study]}'
    boards[name] = _make_board(group, study_file)
  return boards


def _make_board(entries: Sequence[BoardEntry], study_file: str) -> Results:
  """Returns a board, a table that ranks the classifiers of comparable entries.

  It has the overall values that can rank classifiers, the ranks by each of them, and paired
  differences if all entries have saved predictions. Another table lists the entry, weights and
  versions of each classifier.

  Args:
    entries: one or more entries with the same study, settings and images.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
  """
  first = entries[0].results
  # {(name of the entry, label of a classifier in it): label on the board, which is unique}
  labels = distinct_labels(
    {entry.name: {*entry.results.labels, *entry.results.classifier_labels} for entry in entries}
  )
  quantities, all_rows = list[Quantity](), list[pd.DataFrame]()
  # {name of a value, such as 'mCE': (its quantity, a row for each classifier)}
  ranked_values: dict[str, tuple[Quantity, pd.DataFrame]] = {}
  for quantity in first.quantities:
    rows = _relabelled_values(entries, quantity, labels)
    if len(rows):
      quantities.append(quantity)
      all_rows.append(rows)
      for selection in overall_selections(rows, quantity):
        ranked_values[selection.words] = quantity, selection.rows
  for words, (quantity, rows) in ranked_values.items():
    # With several rankings this facet distinguishes them.
    facets = {'ranked_by': words} if len(ranked_values) > 1 else {}
    all_rows.append(table_of_rows(list(_rank_rows(quantity, rows, facets))))
  classifiers, provenance = list[Facts](), list[dict[str, str]]()
  for entry in entries:
    for classifier in entry.results.classifiers:
      relabelled = {**classifier, 'label': labels[entry.name, classifier['label']]}
      classifiers.append(relabelled)
      provenance.append(_provenance_row(entry, relabelled))
  return dataclasses.replace(
    first,
    classifiers=classifiers,
    tables={PROVENANCE: Table.from_lines(provenance), WHICH_NUMBERS: first.tables[WHICH_NUMBERS]},
    arrays={},
    table=assemble([*all_rows, *_paired_estimates(entries, quantities, study_file)]),
    quantities=(RANK, *_with_accuracy(quantities), EFFECTIVE),
  )


def _with_accuracy(quantities: Sequence[Quantity]) -> list[Quantity]:
  """Returns the quantities, with `ACCURACY` added unless one has its name."""
  names = {quantity.name for quantity in quantities}
  return list(quantities) if ACCURACY.name in names else [*quantities, ACCURACY]


def _relabelled_values(
  entries: Sequence[BoardEntry], quantity: Quantity, labels: Mapping[tuple[str, str], str]
) -> pd.DataFrame:
  """Returns the overall values of a quantity in all entries, as rows of results.

  There are no rows if the quantity cannot rank classifiers (`values_that_rank`).

  Args:
    entries: the entries of a board.
    quantity: the quantity.
    labels: {(name of an entry, label of a classifier): label on the board}.
  """
  relabelled = []
  for entry in entries:
    rows = values_that_rank(entry.results, quantity)
    board_labels = [labels[entry.name, label] for label in rows.classifier]
    relabelled.append(rows.assign(classifier=board_labels))
  return pd.concat(relabelled)


def _rank_rows(quantity: Quantity, rows: pd.DataFrame, facets: Mapping[str, str]) -> Iterator[Row]:
  """Yields the rank of each classifier with an interval, as rows of results.

  A rank is 1 + the number of classifiers that are significantly better. Standard errors are
  computed from the intervals of the values. Errors are taken as independent, which is conservative
  for values on the same images.

  Args:
    quantity: the quantity to rank by.
    rows: values of the quantity, one for each classifier. A value without interval gets no rank.
    facets: {column: value} to add to the rows, such as {'ranked_by': 'accuracy'}.
  """
  with_interval = rows[rows.low.notna()]
  if len(with_interval) < 2:
    return
  quantile = np.array([z_value(confidence) for confidence in with_interval.confidence])
  standard_errors = (with_interval.high - with_interval.low).to_numpy(float) / 2 / quantile
  sign = 1 if quantity.better == 'higher' else -1
  confidence = float(with_interval.confidence.min())
  bounds = ranks(sign * with_interval.value.to_numpy(float), standard_errors, confidence)
  columns = with_interval.classifier, with_interval.n, bounds.low, bounds.high
  for label, n, low, high in zip(*columns, strict=True):
    rank = float(low)  # the lower end of the interval counts who is significantly better
    estimate = Estimate(rank, low=rank, high=float(high), n=int(n), clusters=int(n), method=METHOD)
    yield estimate_row(label, '', RANK, facets, estimate, confidence)


def _paired_estimates(
  entries: Sequence[BoardEntry], quantities: Sequence[Quantity], study_file: str
) -> list[pd.DataFrame]:
  """Returns tables of the paired differences of all classifiers from the first one.

  There is a table for each quantity, one for the accuracy, and one for the effective robustness.
  The result is [] if an entry lacks saved predictions. An entry with a user-defined study that is
  not run is left out. If the entries have different images, the first entry without which the
  others can be paired is left out; the result is [] if there is none.

  Args:
    entries: the entries of a board.
    quantities: the quantities of the board.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
  """
  paired = [entry for entry in entries if not isinstance(entry.study, RecordedStudy)]
  if not all(entry.study for entry in paired):
    return []
  needs_file = any(entry.study and entry.study.file for entry in paired)
  file = study_file if needs_file else ''  # a file that no study needs would be refused
  # All entries are tried first, then all but the first one, all but the second one, ….
  all_but_one = ([entry for entry in paired if entry is not left_out] for left_out in paired)
  for group in (paired, *all_but_one):
    if sum(len(entry.results.labels) for entry in group) < 2:
      continue
    folders = {entry.name: entry.folder for entry in group}
    try:
      [classifiers] = read_entries(folders, file).values()  # of the only study
      table = compare(classifiers, common=False, baseline=classifiers[0].label).table
    except InputError as error:  # the records of these entries cannot be paired
      print(f'note: {", ".join(folders)}: {error}', file=sys.stderr)
      continue
    overall = [overall_rows(table, quantity) for quantity in _with_accuracy(quantities)]
    differences = [rows[rows.versus != ''] for rows in overall]
    return [*differences, table[table['quantity'] == EFFECTIVE.name]]
  return []


def _provenance_row(entry: BoardEntry, classifier: Facts) -> dict[str, str]:
  """Returns a classifier's row in a leaderboard's table of provenance, as {column: text}.

  Args:
    entry: the entry of the leaderboard, with results.
    classifier: facts about the classifier in these results.
  """
  environment = entry.results.environment
  return {
    'classifier': classifier['label'],
    'entry': entry.name,
    'network and training': classifier_words(classifier),
    'weights': str(classifier.get('sha256', ''))[:12],
    'images': entry.results.image_digest(),
    'version': str(environment.get('robustness', '')),
    'commit': str(environment.get('git_commit') or '')[:12],
    'values': entry.unverified or 'as records give',
  }
