"""Predictions that were recorded on some neighbor sets, for other sets of the same frames.

Frames are found by their paths, so that what a run recorded on candidate sets serves the reviewed
ones too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.evaluation.records import Records
from robustness.models.label_space import spelt
from robustness.video import metadata
from robustness.video.columns import PATH
from robustness.video.metadata import NeighborSets
from robustness.video.recorded_predictions import OUTPUTS, PREDICTION


class Transferred(NamedTuple):
  """What records hold of the frames of sets.

  Attributes:
    sets: with labels in the order of the records' classes.
    fields: `prediction` and scores as shards have them, [F, 1] and [F, 1, classes].
    identity: of the records, and a digest of the sets.
  """

  sets: NeighborSets
  fields: dict[str, np.ndarray]
  identity: dict[str, Any]


def transferred(records: Records, sets: NeighborSets, class_names: Sequence[str]) -> Transferred:
  """Returns the recorded predictions on the frames of sets.

  Args:
    records: of frames with paths.
    sets: other sets; F frames.
    class_names: in the order of their labels.

  Raises:
    InputError: records without paths, frames that are not in the records (how many, which first),
      or a class that the records do not have.
  """
  names = records.read(0, 0).arrays
  if PATH not in names:
    raise InputError(
      f'{records.directory} holds no paths of frames, so that config.metadata and '
      'config.unreviewed have nothing to look them up by: run the study on frames '
      'on disk again, or leave both out.'
    )
  position = {path: row for row, path in enumerate(records.column(PATH).tolist())}
  missing = [frame for frame in sets.frames if frame not in position]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(sets.frames)} frames are not in {records.directory}, '
      f'first {missing[0]!r}: give records of a run on sets that hold them all, '
      'such as those before the review.'
    )
  rows = np.array([position[frame] for frame in sets.frames])
  kept = [name for name in (PREDICTION, *OUTPUTS) if name in names]
  fields = {name: records.column(name)[rows][:, None] for name in kept}
  relabelled = _relabelled(sets, class_names, records.identity.get('classes', ()))
  return Transferred(relabelled, fields, {**records.identity, 'sets': metadata.digest(relabelled)})


def _relabelled(sets: NeighborSets, names: Sequence[str], classes: Sequence[str]) -> NeighborSets:
  """Returns the sets with labels that are positions in the records' classes."""
  known = {spelt(name): place for place, name in enumerate(classes)}
  used = np.unique(sets.labels[sets.labels >= 0])
  table = np.full(int(used.max()) + 2, -1, np.int32)  # the last entry is that of the padding, −1
  for label in used.tolist():
    name = spelt(names[label]) if label < len(names) else str(label)
    if name not in known:
      raise InputError(
        f'the sets have the class {name!r}, which is none of the {len(classes)} of '
        f'the records; {nearest(name, known)}.'
      )
    table[label] = known[name]
  return dataclasses.replace(sets, labels=table[sets.labels], class_names=tuple(classes))
