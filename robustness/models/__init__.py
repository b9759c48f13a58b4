"""Classifiers: architectures in Linen, weights, and the one interface that studies see."""
