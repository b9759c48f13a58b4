"""Names and memory layouts of a network's arrays in the weights files of other projects.

A naming scheme maps the paths of a network's variables in Flax Linen to names of arrays in files
of one project, such as timm, by regular expressions. An architecture lists its schemes, the usual
one first.
"""

import dataclasses
import fnmatch
import math
import re
from collections.abc import Callable, Mapping

import numpy as np

from robustness.core.errors import InputError

Path = tuple[str, ...]
"""The path of a variable, such as ('params', 'stage1', 'block0', 'conv1', 'kernel')."""
Shape = tuple[int, ...]

HEAD_BIAS = ('params', 'head', 'dense', 'bias')
"""The path of the bias of the last layer, which is the same in all networks of this project."""
LAST_LAYERS = HEAD_BIAS[1:-1], HEAD_BIAS[1:-2]
"""The paths in `params` that a training takes for the last layer: ('head', 'dense'), or ('head',)
of a user's network."""


@dataclasses.dataclass(frozen=True)
class Layout:
  """The memory layout of an array in a weights file, such as a transposed kernel.

  Attributes:
    stored: function that maps the shape in Linen to the shape in the file.
    restored: function of (array in the file, shape in Linen) that returns the array for Linen.
  """

  stored: Callable[[Shape], Shape]
  restored: Callable[[np.ndarray, Shape], np.ndarray]


def reshaped(stored: Callable[[Shape], Shape]) -> Layout:
  """Returns the layout of arrays that files store with another shape but in the same order.

  Args:
    stored: function that maps the shape in Linen to the shape in the file.
  """
  return Layout(stored, lambda array, shape: array.reshape(shape))


def _from_flat_image(array: np.ndarray, shape: Shape) -> np.ndarray:
  """Returns a kernel [height, width, in, out] stored as a matrix [out, in × height × width]."""
  height, width, channels, outputs = shape
  return array.reshape(outputs, channels, height, width).transpose(2, 3, 1, 0)


# Functions of a shape s, and of an array a, see `Layout`.
# [...] is stored unchanged.
AS_IS = reshaped(lambda shape: shape)
# [in, out] or [height, width, in, out] is stored as [out, in] or [out, in, height, width].
OUTPUT_FIRST = Layout(
  lambda s: (s[-1], s[-2], *s[:-2]), lambda array, _: np.moveaxis(array, (1, 0), (-2, -1))
)
# A dense layer's [in, out] is stored as a 1×1 convolution: [out, in, 1, 1] or [1, 1, in, out].
OUTPUT_FIRST_POINTWISE = Layout(lambda s: (*s[::-1], 1, 1), lambda a, s: a.reshape(s[::-1]).T)
POINTWISE = reshaped(lambda shape: (1, 1, *shape))
# [height, width, in, out] is stored as [out, in × height × width].
FLAT_IMAGE = Layout(lambda shape: (shape[3], math.prod(shape[:3])), _from_flat_image)
# [1, 1 + N, D] is stored as [1, N, D]; the first entry is zero.
WITHOUT_FIRST = Layout(
  lambda s: (s[0], s[1] - 1, *s[2:]), lambda array, _: np.pad(array, ((0, 0), (1, 0), (0, 0)))
)


