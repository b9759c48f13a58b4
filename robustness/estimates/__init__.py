"""From records to the table of results: NumPy, SciPy and pandas only, without an accelerator."""

from robustness.estimates.comparison import Discoveries as Discoveries
from robustness.estimates.comparison import benjamini_hochberg as benjamini_hochberg
from robustness.estimates.comparison import discordant as discordant
from robustness.estimates.comparison import mcnemar as mcnemar
from robustness.estimates.comparison import paired_difference as paired_difference
from robustness.estimates.corruption_error import corruption_errors as corruption_errors
from robustness.estimates.corruption_error import mean_corruption_error as mean_corruption_error
from robustness.estimates.corruption_error import (
  relative_mean_corruption_error as relative_mean_corruption_error,
)
from robustness.estimates.intervals import clopper_pearson as clopper_pearson
from robustness.estimates.intervals import korn_graubard as korn_graubard
from robustness.estimates.intervals import percentile_interval as percentile_interval
from robustness.estimates.intervals import student_interval as student_interval
from robustness.estimates.means import proportion as proportion
from robustness.estimates.spectra import energy_fraction as energy_fraction
