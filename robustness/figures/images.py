"""Pictures of pictures: images perturbed along basis vectors, and the basis itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.figures import style
from robustness.figures.frequency_axes import HORIZONTAL, VERTICAL


@style.styled
def sample_images(
  images: ArrayLike, frequencies: Sequence[tuple[int, int] | None], norm: float | None = None
) -> Figure:
  """Draws images perturbed along Fourier basis vectors, one column for each (i, j).

  Values outside [0, 1], which an unclipped perturbation gives, are cut for display only.

  Args:
    images: [K, height, width, channels], or [R, K, height, width, channels] for R images a
      column; 1 or 3 channels, 0 is black and 1 is white.
    frequencies: K pairs (i, j), vertical and horizontal frequency in cycles per image;
      None for the image as it is.
    norm: L2 norm of the perturbation of one channel, for the caption.

  Returns:
    A figure of page width.

  Reference:
    Yin et al., A Fourier perspective on model robustness in computer vision (2019),
    figure 3, bottom row.
  """
  array = np.asarray(images, float)
  array = array[None] if array.ndim == 4 else array
  _check_images(array, len(frequencies))
  rows, columns, height, width = array.shape[:4]
  size = min(1.5, style.PAGE_WIDTH / columns)
  figure_size = (size * columns, size * rows * height / width + 0.5)
  figure = Figure(figsize=figure_size, layout='compressed')
  grid = figure.subplots(rows, columns, squeeze=False)
  for axes, image in zip(grid.flat, array.reshape(-1, *array.shape[2:]), strict=True):
    show_image(axes, np.clip(image, 0.0, 1.0))
  for axes, pair in zip(grid[0], frequencies, strict=True):
    axes.set_title('clean' if pair is None else f'({style.whole(pair[0])}, {style.whole(pair[1])})')
  figure.supxlabel(
    '(i, j): vertical and horizontal frequency in cycles per image'
    + ('' if norm is None else f'; L2 norm {norm:g} in each channel')
  )
  return figure


@style.styled
def basis_gallery(
  basis: ArrayLike, frequencies_y: Sequence[int], frequencies_x: Sequence[int]
) -> Figure:
  """Draws the basis images U_ij in the layout of the heat map, usually around zero frequency.

  Args:
    basis: [R, K, height, width] real images; each has unit L2 norm. One grey scale,
      symmetric about zero, serves all.
    frequencies_y: [R] vertical frequencies of the rows, in cycles per image.
    frequencies_x: [K] horizontal frequencies of the columns.

  Returns:
    A figure of column width.

  Reference:
    Yin et al., A Fourier perspective on model robustness in computer vision (2019),
    section 2.
  """
  array = np.asarray(basis, float)
  if array.ndim != 4 or array.shape[:2] != (len(frequencies_y), len(frequencies_x)):
    raise InputError(
      f'basis has shape {array.shape}: give [{len(frequencies_y)}, {len(frequencies_x)}, '
      'height, width], one image for each pair of frequencies.'
    )
  mosaic, centres_y, centres_x = _mosaic(array)
  ratio = mosaic.shape[0] / mosaic.shape[1]
  figure = Figure(figsize=(style.COLUMN_WIDTH, style.COLUMN_WIDTH * ratio), layout='compressed')
  axes = figure.subplots()
  largest = float(np.abs(array).max()) or 1.0
  axes.imshow(mosaic, cmap='gray', vmin=-largest, vmax=largest)
  axes.set_xticks(centres_x, [style.whole(f) for f in frequencies_x])
  axes.set_yticks(centres_y, [style.whole(f) for f in frequencies_y])
  axes.tick_params(length=0)
  axes.spines[:].set_visible(False)
  axes.set_xlabel(HORIZONTAL)
  axes.set_ylabel(VERTICAL)
  return figure


def normalised(image: ArrayLike) -> np.ndarray:
  """Returns (x − mean)/std over all pixels and channels of an image, as high-passed ones are shown.

  Reference:
    Yin et al. (2019), appendix, on the pictures of figure 1.
  """
  values = np.asarray(image, float)
  return (values - values.mean()) / max(float(values.std()), 1e-12)


@style.styled
def picture_rows(rows: Mapping[str, Mapping[str, ArrayLike]]) -> Figure:
  """Draws rows of pictures, each with a title; values outside [0, 1] are cut for display.

  Args:
    rows: by name of the row, by title, [height, width, channels] with 1 or 3 channels.

  Returns:
    A figure of page width.
  """
  columns = max(len(pictures) for pictures in rows.values())
  first = np.asarray(next(iter(next(iter(rows.values())).values())))
  size = min(1.3, style.PAGE_WIDTH / columns)
  height = len(rows) * (size * first.shape[0] / first.shape[1] + 0.22)
  figure = Figure(figsize=(size * columns + 0.3, height), layout='compressed')
  grid = figure.subplots(len(rows), columns, squeeze=False)
  for line, (name, pictures) in zip(grid, rows.items(), strict=True):
    for axes in line[len(pictures) :]:
      axes.set_axis_off()
    for axes, (title, image) in zip(line, pictures.items(), strict=False):
      show_image(axes, np.clip(np.asarray(image, float), 0.0, 1.0))
      axes.set_title(title, fontsize=6.5)
    line[0].set_ylabel(name, fontsize=6.5)
  return figure


def _check_images(array: np.ndarray, columns: int) -> None:
  if array.ndim != 5 or array.shape[-1] not in (1, 3):
    raise InputError(
      f'images have shape {array.shape}: give [K, height, width, channels] with 1 or 3 channels.'
    )
  if array.shape[1] != columns:
    raise InputError(f'{array.shape[1]} images a row for {columns} frequencies: give as many.')


def show_image(axes: Axes, image: np.ndarray, white: float = 1.0) -> None:
  """Draws an image [H, W, 1 or 3] without ticks; grey levels go from 0 to `white`."""
  axes.imshow(
    image[..., 0] if image.shape[-1] == 1 else image,
    cmap='gray',
    vmin=0,
    vmax=white,
    interpolation='nearest',
  )
  axes.set_xticks([])
  axes.set_yticks([])


def _mosaic(basis: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Tiles [R, K, h, w] with blank gaps; also where the tiles' centres lie."""
  rows, columns, height, width = basis.shape
  gap = max(1, round(0.08 * max(height, width)))
  tiles = np.full((rows, columns, height + gap, width + gap), np.nan)
  tiles[:, :, :height, :width] = basis
  mosaic = tiles.transpose(0, 2, 1, 3).reshape(rows * (height + gap), columns * (width + gap))
  centres_y = np.arange(rows) * (height + gap) + (height - 1) / 2
  centres_x = np.arange(columns) * (width + gap) + (width - 1) / 2
  return mosaic[:-gap, :-gap], centres_y, centres_x
