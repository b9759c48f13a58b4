"""View functions that compose an object and a background, a row, at a level of a design.

Resizing the object takes most of the time. If the views of a row have few different sizes, the
object is resized once per size to a sheet, an image of 8 bits per channel. A scene then only reads
pixels of the sheet: a window of it if the object is upright, 4 × 4 pixels per pixel if it is
rotated.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.sequential import column_and_position
from robustness.scenes import composition
from robustness.scenes.designs import LEVEL, LONGEST, Design, is_centred
from robustness.scenes.geometry import place
from robustness.scenes.resize import most_scale, resize_pixels

Row = Mapping[str, jax.Array]
"""Columns of a row of object and background."""
MAX_SHEET_PIXELS = 2**22
"""Largest number of pixels of a row's sheets; beyond it, each scene resizes its cutout."""


Shown = tuple[Callable[..., jax.Array], Callable[[Row], dict[str, jax.Array]]]
"""`show` and `prepare` of `robustness.evaluation.views.Views`, for rows processed one by one."""


def level_parameters(design: Design) -> dict[str, np.ndarray]:
  """Returns {'area', 'angle', 'x', 'y' or 'sheet': its value at each level of a design, [L]}.

  The cutout is resized once for each distinct area, to an image called sheet. `sheet` is the index
  of a level's area among the sorted distinct areas.
  """
  factors = {name: values.astype(np.float32) for name, values in design.factors.items()}
  sheet = np.unique(design.area, return_inverse=True)[1].astype(np.int32)
  return {**factors, 'sheet': sheet}


def scene_functions(design: Design, side: int, measure: str) -> Shown:
  """Returns the functions `show` and `prepare` that make the scenes of a design.

  `prepare(row)` is called once for each row, an object and a background, and returns the row that
  `show` takes; `show(key, row, view)` returns the scene at one level, [S, S, 3]. If the design has
  few sizes, `prepare` resizes the cutout once for each size. Otherwise `show` resizes it, and
  `prepare` only premultiplies it (in 8 bits per channel, like Pillow).

  Args:
    design: the levels.
    side: side of the canvas in pixels.
    measure: what an area measures: 'rectangle', all pixels of the cutout, or 'mask'.
  """
  turning = bool(np.any(design.angle % 360))
  areas = np.unique(design.area).tolist()
  num_pixels = len(areas) * _sheet_side(max(areas), side, turning) ** 2
  # A sheet is large enough for a cutout if its rectangle has the area, but not if its mask has it.
  # A rotated cutout must be centred, because its sheet is only the window around the middle of the
  # canvas.
  can_share = measure == 'rectangle' and (is_centred(design) or not turning)
  if can_share and num_pixels <= MAX_SHEET_PIXELS:
    return _scenes_from_sheet(areas, side, turning)
  return _resized_by_scene(areas, side, turning, measure)


