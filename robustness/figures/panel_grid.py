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
_SMALLEST_MAP = 1.45


class Grid:
  """Axes for K maps, a colour bar, and for the K − 1 differences with another.

  Two maps and their difference stand in one row; from three on the differences stand in
  a second row, each below its own map. Every colour bar is exactly as tall as the maps.

  Attributes:
    figure: holds everything.
    first: K axes for the maps.
    first_bar: axes of their colour bar.
    second: K − 1 axes for the differences.
    second_bar: axes of their colour bar; None for a single map.
  """

  def __init__(self, count: int, ratio: float, title_lines: int):
    """Makes the axes.

    Args:
      count: K, at least 1.
      ratio: height of a map divided by its width.
      title_lines: lines of text above a map.
    """
    self._in_row = 3 if count == 2 else count
    width = style.COLUMN_WIDTH if count == 1 else style.PAGE_WIDTH
    fixed = self._row_width(count, 0.0)
    self._cell = max(_SMALLEST_MAP, (width - fixed) / self._in_row)
    self._tall = self._cell * ratio
    rows = 2 if count > 2 else 1
    row_height = self._tall + _BELOW + _LINE * title_lines + 0.1
    legend = _LEGEND if count > 1 else 0.0
    size = (self._row_width(count, self._cell), rows * row_height + legend)
    self.figure = Figure(figsize=size)
    bottom = legend + _BELOW + (rows - 1) * row_height
    self.first = [self._map(i, bottom) for i in range(count)]
    self.first_bar = self._bar(self.first[-1])
    self.second, self.second_bar = self._differences(count, legend + _BELOW)

  def label(self) -> None:
    """Names the axes: the vertical one at the left of each row only."""
    for row in self._rows():
      for axes in row:
        axes.set_xlabel('horizontal frequency\n(cycles per image)')
        axes.tick_params(labelleft=axes is row[0])
      row[0].set_ylabel('vertical frequency\n(cycles per image)')

  def _rows(self) -> list[list[Axes]]:
    if len(self.first) == 2:
      return [self.first + self.second]
    return [row for row in (self.first, self.second) if row]

  def _row_width(self, count: int, cell: float) -> float:
    bar = 2 * _BAR + (_BAR_TEXT if count == 1 else _WIDE_BAR_TEXT)
    middle = 2 * _BAR + _BAR_TEXT - _GAP if count == 2 else 0.0
    return _LEFT + self._in_row * cell + (self._in_row - 1) * _GAP + middle + bar

  def _differences(self, count: int, bottom: float) -> tuple[list[Axes], Axes | None]:
    if count == 1:
      return [], None
    if count == 2:
      axes = [self._map(2, bottom, 2 * _BAR + _BAR_TEXT - _GAP)]
    else:
      axes = [self._map(i, bottom) for i in range(1, count)]
    return axes, self._bar(axes[-1])

  def _map(self, index: int, bottom: float, shift: float = 0.0) -> Axes:
    left = _LEFT + index * (self._cell + _GAP) + shift
    return self._axes(left, bottom, self._cell)

  def _bar(self, beside: Axes) -> Axes:
    width, height = self.figure.get_size_inches()
    place = beside.get_position()
    return self._axes(place.x1 * width + 0.7 * _BAR, place.y0 * height, _BAR)

  def _axes(self, left: float, bottom: float, width: float) -> Axes:
    page_width, page_height = self.figure.get_size_inches()
    return self.figure.add_axes(
      (left / page_width, bottom / page_height, width / page_width, self._tall / page_height)
    )
