"""Error against a quantity, one panel a kind and one curve a classifier, with intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robustness.core.errors import InputError
from robustness.figures import style
from robustness.results import Number


@dataclasses.dataclass(frozen=True)
class ErrorCurve:
  """An error at several values of a quantity.

  Attributes:
    x: [K] ascending.
    value, low, high: [K] fractions, with the ends of the intervals.
  """

  x: np.ndarray
  value: np.ndarray
  low: np.ndarray
  high: np.ndarray


@style.styled
def error_curves(
  panels: Mapping[str, Mapping[str, ErrorCurve]],
  quantity: str,
  clean: Mapping[str, Number] | None = None,
  label: str = 'top-1 error (%)',
  joined: bool = True,
) -> Figure:
  """Draws curves with interval bands, from 0 to where all of them end; panels share their axes.

  Args:
    panels: by title, by classifier, fractions in [0, 1]; '' is no title.
    quantity: name of the horizontal axis.
    clean: by classifier, the value without a perturbation, a dotted line.
    label: of the vertical axis.
    joined: whether the values of a curve are of one classifier; else they are dots with intervals.

  Returns:
    A figure of column width for one panel, of page width for several.
  """
  if not panels or not all(panels.values()):
    raise InputError('no curves to draw: give at least one classifier.')
  width = style.COLUMN_WIDTH if len(panels) == 1 else style.PAGE_WIDTH
  figure = Figure(figsize=(width, 2.6), layout='constrained')
  row = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
  labels = list(dict.fromkeys(name for curves in panels.values() for name in curves))
  for axes, (title, curves) in zip(row, panels.items(), strict=True):
    _panel(axes, curves, labels, clean or {}, joined)
    axes.set_title(style.wrapped(title, int(0.9 * width / len(panels) / style.LETTER)))
    axes.set_xlabel(quantity)
  row[0].set_ylabel(label)
  drawn = [end for curves in panels.values() for c in curves.values() for end in (c.value, c.high)]
  row[0].set_ylim(0, style.percent_end(*drawn, [n.value for n in (clean or {}).values()]))
  extra = [style.dashed('clean images', ':', color='0.3')] if clean else []
  style.legend_above(figure, extra)
  return figure


def _panel(
  axes: Axes,
  curves: Mapping[str, ErrorCurve],
  labels: Sequence[str],
  clean: Mapping[str, Number],
  joined: bool,
) -> None:
  for name, curve in curves.items():
    index = labels.index(name)
    colour, marker = style.colour(index), style.marker(index)
    value, low, high = (100 * np.asarray(part) for part in (curve.value, curve.low, curve.high))
    if joined:
      look: dict[str, Any] = {'linestyle': style.dashes(index), 'marker': marker, 'markersize': 2.5}
      axes.plot(curve.x, value, color=colour, label=name, **look)
      axes.fill_between(curve.x, low, high, color=colour, alpha=0.2, linewidth=0)
    else:
      ends = [value - low, high - value]
      axes.errorbar(curve.x, value, ends, fmt=marker, color=colour, markersize=4, label=name)
    if name in clean:
      axes.axhline(100 * clean[name].value, color=colour, linestyle=':', linewidth=0.8)
  axes.spines[['top', 'right']].set_visible(False)
  if all(np.issubdtype(np.asarray(curve.x).dtype, np.integer) for curve in curves.values()):
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
