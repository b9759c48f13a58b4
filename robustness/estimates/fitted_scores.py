"""Scores of images in distribution by name, and those that are fitted to features and logits.

`robustness.estimates.out_of_distribution` has the formulas. The network itself is not needed: its
last layer, z = Wf + b, is solved for from recorded features f and logits z.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg, special

from robustness.core.errors import KEYS, InputError
from robustness.core.settings import require
from robustness.core.user_code import is_reference, load, part_name
from robustness.estimates import out_of_distribution as ood
from robustness.estimates.out_of_distribution import ENERGY, MAX_LOGIT, MSP, score_of_logits

_IMAGES_PER_FEATURE = 8
"""Images per feature that the last layer is solved from; few suffice, as it is exact up to
rounding.
"""
_ROUNDING = 0.01
"""Largest error of the solved logits, as a share of their standard deviation. It is enough for
logits in TensorFloat-32.
"""


class Recording(NamedTuple):
  """The recorded outputs of a network for N images, with the labels of the images.

  Attributes:
    logits: [N, K].
    features: [N, D], the inputs of the last layer.
    labels: int [N], or [N, L] if an image has several labels.
  """

  logits: np.ndarray
  features: np.ndarray
  labels: np.ndarray


Score = Callable[[Recording], np.ndarray]
"""A function of the records of N images that returns their scores, [N]."""


def mahalanobis_score(bank: Recording, is_relative: bool) -> Score:
  """Returns the out-of-distribution score 'mds' or 'rmds' as a function of recorded outputs.

  'mds' is minus the squared Mahalanobis distance to the nearest class mean. 'rmds' adds the squared
  distance to the mean of all images. The function takes a `Recording` of N images and returns [N].

  Args:
    bank: recorded outputs for training images, to compute means and covariances.
    is_relative: whether to return 'rmds'.

  Raises:
    InputError: the images have several labels each, or features are equal within each class.
  """
  if bank.labels.ndim > 1:
    raise InputError("'mds' and 'rmds' are fitted to classes, but images have several labels each.")
  features = np.asarray(bank.features, float)
  classes, label = np.unique(bank.labels, return_inverse=True)
  means = np.stack([features[label == c].mean(0) for c in range(len(classes))])
  centre = features.mean(0)
  # The squared norm of a deviation times such a matrix is its squared Mahalanobis distance.
  whiten_within, whiten_overall = _whitening(features - means[label]), _whitening(features - centre)
  if not whiten_within.size:
    raise InputError(
      f"'mds' and 'rmds' need classes whose features differ between images: {len(label)} images of "
      f'config.bank are of {len(classes)} classes. Record more images.'
    )
  white_means = (means - centre) @ whiten_within

  def score(images: Recording) -> np.ndarray:
    """Returns minus the smallest squared Mahalanobis distance to a class mean, [N].

    If `is_relative`, the squared distance to the overall mean `centre` is added. The squared
    distance between two features is the squared norm of their difference times a whitening matrix,
    `whiten_within` for class means and `whiten_overall` for the overall mean.

    Args:
      images: recorded outputs of N images, of which the features [N, F] are used.
    """
    deviations = np.asarray(images.features, float) - centre
    x = deviations @ whiten_within
    # min over classes of ‖x − m‖² = ‖x‖² − max (2 x·m − ‖m‖²) for the whitened class means m.
    distance = (x**2).sum(1) - (2 * x @ white_means.T - (white_means**2).sum(1)).max(1)
    added = ((deviations @ whiten_overall) ** 2).sum(1) if is_relative else 0.0
    return np.asarray(added - distance)

  return score


def _whitening(deviations: np.ndarray) -> np.ndarray:
  """Returns a matrix A [D, r] that maps deviations to uncorrelated numbers of variance 1.

  AAᵀ is the pseudo-inverse of the covariance of the deviations, which has the rank r.

  Args:
    deviations: deviations of N images from their mean, [N, D].
  """
  values, vectors = linalg.eigh(deviations.T @ deviations / len(deviations))  # ascending
  is_used = values > len(values) * np.finfo(np.float32).eps * values[-1]  # others are rounding
  return np.asarray(vectors[:, is_used] / np.sqrt(values[is_used]))


class LastLayer(NamedTuple):
  """The last linear layer of a network: logits = features @ kernel [D, K] + bias [K].

  Attributes:
    kernel: [D, K].
    bias: [K].
    error: [D + 1, D + 1]. The norm of [f, 1] @ error is the standard error of the logits of
      features f [D]. It is large in directions in which the recorded features hardly vary.
  """

  kernel: np.ndarray
  bias: np.ndarray
  error: np.ndarray

  @classmethod
  def solved(cls, bank: Recording, scored: Iterable[Recording] = ()) -> Self:
    """Recovers the last layer from recorded features and logits, by least squares.

    Only some images of `bank` and `scored` are used: every n-th, and for each feature the one with
    its largest value. Without the latter, a feature might be 0 in all of them and get no weight.

    Args:
      bank: recorded outputs for N images.
      scored: recorded outputs for the images to score, of the same network.

    Raises:
      InputError: there are not more images than features.
    """
    count, size = bank.features.shape
    if count <= size:
      raise InputError(
        f'the last layer has {size} features and is solved for from {count} images of config.bank: '
        'record more images than features.'
      )
    all_features, all_logits = [], []
    for logits, features, _ in itertools.chain([bank], scored):
      step = max(1, len(features) // (_IMAGES_PER_FEATURE * size))
      rows = np.union1d(np.arange(0, len(features), step), np.abs(features).argmax(0))
      all_features.append(np.asarray(features[rows], float))
      all_logits.append(logits[rows])
    features, logits = np.concatenate(all_features), np.concatenate(all_logits)
    with_ones = np.pad(features, ((0, 0), (0, 1)), constant_values=1)  # the bias is the last row
    solution, *_ = linalg.lstsq(with_ones, logits)
    degrees_of_freedom = max(1, logits.size - solution.size)
    # standard deviation of the recorded logits from a linear map, by rounding
    rounding = linalg.norm(with_ones @ solution - logits) / degrees_of_freedom**0.5
    # R of the QR decomposition has the singular values and directions of `with_ones`.
    _, singular, directions = linalg.svd(np.linalg.qr(with_ones, mode='r'))
    singular = np.maximum(singular, np.finfo(float).eps * singular[0])
    error = directions.T * (rounding / singular)
    return cls(kernel=solution[:-1], bias=solution[-1], error=error)

  def __call__(self, features: np.ndarray) -> np.ndarray:
    """Returns the logits [N, K] of features [N, D]."""
    return np.asarray(features @ self.kernel + self.bias)

  def energy(self, images: Recording, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Modifies the features of images and returns the energy score of the resulting logits, [N].

    The energy is log Σ exp of the logits.

    Args:
      images: recorded outputs for N images.
      change: function from features [N, D] to modified features [N, D].

    Raises:
      InputError: the recorded logits are not a linear function of the recorded features, or do not
        determine the logits of modified features.
    """
    features, tolerance = np.asarray(images.features, float), _ROUNDING * images.logits.std()
    difference = np.abs(self(features) - images.logits).max()  # self(…): the layer's logits
    if difference > tolerance:
      raise InputError(
        f'recorded logits differ by up to {difference:.3g} from a linear map of the features: '
        "'vim', 'react' and 'ash' need a network with a linear last layer."
      )
    changed = change(features)
    standard_errors = linalg.norm(changed @ self.error[:-1] + self.error[-1], axis=1)
    if 3 * standard_errors.max() > tolerance:
      raise InputError(
        f"leave 'react' and 'ash' out of {KEYS.study.scores}: recorded logits do not determine the "
        'logits of features as these scores change them, for example after layer norm (in ViT, '
        'Swin and ConvNeXt), whose outputs fulfil a linear equation that changed ones do not.'
      )
    return score_of_logits(ENERGY, self(changed))


