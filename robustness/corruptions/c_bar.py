"""Magnitudes m of the corruptions of ImageNet-C-bar and CIFAR-10-C-bar at the five severities.

The authors chose them by the error of a network, so they are irregular. All other constants follow
from m and the side of the images. Each set has ten corruptions, five of which are in both; at the
size of the other set a corruption has no published magnitudes.

Reference:
  Mintun, Kirillov & Xie (2021), On Interaction Between Augmentations and Corruptions in Natural
  Corruption Robustness, and the lists of the released generator.
"""

from __future__ import annotations

IMAGENET: dict[str, tuple[float, ...]] = {
  'blue_noise_sample': (0.8, 1.6, 2.4, 4.0, 5.6),
  'brownish_noise': (1.0, 2.0, 3.0, 4.0, 5.0),
  'caustic_refraction': (2.35, 3.2, 4.9, 6.6, 9.15),
  'checkerboard_cutout': (2.0, 3.0, 4.0, 5.0, 6.0),
  'cocentric_sine_waves': (3.0, 5.0, 8.0, 9.0, 10.0),
  'inverse_sparkles': (1.0, 2.0, 4.0, 9.0, 10.0),
  'perlin_noise': (4.6, 5.2, 5.8, 7.6, 8.8),
  'plasma_noise': (4.75, 7.0, 8.5, 9.25, 10.0),
  'single_frequency_greyscale': (1.0, 1.5, 2.0, 4.5, 5.0),
  'sparkles': (1.0, 2.0, 3.0, 5.0, 6.0),
}

CIFAR: dict[str, tuple[float, ...]] = {
  'blue_noise_sample': (0.7, 1.4, 2.1, 3.5, 4.2),
  'brownish_noise': (2.5, 4.0, 5.5, 6.5, 7.0),
  'checkerboard_cutout': (1.0, 2.0, 3.0, 4.0, 5.0),
  'circular_motion_blur': (2.8, 3.6, 4.4, 5.2, 6.0),
  'inverse_sparkles': (1.0, 1.5, 2.5, 4.5, 5.0),
  'lines': (0.5, 1.0, 1.5, 2.0, 2.5),
  'pinch_and_twirl': (5.5, 6.0, 6.5, 8.5, 10.0),
  'ripple': (5.5, 6.0, 6.5, 7.5, 8.0),
  'sparkles': (0.7, 3.5, 5.6, 6.3, 7.0),
  'transverse_chromatic_abberation': (1.0, 2.0, 5.0, 9.0, 10.0),
}
