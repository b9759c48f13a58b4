"""Reports that join the tasks of a battery, or the seeds of a run.

A battery is several studies, its tasks, of the same classifiers.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.jackknife import FEWEST_SEEDS
from robustness.estimates.quantity import SHARE
from robustness.estimates.simultaneous import widen_for_family
from robustness.estimates.table import OVER_SEEDS, SUBJECT, facets_of, select
from robustness.present import charts, fourier_table, headlines, profile, style
from robustness.present.notation import Notation, words_with_condition
from robustness.present.publish import Presentation, Presented, figures_of
from robustness.present.selection import CLASS, Selection
from robustness.present.selection import headlines as headline_selections
from robustness.present.sentences import Finding, findings
from robustness.results import FOURIER_TABLE, SEED, SINGLE, Results, labels_of

HeadlineMean = tuple[Selection, pd.Series]
"""A headline, and the row of a classifier's mean over seeds."""
MAX_WORST_TASKS = 3
"""Most tasks that are reported for a classifier, worst first."""
_ERROR_OR_ACCURACY = re.compile(r'\b(error|accuracy)\b')
"""Matches the names of quantities that can be compared between tasks as errors."""


def present_run(
  summary: str, studies: Mapping[str, Presented], has_seeds: bool = False
) -> Presentation:
  """Returns the title, papers, figures and findings of a report on a run.

  Args:
    summary: for a battery (several studies), 'fourier_table' for the tables of Yin et al. (2019),
      or '' for the profile figure and the main quantities of all tasks.
    studies: {task: study}. A run of one study has {SINGLE: study}, and the study decides the
      report.
    has_seeds: whether the report is on several seeds, with their means and variation.
  """
  papers = tuple(dict.fromkeys(key for study in studies.values() for key in study.papers))
  if SINGLE in studies:
    presentation = Presentation.of_study(studies[SINGLE])
  elif summary == FOURIER_TABLE:
    presentation = Presentation(fourier_table.TITLE, papers, _draw_fourier_table, _find_in_tasks)
  else:
    presentation = Presentation('', papers, _draw_battery, _find_in_tasks)
  if not has_seeds:
    return presentation
  # The figures and findings of a study are of one run; its means over seeds get the default ones.
  of_means = Presentation(presentation.title, papers) if SINGLE in studies else presentation
  draw = functools.partial(_draw_seeds_and_means, of_means)
  find = functools.partial(_find_in_means, of_means)
  return dataclasses.replace(of_means, figures=draw, findings=find)


# Functions of this module and not lambdas, because results are pickled with them.
def _draw_fourier_table(results: Results) -> Mapping[str, charts.Picture]:
  """Draws the tables of Yin et al. (2019) as {file name: (figure, caption)}."""
  return fourier_table.draw(results.by_task)


def _draw_battery(results: Results) -> Mapping[str, charts.Picture]:
  """Draws the profile and the main quantities of all tasks as {file name: (figure, caption)}."""
  return {**profile.draw(results.by_task), **headlines.draw(results.by_task)}


def _find_in_tasks(results: Results) -> list[Finding]:
  """Returns the findings of a battery (several studies), see `battery_findings`."""
  return battery_findings(results.by_task)


def battery_findings(tasks: Mapping[str, Results]) -> list[Finding]:
  """Returns findings on each classifier's largest errors among tasks, then findings on each task.

  Intervals of the first findings hold for the errors of all tasks together. Findings about single
  classes come last.

  Args:
    tasks: {task: its results}.
  """
  selections = headline_selections(tasks)
  joint = []
  for label in labels_of(tasks):
    worst = worst_tasks(selections, label)[:MAX_WORST_TASKS]
    if worst:
      clauses = [_error_clause(selection, row) for selection, row in worst]
      rows = [row for _, row in worst]
      # `family` is the number of estimates that an interval holds for together.
      scope = f'Intervals are simultaneous over {rows[0].family} errors of the tasks.'
      text = f'Of all tasks, {label} errs most in {"; then ".join(clauses)}. {scope}'
      joint.append(Finding(text, pd.DataFrame(rows)))
  single = [
    finding._replace(text=f'{task}: {finding.text}', task=task)
    for task, results in tasks.items()
    for finding in findings(results)
  ]
  return joint + sorted(single, key=lambda finding: CLASS in finding.facets)


