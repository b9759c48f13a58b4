"""A few numbers that tell a classifier from others: its outputs on fixed images.

What a function computes cannot be read from the file it is written in, for its weights may lie in
another. Its outputs on the same four images are compared instead, within a tolerance: libraries and
devices differ in the last digits, two networks in the first.
"""

from __future__ import annotations

import numpy as np

from robustness.models.classifier import Classifier

KEY = 'outputs_on_fixed_images'
TOLERANCE = 1e-3
"""Difference of two outputs of one function, as a share of the largest output."""
RANDOM = 'not the same twice'
PROJECTIONS = 4
_LEAST = 30.0  # logits further below the largest, infinite ones among them, are taken as this far


def probe(classifier: Classifier) -> list[float] | str:
  """Returns logits on four fixed images, each projected onto `PROJECTIONS` fixed directions.

  The images are a ramp, a wave, noise and grey. The projections of an image's logits z on normal
  directions u are Σ u z / √classes, to six digits.

  Returns:
    16 numbers, or `RANDOM` for a function that gives other outputs when it is called again.

  Raises:
    InputError: see `Classifier.predict`; or whatever the function raises.
  """
  images = fixed_images(classifier.input_shape)
  first, again = (_projected(classifier.predict(images)) for _ in range(2))
  if np.abs(first - again).max() > TOLERANCE * np.abs(first).max():
    return RANDOM
  return [float(f'{value:.6g}') for value in first]


def fixed_images(shape: tuple[int, int, int]) -> np.ndarray:
  """Returns a ramp, a wave, noise and grey, float32 [4, H, W, C] in [0, 1]."""
  height, width, channels = shape
  y, x = np.mgrid[:height, :width] / max(height, width)
  noise = np.random.default_rng(0).random(shape)
  planes = (x, 0.5 + 0.5 * np.sin(2 * np.pi * (1.3 * x + 2.1 * y)))
  ramp, wave = (np.repeat(plane[..., None], channels, -1) for plane in planes)
  return np.stack([ramp, wave, noise, np.full(shape, 0.5)]).astype(np.float32)


def _projected(logits: np.ndarray) -> np.ndarray:
  logits = np.maximum(logits.astype(np.float64), logits.max(1, keepdims=True) - _LEAST)
  directions = np.random.default_rng(1).normal(size=(logits.shape[1], PROJECTIONS))
  return (np.nan_to_num(logits) @ directions / np.sqrt(len(directions))).ravel()
