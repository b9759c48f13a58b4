"""The same architectures in PyTorch, from the libraries that people use: one table.

CIFAR ResNets and Wide ResNets are in none of them and are taken from `tests.models.torch_networks`;
`small_cnn` was made for this repository and has no peer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.models.peers import peer

_CLIP_WIDTHS = {'RN50': 1024, 'ViT-B-32': 512}
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_VIT_WORDS = {'s': 'small', 'b': 'base', 'l': 'large'}


@dataclasses.dataclass(frozen=True)
class PeerNetwork:
  """How a library builds an architecture.

  Attributes:
    library: who wrote it.
    build: returns it with random weights, given the number of classes and the images' height.
    layers: its module by our name of the layer whose output it gives, outputs to be compared.
    size: height and width of the images of a comparison, pixels.
    momentum: the share of its running statistics that a step replaces.
    branch_ends: the scales that its residual branches end with, a pattern of names.
  """

  library: str
  build: Callable[[int, int], Any]
  layers: Mapping[str, str]
  size: tuple[int, int] = (64, 75)
  momentum: float = 0.1
  branch_ends: str = ''


def _timm(name: str, num_classes: int, side: int, **options: Any) -> Any:
  del side
  return peer('timm').create_model(name, num_classes=num_classes, **options)


def _timm_vit(name: str, num_classes: int, side: int) -> Any:
  return peer('timm').create_model(name, num_classes=num_classes, img_size=side)


def _timm_resnet_gn(depth: int, num_classes: int, side: int) -> Any:
  """Builds what timm has no name for: its ResNet with its group norm of 32 groups."""
  del side
  timm = peer('timm')
  block = timm.models.resnet.Bottleneck if depth >= 50 else timm.models.resnet.BasicBlock
  return timm.models.resnet.ResNet(
    block, _BLOCKS[depth], num_classes=num_classes, norm_layer=timm.layers.GroupNorm
  )


def _torchvision(name: str, num_classes: int, side: int) -> Any:
  del side
  return getattr(peer('torchvision').models, name)(num_classes=num_classes, dropout=0.0)


def _open_clip(name: str, quick_gelu: bool, num_classes: int, side: int) -> Any:
  """Builds CLIP's image tower, then our unit length and linear head."""
  torch, model = peer('torch'), peer('open_clip').model
  config = peer('open_clip').get_model_config(name)
  vision = {**config['vision_cfg'], 'image_size': side}
  nn = torch.nn

  class Tower(nn.Module):
    def __init__(self) -> None:
      super().__init__()
      self.visual = model._build_vision_tower(config['embed_dim'], vision, quick_gelu)
      self.zero_shot_head = nn.Linear(_CLIP_WIDTHS[name], num_classes)

    def forward(self, x: Any) -> Any:
      return self.zero_shot_head(nn.functional.normalize(self.visual(x), dim=-1))

  return Tower()


def _own(kind: str, arguments: tuple[int, ...], num_classes: int, side: int) -> Any:
  del side
  peer('torch')
  from tests.models import torch_networks

  return getattr(torch_networks, kind)(*arguments, num_classes)


def _resnets() -> dict[str, PeerNetwork]:
  layers = {
    'stem': 'act1',
    **{f'stage{i}': f'layer{i}' for i in (1, 2, 3, 4)},
    'stage2/block0': 'layer2.0',
    'stage3/block1/layer1/conv': 'layer3.1.conv1',
  }
  table = {}
  for depth in (18, 34, 50, 101, 152):
    name = f'resnet{depth}'
    ends = rf'layer\d\.\d+\.bn{3 if depth >= 50 else 2}\.weight'
    table[name] = PeerNetwork('timm', functools.partial(_timm, name), layers, branch_ends=ends)
    build = (
      functools.partial(_timm, f'{name}_gn')
      if depth == 50
      else functools.partial(_timm_resnet_gn, depth)
    )
    table[f'{name}_gn'] = PeerNetwork('timm', build, layers)
  return table


def _bit_resnets() -> dict[str, PeerNetwork]:
  layers = {
    'stem': 'stem.conv',
    **{f'stage{i + 1}': f'stages.{i}' for i in range(4)},
    'stage1/block0/shortcut': 'stages.0.blocks.0.downsample.conv',
  }
  return {
    f'bit_r{size}': PeerNetwork('timm', functools.partial(_timm, f'resnetv2_{size}_bit'), layers)
    for size in ('50x1', '101x1', '50x3', '101x3')
  }


