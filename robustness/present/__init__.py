"""From the table of results to what people see: numbers, sentences, pictures, tables to copy.

Everything here is a query of the table (`robustness.estimates.table`) and the declaration of its
quantities (`robustness.estimates.quantity`).
"""
