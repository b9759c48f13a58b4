"""Any image classifier of timm or transformers by its name, run by PyTorch with gradients.

`config.classifier.name` is `timm:NAME`, such as 'timm:convnext_tiny.fb_in1k', or `hf:REPOSITORY`,
such as 'hf:google/vit-base-patch16-224', or `hf:FOLDER` with the files of one.
`config.classifier.weights` is '' for the hub's (or the folder's), a file, a folder with a file and
its record, or 'random', drawn from the seed. Images are prepared as the weights' record says.
"""

import contextlib
import dataclasses
import functools
import importlib
import pathlib
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

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


@dataclasses.dataclass(frozen=True)
class _Source:
  """The origin of a classifier.

  Attributes:
    entry: the preparation of images and the name of the weights.
    file: the file with the weights; None if they are drawn.
    facts: timm's `pretrained_cfg`, or transformers' `config.json`.
  """

  entry: Weights
  file: pathlib.Path | None
  facts: Facts


@dataclasses.dataclass(frozen=True)
class _Built:
  """A module in evaluation mode, the name of its last linear map, the number of its outputs, their
  names if known, and whether the weights lack the last linear map."""

  module: 'torch.nn.Module'
  head: str
  outputs: int
  names: tuple[str, ...]
  headless: bool


@functools.lru_cache(maxsize=8)
def _source(name: str, weights: str) -> _Source:
  """Returns the cached source of a name and the `weights` of a config."""
  library, _, identity = name.partition(':')
  return (_of_timm if library == TIMM else _of_transformers)(name, identity, weights)


def _of_timm(name: str, identity: str, weights: str) -> _Source:
  """Returns the source of `timm:IDENTITY`."""
  timm = _package('timm', name)
  base, _, tag = identity.partition('.')
  if not timm.is_model(base):
    raise InputError(f'{name} is no model of timm: {nearest(base, timm.list_models())}')
  if tag and not timm.models.is_model_pretrained(identity):
    tags = [tag for tag in timm.list_pretrained() if tag.startswith(f'{base}.')]
    raise InputError(f'{name} is no tag of {base} in timm: {nearest(identity, tags)}')
  configuration = timm.get_pretrained_cfg(identity)
  facts: Facts = configuration.to_dict() if configuration else {}
  path = expanded(weights) if weights not in ('', RANDOM) else None
  if not weights:
    repository = facts.get('hf_hub_id')
    if not repository:
      raise InputError(f'timm has no weights for {identity}: give weights=FILE or weights=random.')
    hub.from_hugging_face(repository, CONFIG_FILE, name)
    path = hub.from_hugging_face(repository, WEIGHTS_FILE, name).path.parent
  record = (path if path.is_dir() else path.parent) / CONFIG_FILE if path else None
  if record and record.is_file() and (stored := json_files.read(record)).get('pretrained_cfg'):
    if (theirs := stored.get('architecture', base)) != base:
      raise InputError(f'{record} is of {theirs!r}: set --{KEYS.classifier.name}={TIMM}:{theirs}')
    facts = {**facts, 'label_names': stored.get('label_names'), **stored['pretrained_cfg']}
  preparation = preprocessing.fields_of_record(TIMM, facts, f'{record or name}: ')
  return _from(name, path, record, preparation, facts)


def _of_transformers(name: str, identity: str, weights: str) -> _Source:
  """Returns the source of `hf:IDENTITY`."""
  _package('transformers', name)
  folder = expanded(identity)
  if not folder.is_dir():
    if identity.startswith(('/', '~', '.')) or identity.count('/') != 1:
      raise InputError(f'{name} is neither a folder here nor a repository ACCOUNT/NAME of the hub.')
    files = [CONFIG_FILE, TRANSFORMERS_FILE, *([] if weights else [WEIGHTS_FILE])]
    folder = [hub.from_hugging_face(identity, file, name).path for file in files][0].parent
  for file in (CONFIG_FILE, TRANSFORMERS_FILE):
    if not (folder / file).is_file():
      raise InputError(f'{name}: {folder} has no {file}, which says what the network is.')
  record, path = folder / TRANSFORMERS_FILE, expanded(weights) if weights else folder
  preparation = preprocessing.fields_of_record(HF, json_files.read(record), f'{record}: ')
  facts = json_files.read(folder / CONFIG_FILE)
  return _from(name, None if weights == RANDOM else path, record, preparation, facts)


