"""What a workdir still lacks: trainings, shards of records, results."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from robustness import workdir
from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.evaluation.records import HEADER, Records
from robustness.results import JSON_NAME
from robustness.training.checkpoint import FACTS_NAME, newest_step

AGAIN = 'Give the command of the run again.'


def find_workdir(directory: str) -> pathlib.Path:
  """Returns the absolute path of a workdir.

  Raises:
    InputError: there is no folder, or it holds no run; workdirs directly inside it are named.
  """
  path = expanded(directory).absolute()
  if not path.is_dir():
    raise InputError(f'{path} is no folder; give the --workdir of a run.')
  if (path / workdir.CONFIG).is_file() and (path / workdir.ENVIRONMENT).is_file():
    return path
  inside = sorted(file.parent.name for file in path.glob(f'*/{workdir.CONFIG}'))
  hint = f'; workdirs inside it: {", ".join(inside)}' if inside else ''
  raise InputError(
    f'{path} is no workdir: it has no {workdir.CONFIG} and {workdir.ENVIRONMENT}, which every run '
    f'leaves{hint}.'
  )


def check(
  path: pathlib.Path, places: Sequence[pathlib.Path], environment: Mapping[str, Any]
) -> None:
  """Refuses a run that is not finished.

  Args:
    path: the workdir.
    places: the folders in which a finished run has results.
    environment: what the run noted of itself; its command finishes it.

  Raises:
    InputError: what is missing, and how to finish it.
  """
  without = [place for place in dict.fromkeys(places) if not (place / JSON_NAME).is_file()]
  if not without:
    return
  lines = [*trainings(path), *shards(path)] or ['nothing was trained or recorded to its end']
  names = [str((place / JSON_NAME).relative_to(path)) for place in without]
  raise InputError(
    f'the run in {path} is not finished: it has no {", ".join(names)}.\n  '
    + '\n  '.join(lines)
    + f'\nThe same command goes on where it stopped:\n  {environment["command"]}'
  )


def trainings(path: pathlib.Path) -> Iterator[str]:
  """Yields a line for every training that was begun in a workdir."""
  for facts in sorted(path.glob(f'**/checkpoints/*/{FACTS_NAME}')):
    form = {'training': {'total_steps': int}}
    total = json_files.read(facts, form, AGAIN)['training']['total_steps']
    step = newest_step(facts.parent) or 0
    name = facts.parent.relative_to(path)
    yield f'{name}: trained' if step >= total else f'{name}: step {step} of {total} is saved'


def shards(path: pathlib.Path) -> Iterator[str]:
  """Yields a line for all records that were begun in a workdir."""
  for header in sorted(path.glob(f'**/records/**/{HEADER}')):
    records = Records.open(header.parent)
    total = records.layout.num_blocks * records.layout.num_chunks
    missing = sum(map(len, records.missing().values()))
    name = header.parent.relative_to(path)
    yield f'{name}: {missing} of {total} shards are missing' if missing else f'{name}: complete'
