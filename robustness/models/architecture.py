"""What has to be known of a network before it is built.

The module that holds the network is imported when it is built, by the name of its family.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.models.naming import Scheme


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
    importable: whether files of other projects with its weights are understood.
    source: the paper it comes from.
    licence: under which terms published weights circulate, and where they come from.
  """

  name: str
  family: str
  options: Mapping[str, Any] = dataclasses.field(hash=False)
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
  def schemes(self) -> tuple[Scheme, ...]:
    """The naming schemes of other projects' weights files, the usual one first; () if none."""
    return self._family().schemes(**self.options) if self.importable else ()

  def _family(self) -> Any:
    return importlib.import_module(f'robustness.models.{self.family}')
