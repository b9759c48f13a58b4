"""Reader of archives of NumPy arrays that refuses damaged ones, and digests of arrays."""

import hashlib
import json
import math
import os
import pathlib
import zipfile
from collections.abc import Mapping

import numpy as np

from robustness.core.bounded_files import open_regular
from robustness.core.errors import InputError
from robustness.core.limits import MAX_BYTES_PER_ARRAY

_READ_1, _READ_2 = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
_HEADER_READERS = {(1, 0): _READ_1, (2, 0): _READ_2}
"""{version of the .npy format: reader of its header}."""


def read_npz(
  path: str | os.PathLike[str], advice: str = '', max_bytes: int | None = None
) -> dict[str, np.ndarray]:
  """Returns the arrays of a `.npz` file as {name: array}, without unpickling anything.

  A small compressed file may inflate to any size. The sizes that the archive states are therefore
  checked before memory is allocated.

  Args:
    path: path of the file.
    advice: sentence on how to fix a bad file, appended to each error message.
    max_bytes: largest total size of the arrays. With None, the total is unlimited and each
      compressed array may have up to `MAX_BYTES_PER_ARRAY`.

  Raises:
    InputError: the file is missing, truncated or encrypted, inflates to more than the limit, or
      contains something other than arrays.
  """
  file = pathlib.Path(path)
  try:
    with open_regular(file) as opened, zipfile.ZipFile(opened) as archive:
      members = archive.infolist()
      if max_bytes is None:
        inflated_sizes = (m.file_size for m in members if m.compress_type != zipfile.ZIP_STORED)
        size, limit = max(inflated_sizes, default=0), MAX_BYTES_PER_ARRAY
      else:
        size, limit = sum(m.file_size for m in members), max_bytes
      if size > limit:
        raise ValueError(f'it inflates to {size / 2**20:,.0f} MiB, above {limit / 2**20:,.0f} MiB')
      return {m.filename.removesuffix('.npy'): _read_array(archive, m) for m in members}
  except Exception as error:  # zipfile, its codecs and NumPy's headers fail in their own ways
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    message = f'{file} is truncated or is no archive of plain arrays ({reason}).'
    raise InputError(f'{message} {advice}'.strip()) from error


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
  """Returns the array in one `.npy` file of a zip archive.

  Raises:
    ValueError: the file contains Python objects, or its size does not match the array's shape and
      type.
  """
  with archive.open(info) as member:
    version = np.lib.format.read_magic(member)
    if version not in _HEADER_READERS:
      raise ValueError(f'{info.filename} has the format {version} of .npy')
    shape, is_fortran_order, dtype = _HEADER_READERS[version](member)
    if dtype.hasobject:
      raise ValueError(f'{info.filename} holds Python objects')
    stated, actual = math.prod(shape) * dtype.itemsize, info.file_size - member.tell()
    if stated != actual:
      raise ValueError(f'{info.filename} states {stated:,} bytes and holds {actual:,}')
    content = bytearray(member.read())  # `bytes` would make the array read-only
  return np.ndarray(shape, dtype, content, order='F' if is_fortran_order else 'C')


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
  """Returns the SHA-256 hex digest of a dictionary of arrays.

  The digest covers the name, type, shape and values of each array, and not the order of the names.
  """
  total = hashlib.sha256()
  for name in sorted(arrays):
    values = np.ascontiguousarray(arrays[name])  # [1] if the array is a scalar, []
    total.update(json.dumps([name, values.dtype.str, arrays[name].shape]).encode())
    total.update(values.tobytes())
  return total.hexdigest()
