"""Tests the features of augmentations and transforms, and the distance between them."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.augment.resemblance import minimal_sample_distance, of_augmentation, of_transform
from robustness.corruptions import corrupt
from robustness.models import catalog
from robustness.models.classifier import from_linen
from tests.corruptions.pictures import natural
from tests.refusals import bad_setting, refused

IMAGES = np.stack([natural(8, 8, seed=seed) for seed in range(4)])
KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
AUGMENTATION, CORRUPTION = DRAW.normal(size=(40, 7)), DRAW.normal(2, size=(30, 7))
"""Samples of 7 features."""


def features(images):
  """Returns means and deviations by channel of images [N, H, W, 3], [N, 6]."""
  return jnp.concatenate([images.mean((1, 2)), images.std((1, 2))], 1)


def augmentation(name, **settings):
  """Returns the augmentation of a name with some settings."""
  return Policy.of(**{name: settings}).augmentations[0]


def test_a_feature_is_the_mean_over_the_images_under_one_draw():
  made = of_transform(features, IMAGES, 'gaussian_noise', 3, 2, KEY)
  keys = jax.random.split(KEY, 2)
  for draw_key, row in zip(keys, made, strict=True):
    corrupted = np.stack([corrupt(draw_key, image, 'gaussian_noise', 3) for image in IMAGES])
    np.testing.assert_allclose(row, np.asarray(features(jnp.asarray(corrupted))).mean(0), atol=1e-5)
  assert (made[0] != made[1]).any()
  shuffled = of_transform(features, IMAGES[::-1], 'brightness', 3, 1, KEY)
  straight = of_transform(features, IMAGES, 'brightness', 3, 1, KEY)
  np.testing.assert_allclose(shuffled, straight, atol=1e-6)


def test_an_augmentation_that_contains_the_transform_is_at_distance_zero():
  target = of_transform(features, IMAGES, 'contrast', 5, 1, KEY)
  holding = augmentation('corruption', corruptions=('contrast', 'brightness'))
  corrupted = of_augmentation(features, IMAGES, holding, 40, KEY)
  noise = of_augmentation(features, IMAGES, augmentation('gaussian'), 40, KEY)
  near, far = (minimal_sample_distance(samples, target) for samples in (corrupted, noise))
  assert near < 1e-5 and far > 0.05


def test_inputs_without_features_are_refused():
  message, mixup = "'mixup' depends on more than the image", augmentation('mixup')
  refused(message, of_augmentation, features, IMAGES, mixup, 1, KEY)
  refused(
    bad_setting('name', 'contrasts', words="did you mean 'contrast'"),
    of_transform,
    features,
    IMAGES,
    'contrasts',
    1,
    1,
    KEY,
  )
  refused('square', of_transform, features, IMAGES[:, :6], 'rotation', 90, 1, KEY)
  refused(
    bad_setting('level.severities', (9,)), of_transform, features, IMAGES, 'contrast', 9, 1, KEY
  )
  levels = (255 * IMAGES).astype(np.uint8)
  refused('1 draws of .*uint8', of_transform, features, levels, 'contrast', 1, 1, KEY)
  refused('0 draws', of_augmentation, features, IMAGES, augmentation('gaussian'), 0, KEY)
  refused('finite', minimal_sample_distance, [[np.nan]], [[1.0]])


def test_the_block_of_the_documentation_runs():
  """The block runs with fewer samples of an augmentation that compiles faster."""
  module = catalog.get('small_cnn').build(2)
  variables = jax.jit(module.init)(KEY, IMAGES)
  about = {'input_shape': (8, 8, 3), 'class_names': ('a', 'b'), 'mean': (0.5,), 'std': (0.5,)}
  classifier = from_linen(module, variables, name='network', **about)
  page = (pathlib.Path(__file__).parents[2] / 'docs' / 'systematic.md').read_text()
  (block,) = (b for b in re.findall(r'```python\n(.*?)```', page, re.S) if 'minimal_sample' in b)
  for slow, quick in (('rand_augment', 'gaussian'), ('1000', '3'), ('3, 100', '3, 2')):
    assert slow in block
    block = block.replace(slow, quick)
  space = {'classifier': classifier, 'images': IMAGES}
  exec(compile(block, 'docs/systematic.md', 'exec'), space)
  assert space['distance'] > 0 and space['samples'].shape == (3, 64)


def test_the_distance_is_the_least_to_the_mean_and_never_grows_with_samples():
  corruption = [[3, 0], [5, 0]]  # The mean is (4, 0).
  assert minimal_sample_distance([[0, 0], [4, 3], [9, 0]], corruption) == 3
  mean = CORRUPTION.mean(0, keepdims=True)
  assert minimal_sample_distance(np.concatenate([AUGMENTATION, mean]), CORRUPTION) == 0
  falling = [minimal_sample_distance(AUGMENTATION[:n], CORRUPTION) for n in range(1, 41)]
  assert falling == sorted(falling, reverse=True) and falling[-1] < falling[0]
  forth = minimal_sample_distance(AUGMENTATION, CORRUPTION)
  assert abs(forth - minimal_sample_distance(CORRUPTION, AUGMENTATION)) > 0.01, 'not symmetric'
  assert minimal_sample_distance(DRAW.permutation(AUGMENTATION), CORRUPTION) == forth


@pytest.mark.parametrize('share', [0.01, 0.1, 0.5])
def test_an_augmentation_with_a_small_share_of_the_corruption_is_near_it(share):
  far, near = DRAW.normal(10, size=(1000, 7)), DRAW.normal(2, 0.1, size=(1000, 7))
  mixed = np.where(np.arange(1000)[:, None] < 1000 * share, near, far)
  assert minimal_sample_distance(mixed, DRAW.normal(2, 0.1, size=(100, 7))) < 0.5


def test_features_that_do_not_fit_are_named():
  empty, message = np.zeros((0, 7)), r'augmentation has the shape \(0, 7\)'
  refused(message, minimal_sample_distance, empty, CORRUPTION)
  refused('corruption has the shape', minimal_sample_distance, AUGMENTATION, np.zeros(7))
  refused('7 features and corruption 6', minimal_sample_distance, AUGMENTATION, CORRUPTION[:, :6])
