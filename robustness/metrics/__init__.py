"""Numbers from records: NumPy and SciPy only, so no accelerator is needed to recompute one."""

from robustness.metrics.accuracy import average as average
from robustness.metrics.accuracy import proportion as proportion
from robustness.metrics.accuracy import top_k_accuracy as top_k_accuracy
from robustness.metrics.accuracy import top_k_correct as top_k_correct
from robustness.metrics.accuracy import top_k_error as top_k_error
from robustness.metrics.comparison import Comparison as Comparison
from robustness.metrics.comparison import Discoveries as Discoveries
from robustness.metrics.comparison import benjamini_hochberg as benjamini_hochberg
from robustness.metrics.comparison import compare as compare
from robustness.metrics.comparison import discordant as discordant
from robustness.metrics.comparison import mcnemar as mcnemar
from robustness.metrics.comparison import paired_difference as paired_difference
from robustness.metrics.fourier import RadialCurve as RadialCurve
from robustness.metrics.fourier import bands as bands
from robustness.metrics.fourier import clustered_proportion as clustered_proportion
from robustness.metrics.fourier import radial_curve as radial_curve
from robustness.metrics.fourier import radial_mean as radial_mean
from robustness.metrics.fourier import radius as radius
from robustness.metrics.fourier import ring_masks as ring_masks
from robustness.metrics.fourier import share_proportion as share_proportion
from robustness.metrics.intervals import clopper_pearson as clopper_pearson
from robustness.metrics.intervals import korn_graubard as korn_graubard
from robustness.metrics.intervals import mean_interval as mean_interval
