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
from robustness.scenes.designs import LEVEL, MAX_ASPECT, Design, is_centred, num_mask_pixels
from robustness.scenes.geometry import place
from robustness.scenes.resize import reduction_bound, resize_pixels

Row = Mapping[str, jax.Array]
"""Columns of a row of object and background."""
MAX_SHEET_PIXELS = 2**22
"""Largest number of pixels of a row's sheets; beyond it, each scene resizes its cutout."""


Shown = tuple[Callable[..., jax.Array], Callable[[Row], dict[str, jax.Array]]]
"""`show` and `prepare` of `robustness.evaluation.views.Views`, for rows processed one by one."""


def level_parameters(design: Design) -> dict[str, np.ndarray]:
  """Returns the parameters of each level (combination of factors) of a design, arrays [L].

  The dictionary has the keys 'area', 'angle', 'x', 'y' and 'sheet'. 'sheet' is the index of the
  level's area among the distinct areas, sorted. A sheet is an image of the cutout resized to one
  area.
  """
  factors = {name: values.astype(np.float32) for name, values in design.factors.items()}
  sheet = np.unique(design.area, return_inverse=True)[1].astype(np.int32)
  return {**factors, 'sheet': sheet}


def scene_functions(design: Design, side: int, measure: str) -> Shown:
  """Returns the functions that make a design's scenes, `show` and `prepare`.

  `prepare(row)` is called once for each row of data, which holds a cutout and a background.
  `show(key, row, view)` takes the prepared row and returns one scene, [S, S, 3]. The view has the
  area, angle and position.

  If the design has few distinct areas, `prepare` resizes the cutout once to each of them. Otherwise
  `show` resizes it for each scene.

  Args:
    design: areas, angles and positions of the scenes.
    side: side of the canvas in pixels.
    measure: what counts as the cutout's area: 'rectangle', or 'mask' for the pixels of its mask.
  """
  rotates = bool(np.any(design.angle % 360))
  areas = np.unique(design.area).tolist()
  num_pixels = len(areas) * _sheet_side(max(areas), side, rotates) ** 2  # of a sheet for each area
  # A sheet is too small for a cutout with a mask of the stated area: its rectangle is larger. The
  # sheet of a rotated cutout has only what the canvas shows if the cutout is in its centre.
  fits_sheets = measure == 'rectangle' and (is_centred(design) or not rotates)
  if fits_sheets and num_pixels <= MAX_SHEET_PIXELS:
    return _scenes_from_sheet(areas, side, rotates)
  return _resized_by_scene(areas, side, rotates, measure)


