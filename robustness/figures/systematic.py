"""The figures of the study `systematic`, from its results alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from robustness.figures import style
from robustness.figures.panels import name_axes, panels
from robustness.results import Results

SEEN, UNSEEN = style.COLOURS[0], style.COLOURS[1]
_LONGEST_TITLE = 24  # letters of the classes of a group
_HELD_OUT = 0.5  # inches: a cell with room for these words
_MANY = 12  # environments beside which numbers in cells are small


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures.

  Returns:
    {name: (figure, caption)}: `grid` and `classes`; `cells`, `rho`, `levels` and `rho_by_level`
    where a classifier has seen cells; `effective_robustness` for several classifiers.
  """
  figures = {
    'grid': (
      grid(results),
      'Accuracy (%) by class group and environment. Cells that training has shown are outlined; '
      'those left over are in no group.',
    ),
    'classes': (
      classes(results),
      'What an environment costs each class: its accuracy there minus its clean accuracy. Filled '
      'dots are classes that training has shown in this environment.',
    ),
  }
  trained = _trained(results)
  if trained:
    figures['cells'] = (
      _cells_of_results(results, next(iter(trained.values()))),
      'What training shows: pairs of class group and environment that are seen or held out.',
    )
    confidence = 100 * results.settings['confidence']
    figures['rho'] = (
      rho(results),
      f'Systematic robustness ρ by environment, and its mean, with {confidence:g} % intervals over '
      'images. It says nothing where seen classes gain nothing: see seen and unseen accuracy.',
    )
    if any(f'{prefix}by_level' in results.arrays for prefix in trained.values()):
      figures['levels'] = (
        levels(results),
        'Accuracy by severity or angle on classes that training has shown in the environment '
        '(seen) and on all others (unseen).',
      )
      figures['rho_by_level'] = (
        rho_by_level(results),
        f'ρ of every severity or angle by itself, with {confidence:g} % intervals over images.',
      )
  if len(results.prefixes) > 1:
    figures['effective_robustness'] = (
      effective_robustness(results),
      'Accuracy in each environment against clean accuracy, all classes; on the dashed line an '
      'environment costs nothing.',
    )
  return figures


def _trained(results: Results) -> dict[str, str]:
  """Returns {label: prefix} of the classifiers with seen cells."""
  return {label: p for label, p in results.prefixes.items() if f'{p}rho' in results.numbers}


def _environments(results: Results) -> list[str]:
  return [str(name) for name in results.arrays['environment']]


def title(group: str, classes: Sequence[str]) -> str:
  """Returns what a class group is called: by its classes, if they are few and short."""
  listed = ', '.join(classes)
  short = 0 < len(listed) <= _LONGEST_TITLE
  return f'{group}: {listed}' if short else f'{group} ({len(classes)} classes)'


def _group_titles(results: Results) -> dict[str, str]:
  """Returns the title of every class group."""
  names, number = results.arrays['class'], results.arrays['class_group']
  return {
    group: title(group, [str(name) for name in names[number == k]])
    for k, group in enumerate(map(str, results.arrays['group']))
  }


def _letters(panels: int, length: float = style.PAGE_WIDTH) -> int:
  """Returns how many letters fit beside one of several panels in a row or column."""
  return max(8, int(0.85 * length / panels / style.LETTER))


def _spaced(name: str) -> str:
  return name.replace('_', ' ')


@style.styled
def cells(environments: Sequence[str], groups: Sequence[str], seen: np.ndarray) -> Figure:
  """Draws which cells training shows, booleans [groups, environments]."""
  width = min(style.PAGE_WIDTH, 1.6 + 0.75 * len(environments))
  figure = Figure(
    figsize=(width, min(style.PAGE_HEIGHT, 0.9 + 0.28 * len(groups))), layout='constrained'
  )
  axes = figure.subplots()
  axes.imshow(seen, cmap=ListedColormap(['w', SEEN]), vmin=0, vmax=1, aspect='auto')
  narrow = (width - 1.6) / len(environments) < _HELD_OUT
  size = 4.5 if narrow else 7.0
  for (row, column), shown in np.ndenumerate(seen):
    text, colour = ('seen', 'w') if shown else ('' if narrow else 'held out', '0.4')
    axes.text(column, row, text, color=colour, ha='center', va='center', fontsize=size)
  axes.set_xticks(
    range(len(environments)), [_spaced(name) for name in environments], rotation=35, ha='right'
  )
  axes.set_yticks(range(len(groups)), groups)
  axes.set_ylabel('class group')
  return figure


