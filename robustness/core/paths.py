"""Paths that users write, and the files in folders."""

import contextlib
import os
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator

from robustness.core.errors import InputError

MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 4095
"""Longest name of a file and longest path on Linux, in bytes."""
SYSTEM_FOLDERS = (
  *('@eaDir', '#recycle', '#snapshot', '__MACOSX'),
  *('$RECYCLE.BIN', 'System Volume Information', 'lost+found'),
)
"""Folders that file servers and operating systems create among the folders of users."""
HIDDEN, HIDDEN_FOLDERS = 'hidden files', 'hidden folders'
SYSTEM = 'folders of file servers and systems'
NOT_REGULAR = 'links that lead nowhere, pipes and devices'
"""`HIDDEN` to `NOT_REGULAR` are the reasons for ignoring files, which are counted by reason."""


def expanded(path: str | os.PathLike[str]) -> pathlib.Path:
  """Returns a path with `~` or `~name` replaced by the user's home folder.

  Raises:
    InputError: the user does not exist, or `path` is no valid path.
  """
  if not isinstance(path, str | os.PathLike):
    raise InputError(f'{path!r} is no path: give a text or a pathlib.Path.')
  text = os.fspath(path)
  # Python decodes a byte of a file name that is not UTF-8 to a surrogate, \ud800 to \udfff.
  if '\0' in text or any('\ud800' <= character <= '\udfff' for character in text):
    raise InputError(
      f'{text!a} is no path: no name of a file has such a character, or it is no text in UTF-8'
      f'{encoding_fix()}.'
    )
  if any(len(part.encode()) > MAX_NAME_BYTES for part in pathlib.PurePath(text).parts):
    limit = f'a name of a file has at most {MAX_NAME_BYTES} bytes'
    raise InputError(f'{text[:40]!r}... is no path: {limit}.')
  if len(text.encode()) > MAX_PATH_BYTES:
    raise InputError(f'{text[:40]!r}... is no path: it has more than {MAX_PATH_BYTES} bytes.')
  try:
    return pathlib.Path(text).expanduser()
  except RuntimeError as error:
    raise InputError(f'{text} begins with the home folder of an unknown user: {error}') from error


def encoding_fix() -> str:
  """Returns a hint for errors about file names that are not valid UTF-8.

  The hint says how to make Python decode file names as UTF-8. If Python does so already, the hint
  is ''.
  """
  encoding = sys.getfilesystemencoding()
  if encoding == 'utf-8':
    return ''
  return f', which Python reads as {encoding} here: set PYTHONUTF8=1 or LC_ALL=C.UTF-8'


def label_and_path(text: str) -> tuple[str, pathlib.Path]:
  """Splits an argument LABEL=PATH into the label and the path.

  A plain path has the label ''. The argument is a plain path if it has no '=', if a file of this
  name exists, or if a slash precedes the '=', as in 'runs/lr=0.1'.

  Raises:
    InputError: the label is empty, or the path is not valid.
  """
  label, equals_sign, path = text.partition('=')
  is_path = not equals_sign or '/' in label or os.path.exists(text)
  if is_path:
    return '', expanded(text)
  if not label.strip():
    raise InputError(f'{text!r} is without a label before the sign =: write LABEL=PATH.')
  return label.strip(), expanded(path)


def is_passed_over(name: str) -> bool:
  """Returns whether a folder is ignored because it is hidden or one of `SYSTEM_FOLDERS`."""
  return name.startswith('.') or name in SYSTEM_FOLDERS


@contextlib.contextmanager
def access_refused() -> Iterator[None]:
  """A context manager or decorator that turns a `PermissionError` into an InputError."""
  try:
    yield
  except PermissionError as error:
    raise InputError(f'{error.filename} cannot be read: {error.strerror}.') from error


@access_refused()
def files_in(
  folder: pathlib.Path, deep: bool = True, left_out: Counter[str] | None = None
) -> list[pathlib.Path]:
  """Returns the sorted paths of the regular files in a folder; none if the folder is missing.

  Hidden files, hidden folders and `SYSTEM_FOLDERS` are ignored. Links are followed, and each folder
  is searched once even if several links point to it.

  Args:
    folder: the folder to search.
    deep: whether to search subfolders too.
    left_out: counter of ignored files and folders by reason, such as {'hidden files': 2}. The
      counts are added to it.

  Raises:
    InputError: a folder cannot be listed, for example because another user owns it.
  """

  def refuse(error: OSError) -> None:
    """Turns an error of listing a folder into an InputError, unless no such folder exists."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
      raise InputError(f'cannot list the folder {error.filename}: {error.strerror}.') from error

  paths, visited = list[pathlib.Path](), set[str]()
  left_out = Counter() if left_out is None else left_out
  for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
    real_path = os.path.realpath(parent)
    if real_path in visited:
      folders[:] = []  # `os.walk` descends into the folders that this list has at the end
      continue
    visited.add(real_path)
    left_out[HIDDEN] += sum(name.startswith('.') for name in names)
    left_out[HIDDEN_FOLDERS] += sum(name.startswith('.') for name in folders)
    left_out[SYSTEM] += sum(name in SYSTEM_FOLDERS for name in folders)
    folders[:] = sorted(name for name in folders if deep and not is_passed_over(name))
    paths += [pathlib.Path(parent, name) for name in names if not name.startswith('.')]
  regular = sorted(path for path in paths if path.is_file())
  left_out[NOT_REGULAR] += len(paths) - len(regular)
  return regular
