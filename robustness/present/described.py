"""What was measured in words: data and classifiers, from the plain values that results have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST = 3
"""Data of a battery that are written out."""


def words(name: str) -> str:
  """Returns a name as it is spoken: 'gaussian_noise' is 'gaussian noise'."""
  return name.replace('_', ' ')


def plural(count: int, noun: str) -> str:
  """Returns '1 figure' or '3 figures'."""
  return f'{count:,} {noun}{"" if count == 1 else "s"}'


def data_words(data: Mapping[str, Any]) -> str:
  """Returns the images in words: '1,000 images of digits mnist 5k, split test, 28 × 28'.

  Args:
    data: of results; of a battery by part.
  """
  if 'num_examples' not in data:
    parts = list(dict.fromkeys(data_words(of) for of in data.values() if isinstance(of, Mapping)))
    more = f'; {len(parts) - _MOST} further' if len(parts) > _MOST else ''
    return '; '.join(parts[:_MOST]) + more
  source = ' '.join(str(data[key]) for key in ('source', 'name') if data.get(key))
  split = f', split {data["split"]}' if data.get('split') else ''
  shape = list(data.get('image_shape') or [])
  size = f', {shape[0]} × {shape[1]} pixels' if len(shape) > 1 else ''
  return f'{plural(int(data["num_examples"]), "image")} of {words(source)}{split}{size}'


def classifier_words(classifier: Mapping[str, Any]) -> str:
  """Returns a classifier in words: 'small cnn, trained here on train with crop, gaussian (σ …)'.

  Args:
    classifier: of results; of several seeds the first is told.
  """
  classifier = next(iter(classifier.get('seeds', {}).values()), classifier)
  name = words(str(classifier.get('architecture') or classifier.get('name') or ''))
  behind = f' behind {_part(of)}' if (of := classifier.get('front_end')) else ''
  told = [name + behind] if name else []
  if classifier.get('weights') == 'trained here':
    told.append(_training(classifier))
  elif classifier.get('weights'):
    told.append(f'weights {classifier["weights"]}')
  if 'note' in classifier:
    told.append(str(classifier['note']))
  return ', '.join(told)


def _training(classifier: Mapping[str, Any]) -> str:
  parts = [*(classifier.get('augment') or ()), classifier.get('attack')]
  objective = classifier.get('objective')
  if objective and objective.get('name') != 'cross_entropy':
    parts.append(objective)
  named = [_part(part) for part in parts if part]
  steps = f' {classifier["step"]:,} steps' if classifier.get('step') else ''
  split = f' on {classifier["training_split"]}' if classifier.get('training_split') else ''
  return f'trained here{steps}{split}' + (f' with {", ".join(named)}' if named else '')


def _part(part: Mapping[str, Any]) -> str:
  """Returns a named part of a training with its numbers: 'gaussian (sigma 0.4)'."""
  numbers = [
    f'{words(key)} {value:g}'
    for key, value in part.items()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value
  ]
  return words(str(part['name'])) + (f' ({", ".join(numbers)})' if numbers else '')
