"""Presentation of the table of results: numbers, sentences, pictures, tables to copy.

Every function queries the table (`robustness.estimates.table`) and the declaration of its
quantities (`robustness.estimates.quantity`).
"""
