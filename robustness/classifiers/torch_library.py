"""Image classifiers of timm or transformers, selected by name and run in PyTorch with gradients.

`config.classifier.name` is `timm:NAME`, such as 'timm:convnext_tiny.fb_in1k', or `hf:REPOSITORY`,
such as 'hf:google/vit-base-patch16-224', or `hf:FOLDER` for a folder with the files of such a
repository. `config.classifier.weights` is '' for the published weights of the repository or folder,
a file, a folder with a file of weights and its `config.json`, or 'random' to draw weights from the
seed. Images are prepared as `config.json` (timm) or `preprocessor_config.json` (transformers)
states.
"""

import dataclasses
import functools
import importlib
import pathlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from absl import logging

from robustness.classifiers import RANDOM, ClassifierKind, ClassifierSettings, Images
from robustness.core import json_files
from robustness.core.errors import KEYS, InputError, importing, nearest
from robustness.core.paths import expanded
from robustness.core.typing import Facts
from robustness.models import catalog, hub, imagenet_names, label_space, preprocessing
from robustness.models.architecture import HF, LOCAL, TIMM, Weights
from robustness.models.classifier import Classifier
from robustness.models.preprocessing import CONFIG_FILE, TRANSFORMERS_FILE, WEIGHTS_FILE
from robustness.models.state_dict import NPZ_SUFFIX, read_arrays

if TYPE_CHECKING:
  import torch

_PACKAGES = {TIMM: 'timm', HF: 'transformers'}
"""The Python package by the prefix of a classifier's name."""


@dataclasses.dataclass(frozen=True)
class _Source:
  """The files and descriptions that a network of timm or transformers is built from.

  Attributes:
    weights: name of the weights, and how images are prepared for them.
    file: file of the weights; None if they are random.
    config: configuration of the network: timm's `pretrained_cfg`, or the `config.json` of
      transformers.
  """

  weights: Weights
  file: pathlib.Path | None
  config: Facts


@dataclasses.dataclass(frozen=True)
class _Built:
  """A PyTorch network with its weights.

  Attributes:
    module: the network, in evaluation mode.
    head: name of the submodule that is the last linear map; '' if unknown.
    outputs: number of outputs.
    names: class names of the outputs in order; () if they are not known.
    is_headless: whether the network returns features, because the weights lack the last linear map.
  """

  module: 'torch.nn.Module'
  head: str
  outputs: int
  names: tuple[str, ...]
  is_headless: bool


@functools.lru_cache(maxsize=8)
def _read_source(name: str, weights: str) -> _Source:
  """Returns the files and descriptions of a network, from a cache after the first call.

  Args:
    name: `timm:NAME` or `hf:REPOSITORY`, such as 'timm:resnet50'.
    weights: A file, a folder, or 'random'; '' takes the published weights.
  """
  library, _, identity = name.partition(':')
  read = _timm_source if library == TIMM else _transformers_source
  return read(name, identity, weights)


def _timm_source(name: str, identity: str, weights: str) -> _Source:
  """Returns the files and descriptions of a model of timm.

  The configuration is `pretrained_cfg` of timm's code. Values from a `config.json` next to the
  weights replace it.

  Args:
    name: `timm:` and `identity`, for messages.
    identity: name of the model in timm, after a dot possibly a tag for its weights:
      'convnext_tiny.fb_in1k'.
    weights: A file, a folder, or 'random'; '' downloads the weights of the tag from Hugging Face.

  Raises:
    InputError: timm is not installed or has no such model or tag, the weights do not exist or
      cannot be downloaded, or their `config.json` describes another model.
  """
  timm = _import_with_torch('timm', name)
  base, _, tag = identity.partition('.')
  if not timm.is_model(base):
    raise InputError(f'{name} is no model of timm: {nearest(base, timm.list_models())}')
  if tag and not timm.models.is_model_pretrained(identity):
    tags = [tag for tag in timm.list_pretrained() if tag.startswith(f'{base}.')]
    raise InputError(f'{name} is no tag of {base} in timm: {nearest(identity, tags)}')
  pretrained_cfg = timm.get_pretrained_cfg(identity)
  config: Facts = pretrained_cfg.to_dict() if pretrained_cfg else {}
  path: pathlib.Path | None = None  # random weights have no files
  record: pathlib.Path | None = None
  if not weights:
    repository = config.get('hf_hub_id')
    if not repository:
      raise InputError(f'timm has no weights for {identity}: give weights=FILE or weights=random.')
    # both files are downloaded to one folder
    hub.from_hugging_face(repository, CONFIG_FILE, name)
    path = hub.from_hugging_face(repository, WEIGHTS_FILE, name).path.parent
  elif weights != RANDOM:
    path = expanded(weights)
  if path:
    folder = path if path.is_dir() else path.parent
    record = folder / CONFIG_FILE
  stored = preprocessing.read_if_present(record) if record else {}
  if stored.get('pretrained_cfg'):
    stated = stored.get('architecture', base)
    if stated != base:
      raise InputError(f'{record} is of {stated!r}: set {KEYS.classifier.name:--}={TIMM}:{stated}')
    config = {**config, 'label_names': stored.get('label_names'), **stored['pretrained_cfg']}
  preparation = preprocessing.fields_of_record(TIMM, config, f'{record or name}: ')
  return _stored_source(name, path, record, preparation, config)


