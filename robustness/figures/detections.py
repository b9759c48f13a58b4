"""Detections on anchors and their worst neighbors: true and false positives, and ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from robustness.figures import style
from robustness.metrics.detection import Boxes, match

TRUE, FALSE, TRUTH = style.COLOURS[2], style.COLOURS[1], 'white'
_STYLES: tuple[tuple[str, str, Any], ...] = (
    ('true positive', TRUE, '-'), ('false positive', FALSE, '--'), ('ground truth', TRUTH, ':'))


@style.styled
def detection_gallery(images: Sequence[np.ndarray], truth: Boxes, found: Boxes,
                      titles: Sequence[str] = (), class_names: Sequence[str] = (),
                      least_score: float = 0.5, threshold: float = 0.5) -> Figure:
  """Draws boxes on images, two rows for pairs of anchor and neighbor (the paper's figure 4).

  Args:
    images: [H, W, C] in [0, 1] each; an even number of them alternates anchor and neighbor.
    truth: ground truth; `image` is the position in `images`.
    found: detections, with scores.
    titles: one an image.
    class_names: written at each detection; their numbers without it.
    least_score: detections with a lower score are not drawn.
    threshold: least IoU of a true positive.
  """
  matches = match(truth, found, len(images), threshold)
  right = np.zeros(len(found.image), bool)
  right[matches.index] = matches.right
  paired = len(images) % 2 == 0
  rows, columns = (2, len(images) // 2) if paired else (1, len(images))
  height, width = images[0].shape[:2]
  cell = style.PAGE_WIDTH / max(columns, 2)
  figure = Figure(figsize=(cell * columns, rows * (cell * height / width + 0.2) + 0.3),
                  layout='constrained')
  grid = figure.subplots(rows, columns, squeeze=False)
  assert found.score is not None  # `match` has refused detections without
  for index, image in enumerate(images):
    axes = grid[index % rows, index // rows]
    axes.imshow(image[..., 0] if image.shape[-1] == 1 else image, cmap='gray', vmin=0, vmax=1)
    axes.set_axis_off()
    axes.set_title(titles[index] if titles else '')
    for box in np.flatnonzero(truth.image == index):
      _box(axes, truth.corners[box], TRUTH, ':', '')
    for box in np.flatnonzero((found.image == index) & (found.score >= least_score)):
      category = int(found.category[box])
      name = class_names[category] if class_names else str(category)
      _, colour, dashes = _STYLES[0 if right[box] else 1]
      _box(axes, found.corners[box], colour, dashes, f'{name} {found.score[box]:.2f}')
  handles = [Line2D([], [], color='0.6' if colour == TRUTH else colour, linestyle=dashes,
                    label=name) for name, colour, dashes in _STYLES]
  figure.legend(handles=handles, loc='outside lower center', ncols=3)
  return figure


def _box(axes: Axes, corners: np.ndarray, colour: str, dashes: str, text: str) -> None:
  x0, y0, x1, y1 = corners
  axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour,
                           linestyle=dashes, linewidth=1.4))
  if text:
    axes.text(x0, y0, text, fontsize=5, color='white', va='bottom',
              bbox={'facecolor': colour, 'edgecolor': 'none', 'pad': 0.6})
