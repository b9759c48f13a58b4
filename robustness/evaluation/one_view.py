"""Single images in single views, for pictures in reports."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from robustness.core.rows import Rows, numeric_columns
from robustness.core.typing import PyTree
from robustness.evaluation.study import Study
from robustness.evaluation.views import Arrays, Views, view_key

if TYPE_CHECKING:  # studies see records, never a classifier
  from robustness.models.classifier import Classifier, Forward


def read_row(rows: Rows, position: int) -> dict[str, np.ndarray]:
  """Reads one image and its numeric columns, {column: value}.

  The image, at the key 'image', is float32 in [0, 1].
  """
  batch = next(rows.batches(1, [position]))  # blocks of one row are numbered by position
  return {name: values[0] for name, values in numeric_columns(batch).items()}


def show(
  study: Study,
  row: Mapping[str, np.ndarray],
  view: int,
  key: jax.Array,
  classifier: Classifier | None = None,
) -> np.ndarray:
  """Returns one image as a study shows it in one view, float32 [H, W, C].

  A view is one way of perturbing an image, such as fog at severity 3.

  Args:
    study: the study; its views share one compiled function.
    row: {column: value} of the image, with `image` [H, W, C], from `read_row`.
    view: number of the view.
    key: root key of the study's random numbers.
    classifier: the classifier for views that use it (attacks).
  """
  forward = classifier.forward if classifier else None
  views, show_row = _compile_view(study, row['image'].shape, forward)
  variables = classifier.variables if classifier and views.uses_classifier else None
  return np.asarray(show_row(variables, key, dict(row), *views.at(view)))


def damaged_pictures(
  study: Study,
  rows: Rows,
  rows_and_views: np.ndarray,
  key: jax.Array,
  classifier: Classifier,
  stored: Sequence[np.ndarray | None],
) -> np.ndarray:
  """Returns pictures of F images that a classifier gets wrong, before and after perturbation.

  Args:
    study: the study.
    rows: the images of the study.
    rows_and_views: int [F, 2], position of the image and number of the view of each picture.
    key: root key of the study's random numbers.
    classifier: the classifier, for views that use it (attacks).
    stored: the perturbed picture, uint8 [H, W, C], if the records have it, else None. It is
      computed otherwise.

  Returns:
    uint8 [F, S, H, W, C]. S is 2: the stored image and the image in the view. A study with a single
    view has only the stored image. Views that compose an image from several, such as an object and
    a background, have only the image in the view.
  """
  views = study.views(rows.image_shape)
  shows_view = len(views) > 1
  shows_stored = not (shows_view and views.composes)
  view_classifier = classifier if views.uses_classifier else None
  pictures = []
  for (position, view), stored_view in zip(rows_and_views.tolist(), stored, strict=True):
    row = read_row(rows, position)
    images = [_in_8_bits(row['image'])] if shows_stored else []
    if shows_view:
      if stored_view is None:
        stored_view = _in_8_bits(show(study, row, view, key, view_classifier))
      images.append(stored_view)
    pictures.append(np.stack(images))
  return np.stack(pictures)


def _in_8_bits(image: np.ndarray) -> np.ndarray:
  """Returns an image in [0, 1] as uint8, with values outside [0, 1] clipped."""
  levels: np.ndarray = np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)
  return levels


@functools.lru_cache(maxsize=4)
def _compile_view(
  study: Study, image_shape: tuple[int, int, int], forward: Forward | None
) -> tuple[Views, Callable[..., jax.Array]]:
  """Compiles the function that perturbs one image as one view of a study does.

  Args:
    study: the study.
    image_shape: height, width and channels of the stored images.
    forward: `Classifier.forward`, for views that use the classifier; else None.

  Returns:
    The views of the study, and the function. It is called with (variables, root key, columns of the
    image, view id, view parameters) and returns the image [H, W, C].
  """
  views = study.views(image_shape)

  def show_row(
    variables: PyTree, root: jax.Array, row: Arrays, view_id: jax.Array, parameters: Arrays
  ) -> jax.Array:
    """Returns one image as a view (a way of perturbing images) of the study shows it, [H, W, C].

    Args:
      variables: the classifier's variables, for views that use it.
      root: root of the random keys.
      row: columns of the image.
      view_id: id of the view, on which the random key depends.
      parameters: parameters of the view.
    """
    key = view_key(root, row, view_id, parameters)
    prepared = views.prepare(row) if views.prepare else row
    arguments: list[Any] = [parameters]
    if forward is not None:  # the views use logits: `show` takes a function from images to logits
      # forward returns (logits, outputs of layers), here of no layers
      arguments.append(lambda images: forward(variables, images, ())[0])
    if views.together:  # `show` takes a batch and returns (images, measures)
      keys, rows = jax.tree.map(lambda x: x[None], (key, dict(prepared)))  # a batch of one row
      images, _ = views.show(keys, rows, *arguments)
      image: jax.Array = images[0]
    else:
      image = views.show(key, prepared, *arguments)
    return image

  return views, jax.jit(show_row)
