"""Tests that training on corruptions draws all but the ones left out, as the catalog makes them."""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment.corruption import RandomCorruption
from robustness.augment.environment import Environment
from robustness.corruptions import corrupt
from robustness.corruptions.names import OFFICIAL
from tests.augment import pictures
from tests.cases import cases
from tests.refusals import bad_setting, refused

KEYS = jax.random.split(jax.random.key(0), 3000)


def test_all_corruptions_but_the_one_left_out_are_drawn():
  augmentation = RandomCorruption(left_out=('fog',), severities=(3,))
  assert augmentation.names == tuple(name for name in OFFICIAL if name != 'fog')
  assert augmentation.branches == 15, '14 corruptions at one severity, and the clean image'


def test_corruptions_and_severities_are_drawn_uniformly():
  augmentation = RandomCorruption(
    ('contrast', 'brightness', 'saturate'), (), (1, 5), probability=0.6
  )
  drawn = jax.vmap(lambda key: augmentation.draw_branch(key, {}))(KEYS)
  shares = np.bincount(drawn, minlength=7) / len(KEYS)
  # Three corruptions at two severities share .6; the tolerance is five standard deviations.
  np.testing.assert_allclose(shares, [0.1] * 6 + [0.4], atol=0.045)


@cases('part', RandomCorruption(), Environment())
def test_stored_corrupted_images_are_refused(part):
  columns = {'image': jnp.zeros((32, 32, 3)), 'corruption': 9, 'class_group': 1}
  refused('would be corrupted again', part, KEYS[0], columns)


def test_images_are_corrupted_as_by_the_catalog():
  augmentation = RandomCorruption(('contrast', 'brightness'), (), (2, 4), probability=0.8)
  image = jnp.asarray(pictures.batch(pictures.seeded(32, 32))[0])
  branches = set()
  for key, made in zip(KEYS, pictures.augmented(augmentation, KEYS[:40], image), strict=False):
    branch = int(augmentation.draw_branch(key, {}))
    branches.add(branch)
    expected = image
    if branch < 4:
      name, severity = ('brightness', 'contrast')[branch // 2], (2, 4)[branch % 2]
      expected = corrupt(jax.random.fold_in(key, 1), image, name, severity)
    np.testing.assert_allclose(made, expected, atol=1e-6)
  assert branches == set(range(5)), 'two corruptions at two severities, and the clean image'


def test_a_severity_that_is_given_twice_is_refused():
  refused(
    bad_setting('config.classifier.augment.corruption.severities', (5, 5, 1)),
    RandomCorruption,
    severities=(5, 5, 1),
  )
