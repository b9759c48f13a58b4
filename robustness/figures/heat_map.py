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

from robustness.errors import InputError, nearest
from robustness.figures import style
from robustness.figures.frequency_axes import (
  checked_fractions,
  hatch_cells,
  label_axes,
  show_map,
)
from robustness.results import Number

_SIGNED = FuncFormatter(lambda value, _: f'{100 * value:+.0f}' if value else '0')
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
    A figure of page width; one column for a single classifier.

  Reference:
    Yin et al., A Fourier perspective on model robustness in computer vision (2019),
    figures 3 and 4.
  """
  names = _checked_names(errors, clean_errors, significant)
  maps = {k: checked_fractions(v, frequencies_y, frequencies_x, k) for k, v in errors.items()}
  figure, error_axes, difference_axes = _grid(names, next(iter(maps.values())).shape)
  limit = rounded_up(list(maps.values())) if highest is None else highest
  for axes, name in zip(error_axes, names, strict=True):
    title = _title(name, quantity, (clean_errors or {}).get(name))
    image = draw_heat_map(axes, maps[name], frequencies_y, frequencies_x, title, limit)
    label_axes(axes, vertical=axes is error_axes[0])
  figure.colorbar(image, ax=error_axes, format=_PERCENT, label=f'{quantity} (%)',
                  aspect=22, pad=0.02)
  if difference_axes:
    _draw_differences(figure, difference_axes, maps, frequencies_y, frequencies_x,
                      significant or {}, quantity)
  if significant:
    _explain_hatching(figure, rate)
  return figure


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


def _grid(
  names: Sequence[str], shape: tuple[int, ...]
) -> tuple[Figure, list[Axes], list[Axes]]:
  """Axes for the maps and for the differences: one row for two classifiers, else two."""
  count = len(names)
  ratio = shape[0] / shape[1]
  columns, rows = (3, 1) if count == 2 else (count, 1 if count == 1 else 2)
  width = style.COLUMN_WIDTH if count == 1 else max(style.PAGE_WIDTH, 1.9 * columns)
  cell = (width - 1.2) / columns
  figure = Figure(figsize=(width, rows * (cell * ratio + 0.85)), layout='compressed')
  grid = figure.subplots(rows, columns, squeeze=False)
  if count == 2:
    return figure, list(grid[0, :2]), [grid[0, 2]]
  if count > 2:
    grid[1, 0].set_axis_off()
  return figure, list(grid[0]), list(grid[1, 1:]) if rows == 2 else []


def _draw_differences(
  figure: Figure,
  difference_axes: Sequence[Axes],
  maps: Mapping[str, np.ndarray],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  significant: Mapping[str, ArrayLike],
  quantity: str,
) -> None:
  baseline, *others = maps
  differences = {name: maps[name] - maps[baseline] for name in others}
  largest = rounded_up(list(differences.values()))
  for axes, name in zip(difference_axes, others, strict=True):
    image = draw_difference_map(
      axes, differences[name], frequencies_y, frequencies_x,
      f'{name} − {baseline}\n', significant.get(name), largest,
    )
    label_axes(axes, vertical=len(others) > 1 and axes is difference_axes[0])
  figure.colorbar(image, ax=list(difference_axes), format=_SIGNED, aspect=22, pad=0.02,
                  label=f'difference in {quantity}\n(percentage points)')


def _title(name: str, quantity: str, clean: Number | None) -> str:
  return name if clean is None else f'{name}\nclean error {style.percent_with_interval(clean)}'


def _explain_hatching(figure: Figure, rate: float) -> None:
  patch = Patch(facecolor='white', edgecolor='0.35', hatch='//////', linewidth=0.5)
  text = ('not significant (exact McNemar test, false-discovery rate '
          f'{style.percent(rate, 0 if round(100 * rate, 6) % 1 == 0 else 1)})')
  figure.legend([patch], [text], loc='outside lower right')
