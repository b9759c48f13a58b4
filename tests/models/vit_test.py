"""Tests vision transformers: weights of three projects, and positions for other sizes of images."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.ndimage

from robustness.models import catalog, position_embedding, weights
from robustness.models.classifier import from_linen
from robustness.models.transformer import attend, hide_later
from robustness.models.vit import VisionTransformer, schemes
from tests.cases import cases
from tests.models.peers import peer
from tests.networks import imported, normal_arrays, normal_variables
from tests.refusals import refused

SHORT = dataclasses.replace(
  catalog.get('vit_s32'),
  name='vit_short',
  network=VisionTransformer(patch=32, width=24, depth=3, num_heads=3),
  schemes=schemes(3),
)
"""A thin vision transformer of three blocks, for images of 224 pixels and 7 × 7 patches."""
CLASSES = 7
GRIDS = [(12, 12), (4, 4), (7, 7), (9, 5), (1, 1), (24, 3)]
resample = position_embedding.resample


def network_of(project):
  """Returns `SHORT` as a module of timm or torchvision."""
  network, library = SHORT.network, peer(project)
  patch, width, depth, heads = network.patch, network.width, network.depth, network.num_heads
  if project == 'timm':
    options = (224, patch, 3, CLASSES, 'token', width, depth, heads)
    return library.models.vision_transformer.VisionTransformer(*options).eval()
  options = (224, patch, depth, heads, width, 4 * width)
  return library.models.VisionTransformer(*options, num_classes=CLASSES).eval()


@cases('project, side', ('timm', 224), ('timm', 160), ('torchvision', 224))
def test_logits_and_blocks_match_other_projects(project, side):
  peer('torch')
  from tests.models import parity

  network = parity.randomise(network_of(project))
  arrays, x = parity.arrays(network), parity.images(2, side, side, 3)
  variables = imported(SHORT, arrays, CLASSES, x.shape[1:])
  if side != 224:
    network.set_input_size(img_size=(side, side))
  blocks = 'blocks.{}' if project == 'timm' else 'encoder.layers.encoder_layer_{}'
  layers = {f'block{i}': blocks.format(i) for i in range(3)}
  parity.assert_small(parity.differences(SHORT, variables, network, x, layers))


def official(variables, num_heads):
  """Returns variables of `SHORT` by the names and in the shapes of the official archives."""
  p = variables['params']
  layers = {'embedding': p['embedding']['patches'], 'head': p['head']['dense']}
  layers['Transformer/encoder_norm'] = p['norm']
  for index in range(3):
    block, prefix = p[f'block{index}'], f'Transformer/encoderblock_{index}/'
    attention = prefix + 'MultiHeadDotProductAttention_1/'
    qkv, out = block['attention']['qkv'], block['attention']['out']
    for part, name in enumerate(('query', 'key', 'value')):
      kernel, bias = (np.split(qkv[leaf], 3, axis=-1)[part] for leaf in ('kernel', 'bias'))
      heads = kernel.reshape(len(kernel), num_heads, -1)
      layers[attention + name] = {'kernel': heads, 'bias': bias.reshape(num_heads, -1)}
    kernel = out['kernel'].reshape(num_heads, -1, out['kernel'].shape[1])
    layers[f'{attention}out'] = {**out, 'kernel': kernel}
    layers[f'{prefix}LayerNorm_0'], layers[f'{prefix}LayerNorm_2'] = block['norm1'], block['norm2']
    for number, layer in enumerate(('fc1', 'fc2')):
      layers[f'{prefix}MlpBlock_3/Dense_{number}'] = block['mlp'][layer]
  single = {'cls': p['embedding']['class_token']}
  single['Transformer/posembed_input/pos_embedding'] = p['embedding']['position']
  return single | {
    f'{n}/{leaf}': value for n, layer in layers.items() for leaf, value in layer.items()
  }


def test_official_archives_are_loaded(tmp_path):
  variables = normal_variables(SHORT, CLASSES)
  np.savez(tmp_path / 'vit.npz', **official(variables, num_heads=3))
  loaded = weights.load(tmp_path / 'vit.npz', SHORT)
  jax.tree.map(np.testing.assert_array_equal, loaded, variables)


def test_causal_attention_ignores_later_positions():
  query, key, value = jax.random.normal(jax.random.key(0), (3, 1, 5, 2, 4))
  before = attend(query, key, value, hide_later(5))
  after = attend(query, key.at[:, 3].add(9.0), value.at[:, 3].add(9.0), hide_later(5))
  np.testing.assert_array_equal(before[:, :3], after[:, :3])
  assert np.abs(before[:, 3:] - after[:, 3:]).min() > 0
  np.testing.assert_allclose(before[:, 0], value[:, 0], rtol=1e-6)


POSITIONS = np.random.default_rng(0).normal(size=(1, 50, 6)).astype(np.float32)
"""Embeddings of a class token and 7 × 7 patches, with 6 features."""


@pytest.mark.parametrize('grid', GRIDS)
def test_bicubic_positions_match_timm(grid):
  torch = peer('torch')
  peer('timm')
  from timm.layers import resample_abs_pos_embed

  theirs = resample_abs_pos_embed(torch.from_numpy(POSITIONS), list(grid)).numpy()
  np.testing.assert_allclose(resample(POSITIONS, (7, 7), grid), theirs, atol=2e-6)


@cases('method, offset', ('bicubic_pytorch', 0), ('bicubic_dinov2', 0.1))
@pytest.mark.parametrize('grid', GRIDS)
def test_other_bicubic_positions_match_pytorch(grid, method, offset):
  """DINOv2 adds 0.1 to a grid before it computes the factor by which it resamples."""
  torch = peer('torch')
  patches = torch.from_numpy(POSITIONS[:, 1:]).reshape(1, 7, 7, -1).permute(0, 3, 1, 2)
  options = {'scale_factor': [(n + offset) / 7 for n in grid]} if offset else {'size': list(grid)}
  theirs = torch.nn.functional.interpolate(patches, mode='bicubic', **options).permute(0, 2, 3, 1)
  ours = resample(POSITIONS, (7, 7), grid, method)[:, 1:].reshape(theirs.shape)
  np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize('grid', GRIDS)
def test_bilinear_positions_match_scipy(grid):
  patches = POSITIONS[0, 1:].reshape(7, 7, -1)
  theirs = scipy.ndimage.zoom(patches, (grid[0] / 7, grid[1] / 7, 1), order=1)
  ours = resample(POSITIONS, (7, 7), grid, 'bilinear')
  np.testing.assert_array_equal(ours[:, 0], POSITIONS[:, 0])
  np.testing.assert_allclose(ours[0, 1:].reshape(theirs.shape), theirs, atol=1e-6)


@pytest.mark.parametrize('method', position_embedding.METHODS)
@pytest.mark.parametrize('grid', GRIDS)
def test_resampling_keeps_constants_and_commutes_with_transposition(grid, method):
  ones = np.ones((1, 50, 2), np.float32)
  np.testing.assert_allclose(resample(ones, (7, 7), grid, method), 1, rtol=1e-6)
  transposed = POSITIONS[0, 1:].reshape(7, 7, -1).swapaxes(0, 1).reshape(1, 49, -1)
  transposed = np.concatenate([POSITIONS[:, :1], transposed], axis=1)
  resampled = resample(transposed, (7, 7), grid[::-1], method)[0, 1:].reshape(*grid[::-1], -1)
  expected = resample(POSITIONS, (7, 7), grid, method)[0, 1:].reshape(*grid, -1).swapaxes(0, 1)
  np.testing.assert_allclose(resampled, expected, atol=1e-6)


def test_unknown_methods_are_refused():
  message = "positions is 'bicubc'; did you mean 'bicubic'"
  refused(message, resample, POSITIONS, (7, 7), (4, 4), 'bicubc')


@pytest.mark.slow
@pytest.mark.parametrize('method', position_embedding.METHODS)
@cases(
  'side, shape, note',
  (224, (96, 160, 3), '7 × 7 resampled to 3 × 5'),
  (192, (128, 288, 3), '6 × 6 resampled to 4 × 9'),  # the same number of patches, not square
  (224, (224, 224, 3), ''),
)
def test_imported_and_saved_weights_are_resampled_in_the_same_way(
  method, side, shape, note, tmp_path, caplog
):
  arrays = normal_arrays(SHORT, CLASSES, 0, (side, side, 3))
  from_file = imported(SHORT, arrays, CLASSES, shape, method)
  grid = (shape[0] // 32, shape[1] // 32)
  stored, expected = (side // 32, side // 32), arrays['pos_embed']
  if note:
    expected = resample(expected, stored, grid, method)
  np.testing.assert_array_equal(from_file['params']['embedding']['position'], expected)
  assert note in caplog.text
  path = tmp_path / 'vit.safetensors'
  variables = imported(SHORT, arrays, CLASSES, (side, side, 3))
  weights.save_variables(path, variables, {})
  from_checkpoint = weights.for_images(SHORT, variables, (side, side, 3), shape, method)
  jax.tree.map(np.testing.assert_array_equal, from_checkpoint, from_file)
  if side == 192:  # the saved grid may be any with this number of patches
    message = '4 × 9 patches, as many as 6 × 6, .*the folder of checkpoints, or resize'
    refused(message, weights.load_with_notes, path, SHORT, CLASSES, shape, method)
    return
  loaded, notes = weights.load_with_notes(path, SHORT, CLASSES, shape, method)
  jax.tree.map(np.testing.assert_array_equal, loaded, from_file)
  assert notes == ({'position_embedding': f'{note}, {method}'} if note else {})
  logits = SHORT.build(CLASSES).apply(loaded, np.zeros((1, *shape), np.float32))
  assert logits.shape == (1, CLASSES)


@cases('num_tokens', 0, 1)
def test_a_stored_grid_may_have_different_sides(num_tokens):
  ramp = np.concatenate([np.full(num_tokens, 9.0), np.repeat(np.arange(4.0), 9)])[None, :, None]
  resampled = resample(ramp, (4, 9), (8, 3), 'bilinear', num_tokens)[0, num_tokens:].reshape(8, 3)
  np.testing.assert_allclose(resampled, np.linspace(0, 3, 8)[:, None].repeat(3, 1), atol=1e-6)


def test_images_smaller_than_a_patch_are_refused():
  def made(side):
    arguments = {'input_shape': (side, side, 3), 'class_names': tuple('abcdefg')}
    shapes = SHORT.abstract_variables(CLASSES, arguments['input_shape'])
    drawn = jax.tree.map(lambda x: np.full(x.shape, 0.1), shapes)
    return from_linen(SHORT.build(CLASSES), drawn, name='short', mean=[0.5], std=[0.5], **arguments)

  assert 'block0' in made(32).layers
  refused('of 28 × 28 pixels are too small for short: nothing .*patches', made, 28)
