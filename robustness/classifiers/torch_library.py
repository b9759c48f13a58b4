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
from robustness.models import catalog, hub, label_space, preprocessing
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
  """The configuration of a network and the file with its weights, from which it is built.

  Attributes:
    weights: the name of the weights and how images are prepared for them.
    file: the file with the weights; None if they are random.
    config: the configuration of the network: timm's `pretrained_cfg`, or the `config.json` of
      transformers.
  """

  weights: Weights
  file: pathlib.Path | None
  config: Facts


@dataclasses.dataclass(frozen=True)
class _Built:
  """A network of PyTorch with its weights.

  Attributes:
    module: the network, in evaluation mode.
    head: the name of the submodule that is its last linear map; '' if unknown.
    outputs: the number of outputs.
    names: the class names of the outputs in order; () if the description does not state them.
    is_headless: whether the weights lack the last linear map, so that the network returns features.
  """

  module: 'torch.nn.Module'
  head: str
  outputs: int
  names: tuple[str, ...]
  is_headless: bool


@functools.lru_cache(maxsize=8)
def _read_source(name: str, weights: str) -> _Source:
  """Returns the weights file and the configuration of a network, which are read once and cached.

  `name` and `weights` are the values of the classifier's keys, such as 'timm:resnet50' and ''.
  """
  library, _, identity = name.partition(':')
  read = _timm_source if library == TIMM else _transformers_source
  return read(name, identity, weights)


