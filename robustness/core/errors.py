"""What a user did wrong, said so that it can be fixed."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator


class InputError(ValueError):
  """Bad input from outside: the message names the bad value, the valid ones and the fix."""


@contextlib.contextmanager
def naming(section: str, actual: str) -> Iterator[None]:
  """Names the section of a config that settings are in, in errors that know only what it is of.

  Args:
    section: as errors have it, such as 'config.study'.
    actual: where the user wrote it, such as 'config.battery.noise.study'.
  """
  try:
    yield
  except InputError as error:
    raise InputError(str(error).replace(section, actual)) from error


LISTED = 60
"""How many valid words are listed at most."""


def nearest(word: str, valid: Iterable[str]) -> str:
  """Returns a phrase that names the closest valid words, and lists all if they are few.

  Args:
    word: what was given.
    valid: every word that would have been accepted.

  Returns:
    For example `did you mean 'norm'? Valid: 'clip', 'norm', 'phase'`; of more than `LISTED` words
    the three nearest and their number.
  """
  words = sorted(valid)
  if len(words) > LISTED:
    close = difflib.get_close_matches(word, words, n=3, cutoff=0)
    return f'did you mean {" or ".join(repr(w) for w in close)}? ({len(words)} are valid)'
  close = difflib.get_close_matches(word, words, n=3, cutoff=0.5)
  listed = 'valid: ' + ', '.join(repr(w) for w in words)
  if not close:
    return listed
  return f'did you mean {" or ".join(repr(w) for w in close)}? {listed}'
