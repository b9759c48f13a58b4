"""Random changes of training images: pure JAX, one image at a time, decided by its key alone."""

from __future__ import annotations

from robustness.augment.settings import AugmentSettings, apply

__all__ = ['AugmentSettings', 'apply']
