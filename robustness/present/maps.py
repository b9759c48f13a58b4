"""Heatmaps: maps over two ordered facets, and grids over two facets with names.

Each function takes rows of the table of results with a boolean column `marked`, which is true for
significant differences. A cell shows one estimate.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from robustness.estimates.facets import FREQUENCY_X, FREQUENCY_Y
from robustness.present import style
from robustness.present.notation import FREQUENCIES, Notation, value_text
from robustness.present.style import panels
from robustness.results import NO_SPREAD

MAX_MAPS = 6
"""Most maps side by side."""
MIN_FONT_SIZE = 4.5
"""The smallest legible number in a cell, in points."""
MIN_LETTERS = 10
"""Fewest letters in a line of a map's label, however narrow the map is."""
_LEFT, _BAR, _TITLE, _BELOW = 0.65, 0.75, 0.35, 0.45
"""Sizes in inches: the vertical axis, a colour bar with its name, a title, the horizontal axis."""

_LINE = 0.13  # inches, the height of a line of a title or name
_MIN_CELL = 0.1  # inches, the least height of a cell with a number
_MAX_PAGES = 2  # height of a figure of several lines of grids, in pages
DECADES = 4  # maps show |F| down to 10^-4 of the largest value
_MIN_MAGNITUDE = 1e-12  # stands for zero on a logarithmic scale


class Panel(NamedTuple):
  """One plot of a figure, such as a heatmap or curves.

  Attributes:
    title: text above the plot.
    rows: rows of the table of results, one per cell of a heatmap or point of a curve.
    notation: how the values are written, and whether they are differences.
  """

  title: str
  rows: pd.DataFrame
  notation: Notation


@style.in_style
def maps(parts: Sequence[Panel], y: str, x: str, scaled: Sequence[Panel] = ()) -> Figure:
  """Draws heatmaps over two ordered columns, such as frequency and severity.

  Values and differences have a colour scale each. A black dot marks a significant difference. A
  cell without a value is grey.

  Args:
    parts: the heatmaps. Values are drawn before differences.
    y: column on the vertical axis, which grows downwards.
    x: column on the horizontal axis.
    scaled: further heatmaps that are not drawn but included in the colour scales.
  """
  quantity = parts[0].notation.quantity
  values = [panel for panel in parts if not panel.notation.difference]
  differences = [panel for panel in parts if panel.notation.difference]
  groups = [group for group in (values, differences) if group]  # each has a colour bar
  columns, positions_of_groups = _arrange_maps(list(map(len, groups)))
  positions = [position for positions in positions_of_groups for position in positions]
  lines = positions[-1] // columns + 1
  # Sizes in inches. Cells of a Fourier heatmap are square; other maps are not too low or high.
  width = style.COLUMN_WIDTH if len(parts) == 1 else style.PAGE_WIDTH
  bars_in_line = len(groups) if lines == 1 else 1
  map_width = (width - _LEFT - _BAR * bars_in_line) / columns
  letters_per_title = int(map_width / style.LETTER)
  titles = [style.wrapped(panel.title, letters_per_title) for panel in (*values, *differences)]
  first_table = cells_of(groups[0][0].rows, y, x)
  ratio = len(first_table) / len(first_table.columns)
  if (y, x) != FREQUENCIES:
    ratio = min(max(ratio, 0.6), 1.4)
  map_height = map_width * ratio
  height_of_title = _TITLE + _LINE * max(title.count('\n') for title in titles)
  height = _BELOW + lines * (map_height + height_of_title)
  figure, grid = panels(lines * columns, columns, (width, height), 'compressed')
  for empty in set(range(len(grid))) - set(positions):
    grid[empty].set_axis_off()
  # Titles, and names of the axes at the outer maps.
  for position, title in zip(positions, titles, strict=True):
    axes = grid[position]
    axes.set_title(title, fontsize=7)
    if position // columns == lines - 1:  # in the last line
      axes.set_xlabel(_wrap_to_width(quantity.facet(x).axis, map_width), fontsize=7)
    if position + columns not in positions:  # no map is below
      axes.tick_params(labelbottom=True)
    if position % columns == 0:  # in the first column
      axes.set_ylabel(_wrap_to_width(quantity.facet(y).axis, map_height), fontsize=7)
  for group, positions_of_group in zip(groups, positions_of_groups, strict=True):
    notation = group[0].notation
    same_kind = [panel for panel in scaled if panel.notation.difference == notation.difference]
    limits = limits_of([*group, *same_kind])
    for position, panel in zip(positions_of_group, group, strict=True):
      image = _draw_map(grid[position], panel, y, x, limits, map_width)
    start, stop = positions_of_group.start, positions_of_group.stop
    if lines > 1:  # the bar is at complete lines, with their empty plots, so that maps are aligned
      stop = math.ceil(stop / columns) * columns  # the end of the last line of the group
    bar = figure.colorbar(image, ax=grid[start:stop], shrink=0.9, aspect=18)
    line_height = map_height + height_of_title
    bar_height = 0.9 * (line_height * math.ceil(len(group) / columns) - height_of_title)
    bar.set_label(_wrap_to_width(notation.head, bar_height), fontsize=7)
  return figure


