"""How much each layer's output changes, frequency by frequency: layers across, classifiers down."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from robustness.core.errors import InputError, nearest
from robustness.figures import style
from robustness.figures.frequency_axes import HORIZONTAL, VERTICAL, checked_map, show_map

NORMALISATIONS = ('none', 'max')


@style.styled
def layer_maps(
  changes: Mapping[str, Mapping[str, ArrayLike]],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  normalise: str = 'none',
  quantity: str = 'mean L2 change',
) -> Figure:
  """Draws Z_h[i, j], the mean of ‖z_h(x) − z_h(x̃)‖₂, for each layer h and classifier.

  Args:
    changes: by classifier, by layer, [H, W] values >= 0, fftshifted.
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.
    normalise: 'none' gives each layer one scale in absolute units, shared by the
      classifiers; 'max' divides each map by its own largest value.
    quantity: what the values are, for the colour bar.

  Returns:
    A figure with a row for each classifier and a column for each layer.

  Reference:
    Yin et al., A Fourier perspective on model robustness in computer vision (2019),
    appendix B, figure 8.
  """
  if normalise not in NORMALISATIONS:
    raise InputError(f'normalise = {normalise!r}; {nearest(normalise, NORMALISATIONS)}.')
  layers = list(dict.fromkeys(layer for maps in changes.values() for layer in maps))
  if not layers:
    raise InputError('no layer maps to draw: give at least one classifier with one layer.')
  maps = _scaled(changes, frequencies_y, frequencies_x, normalise)
  figure, grid = _grid(len(changes), len(layers), np.size(frequencies_y) / np.size(frequencies_x))
  for row, classifier in enumerate(changes):
    grid[row, 0].set_ylabel(textwrap.fill(classifier, 18))
  for column, layer in enumerate(layers):
    grid[0, column].set_title(textwrap.fill(layer.replace('/', ' / '), 16))
    values = [by_layer.get(layer) for by_layer in maps.values()]
    image = _draw_column(grid[:, column], values, frequencies_y, frequencies_x, normalise)
    if normalise == 'none':
      _colour_bar(figure, image, list(grid[:, column]), quantity, 18, 3)
  if normalise == 'max':
    label = f'{quantity} ÷ its largest value in the map'
    _colour_bar(figure, image, list(grid.flat), label, 20 * len(layers), 5)
  return figure


def _scaled(
  changes: Mapping[str, Mapping[str, ArrayLike]],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  normalise: str,
) -> dict[str, dict[str, np.ndarray]]:
  def scaled(classifier: str, layer: str, values: ArrayLike) -> np.ndarray:
    array = checked_map(values, frequencies_y, frequencies_x, f'{classifier}: {layer}')
    if np.any(array < 0):
      raise InputError(f'{classifier}: {layer} holds {np.nanmin(array):g}: a norm is >= 0.')
    return array / (_largest([array]) if normalise == 'max' else 1.0)

  return {
    classifier: {layer: scaled(classifier, layer, values) for layer, values in maps.items()}
    for classifier, maps in changes.items()
  }


def _largest(maps: list[np.ndarray]) -> float:
  """The largest finite value; 1 if all are zero, so that it can be a scale."""
  values = np.concatenate([np.ravel(m) for m in maps])
  return float(np.max(values, initial=0.0, where=np.isfinite(values))) or 1.0


def _grid(rows: int, columns: int, ratio: float) -> tuple[Figure, np.ndarray]:
  """Axes with tick labels on the outer sides only."""
  width = max(style.COLUMN_WIDTH, min(1.35 * columns + 0.8, 2 * style.PAGE_WIDTH))
  cell = (width - 0.8) / columns
  figure = Figure(figsize=(width, rows * (cell * ratio + 0.1) + 1.25), layout='compressed')
  grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
  figure.supxlabel(HORIZONTAL)
  figure.supylabel(VERTICAL)
  return figure, grid


def _draw_column(
  column: np.ndarray,
  maps: list[np.ndarray | None],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  normalise: str,
) -> AxesImage:
  present = [values for values in maps if values is not None]
  limits = (0.0, 1.0 if normalise == 'max' else _largest(present))
  blank = np.full((np.size(frequencies_y), np.size(frequencies_x)), np.nan)
  for axes, values in zip(column, maps, strict=True):
    image = show_map(
      axes,
      blank if values is None else values,
      frequencies_y,
      frequencies_x,
      style.MAGNITUDE,
      limits,
    )
    if values is None:
      axes.text(0.5, 0.5, 'no such layer', transform=axes.transAxes, ha='center', va='center')
  return image


def _colour_bar(
  figure: Figure, image: AxesImage, axes: list[Axes], label: str, aspect: float, ticks: int
) -> None:
  figure.colorbar(
    image,
    ax=axes,
    location='bottom',
    label=label,
    aspect=aspect,
    pad=0.03,
    ticks=MaxNLocator(ticks),
  )
