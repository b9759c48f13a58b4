"""Systematic robustness ρ: how far robustness learned on some classes carries over to the others.

An environment is a way in which images change, such as blur. Training shows an environment on the
classes C_k only. The classifier's accuracy in that environment is s (seen) on C_k and u (unseen) on
all other classes; b is the accuracy of a baseline classifier in it, on all classes. ρ is about (u −
b)/(s − b), see `rho`. docs/systematic.md says how to read ρ and when it misleads.

The accuracies are means over strata (classes) of the same images, in several environments and of
two classifiers. Their intervals are those of `robustness.estimates.stratified_means`.

Reference:
  Omran & Schiele (2022), Towards Systematic Robustness for Scalable Visual Recognition, equation 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.estimates.means import Estimate, known_mean
from robustness.estimates.stratified_means import ROUNDING, StratifiedMeans, difference

JOINT = {'class': 'joint draws within classes', 'image': 'joint draws over images'}
"""The method of an interval of ρ, by what has equal weights: classes or images."""
FORMULAS = ('clipped', 'printed')
"""The formulas of ρ, see `rho`."""
BALANCES = ('class', 'image')
"""The units with equal weights in an accuracy: classes or images."""
DEGENERATES = ('left_out', 'one')
"""How a mean of ρ over environments treats degenerate ones, in which ρ is 1 by definition: it
leaves them out, or counts them as 1, as the paper does.
"""
DEGENERATE, UNDEFINED = 'degenerate', 'undefined'
"""The cases in which ρ is no measurement, see `rho_case`."""
SAYS_LITTLE = 'says little'
"""The beginning of the note of a ρ that reports do not state first."""
ALL, SEEN, UNSEEN = 'all', 'seen', 'unseen'
"""The classes that an accuracy is over: all classes, those that training showed in the environment,
and the other classes.
"""
S, U, B_SEEN, B_UNSEEN, B = range(5)
"""Kinds of accuracies that ρ is computed from: the classifier's on seen classes (s) and on unseen
ones (u), and the baseline's on seen, unseen and all classes.
"""


def rho(
  seen: ArrayLike,
  unseen: ArrayLike,
  baseline: ArrayLike = 0.0,
  formula: str = 'clipped',
  baseline_unseen: ArrayLike | None = None,
) -> np.ndarray:
  """Returns ρ, the part of the robustness on seen classes that carries over to unseen classes.

  Training showed an environment, such as blur, on some classes only. In this environment the
  classifier has the accuracy s on these (seen) classes, and u on all other (unseen) classes. A
  baseline has the accuracy b. The gains are d = s − b and g = max(0, u − b). The formula 'clipped'
  is

    ρ = min(1, g/d)   if d > 0,
    ρ = 1             if d ≤ 0 and g > 0 (degenerate),
    ρ = NaN           if d ≤ 0 and g = 0 (undefined), or if an accuracy is NaN.

  It follows the text of the paper. The formula that is 'printed' in the paper, min(1, g / min(1,
  d)), is negative for d < 0. At d = 0 it is 1 for g > 0 and NaN for g = 0.

  Accuracies are fractions in [0, 1], in arrays that broadcast to the shape of the result.

  Args:
    seen: s.
    unseen: u.
    baseline: b.
    formula: 'clipped' or 'printed'.
    baseline_unseen: the accuracy that is subtracted from u in place of b; None takes b.
  """
  choice('formula', formula, FORMULAS)
  d, g = _gains(seen, unseen, baseline, baseline_unseen)
  with np.errstate(divide='ignore', invalid='ignore'):
    ratio = g / np.minimum(1, d)  # min(1, d) is d, because a difference of accuracies is at most 1
  if formula == 'clipped':
    without_gain = np.where(g > 0, 1.0, np.nan)
    ratio = np.where(d <= 0, without_gain, ratio)
  return np.asarray(np.minimum(1, ratio))[()]  # a number instead of an array []


def rho_case(
  seen: float, unseen: float, baseline: float = 0.0, baseline_unseen: float | None = None
) -> str:
  """Returns whether ρ measures a transfer of robustness, or why it does not.

  ρ is a classifier's gain in accuracy on unseen classes divided by its gain on seen classes.

  Args:
    seen: the accuracy on the classes that training has shown in an environment.
    unseen: the accuracy on all other classes.
    baseline: the accuracy that gains are measured from.
    baseline_unseen: the same for unseen classes; None takes `baseline`.

  Returns:
    '' if ρ is a measurement. 'degenerate' if the classifier gains on unseen but not on seen
    classes, where ρ is 1. 'undefined' if it gains on neither, or an accuracy is NaN.
  """
  seen_gain, unseen_gain = _gains(seen, unseen, baseline, baseline_unseen)
  if seen_gain > 0:
    return UNDEFINED if np.isnan(unseen_gain) else ''
  return DEGENERATE if seen_gain <= 0 < unseen_gain else UNDEFINED  # also if a gain is NaN


def _gains(
  seen: ArrayLike, unseen: ArrayLike, baseline: ArrayLike, baseline_unseen: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the classifier's gain in accuracy over a baseline on seen and on unseen classes.

  With the arguments s, u and b, the gains are s − b and max(0, u − b). The first may be negative.
  Gains that are only rounding errors are set to 0.

  Args:
    seen: s, the classifier's accuracy on seen classes, in [0, 1].
    unseen: u, its accuracy on unseen classes.
    baseline: b, the baseline's accuracy.
    baseline_unseen: the accuracy that is subtracted from u in place of b; None takes b.
  """
  if baseline_unseen is None:
    baseline_unseen = baseline
  s, u, b, b_unseen = (np.asarray(x, float) for x in (seen, unseen, baseline, baseline_unseen))
  for accuracy in (s, u, b, b_unseen):
    if ((accuracy < 0) | (accuracy > 1)).any():
      raise InputError('ρ is of accuracies in [0, 1]: divide percentages by 100.')
  seen_gain, unseen_gain = s - b, u - b_unseen
  seen_gain = np.where(np.abs(seen_gain) < ROUNDING, 0, seen_gain)
  return seen_gain, np.where(unseen_gain < ROUNDING, 0, unseen_gain)


