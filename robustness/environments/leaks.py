"""Leak guards: nothing in a recipe may show the held-out classes what they are tested on.

A module of `robustness.augment`, `robustness.attacks` or `robustness.front_ends` says which
transforms its images resemble: `RESEMBLES`, names of `robustness.environments.transforms`, or where
that depends on its settings `resembles(settings)`. An augmentation that mixes a row with another
(`NEEDS_PARTNER`) shows every environment with labels of the classes that it is held out from.
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


def refuse_leaks(parts: Iterable[Part | None], where: str, stored: bool = False) -> None:
  """Raises InputError if one part shows held-out classes what another holds out from them.

  Args:
    parts: augmentations, attack and front end of one recipe.
    where: the classifier's section in messages, for example 'config.classifier'.
    stored: whether the rows are the permitted cells of stored environments.
  """
  given = [part for part in parts if part is not None]
  selective = [part for part in given if part.name == AUGMENTATION]
  if selective and selective[0].settings.allow_leaks:
    return
  held_out = selective[0].settings.transforms if selective else ()
  for part in given:
    leaked = [name for name in held_out if name in resembled(part)]
    reason = ''
    if leaked:
      reason = (
        f'on all classes, which resembles {leaked[0]!r}: that is held out for the classes of other '
        'groups'
      )
    elif (selective or stored) and getattr(part.module, 'NEEDS_PARTNER', False):
      reason = (
        'across environments, which joins images of one with labels of classes that it is held out '
        'from'
      )
    if reason:
      raise InputError(
        f'{where} trains with {part.name!r} {reason}, so that ρ would measure nothing. Leave '
        f'{part.name!r} out, or set {where}.augment.{AUGMENTATION}.allow_leaks=True if the leak '
        'is meant.'
      )
