"""The figure of the study `tradeoff`, from its results alone."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.figures import style
from robustness.figures.corruption_marks import marks
from robustness.figures.panels import name_axes, panels
from robustness.results import Number, Results

_COLUMNS = 2
_TITLE = 50  # letters of a line above a panel


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Returns {'tradeoff': (figure, caption)}.

  Args:
    results: what the study left in `results.json` and `results.npz`.
  """
  first, *others = results.prefixes
  names = [str(name) for name in results.arrays['corruption']]
  rows, columns = results.arrays['high_pass_lowest']
  n = results.numbers[f'{others[0]}/accuracy_change/clean'].n
  caption = (
    f'Accuracy minus that of {first}, against the share of the energy of C(x) − x at |f_y| ≥ '
    f'{rows} and |f_x| ≥ {columns} cycles per image: {len(names)} corruptions, mean over '
    f'severities and {n} images. Bars are paired intervals; the line is fitted by least squares, '
    'its band and the brackets are intervals over images.'
  )
  return {'tradeoff': (tradeoff(results), caption)}


@style.styled
def tradeoff(results: Results) -> Figure:
  """Draws a panel for every classifier but the first: points, line and band."""
  others = list(results.prefixes)[1:]
  width = style.COLUMN_WIDTH + 0.6 if len(others) == 1 else style.PAGE_WIDTH
  figure, panels_of = panels(len(others), 2.6, _COLUMNS, width)
  for axes, label in zip(panels_of, others, strict=True):
    _line(axes, results, label)
    _points(axes, results, label)
    slope, residual = (results.numbers[f'{label}/{name}'] for name in ('slope', 'residual'))
    name = style.wrapped(label, _TITLE)
    axes.set_title(f'{name}\nk = {_interval(slope)}, r = {_interval(residual)}', fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  change = f'accuracy minus that of {next(iter(results.prefixes))} (percentage points)'
  name_axes(figure, 'share of high-frequency energy (%)', change)
  style.legend_above(figure)
  return figure


def _interval(number: Number) -> str:
  text = f'{number.value:.2f} [{number.low:.2f}, {number.high:.2f}]'
  return text.replace('-', '−')


def _line(axes: Axes, results: Results, label: str) -> None:
  share = 100 * results.arrays['share']
  line, low, high = (100 * values for values in results.with_interval(f'{label}/line'))
  axes.axhline(0, color='0.6', linewidth=0.6)
  axes.fill_between(share, low, high, color='0.85', linewidth=0)
  axes.plot(share, line, color='0.2', linewidth=1.0, label='fitted line')


def _points(axes: Axes, results: Results, label: str) -> None:
  """Draws the corruptions: a colour a kind, a marker each."""
  names = [str(name) for name in results.arrays['corruption']]
  x, y = (_with_bars(results, n) for n in ('high_frequency_fraction', f'{label}/accuracy_change'))
  for name, look in marks(names).items():
    k = names.index(name)
    axes.errorbar(
      x[0][k], y[0][k], y[1][:, [k]], x[1][:, [k]], markersize=3.5, elinewidth=0.6, **look
    )


def _with_bars(results: Results, name: str) -> tuple[np.ndarray, np.ndarray]:
  """Returns values in percent [K] and the lengths of their bars down and up [2, K]."""
  value, low, high = (100 * values for values in results.with_interval(name))
  return value, np.nan_to_num(np.stack([value - low, high - value]))
