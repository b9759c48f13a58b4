"""Reads the arrays of a PyTorch, safetensors or npz file without running code of the file."""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from robustness.core.array_files import read_npz
from robustness.core.errors import InputError, importing

if TYPE_CHECKING:
  import torch

TORCH_SUFFIXES = ('.th', '.pt', '.pth', '.tar', '.ckpt', '.bin')
"""Suffixes of PyTorch files; `.tar` stands for `.pth.tar`, which many projects use."""
SAFETENSORS_SUFFIX = '.safetensors'
NPZ_SUFFIX = '.npz'
SUFFIXES = (*TORCH_SUFFIXES, SAFETENSORS_SUFFIX, NPZ_SUFFIX)
"""The suffixes of weights files."""
WRAPPERS = ('state_dict_ema', 'model_ema', 'state_dict', 'model_state_dict', 'model', 'net')
"""Keys of a checkpoint that may hold the weights, the preferred key first. Averaged weights (EMA)
come first, as in timm."""
COUNT = 'n_averaged'
"""A counter that torch.optim.swa_utils.AveragedModel stores among the weights; it is left out."""
PREFIXES = ('module.', '_orig_mod.', 'model.', 'net.')
"""Prefixes that wrappers put before all names: data parallel, torch.compile and Lightning."""
_log = logging.getLogger(__name__)
_NEEDS_CODE = ('unsupported global', 'unsupported class', 'torchscript')
"""Parts of the messages of torch.load for files that only running their code could restore."""


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
  """Reads the arrays of a weights file, as {name: array in its stored dtype}.

  See `read_with_key` for the kinds of files and the errors. Prefixes that all names share, such
  as 'module.', are removed.
  """
  return read_with_key(path)[0]


def read_with_key(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], str]:
  """Reads the arrays of a weights file, and the key under which a checkpoint has them.

  A PyTorch checkpoint may hold several sets of weights. The first key of `WRAPPERS` that it has is
  read, so averaged weights are preferred. A warning names the others. Prefixes such as 'module.'
  are removed if all names have them, see `PREFIXES`.

  Args:
    path: a PyTorch file with a suffix of `TORCH_SUFFIXES`, which needs torch; a `.safetensors`
      file; or a `.npz` file.

  Returns:
    ({name: array in its stored dtype}, key of the checkpoint). The key is, for example,
    'state_dict_ema', or '' if the arrays are at the top of the file.

  Raises:
    InputError: the file is missing, of another kind, damaged, needs code to be run, or holds no
      state dict; or torch is needed and not installed.
  """
  file = check_weights_path(path)
  key = ''
  if file.suffix == NPZ_SUFFIX:
    arrays = read_npz(file)
  elif file.suffix in TORCH_SUFFIXES:
    arrays, key = _read_torch(file)
  else:
    arrays, _ = read_safetensors(file)
  # without the counter of PyTorch's averaged models
  arrays = {name: value for name, value in arrays.items() if name != COUNT}
  if not arrays:
    kind = 'arrays' if file.suffix == NPZ_SUFFIX else 'tensors'
    raise InputError(f'{file} holds no {kind}: give the file of a trained network')
  # several wrappers put their prefixes before one another, such as 'module._orig_mod.'
  while prefixes := [x for x in PREFIXES if all(name.startswith(x) for name in arrays)]:
    arrays = {name.removeprefix(prefixes[0]): value for name, value in arrays.items()}
  return arrays, key


def check_weights_path(path: str | os.PathLike[str]) -> pathlib.Path:
  """Returns `path` as a `pathlib.Path` after checking that it is a file with a supported suffix.

  Raises:
    InputError: the path does not exist, is a folder, or has another suffix.
  """
  file = pathlib.Path(path)
  if not file.exists():
    raise InputError(f'weights file {file} does not exist')
  if not file.is_file():
    raise InputError(f'weights file {file} is a folder: name one file in it')
  if file.suffix not in SUFFIXES:
    raise InputError(
      f'weights file {file} ends in {file.suffix!r}; valid: {", ".join(SUFFIXES)}. A file of '
      'ONNX or Keras runs by a Python file of yours, see docs/your_model.md.'
    )
  return file


