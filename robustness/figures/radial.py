"""Error by distance from zero frequency, one curve a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robustness.errors import InputError
from robustness.figures import style
from robustness.results import Number


class Curve(Protocol):
  """Error by radius: `radii` [R] in cycles per image; `mean`, `low`, `high` [R] fractions."""

  radii: np.ndarray
  mean: np.ndarray
  low: np.ndarray
  high: np.ndarray


@style.styled
def radial_curves(
  curves: Mapping[str, Curve],
  clean_errors: Mapping[str, Number] | None = None,
  quantity: str = 'top-1 error',
) -> Figure:
  """Draws error against |f|, with interval bands and the clean errors at the right edge.

  Args:
    curves: by classifier, such as `robustness.metrics.RadialCurve`.
    clean_errors: by classifier, the error without a perturbation, drawn as a short line
      in the margin at the right.
    quantity: what the curves show.

  Returns:
    A figure of column width.
  """
  if not curves:
    raise InputError('no curves to draw: give at least one classifier.')
  figure = Figure(figsize=(style.COLUMN_WIDTH, 2.5), layout='constrained')
  axes = figure.subplots()
  for index, (name, curve) in enumerate(curves.items()):
    _draw_curve(axes, curve, index, name)
  end = max(float(np.max(curve.radii)) for curve in curves.values())
  for index, name in enumerate(curves):
    if name in (clean_errors or {}):
      _draw_clean(axes, (clean_errors or {})[name], index, end)
  axes.set_xlabel('radial frequency |f| (cycles per image)')
  axes.set_ylabel(f'{quantity} (%)')
  axes.set_ylim(bottom=0)
  axes.xaxis.set_major_locator(MaxNLocator(integer=True))
  axes.spines[['top', 'right']].set_visible(False)
  figure.legend(loc='outside upper left', ncols=min(3, len(curves)), handlelength=2.6)
  return figure


def _draw_curve(axes: Axes, curve: Curve, index: int, name: str) -> None:
  look = _look(index)
  axes.plot(curve.radii, 100 * np.asarray(curve.mean), label=name, markersize=2.5,
            marker=style.MARKERS[index % len(style.MARKERS)], **look)
  axes.fill_between(curve.radii, 100 * np.asarray(curve.low), 100 * np.asarray(curve.high),
                    color=look['color'], alpha=0.2, linewidth=0)


def _draw_clean(axes: Axes, clean: Number, index: int, end: float) -> None:
  look = _look(index)
  places = (1.04 * end, 1.1 * end)
  axes.plot(places, [100 * clean.value] * 2, **look)
  axes.fill_between(places, 100 * clean.low, 100 * clean.high, color=look['color'],
                    alpha=0.2, linewidth=0)
  if index == 0:
    axes.annotate('clean', (1.07 * end, 0), xycoords=('data', 'axes fraction'),
                  xytext=(0, 3), textcoords='offset points', ha='center', fontsize=6)


def _look(index: int) -> dict[str, Any]:
  return {'color': style.COLOURS[index % len(style.COLOURS)],
          'linestyle': style.DASHES[index % len(style.DASHES)]}
