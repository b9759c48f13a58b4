"""Leak guards: nothing in a recipe may show the held-out classes what they are tested on.

A module of `robustness.augment` or `robustness.front_ends` says which transforms its images
resemble: `RESEMBLES`, names of `robustness.environments.transforms`, or where that depends on its
settings `resembles(settings)`.
"""

from __future__ import annotations

from collections.abc import Iterable

from robustness.core.errors import InputError
from robustness.core.parts import Part

AUGMENTATION = 'environment'


def resembled(part: Part) -> frozenset[str]:
  """Returns the transforms that a part's images resemble."""
  of_settings = getattr(part.module, 'resembles', None)
  if of_settings is not None:
    return frozenset(of_settings(part.settings))
  return frozenset(getattr(part.module, 'RESEMBLES', ()))


def refuse_leaks(parts: Iterable[Part | None], where: str) -> None:
  """Raises InputError if one part resembles a transform that another holds out for its classes.

  Args:
    parts: augmentations and front end of one recipe.
    where: the classifier's section in messages, for example 'config.classifier'.
  """
  given = [part for part in parts if part is not None]
  selective = [part for part in given if part.name == AUGMENTATION]
  if not selective or selective[0].settings.allow_leaks:
    return
  held_out = selective[0].settings.transforms
  for part in given:
    leaked = [name for name in held_out if name in resembled(part)]
    if leaked:
      raise InputError(
        f'{where} trains with {part.name!r} on all classes, which resembles {leaked[0]!r}: that '
        'is held out for the classes of other groups, so that ρ would measure nothing. Leave '
        f'{part.name!r} out, or set {where}.augment.{AUGMENTATION}.allow_leaks=True if the leak '
        'is meant.'
      )
