"""The figures of the study `fourier_attack`, from its results alone."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from robustness.figures.error_curves import ErrorCurve, error_curves
from robustness.figures.images import sample_images
from robustness.results import Results


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {name: (figure, caption)}: `error_by_queries` and `sample_images`.
  """
  clean = {
    label: results.numbers[f'{prefix}clean_error'] for label, prefix in results.prefixes.items()
  }
  n, norm = next(iter(clean.values())).n, results.settings['norm']
  curves = {}
  for label, prefix in results.prefixes.items():
    value, low, high = results.with_interval(f'{prefix}error_by_queries')
    curves[label] = ErrorCurve(np.arange(1, len(value) + 1), value, low, high)
  first = next(iter(results.prefixes.values()))
  pairs = [(int(y), int(x)) for y, x in results.arrays[f'{first}chosen_frequencies']]
  shown = len(results.arrays['sample_images']) - 1
  return {
    'error_by_queries': (
      error_curves({'': curves}, 'queries (worst frequencies tried)', clean),
      f'Error if any of the worst frequencies turns an image, norm v = {norm:g} in each channel, '
      f'on {n} images that did not choose the frequencies; dotted: clean.',
    ),
    'sample_images': (
      sample_images(results.arrays['sample_images'], [None, *pairs[:shown]], norm),
      'One image with the worst frequencies of the first classifier.',
    ),
  }
