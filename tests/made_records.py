"""Writes records of given answers, in shards of any size."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from robustness.evaluation.layout import Layout
from robustness.evaluation.records import PREDICTIONS, Records
from robustness.evaluation.study import Evaluation


def made(
  folder: pathlib.Path, arrays: Mapping[str, Any], block: int = 0, chunk: int = 0, **identity: Any
) -> Evaluation:
  """Writes records and returns them with the folder's name as label.

  Args:
    folder: of the records.
    arrays: fields [N, V, ...] and columns [N, ...] by name; booleans and integers become int32.
    block: rows of a shard; by default all.
    chunk: views of a shard; by default all.
    **identity: of the records.
  """
  stored = {k: np.asarray(v) for k, v in arrays.items()}
  stored = {k: v if v.dtype.kind == 'f' else v.astype(np.int32) for k, v in stored.items()}
  fields = {k for k in stored if k in PREDICTIONS or '/' in k}
  rows, views = stored[next(k for k in stored if k in fields)].shape[:2]
  records = Records(folder, Layout(rows, views, block or rows, chunk or views), identity)
  layout = records.layout
  for b in range(layout.num_blocks):
    for c in range(layout.num_chunks):
      places = {True: (layout.rows(b), layout.views(c)), False: layout.rows(b)}
      records.write(b, c, {k: v[places[k in fields]] for k, v in stored.items()})
  return Evaluation(folder.name, records)
