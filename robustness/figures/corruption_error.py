"""The figures of the study `corruption_error`, from its results alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from robustness.figures import style
from robustness.figures.accuracy_bars import accuracy_bars
from robustness.figures.images import show_image
from robustness.figures.panels import name_axes, panels
from robustness.results import Results

_TABLES = 4  # differences side by side
_BESIDE = 1.9  # inches: names of corruptions and a colour bar


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {name: (figure, caption)}: `error_bars`, `severity_curves`, `gallery`, and for several
    classifiers `difference`.
  """
  first = next(iter(results.prefixes.values()))
  n = results.numbers[f'{first}error/{_names(results)[0]}'].n
  source = results.settings.get('source', 'generated')
  clean = f'{first}clean_error' in results.numbers
  dashes = (
    ', dashes the clean errors.'
    if clean
    else '. The stored set has no clean images, hence no clean error and no relative mCE.'
  )
  figures = {
    'error_bars': (
      error_bars(results),
      (
        f'Top-1 error under each corruption ({source} images), mean over severities, on {n} '
        f'images; lines are intervals{dashes}'
      ),
    ),
    'severity_curves': (
      severity_curves(results),
      (f'Top-1 error by severity ({source} images)' + ('; 0 is clean.' if clean else '.')),
    ),
  }
  if len(results.prefixes) > 1:
    rate = results.settings['false_discovery_rate']
    tests = len(_names(results)) * len(results.arrays['severity'])
    figures['difference'] = (
      difference_tables(results),
      (
        'Difference in top-1 error from the first classifier in percentage points; a dot marks '
        f'those that are significant (exact McNemar test, false-discovery rate '
        f'{style.percent(rate, 0)} over the {tests} tests of each classifier).'
      ),
    )
  if 'gallery' in results.arrays:
    figures['gallery'] = (
      gallery(results.arrays['gallery'], _names(results), results.arrays['severity'].tolist()),
      f'One image under every corruption and severity ({source}).',
    )
  return figures


def _names(results: Results) -> list[str]:
  return [str(name) for name in results.arrays['corruption']]


def error_bars(results: Results) -> Figure:
  """Draws horizontal bars of the mean error under each corruption, one colour a classifier."""
  numbers, prefixes = results.numbers, results.prefixes
  bars = {
    _spaced(name): {label: numbers[f'{prefix}error/{name}'] for label, prefix in prefixes.items()}
    for name in _names(results)
  }
  clean = {
    label: numbers[f'{prefix}clean_error']
    for label, prefix in prefixes.items()
    if f'{prefix}clean_error' in numbers
  }
  return accuracy_bars(bars, 'top-1 error (%)', spelt=False, clean=clean)


@style.styled
def severity_curves(results: Results) -> Figure:
  """Draws error against severity, a small panel a corruption, one line a classifier."""
  names, severities = _names(results), results.arrays['severity']
  figure, grid = panels(len(names), 1.25, 5, style.PAGE_WIDTH)
  highest = []
  for place, (axes, name) in enumerate(zip(grid, names, strict=True)):
    axes.set_title(_spaced(name), fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
    for index, (label, prefix) in enumerate(results.prefixes.items()):
      ends = [100 * values[place] for values in results.with_interval(f'{prefix}error')]
      x = severities
      if f'{prefix}clean_error' in results.numbers:
        clean = results.numbers[f'{prefix}clean_error']
        ends = [
          np.append(100 * getattr(clean, field), values)
          for field, values in zip(('value', 'low', 'high'), ends, strict=True)
        ]
        x = np.append(0, severities)
      highest += [end / 100 for end in ends]
      colour = style.colour(index)
      axes.plot(
        x,
        ends[0],
        color=colour,
        linestyle=style.dashes(index),
        marker=style.marker(index),
        markersize=2.5,
        label=label if place == 0 else None,
      )
      axes.fill_between(x, ends[1], ends[2], color=colour, alpha=0.2, linewidth=0)
  grid[0].set_ylim(0, style.percent_end(*highest))
  grid[0].set_xticks(x)
  name_axes(figure, 'severity', 'top-1 error (%)')
  style.legend_above(figure)
  return figure


@style.styled
def difference_tables(results: Results) -> Figure:
  """Draws, for each classifier but the first, its error minus the first's by corruption."""
  names, severities = _names(results), results.arrays['severity'].tolist()
  first, *others = results.prefixes
  in_row = min(len(others), _TABLES)
  width = min(style.PAGE_WIDTH, style.COLUMN_WIDTH * max(1.0, 0.4 + 0.42 * in_row))
  letters = int((width - _BESIDE) / in_row / style.LETTER)
  titles = [style.wrapped(f'{label} − {first}', letters) for label in others]
  lines = max(title.count('\n') for title in titles)
  height = 0.4 + 0.12 * lines + 0.2 * len(names)
  figure, grid = panels(len(others), height, _TABLES, width, spare=0.1)
  values = {label: 100 * results.arrays[f'{label}/difference'] for label in others}
  largest = max(1.0, *(np.abs(v).max() for v in values.values()))
  for axes, label, title in zip(grid, others, titles, strict=True):
    image = axes.imshow(
      values[label], cmap=style.DIFFERENCE, vmin=-largest, vmax=largest, aspect='auto'
    )
    y, x = np.nonzero(results.arrays[f'{label}/difference_significant'])
    axes.plot(x, y, 'k.', markersize=2.5)
    axes.set_title(title, fontsize=7)
    axes.set_xticks(range(len(severities)), severities)
  grid[0].set_yticks(range(len(names)), [_spaced(name) for name in names])
  name_axes(figure, 'severity')
  figure.colorbar(image, ax=grid, label='difference in top-1 error (percentage points)')
  return figure


@style.styled
def gallery(images: np.ndarray, names: Sequence[str], severities: Sequence[int]) -> Figure:
  """Draws one image under every corruption (down) and severity (across).

  Args:
    images: [corruptions, severities, H, W, C] in [0, 1], 1 or 3 channels.
    names: of the corruptions.
    severities: of the columns.
  """
  rows, columns, height, width = images.shape[:4]
  cell = min(0.85, 9.0 / rows)
  size = (1.25 + columns * cell * width / height, 0.35 + rows * cell)
  figure = Figure(figsize=size, layout='compressed')
  grid = figure.subplots(rows, columns, squeeze=False)
  for axes, image in zip(grid.flat, images.reshape(-1, *images.shape[2:]), strict=True):
    show_image(axes, image)
  for axes, name in zip(grid[:, 0], names, strict=True):
    axes.set_ylabel(_spaced(name), rotation=0, ha='right', va='center', fontsize=6)
  for axes, severity in zip(grid[0], severities, strict=True):
    axes.set_title(f'severity {severity}', fontsize=6)
  return figure


def _spaced(name: str) -> str:
  return name.replace('_', ' ')
