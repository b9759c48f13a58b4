"""Tests that thin networks of each newer family have the logits of other libraries' networks.

The weights are files as those libraries write them, loaded for images of the size of the weights
and of another size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import math
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.models import catalog, efficientnet, position_embedding, weights
from tests.cases import cases
from tests.models import peer_networks
from tests.models.peers import peer
from tests.networks import imported, normal_arrays
from tests.refusals import refused

CLASSES = 7
VIT = {'width': 24, 'depth': 3, 'num_heads': 3}
TIMM_VIT = {'embed_dim': 24, 'depth': 3, 'num_heads': 3}
HF_VIT = {'hidden_size': 24, 'num_hidden_layers': 3, 'num_attention_heads': 3}
"""The size of the thin vision transformers as our networks, timm and transformers name it."""
THIN = 0.34
"""Factor of the numbers of channels of EfficientNetV2; a quarter of it is that of blocks."""


def thin_v2(sizes):
  """Returns the sizes of an EfficientNetV2's stages with `THIN` of their channels and blocks."""
  return tuple(
    size._replace(
      features=efficientnet.rounded(size.features, THIN),
      num_blocks=math.ceil(size.num_blocks * THIN / 4),
    )
    for size in sizes
  )


THIN_V2 = {
  'sizes': thin_v2(efficientnet.V2_S),
  'stem_features': efficientnet.rounded(24, THIN),
  'top_features': efficientnet.rounded(1280, THIN),
}


@dataclasses.dataclass(frozen=True)
class Case:
  """A thin network of a family, and the same network of another library, its peer.

  Attributes:
    name: name of the architecture in the catalog.
    ours: fields of its network that make it thin.
    make: function of the side of images that returns the peer with `CLASSES` classes.
    sides: the side of the images that the weights are for, then other sides to load them for.
    positions: the method by which the peer resamples position embeddings.
    renamed: pairs of a pattern in the peer's names of arrays and its replacement, which together
      give the names that another project has in its files.
  """

  name: str
  ours: Mapping[str, Any]
  make: Callable[[int], Any]
  sides: tuple[int, ...] = (64, 96)
  positions: str = position_embedding.BICUBIC
  renamed: tuple[tuple[str, str], ...] = ()


def timm(name, side, **options):
  return peer('timm').create_model(name, num_classes=CLASSES, img_size=side, **options)


def convolutional(name, side, **options):
  return peer('timm').create_model(name, num_classes=CLASSES, **options)


def hugging_face(name, side, **options):
  library = peer('transformers')
  if not hasattr(library, f'{name}Config'):
    pytest.skip(f'this transformers has no {name}')
  config = getattr(library, f'{name}Config')(
    image_size=side, num_labels=CLASSES, attn_implementation='eager', **options
  )
  return getattr(library, f'{name}ForImageClassification')(config)


def dino(name, side):
  return peer_networks.token_and_mean(timm(name, side, **TIMM_VIT), CLASSES)


def torchvision(name, side, **options):
  models = peer('torchvision').models
  if name == 'SwinTransformer':
    return models.swin_transformer.SwinTransformer([4, 4], num_classes=CLASSES, **options)
  library, features, settings = models.efficientnet, THIN_V2['stem_features'], []
  for size in THIN_V2['sizes']:
    config = library.MBConvConfig if size.kind == 'squeezed' else library.FusedMBConvConfig
    sizes = (size.expansion, size.kernel, size.stride, features, size.features, size.num_blocks)
    settings.append(config(*sizes))
    features = size.features
  norm, top = functools.partial(peer('torch').nn.BatchNorm2d, eps=1e-3), THIN_V2['top_features']
  options = {'num_classes': CLASSES, 'norm_layer': norm, 'last_channel': top}
  return library.EfficientNet(settings, 0.0, 0.0, **options)


def efficientnet_v2(name, side, **options):
  return peer('timm').models.efficientnet._gen_efficientnetv2_s(
    name, THIN, THIN / 4, num_classes=CLASSES, **options
  )


def clip(side):
  vision = {'layers': 3, 'width': 24, 'head_width': 8, 'patch_size': 16}
  config = {'embed_dim': 16, 'vision_cfg': vision, 'text_cfg': {}}
  return peer_networks.open_clip_tower(config, False, CLASSES, side)


