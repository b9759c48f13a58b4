"""The style of all figures: sizes in print, fonts, and colours for colour-blind readers."""

import functools
import io
import itertools
import logging
import math
import os
import pathlib
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter
from numpy.typing import ArrayLike

from robustness.core.atomic_files import write_atomically

COLUMN_WIDTH = 3.4  # inches: one column of a two-column paper
PAGE_WIDTH = 7.0  # inches: both columns
PAGE_HEIGHT = 8.5  # inches: largest height of figures, except many heatmaps, without legends
MAGNITUDE = 'viridis'  # for quantities from zero up
DIFFERENCE = 'RdBu'  # for differences; blue is better
MISSING = '0.85'  # grey of a cell without a value
# Okabe and Ito's palette without yellow, then seven darker, paler or greyer colours; line styles
# and markers distinguish curves that are printed in black.
COLOURS = (
  *('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#000000'),
  *('#882255', '#999933', '#332288', '#8B5A2B', '#888888', '#8FD19E', '#E8A0A0'),
)
DASHES = ('-', '--', '-.', ':')
LETTER = 0.066  # inches: a letter of a legend, label or title
_AUTOMATIC_LABEL = re.compile(r'_(child|container)\d+|_nolegend_')  # by Matplotlib
_LEGEND_LINE = 0.25  # inches: a legend of one line
_NARROWEST = 0.6  # inches: a column of a legend
_SUPERSCRIPTS = str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹')
MARKERS = (*('o', 's', '^', 'D', 'v', 'P', 'X'), *('<', '>', 'p', '*', 'h', 'd', '8'))
DPI = 200.0
"""Pixels per inch of PNG files, and of images in vector files."""
PIXELS_PER_INCH = 110.0
"""Size at which notebooks show figures, in pixels per inch of the figure."""
VECTOR_FORMATS = ('svg',)
"""Formats that are written with every PNG. PDF takes half of the total time, so it is optional."""

_FONT = 'DejaVu Sans'
"""The font of figures. It comes with Matplotlib, so that pictures are equal everywhere."""
_FURTHER_FONTS = {
  'NotoSansCJK-Regular.ttc': 'Noto Sans CJK JP',
  'DroidSansFallbackFull.ttf': 'Droid Sans Fallback',
  'wqy-zenhei.ttc': 'WenQuanYi Zen Hei',
  'PingFang.ttc': 'PingFang HK',
  'Hiragino Sans GB.ttc': 'Hiragino Sans GB',
  'msyh.ttc': 'Microsoft YaHei',
  'NotoEmoji-Regular.ttf': 'Noto Emoji',
}
"""{file: font} with characters that `_FONT` lacks, such as Chinese ones, where it is installed."""
_SETTINGS: Any = {
  **dict.fromkeys(('font.size', 'axes.titlesize', 'axes.labelsize', 'figure.labelsize'), 8.0),
  **dict.fromkeys(('xtick.labelsize', 'ytick.labelsize', 'legend.fontsize'), 7.0),
  **dict.fromkeys(('axes.linewidth', 'xtick.major.width', 'ytick.major.width'), 0.6),
  **dict.fromkeys(('xtick.major.size', 'ytick.major.size'), 2.5),
  'lines.linewidth': 1.2,
  'hatch.linewidth': 0.5,
  'legend.frameon': False,
  'pdf.fonttype': 42,  # TrueType: venues refuse Type 3
  'text.parse_math': False,  # labels and names of classes may hold a $
  'svg.hashsalt': 'robustness',  # ids within a file, otherwise random
}
# None leaves out what would make the bytes depend on the day or the version.
_METADATA: Any = {'png': {'Software': None}, 'svg': {'Date': None}, 'pdf': {'CreationDate': None}}

# The settings of a user must not change the pictures; the backend is not a matter of style.
_DEFAULTS: Any = {
  key: value for key, value in matplotlib.rcParamsDefault.items() if 'backend' not in key
}