def _draw_map(
  axes: Axes, panel: Panel, y: str, x: str, limits: tuple[float, float], width: float
) -> ScalarMappable:
  """Draws a heatmap with a black dot on each significant difference, and returns its image.

  Args:
    axes: the plot.
    panel: rows of the table of results, and their notation.
    y: column on the vertical axis.
    x: column on the horizontal axis.
    limits: ends of the colour scale.
    width: width of the map in inches.
  """
  image = cell_image(axes, cells_of(panel.rows, y, x), panel.notation, limits)
  if panel.notation.difference:
    marks = panel.rows.assign(value=panel.rows.marked.astype(float))  # 0 or 1 for each cell
    is_marked = cells_of(marks, y, x) > 0
    rows, columns = np.nonzero(is_marked.to_numpy())
    size = min(2.0, 14 * width / max(len(is_marked.columns), 1))  # points
    style.mark_significant(axes, is_marked.columns[columns], is_marked.index[rows], size)
  return image


def _arrange_maps(counts: Sequence[int]) -> tuple[int, list[range]]:
  """Arranges groups of maps, values and differences, in lines of a figure.

  All maps are in one line if they fit. Otherwise each group begins a new line, next to which its
  colour bar is drawn.

  Args:
    counts: number of maps in each group.

  Returns:
    (number of maps in a line, positions of each group's maps). Positions are 0, 1, … from left to
    right, line by line. Positions at the end of a line may stay empty.
  """
  has_one_line = sum(counts) <= MAX_MAPS
  columns = sum(counts)
  if not has_one_line:  # the largest group gets lines of about equal length
    num_lines = math.ceil(max(counts) / MAX_MAPS)
    columns = math.ceil(max(counts) / num_lines)
  positions, start = [], 0
  for count in counts:
    positions.append(range(start, start + count))
    start += count
    if not has_one_line:
      start = math.ceil(start / columns) * columns  # the next line
  return columns, positions


def _wrap_to_width(text: str, inches: float) -> str:
  """Breaks a text into lines of at most `inches`.

  A unit in brackets at the end gets its own line if it does not fit in the last line.
  """
  letters = max(MIN_LETTERS, int(inches / style.LETTER))
  words, bracket, unit = text.partition(' (')
  lines = style.wrapped(words, letters)
  is_short = len(f'{lines.splitlines()[-1]}{bracket}{unit}') <= letters
  return f'{lines}{bracket}{unit}' if is_short else f'{lines}\n{style.wrapped(f"({unit}", letters)}'


