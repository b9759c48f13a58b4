"""From records to the table of results: NumPy, SciPy and pandas only, without an accelerator."""

from robustness.estimates.corruption_error import corruption_errors as corruption_errors
from robustness.estimates.corruption_error import mean_corruption_error as mean_corruption_error
from robustness.estimates.corruption_error import (
  relative_mean_corruption_error as relative_mean_corruption_error,
)
