"""The 19 common corruptions by name, and the sets that papers average over: no JAX is needed."""

from __future__ import annotations

from collections.abc import Sequence

NOISE = ('gaussian_noise', 'shot_noise', 'impulse_noise')
BLUR = ('defocus_blur', 'glass_blur', 'motion_blur', 'zoom_blur')
WEATHER = ('snow', 'frost', 'fog', 'brightness')
DIGITAL = ('contrast', 'elastic_transform', 'pixelate', 'jpeg_compression')
EXTRA = ('speckle_noise', 'gaussian_blur', 'spatter', 'saturate')

OFFICIAL = NOISE + BLUR + WEATHER + DIGITAL
NAMES = OFFICIAL + EXTRA

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
}
SEVERITIES = (1, 2, 3, 4, 5)

CLEAN = -1
"""Stands for no corruption where stored rows tell their corruption by its number in `NAMES`."""

STREAM = 'corruption_error'
"""The random stream (`random_keys.stream`) of all studies of corruptions and of the TFDS data set
`corrupted`, which therefore hold the same images."""


def view_id(corruption: int, severity: int) -> int:
  """Returns 5 n + s, from which the random keys of corruption n of `NAMES` at severity s follow."""
  return 5 * corruption + severity


def whole_sets(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
  """Returns the sets of `SETS` all of whose corruptions are among `names`, and 'shown', which is
  `names`, if none of them is all of these."""
  sets = {label: members for label, members in SETS.items() if set(members) <= set(names)}
  whole = any(set(members) == set(names) for members in sets.values())
  return sets if whole else {**sets, 'shown': tuple(names)}