def vim_score(layer: LastLayer, bank: Recording, directions: int) -> Score:
  """Returns the out-of-distribution score 'vim' as a function of recorded outputs.

  The score is the energy of the logits minus the scaled norm of a residual. The residual is the
  part of the features orthogonal to the D principal directions of the training features. The norm
  is scaled so that its mean over the training images equals the mean of their largest logits. The
  function takes a `Recording` of N images and returns [N].

  Args:
    layer: the last layer of the network.
    bank: recorded outputs for training images.
    directions: number D of principal directions.

  Raises:
    InputError: D is not below the number of dimensions that the features span.
  """
  size = bank.features.shape[1]
  # The origin of the features: its logits are 0, or as near as the layer allows.
  origin = -linalg.pinv(layer.kernel.T) @ layer.bias
  centred = bank.features - origin
  squares, eigenvectors = linalg.eigh(centred.T @ centred)  # in ascending order of eigenvalues
  rank = int((squares > size * np.finfo(float).eps * squares[-1]).sum())  # others are rounding
  valid = f'1 to {rank - 1}, as features span {rank} dimensions'
  require(directions < rank, str(KEYS.study.directions), directions, valid)
  residual_directions = eigenvectors[:, : size - directions]  # all but the D principal ones
  scale = bank.logits.max(1).mean() / linalg.norm(centred @ residual_directions, axis=1).mean()

  def score(images: Recording) -> np.ndarray:
    """Returns the energy of the logits minus the scaled norm of the residual, [N]."""
    energy = layer.energy(images, change=lambda features: features)  # of unchanged features
    residual = (images.features - origin) @ residual_directions
    return np.asarray(energy - scale * linalg.norm(residual, axis=1))

  return score


