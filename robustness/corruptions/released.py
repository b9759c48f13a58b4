"""The released corrupted sets: how they were made, and whether errors compare with published ones.

`protocol = 'as_released'` follows their generators: 8-bit images of the set's size are corrupted,
truncated to 8 bits, stored as JPEG where the set is, and only then resized for the network.

Reference:
  The generators released with Hendrycks and Dietterich (2019): `make_cifar_c.py`,
  `make_tinyimagenet_c.py` and `make_imagenet_c.py`.
"""

import dataclasses
from collections.abc import Collection, Mapping

from robustness.core.errors import KEYS, InputError, SettingError
from robustness.corruptions.names import NAMES, OFFICIAL, SETS, STORED

AS_RELEASED = 'as_released'
"""The protocol of the released generators."""
SOURCES = ('cifar10_c', 'cifar100_c', 'imagenet_c', 'tiny_imagenet_c', 'imagenet_3dcc', 'laion_c')
"""Data sources that read the released sets."""


@dataclasses.dataclass(frozen=True)
class ReleasedSet:
  """A released set of corrupted images, such as ImageNet-C.

  Attributes:
    name: name of the set, for results.
    side: side of the square images in pixels.
    jpeg_quality: JPEG quality of the files; 0 for arrays of 8-bit values.
    clean: where the clean images are from: {word in the name of their data set: split}, such as
      {'cifar': 'test'}; empty if the clean images were not released.
    num_images: number of clean images; 0 if unknown.
    prepared: settings of `config.data` that prepare the clean images, such as {'crop': 224}.
    corruptions: the corruptions over which published means are taken.
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
    """The format in which the set was stored, as a phrase."""
    return f'JPEG, quality {self.jpeg_quality}' if self.jpeg_quality else '8-bit arrays'

  def size_differs(self, image_shape: tuple[int, int, int]) -> dict[str, bool]:
    """Compares the size of images with the set's size.

    Returns:
      {the difference in words: whether the sizes differ}, such as {'images are 256 × 256, not 224 ×
      224': True}.
    """
    height, width = image_shape[:2]
    is_equal = height == width == self.side
    return {f'images are {height} × {width}, not {self.side} × {self.side}': not is_equal}


_PREPARATION = {'resize': 256, 'crop': 224, 'interpolation': 'bilinear', 'resized_by': 'pillow'}
"""Settings of `config.data` that prepare the clean images of ImageNet-C."""
# name, side, JPEG quality, clean images, their number and preparation
RELEASED = {
  32: ReleasedSet('CIFAR-10-C and CIFAR-100-C', 32, 0, {'cifar': 'test'}, 10_000),
  64: ReleasedSet('Tiny-ImageNet-C', 64, 85, {}, 10_000),
  224: ReleasedSet('ImageNet-C', 224, 85, {'imagenet2012': 'validation'}, 50_000, _PREPARATION),
}
"""{side: released set}. Tiny-ImageNet-C was made from ImageNet's images, cropped to their bounding
boxes and resized to 64 × 64, not from Tiny-ImageNet's (its authors, and their generator).
"""


BY_SOURCE = {
  'imagenet_3dcc': ReleasedSet('ImageNet-3DCC', 224, 85, {}, 50_000, corruptions=tuple(STORED)),
  'laion_c': ReleasedSet('LAION-C', 224, 100, {}, 0, corruptions=SETS['laion_c']),
}
"""{data source: the released set that it reads}, for further sets."""
C_BAR = (
  dataclasses.replace(RELEASED[32], name='CIFAR-10-C-bar', corruptions=SETS['c_bar_cifar']),
  dataclasses.replace(
    RELEASED[224], name='ImageNet-C-bar', jpeg_quality=0, corruptions=SETS['c_bar_imagenet']
  ),
)
"""The C-bar sets; their published errors are of images made in memory (Mintun et al. 2021)."""


def matching_set(names: Collection[str], side: int) -> ReleasedSet:
  """Returns the released set with images of a given size that contains the given corruptions.

  This is a set of C-bar or LAION-C if it contains all of them, and otherwise CIFAR-10-C,
  Tiny-ImageNet-C or ImageNet-C.

  Args:
    names: names of the corruptions.
    side: side of the images in pixels, a key of `RELEASED`.
  """
  candidates = (*C_BAR, BY_SOURCE['laion_c'])
  matches = (s for s in candidates if s.side == side and {*names} <= {*s.corruptions})
  return next(matches, RELEASED[side])


def set_to_follow(
  image_shape: tuple[int, int, int], constants: int, names: Collection[str]
) -> ReleasedSet:
  """Returns the released set to reproduce if the setting `protocol` is 'as_released'.

  Args:
    image_shape: shape (H, W, C) of the images.
    constants: the setting `constants`; 0 stands for the side of the images.
    names: the corruptions.

  Raises:
    InputError: no released set has images of this size, `constants` is neither 0 nor this size, or
      the corruptions are from two released sets.
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
    problem = f"but {KEYS.study.protocol} is 'as_released' and the images are of {height} pixels"
    raise SettingError(KEYS.study.constants, constants, problem=problem, fix='Leave it 0.')
  released = matching_set(names, height)
  allowed = (*released.corruptions, *NAMES)  # the common corruptions may accompany any set
  foreign = [name for name in names if name not in allowed]
  if foreign:
    raise InputError(
      f"{KEYS.study.protocol} is 'as_released', but {foreign[0]} is of another released set than "
      f'{released.name} of {height} pixels, stored as {released.storage}: run them one by one.'
    )
  return released