@dataclasses.dataclass(frozen=True)
class EnvironmentShares:
  """One classifier's per-image accuracies in E environments, such as corruptions.

  Training showed each environment with some of the classes only. An image may be shown in several
  views of an environment, such as severities or angles.

  Attributes:
    share: the share of an image's views that are right, [N, E]; NaN if an image is not shown in an
      environment.
    label: int [N], the class of each image.
    group: int [N], the group of classes that the image's class is in, from 1; 0 for a class in no
      group.
    trained: the group of classes that training showed in each environment, [E]; 0 for none, as for
      clean images.
    trials: the number of views of an image in each environment, [E].
    balance: 'class' weighs all classes equally, 'image' all images.
    confidence: confidence of intervals, in (0, 1).
    noun: what notes call the columns of `share`: 'environments', or 'levels' if each is one level
      of an environment, such as a severity.
  """

  share: np.ndarray
  label: np.ndarray
  group: np.ndarray
  trained: Sequence[int]
  trials: Sequence[int]
  balance: str = 'class'
  confidence: float = 0.95
  noun: str = 'environments'

  def __post_init__(self) -> None:
    """Raises InputError if `balance` is not valid."""
    choice('balance', self.balance, BALANCES)

  def select(self, images: np.ndarray) -> EnvironmentShares:
    """Returns the accuracies of selected images only.

    Args:
      images: bool [N], the images that are kept.
    """
    columns = {name: getattr(self, name)[images] for name in ('share', 'label', 'group')}
    return dataclasses.replace(self, **columns)

  def accuracy(self, environments: Sequence[int], classes: str = ALL) -> Estimate:
    """Returns the accuracy averaged over environments, with its interval.

    Args:
      environments: indices of columns of `share`.
      classes: the classes that the accuracy is over, `ALL`, `SEEN` or `UNSEEN`.
    """
    terms = [(e, classes) for e in environments]  # (environment, classes) of each mean
    return self._means(terms, self.share[:, environments]).estimate(self.confidence)

  def gain(self, baseline: EnvironmentShares, environments: Sequence[int]) -> Estimate:
    """Returns the gain in accuracy over a baseline classifier on unseen classes.

    In each environment the unseen classes are those that training did not show in it. The gain is
    averaged over the environments.

    Args:
      baseline: accuracies of the baseline for the same images.
      environments: indices of columns of `share`.
    """
    terms = [(e, UNSEEN) for e in environments]  # (environment, classes) of each mean
    change = self.share[:, environments] - baseline.share[:, environments]
    gained = self._means(terms, np.maximum(change, 0))
    lost = self._means(terms, np.maximum(-change, 0))
    return difference(gained, lost, self.confidence)

  def rho(
    self,
    environments: Sequence[int],
    baseline: EnvironmentShares | None = None,
    formula: str = 'clipped',
    by_cell: bool = False,
    degenerate: str = 'left_out',
    samples: int = 2000,
    seed: int = 0,
  ) -> Estimate:
    """Returns ρ, the transfer of robustness to unseen classes, averaged over environments.

    The ends of the interval are quantiles of ρ over random draws of all its accuracies
    (`StratifiedMeans.drawn`). The draws are correlated, because accuracies are over the same
    images.

    Environments in which ρ is undefined are left out of the mean. Draws in which ρ is undefined in
    all environments are left out of the quantiles. Notes state how many environments are in the
    mean and how many draws are left out. A note says that ρ says little if more than half of the
    environments are undefined or degenerate (`rho_case`).

    Args:
      environments: indices of columns of `share`. Training showed a group of classes in each.
      baseline: accuracies of the baseline classifier for the same images; None for b = 0.
      formula: 'clipped' or 'printed', see the function `rho`.
      by_cell: whether the baseline's accuracy on the seen classes is subtracted from s, and its
        accuracy on the unseen classes from u. Easier classes then do not count as robustness.
        Otherwise its accuracy on all classes is subtracted from both.
      degenerate: 'left_out' leaves degenerate environments out of the mean of several; 'one' counts
        them as 1, as the paper does.
      samples: number of draws.
      seed: seed of the draws.
    """
    choice('degenerate', degenerate, DEGENERATES)
    accuracies = self._accuracies_for_rho(environments, baseline)
    num_kinds = 2 if baseline is None else 5

    def rho_by_environment(means: np.ndarray) -> np.ndarray:
      """Returns ρ in each environment, [..., E], from accuracies as in `_arguments_of_rho`."""
      s, u, b, b_unseen = _arguments_of_rho(means, num_kinds, by_cell)
      return np.asarray(rho(s, u, b, formula, b_unseen))

    arguments_by_environment = _arguments_of_rho(accuracies.value, num_kinds, by_cell).T
    cases = [rho_case(*arguments) for arguments in arguments_by_environment]
    # A single environment is never left out. The formula 'printed' has a value for every gain.
    can_leave_out = degenerate == 'left_out' and formula == 'clipped' and len(cases) > 1
    leaves_out_degenerate = can_leave_out and DEGENERATE in cases
    notes = _notes_on_cases(cases, leaves_out_degenerate, self.noun)
    # The environments in which ρ is a measurement, with the case ''.
    useful = [e for e, case in zip(environments, cases, strict=True) if not case]
    if leaves_out_degenerate and useful:
      environments, accuracies = useful, self._accuracies_for_rho(useful, baseline)
    rhos = rho_by_environment(accuracies.value)
    value = np.nan if leaves_out_degenerate and not useful else float(known_mean(rhos))
    # The number n of images in the environments of the mean; in all of them if ρ is undefined.
    is_averaged = ~np.isnan(rhos) | np.isnan(value)
    weight = accuracies.weight[:, np.repeat(is_averaged, num_kinds)]
    n, method = int(weight.any(1).sum()), JOINT[self.balance]
    if np.isnan(value):
      return Estimate(value, np.nan, np.nan, n, n, method, note='; '.join(notes))
    kind = np.tile(np.arange(num_kinds), len(environments))  # of each mean in `accuracies`
    normals = np.random.default_rng(seed).standard_normal((samples, len(kind)))
    lower, upper = accuracies.drawn(normals, kind, self.confidence)
    # ρ rises with the classifier's accuracy on unseen classes and the baseline's on seen classes.
    # It falls with all other accuracies. The lower end therefore takes draws for the upper ends of
    # these others.
    raises_rho, tail = np.isin(kind, [U, B_SEEN]), (1 - self.confidence) / 2
    for_low = known_mean(rho_by_environment(np.where(raises_rho, lower, upper)))
    for_high = known_mean(rho_by_environment(np.where(raises_rho, upper, lower)))
    low = min(_quantile_of_defined(for_low, tail, value), value)
    high = max(_quantile_of_defined(for_high, 1 - tail, value), value)
    if undefined := int(np.isnan(for_high).sum()):  # draws without ρ in any environment
      notes.append(f'undefined in {undefined} of {samples} draws')
    return Estimate(value, low, high, n, n, method, note='; '.join(notes))

  def _accuracies_for_rho(
    self, environments: Sequence[int], baseline: EnvironmentShares | None
  ) -> StratifiedMeans:
    """Returns the accuracies that ρ is computed from, one environment after the other.

    In each environment they are the classifier's accuracy on seen classes (`S`) and on unseen
    classes (`U`). With a baseline, its accuracies on seen (`B_SEEN`), unseen (`B_UNSEEN`) and all
    classes (`B`) follow.

    Args:
      environments: indices of columns of `share`.
      baseline: accuracies of the baseline for the same images; None for none.
    """
    kinds = [(self, SEEN), (self, UNSEEN)]
    if baseline is not None:
      kinds += [(baseline, SEEN), (baseline, UNSEEN), (baseline, ALL)]
    means = [(e, measured, classes) for e in environments for measured, classes in kinds]
    shares = np.stack([measured.share[:, e] for e, measured, _ in means], 1)
    return self._means([(e, classes) for e, _, classes in means], shares)

  def _means(self, terms: Sequence[tuple[int, str]], shares: np.ndarray) -> StratifiedMeans:
    """Returns Q accuracies, each in one environment and over seen, unseen or all classes.

    Classes are strata if `balance` is 'class'; otherwise all images are one stratum.

    Args:
      terms: Q pairs of an environment and `ALL`, `SEEN` or `UNSEEN`.
      shares: for each image and pair, the share of right answers in the environment, [N, Q]. NaN if
        the environment lacks the image.
    """
    label = self.label if self.balance == 'class' else np.zeros(len(self.label), int)
    _, stratum = np.unique(label, return_inverse=True)
    weights = np.stack([self._weight(e, classes) for e, classes in terms], 1)
    num_views = [self.trials[e] for e, _ in terms]
    return StratifiedMeans.from_shares(weights, np.nan_to_num(shares), stratum, num_views)

  def _weight(self, environment: int, classes: str) -> np.ndarray:
    """Returns each image's weight in an accuracy, [N]; 0 if the image does not count.

    Images that were not shown in the environment do not count.

    Args:
      environment: index of a column of `share`.
      classes: `ALL`, `SEEN` or `UNSEEN`. Images of other classes do not count.
    """
    is_counted = ~np.isnan(self.share[:, environment])
    if classes != ALL:
      is_seen = self.group == self.trained[environment]
      is_counted &= is_seen if classes == SEEN else ~is_seen
    if self.balance == 'image':
      return np.asarray(is_counted.astype(float))
    num_classes = int(self.label.max(initial=0)) + 1
    images_of_class = np.bincount(self.label[is_counted], minlength=num_classes)
    return np.asarray(is_counted / np.maximum(images_of_class[self.label], 1))


