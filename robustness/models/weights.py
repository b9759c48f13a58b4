"""Readers and writers of a network's variables.

`load` reads any weights file. `save_variables` and `load_variables` use safetensors files. Weights
must fit the network exactly: every name is used once, every shape is equal, and every value is
finite.
"""

import hashlib
import json
import logging
import math
import os
from collections.abc import Mapping

import flax.traverse_util
import jax
import ml_dtypes
import numpy as np

from robustness.core import json_files
from robustness.core.array_files import digest_of
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import KEYS, InputError, first_names
from robustness.core.typing import Facts, PyTree, Variables
from robustness.models import catalog, position_embedding, state_dict
from robustness.models.architecture import Architecture
from robustness.models.naming import HEAD_BIAS, Path, Scheme, Shape, Stored

FORMAT = 'linen-variables'
"""Value of 'format' in the header of files that `save_variables` wrote."""
DIGEST = 'sha256'
"""Key of the digest of the weights in that header."""
_FLOATS = tuple(np.dtype(d) for d in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16))
_log = logging.getLogger(__name__)


class _SavedHere(Scheme):
  """The naming scheme of files from `save_variables`: paths of variables joined by '/'."""

  def locate(self, path: Path) -> Stored:
    """Returns the name of a variable in the file, which is its path joined by '/'."""
    return Stored(('/'.join(path),))


_SAVED_HERE: Scheme = _SavedHere('saved variables', {})


