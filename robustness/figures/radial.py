"""Error by distance from zero frequency, one curve a classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robustness.core.errors import InputError
from robustness.figures import style
from robustness.metrics.fourier import RadialCurve
from robustness.results import Number


@style.styled
def radial_curves(
  curves: Mapping[str, RadialCurve],
  clean_errors: Mapping[str, Number] | None = None,
  quantity: str = 'top-1 error',
) -> Figure:
  """Draws error against |f|, with interval bands and the clean errors at the right edge.

  Args:
    curves: by classifier, error by radius with its interval.
    clean_errors: by classifier, the error without a perturbation, drawn as a short line
      to the right of the curves.
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
  if clean_errors:
    _draw_clean_errors(axes, clean_errors, list(curves))
  axes.set_xlabel('radial frequency |f| (cycles per image)')
  axes.set_ylabel(f'{quantity} (%)')
  axes.set_ylim(bottom=0)
  axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(figure)
  return figure


def _draw_curve(axes: Axes, curve: RadialCurve, index: int, name: str) -> None:
  look = _look(index)
  axes.plot(
    curve.radii,
    100 * np.asarray(curve.mean),
    label=name,
    markersize=2.5,
    marker=style.marker(index),
    **look,
  )
  axes.fill_between(
    curve.radii,
    100 * np.asarray(curve.low),
    100 * np.asarray(curve.high),
    color=look['color'],
    alpha=0.2,
    linewidth=0,
  )


def _draw_clean_errors(
  axes: Axes, clean_errors: Mapping[str, Number], names: Sequence[str]
) -> None:
  """Draws short lines beyond the largest radius, over a tick named 'clean'."""
  end = axes.dataLim.x1
  place = 1.13 * end
  for index, name in enumerate(names):
    if name in clean_errors:
      _draw_clean(axes, clean_errors[name], index, (place - 0.04 * end, place + 0.04 * end))
  ticks = [t for t in MaxNLocator(7, integer=True).tick_values(0, end) if t <= end]
  axes.set_xticks([*ticks, place], [*(style.whole(int(t)) for t in ticks), 'clean'])


def _draw_clean(axes: Axes, clean: Number, index: int, span: tuple[float, float]) -> None:
  look = _look(index)
  axes.plot(span, [100 * clean.value] * 2, **look)
  axes.fill_between(
    span, 100 * clean.low, 100 * clean.high, color=look['color'], alpha=0.2, linewidth=0
  )


def _look(index: int) -> dict[str, Any]:
  return {'color': style.colour(index), 'linestyle': style.dashes(index)}
