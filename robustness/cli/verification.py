"""Checks whether the records of finished runs reproduce the values in their results."""

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
from robustness.core.settings import without_inherited
from robustness.core.user_code import FileRefusedError
from robustness.estimates.table import SUBJECT, TEXT, assemble, facet_types, facets_of
from robustness.evaluation import failures, recorded_study
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.records import NotRecordedError
from robustness.evaluation.study import EstimatesFromRows, StudiesTrainings
from robustness.present.phrases import plural
from robustness.results import REBUILD, SINGLE, Results
from robustness.workdirs import finished_workdir, workdir
from robustness.workdirs.finished_workdir import FinishedStudy

NOT_VERIFIABLE = 'not verifiable from records'
NOT_REPRODUCED = 'not reproduced by this version'
NO_RECORDS = f'all values are {NOT_VERIFIABLE}: there are none'
TOLERANCE = 1e-6
"""Largest relative difference between values that two machines compute from the same records."""
_COMPARED = ('value', 'low', 'high', 'n', 'clusters', 'confidence')
"""Columns of estimates that are compared."""
_FAILURES = (AttributeError, LookupError, TypeError, ValueError)
"""Errors that may occur when values are computed from records that another version wrote."""


@dataclasses.dataclass(frozen=True)
class _Differences:
  """Differences between stored estimates and estimates computed from saved predictions.

  Attributes:
    changed: estimates with different numbers, in columns such as `value_stored` and
      `value_computed`.
    only_in_results: stored estimates that cannot be computed.
    only_in_records: computed estimates that are not stored.
    quantities: names of the quantities with computed estimates.
  """

  changed: pd.DataFrame
  only_in_results: pd.DataFrame
  only_in_records: pd.DataFrame
  quantities: frozenset[str]

  def refuse(self, path: pathlib.Path) -> None:
    """Raises InputError if estimates in a workdir differ from those that its records give.

    `self` has the estimates that differ, and those that are in only one of the two tables. The
    message names the first difference.

    Args:
      path: the folder of the results, for the message.
    """
    if len(self.changed):
      row = self.changed.iloc[0]
      for column in _COMPARED:
        stored, computed = row[f'{column}_stored'], row[f'{column}_computed']
        if not _is_close(stored, computed):
          raise InputError(
            f'its answers do not give its {row["quantity"]} of {row.classifier}, {column} '
            f'{stored:g} (records: {computed:g}), in {path}/results.csv: altered, or of another '
            f'version. {REBUILD}'
          )
    for rows in (self.only_in_records, self.only_in_results):
      if len(rows):
        row = rows.iloc[0]
        raise InputError(
          f'the estimates of {row["quantity"]} of {row.classifier} in {path}/results.csv are not '
          f'those that its records give: altered, or of another version. {REBUILD}'
        )

  def in_words(self) -> str:
    """Returns the number of differing values, such as '2 values not reproduced by this version'.

    Computed estimates that are not stored are counted as 'absent'. '' if nothing differs.
    """
    num_differing = len(self.changed) + len(self.only_in_results)
    num_absent = len(self.only_in_records)
    if not num_differing and not num_absent:
      return ''
    absent = f', {num_absent} of this version absent' if num_absent else ''
    return f'{plural(num_differing, "value")} {NOT_REPRODUCED}{absent}'


def unverifiable(directory: str | pathlib.Path, study_file: str = '') -> dict[pathlib.Path, str]:
  """Checks which stored values of a finished run its saved predictions do not reproduce.

  All values are computed again from the saved predictions (records). Differences are allowed only
  in results from another version or commit of this code.

  Args:
    directory: A finished workdir, the folder of a seed in it, or another folder with results.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Returns:
    {folder of results: text about its differing values}. Folders without differences are not
    included. `directory`, if included, comes first.

  Raises:
    InputError: results of the same code differ from their saved predictions, or these are damaged.
  """
  path = expanded(directory)
  folders = (path, *path.glob(workdir.seed_folder('*')))
  has_records = any((folder / workdir.RECORDS).is_dir() for folder in folders)
  run_folder = finished_workdir.run_folder(path)
  if not (run_folder / workdir.CONFIG).is_file() or not has_records:
    return {path: NO_RECORDS}
  config = without_inherited(json_files.read(run_folder / workdir.CONFIG))
  if 'predictions' in config:
    return {path: f'all values are {NOT_VERIFIABLE}: predictions were made elsewhere'}
  seeds = finished_workdir.seeds_of(config, path)
  if seeds and run_folder == path:
    return _unverified_in_seeds(path, seeds, study_file)
  return _unverified_in_folder(path, study_file)