def _arguments_of_rho(means: np.ndarray, num_kinds: int, by_cell: bool) -> np.ndarray:
  """Splits accuracies into the four arguments s, u, b and b_unseen of `rho`, [4, ..., E].

  Args:
    means: accuracies of E environments, one environment after the other, [..., E · num_kinds].
    num_kinds: 5 for accuracies in the order `S`, `U`, `B_SEEN`, `B_UNSEEN`, `B` in each
      environment; 2 for only `S` and `U`, without a baseline.
    by_cell: as in `EnvironmentShares.rho`.
  """
  # [..., E · num_kinds] becomes [..., E, num_kinds], and then [num_kinds, ..., E].
  by_kind = np.moveaxis(means.reshape(*means.shape[:-1], -1, num_kinds), -1, 0)
  s, u = by_kind[S], by_kind[U]
  if num_kinds == 2:
    return np.stack([s, u, 0 * s, 0 * u])
  subtracted = by_kind[[B_SEEN, B_UNSEEN]] if by_cell else by_kind[[B, B]]
  return np.stack([s, u, *subtracted])


def _quantile_of_defined(drawn: np.ndarray, probability: float, value: float) -> float:
  """Returns a quantile of the draws that are not NaN, or `value` if all are NaN."""
  defined = drawn[~np.isnan(drawn)]
  return float(np.quantile(defined, probability)) if len(defined) else value


