"""Comparisons of classifiers on the same images.

These are paired differences and tests, the false-discovery rate of many tests, and effective
robustness: accuracy relative to a line through other classifiers.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError
from robustness.estimates.intervals import z_value

_ROUNDING = 1e-9  # largest relative rounding error of a sum of fractions


def mcnemar(b: ArrayLike, c: ArrayLike) -> np.ndarray:
  """Returns p-values of McNemar's exact two-sided test that two classifiers have the same error.

  They are min(1, 2·P(X ≤ min(b, c))) with X ~ Bin(b + c, ½), and 1 if b + c = 0.

  Args:
    b: number of images that only the first classifier has right, any shape.
    c: number of images that only the second classifier has right, a shape that broadcasts with `b`.

  Reference:
    McNemar, Note on the sampling error of the difference between correlated proportions or
    percentages, Psychometrika 12 (1947).
  """
  b, c = np.broadcast_arrays(np.asarray(b), np.asarray(c))
  if b.size and min(b.min(), c.min()) < 0:
    raise InputError('a discordant count is negative: give numbers of examples.')
  total = (b + c).astype(int)
  tail = special.bdtr(np.minimum(b, c), total, 0.5)  # P(X ≤ min(b, c))
  return np.asarray(np.minimum(1.0, 2 * tail))[()]  # a number instead of an array []


def sign_flip(differences: ArrayLike) -> np.ndarray:
  """Returns p-values [...] of an exact two-sided test of equal error on clusters of images.

  If the classifiers are equal, the difference d_k of a cluster is as likely as −d_k, independently
  of other clusters. The p-value is P(|Σ ±d_k| ≥ |Σ d_k|) with random signs; it is exact to about
  1e-12, and 1 if the sum is 0. With one image per cluster this is McNemar's exact test.

  Args:
    differences: integers d_k [K, ...]: the number of right predictions of the second classifier
      minus the number of the first, in each of K clusters.

  Reference:
    Fisher, The Design of Experiments (1935), chapter 3; the distribution of the sum is taken from
    its characteristic function Π cos(d_k·ω).
  """
  values = np.asarray(differences)
  if not np.array_equal(values, np.round(values)):
    raise InputError('the differences are not whole: give numbers of right predictions.')
  columns = values.reshape(len(values), -1)  # a column per test
  sizes = np.abs(columns).astype(int)  # |d_k|
  length = 2 * int(sizes.sum(0).max(initial=0)) + 1  # number of possible sums, from −max to max
  angle = 2 * np.pi * np.arange(length) / length
  # The characteristic function Π cos(d_k·ω), [tests, angles ω]. The m clusters of equal |d_k|
  # contribute cos(d_k·ω)^m.
  function = np.ones((sizes.shape[1], length))
  for size in np.unique(sizes[sizes > 0]):
    num_clusters = (sizes == size).sum(0)  # of each test
    function *= np.cos(size * angle) ** num_clusters[:, None]
  # Probability of each sum, in the order 0, 1, …, max, −max, …, −1 of the Fourier transform.
  probability = np.fft.fft(function).real / length
  absolute_sum = np.minimum(np.arange(length), length - np.arange(length))
  observed = np.abs(columns.sum(0))
  p_value = np.where(absolute_sum >= observed[:, None], probability, 0.0).sum(1)
  # [()] makes a number of an array [].
  return np.where(observed == 0, 1.0, np.clip(p_value, 0, 1)).reshape(values.shape[1:])[()]


def benjamini_hochberg(p: ArrayLike, rate: float) -> np.ndarray:
  """Returns whether each p-value is significant at a false-discovery rate, bool of the same shape.

  All p-values are judged together: the expected share of false discoveries among the significant
  ones is at most `rate`. With p₍₁₎ ≤ … ≤ p₍ₘ₎, the significant tests are those up to the last i
  with p₍ᵢ₎·m/i ≤ rate. This is proven for independent tests and under a condition of positive
  dependence. Two-sided tests on the same images in several views (ways of perturbing images) are
  not known to meet it; docs/intervals.md has the rate in simulations of such tests.

  Args:
    p: p-values, in [0, 1], any shape.
    rate: the false-discovery rate, in (0, 1).

  Raises:
    InputError: a p-value is NaN or outside [0, 1], or `rate` is out of range.

  Reference:
    Benjamini & Hochberg, Controlling the false discovery rate, J. R. Stat. Soc. B 57 (1995);
    Benjamini & Yekutieli, The control of the false discovery rate in multiple testing under
    dependency, Ann. Statist. 29 (2001).
  """
  values = np.asarray(p, float)
  if not 0 < rate < 1:
    raise InputError(f'rate = {rate!r} is not in (0, 1): give for example 0.05.')
  if not np.all((values >= 0) & (values <= 1)):
    raise InputError('a p-value is NaN or outside [0, 1]: give probabilities.')
  adjusted = scipy.stats.false_discovery_control(values, axis=None)  # the least p_(j)·m/j, j ≥ i
  return np.reshape(adjusted <= rate, values.shape)


def paired_difference(
  b: ArrayLike, c: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the difference in error, second minus first, with Bonett and Price's interval.

  The difference is (b − c)/n. With p₁ = (b + 1)/(n + 2) and p₂ = (c + 1)/(n + 2), the interval is
  p₁ − p₂ ± z·√((p₁ + p₂ − (p₁ − p₂)²)/(n + 2)), cut to [−1, 1], where z is the normal quantile at
  `confidence`.

  Args:
    b: number of images that only the first classifier has right, any shape.
    c: number of images that only the second classifier has right.
    n: number of images, at least b + c; where it is 0 the result is NaN.
    confidence: confidence of the interval, in (0, 1).

  Returns:
    (difference, low, high), fractions of the broadcast shape.

  Reference:
    Bonett & Price, Adjusted Wald confidence interval for a difference of binomial proportions based
    on paired data, J. Educ. Behav. Stat. 37 (2012).
  """
  b, c, n = np.broadcast_arrays(*(np.asarray(value, float) for value in (b, c, n)))
  if np.any(b + c > n * (1 + _ROUNDING)) or np.any((b < 0) | (c < 0)):
    raise InputError('discordant counts b and c must be >= 0 with b + c <= n.')
  size = np.where(n > 0, n, np.nan)
  p1, p2 = (b + 1) / (size + 2), (c + 1) / (size + 2)
  half = z_value(confidence) * np.sqrt((p1 + p2 - (p1 - p2) ** 2) / (size + 2))
  low, high = np.clip(p1 - p2 - half, -1, 1), np.clip(p1 - p2 + half, -1, 1)
  return ((b - c) / size)[()], low[()], high[()]  # numbers instead of arrays []


