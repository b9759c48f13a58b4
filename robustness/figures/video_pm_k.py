"""The figures of the study `video_pm_k`, from its results alone.

Figures 1, 3, 5 to 8, 10 and 11 of Shankar et al., Do Image Classifiers Generalize Across Time?,
2021.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robustness.figures import style, video_testbed
from robustness.figures.images import show_image
from robustness.figures.panels import name_axes, panels
from robustness.figures.video_testbed import effective_k
from robustness.metrics.neighbor_analysis import distance_curves
from robustness.metrics.neighbor_sets import OffsetErrors, Outcomes
from robustness.results import FAILURE_IMAGES, Results, Table

Drawn = dict[str, tuple[Figure, str]]
GRID = np.linspace(0, 1, 101)
_CLASS, _NAMES = 0.19, 1.3  # inches: of a class, and of the names of classes
_CLASSIFIERS = 4  # side by side


def draw(results: Results) -> Drawn:
  """Draws all figures that the results hold what is needed for.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {name: (figure, caption)}.
  """
  n = results.numbers[f'{next(iter(results.prefixes.values()))}accuracy_anchor'].n
  figures = {
    'pm_k': (
      pm_k_curves(results),
      (
        f'Accuracy on the worst frame within k frames of {n} anchors; bands are '
        f'{_confidence(results)} intervals. k = 0 is the anchor.{_largest_k(results)}'
      ),
    ),
    'offset_error': (
      offset_errors(results),
      ('Error of frames by their distance from the anchor; bands are intervals.'),
    ),
    'conditional': (
      conditional_curves(results),
      ('Accuracy at exactly k frames from anchors that are right (Gu et al.).'),
    ),
    'by_class': (
      class_accuracies(results),
      (
        'Accuracy on anchors (filled) and at pm-k (open) by class; sets of several labels count '
        f'in each.{_which_classes(results)}'
      ),
    ),
  }
  return figures | video_testbed.draw(results) | _where_recorded(results)


def _where_recorded(results: Results) -> Drawn:
  """Draws the figures whose arrays only some runs have."""
  figures = {}
  if len(results.prefixes) > 1:
    figures['static'] = (
      static_set(results),
      (
        'Accuracy on one static set, the neighbor that most classifiers get wrong, and on each '
        "classifier's own worst neighbor."
      ),
    )
  reviews = _reviews(results)
  if reviews:
    figures['review'] = (
      review_impact(reviews),
      (
        'Error of frames by their distance from the anchor, before and after the review of the '
        'sets.'
      ),
    )
  if 'distance' in results.arrays:
    figures['distance'] = (
      distance_distributions(results),
      (
        'Cumulative distribution of the ℓ∞ distance of all pairs, of those that passed the review '
        '(where that is known), and of mistakes: wrong neighbors of right anchors.'
      ),
    )
  return figures | _galleries(results)


def _galleries(results: Results) -> Drawn:
  """Draws each classifier's most damaged sets; earlier versions kept those of the first alone."""
  figures = {}
  for label, prefix in {'': '', **results.prefixes}.items():
    if prefix + FAILURE_IMAGES in results.arrays and f'{prefix}failures' in results.tables:
      images, table = results.arrays[prefix + FAILURE_IMAGES], results.tables[f'{prefix}failures']
      figures[f'failures_{label}' if prefix else 'failures'] = (
        failures(images, table),
        (
          f'Of the sets whose anchor {label or "the classifier"} gets right, those with the '
          'largest share of wrong neighbors: the anchor above the nearest one that is wrong, with '
          'prediction, probability and distance in frames.'
        ),
      )
  return figures


def _reviews(results: Results) -> dict[str, OffsetErrors]:
  """Returns errors by offset before and after the review, of each classifier that has them."""
  curves = {}
  for label, prefix in results.prefixes.items():
    for kind in ('unreviewed', 'reviewed'):
      name = f'{prefix}review/{kind}_'
      if f'{name}offset' in results.arrays:
        curves[f'{label}, {kind} frames' if prefix else f'{kind} frames'] = OffsetErrors(
          *(results.arrays[name + part] for part in OffsetErrors._fields)
        )
  return curves


def _largest_k(results: Results) -> str:
  """Says that the sets end before the k that was asked for, if they do."""
  asked, largest = results.settings['k'], effective_k(results)
  if largest == asked:
    return ''
  return (
    f' Neighbors are at most {largest} frames from their anchors, so that pm-{asked}, which was '
    f'asked for, is pm-{largest}.'
  )


def _confidence(results: Results) -> str:
  return f'{100 * results.settings["confidence"]:g} %'


