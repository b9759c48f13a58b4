"""Resampled position embeddings against timm and SciPy; loading weights for another image size."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
import scipy.ndimage

from robustness.core.errors import InputError
from robustness.models import catalog, position_embedding, weights
from robustness.models.vit import VisionTransformer, schemes
from tests.models.peers import peer

TINY = dataclasses.replace(
  catalog.get('vit_s32'),
  name='vit_tiny',
  network=VisionTransformer(patch=32, width=16, depth=1, num_heads=2),
  schemes=schemes(2),
)
GRIDS = [(12, 12), (4, 4), (7, 7), (9, 5), (1, 1), (24, 3)]


def drawn(side: int = 7, width: int = 6) -> np.ndarray:
  return np.random.default_rng(0).normal(size=(1, 1 + side**2, width)).astype(np.float32)


@pytest.mark.parametrize('grid', GRIDS)
def test_bicubic_is_timms(grid) -> None:
  torch, position = peer('torch'), drawn()
  peer('timm')
  from timm.layers import resample_abs_pos_embed

  theirs = resample_abs_pos_embed(torch.from_numpy(position), list(grid)).numpy()
  np.testing.assert_allclose(position_embedding.resample(position, grid), theirs, atol=2e-6)


@pytest.mark.parametrize('grid', GRIDS)
def test_bilinear_is_scipys_zoom(grid) -> None:
  position = drawn()
  patches = position[0, 1:].reshape(7, 7, -1)
  theirs = scipy.ndimage.zoom(patches, (grid[0] / 7, grid[1] / 7, 1), order=1)
  ours = position_embedding.resample(position, grid, 'bilinear')
  np.testing.assert_array_equal(ours[:, 0], position[:, 0])
  np.testing.assert_allclose(ours[0, 1:].reshape(theirs.shape), theirs, atol=1e-6)


@pytest.mark.parametrize('method', position_embedding.METHODS)
@pytest.mark.parametrize('grid', GRIDS)
def test_a_constant_stays_and_a_transposed_picture_comes_out_transposed(grid, method) -> None:
  resample = position_embedding.resample
  np.testing.assert_allclose(resample(np.ones((1, 50, 2), np.float32), grid, method), 1, rtol=1e-6)
  position = drawn()
  turned = position[0, 1:].reshape(7, 7, -1).swapaxes(0, 1).reshape(1, 49, -1)
  turned = np.concatenate([position[:, :1], turned], axis=1)
  resampled = resample(turned, grid[::-1], method)[0, 1:].reshape(*grid[::-1], -1)
  expected = resample(position, grid, method)[0, 1:].reshape(*grid, -1).swapaxes(0, 1)
  np.testing.assert_allclose(resampled, expected, atol=1e-6)


def test_other_methods_and_no_grid_are_refused() -> None:
  with pytest.raises(InputError, match="positions is 'bicubc'; did you mean 'bicubic'"):
    position_embedding.resample(drawn(), (4, 4), 'bicubc')
  with pytest.raises(InputError, match='49 positions are no square grid'):
    position_embedding.resample(drawn()[:, 1:], (4, 4))


def timm_arrays(side: int = 224) -> dict[str, np.ndarray]:
  shapes = TINY.shapes(3, (side, side, 3))
  generator = np.random.default_rng(1)
  return {
    name: generator.normal(size=shape).astype(np.float32)
    for name, shape in TINY.schemes[0].shapes(shapes).items()
  }


@pytest.mark.parametrize('method', position_embedding.METHODS)
def test_imported_and_saved_weights_are_resampled_alike_and_said_to_be(
  method, tmp_path, caplog
) -> None:
  given, shape = timm_arrays(), (96, 160, 3)
  imported = weights.import_variables(TINY, given, 3, shape, method)
  np.testing.assert_array_equal(
    imported['params']['embedding']['position'],
    position_embedding.resample(given['pos_embed'], (3, 5), method),
  )
  assert f'7 × 7 resampled to 3 × 5, {method}' in caplog.text
  path = tmp_path / 'vit.safetensors'
  weights.save_variables(path, weights.import_variables(TINY, given, 3), {})
  loaded, notes = weights.load_with_notes(path, TINY, 3, shape, method)
  jax.tree.map(np.testing.assert_array_equal, loaded, imported)
  assert notes == {'position_embedding': f'7 × 7 resampled to 3 × 5, {method}'}
  logits = TINY.build(3).apply(loaded, np.zeros((1, *shape), np.float32))
  assert logits.shape == (1, 3)


def test_weights_of_the_right_size_are_left_alone(tmp_path) -> None:
  path = tmp_path / 'vit.safetensors'
  weights.save_variables(path, weights.import_variables(TINY, timm_arrays(), 3), {})
  loaded, notes = weights.load_with_notes(path, TINY, 3)
  np.testing.assert_array_equal(
    loaded['params']['embedding']['position'], timm_arrays()['pos_embed']
  )
  assert not notes


def test_a_grid_of_as_many_patches_but_not_square_is_resampled_too() -> None:
  given = timm_arrays(192)  # 6 × 6 patches
  resampled = weights.import_variables(TINY, given, 3, (128, 288, 3))
  np.testing.assert_array_equal(
    resampled['params']['embedding']['position'],
    position_embedding.resample(given['pos_embed'], (4, 9)),
  )


def test_logits_at_another_size_are_timms() -> None:
  timm = peer('timm')
  from tests.models import parity

  small = parity.randomise(
    timm.models.vision_transformer.VisionTransformer(
      img_size=96, patch_size=32, embed_dim=16, depth=1, num_heads=2, num_classes=3
    )
  )
  given, x = parity.arrays(small), parity.images(2, 160, 160, 3)
  variables = weights.import_variables(TINY, given, 3, x.shape[1:])
  small.set_input_size(img_size=(160, 160))
  parity.assert_small(parity.differences(TINY, variables, small, x, {}))
