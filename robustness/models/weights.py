"""A network's variables: out of a state dict, and to and from a file without torch.

Weights are only taken if they and the network fit each other exactly: every name used once,
every shape equal, every value finite.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

import flax.traverse_util
import numpy as np

from robustness.core import json_files
from robustness.core.array_files import digest_of
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.models import fitting, nearest_architecture, position_embedding
from robustness.models.architecture import Architecture
from robustness.models.naming import HEAD_BIAS, Path, Scheme, Shape
from robustness.models.state_dict import (
  SAFETENSORS_SUFFIX,
  check_weights_path,
  read_arrays,
  read_safetensors,
)

FORMAT = 'linen-variables'
DIGEST = 'sha256'
_log = logging.getLogger(__name__)


def load(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> dict[str, Any]:
  """Returns the variables in a file; see `load_with_notes`, which also says what was done."""
  return load_with_notes(path, architecture, num_classes, input_shape, positions)[0]


def load_with_notes(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> tuple[dict[str, Any], dict[str, str]]:
  """Returns the variables in a file, whichever of the known kinds it is of, and notes on them.

  Args:
    path: a file that `save_variables` wrote, or one that `read_arrays` takes.
    architecture: the network they are for.
    num_classes: how many logits are expected; None takes as many as the file has.
    input_shape: height, width, channels of the images; None takes the architecture's.
    positions: how position embeddings of another image size are resampled, one of
      `position_embedding.METHODS`.

  Returns:
    {'params': ..., 'batch_stats': ...}, float32 numpy arrays, and what was done to make them fit:
    {'position_embedding': '14 × 14 resampled to 24 × 24, bicubic'} or {}.

  Raises:
    InputError: the file cannot be read, or does not fit the network.
  """
  file = check_weights_path(path)
  try:
    own = _is_own(file)
    if own:
      read = _checked(load_variables(file)[0], architecture, num_classes, input_shape)
    else:
      read = _imported(architecture, read_arrays(file), num_classes, input_shape)
    return _for_grid(read, architecture, input_shape, positions, square=not own)
  except InputError as error:
    if str(file) in str(error):
      raise
    raise InputError(f'{file}: {error}') from error


def import_variables(
  architecture: Architecture,
  arrays: Mapping[str, np.ndarray],
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> dict[str, Any]:
  """Returns the Linen variables that hold the same numbers as another project's file.

  PyTorch's convolution kernels go from [out, in, height, width] to [height, width, in, out], its
  linear maps from [out, in] to [in, out]. Half and double precision become float32, which is
  logged.

  Args:
    architecture: the network the arrays are for.
    arrays: by the names of one of the architecture's schemes; the counters `num_batches_tracked`
      are left out.
    num_classes: how many logits are expected; None takes as many as there are.
    input_shape: height, width, channels of the images; None takes the architecture's.
    positions: how position embeddings of another image size are resampled.

  Returns:
    {'params': ..., 'batch_stats': ...}, float32 numpy arrays.

  Raises:
    InputError: names or shapes differ (the first ones are listed), the number of classes differs,
      an array is not of a float type or not finite, or no names are known for the network.
  """
  variables = _imported(architecture, arrays, num_classes, input_shape)
  return _for_grid(variables, architecture, input_shape, positions)[0]


def _imported(
  architecture: Architecture,
  arrays: Mapping[str, np.ndarray],
  num_classes: int | None,
  input_shape: Shape | None,
) -> dict[str, Any]:
  """Returns the variables with as many position embeddings as the file has."""
  scheme = _scheme(architecture, arrays)
  bias = arrays.get(scheme.locate(HEAD_BIAS).names[0])
  stored = None if bias is None or bias.ndim != 1 else bias.size
  fitting.check_classes(architecture, stored, num_classes)
  expected = fitting.linen_shapes(architecture, num_classes or stored or 1, input_shape)
  position = _position(expected, scheme, arrays)
  if position is not None:
    count = position.size // expected[position_embedding.PATH][-1]
    expected = position_embedding.stored_shapes(expected, count)
  try:
    return restore(expected, scheme, arrays)
  except fitting.MisfitError as error:
    nearest = nearest_architecture.phrase(scheme.wanted(arrays))
    raise InputError(f'the weights do not fit {architecture.name}: {error}{nearest}') from error


def restore(
  expected: Mapping[Path, Shape], scheme: Scheme, arrays: Mapping[str, np.ndarray]
) -> dict[str, Any]:
  """Returns variables of the expected shapes out of a file's arrays.

  Args:
    expected: the shape of every variable by its path.
    scheme: how the file names and lays them out.
    arrays: what the file holds.

  Raises:
    fitting.MisfitError: a name is missing or left over, or a shape differs.
    InputError: an array is not of a float type or not finite.
  """
  given = scheme.wanted(arrays)
  difference = fitting.difference(scheme.shapes(expected), {k: v.shape for k, v in given.items()})
  if difference:
    raise fitting.MisfitError(f'{difference} (names of {scheme.name})')
  converted = fitting.as_float32(given)
  flat = {path: scheme.locate(path).restore(converted, shape) for path, shape in expected.items()}
  return flax.traverse_util.unflatten_dict(flat)


def save_variables(
  path: str | os.PathLike[str], variables: Mapping[str, Any], metadata: Mapping[str, Any]
) -> None:
  """Writes variables to a safetensors file, which appears whole or not at all.

  Args:
    path: where to, ending in `.safetensors`.
    variables: a tree of arrays, for example {'params': ..., 'batch_stats': ...}.
    metadata: plain values that JSON can hold, given back by `load_variables`.

  Raises:
    InputError: the path ends otherwise.
    OSError: the file could not be written; an older one is left as it was.
  """
  if not str(path).endswith(SAFETENSORS_SUFFIX):
    raise InputError(f'variables are saved as {SAFETENSORS_SUFFIX}, not as {path}')
  flat = flax.traverse_util.flatten_dict(variables, sep='/')
  arrays = {name: np.ascontiguousarray(value) for name, value in flat.items()}
  header = {'format': FORMAT, 'metadata': json.dumps(dict(metadata), sort_keys=True)}
  header[DIGEST] = _digest(arrays, header)
  from safetensors.numpy import save  # an optional package, for these files alone

  write_atomically(path, save(arrays, header))


def load_variables(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
  """Returns the variables and the metadata that `save_variables` wrote.

  Raises:
    InputError: the file is missing, damaged or altered, or was written by something else.
  """
  file = check_weights_path(path)
  if not _is_own(file):
    raise InputError(f'{file} does not hold variables that were saved here: import it instead')
  flat, header = read_safetensors(file)
  digest = _digest(flat, header)
  if header.get(DIGEST, digest) != digest:
    raise InputError(
      f'{file} was altered: its weights have another digest than when they were saved. Save them '
      'anew.'
    )
  text = header.get('metadata', '{}').encode()
  metadata = json_files.parse(text, f'the metadata of {file}', {'class_names?': [str]})
  return flax.traverse_util.unflatten_dict(flat, sep='/'), metadata


def _digest(arrays: Mapping[str, np.ndarray], header: Mapping[str, str]) -> str:
  """Returns the SHA-256 of weights and metadata; files of earlier versions do not hold it."""
  return digest_of({**arrays, 'metadata': np.array(header.get('metadata', '{}'))})


def saved_class_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
  """Returns the class names that were saved with a file's variables; () if there are none."""
  file = check_weights_path(path)
  names = load_variables(file)[1].get('class_names', ()) if _is_own(file) else ()
  return tuple(names)


