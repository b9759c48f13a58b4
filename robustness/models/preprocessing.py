"""Reads how images are prepared for weights, from the record published next to the weights.

A record is a JSON file: timm's `config.json` with `pretrained_cfg`, open_clip's
`open_clip_config.json` with `preprocess_cfg`, or transformers' `preprocessor_config.json`. The
first of these that exists is read. Files that this project saved may hold the record in their
header.
"""

import contextlib
import math
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from robustness.core import json_files
from robustness.core.errors import KEYS, InputError
from robustness.core.typing import Facts
from robustness.models import catalog, label_space, weights
from robustness.models.architecture import HF, IMAGENET, LOCAL, TIMM, Architecture, Weights
from robustness.models.state_dict import SAFETENSORS_SUFFIX, SUFFIXES

CONFIG_FILE, WEIGHTS_FILE = 'config.json', 'model.safetensors'
OPEN_CLIP_FILE, TRANSFORMERS_FILE = 'open_clip_config.json', 'preprocessor_config.json'
_SEE_HUB = 'see the hub'  # the licence of weights if their files state none
_RESAMPLING = {2: 'bilinear', 3: 'bicubic'}  # Pillow's numbers
_OF_SQUARES = re.compile('(ViT|DeiT|Beit)(FeatureExtractor|ImageProcessor)')
"""Types of transformers that take a number as `size` for both sides."""
_OTHER_STEPS = (
  *('include_top', 'rescale_offset', 'do_flip_channel_order', 'do_pad', 'do_thumbnail'),
  'size_divisor',
)
"""Other steps of transformers, such as EfficientNet's second scaling (`include_top`)."""
_CROP = {'input_size': (3, 224, 224), 'crop_pct': 0.875, 'interpolation': 'bicubic'}
_DEFAULTS: Facts = {**IMAGENET, **_CROP}
"""timm's defaults, for networks without weights."""
# names of activations in transformers and in this project
_ACTIVATIONS = {'gelu': 'gelu', 'quick_gelu': 'quick_gelu', 'gelu_pytorch_tanh': 'tanh_gelu'}


def record_of(path: pathlib.Path, architecture: Architecture) -> Weights | None:
  """Reads the preprocessing that was saved with a weights file.

  Files that this project saved have it in their header. Other projects publish it in a JSON file of
  the same folder, such as timm's `config.json`, see `_READERS`.

  Args:
    path: a weights file, or a folder with a weights file and a JSON file.
    architecture: the network that the weights are for.

  Returns:
    The description of the weights, or None if no preprocessing is stated.

  Raises:
    InputError: the JSON file is of another network or states a preprocessing that is not supported
      here, or it is unclear which file of the folder has the weights.
  """
  if path.is_file() and path.suffix == SAFETENSORS_SUFFIX:
    header = weights.saved_facts(path)
    if header.get('preprocessing'):
      return _record_of_header(path, header, architecture)
  folder = path if path.is_dir() else path.parent
  contents = {name: read_if_present(folder / name) for name in _READERS}
  config = contents[CONFIG_FILE]
  present = [name for name, content in contents.items() if content]  # in the order of preference
  # without `pretrained_cfg` the file is transformers', and does not state the preprocessing
  if config and 'pretrained_cfg' not in config:
    present.remove(CONFIG_FILE)
  if not present:
    return None
  record, network = present[0], architecture.name
  with _refusing_unreadable(f'{folder / record}: '):
    if record == CONFIG_FILE:
      network = _stated_network(config, architecture)
    fields = _check_fields(_READERS[record](contents[record]))
    stated: Facts = {'record': record, 'class_names': class_names(config)}
    _check_activation(architecture, contents)
  file = path if path.is_file() else only_file(path)
  return Weights(file.name, network, LOCAL, str(folder), file.name, **fields, **stated)


def _record_of_header(file: pathlib.Path, header: Facts, architecture: Architecture) -> Weights:
  """Returns the description of weights that this project saved, from the header of their file."""
  with _refusing_unreadable(f'the metadata of {file}: '):
    network = header.get('architecture', architecture.name)
    # replaces the name of the JSON file that was read before the weights were saved here
    facts = {'record': 'its metadata', 'licence': 'not stated'}
    fields = {**_check_fields(header['preprocessing']), **facts}
    return Weights(file.name, network, LOCAL, str(file.parent), file.name, **fields)


