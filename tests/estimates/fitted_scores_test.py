"""Tests out-of-distribution scores that are fitted to training images, against OpenOOD."""

import dataclasses

import numpy as np
import pytest

from robustness.estimates import fitted_scores
from robustness.estimates import out_of_distribution as ood
from robustness.estimates.fitted_scores import LastLayer, Recording
from tests.cases import cases
from tests.refusals import bad_setting, refused


def made() -> tuple[np.ndarray, np.ndarray, Recording, Recording]:
  """Returns the kernel and bias of a last layer, and its outputs for 400 training images and 3
  others."""
  generator = np.random.default_rng(0)
  kernel, bias = generator.normal(size=(12, 5)), generator.normal(size=5)

  def recording(count: int, shift: float) -> Recording:
    labels = np.arange(count) % 5
    features = np.maximum(generator.normal(size=(count, 12)) + shift * kernel.T[labels], 0)
    features = features.astype(np.float32)
    return Recording((features @ kernel + bias).astype(np.float32), features, labels)

  return kernel, bias, recording(400, 0.5), recording(3, 0.2)


KERNEL, BIAS, BANK, IMAGES = made()
UNUSED = BANK._replace(features=np.pad(BANK.features, ((0, 0), (0, 1))))
"""Records of the same images with a further feature that is 0."""
LAYER = LastLayer.solved(BANK)
NOT_LINEAR = LastLayer.solved(BANK._replace(logits=np.tanh(BANK.logits)))
SCORES = {
  'mds': lambda: fitted_scores.mahalanobis_score(BANK, is_relative=False),
  'rmds': lambda: fitted_scores.mahalanobis_score(BANK, is_relative=True),
  'vim': lambda: fitted_scores.vim_score(LAYER, BANK, 4),
  'react': lambda: fitted_scores.react_score(LAYER, BANK, 90),
  'ash': lambda: fitted_scores.ash_score(LAYER, 90),
  'klm': lambda: fitted_scores.kl_matching(BANK),
  'gen': lambda: lambda images: ood.generalised_entropy(images.logits, 0.1, 100),
}


@cases(
  'name, expected',
  ('mds', (-11.779855728, -5.893851280, -5.980217457)),
  ('rmds', (0.038208008, 0.798633099, -0.798872471)),
  ('vim', (-3.411029339, -0.592951298, 2.559167862)),
  ('react', (1.403971910, 3.003371239, 4.783485413)),
  ('ash', (4.634675026, 3.146446228, 5.251169205)),
  ('gen', (-4.132960796, -3.529912710, -3.597203493)),
  ('klm', (-0.474411811, -0.099179114, -0.021348854)),
)
def test_scores_equal_those_of_openood(name, expected):
  """OpenOOD 3c35632, which computes in float32, returned these values for the same arrays."""
  np.testing.assert_allclose(SCORES[name]()(IMAGES), expected, atol=2e-5)


def test_a_feature_that_is_never_active_has_no_weight_in_the_last_layer():
  layer = LastLayer.solved(UNUSED)
  np.testing.assert_allclose(layer.kernel[:12], KERNEL, atol=1e-5)
  np.testing.assert_allclose(layer.bias, BIAS, atol=1e-5)
  assert np.abs(layer.kernel[12]).max() < 1e-9


def test_features_that_few_images_have_are_found_in_the_bank_and_in_other_images():
  kernel = np.concatenate([KERNEL, np.ones((2, 5))])
  rarely, never = np.zeros((2, 400, 1), np.float32)
  rarely[7] = 1.0  # not among images at even distances

  def with_features(images: Recording, *columns: np.ndarray) -> Recording:
    features = np.hstack([images.features, *columns])
    return images._replace(features=features, logits=(features @ kernel + BIAS))

  bank = with_features(BANK, rarely, never)
  images = with_features(IMAGES, rarely[:3], np.ones((3, 1), np.float32))
  layer = LastLayer.solved(bank, iter([images]))
  np.testing.assert_allclose(layer.kernel, kernel, atol=1e-5)
  for scored in (bank, images):
    energies = layer.energy(scored, lambda features: features)
    np.testing.assert_allclose(energies, ood.score_of_logits('energy', scored.logits), rtol=1e-5)