def _efficientnets() -> dict[str, PeerNetwork]:
  layers = {
    'stem': 'bn1',
    **{f'stage{i + 1}': f'blocks.{i}' for i in range(7)},
    'stage3/block1/expand': 'blocks.2.1.bn1',
    'top': 'bn2',
  }
  return {
    f'efficientnet_lite{i}': PeerNetwork(
      'timm',
      functools.partial(_timm, f'tf_efficientnet_lite{i}', bn_momentum=0.01),
      layers,
      momentum=0.01,
    )
    for i in (0, 1, 2)
  }


def _squeezenets() -> dict[str, PeerNetwork]:
  places = {'1_0': (1, 5, 10, 12), '1_1': (1, 4, 7, 12)}
  return {
    f'squeezenet{version}': PeerNetwork(
      'torchvision',
      functools.partial(_torchvision, f'squeezenet{version}'),
      {
        layer: f'features.{place}'
        for layer, place in zip(('stem', 'stage1', 'stage2', 'stage3'), where, strict=True)
      },
    )
    for version, where in places.items()
  }


def _vggs() -> dict[str, PeerNetwork]:
  ends = {
    'vgg16': (4, 9, 16, 23, 30),
    'vgg16_bn': (6, 13, 23, 33, 43),
    'vgg19': (4, 9, 18, 27, 36),
    'vgg19_bn': (6, 13, 26, 39, 52),
  }
  return {
    name: PeerNetwork(
      'torchvision',
      functools.partial(_torchvision, name),
      {f'stage{i + 1}': f'features.{place}' for i, place in enumerate(places)},
    )
    for name, places in ends.items()
  }


def _vits() -> dict[str, PeerNetwork]:
  table = {}
  for size, word in _VIT_WORDS.items():
    for patch in (16, 32):
      name = f'vit_{word}_patch{patch}_224'
      layers = {'block0': 'blocks.0', 'block11/norm1': 'blocks.11.norm1', 'norm': 'norm'}
      build = functools.partial(_timm_vit, name)
      table[f'vit_{size}{patch}'] = PeerNetwork('timm', build, layers, (64, 64))
  return table


def _clips() -> dict[str, PeerNetwork]:
  resnet = {f'stage{i}': f'visual.layer{i}' for i in (1, 2, 3, 4)}
  vit = {f'block{i}': f'visual.transformer.resblocks.{i}' for i in (0, 11)}
  towers = {
    'rn50': ('RN50', {**resnet, 'attention_pool': 'visual.attnpool'}),
    'vit_b32': ('ViT-B-32', {'pre_norm': 'visual.ln_pre', **vit}),
  }
  return {
    f'clip_{name}{suffix}': PeerNetwork(
      'open_clip',
      functools.partial(_open_clip, config, bool(suffix)),
      layers,
      (96, 96),
      branch_ends=r'visual\.layer\d\.\d+\.bn3\.weight',
    )
    for name, (config, layers) in towers.items()
    for suffix in ('', '_quickgelu')
  }


def _for_cifar() -> dict[str, PeerNetwork]:
  stages = {f'stage{i}': f'layer{i}' for i in (1, 2, 3)}
  table = {
    f'resnet{depth}': PeerNetwork(
      'written here', functools.partial(_own, 'CifarResNet', (depth,)), stages, (32, 36)
    )
    for depth in (20, 32, 44, 56, 110)
  }
  blocks = {f'stage{i}': f'block{i}' for i in (1, 2, 3)}
  for size, image in (((28, 10), (32, 36)), ((16, 2), (29, 36))):  # the first takes minutes
    build = functools.partial(_own, 'WideResNet', size)
    name = 'wide_resnet_{}_{}'.format(*size)
    table[name] = PeerNetwork('written here', build, blocks, image)
  return table


PEERS: Mapping[str, PeerNetwork] = MappingProxyType(
  {
    **_for_cifar(),
    **_efficientnets(),
    **_resnets(),
    **_bit_resnets(),
    **_squeezenets(),
    **_vggs(),
    **_vits(),
    **_clips(),
  }
)