def cells_of(rows: pd.DataFrame, y: str, x: str) -> pd.DataFrame:
  """Pivots estimates to a table [y, x] for a heatmap, with NaN in missing cells.

  A row of a Fourier heatmap fills two cells, for its frequency (y, x) and for (−y, −x). Both are
  the same plane wave.

  Args:
    rows: rows of the table of results.
    y: column with the vertical positions.
    x: column with the horizontal positions.
  """
  cells = rows[[y, x, 'value']].astype(float)
  if (y, x) != FREQUENCIES:
    return cells.pivot(index=y, columns=x, values='value')
  minus_y = _mirror_frequencies(cells[y], cells[x])
  minus_x = _mirror_frequencies(cells[x], cells[y])
  cells = pd.concat([cells, cells.assign(**{y: minus_y, x: minus_x})]).drop_duplicates([y, x])
  down = np.arange(cells[y].min(), cells[y].max() + 1)
  across = np.arange(cells[x].min(), cells[x].max() + 1)
  table = cells.pivot(index=y, columns=x, values='value').reindex(index=down, columns=across)
  # Frequencies −2, …, 1 of a window of even side are mirrored to −1, …, 2. The line and the column
  # of 2 have only some of the cells and are left out. In a window of odd side, −2, …, 2, they are
  # complete, with the corner (−2, 2).
  has_corner = ((cells[y] == down[0]) & (cells[x] == across[-1])).any()
  return table if has_corner else table.iloc[:-1, :-1]


def _mirror_frequencies(frequencies: pd.Series, other_axis: pd.Series) -> pd.Series:
  """Returns one coordinate, −y or −x, of the mirror images (−y, −x) of frequencies (y, x).

  The Nyquist frequency −N/2 of images with N pixels equals N/2 and is not negated. The rows do not
  state N. The lowest frequency f counts as −N/2 if no row has −f, and if rows with f have no
  positive frequency on the other axis, since (−N/2, x) and (−N/2, −x) are measured only once.

  Args:
    frequencies: frequency of each row on this axis, signed integers.
    other_axis: frequency of each row on the other axis.
  """
  lowest = frequencies.min()
  is_lowest = frequencies == lowest
  has_negative = (frequencies == -lowest).any()
  is_nyquist = not has_negative and not (other_axis[is_lowest] > 0).any()
  return (-frequencies).where(~(is_lowest & is_nyquist), frequencies)


def limits_of(panels: Sequence[Panel]) -> tuple[float, float]:
  """Returns the two ends of the colour scale of heatmaps, in the printed unit, such as percent.

  Scales of differences are symmetric about 0. Scales of values begin at the smallest value, or at 0
  if no value is negative and the smallest is less than half of the largest. If all values equal v,
  the ends are the range of the quantity, or (v, v + 1) if this is infinite. Without values they are
  (0, 1).

  Args:
    panels: the heatmaps, all of values or all of differences.
  """
  values = np.concatenate([p.notation.scale * p.rows.value.to_numpy(float) for p in panels])
  values = values[np.isfinite(values)]
  if not len(values):
    return 0.0, 1.0
  if panels[0].notation.difference:
    largest = float(np.abs(values).max()) or 1.0
    return -largest, largest
  low, high = float(values.min()), float(values.max())
  if 0 <= low < high / 2:
    return 0.0, high
  if low < high:
    return low, high
  bottom, top = (panels[0].notation.scale * end for end in panels[0].notation.quantity.range)
  return (bottom, top) if math.isfinite(top - bottom) else (low, low + 1.0)


def _colours(notation: Notation) -> Colormap:
  """Returns the colour map of a heatmap of a quantity, or of differences between classifiers.

  Differences are from red (worse) to blue (better). If neither direction is better, negative
  differences are blue.

  Args:
    notation: the quantity, and whether its differences are shown.
  """
  if not notation.difference:
    return colormaps[style.MAGNITUDE]
  colours = colormaps[style.DIFFERENCE]
  return colours if notation.quantity.better == 'higher' else colours.reversed()


def cell_image(
  axes: Axes, table: pd.DataFrame, notation: Notation, limits: tuple[float, float]
) -> ScalarMappable:
  """Draws a table of values as coloured cells.

  Args:
    axes: the plot.
    table: the values, [y, x], as fractions. The index and the columns are the increasing positions
      of the cells.
    notation: scale of the values (100 for percent), and whether they are differences.
    limits: the smallest and largest value of the colour scale, after scaling.

  Returns:
    The image, for a colour bar.
  """
  values = notation.scale * table.to_numpy(float)
  across, down = _cell_edges(table.columns), _cell_edges(table.index)
  low, high = limits
  colours = _colours(notation).with_extremes(bad=style.MISSING)
  scale: dict[str, Any] = {'cmap': colours, 'vmin': low, 'vmax': high}
  image: ScalarMappable
  cell_sizes = np.diff(across), np.diff(down)
  has_equal_cells = all(np.allclose(sizes, sizes[0]) for sizes in cell_sizes)
  if has_equal_cells:
    extent = across[0], across[-1], down[-1], down[0]
    image = axes.imshow(values, extent=extent, interpolation='nearest', aspect='auto', **scale)
    if (table.index.name, table.columns.name) == FREQUENCIES:
      axes.set_aspect('equal')
  else:
    image = axes.pcolormesh(across, down, values, rasterized=True, **scale)
    axes.invert_yaxis()
  for axis, positions in ((axes.xaxis, table.columns), (axes.yaxis, table.index)):
    is_whole = bool((positions.to_numpy(float) % 1 == 0).all())  # such as five severities
    num_intervals = 5 if is_whole else 4
    axis.set_major_locator(MaxNLocator(num_intervals, steps=[1, 2, 5, 10], integer=is_whole))
  return image


