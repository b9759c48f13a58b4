"""Foregrounds of ImageNet-9 that are recognised on every background.

A foreground survives if it is classified right on all backgrounds of a folder; the released
challenge has the 4050 of `only_bg_t`.

Reference: Xiao et al., Noise or signal: the role of image backgrounds in object recognition, ICLR
2021, section 4, and the code of their challenge.
"""

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.core.array_files import digest_of
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded, files_in
from robustness.core.pictures import SUFFIXES, read_rgb
from robustness.core.registry import setting
from robustness.core.rows import Rows
from robustness.core.typing import PlainValue
from robustness.estimates.means import published_row, table_of_rows
from robustness.estimates.quantity import ACCURACY, declare_accuracy
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import ImageShape, Recipes, Study
from robustness.evaluation.views import Arrays, Views

SURVIVING = declare_accuracy(
  'surviving_foregrounds', 'foregrounds that are recognised on all backgrounds', headline=True
)
OVERALL = dataclasses.replace(ACCURACY, reference='')
PUBLISHED = {'ResNet-50': 0.223, 'ResNet-50 of IN-9L': 0.120}
"""Shares of surviving foregrounds in the authors' table, on 4050 backgrounds (backgrounds_challenge
46d224b).
"""
FOREGROUNDS = 4050
"""Number of foregrounds in the released challenge."""


@dataclasses.dataclass(frozen=True)
class BackgroundChallenge(Study):
  """A study of foregrounds that are recognised on every background (Xiao et al. 2021).

  Attributes:
    backgrounds: folder of background images of the same size as the data, such as `only_bg_t`.
    num_backgrounds: number of backgrounds to use, evenly spaced in the sorted folder; 0 takes all.
  """

  title = 'Foregrounds on all backgrounds'
  papers = ('xiao2021noise',)
  lists_failures = False
  quantities = (SURVIVING, OVERALL)

  backgrounds: str = ''
  num_backgrounds: int = setting(0, 'at least 1, or 0 for all', lambda x: x >= 0)

  @property
  def facts(self) -> dict[str, PlainValue]:
    """{'backgrounds_sha256': hash of the background images}, or {} if the folder is missing."""
    if not self.backgrounds or not expanded(self.backgrounds).is_dir():
      return {}
    return {'backgrounds_sha256': digest_of({'pictures': _pictures(*self._files)})}

  @property
  def _files(self) -> tuple[Path, ...]:
    """Paths of the selected backgrounds, evenly spaced in the sorted folder.

    Raises:
      InputError: the folder is missing or has too few pictures.
    """
    folder = expanded(self.backgrounds)
    files = []
    if self.backgrounds and folder.is_dir():
      files = [file for file in files_in(folder) if file.suffix.lower() in SUFFIXES]
    if len(files) < max(self.num_backgrounds, 1):
      fix = 'Give the folder only_bg_t of ImageNet-9, or another with pictures.'
      raise self.refused('backgrounds', f'which holds {len(files)} pictures', fix)
    count = self.num_backgrounds or len(files)
    return tuple(files[i] for i in np.arange(count) * len(files) // count)  # evenly spaced

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if images lack foreground masks or backgrounds have another size."""
    super().check(rows, recipes)
    mask = next(rows.batches(1, [0])).get('foreground')
    if mask is None or mask.shape[1:] != rows.image_shape[:2]:
      raise InputError(
        f'the images have no masks of their size: set {KEYS.data.source}=imagenet_9, '
        f'{KEYS.data.imagenet_9.masks}=True, and leave out {KEYS.data.resize} and {KEYS.data.crop}.'
      )
    self.views(rows.image_shape)  # raises InputError for backgrounds of another size

  def views(self, image_shape: ImageShape) -> Views:
    """Returns how images are shown: a view for each background, with every foreground on it.

    Args:
      image_shape: (H, W, C) of the images; backgrounds must have this shape.

    Raises:
      InputError: backgrounds have another shape.
    """
    files = self._files
    pictures = _pictures(*files)
    if pictures.shape[1:] != image_shape:
      raise InputError(
        f'{files[0]} has the shape {pictures.shape[1:]} and the images {image_shape}: give '
        'backgrounds of the same size.'
      )
    numbers = np.arange(len(files), dtype=np.int32)
    return Views(
      show=_on_background,
      ids=numbers,
      parameters={'background': numbers, 'picture': pictures},
      image_shape=image_shape,
      composes=True,  # an image has the pixels of two files, which are not shown by themselves
    )

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields mean accuracy over all backgrounds, and the share of surviving foregrounds.

    A foreground survives if it is classified correctly on every background. Published shares are
    added.
    """
    # merges the views of all backgrounds into one
    on_all = recorded.outcomes(SURVIVING).combined((), functools.partial(np.all, axis=1))
    yield self.means(SURVIVING, on_all, test=True)
    yield self.means(OVERALL, recorded)
    rows = [published_row(label, SURVIVING, x, FOREGROUNDS) for label, x in PUBLISHED.items()]
    yield table_of_rows(rows)


@functools.lru_cache(1)
def _pictures(*files: Path) -> np.ndarray:
  """Reads image files of equal size, uint8 [V, H, W, 3]; the last result is cached.

  Raises:
    InputError: The images differ in size.
  """
  size = read_rgb(files[0]).size
  pictures = []
  for file in files:
    picture = read_rgb(file)
    if picture.size != size:
      raise InputError(f'{file} has {picture.size} pixels and {files[0]} {size}: give one size.')
    pictures.append(np.asarray(picture))
  return np.stack(pictures)


def _on_background(key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
  """Pastes the foreground of an image on a background, [H, W, 3] in [0, 1].

  Args:
    key: not used.
    row: `image` [H, W, 3] in [0, 1], and `foreground`, its bool mask [H, W].
    view: `picture`, the background, uint8 [H, W, 3].
  """
  background = view['picture'].astype(jnp.float32) / 255  # uint8
  return jnp.where(row['foreground'][..., None], row['image'], background)