_P = ParamSpec('_P')
_R = TypeVar('_R')


def in_style(draw: Callable[_P, _R]) -> Callable[_P, _R]:
  """Makes a drawing function run in this package's style.

  Matplotlib's settings are restored after each call.
  """

  @functools.wraps(draw)
  def draw_in_style(*args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Calls the drawing function `draw` with this package's settings of Matplotlib.

    The user's settings are restored after the call, and warnings of missing glyphs are not shown.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
      warnings.filterwarnings('ignore', r'Glyph \d+ .*missing from')  # see `_note_missing`
      matplotlib.rcParams.update(_DEFAULTS)  # undoes settings of the user
      matplotlib.rcParams.update({**_SETTINGS, 'font.family': _fonts()})
      return draw(*args, **kwargs)

  return draw_in_style


@functools.cache
def _fonts() -> list[str]:
  """Returns the names of installed fonts for figures, the preferred one first."""
  installed = {pathlib.Path(path).name: path for path in font_manager.findSystemFonts()}
  fonts = [_FONT]
  for file, name in _FURTHER_FONTS.items():
    if file in installed:
      font_manager.fontManager.addfont(installed[file])
      fonts.append(name)
  return fonts


@functools.cache
def _is_drawn(character: str) -> bool:
  """Returns whether one of the fonts has a character."""
  files = [font_manager.findfont(FontProperties(family=[font])) for font in _fonts()]
  return any(font_manager.get_font(file).get_char_index(ord(character)) for file in files)


_noted: set[str] = set()
"""Missing characters that were logged."""


def _note_missing(figure: Figure) -> None:
  """Logs characters that a figure shows as boxes because no font has them.

  Each character is logged only once.
  """
  texts = ''.join(text.get_text() for text in figure.findobj(Text))
  missing = {c for c in texts if not c.isascii() and not _is_drawn(c)} - _noted
  if missing:
    _noted.update(missing)
    logging.getLogger(__name__).warning(
      'figures have boxes for %s: install for example Noto Sans CJK or Noto Emoji.',
      ' '.join(sorted(missing)),
    )


@in_style
def legend_above(figure: Figure) -> None:
  """Puts one legend for all plots above a figure, and makes the figure higher if needed.

  Labels of classifiers may begin with an underscore. Matplotlib would omit such labels; this
  function omits only labels that Matplotlib generates.
  """
  entries: dict[str, Any] = {}  # {label: artist}; the first artist of a label counts
  for axes in figure.axes:
    artists = [a for a in axes.get_children() if isinstance(a, Line2D | Patch | Collection)]
    for handle in (*artists, *axes.containers):
      label = str(handle.get_label() or '')
      if label and not _AUTOMATIC_LABEL.fullmatch(label):
        entries.setdefault(label, handle)
  if not entries:
    return
  width, height = figure.get_size_inches()
  texts = [wrapped(label, max(10, int((width - 0.5) / LETTER))) for label in entries]
  renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
  # The legend gets the largest number of columns that fit next to each other.
  for columns in range(min(len(entries), int(width / _NARROWEST)), 0, -1):
    legend = figure.legend(list(entries.values()), texts, loc='outside upper left', ncols=columns)
    box = legend.get_window_extent(renderer)
    if box.width <= width * figure.dpi or columns == 1:
      break
    legend.remove()
  # Figures have room for a legend of one line already.
  figure.set_figheight(height + max(0.0, box.height / figure.dpi - _LEGEND_LINE))


def colour(index: int) -> str:
  """Returns the colour of curve number `index`, counted from 0.

  Colours repeat after the last one. Curves of equal colour differ in their `marker`.
  """
  return COLOURS[index % len(COLOURS)]


def dashes(index: int) -> str:
  """Returns the line style of curve number `index`; curves of the same colour differ in style."""
  num_repetitions = index // len(COLOURS)  # of the colours; each shifts the styles by one
  return DASHES[(index + num_repetitions) % len(DASHES)]


def marker(index: int) -> str:
  """Returns the marker of curve number `index`; curves of the same colour differ in marker."""
  num_repetitions = index // len(COLOURS)  # of the colours; each shifts the markers by one
  return MARKERS[(index + num_repetitions) % len(MARKERS)]


class PowersOfTen(LogFormatter):
  """Labels of a logarithmic axis as plain text, such as 10⁻² and 5×10⁻²."""

  def __call__(self, x: float, pos: int | None = None) -> str:
    """Formats the label of a tick of a logarithmic axis, such as '10²' or '2×10²', for Matplotlib.

    Args:
      x: position of the tick.
      pos: number of the tick, not used.

    Returns:
      The label; '' if Matplotlib has no room for it.
    """
    if not super().__call__(x, pos):  # Matplotlib leaves out this label for lack of room
      return ''
    digit, exponent = f'{x:.0e}'.split('e')
    power = power_of_ten(int(exponent))
    return power if digit == '1' else f'{digit}×{power}'


def power_of_ten(exponent: int) -> str:
  """Returns 10 to the power of an integer as text: '10⁻²'."""
  return '10' + str(exponent).translate(_SUPERSCRIPTS)


def mark_significant(axes: Axes, x: ArrayLike, y: ArrayLike, size: float = 2.0) -> None:
  """Marks significant differences at (x, y) by black dots with white edges, `size` points wide."""
  edge: dict[str, Any] = {'markeredgecolor': 'white', 'markeredgewidth': 0.18 * size}
  axes.plot(x, y, 'ko', markersize=size, zorder=4, **edge)


def log_scale(axes: Axes) -> None:
  """Makes the vertical axis logarithmic."""
  axes.set_yscale('log')
  axes.yaxis.set_major_formatter(PowersOfTen())
  axes.yaxis.set_minor_formatter(PowersOfTen())


def diagonal(axes: Axes, label: str = '') -> None:
  """Draws the line y = x without changing the limits of the axes.

  Args:
    axes: the plot.
    label: text in the legend; '' for none.
  """
  x_limits, y_limits = axes.get_xlim(), axes.get_ylim()
  begin, end = max(x_limits[0], y_limits[0]), min(x_limits[1], y_limits[1])
  if begin < end:
    look: dict[str, Any] = {'color': '0.5', 'linestyle': '--', 'linewidth': 0.8, 'zorder': 0}
    axes.plot([begin, end], [begin, end], label=label or None, **look)
  axes.set(xlim=x_limits, ylim=y_limits)


def dashed(label: str, dashes: Any = '--', **look: Any) -> Line2D:
  """Returns an entry for a legend: a thin dark line in the line style `dashes`.

  Args:
    label: its text.
    dashes: a line style of Matplotlib.
    **look: further arguments of `Line2D`.
  """
  look = {'color': '0.2', 'linewidth': 0.9, **look}
  return Line2D([], [], linestyle=dashes, label=label, **look)


@in_style
def save(figure: Figure, path: str | os.PathLike[str], pdf: bool = False) -> None:
  """Writes a figure as PNG and in `VECTOR_FORMATS`, with images and heatmaps as pixels.

  Each file is written atomically, and equal figures have equal bytes. All formats have the same
  layout.

  Args:
    figure: the figure.
    path: path of the PNG file; other formats differ in the suffix.
    pdf: whether to write a PDF too. An existing PDF is always rewritten.
  """
  png = pathlib.Path(path)
  kinds = ['png', *VECTOR_FORMATS]
  if pdf or png.with_suffix('.pdf').is_file():
    kinds.append('pdf')
  _lay_out(figure)
  for kind in kinds:
    write_atomically(png.with_suffix(f'.{kind}'), _file(figure, kind))


@in_style
def displayed(figure: Figure) -> tuple[bytes, dict[str, int]]:
  """Returns a figure as PNG for a notebook, in the format of IPython's `_repr_png_`.

  Returns:
    (bytes of the PNG, {'width': displayed width in pixels}).
  """
  _lay_out(figure)
  return _file(figure, 'png'), {'width': round(PIXELS_PER_INCH * figure.get_figwidth())}


def _file(figure: Figure, kind: str) -> bytes:
  """Returns the bytes of a figure's file.

  Args:
    figure: the figure.
    kind: format of the file, 'png', 'svg' or 'pdf'.
  """
  buffer = io.BytesIO()
  figure.savefig(buffer, format=kind, dpi=DPI, metadata=_METADATA[kind])
  return buffer.getvalue()


def _lay_out(figure: Figure) -> None:
  """Computes the layout of a figure at `DPI` pixels per inch and fixes it.

  Files of all formats then have the same layout, and legends outside the axes stay in place.
  Characters that no font has are logged.
  """
  original = figure.dpi
  engine = figure.get_layout_engine()
  figure.dpi = DPI
  if engine is not None:
    engine.execute(figure)
  _note_missing(figure)
  figure.dpi = original
  # not `set_layout_engine('none')`: its placeholder engine draws each format twice
  figure.set_layout_engine(None)
  for legend in figure.legends:
    legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)


