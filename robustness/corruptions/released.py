"""The released corrupted sets: how they were made, and whether numbers compare with published ones.

`protocol = 'as_released'` makes images as these were: from 8-bit images of the set's size,
truncated to 8 bits, stored as JPEG where the set is, and only then resized to the network.

Reference:
  The generators released with Hendrycks and Dietterich (2019): `make_cifar_c.py`,
  `make_tinyimagenet_c.py` and `make_imagenet_c.py`.
"""

import dataclasses
from collections.abc import Collection, Mapping

from robustness.core.errors import KEYS, InputError, SettingError
from robustness.corruptions.names import NAMES, OFFICIAL, SETS, STORED_SETS

AS_RELEASED = 'as_released'
SOURCES = (
  *('cifar10_c', 'cifar100_c', 'imagenet_c', 'tiny_imagenet_c'),
  *('imagenet_3dcc', 'laion_c'),
)
"""Sources of data that read the released sets."""


@dataclasses.dataclass(frozen=True)
class ReleasedSet:
  """A set of corrupted images as it was released.

  Attributes:
    side: of its square images, pixels.
    jpeg_quality: of its files; 0 for arrays of 8-bit values.
    clean: {words in the name of the clean images: their split}; empty where those that the set was
      made of were not released.
    num_images: clean images; 0 where it is not known.
    prepared: how its clean images were prepared, by the key of `config.data`.
    corruptions: whose errors published means are over.
  """

  name: str
  side: int
  jpeg_quality: int
  clean: Mapping[str, str]
  num_images: int
  prepared: Mapping[str, object] = dataclasses.field(default_factory=dict)
  corruptions: tuple[str, ...] = OFFICIAL

  @property
  def storage(self) -> str:
    """How its images are stored."""
    return f'JPEG, quality {self.jpeg_quality}' if self.jpeg_quality else '8-bit arrays'

  def size_differs(self, image_shape: tuple[int, int, int]) -> dict[str, bool]:
    """Returns what the size of images may differ in, and whether it does."""
    height, width = image_shape[:2]
    same = height == width == self.side
    return {f'images are {height} × {width}, not {self.side} × {self.side}': not same}


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
and resized to 64 × 64, and not of Tiny-ImageNet's own (its authors, and their generator)."""


BY_SOURCE = {
  'imagenet_3dcc': ReleasedSet(
    'ImageNet-3DCC', 224, 85, {}, 50_000, corruptions=STORED_SETS['imagenet_3dcc']
  ),
  'laion_c': ReleasedSet('LAION-C', 224, 100, {}, 0, corruptions=SETS['laion_c']),
}
"""Of others by the source that reads them."""
C_BAR = tuple(
  dataclasses.replace(RELEASED[side], name=name, jpeg_quality=0, corruptions=SETS[corruptions])
  for side, name, corruptions in (
    (32, 'CIFAR-10-C-bar', 'c_bar_cifar'),
    (224, 'ImageNet-C-bar', 'c_bar_imagenet'),
  )
)
"""Whose published numbers are of images that were made in memory (Mintun et al. 2021)."""


def made_like(names: Collection[str], side: int) -> ReleasedSet:
  """Returns the set that images under some corruptions, made at a size of `RELEASED`, are like."""
  others = (*C_BAR, BY_SOURCE['laion_c'])
  found = (own for own in others if own.side == side and {*names} <= {*own.corruptions})
  return next(found, RELEASED[side])


def following(
  image_shape: tuple[int, int, int], constants: int, names: Collection[str]
) -> ReleasedSet:
  """Returns the set with the protocol that images of a size, under some corruptions, can follow.

  `constants` are as asked for; 0 is the size's own.
  """
  height, width = image_shape[:2]
  if height != width or height not in RELEASED:
    raise InputError(
      f"{KEYS.study.protocol} is 'as_released', but the images are {height} × {width}, and "
      f'released sets have sides of {", ".join(map(str, RELEASED))} pixels. For ImageNet-C set '
      f'{KEYS.data.resize}=256 and {KEYS.data.crop}=224 (the network then gets them resized); or '
      f"set {KEYS.study.protocol}='exact'."
    )
  if constants not in (0, height):
    raise SettingError(
      KEYS.study.constants,
      constants,
      problem=f"but {KEYS.study.protocol} is 'as_released' and the images are of {height} pixels",
      fix='Leave it 0.',
    )
  released = made_like(names, height)
  if other := [name for name in names if name not in (*released.corruptions, *NAMES)]:
    raise InputError(
      f"{KEYS.study.protocol} is 'as_released', but {other[0]} is of another released set than "
      f'{released.name} of {height} pixels, stored as {released.storage}: run them one by one.'
    )
  return released
