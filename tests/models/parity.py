"""What tests of parity with PyTorch share: random weights, both networks' answers, closeness."""

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
      if tensor.ndim > 1:
        noise = torch.randn(tensor.shape, generator=generator)
        tensor.copy_(noise * (2 / tensor[0].numel()) ** 0.5)
      elif tensor.is_floating_point():
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
  """Returns logits of images [B, H, W, C] in evaluation mode, and outputs with channels last of the
  modules that `layers` names, by the keys of it."""
  outputs: dict[str, np.ndarray] = {}
  turned = getattr(network, 'output_fmt', 'NCHW') == 'NCHW'  # timm's Swin has channels last

  def keep(key: str, value: torch.Tensor) -> None:
    # A later module may write in place.
    own = value.permute(0, 2, 3, 1) if turned and value.ndim == 4 else value
    outputs[key] = own.clone().numpy()

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
  """Returns the largest difference ÷ the largest value."""
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
  return {name: difference(np.asarray(own), value) for name, (own, value) in pairs.items()}


def assert_small(differences: Mapping[str, float], tolerance: float = TOLERANCE) -> None:
  """Names the differences above the tolerance."""
  assert not {name: value for name, value in differences.items() if not value <= tolerance}


def assert_parity(
  architecture: Architecture, network: nn.Module, x: np.ndarray, layers: Mapping[str, str]
) -> None:
  """Compares logits and the named layers of the same weights."""
  variables = imported(architecture, arrays(network), None, x.shape[1:])
  assert_small(differences(architecture, variables, network, x, layers))