def _transformers_source(name: str, identity: str, weights: str) -> _Source:
  """Returns the files and descriptions of a network of transformers.

  Args:
    name: `hf:` and `identity`, for messages.
    identity: ACCOUNT/NAME of the repository, or the path of a folder.
    weights: A file, a folder, or 'random'; '' takes `model.safetensors` of the repository or
      folder.

  Raises:
    InputError: transformers is not installed, or files are missing or cannot be downloaded.
  """
  _import_with_torch('transformers', name)
  descriptions = (CONFIG_FILE, TRANSFORMERS_FILE)
  folder = expanded(identity)
  if not folder.is_dir():
    is_repository = not identity.startswith(('/', '~', '.')) and identity.count('/') == 1
    if not is_repository:
      raise InputError(f'{name} is neither a folder here nor a repository ACCOUNT/NAME of the hub.')
    files = descriptions if weights else (*descriptions, WEIGHTS_FILE)
    paths = [hub.from_hugging_face(identity, file, name).path for file in files]
    folder = paths[0].parent  # all files are in one folder of the hub's cache
  for file in descriptions:
    if not (folder / file).is_file():
      raise InputError(f'{name}: {folder} has no {file}, which says what the network is.')
  path: pathlib.Path | None = folder  # with the file of weights
  if weights:
    path = None if weights == RANDOM else expanded(weights)
  record = folder / TRANSFORMERS_FILE
  preparation = preprocessing.fields_of_record(HF, json_files.read(record), f'{record}: ')
  config = json_files.read(folder / CONFIG_FILE)
  return _stored_source(name, path, record, preparation, config)


def _stored_source(
  name: str, path: pathlib.Path | None, record: pathlib.Path | None, fields: Facts, config: Facts
) -> _Source:
  """Returns the files and descriptions of a network as a `_Source`.

  Args:
    name: name of the classifier.
    path: the file or folder with the weights; None if they are random.
    record: path of the JSON file that states how images are prepared; it may not exist.
    fields: fields of `Weights` that describe how images are prepared, such as `mean`.
    config: configuration of the network: timm's `pretrained_cfg`, or the `config.json` of
      transformers.
  """
  if path and not path.exists():
    raise InputError(f'{name}: there is no {path}: give a file, a folder, or weights=random.')
  file = preprocessing.only_file(path) if path and path.is_dir() else path
  stated = {**fields, 'record': record.name if record and record.is_file() else ''}
  weights = Weights(name, name, source=LOCAL, package='', file='', **stated)
  if file:  # else the weights are random
    weights = dataclasses.replace(weights, package=str(file.parent), file=file.name)
  return _Source(weights, file, config)