def _error_clause(selection: Selection, row: pd.Series) -> str:
  """Formats a task's error for a sentence, such as 'fog: top-1 error, 31 %'.

  An accuracy is converted to an error.

  Args:
    selection: the estimates that the row is one of, with quantity and task (one of several studies
      in a run).
    row: a row of the table of results.
  """
  name = selection.name
  if selection.quantity.better == 'higher':
    # the words end the name; the task before them may be called 'accuracy' too
    name = name.removesuffix(selection.words) + selection.words.replace('accuracy', 'error')
    row = pd.Series({**row, 'value': 1 - row.value, 'low': 1 - row.high, 'high': 1 - row.low})
  return f'{name}, {Notation(selection.quantity).full(row)}'


def _draw_seeds_and_means(
  presentation: Presentation, results: Results
) -> Mapping[str, charts.Picture]:
  """Draws a figure with the values of all seeds, then the figures of their means.

  Args:
    presentation: draws the means over seeds like the results of one run.
    results: the results of all seeds.

  Returns:
    {file name: (figure, caption)}.
  """
  return {**draw_seeds(results), **figures_of(presentation, results.over_seeds)}


def _find_in_means(presentation: Presentation, results: Results) -> list[Finding]:
  """Returns the findings on means over seeds, and one on the value that varies most between seeds.

  Args:
    presentation: words the means over seeds like the results of one run.
    results: the results of all seeds.
  """
  means = results.over_seeds
  return [*_without_intervals(means), *presentation.findings(means), *most_changed(results)]