def load(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> Variables:
  """Reads a network's variables from a weights file.

  See `load_with_notes` for the arguments.

  Returns:
    {'params': ..., 'batch_stats': ...}.
  """
  return load_with_notes(path, architecture, num_classes, input_shape, positions)[0]


def load_with_notes(
  path: str | os.PathLike[str],
  architecture: Architecture,
  num_classes: int | None = None,
  input_shape: Shape | None = None,
  positions: str = position_embedding.BICUBIC,
) -> tuple[Variables, dict[str, str]]:
  """Reads a network's variables from a weights file, with notes on how they were adapted.

  Args:
    path: a file from `save_variables`, or any file that `read_arrays` reads.
    architecture: the network of the variables.
    num_classes: expected number of logits. None accepts any number, and also files without a head.
    input_shape: height, width, channels of the images; None for the architecture's.
    positions: method to resample position embeddings for another image size, one of
      `position_embedding.METHODS`.

  Returns:
    ({'params': ..., 'batch_stats': ...} in float32, notes). The notes are a dictionary with these
    keys, where they apply:

    * 'position_embedding': the change of its grid, such as '14 × 14 resampled to 24 × 24, bicubic';
    * 'window_bias': the same for Swin's position biases;
    * 'taken_from': the key of the checkpoint that holds the weights, such as 'state_dict_ema';
    * 'normalised_as': the project with the names in the file, if its `Scheme` states the mean and
      standard deviation of images.

  Raises:
    InputError: the file cannot be read, or does not fit the network.
  """
  file = state_dict.check_weights_path(path)
  try:
    if _saved_header(file):
      arrays, facts = _read_saved(file)
      scheme, key = _SAVED_HERE, ''
      network, selected = facts.get('architecture', architecture.name), architecture.name
      both_known = network in catalog.ARCHITECTURES and selected in catalog.ARCHITECTURES
      if network != selected and both_known:  # shapes may be equal and only paddings differ
        raise InputError(
          f'the weights are of {network!r}, not of {selected!r}: set '
          f'{KEYS.classifier.name:--}={network}'
        )
    else:
      arrays, key = state_dict.read_with_key(file)
      scheme = _scheme(architecture, arrays)
    variables, changes = _fit_to_network(
      architecture, arrays, scheme, num_classes, input_shape, positions
    )
    notes = {'taken_from': key} if key else {}
    notes |= changes
    if scheme.mean:
      notes['normalised_as'] = scheme.name
    return variables, notes
  except InputError as error:
    if str(file) in str(error):  # the message names the file once
      raise
    raise InputError(f'{file}: {error}') from error


def for_images(
  architecture: Architecture, variables: Variables, old_shape: Shape, new_shape: Shape, method: str
) -> Variables:
  """Resamples the position embeddings in a network's variables for another image size.

  Args:
    architecture: the network of the variables.
    variables: the variables. They are returned unchanged if they have no position embeddings.
    old_shape: height, width and channels of the images that the variables are for.
    new_shape: height, width and channels of the new images.
    method: how they are resampled, one of `position_embedding.METHODS`.
  """
  flat = flax.traverse_util.flatten_dict(variables)
  if not position_embedding.is_resampled(flat):
    return variables
  arrays = {'/'.join(path): np.asarray(value) for path, value in flat.items()}
  # None takes the number of classes from `arrays`
  resampled, _ = _fit_to_network(
    architecture, arrays, _SAVED_HERE, None, new_shape, method, stored_shape=old_shape
  )
  return resampled


def _scheme(architecture: Architecture, arrays: Mapping[str, np.ndarray]) -> Scheme:
  """Returns the naming scheme of a weights file, such as timm's.

  It is the architecture's scheme that shares most array names with the file, or the first of them.

  Args:
    architecture: the network of the file.
    arrays: {name: array} of the file.

  Raises:
    InputError: the architecture has no schemes.
  """
  if not architecture.schemes:
    raise InputError(
      f'no PyTorch names are known for {architecture.name}: give a '
      f'{state_dict.SAFETENSORS_SUFFIX} file that was saved here, or train it'
    )
  shapes = architecture.shapes(1)  # names do not depend on the number of classes

  def num_common(scheme: Scheme) -> int:
    """Returns the number of names that the scheme expects and the file has."""
    return len(scheme.shapes(shapes).keys() & scheme.needed(arrays).keys())

  return max(architecture.schemes, key=num_common)


def _fit_to_network(
  architecture: Architecture,
  arrays: Mapping[str, np.ndarray],
  scheme: Scheme,
  num_classes: int | None,
  input_shape: Shape | None,
  positions: str,
  stored_shape: Shape | None = None,
) -> tuple[Variables, dict[str, str]]:
  """Converts a file's arrays to a network's variables, with a note if something was resampled.

  Position embeddings and Swin's tables of position biases are resampled for another image size.

  Args:
    architecture: the network.
    arrays: {name: array} of the file.
    scheme: the file's naming scheme.
    num_classes: expected number of logits; None accepts the file's number.
    input_shape: height, width and channels of the images; None for the architecture's.
    positions: method to resample position embeddings, one of `position_embedding.METHODS`.
    stored_shape: shape of the images that the arrays are for; None if it is not known.

  Returns:
    variables: {'params': ..., 'batch_stats': ...} of the network.
    notes: {'position_embedding' or 'window_bias': a note such as '14 × 14 resampled to 24 × 24,
      bicubic'}, or {}.
  """
  scheme.check_zeros(arrays)
  arrays, name = scheme.needed(arrays), architecture.name
  expected = _expected_shapes(architecture, arrays, scheme, num_classes, input_shape)
  height, width, _ = input_shape or architecture.input_shape
  if windows := _other_windows(scheme, arrays, expected):  # of a Swin Transformer
    if height != width:
      raise InputError(
        f'images of {height} × {width} pixels give {name} windows of another size than its weights '
        'have, which are resampled for square images only: resize to a square, or to '
        f'{architecture.input_shape[0]} pixels or more on both sides'
      )
    variables = restore(name, {**expected, **windows}, scheme, arrays)
    return _resampled_windows(variables, windows, expected, positions)
  if position_embedding.PATH not in expected:  # nothing to resample
    return restore(name, expected, scheme, arrays), {}
  # grids are numbers of patches (down, across): of the images, and of the images of the file
  patch = expected['params', 'embedding', 'patches', 'kernel'][0]  # side of a patch in pixels
  grid = (height // patch, width // patch)
  shape = expected[position_embedding.PATH]
  _, num_positions, token_size = shape
  num_prefix_tokens = num_positions - math.prod(grid)  # such as the class token
  num_stored = _num_stored_positions(scheme, arrays, shape)
  if stored_shape:
    stored_grid = (stored_shape[0] // patch, stored_shape[1] // patch)
  else:  # published weights are for square images
    side = position_embedding.stored_side(num_stored, num_prefix_tokens)
    stored_grid = (side, side)
  if 0 in stored_grid:  # no square number of positions: `restore` refuses all but the network's
    return restore(name, expected, scheme, arrays), {}
  stored_expected = {**expected, position_embedding.PATH: (1, num_stored, token_size)}
  variables = restore(name, stored_expected, scheme, arrays)
  if stored_grid == grid:
    return variables, {}
  old, new = f'{stored_grid[0]} × {stored_grid[1]}', f'{grid[0]} × {grid[1]}'
  # a file that was saved here may be for a rectangle of the shape of `grid`, or for a square of as
  # large an area
  if scheme is _SAVED_HERE and not stored_shape and num_stored == num_positions:
    raise InputError(
      f'images of {height} × {width} pixels give {new} patches, as many as {old}, and the file '
      'does not say which of these its positions are for: give the folder of checkpoints, or '
      'resize to a square'
    )
  note = f'{old} resampled to {new}, {positions}'
  _log.warning('position embedding: %s', note)
  flat = flax.traverse_util.flatten_dict(variables)
  flat[position_embedding.PATH] = position_embedding.resample(
    flat[position_embedding.PATH], stored_grid, grid, positions, num_prefix_tokens
  )
  return flax.traverse_util.unflatten_dict(flat), {'position_embedding': note}


def _num_stored_positions(scheme: Scheme, arrays: Mapping[str, np.ndarray], shape: Shape) -> int:
  """Returns the number of positions in a file's position embedding.

  The class token counts even if its position is not stored.

  Args:
    scheme: the file's naming scheme.
    arrays: {name: array} of the file.
    shape: shape [1, positions, width] that the network needs. Its number of positions is the result
      if the file has no position embedding.
  """
  located = scheme.locate(position_embedding.PATH)
  name = located.names[0]
  _, num_positions, token_size = shape
  if name not in arrays:
    return num_positions
  # files of some projects have no row for the class token, and thus fewer rows than positions
  num_needed_rows = math.prod(located.shapes(shape)[name]) // token_size
  num_missing_rows = num_positions - num_needed_rows
  return arrays[name].size // token_size + num_missing_rows


def _expected_shapes(
  architecture: Architecture,
  arrays: Mapping[str, np.ndarray],
  scheme: Scheme,
  num_classes: int | None,
  input_shape: Shape | None,
) -> Mapping[Path, Shape]:
  """Returns {path: shape} of the variables that a weights file must have for a network.

  Args:
    architecture: the network.
    arrays: {name: array} of the file.
    scheme: the file's naming scheme.
    num_classes: expected number of logits. None accepts the file's number, and files without a
      head.
    input_shape: height, width and channels of the images; None for the architecture's.

  Raises:
    InputError: the file has another number of classes than `num_classes`, or `num_classes` is None
      and the last layer of the network is not called head/dense.
  """
  stored_classes = _stored_classes(scheme, arrays)
  if stored_classes is not None and num_classes not in (None, stored_classes):
    raise InputError(
      f'the weights of {architecture.name} tell {stored_classes} classes apart, and {num_classes} '
      f'were asked for: give weights trained on {num_classes} classes, or, where the data have '
      f'some of their {stored_classes}, name these by '
      "save_variables(PATH, load(...), {'class_names': [...]})"
    )
  # 1 stands for an unknown number of classes: the file then lacks the head, and so does the result
  expected = architecture.shapes(num_classes or stored_classes or 1, input_shape)
  if num_classes is not None:
    return expected
  if (*HEAD_BIAS[:-1], 'kernel') not in expected:  # ('params', 'head', 'dense', 'kernel')
    raise InputError(
      f'the number of classes of the weights of {architecture.name} is not known: the last '
      "layer is not head/dense: end it with robustness.models.layers.LinearHead, name='head'"
    )
  without_head = {path: x for path, x in expected.items() if path[:2] != ('params', 'head')}
  has_no_head = arrays.keys() == scheme.shapes(without_head).keys()
  return without_head if has_no_head else expected


def _other_windows(
  scheme: Scheme, arrays: Mapping[str, np.ndarray], expected: Mapping[Path, Shape]
) -> dict[Path, Shape]:
  """Finds Swin's tables of position biases in a file that are for windows of another size.

  For windows of w × w patches, a table has (2 w − 1)² rows, one for each offset between two
  patches.

  Args:
    scheme: the file's naming scheme.
    arrays: {name: array} of the file.
    expected: {path: shape} of the variables that the network needs.

  Returns:
    {path: shape in the file} of the tables that fit another w.
  """
  windows = {}
  for path, shape in expected.items():
    if path[-1] != position_embedding.WINDOW_BIAS:
      continue
    [name] = scheme.locate(path).names
    if name in arrays and arrays[name].shape != shape:
      num_rows, *heads = arrays[name].shape
      num_offsets = position_embedding.stored_side(num_rows, 0)  # 2 w − 1; 0 without such a w
      if heads == list(shape[1:]) and num_offsets % 2 == 1:
        windows[path] = arrays[name].shape
  return windows


def _resampled_windows(
  variables: Variables, stored: Mapping[Path, Shape], expected: Mapping[Path, Shape], method: str
) -> tuple[Variables, dict[str, str]]:
  """Resamples Swin's tables of position biases for windows of another size.

  Args:
    variables: the variables of a file.
    stored: {path: shape in the file} of the tables to resample.
    expected: {path: shape that the network needs}.
    method: one of `position_embedding.METHODS`.

  Returns:
    (variables, {'window_bias': a note such as '13 × 13 resampled to 23 × 23, bicubic'}).
  """
  flat = flax.traverse_util.flatten_dict(variables)
  notes = set()  # the same for most tables
  for path, stored_shape in stored.items():
    old, new = math.isqrt(stored_shape[0]), math.isqrt(expected[path][0])  # offsets per direction
    flat[path] = position_embedding.resample_window(flat[path], new, method)
    notes.add(f'{old} × {old} resampled to {new} × {new}, {method}')
  note = '; '.join(sorted(notes))
  _log.warning('offsets within windows: %s', note)
  return flax.traverse_util.unflatten_dict(flat), {position_embedding.WINDOW_BIAS: note}


def with_head(
  architecture: Architecture, variables: Variables, input_shape: Shape | None = None
) -> Variables:
  """Adds a head of zeros for one class to variables without a head.

  A network that is needed only for its features can then be applied like any other. Variables with
  a head are returned unchanged.
  """
  flat = flax.traverse_util.flatten_dict(variables)
  if HEAD_BIAS in flat:
    return variables
  shapes = architecture.shapes(1, input_shape)
  zeros = {path: np.zeros(shape, np.float32) for path, shape in shapes.items()}
  return flax.traverse_util.unflatten_dict({**zeros, **flat})  # zeros remain for the head only


def restore(
  owner: str, expected: Mapping[Path, Shape], scheme: Scheme, arrays: Mapping[str, np.ndarray]
) -> Variables:
  """Converts a file's arrays to a network's variables in float32.

  Args:
    owner: name of the network in messages.
    expected: {path: shape} of the variables.
    scheme: the naming scheme of the arrays.
    arrays: {name: array} of the file.

  Raises:
    InputError: a name is missing or left over, a shape differs (the message names the nearest
      architecture), or an array is not of a float type or not finite.
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
    listed = '; '.join(f'{len(x)} {kind}: {first_names(x)}' for kind, x in misfits.items() if x)
    raise InputError(
      f'the weights do not fit {owner}: {listed} (names of {scheme.name})'
      f'{_closest_architecture(arrays, owner)}'
    )
  converted = _as_float32(arrays)
  flat = {path: scheme.locate(path).restore(converted, shape) for path, shape in expected.items()}
  return flax.traverse_util.unflatten_dict(flat)


def _stored_classes(scheme: Scheme, arrays: Mapping[str, np.ndarray]) -> int | None:
  """Returns the number of classes of a file's head, or None without a head.

  The number is the size of the head's bias, or of its kernel's output axis if there is no bias.
  """
  bias = arrays.get(scheme.locate(HEAD_BIAS).names[0])
  if bias is not None:
    return bias.size if bias.ndim == 1 else None  # a head's bias has one axis
  kernel = scheme.locate((*HEAD_BIAS[:-1], 'kernel'))
  array = arrays.get(kernel.names[0])
  example = kernel.layout.stored((2, 3))  # how a kernel with 2 inputs and 3 outputs is stored
  if array is None or array.ndim != len(example):
    return None
  return array.shape[example.index(3)]


def _as_float32(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Converts arrays to float32, with a warning unless they are float32 already.

  Raises:
    InputError: an array is not of a float type, or is not finite in float32.
  """
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


def _closest_architecture(arrays: Mapping[str, np.ndarray], owner: str) -> str:
  """Returns a sentence for an error message on the architecture that fits arrays best.

  The fit is the share of (name, shape) pairs that the arrays and the architecture have in common.
  The result is '' unless a fit exceeds one half and is better than the fit of `owner`.

  Args:
    arrays: {name: array} of a file.
    owner: name of the network that the arrays do not fit.
  """
  size = sum(array.size for array in arrays.values())
  shares = dict.fromkeys(catalog.ARCHITECTURES, 0.0)
  for architecture in catalog.ARCHITECTURES.values():
    # building a network takes a second, so only networks with a similar size are compared; without
    # a stated number of parameters, a network is compared too
    if not size / 1.5 <= (architecture.parameters or size) <= size * 1.5:
      continue
    for scheme in architecture.schemes:
      if not scheme.headless:
        classes = _stored_classes(scheme, arrays)
      else:  # any number, because files of this scheme lack the head
        classes = 1 if any(name.startswith(scheme.headless) for name in arrays) else None
      if classes:  # else the scheme does not fit
        expected = scheme.shapes(architecture.shapes(classes)).items()
        actual = {name: array.shape for name, array in scheme.needed(arrays).items()}.items()
        share = len(expected & actual) / len(expected | actual)
        shares[architecture.name] = max(shares[architecture.name], share)
  best = max(shares, key=lambda name: shares[name])
  if shares[best] == 1:
    return f'. The names and shapes are those of {best!r}'
  if shares[best] > 0.5 and best != owner:
    return f'. The nearest architecture is {best!r}, with {int(100 * shares[best])}% in common'
  return ''


def save_variables(path: str | os.PathLike[str], variables: Variables, metadata: Facts) -> None:
  """Writes variables to a safetensors file, atomically.

  A failed write leaves no partial file, and an older file unchanged.

  Args:
    path: path of the file, ending in `.safetensors`.
    variables: a tree of arrays, for example {'params': ..., 'batch_stats': ...}.
    metadata: values that JSON can hold, such as {'class_names': [...]}.

  Raises:
    InputError: the path has another suffix.
    OSError: the file could not be written.
  """
  if not str(path).endswith(state_dict.SAFETENSORS_SUFFIX):
    raise InputError(f'variables are saved as {state_dict.SAFETENSORS_SUFFIX}, not as {path}')
  flat = flax.traverse_util.flatten_dict(variables, sep='/')
  arrays = {name: np.ascontiguousarray(value) for name, value in flat.items()}
  header = {'format': FORMAT, 'metadata': json.dumps(dict(metadata), sort_keys=True)}
  header[DIGEST] = _digest(arrays, header)  # of the arrays and the metadata
  from safetensors.numpy import save  # an optional package, for these files alone

  write_atomically(path, save(arrays, header))


def load_variables(path: str | os.PathLike[str]) -> tuple[Variables, Facts]:
  """Returns the variables and the metadata of a file from `save_variables`.

  Raises:
    InputError: the file is missing, damaged or altered, or was written by something else.
  """
  flat, metadata = _read_saved(state_dict.check_weights_path(path))
  return flax.traverse_util.unflatten_dict(flat, sep='/'), metadata


def _read_saved(file: os.PathLike[str]) -> tuple[dict[str, np.ndarray], Facts]:
  """Reads a file from `save_variables`.

  Returns:
    ({path such as 'params/head/dense/bias': array}, metadata).

  Raises:
    InputError: the file was written by something else, or its digest does not match its content.
  """
  if not _saved_header(file):
    raise InputError(f'{file} does not hold variables that were saved here: import it instead')
  flat, header = state_dict.read_safetensors(file)
  if header.get(DIGEST) != _digest(flat, header):
    raise InputError(
      f'{file} was altered: its weights had another digest when they were saved. Save them again.'
    )
  return flat, _read_metadata(file, header)


def _read_metadata(file: os.PathLike[str], header: Mapping[str, str]) -> Facts:
  """Returns the metadata in the header of a file from `save_variables`.

  Raises:
    InputError: the metadata is not JSON, or a value has the wrong type.
  """
  # {key: type of its value}; '?' marks a key that may be missing
  form = {'architecture?': str, 'class_names?': [str], 'preprocessing?': dict}
  text = header.get('metadata', '{}').encode()
  return json_files.parse(text, f'the metadata of {file}', form)


def saved_facts(path: str | os.PathLike[str]) -> Facts:
  """Returns the metadata of a file from `save_variables`; {} for other files.

  Only the header is read. `load_variables` also checks that nothing was altered.
  """
  file = state_dict.check_weights_path(path)
  return _read_metadata(file, _saved_header(file))


def _digest(arrays: Mapping[str, np.ndarray], header: Mapping[str, str]) -> str:
  """Returns the SHA-256 of the arrays and of the metadata in the header."""
  return digest_of({**arrays, 'metadata': np.array(header.get('metadata', '{}'))})


def digest(variables: PyTree) -> str:
  """Returns a SHA-256 of the paths, dtypes, shapes and values of all arrays in a tree.

  The digits are hexadecimal. The arrays are in the order of `jax.tree`.
  """
  total = hashlib.sha256()
  for path, leaf in jax.tree_util.tree_leaves_with_path(variables):
    values = np.ascontiguousarray(leaf)
    total.update(f'{jax.tree_util.keystr(path)} {values.dtype} {values.shape}'.encode())
    total.update(values.tobytes())
  return total.hexdigest()


def _saved_header(file: os.PathLike[str]) -> dict[str, str]:
  """Reads the metadata of a weights file that this project saved; {} for other files.

  Args:
    file: path of the file, from `save_variables` or another program.
  """
  if not str(file).endswith(state_dict.SAFETENSORS_SUFFIX):
    return {}
  _, header = state_dict.read_safetensors(file, tensors=False)
  return header if header.get('format') == FORMAT else {}