@dataclasses.dataclass(frozen=True)
class TorchLibrary(ClassifierKind):
  """A network of timm or transformers, run in PyTorch.

  The input of its last linear map is available as the layer 'features'.
  """

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the name begins with `timm:` or `hf:`."""
    return section.name.startswith(tuple(f'{library}:' for library in _PACKAGES))

  @functools.cached_property
  def record(self) -> Weights:
    """Description of the weights: their file, and how images are prepared.

    Raises:
      InputError: the name is unknown (the nearest are listed), a package is not installed, files
        are missing, or their preparation of images cannot be reproduced.
    """
    return self._source.weights

  @functools.cached_property
  def _source(self) -> _Source:
    """The files and descriptions of the network.

    If the setting `mean` is given, `mean` and `std` replace the normalisation in the description.
    """
    source = _read_source(self.name, self.weights)
    if not self.mean:
      return source
    weights = dataclasses.replace(source.weights, mean=self.mean, std=self.std)
    return dataclasses.replace(source, weights=weights)

  def fetch(self) -> None:
    """Downloads the files of the network if they are not on this machine."""
    _read_source(self.name, self.weights)  # `record` and `load` then use the same cached result

  @property
  def needs_mean(self) -> bool:
    """Whether the weights do not state how images are normalised, so that the config must.

    True for a file of weights without `config.json`.
    """
    return bool(self.record.file) and not self.record.record

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """Raises InputError for settings that do not fit the images or a PyTorch network.

    A training is refused, because it needs JAX. For the arguments see `ClassifierKind.check`.
    """
    if self.is_trained_here:
      raise InputError(f'{self.name} runs in PyTorch and is not trained here: give its weights.')
    super().check(label, image_shape, precision)

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the network as a classifier that calls PyTorch.

    A network with random weights gets ImageNet's classes if the data have classes of ImageNet or
    none, and otherwise the classes of the data.

    Raises:
      InputError: the library cannot build the network, its outputs have no names, or the network
        has no last linear map and no probe is configured.
    """
    weights, data_classes = self._source.weights, images.class_names
    shape = images.shape if images.has_set_size else (weights.input_size, weights.input_size, 3)
    is_imagenet = label_space.is_imagenet(data_classes) or not data_classes
    classes_if_random = imagenet_names.NAMES if is_imagenet else data_classes
    built = self._build(shape, len(classes_if_random))
    if built.is_headless and not self.probe:
      raise InputError(
        f'{self.name}: {weights.file or "its record"} has no last linear map, so it gives features '
        f"and no classes: set {KEYS.classifier.probe.name} to 'linear', 'knn' or 'prototype'."
      )
    names = self._class_names(built, data_classes)
    package = _import_with_torch(_PACKAGES[self.name.partition(':')[0]], self.name)
    facts: dict[str, Any] = {
      'architecture': self.name,
      'library': f'{package.__name__} {package.__version__}',
      'weights': weights.file or f'random, seed {self.seed}',
      'preprocessing': weights.preprocessing,
      'licence': weights.licence,
    }
    if self.input_filter:
      facts['input_filter'] = self.input_filter.describe()
    return Classifier.from_torch(
      built.module,
      shape,
      names,
      name=label,
      mean=weights.mean,
      std=weights.std,
      head=built.head,
      provenance=facts,
      input_filter=self.input_filter,
    )

  def _build(self, shape: tuple[int, int, int], classes_if_random: int) -> _Built:
    """Returns the network with its weights, built for images of a shape [H, W, C].

    Args:
      shape: height, width and channels of the images.
      classes_if_random: number of outputs if weights are random; otherwise the weights decide.

    Raises:
      InputError: the library cannot build the network.
    """
    source = self._source
    import torch  # optional; `_source` has raised InputError if it is not installed

    build = _build_timm if self.name.startswith(TIMM) else _build_transformers
    with torch.random.fork_rng(devices=[]):  # restores the state of PyTorch's random generator
      torch.manual_seed(self.seed)  # random weights are drawn from the seed
      try:
        return build(source, shape, classes_if_random)
      except InputError as error:
        raise InputError(f'{self.name}: {error}') from error
      except Exception as error:  # libraries fail in their own ways; the cause is quoted
        reason = str(error).partition('\n')[0]
        raise InputError(
          f'{self.name} cannot be built with {source.weights.file or "random weights"} for images '
          f'{shape}: {type(error).__name__}: {reason}'
        ) from error

  def _class_names(self, built: _Built, data_classes: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the class names of a network's outputs.

    The description of the weights names the outputs. If it does not, 1000 outputs are ImageNet's
    classes. Any other number of outputs are the classes of the data if the numbers are equal. If
    there is a probe, which replaces the outputs, the names can be '0', '1', and so on.

    Args:
      built: the network.
      data_classes: names of the classes of the data.

    Raises:
      InputError: the outputs have no names.
    """
    names, count = built.names, built.outputs
    if names:
      return names
    if count == len(imagenet_names.NAMES):
      return imagenet_names.NAMES
    if count == len(data_classes):
      label_space.log_numbers(self.name, data_classes)
      return data_classes
    if self.probe:
      return tuple(map(str, range(count)))
    raise InputError(
      f'{self.name} tells {count} classes apart, which its record does not name; the data have '
      f'{len(data_classes)}.'
    )


def _build_timm(source: _Source, shape: tuple[int, int, int], num_classes: int) -> _Built:
  """Returns a network of timm with its weights, built for images of a shape.

  Args:
    source: the files and descriptions of the network.
    shape: height, width and channels of the images.
    num_classes: number of outputs if weights are random; otherwise the file decides.
  """
  name, config, file = source.weights.name, source.config, source.file
  timm = _import_with_torch('timm', name)
  base, _, _ = name.removeprefix(f'{TIMM}:').partition('.')  # without the tag
  names_of_head = config.get('classifier') or ''  # timm's name of the last linear map, or several
  head = names_of_head if isinstance(names_of_head, str) else names_of_head[0]
  if ours := catalog.of_timm_name(base):
    logging.info('%s runs in PyTorch; %s is the same network in JAX', name, ours)
  if file and file.suffix == NPZ_SUFFIX:  # its arrays have other names than timm's
    num_classes = config['num_classes']
  elif file:
    arrays = read_arrays(file)
    # the last linear map: its bias and weight have a row for each output; the bias may be missing
    rows_of_head = arrays.get(f'{head}.bias', arrays.get(f'{head}.weight'))
    num_classes = 0 if rows_of_head is None else len(rows_of_head)
  size = {'img_size': shape[:2]} if config.get('fixed_input_size') else {}
  overlay = {'file': str(file), 'num_classes': num_classes} if file else None
  module = timm.create_model(
    base, pretrained=bool(file), pretrained_cfg_overlay=overlay, num_classes=num_classes, **size
  )
  names = preprocessing.class_names(config)
  if not names and num_classes != 1000 and num_classes == config.get('num_classes'):
    # the name of a set of classes other than ImageNet-1k, such as 'imagenet-12k'; None if unknown
    subset = timm.data.infer_imagenet_subset(config)
    names = tuple(timm.data.ImageNetInfo(subset).label_names()) if subset else ()
  if num_classes:
    return _Built(module.eval(), head, num_classes, names, is_headless=False)
  num_features = getattr(module, 'head_hidden_size', module.num_features)
  return _Built(module.eval(), head, num_features, (), is_headless=True)


def _build_transformers(source: _Source, shape: tuple[int, int, int], num_classes: int) -> _Built:
  """Returns a network of the library transformers with its weights.

  Args:
    source: the files and descriptions of the network.
    shape: not used; the network's description decides which sizes of images it takes.
    num_classes: number of outputs if weights are random; otherwise the description decides.

  Raises:
    InputError: arrays are missing in the file or have no place in the network.
  """
  import torch

  transformers = _import_with_torch('transformers', source.weights.name)

  class Logits(torch.nn.Module):
    """Wraps a model of transformers so that it returns only the tensor of logits."""

    def __init__(self, model: torch.nn.Module) -> None:
      super().__init__()
      self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
      return self.model(pixel_values=images).logits

  # without the dtype of the file: networks compute in float32
  facts = {k: v for k, v in source.config.items() if k not in ('torch_dtype', 'dtype')}
  config = transformers.AutoConfig.for_model(**facts)
  if not source.file:
    config.num_labels = num_classes
  model = transformers.AutoModelForImageClassification.from_config(config)
  is_headless = False
  if source.file:
    model, is_headless = _with_stored_weights(model, config, source.file)
  names = preprocessing.class_names(facts) if source.file else ()
  # the last linear map of some models has another name, which is not known here
  head = 'model.classifier' if 'classifier' in dict(model.named_children()) else ''
  return _Built(Logits(model).eval(), head, config.num_labels, names, is_headless)


def _with_stored_weights(model: Any, config: Any, file: pathlib.Path) -> tuple[Any, bool]:
  """Loads a file of weights into a model of transformers.

  Args:
    model: the model.
    config: configuration of the model.
    file: the weights.

  Returns:
    (model, whether the file lacks 'classifier', the last linear map).

  Raises:
    InputError: other arrays are missing or left over.
  """
  import torch

  state = {}
  for name, array in read_arrays(file).items():
    # PyTorch does not take bfloat16 from NumPy
    dtype = np.float32 if array.dtype == np.dtype(ml_dtypes.bfloat16) else None
    state[name] = torch.from_numpy(np.array(array, dtype))
  # no path (None), but arrays; `from_pretrained` also accepts their names in earlier versions
  model, info = type(model).from_pretrained(
    None, config=config, state_dict=state, output_loading_info=True
  )
  missing, unexpected = sorted(info['missing_keys']), sorted(info['unexpected_keys'])
  missing_in_body = [name for name in missing if not name.startswith('classifier')]
  if missing_in_body or unexpected:
    raise InputError(
      f'{file} does not fit it: {len(missing_in_body)} arrays are missing, {len(unexpected)} '
      f'left over, first {[*missing_in_body, *unexpected][0]}'
    )
  return model, bool(missing)


def _import_with_torch(package: str, name: str) -> ModuleType:
  """Imports a package and PyTorch, and returns the package.

  Args:
    package: name of the package, 'timm' or 'transformers'.
    name: name of the classifier that needs the package, for the message.

  Raises:
    InputError: one of them is not installed.
  """
  with importing(f"{name} needs {package}: pip install '.[{package}]'"):
    importlib.import_module('torch')
    return importlib.import_module(package)
