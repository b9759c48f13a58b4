"""Vision transformers against timm and torchvision; the three projects' names; bad weights."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType

import flax.traverse_util
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models import catalog, fitting, weights
from robustness.models.transformer import attend
from tests.models.peers import peer

NAMES = tuple(f'vit_{size}{patch}' for size in 'sbl' for patch in (16, 32))
SHORT = dataclasses.replace(
  catalog.get('vit_s32'),
  name='vit_short',
  options=MappingProxyType({'patch': 32, 'width': 96, 'depth': 3, 'num_heads': 3}),
  stages=('embedding', 'block0', 'block1', 'block2'),
)
CLASSES = 7


def images(count: int = 2, side: int = 224) -> np.ndarray:
  return np.random.default_rng(5).normal(size=(count, side, side, 3)).astype(np.float32)


def to_torch(x: np.ndarray):
  return peer('torch').from_numpy(x.transpose(0, 3, 1, 2).copy())


def timm_network(architecture, device: str = 'cpu'):
  options = architecture.options
  with peer('torch').device(device):
    return (
      peer('timm')
      .models.vision_transformer.VisionTransformer(
        patch_size=options['patch'],
        embed_dim=options['width'],
        depth=options['depth'],
        num_heads=options['num_heads'],
        num_classes=CLASSES,
      )
      .eval()
    )


def torchvision_network(architecture, device: str = 'cpu'):
  options = architecture.options
  with peer('torch').device(device):
    return (
      peer('torchvision')
      .models.VisionTransformer(
        224,
        options['patch'],
        options['depth'],
        options['num_heads'],
        options['width'],
        4 * options['width'],
        num_classes=CLASSES,
      )
      .eval()
    )


MAKERS = {'timm': timm_network, 'torchvision': torchvision_network}


def shaken(network):
  """Returns a network whose every parameter is random: no zeros, no ones."""
  torch = peer('torch')
  generator = torch.Generator().manual_seed(3)
  for parameter in network.parameters():
    size = 0.02 if parameter.ndim > 1 else 0.2
    parameter.data += size * torch.randn(parameter.shape, generator=generator)
  return network


def arrays(network) -> dict[str, np.ndarray]:
  return {name: tensor.numpy() for name, tensor in network.state_dict().items()}


def close(ours, theirs, tolerance: float = 1e-4) -> None:
  ours, theirs = np.asarray(ours), np.asarray(theirs)
  assert ours.shape == theirs.shape
  assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize('project', MAKERS)
@pytest.mark.parametrize('architecture', [SHORT, catalog.get('vit_s32')], ids=lambda a: a.name)
def test_logits_equal_those_of_other_projects(project, architecture) -> None:
  network, x = shaken(MAKERS[project](architecture)), images()
  with peer('torch').inference_mode():
    theirs = network(to_torch(x)).numpy()
  variables = weights.import_variables(architecture, arrays(network))
  close(jax.jit(architecture.build(CLASSES).apply)(variables, x), theirs)


def test_blocks_equal_those_of_timm() -> None:
  network, x = shaken(timm_network(SHORT)), images()
  theirs = []
  for block in network.blocks:
    block.register_forward_hook(lambda _, __, output: theirs.append(output.numpy()))
  with peer('torch').inference_mode():
    network(to_torch(x))
  module, variables = SHORT.build(CLASSES), weights.import_variables(SHORT, arrays(network))
  state = module.apply(variables, x, capture_intermediates=True, mutable=['intermediates'])[1]
  for index, expected in enumerate(theirs):
    close(state['intermediates'][f'block{index}']['__call__'][0], expected)


@pytest.mark.parametrize('project', MAKERS)
@pytest.mark.parametrize('name', NAMES)
def test_names_and_shapes_of_every_size_are_those_of_other_projects(name, project) -> None:
  architecture = catalog.get(name)
  network = MAKERS[project](architecture, device='meta')
  scheme = next(s for s in architecture.schemes if s.name == project)
  theirs = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
  assert scheme.shapes(fitting.linen_shapes(architecture, CLASSES)) == theirs


def official(variables, num_heads: int) -> dict[str, np.ndarray]:
  """Writes variables with the names and shapes of the official archives, by hand."""
  p = variables['params']
  patches = p['embedding']['patches']
  out = {
    'cls': p['embedding']['class_token'],
    'embedding/kernel': patches['kernel'],
    'embedding/bias': patches['bias'],
    'Transformer/posembed_input/pos_embedding': p['embedding']['position'],
    'head/kernel': p['head']['dense']['kernel'],
    'head/bias': p['head']['dense']['bias'],
    'Transformer/encoder_norm/scale': p['norm']['scale'],
    'Transformer/encoder_norm/bias': p['norm']['bias'],
  }
  for index in range(3):
    block, prefix = p[f'block{index}'], f'Transformer/encoderblock_{index}/'
    attention = prefix + 'MultiHeadDotProductAttention_1/'
    for part, name in enumerate(('query', 'key', 'value')):
      kernel = np.split(block['attention']['qkv']['kernel'], 3, axis=1)[part]
      bias = np.split(block['attention']['qkv']['bias'], 3)[part]
      out[f'{attention}{name}/kernel'] = kernel.reshape(len(kernel), num_heads, -1)
      out[f'{attention}{name}/bias'] = bias.reshape(num_heads, -1)
    kernel = block['attention']['out']['kernel']
    out[f'{attention}out/kernel'] = kernel.reshape(num_heads, -1, kernel.shape[1])
    out[f'{attention}out/bias'] = block['attention']['out']['bias']
    for ours, theirs in (('norm1', 'LayerNorm_0'), ('norm2', 'LayerNorm_2')):
      out.update({f'{prefix}{theirs}/{leaf}': block[ours][leaf] for leaf in ('scale', 'bias')})
    for ours, theirs in (('fc1', 'Dense_0'), ('fc2', 'Dense_1')):
      out.update(
        {
          f'{prefix}MlpBlock_3/{theirs}/{leaf}': block['mlp'][ours][leaf]
          for leaf in ('kernel', 'bias')
        }
      )
  return {name: np.asarray(value) for name, value in out.items()}


def random_variables(architecture=SHORT, num_classes: int = CLASSES):
  generator = np.random.default_rng(0)
  return flax.traverse_util.unflatten_dict(
    {
      path: generator.normal(size=shape).astype(np.float32)
      for path, shape in fitting.linen_shapes(architecture, num_classes).items()
    }
  )


def test_official_archives_arrive_where_they_belong(tmp_path) -> None:
  variables = random_variables()
  np.savez(tmp_path / 'vit.npz', **official(variables, num_heads=3))
  loaded = weights.load(tmp_path / 'vit.npz', SHORT)
  jax.tree.map(np.testing.assert_array_equal, loaded, variables)


def test_saved_variables_come_back_without_torch(tmp_path) -> None:
  variables = random_variables()
  weights.save_variables(tmp_path / 'vit.safetensors', variables, {'architecture': 'vit_short'})
  jax.tree.map(
    np.testing.assert_array_equal, weights.load(tmp_path / 'vit.safetensors', SHORT), variables
  )


def timm_arrays(name: str, num_classes: int = CLASSES) -> dict[str, np.ndarray]:
  """Returns zeros by timm's names."""
  architecture = catalog.get(name)
  scheme = next(s for s in architecture.schemes if s.name == 'timm')
  shapes = scheme.shapes(fitting.linen_shapes(architecture, num_classes))
  return {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}