def _band(
  axes: Axes,
  x: np.ndarray,
  results: Results,
  name: str,
  index: int,
  label: str | None,
  dashes: str = '-',
) -> None:
  """Draws an array with its interval, in percent."""
  value, low, high = (100 * values for values in results.with_interval(name))
  colour = style.colour(index)
  axes.plot(
    x, value, color=colour, marker=style.marker(index), markersize=3, linestyle=dashes, label=label
  )
  axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


def _axes(x: str, y: str, height: float = 2.6) -> tuple[Figure, Axes]:
  figure = Figure(figsize=(style.COLUMN_WIDTH, height), layout='constrained')
  axes = figure.subplots()
  axes.set_xlabel(x)
  axes.set_ylabel(y)
  if 'frames' in x:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
  axes.spines[['top', 'right']].set_visible(False)
  return figure, axes


@style.styled
def pm_k_curves(results: Results) -> Figure:
  """Draws accuracy against k (figure 11), with and, dotted, without the anchor in the set."""
  figure, axes = _axes('k (frames from the anchor)', 'accuracy (%)')
  included = results.settings['include_anchor']
  for index, (label, prefix) in enumerate(results.prefixes.items()):
    _band(axes, results.arrays['k'], results, f'{prefix}pm_k', index, label)
    if included:
      alone = 100 * results.arrays[f'{prefix}pm_k_neighbors_only']
      colour = style.colour(index)
      axes.plot(results.arrays['k'], alone, ':', color=colour)
  style.legend_above(figure, [style.dashed('neighbors only', ':')] if included else [])
  return figure


@style.styled
def offset_errors(results: Results) -> Figure:
  """Draws the error of frames at each offset (figure 5)."""
  figure, axes = _axes('offset from the anchor (frames)', 'error (%)')
  for index, (label, prefix) in enumerate(results.prefixes.items()):
    _band(axes, results.arrays['offset'], results, f'{prefix}offset_error', index, label)
  style.legend_above(figure)
  return figure


@style.styled
def conditional_curves(results: Results) -> Figure:
  """Draws P(right at exactly k | anchor right) (figure 8)."""
  figure, axes = _axes('k (frames from the anchor)', 'accuracy given a right anchor (%)')
  for index, (label, prefix) in enumerate(results.prefixes.items()):
    _band(axes, results.arrays['k'][1:], results, f'{prefix}conditional', index, label)
  style.legend_above(figure)
  return figure


def _which_classes(results: Results) -> str:
  """Says in which order classes are drawn, and of how many these are."""
  first, prefix = next(iter(results.prefixes.items()))
  every, drawn = len(results.tables[f'{prefix}by_class'].rows), len(_worst_classes(results))
  some = f' The first {drawn} of {every} classes are drawn.' if drawn < every else ''
  return f' They are ordered by the accuracy of {first} at pm-k, the lowest first.{some}'


