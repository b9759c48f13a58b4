"""Table of the peer of each architecture: the same network in PyTorch, from a library in wide use.

No library has CIFAR ResNets and Wide ResNets; they are in `torch_networks` of the benchmarks and of
these tests. `small_cnn` was made for this repository and has no peer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tests.models.peers import peer

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


@dataclasses.dataclass(frozen=True)
class PeerNetwork:
  """A library's network of an architecture.

  Attributes:
    library: name of the library, or 'written here'.
    build: function of the number of classes and the height of images that returns the network with
      random weights.
    layers: names of its modules by our names of layers, whose outputs are compared.
    size: height and width of the images of a comparison, in pixels.
    momentum: the share of running statistics that a training step replaces.
    branch_ends: pattern of the names of the scales at the ends of residual branches.
  """

  library: str
  build: Callable[[int, int], Any]
  layers: Mapping[str, str]
  size: tuple[int, int] = (64, 75)
  momentum: float = 0.1
  branch_ends: str = ''


def _timm(name: str, num_classes: int, side: int, **options: Any) -> Any:
  return peer('timm').create_model(name, num_classes=num_classes, **options)


def _timm_vit(name: str, num_classes: int, side: int, **options: Any) -> Any:
  return _timm(name, num_classes, side, img_size=side, **options)


def token_and_mean(network: Any, num_classes: int) -> Any:
  """Gives a network of timm a head over the class token and the mean patch, as DINOs have."""
  torch, first = peer('torch'), network.num_prefix_tokens
  network.pool = lambda x, pool_type=None: torch.cat([x[:, 0], x[:, first:].mean(1)], 1)
  network.fc_norm = torch.nn.Identity()
  network.head = torch.nn.Linear(2 * network.embed_dim, num_classes)
  return network


def _timm_dino(name: str, num_classes: int, side: int) -> Any:
  return token_and_mean(_timm_vit(name, num_classes, side), num_classes)


def _timm_resnet_gn(depth: int, num_classes: int, side: int) -> Any:
  """Returns timm's ResNet with group norms of 32 groups; timm has a name for depth 50 alone."""
  timm = peer('timm')
  block = timm.models.resnet.Bottleneck if depth >= 50 else timm.models.resnet.BasicBlock
  options = {'num_classes': num_classes, 'norm_layer': timm.layers.GroupNorm}
  return timm.models.resnet.ResNet(block, _BLOCKS[depth], **options)


def _torchvision(name: str, num_classes: int, side: int, **options: Any) -> Any:
  options = {'dropout': 0.0} | options
  return getattr(peer('torchvision').models, name)(num_classes=num_classes, **options)


def _open_clip(name: str, quick_gelu: bool, num_classes: int, side: int) -> Any:
  return open_clip_tower(peer('open_clip').get_model_config(name), quick_gelu, num_classes, side)


def open_clip_tower(config: Any, quick_gelu: bool, num_classes: int, side: int) -> Any:
  """Returns CLIP's image tower, with our linear head on its output scaled to unit length."""
  vision, features = {**config['vision_cfg'], 'image_size': side}, config['embed_dim']
  tower = peer('open_clip').model._build_vision_tower(features, vision, quick_gelu)
  return _headed(tower, lambda visual, x: visual(x), features, num_classes)


def _headed(visual: Any, embed: Callable[[Any, Any], Any], features: int, num_classes: int) -> Any:
  nn = peer('torch').nn

  class Tower(nn.Module):
    def __init__(self) -> None:
      super().__init__()
      self.visual, self.zero_shot_head = visual, nn.Linear(features, num_classes)

    def forward(self, x: Any) -> Any:
      return self.zero_shot_head(nn.functional.normalize(embed(self.visual, x), dim=-1))

  return Tower()


def siglip_tower(
  num_classes: int, side: int, name: str = 'vit_base_patch16_siglip_224', **options: Any
) -> Any:
  """Returns SigLIP's image tower by open_clip's names, with our head on its unit output."""
  trunk = _timm_vit(name, 0, side, **options)
  visual = peer('torch').nn.ModuleDict({'trunk': trunk})
  return _headed(visual, lambda visual, x: visual['trunk'](x), trunk.embed_dim, num_classes)


def _cifar_resnet(depth: int, num_classes: int, side: int) -> Any:
  peer('torch')
  from benchmarks.torch_networks import ResNet

  return ResNet(depth, num_classes)


