"""The gallery of failures: the images that a study's views damage most, next to the clean
images.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from robustness.present import style
from robustness.present.images import show
from robustness.results import DAMAGED_IMAGES, FAILURE_IMAGES, Results

MAX_LETTERS_PER_LINE = 24
"""Most letters in a line of a title above a picture."""
MAX_LETTERS = 40
"""Most letters of the name of a class or view; longer names are cut."""


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws a gallery of misclassified images for each classifier.

  The results must have the table `DAMAGED_IMAGES`, with a row per image, and the arrays
  `<label>/failure_images`, uint8 [F, S, H, W, C]: S pictures of each of F images. Usually the
  pictures are the stored image and the perturbed image with the most confident mistake. S is 1 if
  there is no stored image.

  Returns:
    {'failures_<label>': (figure, caption)}. A single classifier has the array `failure_images` and
    the figure 'failures'.
  """
  table = results.tables.get(DAMAGED_IMAGES)
  if table is None:
    return {}
  figures = {}
  failures = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
  for label, prefix in results.prefixes.items():
    images = results.arrays.get(prefix + FAILURE_IMAGES)
    if images is not None:
      rows = [failure for failure in failures if failure['classifier'] == label]
      num_pictures = images.shape[1]  # of each image
      figure = gallery(images, [titles(row, num_pictures) for row in rows])
      name = f'failures_{label}' if prefix else 'failures'
      figures[name] = figure, _caption(label, rows, num_pictures)
  return figures


def _caption(label: str, rows: Sequence[dict[str, Any]], pictures: int) -> str:
  """Returns the caption of a classifier's gallery.

  Args:
    label: label of the classifier.
    rows: rows of the table of failures, {column: value} each.
    pictures: number of pictures of each image: 2 for the stored and the perturbed image, 1 for the
      perturbed one.
  """
  has_one_view = rows[0]['of'] == 1  # the column `of` has the number of views of each image
  if has_one_view and pictures == 1:
    return (
      f'Images that {label} takes for another class with the least probability of their own; above '
      'each its class, and what it is taken for with which confidence.'
    )
  if pictures == 1:
    return (
      f'Images that {label} gets wrong in most views, in the view of the most confident mistake; '
      'above each its class, the view, and what it is taken for with which confidence.'
    )
  views, below = 'most views', 'the view of the most confident mistake'
  if has_one_view:
    views, below = 'one view', 'that view'
  clean = rows[0]['taken for when clean']  # None if the study has no clean view
  population = '' if clean is None else ', of the images that it gets right when clean'
  return (
    f'Images that {label} gets wrong in {views}{population}: above as they are stored, below in '
    f'{below}, with what each is taken for and the confidence.'
  )


@style.in_style
def gallery(images: np.ndarray, titles: Sequence[Sequence[str]]) -> Figure:
  """Draws F columns of S images each, with a title above each image.

  Args:
    images: [F, S, H, W, C], uint8 or in [0, 1].
    titles: [F][S], the title of each image.
  """
  count, lines, height, width, _ = images.shape
  picture_width = min(1.5, style.PAGE_WIDTH / max(count, 4))  # in inches
  line_height = picture_width * height / width + 0.42  # with 0.42 inches for the title
  figure = Figure(figsize=(picture_width * count, lines * line_height), layout='compressed')
  grid = figure.subplots(lines, count, squeeze=False)
  for column, pictures, column_titles in zip(grid.T, images, titles, strict=True):
    for axes, picture, title in zip(column, pictures, column_titles, strict=True):
      show(axes, picture)
      axes.set_title(title, fontsize=5.5)
  return figure


def titles(row: dict[str, Any], pictures: int) -> list[str]:
  """Returns the titles above the pictures of a misclassified image.

  The stored image has its class and, if recorded, the prediction. The perturbed image has the
  perturbation, such as 'fog 5', and the wrong prediction, such as '→ cat 87%'. A single picture has
  all of these.

  Args:
    row: {column: value} of a row of the table of failures.
    pictures: number of pictures of the image: 2 for the stored and the perturbed image, 1 for the
      perturbed one.
  """
  mistake = prediction_title(row['taken for'], row['confidence'])
  label = _first_name(row['class'])
  view = _break_name(row['shown in'])
  if pictures == 1 and view == 'as stored':
    return [f'{label}\n{mistake}']
  if pictures == 1:
    return [f'{label}\n{view}\n{mistake}']
  title = label
  if row['taken for when clean'] is not None:
    clean = prediction_title(row['taken for when clean'], row['confidence when clean'])
    title = f'{label}\n{clean}'
  return [title, f'{view}\n{mistake}']


def prediction_title(name: str, confidence: float) -> str:
  """Returns a prediction as a title, such as '→ cat 87%'.

  Args:
    name: name of the predicted class. Of names separated by commas, the first is shown.
    confidence: probability of the predicted class, in [0, 1].
  """
  return f'→ {_first_name(name)} {style.percent(confidence)}'


def _first_name(name: str) -> str:
  """Returns the first of a class's names, which are separated by commas, broken into lines."""
  return _break_name(name.split(',')[0])


def _break_name(name: str) -> str:
  """Returns a name broken into lines of `MAX_LETTERS_PER_LINE`, and cut after `MAX_LETTERS`."""
  words = name.replace('_', ' ')
  return textwrap.fill(textwrap.shorten(words, MAX_LETTERS, placeholder='…'), MAX_LETTERS_PER_LINE)
