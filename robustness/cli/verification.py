"""Checks whether the records of finished runs reproduce the values in their results."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from robustness.combined import mean_over_seeds
from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.registry import FileRefusedError
from robustness.core.settings import without_inherited
from robustness.estimates.table import SUBJECT, TEXT, assemble, facet_types, facets_of
from robustness.evaluation import failures, recorded_study
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.records import NotRecordedError
from robustness.evaluation.study import EstimatesFromRows, StudiesTrainings
from robustness.present.phrases import plural
from robustness.results import SINGLE, Results
from robustness.workdirs import finished_workdir, workdir
from robustness.workdirs.finished_workdir import FinishedStudy

NOT_VERIFIABLE = 'not verifiable from records'
NOT_REPRODUCED = 'not reproduced by this version'
NO_RECORDS = f'all values are {NOT_VERIFIABLE}: there are none'
TOLERANCE = 1e-6
"""Largest relative difference between values that two machines compute from the same records."""
_COMPARED = ('value', 'low', 'high', 'n', 'clusters', 'confidence')
"""Columns of estimates that are compared."""
_REBUILD = 'Run the same command again: results are rebuilt from the records.'
_FAILURES = (AttributeError, LookupError, TypeError, ValueError)
"""Errors that may occur when values are computed from records that another version wrote."""


@dataclasses.dataclass(frozen=True)
class _Differences:
  """Differences between the estimates in results and the estimates computed from the records.

  Attributes:
    changed: estimates with different numbers; each row has both, in columns such as value_x (the
      results) and value_y (the records).
    unrecorded: estimates that only the results have.
    lacking: estimates that are computed from the records but missing in the results.
    quantities: names of the quantities with estimates computed from the records.
  """

  changed: pd.DataFrame
  unrecorded: pd.DataFrame
  lacking: pd.DataFrame
  quantities: frozenset[str]

  def refuse(self, path: pathlib.Path) -> None:
    """Raises InputError on the first difference, if any; `path` is the folder of the results."""
    if len(self.changed):
      row = self.changed.iloc[0]
      column = next(name for name in _COMPARED if not _is_close(row[f'{name}_x'], row[f'{name}_y']))
      raise InputError(
        f'its answers do not give its {row["quantity"]} of {row.classifier}, {column} '
        f'{row[f"{column}_x"]:g} (records: {row[f"{column}_y"]:g}), in {path}/results.csv: '
        f'altered, or of another version. {_REBUILD}'
      )
    if len(self.lacking) or len(self.unrecorded):
      row = (self.lacking if len(self.lacking) else self.unrecorded).iloc[0]
      raise InputError(
        f'the estimates of {row["quantity"]} of {row.classifier} in {path}/results.csv are not '
        f'those that its records give: altered, or of another version. {_REBUILD}'
      )

  def in_words(self) -> str:
    """Returns in words how many values of the results the records do not reproduce; '' for none.

    Estimates that the results lack are counted as 'absent'.
    """
    differing, lacking = len(self.changed) + len(self.unrecorded), len(self.lacking)
    if not differing and not lacking:
      return ''
    absent = f', {lacking} of this version absent' if lacking else ''
    return f'{plural(differing, "value")} {NOT_REPRODUCED}{absent}'


def unverifiable(directory: str | pathlib.Path, study_file: str = '') -> dict[pathlib.Path, str]:
  """Returns {folder: text about values in its results that its records do not reproduce}.

  All values are computed again from the records, the recorded answers of the classifiers.

  Args:
    directory: a finished workdir, or another folder with results.
    study_file: FILE.py:NAME of a user's study NAME; '' for none.

  Returns:
    {folder of results: text}, without folders in which all values are reproduced. `directory`
    comes first if it is included.

  Raises:
    InputError: results of this version and commit differ from their records, or the records are
      damaged. Differences in results of other versions are stated in the words instead.
  """
  path = expanded(directory)
  folders = (path, *path.glob(workdir.seed_folder('*')))
  has_records = any((folder / workdir.RECORDS).is_dir() for folder in folders)
  if not (path / workdir.CONFIG).is_file() or not has_records:
    return {path: NO_RECORDS}
  config = without_inherited(json_files.read(path / workdir.CONFIG))
  if 'predictions' in config:
    return {path: f'all values are {NOT_VERIFIABLE}: predictions were made elsewhere'}
  if seeds := finished_workdir.seeds_of(config, path):
    return _unverified_in_seeds(path, seeds, study_file)
  return _unverified_in_folder(path, study_file)


def note_unverifiable(
  path: pathlib.Path, name: str, study_file: str = ''
) -> dict[pathlib.Path, str]:
  """Returns what `unverifiable` returns, and prints its first text as a note on stderr.

  The first text is about the folder as a whole; `name` is the name of the folder in the note.
  """
  reasons = unverifiable(path, study_file)
  if reasons:
    print(f'note: {name}: {next(iter(reasons.values()))}', file=sys.stderr)
  return reasons


def _unverified_in_seeds(
  path: pathlib.Path, seeds: Sequence[int], study_file: str
) -> dict[pathlib.Path, str]:
  """Returns {folder: why its results are not confirmed by its records} for a run of seeds.

  The values of the workdir `path` have to be means over the results of the seeds, and these results
  have to be what the records of each seed give. Folders are the workdir and the folders of
  seeds and tasks, without folders with confirmed results.
  """
  folders = {seed: path / workdir.seed_folder(seed) for seed in seeds}
  by_seed = {seed: Results.read(folder) for seed, folder in folders.items()}
  reason = _difference_in_words(path, Results.read(path), mean_over_seeds(by_seed).table)
  reasons = [reason] if reason else []
  reasons_by_folder: dict[pathlib.Path, str] = {}
  for seed, folder in folders.items():
    reasons_by_folder |= _unverified_in_folder(folder, study_file)
    if folder in reasons_by_folder:
      reasons.append(f'seed {seed}: {reasons_by_folder[folder]}')
  return {path: '; '.join(reasons), **reasons_by_folder} if reasons else {}


def differences_of_study(finished: FinishedStudy, is_strict: bool = False) -> str:
  """Returns text about values of a study that its records do not reproduce; '' if all are.

  Differences in results of this version and commit raise an InputError; with `is_strict`, those in
  results of other versions do too.
  """
  study, results, folder = finished.study, finished.results, finished.folder
  if isinstance(study, RecordedStudy):
    return f'all values are {NOT_VERIFIABLE}: {recorded_study.WHY_NOT}'
  is_refused = is_strict or _is_of_this_code(results)
  try:
    differences = _differences(results.table, _estimates(finished))
  except FileRefusedError:
    return f'all values are {NOT_VERIFIABLE}: {recorded_study.WHY_NOT}'
  except _FAILURES as error:
    if is_refused:
      raise
    return _failure_in_words(error)
  # Some estimates cannot be computed from records: estimates by class, all estimates of some
  # quantities, and estimates of studies that also need images or trainings.
  unrecorded = differences.unrecorded
  is_by_class = unrecorded.get('class', pd.Series('', unrecorded.index)) != ''
  has_recorded_quantity = unrecorded['quantity'].isin(differences.quantities)
  needs_records_alone = not isinstance(study, EstimatesFromRows | StudiesTrainings)
  is_unexplained = has_recorded_quantity & ~is_by_class & needs_records_alone
  unexplained = dataclasses.replace(differences, unrecorded=unrecorded[is_unexplained])
  if is_refused:
    unexplained.refuse(folder)
  words = {quantity.name: quantity.words for quantity in results.quantities}
  unverified = []  # names of quantities, such as 'top-1 error by class'
  for index, name in unrecorded['quantity'][~is_unexplained].items():
    unverified.append(f'{words.get(name, name)}{" by class" if is_by_class[index] else ""}')
  listed = f'{", ".join(dict.fromkeys(unverified))}: {NOT_VERIFIABLE}' if unverified else ''
  return '; '.join(filter(None, (unexplained.in_words(), listed)))


def _estimates(finished: FinishedStudy) -> pd.DataFrame:
  """Returns the table of estimates computed from the records of a study.

  As in the results, accuracies by class are appended if the study can determine which images fail.
  """
  study, shape = finished.study, finished.image_shape
  estimates = assemble(study.reduce(finished.evaluations, shape).estimates)
  if study.lists_failures and study.needs_classifier and 'class' in finished.results.table:
    with contextlib.suppress(NotRecordedError):  # an entry of a leaderboard has ranks alone
      by_class, _ = failures.findings(study, finished.evaluations, shape)
      estimates = failures.with_classes(estimates, by_class.estimates)
  return estimates


def _is_of_this_code(results: Results) -> bool:
  """Returns whether this version and commit wrote the results."""
  return all(results.environment.get(key) == value for key, value in workdir.code_version().items())


def _failure_in_words(error: Exception) -> str:
  """Returns in words why no value can be computed from the records."""
  reason = repr(error)
  if isinstance(error, InputError):
    reason = str(error).partition('\n')[0].rstrip('.')  # the first line of the message
  return f'all values {NOT_REPRODUCED} ({reason})'


def _unverified_in_folder(path: pathlib.Path, study_file: str) -> dict[pathlib.Path, str]:
  """Returns {folder: why its results are not confirmed by its records} for a run of one seed.

  The folders are the workdir `path` and, for a battery, the folders of its tasks. Folders with
  confirmed results are left out. `study_file` is the user's FILE.py:NAME for the study NAME, or ''.
  """
  folders = [path, *sorted((path / workdir.TASKS).glob('*'))]
  if not (path / workdir.RECORDS).is_dir():
    return dict.fromkeys(folders, NO_RECORDS)
  try:
    tasks = finished_workdir.read(path, study_file)
  except _FAILURES as error:
    if _is_of_this_code(Results.read(path)):
      raise
    return dict.fromkeys(folders, _failure_in_words(error))
  reasons = {task: differences_of_study(finished) for task, finished in tasks.items()}
  if SINGLE in tasks:
    return {path: reasons[SINGLE]} if reasons[SINGLE] else {}
  words = [f'{task}: {reason}' for task, reason in reasons.items() if reason]
  words += _tasks_that_differ(path, tasks)
  reasons_by_folder = {tasks[task].folder: reason for task, reason in reasons.items() if reason}
  return {path: '; '.join(words), **reasons_by_folder} if words else {}


def _tasks_that_differ(path: pathlib.Path, tasks: dict[str, FinishedStudy]) -> Iterator[str]:
  """Yields in words how a battery's results differ from its tasks' results, which they repeat.

  Only results that another version or commit wrote may differ.

  Args:
    path: the workdir of the battery.
    tasks: {task: its study, results and records}.

  Raises:
    InputError: they differ, and this version and commit wrote the results of the battery.
  """
  joined = Results.read(path)
  for task, finished in tasks.items():
    if task not in joined.by_task:
      if _is_of_this_code(joined):
        raise InputError(f'{path} has no values of the task {task!r}. {_REBUILD}')
      yield f'{task}: no values above all tasks'
      continue
    task_results = dataclasses.replace(joined.by_task[task], environment=joined.environment)
    if reason := _difference_in_words(path, task_results, finished.results.table):
      yield f'{task}, joined: {reason}'


def _difference_in_words(path: pathlib.Path, results: Results, from_records: pd.DataFrame) -> str:
  """Returns in words how results differ from the table computed from records; '' if they do not.

  Only results that another version or commit wrote may differ.

  Args:
    path: the folder of the results, for messages.
    results: the results.
    from_records: the table of estimates computed from the records.

  Raises:
    InputError: they differ, and this version and commit wrote the results.
  """
  differences = _differences(results.table, from_records)
  if _is_of_this_code(results):
    differences.refuse(path)
  return differences.in_words()


def _differences(stated: pd.DataFrame, from_records: pd.DataFrame) -> _Differences:
  """Returns how the estimates `stated` in results differ from those computed from records."""
  facets = list(dict.fromkeys([*facets_of(stated), *facets_of(from_records)]))
  keys = [*SUBJECT, *facets, 'family']
  # Columns of numbers get the suffix _x (stated) or _y (from records). The column `found_in` says
  # whether an estimate is in both tables or only in one.
  rows = _with_text_facets(stated, facets).merge(
    _with_text_facets(from_records, facets), 'outer', keys, indicator='found_in'
  )
  differs = np.zeros(len(rows), bool)
  for name in _COMPARED:
    differs |= ~_is_close(rows[f'{name}_x'].to_numpy(float), rows[f'{name}_y'].to_numpy(float))
  return _Differences(
    changed=rows[(rows.found_in == 'both') & differs],
    unrecorded=rows[rows.found_in == 'left_only'],
    lacking=rows[rows.found_in == 'right_only'],
    quantities=frozenset(from_records['quantity']),
  )


def _is_close(stated: np.ndarray, from_records: np.ndarray) -> np.ndarray:
  """Returns whether numbers are equal up to `TOLERANCE`, the rounding on another machine."""
  return np.isclose(stated, from_records, rtol=TOLERANCE, atol=1e-9, equal_nan=True)


def _with_text_facets(table: pd.DataFrame, facets: list[str]) -> pd.DataFrame:
  """Returns estimates with the columns `facets` as text, so that two tables can be merged on them.

  Numbers are written with 12 digits, because two computations may differ in the last ones. Missing
  values are ''.
  """
  columns = {name: table[name] for name in (*SUBJECT, 'family', *_COMPARED)}
  types = facet_types(table)
  for name in facets:
    values = table[name] if name in types else pd.Series(np.nan, table.index)
    if types.get(name) != TEXT:
      values = values.astype('Float64').map('{:.12g}'.format, na_action='ignore')
    columns[name] = values.astype(object).where(values.notna(), '')
  return pd.DataFrame(columns)
