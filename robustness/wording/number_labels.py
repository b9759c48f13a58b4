"""Plain labels of numbers, for readers who do not know the keys of `results.json`."""

from __future__ import annotations

import functools
import re

from robustness.results import Results
from robustness.wording.phrases import words

LABELS = {
  # fourier_heatmap, fourier_attack, fourier_preview, and clean errors of all studies
  'clean_error': 'error on clean images',
  'clean_top*_error': 'top-{0} error on clean images',
  'clean_accuracy': 'accuracy on clean images',
  'error_all_frequencies': 'error, mean over all frequencies',
  'error_mid_frequencies': 'error, mean over middle frequencies',
  'error_*_frequencies': 'error, mean over {0} frequencies',
  'difference_all_frequencies': 'error minus that of the first classifier, all frequencies',
  'difference_mid_frequencies': 'error minus that of the first classifier, middle frequencies',
  'difference_*_frequencies': 'error minus that of the first classifier, {0} frequencies',
  'error_1_query': 'error after one query of the Fourier attack',
  'error_*_queries': 'error after {0} queries of the Fourier attack',
  'sensitivity_per_cell/mid': 'energy of the gradient of the loss at a middle frequency, relative '
  'to the mean over all frequencies',
  'sensitivity_per_cell/*': 'energy of the gradient of the loss at a {0} frequency, relative to '
  'the mean over all frequencies',
  # accuracy
  'top*_accuracy': 'top-{0} accuracy',
  # bands
  'error/low_pass_*': 'error under low-pass noise of bandwidth {0}',
  'error/high_pass_*': 'error under high-pass noise of bandwidth {0}',
  'accuracy/low_pass_*': 'accuracy on low-pass filtered images, bandwidth {0}',
  'accuracy/high_pass_*': 'accuracy on high-pass filtered images, bandwidth {0}',
  # corruptions
  'error/*': 'error under {0}, mean over severities',
  'mean_error/*': 'mean error over corruptions ({0})',
  'mCE/*': 'mCE: mean error relative to the baseline ({0})',
  'relative_mCE/*': 'relative mCE: added error relative to that of the baseline ({0})',
  'error_difference/*': 'error under {0} minus that of the first classifier',
  'mean_error_difference/*': 'mean error minus that of the first classifier ({0})',
  'mCE_difference/*': 'mCE minus that of the first classifier ({0})',
  'failure_severity/*': 'severity of {0} at which accuracy falls below the share asked for',
  'flip_rate': 'how often the prediction changes between frames, mean over corruptions',
  'flip_rate/*': 'how often the prediction changes between frames of {0}',
  'flip_rate_difference': 'flip rate minus that of the first classifier',
  'flip_ratio': 'flip rate relative to that of the first classifier',
  'high_frequency_fraction/clean': 'share of high frequency in the energy of the images',
  'high_frequency_fraction/*': 'share of high frequency in the energy that {0} adds',
  'rms/clean': 'root mean square of the pixels of the images',
  'rms/*': 'root mean square change of pixels under {0}',
  'accuracy_change/clean': 'accuracy on clean images minus that of the first classifier',
  'accuracy_change/*': 'accuracy under {0} minus that of the first classifier',
  'slope': 'slope of accuracy change by share of high frequency, over images',
  'slope_over_corruptions': 'slope of accuracy change by share of high frequency, over corruptions',
  'intercept': 'intercept of the line of accuracy change by share of high frequency',
  'residual': 'root mean square distance of the corruptions from the line, 0 where it fits',
  # calibration
  'ece/*': 'expected calibration error ({0})',
  'ece_equal_mass/*': 'expected calibration error, bins of equal mass ({0})',
  'rms_calibration_error/*': 'root mean square calibration error ({0})',
  'overconfidence/*': 'mean confidence minus accuracy ({0})',
  'brier/*': 'Brier score of the predicted class ({0})',
  'aurc/*': 'area under the risk-coverage curve ({0})',
  'excess_aurc/*': 'area under the risk-coverage curve above the best order ({0})',
  'ece_difference/*': 'expected calibration error minus that of the first classifier ({0})',
  'ece_equal_mass_difference/*': 'expected calibration error, bins of equal mass, minus that of '
  'the first classifier ({0})',
  'rms_calibration_error_difference/*': 'root mean square calibration error minus that of the '
  'first classifier ({0})',
  'brier_difference/*': 'Brier score minus that of the first classifier ({0})',
  'aurc_difference/*': 'area under the risk-coverage curve minus that of the first classifier '
  '({0})',
  'excess_aurc_difference/*': 'excess area under the risk-coverage curve minus that of the first '
  'classifier ({0})',
  # attack_error
  'attack_error': 'error under the worst attack on each image',
  'attack_error/*': 'error under {0}',
  'high_frequency/clean': 'share of high frequency in the energy of the images',
  'high_frequency/*': 'share of high frequency in what {0} adds where it succeeds',
  'change_norm/*': 'L2 norm of what {0} adds where it succeeds',
  # si_score
  'accuracy': 'accuracy over all scenes',
  'balanced_accuracy': 'accuracy over scenes of the same objects at every level',
  'gap': 'accuracy as published minus balanced, mean over levels',
  # video_pm_k
  'accuracy_anchor': 'accuracy on anchor frames',
  'accuracy_pm_*_neighbors_only': 'accuracy on the worst neighbor up to {0} frames away, without '
  'the anchor (pm-k)',
  'accuracy_pm_*': 'accuracy on the worst frame up to {0} frames away (pm-k)',
  'drop_difference_pm_*': 'drop from the anchor to the worst frame up to {0} frames away minus '
  'that of the first classifier',
  'drop_pm_*': 'drop from the anchor to the worst frame up to {0} frames away',
  'accuracy_static': 'accuracy on the frame of each set on which most classifiers err',
  'review_anchor': 'accuracy on anchor frames, as reviewed minus as published',
  'review_worst': 'accuracy on the worst frames, as reviewed minus as published',
  'review_drop': 'drop from the anchor to the worst frame, as reviewed minus as published',
  'fit_slope': 'slope of accuracy on the worst frames by accuracy on anchors',
  'fit_intercept': 'intercept of accuracy on the worst frames by accuracy on anchors',
  'detection/mAP_anchor': 'mean average precision of detection on anchor frames',
  'localisation/mAP_anchor': 'mean average precision of localisation on anchor frames',
  'detection/mAP_pm_*': 'mean average precision of detection on the worst frame up to {0} away',
  'localisation/mAP_pm_*': 'mean average precision of localisation on the worst frame up to {0} '
  'away',
  'detection/drop_pm_*': 'drop in mean average precision of detection up to {0} frames away',
  'localisation/drop_pm_*': 'drop in mean average precision of localisation up to {0} frames away',
  # systematic
  'rho': 'ρ: share of robustness that carries over to unseen classes, mean over environments',
  'rho_*': 'ρ in {0}',
  'seen': 'accuracy on classes seen in the environment, mean over environments',
  'seen_*': 'accuracy in {0} on the classes seen there',
  'unseen': 'accuracy on classes not seen in the environment, mean over environments',
  'unseen_*': 'accuracy in {0} on the classes not seen there',
  'unseen_gain': 'accuracy on unseen classes minus that of the baseline, mean over environments',
  'unseen_gain_*': 'accuracy in {0} on the classes not seen there minus that of the baseline',
  'baseline': 'accuracy of the baseline, mean over environments',
  'baseline_*': 'accuracy of the baseline in {0}',
  'near_duplicates': 'test images with a near-duplicate in training',
  'accuracy_*': 'accuracy in {0} on all classes',
}
"""By the name of a number behind classifier, part and seed: * stands for what {0} says in words.

The first that fits holds."""


def label_of(results: Results, name: str) -> str:
  """Returns what a number is in plain words, such as 'natural: error under fog'."""
  plain, owner = _parts(name)
  if plain is None:
    return words(name)
  if len(results.prefixes) == 1 and owner and owner[-1] in results.prefixes:
    owner = owner[:-1]
  return f'{", ".join(owner)}: {plain}' if owner else plain


def has_label(name: str) -> bool:
  """Whether the table above has words for a number."""
  return _parts(name)[0] is not None


def _parts(name: str) -> tuple[str | None, list[str]]:
  """Returns the words of a number, None if there are none, and what stands before its name."""
  owner: list[str] = []
  rest = name
  while rest:
    for pattern, plain in _patterns():
      match = pattern.fullmatch(rest)
      if match:
        return plain.format(*map(words, match.groups())), owner
    first, _, rest = rest.partition('/')
    owner.append(re.sub(r'^seed(\d+)$', r'seed \1', first))
  return None, owner


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
  return [
    (re.compile(re.escape(name).replace(r'\*', '([^/]+)')), plain) for name, plain in LABELS.items()
  ]
