"""Benchmarks: each file prints one table of ratios, all measured in one run."""
