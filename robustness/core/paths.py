"""Paths as a user writes them."""

import os
import pathlib

from robustness.core.errors import InputError

LONGEST = 255


def expanded(path: str | os.PathLike[str]) -> pathlib.Path:
  """Returns a path whose `~` or `~name` is the home folder of a user.

  Raises:
    InputError: there is no such user, or no file can have this name.
  """
  text = os.fspath(path)
  if '\0' in text or any('\ud800' <= character <= '\udfff' for character in text):
    raise InputError(
      f'{text!a} is no path: no name of a file has such a character, or it is no text in UTF-8.'
    )
  if any(len(part.encode()) > LONGEST for part in pathlib.PurePath(text).parts):
    raise InputError(f'{text[:40]!r}... is no path: a name of a file has at most {LONGEST} bytes.')
  try:
    return pathlib.Path(text).expanduser()
  except RuntimeError as error:
    raise InputError(f'{text} begins with the home folder of an unknown user: {error}') from error


def files_in(folder: pathlib.Path, pattern: str = '**/*') -> list[pathlib.Path]:
  """Returns the files in a folder that a pattern names, sorted, without hidden ones and those in
  hidden folders, such as `.ipynb_checkpoints`."""
  depth = len(folder.parts)
  shown = (
    path
    for path in folder.glob(pattern)
    if not any(part.startswith('.') for part in path.parts[depth:])
  )
  return sorted(path for path in shown if path.is_file())
