"""Figures of images: samples in rows, and Fourier basis images."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from robustness.estimates.facets import FREQUENCY_X, FREQUENCY_Y
from robustness.present import style
from robustness.present.notation import number

_MAX_WIDTH, _MIN_WIDTH = 1.3, 0.45  # inches, of a picture
_NAME_WIDTH = 1.1  # inches, of the names of rows
_TITLE_LINE = 0.1  # inches, of a line of titles between rows


@style.in_style
def grid(rows: Mapping[str, Mapping[str, ArrayLike]], label: str = '') -> Figure:
  """Draws pictures in rows, with a title above each and the name of the row on the left.

  The figure is no wider than a page and, except for very many rows, no higher.

  Args:
    rows: {name of a row: {title: picture}}. A row with the name '' gets no name. Pictures are
      [height, width, 1 or 3] in [0, 1], all of one height and width; other values are clipped.
      Titles that all rows share are drawn only above the first row.
    label: text below all rows.
  """
  pictures = [picture for row in rows.values() for picture in row.values()]
  height, width, _ = np.shape(pictures[0])
  ratio = height / width
  columns = max(map(len, rows.values()))  # rows may have different numbers of pictures
  has_shared_titles = len({tuple(row) for row in rows.values()}) == 1
  margin = _NAME_WIDTH if any(rows) else 0.1  # any row has a name other than ''
  num_title_lines = 1 if has_shared_titles else len(rows)
  # Inches, as are all sizes below: 0.2 for each line of titles, 0.3 for the label.
  text_height = 0.2 * num_title_lines + (0.3 if label else 0.05)
  width_for_page_height = (style.PAGE_HEIGHT - text_height) / (len(rows) * ratio)
  width_for_page_width = (style.PAGE_WIDTH - margin) / columns
  # A column is a picture and the gap to its right.
  column_width = max(_MIN_WIDTH, min(_MAX_WIDTH, width_for_page_width, width_for_page_height))
  label = style.wrapped(label, int((margin + columns * column_width) / style.LETTER))
  text_height += 0.15 * label.count('\n')
  size = (margin + columns * column_width, text_height + len(rows) * column_width * ratio)
  figure = Figure(figsize=size, layout='compressed')
  # One plot with an image for each row, in inches: a plot for each picture takes far longer.
  axes = figure.subplots()
  gap_in_pixels = max(1, round(0.1 * width))
  picture_width = column_width * width / (width + gap_in_pixels)
  gap = column_width - picture_width
  frames: list[Rectangle] = []
  bottom = -gap  # of the row before; the vertical coordinate grows downwards, from 0
  for index, (name, row) in enumerate(rows.items()):
    is_first = index == 0
    titles = [''] * len(row)
    if is_first or not has_shared_titles:
      titles = [style.wrapped(title, max(6, int(column_width / 0.05))) for title in row]
    top = bottom + gap
    # Titles of the first row are above the plot, where the layout makes room for them.
    if not is_first and not has_shared_titles:
      top += _TITLE_LINE * max(text.count('\n') + 1 for text in titles)
    bottom = top + picture_width * ratio
    for column, text in enumerate(titles):
      left_edge = column * column_width
      frames.append(Rectangle((left_edge, top), picture_width, picture_width * ratio))
      centre = left_edge + picture_width / 2
      axes.text(centre, top - 0.03, text, ha='center', va='bottom', fontsize=6)
    words = style.wrapped(name.replace('_', ' '), 18)
    axes.text(-0.05, (top + bottom) / 2, words, ha='right', va='center', fontsize=6)
    pixels = _side_by_side([np.asarray(image, float) for image in row.values()], gap_in_pixels)
    axes.imshow(pixels, extent=(0, len(row) * column_width, bottom, top), interpolation='nearest')
  axes.add_collection(PatchCollection(frames, facecolor='none', edgecolor='black', linewidth=0.6))
  axes.set(xlim=(0, (columns - 1) * column_width + picture_width), ylim=(bottom, 0))
  axes.set_axis_off()
  if label:
    figure.supxlabel(label)
  return figure


def _side_by_side(pictures: Sequence[np.ndarray], gap: int) -> np.ndarray:
  """Returns pictures [H, W, 1 or 3] side by side as [H, columns, 3], clipped to [0, 1].

  Each is followed by `gap` white columns.
  """
  height, width, _ = pictures[0].shape
  strip = np.ones((height, len(pictures), width + gap, 3))
  for column, picture in enumerate(pictures):
    strip[:, column, :width] = picture.clip(0, 1)
  return strip.reshape(height, -1, 3)


def show(axes: Axes, image: np.ndarray) -> None:
  """Draws an image [H, W, 1 or 3], uint8 or in [0, 1], without ticks."""
  pixels = image[..., 0] if image.shape[-1] == 1 else image
  white = 255 if image.dtype == np.uint8 else 1
  axes.imshow(pixels, cmap='gray', vmin=0, vmax=white, interpolation='nearest')
  axes.set(xticks=[], yticks=[])


def normalised(image: ArrayLike) -> np.ndarray:
  """Returns (x − mean)/std over all values of an image, for display.

  Reference:
    Yin et al. (2019), appendix, on figure 1.
  """
  values = np.asarray(image, float)
  return (values - values.mean()) / max(float(values.std()), 1e-12)


@style.in_style
def basis_figure(images: np.ndarray) -> Figure:
  """Draws Fourier basis images in a grid, with the zero frequency in the centre.

  All images share one grey scale, which is symmetric about zero (Yin et al. 2019, section 2).

  Args:
    images: the basis images, [rows, columns, height, width].
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
  axes.set(xlabel=FREQUENCY_X.axis, ylabel=FREQUENCY_Y.axis)
  return figure
