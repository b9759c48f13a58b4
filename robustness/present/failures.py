"""The gallery of failures: the images that a study's views damage most, with the clean images."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from robustness.present import style
from robustness.present.images import show
from robustness.results import DAMAGED_IMAGES, FAILURE_IMAGES, Results

MAX_LETTERS_PER_LINE = 24  # above a picture
MAX_LETTERS = 40  # of a name


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Returns {'failures' or 'failures_<label>': (figure, caption)} of classifiers with failures.

  Results have the table `DAMAGED_IMAGES` and `<prefix>failure_images` uint8 [F, S, H, W, C]. With
  S = 2, each image is as stored, then in the view of its most confident mistake. With S = 1, views
  compose their images, and each is in that view alone.
  """
  figures = {}
  for label, prefix in results.prefixes.items():
    if prefix + FAILURE_IMAGES in results.arrays and DAMAGED_IMAGES in results.tables:
      columns = results.tables[DAMAGED_IMAGES].columns
      rows = [dict(zip(columns, row, strict=True)) for row in results.tables[DAMAGED_IMAGES].rows]
      rows = [row for row in rows if row['classifier'] == label]
      name = f'failures_{label}' if prefix else 'failures'
      images = results.arrays[prefix + FAILURE_IMAGES]
      above = [titles(row, images.shape[1]) for row in rows]
      figures[name] = gallery(images, above), _caption(label, rows, images.shape[1])
  return figures


def _caption(label: str, rows: Sequence[dict[str, Any]], pictures: int) -> str:
  """Returns the caption of a classifier's gallery.

  Args:
    label: label of the classifier.
    rows: the rows of the table of failures, by column.
    pictures: number of pictures of each image, 1 or 2.
  """
  has_one_view = rows[0]['of'] == 1
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
  clean = rows[0]['taken for when clean']
  population = '' if clean is None else ', of the images that it gets right when clean'
  return (
    f'Images that {label} gets wrong in {views}{population}: above as they are stored, below in '
    f'{below}, with what each is taken for and the confidence.'
  )


@style.styled
def gallery(images: np.ndarray, titles: Sequence[Sequence[str]]) -> Figure:
  """Draws images [F, S, H, W, C], uint8 or in [0, 1], a column of S for each of F titles of S."""
  count, lines, height, width = images.shape[:4]
  size = min(1.5, style.PAGE_WIDTH / max(count, 4))
  figure = Figure(
    figsize=(size * count, lines * (size * height / width + 0.42)), layout='compressed'
  )
  grid = figure.subplots(lines, count, squeeze=False)
  for column, (pictures, above) in enumerate(zip(images, titles, strict=True)):
    for axes, picture, title in zip(grid[:, column], pictures, above, strict=True):
      show(axes, picture)
      axes.set_title(title, fontsize=5.5)
  return figure


def titles(row: dict[str, Any], pictures: int) -> list[str]:
  """Returns the titles of the clean and the damaged picture, or of the only one: the class, the
  view unless it is as stored, and the mistake."""
  mistake = taken(row['taken for'], row['confidence'])
  label = _short(row['class'])
  view = _broken(row['shown in'])
  if pictures == 1:
    return ['\n'.join([label, mistake] if view == 'as stored' else [label, view, mistake])]
  clean = row['taken for when clean']
  above = label if clean is None else f'{label}\n{taken(clean, row["confidence when clean"])}'
  return [above, f'{view}\n{mistake}']


def taken(name: str, confidence: float) -> str:
  """Returns a prediction by the first of its class's names, broken into lines."""
  return f'→ {_short(name)} {style.percent(confidence)}'


def _short(name: str) -> str:
  """Returns a class by the first of its names, broken into lines."""
  return _broken(name.split(',')[0])


def _broken(name: str) -> str:
  """Returns a name broken into lines, and cut where it is too long for them."""
  words = name.replace('_', ' ')
  return textwrap.fill(textwrap.shorten(words, MAX_LETTERS, placeholder='…'), MAX_LETTERS_PER_LINE)