@cases('score', fitted_scores.react_score, lambda layer, _, p: fitted_scores.ash_score(layer, p))
def test_changed_features_are_refused_after_layer_norm(score):
  """A weighted sum of an image's features is 0, as after layer norm, and logits are rounded."""

  def normalised(images: Recording) -> Recording:
    centred = images.features - images.features.mean(1, keepdims=True)
    features = centred * np.linspace(0.5, 2, 12, dtype=np.float32)
    return images._replace(features=features, logits=(features @ KERNEL + BIAS).astype(np.float16))

  bank, images = normalised(BANK), normalised(IMAGES)
  layer = LastLayer.solved(bank, [images])
  energies = layer.energy(images, lambda features: features)
  np.testing.assert_allclose(energies, ood.score_of_logits('energy', images.logits), rtol=0.01)
  refused("leave 'react' and 'ash' out of config.study.scores", score(layer, bank, 90), images)


def test_the_generalised_entropy_takes_the_largest_probabilities():
  p = np.sort(np.exp(IMAGES.logits) / np.exp(IMAGES.logits).sum(1, keepdims=True), 1)[:, 3:]
  measured = ood.generalised_entropy(IMAGES.logits, 0.5, 2)
  np.testing.assert_allclose(measured, -np.sqrt(p * (1 - p)).sum(1), rtol=1e-5)


def test_classes_that_are_not_predicted_or_have_no_images_are_left_out():
  four_classes = Recording(*(x[BANK.labels < 4] for x in BANK))
  assert np.isfinite(fitted_scores.mahalanobis_score(four_classes, is_relative=True)(IMAGES)).all()
  two_predicted = Recording(*(x[BANK.logits.argmax(1) < 2] for x in BANK))
  assert np.isfinite(fitted_scores.kl_matching(two_predicted)(IMAGES)).all()


def test_probabilities_that_round_to_zero_have_finite_divergences():
  certain = Recording(900.0 * np.eye(3), BANK.features[:3], BANK.labels[:3])
  np.testing.assert_allclose(fitted_scores.kl_matching(certain)(certain), 0, atol=1e-9)


@cases(
  'fit, message',
  (
    lambda: fitted_scores.vim_score(LAYER, BANK, 13),
    bad_setting('config.study.directions', 13, '1 to 11, as features span 12 dimensions'),
  ),
  (
    lambda: fitted_scores.vim_score(LastLayer.solved(UNUSED), UNUSED, 12),
    bad_setting('config.study.directions', 12, '1 to 11, as features span 12 dimensions'),
  ),
  (
    lambda: fitted_scores.mahalanobis_score(Recording(*(x[:5] for x in BANK)), False),
    '5 images of .* are of 5 classes. Record more images',
  ),
  (
    lambda: LastLayer.solved(Recording(*(x[:12] for x in BANK))),
    '12 features and is solved for from 12 images',
  ),
  (
    lambda: fitted_scores.ash_score(LAYER, 96),
    bad_setting('config.study.percentile', 96, "at most 91, as 'ash' sets all 12 features to 0"),
  ),
  (
    lambda: fitted_scores.ash_score(NOT_LINEAR, 90)(IMAGES),
    "differ by up to .*'vim', 'react' and 'ash' need a network with a linear last layer",
  ),
  (
    lambda: fitted_scores.mahalanobis_score(BANK._replace(labels=BANK.labels[:, None]), False),
    'several labels each',
  ),
)
def test_unsuitable_training_images_and_networks_are_refused(fit, message):
  refused(message, fit)


def test_means_over_sets_resample_the_known_images_once():
  generator = np.random.default_rng(0)
  inside, units = generator.normal(1.5, 1, 60), np.arange(60)
  sets = {name: (generator.normal(k, 1, 40), np.arange(40)) for k, name in enumerate('ab')}
  estimates = ood.separations(inside, units, sets, {'both': ['a', 'b'], 'one': ['a']})
  area_a, area_b, mean = (estimates[name][0] for name in ('a', 'b', 'both'))
  assert mean.value == pytest.approx((area_a.value + area_b.value) / 2)
  assert (mean.n, mean.clusters) == (140, 140)
  mean_of_one, single = ([dataclasses.astuple(e) for e in estimates[name]] for name in ('one', 'a'))
  assert mean_of_one == single
  equal_sets = ood.separations(inside, units, dict.fromkeys('ab', sets['a']), {'both': ['a', 'b']})
  width = equal_sets['both'][0].high - equal_sets['both'][0].low
  assert 0.5 < width / (area_a.high - area_a.low) < 1, 'both sets have the same known images'
