"""Which architectures there are: one table, one line of facts each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from robustness.errors import InputError, nearest
from robustness.models.architecture import Architecture

_STAGES = ('stage1', 'stage2', 'stage3')
_STEM_AND_STAGES = ('stem', *_STAGES)  # the layers of figure 8 of Yin et al. (2019)
_CIFAR = (32, 32, 3)


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
      mean=(0.485, 0.456, 0.406),
      std=(0.229, 0.224, 0.225),
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


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({
    architecture.name: architecture
    for architecture in (
        _small_cnn(),
        _cifar_resnet(20),
        _cifar_resnet(32),
        _cifar_resnet(44),
        _cifar_resnet(56),
        _cifar_resnet(110),
        _wide_resnet(28, 10),
    )
})


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
