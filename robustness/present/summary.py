"""What is reported above the tasks of a battery, and above several seeds."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.quantity import SHARE
from robustness.estimates.table import facets_of, select
from robustness.present import charts, fourier_table, headlines, profile, style
from robustness.present.choice import Choice, labels_of, worst_tasks
from robustness.present.choice import headlines as headline_choices
from robustness.present.notation import Notation, place_of
from robustness.present.publish import Presentation, Presented
from robustness.present.sentences import Finding, findings
from robustness.results import FOURIER_TABLE, SEED, SINGLE, Results

Line = tuple[Choice, pd.Series]
MOST_WORST = 3
"""Tasks, of those in which a classifier errs most, that are told."""


def of_battery(summary: str, studies: Mapping[str, Presented]) -> Presentation:
  """Returns what presents the joined results of a battery: the tables of Yin et al. (2019) for the
  summary 'fourier_table', else the profile and the headlines of all tasks; the report is then named
  by classifiers and data."""
  papers = tuple(dict.fromkeys(key for study in studies.values() for key in study.papers))
  is_fourier_table = summary == FOURIER_TABLE

  def draw(results: Results) -> Mapping[str, charts.Picture]:
    tasks = results.by_task
    if is_fourier_table:
      return fourier_table.draw(tasks)
    return {**profile.draw(tasks), **headlines.draw(tasks)}

  title = fourier_table.TITLE if is_fourier_table else ''
  return Presentation(title, papers, draw, lambda results: tell(results.by_task))


def tell(tasks: Mapping[str, Results]) -> list[Finding]:
  """Returns in which tasks each classifier errs most, with intervals for all that was tried; then
  what each task finds, behind its name."""
  found, told = headline_choices(tasks), []
  for label in labels_of(tasks):
    worst = worst_tasks(found, label)[:MOST_WORST]
    clauses = []
    for choice, row in worst:
      name, error = choice.name, row
      if choice.quantity.better == 'higher':
        name = name.replace('accuracy', 'error')
        ends = {'value': 1 - row.value, 'low': 1 - row.high, 'high': 1 - row.low}
        error = pd.Series({**row, **ends})
      clauses.append(f'{name}, {Notation(choice.quantity).full(error)}')
    if clauses:
      together = f'Intervals are simultaneous over {worst[0][1].family} errors of the tasks.'
      text = f'Of all tasks, {label} errs most in {"; then ".join(clauses)}. {together}'
      told.append(Finding(text, pd.DataFrame([row for _, row in worst])))
  return told + [
    finding._replace(text=f'{task}: {finding.text}', task=task)
    for task, results in tasks.items()
    for finding in findings(results)
  ]


def of_seeds(summary: str, studies: Mapping[str, Presented]) -> Presentation:
  """Returns what presents the means over seeds, and what another seed changes."""
  battery = of_battery(summary, studies)

  def draw(results: Results) -> Mapping[str, charts.Picture]:
    means = results.over_seeds
    return {**draw_seeds(results), **(battery.figures if means.tasks else charts.draw)(means)}

  def tell_seeds(results: Results) -> list[Finding]:
    means = results.over_seeds
    return [*(battery.findings if means.tasks else findings)(means), *most_changed(results)]

  title = studies[SINGLE].title if SINGLE in studies else battery.title
  return Presentation(title, battery.papers, draw, tell_seeds)


@style.styled
def draw_seeds(results: Results) -> dict[str, tuple[Figure, str]]:
  """Returns {'seeds': (figure, caption)}: the headlines, each seed and the mean."""
  lines: dict[str, list[Line]] = {}
  for choice in headline_choices(results.over_seeds.by_task):
    rows = choice.stated[(choice.stated.versus == '') & choice.stated['value'].notna()]
    unit = Notation(choice.quantity).unit
    lines.setdefault(unit, []).extend((choice, row) for _, row in rows.iterrows())
  if not lines:
    return {}
  confidence = f'{100 * results.over_seeds.table.confidence.dropna().iloc[0]:g} %'
  caption = (
    f'Each of {results.table[SEED].nunique()} seeds (dots) and their mean with a {confidence} '
    'interval (Student, over seeds). Intervals over images are in the report of each seed.'
  )
  sizes = [len(of_unit) for of_unit in lines.values()]
  names = [_name(line) for of_unit in lines.values() for line in of_unit]
  height = sum(max(0.2, 0.13 * (name.count('\n') + 1)) for name in names)
  size = (style.PAGE_WIDTH, 0.6 + 0.5 * len(sizes) + height)
  figure = Figure(figsize=size, layout='constrained')
  grid = figure.subplots(len(sizes), squeeze=False, height_ratios=[n + 1 for n in sizes])
  for index, (axes, (unit, of_unit)) in enumerate(zip(grid.flat, lines.items(), strict=True)):
    _panel(axes, results, of_unit, labelled=not index)
    axes.set_xlabel(f'value ({unit})' if unit else 'value')
  style.legend_above(figure)
  return {'seeds': (figure, caption)}


def _panel(axes: Axes, results: Results, lines: list[Line], labelled: bool) -> None:
  for place, (choice, mean) in enumerate(lines):
    scale = Notation(choice.quantity).scale
    facets: dict[str, Any] = {name: mean[name] for name in choice.facets}
    table = results.by_task[choice.task].table
    each = select(table, choice.quantity.name, **facets, seed=...)
    each = each[each.classifier == mean.classifier]
    low, high = (mean.value if pd.isna(end) else end for end in (mean.low, mean.high))
    axes.errorbar(
      [scale * mean.value],
      [place],
      xerr=[[scale * (mean.value - low)], [scale * (high - mean.value)]],
      fmt=style.MARKERS[3],
      color=style.colour(results.labels.index(mean.classifier)),
      capsize=3,
      markersize=4,
      label='mean over seeds, with its interval' if labelled and not place else None,
    )
    label = 'a seed' if labelled and not place else None
    dots = scale * each.value
    axes.plot(dots, [place] * len(each), style.MARKERS[0], color='0.5', markersize=3, label=label)
  axes.set_yticks(range(len(lines)), list(map(_name, lines)))
  axes.set_ylim(len(lines) - 0.3, -0.7)


def _name(line: Line) -> str:
  choice, row = line
  return style.wrapped(f'{choice.name}, {row.classifier}', 60)


def most_changed(results: Results) -> list[Finding]:
  """Returns which share another seed changes most: that with the widest interval over seeds, of
  those that all seeds have."""
  widest: list[tuple[float, Finding]] = []
  for task, of in results.over_seeds.by_task.items():
    shares = {quantity.name: quantity for quantity in of.quantities if quantity.kind == SHARE}
    own = of.table[of.table['quantity'].isin(list(shares)) & of.table['low'].notna()]
    own = own[own.n == results.table[SEED].nunique()]
    if len(own):
      row = own.loc[(own.high - own.low).idxmax()]
      notation = Notation(shares[row['quantity']], difference=bool(row.versus))
      facets = [name for name in facets_of(own) if not pd.isna(row[name])]
      words = ' '.join(
        filter(None, (notation.quantity.words, place_of(notation.quantity, row, facets)))
      )
      minus = f' minus {row.versus}' if row.versus else ''
      named = f'{task}, {row.classifier}' if task else row.classifier
      text = (
        f'Over {results.table[SEED].nunique()} seeds, the share that another seed changes most is '
        f'{named}{minus}, {words}: {notation.full(row)}.'
      )
      widest.append((row.high - row.low, Finding(text, own.loc[[row.name]], tuple(facets))))
  return [max(widest, key=lambda entry: entry[0])[1]] if widest else []