def note_unverifiable(
  path: pathlib.Path, name: str, study_file: str = ''
) -> dict[pathlib.Path, str]:
  """Prints a note on the stored values that a run's saved predictions do not reproduce.

  Nothing is printed if all values are reproduced.

  Args:
    path: the folder of the run.
    name: name of the folder in the note.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Returns:
    {folder of results: text about its differing values}, as from `unverifiable`.
  """
  texts = unverifiable(path, study_file)
  if texts:
    print(f'note: {name}: {next(iter(texts.values()))}', file=sys.stderr)
  return texts


def _unverified_in_seeds(
  path: pathlib.Path, seeds: Sequence[int], study_file: str
) -> dict[pathlib.Path, str]:
  """Checks a run of several seeds as `unverifiable` does.

  The values in the workdir must be the means over the seeds, and each seed's values must be
  reproduced by its saved predictions.

  Args:
    path: the workdir.
    seeds: the seeds.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
  """
  folders = {seed: path / workdir.seed_folder(seed) for seed in seeds}
  by_seed = {seed: Results.read(folder) for seed, folder in folders.items()}
  texts = [_difference_in_words(path, Results.read(path), mean_over_seeds(by_seed).table)]
  text_by_folder: dict[pathlib.Path, str] = {}
  for seed, folder in folders.items():
    text_by_folder |= _unverified_in_folder(folder, study_file)
    if folder in text_by_folder:
      texts.append(f'seed {seed}: {text_by_folder[folder]}')
  text_of_workdir = '; '.join(filter(None, texts))
  return {path: text_of_workdir, **text_by_folder} if text_of_workdir else {}


def differences_of_study(finished: FinishedStudy, is_strict: bool = False) -> str:
  """Returns text about the values of a study that its saved predictions do not reproduce.

  '' if all are reproduced. Values that cannot be computed from predictions are named in the text.

  Args:
    finished: A study with its results and saved predictions.
    is_strict: whether results of another version of this code must not differ either.

  Raises:
    InputError: results of the same code differ from their saved predictions. With `is_strict`, also
      results of other code.
  """
  study, results = finished.study, finished.results
  code_is_needed = f'all values are {NOT_VERIFIABLE}: {recorded_study.WHY_NOT}'
  if isinstance(study, RecordedStudy):
    return code_is_needed
  refuses = is_strict or _is_of_this_code(results)
  try:
    differences = _differences(results.table, _estimates(finished))
  except FileRefusedError:
    return code_is_needed
  except _FAILURES as error:
    if refuses:
      raise
    return _failure_in_words(error)
  # These cannot be computed from records: estimates by class, all estimates of some quantities, and
  # estimates of studies that also need images or trainings.
  rows = differences.only_in_results
  is_by_class = rows['class'] != '' if 'class' in rows else pd.Series(False, rows.index)
  is_verifiable = rows['quantity'].isin(differences.quantities) & ~is_by_class
  if isinstance(study, EstimatesFromRows | StudiesTrainings):
    is_verifiable[:] = False
  verifiable = dataclasses.replace(differences, only_in_results=rows[is_verifiable])
  if refuses:
    verifiable.refuse(finished.folder)
  words = {quantity.name: quantity.words for quantity in results.quantities}
  not_verifiable = []  # quantities in words, such as 'top-1 error by class'
  for index, name in rows['quantity'][~is_verifiable].items():
    suffix = ' by class' if is_by_class[index] else ''
    not_verifiable.append(f'{words.get(name, name)}{suffix}')
  texts = [verifiable.in_words()]  # '' if nothing differs
  if not_verifiable:
    each_once = ', '.join(dict.fromkeys(not_verifiable))
    texts.append(f'{each_once}: {NOT_VERIFIABLE}')
  return '; '.join(filter(None, texts))


def _estimates(finished: FinishedStudy) -> pd.DataFrame:
  """Returns the estimates of a study, computed from its saved predictions.

  Accuracies by class are included if the results have them and the predictions suffice.
  """
  study, shape = finished.study, finished.image_shape
  estimates = assemble(study.reduce(finished.evaluations, shape).estimates)
  if study.lists_failures and study.needs_classifier and 'class' in finished.results.table:
    # The records of an entry of a leaderboard have only the rank of the true class.
    with contextlib.suppress(NotRecordedError):
      by_class, _ = failures.findings(study, finished.evaluations, shape)
      estimates = failures.with_classes(estimates, by_class.estimates)
  return estimates


def _is_of_this_code(results: Results) -> bool:
  """Returns whether the running version and commit of the code wrote the results."""
  return all(results.environment.get(key) == value for key, value in workdir.code_version().items())


def _failure_in_words(error: Exception) -> str:
  """Returns text that an error prevents all values from being computed."""
  reason = repr(error)
  if isinstance(error, InputError):
    reason = str(error).partition('\n')[0].rstrip('.')  # the first line of the message
  return f'all values {NOT_REPRODUCED} ({reason})'


