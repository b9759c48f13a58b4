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

import functools
from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from robustness.estimates.intervals import NEWCOMBE
from robustness.estimates.jackknife import TOO_FEW, TOO_FEW_SEEDS
from robustness.estimates.quantity import SHARE, Quantity
from robustness.estimates.simultaneous import RATE, significant
from robustness.estimates.table import select, select_by, without_repeats
from robustness.present import forms, maps, notation
from robustness.present.notation import Notation
from robustness.present.selection import with_few_facets
from robustness.results import SEED, Results

MAX_POINTS, MAX_PANELS, MIN_MAP_SIDE = 40, 24, 3
"""Limits of a figure: most names in a column of points, most plots of curves or columns of a grid,
and fewest values on each side of a map. Longer figures do not fit on a page.
"""
JOINT = ', simultaneous for the highest or lowest of several values'
"""Words after intervals in captions if some of them hold for several estimates together."""
Picture = tuple[Figure, str]
"""A figure and its caption."""


def draw(results: Results) -> dict[str, Picture]:
  """Draws the figures of the quantities in `results.drawn`.

  Estimates by one or two facets (columns such as corruption and severity) are preferred to
  estimates by more. If none can be drawn, values over all conditions are.

  Returns:
    {file name: (figure, caption)}. A name such as 'error_corruption' has the quantity and the
    facets.
  """
  figures: dict[str, Picture] = {}
  for quantity in results.drawn:
    estimates = results.table[results.table['quantity'] == quantity.name].dropna(subset=['value'])
    # (facets, rows) for each set of facets, every row once; single seeds have a separate figure
    groups = [
      (facets, rows) for facets, rows in without_repeats(estimates) if facets and SEED not in facets
    ]
    for facets, rows in with_few_facets(groups):
      name = notation.name_of(quantity.name, facets)
      for suffix, picture in draw_rows(rows, quantity, facets, results).items():
        figures[f'{name}{suffix}'] = picture
  return figures or draw_levels(results)


def scatter(results: Results, across: Quantity, up: Quantity, by: str) -> dict[str, Picture]:
  """Draws one quantity against another, such as two accuracies, with a point per classifier.

  Args:
    results: the results with both quantities, which are fractions.
    across: quantity of the horizontal axis. Its values over all conditions are drawn.
    up: quantity of the vertical axis.
    by: grouping column of `up`, such as 'attack'. Each of its values gets a plot.

  Returns:
    {'<up>_against_<across>': (figure, caption)}, or {} if `results` lack one of the quantities.
  """
  x = select(results.table, across.name).set_index('classifier')
  y = select_by(results.table, up.name, [by]).dropna(subset=['value'])
  if x.empty or y.empty:
    return {}
  facet = up.facet(by)
  panels = [
    forms.NamedPoints((notation.label_of(facet, value),), x, rows.set_index('classifier'))
    for value, rows in y.groupby(by, sort=False)
  ]
  figure = forms.named_points(panels, Notation(across).head, Notation(up).head, results.labels)
  words = f'{up.words} against {across.words} by {facet.words}'
  caption = notation.sentence(f'{words}{sample_in_words(y)}')
  return {f'{up.name}_against_{across.name}': (figure, caption)}


