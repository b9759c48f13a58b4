"""What the study `si_score` found, in words."""

from __future__ import annotations

import numpy as np

from robustness.results import Number, Results
from robustness.wording.phrases import (
  PERCENT,
  NotReportedError,
  Reader,
  counted,
  for_all,
  percent,
  points,
  told,
  verdict,
)

FACTORS = {'size': 'size', 'rotation': 'angle', 'location': 'place'}


def sentences(results: Results) -> list[str]:
  """Returns accuracies, the best and worst level of each factor, and differences by factor."""
  by_factor = [
    (lambda reader, factor=factor, say=say: say(reader, factor))
    for factor in FACTORS
    for say in (_range, _differences)
  ]
  return told(results, [_accuracies, *by_factor, _gap])


def _accuracies(reader: Reader) -> str:
  number = reader.number('accuracy', reader.first)
  return f'of {counted(number, "scenes")}, {reader.shares("accuracy", "is right on")}'


def _levels(reader: Reader, factor: str) -> list[str]:
  """Returns what the values of a factor are, in the flat order of its arrays."""
  if factor == 'location':
    xs, ys = (reader.array(f'location/{axis}').ravel() for axis in 'xy')
    return [
      f'{100 * x:.0f}{PERCENT} from the left and {100 * y:.0f}{PERCENT} from the top'
      for y in ys
      for x in xs
    ]
  values = reader.array(f'{factor}/value').ravel()
  if factor == 'size':
    return [f'an area of {100 * value:g}{PERCENT} of the image' for value in np.round(values, 6)]
  return [f'{value:g}°' for value in np.round(values, 3)]


def _number(
  reader: Reader, factor: str, quantity: str, label: str, place: int, kind: str
) -> Number:
  """Returns an entry of an array by level with its interval over objects, for all known entries
  together."""
  name, objects = f'{factor}/{quantity}', reader.array(f'{factor}/objects').ravel()[place]
  count = int(np.isfinite(reader.array(name, label)).sum())
  entry, low, high = (
    float(reader.array(f'{name}{end}', label).ravel()[place]) for end in ('', '_low', '_high')
  )
  kind = f'{kind} over objects {reader.confidence:g}'
  return for_all(Number(entry, low, high, int(objects), kind), count)


def _values(reader: Reader, name: str, label: str, levels: list[str], fewest: int) -> np.ndarray:
  """Returns what is known of the levels, at least so many, NaN where it is not."""
  values = reader.array(name, label).ravel()
  if len(values) != len(levels) or np.isfinite(values).sum() < fewest:
    raise NotReportedError(label)
  return values


def _range(reader: Reader, factor: str) -> str:
  levels = _levels(reader, factor)
  name = f'{factor}/accuracy'

  def clause(label: str) -> str:
    values = _values(reader, name, label, levels, 2)
    said = []
    for place in (int(np.nanargmin(values)), int(np.nanargmax(values))):
      rate = _number(reader, factor, 'accuracy', label, place, 'korn-graubard')
      said.append(f'{percent(rate)} at {levels[place]}')
    return f'{label} from {" to ".join(said)}'

  return f'by {FACTORS[factor]} of the object, accuracy goes: {reader.each(clause)}'


def _differences(reader: Reader, factor: str) -> str:
  levels = _levels(reader, factor)
  name = f'{factor}/difference'

  def clause(label: str) -> str:
    values = _values(reader, name, label, levels, 1)
    place = int(np.nanargmax(np.abs(values)))
    difference = _number(reader, factor, 'difference', label, place, 'paired bonett-price')
    found = verdict(difference, 'less accurate', 'more accurate')
    return f'{label} at {levels[place]}, by {points(difference)}, {found}'

  return (
    f'by {FACTORS[factor]}, accuracy differs most from that of {reader.first} for '
    f'{reader.others(clause)}'
  )


def _gap(reader: Reader) -> str:
  def clause(label: str) -> str:
    return f'{label} {points(reader.number("gap", label))}'

  return (
    'accuracy as published, where levels hold other objects, minus that on the same objects at '
    'every level: '
    f'{reader.each(clause)}'
  )