def _cells_of_results(results: Results, prefix: str) -> Figure:
  """Draws the cells of a classifier with seen cells; groups without classes are left out."""
  arrays, titles = results.arrays, _group_titles(results)
  known = np.isin(np.arange(len(arrays['group'])), arrays['class_group'])
  groups = [titles[str(group)] for group in arrays['group'][known]]
  return cells(_environments(results), groups, arrays[f'{prefix}seen'][known])


@style.styled
def grid(results: Results) -> Figure:
  """Draws accuracies by class group (down) and environment (across), one panel a classifier."""
  groups, names = results.arrays['group'], _environments(results)
  titles = _group_titles(results)
  shown = ~np.isnan(results.arrays[f'{next(iter(results.prefixes.values()))}grid']).all(1)
  figure, places = panels(len(results.prefixes), 0.75 + 0.26 * shown.sum(), 2, style.PAGE_WIDTH)
  for axes, (label, prefix) in zip(places, results.prefixes.items(), strict=True):
    values = 100 * results.arrays[f'{prefix}grid'][shown]
    seen = results.arrays[f'{prefix}seen'][shown]
    image = axes.imshow(values, cmap=style.MAGNITUDE, vmin=0, vmax=100, aspect='auto')
    for (row, column), value in np.ndenumerate(values):
      if np.isnan(value):
        continue
      colour = 'w' if value < 55 else 'k'
      size = 7 if len(names) <= _MANY else 4.5
      axes.text(column, row, f'{value:.0f}', color=colour, ha='center', va='center', fontsize=size)
      if seen[row, column]:
        axes.add_patch(
          Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, color='k', linewidth=1.4)
        )
    axes.set_title(style.wrapped(label, _letters(2)))
    axes.set_xticks(range(len(names)), [_spaced(name) for name in names], rotation=35, ha='right')
    axes.set_yticks(range(int(shown.sum())), [titles[group] for group in groups[shown]])
  figure.colorbar(image, ax=places, label='accuracy (%)')
  figure.supylabel('class group')
  return figure


@style.styled
def rho(results: Results) -> Figure:
  """Draws ρ with its interval by environment, one line a classifier."""
  trained, names = _trained(results), _environments(results)[1:]
  keys = [*(f'rho_{name}' for name in names), 'rho']
  step = 0.7 / len(trained)
  height = min(style.PAGE_HEIGHT, 0.8 + len(keys) * max(0.24, 0.14 * len(trained)))
  figure = Figure(figsize=(style.COLUMN_WIDTH, height), layout='constrained')
  axes = figure.subplots()
  for index, (label, prefix) in enumerate(trained.items()):
    numbers = [results.numbers[f'{prefix}{key}'] for key in keys]
    value, low, high = (
      np.array([getattr(number, end) for number in numbers]) for end in ('value', 'low', 'high')
    )
    known = ~np.isnan(value)
    places = np.arange(len(keys)) + (index - (len(trained) - 1) / 2) * step
    axes.errorbar(
      value[known],
      places[known],
      xerr=np.stack([value - low, high - value])[:, known],
      fmt=style.marker(index),
      color=style.colour(index),
      markersize=4,
      capsize=2,
      label=label,
    )
    for place in places[~known]:
      axes.text(0.02, place, 'undefined', va='center', fontsize=6)
  axes.set_yticks(range(len(keys)), [*map(_spaced, names), 'mean'])
  axes.set_ylim(len(keys) - 0.5, -0.5)
  axes.set_xlim(-0.02, 1.02)
  axes.set_xlabel('systematic robustness ρ')
  axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(figure)
  return figure


@style.styled
def levels(results: Results) -> Figure:
  """Draws seen and unseen accuracy by level: a column an environment, a row a classifier."""
  trained, names = _trained(results), _environments(results)[1:]
  level, of = results.arrays['level'], results.arrays['level_environment']
  height = min(style.PAGE_HEIGHT, 0.7 + 1.35 * len(trained))
  figure = Figure(figsize=(style.PAGE_WIDTH, height), layout='constrained')
  table = figure.subplots(len(trained), len(names), squeeze=False, sharey=True, sharex='col')
  for row, (label, prefix) in zip(table, trained.items(), strict=True):
    for k, (axes, name) in enumerate(zip(row, names, strict=True), 1):
      values = 100 * results.arrays[f'{prefix}by_level'][of == k]
      for column, (part, colour) in enumerate((('seen', SEEN), ('unseen', UNSEEN))):
        axes.plot(
          level[of == k],
          values[:, column],
          color=colour,
          linestyle=style.DASHES[column],
          marker=style.MARKERS[column],
          markersize=3,
          label=part,
        )
      axes.set_ylim(0, 100)
      axes.set_xticks(level[of == k])
      axes.spines[['top', 'right']].set_visible(False)
      if axes in table[0]:
        axes.set_title(style.wrapped(_spaced(name), _letters(len(names))))
    row[0].set_ylabel(style.wrapped(label, _letters(len(trained), height)))
  figure.supxlabel('severity, or angle (degrees)')
  figure.supylabel('accuracy (%)')
  style.legend_above(figure)
  return figure