@dataclasses.dataclass(frozen=True)
class Stored:
  """The arrays of a weights file that hold one variable of a network.

  Attributes:
    names: names of arrays in the file, usually one. Several arrays of equal size are concatenated
      along Linen's last axis, for instance the kernels of queries, keys and values.
    layout: the memory layout of each array.
  """

  names: tuple[str, ...]
  layout: Layout = AS_IS

  def shapes(self, linen_shape: Shape) -> dict[str, Shape]:
    """Returns {name: shape} of the arrays in the file.

    Args:
      linen_shape: shape of the variable in Linen.
    """
    return dict.fromkeys(self.names, self.layout.stored(self._shape_of_part(linen_shape)))

  def restore(self, arrays: Mapping[str, np.ndarray], linen_shape: Shape) -> np.ndarray:
    """Converts arrays of a file to the variable in Linen.

    Args:
      arrays: {name in the file: array}.
      linen_shape: shape of the variable in Linen.
    """
    shape = self._shape_of_part(linen_shape)
    parts = [self.layout.restored(arrays[name], shape) for name in self.names]
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))

  def _shape_of_part(self, linen_shape: Shape) -> Shape:
    """Returns the shape of each part of a variable that is stored as several arrays.

    The parts divide the last axis of the variable equally.

    Args:
      linen_shape: shape of the whole variable in Linen.
    """
    return (*linen_shape[:-1], linen_shape[-1] // len(self.names))


Names = dict[str, str | Stored]
"""{pattern of our names: template of another project's name}, see `Scheme.table`."""
PYTORCH = {'kernel': '.weight', 'scale': '.weight', 'bias': '.bias'}
PYTORCH |= {'mean': '.running_mean', 'var': '.running_var'}
"""The endings of PyTorch's names by Linen's name of an array."""


@dataclasses.dataclass(frozen=True)
class Scheme:
  r"""Maps the variables of a network to the names in the weight files of one project.

  Attributes:
    name: the project, such as 'timm', for messages.
    table: {regular expression for our paths: template of the project's name}. For example,
      r'stage(\d)/block(\d+)/conv1' maps to r'layer\1.\2.conv1', a template for `re.Match.expand`.
      An expression matches the whole path of a variable or of a layer, and the first match counts.
      `Stored` in place of a template describes several arrays or another layout.
    ignored: `fnmatch` patterns for arrays in the file that the network does not need.
    headless: beginning of an array name that identifies files without a last layer; '' if all files
      have a last layer.
    zeros: `fnmatch` patterns for arrays in the file that the network does not have. Files are
      refused unless these arrays are zero.
    suffixes: {name of an array in Linen: suffix in the file}, such as {'kernel': '.weight'}.
    kernel: layout of kernels, unless `Stored` in `table` has another.
    prefix: beginning of names that is removed, such as 'backbone.'.
    mean, std: the project's normalisation of images; () for the architecture's.
  """

  name: str
  table: Names = dataclasses.field(hash=False)
  ignored: tuple[str, ...] = ('*.num_batches_tracked',)
  headless: str = ''
  zeros: tuple[str, ...] = ()
  suffixes: Mapping[str, str] = dataclasses.field(default_factory=lambda: PYTORCH, hash=False)
  kernel: Layout = OUTPUT_FIRST
  prefix: str = ''
  mean: tuple[float, ...] = ()
  std: tuple[float, ...] = ()

  def locate(self, path: Path) -> Stored:
    """Finds the arrays of a weights file that hold a variable.

    The regular expressions of `table` are tried in order. One that matches the variable's path,
    'stage1/block0/conv1/kernel', states the whole name of the array. One that matches the layer's
    path, 'stage1/block0/conv1', states the name of the layer, to which `suffixes` adds the end.

    Args:
      path: path of the variable, such as ('params', 'stage1', 'block0', 'conv1', 'kernel').

    Raises:
      InputError: no expression of `table` matches.
    """
    # path[0] is the collection, such as 'params'
    variable, layer, leaf = '/'.join(path[1:]), '/'.join(path[1:-1]), path[-1]
    for pattern, entry in self.table.items():
      if isinstance(entry, str):  # the template of one array; a kernel has the project's layout
        stored, kernel_layout = Stored((entry,)), self.kernel
      else:
        stored, kernel_layout = entry, entry.layout
      if match := re.fullmatch(pattern, variable):
        return Stored(tuple(map(match.expand, stored.names)), stored.layout)
      if match := re.fullmatch(pattern, layer):
        suffix = self.suffixes.get(leaf, '')
        names = tuple(match.expand(template) + suffix for template in stored.names)
        # other arrays than kernels have one axis, so no layout
        return Stored(names, kernel_layout if leaf == 'kernel' else AS_IS)
    raise InputError(f'the names of {self.name} have none for {"/".join(path)}')

  def shapes(self, linen_shapes: Mapping[Path, Shape]) -> dict[str, Shape]:
    """Returns {name: shape} of the arrays that a weights file in this naming scheme must hold.

    A scheme maps the variables of a network to the names of a project, such as timm, and to the
    layout of its arrays.

    Args:
      linen_shapes: {path of a variable: shape in Linen} of the network.
    """
    shapes: dict[str, Shape] = {}
    for path, shape in linen_shapes.items():
      shapes |= self.locate(path).shapes(shape)
    return shapes

  def needed(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Removes the arrays of a file that the network has no variables for.

    Args:
      arrays: {name: array} of the file.

    Returns:
      {name without `prefix`: array} of the names that match no pattern of `ignored` or `zeros`.
    """
    needed = {name.removeprefix(self.prefix): array for name, array in arrays.items()}
    for pattern in (*self.ignored, *self.zeros):
      needed = {name: x for name, x in needed.items() if not fnmatch.fnmatchcase(name, pattern)}
    return needed

  def check_zeros(self, arrays: Mapping[str, np.ndarray]) -> None:
    """Checks that the arrays of a weights file that the network has no place for are zero.

    Args:
      arrays: {name: array} of the file.

    Raises:
      InputError: an array with a name that matches a pattern of `zeros` is not zero.
    """
    wrong: list[str] = []
    for pattern in self.zeros:
      wrong += [name for name in fnmatch.filter(arrays, pattern) if np.any(arrays[name])]
    if wrong:
      raise InputError(
        f'{len(wrong)} arrays are not zero, as {self.name} published them, and the network has '
        f'no place for them, first {wrong[0]}'
      )
