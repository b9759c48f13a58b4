"""Digests of many files, to tell whether data were made of the same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

ENDS = 4096


def of_files(root: Path, files: Iterable[Path], ends: int = 0) -> str:
  """Returns the SHA-256 of files' names under a folder, sizes and content.

  Args:
    root: the folder; where it lies does not matter.
    files: in any order; all under `root`.
    ends: bytes at the beginning and at the end of each file that are read, for thousands of image
      files, whose compressed data end differently where a pixel differs; 0 reads all.
  """
  digest = hashlib.sha256()
  for path in sorted(files):
    with path.open('rb') as file:
      size = file.seek(0, 2)
      digest.update(json.dumps([path.relative_to(root).as_posix(), size]).encode())
      file.seek(0)
      if ends and size > 2 * ends:
        digest.update(file.read(ends))
        file.seek(size - ends)
      digest.update(file.read())
  return digest.hexdigest()


def of_folder(path: Path) -> str:
  """Returns the digest of a file, or of all files under a folder, read whole."""
  if path.is_file():
    return of_files(path.parent, [path])
  return of_files(path, [file for file in path.rglob('*') if file.is_file()])
