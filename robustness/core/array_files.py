"""Archives of NumPy arrays, read so that a damaged one ends in one line; digests of arrays."""

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

  One that is missing, truncated, encrypted, or holds anything else than arrays is an InputError,
  which ends in `advice`: what to do about it.
  """
  file = pathlib.Path(path)
  try:
    with zipfile.ZipFile(file) as archive:
      arrays = {}
      for name in archive.namelist():
        with archive.open(name) as member:
          arrays[name.removesuffix('.npy')] = np.lib.format.read_array(member, allow_pickle=False)
      return arrays
  except Exception as error:  # zipfile, its codecs and NumPy's headers fail in their own ways
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    message = f'{file} is truncated or is no archive of plain arrays ({reason}).'
    raise InputError(f'{message} {advice}'.strip()) from error


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
  """Returns the SHA-256 of names, types, shapes and values, whatever the order of the names."""
  total = hashlib.sha256()
  for name in sorted(arrays):
    values = np.ascontiguousarray(arrays[name])
    total.update(json.dumps([name, values.dtype.str, arrays[name].shape]).encode())
    total.update(values.tobytes())
  return total.hexdigest()
