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


def files_in(folder: pathlib.Path, deep: bool = True) -> list[pathlib.Path]:
  """Returns the files in a folder, at any depth if `deep`, sorted, without hidden ones and those in
  hidden folders, such as `.ipynb_checkpoints`. Links are followed, into each folder once."""
  found, seen = list[pathlib.Path](), set[str]()
  for place, folders, names in os.walk(folder, followlinks=True):
    real = os.path.realpath(place)
    folders[:] = [] if real in seen or not deep else sorted(n for n in folders if n[0] != '.')
    found += [] if real in seen else [pathlib.Path(place, n) for n in names if n[0] != '.']
    seen.add(real)
  return sorted(path for path in found if path.is_file())
