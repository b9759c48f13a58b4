"""Results of finished runs, compared with what their records give."""

from __future__ import annotations

import contextlib
import pathlib

import numpy as np
import pandas as pd

from robustness import workdir
from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import without_inherited
from robustness.estimates.table import SUBJECT, TEXT, assemble, facet_types, facets_of
from robustness.evaluation import failures, recorded_study
from robustness.evaluation.recorded_study import RecordedStudy
from robustness.evaluation.records import NotRecordedError
from robustness.evaluation.study import EstimatesFromRows, StudiesTrainings
from robustness.results import SINGLE, Results, over_seeds
from robustness.workdir import FinishedStudy

NOT_VERIFIABLE = 'not verifiable from records'
NO_RECORDS = f'all values are {NOT_VERIFIABLE}: there are none'
TOLERANCE = 1e-6
"""Largest relative difference of an estimate that another machine computes."""
_COMPARED = ('value', 'low', 'high', 'n', 'clusters', 'confidence')
_REBUILD = 'Run the same command again: results are rebuilt from the records.'


def unverifiable(directory: str | pathlib.Path, study_file: str = '') -> dict[pathlib.Path, str]:
  """Computes the values of a folder of results again from its records.

  Args:
    directory: a finished workdir, or another folder with results.
    study_file: see `workdir.read`.

  Returns:
    By the folder of results, which values records do not give, in words; folders with all values
    from records are left out. The first entry is the folder itself, if it has such values.

  Raises:
    InputError: the results state other values than the records give, or records are damaged.
  """
  path = expanded(directory)
  if not (path / workdir.CONFIG).is_file() or not _has_run(path):
    return {path: NO_RECORDS}
  config = without_inherited(json_files.read(path / workdir.CONFIG))
  if 'predictions' in config:
    return {path: f'all values are {NOT_VERIFIABLE}: predictions were made elsewhere'}
  if seeds := workdir.seeds_of(config, path):
    folders = {seed: path / workdir.seed_folder(seed) for seed in seeds}
    by_seed = {seed: Results.read(folder) for seed, folder in folders.items()}
    _check_same(path, Results.read(path).table, over_seeds(by_seed).table)
    reasons: dict[pathlib.Path, str] = {}
    for folder in folders.values():
      reasons |= _of_folder(folder, study_file)
    joined = {
      f'seed {seed}: {reasons[folder]}' for seed, folder in folders.items() if folder in reasons
    }
    return {path: '; '.join(sorted(joined)), **reasons} if joined else {}
  return _of_folder(path, study_file)


def of_study(finished: FinishedStudy) -> str:
  """Returns what `unverifiable` does for one study, '' where records give all its values."""
  study, stated = finished.study, finished.results.table
  if isinstance(study, RecordedStudy):
    return f'all values are {NOT_VERIFIABLE}: {recorded_study.WHY_NOT}'
  shape = finished.image_shape
  found = assemble(study.reduce(finished.evaluations, shape).estimates)
  if study.lists_failures and study.needs_classifier and 'class' in stated:
    with contextlib.suppress(NotRecordedError):  # a board's entry has fewer fields
      by_class, _ = failures.findings(study, finished.evaluations, shape)
      found = failures.with_classes(found, by_class.estimates)
  further = _check_alike(finished.folder, stated, found)
  is_of_class = further.get('class', pd.Series('', further.index)) != ''
  if not isinstance(study, EstimatesFromRows | StudiesTrainings):
    is_known = further['quantity'].isin(found['quantity'])
    _refuse(finished.folder, further[is_known & ~is_of_class])
  words = {quantity.name: quantity.words for quantity in finished.results.quantities}
  names = {
    f'{words.get(name, name)}{" by class" if of_class else ""}': None
    for name, of_class in zip(further['quantity'], is_of_class, strict=True)
  }
  return f'{", ".join(names)}: {NOT_VERIFIABLE}' if names else ''


def _has_run(path: pathlib.Path) -> bool:
  folders = (path, *path.glob(workdir.seed_folder('*')))
  return any((folder / workdir.RECORDS).is_dir() for folder in folders)


def _of_folder(path: pathlib.Path, study_file: str) -> dict[pathlib.Path, str]:
  """Returns what `unverifiable` does for a workdir with one seed."""
  if not (path / workdir.RECORDS).is_dir():
    folders = [path, *sorted((path / workdir.TASKS).glob('*'))]
    return dict.fromkeys(folders, NO_RECORDS)
  tasks = workdir.read(path, study_file)
  reasons = {task: of_study(finished) for task, finished in tasks.items()}
  if SINGLE not in tasks:
    joined = Results.read(path).by_task
    for task, finished in tasks.items():
      if task not in joined:
        raise InputError(f'{path} has no values of the task {task!r}. {_REBUILD}')
      _check_same(path, joined[task].table, finished.results.table)
  found = {tasks[task].folder: reason for task, reason in reasons.items() if reason}
  words = '; '.join(': '.join(filter(None, entry)) for entry in reasons.items() if entry[1])
  return {path: words, **found} if SINGLE not in tasks and found else found


def _check_same(path: pathlib.Path, stated: pd.DataFrame, found: pd.DataFrame) -> None:
  """Raises InputError unless a table of results states what was found, and no more."""
  _refuse(path, _check_alike(path, stated, found))


def _check_alike(path: pathlib.Path, stated: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
  """Raises InputError unless a table of results states what was found; returns its further rows."""
  facets = list(dict.fromkeys([*facets_of(stated), *facets_of(found)]))
  keys = [*SUBJECT, *facets, 'family']
  both = _keyed(stated, facets).merge(_keyed(found, facets), 'outer', keys, indicator=True)
  _refuse(path, both[both['_merge'] == 'right_only'])
  matched = both[both['_merge'] == 'both']
  for end in _COMPARED:
    one, other = (matched[f'{end}_{side}'].to_numpy(float) for side in 'xy')
    differs = ~np.isclose(one, other, rtol=TOLERANCE, atol=1e-9, equal_nan=True)
    if differs.any():
      row, place = matched[differs].iloc[0], int(np.flatnonzero(differs)[0])
      raise InputError(
        f'its answers do not give its {row["quantity"]} of {row.classifier}, {end} {one[place]:g} '
        f'(records: {other[place]:g}), in {path}/results.csv: altered, or of another version. '
        f'{_REBUILD}'
      )
  return both[both['_merge'] == 'left_only']


def _refuse(path: pathlib.Path, rows: pd.DataFrame) -> None:
  """Raises InputError where there are rows that only the results or only the records have."""
  if len(rows):
    row = rows.iloc[0]
    raise InputError(
      f'the estimates of {row["quantity"]} of {row.classifier} in {path}/results.csv are not those '
      f'that its records give: altered, or of another version. {_REBUILD}'
    )


def _keyed(table: pd.DataFrame, facets: list[str]) -> pd.DataFrame:
  """Returns estimates with facets as plain text or numbers, which tables of other rows share."""
  columns = {name: table[name] for name in (*SUBJECT, 'family', *_COMPARED)}
  types = facet_types(table)
  for name in facets:
    if name not in types:
      columns[name] = pd.Series([''] * len(table), table.index, dtype=object)
    elif types[name] == TEXT:
      columns[name] = table[name].astype(object).where(table[name].notna(), '')
    else:
      numbers = table[name].astype('Float64')
      columns[name] = numbers.map('{:.12g}'.format, na_action='ignore').astype(object)
      columns[name] = columns[name].where(table[name].notna(), '')
  return pd.DataFrame(columns)
