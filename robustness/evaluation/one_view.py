"""Single rows in single views, as pictures for galleries, outside of the runner's batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from robustness.core.rows import Rows, numeric_columns
from robustness.core.typing import PyTree
from robustness.evaluation.study import Study
from robustness.evaluation.views import Views, key_of

if TYPE_CHECKING:  # studies see records, never a classifier
  from robustness.models.classifier import Classifier, Forward


def read_row(rows: Rows, place: int) -> dict[str, np.ndarray]:
  """Returns the columns of one row, its image float32 in [0, 1]."""
  return {k: v[0] for k, v in numeric_columns(next(rows.batches(1, [place]))).items()}


def show(
  study: Study,
  row: Mapping[str, np.ndarray],
  view: int,
  key: jax.Array,
  classifier: Classifier | None = None,
) -> np.ndarray:
  """Returns a row (see `read_row`) as a study's view shows it, float32 [H, W, C]; compiled once for
  all views. `key` is the root of the study's stream; `classifier` is for views that use it."""
  views, show_row = _compiled(study, row['image'].shape, classifier.forward if classifier else None)
  entry = {name: values[view] for name, values in views.parameters.items()}
  variables = classifier.variables if classifier and views.uses_classifier else None
  return np.asarray(show_row(variables, key, dict(row), views.ids[view], entry))


def damaged(
  study: Study,
  rows: Rows,
  places: np.ndarray,
  key: jax.Array,
  classifier: Classifier,
  stored: Sequence[np.ndarray | None],
) -> np.ndarray:
  """Returns pictures of images in views, uint8 [F, S, H, W, C], values outside [0, 1] cut.

  `places` int [F, 2] are row and view of each, and `stored` its picture in the view where that is
  in the records; the others are shown again. With S = 2, each image as it is stored, then in its
  view; with S = 1 the image alone, of a single view, or the view alone, of composed pictures.
  """
  views = study.views(rows.image_shape)
  is_alone, attacked = len(views) == 1, classifier if views.uses_classifier else None
  pictures = []
  for (place, view), recorded in zip(places.tolist(), stored, strict=True):
    row = read_row(rows, place)
    images = [_levels(row['image'])] if is_alone or not views.composes else []
    if not is_alone and recorded is not None:
      images.append(recorded)
    elif not is_alone:
      images.append(_levels(show(study, row, view, key, attacked)))
    pictures.append(np.stack(images))
  return np.stack(pictures)


def _levels(image: np.ndarray) -> np.ndarray:
  """Returns an image in steps of 8 bits, uint8, values outside [0, 1] cut."""
  levels: np.ndarray = np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)
  return levels


@functools.lru_cache(maxsize=4)
def _compiled(
  study: Study, image_shape: tuple[int, int, int], forward: Forward | None
) -> tuple[Views, Callable[..., jax.Array]]:
  """Returns the views of a study, and the compiled function that shows one row in one of them."""
  views = study.views(image_shape)

  def of_row(
    variables: PyTree,
    key: jax.Array,
    row: dict[str, jax.Array],
    view_id: jax.Array,
    entry: dict[str, jax.Array],
  ) -> jax.Array:
    key = key_of(key, row, view_id, entry)
    prepared = views.prepare(row) if views.prepare else row
    extra = [] if forward is None else [lambda images: forward(variables, images, ())[0]]
    if views.together:
      keys, rows = jax.tree.map(lambda x: x[None], (key, dict(prepared)))
      images: jax.Array = views.show(keys, rows, entry, *extra)[0]
      return images[0]
    image: jax.Array = views.show(key, prepared, entry, *extra)
    return image

  return views, jax.jit(of_row)
