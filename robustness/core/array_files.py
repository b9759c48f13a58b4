"""Archives of NumPy arrays, read so that a damaged one ends in one line; digests of arrays."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import zipfile
from collections.abc import Mapping

import numpy as np

from robustness.core.errors import InputError


def read_npz(path: str | os.PathLike[str], advice: str = '') -> dict[str, np.ndarray]:
  """Returns the arrays of a `.npz` file by name; nothing in it is executed.

  Args:
    path: the file.
    advice: what to do about one that cannot be used, a sentence for the end of the message.

  Raises:
    InputError: the file is missing or truncated, is no archive, is encrypted or compressed in a way
      that Python does not know, or holds Python objects or something else than arrays.
  """
  file = pathlib.Path(path)
  try:
    with zipfile.ZipFile(file) as archive:
      return {name.removesuffix('.npy'): _array(archive, name) for name in archive.namelist()}
  except Exception as error:  # zipfile, its codecs and NumPy's headers fail in their own ways
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    message = f'{file} is truncated or is no archive of plain arrays ({reason}).'
    raise InputError(f'{message} {advice}'.strip()) from error


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
  with archive.open(name) as member:
    return np.lib.format.read_array(member, allow_pickle=False)


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
  """Returns the SHA-256 of names, types, shapes and values, whatever the order of the names."""
  total = hashlib.sha256()
  for name in sorted(arrays):
    values = np.ascontiguousarray(arrays[name])
    total.update(json.dumps([name, values.dtype.str, arrays[name].shape]).encode())
    total.update(values.tobytes())
  return total.hexdigest()
