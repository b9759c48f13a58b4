"""Features of augmentations and transforms, and the distance between them."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.augment.resemblance import of_augmentation, of_transform
from robustness.core.errors import InputError
from robustness.corruptions import corrupt
from robustness.metrics.resemblance import minimal_sample_distance
from robustness.models import catalog
from robustness.models.classifier import from_linen
from tests.corruptions.pictures import natural

IMAGES = np.stack([natural(8, 8, seed=seed) for seed in range(4)])
KEY = jax.random.key(0)


def features(images: jax.Array) -> jax.Array:
  return jnp.concatenate([images.mean((1, 2)), images.std((1, 2))], 1)


def augmentation(name: str, **settings: object):
  return Policy.of(**{name: settings}).augmentations[0]


def test_a_feature_is_the_mean_over_the_images_under_one_draw():
  made = of_transform(features, IMAGES, 'gaussian_noise', 3, 2, KEY)
  keys = jax.random.split(KEY, 2)
  for own, row in zip(keys, made, strict=True):
    shown = np.stack([corrupt(own, image, 'gaussian_noise', 3) for image in IMAGES])
    np.testing.assert_allclose(row, np.asarray(features(jnp.asarray(shown))).mean(0), atol=1e-5)
  assert (made[0] != made[1]).any()
  shuffled = of_transform(features, IMAGES[::-1], 'brightness', 3, 1, KEY)
  straight = of_transform(features, IMAGES, 'brightness', 3, 1, KEY)
  np.testing.assert_allclose(shuffled, straight, atol=1e-6)


def test_an_augmentation_that_holds_the_transform_is_at_no_distance():
  target = of_transform(features, IMAGES, 'contrast', 5, 1, KEY)
  holding = augmentation('corruption', corruptions=('contrast', 'brightness'))
  own = of_augmentation(features, IMAGES, holding, 40, KEY)
  noise = of_augmentation(features, IMAGES, augmentation('gaussian'), 40, KEY)
  near, far = (minimal_sample_distance(samples, target) for samples in (own, noise))
  assert near < 1e-5 and far > 0.05


def test_what_has_no_feature_of_its_own_is_refused():
  with pytest.raises(InputError, match="'mixup' depends on more than the image"):
    of_augmentation(features, IMAGES, augmentation('mixup'), 1, KEY)
  with pytest.raises(InputError, match="did you mean 'contrast'"):
    of_transform(features, IMAGES, 'contrasts', 1, 1, KEY)
  with pytest.raises(InputError, match='square'):
    of_transform(features, IMAGES[:, :6], 'rotation', 90, 1, KEY)


def test_the_block_of_the_documentation_runs():
  """With fewer samples, of an augmentation that compiles faster."""
  module = catalog.get('small_cnn').build(2)
  variables = jax.jit(module.init)(KEY, IMAGES)
  classifier = from_linen(
    module,
    variables,
    name='network',
    input_shape=(8, 8, 3),
    class_names=('a', 'b'),
    mean=(0.5,) * 3,
    std=(0.5,) * 3,
  )
  page = (pathlib.Path(__file__).parents[2] / 'docs' / 'systematic.md').read_text()
  (block,) = (b for b in re.findall(r'```python\n(.*?)```', page, re.S) if 'minimal_sample' in b)
  for given, quick in (('rand_augment', 'gaussian'), ('1000', '3'), ('3, 100', '3, 2')):
    assert given in block
    block = block.replace(given, quick)
  space = {'classifier': classifier, 'images': IMAGES}
  exec(compile(block, 'docs/systematic.md', 'exec'), space)
  assert space['distance'] > 0 and space['samples'].shape == (3, 64)
