"""Random weights, outputs and differences of networks and PyTorch's, for tests of parity."""

from __future__ import annotations

from collections.abc import Mapping

import flax.traverse_util
import jax
import numpy as np
import torch
from torch import nn

from robustness.core.typing import Variables
from robustness.models.architecture import Architecture
from tests.networks import imported

TOLERANCE = 1e-4


def randomise(network: nn.Module, seed: int = 3) -> nn.Module:
  """Gives every parameter and statistic random values that keep activations of order one."""
  generator = torch.Generator().manual_seed(seed)
  with torch.no_grad():
    for name, tensor in network.state_dict().items():
      if not tensor.is_floating_point():
        continue  # counts of batches, and indices such as those of relative positions
      if tensor.ndim > 1:
        noise = torch.randn(tensor.shape, generator=generator)
        tensor.copy_(noise * (2 / tensor[0].numel()) ** 0.5)
      else:
        centre = -0.5 if name.endswith(('bias', 'mean')) else 0.5
        tensor.copy_(torch.rand(tensor.shape, generator=generator) + centre)
  return network


def images(*shape: int) -> np.ndarray:
  """Returns standard normal float32 values, [B, H, W, C]."""
  return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def torch_images(x: np.ndarray) -> torch.Tensor:
  """Returns images as PyTorch has them, [B, C, H, W]."""
  return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())


def arrays(network: nn.Module) -> dict[str, np.ndarray]:
  """Returns a copy of a network's state dict."""
  return {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}


def torch_outputs(
  network: nn.Module, x: np.ndarray, layers: Mapping[str, str]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  """Returns the logits of images [B, H, W, C] in evaluation mode, and outputs of modules.

  Args:
    network: the network in PyTorch.
    x: images [B, H, W, C].
    layers: names of modules by the keys that their outputs get; these have channels last.
  """
  outputs: dict[str, np.ndarray] = {}
  is_channels_first = getattr(network, 'output_fmt', 'NCHW') == 'NCHW'  # not so in timm's Swin

  def keep(key: str, value: torch.Tensor) -> None:
    if is_channels_first and value.ndim == 4:
      value = value.permute(0, 2, 3, 1)
    outputs[key] = value.clone().numpy()  # a copy, as a later module may write in place

  modules = dict(network.named_modules())
  hooks = [
    modules[name].register_forward_hook(lambda m, i, o, key=key: keep(key, o))
    for key, name in layers.items()
  ]
  with torch.no_grad():
    logits = network.eval()(torch_images(x)).numpy()
  for hook in hooks:
    hook.remove()
  return logits, outputs


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
  """Returns the largest absolute difference divided by the largest absolute value."""
  assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
  return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def differences(
  architecture: Architecture,
  variables: Variables,
  network: nn.Module,
  x: np.ndarray,
  layers: Mapping[str, str],
) -> dict[str, float]:
  """Returns the differences of logits and of the named layers, in evaluation mode."""
  theirs, their_layers = torch_outputs(network, x, layers)
  assert np.abs(theirs).max() > 1e-3
  module = architecture.build(variables['params']['head']['dense']['kernel'].shape[-1])
  ours, state = jax.jit(
    lambda v, x: module.apply(v, x, capture_intermediates=True, mutable=['intermediates'])
  )(variables, x)
  flat = flax.traverse_util.flatten_dict(state['intermediates'], sep='/')
  pairs = {name: (flat[f'{name}/__call__'][0], value) for name, value in their_layers.items()}
  pairs = {'logits': (ours, theirs), **pairs}
  return {name: difference(np.asarray(ours), theirs) for name, (ours, theirs) in pairs.items()}


def assert_small(differences: Mapping[str, float], tolerance: float = TOLERANCE) -> None:
  """Asserts that differences are within the tolerance; an error names the others."""
  assert not {name: value for name, value in differences.items() if not value <= tolerance}


def assert_parity(
  architecture: Architecture, network: nn.Module, x: np.ndarray, layers: Mapping[str, str]
) -> None:
  """Asserts that logits and the named layers of the same weights agree."""
  variables = imported(architecture, arrays(network), None, x.shape[1:])
  assert_small(differences(architecture, variables, network, x, layers))