def _stated_network(config: Facts, architecture: Architecture) -> str:
  """Returns this project's name of the network that timm's `config.json` is for.

  If `config.json` names no network, or if neither its network is known here nor `architecture` in
  timm, the name of `architecture` is returned.

  Args:
    config: the content of `config.json`.
    architecture: the network that the user selected.

  Raises:
    InputError: the network is unknown here and `architecture` has a different name in timm. Arrays
      of both may have equal shapes although, for example, their padding differs.
  """
  timm_name = config.get('architecture', '')
  our_name = catalog.of_timm_name(timm_name)
  if our_name:
    return our_name
  if timm_name and architecture.timm:
    raise InputError(
      f"the weights are of timm's {timm_name!r}, and {architecture.name} is timm's "
      f"'{architecture.timm}': run them by {KEYS.classifier.name:--}={TIMM}:{timm_name}, or "
      'give the record this name if both are one network'
    )
  return architecture.name


def class_names(record: Facts) -> tuple[str, ...]:
  """Reads the class names, in order, from timm's or transformers' `config.json`.

  They are `label_names` in timm and `id2label` in transformers. ImageNet's classes get the names
  that this project uses. The result is () if there are no names or only numbers.

  Args:
    record: the content of `config.json`.
  """
  named: Any = record.get('label_names') or record.get('id2label') or ()
  if isinstance(named, dict):  # transformers' names by number, such as {'0': 'tench', ...}
    named = [named[key] for key in sorted(named, key=int)]
  names = tuple(map(str, named))
  # classes without names are numbered: 0, 1, ..., or in transformers LABEL_0, LABEL_1, ...
  if not names or names[0] in ('0', 'LABEL_0'):
    return ()
  imagenet = label_space.get(label_space.IMAGENET).class_names
  is_imagenet = len(names) == len(imagenet) and names[0].startswith('tench')  # the first class
  return imagenet if is_imagenet else names


def of_timm(name: str, config: Facts) -> Weights:
  """Returns the description of timm's weights `name` from the content of their `config.json`.

  Raises:
    InputError: the architecture, the crop or the classes are not supported: images must be square,
      and the classes ImageNet's.
  """
  with _refusing_unreadable(f'weights {TIMM}:{name} cannot be used: '):
    architecture = catalog.of_timm_name(config['architecture'])
    # older files have the values of `pretrained_cfg` at the top
    classes = (config.get('pretrained_cfg') or config)['num_classes']
    if not architecture:
      raise InputError(f'the architecture {config["architecture"]!r} is not among those here')
    if classes != 1000:
      raise InputError(f'it tells {classes} classes apart, not the 1000 of ImageNet')
    fields = _check_fields(_fields_of_timm(config))
  return Weights(f'{TIMM}:{name}', architecture, TIMM, f'timm/{name}', WEIGHTS_FILE, **fields)


def fields_of_record(kind: str, record: Facts, prefix: str) -> Facts:
  """Converts a published preprocessing to fields of `Weights`.

  Args:
    kind: 'timm' for timm's `pretrained_cfg`, 'hf' for transformers' `preprocessor_config.json`.
    record: the content; {} for timm's defaults.
    prefix: beginning of error messages.

  Returns:
    {name of a field: value}, such as {'crop_fraction': 0.875, ...}.
  """
  with _refusing_unreadable(prefix):
    read = _fields_of_transformers if kind == HF else _fields_of_timm
    return _check_fields(read(record or _DEFAULTS))


def read_if_present(file: pathlib.Path) -> Facts:
  """Returns the content of a JSON file, or {} if the file is missing."""
  return json_files.read(file) if file.is_file() else {}


def _fields_of_timm(config: Facts) -> Facts:
  """Reads input size, crop and normalisation from timm's `config.json`, as fields of `Weights`.

  Args:
    config: the content of the file. The facts are under 'pretrained_cfg', or at the top in older
      files.

  Raises:
    InputError: images are not cropped at the centre.
  """
  facts = config.get('pretrained_cfg', config)
  side = _side(facts['input_size'][1:])  # without the number of channels
  mode = facts.get('crop_mode') or 'center'
  if mode not in ('center', 'squash'):
    raise InputError(f'its crop is {mode!r}, not at the centre')
  sizes = {'input_size': side, 'crop_fraction': facts['crop_pct'], 'squash': mode == 'squash'}
  colours = {'mean': facts['mean'], 'std': facts['std']}
  licence = facts.get('license') or _SEE_HUB
  return {**sizes, **colours, 'interpolation': facts['interpolation'], 'licence': licence}


