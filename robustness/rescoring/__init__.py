"""Predictions in files, or records of an earlier run, scored without a classifier."""
