"""Which architectures there are: one table, one line of facts each.

The modules that hold the networks are imported when a network is built, by the name in the table.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from robustness.errors import InputError, nearest

StateDictName = Callable[[tuple[str, ...]], str]


@dataclasses.dataclass(frozen=True)
class Architecture:
  """What has to be known of a network before it is built.

  Attributes:
    name: what a config calls it.
    family: the module under `robustness.models` that builds it.
    options: the family's own arguments, for example depth.
    input_shape: height, width and channels that it was made for; others work too.
    mean: subtracted from images in [0, 1], one value a channel or one for all.
    std: what the difference is then divided by.
    stages: the layers meant by 'stages', from the input to the output: stem and residual stages.
    importable: whether PyTorch state dicts of it are understood.
    source: the paper it comes from.
    licence: under which terms published weights circulate, and where they come from.
  """

  name: str
  family: str
  options: Mapping[str, int] = dataclasses.field(hash=False)
  input_shape: tuple[int, int, int]
  mean: tuple[float, ...]
  std: tuple[float, ...]
  stages: tuple[str, ...]
  importable: bool
  source: str
  licence: str

  def build(
      self, num_classes: int, dtype: Any = jnp.float32, axis_name: str | None = None
  ) -> nn.Module:
    """Returns the network as a Linen module: `module(images, train=False) -> logits`.

    Args:
      num_classes: number of logits, at least 1.
      dtype: what is computed in; parameters and logits are float32.
      axis_name: the pmap axis over which batch norm is synchronised in training, or None.

    Raises:
      InputError: `num_classes` is below 1.
    """
    if num_classes < 1:
      raise InputError(f'{self.name} with {num_classes} classes: num_classes is 1 or more')
    return self._family().build(num_classes, dtype, axis_name, **self.options)

  @property
  def state_dict_name(self) -> StateDictName | None:
    """What names a layer as PyTorch state dicts do, given its path; None if not importable."""
    return self._family().state_dict_name if self.importable else None

  def _family(self) -> Any:
    return importlib.import_module(f'robustness.models.{self.family}')


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
  """Returns the architecture called `name`.

  Raises:
    InputError: there is none; the message lists all and the nearest.
  """
  if name not in ARCHITECTURES:
    raise InputError(f'unknown architecture {name!r}: {nearest(name, ARCHITECTURES)}')
  return ARCHITECTURES[name]
