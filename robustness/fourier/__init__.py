"""Fourier analysis of images and of robustness; `perturb` adds a Fourier basis image."""

from typing import TYPE_CHECKING

from robustness.core import lazy

if TYPE_CHECKING:
  from robustness.fourier.basis import perturb

__all__ = ['perturb']
__getattr__ = lazy.attributes(__name__, {'perturb': 'basis'})