def _wide_resnet(depth: int, width: int, num_classes: int, side: int) -> Any:
  peer('torch')
  from tests.models.torch_networks import WideResNet

  return WideResNet(depth, width, num_classes)


def _numbered(ours: str, theirs: str, places: Iterable[int]) -> dict[str, str]:
  """Returns our names by theirs for stages 1, 2, …, such as {'stage1': 'features.4', …}."""
  return {ours.format(i): theirs.format(place) for i, place in enumerate(places, start=1)}


def _table() -> Iterator[tuple[str, PeerNetwork]]:
  part = functools.partial
  residual = _numbered('stage{}', 'layer{}', (1, 2, 3))
  for depth in (20, 32, 44, 56, 110):
    build = part(_cifar_resnet, depth)
    yield f'resnet{depth}', PeerNetwork('written here', build, residual, (32, 36))
  for depth, width, size in ((28, 10, (32, 36)), (16, 2, (29, 36))):  # the first takes minutes
    build, layers = part(_wide_resnet, depth, width), _numbered('stage{}', 'block{}', (1, 2, 3))
    yield f'wide_resnet_{depth}_{width}', PeerNetwork('written here', build, layers, size)

  layers = {'stem': 'bn1', **_numbered('stage{}', 'blocks.{}', range(7))}
  layers |= {'stage3/block1/expand': 'blocks.2.1.bn1', 'top': 'bn2'}
  for member in (0, 1, 2):
    build = part(_timm, f'tf_efficientnet_lite{member}', bn_momentum=0.01)
    yield f'efficientnet_lite{member}', PeerNetwork('timm', build, layers, momentum=0.01)

  for name, theirs in (('s', 'tf_efficientnetv2_s'), ('rw_s', 'efficientnetv2_rw_s')):
    build = part(_timm, theirs)
    layers = {'stem': 'bn1', **_numbered('stage{}', 'blocks.{}', range(6)), 'top': 'bn2'}
    layers |= {'stage4/block1/squeeze': 'blocks.3.1.se', 'stage5/block0/expand': 'blocks.4.0.bn1'}
    ends = rf'blocks\.(0\.\d+\.bn{2 if "rw" in name else 1}|[12]\.\d+\.bn2|[3-5]\.\d+\.bn3)\.weight'
    yield f'efficientnetv2_{name}', PeerNetwork('timm', build, layers, branch_ends=ends)
  build = part(_torchvision, 'efficientnet_v2_s', stochastic_depth_prob=0.0)
  layers = {'stem': 'features.0', **_numbered('stage{}', 'features.{}', range(1, 7))}
  layers |= {'stage4/block1/squeeze': 'features.4.1.block.2', 'top': 'features.7'}
  ends = r'features\.(1\.\d+\.block\.0|[23]\.\d+\.block\.1|[4-6]\.\d+\.block\.3)\.1\.weight'
  name = 'efficientnetv2_s_torchvision'
  yield name, PeerNetwork('torchvision', build, layers, branch_ends=ends)

  layers = {'stem': 'act1', **_numbered('stage{}', 'layer{}', (1, 2, 3, 4))}
  layers |= {'stage2/block0': 'layer2.0', 'stage3/block1/layer1/conv': 'layer3.1.conv1'}
  for depth in (18, 34, 50, 101, 152):
    name, ends = f'resnet{depth}', rf'layer\d\.\d+\.bn{3 if depth >= 50 else 2}\.weight'
    yield name, PeerNetwork('timm', part(_timm, name), layers, branch_ends=ends)
    grouped = part(_timm, f'{name}_gn') if depth == 50 else part(_timm_resnet_gn, depth)
    yield f'{name}_gn', PeerNetwork('timm', grouped, layers)

  layers = {'stem': 'stem.conv', **_numbered('stage{}', 'stages.{}', range(4))}
  layers |= {'stage1/block0/shortcut': 'stages.0.blocks.0.downsample.conv'}
  for size in ('50x1', '101x1', '50x3', '101x3'):
    yield f'bit_r{size}', PeerNetwork('timm', part(_timm, f'resnetv2_{size}_bit'), layers)

  for name, places in (
    ('squeezenet1_0', (1, 5, 10, 12)),
    ('squeezenet1_1', (1, 4, 7, 12)),
    ('vgg16', (4, 9, 16, 23, 30)),
    ('vgg16_bn', (6, 13, 23, 33, 43)),
    ('vgg19', (4, 9, 18, 27, 36)),
    ('vgg19_bn', (6, 13, 26, 39, 52)),
  ):
    stem, *stages = places if name.startswith('squeeze') else (None, *places)
    layers = _numbered('stage{}', 'features.{}', stages)
    layers |= {'stem': f'features.{stem}'} if stem else {}
    yield name, PeerNetwork('torchvision', part(_torchvision, name), layers)

  layers = {'stem': 'stem', **_numbered('stage{}', 'stages.{}', range(4))}
  layers |= {'stage3/block0/depthwise': 'stages.2.blocks.0.conv_dw'}
  for name in ('_tiny', '_small', '_base', '_large', 'v2_tiny', 'v2_base', 'v2_large'):
    build = part(_timm, f'convnext{name}')
    yield f'convnext{name}', PeerNetwork('timm', build, layers, (64, 96))

  layers = {**_numbered('stage{}', 'layers.{}', range(4)), 'norm': 'norm'}
  for size in ('tiny', 'small', 'base'):
    build = part(_timm_vit, f'swin_{size}_patch4_window7_224')
    yield f'swin_{size}', PeerNetwork('timm', build, layers, (160, 160))

  layers = {'block0': 'blocks.0', 'block11/mlp': 'blocks.11.mlp', 'norm': 'fc_norm'}
  for size in ('small', 'base'):
    build = part(_timm_vit, f'eva02_{size}_patch14_224')
    yield f'eva02_{size[0]}14', PeerNetwork('timm', build, layers, (56, 56))

  layers = {'block0': 'blocks.0', 'block11/norm1': 'blocks.11.norm1', 'norm': 'norm'}
  for size in ('small', 'base', 'large'):
    for patch in (16, 32):
      build = part(_timm_vit, f'vit_{size}_patch{patch}_224')
      yield f'vit_{size[0]}{patch}', PeerNetwork('timm', build, layers, (64, 64))

  for size in ('small', 'base', 'large'):
    build = part(_timm_vit, f'deit3_{size}_patch16_224')
    yield f'deit3_{size[0]}16', PeerNetwork('timm', build, layers, (64, 64))
    for suffix, theirs in (('', ''), ('_registers', '_reg4')):
      build = part(_timm_dino, f'vit_{size}_patch14{theirs}_dinov2')
      yield f'dinov2_{size[0]}14{suffix}', PeerNetwork('timm', build, layers, (56, 56))

    build = part(_timm_dino, f'vit_{size}_patch16_dinov3')
    yield f'dinov3_{size[0]}16', PeerNetwork('timm', build, layers, (64, 64))

  resnet = _numbered('stage{}', 'visual.layer{}', (1, 2, 3, 4))
  vit = {f'block{i}': f'visual.transformer.resblocks.{i}' for i in (0, 11)}
  for name, config, layers in (
    ('clip_rn50', 'RN50', {**resnet, 'attention_pool': 'visual.attnpool'}),
    ('clip_vit_b32', 'ViT-B-32', {'pre_norm': 'visual.ln_pre', **vit}),
    ('clip_vit_b16', 'ViT-B-16', {'pre_norm': 'visual.ln_pre', **vit}),
    ('clip_vit_l14', 'ViT-L-14', {'pre_norm': 'visual.ln_pre', **vit}),
    ('clip_vit_l14_336', 'ViT-L-14-336', {'pre_norm': 'visual.ln_pre', **vit}),
  ):
    for suffix in ('', '_quickgelu'):
      side = (84, 84) if 'L' in config else (96, 96)
      build, ends = part(_open_clip, config, bool(suffix)), r'visual\.layer\d\.\d+\.bn3\.weight'
      yield name + suffix, PeerNetwork('open_clip', build, layers, side, branch_ends=ends)

  layers = {f'block{i}': f'visual.trunk.blocks.{i}' for i in (0, 11)}
  layers |= {'attention_pool': 'visual.trunk.attn_pool'}
  for name in ('siglip_b16', 'siglip2_b16'):
    yield name, PeerNetwork('timm', siglip_tower, layers, (64, 64))
  build = part(siglip_tower, name='vit_so400m_patch14_siglip_224')
  for version, suffix in (('', ''), ('', '_384'), ('2', ''), ('2', '_378')):
    yield f'siglip{version}_so400m14{suffix}', PeerNetwork('timm', build, layers, (56, 56))


PEERS: Mapping[str, PeerNetwork] = MappingProxyType(dict(_table()))
