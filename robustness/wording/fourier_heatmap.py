"""What the study `fourier_heatmap` found, in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from robustness.metrics.accuracy import proportion
from robustness.metrics.fixed_width import SEQUENTIAL
from robustness.results import Results
from robustness.wording.phrases import (
  PERCENT,
  NotReportedError,
  Reader,
  clean_errors,
  for_all,
  has_interval,
  noted,
  number_of,
  percent,
  points,
  told,
  verdict,
)

BANDS = ('low', 'mid', 'high')
_BAND_WORDS = {'low': 'low', 'mid': 'middle', 'high': 'high'}


def sentences(results: Results) -> list[str]:
  """Returns the worst frequency and band of each classifier, and how others differ from the first.

  Intervals at the worst and the most different frequency hold for all distinct ones together.
  """
  return told(results, [_worst_frequency, _bands, _differences, _by_frequency, clean_errors])


def _worst_frequency(reader: Reader) -> str:
  confidence = reader.confidence

  def clause(label: str) -> str:
    error = reader.array('error', label)
    place = np.unravel_index(int(np.nanargmax(error)), error.shape)
    shown = _images(reader, label)
    n = int(np.broadcast_to(shown, error.shape)[place])
    worst = proportion(round(float(error[place]) * n), n, confidence)
    if shown.size > 1:
      worst = dataclasses.replace(worst, interval=f'{SEQUENTIAL} {confidence:g}')
    return (
      f'{label} errs most at frequency {_at(reader, place)}: '
      f'{percent(for_all(worst, _distinct(error)))}'
    )

  shown = np.concatenate([_images(reader, label).ravel() for label in reader.labels])
  fewest, most = int(shown.min()), int(shown.max())
  images = f'{most:,} images' if fewest == most else f'{fewest:,} to {most:,} images each'
  norm = reader.setting('norm')
  return f'under Fourier basis noise of L2 norm {norm:g}, on {images}, {reader.each(clause)}'


def _images(reader: Reader, label: str) -> np.ndarray:
  """Returns how many images each cell rests on: [H, W] of a sequential design, else a number."""
  images = reader.results.arrays.get(reader.name('images', label))
  return np.array(reader.number('clean_error', label).n) if images is None else images


def _bands(reader: Reader) -> str:
  def clause(label: str) -> str:
    numbers = {
      band: reader.results.numbers.get(reader.name(f'error_{band}_frequencies', label))
      for band in BANDS
    }
    errors = {band: number for band, number in numbers.items() if has_interval(number)}
    if not errors:
      raise NotReportedError(label)
    ordered = sorted(errors.items(), key=lambda entry: -entry[1].value)
    return f'{label} ' + ', '.join(
      noted(f'{percent(error)} at {_BAND_WORDS[band]} frequency', error) for band, error in ordered
    )

  return f'error by band of frequencies, the largest first: {reader.each(clause)}'


def _differences(reader: Reader) -> str:
  def clause(label: str) -> str:
    difference = reader.number('difference_all_frequencies', label)
    said = f'{points(difference)}, {verdict(difference, "lower error", "higher error")}'
    return f'{label} {noted(said, difference)}'

  return (
    f'error over all frequencies minus that of {reader.first}, on the same images: '
    f'{reader.others(clause)}'
  )


def _by_frequency(reader: Reader) -> str:
  confidence = reader.confidence

  def clause(label: str) -> str:
    difference = reader.array('difference', label)
    ends = [reader.array(f'difference_{end}', label) for end in ('low', 'high')]
    significant = reader.array('difference_significant', label)
    less, more = (float((significant & (sign * difference > 0)).mean()) for sign in (-1, 1))
    said = []
    for sign, way in ((-1, 'below'), (1, 'above')):
      place = np.unravel_index(int(np.nanargmax(sign * difference)), difference.shape)
      cells = [float(values[place]) for values in (difference, *ends)]
      if sign * cells[0] > 0:
        number = for_all(
          number_of(cells, 0, f'paired bonett-price {confidence:g}'), _distinct(difference)
        )
        found = verdict(number, 'lower error', 'higher error')
        said.append(f'farthest {way} at {_at(reader, place)}, by {points(number)}, {found}')
    if not said:
      raise NotReportedError(label)
    return (
      f'{label} is {", and ".join(said)}; it errs significantly less in '
      f'{100 * less:.0f}{PERCENT} and more in {100 * more:.0f}{PERCENT} of the map'
    )

  return f'frequency by frequency, against the error of {reader.first}, {reader.others(clause)}'


def _at(reader: Reader, place: Sequence[Any]) -> str:
  """Names the frequency of a cell."""
  axes = (reader.array(f'frequency_{axis}') for axis in 'yx')
  vertical, horizontal = (
    str(int(axis[i])).replace('-', '−') for axis, i in zip(axes, place, strict=True)
  )
  return f'({vertical}, {horizontal})'


def _distinct(values: np.ndarray) -> int:
  """Returns how many cells of a map show distinct frequencies: one of each pair of mirrored ones.

  Zero is its own mirror, and so is the Nyquist frequency of a whole map of even side.
  """
  own = math.prod(2 - side % 2 for side in values.shape)
  return (values.size + own) // 2
