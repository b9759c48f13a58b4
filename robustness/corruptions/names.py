"""Corruptions' names, numbers and files, and the sets that papers average over; imports no JAX."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from robustness.core.user_code import is_reference

CATALOGUE: dict[str, tuple[int, str]] = {
  'gaussian_noise': (0, 'noise'),
  'shot_noise': (1, 'noise'),
  'impulse_noise': (2, 'noise'),
  'defocus_blur': (3, 'blur'),
  'glass_blur': (4, 'blur'),
  'motion_blur': (5, 'blur'),
  'zoom_blur': (6, 'blur'),
  'snow': (7, 'weather'),
  'frost': (8, 'weather'),
  'fog': (9, 'weather'),
  'brightness': (10, 'digital'),
  'contrast': (11, 'digital'),
  'elastic_transform': (12, 'elastic'),
  'pixelate': (13, 'digital'),
  'jpeg_compression': (14, 'digital'),
  'speckle_noise': (15, 'noise'),
  'gaussian_blur': (16, 'blur'),
  'spatter': (17, 'spatter'),
  'saturate': (18, 'digital'),
  'blue_noise_sample': (19, 'patterns'),
  'brownish_noise': (20, 'patterns'),
  'caustic_refraction': (21, 'warps'),
  'checkerboard_cutout': (22, 'patterns'),
  'circular_motion_blur': (23, 'warps'),
  'cocentric_sine_waves': (24, 'patterns'),
  'inverse_sparkles': (25, 'patterns'),
  'lines': (26, 'patterns'),
  'perlin_noise': (27, 'patterns'),
  'pinch_and_twirl': (28, 'warps'),
  'plasma_noise': (29, 'patterns'),
  'ripple': (30, 'warps'),
  'single_frequency_greyscale': (31, 'patterns'),
  'sparkles': (32, 'patterns'),
  'transverse_chromatic_abberation': (33, 'warps'),
  'glitched': (34, 'laion_c'),
  'mosaic': (35, 'laion_c'),
  'stickers': (36, 'laion_c'),
  'vertical_lines': (37, 'laion_c'),
  'geometric_shapes': (38, 'laion_c'),
  'luminance_checkerboard': (39, 'laion_c'),
  'resample_nearest': (52, 'resampling'),
  'resample_box': (53, 'resampling'),
  'resample_bilinear': (54, 'resampling'),
  'resample_bicubic': (55, 'resampling'),
  'resample_lanczos': (56, 'resampling'),
  'resample_bilinear_aliased': (57, 'resampling'),
  'resample_bicubic_aliased': (58, 'resampling'),
  'resample_jpeg': (59, 'resampling'),
  'watermark': (60, 'watermark'),
}
"""{corruption: (its number, the file in `robustness/corruptions` that declares it)}.

Random keys and columns of stored rows contain the numbers. A new corruption takes the next one,
below 200 (`robustness.environments.transforms.view_base`). A number is never changed or reused, so
that the random draws of all corruptions stay the same.
"""
_THREE_D = """
  near_focus far_focus fog_3d flash color_quant low_light
  xy_motion_blur z_motion_blur iso_noise bit_error h265_abr h265_crf
"""
STORED = {name: 40 + index for index, name in enumerate(_THREE_D.split())}
"""Numbers of ImageNet-3DCC's corruptions, which need depth or a codec: they are read, not made."""
NUMBERS = {**{name: number for name, (number, _) in CATALOGUE.items()}, **STORED}
"""{corruption: its number}, including corruptions that can only be read."""
KNOWN = tuple(CATALOGUE)
"""Names of all corruptions that this package computes."""
NAMED = {number: name for name, number in NUMBERS.items()}
"""{number: corruption}."""

OFFICIAL = tuple(NAMED[number] for number in range(15))
"""Names of the official 15 corruptions."""
EXTRA = tuple(NAMED[number] for number in range(15, 19))
"""Names of the four extra corruptions."""
C_BAR = tuple(NAMED[number] for number in range(19, 34))
"""Names of the 15 corruptions of C-bar."""
NAMES = OFFICIAL + EXTRA
"""The 19 common corruptions of ImageNet-C and CIFAR-10-C. `C_BAR` holds the 15 of ImageNet-C-bar
and CIFAR-10-C-bar, ten in each."""
NOISE, BLUR, HAZE, UNLIKE_OTHERS = 'noise', 'blur', 'haze', 'alone'
"""Names of families; corruptions of the family 'alone' resemble no other."""
FAMILIES = {
  NOISE: 'a small random change of every pixel',
  BLUR: 'a loss of fine detail',
  HAZE: 'a smaller range of values',
  UNLIKE_OTHERS: 'like no other corruption',
}
"""Families of corruptions. Training with one member reveals the effect of the other members, so a
corruption is held out with its family."""
_CIFAR_ONLY = 'circular_motion_blur lines pinch_and_twirl ripple transverse_chromatic_abberation'
_IMAGENET_ONLY = """
  caustic_refraction cocentric_sine_waves perlin_noise plasma_noise single_frequency_greyscale
"""

