"""Tests the transforms of environments against NumPy, SciPy and the corruptions."""

import jax
import numpy as np
import pytest
from scipy import ndimage

from robustness.corruptions import corrupt
from robustness.environments import transforms
from robustness.environments.transforms import rotate
from tests.refusals import bad_setting, refused

IMAGE = np.random.default_rng(0).random((16, 16, 3), np.float32)


@pytest.mark.parametrize('turns', [1, 2, 3, 4, -1])
def test_right_angles_move_pixels_and_change_none(turns):
  turned = jax.jit(rotate)(IMAGE, 90.0 * turns)
  np.testing.assert_array_equal(turned, np.rot90(IMAGE, turns))


@pytest.mark.slow
@pytest.mark.parametrize('degrees', [30, 45, 200])
def test_other_angles_agree_with_scipy(degrees):
  expected = ndimage.rotate(IMAGE, degrees, reshape=False, order=1, mode='grid-constant')
  np.testing.assert_allclose(rotate(IMAGE, degrees), expected, atol=1e-5)


def test_environment_0_is_clean_and_the_others_are_their_transforms():
  names, key = ('contrast', 'rotation', 'gaussian_noise'), jax.random.key(3)
  transformed = jax.jit(lambda k, level: transforms.transform(key, IMAGE, k, level, names))
  np.testing.assert_array_equal(transformed(0, 5), IMAGE)
  np.testing.assert_array_equal(transformed(2, 180), np.rot90(IMAGE, 2))
  for number, name in ((1, 'contrast'), (3, 'gaussian_noise')):
    np.testing.assert_allclose(transformed(number, 4), corrupt(key, IMAGE, name, 4), atol=1e-6)


def test_unusable_transforms_levels_and_shapes_are_refused():
  refused(bad_setting('here', 'gausian_noise'), transforms.check_names, 'here', ['gausian_noise'])
  refused(bad_setting('here', ('snow', 'snow')), transforms.check_names, 'here', ['snow', 'snow'])
  refused(bad_setting('here.severities', (0, 1)), transforms.check_levels, 'here', [0, 1], [90])
  refused(bad_setting('here.angles', (360,)), transforms.check_levels, 'here', [1], [360])
  refused('square', transforms.get('rotation').check_shape, (16, 20, 3))
