"""How weights want their images, out of the record that their publishers put beside them.

timm has `pretrained_cfg` in `config.json`, open_clip `preprocess_cfg` in `open_clip_config.json`,
transformers `preprocessor_config.json`; these are read in this order, the first that is there. A
file that was saved here may hold the record itself.
"""

import contextlib
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from robustness.core import json_files
from robustness.core.errors import KEYS, InputError
from robustness.core.typing import Facts
from robustness.models import catalog, label_space, weights
from robustness.models.architecture import (
  HF,
  IMAGENET_MEAN,
  IMAGENET_STD,
  LOCAL,
  TIMM,
  Architecture,
  Weights,
)
from robustness.models.state_dict import NPZ_SUFFIX, SAFETENSORS_SUFFIX, TORCH_SUFFIXES

CONFIG_FILE, WEIGHTS_FILE = 'config.json', 'model.safetensors'
OPEN_CLIP_FILE, TRANSFORMERS_FILE = 'open_clip_config.json', 'preprocessor_config.json'
_RESAMPLING = {2: 'bilinear', 3: 'bicubic'}  # Pillow's numbers
_OF_SQUARES = re.compile('(ViT|DeiT|Beit)(FeatureExtractor|ImageProcessor)')
"""Types of transformers whose `size`, where it is a number, is that of both sides."""
_OTHER_STEPS = (
  *('include_top', 'rescale_offset', 'do_flip_channel_order', 'do_pad', 'do_thumbnail'),
  'size_divisor',
)
"""Further steps of transformers, as EfficientNet's second scaling (`include_top`)."""
_UNSAID: Facts = {
  'input_size': (3, 224, 224),
  'crop_pct': 0.875,
  'interpolation': 'bicubic',
  'mean': IMAGENET_MEAN,
  'std': IMAGENET_STD,
}
"""timm's defaults, for networks that it has no weights of."""
_ACTIVATIONS = {'gelu': 'gelu', 'quick_gelu': 'quick_gelu', 'gelu_pytorch_tanh': 'tanh_gelu'}


def beside(path: pathlib.Path, architecture: Architecture) -> Weights | None:
  """Returns the facts of a weights file, or of a folder that holds one, by the record in the file
  or beside it; None where there is no record.

  Raises:
    InputError: a record of other weights, or of images that cannot be prepared so here; a folder
      with a record and not one weights file.
  """
  if path.is_file() and path.suffix == SAFETENSORS_SUFFIX:
    saved = weights.saved_facts(path)
    if record := saved.get('preprocessing'):
      with _reading(f'the metadata of {path}: '):
        own = saved.get('architecture', architecture.name)
        how = {**_prepared(_of_metadata, record), 'record': 'its metadata'}
        return Weights(path.name, own, LOCAL, str(path.parent), path.name, **how)
  folder = path if path.is_dir() else path.parent
  found = {name: _read(folder / name) for name in (CONFIG_FILE, OPEN_CLIP_FILE, TRANSFORMERS_FILE)}
  for name, read in (
    (CONFIG_FILE, _of_timm),
    (OPEN_CLIP_FILE, _of_open_clip),
    (TRANSFORMERS_FILE, _of_transformers),
  ):
    facts = found[name]
    if not facts or (name == CONFIG_FILE and 'pretrained_cfg' not in facts):
      continue
    with _reading(f'{folder / name}: '):
      named = facts.get('architecture', '') if name == CONFIG_FILE else ''
      theirs = catalog.of_timm_name(named)
      if named and not theirs and architecture.timm:  # of equal shapes too, as with other padding
        raise InputError(
          f"the weights are of timm's {named!r}, and {architecture.name} is timm's "
          f"'{architecture.timm}': run them by --{KEYS.classifier.name}={TIMM}:{named}, or give "
          'the record this name if both are one network'
        )
      how = {**_prepared(read, facts), 'class_names': class_names(found[CONFIG_FILE])}
      _check_activation(architecture, found)
    file = path if path.is_file() else only_file(path)
    own = theirs or architecture.name
    return Weights(file.name, own, LOCAL, str(folder), file.name, record=name, **how)
  return None


