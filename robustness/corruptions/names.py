"""Corruptions by name, and the sets that papers average over: no JAX is needed."""

from __future__ import annotations

from collections.abc import Sequence

from robustness.corruptions import c_bar

NOISE = ('gaussian_noise', 'shot_noise', 'impulse_noise')
BLUR = ('defocus_blur', 'glass_blur', 'motion_blur', 'zoom_blur')
WEATHER = ('snow', 'frost', 'fog', 'brightness')
DIGITAL = ('contrast', 'elastic_transform', 'pixelate', 'jpeg_compression')
EXTRA = ('speckle_noise', 'gaussian_blur', 'spatter', 'saturate')

LIKE_NOISE = (*NOISE, 'speckle_noise')
"""What a small random change of every pixel is like."""

OFFICIAL = NOISE + BLUR + WEATHER + DIGITAL
NAMES = OFFICIAL + EXTRA
"""The 19 common corruptions."""

C_BAR_IMAGENET, C_BAR_CIFAR = tuple(c_bar.IMAGENET), tuple(c_bar.CIFAR)
NUMBERS: dict[str, int] = {
  'gaussian_noise': 0,
  'shot_noise': 1,
  'impulse_noise': 2,
  'defocus_blur': 3,
  'glass_blur': 4,
  'motion_blur': 5,
  'zoom_blur': 6,
  'snow': 7,
  'frost': 8,
  'fog': 9,
  'brightness': 10,
  'contrast': 11,
  'elastic_transform': 12,
  'pixelate': 13,
  'jpeg_compression': 14,
  'speckle_noise': 15,
  'gaussian_blur': 16,
  'spatter': 17,
  'saturate': 18,
  'blue_noise_sample': 19,
  'brownish_noise': 20,
  'caustic_refraction': 21,
  'checkerboard_cutout': 22,
  'circular_motion_blur': 23,
  'cocentric_sine_waves': 24,
  'inverse_sparkles': 25,
  'lines': 26,
  'perlin_noise': 27,
  'pinch_and_twirl': 28,
  'plasma_noise': 29,
  'ripple': 30,
  'single_frequency_greyscale': 31,
  'sparkles': 32,
  'transverse_chromatic_abberation': 33,
}
"""The number of every corruption, of which random keys and the columns of stored rows are made.

A new corruption takes the next number, below 200 (`robustness.environments.transforms.view_base`);
none is changed or given again, so that what the others draw stays as it is.
"""
KNOWN = tuple(NUMBERS)
"""All corruptions."""
NAMED = {number: name for name, number in NUMBERS.items()}
C_BAR = tuple(name for name in KNOWN if name in {*C_BAR_IMAGENET, *C_BAR_CIFAR})
"""The 15 corruptions of ImageNet-C-bar and CIFAR-10-C-bar, ten in each."""

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
  'c_bar_imagenet': C_BAR_IMAGENET,
  'c_bar_cifar': C_BAR_CIFAR,
}
SEVERITIES = (1, 2, 3, 4, 5)

CLEAN = -1
"""Stands for no corruption where stored rows tell their corruption by its number in `NUMBERS`."""

STREAM = 'corruption_error'
"""The random stream (`random_keys.stream`) of all studies of corruptions and of the TFDS data set
`corrupted`, which therefore hold the same images."""


FINEST = 1000
"""Severities between the five are multiples of 1 / 1000."""
_BETWEEN = 10**6  # what the ids of views between the five severities begin at


def view_id(corruption: str, severity: float) -> int:
  """Returns 5 n + s, from which the random keys of the corruption of number n at severity s follow;
  of a severity between the five 10⁶ + 1000 (5 n + s)."""
  number = NUMBERS[corruption]
  if severity == int(severity):
    return 5 * number + int(severity)
  return _BETWEEN + round(FINEST * (5 * number + severity))


def spelt_out(entries: Sequence[str]) -> tuple[str, ...]:
  """Returns corruptions and the members of sets of `SETS`, each once, in the order of `KNOWN`."""
  included = {name for entry in entries for name in SETS.get(entry, (entry,))}
  return tuple(name for name in KNOWN if name in included)


def whole_sets(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
  """Returns the sets of `SETS` all of whose corruptions are among `names`, and 'shown', which is
  `names`, if none of them is all of these."""
  sets = {label: members for label, members in SETS.items() if set(members) <= set(names)}
  whole = any(set(members) == set(names) for members in sets.values())
  return sets if whole else {**sets, 'shown': tuple(names)}
