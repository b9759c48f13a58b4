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
  """How a file stores an array: the order of its axes and its shape, compared with Linen's.

  Attributes:
    stored: function from the shape in Linen to the shape in the file.
    restored: function from the array in the file and the shape in Linen to the array in Linen.
  """

  stored: Callable[[Shape], Shape]
  restored: Callable[[np.ndarray, Shape], np.ndarray]


def reshaped(stored: Callable[[Shape], Shape]) -> Layout:
  """Returns the layout of arrays that files store in another shape, with values in Linen's order.

  `stored` maps the shape in Linen to the shape in the file.
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
  """The arrays of a file that hold a variable.

  Attributes:
    names: the name of the array. If there are several names, their arrays have equal sizes and are
      concatenated along Linen's last axis, such as the kernels of queries, keys and values.
    layout: the layout of each array.
  """

  names: tuple[str, ...]
  layout: Layout = AS_IS

  def shapes(self, linen_shape: Shape) -> dict[str, Shape]:
    """Returns {name: shape in the file} of the arrays, given the shape of the variable in Linen."""
    return dict.fromkeys(self.names, self.layout.stored(self._shape_of_part(linen_shape)))

  def restore(self, arrays: Mapping[str, np.ndarray], linen_shape: Shape) -> np.ndarray:
    """Returns the variable, an array of shape `linen_shape`, from a file's arrays by name."""
    shape = self._shape_of_part(linen_shape)
    parts = [self.layout.restored(arrays[name], shape) for name in self.names]
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))

  def _shape_of_part(self, linen_shape: Shape) -> Shape:
    """Returns the shape in Linen of the part of a variable that is stored under each name.

    The parts of a variable of shape `linen_shape` divide its last axis equally.
    """
    return (*linen_shape[:-1], linen_shape[-1] // len(self.names))


Names = dict[str, str | Stored]
"""{pattern of our names: template of another project's name}, see `Scheme.table`."""
PYTORCH = {'kernel': '.weight', 'scale': '.weight', 'bias': '.bias'}
PYTORCH |= {'mean': '.running_mean', 'var': '.running_var'}
"""The endings of PyTorch's names by Linen's name of an array."""


@dataclasses.dataclass(frozen=True)
class Scheme:
  r"""One project's names for the variables of a network.

  Attributes:
    name: the project, for messages.
    table: {regular expression of our paths: the project's name}. An expression must match the whole
      path of a variable, such as r'embedding/position', or of a layer, such as
      r'stage(\d)/block(\d+)/conv1'; the first match counts. The project's name is a template for
      `re.Match.expand`, such as r'layer\1.\2.conv1'. A `Stored` in place of the name is for a
      variable, or the kernel of a layer, that is stored as several arrays or in another layout.
    ignored: patterns for `fnmatch` of the project's names of arrays that the network lacks.
    headless: for projects with no last layer in their files, the beginning of a name that
      identifies such a file; '' if files have a last layer.
    zeros: patterns for `fnmatch` of the project's names of arrays that the network lacks because
      they must be zero, which is checked.
    suffixes: {Linen's name of an array: ending that follows the name of the layer}, such as
      {'kernel': '.weight'}.
    kernel: the layout of the kernels of layers, unless a `Stored` in `table` has another one.
    prefix: beginning of names, such as 'backbone.', that is removed from them.
    mean, std: the project's normalisation of images, or () if it is the architecture's.
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
    """Returns where a file stores the variable at a path: the names of its arrays and their layout.

    If an expression of `table` matches the path of the variable, its template is the whole name. If
    it matches the path of the layer, the ending of the name comes from `suffixes`.

    Raises:
      InputError: no expression of `table` matches.
    """
    variable, layer, leaf = '/'.join(path[1:]), '/'.join(path[1:-1]), path[-1]
    for pattern, entry in self.table.items():
      stored = Stored((entry,)) if isinstance(entry, str) else entry
      if match := re.fullmatch(pattern, variable):
        return Stored(tuple(map(match.expand, stored.names)), stored.layout)
      if match := re.fullmatch(pattern, layer):
        suffix = self.suffixes.get(leaf, '')
        names = tuple(match.expand(template) + suffix for template in stored.names)
        if leaf != 'kernel':  # biases and norms have one axis
          return Stored(names)
        return Stored(names, self.kernel if isinstance(entry, str) else stored.layout)
    raise InputError(f'the names of {self.name} have none for {"/".join(path)}')

  def shapes(self, linen_shapes: Mapping[Path, Shape]) -> dict[str, Shape]:
    """Returns {name: shape} of the arrays that a file must hold for variables {path: shape}."""
    shapes: dict[str, Shape] = {}
    for path, shape in linen_shapes.items():
      shapes |= self.locate(path).shapes(shape)
    return shapes

  def needed(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns {name without `prefix`: array} of a file's arrays that the network has variables for.

    These are all arrays but the ones with names that match a pattern of `ignored` or `zeros`.
    """
    needed = {name.removeprefix(self.prefix): array for name, array in arrays.items()}
    for pattern in (*self.ignored, *self.zeros):
      needed = {name: x for name, x in needed.items() if not fnmatch.fnmatchcase(name, pattern)}
    return needed

  def check_zeros(self, arrays: Mapping[str, np.ndarray]) -> None:
    """Raises InputError if an array is not zero although its name matches a pattern of `zeros`."""
    wrong: list[str] = []
    for pattern in self.zeros:
      wrong += [name for name in fnmatch.filter(arrays, pattern) if np.any(arrays[name])]
    if wrong:
      raise InputError(
        f'{len(wrong)} arrays are not zero, as {self.name} published them, and the network has '
        f'no place for them, first {wrong[0]}'
      )
