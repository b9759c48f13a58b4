"""Estimates and tables of results from records, by NumPy, SciPy and pandas only."""