def react_score(layer: LastLayer, held_out: Recording, percentile: float) -> Score:
  """Returns the out-of-distribution score 'react' as a function of recorded outputs.

  The score is the energy of the logits of clipped features, min(feature, limit). The function takes
  a `Recording` of N images and returns [N].

  Args:
    layer: the last layer of the network.
    held_out: recorded outputs for held-out images, to compute the limit.
    percentile: the limit is this percentile of all features of these images, in [0, 100].
  """
  limit = np.percentile(held_out.features, percentile)
  return lambda images: layer.energy(images, lambda features: np.minimum(features, limit))


def ash_score(layer: LastLayer, percentile: float) -> Score:
  """Returns the out-of-distribution score 'ash' as a function of recorded outputs.

  The score is the energy of the logits of modified features: the n largest features of an image are
  set to (sum of all features) / n, and the others to 0. The function takes a `Recording` of N
  images and returns [N].

  Args:
    layer: the last layer of the network.
    percentile: share of the image's features that are set to 0, in percent, from 0 to below 100.

  Raises:
    InputError: the share leaves no feature.
  """
  size = len(layer.kernel)
  num_kept = size - round(size * percentile / 100)
  valid = f"at most {100 * (size - 1) // size}, as 'ash' sets all {size} features to 0"
  require(num_kept > 0, str(KEYS.study.percentile), percentile, valid)

  def shape(features: np.ndarray) -> np.ndarray:
    """Sets the largest features of each image to a common value and all others to 0, [N, D].

    `num_kept` features are kept, and the sum over the features of an image stays the same. This is
    the change of features of the out-of-distribution score ASH.

    Args:
      features: [N, D].
    """
    largest = np.argsort(-features, 1, 'stable')[:, :num_kept]  # their indices
    changed = np.zeros_like(features)
    np.put_along_axis(changed, largest, features.sum(1, keepdims=True) / num_kept, 1)
    return changed

  return lambda images: layer.energy(images, shape)


