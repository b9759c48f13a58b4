"""Checks of COCO's entries, one for each box, before they become arrays."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from robustness.core.errors import InputError


def check_entries(
  entries: Any,
  images: Collection[Any],
  names: Mapping[int, str],
  path: str | os.PathLike[str],
  scored: bool,
) -> Sequence[Mapping[str, Any]]:
  """Returns the entries.

  Args:
    entries: what a file holds in place of a list of objects.
    images: numbers and paths that an entry's image is one of.
    names: {class number: name}; empty where the classes are not listed, so that any number does.
    path: of the file, for messages.
    scored: whether each has a score.

  Raises:
    InputError: no list; an entry that is no object or lacks a key, of an unknown image or class,
      whose box is not four numbers, or whose score is no number. It is named by its position.
  """
  if not isinstance(entries, list):
    raise InputError(f'{path} holds {entries!r:.40} in place of a list of boxes.')
  keys = ('image_id', 'category_id', 'bbox', *(('score',) if scored else ()))
  for number, entry in enumerate(entries):
    lacking = [key for key in keys if key not in entry] if isinstance(entry, dict) else [keys[0]]
    if lacking:
      raise InputError(f'{path}: entry {number} has no {lacking[0]!r}; it needs {", ".join(keys)}.')
    problem = _problem(entry, images, names, scored)
    if problem:
      raise InputError(f'{path}: entry {number} {problem}')
  return entries


def _problem(
  entry: Mapping[str, Any], images: Collection[Any], names: Mapping[int, str], scored: bool
) -> str:
  """Returns what is wrong with an entry, or ''."""
  image, category, bbox = entry['image_id'], entry['category_id'], entry['bbox']
  if type(image) not in (int, str) or image not in images:
    return f'is of image {image!r}, which is no image of the ground truth.'
  if type(category) is not int:
    return f'has category_id {category!r}; give the number of a class.'
  if names and category not in names:
    return (
      f'has category_id {category}, which is no class of the ground truth: it has '
      f'{len(names)} classes, {min(names)} to {max(names)}.'
    )
  if not isinstance(bbox, list) or len(bbox) != 4 or not all(map(_is_number, bbox)):
    return f'has bbox {bbox!r}; give [x, y, width, height].'
  if scored and not _is_number(entry['score']):
    return f'has score {entry["score"]!r}; give a number.'
  return ''


def _is_number(value: Any) -> bool:
  return type(value) in (int, float)
