"""How a row of object and background is shown at a level of a design.

Resizing costs far more than anything else. Where views share few sizes, it is done once for each
row and size, and a scene only looks up pixels of 8 bits a channel on such a sheet: a window of them
upright, 4 × 4 for each pixel turned.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.sequential import located
from robustness.scenes import compose
from robustness.scenes.designs import LEVEL, LONGEST, Design, is_centred
from robustness.scenes.geometry import place
from robustness.scenes.resize import most_scale, resize_pixels

Row = Mapping[str, jax.Array]
MOST_WORDS = 2**22
"""Sheets of a row have at most as many pixels; with more, each scene resizes its cutout."""


Shown = tuple[Callable[..., jax.Array], Callable[[Row], dict[str, jax.Array]]]
"""`show` and `prepare` of `robustness.evaluation.views.Views`; rows are shown sequentially."""


def parameters(design: Design) -> dict[str, np.ndarray]:
  """Returns the parameters of each level: `area`, `angle`, `x`, `y`, and `sheet`, its size."""
  factors = {name: values.astype(np.float32) for name, values in design.factors.items()}
  sheet = np.unique(design.area, return_inverse=True)[1].astype(np.int32)
  return {**factors, 'sheet': sheet}


def shown(design: Design, side: int, measure: str) -> Shown:
  """Returns how rows are shown at the levels of a design.

  Where few sizes occur, `prepare` resizes the cutout once for each; else every scene does it, and
  `prepare` only premultiplies it (in 8 bits a channel, as Pillow).

  `side` is of the canvas, in pixels; `measure` one of `robustness.scenes.compose.MEASURES`.
  """
  turning = bool(np.any(design.angle % 360))
  areas = np.unique(design.area).tolist()
  centred = is_centred(design)
  words = len(areas) * _sheet_side(max(areas), side, turning) ** 2
  if measure == 'rectangle' and (centred or not turning) and words <= MOST_WORDS:
    return _looked_up(areas, side, turning)
  return _resized_by_scene(areas, side, turning, measure)


def fractions_inside(design: Design, size: np.ndarray, pixels: np.ndarray, side: int) -> np.ndarray:
  """Returns the share of objects on the canvas at every level, float32 [P, L].

  `size` is int [P, 2], height and width of the cutouts, `pixels` int [P], what an area measures.
  """
  levels = [parameters(design)[name] for name in LEVEL]

  def of_pair(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
    size, pixels = pair
    return jax.vmap(
      lambda area, angle, x, y: place(size, area, angle, x, y, side, pixels).fraction
    )(*levels)

  pairs = jnp.asarray(size), jnp.asarray(pixels)
  return np.asarray(jax.jit(lambda *pairs: jax.lax.map(of_pair, pairs))(*pairs))


def _resized_by_scene(areas: Sequence[float], side: int, turning: bool, measure: str) -> Shown:
  """Every scene resizes the cutout."""
  sequential = jax.default_backend() == 'cpu'
  steps = [0.0]
  if sequential:  # areas from just below the least on, each √2 times the one before
    count = 1 + math.floor(2 * math.log2(max(areas) / min(areas)) + 1e-9)
    steps = [min(areas) * (1 - 1e-5) * math.sqrt(2.0) ** step for step in range(count)]

  def prepare(row: Row) -> dict[str, jax.Array]:
    rest, cutout = _cutout(row)
    pixels = compose.counted(cutout, measure)
    counts = {} if pixels is None else {'cutout_pixels': pixels}
    return {**rest, 'cutout': cutout, **counts}

  def show(key: jax.Array, row: Row, view: Row) -> jax.Array:
    factors = (view['area'], view['angle'] if turning else 0.0, view['x'], view['y'])
    cutouts, index = located(row, 'cutout')
    size, pixels, background = row['foreground_size'], row.get('cutout_pixels'), row['image']

    def composed(least_area: float) -> jax.Array:
      most = most_scale(cutouts.shape[1:3], least_area, side) if sequential else math.inf
      return compose.compose(cutouts, index, size, pixels, background, factors, turning, most)[0]

    branch = jnp.searchsorted(jnp.asarray(steps), view['area'], side='right') - 1
    return jax.lax.switch(branch, [functools.partial(composed, least) for least in steps])

  return show, prepare


def _looked_up(areas: Sequence[float], side: int, turning: bool) -> Shown:
  """The cutout is resized once for each area."""
  sequential = jax.default_backend() == 'cpu'
  room = _sheet_side(max(areas), side, turning)

  def sheet(cutout: jax.Array, size: jax.Array, area: float) -> tuple[jax.Array, jax.Array]:
    """Returns a packed cutout at a size, uint32 [D, D], and the place of its first pixel."""
    placement = place(size, area, 0.0, 0.5, 0.5, side)
    most = most_scale(cutout.shape[:2], area, side) if sequential else math.inf
    if turning:
      window, offset = compose.visible(cutout[None], 0, size, placement, side, most)
      return compose.pack(window), offset
    along = jnp.arange(room - 2 * side)
    pixels = resize_pixels(cutout[None], 0, size, placement.resized, (along, along), most)
    return jnp.pad(compose.pack(pixels), side), jnp.full(2, -side, jnp.int32)

  def prepare(row: Row) -> dict[str, jax.Array]:
    rest, cutout = _cutout(row)
    made = [sheet(cutout, row['foreground_size'], area) for area in areas]
    sheets, offsets = (jnp.stack(column) for column in zip(*made, strict=True))
    return {**rest, 'sheets': sheets, 'sheet_offsets': offsets}

  def look_up(key: jax.Array, row: Row, view: Row) -> jax.Array:
    angle, background = view['angle'] if turning else 0.0, row['image']
    placement = place(row['foreground_size'], view['area'], angle, view['x'], view['y'], side)
    stored, number = located(row, 'sheets')
    index, sheets = number * stored.shape[1] + view['sheet'], stored.reshape(-1, *stored.shape[2:])
    offset = row['sheet_offsets'][view['sheet']]
    if turning:
      lines = compose.BAND if sequential else side
      return compose.paste_rotated(sheets, index, offset, background, placement, lines)
    first = -placement.corner - offset
    words = jax.lax.dynamic_slice(sheets, (index, first[0], first[1]), (1, side, side))[0]
    return compose.blend(*compose.unpack(words), background)

  return look_up, prepare


def _sheet_side(area: float, side: int, turning: bool) -> int:
  """Returns the side of a sheet that holds whatever of a cutout a scene can show.

  Upright, a canvas of nothing lies around the cutout, so that a scene is a window of the sheet.
  """
  if turning:
    return math.ceil(math.sqrt(2) * side) + 12
  return math.ceil(side * math.sqrt(area * LONGEST)) + 1 + 2 * side


def _cutout(row: Row) -> tuple[dict[str, jax.Array], jax.Array]:
  """Returns all columns but the foreground, and the premultiplied cutout, uint8 [F, F, 4]."""
  if 'foreground' not in row:
    raise InputError(
      f"the data hold no objects: set {KEYS.data.source}='scenes' (folders of "
      "cutouts and backgrounds) or 'drawn_scenes'; for scenes that are stored, "
      f'{KEYS.study.stored}=True.'
    )
  columns, index = located(row, 'foreground')
  # A choice keeps XLA from fusing the cut with what is computed of it, which is ten times slower.
  foreground = jax.lax.cond(
    jnp.asarray(index) >= 0,
    lambda: columns[index],
    lambda: jnp.zeros(columns.shape[1:], columns.dtype),
  )
  foreground = foreground.astype(jnp.float32) / 255
  rest = {name: value for name, value in row.items() if name != 'foreground'}
  return rest, jnp.round(255 * compose.premultiplied(foreground)).astype(jnp.uint8)
