"""The figures of the study `si_score`, from its results alone."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from robustness.figures import style
from robustness.figures.panels import name_axes, panels
from robustness.results import Results

_IN_ROW, _LETTERS = 3, 30  # maps side by side, and letters of a line above one
AXES = {
  'size': ('object area (% of the image)', 100.0),
  'rotation': ('rotation (degrees counter-clockwise)', 1.0),
}


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {name: (figure, caption)}: `size`, `rotation` and `location` where that factor varies,
    each with `_difference` for several classifiers, and `gallery`.
  """
  figures = {}
  several = len(results.prefixes) > 1
  test = (
    'exact test of flipped signs over objects, false-discovery rate '
    f'{style.percent(results.settings["false_discovery_rate"], 0)}'
  )
  for factor in AXES:
    if f'{factor}/n' in results.arrays:
      figures[factor] = (
        curves(results, factor),
        (
          f'Top-1 accuracy by {factor}, as published (with bands, intervals over objects) and '
          f'balanced (dotted), of the same {_mix(results, factor)} at every {factor}; below as a '
          'share of its maximum, and the scenes that count.'
        ),
      )
      if several:
        figures[f'{factor}_difference'] = (
          difference_curves(results, factor),
          (
            f'Difference in top-1 accuracy from the first classifier by {factor}, with intervals '
            f'over objects; filled points are significant ({test}).'
          ),
        )
  if 'location/n' in results.arrays:
    figures['location'] = (
      location_maps(results),
      (
        "Top-1 accuracy by the place of the object's centre, as a percentage of the map's maximum. "
        'Grey: no scene counts.'
      ),
    )
    if several:
      figures['location_difference'] = (
        difference_maps(results),
        (
          'Difference in top-1 accuracy from the first classifier; cells that are not significant '
          f'({test}) are hatched.'
        ),
      )
  if 'gallery' in results.arrays:
    figures['gallery'] = (gallery(results), 'Some pairs at some levels, as composed.')
  return figures


def _mix(results: Results, factor: str) -> str:
  """Says what the balanced curve holds fixed: objects, and the other factors that vary."""
  others = [f'{f}s' for f in ('size', 'rotation', 'location') if f != factor]
  pooled = [name for name in others if f'{name[:-1]}/n' in results.arrays]
  return ' and '.join(['pairs', *pooled])


@style.styled
def curves(results: Results, factor: str) -> Figure:
  """Draws accuracy, accuracy as a share of its maximum, and the number of scenes by one factor."""
  label, scale = AXES[factor]
  x = scale * results.arrays[f'{factor}/value']
  figure = Figure(figsize=(style.COLUMN_WIDTH, 4.6), layout='constrained')
  top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1.4))
  for index, (name, prefix) in enumerate(results.prefixes.items()):
    colour = style.colour(index)
    dashes = style.dashes(index)
    values = {
      key: 100 * results.arrays[f'{prefix}{factor}/{key}']
      for key in ('accuracy', 'accuracy_low', 'accuracy_high', 'normalised', 'balanced')
    }
    top.plot(x, values['accuracy'], color=colour, linestyle=dashes, label=name)
    top.fill_between(
      x, values['accuracy_low'], values['accuracy_high'], color=colour, alpha=0.2, linewidth=0
    )
    top.plot(x, values['balanced'], color=colour, linestyle=':', linewidth=0.9)
    middle.plot(x, values['normalised'], color=colour, linestyle=dashes)
  bottom.plot(x, results.arrays[f'{factor}/n'], color='0.2')
  bottom.plot(x, results.arrays[f'{factor}/balanced_n'], color='0.2', linestyle=':')
  for axes, text in ((top, 'top-1 accuracy (%)'), (middle, '% of maximum'), (bottom, 'scenes')):
    axes.set_ylabel(text)
    axes.set_ylim(0, 102 if axes is not bottom else None)
    axes.spines[['top', 'right']].set_visible(False)
  bottom.set_xlabel(label)
  style.legend_above(figure, [style.dashed('balanced', ':')])
  return figure


@style.styled
def difference_curves(results: Results, factor: str) -> Figure:
  """Draws every other classifier's accuracy minus the first's by one factor."""
  label, scale = AXES[factor]
  first, *others = results.prefixes
  x = scale * results.arrays[f'{factor}/value']
  figure = Figure(figsize=(style.COLUMN_WIDTH, 2.4), layout='constrained')
  axes = figure.subplots()
  axes.axhline(0, color='0.4', linewidth=0.6)
  for index, name in enumerate(others, 1):
    colour = style.colour(index)
    difference = results.with_interval(f'{name}/{factor}/difference')
    value, low, high = (100 * values for values in difference)
    sure = results.arrays[f'{name}/{factor}/difference_significant'].astype(bool)
    axes.plot(x, value, color=colour, linewidth=0.8, label=f'{name} − {first}')
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x[~sure], value[~sure], 'o', color=colour, markerfacecolor='white', markersize=3)
    axes.plot(x[sure], value[sure], 'o', color=colour, markersize=3)
  axes.set_xlabel(label)
  axes.set_ylabel('difference in accuracy\n(percentage points)')
  axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(figure)
  return figure


