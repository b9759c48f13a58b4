"""How a row of object and background is shown at a level of a design."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from robustness.errors import InputError
from robustness.scene_design import Design
from robustness.scenes.compose import compose
from robustness.scenes.geometry import place
from robustness.scenes.lookup import compose_from, sheet_side, sheets

Row = Mapping[str, jax.Array]
MOST_WORDS = 2 ** 22
"""Sheets of a row have at most as many pixels; with more, each scene resizes its cutout."""


def shown(design: Design, side: int, measure: str) -> tuple:
  """Returns `show` and `prepare` of `robustness.study.Views` for a design.

  Where few sizes occur, `prepare` resizes the cutout once for each; else it is None and every scene
  does it anew.

  Args:
    design: the levels.
    side: of the canvas, pixels.
    measure: see `robustness.scenes.compose.MEASURES`.
  """
  turning = bool(np.any(design.angle % 360))
  areas = np.unique(design.area).tolist()

  def show(key: jax.Array, row: Row, view: Row) -> jax.Array:
    del key
    factors = (view['area'], view['angle'] if turning else 0.0, view['x'], view['y'])
    return compose(_foreground(row), row['image'], *factors, size=row['foreground_size'],
                   measure=measure, rotate=turning)[0]

  def prepare(row: Row) -> dict[str, jax.Array]:
    made = sheets(_foreground(row), row['foreground_size'], areas, side, turning)
    kept = {name: value for name, value in row.items() if name != 'foreground'}
    return {**kept, 'sheets': made[0], 'sheet_offsets': made[1]}

  def look_up(key: jax.Array, row: Row, view: Row) -> jax.Array:
    del key
    placement = place(row['foreground_size'], view['area'], view['angle'] if turning else 0.0,
                      view['x'], view['y'], side)
    return compose_from(row['sheets'][view['sheet']], row['sheet_offsets'][view['sheet']],
                        row['image'], placement, turning)

  centred = bool(np.all(design.x == 0.5) and np.all(design.y == 0.5))
  words = len(areas) * sheet_side(max(areas), side, turning) ** 2
  fits = measure == 'rectangle' and (centred or not turning) and words <= MOST_WORDS
  return (look_up, prepare) if fits else (show, None)


def _foreground(row: Row) -> jax.Array:
  if 'foreground' not in row:
    raise InputError("the data hold no objects: set config.data.source='scenes' (folders of "
                     "cutouts and backgrounds) or 'drawn_scenes'; for scenes that are stored, "
                     'config.study.stored=True.')
  return row['foreground'].astype(jnp.float32) / 255