def kl_matching(held_out: Recording) -> Score:
  """Returns the out-of-distribution score 'klm' as a function of recorded outputs.

  The score is minus the smallest KL divergence of an image's probabilities from the mean
  probabilities of a class. The function takes a `Recording` of N images and returns [N].

  Args:
    held_out: recorded outputs for other images. The mean of a class is over the images predicted as
      this class. Classes without predictions are left out.
  """
  logits = np.asarray(held_out.logits, float)
  classes, predicted = np.unique(logits.argmax(1), return_inverse=True)
  p = special.softmax(logits, 1)
  # [classes that are predicted, K]; `tiny` keeps logarithms finite where probabilities round to 0
  tiny = np.finfo(float).tiny
  log_means = np.log([p[predicted == c].mean(0) + tiny for c in range(len(classes))])

  def score(images: Recording) -> np.ndarray:
    """Returns −min_q KL(p ‖ q) over the mean probabilities q, [N]."""
    log_p = special.log_softmax(np.asarray(images.logits, float), 1)
    p = np.exp(log_p)
    # −KL(p ‖ q) = Σ p log q − Σ p log p
    return np.asarray((p @ log_means.T).max(1) - (p * log_p).sum(1))

  return score


class FitData(NamedTuple):
  """The recorded outputs that a score may be fitted to.

  Attributes:
    bank: outputs for training images.
    held_out: outputs for other images of known classes; the bank if there are none.
    last_layer: function without arguments that returns the last layer of the network. It is
      computed at the first call.
  """

  bank: Recording
  held_out: Recording
  last_layer: Callable[[], LastLayer]


class OodScore(NamedTuple):
  """An out-of-distribution score of the study `ood_scores`, in `SCORES` or in a user's file.

  Attributes:
    fit: function called as `fit(study, data)` with the study and a `FitData`. It returns the
      function that scores images. A larger score means a known class.
    settings: names of the study's settings that only this score and similar scores use.
    is_fitted: whether the score needs training images. If no selected score does, `data` contains
      the outputs for the test images.
  """

  fit: Callable[[Any, FitData], Score]
  settings: tuple[str, ...] = ()
  is_fitted: bool = True


SCORES: Mapping[str, OodScore] = {
  MSP: OodScore(lambda s, d: lambda x: score_of_logits(MSP, x.logits), is_fitted=False),
  MAX_LOGIT: OodScore(lambda s, d: lambda x: score_of_logits(MAX_LOGIT, x.logits), is_fitted=False),
  ENERGY: OodScore(lambda s, d: lambda x: score_of_logits(ENERGY, x.logits), is_fitted=False),
  'gen': OodScore(
    lambda s, d: lambda x: ood.generalised_entropy(x.logits, s.exponent, s.largest),
    ('exponent', 'largest'),
    is_fitted=False,
  ),
  'knn': OodScore(
    lambda s, d: lambda x: ood.nearest_neighbours(x.features, d.bank.features, s.neighbours),
    ('neighbours',),
  ),
  'mds': OodScore(lambda s, d: mahalanobis_score(d.bank, is_relative=False)),
  'rmds': OodScore(lambda s, d: mahalanobis_score(d.bank, is_relative=True)),
  'vim': OodScore(lambda s, d: vim_score(d.last_layer(), d.bank, s.directions), ('directions',)),
  'react': OodScore(
    lambda s, d: react_score(d.last_layer(), d.held_out, s.percentile), ('percentile',)
  ),
  'ash': OodScore(lambda s, d: ash_score(d.last_layer(), s.percentile), ('percentile',)),
  'klm': OodScore(lambda s, d: kl_matching(d.held_out)),
}
"""All scores; formulas in `robustness.estimates.out_of_distribution`. In the functions, s is the
study, d a `FitData`, and x the `Recording` of the images to score.
"""


def find(name: str, key: str) -> OodScore:
  """Returns the out-of-distribution score with a name in `SCORES` or a reference FILE.py:NAME.

  Args:
    name: the name or reference.
    key: config key that holds it, for the error message.
  """
  if not is_reference(name):
    return SCORES[name]
  score = load(name, key).value
  if not isinstance(score, OodScore) or part_name(name) in SCORES:
    raise InputError(f'{key} names {name!r}, no OodScore of a new name: see docs/recipes.md.')
  return score
