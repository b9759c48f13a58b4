"""How a review runs: settings that its file of answers keeps, so that no later run differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from robustness.core.errors import InputError


@dataclasses.dataclass(frozen=True)
class Plan:
  """How a review runs.

  Attributes:
    annotators_per_pair: how many annotators answer alone about each pair.
    joint_votes: how many vote in the joint round; 0 is as many as answer alone.
    densify: whether every anchor is first shown alone, to add the classes its labels lack.
  """

  annotators_per_pair: int = 2
  joint_votes: int = 0
  densify: bool = False

  def __post_init__(self) -> None:
    for key, kind in (('annotators_per_pair', int), ('joint_votes', int), ('densify', bool)):
      if type(getattr(self, key)) is not kind:
        raise InputError(f'{key} = {getattr(self, key)!r} is no {kind.__name__}.')
    if self.annotators_per_pair < 1:
      raise InputError(f'--annotators_per_pair={self.annotators_per_pair}: give at least 1.')
    if self.joint_votes < 0:
      raise InputError(
        f'--joint_votes={self.joint_votes}: give at least 1, or 0 for as many as answer alone.'
      )

  @property
  def needed(self) -> int:
    """How many votes the joint round needs."""
    return self.joint_votes or self.annotators_per_pair

  def check(self, settings: Mapping[str, Any], where: str) -> None:
    """Checks that a review that has begun is not continued in another way.

    Raises:
      InputError: a value differs from this plan.
    """
    for key, value in settings.items():
      if value != getattr(self, key):
        raise InputError(
          f'--{key}={value}, but {where} was begun with {getattr(self, key)}: leave '
          'the flag out, or give another --answers.'
        )
