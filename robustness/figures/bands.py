"""Figures by bandwidth of a low- or high-pass filter, from results alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from robustness.figures.error_curves import ErrorCurve, error_curves
from robustness.figures.images import normalised, picture_rows
from robustness.results import Results

BANDWIDTH = 'bandwidth B (cells of the spectrum)'


def draw(results: Results, quantity: str, caption: str) -> dict[str, tuple[Figure, str]]:
  """Draws a study of bands.

  Args:
    results: what the study left in `results.json` and `results.npz`.
    quantity: 'error' or 'accuracy'.
    caption: of the curves, without a full stop.

  Returns:
    {name: (figure, caption)}: `<quantity>_by_bandwidth` and `sample_images`.
  """
  n = next(iter(results.numbers.values())).n
  panels: dict[str, dict[str, ErrorCurve]] = {
    _title(kind): {
      label: ErrorCurve(
        results.arrays[f'{kind}/bandwidth'], *results.with_interval(f'{prefix}{kind}/{quantity}')
      )
      for label, prefix in results.prefixes.items()
    }
    for kind in results.settings['kinds']
  }
  clean = {
    label: results.numbers[f'{prefix}clean_{quantity}']
    for label, prefix in results.prefixes.items()
  }
  return {
    f'{quantity}_by_bandwidth': (
      error_curves(panels, BANDWIDTH, clean, f'top-1 {quantity} (%)'),
      f'{caption}, on {n} images with exact intervals; dotted: the clean images.',
    ),
    'sample_images': (
      _samples(results),
      'One image by bandwidth; "normalised" shows (x − mean)/standard deviation over all its '
      'pixels. Values outside [0, 1] are cut for display.',
    ),
  }


def _title(kind: str) -> str:
  centre = {'low_pass': 'zero', 'high_pass': 'the Nyquist frequency'}[kind]
  return f'{kind.replace("_", " ")}: square centred on {centre}'


def _samples(results: Results) -> Figure:
  """A row of pictures for each kind, and of high-passed ones another, normalised for display."""
  rows = {}
  for kind in results.settings['kinds']:
    images = results.arrays[f'sample_images/{kind}']
    titles = [f'B = {b}' for b in results.arrays[f'sample_bandwidths/{kind}']]
    name = kind.replace('_', ' ')
    rows[name] = dict(zip(titles, images, strict=True))
    if kind == 'high_pass':
      shown = [normalised(image) for image in images]
      rows[f'{name}, normalised'] = dict(zip(titles, shown, strict=True))
  return picture_rows(rows)


def draw_trained(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws the accuracy of classifiers that have a filter as their front end, each at its own B.

  Returns:
    {'trained_accuracy': (figure, caption)} if there is such a classifier, else nothing.
  """
  several = [results.classifier] if isinstance(results.classifier, Mapping) else results.classifier
  prefixes = list(results.prefixes.values())
  panels: dict[str, dict[str, ErrorCurve]] = {}
  for kind in results.settings['kinds']:
    points = sorted(
      (classifier['front_end']['bandwidth'], prefix)
      for classifier, prefix in zip(several, prefixes, strict=True)
      if classifier.get('front_end', {}).get('name') == kind
    )
    if points:
      numbers = [results.numbers[f'{prefix}clean_accuracy'] for _, prefix in points]
      value, low, high = (
        np.array([getattr(number, end) for number in numbers]) for end in ('value', 'low', 'high')
      )
      bandwidths: Any = np.array([bandwidth for bandwidth, _ in points])
      panels[_title(kind)] = {'trained and tested': ErrorCurve(bandwidths, value, low, high)}
  if not panels:
    return {}
  caption = (
    'Accuracy of classifiers trained and tested on filtered images, each at the bandwidth of its '
    'own front end, with exact intervals.'
  )
  return {
    'trained_accuracy': (
      error_curves(panels, BANDWIDTH, label='top-1 accuracy (%)', joined=False),
      caption,
    )
  }