def _fields_of_open_clip(config: Facts) -> Facts:
  """Reads input size and normalisation from `open_clip_config.json`, as fields of `Weights`.

  Args:
    config: the content of the file.

  Raises:
    InputError: images are resized in another way than by the shorter side or to a square.
  """
  facts = config['preprocess_cfg']
  mode = facts.get('resize_mode', 'shortest')
  if mode not in ('shortest', 'squash'):
    raise InputError(f'its resize_mode is {mode!r}, neither shortest nor squash')
  size = config['model_cfg']['vision_cfg']['image_size']
  sizes = {'input_size': _side(size), 'crop_fraction': 1.0, 'squash': mode == 'squash'}
  colours = {'mean': facts['mean'], 'std': facts['std']}
  interpolation = facts.get('interpolation', 'bicubic')
  return {**sizes, **colours, 'interpolation': interpolation, 'licence': _SEE_HUB}


def _fields_of_transformers(facts: Facts) -> Facts:
  """Converts transformers' `preprocessor_config.json` to fields of `Weights`.

  Such a file either resizes the shorter side of images and crops the centre, or it resizes both
  sides to one length, which squashes images. A crop may follow this too.
  """
  _check_steps(facts)
  kind = facts.get('image_processor_type') or facts.get('feature_extractor_type') or ''
  size = facts['size']  # a number, [height, width] or a dict
  if isinstance(size, dict):
    squash = not size.get('shortest_edge')
    resized = _side(size) if squash else size['shortest_edge']
  else:
    # for some types, such as ViT's, a number is the length of both sides
    squash = isinstance(size, list) or bool(_OF_SQUARES.match(kind))
    resized = _side(size) if squash else size
  side = resized  # of the network's images, if they are not cropped
  if facts.get('do_center_crop', False):
    side = _side(facts['crop_size'])
    # PoolFormer's files state a share that the crop keeps; LeViT's do not, but it keeps 224 / 256
    default_share = 224 / 256 if kind.startswith('Levit') else 1
    resized = int(resized / facts.get('crop_pct', default_share))
  elif not squash and 'crop_pct' not in facts:
    raise InputError(f'it resizes the shorter side to {resized} and crops nothing: not square')
  elif not squash:  # ConvNeXt: images are cropped to `size` below 384 pixels, else squashed
    squash = resized >= 384
    if not squash:
      resized = int(resized / facts['crop_pct'])
  number = facts.get('resample', 2)  # Pillow's number of a filter
  interpolation = _RESAMPLING.get(number, f'resample {number}')  # refused by `_check_fields`
  sizes = {'input_size': side, 'crop_fraction': side / resized, 'squash': squash}
  colours = {'mean': facts['image_mean'], 'std': facts['image_std']}
  return {**sizes, **colours, 'interpolation': interpolation, 'licence': _SEE_HUB}


def _check_steps(facts: Facts) -> None:
  """Checks that a `preprocessor_config.json` has only supported preprocessing steps.

  Supported are resizing, an optional crop, division by 255, and normalisation.

  Args:
    facts: the content of the file.

  Raises:
    InputError: a step is not supported, or a required step is switched off.
  """
  for step in ('do_resize', 'do_rescale', 'do_normalize'):
    if not facts.get(step, True):
      raise InputError(f'its {step} is {facts[step]}: here images go through all three')
  for step in _OTHER_STEPS:
    if facts.get(step):
      raise InputError(f'its {step} is {facts[step]}, which is not done to images here')
  if abs(facts.get('rescale_factor', 1 / 255) * 255 - 1) > 1e-6:
    raise InputError(f'its rescale_factor is {facts["rescale_factor"]}, not 1/255')


