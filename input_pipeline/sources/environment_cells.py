"""Cells, environment × class, of stored environments: their order, which a split has, and gaps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from robustness.core.errors import InputError, nearest
from robustness.environments.class_groups import ClassGroups

SPLITS = ('train', 'clean', 'test')
_LISTED = 8  # cells named in a message


def ordered(names: Sequence[str], first: str) -> tuple[str, ...]:
  """Returns the environments with E_0 first, which is the first of `names` if `first` is ''.

  That is logged.

  Raises:
    InputError: `first`, which is `config.data.name`, is none of them.
  """
  if not first:
    first = names[0]
    _log_choice(first, tuple(names))
  if first not in names:
    raise InputError(
      f'config.data.name is {first!r}, the environment of all classes; {nearest(first, names)}.'
    )
  return (first, *(name for name in names if name != first))


@functools.cache  # once, though rows are opened for the test and for every training
def _log_choice(first: str, names: tuple[str, ...]) -> None:
  logging.info(
    'clean images, of the environment that all classes are trained in, are those of %r: '
    'config.data.name chooses another of %s',
    first,
    ', '.join(map(repr, names)),
  )


def is_permitted(split: str, number: int, group: np.ndarray) -> np.ndarray:
  """Returns whether a split has images of classes in E_number, given their class groups.

  Args:
    split: 'test' has every cell; 'train' all of E_0 and of E_k the classes of C_k; 'clean' E_0.
    number: of the environment.
    group: int [...]; k of classes of C_k, 0 of those left over.
  """
  if split == 'test' or number == 0:
    return np.ones(group.shape, bool)
  return (group == number) & (split == 'train')


def check_cells(
  present: np.ndarray, environments: Sequence[str], groups: ClassGroups, allow_missing: bool
) -> dict[str, Any]:
  """Returns what results say of the cells without images.

  Args:
    present: bool [environments, classes], whether there are images.
    environments: names.
    groups: of the classes; none if they are not chosen yet.
    allow_missing: whether single cells may be without images.

  Raises:
    InputError: there are none of a cell, or none of a whole class group in its own environment.
  """
  missing = [
    f'{environments[number]}/{groups.class_names[label]}' for number, label in np.argwhere(~present)
  ]
  if missing and not allow_missing:
    more = f' and {len(missing) - _LISTED} more' if len(missing) > _LISTED else ''
    raise InputError(
      f'{len(missing)} of {present.size} cells have no images: {", ".join(missing[:_LISTED])}'
      f'{more}. Add images, leave these classes out, or set config.data.allow_missing=True.'
    )
  for number in range(1, min(len(groups) + 1, len(environments))):
    if not present[number, groups.of_label == number].any():
      raise InputError(
        f'no class of group {number} has images of {environments[number]!r}, which it alone is '
        'trained in: choose other class groups or add images.'
      )
  return {'missing_cells': missing} if missing else {}
