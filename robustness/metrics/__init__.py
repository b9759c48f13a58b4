"""Numbers from records: NumPy and SciPy only, so no accelerator is needed to recompute one."""

from robustness.estimates.comparison import Discoveries as Discoveries
from robustness.estimates.comparison import benjamini_hochberg as benjamini_hochberg
from robustness.estimates.comparison import discordant as discordant
from robustness.estimates.comparison import mcnemar as mcnemar
from robustness.estimates.comparison import paired_difference as paired_difference
from robustness.estimates.intervals import clopper_pearson as clopper_pearson
from robustness.estimates.intervals import korn_graubard as korn_graubard
from robustness.estimates.intervals import percentile_interval as percentile_interval
from robustness.estimates.intervals import student_interval as student_interval
from robustness.metrics.accuracy import average as average
from robustness.metrics.accuracy import proportion as proportion
from robustness.metrics.corruption_error import corruption_errors as corruption_errors
from robustness.metrics.corruption_error import mean_corruption_error as mean_corruption_error
from robustness.metrics.corruption_error import (
  relative_mean_corruption_error as relative_mean_corruption_error,
)
from robustness.metrics.spectra import energy_fraction as energy_fraction
