"""Which examples of stored images are read, and at which size: decided before decoding.

Sizes are truncated, the longer side's as in torchvision's `Resize`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from input_pipeline.image_list import places, read_names
from input_pipeline.images import Images, Size
from input_pipeline.settings import FIRST, DataSettings, Preparation
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, random_order
from robustness.core.settings import require

_ONE_SIZE = (
  'bring all images to one size, for example with --config.data.resize=256 --config.data.crop=224'
)


def choose_subset(num_examples: int, num_images: int, seed: int, first: bool = False) -> np.ndarray:
  """Returns the positions of a subset, int64 [num_images], ascending.

  Args:
    num_examples: how many there are.
    num_images: how many to choose, without replacement; 0 takes all.
    seed: fixes the choice; subsets of one seed are nested.
    first: takes the first ones in place of a random choice.
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


def _chosen(images: Images, settings: DataSettings, seed: int) -> np.ndarray:
  """Returns the positions of the examples that are read, int64, ascending."""
  if images.choose and not images.names:
    if settings.listed or settings.subset == FIRST:
      key, value = ('listed', settings.listed) if settings.listed else ('subset', FIRST)
      raise InputError(
        f'config.data.{key} is {value!r}, but images of {images.title} belong '
        'together and are chosen with each other: leave it at its default.'
      )
    return images.choose(settings.num_images, seed)
  if settings.listed and not images.names:
    raise InputError(
      f'config.data.listed is {settings.listed!r}, but images of {images.title} have no paths; it '
      "chooses among those of config.data.source='folder', 'imagenet_c' and 'tiny_imagenet_c'."
    )
  each = images.num_examples // images.parts
  bases = np.arange(each, dtype=np.int64)
  if settings.listed:
    bases = places(read_names(settings.listed), images.names, settings.listed, images.title)
  some = choose_subset(len(bases), settings.num_images, seed, settings.subset == FIRST)
  return (np.arange(images.parts)[:, None] * each + bases[some][None]).ravel()


@dataclasses.dataclass(frozen=True)
class Selection:
  """Examples of stored images, and how they are prepared.

  Attributes:
    images: all of them.
    settings: with the resize and crop that apply.
    seed: that the subset was chosen by.
    indices: int64 [n], ascending: the examples that are read.
    prepared_for: the weights whose resize and crop apply, if the settings had none.
    image_shape: height, width and channels of every image as delivered.
  """

  images: Images
  settings: DataSettings
  seed: int
  indices: np.ndarray
  prepared_for: str
  image_shape: tuple[int, int, int]

  @property
  def facts(self) -> dict[str, Any]:
    """Where the rows come from, in plain values."""
    settings, images = self.settings, self.images
    subset: dict[str, Any] = {'subset_seed': self.seed} if settings.num_images else {}
    if settings.num_images and settings.subset == FIRST:
      subset = {'subset': FIRST}
    if settings.listed:
      subset['listed'] = settings.listed
    prepared = {'prepared_for': self.prepared_for} if self.prepared_for else {}
    if prepared and images.cropped:
      prepared['crop_margin'] = 'none: the images were cropped before they were stored'
    return {
      **images.description,
      **subset,
      **prepared,
      'num_examples': len(self.indices),
      'available_examples': images.num_examples,
      'num_classes': len(images.class_names),
      'image_shape': list(self.image_shape),
      'resize': settings.resize,
      'crop': settings.crop,
      'interpolation': settings.interpolation if settings.resize else '',
      **({'resized_by': 'pillow'} if settings.pillow_resizes else {}),
    }

  def array_rows(self) -> ArrayRows | None:
    """Returns the rows of arrays that are delivered as they lie there; None of other images.

    Arrays that are read whole are not copied.
    """
    settings, arrays = self.settings, self.images.arrays
    if arrays is None or settings.resize or settings.crop or settings.random_crop_area:
      return None
    whole = len(self.indices) == len(arrays[0])
    images, labels = arrays if whole else (array[self.indices] for array in arrays)
    return ArrayRows(
      images,
      labels,
      self.images.class_names,
      self.indices,
      columns={name: values[self.indices] for name, values in self.images.columns.items()},
      facts=self.facts,
    )


def select(
  images: Images, settings: DataSettings, seed: int = 0, preparation: Preparation | None = None
) -> Selection:
  """Chooses the subset and checks the images' sizes as far as that needs no decoding.

  Args:
    images: all of them.
    settings: the section `config.data`.
    seed: chooses the subset.
    preparation: what applies where the settings neither resize nor crop; see `input_pipeline.load`.
  """
  require(seed >= 0, 'config.seed', seed, 'at least 0')
  if not images.num_examples:
    raise InputError(f'{images.title} holds no images.')
  indices = _chosen(images, settings, seed)
  prepared_for = ''
  if preparation and not (settings.resize or settings.crop or images.as_stored):
    wanted = (preparation.side, preparation.side)
    if not len(indices) or any(size != wanted for size in _sizes(images, indices)):
      settings = preparation.applied(settings, images.cropped)
      prepared_for = preparation.name
  shape = (*_common_size(images, settings, indices), images.channels)
  return Selection(images, settings, seed, indices, prepared_for, shape)


def output_size(size: Size, settings: DataSettings) -> Size | None:
  """Returns height and width after resize and crop, or None where the crop does not fit."""
  height, width = size
  if settings.resize:
    height, width = (side * settings.resize // min(size) for side in size)
  if not settings.crop:
    return height, width
  return (settings.crop, settings.crop) if min(height, width) >= settings.crop else None


def delivered_size(
  images: Images, settings: DataSettings, index: int, size: Size, expected: Size | None = None
) -> Size:
  """Returns the size at which an example of a stored size is delivered."""
  result = output_size(size, settings)
  if result is None:
    raise InputError(
      f'{images.where(index)} is {size[0]}x{size[1]} pixels, smaller than '
      f'config.data.crop = {settings.crop}: set config.data.resize to at least the '
      'crop.'
    )
  return equal_size(images, index, result, expected or result)


def equal_size(images: Images, index: int, size: Size, expected: Size) -> Size:
  """Returns the size at which an example comes out."""
  if size != expected:
    raise InputError(
      f'{images.where(index)} comes out as {size[0]}x{size[1]} pixels, where '
      f'others come out as {expected[0]}x{expected[1]}: {_ONE_SIZE}.'
    )
  return size


def _sizes(images: Images, indices: np.ndarray) -> Iterable[Size]:
  """Returns the stored sizes; where only decoding tells, of the first example alone."""
  sizes = images.sizes(indices.tolist())
  if sizes is None:
    return [images.decoded_size(next(iter(images.store.elements(indices[:1]))))]
  return sizes


def _common_size(images: Images, settings: DataSettings, indices: np.ndarray) -> Size:
  """Returns the size at which every image is delivered, as far as it is known without decoding.

  Where sizes are known only by decoding, the first image decides and the others are checked when
  they are read.
  """
  if settings.resize and settings.crop:
    return settings.crop, settings.crop
  numbers, stored = indices.tolist(), _sizes(images, indices)
  results = [
    delivered_size(images, settings, index, size)
    for index, size in zip(numbers, stored, strict=False)
  ]
  for index, result in zip(numbers, results, strict=False):
    equal_size(images, index, result, results[0])
  return results[0]