def _cell_edges(values: pd.Index) -> np.ndarray:
  """Returns the n + 1 edges of the cells of n increasing values, halfway between neighbours."""
  centres = values.to_numpy(float)
  if len(centres) == 1:
    return centres[0] + np.array([-0.5, 0.5])
  middles = (centres[1:] + centres[:-1]) / 2
  # The first and the last cell are symmetric about their centres.
  first, last = 2 * centres[0] - middles[0], 2 * centres[-1] - middles[-1]
  return np.array([first, *middles, last])


def pages(parts: Sequence[Panel], y: str, x: str) -> list[Sequence[Panel]]:
  """Divides grids among figures in which their numbers are legible.

  A figure is at most `_MAX_PAGES` pages high, but has at least one line of grids.

  Args:
    parts: the grids, see `grids`.
    y: column of the lines.
    x: column of the columns.
  """
  num_lines = len({value for panel in parts for value in panel.rows[y]})
  num_columns = len({value for panel in parts for value in panel.rows[x]})
  line_height = 2 * _TITLE + _MIN_CELL * num_lines  # inches
  lines = max(1, int(_MAX_PAGES * style.PAGE_HEIGHT / line_height))
  size = lines * _side_by_side(len(parts), num_columns)
  return [parts[start : start + size] for start in range(0, len(parts), size)]


def _side_by_side(count: int, num_columns: int) -> int:
  """Returns the number of grids to draw side by side, 1 to 3.

  Args:
    count: number of grids.
    num_columns: number of columns in each grid.
  """
  if num_columns > 6 or count == 1:
    return 1
  return 2 if count <= MAX_MAPS else 3


def _names_in_order(facets: pd.DataFrame, name: str, other: str) -> list[Any]:
  """Returns the distinct values of the column `name` in the order for an axis of a grid.

  The value of `other` with most of them decides the order. Values that it lacks follow.
  """
  count = facets.groupby(other)[name].transform('nunique')
  fullest_first = count.sort_values(ascending=False, kind='stable').index
  return list(dict.fromkeys(facets.loc[fullest_first, name]))