@style.styled
def location_maps(results: Results) -> Figure:
  """Draws each classifier's accuracy by place, as a percentage of its maximum."""
  figure, grid = _panels(len(results.prefixes))
  for axes, (name, prefix) in zip(grid, results.prefixes.items(), strict=True):
    values = 100 * results.arrays[f'{prefix}location/normalised']
    image = _map(axes, results, values, style.MAGNITUDE, (0.0, 100.0))
    highest = np.max(
      results.arrays[f'{prefix}location/accuracy'],
      initial=0.0,
      where=results.arrays['location/n'] > 0,
    )
    words = style.wrapped(name, _LETTERS)
    axes.set_title(f'{words}\nmaximum {style.percent(float(highest))}')
  figure.colorbar(image, ax=grid, label="accuracy (% of the map's maximum)")
  return figure


@style.styled
def difference_maps(results: Results) -> Figure:
  """Draws every other classifier's accuracy by place minus the first's; blue is more accurate."""
  first, *others = results.prefixes
  figure, grid = _panels(len(others))
  maps = {name: 100 * results.arrays[f'{name}/location/difference'] for name in others}
  largest = max(1.0, *(float(np.nanmax(np.abs(values))) for values in maps.values()))
  for axes, name in zip(grid, others, strict=True):
    image = _map(axes, results, maps[name], 'RdBu', (-largest, largest))
    plain = ~results.arrays[f'{name}/location/difference_significant'].astype(bool)
    plain &= np.isfinite(maps[name])
    hatch(axes, results, plain)
    axes.set_title(style.wrapped(f'{name} − {first}', _LETTERS))
  figure.colorbar(image, ax=grid, label='difference in accuracy (percentage points)')
  return figure


@style.styled
def gallery(results: Results) -> Figure:
  """Draws some pairs (down) at some levels (across)."""
  images, levels = results.arrays['gallery'], results.arrays['gallery_level']
  figure = Figure(figsize=(style.PAGE_WIDTH, 0.4 + 1.15 * len(images)), layout='compressed')
  grid = figure.subplots(*images.shape[:2], squeeze=False)
  for axes, image in zip(grid.flat, images.reshape(-1, *images.shape[2:]), strict=True):
    axes.imshow(image, vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
  for axes, level in zip(grid[0], levels, strict=True):
    area, angle, x, y = (float(results.arrays[key][level]) for key in ('area', 'angle', 'x', 'y'))
    axes.set_title(f'{style.percent(area, 0)}, {angle:g}°\nat {x:.2g}, {y:.2g}', fontsize=6)
  return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
  in_row = min(count, _IN_ROW)
  height = 2.5 if count == 1 else min(3.1, 0.4 + (style.PAGE_WIDTH - 0.8) / in_row)
  figure, axes = panels(count, height, _IN_ROW)
  name_axes(figure, 'x (fraction from the left)', 'y (fraction from the top)')
  return figure, axes


def _map(
  axes: Axes, results: Results, values: np.ndarray, colours: str, limits: tuple[float, float]
) -> AxesImage:
  x, y = (_edges(results.arrays[f'location/{key}']) for key in ('x', 'y'))
  axes.set_facecolor(style.MISSING)
  extent = (x[0], x[-1], y[-1], y[0])
  return axes.imshow(
    values,
    cmap=colours,
    vmin=limits[0],
    vmax=limits[1],
    extent=extent,
    aspect='auto',
    interpolation='nearest',
  )


def hatch(axes: Axes, results: Results, cells: np.ndarray) -> None:
  """Hatches the cells [Y, X] of a map by place that are True."""
  x, y = (_edges(results.arrays[f'location/{key}']) for key in ('x', 'y'))
  corners = [
    [(x[j], y[i]), (x[j + 1], y[i]), (x[j + 1], y[i + 1]), (x[j], y[i + 1])]
    for i, j in np.argwhere(cells)
  ]
  axes.add_collection(
    PolyCollection(corners, facecolors='none', edgecolors='0.35', linewidths=0, hatch='//////'),
    autolim=False,
  )


def _edges(centres: np.ndarray) -> np.ndarray:
  """Returns the borders of cells of one size, [n + 1] of their centres [n]."""
  half = (centres[-1] - centres[0]) / max(1, 2 * (len(centres) - 1)) or 0.5
  return np.append(centres - half, centres[-1] + half)