def read_safetensors(
  file: str | os.PathLike[str], tensors: bool = True
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
  """Reads the arrays and the header of a safetensors file.

  Args:
    file: the file.
    tensors: whether to read the arrays; otherwise only the header.

  Returns:
    ({name: array}, {key: text in the header}).

  Raises:
    InputError: the file is truncated, is no safetensors file, or holds a dtype that NumPy lacks.
  """
  with importing(f'{file} needs safetensors, which is not installed: pip install safetensors'):
    import safetensors
  try:
    with safetensors.safe_open(str(file), framework='numpy') as opened:
      names = opened.keys() if tensors else ()
      return {name: opened.get_tensor(name) for name in names}, opened.metadata() or {}
  except safetensors.SafetensorError as error:
    raise InputError(f'{file} is truncated or is no safetensors file: {error}') from error
  except (TypeError, KeyError, AttributeError) as error:
    raise InputError(
      f'{file} holds a dtype that NumPy does not have ({error}): save float weights instead.'
    ) from error


def _read_torch(file: pathlib.Path) -> tuple[dict[str, np.ndarray], str]:
  """Reads the arrays of a PyTorch file, and the key under which a checkpoint has them.

  Returns:
    ({name: array}, key). The key is, for example, 'state_dict', or 'model.net' for nested keys. It
    is '' if the arrays are at the top of the file.

  Raises:
    InputError: torch is not installed, or the file is damaged, needs code to be run, or holds no
      mapping of names to tensors.
  """
  message = f'{file} is a PyTorch file and torch is not installed'
  with importing(f"{message}: pip install '.[torch]', or convert it to .safetensors"):
    import torch
  weights = _load_torch(file)
  keys: list[str] = []  # from the top of the file to the weights, which may be nested
  while wrappers := [name for name in WRAPPERS if isinstance(weights.get(name), Mapping)]:
    if len(wrappers) > 1:
      _log.warning('%s holds weights under %s: those of %s are taken', file, wrappers, wrappers[0])
    keys.append(wrappers[0])
    weights = weights[wrappers[0]]
  strange = [str(name) for name, value in weights.items() if not isinstance(value, torch.Tensor)]
  if strange:
    raise InputError(
      f'{file}: {len(strange)} entries are no tensors, first {", ".join(strange[:5])}; a state'
      f' dict lies at the top or under one of {", ".join(WRAPPERS)}'
    )
  arrays = {str(name): _array(str(name), value) for name, value in weights.items()}
  return arrays, '.'.join(keys)


def _load_torch(file: pathlib.Path) -> Mapping[Any, Any]:
  """Returns the mapping in a PyTorch file, without running code from the file.

  Raises:
    InputError: the file is damaged, needs code to be run, or holds no mapping.
  """
  import torch

  try:
    content: object = torch.load(file, map_location='cpu', weights_only=True)
  except Exception as error:  # damaged pickles raise errors of nearly every type
    reason = str(error)
    if any(text in reason.lower() for text in _NEEDS_CODE):
      raise InputError(
        f'{file} holds Python objects that only run code could restore, which is never done here:'
        ' save its state_dict() instead (if that is what it was, the file is truncated)'
      ) from error
    # lines of advice may come before these words, and after the first line that follows them
    cause = reason.split('WeightsUnpickler error:')[-1]
    first_line = cause.strip().split('\n')[0]
    raise InputError(
      f'{file} is truncated or is no PyTorch weights file ({type(error).__name__}: {first_line})'
    ) from error
  if not isinstance(content, Mapping):
    raise InputError(
      f'{file} holds a {type(content).__name__}, not a state dict (a mapping of names to tensors,'
      f' by itself or under one of {", ".join(WRAPPERS)})'
    )
  return content


def _array(name: str, tensor: torch.Tensor) -> np.ndarray:
  """Returns a torch tensor as a NumPy array of the same dtype; bfloat16 becomes ml_dtypes.bfloat16.

  Raises:
    InputError: the tensor is quantised or sparse, or NumPy has no such dtype.
  """
  import torch

  if tensor.is_quantized or tensor.layout != torch.strided:
    raise InputError(f'{name} is quantised or sparse: save the float weights instead')
  tensor = tensor.detach()
  if tensor.dtype == torch.bfloat16:  # NumPy has no such type: the bits are passed as integers
    return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
  try:
    return tensor.numpy()
  except TypeError as error:
    raise InputError(f'{name} is of dtype {tensor.dtype}: save float weights instead') from error
