"""Names of corruptions, their numbers and files, and the sets that papers average over; no JAX."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from robustness.core.registry import is_reference

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
}
"""The number of every corruption, and the file that declares it in `robustness/corruptions`.

Random keys and the columns of stored rows are made of the numbers. A new corruption takes the next
one, below 200 (`robustness.environments.transforms.view_base`); none is changed or given again, so
that the draws of the others stay as they are.
"""
_THREE_D = """
  near_focus far_focus fog_3d flash color_quant low_light
  xy_motion_blur z_motion_blur iso_noise bit_error h265_abr h265_crf
"""
STORED = {name: 40 + place for place, name in enumerate(_THREE_D.split())}
"""The numbers of those of ImageNet-3DCC, which need depth or a codec and are read, not made."""
NUMBERS = {**{name: number for name, (number, _) in CATALOGUE.items()}, **STORED}
KNOWN = tuple(CATALOGUE)
"""All corruptions that are made here."""
NAMED = {number: name for name, number in NUMBERS.items()}

OFFICIAL, EXTRA, C_BAR = (
  tuple(NAMED[number] for number in numbers)
  for numbers in (range(15), range(15, 19), range(19, 34))
)
NAMES = OFFICIAL + EXTRA
"""The 19 common corruptions of ImageNet-C and CIFAR-10-C. `C_BAR` has the 15 of ImageNet-C-bar and
CIFAR-10-C-bar, ten in each."""
NOISE, BLUR, HAZE, ALONE = 'noise', 'blur', 'haze', 'alone'
FAMILIES = {
  NOISE: 'a small random change of every pixel',
  BLUR: 'a loss of fine detail',
  HAZE: 'a smaller range of values',
  ALONE: 'like no other corruption',
}
"""Families of corruptions, of which one shows what the others do; each declares its own."""
_CIFAR_ONLY = (
  *('circular_motion_blur', 'lines', 'pinch_and_twirl', 'ripple'),
  'transverse_chromatic_abberation',
)
_IMAGENET_ONLY = (
  *('caustic_refraction', 'cocentric_sine_waves', 'perlin_noise', 'plasma_noise'),
  'single_frequency_greyscale',
)

SETS = {
  'official': OFFICIAL,
  'extra': EXTRA,
  'all': NAMES,
  # Yin et al. (2019), Table 3: gaussian_blur and speckle_noise for gaussian_noise and frost.
  'fourier_cifar': tuple(
    n for n in NAMES if n not in ('gaussian_noise', 'frost', 'spatter', 'saturate')
  ),
  # Yin et al. (2019), Table 4.
  'fourier_imagenet': tuple(n for n in OFFICIAL if n not in ('motion_blur', 'snow', 'frost')),
  # Mintun et al. (2021): not the same ten.
  'c_bar_imagenet': tuple(n for n in C_BAR if n not in _CIFAR_ONLY),
  'c_bar_cifar': tuple(n for n in C_BAR if n not in _IMAGENET_ONLY),
  # Li et al. (2025).
  'laion_c': tuple(NAMED[number] for number in range(34, 40)),
}
STORED_SETS = {'imagenet_3dcc': tuple(STORED)}
"""Sets of corruptions that are read alone."""
SEVERITIES = (1, 2, 3, 4, 5)

_SEQUENCES = """
  gaussian_noise shot_noise motion_blur zoom_blur snow brightness translate rotate tilt scale
  speckle_noise gaussian_blur spatter shear
  gaussian_noise_2 gaussian_noise_3 shot_noise_2 shot_noise_3 speckle_noise_2 speckle_noise_3
"""
PERTURBATIONS = {name: number for number, name in enumerate(_SEQUENCES.split())}
"""The numbers of the sequences of ImageNet-P and CIFAR-10-P, in columns of stored rows."""
PERTURBATION_SETS = {
  'imagenet_p': tuple(PERTURBATIONS)[:10],
  'cifar10_p': tuple('spatter' if n == 'snow' else n for n in tuple(PERTURBATIONS)[:10]),
}
"""What published means are over: CIFAR-10-P has spatter where ImageNet-P has snow."""

CLEAN = -1
"""Stands for no corruption where stored rows have their corruption's number."""


class StoredPart(NamedTuple):
  """A corruption's number (-1: clean) and a severity (0: clean), of stored images."""

  corruption: int
  severity: int

  def __str__(self) -> str:
    return 'clean' if self.corruption == CLEAN else f'{NAMED[self.corruption]} {self.severity}'


CLEAN_PART = StoredPart(CLEAN, 0)

STREAM = 'corruption_error'
"""The random stream (`random_keys.stream`) of all studies of corruptions and of the TFDS data set
`corrupted`, which therefore hold the same images."""

FINEST = 1000
"""Severities between the five are multiples of 1 / 1000."""
_BETWEEN = 10**6  # what the ids of views between the five severities begin at


def number_of(corruption: str) -> int:
  """Returns the number of a corruption; of one in a user's code 10⁴ + CRC-32 of its name mod
  189 000, the view ids of which no others have."""
  if corruption in NUMBERS:
    return NUMBERS[corruption]
  return 10_000 + zlib.crc32(corruption.encode()) % 189_000


def view_id(corruption: str, severity: float) -> int:
  """Returns 5 n + s, from which the random keys of the corruption of number n at severity s follow;
  of a severity between the five 10⁶ + 1000 (5 n + s)."""
  number = number_of(corruption)
  if severity == int(severity):
    return 5 * number + int(severity)
  return _BETWEEN + round(FINEST * (5 * number + severity))


SMALL_SIDE = 64
"""Side of images up to which they are like those of CIFAR-10, and not those of ImageNet."""


def spelt_out(entries: Sequence[str]) -> tuple[str, ...]:
  """Returns corruptions and the members of sets, each once, in the order of `NUMBERS`; those in a
  user's code come last, as `FILE.py:NAME`."""
  sets = {**SETS, **STORED_SETS}
  included = dict.fromkeys(name for entry in entries for name in sets.get(entry, (entry,)))
  return (*(name for name in NUMBERS if name in included), *filter(is_reference, included))


def whole_sets(names: Sequence[str], side: int = 0) -> dict[str, tuple[str, ...]]:
  """Returns the sets all of whose corruptions are among `names`, and 'shown', which is
  `names`, if none of them is all of these. Of several, that of the experiments of Yin et al. on
  images of another size than `side` is left out, if it is known."""
  known = {**SETS, **STORED_SETS}.items()
  sets = {label: members for label, members in known if set(members) <= set(names)}
  whole = any(set(members) == set(names) for members in sets.values())
  if side and len(sets) > 1:
    sets.pop('fourier_imagenet' if side <= SMALL_SIDE else 'fourier_cifar', None)
  return sets if whole else {**sets, 'shown': tuple(names)}
