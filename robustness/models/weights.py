"""A network's variables: out of any weights file, and to and from a file without torch.

Weights are only taken if they and the network fit each other exactly: every name used once,
every shape equal, every value finite.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping

import flax.traverse_util
import numpy as np

from robustness.core import json_files
from robustness.core.array_files import digest_of
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.models import fitting, position_embedding
from robustness.models.architecture import Architecture
from robustness.models.naming import HEAD_BIAS, Facts, Scheme, Shape, Stored, Variables
from robustness.models.state_dict import (
  SAFETENSORS_SUFFIX,
  check_weights_path,
  read_arrays,
  read_safetensors,
)

FORMAT = 'linen-variables'
DIGEST = 'sha256'
SAVED_HERE = Scheme('saved variables', lambda path: Stored(('/'.join(path),)))
_PATCHES = ('params', 'embedding', 'patches', 'kernel')
_log = logging.getLogger(__name__)


def load(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> Variables:
  """Returns the variables in a file; see `load_with_notes`, which also says what was done."""
  return load_with_notes(path, architecture, num_classes, input_shape, positions)[0]


def load_with_notes(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> tuple[Variables, dict[str, str]]:
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
    if _is_own(file):
      arrays, scheme = _read_own(file)[0], SAVED_HERE
    else:
      arrays = read_arrays(file)
      scheme = _scheme(architecture, arrays)
    return _fitted(architecture, arrays, scheme, num_classes, input_shape, positions)
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
) -> Variables:
  """Returns the Linen variables that hold the same numbers as another project's file.

  PyTorch's convolution kernels go from [out, in, height, width] to [height, width, in, out], its
  linear maps from [out, in] to [in, out]. Half and double precision become float32, which is
  logged. The arrays have the names of one of the architecture's schemes; for the rest see
  `load_with_notes`.

  Raises:
    InputError: names or shapes differ (the first ones are listed), the number of classes differs,
      an array is not of a float type or not finite, or no names are known for the network.
  """
  scheme = _scheme(architecture, arrays)
  return _fitted(architecture, arrays, scheme, num_classes, input_shape, positions)[0]


def _scheme(architecture: Architecture, arrays: Mapping[str, np.ndarray]) -> Scheme:
  """Returns the naming scheme that most of the arrays follow; of equal ones the first."""
  if not architecture.schemes:
    raise InputError(
      f'no PyTorch names are known for {architecture.name}: give a {SAFETENSORS_SUFFIX} file'
      ' that was saved here, or train it'
    )
  paths = architecture.shapes(1)
  return max(architecture.schemes, key=lambda scheme: len(scheme.names(paths) & set(arrays)))


def _fitted(
  architecture: Architecture,
  arrays: Mapping[str, np.ndarray],
  scheme: Scheme,
  num_classes: int | None,
  input_shape: Shape | None,
  positions: str,
) -> tuple[Variables, dict[str, str]]:
  """Returns the variables that the arrays hold for images of a shape, and notes."""
  stored = fitting.stored_classes(scheme, arrays)
  if None not in (stored, num_classes) and stored != num_classes:
    raise InputError(
      f'the weights of {architecture.name} tell {stored} classes apart, and {num_classes} were'
      f' asked for: set num_classes to {stored}, or give weights trained on {num_classes} classes'
    )
  expected = architecture.shapes(num_classes or stored or 1, input_shape)
  if position_embedding.PATH not in expected:
    return fitting.restore(architecture.name, expected, scheme, arrays), {}
  position = arrays.get(scheme.locate(position_embedding.PATH).names[0])
  if position is not None:
    width = expected[position_embedding.PATH][-1]
    if position_embedding.stored_side(count := position.size // width):
      expected = {**expected, position_embedding.PATH: (1, count, width)}
  variables = fitting.restore(architecture.name, expected, scheme, arrays)
  height, width = (input_shape or architecture.input_shape)[:2]
  patch = expected[_PATCHES][0]
  return _on_grid(variables, (height // patch, width // patch), positions, scheme is SAVED_HERE)


def _on_grid(
  variables: Variables, grid: position_embedding.Grid, method: str, own: bool
) -> tuple[Variables, dict[str, str]]:
  """Returns the variables for a grid of patches, and a note if positions had to be resampled.

  The grid of published weights is square; that of our `own` may be any with this many patches.
  """
  flat = flax.traverse_util.flatten_dict(variables)
  position = flat[position_embedding.PATH]
  if position.shape[1] == 1 + grid[0] * grid[1] and (grid[0] == grid[1] or own):
    return variables, {}
  side = position_embedding.stored_side(position.shape[1])
  note = f'{side} × {side} resampled to {grid[0]} × {grid[1]}, {method}'
  _log.warning('position embedding: %s', note)
  flat[position_embedding.PATH] = position_embedding.resample(position, grid, method)
  return flax.traverse_util.unflatten_dict(flat), {'position_embedding': note}


def save_variables(path: str | os.PathLike[str], variables: Variables, metadata: Facts) -> None:
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


def load_variables(path: str | os.PathLike[str]) -> tuple[Variables, Facts]:
  """Returns the variables and the metadata that `save_variables` wrote.

  Raises:
    InputError: the file is missing, damaged or altered, or was written by something else.
  """
  flat, metadata = _read_own(check_weights_path(path))
  return flax.traverse_util.unflatten_dict(flat, sep='/'), metadata


def _read_own(file: os.PathLike[str]) -> tuple[dict[str, np.ndarray], Facts]:
  """Returns the arrays by their paths, joined by '/', and the metadata."""
  if not _is_own(file):
    raise InputError(f'{file} does not hold variables that were saved here: import it instead')
  flat, header = read_safetensors(file)
  digest = _digest(flat, header)
  if header.get(DIGEST, digest) != digest:
    raise InputError(
      f'{file} was altered: its weights have another digest than when they were saved. Save them '
      'again.'
    )
  text = header.get('metadata', '{}').encode()
  return flat, json_files.parse(text, f'the metadata of {file}', {'class_names?': [str]})


def _digest(arrays: Mapping[str, np.ndarray], header: Mapping[str, str]) -> str:
  """Returns the SHA-256 of weights and metadata; files of earlier versions do not hold it."""
  return digest_of({**arrays, 'metadata': np.array(header.get('metadata', '{}'))})


def saved_class_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
  """Returns the class names that were saved with a file's variables; () if there are none."""
  file = check_weights_path(path)
  return tuple(_read_own(file)[1].get('class_names', ())) if _is_own(file) else ()


def num_classes(variables: Variables) -> int:
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
