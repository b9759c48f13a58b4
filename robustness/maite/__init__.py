"""Classifiers, data sets and corruptions as objects with MAITE's protocols, for its `evaluate`.

The protocols are for image classification, from MAITE 0.10 (Modular AI Trustworthy Engineering):
lists of images (C, H, W), of one-hot targets (classes,) and of metadata with an `id`. They leave
the range of pixels open; here images are uint8, or floats in [0, 1]. They are structural, so that
nothing is imported from `maite`. Its models and data sets are taken by `robustness.measure`.
"""
