"""Detections on anchors and their worst neighbors: true and false positives, and ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from robustness.figures import style
from robustness.figures.accuracy_bars import accuracy_bars
from robustness.metrics.detection import Boxes, match
from robustness.results import Results

TRUE, FALSE, TRUTH = style.COLOURS[2], style.COLOURS[1], 'white'
LEAST_SCORE = 0.5
_STYLES: tuple[tuple[str, str, Any], ...] = (
  ('true positive', TRUE, '-'),
  ('false positive', FALSE, '--'),
  ('ground truth', TRUTH, ':'),
)


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures that the results of `detection_pm_k` hold what is needed for.

  Returns:
    {name: (figure, caption)}.
  """
  k, tasks = results.settings['k'], ('detection', 'localisation')
  bars = {
    task: {
      'anchors': results.numbers[f'{task}/mAP_anchor'],
      f'worst frames, pm-{k}': results.numbers[f'{task}/mAP_pm_{k}'],
    }
    for task in tasks
  }
  figures = {
    'mean_average_precision': (
      accuracy_bars(bars, 'mAP (%)'),
      (
        'Mean average precision on anchors and on the worst frame of each set, with '
        f'{100 * results.settings["confidence"]:g} % intervals.'
      ),
    )
  }
  for task in tasks:
    if f'{task}/frame' in results.arrays:
      figures[f'{task}_pictures'] = (
        _gallery(results, task),
        (
          f'{task.capitalize()}: anchors above the worst frames of their sets, where the average '
          'precision (AP) of the frame alone falls most; detections with a score from '
          f'{LEAST_SCORE:g} on, and ground truth.'
        ),
      )
  return figures


def _gallery(results: Results, task: str) -> Figure:
  """Draws the stored pictures of a task."""
  stored = {
    name.removeprefix(f'{task}/'): values
    for name, values in results.arrays.items()
    if name.startswith(f'{task}/')
  }
  names = dict(zip(stored['class'].tolist(), stored['class_name'].tolist(), strict=True))
  titles = [
    f'offset {style.whole(offset)}, AP {style.percent(ap, 0)}'
    if index % 2
    else f'anchor, AP {style.percent(ap, 0)}'
    for index, (offset, ap) in enumerate(
      zip(stored['offset'].tolist(), stored['precision'].tolist(), strict=True)
    )
  ]
  images = [stored[f'image_{index}'] / 255 for index in range(len(titles))]
  truth, detections = (
    Boxes(
      table[:, 0].astype(int),
      table[:, 1].astype(int),
      table[:, 2:6],
      table[:, 6] if table.shape[1] > 6 else None,
    )
    for table in (stored['truth'], stored['found'])
  )
  return detection_gallery(
    images, truth, detections, titles, names, threshold=results.settings['threshold']
  )


@style.styled
def detection_gallery(
  images: Sequence[np.ndarray],
  truth: Boxes,
  detections: Boxes,
  titles: Sequence[str] = (),
  class_names: Mapping[int, str] | None = None,
  least_score: float = LEAST_SCORE,
  threshold: float = 0.5,
) -> Figure:
  """Draws boxes on images, two rows for pairs of anchor and neighbor (the paper's figure 4).

  Args:
    images: [H, W, C] in [0, 1] each; an even number of them alternates anchor and neighbor.
    truth: ground truth; `image` is the position in `images`.
    detections: detections, with scores.
    titles: one an image.
    class_names: written at each detection; their numbers where there is none.
    least_score: detections with a lower score are not drawn.
    threshold: least IoU of a true positive.
  """
  matches = match(truth, detections, len(images), threshold)
  right = np.zeros(len(detections.image), bool)
  right[matches.index] = matches.right
  paired = len(images) % 2 == 0
  rows, columns = (2, len(images) // 2) if paired else (1, len(images))
  height, width = images[0].shape[:2]
  cell = style.PAGE_WIDTH / max(columns, 2)
  figure = Figure(
    figsize=(cell * columns, rows * (cell * height / width + 0.2) + 0.3), layout='constrained'
  )
  grid = figure.subplots(rows, columns, squeeze=False)
  assert detections.score is not None  # `match` has refused detections without
  for index, image in enumerate(images):
    axes = grid[index % rows, index // rows]
    axes.imshow(image[..., 0] if image.shape[-1] == 1 else image, cmap='gray', vmin=0, vmax=1)
    axes.set_axis_off()
    axes.set_title(titles[index] if titles else '')
    for box in np.flatnonzero(truth.image == index):
      _box(axes, truth.corners[box], TRUTH, ':', '')
    for box in np.flatnonzero((detections.image == index) & (detections.score >= least_score)):
      category = int(detections.category[box])
      name = (class_names or {}).get(category, str(category))
      _, colour, dashes = _STYLES[0 if right[box] else 1]
      _box(axes, detections.corners[box], colour, dashes, f'{name} {detections.score[box]:.2f}')
  handles = [
    Line2D([], [], color='0.6' if colour == TRUTH else colour, linestyle=dashes, label=name)
    for name, colour, dashes in _STYLES
  ]
  figure.legend(handles=handles, loc='outside lower center', ncols=3)
  return figure


def _box(axes: Axes, corners: np.ndarray, colour: str, dashes: str, text: str) -> None:
  x0, y0, x1, y1 = corners
  axes.add_patch(
    Rectangle(
      (x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour, linestyle=dashes, linewidth=1.4
    )
  )
  if text:
    axes.text(
      x0,
      y0,
      text,
      fontsize=5,
      color='white',
      va='bottom',
      bbox={'facecolor': colour, 'edgecolor': 'none', 'pad': 0.6},
    )
