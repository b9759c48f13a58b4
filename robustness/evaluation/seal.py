"""The seal of a shard: its own place in the table, and digests of what it was made with.

A whole file can still be the wrong one: copied over another's place, taken from the records of
another run, or with values that were altered and written anew. Its seal tells these apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from robustness.core import json_files
from robustness.core.array_files import digest_of

NAME = '_seal'
FORM = {'block': int, 'chunk': int, 'header_sha256': str, 'arrays_sha256': str}


def make(
  block: int, chunk: int, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> np.ndarray:
  """Returns the seal of a shard as JSON, uint8 [bytes].

  Args:
    block, chunk: the shard's place.
    header: of the records; plain values.
    arrays: what the shard holds.
  """
  facts = {
    'block': block,
    'chunk': chunk,
    'header_sha256': header_digest(header),
    'arrays_sha256': digest_of(arrays),
  }
  return np.frombuffer(json.dumps(facts).encode(), np.uint8)


def check(
  sealed: np.ndarray | None,
  block: int,
  chunk: int,
  header: Mapping[str, Any],
  arrays: Mapping[str, np.ndarray],
) -> None:
  """Raises ValueError saying what is wrong unless `sealed` is the seal of all that follows."""
  if sealed is None:
    raise ValueError('it has no seal: an earlier version or another program wrote it')
  facts = json_files.parse(sealed.tobytes(), 'its seal', FORM)
  place = facts['block'], facts['chunk']
  if place != (block, chunk):
    raise ValueError(f'it is a copy of the shard of row block {place[0]}, view chunk {place[1]}')
  if facts['header_sha256'] != header_digest(header):
    raise ValueError('it belongs to other records: its header has another digest')
  if facts['arrays_sha256'] != digest_of(arrays):
    raise ValueError('its values were altered: they have another digest than its seal')


def header_digest(header: Mapping[str, Any]) -> str:
  """Returns the SHA-256 of plain values, whatever the order of their keys."""
  return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