def _from(
  name: str,
  path: pathlib.Path | None,
  record: pathlib.Path | None,
  preparation: Facts,
  facts: Facts,
) -> _Source:
  """Returns the source of weights in a file or folder; `path` is None if they are drawn."""
  if path and not path.exists():
    raise InputError(f'{name}: there is no {path}: give a file, a folder, or weights=random.')
  file = preprocessing.only_file(path) if path and path.is_dir() else path
  place = (str(file.parent), file.name) if file else ('', '')
  record_name = record.name if record and record.is_file() else ''
  entry = Weights(name, name, LOCAL, *place, record=record_name, **preparation)
  return _Source(entry, file, facts)


@dataclasses.dataclass(frozen=True)
class TorchLibrary(ClassifierKind):
  """A network of timm or transformers; its layer 'features' is what its last linear map takes."""

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """See `ClassifierKind`."""
    return section.name.startswith(tuple(f'{library}:' for library in _PACKAGES))

  @functools.cached_property
  def record(self) -> Weights:
    """See `ClassifierKind`.

    Raises:
      InputError: an unknown name (the nearest are listed), a package that is not installed, files
        that are not there, or a record that cannot be followed.
    """
    return _source(self.name, self.weights).entry

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """See `ClassifierKind`."""
    if self.is_trained_here:
      raise InputError(f'{self.name} runs in PyTorch and is not trained here: give its weights.')
    super().check(label, image_shape, precision)

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """See `ClassifierKind`; networks of timm with positions of one size are resampled.

    Random weights are for ImageNet's classes if the data have some of these, else for the data's.
    """
    source, imagenet = _source(self.name, self.weights), label_space.get(label_space.IMAGENET)
    entry, data_classes, side = source.entry, images.class_names, source.entry.input_size
    shape = images.shape if images.has_set_size else (side, side, 3)
    is_imagenet = label_space.is_imagenet(data_classes) or not data_classes
    drawn = imagenet.class_names if is_imagenet else data_classes
    build = _build_timm if self.name.startswith(TIMM) else _build_transformers
    with _seeded(self.seed):
      try:
        built = build(source, shape, len(drawn))
      except InputError as error:
        raise InputError(f'{self.name}: {error}') from error
      except Exception as error:  # libraries fail in their own ways; the cause is quoted
        reason = (str(error).splitlines() or [''])[0]
        raise InputError(
          f'{self.name} cannot be built with {entry.file or "random weights"} for images {shape}: '
          f'{type(error).__name__}: {reason}'
        ) from error
    names, count, aliases = built.names, built.outputs, dict[str, int]()
    if built.headless and not self.probe:
      raise InputError(
        f'{self.name}: {entry.file or "its record"} has no last linear map, so it gives features '
        f"and no classes: set {KEYS.classifier.probe.name} to 'linear', 'knn' or 'prototype'."
      )
    if count == len(imagenet.class_names) and (not names or names[0].startswith('tench')):
      names, aliases = imagenet.class_names, dict(imagenet.aliases)
    elif not names and count == len(data_classes):
      label_space.log_numbers(self.name, data_classes)
      names = data_classes
    elif not names and self.probe:
      names = tuple(map(str, range(count)))
    if not names:
      raise InputError(
        f'{self.name} tells {count} classes apart, which its record does not name; the data have '
        f'{len(data_classes)}.'
      )
    package = _package(_PACKAGES[self.name.partition(':')[0]], self.name)
    facts = {
      'architecture': self.name,
      'library': f'{package.__name__} {package.__version__}',
      'weights': entry.file or f'random, seed {self.seed}',
      'preprocessing': entry.preprocessing,
      'licence': entry.licence,
      **({'input_filter': self.input_filter.describe()} if self.input_filter else {}),
    }
    classifier = Classifier.from_torch(
      built.module,
      shape,
      names,
      name=label,
      mean=entry.mean,
      std=entry.std,
      head=built.head,
      provenance=facts,
      input_filter=self.input_filter,
    )
    return dataclasses.replace(classifier, aliases=aliases)


