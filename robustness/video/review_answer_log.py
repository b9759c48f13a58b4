"""The file of answers: a header and one JSON object a line, appended and flushed to the disk."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from robustness.core import json_files, locks
from robustness.core.atomic_files import flush_directory
from robustness.core.errors import InputError
from robustness.video.review_answers import Answer
from robustness.video.review_plan import Plan

FORMAT = 'neighbor-set review'
VERSION = 1


class AnswerLog:
  """Answers on disk; an answer that `append` returned from survives a kill and a power cut.

  Use as a context manager: the file is locked against a second server while it is open.
  """

  def __init__(
    self,
    path: str | os.PathLike[str],
    digest: str,
    settings: Mapping[str, Any] = MappingProxyType({}),
  ):
    """Opens or begins the file; a last line that a kill cut short is removed.

    Args:
      path: the file, made with its folder if it is not there.
      digest: of the sets under review (`Candidates.digest`).
      settings: values of `Plan`; a new file keeps them, one that is there must agree.

    Raises:
      InputError: the file holds answers about other sets or was begun with another plan, is no
        such file, has a line that cannot be read, or is open in another server.
    """
    self.path = pathlib.Path(path)
    header = _encoded(
      {
        'format': FORMAT,
        'version': VERSION,
        'metadata': digest,
        'plan': dataclasses.asdict(Plan(**settings)),
      }
    )
    try:
      self.path.parent.mkdir(parents=True, exist_ok=True)
      self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
      raise InputError(
        f'--answers={self.path} cannot be written ({error}): give another file.'
      ) from error
    try:
      _lock(self._file, self.path)
      content = self.path.read_bytes()
      if header.startswith(content):  # nothing yet, or a header that was cut short
        os.ftruncate(self._file, 0)
        self._size = 0
        self._write(header)
        flush_directory(self.path.parent)
      self.plan, self.answers = read(self.path, digest)
      self.plan.check(settings, str(self.path))
      self._size = self.path.read_bytes().rfind(b'\n') + 1
      os.ftruncate(self._file, self._size)
    except BaseException:
      os.close(self._file)
      raise

  def __enter__(self) -> AnswerLog:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    """Closes the file and thereby unlocks it."""
    os.close(self._file)

  def append(self, answer: Answer) -> None:
    """Writes one answer and returns when it is on the disk.

    Raises:
      OSError: it could not be written (a full disk); the file is as it was before.
    """
    self._write(_encoded(answer.to_json()))

  def _write(self, line: bytes) -> None:
    try:
      if os.write(self._file, line) != len(line):
        raise OSError(f'{self.path} took only a part of an answer: is the disk full?')
      os.fsync(self._file)
    except OSError:
      os.ftruncate(self._file, self._size)
      raise
    self._size += len(line)


def read(path: str | os.PathLike[str], digest: str) -> tuple[Plan, list[Answer]]:
  """Reads the plan of a review and its answers, in the order in which they were given.

  A last line without its end is what a kill left; it was never confirmed and is passed over.

  Args:
    path: the file.
    digest: of the sets under review.

  Raises:
    InputError: see `AnswerLog`.
  """
  file = pathlib.Path(path)
  if not file.is_file():
    raise InputError(f'there is no file of answers {file}: give the one the review wrote.')
  first, *lines = file.read_bytes().split(b'\n')
  plan = _plan(file, first, digest)
  return plan, [
    _line(file, number, line, Answer.from_json) for number, line in enumerate(lines[:-1], start=2)
  ]


def _line(
  file: pathlib.Path, number: int, line: bytes, parse: Callable[[dict[str, Any]], Any]
) -> Any:
  try:
    return parse(json_files.parse(line, 'it'))
  except InputError as error:
    raise InputError(
      f'{file}, line {number}, cannot be read ({error}). Correct or remove the line; '
      'all others are whole.'
    ) from error


def _plan(file: pathlib.Path, line: bytes, digest: str) -> Plan:
  """Reads the header."""
  try:
    header = json_files.parse(line, 'it', {'plan?': dict})
    plan = Plan(**header.get('plan', {}))
  except (InputError, TypeError):
    header, plan = {}, Plan()
  if header.get('format') != FORMAT or header.get('version') != VERSION:
    raise InputError(
      f'{file} is no file of answers (its first line should say format '
      f'{FORMAT!r}, version {VERSION}): give another --answers.'
    )
  if header.get('metadata') != digest:
    raise InputError(
      f'{file} holds answers about other sets (its digest is '
      f'{header.get("metadata")!r}, that of --metadata {digest!r}): give the '
      'metadata the review began with, or another --answers.'
    )
  return plan


def _encoded(entry: dict[str, Any]) -> bytes:
  return (json.dumps(entry, ensure_ascii=False) + '\n').encode()


def _lock(file: int, path: pathlib.Path) -> None:
  if not locks.take(file):
    raise InputError(f'{path} is open in another server: stop it, or give another --answers.')