def class_names(record: Facts) -> tuple[str, ...]:
  """Returns the classes that a `config.json` names, in order: timm's `label_names` or transformers'
  `id2label`, ImageNet's by their names here; () where they are numbers, or not named."""
  named: Any = record.get('label_names') or record.get('id2label') or ()
  if isinstance(named, dict):
    named = [named[key] for key in sorted(named, key=int)]
  names, imagenet = tuple(map(str, named)), label_space.get(label_space.IMAGENET).class_names
  if len(names) == len(imagenet) and names[0].startswith('tench'):
    return imagenet
  return () if names[:1] in (('LABEL_0',), ('0',)) else names


def of_timm(name: str, config: Facts) -> Weights:
  """Returns the facts of timm's weights `name` out of their `config.json`.

  Raises:
    InputError: an architecture that is not here, other classes than ImageNet's, images that are
      not square or cut in another way.
  """
  with _reading(f'weights {TIMM}:{name} cannot be used: '):
    architecture = catalog.of_timm_name(config['architecture'])
    facts = config.get('pretrained_cfg')
    classes = (facts or config)['num_classes']
    if not architecture:
      raise InputError(f'the architecture {config["architecture"]!r} is not among those here')
    if classes != 1000:
      raise InputError(f'it tells {classes} classes apart, not the 1000 of ImageNet')
    how = _prepared(_of_timm, config)
  return Weights(f'{TIMM}:{name}', architecture, TIMM, f'timm/{name}', WEIGHTS_FILE, **how)


def prepared_as(kind: str, record: Facts, where: str) -> Facts:
  """Returns what `Weights` has of a record: a `pretrained_cfg` ('timm'), which may be empty, or a
  `preprocessor_config.json` ('hf'); messages begin with `where`."""
  with _reading(where):
    return _prepared(_of_transformers if kind == HF else _of_timm, record or _UNSAID)


def _read(file: pathlib.Path) -> Facts:
  return json_files.read(file) if file.is_file() else {}


def _of_metadata(facts: Facts) -> Facts:
  """Returns what `Weights.preprocessing` gave, or a part of it, out of JSON."""
  return {**facts, 'mean': tuple(facts['mean']), 'std': tuple(facts['std'])}


def _of_timm(config: Facts) -> Facts:
  facts = config.get('pretrained_cfg', config)
  _, height, width = facts['input_size']
  mode = facts.get('crop_mode') or 'center'
  if mode not in ('center', 'squash'):
    raise InputError(f'its crop is {mode!r}, not at the centre')
  return {
    'input_size': _square(height, width),
    'crop_fraction': facts['crop_pct'],
    'interpolation': facts['interpolation'],
    'squash': mode == 'squash',
    'mean': tuple(facts['mean']),
    'std': tuple(facts['std']),
    'licence': facts.get('license') or 'see the hub',
  }


def _of_open_clip(config: Facts) -> Facts:
  facts, side = config['preprocess_cfg'], config['model_cfg']['vision_cfg']['image_size']
  mode = facts.get('resize_mode', 'shortest')
  if mode not in ('shortest', 'squash'):
    raise InputError(f'its resize_mode is {mode!r}, neither shortest nor squash')
  return {
    'input_size': _square(*_pair(side)),
    'crop_fraction': 1.0,
    'interpolation': facts.get('interpolation', 'bicubic'),
    'squash': mode == 'squash',
    'mean': tuple(facts['mean']),
    'std': tuple(facts['std']),
    'licence': 'see the hub',
  }