def test_weights_of_another_size_name_the_one_they_fit() -> None:
  with pytest.raises(InputError, match=r'do not fit vit_s16: .*patch_embed.*are those of .vit_s32'):
    weights.import_variables(catalog.get('vit_s16'), timm_arrays('vit_s32'))


def test_another_number_of_classes_is_said_in_words() -> None:
  with pytest.raises(InputError, match='tell 7 classes apart, and 1000 were asked for'):
    weights.import_variables(catalog.get('vit_s32'), timm_arrays('vit_s32'), num_classes=1000)


def test_half_precision_is_converted_and_quantised_weights_are_refused(caplog) -> None:
  given = timm_arrays('vit_s32')
  half = {name: value.astype(ml_dtypes.bfloat16) for name, value in given.items()}
  variables = weights.import_variables(catalog.get('vit_s32'), half)
  assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {np.dtype(np.float32)}
  assert 'bfloat16' in caplog.text
  quantised = {**given, 'cls_token': given['cls_token'].astype(np.int8)}
  with pytest.raises(InputError, match='floats; .*cls_token is int8'):
    weights.import_variables(catalog.get('vit_s32'), quantised)


def test_a_bfloat16_network_keeps_float32_logits_near_the_others() -> None:
  variables, x = jax.tree.map(lambda v: 0.05 * v, random_variables()), images()
  exact = SHORT.build(CLASSES).apply(variables, x)
  rough = SHORT.build(CLASSES, jnp.bfloat16).apply(variables, x)
  assert rough.dtype == jnp.float32
  close(rough, exact, tolerance=0.1)


def test_a_causal_position_sees_itself_and_those_before_it_only() -> None:
  query, key, value = jax.random.normal(jax.random.key(0), (3, 1, 5, 2, 4))
  before = attend(query, key, value, causal=True)
  after = attend(query, key.at[:, 3].add(9.0), value.at[:, 3].add(9.0), causal=True)
  np.testing.assert_array_equal(before[:, :3], after[:, :3])
  assert np.abs(before[:, 3:] - after[:, 3:]).min() > 0
  np.testing.assert_allclose(before[:, 0], value[:, 0], rtol=1e-6)
