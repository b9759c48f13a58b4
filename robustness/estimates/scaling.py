"""Rescaled logits: temperature, vector and matrix scaling, fitted to held-out images.

Logits z become W z + b, with the W and b of smallest negative log-likelihood, which is convex in
both. Temperature scaling, W = 1/T and b = 0, changes no prediction; vector scaling has a diagonal W
and matrix scaling any W. Vector and matrix scaling overfit if there are many classes or predictions
are nearly separable. Therefore a penalty is added for off-diagonal elements of W, biases and the
variance of the diagonal, times a factor λ. A large λ leaves temperature scaling.

Reference:
  Guo et al., On calibration of modern neural networks, ICML 2017, section 4.2; Kull et al., Beyond
  temperature scaling, NeurIPS 2019, section 3.2, for the penalty; Platt, Probabilistic outputs for
  support vector machines, 1999, section 2.2, for the added error that guards its choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy
from scipy import special

from robustness.core.errors import InputError
from robustness.core.settings import choice

NONE, TEMPERATURE, VECTOR, MATRIX = 'none', 'temperature', 'vector', 'matrix'
"""Names of scalings; 'none' leaves the logits as they are."""
KINDS = (TEMPERATURE, VECTOR, MATRIX)
"""Names of the scalings that can be fitted."""
PENALTIES = tuple(10.0**exponent for exponent in range(3, -5, -1))
"""The penalties λ that are tried, strongest first."""
FOLDS, MANY_CLASSES = 5, 20
"""The number of parts of the images in cross-validation, and the number of classes above which a
matrix is cross-validated on the first part alone.
"""
TOLERANCE = 1.5
"""A simpler scaling is preferred if it is worse than the best one by at most this many standard
errors.
"""
LARGEST = 100.0
"""Upper bound of 1/T and of all parameters, which would diverge if all predictions are right."""
_PRECISE, _ROUGH = 1e-12, 1e-6
"""Relative changes of the loss at which a search ends: for the scaling that is returned, and for
those that cross-validation compares.
"""


@dataclasses.dataclass(frozen=True)
class Scaling:
  """A map of logits z to W z + b.

  Attributes:
    weight: W, [K, K]; for a diagonal matrix only its diagonal, [K], or a number if it is constant.
    bias: b, [K]; or 0.
  """

  weight: np.ndarray | float = 1.0
  bias: np.ndarray | float = 0.0

  def __call__(self, logits: np.ndarray) -> np.ndarray:
    """Returns the rescaled logits W z + b of logits z, [..., K]."""
    is_matrix = np.ndim(self.weight) == 2  # else the diagonal of W, [K], or a number
    scaled = logits @ np.transpose(self.weight) if is_matrix else logits * self.weight
    return np.asarray(scaled + self.bias)


def fit(kind: str, logits: np.ndarray, labels: np.ndarray, penalty: float = 0.0) -> Scaling:
  """Returns the scaling of logits, z → W z + b, with the smallest loss on held-out images.

  The loss is the mean negative log-likelihood. For vector and matrix scaling a penalty is added: λ
  times the sum of the mean squared off-diagonal element of W, the variance of its diagonal, and the
  mean squared element of b.

  Args:
    kind: the form of W and b, one of `KINDS`.
    logits: [N, K].
    labels: int [N], in 0..K − 1.
    penalty: λ. With the default 0 it is selected by cross-validation, which may select temperature
      scaling or none instead (`best_candidate`). ∞ leaves only temperature scaling.

  Raises:
    InputError: an unknown kind, no image, logits that are not finite, or a label out of range.
  """
  choice('scaling', kind, KINDS)
  z, y = np.asarray(logits, float), np.asarray(labels)
  if z.ndim != 2 or not len(z) or y.shape != z.shape[:1]:
    raise InputError(
      f'logits have shape {z.shape} and labels {y.shape}: give [N, K] and [N], N ≥ 1.'
    )
  if not np.isfinite(z).all():
    raise InputError(
      'a logit is not finite, which no scaling fits: leave classes out whose logits are.'
    )
  classes = z.shape[1]
  if y.min() < 0 or y.max() >= classes:
    raise InputError(f'labels reach from {y.min()} to {y.max()}: give 0 to {classes - 1}.')
  if kind == TEMPERATURE or np.isinf(penalty):
    return _minimise_loss(TEMPERATURE, z, y, 0.0)
  if not penalty:  # the form is selected too
    kind, penalty = best_candidate(kind, z, y)
  return Scaling() if kind == NONE else _minimise_loss(kind, z, y, penalty)


def best_candidate(kind: str, logits: np.ndarray, labels: np.ndarray) -> tuple[str, float]:
  """Selects the simplest scaling of logits that predicts held-out images well.

  Candidates in order of complexity are the logits as they are (`NONE`), temperature scaling, and
  `kind` with each of `PENALTIES`, the strongest first. Weaker penalties are not tried once the loss
  on left-out images rises. The first candidate is chosen with a loss that exceeds the best by at
  most `TOLERANCE` standard errors of their mean difference. Calibrated logits therefore stay as
  they are.

  The losses are from cross-validation over `FOLDS` parts of the images. For matrix scaling with
  more than `MANY_CLASSES` classes only the first part is left out, because a fit takes long. To the
  losses of the left-out images, one of a misclassified image is added: the mean loss that they
  would have if the class with the second largest logit were the true one. Without it, larger
  logits would always seem better if nearly all predictions are right (Platt 1999, section 2.2).

  Args:
    kind: one of `KINDS`.
    logits: [N, K].
    labels: int [N], in 0..K − 1.

  Returns:
    The kind and the penalty λ.
  """
  order = np.random.default_rng(0).permutation(len(labels))
  # With few images a part may be empty, or have the only image and leave none to fit to.
  parts = [part for part in np.array_split(order, FOLDS) if 0 < len(part) < len(labels)]
  if not parts:
    return NONE, 0.0
  if kind == MATRIX and logits.shape[1] > MANY_CLASSES:
    parts = parts[:1]
  rows_outside = [np.setdiff1d(order, part) for part in parts]  # the images of all other parts
  left_out = [(logits[part], labels[part]) for part in parts]
  fits = [_minimise_loss(TEMPERATURE, logits[rows], labels[rows], 0.0) for rows in rows_outside]
  # The losses of each candidate (kind, penalty), in order of complexity.
  candidates = {
    (NONE, 0.0): _left_out_losses([Scaling()] * len(parts), left_out),
    (TEMPERATURE, 0.0): _left_out_losses(fits, left_out),
  }
  last_mean = candidates[TEMPERATURE, 0.0].mean()
  for penalty in PENALTIES:
    # Each search begins at the scaling of the previous candidate.
    fits = [
      _minimise_loss(kind, logits[rows], labels[rows], penalty, previous, _ROUGH)
      for rows, previous in zip(rows_outside, fits, strict=True)
    ]
    losses = _left_out_losses(fits, left_out)
    if losses.mean() > last_mean:
      break
    candidates[kind, penalty], last_mean = losses, losses.mean()
  best_losses = min(candidates.values(), key=np.mean)
  near_best = []  # the candidates that are not clearly worse than the best, the simplest first
  for candidate, losses in candidates.items():
    excess = losses - best_losses
    standard_error = excess.std() / np.sqrt(len(excess))
    if excess.mean() <= TOLERANCE * standard_error:
      near_best.append(candidate)
  return near_best[0]


def _left_out_losses(
  scalings: Sequence[Scaling], left_out: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
  """Returns the losses in nats of all n left-out images and of one simulated error, [n + 1].

  Args:
    scalings: a scaling for each part of the images, fitted to all other parts.
    left_out: logits and labels of each part.
  """
  scaled = [scaling(logits) for scaling, (logits, _) in zip(scalings, left_out, strict=True)]
  z, true_class = np.concatenate(scaled), np.concatenate([labels for _, labels in left_out])
  # The simulated error has the mean loss of all images if the class with the second largest logit
  # were true. With one class there is no error.
  second_class = z.argsort(1)[:, -2] if z.shape[1] > 1 else true_class
  loss_of_error = negative_log_likelihood(z, second_class).mean()
  return np.append(negative_log_likelihood(z, true_class), loss_of_error)


def _minimise_loss(
  kind: str,
  z: np.ndarray,
  y: np.ndarray,
  penalty: float,
  start: Scaling | None = None,
  tolerance: float = _PRECISE,
) -> Scaling:
  """Returns the scaling of logits with the smallest penalised negative log-likelihood.

  Args:
    kind: one of `KINDS`.
    z: logits, [N, K].
    y: labels, int [N].
    penalty: λ, the factor of a penalty on W and b (see `fit`); not used for temperature scaling.
    start: scaling at which the search starts; None is temperature scaling, which is near the
      minimum for a strong penalty.
    tolerance: relative change of the loss at which the search ends.
  """
  classes = z.shape[1]
  target = np.eye(classes)[y]  # one-hot, [N, K]
  # The parameters, weights followed by biases, at which the search starts, and their scales.
  if kind == TEMPERATURE:
    parameters, scale = np.ones(1), np.ones(1)
  else:
    start = start or _minimise_loss(TEMPERATURE, z, y, 0.0)
    identity = np.eye(classes) if kind == MATRIX else np.ones(classes)  # [K, K], or its diagonal
    weight = np.asarray(start.weight)
    if weight.ndim == 0:  # of temperature scaling, a multiple of the identity
      weight = weight * identity
    parameters = np.concatenate([weight.ravel(), np.broadcast_to(start.bias, classes)])
    scale = _scales_of_parameters(identity > 0, z, penalty)

  def scaling(scaled_parameters: np.ndarray) -> Scaling:
    """Converts the optimizer's vector of parameters to a scaling of logits.

    Args:
      scaled_parameters: the parameters divided by `scale`: weights, [K, K] or [K] as a vector, then
        K biases. Temperature scaling has a single weight.
    """
    parameters = scaled_parameters * scale
    if kind == TEMPERATURE:
      return Scaling(float(parameters[0]))
    return Scaling(parameters[:-classes].reshape(identity.shape), parameters[-classes:])

  def loss(scaled_parameters: np.ndarray) -> tuple[float, np.ndarray]:
    """Computes the penalised negative log-likelihood and its gradient, for the optimizer.

    z are the logits, [N, K], and `target` the one-hot labels, [N, K].

    Args:
      scaled_parameters: parameters of the scaling divided by `scale`; the gradient is with respect
        to them.
    """
    current = scaling(scaled_parameters)
    log_p = special.log_softmax(current(z), 1)
    value = -(log_p * target).sum() / len(z)
    # Derivatives of the loss by the rescaled logits, [N, K], and by the weights.
    d_logits = (np.exp(log_p) - target) / len(z)
    d_weight = d_logits.T @ z if kind == MATRIX else (d_logits * z).sum(0)
    if kind == TEMPERATURE:  # all logits share one weight
      return float(value), d_weight.sum(keepdims=True)
    value, d_weight, d_bias = _with_penalty(value, d_weight, d_logits.sum(0), current, penalty)
    return float(value), np.concatenate([d_weight.ravel(), d_bias]) * scale

  # The weight of temperature scaling is 1 / temperature, which is above 0.
  smallest = 1 / LARGEST if kind == TEMPERATURE else -LARGEST
  bounds = [(smallest, LARGEST)] * len(parameters)
  options = {'maxiter': 2000, 'maxfun': 4000, 'ftol': tolerance, 'gtol': 1e-8}
  minimum = scipy.optimize.minimize(
    loss, parameters / scale, jac=True, bounds=bounds, method='L-BFGS-B', options=options
  )
  return scaling(minimum.x)


def _with_penalty(
  loss: float, d_weight: np.ndarray, d_bias: np.ndarray, scaling: Scaling, penalty: float
) -> tuple[float, np.ndarray, np.ndarray]:
  """Adds the penalty of `fit` to the loss of a scaling W z + b and to the loss's derivatives.

  Args:
    loss: the loss without the penalty.
    d_weight: derivatives by W, [K, K], or by the diagonal of W, [K].
    d_bias: derivatives by b, [K].
    scaling: W and b; W has the shape of `d_weight`.
    penalty: λ.

  Returns:
    The loss and its derivatives by W and b.
  """
  weight, bias = np.asarray(scaling.weight), np.asarray(scaling.bias)
  classes, is_matrix = len(bias), weight.ndim == 2
  # The variance of the diagonal and the mean squared bias.
  diagonal = np.diag(weight) if is_matrix else weight
  spread = diagonal - diagonal.mean()
  loss += penalty * (np.mean(spread**2) + np.mean(bias**2))
  d_bias = d_bias + 2 * penalty * bias / classes
  d_diagonal = 2 * penalty * spread / classes
  if not is_matrix:
    return loss, d_weight + d_diagonal, d_bias
  # The mean squared off-diagonal element.
  off_diagonal = weight * (1 - np.eye(classes))
  num_off_diagonal = max(classes * (classes - 1), 1)
  loss += penalty * (off_diagonal**2).sum() / num_off_diagonal
  d_off_diagonal = 2 * penalty * off_diagonal / num_off_diagonal
  return loss, d_weight + d_off_diagonal + np.diag(d_diagonal), d_bias


def _scales_of_parameters(is_diagonal: np.ndarray, z: np.ndarray, penalty: float) -> np.ndarray:
  """Returns a scale for each parameter of a scaling: W row by row, followed by K biases.

  The search for the smallest loss runs over parameters divided by their scales. A scale is about
  1/√curvature of the loss, so that the loss changes equally fast with all divided parameters.

  Args:
    is_diagonal: bool [K, K], true at the diagonal elements of W; [K] if W is diagonal.
    z: logits, [N, K].
    penalty: λ.
  """
  classes = len(is_diagonal)
  # The penalty has a mean over the K diagonal elements and a mean over the K (K − 1) others: an
  # off-diagonal element adds less to its mean, by the factor K − 1.
  divisor = np.where(is_diagonal, 1, max(classes - 1, 1))
  curvature = 2 * penalty / divisor + (z**2).mean()
  return np.concatenate([curvature.ravel(), np.full(classes, 2 * penalty + 1)]) ** -0.5


def negative_log_likelihood(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns −log softmax(z)_y in nats, [...], of logits [..., K] and labels int [...]."""
  of_label = np.take_along_axis(logits, np.asarray(labels)[..., None], -1)[..., 0]
  return np.asarray(special.logsumexp(logits, -1) - of_label)