@style.in_style
def draw_seeds(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws the headline (main) quantities of each seed with their means over seeds.

  The figure has a plot for each unit, such as %, with a line for each quantity and classifier.

  Returns:
    {'seeds': (figure, caption)}, or {} without headlines.
  """
  means_by_unit: dict[str, list[HeadlineMean]] = {}
  for selection in headline_selections(results.over_seeds.by_task):
    rows = selection.reported_rows.dropna(subset=['value'])
    for _, row in rows[rows.versus == ''].iterrows():
      unit = Notation(selection.quantity).unit
      means_by_unit.setdefault(unit, []).append((selection, row))
  if not means_by_unit:
    return {}
  drawn = [mean for means in means_by_unit.values() for mean in means]
  rows = pd.DataFrame([row for _, row in drawn])
  _, _, intervals = charts.sample_in_words(rows).partition('; ')  # '95 % intervals'; '' without any
  with_intervals = f' with {intervals} (Student, over seeds)' if intervals else ''
  caption = (
    f'Each of {results.table[SEED].nunique()} seeds (dots) and their mean{with_intervals}. '
    'Intervals over images are in the report of each seed.'
  )
  names = list(map(_line_name, drawn))
  # Inches: 0.13 for each line of a name, and 0.5 for the axis of each plot.
  height = sum(max(0.2, 0.13 * (name.count('\n') + 1)) for name in names)
  size = (style.PAGE_WIDTH, 0.6 + 0.5 * len(means_by_unit) + height)
  figure = Figure(figsize=size, layout='constrained')
  ratios = [len(means) + 1 for means in means_by_unit.values()]
  grid = figure.subplots(len(ratios), squeeze=False, height_ratios=ratios)
  for axes, (unit, means) in zip(grid.flat, means_by_unit.items(), strict=True):
    # one legend for all plots
    _draw_headlines(axes, results, means, is_labelled=axes is grid[0, 0])
    axes.set_xlabel(f'value ({unit})' if unit else 'value')
  style.legend_above(figure)
  return {'seeds': (figure, caption)}


def _draw_headlines(
  axes: Axes, results: Results, means: list[HeadlineMean], is_labelled: bool
) -> None:
  """Draws each mean over seeds with its interval, and the value of each seed in the same line.

  Args:
    axes: the plot.
    results: the results of all seeds.
    means: the means, from top to bottom.
    is_labelled: whether the legend explains the marks of this plot.
  """
  for position, (selection, mean) in enumerate(means):
    scale = Notation(selection.quantity).scale
    condition: dict[str, Any] = {name: mean[name] for name in selection.facets}
    table = results.by_task[selection.task].table
    seeds = select(table, selection.quantity.name, **condition, seed=...)  # `...`: all seeds
    seeds = seeds[seeds.classifier == mean.classifier]
    ends = mean[['low', 'high']].astype(float).fillna(mean.value)  # else no bar without an interval
    lengths = [[scale * (mean.value - ends.low)], [scale * (ends.high - mean.value)]]
    in_legend = is_labelled and position == 0
    look: dict[str, Any] = {'fmt': 'D', 'capsize': 3, 'markersize': 4}
    look['color'] = style.colour(results.labels.index(mean.classifier))
    look['label'] = 'mean over seeds, with its interval' if in_legend else None
    axes.errorbar([scale * mean.value], [position], xerr=lengths, **look)
    label = 'a seed' if in_legend else None
    y = [position] * len(seeds)
    axes.plot(scale * seeds.value, y, 'o', color='0.5', markersize=3, label=label)
  axes.set_yticks(range(len(means)), list(map(_line_name, means)))
  axes.set_ylim(len(means) - 0.3, -0.7)  # downwards, with room above and below


def _line_name(mean: HeadlineMean) -> str:
  """Names a headline with its classifier: 'top-1 error, natural'."""
  selection, row = mean
  return style.wrapped(f'{selection.name}, {row.classifier}', 60)


def _without_intervals(means: Results) -> list[Finding]:
  """Returns a finding that there are too few seeds for intervals.

  The result is [] if any mean is over at least `FEWEST_SEEDS` seeds.

  Args:
    means: results with means over seeds.
  """
  rows = means.table[means.table.method == OVER_SEEDS]
  if rows.empty or (rows.n >= FEWEST_SEEDS).any():
    return []
  text = (
    f'Means over {rows.n.max()} seeds have no interval: it would be as wide as most ranges. Give '
    f'config.seeds at least {FEWEST_SEEDS} values.'
  )
  return [Finding(text, rows)]


def most_changed(results: Results) -> list[Finding]:
  """Returns a finding on the fraction that varies most between seeds; [] if there is none.

  It has the largest standard deviation over seeds among quantities in [0, 1] with a value in every
  seed. Intervals are cut to this range, so that their widths do not tell.
  """
  num_seeds = results.table[SEED].nunique()
  max_spread, finding = -math.inf, None  # of the tasks so far
  for task, results_of_task in results.by_task.items():
    shares = {q.name: q for q in results_of_task.quantities if q.kind == SHARE}
    table = results_of_task.table
    if table.empty:  # the task makes no estimates, and its table has no column for the seed
      continue
    keys = [table[name] for name in (*SUBJECT, *facets_of(table), 'family') if name != SEED]
    is_mean = table[SEED].isna()
    spreads = table['value'].mask(is_mean).groupby(keys, dropna=False).transform('std')
    is_share = table['quantity'].isin(list(shares)) & table['low'].notna()
    rows = table[is_mean & is_share & (table.n == num_seeds)]  # n is how many seeds have a value
    if rows.empty or spreads[rows.index].max() <= max_spread:
      continue
    max_spread = spreads[rows.index].max()
    row = rows.loc[spreads[rows.index].idxmax()]
    quantity = shares[row['quantity']]
    facets = [name for name in facets_of(rows) if not pd.isna(row[name])]
    words = words_with_condition(quantity, row, facets)
    minus = f' minus {row.versus}' if row.versus else ''
    subject = f'{task}, {row.classifier}' if task else row.classifier
    text = (
      f'Over {num_seeds} seeds, the share that another seed changes most is {subject}{minus}, '
      f'{words}: {Notation(quantity, difference=bool(row.versus)).full(row)}.'
    )
    finding = Finding(text, rows.loc[[row.name]], tuple(facets))  # row.name is its index
  return [finding] if finding else []


def worst_tasks(selections: Sequence[Selection], label: str) -> list[tuple[Selection, pd.Series]]:
  """Returns a classifier's largest error in each task, in descending order.

  Overall values of errors, and of accuracies as 1 − accuracy, are compared if they have an
  interval. The intervals are widened to hold for all of them together. The result is [] if fewer
  than two tasks (the studies of a run) have an error.

  Args:
    selections: selections of all tasks.
    label: label of the classifier.

  Returns:
    (selection of the error, its row with the widened interval) for each task.
  """
  errors: list[tuple[float, Selection, pd.Series]] = []
  for selection in selections:
    quantity = selection.quantity
    is_overall = selection.extremes is None and not selection.is_by_class
    is_fraction = quantity.kind == SHARE and quantity.better and quantity.range == (0, 1)
    if not (is_overall and is_fraction and _ERROR_OR_ACCURACY.search(quantity.words)):
      continue
    rows = selection.rows[(selection.rows.classifier == label) & (selection.rows.versus == '')]
    for _, row in rows[rows.low.notna()].iterrows():
      error = row.value if quantity.better == 'lower' else 1 - row.value
      errors.append((error, selection, row))
  worst_by_task: dict[str, tuple[Selection, pd.Series]] = {}
  for _, selection, row in sorted(errors, key=lambda entry: -entry[0]):
    worst_by_task.setdefault(selection.task, (selection, row))
  if len(worst_by_task) < 2:
    return []
  widened = []
  for selection, row in worst_by_task.values():
    widened_row = widen_for_family(row, len(errors), selection.quantity)
    if widened_row is not None:
      widened.append((selection, widened_row))
  return widened