@style.styled
def rho_by_level(results: Results) -> Figure:
  """Draws ρ with its interval by level, a panel an environment, a line a classifier."""
  names = _environments(results)[1:]
  level, of = results.arrays['level'], results.arrays['level_environment']
  figure, row = panels(len(names), 1.6, 5, style.PAGE_WIDTH)
  for k, (axes, name) in enumerate(zip(row, names, strict=True), 1):
    for index, (label, prefix) in enumerate(_trained(results).items()):
      value, low, high = (
        values[of == k] for values in results.with_interval(f'{prefix}rho_by_level')
      )
      axes.errorbar(
        level[of == k],
        value,
        yerr=np.stack([value - low, high - value]),
        fmt=style.marker(index),
        linestyle=style.dashes(index),
        color=style.colour(index),
        markersize=3,
        capsize=2,
        label=label,
      )
    axes.set_title(_spaced(name))
    axes.set_xticks(level[of == k])
    axes.set_ylim(-0.02, 1.02)
    axes.spines[['top', 'right']].set_visible(False)
  name_axes(figure, 'severity, or angle (degrees)', 'ρ')
  style.legend_above(figure)
  return figure


@style.styled
def effective_robustness(results: Results) -> Figure:
  """Draws accuracy in each environment against clean accuracy, a dot a classifier."""
  names = _environments(results)[1:]
  figure, places = panels(len(names), 1.9, 4, style.PAGE_WIDTH)
  numbers = [
    results.numbers[f'{prefix}{key}']
    for prefix in results.prefixes.values()
    for key in ('clean_accuracy', *(f'accuracy_{name}' for name in names))
  ]
  lowest = 10 * np.floor(10 * min(number.low for number in numbers))
  for axes, name in zip(places, names, strict=True):
    axes.plot([0, 100], [0, 100], '--', color='0.6', linewidth=0.8)
    for index, (label, prefix) in enumerate(results.prefixes.items()):
      x, y = (results.numbers[f'{prefix}{key}'] for key in ('clean_accuracy', f'accuracy_{name}'))
      axes.errorbar(
        100 * x.value,
        100 * y.value,
        xerr=[[100 * (x.value - x.low)], [100 * (x.high - x.value)]],
        yerr=[[100 * (y.value - y.low)], [100 * (y.high - y.value)]],
        fmt=style.marker(index),
        color=style.colour(index),
        markersize=4,
        linewidth=0.8,
        label=label,
      )
    axes.set_title(_spaced(name))
    axes.set_xlim(lowest, 100)
    axes.set_ylim(lowest, 100)
    axes.spines[['top', 'right']].set_visible(False)
  name_axes(figure, 'clean accuracy (%)', 'accuracy in the environment (%)')
  style.legend_above(figure)
  return figure


@style.styled
def classes(results: Results) -> Figure:
  """Draws each class's accuracy in an environment minus its clean accuracy."""
  names = _environments(results)[1:]
  group = results.arrays['class_group']
  figure, places = panels(len(results.prefixes), 1.8, 2, style.PAGE_WIDTH)
  for axes, (label, prefix) in zip(places, results.prefixes.items(), strict=True):
    accuracy = 100 * results.arrays[f'{prefix}by_class']
    trained = f'{prefix}rho' in results.numbers
    for k in range(1, len(names) + 1):
      change = accuracy[:, k] - accuracy[:, 0]
      spread = np.linspace(-0.3, 0.3, len(change)) if len(change) > 1 else np.zeros(1)
      for part, colour, face, title in (
        ((group == k) & trained, SEEN, SEEN, 'seen'),
        (~((group == k) & trained), UNSEEN, 'none', 'unseen'),
      ):
        axes.scatter(
          k + spread[part],
          change[part],
          s=12,
          edgecolors=colour,
          facecolors=face,
          linewidths=0.9,
          label=title,
        )
    axes.axhline(0, color='0.6', linewidth=0.8)
    axes.set_title(style.wrapped(label, _letters(2)))
    axes.set_xticks(
      range(1, len(names) + 1), [_spaced(name) for name in names], rotation=35, ha='right'
    )
    axes.spines[['top', 'right']].set_visible(False)
  figure.supylabel('accuracy − clean (points)')
  style.legend_above(figure)
  return figure
