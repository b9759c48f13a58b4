"""Cache of the programs that XLA compiles, in a folder for later runs.

The key of an entry is a digest of the program, the versions of JAX and XLA, and the devices. The
entry is the machine code, so that results have the same bits with and without the cache. A
truncated entry fails its checksum; JAX warns of it and compiles the program again. It also warns of
entries that it cannot write.
"""

import contextlib
import os
import pathlib
import tempfile

import jax
from absl import logging

from robustness.core.errors import InputError
from robustness.core.paths import expanded

MIN_SECONDS = 0.1  # programs that compile faster are not stored
MAX_BYTES = 2 * 2**30
"""Largest size of all stored programs."""
JAX_SUFFIXES = ('-cache', '-atime')  # suffixes of the files that JAX writes into the folder


def default_folder() -> pathlib.Path:
  """Returns the default folder for compiled programs.

  This is the folder in JAX_COMPILATION_CACHE_DIR if the variable is set, and otherwise
  `classifier-robustness/compiled` in XDG_CACHE_HOME or `~/.cache`.
  """
  if folder := os.environ.get('JAX_COMPILATION_CACHE_DIR'):
    return expanded(folder)
  cache = os.environ.get('XDG_CACHE_HOME') or expanded('~/.cache')
  return pathlib.Path(cache) / 'classifier-robustness' / 'compiled'


def use(folder: str | None) -> None:
  """Makes JAX store compiled programs in a folder and reuse them in later runs.

  If the stored programs exceed `MAX_BYTES`, the oldest are deleted.

  Args:
    folder: path of the folder. None uses `default_folder()`, or stores nothing if that folder is
      not writable; a folder in JAX_COMPILATION_CACHE_DIR is left to JAX, without a check or limit.
      '' stores nothing.

  Raises:
    InputError: `folder` is a path that is not writable.
  """
  if folder is None and os.environ.get('JAX_COMPILATION_CACHE_DIR'):
    return  # JAX reads the variable itself
  if folder == '':
    _configure('jax_compilation_cache_dir', None)
    return
  path = default_folder() if folder is None else expanded(folder).absolute()
  try:
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):  # raises OSError if the folder cannot be written
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
  _configure('jax_compilation_cache_dir', str(path))
  _configure('jax_persistent_cache_min_compile_time_secs', MIN_SECONDS)


def _configure(name: str, value: str | float | None) -> None:
  """Sets the option of JAX with a name."""
  jax.config.update(name, value)  # type: ignore[no-untyped-call]


def trim(folder: pathlib.Path, max_bytes: int) -> None:
  """Deletes the oldest programs in a folder until at most `max_bytes` remain."""
  files = []
  for entry in os.scandir(folder):
    with contextlib.suppress(FileNotFoundError):  # another run may have deleted it
      if entry.name.endswith(JAX_SUFFIXES) and entry.is_file():
        files.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
  total = sum(size for _, size, _ in files)
  for _, size, path in sorted(files):
    if total <= max_bytes:
      return
    pathlib.Path(path).unlink(missing_ok=True)
    total -= size
