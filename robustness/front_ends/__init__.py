"""Front ends: what a classifier does to its images before normalisation, one module each.

A module has `Settings` and `front_end(images, settings) -> images`, pure JAX on [B, H, W, C]. It is
part of the classifier: training and evaluation share it, and attacks see through it.
"""