def _of_transformers(facts: Facts) -> Facts:
  for step in ('do_resize', 'do_rescale', 'do_normalize'):
    if not facts.get(step, True):
      raise InputError(f'its {step} is {facts[step]}: here images go through all three')
  for step in _OTHER_STEPS:
    if facts.get(step):
      raise InputError(f'its {step} is {facts[step]}, which is not done to images here')
  if abs(facts.get('rescale_factor', 1 / 255) * 255 - 1) > 1e-6:
    raise InputError(f'its rescale_factor is {facts["rescale_factor"]}, not 1/255')
  given = facts['size']
  kind = facts.get('image_processor_type') or facts.get('feature_extractor_type') or ''
  if isinstance(given, list) or (isinstance(given, int) and _OF_SQUARES.match(kind)):
    given = dict(zip(('height', 'width'), _pair(given), strict=True))
  elif not isinstance(given, dict):
    given = {'shortest_edge': given}
  shorter, crops = given.get('shortest_edge'), facts.get('do_center_crop', False)
  resize = shorter or _square(given['height'], given['width'])
  squash, side = not shorter, resize
  if crops:
    side = _square(*_pair(facts['crop_size']))
    margin = 224 / 256 if kind.startswith('Levit') else 1
    resize = int(resize / facts.get('crop_pct', margin))  # PoolFormer's, and LeViT's own
  elif shorter and 'crop_pct' in facts:  # ConvNeXt's
    squash, resize = shorter >= 384, shorter if shorter >= 384 else int(shorter / facts['crop_pct'])
  elif shorter:
    raise InputError(f'it resizes the shorter side to {shorter} and crops nothing: not square')
  return {
    'input_size': side,
    'crop_fraction': side / resize,
    'interpolation': _RESAMPLING.get(facts.get('resample', 2), f'resample {facts.get("resample")}'),
    'squash': squash,
    'mean': tuple(facts['image_mean']),
    'std': tuple(facts['image_std']),
    'licence': 'see the hub',
  }


def _pair(size: int | list[int] | dict[str, int]) -> tuple[int, int]:
  if isinstance(size, dict):
    return size['height'], size['width']
  return (size, size) if isinstance(size, int) else (size[0], size[1])


def _square(height: int, width: int) -> int:
  if height != width:
    raise InputError(f'its images are {height}x{width}, not square')
  return height


@contextlib.contextmanager
def _reading(where: str) -> Iterator[None]:
  """Raises what a record is refused for, and what reading another one raises, as an InputError that
  begins with `where`."""
  try:
    yield
  except InputError as error:
    raise InputError(f'{where}{error}') from error
  except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
    raise InputError(
      f'{where}it does not say how images are prepared and classes are named ({error!r})'
    ) from error


def _prepared(read: Callable[[Facts], Facts], record: Facts) -> Facts:
  """Returns what `Weights` has of a record."""
  how = read(record)
  side, mean, std = how['input_size'], how['mean'], how['std']
  if how['interpolation'] not in _RESAMPLING.values():
    raise InputError(f'interpolation is {how["interpolation"]!r}, neither bilinear nor bicubic')
  if not 0 < how['crop_fraction'] <= 1:
    raise InputError(f'the crop is {how["crop_fraction"]:g} of the image')
  if not (isinstance(side, int) and side > 0):
    raise InputError(f'its images have {side} pixels a side, which is no whole number above 0')
  if not (all(map(math.isfinite, mean)) and all(0 < x < math.inf for x in std)):
    raise InputError(f'mean and std are {mean} and {std}: they are finite, and std above 0')
  return how


def _check_activation(architecture: Architecture, found: dict[str, Facts]) -> None:
  """Refuses a network with another GELU than the records beside its weights say."""
  own = getattr(architecture.network, 'activation', '')
  model, hub = found[OPEN_CLIP_FILE].get('model_cfg', {}), found[CONFIG_FILE]
  stated = hub.get('vision_config', hub).get('hidden_act', '')
  said = 'quick_gelu' if model.get('quick_gelu') else _ACTIVATIONS.get(stated, '')
  if model and not said and 'timm_model_name' not in model.get('vision_cfg', {}):
    said = 'gelu'
  if own and said and own != said:
    raise InputError(
      f'the weights are for {said!r} and {architecture.name} has {own!r}: take the '
      'architecture with the other activation'
    )


def only_file(folder: pathlib.Path) -> pathlib.Path:
  """Returns the weights file of a folder; InputError unless there is one, or a hub's own."""
  suffixes = (SAFETENSORS_SUFFIX, NPZ_SUFFIX, *TORCH_SUFFIXES)
  files = sorted(file for file in folder.iterdir() if file.suffix in suffixes)
  usual = [file for file in files if file.name == WEIGHTS_FILE]
  if len(files) != 1 and not usual:
    names = ', '.join(file.name for file in files) or 'none'
    raise InputError(f'{folder} holds {len(files)} weights files ({names}): name one of them')
  return (usual or files)[0]
