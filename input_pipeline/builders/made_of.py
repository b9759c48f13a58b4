"""Stores the settings of prepared data in their metadata and compares them with a later config.

TFDS finds prepared data by the config's name alone. Without the comparison, a config with another
folder or other settings under the same name would silently get the data of the first.
"""

import abc
import dataclasses
import functools
import hashlib
import importlib.resources
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow_datasets as tfds
from absl import logging

import input_pipeline
from input_pipeline.settings import DataSettings
from input_pipeline.sources.tfds import Tfds
from input_pipeline.tfds_sets import check_features, find_builder
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.sequential import map_entries
from robustness.core.settings import differing_keys, require
from robustness.core.typing import Facts

SETTINGS, INPUTS = 'settings', 'inputs_sha256'
ENDS = 4096
WHOLE = 2**30  # bytes up to which all of a base data set's files is read for their digest
BLOCK = 256  # images that are made at once
Feature: TypeAlias = tfds.features.FeatureConnector | Mapping[str, tfds.features.FeatureConnector]
_OF_TFDS = ('name', 'description', 'version', 'release_notes', 'supported_versions', 'tags')


def digest_of_files(root: pathlib.Path, files: Iterable[pathlib.Path], ends: int = 0) -> str:
  """Returns the SHA-256 of files' names under a folder, sizes and content.

  `ends` bytes at the beginning and at the end of each file are read, for thousands of image files:
  their compressed data end differently where a pixel differs; 0 reads all.
  """
  digest = hashlib.sha256()
  for path in sorted(files):
    with path.open('rb') as file:
      size = file.seek(0, 2)
      digest.update(json.dumps([path.relative_to(root).as_posix(), size]).encode())
      file.seek(0)
      if ends and size > 2 * ends:
        digest.update(file.read(ends))
        file.seek(size - ends)
      digest.update(file.read())
  return digest.hexdigest()