@style.in_style
def grids(parts: Sequence[Panel], y: str, x: str, scaled: Sequence[Panel] = ()) -> Figure:
  """Draws heatmaps over two unordered columns, such as corruption and class, with numbers in cells.

  A dot after a number marks a significant difference. A dash stands for a missing value. Cells with
  a note are outlined.

  Args:
    parts: the heatmaps, all of values or all of differences.
    y: column with the names of the lines.
    x: column with the names of the columns.
    scaled: further heatmaps that are not drawn but included in the colour scale.
  """
  notation, quantity = parts[0].notation, parts[0].notation.quantity
  facets = pd.concat([panel.rows[[y, x]] for panel in parts], ignore_index=True)
  y_values, x_values = _names_in_order(facets, y, x), _names_in_order(facets, x, y)
  y_names = [style.wrapped(value_text(quantity.facet(y), value), 30) for value in y_values]
  x_names = [style.wrapped(value_text(quantity.facet(x), value), 30) for value in x_values]
  columns = _side_by_side(len(parts), len(x_values))
  lines = math.ceil(len(parts) / columns)
  titles = [style.wrapped(panel.title, 80 // max(columns, 2)) for panel in parts]
  # Sizes in inches: 0.35 for a title, 0.9 for the axes and their names.
  is_wide = columns > 1 or len(x_values) > 5 or style.longest_line(y_names) > 20
  width = style.PAGE_WIDTH if is_wide else style.COLUMN_WIDTH
  height_of_title = 0.35 + _LINE * max(title.count('\n') for title in titles)
  height_of_axes = 0.9 + 0.03 * max(0, style.longest_line(x_names) - 12)  # with slanted long names
  preferred_height = sum(max(0.2, _LINE * (name.count('\n') + 1)) for name in y_names)  # of a grid
  min_height = _MIN_CELL * len(y_values)
  # All grids with their titles fill at most a page, unless a page is too low for their cells.
  max_height = max(style.PAGE_HEIGHT - height_of_axes, lines * (height_of_title + min_height))
  height_of_grids = min(max_height, lines * (height_of_title + preferred_height))
  height = max(1.9, height_of_axes + height_of_grids)
  figure, grid = panels(len(parts), columns, (width, height))
  cell_height = (height - height_of_axes - height_of_title * lines) / (lines * len(y_values))
  max_font_size = max(1.0, 0.8 * 72 * cell_height)  # in points; an inch has 72
  is_small = len(x_values) <= 6 and len(y_values) <= 20
  font_size = min(7.0 if is_small else MIN_FONT_SIZE, max_font_size)
  has_names = any(isinstance(value, str) for value in x_values)
  slant: dict[str, Any] = {'rotation': 35, 'ha': 'right'} if has_names else {}
  low, high = limits_of([*parts, *scaled])
  for axes, panel, title in zip(grid, parts, titles, strict=True):
    lines_of_rows = [y_values.index(value) for value in panel.rows[y]]
    columns_of_rows = [x_values.index(value) for value in panel.rows[x]]
    values = np.full((len(y_values), len(x_values)), np.nan)  # cells without a row stay NaN
    values[lines_of_rows, columns_of_rows] = notation.scale * panel.rows.value.to_numpy(float)
    image = axes.imshow(values, cmap=_colours(notation), vmin=low, vmax=high, aspect='auto')
    for row, column in np.argwhere(np.isnan(values)):
      axes.text(column, row, '–', ha='center', va='center', fontsize=font_size)
    cells = list(zip(lines_of_rows, columns_of_rows, strict=True))
    _write_numbers(axes, image, values, panel.rows, cells, font_size)
    axes.set_title(title, fontsize=7)
    axes.set_xticks(range(len(x_values)), x_names, **slant)
    axes.set_yticks(range(len(y_values)), y_names, fontsize=style.tick_size(y_names, cell_height))
  figure.supxlabel(style.wrapped(quantity.facet(x).axis, int(0.8 * width / style.LETTER)))
  figure.supylabel(style.wrapped(quantity.facet(y).axis, int(0.8 * height / style.LETTER)))
  bar = figure.colorbar(image, ax=grid, aspect=30)
  bar.set_label(style.wrapped(notation.head, int(0.8 * height / style.LETTER)), fontsize=7)
  return figure


def _write_numbers(
  axes: Axes,
  image: ScalarMappable,
  values: np.ndarray,
  rows: pd.DataFrame,
  cells: Sequence[tuple[int, int]],
  font_size: float,
) -> None:
  """Writes numbers into the cells of a heatmap, with '•' after significant differences.

  Cells with a note are outlined.

  Args:
    axes: the plot of the grid.
    image: the coloured cells, which decide whether a number is black or white.
    values: values of the cells, [Y, X]; NaN gets no number.
    rows: the rows of the table of results, with the columns `marked` and `note`.
    cells: (index along Y, index along X) of each row's cell.
    font_size: size of the numbers in points.
  """
  low, high = image.get_clim()
  digits = max(0, math.ceil(-math.log10((high - low) / 30)))  # shows a thirtieth of the scale
  for (y, x), is_marked, note in zip(cells, rows.marked, cell_notes(rows), strict=True):
    if np.isnan(values[y, x]):
      continue
    rounded = round(values[y, x], digits) + 0.0  # a rounded zero has no sign
    number = f'{rounded:.{digits}f}'.replace('-', '−')
    red, green, blue, _ = image.to_rgba(values[y, x])
    luma = 0.3 * red + 0.59 * green + 0.11 * blue  # brightness of the cell, in [0, 1]
    colour = 'w' if luma < 0.5 else 'k'
    if note:
      corner = x - 0.46, y - 0.46  # the outline is inside the cell, which has a side of 1
      axes.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=colour, linewidth=1.4))
    text = f'{number}{"•" if is_marked else ""}'
    axes.text(x, y, text, color=colour, ha='center', va='center', fontsize=font_size)


