"""Scenes of SI-Score: `compose` pastes a cut-out object on a background."""

from typing import TYPE_CHECKING

from robustness.core import lazy

if TYPE_CHECKING:
  from robustness.scenes.composition import compose

__all__ = ['compose']
__getattr__ = lazy.attributes(__name__, {'compose': 'composition'})
