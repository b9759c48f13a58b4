"""How the files of other projects name and lay out the arrays of a network.

A family lists its `Scheme`s, the usual one first. A scheme says for the path of a variable, such as
('params', 'stage1', 'block0', 'conv1', 'kernel'), what the file calls it and how it is stored.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

Path = tuple[str, ...]
Shape = tuple[int, ...]
Variables = dict[str, Any]
"""Collections such as {'params': ..., 'batch_stats': ...}: nested dicts of arrays."""
Facts = Mapping[str, Any]
"""Plain values that JSON can hold."""

HEAD_BIAS = ('params', 'head', 'dense', 'bias')
_PYTORCH_LEAVES = {
  'kernel': 'weight',
  'scale': 'weight',
  'bias': 'bias',
  'mean': 'running_mean',
  'var': 'running_var',
}


@dataclasses.dataclass(frozen=True)
class Layout:
  """The order of an array's axes in a file.

  Attributes:
    stored: the shape in the file, given Linen's.
    restored: the array in Linen's order, given the file's array and Linen's shape.
  """

  stored: Callable[[Shape], Shape]
  restored: Callable[[np.ndarray, Shape], np.ndarray]


def reshaped(stored: Callable[[Shape], Shape]) -> Layout:
  """Returns the layout of an array whose values are in Linen's order, in another shape."""
  return Layout(stored, lambda array, shape: array.reshape(shape))


def _from_output_first(array: np.ndarray, shape: Shape) -> np.ndarray:
  del shape
  return np.moveaxis(array, (1, 0), (-2, -1))


def _from_flat_image(array: np.ndarray, shape: Shape) -> np.ndarray:
  height, width, channels, outputs = shape
  return array.reshape(outputs, channels, height, width).transpose(2, 3, 1, 0)


AS_IS = reshaped(lambda shape: shape)
# [in, out] or [height, width, in, out] is stored as [out, in] or [out, in, height, width].
OUTPUT_FIRST = Layout(lambda s: (s[-1], s[-2], *s[:-2]), _from_output_first)
# A dense layer's [in, out] is stored as a 1×1 convolution: [out, in, 1, 1] or [1, 1, in, out].
OUTPUT_FIRST_POINTWISE = Layout(lambda s: (s[1], s[0], 1, 1), lambda a, s: a.reshape(s[::-1]).T)
POINTWISE = reshaped(lambda s: (1, 1, *s))
# [height, width, in, out] is stored as [out, in × height × width].
FLAT_IMAGE = Layout(lambda s: (s[3], s[2] * s[0] * s[1]), _from_flat_image)


@dataclasses.dataclass(frozen=True)
class Stored:
  """Where a file has a variable.

  Attributes:
    names: of the array; several are equal parts that follow each other along Linen's last axis,
      as queries, keys and values do.
    layout: of each of them.
  """

  names: tuple[str, ...]
  layout: Layout = AS_IS

  def shapes(self, linen_shape: Shape) -> dict[str, Shape]:
    """Returns the shape of every named array, given that of the variable."""
    return dict.fromkeys(self.names, self.layout.stored(self._part(linen_shape)))

  def restore(self, arrays: Mapping[str, np.ndarray], linen_shape: Shape) -> np.ndarray:
    """Returns the variable, out of the file's arrays."""
    part = self._part(linen_shape)
    parts = [self.layout.restored(arrays[name], part) for name in self.names]
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))

  def _part(self, linen_shape: Shape) -> Shape:
    if len(self.names) == 1:
      return linen_shape
    return (*linen_shape[:-1], linen_shape[-1] // len(self.names))


@dataclasses.dataclass(frozen=True)
class Scheme:
  """One project's names for the variables of a network.

  Attributes:
    name: of the project, for messages.
    locate: where the file has the variable at a path.
    ignored: patterns of names that no variable needs, such as '*.num_batches_tracked'.
    headless: what some names of its files begin with, if these files have no head; '' if they do.
  """

  name: str
  locate: Callable[[Path], Stored]
  ignored: tuple[str, ...] = ()
  headless: str = ''

  def names(self, paths: Iterable[Path]) -> set[str]:
    """Returns every name that the variables at `paths` have in a file."""
    return {name for path in paths for name in self.locate(path).names}

  def shapes(self, linen_shapes: Mapping[Path, Shape]) -> dict[str, Shape]:
    """Returns the shape of every array that a file has to hold."""
    located = (self.locate(path).shapes(shape) for path, shape in linen_shapes.items())
    return {name: shape for shapes in located for name, shape in shapes.items()}

  def wanted(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the arrays without those that no variable needs."""
    return {
      name: array
      for name, array in arrays.items()
      if not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.ignored)
    }


def pytorch_array(layer: str, leaf: str, kernel: Layout = OUTPUT_FIRST) -> Stored:
  """Returns where a state dict has a layer's kernel, scale, bias, mean or variance.

  Args:
    layer: the module's name in PyTorch, for example 'layer1.0.conv1'.
    leaf: Linen's name of the array, the last part of its path.
    kernel: how kernels are laid out.
  """
  layout = kernel if leaf == 'kernel' else AS_IS
  return Stored((f'{layer}.{_PYTORCH_LEAVES[leaf]}',), layout)


def pytorch(name: str, layer: Callable[[Path], str]) -> Scheme:
  """Returns the scheme of a network whose state dict names layers by `layer`.

  Args:
    name: of the project.
    layer: the module's name in PyTorch, given the path of a Linen module without its collection.
  """
  return Scheme(
    name, lambda path: pytorch_array(layer(path[1:-1]), path[-1]), ('*.num_batches_tracked',)
  )
