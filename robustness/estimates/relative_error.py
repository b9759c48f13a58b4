"""The error of a group of images relative to that on all images, such as those of one site.

With e the error in the group, r that on the rest and π the share of images in the group, the ratio
is e / (π e + (1 − π) r). It is at most 1/π, which an interval from a ratio's logarithm may exceed.

Reference for the ratio: Idrissi et al. (2023), ImageNet-X: understanding model mistakes with factor
of variation annotations, section 3.
"""

from collections.abc import Sequence

import numpy as np

from robustness.estimates.intervals import JACKKNIFE
from robustness.estimates.jackknife import FEWEST, drawn_shares, effective_units, too_few
from robustness.estimates.means import Estimate
from robustness.estimates.of_means import Units

NO_ERROR = 'undefined: no error on all images'


def relative_errors(units: Sequence[Units], confidence: float = 0.95) -> list[Estimate]:
  """Returns the error in each group but the last relative to that in the last, which holds all.

  Intervals are quantiles of joint draws of e, r and π; see `jackknife.drawn_shares`. A group
  without an error has one. Where units hold several images and those of the group or of the rest
  come from fewer than three effective units, there is none.

  Args:
    units: wrong and all images by group, of one classifier; or of two, for the difference of
      their ratios, second minus first.
    confidence: of each interval, in (0, 1).
  """
  weight = units[0].weight
  count, groups = weight.shape
  n = int(weight[:, -1].sum())
  estimates = []
  for group in range(groups - 1):
    inside = weight[:, group]
    sides = _sides(weight, group)
    wrong = [
      np.stack([of.total[:, group], of.total[:, -1] - of.total[:, group]], 1) for of in units
    ]
    images = np.maximum(sides.sum(0), 1)
    value = float(_ratio([each.sum(0) / images for each in wrong], inside.sum() / n))
    effective = effective_units(sides).min() if (sides > 1).any() else float(count)
    note = NO_ERROR if np.isnan(value) else too_few(effective) if effective < FEWEST else ''
    low, high = np.nan, np.nan
    if not note:
      total = np.column_stack([*wrong, inside])
      sizes = np.column_stack([*[sides] * len(wrong), weight[:, -1]])
      *errors, share = np.split(
        drawn_shares(total, sizes, effective, confidence), [2 * k + 2 for k in range(len(wrong))], 1
      )
      tail = (1 - confidence) / 2
      ends = np.quantile(_ratio([each.T for each in errors], share[:, 0]), (tail, 1 - tail))
      low, high = min(float(ends[0]), value), max(float(ends[1]), value)
    estimates.append(Estimate(value, low, high, n, count, JACKKNIFE, note=note))
  return estimates


def _sides(columns: np.ndarray, group: int) -> np.ndarray:
  """Returns the columns of a group and of the rest, [K, 2], of [K, G] with all in the last."""
  return np.stack([columns[:, group], columns[:, -1] - columns[:, group]], 1)


def _ratio(errors: Sequence[np.ndarray], share: np.ndarray | float) -> np.ndarray:
  """Returns e / (π e + (1 − π) r) of errors (e, r) and π, of two classifiers its difference."""
  ratios = []
  for inside, outside in errors:
    overall = share * inside + (1 - share) * outside
    ratios.append(inside / np.where(overall > 0, overall, np.nan))
  return np.asarray(ratios[-1] - ratios[0] if len(ratios) > 1 else ratios[0])
