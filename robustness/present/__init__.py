"""Presentation of the table of results: numbers, sentences, figures, and tables to copy.

Every function reads the table (`robustness.estimates.table`) and the declarations of its quantities
(`robustness.estimates.quantity`).
"""
