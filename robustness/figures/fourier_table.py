"""Changes of accuracy by corruption, measured against published, a panel a classifier."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from robustness.figures import style
from robustness.figures.corruption_marks import marks
from robustness.figures.panels import name_axes, panels
from robustness.results import Number

_COLUMNS = 3


@style.styled
def agreement(points: Mapping[str, Mapping[str, tuple[float, Number]]]) -> Figure:
  """Draws measured changes with intervals over published ones.

  Args:
    points: by classifier, by corruption, the published change and the measured one, fractions;
      a classifier without points has no panel.
  """
  shown = {label: by_name for label, by_name in points.items() if by_name}
  figure, places = panels(len(shown), 2.3, _COLUMNS)
  published = [100 * pair[0] for by_name in shown.values() for pair in by_name.values()]
  ends = min(*published, 0.0), max(*published, 0.0)
  for axes, (label, by_name) in zip(places, shown.items(), strict=True):
    axes.axhline(0, color='0.8', linewidth=0.6)
    axes.axvline(0, color='0.8', linewidth=0.6)
    axes.plot(ends, ends, color='0.4', linestyle='--', linewidth=0.8)
    for name, look in marks(list(by_name)).items():
      printed, measured = by_name[name]
      value, low, high = 100 * np.array([measured.value, measured.low, measured.high])
      bar = np.nan_to_num([[value - low], [high - value]])
      axes.errorbar(100 * printed, value, bar, markersize=3, elinewidth=0.6, **look)
    axes.set_title(label)
    axes.spines[['top', 'right']].set_visible(False)
  name_axes(
    figure,
    'published change of accuracy (percentage points)',
    'measured change (percentage points)',
  )
  style.legend_above(figure)
  return figure
