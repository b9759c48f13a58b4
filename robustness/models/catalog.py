"""Which architectures there are: one table, one line of facts each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from robustness.core.errors import InputError, nearest
from robustness.models.architecture import Architecture

_STAGES = ('stage1', 'stage2', 'stage3')
_STEM_AND_STAGES = ('stem', *_STAGES)  # the layers of figure 8 of Yin et al. (2019)
_CIFAR = (32, 32, 3)
_IMAGENET = (224, 224, 3)
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_STEM_AND_FOUR_STAGES = (*_STEM_AND_STAGES, 'stage4')
_VIT_SIZES = {'s': (384, 12, 6), 'b': (768, 12, 12), 'l': (1024, 24, 16)}  # width, depth, heads


def _small_cnn() -> Architecture:
  return Architecture(
    name='small_cnn',
    family='small_cnn',
    options=MappingProxyType({}),
    input_shape=(28, 28, 1),
    mean=(0.0,),
    std=(1.0,),
    stages=_STAGES,
    importable=False,
    source='made for this repository',
    licence='no published weights',
  )


def _cifar_resnet(depth: int) -> Architecture:
  return Architecture(
    name=f'resnet{depth}',
    family='cifar_resnet',
    options=MappingProxyType({'depth': depth}),
    input_shape=_CIFAR,
    mean=_IMAGENET_MEAN,
    std=_IMAGENET_STD,
    stages=_STEM_AND_STAGES,
    importable=True,
    source='He et al., Deep Residual Learning for Image Recognition, 2016 (option A shortcuts)',
    licence='weights of akamaster/pytorch_resnet_cifar10: BSD-2-Clause',
  )


def _wide_resnet(depth: int, width: int) -> Architecture:
  return Architecture(
    name=f'wide_resnet_{depth}_{width}',
    family='wide_resnet',
    options=MappingProxyType({'depth': depth, 'width': width}),
    input_shape=_CIFAR,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    stages=_STEM_AND_STAGES,
    importable=True,
    source='Zagoruyko and Komodakis, Wide Residual Networks, 2016 (no dropout)',
    licence="state dicts with the names conv1, block1.layer.0, ..., fc: their authors' terms",
  )


def _resnet(depth: int, norm: str = 'batch') -> Architecture:
  return Architecture(
    name=f'resnet{depth}' + ('_gn' if norm == 'group' else ''),
    family='resnet',
    options=MappingProxyType({'depth': depth, 'norm': norm}),
    input_shape=_IMAGENET,
    mean=_IMAGENET_MEAN,
    std=_IMAGENET_STD,
    stages=_STEM_AND_FOUR_STAGES,
    importable=True,
    source='He et al., Deep Residual Learning for Image Recognition, 2016 (version 1.5)'
    + ('; Wu and He, Group Normalization, 2018' if norm == 'group' else ''),
    licence='weights of torchvision: BSD-3-Clause; of timm: Apache-2.0',
  )


def _vit(size: str, patch: int) -> Architecture:
  width, depth, num_heads = _VIT_SIZES[size]
  return Architecture(
    name=f'vit_{size}{patch}',
    family='vit',
    options=MappingProxyType(
      {'patch': patch, 'width': width, 'depth': depth, 'num_heads': num_heads}
    ),
    input_shape=_IMAGENET,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    stages=('embedding', *(f'block{quarter * depth // 4 - 1}' for quarter in (1, 2, 3, 4))),
    importable=True,
    source='Dosovitskiy et al., An Image is Worth 16x16 Words, 2021',
    licence='weights of google-research/vision_transformer and of timm: Apache-2.0',
  )


def _clip(name: str, patch: int, quick_gelu: bool) -> Architecture:
  blocks = ('embedding', 'block2', 'block5', 'block8', 'block11')
  return Architecture(
    name=f'clip_{name}' + ('_quickgelu' if quick_gelu else ''),
    family='clip',
    options=MappingProxyType({'patch': patch, 'quick_gelu': int(quick_gelu)}),
    input_shape=_IMAGENET,
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
    stages=blocks if patch else ('stem', 'stage1', 'stage2', 'stage3', 'stage4'),
    importable=True,
    source='Radford et al., Learning Transferable Visual Models From Natural Language '
    'Supervision, 2021 (' + ('as OpenAI trained it' if quick_gelu else 'with GELU') + ')',
    licence='weights of OpenAI and of open_clip: MIT',
  )


def _efficientnet_lite(member: int, side: int) -> Architecture:
  return Architecture(
    name=f'efficientnet_lite{member}',
    family='efficientnet_lite',
    options=MappingProxyType({'member': member}),
    input_shape=(side, side, 3),
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
    stages=('stem', *(f'stage{number}' for number in range(1, 8)), 'top'),
    importable=True,
    source='Tan and Le, EfficientNet, 2019 (the Lite release of 2020)',
    licence='weights of google/tpu, converted: Apache-2.0',
  )


def _bit_resnet(depth: int, width: int) -> Architecture:
  return Architecture(
    name=f'bit_r{depth}x{width}',
    family='bit_resnet',
    options=MappingProxyType({'depth': depth, 'width': width}),
    input_shape=_IMAGENET,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    stages=_STEM_AND_FOUR_STAGES,
    importable=True,
    source='Kolesnikov et al., Big Transfer (BiT): General Visual Representation Learning, 2020',
    licence='weights of google-research/big_transfer, and of timm: Apache-2.0',
  )


def _squeezenet(version: str) -> Architecture:
  return Architecture(
    name=f'squeezenet{version.replace(".", "_")}',
    family='squeezenet',
    options=MappingProxyType({'version': version}),
    input_shape=_IMAGENET,
    mean=_IMAGENET_MEAN,
    std=_IMAGENET_STD,
    stages=_STEM_AND_STAGES,
    importable=True,
    source='Iandola et al., SqueezeNet, 2016',
    licence='weights of torchvision: BSD-3-Clause',
  )


def _vgg(depth: int, norm: str) -> Architecture:
  return Architecture(
    name=f'vgg{depth}' + ('_bn' if norm == 'batch' else ''),
    family='vgg',
    options=MappingProxyType({'depth': depth, 'norm': norm}),
    input_shape=_IMAGENET,
    mean=_IMAGENET_MEAN,
    std=_IMAGENET_STD,
    stages=('stage1', 'stage2', 'stage3', 'stage4', 'stage5'),
    importable=True,
    source='Simonyan and Zisserman, Very Deep Convolutional Networks, 2015',
    licence='weights of torchvision: BSD-3-Clause; of timm: Apache-2.0',
  )


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
  {
    architecture.name: architecture
    for architecture in (
      _small_cnn(),
      _cifar_resnet(20),
      _cifar_resnet(32),
      _cifar_resnet(44),
      _cifar_resnet(56),
      _cifar_resnet(110),
      _wide_resnet(28, 10),
      *(_efficientnet_lite(*arguments) for arguments in enumerate((224, 240, 260))),
      *(_resnet(depth, norm) for norm in ('batch', 'group') for depth in (18, 34, 50, 101, 152)),
      *(_bit_resnet(*arguments) for arguments in ((50, 1), (101, 1), (50, 3), (101, 3))),
      *(_squeezenet(version) for version in ('1.0', '1.1')),
      *(_vgg(depth, norm) for norm in ('none', 'batch') for depth in (16, 19)),
      *(_vit(size, patch) for size in 'sbl' for patch in (16, 32)),
      *(_clip('rn50', 0, quick_gelu) for quick_gelu in (False, True)),
      *(_clip('vit_b32', 32, quick_gelu) for quick_gelu in (False, True)),
    )
  }
)


def get(name: str) -> Architecture:
  """Returns the architecture called `name`; Wide ResNets of any size are known by their name.

  Raises:
    InputError: there is none; the message lists all and the nearest.
  """
  wide = re.fullmatch(r'wide_resnet_(\d+)_(\d+)', name)
  if wide:
    return _wide_resnet(int(wide[1]), int(wide[2]))
  if name not in ARCHITECTURES:
    raise InputError(f'unknown architecture {name!r}: {nearest(name, ARCHITECTURES)}')
  return ARCHITECTURES[name]