def fractions_inside(design: Design, size: np.ndarray, pixels: np.ndarray, side: int) -> np.ndarray:
  """Returns which fraction of each object is on the canvas at every level, float32 [P, L].

  The object's extent is the bounding rectangle of the rotated cutout.

  Args:
    design: the design with L levels.
    size: heights and widths of the cutouts, int [P, 2].
    pixels: number of pixels of each object that count as its area, int [P].
    side: side of the canvas in pixels.
  """
  levels = [level_parameters(design)[name] for name in LEVEL]  # in the order of the arguments below

  def of_pair(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Returns the fraction of one object that is on the canvas, at each of L levels, [L].

    `pair` is the (height, width) of the object's cutout, and its number of pixels.
    """
    size, pixels = pair
    return jax.vmap(
      lambda area, angle, x, y: place(size, area, angle, x, y, side, pixels).fraction
    )(*levels)

  pairs = jnp.asarray(size), jnp.asarray(pixels)
  return np.asarray(jax.jit(lambda *pairs: jax.lax.map(of_pair, pairs))(*pairs))


def _resized_by_scene(areas: Sequence[float], side: int, turning: bool, measure: str) -> Shown:
  """Returns `show`, which resizes the cutout for every scene, and `prepare`, which does not.

  `prepare(row)` is called once per row, `show(key, row, view)` once per scene.

  Args:
    areas: distinct areas of the design, fractions of the canvas.
    side: side of the canvas in pixels.
    turning: whether scenes rotate the cutout.
    measure: what an area measures: 'rectangle', all pixels of the cutout, or 'mask'.
  """
  is_sequential = jax.default_backend() == 'cpu'
  # A CPU resizes faster if the compiler knows a bound of the reduction. Therefore a program is
  # compiled for each range of areas [steps[i], steps[i + 1]), with ratio √2. The first step is just
  # below the smallest area. Other devices have one program, for all areas.
  steps = [0.0]
  if is_sequential:
    count = 1 + math.floor(2 * math.log2(max(areas) / min(areas)) + 1e-9)
    steps = [min(areas) * (1 - 1e-5) * math.sqrt(2.0) ** step for step in range(count)]

  def prepare(row: Row) -> dict[str, jax.Array]:
    """Returns a row with its cutout premultiplied, and with `cutout_pixels` if areas are of masks.

    `cutout_pixels` is the number of pixels in the mask of the cutout.
    """
    columns, cutout = _cutout(row)
    pixels = composition.num_counted_pixels(cutout, measure)
    counts = {} if pixels is None else {'cutout_pixels': pixels}
    return {**columns, 'cutout': cutout, **counts}

  def show(key: jax.Array, row: Row, view: Row) -> jax.Array:
    """Returns the scene of a row from `prepare` at the level of a view, [S, S, 3].

    `view` has `area`, `angle`, `x` and `y`; `key` is not used.
    """
    factors = (view['area'], view['angle'] if turning else 0.0, view['x'], view['y'])
    cutouts, index = column_and_position(row, 'cutout')
    size, pixels, background = row['foreground_size'], row.get('cutout_pixels'), row['image']

    def composed(min_area: float) -> jax.Array:
      """Returns the scene by a program that is right if its area is at least `min_area`."""
      bound = most_scale(cutouts.shape[1:3], min_area, side) if is_sequential else math.inf
      scene, _ = composition.paste_cutout(
        cutouts, index, size, pixels, background, factors, rotate=turning, max_reduction=bound
      )
      return scene

    # The range that contains the view's area: the last that begins at or below it.
    branch = jnp.searchsorted(jnp.asarray(steps), view['area'], side='right') - 1
    return jax.lax.switch(branch, [functools.partial(composed, area) for area in steps])

  return show, prepare


def _scenes_from_sheet(areas: Sequence[float], side: int, turning: bool) -> Shown:
  """Returns `show` and `prepare`; only `prepare` resizes the cutout, once for each area.

  `prepare(row)` is called once per row and makes the resized cutouts, called sheets.
  `show(key, row, view)` is called once per scene and reads its pixels from a sheet.

  Args:
    areas: distinct areas of the design, fractions of the canvas.
    side: side of the canvas in pixels.
    turning: whether scenes rotate the cutout.
  """
  is_sequential = jax.default_backend() == 'cpu'
  room = _sheet_side(max(areas), side, turning)

  def sheet(cutout: jax.Array, size: jax.Array, area: float) -> tuple[jax.Array, jax.Array]:
    """Returns the sheet of one area, uint32 [D, D] with 8 bits per channel, and its offset.

    The offset, int32 [2], is the row and column in the resized cutout of the sheet's first pixel.

    Args:
      cutout: [h, w, 4], premultiplied.
      size: int32 [2], height and width of the cutout in this array.
      area: area of the resized cutout as a fraction of the canvas.
    """
    placement = place(size, area, angle=0.0, x=0.5, y=0.5, side=side)
    bound = most_scale(cutout.shape[:2], area, side) if is_sequential else math.inf
    if turning:
      window, offset = composition.visible_window(cutout[None], 0, size, placement, side, bound)
      return composition.pack(window), offset
    along = jnp.arange(room - 2 * side)  # without the empty canvas on both sides
    pixels = resize_pixels(cutout[None], 0, size, placement.resized, (along, along), bound)
    return jnp.pad(composition.pack(pixels), side), jnp.full(2, -side, jnp.int32)

  def prepare(row: Row) -> dict[str, jax.Array]:
    """Returns a row with a sheet for each area in place of the cutout."""
    columns, cutout = _cutout(row)
    by_area = [sheet(cutout, row['foreground_size'], area) for area in areas]
    sheets, offsets = (jnp.stack(arrays) for arrays in zip(*by_area, strict=True))
    return {**columns, 'sheets': sheets, 'sheet_offsets': offsets}

  def look_up(key: jax.Array, row: Row, view: Row) -> jax.Array:
    """Returns the scene of a row from `prepare` at the level of a view, [S, S, 3].

    `view` has `area`, `angle`, `x`, `y` and `sheet`, the index of its area; `key` is not used.
    """
    angle, background = view['angle'] if turning else 0.0, row['image']
    placement = place(row['foreground_size'], view['area'], angle, view['x'], view['y'], side)
    # [rows, areas, D, D], and the position of this row; the sheets are not copied.
    sheets_of_rows, number = column_and_position(row, 'sheets')
    # The sheets of all rows in one list, and the index of the view's sheet in it.
    index = number * len(areas) + view['sheet']
    sheets = sheets_of_rows.reshape(-1, room, room)
    offset = row['sheet_offsets'][view['sheet']]
    if turning:
      # In a loop over scenes, as on a CPU, only the lines that show the cutout are computed.
      lines = composition.BAND if is_sequential else side
      return composition.paste_rotated(sheets, index, offset, background, placement, lines)
    # The canvas's first pixel in the sheet. An object beyond the canvas has a negative one, which
    # would be counted from the sheet's end; the sheet's margin is empty like all that is farther.
    first = jnp.maximum(-placement.corner - offset, 0)
    words = jax.lax.dynamic_slice(sheets, (index, first[0], first[1]), (1, side, side))[0]
    return composition.blend(*composition.unpack(words), background)

  return look_up, prepare


def _sheet_side(area: float, side: int, turning: bool) -> int:
  """Returns the side in pixels of a sheet, a square image with a resized cutout in it.

  If the cutout is not rotated, the sheet has a margin of `side` pixels on each side, so that every
  scene is a window of the sheet that has the side of the canvas.

  Args:
    area: largest area of a resized cutout, as a fraction of the canvas.
    side: side of the canvas in pixels.
    turning: whether scenes rotate the cutout.
  """
  if turning:
    return composition.window_side(side)  # holds the cutout at every angle
  # the longer side of the cutout, rounded up, and an empty canvas on both sides
  return math.ceil(side * math.sqrt(area * LONGEST)) + 1 + 2 * side


def _cutout(row: Row) -> tuple[dict[str, jax.Array], jax.Array]:
  """Returns a row without `foreground`, and this cutout premultiplied by alpha, uint8 [F, F, 4]."""
  if 'foreground' not in row:
    raise InputError(
      f"the data hold no objects: set {KEYS.data.source}='scenes' (folders of "
      "cutouts and backgrounds) or 'drawn_scenes'; for scenes that are stored, "
      f'{KEYS.study.stored}=True.'
    )
  cutouts, index = column_and_position(row, 'foreground')  # of all rows, and the index of this one
  # The condition, which is always true, keeps XLA from fusing the slice with what uses it: that
  # would be ten times slower.
  foreground = jax.lax.cond(
    jnp.asarray(index) >= 0,
    lambda: cutouts[index],
    lambda: jnp.zeros(cutouts.shape[1:], cutouts.dtype),
  )
  foreground = foreground.astype(jnp.float32) / 255
  remaining = {name: value for name, value in row.items() if name != 'foreground'}
  return remaining, jnp.round(255 * composition.premultiplied(foreground)).astype(jnp.uint8)
