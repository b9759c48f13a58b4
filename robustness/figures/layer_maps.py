"""How much each layer's output changes, frequency by frequency: layers across, classifiers down."""

from __future__ import annotations

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
_FEWEST, _MOST = 5, 9  # layers side by side, where there are many
_BLOCK = 0.75  # inches: titles and colour bars of layers side by side
_SMALL = 1.0  # inches: maps up to which words are small


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
    A figure with a row for each classifier and a column for each layer, no larger than a page;
    where layers are many the rows begin again below.

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
  ratio, count = np.size(frequencies_y) / np.size(frequencies_x), len(changes)
  across = max(
    range(min(_FEWEST, len(layers)), min(_MOST, len(layers)) + 1),
    key=lambda across: _cell(across, len(layers), count, ratio),
  )
  cell, blocks = _cell(across, len(layers), count, ratio), -(-len(layers) // across)
  size = 8.0 if cell > _SMALL else 5.5
  letters = max(8, int(cell / (style.LETTER * size / 8)))
  figure, grid = _grid(blocks * count, across, blocks, cell * ratio)
  for row, classifier in enumerate([*changes] * blocks):
    grid[row, 0].set_ylabel(style.wrapped(classifier, letters), fontsize=size)
  columns = grid.reshape(blocks, count, across).swapaxes(1, 2).reshape(-1, count)
  for column, layer in zip(columns, layers, strict=False):
    column[0].set_title(style.wrapped(layer, letters), fontsize=size)
    values = [by_layer.get(layer) for by_layer in maps.values()]
    image = _draw_column(column, values, frequencies_y, frequencies_x, normalise)
    if normalise == 'none':
      _colour_bar(figure, image, list(column), quantity, 18, 3 if cell > _SMALL else 2, size)
  for empty in columns[len(layers) :].flat:
    empty.set_axis_off()
  if normalise == 'max':
    label = f'{quantity} ÷ its largest value in the map'
    _colour_bar(figure, image, list(grid.flat), label, 20 * across, 5)
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


def _cell(across: int, layers: int, classifiers: int, ratio: float) -> float:
  """Returns how wide maps are on a page where so many stand side by side, inches."""
  blocks = -(-layers // across)
  tall = (style.PAGE_HEIGHT - 0.5 - _BLOCK * blocks) / (blocks * classifiers) - 0.1
  return min((style.PAGE_WIDTH - 0.8) / across, 1.35, tall / ratio)


def _grid(rows: int, columns: int, blocks: int, tall: float) -> tuple[Figure, np.ndarray]:
  """Axes with tick labels on the outer sides only."""
  width = max(style.COLUMN_WIDTH, min(1.35 * columns + 0.8, style.PAGE_WIDTH))
  height = rows * (tall + 0.1) + 0.5 + _BLOCK * blocks
  figure = Figure(figsize=(width, min(style.PAGE_HEIGHT, height)), layout='compressed')
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
  figure: Figure,
  image: AxesImage,
  axes: list[Axes],
  label: str,
  aspect: float,
  ticks: int,
  size: float = 8.0,
) -> None:
  bar = figure.colorbar(
    image, ax=axes, location='bottom', aspect=aspect, pad=0.03, ticks=MaxNLocator(ticks)
  )
  bar.set_label(label, fontsize=size)
