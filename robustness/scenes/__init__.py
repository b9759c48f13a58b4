"""Scenes: a cut-out object pasted on a background, at a size, an angle and a place (SI-Score).

Pure functions on JAX arrays, `robustness.scenes.compose.compose` and
`robustness.scenes.geometry.fraction_inside`, for the study `si_score` and for data sets of scenes.
"""