def with_line(figures: dict[str, Picture], name: str, level: float, words: str) -> None:
  """Adds a broken grey line to a figure, with an explanation in its caption, in place.

  Nothing changes if the figure was not drawn.

  Args:
    figures: {name: (figure, caption)}.
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
  """Draws the quantities that have only one value per classifier, such as a clean accuracy.

  Only quantities between 0 and 1 are drawn. All are in the figure 'levels', with a plot of paired
  differences. If only some of them have differences, the others are in
  'levels_without_differences'.

  Returns:
    {file name: (figure, caption)}.
  """
  rate = results.false_discovery_rate
  # {whether there are differences: rows of the quantities for which this holds}
  parts: dict[bool, list[pd.DataFrame]] = {True: [], False: []}
  for quantity, facets, estimates in results.by_facets():
    rows = estimates.dropna(subset=['value'])
    has_one_condition = len(rows) and all(rows[name].nunique() == 1 for name in facets)
    if quantity.kind == SHARE and has_one_condition:
      rows = rows.assign(words=notation.words_with_condition(quantity, rows.iloc[0], facets))
      parts[bool((rows.versus != '').any())].append(rows)
  figures: dict[str, Picture] = {}
  for shares in parts.values():
    if not shares:
      continue
    rows = pd.concat(shares)
    names = list(dict.fromkeys(rows['words']))
    of_all = Quantity('share', 'share')  # stands for the quantities of all rows
    plots = values_and_differences(rows, of_all, rate)
    figure = forms.rows_of_points(names, plots, results.labels, 'words')
    # 'levels' has the shares without differences if there are no others
    name = 'levels_without_differences' if figures else 'levels'
    text = f'{", ".join(names)}{sample_in_words(rows)}{difference_words(plots[-1], rate)}'
    figures[name] = figure, notation.sentence(text)
  return figures


def draw_rows(
  rows: pd.DataFrame, quantity: Quantity, facets: Sequence[str], results: Results
) -> dict[str, Picture]:
  """Draws the estimates of a quantity that are grouped by the same columns.

  The form of the figure depends on these columns, see the top of this file. Curves and points also
  show the quantity's `reference`, such as the clean error, if it has one.

  Args:
    rows: the estimates, values and paired differences.
    quantity: their quantity.
    facets: the grouping columns, such as ('corruption', 'severity').
    results: the results that the rows are from.

  Returns:
    {suffix of the file name, such as '_difference' or '': (figure, caption)}. It is {} if there is
    no form for these columns, or if they have too many values for one figure.
  """
  labels, rate = results.labels, results.false_discovery_rate
  varying = [name for name in facets if rows[name].nunique() > 1]
  # Facets with ordered numbers, such as severity, and those with names, such as corruption.
  axes = [name for name in varying if notation.is_axis(quantity, rows, name)]
  names = [name for name in varying if name not in axes]
  if len(axes) == 2 and not names:
    shorter, longer = sorted(axes, key=lambda name: int(rows[name].nunique()))
    if rows[shorter].nunique() < MIN_MAP_SIDE:  # so few lines are drawn as curves, a plot for each
      names, axes = [shorter], [longer]
  plots = values_and_differences(rows, quantity, rate)
  caption = functools.partial(_caption, facets=facets, varying=varying, rate=rate)
  reference_values: forms.References = {}
  reference_words = ''  # the sentence of the caption that explains their marks
  reference = next((q for q in results.quantities if q.name == quantity.reference), None)
  if reference and varying:
    reference_values = _reference_values(reference, results.table, '' if axes else names[0], facets)
    marks = 'Dotted level lines' if axes else 'Broken lines'
    if any(name for _, name in reference_values):  # a value for each name, see `rows_of_points`
      marks = 'Bars'
    if reference_values and not plots[0].notation.difference:
      reference_words = f' {marks}: {reference.words}.'
  match len(names), len(axes):
    case 1, 0:  # a point for each name
      figure = _points_by_name(rows, plots, labels, names[0], reference_values)
    case 0, 1:  # curves: a plot of values, a plot of differences
      figure = forms.curves(plots, labels, axes[0], reference_values)
    # Curves of values: a plot for each name; differences in a grid of names by numbers.
    case 1, 1 if rows[names[0]].nunique() <= MAX_PANELS:
      panels = _panels_by_value(plots[0], names[0])
      figure = forms.curves(panels, labels, axes[0], reference_values)
      grids_of_differences = _draw_grids(plots[1:], names[0], axes[0], caption)
      return {'': (figure, caption(plots[:1]) + reference_words), **grids_of_differences}
    case 2, 0:  # grids with the facet of more names down
      down, across = sorted(names, key=lambda name: -int(rows[name].nunique()))
      return _draw_grids(plots, down, across, caption)
    case 0, 2:  # maps over two facets with numbers
      return {'': (maps.maps(_panels_by_classifier(plots), axes[0], axes[1]), caption(plots))}
    case 1, 2:  # a map for each name
      return _maps_by_name(plots[0], names[0], axes, caption(plots[:1]))
    case _:
      return {}
  return {'': (figure, caption(plots) + reference_words)}


def _reference_values(
  reference: Quantity, table: pd.DataFrame, name: str, facets: Sequence[str]
) -> forms.References:
  """Returns the values of a quantity that figures draw for comparison, such as the clean error.

  Args:
    reference: the quantity to compare with.
    table: the table of results.
    name: the grouping column with several values, such as 'corruption'; '' for values over all
      conditions.
    facets: all grouping columns of the estimates that are compared with the reference.

  Returns:
    {(classifier, value of column `name`): value of the reference}. If the reference has no values
    by `facets`, {(classifier, ''): value over all conditions}.
  """
  if name:
    rows = select_by(table, reference.name, facets)
    if len(rows):
      rows = rows.dropna(subset=['value'])
      keys = zip(rows.classifier, rows[name].astype(str), strict=True)
      return dict(zip(keys, rows.value, strict=True))
  rows = select(table, reference.name).dropna(subset=['value'])
  return {(label, ''): value for label, value in zip(rows.classifier, rows.value, strict=True)}


def _draw_grids(
  plots: Sequence[maps.Panel],
  down: str,
  across: str,
  caption: Callable[[Sequence[maps.Panel]], str],
) -> dict[str, Picture]:
  """Draws a heatmap with numbers for each classifier, over two facets.

  A facet is a column that estimates are grouped by, such as corruption. A figure is left out if a
  facet has too many values. Many grids are continued in further figures, on the same colour scale.

  Args:
    plots: the values, and the differences if there are any.
    down: facet of the lines of a grid, at most 2 · `MAX_POINTS` values.
    across: facet of the columns of a grid, at most `MAX_PANELS` values.
    caption: function of [values] or [differences] that returns the caption of their figure.

  Returns:
    {suffix of the file name: (figure, caption)}. The suffix is '' for values and '_difference' for
    differences, followed by '_2', '_3', … in further figures.
  """
  figures = {}
  for plot in plots:
    if plot.rows[down].nunique() <= 2 * MAX_POINTS and plot.rows[across].nunique() <= MAX_PANELS:
      suffix = '_difference' if plot.notation.difference else ''
      panels = _panels_by_classifier([plot])
      for page, part in enumerate(maps.pages(panels, down, across), 1):
        figure = maps.grids(part, down, across, scaled=panels)
        figures[f'{suffix}_{page}' if page > 1 else suffix] = (figure, caption([plot]))
  return figures


def values_and_differences(
  rows: pd.DataFrame, quantity: Quantity, rate: float = RATE
) -> list[maps.Panel]:
  """Divides estimates into a plot of values and a plot of differences.

  Args:
    rows: rows of the table of results.
    quantity: their quantity.
    rate: false-discovery rate of differences that are marked as significant.

  Returns:
    [values, differences], or only one of them if the other has no rows. Their rows have a new
    boolean column `marked`, true for significant differences.
  """
  values, differences = rows[rows.versus == ''], rows[rows.versus != '']
  differences = differences.assign(marked=significant(differences, quantity, rate))
  baselines = list(differences.versus.unique())
  versus = baselines[0] if len(baselines) == 1 else ''  # no single classifier is subtracted
  of_differences = Notation(quantity, difference=True, versus=versus)
  are_paired = not (differences['method'] == NEWCOMBE).any()
  parts = [
    maps.Panel('', values.assign(marked=False), Notation(quantity)),
    maps.Panel('paired differences' if are_paired else 'differences', differences, of_differences),
  ]
  return [part for part in parts if len(part.rows)]


def _panels_by_classifier(plots: Sequence[maps.Panel]) -> list[maps.Panel]:
  """Divides each plot into one plot per classifier, and per pair of classifiers for differences.

  Args:
    plots: plots of all classifiers, each with a title, rows of the table of results and the
      notation of its values. Rows have a `classifier` and, for a difference, the classifier
      `versus` that is subtracted.
  """
  return [
    maps.Panel(notation.column_name(label, versus), group, plot.notation)
    for plot in plots
    for (label, versus), group in plot.rows.groupby(['classifier', 'versus'], sort=False)
  ]


def _panels_by_value(plot: maps.Panel, name: str) -> list[maps.Panel]:
  """Divides a plot into one plot per value of a column, with the value as title.

  Args:
    plot: a title, rows of the table of results, and the notation of their values.
    name: name of the column, such as 'corruption'.
  """
  rows, facet = plot.rows, plot.notation.quantity.facet(name)
  return [
    maps.Panel(notation.label_of(facet, value), rows[rows[name] == value], plot.notation)
    for value in dict.fromkeys(rows[name])
  ]


def _maps_by_name(
  plot: maps.Panel, name: str, axes: Sequence[str], caption: str
) -> dict[str, Picture]:
  """Draws a figure of maps for each classifier, with a map for each value of a column.

  All maps of all figures share one colour scale.

  Args:
    plot: the values.
    name: the column, such as 'corruption'. At most `MAX_PANELS` of its values are drawn.
    axes: the two ordered columns that are the axes of the maps.
    caption: the caption without the classifier.

  Returns:
    {'_<label of the classifier>': (figure, caption)}.
  """
  pictures = {}
  in_scale = _panels_by_classifier([plot])
  for label, rows in plot.rows.groupby('classifier', sort=False):
    panels = _panels_by_value(plot._replace(rows=rows), name)
    figure = maps.maps(panels[:MAX_PANELS], axes[0], axes[1], scaled=in_scale)
    excerpt = f' The first {MAX_PANELS} of {len(panels)}.' if len(panels) > MAX_PANELS else ''
    pictures[f'_{label}'] = figure, f'{label}: {caption}{excerpt}'
  return pictures


def _points_by_name(
  rows: pd.DataFrame,
  plots: Sequence[maps.Panel],
  labels: Sequence[str],
  name: str,
  reference: forms.References,
) -> Figure:
  """Draws estimates as points, with a line of points for each value of a column.

  If there are more than `MAX_POINTS` values, those with the worst results of any classifier are
  drawn.

  Args:
    rows: the rows of all `plots`.
    plots: the plots side by side, values and then differences.
    labels: all classifiers, in the order that decides their colours.
    name: the column, such as 'corruption'.
    reference: values to compare with, see `forms.rows_of_points`.
  """
  values = list(dict.fromkeys(map(str, rows[name])))
  if len(values) > MAX_POINTS:
    is_higher_better = plots[0].notation.quantity.better == 'higher'
    estimates_by_value = plots[0].rows.groupby(name, sort=False).value  # of all classifiers
    worst = estimates_by_value.min() if is_higher_better else estimates_by_value.max()
    worst_first = worst.sort_values(ascending=is_higher_better)
    values = list(map(str, worst_first.index[:MAX_POINTS]))
    plots = [
      plot._replace(rows=plot.rows[plot.rows[name].astype(str).isin(values)]) for plot in plots
    ]
  return forms.rows_of_points(values, plots, labels, name, reference)


def _caption(
  plots: Sequence[maps.Panel], facets: Sequence[str], varying: Sequence[str], rate: float
) -> str:
  """Returns the caption of a figure of values, of differences, or of both.

  It states the quantity, the grouping columns, the number of images, and the meaning of marks.

  Args:
    plots: what the figure shows, from `values_and_differences`.
    facets: all grouping columns of the rows, such as ('corruption', 'severity').
    varying: the columns of `facets` with several values. The value of each other column is stated.
    rate: false-discovery rate of the differences that are marked as significant.
  """
  first = plots[0]
  rows, quantity = first.rows, first.notation.quantity
  text = f'difference in {quantity.words}' if first.notation.difference else quantity.words
  if varying:
    text = f'{text} by {notation.joined_words(quantity, varying)}'
  fixed = [name for name in facets if name not in varying]
  if fixed:
    values = [notation.value_words(quantity.facet(name), rows[name].iloc[0]) for name in fixed]
    text = f'{text} {", ".join(values)}'
  text = f'{text}{sample_in_words(rows)}'
  has_axes = any(notation.is_axis(quantity, rows, name) for name in varying)
  has_points = len(varying) == 1 and not has_axes
  is_grid = len(varying) == 2 and not has_axes
  if has_points and rows[varying[0]].nunique() > MAX_POINTS:
    end = 'smallest' if quantity.better == 'higher' else 'largest'
    text = f'{text}. The {MAX_POINTS} {end} of {rows[varying[0]].nunique()}'
  notes = dict.fromkeys(note for note in maps.cell_notes(rows) if note)  # each note once
  if notes and is_grid:
    text = f'{text}. Outlined: {", ".join(notes)}'
  elif notation.are_degenerate(rows).any():
    text = f'{text}. Hollow, without an interval: degenerate, 1 by definition'
  for units, note in (('clusters', TOO_FEW), ('seeds', TOO_FEW_SEEDS)):
    if rows.note.str.contains(note, regex=False).any():
      text = f'{text}. Estimates from too few {units} have no interval'
  return notation.sentence(text + difference_words(plots[-1], rate))


def difference_words(plot: maps.Panel, rate: float = RATE) -> str:
  """Returns the part of a caption that explains differences, their pairing and their marks.

  Args:
    plot: the plot. The result is '' if it shows values.
    rate: false-discovery rate of the differences that are marked as significant.
  """
  rows = plot.rows
  if not plot.notation.difference:
    return ''
  family = f' over {len(rows):,} differences' if len(rows) > 1 else ''
  num_unpaired = int((rows['method'] == NEWCOMBE).sum())  # classifiers of different images
  pairing = {0: 'paired', len(rows): 'unpaired'}.get(num_unpaired, 'paired on shared images')
  return (
    f'. Differences are from {" or ".join(rows.versus.unique())}, {pairing}; a dot marks a '
    f'significant one (false-discovery rate {100 * rate:g} %{family})'
  )


def sample_in_words(rows: pd.DataFrame) -> str:
  """Returns a text on the sample size and the intervals of estimates, for captions.

  An example is ', n = 10,000; 95 % intervals'. A part is left out if no row has it. Intervals that
  allow for the choice of the highest or lowest of several values are named.
  """
  images = notation.span(rows.n.dropna())
  confidence = rows.confidence[rows.low.notna()]
  text = f', n = {images}' if images else ''
  joint = JOINT if (rows['family'] > 1).any() else ''
  return f'{text}; {100 * confidence.iloc[0]:g} % intervals{joint}' if len(confidence) else text
