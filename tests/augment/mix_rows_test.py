"""Tests that Mixup and CutMix mix images and targets by the same shares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from robustness.augment.mix_rows import Cutmix, Mixup, MixupOrCutmix

KEYS = jax.random.split(jax.random.key(2), 500)
WHITE = {'image': jnp.ones((12, 9, 3)), 'target': jnp.array([1.0, 0.0]), 'label': jnp.int32(0)}
BLACK = {'image': jnp.zeros((12, 9, 3)), 'target': jnp.array([0.0, 1.0]), 'label': jnp.int32(1)}


def mixed(mixing):
  """Returns 500 rows of white mixed with black, by key; the target's first value is white's."""
  rows = jax.vmap(lambda key: mixing(key, {**WHITE, 'partner': BLACK}))(KEYS)
  return jax.tree.map(np.asarray, rows)


@pytest.mark.slow
@pytest.mark.parametrize('kind', [Mixup, Cutmix, MixupOrCutmix])
def test_the_target_has_the_share_of_the_image(kind):
  rows = mixed(kind())
  np.testing.assert_allclose(rows['target'][:, 0], rows['image'].mean((1, 2, 3)), atol=1e-5)
  np.testing.assert_allclose(rows['target'].sum(1), 1, atol=1e-6)
  assert (rows['label'] == 0).all(), 'the label stays'
  share = mixed(kind(probability=0.3))['target'][:, 0]
  assert 0.6 < (share == 1).mean() < 0.85


@pytest.mark.parametrize('alpha', [0.4, 1.0])
def test_the_share_of_mixup_is_beta(alpha):
  rows = mixed(Mixup(alpha))
  assert stats.kstest(rows['target'][:, 0], stats.beta(alpha, alpha).cdf).pvalue > 0.01
  assert np.ptp(rows['image'][0]) < 1e-6, 'all pixels have one share'


def test_a_box_of_cutmix_is_one_rectangle_of_at_most_half_the_image_on_average():
  images = mixed(Cutmix())['image'][..., 0]
  assert set(np.unique(images)) <= {0.0, 1.0}
  for image in images[:50]:
    rows, columns = (image == 0).any(1), (image == 0).any(0)
    assert ((image == 0) == rows[:, None] & columns[None]).all()
    for axis in (rows, columns):
      assert (np.diff(np.flatnonzero(axis)) == 1).all()
  # The mean area would be one half if boxes were not cut at the border.
  assert 0.2 < (images == 0).mean() < 0.5


def test_mixup_or_cutmix_mixes_a_row_by_one_of_both_methods():
  rows = mixed(MixupOrCutmix(cutmix_alpha=2.0, cutmix_share=0.3))
  is_mixup = (np.ptp(rows['image'], axis=(1, 2, 3)) < 1e-6) & (rows['target'][:, 0] < 1)
  assert abs(is_mixup.mean() - 0.7) < 4 * np.sqrt(0.21 / len(KEYS))
  assert stats.kstest(rows['target'][is_mixup, 0], stats.beta(0.8, 0.8).cdf).pvalue > 0.01
  keys_of_method = jax.vmap(lambda key: jax.random.split(key)[1])(KEYS)
  for kind, is_of_kind in ((Mixup(0.8), is_mixup), (Cutmix(2.0), ~is_mixup)):
    alone = jax.vmap(lambda key, kind=kind: kind(key, {**WHITE, 'partner': BLACK}))(keys_of_method)
    for name in ('image', 'target'):
      np.testing.assert_array_equal(rows[name][is_of_kind], np.asarray(alone[name])[is_of_kind])
