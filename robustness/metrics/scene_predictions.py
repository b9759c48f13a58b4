"""From records to predictions by pair and level, and levels by factor, for SI-Score.

Records of composed scenes have a row for each pair and a view for each level. Records of stored
scenes have one view, and the factors as columns of their rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from robustness.evaluation.records import Records
from robustness.metrics.scene_table import COLUMNS, SceneTable, tabulate
from robustness.metrics.si_score import Scenes, wrapped
from robustness.scenes.classes import IMAGENET_INDEX
from robustness.scenes.designs import Design

LEVEL = ('x', 'y', 'area', 'angle')
SIZE, LOCATION, ROTATION = 'size', 'location', 'rotation'
KEYS = {SIZE: ('area',), ROTATION: ('angle',), LOCATION: ('y', 'x')}
"""Of the levels, by factor."""


@dataclasses.dataclass(frozen=True)
class Answers:
  """One classifier's predictions by pair and level.

  Attributes:
    scenes: what was right, and what counts.
    levels: `area`, `angle`, `x` and `y` of each level, float64 [L].
    classes: int [P], the class of each pair.
  """

  scenes: Scenes
  levels: Mapping[str, np.ndarray]
  classes: np.ndarray


def strata(levels: Mapping[str, np.ndarray], factor: str) -> np.ndarray:
  """Returns which levels agree in all but one factor, int [L]: what a curve along it pools.

  Args:
    levels: `area`, `angle`, `x`, `y`, each [L].
    factor: 'size', 'rotation' or 'location'.
  """
  others = np.stack([levels[key] for key in LEVEL if key not in KEYS[factor]])
  return np.unique(others, axis=1, return_inverse=True)[1].ravel()


def answers(records: Records, design: Design, fraction: np.ndarray | None) -> Answers:
  """Returns the predictions that records hold.

  Args:
    records: of composed scenes, or of stored ones.
    design: the levels, and the share that must be inside.
    fraction: [P, L], the share inside of each composed scene; None for stored ones, whose rows have
      it.
  """
  if fraction is None:
    return _stored(records, design)
  layout = records.layout
  right = np.zeros((layout.num_rows, layout.num_views), bool)
  for shard in records.shards():
    right[shard.rows, shard.views] = shard['rank'] == 0
  scenes = Scenes(right, enough(fraction, design.min_inside), records.column('object'))
  levels = {key: getattr(design, key) for key in LEVEL}
  return Answers(scenes, levels, records.column('imagenet_class'))


def enough(fraction: np.ndarray, least: float) -> np.ndarray:
  """Returns whether shares inside reach the least one; .95 counts as .95 in single precision."""
  return np.asarray(fraction, np.float32) >= np.float32(least)


def tabulated(records: Records, design: Design) -> tuple[SceneTable, np.ndarray]:
  """Returns where stored scenes stand among pairs and levels, and which count, bool [P, L].

  Args:
    records: of stored scenes.
    design: see `answers`.
  """
  columns = {name: records.column(name) for name in COLUMNS}
  table = tabulate(columns, design.name, design.side)
  return table, table.spread(enough(columns['fraction_inside'], design.min_inside), False)


def _stored(records: Records, design: Design) -> Answers:
  table, shown = tabulated(records, design)
  right = table.spread(records.column('rank') == 0, False)
  classes = table.spread(records.column('label'), -1).max(1)
  levels = {key: getattr(table.design, key) for key in LEVEL}
  return Answers(Scenes(right, shown, table.objects), levels, classes)


def class_name(index: int) -> str:
  """Returns SI-Score's name of an ImageNet class, or its number."""
  return {v: k for k, v in IMAGENET_INDEX.items()}.get(index, f'class {index}')


def varying(levels: Mapping[str, np.ndarray]) -> list[str]:
  """Returns which factors have more than one value."""
  several = {key: len(np.unique(levels[key])) > 1 for key in LEVEL}
  return [
    name
    for name, varies in (
      (SIZE, several['area']),
      (ROTATION, several['angle']),
      (LOCATION, several['x'] or several['y']),
    )
    if varies
  ]


def grouped(
  levels: Mapping[str, np.ndarray], factor: str
) -> tuple[dict[str, np.ndarray], np.ndarray, tuple[int, ...]]:
  """Returns a factor's values, the group of each level, and the groups' shape.

  Args:
    levels: `area`, `angle`, `x`, `y`, each [L].
    factor: 'size', 'rotation' (angles are wrapped to ±180 degrees) or 'location'.

  Returns:
    {name: values}, int [L], and [G], for location [Y, X].
  """
  if factor == LOCATION:
    x, column = np.unique(levels['x'], return_inverse=True)
    y, row = np.unique(levels['y'], return_inverse=True)
    return {'x': x, 'y': y}, row * len(x) + column, (len(y), len(x))
  values = levels['area'] if factor == SIZE else wrapped(levels['angle'])
  value, group = np.unique(values, return_inverse=True)
  return {'value': value}, group, value.shape