SETS = {
  'official': OFFICIAL,
  'extra': EXTRA,
  'all': NAMES,
  # Yin et al. (2019), Table 3: gaussian_blur and speckle_noise replace gaussian_noise and frost.
  'fourier_cifar': tuple(
    n for n in NAMES if n not in ('gaussian_noise', 'frost', 'spatter', 'saturate')
  ),
  # Yin et al. (2019), Table 4.
  'fourier_imagenet': tuple(n for n in OFFICIAL if n not in ('motion_blur', 'snow', 'frost')),
  # Mintun et al. (2021): not the same ten.
  'c_bar_imagenet': tuple(n for n in C_BAR if n not in _CIFAR_ONLY.split()),
  'c_bar_cifar': tuple(n for n in C_BAR if n not in _IMAGENET_ONLY.split()),
  # Li et al. (2025).
  'laion_c': tuple(NAMED[number] for number in range(34, 40)),
  # Shrunk and enlarged, of this project.
  'resampling': tuple(NAMED[number] for number in range(52, 60)),
}
"""{name of a set: its corruptions}, over which papers average."""
STORED_SETS = {'imagenet_3dcc': tuple(STORED)}
"""Sets of corruptions that can only be read."""
ALL_SETS = {**SETS, **STORED_SETS}
"""All sets of corruptions by name."""
SEVERITIES = (1, 2, 3, 4, 5)
"""The published severities."""

_SEQUENCES = """
  gaussian_noise shot_noise motion_blur zoom_blur snow brightness translate rotate tilt scale
  speckle_noise gaussian_blur spatter shear
  gaussian_noise_2 gaussian_noise_3 shot_noise_2 shot_noise_3 speckle_noise_2 speckle_noise_3
"""
PERTURBATIONS = {name: number for number, name in enumerate(_SEQUENCES.split())}
"""Numbers of ImageNet-P's and CIFAR-10-P's sequences in the columns of stored rows."""
_FIRST_TEN = tuple(PERTURBATIONS)[:10]
PERTURBATION_SETS = {
  'imagenet_p': _FIRST_TEN,
  'cifar10_p': tuple('spatter' if name == 'snow' else name for name in _FIRST_TEN),
}
"""Sequences over which published means are taken; CIFAR-10-P has spatter instead of snow."""

CLEAN = -1
"""The corruption number of clean images in stored rows."""


class StoredPart(NamedTuple):
  """One corruption at one severity in a stored data set, such as CIFAR-10-C.

  Attributes:
    corruption: number of the corruption in `NUMBERS`; -1 for clean images.
    severity: 1..5; 0 for clean images.
  """

  corruption: int
  severity: int

  def __str__(self) -> str:
    """Returns a name such as 'fog 3', or 'clean'."""
    return 'clean' if self.corruption == CLEAN else f'{NAMED[self.corruption]} {self.severity}'


CLEAN_PART = StoredPart(CLEAN, 0)
"""The part of a stored set with the clean images."""

STREAM = 'corruption_error'
"""The random stream (`random_keys.stream`) of all studies of corruptions and of the TFDS data set
`corrupted`, which therefore show the same images."""

FINEST = 1000
"""Fractional severities are multiples of 1 / 1000."""


def number_of(corruption: str) -> int:
  """Returns the number of a corruption, which random keys and stored data sets contain.

  A corruption in user code has the number 10⁴ + (CRC-32 of its name mod 189 000), which is larger
  than the number of any corruption of this package.
  """
  if corruption in NUMBERS:
    return NUMBERS[corruption]
  return 10_000 + zlib.crc32(corruption.encode()) % 189_000


def view_id(corruption: str, severity: float) -> int:
  """Returns an integer that identifies a corruption at a severity and determines its random keys.

  For the corruption with number n and the integer severity s the id is 5 n + s. For a fractional
  severity it is 10⁶ + 1000 (5 n + s). Ids of integer severities are below 10⁶, therefore all ids
  differ.
  """
  number = number_of(corruption)
  if severity == int(severity):
    return 5 * number + int(severity)
  return 10**6 + round(FINEST * (5 * number + severity))


def spelt_out(entries: Sequence[str]) -> tuple[str, ...]:
  """Replaces names of sets by their corruptions and returns all corruptions without repeats.

  For example, ['official', 'fog'] returns the 15 official corruptions, which include 'fog'. The
  result has the order of `NUMBERS`; references FILE.py:NAME to user code come last.

  Args:
    entries: names of corruptions or of sets, or references.
  """
  included = dict.fromkeys(name for entry in entries for name in ALL_SETS.get(entry, (entry,)))
  return (*(name for name in NUMBERS if name in included), *filter(is_reference, included))


def whole_sets(names: Sequence[str], side: int = 0) -> dict[str, tuple[str, ...]]:
  """Returns {label: corruptions} of all published sets that are contained in `names`.

  If `names` is not exactly one of these sets, the label 'shown' with all `names` is added.

  Args:
    names: names of corruptions.
    side: side of the images in pixels, or 0 if it is unknown. Yin et al. published two sets: if
      several sets are contained, 'fourier_imagenet' is left out for images of up to 64 pixels, and
      'fourier_cifar' for larger images.
  """
  sets = {label: members for label, members in ALL_SETS.items() if set(members) <= set(names)}
  is_one_set = any(set(members) == set(names) for members in sets.values())
  if side and len(sets) > 1:
    sets.pop('fourier_imagenet' if side <= 64 else 'fourier_cifar', None)
  return sets if is_one_set else {**sets, 'shown': tuple(names)}
