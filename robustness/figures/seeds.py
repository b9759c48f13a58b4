"""Numbers of several seeds: a dot a seed, and the mean with its interval."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from robustness.figures import style
from robustness.metrics.seeds import TABLE
from robustness.results import Results

MOST = 24


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Returns {'seeds': (figure, caption)} of `robustness.metrics.seeds.over_seeds`."""
  table = results.tables[TABLE]
  values = {str(row[0]): np.array(row[1:], float) for row in table.rows}  # None is NaN
  rows = {name: row for name, row in values.items() if not np.isnan(row[-3])}
  shown = list(rows)[:MOST]
  if not shown:
    return {}
  left = len(table.rows) - len(shown)
  count = len(table.columns) - 4
  caption = (
    f'Each of {count} seeds (dots) and their mean with a 95 % interval (Student, over seeds). '
    'Intervals over images are in results.json and in the report of each seed.'
    + (f' {left} more numbers are in the table.' if left else '')
  )
  return {TABLE: (seeds(shown, np.stack([rows[name] for name in shown])), caption)}


@style.styled
def seeds(names: list[str], values: np.ndarray) -> Figure:
  """Draws one line a number.

  Args:
    names: of the N numbers.
    values: [N, seeds + 3], each seed's, then mean, low and high.
  """
  places = np.arange(len(names))[::-1]
  figure = Figure(figsize=(style.PAGE_WIDTH, 0.8 + 0.2 * len(names)), layout='constrained')
  axes = figure.subplots()
  mean, low, high = values[:, -3:].T
  axes.errorbar(
    mean,
    places,
    xerr=(mean - low, high - mean),
    fmt=style.MARKERS[3],
    color=style.COLOURS[0],
    capsize=3,
    markersize=4,
    label='mean over seeds, 95 % interval',
  )
  for index, column in enumerate(values[:, :-3].T):
    label = 'a seed' if index == 0 else None
    axes.plot(column, places, style.MARKERS[0], color='0.5', markersize=3, label=label)
  axes.set_yticks(places, names)
  axes.set_xlabel('value')
  axes.set_ylim(-0.7, len(names) - 0.3)
  style.legend_above(figure)
  return figure
