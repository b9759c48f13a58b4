"""Scores that separate images of known classes from other images, and measures of separation.

A score is large for images in distribution (ID) and small for images out of distribution (OOD).
With features f before the last layer, logits z = Wf + b and probabilities p = softmax(z):

  'msp'        max p                                               (Hendrycks & Gimpel 2017)
  'max_logit'  max z                                               (Hendrycks et al. 2022)
  'energy'     E(z) = log Σ exp z, temperature 1                   (Liu et al. 2020)
  'gen'        −Σ (p (1 − p))^γ over the M largest p               (Liu et al. 2023)
  'knn'        minus the distance of f/‖f‖ to the K-th nearest of training images
                                                                   (Sun et al. 2022)
  'mds'        max_c −(f − μ_c)ᵀ Σ⁻¹ (f − μ_c), μ_c class means    (Lee et al. 2018)
  'rmds'       'mds' + (f − μ)ᵀ Σ₀⁻¹ (f − μ), over all classes     (Ren et al. 2021)
  'vim'        E(z) − α ‖P(f + W⁺b)‖, P the projection that removes D principal directions,
               α = mean max z / mean ‖P(f + W⁺b)‖                  (Wang et al. 2022)
  'react'      E of the logits of min(f, t), t a percentile of f   (Sun et al. 2021)
  'ash'        E of the logits of f, its largest entries set to Σ f / their number, the others to 0
                                                                   (Djurisic et al. 2023, ASH-B)
  'klm'        −min_c KL(p ‖ mean p of images predicted as c)      (Hendrycks et al. 2022)

Three measures say how well a score separates the two:

* AUROC is the probability that an ID image scores higher than an OOD image; ties count ½.
* AUPR is the average precision: the sum over thresholds of the gain in recall times the precision,
  with ID and OOD images in their actual proportion. It depends on which images are the positives.
* FPR95 is the false-positive rate at a recall of 95 %. With OOD images as positives it is the share
  of ID images that are flagged at the threshold that flags 95 % of the OOD images (OpenOOD 1.5).
  With ID images as positives it is the share of OOD images that are accepted at the threshold that
  accepts 95 % of the ID images (most papers before).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy import special

from robustness.core.errors import InputError
from robustness.core.settings import choice, require
from robustness.estimates.intervals import BAYESIAN, percentile_interval
from robustness.estimates.jackknife import FEWEST, effective_units, too_few
from robustness.estimates.means import Estimate

MSP, MAX_LOGIT, ENERGY = 'msp', 'max_logit', 'energy'
"""Names of the scores that `score_of_logits` computes."""
POSITIVES = ('ood', 'id')
"""The images that are positives in AUPR and FPR95: out of or in distribution."""
RECALL = 0.95
"""The recall at which FPR95 is taken."""
_MAX_DISTANCES_PER_BATCH = 2**24
"""Most pairwise distances in memory at once, 128 MiB."""
_RESAMPLES, _RESAMPLES_PER_BATCH = 1000, 100
"""Numbers of bootstrap samples of an interval, and of samples that are computed at once."""


def score_of_logits(name: str, logits: np.ndarray) -> np.ndarray:
  """Returns an out-of-distribution score of each image that needs only logits, [N].

  Args:
    name: 'msp', the largest softmax probability; 'max_logit', the largest logit; or 'energy', log Σ
      exp(logit).
    logits: [N, K].
  """
  choice('score', name, (MSP, MAX_LOGIT, ENERGY))
  z = np.asarray(logits, float)
  if name == MAX_LOGIT:
    return np.asarray(z.max(1))
  energy = special.logsumexp(z, 1)
  return np.asarray(energy if name == ENERGY else np.exp(z.max(1) - energy))


def generalised_entropy(logits: np.ndarray, exponent: float, largest: int) -> np.ndarray:
  """Returns the out-of-distribution score GEN of N images, [N] (Liu et al. 2023).

  The score is −Σ (p (1 − p))^γ over the M largest probabilities p of the image.

  Args:
    logits: [N, K].
    exponent: γ.
    largest: M.
  """
  p = np.sort(special.softmax(np.asarray(logits, float), 1), 1)[:, -largest:]  # in ascending order
  return np.asarray(-((p * (1 - p)) ** exponent).sum(1))


def nearest_neighbours(features: np.ndarray, bank: np.ndarray, neighbours: int) -> np.ndarray:
  """Returns minus the distance of N images to their K-th nearest training image, [N].

  This is the out-of-distribution score 'knn' (Sun et al. 2022). All features are scaled to length 1
  first. Features that are all 0 have no direction; their distance to any others is √2, as at a
  right angle.

  Args:
    features: features of the images, [N, D].
    bank: features of training images, [M, D].
    neighbours: K, 1 for the nearest.

  Raises:
    InputError: K is not in 1..M, or the lengths D differ.
  """
  if not 1 <= neighbours <= len(bank) or features.shape[1:] != bank.shape[1:]:
    raise InputError(
      f'K = {neighbours} neighbours among {len(bank)} features of length {bank.shape[1:]} for '
      f'features of length {features.shape[1:]}: give K from 1 to their number, and equal lengths.'
    )
  unit_features, unit_bank = _with_length_1(features), _with_length_1(bank)
  num_batches = 1 + len(unit_features) * len(unit_bank) // _MAX_DISTANCES_PER_BATCH
  position = len(unit_bank) - neighbours  # of the K-th largest product in ascending order
  batches = np.array_split(unit_features, num_batches)
  # the scalar product of each image with its K-th nearest training image
  products = [np.partition(batch @ unit_bank.T, position, 1)[:, position] for batch in batches]
  # Vectors of length 1 with the scalar product s have the distance √(2 − 2 s).
  squared_distance = np.maximum(2 - 2 * np.concatenate(products), 0)  # rounding may go below 0
  return np.asarray(-np.sqrt(squared_distance))


def _with_length_1(vectors: np.ndarray) -> np.ndarray:
  """Returns vectors [N, D] divided by their lengths; a vector of zeros stays as it is."""
  vectors = np.asarray(vectors, float)
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  return np.asarray(vectors / np.maximum(lengths, 1e-12))


class Separation:
  """Computes AUROC, AUPR and FPR95 of an out-of-distribution score, with weighted images.

  The score should be high for images in distribution (ID) and low for others (OOD). A call takes
  the weights, for example the counts of the images in bootstrap samples. The images are sorted only
  once, so that many samples are cheap.
  """

  def __init__(self, of_id: np.ndarray, of_ood: np.ndarray, positives: str = 'ood'):
    """Sorts the scores of N images in distribution (ID) and M out of distribution (OOD).

    Args:
      of_id: [N], scores of the ID images, which should be the higher ones.
      of_ood: [M], scores of the OOD images.
      positives: 'ood' or 'id', the positives of AUPR and FPR95.

    Raises:
      InputError: there are no ID or no OOD images, scores have another shape or are NaN, or
        `positives` is not 'ood' or 'id'.
    """
    choice('positives', positives, POSITIVES)
    values = np.concatenate([of_id, of_ood])
    is_valid = min(len(of_id), len(of_ood)) > 0 and values.ndim == 1 and not np.isnan(values).any()
    valid = '[N] and [M] for ID and OOD images, at least one of each, none NaN'
    require(is_valid, 'shape of the scores', (of_id.shape, of_ood.shape), valid)
    self.positives = positives
    share_of_positives = len(of_ood if positives == 'ood' else of_id) / len(values)
    self._negatives_per_positive = (1 - share_of_positives) / share_of_positives
    # Images in ascending order of scores, and the position where each distinct score begins.
    self._order = np.argsort(values, kind='stable')
    _, self._starts = np.unique(values[self._order], return_index=True)
    self._is_id = self._order < len(of_id)  # the ID images are the first of `values`

  def __call__(self, weights: np.ndarray) -> np.ndarray:
    """Returns AUROC, AUPR and FPR95 in each of B weighted samples of the images, [B, 3].

    They measure how well thresholds of the score separate in-distribution (ID) images, which should
    have high scores, from out-of-distribution (OOD) images.

    Args:
      weights: weights of the N ID images, followed by weights of the M OOD images, [B, N + M]. They
        are scaled so that the weights of ID and of OOD images have the ratio N : M in every sample.
    """
    sorted_weights = weights[:, self._order]  # in ascending order of scores
    id_share = self._shares_by_score(sorted_weights * self._is_id)
    ood_share = self._shares_by_score(sorted_weights * ~self._is_id)
    # Each ID image scores above the OOD images below it, and above half of those that tie.
    auroc = (id_share * (np.cumsum(ood_share, 1) - ood_share / 2)).sum(1)
    # A threshold flags OOD images by scores up to it, but ID images by scores from it on. Either
    # way, thresholds are in the order in which they flag more and more images.
    if self.positives == 'ood':
      positive_share, negative_share = ood_share, id_share
    else:
      positive_share, negative_share = id_share[:, ::-1], ood_share[:, ::-1]
    # The shares of positives and of negatives that each of S thresholds flags, [B, S].
    recall, false_rate = np.cumsum(positive_share, 1), np.cumsum(negative_share, 1)
    gain_in_recall = np.diff(recall, axis=1, prepend=0)
    # Flagged images of both kinds, as a multiple of the number of positives. Where none is flagged
    # there is no gain either, and the precision may be any number.
    flagged = recall + self._negatives_per_positive * false_rate
    precision = np.divide(recall, flagged, out=np.ones_like(recall), where=flagged > 0)
    aupr = (gain_in_recall * precision).sum(1)
    reaches_recall = recall >= RECALL - 1e-9  # 1e-9 for rounding
    first_threshold = reaches_recall.argmax(1)  # index of the first True, [B]
    fpr95 = np.take_along_axis(false_rate, first_threshold[:, None], 1)[:, 0]
    return np.asarray(np.clip((auroc, aupr, fpr95), 0, 1).T)  # rounding may exceed [0, 1]

  def _shares_by_score(self, weights: np.ndarray) -> np.ndarray:
    """Returns the share of the total weight at each of S distinct scores, ascending, [B, S].

    Args:
      weights: weights of the images in ascending order of scores, [B, N + M].
    """
    weight_at_score = np.add.reduceat(weights, self._starts, 1)
    return np.asarray(weight_at_score / weight_at_score.sum(1, keepdims=True))


def separations(
  of_id: np.ndarray,
  units: np.ndarray,
  sets: Mapping[str, tuple[np.ndarray, np.ndarray]],
  groups: Mapping[str, Sequence[str]] | None = None,
  positives: str = 'ood',
  confidence: float = 0.95,
  seed: int = 0,
) -> dict[str, tuple[Estimate, ...]]:
  """Returns AUROC, AUPR and FPR95 of ID images against each of several sets of OOD images.

  ID images are in distribution and should have high scores; OOD images are out of distribution.
  Intervals are percentiles of a Bayesian bootstrap over units, such as all versions of one image.
  All OOD sets are compared with the same resampled ID images. If units hold several images and
  their effective number is below `FEWEST`, there is no interval, and a note says so.

  Without further units, completely separated sets would have an interval of width 0. Each bootstrap
  sample therefore has two more ID units and two more OOD units, with a quarter of the average
  weight. One of the two has a score below all images, and one a score above.
  docs/studies/ood_scores.md has the coverage.

  Args:
    of_id: scores of the ID images, [N].
    units: ID images with equal entries are resampled together, [N].
    sets: {name of an OOD set: (scores, units)}, one entry per image of the set in both arrays.
    groups: {name: names of OOD sets} for means over several sets.
    positives: 'ood' or 'id', the images that are positives in AUPR and FPR95.
    confidence: confidence of each interval, in (0, 1).
    seed: seed of resampling.

  Returns:
    {name of a set or group: (AUROC, AUPR, FPR95)}.
  """
  added = [-np.inf, np.inf]  # scores of the added units
  values, samples = {}, {}  # the measures of each set, [3], and of its bootstrap samples, [B, 3]
  for number, (name, (of_ood, ood_units)) in enumerate(sets.items(), 1):
    equal_weights = np.ones((1, len(of_id) + len(of_ood)))
    values[name] = Separation(of_id, of_ood, positives)(equal_weights)[0]
    separation = Separation(np.append(of_id, added), np.append(of_ood, added), positives)
    # Stream 0 draws the weights of the ID images, so that they are the same for all sets.
    id_weights, ood_weights = _weights(units, seed, 0), _weights(ood_units, seed, number)
    # A generator, because the weights of all samples together may not fit into memory.
    batches = (np.hstack(batch) for batch in zip(id_weights, ood_weights, strict=True))
    samples[name] = np.concatenate([separation(weights) for weights in batches])
  estimates = {}
  # each set by itself, then the groups
  sets_of_mean: dict[str, Sequence[str]] = {**{name: [name] for name in sets}, **(groups or {})}
  for name, members in sets_of_mean.items():
    value = np.mean([values[member] for member in members], 0)
    samples_of_mean = np.mean([samples[member] for member in members], 0)
    all_units = [units, *(sets[member][1] for member in members)]
    estimates[name] = _with_intervals(value, samples_of_mean, all_units, confidence)
  return estimates


def _with_intervals(
  values: np.ndarray, samples: np.ndarray, all_units: Sequence[np.ndarray], confidence: float
) -> tuple[Estimate, ...]:
  """Returns estimates of AUROC, AUPR and FPR95 with percentiles of their bootstrap samples.

  Args:
    values: the three measures, [3].
    samples: the measures in B bootstrap samples, [B, 3].
    all_units: the unit of each image, for the images in distribution and for each set of images out
      of distribution.
    confidence: confidence of each interval, in (0, 1).
  """
  # The number of images of each unit, for the ID images and for each set.
  sizes = [np.unique(units_of_set, return_counts=True)[1] for units_of_set in all_units]
  effective = min(float(effective_units(size)) for size in sizes)
  num_images, num_units = sum(map(len, all_units)), sum(map(len, sizes))
  if num_images > num_units and effective < FEWEST:  # units hold several images
    note, low, high = too_few(effective), np.full(3, np.nan), np.full(3, np.nan)
  else:
    note, (low, high) = '', percentile_interval(samples, effective, confidence)
  # An interval contains its value. NaN stays NaN.
  lines = np.stack([values, np.minimum(low, values), np.maximum(high, values)], 1).tolist()
  return tuple(
    Estimate(value, low, high, num_images, num_units, BAYESIAN, note=note)
    for value, low, high in lines
  )


def _weights(units: np.ndarray, seed: int, stream: int) -> Iterator[np.ndarray]:
  """Yields weights of N images and two added images in Bayesian bootstrap samples.

  Images of a unit share one random weight, from the gamma distribution of shape 1. The last two
  columns are images that `separations` adds to the N, so that intervals do not vanish for a perfect
  separation; each is a unit. Their weights are from the gamma distribution of shape ¼, times the
  average number of images in a unit. Weights do not sum to 1.

  Args:
    units: images with equal entries are one unit, [N].
    seed: seed of resampling.
    stream: number of the set of images. Each number has independent weights.

  Yields:
    Batches of weights, [samples, N + 2].
  """
  _, unit_of_image, sizes = np.unique(units, return_inverse=True, return_counts=True)
  num_units, generator = len(sizes), np.random.default_rng((seed, stream))
  unit_of_column = np.append(unit_of_image, [num_units, num_units + 1])
  # Shapes and scales of the gamma distributions of the units, followed by the two added units.
  shapes = np.repeat([1, 0.25], [num_units, 2])
  scales = np.repeat([1, sizes.mean()], [num_units, 2])
  for _ in range(_RESAMPLES // _RESAMPLES_PER_BATCH):
    weight_of_unit = generator.gamma(shapes, scales, (_RESAMPLES_PER_BATCH, len(shapes)))
    yield weight_of_unit[:, unit_of_column]