def siglip(side):
  return peer_networks.siglip_tower(CLASSES, side, **TIMM_VIT)


def clip_of_another_size(network, side):
  """Returns a CLIP tower for images of another side, with positions resampled by open_clip."""
  resized, state = clip(side).eval(), network.state_dict()
  peer('open_clip').model.resize_pos_embed(state, resized, interpolation='bicubic', antialias=True)
  resized.load_state_dict(state)
  return resized


def _cases():
  part = functools.partial
  deit = part(timm, 'deit3_small_patch16_224', **TIMM_VIT)
  yield Case('deit3_s16', VIT, deit)
  yield Case('deit3_s16', VIT, deit, renamed=((r'ls(\d).gamma', r'gamma_\1'),))
  yield Case('clip_vit_b16', {**VIT, 'projection': 16}, clip)
  yield Case('siglip_b16', {**VIT, 'hidden': 96}, siglip)
  for suffix, theirs, hf in (('', '', ''), ('_registers', '_reg4', 'WithRegisters')):
    name, sides = f'dinov2_s14{suffix}', (70, 98)
    yield Case(name, VIT, part(dino, f'vit_small_patch14{theirs}_dinov2'), sides)
    made = part(hugging_face, f'Dinov2{hf}', patch_size=14, **HF_VIT)
    positions = 'bicubic' if suffix else 'bicubic_pytorch'
    yield Case(name, VIT, made, sides, positions)

  made = part(dino, 'vit_small_patch16_dinov3')
  yield Case('dinov3_s16', VIT, made, (64, 80))
  renamed = (
    ('reg_token', 'storage_tokens'),
    (r'gamma_(\d)', r'ls\1.gamma'),
    ('^head', 'linear_head'),
  )
  yield Case('dinov3_s16', VIT, made, (64,), renamed=renamed)
  for name, renamed in (
    ('eva02_small', ((r'mlp\.fc1', 'mlp.w12'), (r'mlp\.fc2', 'mlp.w3'))),
    (
      'eva02_base',
      (
        (r'mlp\.fc1_g', 'mlp.w1'),
        (r'mlp\.fc1_x', 'mlp.w2'),
        (r'mlp\.norm', 'mlp.ffn_ln'),
        (r'mlp\.fc2', 'mlp.w3'),
        (r'([qv])_proj\.bias', r'\1_bias'),
      ),
    ),
  ):
    made, architecture = part(timm, f'{name}_patch14_224', **TIMM_VIT), f'eva02_{name[6]}14'
    yield Case(architecture, {**VIT, 'hidden': 64}, made, (112, 70))
    yield Case(architecture, {**VIT, 'hidden': 64}, made, (112,), renamed=renamed)

  ours = {'width': 8, 'depths': (1, 2, 2, 1), 'num_heads': 1, 'window': 3}
  sizes = {'embed_dim': 8, 'depths': (1, 2, 2, 1), 'num_heads': (1, 2, 4, 8)}
  made = part(timm, 'swin_tiny_patch4_window7_224', window_size=3, **sizes)
  yield Case('swin_tiny', ours, made, (96, 72, 64))  # whole windows, padded, and a smaller one
  down = tuple((rf'layers\.{i + 1}\.down', rf'layers.{i}.down') for i in range(3))
  renamed = (*down, (r'^head\.fc', 'head'))
  yield Case('swin_tiny', ours, made, (96,), renamed=renamed)
  options = {key: value if key == 'embed_dim' else [*value] for key, value in sizes.items()}
  made = part(torchvision, 'SwinTransformer', window_size=[3, 3], **options)
  yield Case('swin_tiny', ours, made, (96,))
  yield Case('swin_tiny', ours, part(hugging_face, 'Swin', window_size=3, **options), (96,))

  tf = {'bn_eps': 1e-3, 'pad_type': 'same'}
  made = part(efficientnet_v2, 'tf_efficientnetv2_s', **tf)
  yield Case('efficientnetv2_s', THIN_V2, made, (75,))
  rw = {**THIN_V2, 'top_features': efficientnet.rounded(1792, THIN)}
  rw['sizes'] = thin_v2(catalog.get('efficientnetv2_rw_s').network.sizes)
  made = part(efficientnet_v2, 'efficientnetv2_rw_s', rw=True)
  yield Case('efficientnetv2_rw_s', rw, made, (75,))
  yield Case('efficientnetv2_s_torchvision', THIN_V2, part(torchvision, 'EfficientNet'), (75,))

  ours, sizes = {'width': 8, 'depths': (1, 1, 2, 1)}, (8, 16, 32, 64)
  renamed = (
    (r'^stem\.', 'downsample_layers.0.'),
    (r'^stages\.(\d)\.downsample', r'downsample_layers.\1'),
    (r'blocks\.', ''),
    ('conv_dw', 'dwconv'),
    (r'mlp\.fc', 'pwconv'),
    (r'^head\.norm', 'norm'),
    (r'^head\.fc', 'head'),
  )
  for name, hf in (('convnext_tiny', 'ConvNext'), ('convnextv2_tiny', 'ConvNextV2')):
    made = part(convolutional, name, depths=ours['depths'], dims=sizes)
    yield Case(name, ours, made, (75,))
    if hf == 'ConvNext':
      yield Case(name, ours, made, (75,), renamed=renamed)
    options = {'hidden_sizes': sizes, 'depths': ours['depths'], 'layer_norm_eps': 1e-6}
    yield Case(name, ours, part(hugging_face, hf, **options), (75,))


