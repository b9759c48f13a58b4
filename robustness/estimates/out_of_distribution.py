r"""Scores that separate images of known classes from other images, and measures of separation.

A score is large for images in distribution (ID). With features f, logits z = Wf + b and softmax p:

  'msp'        max p                                               (Hendrycks & Gimpel 2017)
  'max_logit'  max z                                               (Hendrycks et al. 2022)
  'energy'     E(z) = log Σ exp z, temperature 1                   (Liu et al. 2020)
  'gen'        −Σ (p (1 − p))^γ over the M largest p               (Liu et al. 2023)
  'knn'        minus the distance of f/‖f‖ to the K-th nearest of training images
                                                                   (Sun et al. 2022)
  'mds'        max_c −(f − μ_c)ᵀ Σ⁻¹ (f − μ_c), μ_c class means    (Lee et al. 2018)
  'rmds'       'mds' + (f − μ)ᵀ Σ₀⁻¹ (f − μ), over all classes     (Ren et al. 2021)
  'vim'        E(z) − α ‖P(f + W⁺b)‖, P without D directions, α = mean max z / mean ‖P(f + W⁺b)‖
                                                                   (Wang et al. 2022)
  'react'      E of the logits of min(f, t), t a percentile of f   (Sun et al. 2021)
  'ash'        E of the logits of f, its largest entries set to Σ f / their number, the others to 0
                                                                   (Djurisic et al. 2023, ASH-B)
  'klm'        −min_c KL(p ‖ mean p of images predicted as c)      (Hendrycks et al. 2022)

AUROC is the probability that an ID image scores higher than one out of distribution (OOD), ties
counting ½. AUPR and FPR95 depend on which are the positives. AUPR is the average precision: the sum
over thresholds of the gain in recall times the precision, at the shares of either kind among the
images. FPR95: with OOD images as positives it is the share
of ID images that are flagged at the threshold that flags 95 % of the OOD images (OpenOOD 1.5); with
ID images as positives the share of OOD images that are accepted where 95 % of ID images are (most
papers before).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy import special

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.estimates.intervals import BAYESIAN, percentile_interval
from robustness.estimates.jackknife import FEWEST, effective_units, too_few
from robustness.estimates.means import Estimate

MSP, MAX_LOGIT, ENERGY, GEN, KNN = 'msp', 'max_logit', 'energy', 'gen', 'knn'
MDS, RMDS, VIM, REACT, ASH, KLM = 'mds', 'rmds', 'vim', 'react', 'ash', 'klm'
FITTED = (KNN, MDS, RMDS, VIM, REACT, ASH, KLM)
SCORES = (MSP, MAX_LOGIT, ENERGY, GEN, *FITTED)
POSITIVES = ('ood', 'id')
RECALL = 0.95
_MAX_DISTANCES_PER_BATCH = 2**24
_RESAMPLES, _RESAMPLES_PER_BATCH = 1000, 100


def of_logits(name: str, logits: np.ndarray) -> np.ndarray:
  """Returns 'msp', 'max_logit' or 'energy' of logits [N, K], [N]."""
  choice('score', name, (MSP, MAX_LOGIT, ENERGY))
  z = np.asarray(logits, float)
  if name == MAX_LOGIT:
    return np.asarray(z.max(1))
  total = special.logsumexp(z, 1)
  return np.asarray(total if name == ENERGY else np.exp(z.max(1) - total))


def generalised_entropy(logits: np.ndarray, exponent: float, largest: int) -> np.ndarray:
  """Returns 'gen' of logits [N, K], [N], with γ, over the M largest probabilities."""
  p = np.sort(special.softmax(np.asarray(logits, float), 1), 1)[:, -largest:]
  return np.asarray(-((p * (1 - p)) ** exponent).sum(1))


def nearest_neighbours(features: np.ndarray, bank: np.ndarray, neighbours: int) -> np.ndarray:
  """Returns minus the distance of features [N, D] to the K-th nearest of a bank [M, D], [N].

  All are scaled to length 1 first.

  Raises:
    InputError: K is not in 1..M, or lengths differ.
  """
  if not 1 <= neighbours <= len(bank) or features.shape[1:] != bank.shape[1:]:
    raise InputError(
      f'K = {neighbours} neighbours among {len(bank)} features of length {bank.shape[1:]} for '
      f'features of length {features.shape[1:]}: give K from 1 to their number, and equal lengths.'
    )
  unit_features, unit_bank = (
    vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for vectors in (np.asarray(features, float), np.asarray(bank, float))
  )
  num_batches = 1 + len(unit_features) * len(unit_bank) // _MAX_DISTANCES_PER_BATCH
  parts = np.array_split(unit_features, num_batches)
  similarity = [
    np.partition(part @ unit_bank.T, len(unit_bank) - neighbours, 1)[:, len(unit_bank) - neighbours]
    for part in parts
  ]
  return np.asarray(-np.sqrt(np.maximum(2 - 2 * np.concatenate(similarity), 0)))


class Separation:
  """Measures of how well a score separates ID images from OOD images, at weights of the images."""

  def __init__(self, of_id: np.ndarray, of_ood: np.ndarray, positives: str = 'ood'):
    """Sorts scores of ID images [N] and of OOD images [M].

    Raises:
      InputError: there are none of either, a score is NaN, or another word for the positives.
    """
    choice('positives', positives, POSITIVES)
    values = np.concatenate([of_id, of_ood])
    if not len(of_id) or not len(of_ood) or np.isnan(values).any():
      raise InputError(
        f'{len(of_id)} scores of ID images and {len(of_ood)} of OOD images: give at least one of '
        'each, none NaN.'
      )
    self.positives = positives
    share = len(of_ood if positives == 'ood' else of_id) / len(values)
    self._negatives_per_positive = (1 - share) / share
    _, places = np.unique(values, return_inverse=True)
    self._order = np.argsort(places, kind='stable')
    self._starts = np.flatnonzero(np.diff(places[self._order], prepend=-1))
    self._is_id = self._order < len(of_id)

  def __call__(self, weights: np.ndarray) -> np.ndarray:
    """Returns AUROC, AUPR and FPR95, [B, 3], at weights [B, N + M] of the ID images and then the
    OOD images."""
    w = weights[:, self._order]
    # The shares of the ID and of the OOD images at each distinct score, ascending.
    id_weight = np.add.reduceat(w * self._is_id, self._starts, 1)
    ood_weight = np.add.reduceat(w * ~self._is_id, self._starts, 1)
    id_share = id_weight / id_weight.sum(1, keepdims=True)
    ood_share = ood_weight / ood_weight.sum(1, keepdims=True)
    below = np.cumsum(ood_share, 1)
    area = (id_share * (below - ood_share / 2)).sum(1)
    if self.positives == 'ood':
      caught, missed = below, np.cumsum(id_share, 1)  # flagged from the lowest score on
    else:
      caught, missed = (np.cumsum(x[:, ::-1], 1) for x in (id_share, ood_share))
    gain = np.diff(caught, axis=1, prepend=0)
    flagged = caught + self._negatives_per_positive * missed
    precision = np.divide(caught, flagged, out=np.ones_like(caught), where=flagged > 0)
    first = (caught >= RECALL - 1e-9).argmax(1)
    missed = np.take_along_axis(missed, first[:, None], 1)[:, 0]
    values = area, (gain * precision).sum(1), missed
    return np.asarray(np.clip(values, 0, 1).T)  # sums of weights round


def separations(
  of_id: np.ndarray,
  units: np.ndarray,
  sets: Mapping[str, tuple[np.ndarray, np.ndarray]],
  groups: Mapping[str, Sequence[str]] | None = None,
  positives: str = 'ood',
  confidence: float = 0.95,
  seed: int = 0,
) -> dict[str, tuple[Estimate, ...]]:
  """Returns AUROC, AUPR and FPR95 of ID images against each OOD set, and means over `groups`.

  Intervals are percentiles of the Bayesian bootstrap of all sets; each OOD set is separated from
  the same resampled ID images. In each set two further units, of weight ¼, have the lowest and the
  highest score, so that the interval has a width where the sets are completely separated. Fewer
  than `FEWEST` effective units of several images have no interval. docs/studies/ood_scores.md has
  the coverage.

  Args:
    of_id: scores [N] of ID images.
    units: [N]; ID images with equal entries are resampled together, such as versions of one image.
    sets: scores and units of the images of each OOD set by its name.
    groups: names of sets by the name of the mean over them.
    positives: see `Separation`.
    confidence: confidence of each interval, in (0, 1).
    seed: seed of resampling.
  """
  values, drawn, extremes = {}, {}, [-np.inf, np.inf]
  for number, (name, (of_ood, ood_units)) in enumerate(sets.items(), 1):
    ones = np.ones((1, len(of_id) + len(of_ood)))
    values[name] = Separation(of_id, of_ood, positives)(ones)[0]
    with_extremes = Separation(np.append(of_id, extremes), np.append(of_ood, extremes), positives)
    samples = zip(_weights(units, seed, 0), _weights(ood_units, seed, number), strict=True)
    drawn[name] = np.concatenate([with_extremes(np.hstack(weights)) for weights in samples])
  estimates = {}
  for name, members in {**{name: [name] for name in sets}, **(groups or {})}.items():
    all_units = [units, *(sets[member][1] for member in members)]
    sizes = [np.unique(units_of_set, return_counts=True)[1] for units_of_set in all_units]
    n, num_units = sum(map(len, all_units)), sum(map(len, sizes))
    effective = min(float(effective_units(size)) for size in sizes)
    value = np.mean([values[member] for member in members], 0)
    samples_of_mean = np.mean([drawn[member] for member in members], 0)
    low, high = percentile_interval(samples_of_mean, effective, confidence)
    low, high, note = np.minimum(low, value), np.maximum(high, value), ''
    if n > num_units and effective < FEWEST:
      low, high, note = np.full_like(value, np.nan), np.full_like(value, np.nan), too_few(effective)
    ends = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    estimates[name] = tuple(Estimate(*end, n, num_units, BAYESIAN, note=note) for end in ends)
  return estimates


def _weights(units: np.ndarray, seed: int, stream: int) -> Iterator[np.ndarray]:
  """Yields weights [b, N + 2] of N images in Bayesian bootstrap samples, up to a factor.

  Those of units have a Dirichlet distribution with parameters 1, and ¼ for two added units of the
  mean size, which keep events possible that never happened.
  """
  _, place, sizes = np.unique(units, return_inverse=True, return_counts=True)
  count, generator = len(sizes), np.random.default_rng((seed, stream))
  shape, places = np.repeat([1, 0.25], [count, 2]), np.append(place, [count, count + 1])
  scale = np.repeat([1, sizes.mean()], [count, 2])
  for _ in range(0, _RESAMPLES, _RESAMPLES_PER_BATCH):
    yield generator.gamma(shape, scale, (_RESAMPLES_PER_BATCH, len(shape)))[:, places]
