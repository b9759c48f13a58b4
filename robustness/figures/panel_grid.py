"""Where maps, their differences and colour bars stand on the page, in inches."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.figures import style

_LEFT = 0.68  # vertical tick labels and axis name
_GAP = 0.2  # between maps on one scale
_BAR = 0.1  # width of a colour bar, and of the space before it
_BAR_TEXT = 0.56  # its ticks and name
_WIDE_BAR_TEXT = 0.64  # with a name of two lines
_BELOW = 0.6  # horizontal tick labels and axis name
_LEGEND = 0.26
_LINE = 0.125  # a line of a title
_LETTER = 0.066  # of a title of the usual size
_SMALL, _SMALL_TITLE = 1.4, 6.0  # inches: maps above which titles have so many points

Place = tuple[int, int]
"""Row and column of a map, from the top left."""


class Grid:
  """Axes for K maps, colour bars, and for the K − 1 differences with bars of their own.

  Two maps and their difference stand in one row. From three on rows of up to six maps take turns
  with rows of differences, each below its own map. Every colour bar is exactly as tall as the maps
  beside it.

  Attributes:
    figure: holds everything once `draw` was called; one column wide for a single map, else a page.
    letters: how many letters a line above a map has room for.
    title_size: of these letters, points.
    first: K axes for the maps.
    first_bars: axes of their colour bars, one a row.
    second: K − 1 axes for the differences.
    second_bars: axes of their colour bars.
  """

  def __init__(self, count: int):
    """Args:
    count: K, at least 1.
    """
    self._count = count
    self._columns = 3 if count == 2 else min(count, 4 if count <= 8 else 5 if count <= 10 else 6)
    self._width = style.COLUMN_WIDTH if count == 1 else style.PAGE_WIDTH
    bar = 2 * _BAR + (_BAR_TEXT if count == 1 else _WIDE_BAR_TEXT)
    self._middle = 2 * _BAR + _BAR_TEXT - _GAP if count == 2 else 0.0
    fixed = _LEFT + (self._columns - 1) * _GAP + self._middle + bar
    self._cell = (self._width - fixed) / self._columns
    self.title_size = 8.0 if self._cell > _SMALL else _SMALL_TITLE
    self.letters = int((self._cell + 0.5 * _GAP) / (_LETTER * self.title_size / 8.0))

  def draw(self, ratio: float, title_lines: int) -> None:
    """Makes the axes.

    Args:
      ratio: height of a map divided by its width.
      title_lines: lines of text above a map.
    """
    maps, differences = _places(self._count, self._columns)
    rows = 1 + max(row for row, _ in [*maps, *differences])
    titles = _LINE * title_lines * self.title_size / 8.0 + 0.13
    self._tall = self._cell * ratio
    self._pitch = self._tall + titles + 0.2
    self._bottom = (_LEGEND if self._count > 1 else 0.0) + _BELOW + (rows - 1) * self._pitch
    self.figure = Figure(figsize=(self._width, self._bottom + self._tall + titles))
    self.first, self.second = ([self._map(p) for p in places] for places in (maps, differences))
    self.first_bars = self._bars(maps, self.first)
    self.second_bars = self._bars(differences, self.second)
    self._label([*maps, *differences])

  def _label(self, places: list[Place]) -> None:
    """Names the vertical axis at the left of each row, the horizontal one where no map is below."""
    for (row, column), axes in zip(places, [*self.first, *self.second], strict=True):
      lowest = all(other <= row for other, of in places if of == column)
      leftmost = all(of >= column for other, of in places if other == row)
      axes.tick_params(labelleft=leftmost, labelbottom=lowest)
      if lowest:
        axes.set_xlabel('horizontal frequency\n(cycles per image)', fontsize=self.title_size)
      if leftmost:
        axes.set_ylabel('vertical frequency\n(cycles per image)', fontsize=self.title_size)

  def _map(self, place: Place) -> Axes:
    row, column = place
    left = _LEFT + column * (self._cell + _GAP) + (self._middle if column == 2 else 0.0)
    return self._axes(left, self._bottom - row * self._pitch, self._cell)

  def _bars(self, places: list[Place], maps: list[Axes]) -> list[Axes]:
    """Returns axes beside the last map of each row."""
    width, height = self.figure.get_size_inches()
    last = dict(zip((row for row, _ in places), maps, strict=True))
    boxes = [axes.get_position() for axes in last.values()]
    return [self._axes(box.x1 * width + 0.7 * _BAR, box.y0 * height, _BAR) for box in boxes]

  def _axes(self, left: float, bottom: float, width: float) -> Axes:
    page_width, page_height = self.figure.get_size_inches()
    return self.figure.add_axes(
      (left / page_width, bottom / page_height, width / page_width, self._tall / page_height)
    )


def _places(count: int, columns: int) -> tuple[list[Place], list[Place]]:
  """Returns where the maps stand, and where the differences of all but the first do."""
  if count <= 2:
    return [(0, column) for column in range(count)], [(0, 2)][: count - 1]
  rows = [divmod(index, columns) for index in range(count)]
  return [(2 * r, c) for r, c in rows], [(2 * r + 1, c) for r, c in rows[1:]]
