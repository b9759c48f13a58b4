"""Published accuracies of the testbed of Shankar et al., their linear fit, and their picture.

`testbed.csv` holds Table 5 of the paper, 45 models on ImageNet-Vid-Robust, and Table 6, 60 models
on YTBB-Robust, in percent as printed. docs/contradictions.md lists numbers that contradict each
other.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021.
"""

import csv
import functools
import importlib.resources
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.core.settings import choice
from robustness.estimates.table import select
from robustness.estimates.tradeoff import linear_fit
from robustness.present import style
from robustness.results import Results, Table

VID, YTBB = 'imagenet_vid_robust', 'ytbb_robust'
"""Names of the two tables of published accuracies."""
ANCHORS = {VID: 1109, YTBB: 2030}
"""{table: number of anchors of its neighbor sets}."""
K = 10
"""Largest distance from the anchor in frames: the published accuracies are pm-10."""
KINDS = {
  'fine-tuned': '_finetuned',
  'detection': '_detection',
  'robust training': '_robust',
  'noise augmentation': '_augment',
  'ILSVRC': '',
}
"""{kind of training: part of a model's name that states it}; the first that fits is the kind."""


class PublishedModel(NamedTuple):
  """Published accuracies of a model on neighbor sets, as fractions with 95 % intervals.

  The intervals are Clopper–Pearson intervals.

  Attributes:
    name: name of the model as printed, without `_imagenet_pretrained`.
    anchor, anchor_low, anchor_high: accuracy on anchor frames, with the ends of its interval.
    worst, worst_low, worst_high: accuracy pm-10 (on the worst frame within 10 frames of each
      anchor), with the ends of its interval.
    drop: `anchor` − `worst`, as printed.
  """

  name: str
  anchor: float
  anchor_low: float
  anchor_high: float
  worst: float
  worst_low: float
  worst_high: float
  drop: float

  @classmethod
  def of_percent(cls, name: str, *values: str) -> Self:
    """Returns a published network, from its name and seven percentages in the paper's tables.

    Args:
      name: name of the model.
      *values: percentages as text, from `anchor` to `drop` in the order of the fields.
    """
    return cls(name, *(round(float(value) / 100, 4) for value in values))

  @property
  def kind(self) -> str:
    """The kind of training, a key of `KINDS`, inferred from the model's name."""
    # '..._augment_regular' is the recipe of robust trainings with clean images
    if self.name.endswith('_augment_regular'):
      return 'ILSVRC'
    return next(kind for kind, word in KINDS.items() if word in self.name)


@functools.cache
def published_models(name: str) -> tuple[PublishedModel, ...]:
  """Returns all published models on ImageNet-Vid-Robust (Table 5) or YTBB-Robust (Table 6).

  Model names are as printed, with the misprint 'compressioon' and repeated underscores corrected.

  Args:
    name: 'imagenet_vid_robust' or 'ytbb_robust'.
  """
  choice('testbed', name, ANCHORS)
  text = importlib.resources.files(__package__).joinpath('testbed.csv').read_text('utf-8')
  lines = csv.reader(text.splitlines())
  return tuple(PublishedModel.of_percent(*line) for testbed, *line in lines if testbed == name)


Measured = dict[str, tuple[pd.Series, pd.Series]]
"""{classifier: (row of its accuracy on anchors, row of its accuracy at pm-k)}, of the table of
results.
"""


def _measured_accuracies(table: pd.DataFrame, setting: str) -> tuple[str, Measured]:
  """Selects measured accuracies that can be compared with published models.

  Args:
    table: table of results of the study `video_pm_k`.
    setting: published data set, 'imagenet_vid_robust' or 'ytbb_robust'; 'auto' selects the data set
      with the same number of anchors (labelled frames), '' none.

  Returns:
    The name of the data set, and {classifier: (row of accuracy on anchors, row of accuracy pm-10)}.
    Without a data set, or if the results lack either accuracy or have a largest k other than 10,
    these are '' and {}.
  """
  anchor_rows = select(table, 'accuracy_anchor').set_index('classifier')
  rows_of_all_k = select(table, 'accuracy_pm_k', k=...)
  testbed = setting
  if setting == 'auto':
    num_anchors = anchor_rows.n.unique().tolist()
    testbed = next((name for name, count in ANCHORS.items() if num_anchors == [count]), '')
  if not testbed or anchor_rows.empty or rows_of_all_k.empty or rows_of_all_k.k.max() != K:
    return '', {}
  worst_rows = rows_of_all_k[rows_of_all_k.k == K].set_index('classifier')
  labels = anchor_rows.index
  return testbed, {label: (anchor_rows.loc[label], worst_rows.loc[label]) for label in labels}


def published(table: pd.DataFrame, setting: str) -> dict[str, Table]:
  """Compares measured accuracies with published accuracies of models with the same name.

  Args:
    table: table of results of the study `video_pm_k`.
    setting: published data set, 'imagenet_vid_robust' or 'ytbb_robust' (the paper's Tables 5 and
      6); 'auto' selects it by the number of anchors.

  Returns:
    `{'published': table}` of accuracies and drops in percent, with a row for each classifier that
    has the name of a published model; {} if there is none.
  """
  name, measured = _measured_accuracies(table, setting)
  rows = []
  for model in published_models(name) if name else ():
    if model.name in measured:
      anchor_row, worst_row = measured[model.name]
      anchor, worst = anchor_row.value, worst_row.value
      values = [anchor, model.anchor, worst, model.worst, anchor - worst, model.drop]
      rows.append([model.name, *(f'{100 * value:.1f}' for value in values)])
  columns = 'anchors (%)', 'published', f'pm-{K} (%)', 'published', 'drop (%)', 'published'
  return {'published': Table(('classifier', *columns), rows)} if rows else {}