def num_classes(variables: Mapping[str, Any]) -> int:
  """Returns how many logits the network of these variables has."""
  return flax.traverse_util.flatten_dict(variables)[HEAD_BIAS].shape[0]


def sha256(path: str | os.PathLike[str]) -> str:
  """Returns the SHA-256 digest of a file, 64 hexadecimal digits."""
  with open(path, 'rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def _is_own(file: os.PathLike[str]) -> bool:
  """Whether `save_variables` wrote the file."""
  if not str(file).endswith(SAFETENSORS_SUFFIX):
    return False
  return read_safetensors(file)[1].get('format') == FORMAT


def _checked(
  variables: dict[str, Any],
  architecture: Architecture,
  num_classes: int | None,
  input_shape: Shape | None,
) -> dict[str, Any]:
  """Returns saved variables as float32 if they fit the network."""
  flat = flax.traverse_util.flatten_dict(variables)
  stored = flat[HEAD_BIAS].shape[0] if HEAD_BIAS in flat else None
  fitting.check_classes(architecture, stored, num_classes)
  shapes = fitting.linen_shapes(architecture, num_classes or stored or 1, input_shape)
  if position_embedding.PATH in flat and position_embedding.PATH in shapes:
    shapes = position_embedding.stored_shapes(shapes, flat[position_embedding.PATH].shape[1])
  given = {'/'.join(path): value for path, value in flat.items()}
  expected = {'/'.join(path): shape for path, shape in shapes.items()}
  difference = fitting.difference(expected, {name: value.shape for name, value in given.items()})
  if difference:
    raise InputError(f'the saved variables do not fit {architecture.name}: {difference}')
  return flax.traverse_util.unflatten_dict(fitting.as_float32(given), sep='/')


def _position(
  shapes: Mapping[Path, Shape], scheme: Scheme, arrays: Mapping[str, np.ndarray]
) -> np.ndarray | None:
  """Returns a file's position embedding of patches, or None."""
  if position_embedding.PATH not in shapes:
    return None
  return arrays.get(scheme.locate(position_embedding.PATH).names[0])


def _for_grid(
  variables: dict[str, Any],
  architecture: Architecture,
  input_shape: Shape | None,
  method: str,
  square: bool = True,
) -> tuple[dict[str, Any], dict[str, str]]:
  """Returns the variables for images of a shape, and a note if positions had to be resampled.

  The grid of published weights is `square`; that of our own may be any with this many patches.
  """
  flat = flax.traverse_util.flatten_dict(variables)
  position = flat.get(position_embedding.PATH)
  if position is None:
    return variables, {}
  height, width = (input_shape or architecture.input_shape)[:2]
  grid = (height // architecture.options['patch'], width // architecture.options['patch'])
  if position.shape[1] == 1 + grid[0] * grid[1] and (grid[0] == grid[1] or not square):
    return variables, {}
  note = position_embedding.describe(position, grid, method)
  _log.warning('position embedding: %s', note)
  flat[position_embedding.PATH] = position_embedding.resample(position, grid, method)
  return flax.traverse_util.unflatten_dict(flat), {'position_embedding': note}


def _scheme(architecture: Architecture, arrays: Mapping[str, np.ndarray]) -> Scheme:
  """Returns the naming scheme that most of the arrays follow; of equal ones the first."""
  if not architecture.schemes:
    raise InputError(
      f'no PyTorch names are known for {architecture.name}: give a {SAFETENSORS_SUFFIX} file'
      ' that was saved here, or train it'
    )
  paths = fitting.linen_shapes(architecture, 1)
  return max(architecture.schemes, key=lambda scheme: len(scheme.names(paths) & set(arrays)))
