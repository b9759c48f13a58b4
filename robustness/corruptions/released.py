"""The released corrupted sets: how they were made, and what images made here differ in.

`protocol = 'as_released'` makes images as these were: from 8-bit images of the set's size,
truncated to 8 bits, stored as JPEG where the set is, and only then resized to the network.

Reference:
  The generators released with Hendrycks and Dietterich (2019): `make_cifar_c.py`,
  `make_tinyimagenet_c.py` and `make_imagenet_c.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from robustness.core.errors import InputError
from robustness.corruptions.names import OFFICIAL, SEVERITIES
from robustness.corruptions.severities import table_for

if TYPE_CHECKING:
  from robustness.corruptions.views import CorruptionViews

EXACT, AS_RELEASED = 'exact', 'as_released'
PROTOCOLS = (EXACT, AS_RELEASED)


@dataclasses.dataclass(frozen=True)
class ReleasedSet:
  """A set of corrupted images as it was released.

  Attributes:
    name: what papers call it.
    side: of its square images, pixels.
    jpeg_quality: of its files; 0 for arrays of 8-bit values.
    clean: {words in the name of the clean images: their split} by which they are known; empty where
      those that the set was made of were not released.
    num_images: clean images.
    prepared: how its clean images were prepared before they were corrupted, by the key of
      `config.data`; empty where they were as they are.
  """

  name: str
  side: int
  jpeg_quality: int
  clean: Mapping[str, str]
  num_images: int
  prepared: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def storage(self) -> str:
    """How its images are stored."""
    return f'JPEG, quality {self.jpeg_quality}' if self.jpeg_quality else '8-bit arrays'


RELEASED = {
  32: ReleasedSet('CIFAR-10-C and CIFAR-100-C', 32, 0, {'cifar': 'test'}, 10_000),
  64: ReleasedSet('Tiny-ImageNet-C', 64, 85, {}, 10_000),
  224: ReleasedSet(
    'ImageNet-C',
    224,
    85,
    {'imagenet2012': 'validation'},
    50_000,
    {'resize': 256, 'crop': 224, 'interpolation': 'bilinear', 'resized_by': 'pillow'},
  ),
}
"""By side. Tiny-ImageNet-C was made of images of ImageNet that were cut out by their bounding boxes
anew and resized to 64 × 64, and not of Tiny-ImageNet's own (its authors, and their generator)."""


def following(image_shape: tuple[int, int, int], constants: int) -> ReleasedSet:
  """Returns the set whose protocol images of a size can follow.

  Args:
    image_shape: of the images that are corrupted.
    constants: as asked for; 0 is the size's own.

  Raises:
    InputError: no set has that size, or the constants are those of another.
  """
  height, width = image_shape[:2]
  if height != width or height not in RELEASED:
    raise InputError(
      f"config.study.protocol is 'as_released', but the images are {height} × {width}, and "
      f'released sets have sides of {", ".join(map(str, RELEASED))} pixels. For ImageNet-C set '
      'config.data.resize=256 and config.data.crop=224 (the network then gets them resized); or '
      "set config.study.protocol='exact'."
    )
  if constants not in (0, height):
    raise InputError(
      f"config.study.constants is {constants}, but config.study.protocol is 'as_released' and "
      f'the images are of {height} pixels: leave it 0.'
    )
  return RELEASED[height]


def size_difference(image_shape: tuple[int, int, int], side: int) -> list[str]:
  """Returns what the size of the images differs in from a set of some side."""
  height, width = image_shape[:2]
  return [] if height == width == side else [f'images are {height} × {width}, not {side} × {side}']


def setting_differences(
  views: CorruptionViews, image_shape: tuple[int, int, int], side: int
) -> list[str]:
  """Returns what settings of images made here differ in; none where they are as released.

  Args:
    views: the settings.
    image_shape: height, width and channels of the images.
    side: of the released set.
  """
  constants = views.constants or table_for(*image_shape[:2]).side
  files = RELEASED[side].jpeg_quality and views.protocol != AS_RELEASED
  facts = {
    'frost is drawn, not photographed': 'frost' in views.names and not views.photographs,
    'values are not rounded to 8 bits as released': views.rounding != 'floor',
    f'images are not stored as {RELEASED[side].storage}': bool(files),
    f'constants are those of {constants} pixels': constants != side,
    f'variants of {", ".join(views.options.chosen())} are not the released ones': bool(
      views.options.chosen()
    ),
  }
  return [reason for reason, differs in facts.items() if differs]


def data_differences(
  description: Mapping[str, Any], num_images: int, released: ReleasedSet
) -> list[str]:
  """Returns what the clean images differ in from those that a released set was made of.

  Args:
    description: of the rows, as results have it.
    num_images: clean images shown.
    released: the set.
  """
  name = str(description.get('name', '')).lower()
  split = str(description.get('split', ''))
  known = any(word in name and split.startswith(part) for word, part in released.clean.items())
  whole = num_images == released.num_images
  unknown = (
    f'the data are not known to be those of {released.name}'
    if released.clean
    else f'the clean images of {released.name} were not released'
  )
  otherwise = {
    key: value for key, value in released.prepared.items() if description.get(key) != value
  }
  settings = ', '.join(f'config.data.{key}={value}' for key, value in otherwise.items())
  return [
    *([] if known else [unknown]),
    *([f'images were prepared otherwise, without {settings}'] if otherwise else []),
    *([] if whole else [f'{num_images} of {released.num_images} images']),
  ]


def shown_differences(views: CorruptionViews) -> list[str]:
  """Returns which of the 15 corruptions and five severities are missing."""
  missing = [name for name in OFFICIAL if name not in views.names]
  severities = [s for s in SEVERITIES if s not in views.severities]
  return [
    *([f'without {", ".join(missing)}'] if missing else []),
    *([f'without severity {", ".join(map(str, severities))}'] if severities else []),
  ]