def _side(size: int | list[int] | dict[str, int]) -> int:
  """Returns the side of square images in pixels.

  Args:
    size: the side, [height, width], or {'height': ..., 'width': ...}.

  Raises:
    InputError: height and width differ.
  """
  if isinstance(size, int):
    return size
  height, width = (size['height'], size['width']) if isinstance(size, dict) else size[:2]
  if height != width:
    raise InputError(f'its images are {height}x{width}, not square')
  return height


@contextlib.contextmanager
def _refusing_unreadable(prefix: str) -> Iterator[None]:
  """Returns a context that turns errors in reading a preprocessing into InputError.

  Args:
    prefix: beginning of the error messages, such as 'FOLDER/config.json: '.
  """
  try:
    yield
  except InputError as error:
    raise InputError(f'{prefix}{error}') from error
  except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
    raise InputError(
      f'{prefix}it does not say how images are prepared and classes are named ({error!r})'
    ) from error


def _check_fields(fields: Facts) -> Facts:
  """Checks the preprocessing in fields of `Weights`, and returns them with tuples for lists.

  Raises:
    InputError: a value is not valid, or the interpolation is not supported.
  """
  side, mean, std = fields['input_size'], tuple(fields['mean']), tuple(fields['std'])
  if fields['interpolation'] not in _RESAMPLING.values():
    raise InputError(f'interpolation is {fields["interpolation"]!r}, neither bilinear nor bicubic')
  if not 0 < fields['crop_fraction'] <= 1:
    raise InputError(f'the crop is {fields["crop_fraction"]:g} of the image')
  if not (isinstance(side, int) and side > 0):
    raise InputError(f'its images have {side} pixels a side, which is no whole number above 0')
  if not (all(map(math.isfinite, mean)) and all(0 < x < math.inf for x in std)):
    raise InputError(f'mean and std are {mean} and {std}: they are finite, and std above 0')
  return {**fields, 'mean': mean, 'std': std}


def _check_activation(architecture: Architecture, records: dict[str, Facts]) -> None:
  """Checks that JSON files next to weights state the activation of the network.

  The activation is read from the first of these sources. Without any of them nothing is checked.

  * open_clip's file, if it sets `quick_gelu`;
  * `hidden_act` in transformers' `config.json`;
  * the default 'gelu' of open_clip's file, unless its network is from timm.

  Args:
    architecture: the network that the user selected.
    records: {name of a JSON file: content, or {} for a missing file}. open_clip's file is under
      `OPEN_CLIP_FILE` and transformers' under `CONFIG_FILE`.

  Raises:
    InputError: the files state another activation than the network's.
  """
  activation = getattr(architecture.network, 'activation', '')
  open_clip, config = records[OPEN_CLIP_FILE].get('model_cfg', {}), records[CONFIG_FILE]
  # files of a CLIP have a section for each of its two networks
  hidden_act = config.get('vision_config', config).get('hidden_act', '')
  if open_clip.get('quick_gelu'):
    stated = 'quick_gelu'
  elif hidden_act in _ACTIVATIONS:
    stated = _ACTIVATIONS[hidden_act]
  elif open_clip and 'timm_model_name' not in open_clip.get('vision_cfg', {}):
    stated = 'gelu'
  else:
    return
  if activation and activation != stated:
    raise InputError(
      f'the weights are for {stated!r} and {architecture.name} has {activation!r}: take the '
      'architecture with the other activation'
    )


_READERS: Mapping[str, Callable[[Facts], Facts]] = {
  CONFIG_FILE: _fields_of_timm,
  OPEN_CLIP_FILE: _fields_of_open_clip,
  TRANSFORMERS_FILE: _fields_of_transformers,
}
"""The readers of records by the name of the file, in the order in which files are tried."""


def only_file(folder: pathlib.Path) -> pathlib.Path:
  """Returns the weights file of a folder: `model.safetensors`, or else the only weights file.

  Raises:
    InputError: there is no weights file, or several without a `model.safetensors`.
  """
  names = sorted(file.name for file in folder.iterdir() if file.suffix in SUFFIXES)
  if WEIGHTS_FILE in names:
    return folder / WEIGHTS_FILE
  if len(names) != 1:
    listed = ', '.join(names) or 'none'
    raise InputError(f'{folder} holds {len(names)} weights files ({listed}): name one of them')
  return folder / names[0]
