"""Measures and improves how robust image classifiers are: rows × views → records."""

__version__ = '0.1.0'
