"""Which examples of a source are read, and how: decided before anything is decoded."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from input_pipeline.image_list import places, read_names
from input_pipeline.images import Source
from input_pipeline.settings import FIRST, DataSettings, Preparation
from input_pipeline.sizes import are_of_size, common_size
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, random_order
from robustness.core.settings import require


def choose_subset(num_examples: int, num_images: int, seed: int, first: bool = False) -> np.ndarray:
  """Returns the positions of a subset, ascending.

  Args:
    num_examples: how many there are.
    num_images: how many to choose, without replacement; 0 takes all.
    seed: fixes the choice; subsets of one seed are nested.
    first: takes the first ones in place of a random choice.

  Returns:
    int64 [num_images].

  Raises:
    InputError: more are asked for than there are.
  """
  require(
    num_images <= num_examples,
    'config.data.num_images',
    num_images,
    f'at most {num_examples}, the number of images there are (0 takes all)',
  )
  if first or not num_images:
    return np.arange(num_images or num_examples, dtype=np.int64)
  return np.sort(random_order(num_examples, seed)[:num_images])


def chosen(source: Source, settings: DataSettings, seed: int) -> np.ndarray:
  """Returns the positions of the examples that are read, int64, ascending.

  Args:
    source: holds them.
    settings: give the list of images, if there is one, and how many are taken of it.
    seed: chooses a random subset.

  Raises:
    InputError: images that the source lacks, more than there are, or a list for a source whose
      images have no names, or belong together otherwise.
  """
  if source.choose and not source.names:
    if settings.listed or settings.subset == FIRST:
      key = 'listed' if settings.listed else 'subset'
      raise InputError(
        f'config.data.{key} is {getattr(settings, key)!r}, but images of {source.title} belong '
        'together and are chosen with each other: leave it at its default.'
      )
    return source.choose(settings.num_images, seed)
  if settings.listed and not source.names:
    raise InputError(
      f'config.data.listed is {settings.listed!r}, but images of {source.title} have no paths; it '
      "chooses among those of config.data.source='folder', 'imagenet_c' and 'tiny_imagenet_c'."
    )
  bases = np.arange(source.num_examples // source.parts, dtype=np.int64)
  if settings.listed:
    bases = places(read_names(settings.listed), source.names, settings.listed, source.title)
  some = choose_subset(len(bases), settings.num_images, seed, settings.subset == FIRST)
  each = source.num_examples // source.parts
  return (np.arange(source.parts)[:, None] * each + bases[some][None]).ravel()


@dataclasses.dataclass(frozen=True)
class Selection:
  """Examples of a source, and how their images are prepared.

  Attributes:
    source: holds them.
    settings: with the resize and crop that apply.
    seed: that the subset was chosen by.
    indices: int64 [n], ascending: the examples that are read.
    prepared_for: the weights whose resize and crop apply, if the settings had none.
    image_shape: height, width and channels of every image as delivered.
  """

  source: Source
  settings: DataSettings
  seed: int
  indices: np.ndarray
  prepared_for: str
  image_shape: tuple[int, int, int]

  @property
  def facts(self) -> dict[str, Any]:
    """Where the rows come from, in plain values."""
    settings, source = self.settings, self.source
    subset: dict[str, Any] = {'subset_seed': self.seed} if settings.num_images else {}
    if settings.num_images and settings.subset == FIRST:
      subset = {'subset': FIRST}
    if settings.listed:
      subset['listed'] = settings.listed
    prepared = {'prepared_for': self.prepared_for} if self.prepared_for else {}
    resized_by = {'resized_by': 'pillow'} if settings.pillow_resizes else {}
    if prepared and source.cropped:
      prepared['crop_margin'] = 'none: the images were cropped before they were stored'
    return {
      **source.description,
      **subset,
      **prepared,
      'num_examples': len(self.indices),
      'available_examples': source.num_examples,
      'num_classes': len(source.class_names),
      'image_shape': list(self.image_shape),
      'resize': settings.resize,
      'crop': settings.crop,
      'interpolation': settings.interpolation if settings.resize else '',
      **resized_by,
    }

  @property
  def as_stored(self) -> bool:
    """Whether images are delivered as they lie in the source's arrays, if it has any."""
    settings = self.settings
    changed = settings.resize or settings.crop or settings.random_crop_area
    return self.source.arrays is not None and not changed

  def array_rows(self) -> ArrayRows:
    """Returns the rows of a source `as_stored`; arrays that are read whole are not copied."""
    assert self.source.arrays is not None
    images, labels = self.source.arrays
    whole = len(self.indices) == len(images)
    return ArrayRows(
      images if whole else images[self.indices],
      labels if whole else labels[self.indices],
      self.source.class_names,
      self.indices,
      columns={name: values[self.indices] for name, values in self.source.columns.items()},
      facts=self.facts,
    )


def select(
  source: Source, settings: DataSettings, seed: int = 0, preparation: Preparation | None = None
) -> Selection:
  """Chooses the subset and checks the images' sizes as far as that needs no decoding.

  Args:
    source: holds the images.
    settings: the section `config.data`.
    seed: chooses the subset.
    preparation: what applies where the settings neither resize nor crop; see `input_pipeline.load`.

  Raises:
    InputError: no images, fewer than are asked for, or images that come out at several sizes.
  """
  require(seed >= 0, 'config.seed', seed, 'at least 0')
  if not source.num_examples:
    raise InputError(f'{source.title} holds no images.')
  indices = chosen(source, settings, seed)
  free = not (settings.resize or settings.crop or source.as_stored)
  prepared_for = ''
  if (
    preparation and free and not are_of_size(source, indices, (preparation.side, preparation.side))
  ):
    settings = preparation.applied(settings, source.cropped)
    prepared_for = preparation.name
  shape = (*common_size(source, settings, indices), source.channels)
  return Selection(source, settings, seed, indices, prepared_for, shape)
