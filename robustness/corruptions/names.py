"""Corruptions' names, numbers and files, and the sets that papers average over; imports no JAX."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from robustness.core.user_code import is_reference

_BY_FILE = {
  'noise': '0 gaussian_noise, 1 shot_noise, 2 impulse_noise, 15 speckle_noise',
  'blur': '3 defocus_blur, 4 glass_blur, 5 motion_blur, 6 zoom_blur, 16 gaussian_blur',
  'weather': '7 snow, 8 frost, 9 fog',
  'digital': '10 brightness, 11 contrast, 13 pixelate, 14 jpeg_compression, 18 saturate',
  'elastic': '12 elastic_transform',
  'spatter': '17 spatter',
  'patterns': """
    19 blue_noise_sample, 20 brownish_noise, 22 checkerboard_cutout, 24 cocentric_sine_waves,
    25 inverse_sparkles, 26 lines, 27 perlin_noise, 29 plasma_noise,
    31 single_frequency_greyscale, 32 sparkles""",
  'warps': """
    21 caustic_refraction, 23 circular_motion_blur, 28 pinch_and_twirl, 30 ripple,
    33 transverse_chromatic_abberation""",
  'laion_c': """
    34 glitched, 35 mosaic, 36 stickers, 37 vertical_lines, 38 geometric_shapes,
    39 luminance_checkerboard""",
  'resampling': """
    52 resample_nearest, 53 resample_box, 54 resample_bilinear, 55 resample_bicubic,
    56 resample_lanczos, 57 resample_bilinear_aliased, 58 resample_bicubic_aliased,
    59 resample_jpeg""",
  'watermark': '60 watermark',
}
"""{file in `robustness/corruptions`: the numbers and names of the corruptions that it declares}.

Random keys and columns of stored rows contain the numbers. A new corruption takes the next one,
below 200 (`robustness.environments.transforms.view_base`). A number is never changed or reused, so
that the random draws of all corruptions stay the same.
"""
_NUMBERED = sorted(
  (int(number), name, file)
  for file, entries in _BY_FILE.items()
  for number, name in map(str.split, entries.split(','))
)
CATALOGUE = {name: (number, file) for number, name, file in _NUMBERED}
"""{corruption: (its number, the file that declares it)}, in the order of the numbers."""
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