def fractions_inside(design: Design, size: np.ndarray, pixels: np.ndarray, side: int) -> np.ndarray:
  """Returns the fraction of each object that is on the canvas in each scene, float32 [P, L].

  The object's extent is the bounding rectangle of the rotated cutout.

  Args:
    design: the L combinations of area, angle and position.
    size: heights and widths of the cutouts, int [P, 2].
    pixels: number of pixels of each object that count as its area, int [P].
    side: side of the canvas in pixels.
  """
  levels = [level_parameters(design)[name] for name in LEVEL]  # in the order of the arguments below

  def fractions(size_and_pixels: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Returns the fraction of one object that is on the canvas in each of its L scenes, [L].

    `levels` has the areas, angles and positions (x, y) of the scenes, [L] each.

    Args:
      size_and_pixels: height and width of the object's cutout, [2], and the number of pixels that
        count as its area.
    """
    size, pixels = size_and_pixels
    return jax.vmap(
      lambda area, angle, x, y: place(size, area, angle, x, y, side, pixels).fraction
    )(*levels)

  of_all_objects = jax.jit(lambda *objects: jax.lax.map(fractions, objects))
  return np.asarray(of_all_objects(jnp.asarray(size), jnp.asarray(pixels)))


def _resized_by_scene(areas: Sequence[float], side: int, rotates: bool, measure: str) -> Shown:
  """Returns `show` and `prepare` for a design in which every scene resizes the cutout.

  `prepare(row)` is called once for each row of data, a cutout and a background. `show(key, row,
  view)` is called for each scene.

  Args:
    areas: distinct areas of the design, fractions of the canvas.
    side: side of the canvas in pixels.
    rotates: whether any scene rotates the cutout.
    measure: what counts as the cutout's area: 'rectangle', or 'mask' for the pixels of its mask.
  """
  is_sequential = jax.default_backend() == 'cpu'
  # A CPU resizes faster if the compiler knows how much the cutout is reduced at most, which depends
  # on its smallest area. Therefore a program is compiled for each range of areas: range i begins at
  # `range_starts[i]` and ends at √2 times that. The first one begins just below the smallest area,
  # because areas are rounded to float32. Other devices have one program, for all areas.
  range_starts = [0.0]
  if is_sequential:
    num_ranges = 1 + math.floor(2 * math.log2(max(areas) / min(areas)) + 1e-9)  # up to rounding
    range_starts = [min(areas) * (1 - 1e-5) * math.sqrt(2.0) ** i for i in range(num_ranges)]

  def prepare(row: Row) -> dict[str, jax.Array]:
    """Premultiplies the colours of a cutout by its alpha, once for all scenes of a row.

    Args:
      row: columns of an object's cutout and a background.

    Returns:
      The row with the cutout. If areas are measured by masks, `cutout_pixels` is added: the number
      of pixels in its mask.
    """
    columns, cutout = _split_off_cutout(row)
    prepared = {**columns, 'cutout': cutout}
    if measure == 'mask':
      prepared['cutout_pixels'] = num_mask_pixels(cutout[..., 3])
    return prepared

  def show(key: jax.Array, row: Row, view: Row) -> jax.Array:
    """Makes one scene from a prepared cutout and background, [S, S, 3].

    Args:
      key: not used.
      row: what `prepare` returned for this object and background.
      view: scalars `area`, `angle`, `x` and `y` of the scene.
    """
    factors = (view['area'], view['angle'] if rotates else 0.0, view['x'], view['y'])
    cutouts, index = column_and_position(row, 'cutout')  # of all rows, and the index of this one
    size, pixels, background = row['foreground_size'], row.get('cutout_pixels'), row['image']

    def scene_from(min_area: float) -> jax.Array:
      """Renders the scene by a program for objects with at least a certain area.

      Larger objects are scaled down less, so that their program reads fewer pixels and is faster.
      There are several programs, each for a range of areas, and `lax.switch` selects one.

      Args:
        min_area: the smallest area in the range, as a fraction of the canvas.

      Returns:
        The scene, [S, S, 3].
      """
      bound = reduction_bound(cutouts.shape[1:3], min_area, side) if is_sequential else math.inf
      scene, _ = composition.paste_cutout(
        cutouts, index, size, pixels, background, factors, rotate=rotates, max_reduction=bound
      )
      return scene

    programs = [functools.partial(scene_from, start) for start in range_starts]
    # the range of the view's area is the last that begins at or below it
    range_of_view = jnp.searchsorted(jnp.asarray(range_starts), view['area'], side='right') - 1
    return jax.lax.switch(range_of_view, programs)

  return show, prepare


def _scenes_from_sheet(areas: Sequence[float], side: int, rotates: bool) -> Shown:
  """Returns `show` and `prepare` for a design in which scenes share resized cutouts.

  `prepare(row)` is called once for each row of data, a cutout and a background. It resizes the
  cutout to each area and stores the results in images called sheets. `show(key, row, view)` is
  called for each scene and reads its pixels from a sheet.

  Args:
    areas: distinct areas of the design, fractions of the canvas.
    side: side of the canvas in pixels.
    rotates: whether any scene rotates the cutout.
  """
  is_sequential = jax.default_backend() == 'cpu'
  sheet_side = _sheet_side(max(areas), side, rotates)

  def make_sheet(cutout: jax.Array, size: jax.Array, area: float) -> tuple[jax.Array, jax.Array]:
    """Resizes a cutout to an area and stores it in a larger square image, its sheet.

    A scene is a canvas of S × S pixels (S is `side`) on which the cutout is pasted. If no scene
    rotates the cutout, the sheet is the resized cutout with margins of S pixels. Otherwise it is
    the part of the cutout that scenes can show. `is_sequential` is true on CPUs, which process
    scenes one by one; only there is the reduction bounded.

    Args:
      cutout: [h, w, 4], premultiplied, uint8.
      size: int32 [2], height and width of the cutout, which fills the top left of [h, w].
      area: area of the resized cutout as a fraction of the canvas.

    Returns:
      The sheet, uint32 [D, D] with 8 bits per channel, and its offset, int32 [2]: the row and
      column of the sheet's first pixel in the resized cutout. D is `sheet_side`.
    """
    placement = place(size, area, angle=0.0, x=0.5, y=0.5, side=side)
    bound = reduction_bound(cutout.shape[:2], area, side) if is_sequential else math.inf
    if rotates:
      window, offset = composition.visible_window(cutout[None], 0, size, placement, side, bound)
      return composition.pack(window), offset
    # every row and column of the sheet without its margins of `side` pixels
    rows = columns = jnp.arange(sheet_side - 2 * side)
    pixels = resize_pixels(cutout[None], 0, size, placement.resized, (rows, columns), bound)
    return jnp.pad(composition.pack(pixels), side), jnp.full(2, -side, jnp.int32)

  def prepare(row: Row) -> dict[str, jax.Array]:
    """Resizes the cutout of a row to each area of the design, once for all scenes of the row.

    Args:
      row: columns of an object's cutout and a background.

    Returns:
      The row with the resized cutouts, `sheets` [areas, D, D], and their offsets [areas, 2], in
      place of the cutout.
    """
    columns, cutout = _split_off_cutout(row)
    by_area = [make_sheet(cutout, row['foreground_size'], area) for area in areas]
    sheets, offsets = (jnp.stack(arrays) for arrays in zip(*by_area, strict=True))
    return {**columns, 'sheets': sheets, 'sheet_offsets': offsets}

  def look_up(key: jax.Array, row: Row, view: Row) -> jax.Array:
    """Makes one scene by reading the resized cutout from its sheet, [S, S, 3].

    Args:
      key: not used.
      row: what `prepare` returned for this object and background.
      view: scalars `area`, `angle`, `x` and `y` of the scene, and `sheet`, the index of its area.
    """
    background = row['image']
    angle = view['angle'] if rotates else 0.0
    placement = place(row['foreground_size'], view['area'], angle, view['x'], view['y'], side)
    # [rows, areas, D, D], and the position of this row; the sheets are not copied.
    sheets_of_rows, position = column_and_position(row, 'sheets')
    sheets = sheets_of_rows.reshape(-1, sheet_side, sheet_side)  # [rows · areas, D, D]
    index = position * len(areas) + view['sheet']  # index of the view's sheet in `sheets`
    offset = row['sheet_offsets'][view['sheet']]
    if rotates:
      # In a loop over scenes, as on a CPU, only the lines that show the cutout are computed.
      lines = composition.BAND if is_sequential else side
      return composition.paste_rotated(sheets, index, offset, background, placement, lines)
    # The canvas's first pixel in the sheet. It is negative if the object is not on the canvas; the
    # margin of the sheet, which is then shown, is empty.
    corner = jnp.maximum(-placement.corner - offset, 0)
    words = jax.lax.dynamic_slice(sheets, (index, corner[0], corner[1]), (1, side, side))[0]
    return composition.blend(*composition.unpack(words), background)

  return look_up, prepare


def _sheet_side(area: float, side: int, rotates: bool) -> int:
  """Returns the side in pixels of a sheet, a square image that stores a resized cutout.

  If scenes rotate the cutout, the sheet holds the part of it that a canvas can show at any angle.
  Otherwise it holds the whole cutout with a margin of `side` pixels on all sides, so that a scene
  is a crop of the sheet.

  Args:
    area: largest area of a resized cutout, as a fraction of the canvas.
    side: side of the canvas in pixels.
    rotates: whether any scene rotates the cutout.
  """
  if rotates:
    return composition.window_side(side)
  # the longest side that a cutout of this area can have, a pixel for rounding, and the margins
  return math.ceil(side * math.sqrt(area * MAX_ASPECT)) + 1 + 2 * side


def _split_off_cutout(row: Row) -> tuple[dict[str, jax.Array], jax.Array]:
  """Takes the cutout out of a row of data, from the column `foreground`.

  Returns:
    The other columns, and the cutout, uint8 [F, F, 4], premultiplied by its alpha.
  """
  if 'foreground' not in row:
    raise InputError(
      f"the data hold no objects: set {KEYS.data.source}='scenes' (folders of "
      "cutouts and backgrounds) or 'drawn_scenes'; for scenes that are stored, "
      f'{KEYS.study.stored}=True.'
    )
  cutouts, index = column_and_position(row, 'foreground')  # of all rows, and the index of this one
  # Taking the cutout in a condition, which is always true, is ten times faster: otherwise XLA fuses
  # the slice with each computation that reads the cutout.
  foreground = jax.lax.cond(
    jnp.asarray(index) >= 0, lambda: cutouts[index], lambda: jnp.zeros_like(cutouts[0])
  )
  foreground = foreground.astype(jnp.float32) / 255
  columns = {name: value for name, value in row.items() if name != 'foreground'}
  return columns, jnp.round(255 * composition.premultiplied(foreground)).astype(jnp.uint8)
