"""The default pictures of a table of results: bars, curves and maps, chosen by the facets.

Estimates of a quantity that have the same facets are one picture: bars by a named facet, curves by
one on an axis, a panel of curves for each name by both, a map by two on axes. Paired differences
have their own pictures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robustness.estimates.quantity import Quantity, facet
from robustness.estimates.table import by_facets
from robustness.figures import style
from robustness.present.notation import Notation
from robustness.results import Results

MOST_BARS, MOST_PANELS, LEAST_MAP = 40, 24, 3
"""Names that bars have room for, panels of a picture, values a side from which a map is drawn."""
Picture = tuple[Figure, str]


def draw(results: Results) -> dict[str, Picture]:
  """Returns {file name: (figure, caption)} of all that the table of results holds."""
  figures: dict[str, Picture] = {}
  labels = list(dict.fromkeys(results.table.classifier))
  for quantity in results.presented:
    own = results.table[(results.table['quantity'] == quantity.name)].dropna(subset=['value'])
    for facets, rows in by_facets(own):
      name = '_'.join((quantity.name, *facets))
      for difference in (False, True):
        part = rows[(rows.versus != '') == difference]
        picture = draw_rows(part, quantity, facets, labels) if len(part) else None
        if picture is not None:
          figures[f'{name}_difference' if difference else name] = picture
  return figures


def draw_rows(
  rows: pd.DataFrame, quantity: Quantity, facets: Sequence[str], labels: Sequence[str]
) -> Picture | None:
  """Returns the picture of estimates that have the same facets; None where there is no form for it.

  Args:
    rows: of the table, all own values or all differences.
    quantity: what they are of.
    facets: that they have.
    labels: of all classifiers, each of which has one colour in all pictures.
  """
  notation = Notation(quantity, difference=bool((rows.versus != '').all()))
  axes = [name for name in facets if is_axis(rows, name)]
  names = [name for name in facets if name not in axes]
  caption = _caption(rows, notation, facets)
  if len(names) == 1 and not axes and rows[names[0]].nunique() > MOST_BARS:
    end = 'smallest' if quantity.better == 'higher' else 'largest'
    caption = f'{caption} The {MOST_BARS} {end} of {rows[names[0]].nunique()}.'
  if len(names) > 1 or len(axes) > 2:
    return None
  if len(axes) == 2:
    full = all(rows[name].nunique() >= LEAST_MAP for name in axes) and not names
    if full:
      return maps(rows, notation, axes[0], axes[1]), caption
    if names:
      return None
    panels, along = sorted(axes, key=lambda name: int(rows[name].nunique()))
    return curves(rows, notation, labels, along, panels), caption
  if axes:
    return curves(rows, notation, labels, axes[0], names[0] if names else ''), caption
  return bars(rows, notation, labels, names[0] if names else ''), caption


def is_axis(rows: pd.DataFrame, name: str) -> bool:
  """Whether the values of a facet are numbers on an axis."""
  return not pd.api.types.is_string_dtype(rows[name].dtype) and (facet(name, ordered=True).ordered)


def _caption(rows: pd.DataFrame, notation: Notation, facets: Sequence[str]) -> str:
  words = notation.quantity.words
  by = ' and '.join(facet(name).words for name in facets)
  subject = words if not notation.difference else f'difference in {words}'
  n = sorted({int(n) for n in rows.n})
  images = f'{n[0]:,}' if len(n) == 1 else f'{n[0]:,} to {n[-1]:,}'
  minus = f', minus that of {rows.versus.iloc[0]}' if notation.difference else ''
  confidence = f'{100 * rows.confidence.iloc[0]:g} %'
  text = f'{subject}{f" by {by}" if by else ""}{minus}, on {images} images; {confidence} intervals'
  if notation.difference and sum(is_axis(rows, name) for name in facets) > 1:
    text = f'{text}, a dot where that of the cell alone leaves out 0'
  return f'{text[0].upper()}{text[1:]}.'


@style.styled
def bars(rows: pd.DataFrame, notation: Notation, labels: Sequence[str], name: str = '') -> Figure:
  """Draws a point with its interval for each value of a named facet, one colour a classifier."""
  shown = [label for label in labels if label in set(rows.classifier)]
  values = list(dict.fromkeys(rows[name])) if name else ['']
  if len(values) > MOST_BARS:
    worst = (
      rows.groupby(name).value.max().sort_values(ascending=notation.quantity.better != 'lower')
    )
    values = list(worst.index[:MOST_BARS])
  height = 0.75 + len(values) * max(0.22, 0.14 * len(shown))
  figure = Figure(figsize=(style.COLUMN_WIDTH, height), layout='constrained')
  axes = figure.subplots()
  step = 0.7 / len(shown)
  for place, label in enumerate(shown):
    index = labels.index(label)
    own = rows[rows.classifier == label]
    own = own.set_index(name).reindex(values) if name else own
    places = np.arange(len(values)) + (place - (len(shown) - 1) / 2) * step
    value, low, high = (notation.scale * own[end].to_numpy() for end in ('value', 'low', 'high'))
    axes.errorbar(
      value,
      places[: len(value)],
      xerr=np.nan_to_num(np.stack([value - low, high - value])),
      fmt=style.marker(index),
      color=style.colour(index),
      markersize=3.5,
      linewidth=1,
      label=label,
    )
  axes.set_yticks(range(len(values)), [str(value).replace('_', ' ') for value in values])
  axes.set_ylim(len(values) - 0.5, -0.5)
  if notation.difference:
    axes.axvline(0, color='0.3', linewidth=0.6)
  axes.set_xlabel(notation.head)
  axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(figure)
  return figure


@style.styled
def curves(
  rows: pd.DataFrame, notation: Notation, labels: Sequence[str], x: str, name: str = ''
) -> Figure:
  """Draws curves with interval bands over a facet, a panel for each value of a named one."""
  panels = list(dict.fromkeys(rows[name]))[:MOST_PANELS] if name else ['']
  columns = min(5, len(panels))
  lines = math.ceil(len(panels) / columns)
  size = (style.COLUMN_WIDTH, 2.6) if len(panels) == 1 else (style.PAGE_WIDTH, 0.6 + 1.35 * lines)
  figure = Figure(figsize=size, layout='constrained')
  grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
  for axes in grid.flat[len(panels) :]:
    axes.set_axis_off()
  for axes, panel in zip(grid.flat, panels, strict=False):
    of_panel = rows[rows[name] == panel] if name else rows
    for index, label in enumerate(labels):
      own = of_panel[of_panel.classifier == label]
      if len(own):
        _curve(axes, own, notation, x, index, label)
    if name:
      named = panel if isinstance(panel, str) else f'{facet(name).words} {panel:g}'
      axes.set_title(named.replace('_', ' '), fontsize=7)
    if notation.difference:
      axes.axhline(0, color='0.3', linewidth=0.6)
    axes.spines[['top', 'right']].set_visible(False)
  if pd.api.types.is_integer_dtype(rows[x].dtype):
    grid[0, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
  figure.supxlabel(_axis(x))
  figure.supylabel(notation.head)
  style.legend_above(figure)
  return figure


def _curve(
  axes: Axes, own: pd.DataFrame, notation: Notation, x: str, index: int, label: str
) -> None:
  ordered = own.sort_values(x)
  places = ordered[x].astype(float).to_numpy()
  value, low, high = (notation.scale * ordered[end].to_numpy() for end in ('value', 'low', 'high'))
  look: Mapping[str, Any] = {'color': style.colour(index), 'linestyle': style.dashes(index)}
  axes.plot(places, value, marker=style.marker(index), markersize=2.5, label=label, **look)
  axes.fill_between(places, low, high, color=style.colour(index), alpha=0.2, linewidth=0)


@style.styled
def maps(rows: pd.DataFrame, notation: Notation, y: str, x: str) -> Figure:
  """Draws a map for each classifier over two facets; a dot marks an interval that excludes 0."""
  labels = list(dict.fromkeys(rows.classifier))
  tables = {
    label: rows[rows.classifier == label].pivot(index=y, columns=x, values='value')
    for label in labels
  }
  columns = min(3, len(labels))
  lines = math.ceil(len(labels) / columns)
  figure = Figure(figsize=(0.9 + 2.0 * columns, 0.5 + 2.0 * lines), layout='constrained')
  grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
  values = notation.scale * rows.value
  reach = max(float(values.abs().max()), 1e-9)
  limits = (-reach, reach) if notation.difference else (float(values.min()), float(values.max()))
  for axes in grid.flat[len(labels) :]:
    axes.set_axis_off()
  for axes, label in zip(grid.flat, labels, strict=False):
    table = tables[label]
    image = axes.pcolormesh(
      table.columns.to_numpy(float),
      table.index.to_numpy(float),
      notation.scale * table.to_numpy(float),
      cmap=style.DIFFERENCE if notation.difference else style.MAGNITUDE,
      vmin=limits[0],
      vmax=limits[1],
      rasterized=True,
    )
    if notation.difference:
      own = rows[(rows.classifier == label) & ((rows.low > 0) | (rows.high < 0))]
      axes.plot(own[x].astype(float), own[y].astype(float), 'k.', markersize=1.5)
    axes.set_title(label)
  figure.supxlabel(_axis(x))
  figure.supylabel(_axis(y))
  figure.colorbar(image, ax=grid, label=notation.head)
  return figure


def _axis(name: str) -> str:
  described = facet(name)
  return f'{described.words} ({described.unit})' if described.unit else described.words
