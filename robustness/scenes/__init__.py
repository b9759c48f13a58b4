"""Scenes: a cut-out object pasted on a background, at a size, an angle and a place (SI-Score).

Pure functions on JAX arrays, for the study `si_score` and for data sets made of scenes.
"""

from robustness.scenes.compose import compose
from robustness.scenes.geometry import fraction_inside

__all__ = ['compose', 'fraction_inside']
