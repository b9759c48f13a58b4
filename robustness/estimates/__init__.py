"""From records to the table of results: NumPy, SciPy and pandas only, without an accelerator."""
