"""Figures of images: samples in rows, and Fourier basis images."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.facets import FREQUENCY_X, FREQUENCY_Y
from robustness.present import style
from robustness.present.notation import number

_MAX_WIDTH, _MIN_WIDTH = 1.3, 0.45  # inches, of a picture
_NAME_WIDTH = 1.1  # inches, of the names of rows


@style.styled
def grid(rows: Mapping[str, Mapping[str, ArrayLike]], label: str = '') -> Figure:
  """Draws pictures in rows; values outside [0, 1] are clipped.

  The figure is no wider than a page and, except for very many rows, no higher.

  Args:
    rows: {name of a row: {title: picture}}; the name '' draws none. Pictures are [height, width,
      1 or 3]; 0 is black and 1 white. Titles of all rows, if equal, are drawn above the first only.
    label: text below all rows.
  """
  pictures = [np.asarray(image, float) for line in rows.values() for image in line.values()]
  if not pictures:
    raise InputError('no pictures to draw: give at least one row with one picture.')
  for image in pictures:
    if image.ndim != 3 or image.shape[-1] not in (1, 3):
      raise InputError(
        f'a picture has shape {image.shape}: give [height, width, channels], 1 or 3 channels.'
      )
  columns = max(map(len, rows.values()))  # rows may have different numbers of pictures
  titles = [tuple(line) for line in rows.values()]
  is_shared = len(set(titles)) == 1
  margin = _NAME_WIDTH if any(rows) else 0.1  # any row has a name other than ''
  ratio = pictures[0].shape[0] / pictures[0].shape[1]
  # Inches, as are all sizes below: 0.2 for each line of titles, 0.3 for the label.
  text_height = 0.2 * (1 if is_shared else len(rows)) + (0.3 if label else 0.05)
  width_for_page_height = (style.PAGE_HEIGHT - text_height) / (len(rows) * ratio)
  width_for_page_width = (style.PAGE_WIDTH - margin) / columns
  width = max(_MIN_WIDTH, min(_MAX_WIDTH, width_for_page_width, width_for_page_height))
  size = (margin + columns * width, text_height + len(rows) * width * ratio)
  figure = Figure(figsize=size, layout='compressed')
  axes_grid = figure.subplots(len(rows), columns, squeeze=False)
  for line, (name, row) in zip(axes_grid, rows.items(), strict=True):
    is_first_row = line[0] is axes_grid[0, 0]
    for axes in line[len(row) :]:
      axes.set_axis_off()
    for axes, (title, picture) in zip(line, row.items(), strict=False):
      show(axes, np.clip(np.asarray(picture, float), 0.0, 1.0))
      if is_first_row or not is_shared:
        axes.set_title(style.wrapped(title, max(6, int(width / 0.05))), fontsize=6)
    words = style.wrapped(name.replace('_', ' '), 18)
    line[0].set_ylabel(words, rotation=0, ha='right', va='center', fontsize=6)
  if label:
    figure.supxlabel(label)
  return figure


def show(axes: Axes, image: np.ndarray) -> None:
  """Draws an image [H, W, 1 or 3], uint8 or in [0, 1], without ticks."""
  axes.imshow(
    image[..., 0] if image.shape[-1] == 1 else image,
    cmap='gray',
    vmin=0,
    vmax=255 if image.dtype == np.uint8 else 1,
    interpolation='nearest',
  )
  axes.set_xticks([])
  axes.set_yticks([])


def normalised(image: ArrayLike) -> np.ndarray:
  """Returns (x − mean)/std of all values of an image (Yin et al. 2019, appendix, on figure 1)."""
  values = np.asarray(image, float)
  return (values - values.mean()) / max(float(values.std()), 1e-12)


@style.styled
def basis(images: np.ndarray) -> Figure:
  """Draws Fourier basis images U_ij [R, K, height, width] in R rows and K columns.

  The zero frequency is in the centre, as in Fourier heatmaps (Yin et al. 2019, section 2). All
  images share one grey scale, which is symmetric about zero.
  """
  rows, columns, height, width = images.shape
  gap = max(1, round(0.08 * max(height, width)))  # pixels between images, which stay white
  tiles = np.full((rows, columns, height + gap, width + gap), np.nan)
  tiles[:, :, :height, :width] = images
  # One image of all tiles: [rows, tile height, columns, tile width], then joined pairwise.
  mosaic = tiles.transpose(0, 2, 1, 3).reshape(rows * (height + gap), columns * (width + gap))
  mosaic = mosaic[:-gap, :-gap]  # without the gaps at the right and below
  size = (style.COLUMN_WIDTH, style.COLUMN_WIDTH * mosaic.shape[0] / mosaic.shape[1])
  figure = Figure(figsize=size, layout='compressed')
  axes = figure.subplots()
  largest = float(np.abs(images).max()) or 1.0
  axes.imshow(mosaic, cmap='gray', vmin=-largest, vmax=largest)
  for axis, count, side in ((axes.xaxis, columns, width), (axes.yaxis, rows, height)):
    centres = np.arange(count) * (side + gap) + (side - 1) / 2
    axis.set_ticks(centres, [number(index - count // 2) for index in range(count)])
  axes.tick_params(length=0)
  axes.spines[:].set_visible(False)
  axes.set_xlabel(FREQUENCY_X.axis)
  axes.set_ylabel(FREQUENCY_Y.axis)
  return figure
