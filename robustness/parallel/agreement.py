"""What processes that were started apart must have in common: the config and the workdir."""

from __future__ import annotations

import json
import pathlib
import time
import uuid
from collections.abc import Mapping
from typing import Any

import jax

from robustness.core.errors import InputError
from robustness.core.settings import differing_keys
from robustness.parallel.meeting import exchange

VISIBLE_SECONDS = 10
"""How long a network file system may take to show what another machine wrote."""


def check_config(config: Mapping[str, Any]) -> None:
  """Refuses processes of one run that were started with different configs.

  Raises:
    InputError: on every process; names the first process that differs from process 0, and its keys.
  """
  first, *others = exchange('the config', json.dumps(config))
  for index, other in enumerate(others, 1):
    lines = [] if other == first else differing_keys(json.loads(first), json.loads(other))
    if lines:
      raise InputError(
        f'process {index} was started with another config than process 0. Keys that differ '
        f'(process 0 → process {index}):\n  config.'
        + '\n  config.'.join(lines)
        + '\nGive all processes the same --config and the same overrides.'
      )


def check_workdir(directory: pathlib.Path) -> None:
  """Refuses a workdir that some process cannot see: all must share its file system.

  Process 0 makes the workdir, and leaves a file there for the others to find.

  Raises:
    InputError: on every process; names those that do not see the file.
  """
  if jax.process_count() == 1:
    return
  first = jax.process_index() == 0
  token, failure = f'.seen_by_all_{uuid.uuid4().hex}', ''
  if first:
    failure = _leave(directory / token)
  said = json.loads(exchange('a file in the workdir', json.dumps([token, failure]))[0])
  name, failure = said
  if failure:
    raise InputError(f'process 0: {failure}')
  answers = exchange('who sees it', '' if _appears(directory / name) else str(directory))
  if first:
    (directory / name).unlink(missing_ok=True)
  blind = [f'process {index} ({path})' for index, path in enumerate(answers) if path]
  if blind:
    raise InputError(
      f'the workdir that process 0 made is not there for {", ".join(blind)}. Give all processes '
      'the same --workdir, on a file system that they share.'
    )


def _leave(path: pathlib.Path) -> str:
  """Makes a file and its folder; returns why it cannot, or ''."""
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
  except OSError as error:
    return f'workdir {path.parent} cannot be made or written to ({error.strerror}).'
  return ''


def _appears(path: pathlib.Path) -> bool:
  deadline = time.monotonic() + VISIBLE_SECONDS
  while not path.exists():
    if time.monotonic() > deadline:
      return False
    time.sleep(0.1)
  return True
