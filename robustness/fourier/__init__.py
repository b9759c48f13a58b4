"""Fourier perturbations of images."""
