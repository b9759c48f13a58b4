"""Errors about what a user gave, which say how to mend it.

An error about a key of the config carries the key, its value, the valid values and the fix as data;
`SettingError` alone writes the sentence. A part does not know in which section of the config it
stands: it names its keys as in a config with one study and one classifier, and whoever reads the
config says with `naming` what such a section is called there.
"""

import argparse
import contextlib
import contextvars
import difflib
import traceback
from collections.abc import Iterable, Iterator, Mapping

_sections: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar('sections')


LONGEST_VALUE = 300
"""Characters of a value that a sentence shows."""


class InputError(ValueError):
  """Bad input from outside: the message names the bad value, the valid ones and the fix."""


class SettingError(InputError):
  """A value of a key of the config that cannot be used.

  Attributes:
    key: the whole name of the key in the user's config, such as 'config.study.norm'.
    value: the bad value.
    valid: the valid values, as a phrase ('at least 0') or as the words to choose from.
    fix: what to do, as sentences.
    problem: what is wrong with the value, as a clause ('which is no file').
  """

  def __init__(
    self,
    key: 'str | KeyName',
    value: object,
    valid: str | Iterable[str] = '',
    fix: str = '',
    problem: str = '',
  ):
    self.key, self.value, self.fix, self.problem = key_name(str(key)), value, fix, problem
    self.valid = valid if isinstance(valid, str) else tuple(valid)
    super().__init__(self._sentence())

  def _sentence(self) -> str:
    sentence = f'{self.key} is {_shortened(repr(self.value))}'
    if self.problem:
      sentence += f', {self.problem}'
    if not isinstance(self.valid, str):
      sentence += f'; {nearest(str(self.value), self.valid)}'
    elif self.valid:
      sentence += f'; it must be {self.valid}'
    return f'{sentence}. {self.fix}'.rstrip()

  def __reduce__(self) -> tuple[type, tuple[object, ...]]:
    return type(self), (self.key, self.value, self.valid, self.fix, self.problem)


def _shortened(text: str) -> str:
  return text if len(text) <= LONGEST_VALUE else f'{text[:LONGEST_VALUE]}...'


@contextlib.contextmanager
def naming(section: str, actual: str) -> Iterator[None]:
  """Lets errors within call a section, such as 'config.study', what the config calls it.

  For example `naming('config.study', 'config.battery.noise.study')`. An inner context holds where
  both name the same section.
  """
  token = _sections.set({**_sections.get({}), section: actual})
  try:
    yield
  finally:
    _sections.reset(token)


def key_name(key: str) -> str:
  """Returns the name that a key has in the user's config; see `naming`."""
  names, section = _sections.get({}), key
  while section and section not in names:
    section = section.rpartition('.')[0]
  return names[section] + key.removeprefix(section) if section else key


@contextlib.contextmanager
def importing(message: str) -> Iterator[None]:
  """Raises InputError with this message if an optional package cannot be imported inside."""
  try:
    yield
  except (ImportError, RuntimeError) as error:  # torchvision raises RuntimeError for another torch
    raise InputError(f'{message} ({error}).') from error


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


class KeyName:
  """The name of a key, for sentences: f'{KEYS.data.crop}' is 'config.data.crop', or what `naming`
  calls it where the sentence is made."""

  def __init__(self, key: str):
    self._key = key

  def __getattr__(self, name: str) -> 'KeyName':
    return KeyName(f'{self._key}.{name}')

  def __str__(self) -> str:
    return key_name(self._key)


KEYS = KeyName('config')


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