def draw(results: Results, setting: str) -> dict[str, tuple[Figure, str]]:
  """Plots measured classifiers among published models, as in the paper's Figure 3.

  Args:
    results: results of the study `video_pm_k`.
    setting: published data set, 'imagenet_vid_robust' or 'ytbb_robust'; 'auto' selects it by the
      number of anchors (labelled frames), '' draws nothing.

  Returns:
    `{'testbed': (figure, caption)}`; {} without a data set.
  """
  name, measured = _measured_accuracies(results.table, setting)
  if not name:
    return {}
  caption = (
    f'Accuracy on anchors and at pm-{K}: {len(published_models(name))} published models on {name}, '
    'the line through them with its 95 % band (Student), and, in black, the classifiers of this '
    f'run{", with the line through these" if _can_fit_line(measured) else ""}.'
  )
  return {'testbed': (testbed_fit(name, measured), caption)}


def _can_fit_line(measured: Measured) -> bool:
  """Returns whether a line can be fitted to the measured accuracies.

  A fit needs three or more classifiers with at least two distinct accuracies on anchors.
  """
  return len(measured) > 2 and len({anchor.value for anchor, _ in measured.values()}) > 1


def _draw_published(axes: Axes, models: Sequence[PublishedModel]) -> None:
  """Plots published models, accuracy pm-k against accuracy on anchors, with intervals.

  Each kind of training has a colour and marker.

  Args:
    axes: the plot.
    models: the models, with both accuracies and their intervals.
  """
  for index, kind in enumerate(KINDS):
    look = {'color': style.COLOURS[index], 'fmt': style.MARKERS[index]}
    models_of_kind = [model for model in models if model.kind == kind]
    for model in models_of_kind:
      label = kind if model is models_of_kind[0] else None  # the legend has each kind once
      x = model.anchor, model.anchor_low, model.anchor_high
      y = model.worst, model.worst_low, model.worst_high
      _draw_point(axes, x, y, markersize=3, elinewidth=0.4, alpha=0.7, label=label, **look)


@style.in_style
def testbed_fit(name: str, measured: Measured) -> Figure:
  """Plots published models with their linear fit, and the classifiers of this run in black.

  The x axis is accuracy on anchors (labelled frames), the y axis accuracy pm-10.

  Args:
    name: published data set, 'imagenet_vid_robust' or 'ytbb_robust'.
    measured: {classifier: (row of accuracy on anchors, row of accuracy pm-10)}.
  """
  figure = Figure(figsize=(style.COLUMN_WIDTH, 3.6), layout='constrained')
  axes = figure.subplots()
  models = published_models(name)
  _draw_published(axes, models)
  published_x = [model.anchor for model in models]
  measured_x = [anchor.value for anchor, _ in measured.values()]
  all_x = *published_x, *measured_x
  grid = np.linspace(min(all_x) - 0.02, max(all_x) + 0.02, 50)  # x at which lines are drawn
  published_y = [model.worst for model in models]
  fit = linear_fit(published_x, published_y, grid)
  label = f'fit, slope {fit.slope.value:.2f}'
  axes.plot(100 * grid, 100 * fit.y, color='0.3', linewidth=0.9, label=label)
  axes.fill_between(100 * grid, 100 * fit.low, 100 * fit.high, color='0.3', alpha=0.2, linewidth=0)
  if _can_fit_line(measured):
    measured_y = [worst.value for _, worst in measured.values()]
    run_fit = linear_fit(measured_x, measured_y, grid)
    label = f'fit of this run, slope {run_fit.slope.value:.2f}'
    axes.plot(100 * grid, 100 * run_fit.y, '--', color='black', linewidth=0.9, label=label)
  last_markers_first = style.MARKERS[::-1]  # published models have the first markers
  for index, (label, (anchor, worst)) in enumerate(measured.items()):
    x = anchor.value, anchor.low, anchor.high
    y = worst.value, worst.low, worst.high
    marker = last_markers_first[index % len(style.MARKERS)]
    _draw_point(axes, x, y, color='black', fmt=marker, markersize=5, elinewidth=0.9, label=label)
  axes.set_xlabel('accuracy on anchors (%)')
  axes.set_ylabel('accuracy at pm-10 (%)')
  axes.spines[['top', 'right']].set_visible(False)
  style.diagonal(axes, 'no drop')
  style.legend_above(figure)
  return figure


def _draw_point(axes: Axes, x: Sequence[float], y: Sequence[float], **look: Any) -> None:
  """Plots a point with error bars, converting fractions to percent.

  Args:
    axes: axes to draw on.
    x: value, low end and high end on the x axis, as fractions.
    y: value, low end and high end on the y axis, as fractions.
    **look: options of `Axes.errorbar`.
  """
  x_percent, y_percent = 100 * np.array([x, y])
  # distances from the value to the low and the high end, [2, 1] as `errorbar` takes them
  x_errors, y_errors = (abs(v[1:, None] - v[0]) for v in (x_percent, y_percent))
  axes.errorbar(x_percent[0], y_percent[0], xerr=x_errors, yerr=y_errors, **look)
