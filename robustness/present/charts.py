"""The default figures of a table of results, chosen by the facets of its rows.

A facet is a column that estimates are grouped by, such as `corruption` or `severity`. An axis is a
facet with ordered numbers (`Facet.ordered`); a name is any other facet. A facet with a single value
counts as neither and is stated in the caption. All estimates of one quantity with values of the
same facets make one figure:

  a name            points with intervals, and a column of paired differences
  an axis           a curve per classifier, and a plot of paired differences
  a name, an axis   a plot of curves per name; a grid of differences
  two axes          a map per classifier and per difference
  two names         a grid per classifier
  a name, two axes  a map per classifier and name

Each map and grid is a heatmap: a cell is one estimate.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from robustness.estimates.facets import Facet
from robustness.estimates.jackknife import TOO_FEW, TOO_FEW_SEEDS
from robustness.estimates.quantity import SHARE, Quantity
from robustness.estimates.simultaneous import RATE, significant
from robustness.estimates.table import select, without_repeats
from robustness.present import forms, maps
from robustness.present.notation import (
  Notation,
  are_degenerate,
  column_name,
  is_axis,
  joined_words,
  name_of,
  place_of,
  sentence,
  span,
  value_text,
  value_words,
)
from robustness.results import SEED, Results

MAX_POINTS, MAX_PANELS, MIN_MAP_SIDE = 40, 24, 3
"""Limits of a figure: most names in a column of points, most plots of curves or columns of a grid,
and fewest values on each side of a map. Longer figures do not fit on a page.
"""
Picture = tuple[Figure, str]
"""A figure and its caption."""
Column = tuple[Notation, pd.DataFrame]
"""The notation and rows of a column of a figure: all values, or all paired differences."""


def draw(results: Results) -> dict[str, Picture]:
  """Returns figures of the quantities in `results.drawn`, {file name: (figure, caption)}.

  A file name is the quantity followed by the facets that its values are drawn by, as in
  `error_corruption`. If a quantity has estimates by one or two facets, those by more facets are not
  drawn. If no quantity has facets, the figures of overall values are returned.
  """
  figures: dict[str, Picture] = {}
  for quantity in results.drawn:
    estimates = results.table[results.table['quantity'] == quantity.name].dropna(subset=['value'])
    # (facets, rows) for each set of facets, every row once; single seeds have a separate figure
    groups = [
      (facets, rows) for facets, rows in without_repeats(estimates) if facets and SEED not in facets
    ]
    # 2, or the fewest facets of a group if all groups have more
    max_facets = max(2, min((len(facets) for facets, _ in groups), default=0))
    for facets, rows in groups:
      if len(facets) <= max_facets:
        pictures = draw_rows(rows, quantity, facets, results)
        name = name_of(quantity.name, facets)
        figures |= {f'{name}{suffix}': picture for suffix, picture in pictures.items()}
  return figures or draw_levels(results)


def scatter(results: Results, across: Quantity, up: Quantity, by: str) -> dict[str, Picture]:
  """Returns scatter plots of one share against another, a point per classifier.

  The result is {'<up>_against_<across>': (figure, caption)}, or {} if the table lacks a quantity.

  Args:
    results: the results with both quantities.
    across: quantity of the horizontal axis, in all plots with its values over all conditions.
    up: quantity of the vertical axis.
    by: facet of `up`; each of its values gets a plot.
  """
  any_value: dict[str, Any] = {by: ...}  # `...` selects all values; '' leaves out differences
  x = select(results.table, across.name).set_index('classifier')
  y = select(results.table, up.name, '', **any_value).dropna(subset=['value'])
  if x.empty or y.empty:
    return {}
  facet = up.facet(by)
  panels = [
    forms.NamedPoints((value_text(facet, value),), x, rows.set_index('classifier'))
    for value, rows in y.groupby(by, sort=False)
  ]
  heads = Notation(across).head, Notation(up).head
  figure = forms.named_points(panels, *heads, results.labels)
  words = f'{up.words} against {across.words} by {facet.words}'
  return {f'{up.name}_against_{across.name}': (figure, sentence(f'{words}{sample_in_words(y)}'))}


def with_line(figures: dict[str, Picture], name: str, level: float, words: str) -> None:
  """Adds a broken grey line to a figure and its explanation to the caption, in place.

  Does nothing if the figure was not drawn.

  Args:
    figures: figures and captions by name.
    name: the figure to change.
    level: position of the line on the vertical axis of each plot, in the unit of the axis.
    words: what the line shows, for the caption.
  """
  if name in figures:
    figure, caption = figures[name]
    for axes in figure.axes:
      axes.axhline(level, color='0.6', linestyle='--', linewidth=0.8)
    figures[name] = figure, f'{caption} Broken grey line: {words}.'


def draw_levels(results: Results) -> dict[str, Picture]:
  """Returns {file name: (figure, caption)} of the shares that have one value per classifier.

  A share is a quantity between 0 and 1, such as an accuracy. It has one value per classifier if it
  is over all conditions, or by facets with only one value each. All are in the figure 'levels'. If
  only some of them have paired differences, the others are in a second figure,
  'levels_without_differences', which lacks the column of differences.
  """
  rate = results.false_discovery_rate
  # {whether there are paired differences: rows of the shares}, in the order of the figures
  parts: dict[bool, list[pd.DataFrame]] = {True: [], False: []}
  for quantity, facets, estimates in results.by_facets():
    rows = estimates.dropna(subset=['value'])
    if quantity.kind == SHARE and len(rows) and all(rows[name].nunique() == 1 for name in facets):
      place = place_of(quantity, rows.iloc[0], facets)
      words = ' '.join(filter(None, (quantity.words, place)))
      has_differences = bool((rows.versus != '').any())
      parts[has_differences].append(rows.assign(words=words))
  figures: dict[str, Picture] = {}
  for shares in filter(None, parts.values()):
    rows = pd.concat(shares)
    names = list(dict.fromkeys(rows['words']))
    columns = columns_of(rows, Quantity('share', 'share'), rate)
    figure = forms.rows_of_points(names, columns, results.labels, 'words')
    # If no share has differences, those without are in the first figure.
    name = 'levels_without_differences' if figures else 'levels'
    text = f'{", ".join(names)}{sample_in_words(rows)}{_difference_words(columns[-1], rate)}'
    figures[name] = figure, sentence(text)
  return figures


def draw_rows(
  rows: pd.DataFrame, quantity: Quantity, facets: Sequence[str], results: Results
) -> dict[str, Picture]:
  """Returns the figures of a quantity's estimates by one set of facets.

  The result is {suffix: (figure, caption)}; the suffix, such as '_difference' or '', completes the
  file name. It is empty if the module has no figure for this combination of facets, or if there are
  too many values for one figure.

  Values of the quantity's `reference` are marked. Curves are compared with its values over all
  conditions; points with its values by the same facets, if there are any.

  Args:
    rows: the estimates, values and paired differences.
    quantity: their quantity.
    facets: the facets that all rows have values of.
    results: the results that the rows are from.
  """
  labels, rate = results.labels, results.false_discovery_rate
  reference = {declared.name: declared for declared in results.quantities}.get(quantity.reference)
  varying = [name for name in facets if rows[name].nunique() > 1]
  # Facets with ordered numbers, such as severity, and those with names, such as corruption.
  axes = [name for name in varying if is_axis(quantity, rows, name)]
  names = [name for name in varying if name not in axes]
  if len(axes) == 2 and not names:
    shorter, longer = sorted(axes, key=lambda name: int(rows[name].nunique()))
    if rows[shorter].nunique() < MIN_MAP_SIDE:  # so few lines are drawn as curves, a plot for each
      names, axes = [shorter], [longer]
  # Values come first, then differences if there are any.
  columns = columns_of(rows, quantity, rate)

  def caption(columns: Sequence[Column]) -> str:
    """Returns the caption of a figure with the columns of plots `columns`."""
    return _caption(columns, facets, varying, rate)

  reference_values: dict[tuple[str, str], float] = {}
  reference_words = ''
  if reference and varying:
    reference_values = _reference_values(reference, results.table, '' if axes else names[0], facets)
    first_notation, _ = columns[0]
    if reference_values and not first_notation.difference:
      marks_of_points = 'Bars' if any(name for _, name in reference_values) else 'Broken lines'
      marks = 'Dotted level lines' if axes else marks_of_points
      reference_words = f' {marks}: {reference.words}.'
  match len(names), len(axes):
    case 1, 0:  # a point for each name
      figure = _points_by_name(rows, columns, labels, names[0], reference_values)
    case 0, 1:  # curves: a plot of values, a plot of differences
      panels = [
        maps.Panel('paired differences' if notation.difference else '', part, notation)
        for notation, part in columns
      ]
      figure = forms.curves(panels, labels, axes[0], reference_values)
    # Curves of values: a plot for each name; differences in a grid of names by numbers.
    case 1, 1 if rows[names[0]].nunique() <= MAX_PANELS:
      panels = _panels_by_value(columns[0], names[0])
      figure = forms.curves(panels, labels, axes[0], reference_values)
      grids_of_differences = _draw_grids(columns[1:], names[0], axes[0], caption)
      return {'': (figure, caption(columns[:1]) + reference_words), **grids_of_differences}
    case 2, 0:  # grids with the facet of more names down
      down, across = sorted(names, key=lambda name: -int(rows[name].nunique()))
      return _draw_grids(columns, down, across, caption)
    case 0, 2:  # maps over two facets with numbers
      return {'': (maps.maps(_classifier_panels(columns), axes[0], axes[1]), caption(columns))}
    case 1, 2:  # a map for each name
      return _small_multiples(columns[0], names[0], axes, caption(columns[:1]))
    case _:
      return {}
  return {'': (figure, caption(columns) + reference_words)}


def _reference_values(
  quantity: Quantity, table: pd.DataFrame, name: str, facets: Sequence[str]
) -> dict[tuple[str, str], float]:
  """Returns the values of a reference quantity, by (classifier, value of the facet `name`).

  If `name` is '' or the reference has no values by `facets`, they are its values over all
  conditions, by (classifier, '').

  Args:
    quantity: the reference.
    table: the table of results.
    name: the facet that varies; '' for none.
    facets: all facets of the rows that are drawn.
  """
  any_condition: dict[str, Any] = dict.fromkeys(facets, ...)  # `...` selects all values
  rows = select(table, quantity.name, '', **any_condition) if name else pd.DataFrame()
  if rows.empty:
    # The values over all conditions, with a column of '' in the place of the facet.
    rows, name = select(table, quantity.name).assign(over_all=''), 'over_all'
  rows = rows.dropna(subset=['value'])
  keys = zip(rows.classifier, rows[name].astype(str), strict=True)
  return dict(zip(keys, rows.value, strict=True))


def _draw_grids(
  columns: Sequence[Column], down: str, across: str, caption: Callable[[Sequence[Column]], str]
) -> dict[str, Picture]:
  """Returns heatmaps over two facets as {suffix of the file name: (figure, caption)}.

  The suffix is '' for values and '_difference' for differences. A figure has a grid per classifier.
  It is left out if a facet has more values than fit. Grids of many classifiers are continued in
  figures with the suffixes '_2', '_3', …, on the same colour scale.

  Args:
    columns: the values, and the differences if there are any.
    down: facet of the lines of a grid, at most 2 · `MAX_POINTS` values.
    across: facet of the columns of a grid, at most `MAX_PANELS` values.
    caption: returns the caption of a figure that shows the columns that it is called with.
  """
  figures = {}
  for notation, rows in columns:
    if rows[down].nunique() <= 2 * MAX_POINTS and rows[across].nunique() <= MAX_PANELS:
      column = [(notation, rows)]
      suffix = '_difference' if notation.difference else ''
      panels = _classifier_panels(column)
      for page, part in enumerate(maps.pages(panels, down, across), 1):
        figure = maps.grids(part, down, across, scaled=panels)
        figures[f'{suffix}_{page}' if page > 1 else suffix] = (figure, caption(column))
  return figures


def columns_of(rows: pd.DataFrame, quantity: Quantity, rate: float = RATE) -> list[Column]:
  """Returns [(notation, values), (notation, paired differences)], without columns that are empty.

  The boolean `marked` is added to the rows: true for differences that are significant at the
  false-discovery rate `rate`.
  """
  values, differences = rows[rows.versus == ''], rows[rows.versus != '']
  differences = differences.assign(marked=significant(differences, quantity, rate))
  baselines = list(differences.versus.unique())
  versus = baselines[0] if len(baselines) == 1 else ''
  columns = [
    (Notation(quantity), values.assign(marked=False)),
    (Notation(quantity, difference=True, versus=versus), differences),
  ]
  return [(notation, column) for notation, column in columns if len(column)]


def _classifier_panels(columns: Sequence[Column]) -> list[maps.Panel]:
  """Returns a panel for each classifier's values and each pair of classifiers' differences."""
  return [
    maps.Panel(column_name(label, versus), group, notation)
    for notation, rows in columns
    for (label, versus), group in rows.groupby(['classifier', 'versus'], sort=False)
  ]


def _panels_by_value(column: Column, name: str) -> list[maps.Panel]:
  """Returns a plot for each value of the facet `name`, with the value as title.

  `column` is the notation and the rows that the plots divide among them.
  """
  notation, rows = column
  facet = notation.quantity.facet(name)
  values = dict.fromkeys(rows[name])
  return [maps.Panel(_title(facet, value), rows[rows[name] == value], notation) for value in values]


def _small_multiples(
  column: Column, name: str, axes: Sequence[str], caption: str
) -> dict[str, Picture]:
  """Returns a figure for each classifier, {'_<label>': (figure, caption)}.

  A figure has a map over the two `axes` for each value of the facet `name`, at most `MAX_PANELS`.
  All maps of all figures share one colour scale.
  """
  pictures = {}
  notation, estimates = column
  for label, rows in estimates.groupby('classifier', sort=False):
    panels = _panels_by_value((notation, rows), name)
    # the panels of all classifiers and values set the colour scale
    in_scale = _classifier_panels([column])
    figure = maps.maps(panels[:MAX_PANELS], axes[0], axes[1], scaled=in_scale)
    excerpt = f' The first {MAX_PANELS} of {len(panels)}.' if len(panels) > MAX_PANELS else ''
    pictures[f'_{label}'] = figure, f'{label}: {caption}{excerpt}'
  return pictures


def _points_by_name(
  rows: pd.DataFrame,
  columns: Sequence[Column],
  labels: Sequence[str],
  name: str,
  reference: Mapping[tuple[str, str], float],
) -> Figure:
  """Draws a row of points for each value of the facet `name`.

  Of more than `MAX_POINTS` values of the facet, only those with the worst result of any classifier
  are drawn. `reference` has values to compare with, by (classifier, value of `name`) or by
  (classifier, '').
  """
  values = list(dict.fromkeys(map(str, rows[name])))
  if len(values) > MAX_POINTS:
    notation, estimates = columns[0]
    is_higher_better = notation.quantity.better == 'higher'
    by_name = estimates.groupby(name, sort=False).value
    worst = by_name.min() if is_higher_better else by_name.max()  # over classifiers
    worst_first = worst.sort_values(ascending=is_higher_better)
    values = list(map(str, worst_first.index[:MAX_POINTS]))
    columns = [
      (notation, column[column[name].astype(str).isin(values)]) for notation, column in columns
    ]
  return forms.rows_of_points(values, columns, labels, name, reference)


def _title(facet: Facet, value: Any) -> str:
  """Returns the title of the plot for a value of a facet: 'fog' for text, 'severity 3' for a
  number.
  """
  text = value_text(facet, value)
  return text if isinstance(value, str) else f'{facet.words} {text}'


def _caption(
  columns: Sequence[Column], facets: Sequence[str], varying: Sequence[str], rate: float
) -> str:
  """Returns the caption of a figure of `columns`, of values or of differences.

  It states the quantity, the facets in `varying`, the only value of every other facet in `facets`,
  the number of images, and what symbols in the figure mean. `rate` is the false-discovery rate of
  differences that are marked as significant.
  """
  notation, rows = columns[0]
  quantity = notation.quantity
  words = f'difference in {quantity.words}' if notation.difference else quantity.words
  by = joined_words(quantity, varying)
  single = [name for name in facets if name not in varying]
  fixed = ', '.join(value_words(quantity.facet(name), rows[name].iloc[0]) for name in single)
  text = f'{words}{f" by {by}" if by else ""}{f" {fixed}" if fixed else ""}{sample_in_words(rows)}'
  has_axis = any(is_axis(quantity, rows, name) for name in varying)
  # Points for the names of one facet, or a grid of cells for the names of two.
  has_points, has_grid = len(varying) == 1 and not has_axis, len(varying) == 2 and not has_axis
  if has_points and rows[varying[0]].nunique() > MAX_POINTS:
    end = 'smallest' if quantity.better == 'higher' else 'largest'
    text = f'{text}. The {MAX_POINTS} {end} of {rows[varying[0]].nunique()}'
  notes = dict.fromkeys(note for note in maps.cell_notes(rows) if note)
  if notes and has_grid:
    text = f'{text}. Outlined: {", ".join(notes)}'
  elif are_degenerate(rows).any():
    text = f'{text}. Hollow, without an interval: degenerate'
  for units, note in (('clusters', TOO_FEW), ('seeds', TOO_FEW_SEEDS)):
    if rows.note.str.contains(note, regex=False).any():
      text = f'{text}. Estimates from too few {units} have no interval'
  return sentence(text + _difference_words(columns[-1], rate))


def _difference_words(column: Column, rate: float) -> str:
  """Returns the sentence of a caption about paired differences; '' for a column of values.

  It names the classifier that is subtracted and explains the dots, which mark differences that are
  significant at the false-discovery rate `rate`.
  """
  notation, rows = column
  if not notation.difference:
    return ''
  family = f' over {len(rows):,} differences' if len(rows) > 1 else ''
  return (
    f'. Differences are from {rows.versus.iloc[0]}, paired; a dot marks a significant one '
    f'(false-discovery rate {100 * rate:g} %{family})'
  )


def sample_in_words(rows: pd.DataFrame) -> str:
  """Returns the number of observations and the confidence level of the intervals of rows.

  For example ', n = 10,000; 95 % intervals'; a part that is missing in all rows is left out.
  """
  images = span(rows.n.dropna())
  confidence = rows.confidence[rows.low.notna()]
  text = f', n = {images}' if images else ''
  return f'{text}; {100 * confidence.iloc[0]:g} % intervals' if len(confidence) else text