def effective_robustness(references: ArrayLike, shifted: ArrayLike, n: int) -> np.ndarray:
  """Returns the effective robustness ρ of each model relative to all other models, [..., M].

  On the logit scale, accuracies under shift are about linear in reference accuracies. The plane
  shifted = β(reference_1, ..., reference_R), a line if R = 1, is fitted by least squares to the
  other models. ρ = shifted − β(references) is the model's accuracy minus the accuracy that the
  plane predicts, as a fraction. Networks with other training data are above the line of a single
  reference set (Shi et al. 2023).

  An accuracy of 0 or 1 has no logit and is moved by half an image, 1/(2n). ρ is NaN if the
  reference accuracies of the other models do not define a plane: they are equal, or for R > 1
  collinear.

  Args:
    references: accuracies of M models on R reference sets, in [0, 1], [..., M, R].
    shifted: accuracies of the models under the shift, in [0, 1], [..., M].
    n: number of images in the smallest set.

  Raises:
    InputError: there are fewer than R + 3 models; a plane would fit R + 1 other models exactly.

  Reference:
    Taori et al. (2020), Measuring robustness to natural distribution shifts, section 2 and
    appendix; Shi et al. (2023), Effective robustness against natural distribution shifts for models
    with different training data, section 3.
  """
  x, y = np.asarray(references, float), np.asarray(shifted, float)
  num_models, num_references = x.shape[-2:]
  if num_models < fewest_models(num_references):
    sets = f'{num_references} reference set{"s" * (num_references > 1)}'
    raise InputError(
      f'effective robustness given {sets} needs at least {fewest_models(num_references)} models, '
      f'not {num_models}.'
    )
  logit_x = special.logit(np.clip(x, 0.5 / n, 1 - 0.5 / n))
  logit_y = special.logit(np.clip(y, 0.5 / n, 1 - 0.5 / n))
  design = np.concatenate([np.ones_like(logit_x[..., :1]), logit_x], -1)  # with an intercept
  expected = []
  for model in range(num_models):
    other_models = np.delete(np.arange(num_models), model)
    points = design[..., other_models, :]
    # The plane's coefficients by least squares, [..., 1 + R, 1], and its height at this model,
    # [..., 1, 1].
    plane = np.linalg.pinv(points) @ logit_y[..., other_models, None]
    height = design[..., [model], :] @ plane
    value = special.expit(height[..., 0, 0])
    is_plane_defined = np.linalg.matrix_rank(points) == num_references + 1
    expected.append(np.where(is_plane_defined, value, np.nan))
  return np.asarray(y - np.stack(expected, -1))


def fewest_models(references: int) -> int:
  """Returns the fewest models for which `effective_robustness` is defined, R + 3.

  Each model is compared with a plane through all other models. A plane through only R + 1 models
  would fit them exactly.

  Args:
    references: the number R of reference sets.
  """
  return references + 3
