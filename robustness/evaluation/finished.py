"""What a finished workdir holds: each study with its results and the records they came from."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.settings import without_inherited
from robustness.evaluation import study as studies
from robustness.evaluation.records import HEADER, Records
from robustness.evaluation.rounds import FIRST, SequentialRecords
from robustness.evaluation.study import IMAGES, Evaluation, Study, of_recorded
from robustness.results import JSON_NAME, Results
from robustness.workdir import CONFIG

PARTS = 'parts'
SINGLE = ''
LEFT_OUT = 'left out'
"""The table of a battery that says which classifiers a part could not take, and why."""
_FINISH = 'Run its command again, which goes on where it stopped.'


@dataclasses.dataclass(frozen=True)
class FinishedStudy:
  """A study of a finished workdir.

  Attributes:
    folder: holds `results.json`; the workdir, or `parts/<part>` of a battery.
    study: with its settings.
    results: what it found.
    evaluations: its records, by the labels of the classifiers; complete.
  """

  folder: pathlib.Path
  study: Study
  results: Results
  evaluations: list[Evaluation]

  @property
  def image_shape(self) -> tuple[int, int, int]:
    """Height, width and channels of its rows."""
    height, width, channels = self.results.data['image_shape']
    return height, width, channels


def read(directory: str | os.PathLike[str]) -> dict[str, FinishedStudy]:
  """Returns the studies of a workdir by the part of the battery, a single one by ''.

  Args:
    directory: a workdir, or the folder `seed<n>` of one with several seeds.

  Raises:
    InputError: no workdir, one of predictions that were made elsewhere or of several seeds, or one
      that is not finished.
  """
  path = expanded(directory)
  config = without_inherited(_config(path))
  if 'predictions' in config:
    raise InputError(
      f'{path} holds numbers of predictions that were made elsewhere, and no run of a study: give '
      'the workdir of a run with classifiers.'
    )
  seeds = sorted(folder.name for folder in path.glob('seed*') if folder.is_dir())
  if config.get('seeds') and seeds:
    raise InputError(
      f'{path} holds a run of each of several seeds: give one of them, such as {path / seeds[0]}.'
    )
  if 'battery' not in config:
    return {SINGLE: _study(path, path, config.get('study', {}))}
  battery, where = config['battery'], f'{path / CONFIG}, battery'
  json_files.check(battery, where, {PARTS: [str]})
  json_files.check(battery, where, {name: {'study': dict} for name in battery[PARTS]})
  absent = left_out(path)
  parts = {name: battery[name] for name in battery[PARTS] if name not in absent}
  return {name: _study(path, path / PARTS / name, own['study']) for name, own in parts.items()}


def left_out(folder: pathlib.Path) -> set[str]:
  """Returns the parts of a finished battery that none of its classifiers could take.

  Args:
    folder: the workdir, or the folder `seed<n>` of one with several seeds.
  """
  if not (folder / JSON_NAME).is_file():
    return set()
  table = Results.read(folder).tables.get(LEFT_OUT)
  parts = {str(row[0]) for row in table.rows if row} if table else set()
  return {name for name in parts if not (folder / PARTS / name / JSON_NAME).is_file()}


def part(workdir: str | os.PathLike[str], name: str) -> FinishedStudy:
  """Returns one study of a workdir.

  Args:
    workdir: see `read`.
    name: of the part; '' where there is but one study.

  Raises:
    InputError: no such part, or see `read`.
  """
  parts = read(workdir)
  if name in parts:
    return parts[name]
  if SINGLE in parts:
    raise InputError(f'{workdir} holds a single study and no part {name!r}: leave the part out.')
  if not name:
    raise InputError(f'{workdir} holds a battery: choose one of its parts, {", ".join(parts)}.')
  if name in left_out(expanded(workdir)):
    raise InputError(
      f'{workdir} has no numbers of the part {name!r}, which none of its classifiers could take '
      f'(see its table {LEFT_OUT!r}); it has those of {", ".join(parts)}.'
    )
  raise InputError(f'{workdir} has no part {name!r}; {nearest(name, parts)}.')


def _config(path: pathlib.Path) -> Mapping[str, Any]:
  several = path.parent if path.name.startswith('seed') else path
  file = path / CONFIG if (path / CONFIG).exists() else several / CONFIG
  if not file.exists():
    raise InputError(
      f'{path} is no workdir: it has no {CONFIG}. Give the --workdir of a finished run.'
    )
  return json_files.read(file)


def _study(
  workdir: pathlib.Path, folder: pathlib.Path, section: Mapping[str, Any]
) -> FinishedStudy:
  if not (folder / JSON_NAME).is_file():
    raise InputError(f'{workdir} is not finished: {folder} has no {JSON_NAME}. {_FINISH}')
  study, results = studies.from_config(section), Results.read(folder)
  root = workdir / 'records' if folder == workdir else _recording(workdir, study, results)
  labels = list(results.prefixes) if study.needs_classifier else [IMAGES]
  design = study.sequential_design
  evaluations = of_recorded(
    {
      label: SequentialRecords.open(root / label, design) if design else Records.open(root / label)
      for label in labels
    }
  )
  if any(evaluation.records.missing() for evaluation in evaluations):
    raise InputError(f'{workdir} is not finished: {root} lacks shards. {_FINISH}')
  return FinishedStudy(folder, study, results, evaluations)


def _recording(workdir: pathlib.Path, study: Study, results: Results) -> pathlib.Path:
  """Returns the folder of what a part records: of the same study and data."""
  recording = json.loads(json.dumps(study.recording))
  place = f'*/*/{FIRST}' if study.sequential_design else '*/*'
  for header in sorted((workdir / 'records').glob(f'{place}/{HEADER}')):
    identity = Records.open(header.parent).identity
    json_files.check(identity, f'{header}, identity', {'data': dict, 'study': dict})
    rows = {key: value for key, value in identity['data'].items() if key in results.data}
    same = all(results.data[key] == value for key, value in rows.items())
    if same and identity['study'] == recording:
      return header.parents[len(pathlib.Path(place).parts) - 1]
  raise InputError(f'{workdir} has no records of the part with the study {study.name}. {_FINISH}')
