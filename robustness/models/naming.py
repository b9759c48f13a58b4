"""How the files of other projects name and lay out the arrays of a network.

A family lists its `Scheme`s, the usual one first: a project's names by regular expressions of ours.
"""

import dataclasses
import fnmatch
import re
from collections.abc import Callable, Mapping

import numpy as np

from robustness.core.errors import InputError

Path = tuple[str, ...]
"""Of a variable, such as ('params', 'stage1', 'block0', 'conv1', 'kernel')."""
Shape = tuple[int, ...]

HEAD_BIAS = ('params', 'head', 'dense', 'bias')


@dataclasses.dataclass(frozen=True)
class AxisOrder:
  """The order of an array's axes in a file.

  Attributes:
    stored: the shape in the file, given Linen's.
    restored: the array in Linen's order, given the file's array and Linen's shape.
  """

  stored: Callable[[Shape], Shape]
  restored: Callable[[np.ndarray, Shape], np.ndarray]


def reshaped(stored: Callable[[Shape], Shape]) -> AxisOrder:
  """Returns the layout of an array whose values are in Linen's order, in another shape."""
  return AxisOrder(stored, lambda array, shape: array.reshape(shape))


def _from_flat_image(array: np.ndarray, shape: Shape) -> np.ndarray:
  height, width, channels, outputs = shape
  return array.reshape(outputs, channels, height, width).transpose(2, 3, 1, 0)


AS_IS = reshaped(lambda shape: shape)
# [in, out] or [height, width, in, out] is stored as [out, in] or [out, in, height, width].
OUTPUT_FIRST = AxisOrder(
  lambda s: (s[-1], s[-2], *s[:-2]), lambda a, s: np.moveaxis(a, (1, 0), (-2, -1))
)
# A dense layer's [in, out] is stored as a 1×1 convolution: [out, in, 1, 1] or [1, 1, in, out].
OUTPUT_FIRST_POINTWISE = AxisOrder(lambda s: (s[1], s[0], 1, 1), lambda a, s: a.reshape(s[::-1]).T)
POINTWISE = reshaped(lambda s: (1, 1, *s))
# [height, width, in, out] is stored as [out, in × height × width].
FLAT_IMAGE = AxisOrder(lambda s: (s[3], s[2] * s[0] * s[1]), _from_flat_image)
# [1, 1 + N, D] is stored as [1, N, D]; what comes first is zero.
WITHOUT_FIRST = AxisOrder(
  lambda s: (s[0], s[1] - 1, *s[2:]), lambda a, s: np.pad(a, ((0, 0), (1, 0), (0, 0)))
)


@dataclasses.dataclass(frozen=True)
class Stored:
  """Where a file has a variable.

  Attributes:
    names: of the array; several are equal parts that follow each other along Linen's last axis,
      as queries, keys and values do.
    layout: of each of them.
  """

  names: tuple[str, ...]
  layout: AxisOrder = AS_IS

  def shapes(self, linen_shape: Shape) -> dict[str, Shape]:
    """Returns the shape of every named array, given that of the variable."""
    return dict.fromkeys(self.names, self.layout.stored(self._part(linen_shape)))

  def restore(self, arrays: Mapping[str, np.ndarray], linen_shape: Shape) -> np.ndarray:
    """Returns the variable, out of the file's arrays."""
    part = self._part(linen_shape)
    parts = [self.layout.restored(arrays[name], part) for name in self.names]
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))

  def _part(self, linen_shape: Shape) -> Shape:
    return (*linen_shape[:-1], linen_shape[-1] // len(self.names))


Names = dict[str, str | Stored]
PYTORCH = {
  'kernel': '.weight',
  'scale': '.weight',
  'bias': '.bias',
  'mean': '.running_mean',
  'var': '.running_var',
}


@dataclasses.dataclass(frozen=True)
class Scheme:
  r"""One project's names for the variables of a network.

  Attributes:
    name: of the project, for messages.
    table: a template of its name (`re.Match.expand`) by a pattern of ours. A pattern matches all of
      a layer's path, such as r'stage(\d)/block(\d+)/conv1', or all of an array's, such as
      r'embedding/position'; the first that matches is taken. `Stored` says another layout, which of
      a layer is its kernel's.
    ignored: patterns of names that no variable needs.
    zeros: patterns of names that no variable needs because their values are zero, which is checked.
    headless: what some names of its files begin with, if these files have no head; '' if they do.
    suffixes: what follows the name of a layer, by Linen's name of the array.
    kernel: how the kernels of layers are laid out.
    prefix: what names begin with in files that hold more than the network, taken off.
    mean, std: what the project normalises images by, where that is not the architecture's; else ().
  """

  name: str
  table: Names = dataclasses.field(hash=False)
  ignored: tuple[str, ...] = ('*.num_batches_tracked',)
  headless: str = ''
  zeros: tuple[str, ...] = ()
  suffixes: Mapping[str, str] = dataclasses.field(default_factory=lambda: PYTORCH, hash=False)
  kernel: AxisOrder = OUTPUT_FIRST
  prefix: str = ''
  mean: tuple[float, ...] = ()
  std: tuple[float, ...] = ()

  def locate(self, path: Path) -> Stored:
    """Returns where the file has the variable at a path.

    Raises:
      InputError: no pattern of the table matches.
    """
    layer, leaf = '/'.join(path[1:-1]), path[-1]
    of_layer = self.kernel if leaf == 'kernel' else AS_IS
    places = (('/'.join(path[1:]), '', AS_IS), (layer, self.suffixes.get(leaf, ''), of_layer))
    for pattern, names in self.table.items():
      for text, suffix, layout in places:
        if match := re.fullmatch(pattern, text):
          if isinstance(names, str):
            return Stored((match.expand(names) + suffix,), layout)
          whole = text is not layer or leaf == 'kernel'
          found = tuple(match.expand(name) + suffix for name in names.names)
          return Stored(found, names.layout if whole else AS_IS)
    raise InputError(f'the names of {self.name} have none for {"/".join(path)}')

  def shapes(self, linen_shapes: Mapping[Path, Shape]) -> dict[str, Shape]:
    """Returns the shape of every array that a file has to hold."""
    located = (self.locate(path).shapes(shape) for path, shape in linen_shapes.items())
    return {name: shape for shapes in located for name, shape in shapes.items()}

  def wanted(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the arrays without those that no variable needs, by names without the prefix."""
    return {
      name: array
      for name, array in ((n.removeprefix(self.prefix), a) for n, a in arrays.items())
      if not any(fnmatch.fnmatchcase(name, pattern) for pattern in (*self.ignored, *self.zeros))
    }

  def check_zeros(self, arrays: Mapping[str, np.ndarray]) -> None:
    """Raises InputError where arrays that must be zero are not."""
    found = [name for pattern in self.zeros for name in fnmatch.filter(arrays, pattern)]
    wrong = [name for name in found if np.any(arrays[name])]
    if wrong:
      raise InputError(
        f'{len(wrong)} arrays are not zero, as {self.name} published them, and the network has '
        f'no place for them, first {wrong[0]}'
      )
