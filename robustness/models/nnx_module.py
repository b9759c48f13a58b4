"""Makes a Flax NNX module a pure function of its arrays, in evaluation mode.

The module is split once into its arrays and its structure, which are merged again whenever the
function is traced.
"""

import dataclasses
from collections.abc import Callable, Collection

import jax
import jax.numpy as jnp
from flax import nnx

from robustness.core.errors import InputError
from robustness.core.typing import Variables
from robustness.models.callables import check_logits
from robustness.models.layers import first_calls

Outputs = tuple[jax.Array, dict[str, jax.Array]]
"""Logits [B, classes], and {layer: output}."""


@dataclasses.dataclass(frozen=True)
class NnxModule:
  """An NNX module in evaluation mode, split into structure and arrays.

  The module maps images [B, H, W, C] to logits [B, classes].

  Attributes:
    definition: the structure of the module.
    random: state of the random streams; unused in evaluation mode.
    variables: {path: array} of all other arrays.
  """

  definition: nnx.GraphDef[nnx.Module]
  random: nnx.State
  variables: Variables

  def __call__(self, variables: Variables, inputs: jax.Array, layers: Collection[str]) -> Outputs:
    """Returns the logits of inputs [B, H, W, C], and {layer: output} of the requested layers."""
    if not layers:
      return self._module(variables)(inputs), {}
    logits, outputs = self.logits_and_layers(variables, inputs)
    return logits, {path: value for path, value in outputs.items() if path in layers}

  def logits_and_layers(self, variables: Variables, inputs: jax.Array) -> Outputs:
    """Calls the NNX module and captures the outputs of all its submodules.

    Args:
      variables: the variables of the module.
      inputs: normalised images [B, H, W, C].

    Returns:
      The logits, and {path of a submodule: output of its first call}.
    """
    module = self._module(variables)
    captured = nnx.capture(module, nnx.Intermediate, method_outputs=nnx.Intermediate)
    logits, outputs = captured(inputs)  # the module's result, and the outputs of all submodules
    values = first_calls(nnx.to_pure_dict(outputs))
    # the path of the module itself is ''
    return logits, {path: x for path, x in values.items() if path and isinstance(x, jax.Array)}

  def _module(self, variables: Variables) -> Callable[[jax.Array], jax.Array]:
    """Rebuilds the module with the arrays of `variables`."""
    return nnx.merge(self.definition, self.random, nnx.State(variables), copy=True)


def split(module: object, name: str) -> NnxModule:
  """Copies an NNX module in evaluation mode and splits it into structure and arrays.

  Args:
    module: the module, which is not changed.
    name: name of the module in error messages.

  Raises:
    InputError: `module` is not an NNX module.
  """
  if not isinstance(module, nnx.Module):
    raise InputError(
      f'{name} is a {type(module).__name__}, not a flax.nnx.Module: Linen modules are wrapped by '
      'robustness.models.classifier.from_linen, functions by Classifier.from_callable.'
    )
  copy = nnx.clone(module)
  copy.eval()
  # one state for each filter: the random streams, and by `...` all other arrays
  definition, *states = nnx.split(copy, nnx.RngState, ...)
  random, arrays = states
  return NnxModule(definition, random, nnx.to_pure_dict(arrays))


def layer_names(
  module: NnxModule, image_shape: tuple[int, int, int], num_classes: int, name: str
) -> tuple[str, ...]:
  """Returns the paths of all submodules, such as 'blocks/0/conv'.

  The module is traced with shapes and computes nothing.

  Args:
    module: the module.
    image_shape: height, width and channels of the images.
    num_classes: number of logits that the module must return.
    name: name of the module in error messages.

  Raises:
    InputError: the module cannot be called with only images, or does not return floats
      [B, num_classes].
  """
  images = jax.ShapeDtypeStruct((2, *image_shape), jnp.float32)
  try:
    logits, layers = jax.eval_shape(module.logits_and_layers, module.variables, images)
  except (TypeError, ValueError) as error:
    raise InputError(
      f'{name} cannot be called with images {images.shape} alone: {type(error).__name__}: '
      f'{error} Wrap it in an nnx.Module whose __call__ takes images [B, H, W, C].'
    ) from error
  check_logits(name, logits, count=2, classes=num_classes)
  return tuple(layers)