def _timm_source(name: str, identity: str, weights: str) -> _Source:
  """Returns the weights file and the configuration of timm's 'convnext_tiny.fb_in1k', for example.

  The configuration is the `pretrained_cfg` in timm's code. Its values are replaced by the values in
  a `config.json` next to the weights, if there is one.

  Args:
    name: `timm:` and the identity, for messages.
    identity: name of the model in timm, and after a dot the tag that names its weights, if any.
    weights: a file, a folder, or 'random'; '' downloads the weights of the tag from Hugging Face.

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
  path: pathlib.Path | None = None  # random weights
  if not weights:
    repository = config.get('hf_hub_id')
    if not repository:
      raise InputError(f'timm has no weights for {identity}: give weights=FILE or weights=random.')
    # both files are downloaded to one folder
    hub.from_hugging_face(repository, CONFIG_FILE, name)
    path = hub.from_hugging_face(repository, WEIGHTS_FILE, name).path.parent
  elif weights != RANDOM:
    path = expanded(weights)
  # random weights have no `config.json`
  record = (path if path.is_dir() else path.parent) / CONFIG_FILE if path else None
  stored = preprocessing.read_if_present(record) if record else {}
  if stored.get('pretrained_cfg'):
    if (stated := stored.get('architecture', base)) != base:
      raise InputError(f'{record} is of {stated!r}: set {KEYS.classifier.name:--}={TIMM}:{stated}')
    config = {**config, 'label_names': stored.get('label_names'), **stored['pretrained_cfg']}
  preparation = preprocessing.fields_of_record(TIMM, config, f'{record or name}: ')
  return _stored_source(name, path, record, preparation, config)


def _transformers_source(name: str, identity: str, weights: str) -> _Source:
  """Returns the weights file and the configuration of a repository or folder of transformers.

  Args:
    name: `hf:` and the identity, for messages.
    identity: ACCOUNT/NAME of the repository, or the path of a folder.
    weights: a file, a folder, or 'random'; '' takes `model.safetensors` of the repository or
      folder.

  Raises:
    InputError: transformers is not installed, or files are missing or cannot be downloaded.
  """
  _import_with_torch('transformers', name)
  folder = expanded(identity)
  if not folder.is_dir():
    is_repository = not identity.startswith(('/', '~', '.')) and identity.count('/') == 1
    if not is_repository:
      raise InputError(f'{name} is neither a folder here nor a repository ACCOUNT/NAME of the hub.')
    files = [CONFIG_FILE, TRANSFORMERS_FILE, *([] if weights else [WEIGHTS_FILE])]
    paths = [hub.from_hugging_face(identity, file, name).path for file in files]
    folder = paths[0].parent  # all files are in one folder of the hub's cache
  for file in (CONFIG_FILE, TRANSFORMERS_FILE):
    if not (folder / file).is_file():
      raise InputError(f'{name}: {folder} has no {file}, which says what the network is.')
  random_or_file = None if weights == RANDOM else expanded(weights)
  path = random_or_file if weights else folder
  record = folder / TRANSFORMERS_FILE
  preparation = preprocessing.fields_of_record(HF, json_files.read(record), f'{record}: ')
  config = json_files.read(folder / CONFIG_FILE)
  return _stored_source(name, path, record, preparation, config)


def _stored_source(
  name: str, path: pathlib.Path | None, record: pathlib.Path | None, fields: Facts, config: Facts
) -> _Source:
  """Returns the source of a network, given what `_timm_source` or `_transformers_source` read.

  Args:
    name: the name of the classifier.
    path: the file or folder with the weights; None if they are random.
    record: the path of the JSON file that states the preparation of images; it may not exist.
    fields: the fields of `Weights` that describe this preparation, such as `mean`.
    config: the configuration of the network, see `_Source`.
  """
  if path and not path.exists():
    raise InputError(f'{name}: there is no {path}: give a file, a folder, or weights=random.')
  file = preprocessing.only_file(path) if path and path.is_dir() else path
  folder, file_name = (str(file.parent), file.name) if file else ('', '')
  stated = {**fields, 'record': record.name if record and record.is_file() else ''}
  # the network has the name of the classifier
  weights = Weights(name, name, source=LOCAL, package=folder, file=file_name, **stated)
  return _Source(weights, file, config)


@dataclasses.dataclass(frozen=True)
class TorchLibrary(ClassifierKind):
  """A network of timm or transformers; its layer 'features' is the input of its last linear map."""

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the name of the classifier begins with `timm:` or `hf:`."""
    return section.name.startswith(tuple(f'{library}:' for library in _PACKAGES))

  @functools.cached_property
  def record(self) -> Weights:
    """The description of the weights: their file, and how images are prepared for them.

    Raises:
      InputError: the name is unknown (the nearest are listed), a package is not installed, files
        are missing, or their preparation of images cannot be reproduced.
    """
    return self._source.weights

  @functools.cached_property
  def _source(self) -> _Source:
    """The source of the network; the setting `mean` replaces the stated normalisation."""
    source = _read_source(self.name, self.weights)
    if not self.mean:
      return source
    weights = dataclasses.replace(source.weights, mean=self.mean, std=self.std)
    return dataclasses.replace(source, weights=weights)

  @property
  def needs_mean(self) -> bool:
    """See `ClassifierKind.needs_mean`; True for a file of weights without a record."""
    return bool(self.record.file) and not self.record.record

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """See `ClassifierKind.check`; it also refuses a training, which needs JAX."""
    if self.is_trained_here:
      raise InputError(f'{self.name} runs in PyTorch and is not trained here: give its weights.')
    super().check(label, image_shape, precision)

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the network as a classifier that calls PyTorch.

    A network with random weights gets ImageNet's classes if they include the data's classes, and
    the data's classes otherwise.

    Raises:
      InputError: the library cannot build the network, its outputs have no names, or it has no last
        linear map and the config has no probe.
    """
    source, data_classes = self._source, images.class_names
    import torch  # optional; `_source` has raised InputError if it is not installed

    weights, side = source.weights, source.weights.input_size
    shape = images.shape if images.has_set_size else (side, side, 3)
    is_imagenet = label_space.is_imagenet(data_classes) or not data_classes
    imagenet_classes = label_space.get(label_space.IMAGENET).class_names
    classes_if_random = imagenet_classes if is_imagenet else data_classes
    build = _build_timm if self.name.startswith(TIMM) else _build_transformers
    with torch.random.fork_rng(devices=[]):  # restores the state of PyTorch's random generator
      torch.manual_seed(self.seed)  # random weights are drawn from the seed
      try:
        built = build(source, shape, len(classes_if_random))
      except InputError as error:
        raise InputError(f'{self.name}: {error}') from error
      except Exception as error:  # libraries fail in their own ways; the cause is quoted
        reason = (str(error).splitlines() or [''])[0]
        raise InputError(
          f'{self.name} cannot be built with {weights.file or "random weights"} for images '
          f'{shape}: {type(error).__name__}: {reason}'
        ) from error
    if built.is_headless and not self.probe:
      raise InputError(
        f'{self.name}: {weights.file or "its record"} has no last linear map, so it gives features '
        f"and no classes: set {KEYS.classifier.probe.name} to 'linear', 'knn' or 'prototype'."
      )
    names, aliases = self._class_names(built, data_classes)
    package = _import_with_torch(_PACKAGES[self.name.partition(':')[0]], self.name)
    facts = {
      'architecture': self.name,
      'library': f'{package.__name__} {package.__version__}',
      'weights': weights.file or f'random, seed {self.seed}',
      'preprocessing': weights.preprocessing,
      'licence': weights.licence,
      **({'input_filter': self.input_filter.describe()} if self.input_filter else {}),
    }
    classifier = Classifier.from_torch(
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
    return dataclasses.replace(classifier, aliases=aliases)

  def _class_names(
    self, built: _Built, data_classes: tuple[str, ...]
  ) -> tuple[tuple[str, ...], dict[str, int]]:
    """Returns the class names of a network's outputs, and {other name: number of its class}.

    The description of the weights names the outputs. 1000 outputs without names are ImageNet's
    classes; other outputs without names are the data's classes if their numbers are equal. With a
    probe, which replaces the outputs, the names '0', '1', ... suffice.

    Raises:
      InputError: the outputs have no names.
    """
    imagenet, names, count = label_space.get(label_space.IMAGENET), built.names, built.outputs
    # 'tench' is the first class of ImageNet, which projects spell in different ways
    may_be_imagenet = not names or names[0].startswith('tench')
    if count == len(imagenet.class_names) and may_be_imagenet:
      return imagenet.class_names, dict(imagenet.aliases)
    if names:
      return names, {}
    if count == len(data_classes):
      label_space.log_numbers(self.name, data_classes)
      return data_classes, {}
    if self.probe:
      return tuple(map(str, range(count))), {}
    raise InputError(
      f'{self.name} tells {count} classes apart, which its record does not name; the data have '
      f'{len(data_classes)}.'
    )


def _build_timm(source: _Source, input_shape: tuple[int, int, int], classes: int) -> _Built:
  """Returns a network of timm with its weights, built for images of a shape.

  Args:
    source: the files and descriptions of the network.
    input_shape: height, width and channels of the images.
    classes: the number of outputs if weights are random; otherwise the file decides.
  """
  name, config, file = source.weights.name, source.config, source.file
  timm = _import_with_torch('timm', name)
  base, _, _ = name.removeprefix(f'{TIMM}:').partition('.')  # without the tag
  heads = config.get('classifier') or ''  # timm's name of the last linear map, or several names
  head = heads if isinstance(heads, str) else heads[0]  # distilled networks have several
  if ours := catalog.of_timm_name(base):
    logging.info('%s runs in PyTorch; %s is the same network in JAX', name, ours)
  if file and file.suffix == NPZ_SUFFIX:  # its arrays have other names than timm's
    classes = config['num_classes']
  elif file:
    # the bias or the weight of the last linear map has a row for each output; 0 without both
    arrays, weight_name = read_arrays(file), f'{head}.weight'
    classes = len(arrays.get(f'{head}.bias', arrays.get(weight_name, ())))
  size = {'img_size': input_shape[:2]} if config.get('fixed_input_size') else {}
  overlay = {'file': str(file), 'num_classes': classes} if file else None
  module = timm.create_model(
    base, pretrained=bool(file), pretrained_cfg_overlay=overlay, num_classes=classes, **size
  )
  names = preprocessing.class_names(config)
  # the name of a set of classes other than ImageNet-1k, such as 'imagenet-12k'; None if unknown
  subset = timm.data.infer_imagenet_subset(config) if not names and classes != 1000 else None
  if subset and classes == config.get('num_classes'):
    names = tuple(timm.data.ImageNetInfo(subset).label_names())
  is_headless = not classes  # the network then returns features
  outputs = classes or getattr(module, 'head_hidden_size', module.num_features)
  return _Built(module.eval(), head, outputs, () if is_headless else names, is_headless)


def _build_transformers(source: _Source, input_shape: tuple[int, int, int], classes: int) -> _Built:
  """Returns a network of the library transformers with its weights.

  Args:
    source: the files and descriptions of the network.
    input_shape: not used; the network's description decides which sizes of images it takes.
    classes: the number of outputs if weights are random; otherwise the description decides.

  Raises:
    InputError: arrays are missing in the file or have no place in the network.
  """
  import torch

  transformers = _import_with_torch('transformers', source.weights.name)

  class Logits(torch.nn.Module):
    """A model of transformers that returns only the tensor of logits."""

    def __init__(self, model: torch.nn.Module) -> None:
      super().__init__()
      self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
      return self.model(pixel_values=images).logits

  # without the dtype of the file: networks compute in float32
  facts = {k: v for k, v in source.config.items() if k not in ('torch_dtype', 'dtype')}
  config = transformers.AutoConfig.for_model(**facts)
  if not source.file:
    config.num_labels = classes
  model = transformers.AutoModelForImageClassification.from_config(config)
  is_headless = False
  if source.file:
    model, is_headless = _with_stored_weights(model, config, source.file)
  names = preprocessing.class_names(facts) if source.file else ()
  # the last linear map of some models has another name, which is not known here
  head = 'model.classifier' if 'classifier' in dict(model.named_children()) else ''
  return _Built(Logits(model).eval(), head, config.num_labels, names, is_headless)


def _with_stored_weights(model: Any, config: Any, file: pathlib.Path) -> tuple[Any, bool]:
  """Returns a model of transformers with the weights of a file, and whether they lack the head.

  The head is the last linear map, 'classifier'; without it the network returns features. Other
  arrays that are missing or left over raise InputError.
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
      f'left over, first {(missing_in_body or unexpected)[0]}'
    )
  return model, bool(missing)


def _import_with_torch(package: str, name: str) -> ModuleType:
  """Returns the imported package, with PyTorch imported too.

  `name` is the classifier that needs it, for the InputError if either is not installed.
  """
  with importing(f"{name} needs {package}: pip install '.[{package}]'"):
    importlib.import_module('torch')
    return importlib.import_module(package)
