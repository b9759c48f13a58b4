"""Programs that XLA compiled, kept in a folder for later runs.

An entry is found by a digest of the program, the versions of JAX and XLA and the devices, and holds
the machine code: a run gives the same bits with it as without. An entry that a kill cut short is
refused by its checksum with a warning, and the program compiled again.
"""

import contextlib
import os
import pathlib
import re
import tempfile
import warnings

import jax
from absl import logging

from robustness.core.errors import InputError
from robustness.core.paths import expanded

MIN_SECONDS = 0.1  # programs that compile faster are not kept
MAX_BYTES = 2 * 2**30
JAX_SUFFIXES = ('-cache', '-atime')  # of the files that JAX writes
_CACHE_WARNING = re.compile(
  r"Error (writing|reading) persistent compilation cache entry for '[^']*': (.*)", re.DOTALL
)


def default_folder() -> pathlib.Path:
  """Returns JAX_COMPILATION_CACHE_DIR, or a folder in the user's cache folder."""
  if given := os.environ.get('JAX_COMPILATION_CACHE_DIR'):
    return expanded(given)
  cache = os.environ.get('XDG_CACHE_HOME') or expanded('~/.cache')
  return pathlib.Path(cache) / 'classifier-robustness' / 'compiled'


def use(folder: str | None) -> None:
  """Keeps compiled programs in a folder, and takes those that are there.

  The oldest are deleted where all would take more than `MAX_BYTES`. '' keeps none. None takes
  JAX_COMPILATION_CACHE_DIR, or if that is not set `default_folder()`; a run goes on where that
  cannot be written to, but not where another folder cannot.
  """
  if folder is None and os.environ.get('JAX_COMPILATION_CACHE_DIR'):
    return
  if folder == '':
    _configure('jax_compilation_cache_dir', None)
    return
  path = default_folder() if folder is None else expanded(folder).absolute()
  try:
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):
      pass
  except OSError as error:
    if folder is None:
      logging.warning('compiled programs are not kept: %s (%s)', path, error.strerror)
      return
    raise InputError(
      f'compiled programs cannot be kept in {path} ({error.strerror}): give another folder with '
      "--compilation_cache=FOLDER, or --compilation_cache='' to keep none."
    ) from error
  trim(path, MAX_BYTES)
  _warn_once(path)
  _configure('jax_compilation_cache_dir', str(path))
  _configure('jax_persistent_cache_min_compile_time_secs', MIN_SECONDS)


def _configure(name: str, value: str | float | None) -> None:
  jax.config.update(name, value)  # type: ignore[no-untyped-call]


def _warn_once(folder: pathlib.Path) -> None:
  """Has JAX's warnings of entries that could not be written or read logged once for all."""
  others, logged = warnings.showwarning, False

  def show(message: Warning | str, *where: object, **further: object) -> None:
    nonlocal logged
    what = _CACHE_WARNING.match(str(message))
    if not what:
      others(message, *where, **further)  # type: ignore[arg-type]
    elif not logged:
      logged = True
      logging.warning(
        'compiled programs in %s cannot all be %s (%s). The run goes on and compiles them; '
        "--compilation_cache=FOLDER keeps them elsewhere, --compilation_cache='' nowhere.",
        folder,
        {'writing': 'kept', 'reading': 'read'}[what[1]],
        what[2],
      )

  warnings.showwarning = show


def trim(folder: pathlib.Path, max_bytes: int) -> None:
  """Deletes the oldest programs in a folder until the others take at most `max_bytes`."""
  files = []
  for entry in os.scandir(folder):
    with contextlib.suppress(FileNotFoundError):  # another run may have been first
      if entry.name.endswith(JAX_SUFFIXES) and entry.is_file():
        files.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
  total = sum(size for _, size, _ in files)
  for _, size, path in sorted(files):
    if total <= max_bytes:
      return
    pathlib.Path(path).unlink(missing_ok=True)
    total -= size