class MadeOf(abc.ABC):
  """Goes before `GeneratorBasedBuilder` among a builder's bases.

  A builder that is given a config object (not a name) compares it with the data that are prepared
  under its name, if any are.

  Attributes:
    CONFIG: the class of the config.
    PARSE_NAME: returns the config that a name stands for; None accepts listed names alone.
    PATHS: fields of the config that do not decide what is made.
    PAPER: the key of what is cited, in the bibliography of reports.
  """

  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES: ClassVar[dict[str, str]] = {'1.0.0': 'First release.'}
  CONFIG: type
  PARSE_NAME: Callable[[str], tfds.core.BuilderConfig] | None = None
  BUILDER_CONFIGS: ClassVar[Sequence[tfds.core.BuilderConfig]]
  PATHS: ClassVar[tuple[str, ...]]
  DESCRIPTION: str
  PAPER: str
  HOMEPAGE: str | None = None
  IN_ORDER = False  # whether examples are stored in the order in which they are made

  info: tfds.core.DatasetInfo
  data_path: pathlib.Path
  builder_config: Any  # of the class CONFIG
  is_prepared: Callable[[], bool]

  def __init__(self, **kwargs: object):
    super().__init__(**kwargs)
    config = kwargs.get('config')
    if config is not None and not isinstance(config, str) and self.is_prepared():
      self._refuse_other_data()

  def _create_builder_config(self, builder_config: Any, version: object) -> tfds.core.BuilderConfig:
    """Returns a config as it is, what its name stands for, or without a name the first listed."""
    if self.PARSE_NAME is None:
      return super()._create_builder_config(builder_config, version)  # type: ignore[misc]
    if isinstance(builder_config, self.CONFIG):
      return builder_config
    return self.PARSE_NAME(builder_config) if builder_config else self.BUILDER_CONFIGS[0]

  @abc.abstractmethod
  def features(self) -> Mapping[str, Feature]:
    """Returns what an example is stored with."""

  def _info(self) -> tfds.core.DatasetInfo:
    papers = importlib.resources.files('robustness.present').joinpath('papers.bib')
    entries = papers.read_text('utf-8').split('\n\n')
    return tfds.core.DatasetInfo(
      builder=self,
      description=self.DESCRIPTION,
      features=tfds.features.FeaturesDict(self.features()),
      supervised_keys=('image', 'label'),
      metadata=tfds.core.MetadataDict(),
      disable_shuffling=self.IN_ORDER,
      homepage=self.HOMEPAGE,
      citation=next(entry for entry in entries if f'{{{self.PAPER},' in entry),
    )

  def _generate_examples(self, parts: range, examples: Callable[[int], Iterator[object]]) -> object:
    """Returns the examples of all parts: an iterator, or with `beam` a transform over parts."""
    if not self.builder_config.beam:
      return (example for part in parts for example in examples(part))
    beam = tfds.core.lazy_imports.apache_beam
    return beam.Create(parts) | beam.Reshuffle() | beam.FlatMap(examples)

  def settings(self) -> Facts:
    """Returns the config's values that decide what is made, without paths."""
    fields = dataclasses.asdict(self.builder_config)
    return {name: v for name, v in fields.items() if name not in (*_OF_TFDS, *self.PATHS)}

  @abc.abstractmethod
  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns a digest of everything that is read.

    `manual_dir` is TFDS's folder for inputs that the config does not name; '' where unknown.
    """

  def note_inputs(self, manual_dir: str = '') -> None:
    """Writes settings and digests into the metadata of the data that are being prepared."""
    noted = {SETTINGS: self.settings(), INPUTS: self.input_digests(manual_dir)}
    self.info.metadata.update(json.loads(json.dumps(noted)))

  def _refuse_other_data(self) -> None:
    noted = self.info.metadata or {}
    if SETTINGS not in noted:
      logging.warning('%s does not say what it was made of: not compared', self.data_path)
      return
    inputs = noted[INPUTS]
    try:
      inputs = self.input_digests('')
    except InputError as error:
      logging.warning('%s: its inputs are not compared (%s)', self.data_path, error)
    current = json.loads(json.dumps({SETTINGS: self.settings(), INPUTS: inputs}))
    lines = differing_keys({key: noted[key] for key in current}, current)
    if lines:
      raise InputError(
        f'{self.data_path} holds data of the same name, made with other settings or inputs. '
        'Differences (there → in this config):\n  '
        + '\n  '.join(lines)
        + '\nGive the config another name, or delete that folder to prepare it again.'
      )


@dataclasses.dataclass(eq=False)
class BaseConfig(tfds.core.BuilderConfig):
  """The images of another TFDS data set that a data set is made of; see `CorruptedConfig`."""

  name: str = ''
  description: str | None = None
  base: str = ''
  base_dir: str = ''
  seed: int = 0
  resize: int = 0
  crop: int = 0
  interpolation: str = 'bicubic'
  resized_by: str = 'tensorflow'

  def __post_init__(self) -> None:
    require(bool(self.base), 'base', self.base, "a TFDS name, for example 'cifar10'")
    for key in ('seed', 'resize', 'crop'):
      value = getattr(self, key)
      is_valid = isinstance(value, (int, np.integer)) and bool(value >= 0)
      require(is_valid, key, value, 'a whole number from 0')


class MadeOfBase(MadeOf):
  """`MadeOf` for data sets with a `BaseConfig`."""

  PATHS: ClassVar[tuple[str, ...]] = ('base_dir',)
  _data_dir_root: object

  @property
  def base_dir(self) -> str:
    """The TFDS folder of the base."""
    return self.builder_config.base_dir or str(self._data_dir_root)

  @property
  def base(self) -> tfds.core.DatasetBuilder:
    """The builder of the base, which is possibly not prepared yet."""
    return find_builder(self.builder_config.base, self.base_dir, 'base')

  def base_features(self) -> dict[str, Feature]:
    """Returns `image`, with the shape None where images have different ones, and `label`."""
    image, names = check_features(self.base)
    config, channels = self.builder_config, 1 if image.shape[-1] == 1 else 3
    size = (config.crop or None,) * 2 if config.crop or config.resize else image.shape[:2]
    return {
      'image': tfds.features.Image(shape=(*size, channels), dtype=np.uint8, encoding_format='png'),
      'label': tfds.features.ClassLabel(names=list(names)),
    }

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """See `MadeOf`: of the base's files, of more than `WHOLE` bytes of their ends alone."""
    del manual_dir
    base = self.base
    if not base.is_prepared():
      raise InputError(f'{base.info.full_name} is not prepared in {base.data_path}.')
    files = [pathlib.Path(file) for split in base.info.splits.values() for file in split.filepaths]
    ends = ENDS if int(base.info.dataset_size) > WHOLE else 0
    return {'base': digest_of_files(pathlib.Path(base.data_path), files, ends)}


@functools.lru_cache(maxsize=4)
def open_base(config: BaseConfig, base_dir: str, split: str) -> Rows:
  """Opens a split of a config's base, as a study opens it."""
  return input_pipeline.load(
    DataSettings(
      Tfds(config.base, base_dir),
      split,
      resize=config.resize,
      crop=config.crop,
      interpolation=config.interpolation,
      resized_by=config.resized_by,
    )
  )


def compiled(show: Callable[..., jax.Array]) -> Callable[..., np.ndarray]:
  """Returns the function of arrays [B, ...] that shows every entry, uint8 [B, H, W, C].

  `show` returns an image of one entry, float32 [H, W, C] in [0, 1]; arguments by name are the same
  for all entries.
  """

  @jax.jit
  def levels(*arrays: jax.Array, **shared: jax.Array) -> jax.Array:
    images = map_entries(functools.partial(show, **shared), *arrays)
    return jnp.round(images * 255).astype(jnp.uint8)

  return lambda *arrays, **shared: np.asarray(levels(*arrays, **shared))
