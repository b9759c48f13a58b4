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
)
"""Noise, blur, weather and digital."""


def marks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
  """Returns by corruption, kind after kind, what Matplotlib calls `fmt`, `color` and `label`."""
  return {
    name: {'fmt': marker, 'color': style.COLOURS[kind], 'label': name.replace('_', ' ')}
    for kind, members in enumerate(KINDS)
    for marker, name in zip(style.MARKERS, members, strict=False)
    if name in names
  }
