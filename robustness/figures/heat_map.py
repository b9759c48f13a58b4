"""Fourier heat maps: error by frequency, side by side, and where two classifiers differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from robustness.core.errors import InputError, nearest
from robustness.figures import style
from robustness.figures.frequency_axes import checked_fractions, hatch_cells, show_map
from robustness.figures.panel_grid import Grid
from robustness.results import Number

_SIGNED = FuncFormatter(lambda v, _: f'{100 * v:+.0f}'.replace('-', '−') if v else '0')
_PERCENT = FuncFormatter(lambda value, _: f'{100 * value:.0f}')


def draw_heat_map(
  axes: Axes,
  error: ArrayLike,
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  title: str = '',
  highest: float = 1.0,
) -> AxesImage:
  """Draws one heat map of error, zero frequency in the centre.

  Rows are vertical frequencies, growing downwards as the rows of an image do, so the wave
  of a cell runs in the direction from the centre to that cell.

  Args:
    axes: where to draw.
    error: [H, W] fractions in [0, 1], fftshifted; NaN cells are drawn grey.
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.
    title: written above.
    highest: error at the upper end of the colours, a fraction; the lower end is 0.

  Returns:
    The image, for a colour bar.
  """
  values = checked_fractions(error, frequencies_y, frequencies_x, title)
  image = show_map(axes, values, frequencies_y, frequencies_x, style.MAGNITUDE, (0.0, highest))
  axes.set_title(title)
  return image


def draw_difference_map(
  axes: Axes,
  difference: ArrayLike,
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  title: str = '',
  significant: ArrayLike | None = None,
  largest: float = 1.0,
) -> AxesImage:
  """Draws a signed difference of errors: red is more error, blue is less.

  Args:
    axes: where to draw.
    difference: [H, W] in [−1, 1], fftshifted.
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.
    title: written above.
    significant: [H, W] booleans; cells that are False are hatched. None hatches none.
    largest: the scale runs from −largest to largest.

  Returns:
    The image, for a colour bar.
  """
  values = checked_fractions(difference, frequencies_y, frequencies_x, title, lowest=-1.0)
  limits = (-largest, largest)
  image = show_map(axes, values, frequencies_y, frequencies_x, style.DIFFERENCE, limits)
  if significant is not None:
    chosen = np.asarray(significant, bool)
    if chosen.shape != values.shape:
      raise InputError(f'significant is {chosen.shape} for a map of shape {values.shape}.')
    hatch_cells(axes, ~chosen & np.isfinite(values), frequencies_y, frequencies_x)
  axes.set_title(title)
  return image


@style.styled
def heat_map_panels(
  errors: Mapping[str, ArrayLike],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  clean_errors: Mapping[str, Number] | None = None,
  significant: Mapping[str, ArrayLike] | None = None,
  rate: float = 0.05,
  highest: float | None = 1.0,
  quantity: str = 'top-1 error',
) -> Figure:
  """Heat maps of several classifiers on one scale, and each minus the first.

  Args:
    errors: by classifier, [H, W] fractions in [0, 1], fftshifted; the first is the baseline.
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.
    clean_errors: by classifier, the error without a perturbation, for the titles.
    significant: by classifier other than the baseline, [H, W] booleans: where its paired
      difference from the baseline is significant. The other cells are hatched.
    rate: the false-discovery rate behind `significant`, for the legend.
    highest: error at the upper end of the colours, a fraction; None takes the largest one,
      rounded up to 5%. All maps share it.
    quantity: what the maps show.

  Returns:
    A figure of page width, of more than three classifiers in several rows; of column width for a
    single one.

  Reference:
    Yin et al., A Fourier perspective on model robustness in computer vision (2019),
    figures 3 and 4.
  """
  names = _checked_names(errors, clean_errors, significant)
  maps = {k: checked_fractions(v, frequencies_y, frequencies_x, k) for k, v in errors.items()}
  grid = Grid(len(names))
  titles = [_title(name, (clean_errors or {}).get(name), grid.letters) for name in names]
  above = [style.wrapped(f'{name} − {names[0]}', grid.letters) for name in names[1:]]
  lines = 1 + max(title.count('\n') for title in (*titles, *above))
  grid.draw(np.size(frequencies_y) / np.size(frequencies_x), lines)
  limit = rounded_up(list(maps.values())) if highest is None else highest
  for axes, name, title in zip(grid.first, names, titles, strict=True):
    image = draw_heat_map(axes, maps[name], frequencies_y, frequencies_x, title, limit)
  for bar in grid.first_bars:
    grid.figure.colorbar(image, cax=bar, format=_PERCENT, label=f'{quantity} (%)')
  if grid.second:
    _draw_differences(grid, maps, above, frequencies_y, frequencies_x, significant or {}, quantity)
  for axes in (*grid.first, *grid.second):
    axes.title.set_fontsize(grid.title_size)
  if significant:
    _explain_hatching(grid, rate)
  return grid.figure


def rounded_up(maps: Sequence[np.ndarray], step: float = 0.05) -> float:
  """The largest magnitude in any of the maps, rounded up to a multiple of `step`."""
  magnitudes = np.abs(np.concatenate([np.ravel(m) for m in maps]))
  largest = np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes))
  return float(min(1.0, max(1, np.ceil(largest / step - 1e-9)) * step))


def _checked_names(
  errors: Mapping[str, ArrayLike], *others: Mapping[str, object] | None
) -> list[str]:
  if not errors:
    raise InputError('no heat maps to draw: give at least one classifier.')
  for other in others:
    for name in other or {}:
      if name not in errors:
        raise InputError(f'{name!r} has no heat map; {nearest(name, errors)}.')
  return list(errors)


def _draw_differences(
  grid: Grid,
  maps: Mapping[str, np.ndarray],
  titles: Sequence[str],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  significant: Mapping[str, ArrayLike],
  quantity: str,
) -> None:
  baseline, *others = maps
  differences = {name: maps[name] - maps[baseline] for name in others}
  largest = rounded_up(list(differences.values()))
  for axes, name, title in zip(grid.second, others, titles, strict=True):
    image = draw_difference_map(
      axes, differences[name], frequencies_y, frequencies_x, title, significant.get(name), largest
    )
  for bar in grid.second_bars:
    grid.figure.colorbar(image, cax=bar, format=_SIGNED)
    bar.set_ylabel(f'difference in {quantity}\n(percentage points)', fontsize=grid.title_size)


def _title(name: str, clean: Number | None, letters: int) -> str:
  words = style.wrapped(name, letters)
  return words if clean is None else f'{words}\nclean error\n{style.percent_with_interval(clean)}'


def _explain_hatching(grid: Grid, rate: float) -> None:
  patch = Patch(facecolor='white', edgecolor='0.35', hatch='//////', linewidth=0.5)
  text = (
    'not significant (exact McNemar test, false-discovery rate '
    f'{style.percent(rate, 0 if round(100 * rate, 6) % 1 == 0 else 1)})'
  )
  grid.figure.legend([patch], [text], loc='lower right', borderaxespad=0.2)