def _worst_classes(results: Results) -> np.ndarray:
  """Returns the rows of the tables by class that are drawn, the least accurate at pm-k first.

  The order is the first classifier's; there are as many as a page holds.
  """
  accuracy = _column(results.tables[f'{next(iter(results.prefixes.values()))}by_class'], 'pm-k')
  rows = -(-len(results.prefixes) // _CLASSIFIERS)
  most = int((style.PAGE_HEIGHT / rows - 1) / _CLASS)
  return np.argsort(accuracy, kind='stable')[:most]


@style.styled
def class_accuracies(results: Results) -> Figure:
  """Draws both accuracies of the least accurate classes (figure 7), a panel a classifier."""
  tables = {
    label: results.tables[f'{prefix}by_class'] for label, prefix in results.prefixes.items()
  }
  chosen, in_row = _worst_classes(results), min(len(tables), _CLASSIFIERS)
  width = min(style.PAGE_WIDTH, style.COLUMN_WIDTH * max(1.0, 0.75 * len(tables)))
  figure, grid = panels(len(tables), 0.5 + _CLASS * len(chosen), in_row, width, spare=0.15)
  letters = int((width - _NAMES) / in_row / style.LETTER)
  for index, (axes, (label, table)) in enumerate(zip(grid, tables.items(), strict=True)):
    colour = style.colour(index)
    for name, marker, shift in (('anchor', 'o', -0.15), ('pm-k', 's', 0.15)):
      value, low, high = (100 * _column(table, name + end)[chosen] for end in ('', ' low', ' high'))
      axes.errorbar(
        value,
        np.arange(len(value)) + shift,
        xerr=[value - low, high - value],
        fmt=marker,
        color=colour,
        markersize=3,
        linewidth=0.7,
        markerfacecolor=colour if name == 'anchor' else 'white',
      )
    axes.set_title(style.wrapped(label, letters))
    axes.set_xlim(-2, 102)
  rows = next(iter(tables.values())).rows
  names = [f'{rows[index][0]} ({rows[index][1]})' for index in chosen]
  grid[0].set_yticks(range(len(names)), names)
  grid[0].set_ylim(len(names) - 0.5, -0.5)
  name_axes(figure, 'accuracy (%)')
  marks = {'anchor': ('o', '0.2'), 'pm-k': ('s', 'white')}
  style.legend_above(
    figure,
    [
      style.dashed(name, '', marker=marker, markersize=3, markerfacecolor=face, color='0.2')
      for name, (marker, face) in marks.items()
    ],
  )
  return figure


def _column(table: Table, name: str) -> np.ndarray:
  place = list(table.columns).index(name)
  return np.array([row[place] for row in table.rows], float)


@style.styled
def static_set(results: Results) -> Figure:
  """Draws accuracy on the static set, and per classifier, against that on anchors (figure 6)."""
  figure, axes = _axes('accuracy on anchors (%)', 'perturbed accuracy (%)', 3.0)
  k = effective_k(results)
  series = (
    (f'accuracy_pm_{k}_neighbors_only', '0.6', 'worst neighbor of each'),
    ('accuracy_static', style.COLOURS[0], 'static set'),
  )
  for name, colour, label in series:
    for index, prefix in enumerate(results.prefixes.values()):
      anchor, perturbed = (results.numbers[prefix + key] for key in ('accuracy_anchor', name))
      marker = style.marker(index)
      video_testbed.point(axes, anchor, perturbed, colour, marker, None)
    axes.plot([], [], color=colour, linewidth=3, label=label)
  video_testbed.diagonal(axes)
  style.legend_above(
    figure,
    [
      style.dashed(label, '', marker=style.marker(index), markersize=4)
      for index, label in enumerate(results.prefixes)
    ],
  )
  return figure


def outcomes(results: Results) -> dict[str, Outcomes]:
  """Returns what each classifier got right, from the arrays of results."""
  arrays = results.arrays
  return {
    label: Outcomes(
      arrays[f'{prefix}anchor_right'],
      arrays[f'{prefix}neighbor_right'],
      arrays['pair_group'],
      arrays['pair_offset'],
    )
    for label, prefix in results.prefixes.items()
  }


@style.styled
def distance_distributions(results: Results) -> Figure:
  """Draws the distributions of ℓ∞ distances: all pairs, reviewed ones, mistakes (figure 10)."""
  curves = distance_curves(
    results.arrays['distance'], outcomes(results), GRID, results.arrays.get('pair_reviewed')
  )
  figure, axes = _axes('ℓ∞ distance of the pair (of 1)', 'share of pairs (%)')
  for index, (name, curve) in enumerate(curves.items()):
    if curve.n:
      axes.plot(
        curve.at,
        100 * curve.share,
        color=style.colour(index),
        linestyle=style.dashes(index),
        label=f'{name} ({curve.n})',
      )
  axes.set_ylim(0, 100)
  style.legend_above(figure)
  return figure


@style.styled
def review_impact(curves: Mapping[str, OffsetErrors]) -> Figure:
  """Draws errors by offset with and without review (figure 5).

  Args:
    curves: errors of one model by name, such as 'unreviewed frames' and 'reviewed frames'.
  """
  figure, axes = _axes('offset from the anchor (frames)', 'error (%)')
  for index, (name, errors) in enumerate(curves.items()):
    value, low, high = (100 * np.asarray(part) for part in errors.rate())
    colour = style.colour(index)
    axes.plot(errors.offset, value, color=colour, linestyle=style.dashes(index), label=name)
    axes.fill_between(errors.offset, low, high, color=colour, alpha=0.2, linewidth=0)
  style.legend_above(figure)
  return figure


@style.styled
def failures(images: np.ndarray, table: Table) -> Figure:
  """Draws anchors above the neighbors that are wrong, with what was predicted (figure 1).

  Args:
    images: [E, 2, H, W, C] in [0, 1].
    table: of the failures, one row a column of pictures.
  """
  count, _, height, width = images.shape[:4]
  cell = min(1.6, style.PAGE_WIDTH / count)
  figure = Figure(figsize=(cell * count, 2 * cell * height / width + 0.8), layout='constrained')
  grid = figure.subplots(2, count, squeeze=False)
  for column, (pair, row) in enumerate(zip(images, table.rows, strict=True)):
    texts = (
      f'{row[4]} {style.percent(row[5], 0)}',
      f'{row[6]} {style.percent(row[7], 0)} ({style.whole(row[2])})',
    )
    _pictures(grid[:, column], pair, texts)
  return figure


def _pictures(panels: np.ndarray, images: np.ndarray, texts: Sequence[str]) -> None:
  for axes, image, text in zip(panels, images, texts, strict=True):
    show_image(axes, image)
    axes.set_title(textwrap.fill(text.replace('_', ' '), 22), fontsize=6)
