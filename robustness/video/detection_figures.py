"""Detections on anchors and their worst neighbors: true and false positives, and ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from robustness.present import charts, style
from robustness.present.images import show
from robustness.results import Results

TRUE, FALSE, TRUTH = style.COLOURS[2], style.COLOURS[1], 'white'
LEAST_SCORE = 0.5
HIT, MISS, OBJECT = 'true positive', 'false positive', 'ground truth'
LOOKS = {HIT: (TRUE, '-'), MISS: (FALSE, '--'), OBJECT: (TRUTH, ':')}


def draw(results: Results) -> dict[str, charts.Picture]:
  """Draws the table of results of `robustness.detection`, and the boxes on frames of each task."""
  figures = charts.draw(results)
  for name in [name for name in results.arrays if name.endswith('/frame')]:
    task = name.removesuffix('/frame')
    prefix = f'{task}/'
    stored = {k.removeprefix(prefix): v for k, v in results.arrays.items() if k.startswith(prefix)}
    figures[f'{task}_pictures'] = (
      gallery(stored),
      f'{task.capitalize()}: anchors above the worst frames of their sets, where the average '
      'precision (AP) of the frame alone falls most; detections with a score from '
      f'{LEAST_SCORE:g} on, and ground truth.',
    )
  return figures


@style.styled
def gallery(stored: Mapping[str, np.ndarray]) -> Figure:
  """Draws boxes on images, anchors above neighbors (the paper's figure 4).

  Args:
    stored: of `robustness.video.detection_pictures.pictures`; detections with a score below
      `LEAST_SCORE` are left out.
  """
  names = dict(zip(stored['class'].tolist(), stored['class_name'].tolist(), strict=True))
  columns = len(stored['frame']) // 2
  height, width = stored['image_0'].shape[:2]
  cell = style.PAGE_WIDTH / max(columns, 2)
  size = (cell * columns, 2 * (cell * height / width + 0.2) + 0.3)
  figure = Figure(figsize=size, layout='constrained')
  grid = figure.subplots(2, columns, squeeze=False)
  for index, axes in enumerate(grid.T.flat):
    show(axes, stored[f'image_{index}'], 255)
    axes.set_axis_off()
    place = f'offset {style.whole(stored["offset"][index])}' if index % 2 else 'anchor'
    axes.set_title(f'{place}, AP {style.percent(stored["precision"][index])}')
    for box in stored['truth'][stored['truth'][:, 0] == index]:
      _box(axes, box[2:6], OBJECT, '')
    for box in stored['found'][stored['found'][:, 0] == index]:
      if box[6] >= LEAST_SCORE:
        _box(axes, box[2:6], HIT if box[7] else MISS, f'{names[int(box[1])]} {box[6]:.2f}')
  handles = [
    style.dashed(name, dashes, color='0.6' if colour == TRUTH else colour)
    for name, (colour, dashes) in LOOKS.items()
  ]
  figure.legend(handles=handles, loc='outside lower center', ncols=3)
  return figure


def _box(axes: Axes, corners: np.ndarray, kind: str, text: str) -> None:
  x0, y0, x1, y1 = corners
  colour, dashes = LOOKS[kind]
  look: dict[str, Any] = {'edgecolor': colour, 'linestyle': dashes, 'linewidth': 1.4}
  axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, **look))
  around = {'facecolor': colour, 'edgecolor': 'none', 'pad': 0.6}
  if text:
    axes.text(x0, y0, text, fontsize=5, color='white', va='bottom', bbox=around)
