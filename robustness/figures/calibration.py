"""Figures of calibration, from results alone."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.intervals import clopper_pearson
from robustness.figures import style
from robustness.figures.error_curves import ErrorCurve, error_curves
from robustness.figures.panels import name_axes, panels
from robustness.results import Results

CLEAN = 'clean'
PANELS = {'ece': 'ECE (debiased)', 'brier': 'Brier score of the top label', 'aurc': 'AURC'}
_BELOW, _IN_ROW = 3, 4  # classifiers below each other; with more, diagrams side by side
_FEWEST = 5  # examples in a bin whose accuracy is drawn


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws `reliability`, `selective_error` and, of corruptions, `by_severity`."""
  n = next(iter(results.numbers.values())).n
  confidence = results.settings['confidence']
  figures = {
    'reliability': (
      _reliability(results, confidence),
      f'Accuracy by confidence in {results.settings["bins"]} bins of equal width, on {n} images, '
      f'with {100 * confidence:g} % Clopper–Pearson intervals of bins with at least {_FEWEST} '
      'predictions (over several views they count predictions, not images); bars: the share of '
      'predictions in each bin. Below the diagonal a classifier is overconfident.',
    ),
    'selective_error': (
      _selective(results),
      'Error among the most confident share of the images, mean over views; its area is AURC.',
    ),
  }
  severities = [name for name in _groups(results) if name.startswith('severity ')]
  if severities:
    figures['by_severity'] = (
      _by_severity(results, severities),
      f'By severity, mean over the corruptions, 0 is clean; on {n} images, with '
      f'{100 * confidence:g} % bootstrap intervals over images.',
    )
  return figures


def _groups(results: Results) -> list[str]:
  """Returns the names of the groups of views."""
  prefix = next(iter(results.prefixes.values()))
  start = f'{prefix}ece/'
  return [name.removeprefix(start) for name in results.numbers if name.startswith(start)]


def _shown(results: Results) -> dict[str, np.ndarray]:
  """Returns which views each panel shows: the first, and all others together."""
  views = results.arrays['view']
  first = {str(views[0]): np.array([0])}
  return first if len(views) == 1 else {**first, 'all other views': np.arange(1, len(views))}


@style.styled
def _reliability(results: Results, confidence: float) -> Figure:
  shown, labels = _shown(results), results.prefixes
  diagrams = [(label, title) for label in labels for title in shown]
  in_row = min(len(diagrams), len(shown) if 1 < len(labels) <= _BELOW else _IN_ROW)
  width = min(style.PAGE_WIDTH, 1.9 * in_row + 0.5)
  figure, grid = panels(len(diagrams), width / in_row, in_row, width)
  letters = int(width / in_row / style.LETTER)
  for axes, (label, title) in zip(grid, diagrams, strict=True):
    _diagram(axes, results, labels[label], shown[title], confidence)
    axes.set_title(style.wrapped(f'{label}: {title}' if len(labels) > 1 else title, letters))
  name_axes(figure, 'confidence (%)', 'accuracy (%)')
  return figure


def _diagram(
  axes: Axes, results: Results, prefix: str, views: np.ndarray, confidence: float
) -> None:
  count, p, y = (
    results.arrays[f'{prefix}bin_{name}'][views] for name in ('size', 'confidence', 'accuracy')
  )
  total = count.sum(0)
  size = np.maximum(total, 1)
  mean, right = (count * p).sum(0) / size, (count * y).sum(0)
  width = 100 / count.shape[1]
  edges = width * np.arange(count.shape[1])[::-1]  # bins begin with the most confident
  axes.bar(edges, 100 * total / total.sum(), width, align='edge', color='0.85', linewidth=0)
  axes.plot([0, 100], [0, 100], color='0.3', linewidth=0.8, linestyle=':')
  shown = total >= _FEWEST
  value = right[shown] / size[shown]
  low, high = clopper_pearson(np.round(right[shown]), total[shown], confidence)
  axes.errorbar(
    100 * mean[shown],
    100 * value,
    100 * np.abs(np.stack([value - low, high - value])),
    color=style.COLOURS[0],
    marker='o',
    markersize=3,
    linewidth=1,
    elinewidth=0.8,
  )
  axes.set_xlim(0, 100)
  axes.set_ylim(0, 100)
  axes.set_aspect('equal')


@style.styled
def _selective(results: Results) -> Figure:
  shown = _shown(results)
  width = style.COLUMN_WIDTH if len(shown) == 1 else style.PAGE_WIDTH
  figure = Figure(figsize=(width, 2.4), layout='constrained')
  row = figure.subplots(1, len(shown), squeeze=False)[0]
  for axes, (title, views) in zip(row, shown.items(), strict=True):
    for index, (label, prefix) in enumerate(results.prefixes.items()):
      axes.plot(
        100 * results.arrays['coverage'],
        100 * results.arrays[f'{prefix}selective_error'][views].mean(0),
        color=style.colour(index),
        linestyle=style.dashes(index),
        label=label,
      )
    axes.set_title(title)
    axes.set_xlabel('images answered (%)')
    axes.set_ylim(bottom=0)
    axes.spines[['top', 'right']].set_visible(False)
  row[0].set_ylabel('error (%)')
  style.legend_above(figure)
  return figure


def _by_severity(results: Results, severities: list[str]) -> Figure:
  groups = [CLEAN, *severities]
  x = np.array([0, *(int(name.split()[1]) for name in severities)])
  panels: dict[str, dict[str, ErrorCurve]] = {}
  for quantity, title in PANELS.items():
    panels[title] = {}
    for label, prefix in results.prefixes.items():
      numbers = [results.numbers[f'{prefix}{quantity}/{name}'] for name in groups]
      ends = (np.array([getattr(n, end) for n in numbers]) for end in ('value', 'low', 'high'))
      panels[title][label] = ErrorCurve(x, *ends)
  return error_curves(panels, 'severity', label='percent')