def _notes_on_cases(cases: Sequence[str], leaves_out_degenerate: bool, noun: str) -> list[str]:
  """Returns notes on the environments in which ρ is degenerate or undefined, for a mean of ρ.

  ρ is a ratio of two gains in accuracy, computed in each environment, such as snow. It is
  degenerate if the denominator is not positive and the numerator is, so that ρ is 1 by definition,
  and undefined if neither is. If at most half of the environments have another ρ, the first note
  says that the mean says little.

  Args:
    cases: the case of each environment from `rho_case`: 'degenerate', 'undefined' or ''.
    leaves_out_degenerate: whether the mean over environments leaves out degenerate ones.
    noun: what the cases are called, see `EnvironmentShares.noun`.
  """
  total, num_useful = len(cases), cases.count('')
  if total == 1:
    return [case for case in cases if case]
  notes = []
  for case in (DEGENERATE, UNDEFINED):
    if case in cases:
      notes.append(f'{case} in {cases.count(case)} of {total} {noun}')
  if 2 * num_useful < total:  # at least one case is not useful, and has a note
    notes[0] = f'{SAYS_LITTLE}: {notes[0]}'
  num_averaged = num_useful if leaves_out_degenerate else total - cases.count(UNDEFINED)
  if 0 < num_averaged < total:
    notes.append(f'mean over {num_averaged} of them')
  return notes
