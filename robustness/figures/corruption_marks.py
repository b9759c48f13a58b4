"""How corruptions are told apart in scatter plots: a colour a kind, a marker each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robustness.figures import style

KINDS = (
  ('gaussian_noise', 'shot_noise', 'impulse_noise', 'speckle_noise'),
  ('defocus_blur', 'glass_blur', 'motion_blur', 'zoom_blur', 'gaussian_blur'),
  ('snow', 'frost', 'fog', 'brightness', 'spatter'),
  ('contrast', 'elastic_transform', 'pixelate', 'jpeg_compression', 'saturate'),
  (
    *('blue_noise_sample', 'brownish_noise', 'perlin_noise', 'plasma_noise'),
    *('cocentric_sine_waves', 'single_frequency_greyscale'),
  ),
  ('checkerboard_cutout', 'inverse_sparkles', 'lines', 'sparkles'),
  (
    *('caustic_refraction', 'circular_motion_blur', 'pinch_and_twirl', 'ripple'),
    'transverse_chromatic_abberation',
  ),
)
"""Noise, blur, weather and digital; of C-bar what is added, what covers and what moves pixels."""


def marks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
  """Returns by corruption, kind after kind, what Matplotlib calls `fmt`, `color` and `label`."""
  return {
    name: {'fmt': marker, 'color': style.COLOURS[kind], 'label': name.replace('_', ' ')}
    for kind, members in enumerate(KINDS)
    for marker, name in zip(style.MARKERS, members, strict=False)
    if name in names
  }