WITH_GRADIENTS = (
  'swin_tiny',
  'eva02_s14',
  'eva02_b14',
  'efficientnetv2_s',
  'siglip_b16',
  'deit3_s16',
)
NEWEST = {case.name: case for case in _cases() if case.name in WITH_GRADIENTS}


def _label(case):
  """Returns a case's name in pytest's output, such as 'swin_tiny-torchvision'."""
  function = case.make.func if isinstance(case.make, functools.partial) else case.make
  return f'{case.name}-{function.__name__}'


def thin(case):
  """Returns the architecture of a case with its thin network, named 'thin_…'."""
  architecture = catalog.get(case.name)
  network = architecture.network.clone(**case.ours)
  return dataclasses.replace(architecture, name=f'thin_{case.name}', network=network)


@pytest.mark.filterwarnings('ignore::UserWarning:timm.layers.interpolate')
@pytest.mark.parametrize('case', tuple(_cases()), ids=_label)
def test_logits_match_the_peer_at_the_size_of_the_weights_and_at_other_sizes(case, tmp_path):
  torch = peer('torch')
  from tests.models import parity

  architecture, network = thin(case), parity.randomise(case.make(case.sides[0]).eval())
  if hasattr(network, 'save_pretrained'):
    with contextlib.redirect_stderr(io.StringIO()):
      network.save_pretrained(tmp_path)
  else:
    arrays = network.state_dict()
    for pattern, theirs in case.renamed:
      arrays = {re.sub(pattern, theirs, name): value for name, value in arrays.items()}
    torch.save(arrays, tmp_path / 'network.pth')
  (file,) = [f for f in pathlib.Path(tmp_path).iterdir() if f.suffix in ('.safetensors', '.pth')]
  for side in case.sides:
    x = parity.images(2, side, side, 3)
    options = (CLASSES, x.shape[1:], case.positions)
    variables, notes = weights.load_with_notes(file, architecture, *options)
    has_positions = position_embedding.PATH[2] in variables['params'].get('embedding', {})
    has_smaller_windows = case.name == 'swin_tiny' and side < 72
    assert bool(notes) == (has_smaller_windows or has_positions and side != case.sides[0])
    if case.make is clip:
      network = clip_of_another_size(network, side)
    elif case.make is siglip:
      network.visual['trunk'].set_input_size(img_size=(side, side))
    elif hasattr(network, 'set_input_size'):
      options = {'window_size': 3} if case.name == 'swin_tiny' else {}
      network.set_input_size(img_size=(side, side), **options)
    with torch.no_grad():
      theirs = network(parity.torch_images(x))
    theirs = getattr(theirs, 'logits', theirs).numpy()
    ours = np.asarray(jax.jit(architecture.build(CLASSES).apply)(variables, x))
    parity.assert_small({'logits': parity.difference(ours, theirs)})
    assert np.abs(theirs).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize('case', NEWEST.values(), ids=lambda case: case.name)