def _unverified_in_folder(path: pathlib.Path, study_file: str) -> dict[pathlib.Path, str]:
  """Checks which stored values of a run of one seed its saved predictions do not reproduce.

  Args:
    path: the workdir. A battery also has a folder of results for each study in it.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Returns:
    {folder of results: text about its differing values}, without folders that have none.
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
  text_by_task = {task: differences_of_study(finished) for task, finished in tasks.items()}
  text_by_folder = {tasks[task].folder: text for task, text in text_by_task.items() if text}
  if SINGLE in tasks:  # its folder is the workdir
    return text_by_folder
  texts = [f'{task}: {text}' for task, text in text_by_task.items() if text]
  text_of_workdir = '; '.join([*texts, *_tasks_that_differ(path, tasks)])
  return {path: text_of_workdir, **text_by_folder} if text_of_workdir else {}


def _tasks_that_differ(path: pathlib.Path, tasks: dict[str, FinishedStudy]) -> Iterator[str]:
  """Yields text for each study of a battery that has other values in the joint results.

  A battery stores the results of each study twice: in the joint results and in a separate folder.

  Args:
    path: the workdir of the battery (a run of several studies).
    tasks: {name of the study: study, results and saved predictions}.

  Raises:
    InputError: values differ, although this version and commit wrote the results of the battery.
  """
  joined = Results.read(path)
  for task, finished in tasks.items():
    if task not in joined.by_task:
      if _is_of_this_code(joined):
        raise InputError(f'{path} has no values of the task {task!r}. {REBUILD}')
      yield f'{task}: no values above all tasks'
      continue
    task_results = dataclasses.replace(joined.by_task[task], environment=joined.environment)
    if reason := _difference_in_words(path, task_results, finished.results.table):
      yield f'{task}, joined: {reason}'


def _difference_in_words(path: pathlib.Path, results: Results, from_records: pd.DataFrame) -> str:
  """Returns text about how stored results differ from computed ones; '' if they do not.

  Args:
    path: the folder of the results, for messages.
    results: the stored results.
    from_records: the estimates computed from saved predictions, or from the results of seeds or
      studies.

  Raises:
    InputError: values differ, although this version and commit wrote the results.
  """
  differences = _differences(results.table, from_records)
  if _is_of_this_code(results):
    differences.refuse(path)
  return differences.in_words()


def _differences(stated: pd.DataFrame, from_records: pd.DataFrame) -> _Differences:
  """Compares stored estimates with estimates that were computed again from records.

  A row of both tables is an estimate of a quantity for a classifier; facets are columns that say
  for which images, such as 'corruption'.

  Args:
    stated: the stored table of results.
    from_records: the table computed from records.
  """
  facets = list(dict.fromkeys([*facets_of(stated), *facets_of(from_records)]))
  keys = [*SUBJECT, *facets, 'family']  # the same in both tables identify the same estimate
  stored, computed = (_with_text_facets(table, facets) for table in (stated, from_records))
  # The suffixes are for columns of numbers. The column `found_in` says whether an estimate is in
  # both tables ('both') or only in one ('left_only', 'right_only').
  suffixes = ('_stored', '_computed')
  rows = stored.merge(computed, 'outer', keys, suffixes=suffixes, indicator='found_in')
  differs = np.zeros(len(rows), bool)
  for name in _COMPARED:
    stored_numbers, computed_numbers = (rows[name + suffix].to_numpy(float) for suffix in suffixes)
    differs |= ~_is_close(stored_numbers, computed_numbers)
  return _Differences(
    changed=rows[(rows.found_in == 'both') & differs],
    only_in_results=rows[rows.found_in == 'left_only'],
    only_in_records=rows[rows.found_in == 'right_only'],
    quantities=frozenset(from_records['quantity']),
  )


def _is_close(stated: np.ndarray, from_records: np.ndarray) -> np.ndarray:
  """Returns whether numbers are equal up to `TOLERANCE`, for rounding on other machines."""
  return np.isclose(stated, from_records, rtol=TOLERANCE, atol=1e-9, equal_nan=True)


def _with_text_facets(table: pd.DataFrame, facets: list[str]) -> pd.DataFrame:
  """Returns estimates with some columns converted to text, so that two tables can be merged.

  Numbers are written with 12 digits, because the last digits of two computations may differ.
  Missing values and columns are ''.

  Args:
    table: the estimates.
    facets: names of the columns.
  """
  columns = {name: table[name] for name in (*SUBJECT, 'family', *_COMPARED)}
  types = facet_types(table)
  for name in facets:
    values = table[name] if name in types else pd.Series(np.nan, table.index)
    if types.get(name) != TEXT:  # a number
      values = values.astype('Float64').map('{:.12g}'.format, na_action='ignore')
    columns[name] = values.astype(object).where(values.notna(), '')
  return pd.DataFrame(columns)
