"""How a row of object and background is shown at a level of a design."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.sequential import located
from robustness.scenes.compose import BAND, compose_premultiplied, counted, premultiplied
from robustness.scenes.designs import LEVEL, Design
from robustness.scenes.geometry import fraction_inside, place
from robustness.scenes.lookup import compose_from, sheet_side, sheets
from robustness.scenes.resize import most_scale

Row = Mapping[str, jax.Array]
MOST_WORDS = 2**22
"""Sheets of a row have at most as many pixels; with more, each scene resizes its cutout."""


class Shown(NamedTuple):
  """What `robustness.evaluation.views.Views` says of these names; rows are shown sequentially."""

  show: Callable[..., jax.Array]
  prepare: Callable[[Row], dict[str, jax.Array]]


def parameters(design: Design) -> dict[str, np.ndarray]:
  """Returns what `show` is told of each level: `area`, `angle`, `x`, `y`, and `sheet`, its size."""
  factors = {name: getattr(design, name) for name in LEVEL}
  return {
    **{name: values.astype(np.float32) for name, values in factors.items()},
    'sheet': np.unique(design.area, return_inverse=True)[1].astype(np.int32),
  }


def shown(design: Design, side: int, measure: str) -> Shown:
  """Returns how rows are shown at the levels of a design.

  Where few sizes occur, `prepare` resizes the cutout once for each; else every scene does it anew,
  and `prepare` only premultiplies it (in 8 bits a channel, as Pillow).

  Args:
    design: the levels.
    side: of the canvas, pixels.
    measure: see `robustness.scenes.compose.MEASURES`.
  """
  turning = bool(np.any(design.angle % 360))
  areas = np.unique(design.area).tolist()
  centred = bool(np.all(design.x == 0.5) and np.all(design.y == 0.5))
  words = len(areas) * sheet_side(max(areas), side, turning) ** 2
  if measure == 'rectangle' and (centred or not turning) and words <= MOST_WORDS:
    return _looked_up(areas, side, turning)
  return _resized_anew(areas, side, turning, measure)


def fractions_inside(design: Design, size: np.ndarray, pixels: np.ndarray, side: int) -> np.ndarray:
  """Returns the share of objects on the canvas at every level, float32 [P, L].

  Args:
    design: of L levels.
    size: int [P, 2], height and width of the cutouts, pixels.
    pixels: int [P], what an area is an area of; see `robustness.scenes.geometry.place`.
    side: of the canvas, pixels.
  """
  levels = [parameters(design)[name] for name in LEVEL]

  def of_pair(size: jax.Array, pixels: jax.Array) -> jax.Array:
    return jax.vmap(
      lambda area, angle, x, y: fraction_inside(size, area, angle, x, y, side, pixels)
    )(*levels)

  return np.asarray(
    jax.jit(lambda *pairs: jax.lax.map(lambda pair: of_pair(*pair), pairs))(
      jnp.asarray(size), jnp.asarray(pixels)
    )
  )


def _resized_anew(areas: Sequence[float], side: int, turning: bool, measure: str) -> Shown:
  """Every scene resizes the cutout."""
  sequential = jax.default_backend() == 'cpu'
  steps = area_steps(min(areas), max(areas)) if sequential else [0.0]

  def prepare(row: Row) -> dict[str, jax.Array]:
    cutout = _cutout(row)
    pixels = counted(cutout, measure)
    return {
      **_without_foreground(row),
      'cutout': cutout,
      **({} if pixels is None else {'cutout_pixels': pixels}),
    }

  def show(key: jax.Array, row: Row, view: Row) -> jax.Array:
    del key
    factors = (view['area'], view['angle'] if turning else 0.0, view['x'], view['y'])
    cutouts, index = located(row, 'cutout')

    def composed(least_area: float) -> jax.Array:
      most = most_scale(cutouts.shape[1:3], least_area, side) if sequential else math.inf
      return compose_premultiplied(
        cutouts,
        index,
        row['foreground_size'],
        row.get('cutout_pixels'),
        row['image'],
        factors,
        turning,
        most,
      )[0]

    branch = jnp.searchsorted(jnp.asarray(steps), view['area'], side='right') - 1
    return jax.lax.switch(branch, [functools.partial(composed, least) for least in steps])

  return Shown(show, prepare)


def _looked_up(areas: Sequence[float], side: int, turning: bool) -> Shown:
  """The cutout is resized once for each area."""
  sequential = jax.default_backend() == 'cpu'

  def prepare(row: Row) -> dict[str, jax.Array]:
    made = sheets(_cutout(row), row['foreground_size'], areas, side, turning, sequential)
    return {**_without_foreground(row), 'sheets': made[0], 'sheet_offsets': made[1]}

  def look_up(key: jax.Array, row: Row, view: Row) -> jax.Array:
    del key
    placement = place(
      row['foreground_size'],
      view['area'],
      view['angle'] if turning else 0.0,
      view['x'],
      view['y'],
      side,
    )
    stored_sheets, number = located(row, 'sheets')
    index = number * stored_sheets.shape[1] + view['sheet']
    return compose_from(
      stored_sheets.reshape(-1, *stored_sheets.shape[2:]),
      index,
      row['sheet_offsets'][view['sheet']],
      row['image'],
      placement,
      turning,
      BAND if sequential else side,
    )

  return Shown(look_up, prepare)


def area_steps(least: float, most: float) -> list[float]:
  """Returns areas from just below `least` on, each √2 times the one before, up to `most`."""
  count = 1 + math.floor(2 * math.log2(most / least) + 1e-9)
  return [least * (1 - 1e-5) * math.sqrt(2.0) ** step for step in range(count)]


def _without_foreground(row: Row) -> dict[str, jax.Array]:
  return {name: value for name, value in row.items() if name != 'foreground'}


def _cutout(row: Row) -> jax.Array:
  """Returns the premultiplied cutout, uint8 [F, F, 4]."""
  if 'foreground' not in row:
    raise InputError(
      "the data hold no objects: set config.data.source='scenes' (folders of "
      "cutouts and backgrounds) or 'drawn_scenes'; for scenes that are stored, "
      'config.study.stored=True.'
    )
  columns, index = located(row, 'foreground')
  # A choice keeps XLA from fusing the cut with what is computed of it, which is ten times slower.
  foreground = jax.lax.cond(
    jnp.asarray(index) >= 0,
    lambda: columns[index],
    lambda: jnp.zeros(columns.shape[1:], columns.dtype),
  )
  foreground = foreground.astype(jnp.float32) / 255
  return jnp.round(255 * premultiplied(foreground)).astype(jnp.uint8)