def test_gradients_are_finite_and_bfloat16_is_near(case):
  generator, side = np.random.default_rng(5), case.sides[0]
  architecture, x = thin(case), generator.normal(size=(2, side, side, 3)).astype(np.float32)
  shapes = jax.eval_shape(architecture.build(CLASSES).init, jax.random.key(0), x)
  variables = jax.tree.map(  # scales and biases are above 0, so no gradient is 0 by design
    lambda leaf: (
      generator.uniform(0.2, 1, leaf.shape).astype(np.float32)
      if leaf.ndim < 2
      else generator.normal(0, (2 / math.prod(leaf.shape[:-1])) ** 0.5, leaf.shape).astype('f')
    ),
    shapes,
  )
  network, bfloat16 = (architecture.build(CLASSES, dtype) for dtype in (jnp.float32, jnp.bfloat16))

  def loss(v, x):
    logits = network.apply(v, x)
    return (logits**2).sum(), (logits, bfloat16.apply(v, x))

  gradients_and_logits = jax.jit(jax.grad(loss, (0, 1), has_aux=True))
  gradients, (logits, rounded) = jax.tree.map(np.asarray, gradients_and_logits(variables, x))
  assert np.abs(rounded - logits).max() < 0.1 * np.abs(logits).max()
  assert all(np.isfinite(leaf).all() and np.any(leaf) for leaf in jax.tree.leaves(gradients))


@pytest.mark.slow
@cases(
  'shape, method, message',
  ((72, 40, 3), 'bicubic', 'images of 72 × 40 pixels give thin_swin_tiny windows of another size'),
  ((40, 40, 3), 'bilinear', "Swin's windows is 'bilinear'; valid: 'bicubic', 'bicubic_pytorch'"),
)
def test_windows_that_cannot_be_resampled_are_refused(shape, method, message):
  architecture = thin(NEWEST['swin_tiny'])
  arrays = normal_arrays(architecture, CLASSES, input_shape=(96, 96, 3))
  refused(message, imported, architecture, arrays, CLASSES, shape, method)


@cases('old_window, new_window', (7, 5), (7, 6), (5, 7))
def test_windows_are_resampled_as_by_swins_authors(old_window, new_window):
  torch = peer('torch')
  old, new = 2 * old_window - 1, 2 * new_window - 1  # relative positions along a side
  table = np.random.default_rng(0).normal(size=(old**2, 3)).astype(np.float32)
  square = torch.from_numpy(table.T.reshape(1, 3, old, old))
  theirs = torch.nn.functional.interpolate(square, size=(new, new), mode='bicubic')
  ours = position_embedding.resample_window(table, new, 'bicubic_pytorch')
  np.testing.assert_allclose(ours, theirs.numpy().reshape(3, -1).T, atol=1e-5)


def test_dinov3_matches_transformers_and_refuses_biases():
  torch, library = peer('torch'), peer('transformers')
  from tests.models import parity

  if not hasattr(library, 'DINOv3ViTModel'):
    pytest.skip('this transformers has no DINOv3ViTModel')
  sizes = {'intermediate_size': 96, 'num_register_tokens': 4, 'image_size': 64}
  network = library.DINOv3ViTModel(library.DINOv3ViTConfig(**HF_VIT, **sizes))
  arrays = parity.arrays(parity.randomise(network.eval()))
  # three blocks with two biases each that the authors' networks do not have
  biases = [name for name in arrays if name.endswith(('q_proj.bias', 'v_proj.bias'))]
  architecture = thin(Case('dinov3_s16', VIT, siglip))
  renamed = {name.removeprefix('model.'): value for name, value in arrays.items()}
  refused('6 arrays are not zero', imported, architecture, renamed)
  renamed |= {name.removeprefix('model.'): np.zeros(24, np.float32) for name in biases}
  network.load_state_dict({name: torch.zeros(24) for name in biases}, strict=False)
  variables, x = imported(architecture, renamed), parity.images(2, 64, 80, 3)
  with torch.no_grad():
    tokens = network(parity.torch_images(x)).last_hidden_state.numpy()
  theirs = np.concatenate([tokens[:, 0], tokens[:, 5:].mean(1)], 1)  # after 4 registers: patches
  head = {'kernel': np.eye(48, dtype=np.float32), 'bias': np.zeros(48, np.float32)}
  variables['params']['head'] = {'dense': head}  # logits are the class token and the mean patch
  ours = np.asarray(jax.jit(architecture.build(48).apply)(variables, x))
  parity.assert_small({'features': parity.difference(ours, theirs)})
