"""What is reported above the tasks of a battery, and above several seeds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.quantity import SHARE
from robustness.estimates.table import facets_of, select
from robustness.present import charts, headlines, style
from robustness.present.notation import Notation, place_of
from robustness.present.publish import Presentation, Presented
from robustness.present.sentences import Finding, findings
from robustness.results import SEED, SINGLE, Results, Summary

Line = tuple[headlines.Headline, pd.Series]


@dataclasses.dataclass(frozen=True)
class Overview(Summary):
  """The headline quantities of all tasks as bars, a picture for each unit and direction."""

  name = 'overview'
  worst: int = 3

  def __post_init__(self) -> None:
    self.require(self.worst >= 0, 'worst', 'at least 0')

  def draw(self, tasks: Mapping[str, Results]) -> Mapping[str, charts.Picture]:
    """See `Summary`."""
    return headlines.draw(tasks)


def of_battery(summary: Summary | None, studies: Mapping[str, Presented]) -> Presentation:
  """Returns what presents the joined results of a battery, by default the overview."""
  chosen = summary or Overview()

  papers = tuple(dict.fromkeys(key for study in studies.values() for key in study.papers))
  return Presentation(
    chosen.title,
    papers,
    lambda results: chosen.draw(results.by_task),
    lambda results: headlines.findings(results.by_task, chosen.worst),
  )


def of_seeds(summary: Summary | None, studies: Mapping[str, Presented]) -> Presentation:
  """Returns what presents the means over seeds, and what another seed changes."""
  battery = of_battery(summary, studies)

  def draw(results: Results) -> Mapping[str, charts.Picture]:
    means = results.over_seeds
    return {**draw_seeds(results), **(battery.figures if means.tasks else charts.draw)(means)}

  def tell(results: Results) -> list[Finding]:
    means = results.over_seeds
    return [*(battery.findings if means.tasks else findings)(means), *most_changed(results)]

  title = studies[SINGLE].title if SINGLE in studies else battery.title
  return Presentation(title, battery.papers, draw, tell)


@style.styled
def draw_seeds(results: Results) -> dict[str, tuple[Figure, str]]:
  """Returns {'seeds': (figure, caption)}: the headlines, each seed and the mean."""
  lines: dict[str, list[Line]] = {}
  for headline in headlines.headlines(results.over_seeds.by_task):
    unit = Notation(headline.quantity).unit
    lines.setdefault(unit, []).extend((headline, row) for row in headline.own())
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
  for place, (headline, mean) in enumerate(lines):
    scale = Notation(headline.quantity).scale
    facets: dict[str, Any] = {
      name: mean[name] for name in facets_of(headline.rows) if not pd.isna(mean[name])
    }
    table = results.by_task[headline.task].table
    each = select(table, headline.quantity.name, **facets, seed=...)
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
  headline, row = line
  return style.wrapped(f'{headline.name}, {row.classifier}', 60)


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
      words = ' '.join(filter(None, (notation.quantity.words, place_of(row, facets))))
      minus = f' minus {row.versus}' if row.versus else ''
      named = f'{task}, {row.classifier}' if task else row.classifier
      text = (
        f'Over {results.table[SEED].nunique()} seeds, the share that another seed changes most is '
        f'{named}{minus}, {words}: {notation.full(row)}.'
      )
      widest.append((row.high - row.low, Finding(text, own.loc[[row.name]], tuple(facets))))
  return [max(widest, key=lambda entry: entry[0])[1]] if widest else []
