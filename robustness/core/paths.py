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
  """Returns a path in which `~` or `~name` is replaced by the home folder of a user.

  Raises:
    InputError: the user does not exist, or files cannot have this name.
  """
  text = os.fspath(path)
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
  """Returns the end of an error message about a file name that is not valid UTF-8.

  It says how to make Python read names as UTF-8, and is '' if Python does already.
  """
  encoding = sys.getfilesystemencoding()
  if encoding == 'utf-8':
    return ''
  return f', which Python reads as {encoding} here: set PYTHONUTF8=1 or LC_ALL=C.UTF-8'


def label_and_path(text: str) -> tuple[str, pathlib.Path]:
  """Returns the label and the path in the text LABEL=PATH; the label of a plain path is ''.

  A text is a plain path if it has no sign '=', if a file of this name exists, or if a slash comes
  before the sign, as in 'runs/lr=0.1'.

  Raises:
    InputError: there is no label before the sign, or no file can have the name.
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
  """A context, or decorator, that turns a file or folder without access into an InputError."""
  try:
    yield
  except PermissionError as error:
    raise InputError(f'{error.filename} cannot be read: {error.strerror}.') from error


@access_refused()
def files_in(
  folder: pathlib.Path, deep: bool = True, left_out: Counter[str] | None = None
) -> list[pathlib.Path]:
  """Returns the regular files in a folder, sorted; none if there is no such folder.

  Hidden files and folders, such as `.ipynb_checkpoints`, and `SYSTEM_FOLDERS` are ignored. Links
  are followed; a folder that several links lead to is searched once.

  Args:
    folder: the folder.
    deep: whether to descend into the folders inside.
    left_out: counter to which the numbers of ignored files and folders are added by reason.

  Raises:
    InputError: a folder cannot be listed or searched, for example because another user owns it.
  """

  def refuse(error: OSError) -> None:
    """Raises InputError for a folder that exists and that `os.walk` would leave out."""
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
