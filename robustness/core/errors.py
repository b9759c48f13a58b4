"""What a user did wrong, said so that it can be fixed."""

import argparse
import contextlib
import difflib
import traceback
from collections.abc import Iterable, Iterator


class InputError(ValueError):
  """Bad input from outside: the message names the bad value, the valid ones and the fix."""


@contextlib.contextmanager
def naming(section: str, actual: str) -> Iterator[None]:
  """Writes `actual`, such as 'config.battery.noise.study', for `section`, as 'config.study',
  in errors within."""
  try:
    yield
  except InputError as error:
    raise InputError(str(error).replace(section, actual)) from error


@contextlib.contextmanager
def exits_refused() -> Iterator[None]:
  """A context in which `sys.exit` of a user's file is an InputError that names the line.

  Without it `sys.exit(0)` ends a run that did nothing with the status of success.
  """
  try:
    yield
  except SystemExit as error:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if frame.filename == argparse.__file__:  # the answer to --help, or to a wrong word
      raise
    raise InputError(
      f'{frame.filename}, line {frame.lineno}, called sys.exit({error.code!r}): a file that a run '
      'uses must return or raise an error.'
    ) from error


def causes(error: BaseException) -> Iterator[BaseException]:
  """Yields an error and, from the last to the first, those that led to it."""
  seen: list[BaseException] = []
  reason: BaseException | None = error
  while reason is not None and reason not in seen:
    yield reason
    seen.append(reason)
    reason = reason.__cause__ or reason.__context__


LISTED = 60  # valid words at most


def nearest(word: str, valid: Iterable[str]) -> str:
  """Returns a phrase that names the closest valid words, and lists all if they are few.

  For example `did you mean 'norm'? valid: 'clip', 'norm', 'phase'`; of more than `LISTED` words the
  three nearest and their number.
  """
  words = sorted(valid)
  few = len(words) <= LISTED
  close = difflib.get_close_matches(word, words, n=3, cutoff=0.5 if few else 0)
  listed = f'valid: {", ".join(map(repr, words))}' if few else f'({len(words)} are valid)'
  return f'did you mean {" or ".join(map(repr, close))}? {listed}' if close else listed