def cell_notes(rows: pd.DataFrame) -> pd.Series:
  """Returns the note for which the cell of each row is outlined in `grids`; '' for no outline.

  The note that all seeds have equal values does not count.
  """
  return rows.note.str.replace(f'(; )?{NO_SPREAD}', '', regex=True)


@style.in_style
def spectrum_panels(
  titles: Sequence[str],
  maps: Sequence[np.ndarray],
  decades: float = DECADES,
  quantity: str = 'mean |F|',
) -> Figure:
  """Draws spectra side by side on a logarithmic scale, with the zero frequency in the centre.

  Args:
    titles: title of each spectrum.
    maps: magnitudes ≥ 0 of each spectrum, [H, W], fftshifted; NaN cells are grey.
    decades: powers of ten that the scale spans, down from the largest value. 0 begins the scale at
      the smallest value, but spans at most `DECADES`.
    quantity: name of the colour bar.
  """
  magnitudes = np.maximum(np.asarray(maps, float), _MIN_MAGNITUDE)
  y, x = (np.arange(side) - side // 2 for side in magnitudes.shape[1:])  # frequencies
  columns = min(5 if len(maps) > 16 else 4, len(maps))
  rows = math.ceil(len(maps) / columns)
  map_width = min(0.75 * style.PAGE_WIDTH / columns, 1.9)
  width = style.PAGE_WIDTH if columns > 2 else style.COLUMN_WIDTH * columns
  # 0.054 inches is the width of a letter in the small font of these titles.
  wrapped_titles = [style.wrapped(title, int(map_width / 0.054)) for title in titles]
  further_lines = max(title.count('\n') for title in wrapped_titles)
  # Inches: 0.8 for the axis names; per row the map, 0.25 for a title, 0.1 per further title line.
  height = 0.8 + rows * (map_width * y.size / x.size + 0.25 + 0.1 * further_lines)
  size = width, min(style.PAGE_HEIGHT, height)
  figure, grid = panels(len(maps), columns, size, 'compressed', sharex=True, sharey=True)
  smallest, largest = float(np.nanmin(magnitudes)), float(np.nanmax(magnitudes))
  bottom = largest / 10**decades if decades else max(smallest, largest / 10**DECADES)
  top = largest if largest > bottom else 10 * bottom  # equal values do not determine a scale
  colours = colormaps[style.MAGNITUDE].with_extremes(bad=style.MISSING)
  look: dict[str, Any] = {'cmap': colours, 'norm': LogNorm(bottom, top), 'interpolation': 'nearest'}
  extent = x[0] - 0.5, x[-1] + 0.5, y[-1] + 0.5, y[0] - 0.5
  for axes, title, values in zip(grid, wrapped_titles, magnitudes, strict=True):
    image = axes.imshow(values, extent=extent, **look)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.set_title(title, fontsize=6.5)
  ticks, tick_text = LogLocator(subs=(1, 2, 5)), FuncFormatter(lambda tick, _: f'{tick:.2g}')
  if largest > 100 * bottom:  # over two decades, powers of ten alone are enough ticks
    ticks = LogLocator()
    tick_text = FuncFormatter(lambda tick, _: style.power_of_ten(round(math.log10(tick))))
  shrink = min(1.0, 1.6 / rows)  # length of the colour bar as a share of the plots' height
  extend = 'min' if bottom > smallest else 'neither'  # a tip for values below the scale
  bar = figure.colorbar(
    image, ax=grid, shrink=shrink, label=quantity, extend=extend, ticks=ticks, format=tick_text
  )
  bar.minorticks_off()
  figure.supxlabel(FREQUENCY_X.axis)
  figure.supylabel(style.wrapped(FREQUENCY_Y.axis, int(0.8 * size[1] / style.LETTER)))
  return figure