def _build_timm(source: _Source, input_shape: tuple[int, int, int], classes: int) -> _Built:
  """Builds a network of timm for images of a shape."""
  facts, file, timm = source.facts, source.file, _package('timm', source.entry.name)
  base = source.entry.name.partition(':')[2].partition('.')[0]
  head = facts.get('classifier') or ''
  head = head if isinstance(head, str) else head[0]
  if ours := catalog.of_timm_name(base):
    logging.info('%s runs in PyTorch; %s is the same network in JAX', source.entry.name, ours)
  if file and file.suffix != NPZ_SUFFIX:
    arrays = read_arrays(file)
    classes = next((len(arrays[k]) for k in (f'{head}.bias', f'{head}.weight') if k in arrays), 0)
  elif file:
    classes = facts['num_classes']
  size = {'img_size': input_shape[:2]} if facts.get('fixed_input_size') else {}
  stored = {'file': str(file), 'num_classes': classes} if file else None
  module = timm.create_model(
    base, bool(file), pretrained_cfg_overlay=stored, num_classes=classes, **size
  )
  names = preprocessing.class_names(facts)
  subset = timm.data.infer_imagenet_subset(facts) if not names and classes != 1000 else None
  if subset and classes == facts.get('num_classes'):
    names = tuple(timm.data.ImageNetInfo(subset).label_names())
  outputs = classes or getattr(module, 'head_hidden_size', module.num_features)
  return _Built(module.eval(), head, outputs, names if classes else (), not classes)


def _build_transformers(source: _Source, input_shape: tuple[int, int, int], classes: int) -> _Built:
  """Builds a network of transformers; `classes` counts for drawn weights."""
  import torch

  transformers = _package('transformers', source.entry.name)

  class Logits(torch.nn.Module):
    """The module with its logits alone."""

    def __init__(self, model: torch.nn.Module) -> None:
      super().__init__()
      self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
      return self.model(pixel_values=images).logits

  factory, file = transformers.AutoModelForImageClassification, source.file
  facts = {k: v for k, v in source.facts.items() if k not in ('torch_dtype', 'dtype')}
  config = transformers.AutoConfig.for_model(**facts)
  if not file:
    config.num_labels = classes
  model = factory.from_config(config)
  missing: list[str] = []
  if file:
    arrays = read_arrays(file).items()
    half = np.dtype(ml_dtypes.bfloat16)  # which PyTorch does not take from NumPy
    copies = {k: np.array(v, np.float32 if v.dtype == half else None) for k, v in arrays}
    state = {k: torch.from_numpy(v) for k, v in copies.items()}
    model, info = type(model).from_pretrained(
      None, config=config, state_dict=state, output_loading_info=True
    )  # it maps the former names of arrays
    missing, unexpected = sorted(info['missing_keys']), sorted(info['unexpected_keys'])
    body = [name for name in missing if not name.startswith('classifier')]
    if body or unexpected:
      raise InputError(
        f'{file} does not fit it: {len(body)} arrays are missing, {len(unexpected)} left over, '
        f'first {(body or unexpected)[0]}'
      )
  names = preprocessing.class_names(facts) if file else ()
  head = 'model.classifier' if 'classifier' in dict(model.named_children()) else ''
  return _Built(Logits(model).eval(), head, config.num_labels, names, bool(missing))


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
  """Lets what PyTorch draws follow from a seed, and leaves its generator as it was."""
  import torch

  with torch.random.fork_rng(devices=[]):
    torch.manual_seed(seed)
    yield


def _package(package: str, name: str) -> ModuleType:
  """Imports PyTorch and a package; `name` is the classifier that needs it."""
  with importing(f"{name} needs {package}: pip install '.[{package}]'"):
    importlib.import_module('torch')
    return importlib.import_module(package)
