"""Vision transformers against torchvision and timm; the three projects' names."""

from __future__ import annotations

import dataclasses

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.models import catalog, weights
from robustness.models.transformer import attend
from robustness.models.vit import VisionTransformer, schemes
from tests.models.peers import peer

NAMES = tuple(f'vit_{size}{patch}' for size in 'sbl' for patch in (16, 32))
SHORT = dataclasses.replace(
  catalog.get('vit_s32'),
  name='vit_short',
  network=VisionTransformer(patch=32, width=96, depth=3, num_heads=3),
  schemes=schemes(3),
)
CLASSES = 7


def network_of(project: str, architecture, device: str = 'cpu'):
  own, library = architecture.network, peer(project)
  with peer('torch').device(device):
    if project == 'timm':
      made = library.models.vision_transformer.VisionTransformer(
        224, own.patch, 3, CLASSES, 'token', own.width, own.depth, own.num_heads
      )
    else:
      made = library.models.VisionTransformer(
        224, own.patch, own.depth, own.num_heads, own.width, 4 * own.width, num_classes=CLASSES
      )
  return made.eval()


@pytest.mark.parametrize('project', ['timm', 'torchvision'])
def test_logits_and_blocks_equal_those_of_other_projects(project) -> None:
  peer('torch')
  from tests.models import parity

  network = parity.randomise(network_of(project, SHORT))
  blocks = 'blocks.{}' if project == 'timm' else 'encoder.layers.encoder_layer_{}'
  layers = {f'block{i}': blocks.format(i) for i in range(3)}
  parity.assert_parity(SHORT, network, parity.images(2, 224, 224, 3), layers)


@pytest.mark.parametrize('project', ['timm', 'torchvision'])
@pytest.mark.parametrize('name', NAMES)
def test_names_and_shapes_of_every_size_are_those_of_other_projects(name, project) -> None:
  architecture = catalog.get(name)
  network = network_of(project, architecture, device='meta')
  scheme = next(s for s in architecture.schemes if s.name == project)
  theirs = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
  assert scheme.shapes(architecture.shapes(CLASSES)) == theirs


def official(variables, num_heads: int) -> dict[str, np.ndarray]:
  """Writes variables with the names and shapes of the official archives, by hand."""
  p = variables['params']
  out = {'cls': p['embedding']['class_token']}
  out['Transformer/posembed_input/pos_embedding'] = p['embedding']['position']

  def layer(name: str, own: dict[str, np.ndarray]) -> None:
    out.update({f'{name}/{leaf}': value for leaf, value in own.items()})

  layer('embedding', p['embedding']['patches'])
  layer('head', p['head']['dense'])
  layer('Transformer/encoder_norm', p['norm'])
  for index in range(3):
    block, prefix = p[f'block{index}'], f'Transformer/encoderblock_{index}/'
    attention = prefix + 'MultiHeadDotProductAttention_1/'
    qkv, end = block['attention']['qkv'], block['attention']['out']
    for part, name in enumerate(('query', 'key', 'value')):
      kernel, bias = (np.split(qkv[leaf], 3, axis=-1)[part] for leaf in ('kernel', 'bias'))
      heads = {'kernel': kernel.reshape(len(kernel), num_heads, -1)}
      layer(attention + name, {**heads, 'bias': bias.reshape(num_heads, -1)})
    kernel = end['kernel'].reshape(num_heads, -1, end['kernel'].shape[1])
    layer(f'{attention}out', {**end, 'kernel': kernel})
    layer(f'{prefix}LayerNorm_0', block['norm1'])
    layer(f'{prefix}LayerNorm_2', block['norm2'])
    layer(f'{prefix}MlpBlock_3/Dense_0', block['mlp']['fc1'])
    layer(f'{prefix}MlpBlock_3/Dense_1', block['mlp']['fc2'])
  return out


def random_variables():
  generator = np.random.default_rng(0)
  return flax.traverse_util.unflatten_dict(
    {
      path: generator.normal(size=shape).astype(np.float32)
      for path, shape in SHORT.shapes(CLASSES).items()
    }
  )


def test_official_archives_arrive_where_they_belong(tmp_path) -> None:
  variables = random_variables()
  np.savez(tmp_path / 'vit.npz', **official(variables, num_heads=3))
  loaded = weights.load(tmp_path / 'vit.npz', SHORT)
  jax.tree.map(np.testing.assert_array_equal, loaded, variables)


def test_a_bfloat16_network_keeps_float32_logits_near_the_others() -> None:
  variables = jax.tree.map(lambda v: 0.05 * v, random_variables())
  x = np.random.default_rng(5).normal(size=(2, 224, 224, 3)).astype(np.float32)
  exact = SHORT.build(CLASSES).apply(variables, x)
  rough = SHORT.build(CLASSES, jnp.bfloat16).apply(variables, x)
  assert rough.dtype == jnp.float32
  assert float(np.abs(rough - exact).max()) <= 0.1 * float(np.abs(exact).max())


def test_a_causal_position_sees_itself_and_those_before_it_only() -> None:
  query, key, value = jax.random.normal(jax.random.key(0), (3, 1, 5, 2, 4))
  before = attend(query, key, value, causal=True)
  after = attend(query, key.at[:, 3].add(9.0), value.at[:, 3].add(9.0), causal=True)
  np.testing.assert_array_equal(before[:, :3], after[:, :3])
  assert np.abs(before[:, 3:] - after[:, 3:]).min() > 0
  np.testing.assert_allclose(before[:, 0], value[:, 0], rtol=1e-6)
