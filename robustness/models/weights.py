"""A network's variables: read from any weights file, and saved to and read from safetensors files.

Weights must fit the network exactly: every name is used once, every shape is equal, and every value
is finite.
"""

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterable, Mapping

import flax.traverse_util
import jax
import ml_dtypes
import numpy as np

from robustness.core import json_files
from robustness.core.array_files import digest_of
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import KEYS, InputError
from robustness.core.typing import Facts, PyTree, Variables
from robustness.models import catalog, position_embedding
from robustness.models.architecture import Architecture
from robustness.models.naming import HEAD_BIAS, Path, Scheme, Shape, Stored
from robustness.models.state_dict import (
  SAFETENSORS_SUFFIX,
  check_weights_path,
  read_safetensors,
  read_with_notes,
)

FORMAT = 'linen-variables'
DIGEST = 'sha256'
_LISTED = 5
_FLOATS = tuple(np.dtype(d) for d in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16))
_log = logging.getLogger(__name__)


class _SavedHere(Scheme):
  """The names in files that `save_variables` wrote."""

  def locate(self, path: Path) -> Stored:
    return Stored(('/'.join(path),))


_SAVED_HERE: Scheme = _SavedHere('saved variables', {})


def load(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> Variables:
  """Returns the variables in a file; see `load_with_notes`, which returns notes as well."""
  return load_with_notes(path, architecture, num_classes, input_shape, positions)[0]


def load_with_notes(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> tuple[Variables, dict[str, str]]:
  """Returns the variables in a file of any supported kind, and notes on them.

  Args:
    path: a file that `save_variables` wrote, or one that `read_arrays` takes.
    architecture: the network of the variables.
    num_classes: expected number of logits; None takes the file's number, and from a file without a
      head variables without a head.
    input_shape: height, width, channels of the images; None takes the architecture's.
    positions: the method that resamples position embeddings of another image size, one of
      `position_embedding.METHODS`.

  Returns:
    {'params': ..., 'batch_stats': ...}, float32 numpy arrays, and the changes that made them fit,
    such as {'position_embedding': '14 × 14 resampled to 24 × 24, bicubic'}; with 'taken_from' of
    `read_with_notes`, and 'normalised_as', the project with the file's names, if its `Scheme` has a
    mean and a standard deviation.

  Raises:
    InputError: the file cannot be read, or does not fit the network.
  """
  file = check_weights_path(path)
  notes: dict[str, str] = {}
  try:
    if _saved_header(file):
      (arrays, facts), scheme = _read_saved(file), _SAVED_HERE
      saved = facts.get('architecture', architecture.name)
      if saved != architecture.name and {saved, architecture.name} <= catalog.ARCHITECTURES.keys():
        raise InputError(  # also if all shapes are equal, as with other padding
          f'the weights are of {saved!r}, not of {architecture.name!r}: set '
          f'--{KEYS.classifier.name}={saved}'
        )
    else:
      arrays, notes = read_with_notes(file)
      scheme = _scheme(architecture, arrays)
    variables, changes = _fitted(architecture, arrays, scheme, num_classes, input_shape, positions)
    normalised = {'normalised_as': scheme.name} if scheme.mean else {}
    return variables, {**notes, **changes, **normalised}
  except InputError as error:
    if str(file) in str(error):
      raise
    raise InputError(f'{file}: {error}') from error


def for_images(
  architecture: Architecture,
  variables: Variables,
  stored_shape: Shape,
  input_shape: Shape,
  positions: str,
) -> Variables:
  """Returns variables for images of `stored_shape` with positions resampled for another shape.

  See `load_with_notes`. Variables of a network without positions are returned unchanged.
  """
  flat = flax.traverse_util.flatten_dict(variables)
  if not position_embedding.is_resampled(flat):
    return variables
  arrays = {'/'.join(path): np.asarray(value) for path, value in flat.items()}
  return _fitted(architecture, arrays, _SAVED_HERE, None, input_shape, positions, stored_shape)[0]


def _scheme(architecture: Architecture, arrays: Mapping[str, np.ndarray]) -> Scheme:
  """Returns the naming scheme that most of the arrays follow, the first of equal schemes."""
  if not architecture.schemes:
    raise InputError(
      f'no PyTorch names are known for {architecture.name}: give a {SAFETENSORS_SUFFIX} file'
      ' that was saved here, or train it'
    )
  shapes = architecture.shapes(1)
  return max(
    architecture.schemes,
    key=lambda scheme: len(scheme.shapes(shapes).keys() & scheme.needed(arrays).keys()),
  )


def _fitted(
  architecture: Architecture,
  arrays: Mapping[str, np.ndarray],
  scheme: Scheme,
  num_classes: int | None,
  input_shape: Shape | None,
  positions: str,
  stored_shape: Shape | None = None,
) -> tuple[Variables, dict[str, str]]:
  """Returns the variables that the arrays hold for images of a shape, and notes."""
  scheme.check_zeros(arrays)
  arrays = scheme.needed(arrays)
  stored = _stored_classes(scheme, arrays)
  if None not in (stored, num_classes) and stored != num_classes:
    raise InputError(
      f'the weights of {architecture.name} tell {stored} classes apart, and {num_classes} were'
      f' asked for: give weights trained on {num_classes} classes, or, where the data have some of'
      f" their {stored}, name these by save_variables(PATH, load(...), {{'class_names': [...]}})"
    )
  expected = architecture.shapes(num_classes or stored or 1, input_shape)
  if num_classes is None:
    if (*HEAD_BIAS[:-1], 'kernel') not in expected:
      raise InputError(
        f'the number of classes of the weights of {architecture.name} is not known: the last '
        "layer is not head/dense: end it with robustness.models.layers.LinearHead, name='head'"
      )
    headless = {path: shape for path, shape in expected.items() if path[:2] != HEAD_BIAS[:2]}
    if arrays.keys() == scheme.shapes(headless).keys():
      expected = headless
  height, width = (input_shape or architecture.input_shape)[:2]
  if windows := _other_windows(scheme, arrays, expected):
    if height != width:
      raise InputError(
        f'images of {height} × {width} pixels give {architecture.name} windows of another size '
        'than its weights have, which are resampled for square images only: resize to a square, '
        f'or to {architecture.input_shape[0]} pixels or more on both sides'
      )
    variables = restore(architecture.name, {**expected, **windows}, scheme, arrays)
    return _resampled_windows(variables, windows, expected, positions)
  if position_embedding.PATH not in expected:
    return restore(architecture.name, expected, scheme, arrays), {}
  located, shape = scheme.locate(position_embedding.PATH), expected[position_embedding.PATH]
  patch = expected['params', 'embedding', 'patches', 'kernel'][0]
  rows, columns = height // patch, width // patch
  before = shape[1] - rows * columns
  position = arrays.get(located.names[0])
  if position is not None:
    left_out = shape[1] - math.prod(located.shapes(shape)[located.names[0]]) // shape[2]
    count = position.size // shape[2] + left_out
    if stored_shape or position_embedding.stored_side(count, before):
      expected = {**expected, position_embedding.PATH: (1, count, shape[2])}
  variables = restore(architecture.name, expected, scheme, arrays)
  flat = flax.traverse_util.flatten_dict(variables)
  stored_positions = flat[position_embedding.PATH]
  side = position_embedding.stored_side(stored_positions.shape[1], before)
  grid = (side, side)  # the grid of published weights is square
  if stored_shape:
    grid = (stored_shape[0] // patch, stored_shape[1] // patch)
  if grid == (rows, columns) or not all(grid):
    return variables, {}
  if scheme is _SAVED_HERE and not stored_shape and stored_positions.shape == shape:
    raise InputError(
      f'images of {height} × {width} pixels give {rows} × {columns} patches, as many as {side} × '
      f'{side}, and the file does not say which of these its positions are for: give the folder of '
      'checkpoints, or resize to a square'
    )
  note = f'{grid[0]} × {grid[1]} resampled to {rows} × {columns}, {positions}'
  _log.warning('position embedding: %s', note)
  flat[position_embedding.PATH] = position_embedding.resample(
    stored_positions, (rows, columns), positions, before, grid
  )
  return flax.traverse_util.unflatten_dict(flat), {'position_embedding': note}


def _other_windows(
  scheme: Scheme, arrays: Mapping[str, np.ndarray], expected: Mapping[Path, Shape]
) -> dict[Path, Shape]:
  """Returns the shapes of a file's tables for square windows of another size, by path."""
  windows = {}
  for path, shape in expected.items():
    if path[-1] != position_embedding.WINDOW_BIAS:
      continue
    stored = getattr(arrays.get(scheme.locate(path).names[0]), 'shape', shape)
    is_square = position_embedding.stored_side(stored[0], 0) % 2
    if stored != shape and stored[1:] == shape[1:] and is_square:
      windows[path] = stored
  return windows


def _resampled_windows(
  variables: Variables, stored: Mapping[Path, Shape], expected: Mapping[Path, Shape], method: str
) -> tuple[Variables, dict[str, str]]:
  """Returns the variables with the `stored` tables resampled to the expected size, and a note."""
  flat, notes = flax.traverse_util.flatten_dict(variables), set()
  for path in stored:
    old, new = math.isqrt(stored[path][0]), math.isqrt(expected[path][0])
    flat[path] = position_embedding.resample_window(flat[path], new, method)
    notes.add(f'{old} × {old} resampled to {new} × {new}, {method}')
  note = '; '.join(sorted(notes))
  _log.warning('offsets within windows: %s', note)
  return flax.traverse_util.unflatten_dict(flat), {position_embedding.WINDOW_BIAS: note}


def with_head(
  architecture: Architecture, variables: Variables, input_shape: Shape | None = None
) -> Variables:
  """Returns variables with a head of zeros for one class if they have no head."""
  flat = flax.traverse_util.flatten_dict(variables)
  if HEAD_BIAS in flat:
    return variables
  shapes = architecture.shapes(1, input_shape)
  zeros = {path: np.zeros(shape, np.float32) for path, shape in shapes.items()}
  return flax.traverse_util.unflatten_dict({**zeros, **flat})


def restore(
  owner: str, expected: Mapping[Path, Shape], scheme: Scheme, arrays: Mapping[str, np.ndarray]
) -> Variables:
  """Returns variables of the expected shapes from a file's arrays, float32.

  Raises:
    InputError: a name is missing or left over, a shape differs (the nearest architecture is named),
      or an array is not of a float type or not finite. The message names the `owner` of the
      variables.
  """
  arrays, shapes = scheme.needed(arrays), scheme.shapes(expected)
  misfits = {
    'missing': [name for name in shapes if name not in arrays],
    'unexpected': [name for name in arrays if name not in shapes],
    'of another shape': [
      f'{name} is {arrays[name].shape}, not {shape}'
      for name, shape in shapes.items()
      if name in arrays and arrays[name].shape != shape
    ],
  }
  if any(misfits.values()):
    listed = '; '.join(f'{len(n)} {kind}: {first_names(n)}' for kind, n in misfits.items() if n)
    raise InputError(
      f'the weights do not fit {owner}: {listed} (names of {scheme.name}){_nearest(arrays)}'
    )
  converted = _as_float32(arrays)
  flat = {path: scheme.locate(path).restore(converted, shape) for path, shape in expected.items()}
  return flax.traverse_util.unflatten_dict(flat)


def first_names(names: Iterable[str]) -> str:
  """Returns the first few names, and '...' if there are more."""
  listed = list(names)
  return ', '.join(listed[:_LISTED]) + (', ...' if len(listed) > _LISTED else '')


def _stored_classes(scheme: Scheme, arrays: Mapping[str, np.ndarray]) -> int | None:
  """Returns the number of classes by the head's bias, or by its kernel in networks without a bias.

  It is None if there is no head.
  """
  bias = arrays.get(scheme.locate(HEAD_BIAS).names[0])
  if bias is not None:
    return bias.size if bias.ndim == 1 else None
  kernel = scheme.locate((*HEAD_BIAS[:-1], 'kernel'))
  inputs, outputs = 2, 3
  order = kernel.layout.stored((inputs, outputs))
  array = arrays.get(kernel.names[0])
  return None if array is None or array.ndim != len(order) else array.shape[order.index(outputs)]


def _as_float32(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the arrays as float32; half and double precision are converted, which is logged."""
  dtypes = {name: value.dtype for name, value in arrays.items()}
  if other := [f'{name} is {dtype}' for name, dtype in dtypes.items() if dtype not in _FLOATS]:
    raise InputError(f'weights are floats; {len(other)} tensors are not: {first_names(other)}')
  if converted := sorted({str(dtype) for dtype in dtypes.values() if dtype != np.float32}):
    _log.warning('weights stored as %s were converted to float32', ', '.join(converted))
  with np.errstate(over='ignore', invalid='ignore'):
    floats = {name: value.astype(np.float32, copy=False) for name, value in arrays.items()}
  if broken := [name for name, value in floats.items() if not np.isfinite(value).all()]:
    raise InputError(f'{len(broken)} tensors hold NaN or infinity: {first_names(broken)}')
  return floats


def _nearest(arrays: Mapping[str, np.ndarray]) -> str:
  """Returns a sentence that names the architecture with the best fit; '' if none fits well.

  The fit is |common| ÷ |all| of the arrays and an architecture's variables, in the best of its
  schemes. Only networks with a similar number of parameters and with a head that the arrays have
  are built, which takes a second each.
  """
  values = sum(array.size for array in arrays.values())
  shares = dict.fromkeys(catalog.ARCHITECTURES, 0.0)
  for name, architecture in catalog.ARCHITECTURES.items():
    if not values / 1.5 <= (architecture.parameters or values) <= values * 1.5:
      continue
    for scheme in architecture.schemes:
      if scheme.headless:
        classes = int(any(key.startswith(scheme.headless) for key in arrays))
      else:
        classes = _stored_classes(scheme, arrays) or 0
      if classes:
        expected = scheme.shapes(architecture.shapes(classes)).items()
        actual = {key: array.shape for key, array in scheme.needed(arrays).items()}.items()
        shares[name] = max(shares[name], len(expected & actual) / len(expected | actual))
  best = max(shares, key=lambda name: shares[name])
  if shares[best] == 1:
    return f'. The names and shapes are those of {best!r}'
  if shares[best] > 0.5:
    return f'. The nearest architecture is {best!r}, with {int(100 * shares[best])}% in common'
  return ''


def save_variables(path: str | os.PathLike[str], variables: Variables, metadata: Facts) -> None:
  """Writes variables to a safetensors file atomically.

  Args:
    path: path of the file, ending in `.safetensors`.
    variables: a tree of arrays, for example {'params': ..., 'batch_stats': ...}.
    metadata: plain values that JSON can hold, which `load_variables` returns.

  Raises:
    InputError: the path has another suffix.
    OSError: the file could not be written; an older file is unchanged.
  """
  if not str(path).endswith(SAFETENSORS_SUFFIX):
    raise InputError(f'variables are saved as {SAFETENSORS_SUFFIX}, not as {path}')
  flat = flax.traverse_util.flatten_dict(variables, sep='/')
  arrays = {name: np.ascontiguousarray(value) for name, value in flat.items()}
  header = {'format': FORMAT, 'metadata': json.dumps(dict(metadata), sort_keys=True)}
  header[DIGEST] = _digest(arrays, header)
  from safetensors.numpy import save  # an optional package, for these files alone

  write_atomically(path, save(arrays, header))


def load_variables(path: str | os.PathLike[str]) -> tuple[Variables, Facts]:
  """Returns the variables and the metadata that `save_variables` wrote.

  Raises:
    InputError: the file is missing, damaged or altered, or was written by something else.
  """
  flat, metadata = _read_saved(check_weights_path(path))
  return flax.traverse_util.unflatten_dict(flat, sep='/'), metadata


def _read_saved(file: os.PathLike[str]) -> tuple[dict[str, np.ndarray], Facts]:
  """Returns the arrays by their paths, joined by '/', and the metadata."""
  if not _saved_header(file):
    raise InputError(f'{file} does not hold variables that were saved here: import it instead')
  flat, header = read_safetensors(file)
  if header.get(DIGEST) != _digest(flat, header):
    raise InputError(
      f'{file} was altered: its weights had another digest when they were saved. Save them again.'
    )
  return flat, _facts(file, header)


def _facts(file: os.PathLike[str], header: Mapping[str, str]) -> Facts:
  """Returns the metadata of a file that `save_variables` wrote."""
  form = {'architecture?': str, 'class_names?': [str], 'preprocessing?': dict}
  text = header.get('metadata', '{}').encode()
  return json_files.parse(text, f'the metadata of {file}', form)


def saved_facts(path: str | os.PathLike[str]) -> Facts:
  """Returns the metadata that were saved with a file's variables; {} for other files.

  Reading the variables checks whether the metadata were altered.
  """
  file = check_weights_path(path)
  return _facts(file, _saved_header(file))


def _digest(arrays: Mapping[str, np.ndarray], header: Mapping[str, str]) -> str:
  """Returns the SHA-256 of weights and metadata."""
  return digest_of({**arrays, 'metadata': np.array(header.get('metadata', '{}'))})


def saved_class_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
  """Returns the class names that were saved with a file's variables; () if there are none."""
  return tuple(saved_facts(path).get('class_names', ()))


def digest(variables: PyTree) -> str:
  """Returns the SHA-256 of all weights, in the order of the tree, as hexadecimal."""
  total = hashlib.sha256()
  for path, leaf in jax.tree_util.tree_leaves_with_path(variables):
    values = np.ascontiguousarray(leaf)
    total.update(f'{jax.tree_util.keystr(path)} {values.dtype} {values.shape}'.encode())
    total.update(values.tobytes())
  return total.hexdigest()


def _saved_header(file: os.PathLike[str]) -> dict[str, str]:
  """Returns the texts of the header of a file that `save_variables` wrote; {} for other files."""
  if not str(file).endswith(SAFETENSORS_SUFFIX):
    return {}
  header = read_safetensors(file, tensors=False)[1]
  return header if header.get('format') == FORMAT else {}