def wrapped(text: str, letters: int) -> str:
  """Breaks a text into lines of at most `letters`, at spaces and after _, / and -.

  'pm-k' stays whole, because only one letter follows its hyphen. A word that is longer than a line
  is cut.
  """
  letters = max(letters, 1)
  lines = ['']
  for piece in re.split(r'(?<=\s)|(?<=[_/-])(?=\w\w)', text):  # 'a b_c' → 'a ', 'b_', 'c'
    if lines[-1] and len((lines[-1] + piece).rstrip()) > letters:
      lines.append('')
    lines[-1] += piece
    while len(lines[-1].rstrip()) > letters:
      line = lines.pop()
      lines += [line[:letters], line[letters:]]
  return '\n'.join(line.rstrip() for line in lines)


def longest_line(texts: Sequence[str]) -> int:
  """Returns the number of letters in the longest line of all texts."""
  return max(len(line) for text in texts for line in text.split('\n'))


def tick_size(labels: Sequence[str], spacing: float) -> float:
  """Returns the font size at which labels of an axis do not overlap, at most 7 points.

  Args:
    labels: the labels from top to bottom, of one or more lines each.
    spacing: inches from one label to the next.
  """
  numbers_of_lines = [label.count('\n') + 1 for label in labels]
  # Half of each of two neighbours fits between their centres. An inch has 72 points, and a line is
  # 1.2 font sizes high.
  lines_per_spacing = max(map(sum, itertools.pairwise(numbers_of_lines)), default=2) / 2
  return max(1.0, min(7.0, 60 * spacing / lines_per_spacing))


def percent(fraction: float) -> str:
  """Returns a fraction as text in whole percent: '4%' for 0.0412."""
  return 'unknown' if math.isnan(fraction) else f'{100 * fraction:.0f}%'


def panels(
  count: int, columns: int, size: Sequence[float], layout: Any = 'constrained', **share: Any
) -> tuple[Figure, list[Axes]]:
  """Returns a figure and the axes of its plots, at most `columns` side by side.

  Plots share both axes unless `share` has sharex or sharey. Only the lowest plot of each column has
  tick labels.

  Args:
    count: number of plots.
    columns: largest number of plots side by side.
    size: width and height of the figure in inches.
    layout: Matplotlib's layout engine.
    **share: further arguments of `Figure.subplots`.
  """
  figure = Figure(figsize=(size[0], size[1]), layout=layout)
  share = {'sharex': True, 'sharey': True, 'squeeze': False, **share}
  axes = list(figure.subplots(math.ceil(count / columns), columns, **share).flat)
  for empty in axes[count:]:
    empty.set_axis_off()
  for lowest in axes[max(0, count - columns) : count]:
    lowest.tick_params(labelbottom=True)
  return figure, axes[:count]
