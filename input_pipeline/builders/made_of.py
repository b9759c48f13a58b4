"""Base classes of TFDS builders that record what prepared data were made of.

TFDS finds prepared data only by the config's name. A config with another folder or other settings
under the same name would silently get the earlier data. Therefore settings and digests of the
inputs are stored in the metadata of prepared data and compared with a later config.
"""

import abc
import dataclasses
import functools
import hashlib
import importlib.resources
import itertools
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
from robustness.core.errors import InputError, renaming_section
from robustness.core.rows import Rows
from robustness.core.sequential import map_entries
from robustness.core.settings import differing_keys, require
from robustness.core.typing import Facts

SETTINGS, INPUTS = 'settings', 'inputs_sha256'
"""Keys of a prepared data set's metadata: the settings of its config and digests of its inputs."""
ENDS = 4096
"""Number of bytes at the beginning and at the end of a large file that its digest covers."""
WHOLE = 2**30
"""Size in bytes up to which all files of a base data set are read completely for its digest."""
BLOCK = 256
"""Number of images that are computed together."""
Feature: TypeAlias = tfds.features.FeatureConnector | Mapping[str, tfds.features.FeatureConnector]
_OF_TFDS = ('name', 'description', 'version', 'release_notes', 'supported_versions', 'tags')
"""Fields of a config that TFDS defines and that do not affect the images."""


def digest_of_files(root: pathlib.Path, files: Iterable[pathlib.Path], ends: int = 0) -> str:
  """Returns a SHA-256, in hexadecimal, of the names, sizes and contents of files.

  Args:
    root: folder from which names are relative.
    files: the files.
    ends: how many bytes to read at the beginning and at the end of each file; 0 reads all bytes.
      Reading the ends suffices for compressed images, which differ in their last bytes.
  """
  digest = hashlib.sha256()
  for path in sorted(files):
    with path.open('rb') as file:
      size = file.seek(0, 2)  # the position of the end
      digest.update(json.dumps([path.relative_to(root).as_posix(), size]).encode())
      file.seek(0)
      if ends and size > 2 * ends:
        digest.update(file.read(ends))
        file.seek(size - ends)
      digest.update(file.read())
  return digest.hexdigest()


class MadeOf(abc.ABC):
  """Base class of TFDS builders that detect stale data sets.

  TFDS finds prepared data by the name of the config alone. A builder with a config object checks
  that data prepared under this name have the same settings and inputs. Subclasses derive from this
  class first, then from `tfds.core.GeneratorBasedBuilder`.

  Attributes:
    CONFIG: the class of the config.
    PARSE_NAME: called with a name; returns its config. None accepts only names of
      `BUILDER_CONFIGS`.
    PATHS: fields of the config that do not affect the images.
    PAPER: key of the cited paper in the bibliography of reports.
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
    # TFDS finds prepared data by the name of the config, but a config object may have changed
    # settings; a name alone (str) has none to compare
    if config is not None and not isinstance(config, str) and self.is_prepared():
      self._refuse_other_data()

  def _create_builder_config(self, builder_config: Any, version: object) -> tfds.core.BuilderConfig:
    """Returns the config of the builder, also if it is not in `BUILDER_CONFIGS`.

    Overrides a method of TFDS that accepts only listed names.

    Args:
      builder_config: a config, the name of a config, or None for the first in `BUILDER_CONFIGS`.
      version: version of the data set.
    """
    if self.PARSE_NAME is None:
      return super()._create_builder_config(builder_config, version)  # type: ignore[misc]
    if isinstance(builder_config, self.CONFIG):
      return builder_config
    return self.PARSE_NAME(builder_config) if builder_config else self.BUILDER_CONFIGS[0]

  @abc.abstractmethod
  def features(self) -> Mapping[str, Feature]:
    """Returns the features of an example."""

  def _info(self) -> tfds.core.DatasetInfo:
    """Returns the description of the data set for TFDS."""
    # the citation is the entry of `PAPER` in the bibliography, where blank lines divide entries
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
      citation=next(entry for entry in entries if '{' + self.PAPER + ',' in entry),
    )

  def _generate_examples(self, parts: range, examples: Callable[[int], Iterator[object]]) -> object:
    """Returns all examples, as an iterator or (if the config sets `beam`) as a Beam transform.

    Args:
      parts: indices of the parts that Beam distributes, such as blocks of images.
      examples: called with the index of a part; yields its examples.
    """
    if not self.builder_config.beam:
      return itertools.chain.from_iterable(map(examples, parts))
    beam = tfds.core.lazy_imports.apache_beam
    return beam.Create(parts) | beam.Reshuffle() | beam.FlatMap(examples)

  def settings(self) -> Facts:
    """Returns the fields of the config that affect the images, `{name: value}`."""
    fields = dataclasses.asdict(self.builder_config)
    return {name: value for name, value in fields.items() if name not in (*_OF_TFDS, *self.PATHS)}

  @abc.abstractmethod
  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns the SHA-256 of each input, such as `{'base': digest}`, to detect changed files.

    Args:
      manual_dir: TFDS's folder of manual downloads, used for inputs that the config does not name;
        '' if it is unknown.
    """

  def note_inputs(self, manual_dir: str = '') -> None:
    """Stores the settings and the digests of inputs in the metadata of the data set.

    Call it while the data set is prepared.

    Args:
      manual_dir: TFDS's folder of manual downloads, used for inputs that the config does not name.
    """
    noted = {SETTINGS: self.settings(), INPUTS: self.input_digests(manual_dir)}
    # through JSON, so that values have the types with which they are read and compared later
    self.info.metadata.update(json.loads(json.dumps(noted)))

  def _refuse_other_data(self) -> None:
    """Raises InputError if the prepared data set has other settings or inputs than this builder."""
    metadata = self.info.metadata
    try:
      inputs = self.input_digests('')  # manual_dir is unknown
    except InputError as error:  # prepared data may be used where their inputs are not
      logging.warning('%s: its inputs are not compared (%s)', self.data_path, error)
      inputs = metadata[INPUTS]
    # through JSON, as the metadata were written
    current = json.loads(json.dumps({SETTINGS: self.settings(), INPUTS: inputs}))
    differences = differing_keys({key: metadata[key] for key in current}, current)
    if differences:
      raise InputError(
        f'{self.data_path} holds data of the same name, made with other settings or inputs. '
        'Differences (there → in this config):\n  '
        + '\n  '.join(differences)
        + '\nGive the config another name, or delete that folder to prepare it again.'
      )


@dataclasses.dataclass(eq=False)
class BaseConfig(tfds.core.BuilderConfig):
  """Config of a data set that is computed from another TFDS data set, the base data set.

  Attributes:
    name: name of the config.
    description: text for TFDS.
    base: TFDS name of the base data set.
    base_dir: TFDS folder of the base data set; '' is the folder of this data set.
    seed: seed of random numbers.
    resize, crop, interpolation, resized_by: how images of the base data set are resized and
      cropped; see `DataSettings`.
    WHOLE_NUMBERS: names of the settings that are whole numbers from 0.
  """

  WHOLE_NUMBERS: ClassVar[tuple[str, ...]] = ('seed', 'resize', 'crop')
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
    """Raises InputError for a missing `base`, a negative number or an unused interpolation."""
    require(bool(self.base), 'base', self.base, "a TFDS name, for example 'cifar10'")
    for key in self.WHOLE_NUMBERS:
      value = getattr(self, key)
      is_valid = isinstance(value, (int, np.integer)) and value >= 0
      require(bool(is_valid), key, value, 'a whole number from 0')
    is_used = self.resize > 0 or self.interpolation == DataSettings.interpolation
    require(is_used, 'interpolation', self.interpolation, 'the default where resize is 0')


class MadeOfBase(MadeOf):
  """Base class of builders that compute images from another TFDS data set, the base data set."""

  PATHS: ClassVar[tuple[str, ...]] = ('base_dir',)
  _data_dir_root: object  # TFDS sets it: the folder in which it stores data sets

  @property
  def base_dir(self) -> str:
    """The TFDS folder of the base data set, by default the folder of this data set."""
    return self.builder_config.base_dir or str(self._data_dir_root)

  @property
  def base(self) -> tfds.core.DatasetBuilder:
    """The TFDS builder of the base data set, which may not be prepared yet."""
    return find_builder(self.builder_config.base, self.base_dir, key='base')

  def base_features(self) -> dict[str, Feature]:
    """Returns the TFDS features `image` and `label`, copied from the base data set.

    Height and width of `image` are None if images differ in size.
    """
    image, names = check_features(self.base)
    *size, num_channels = image.shape
    channels = 1 if num_channels == 1 else 3  # images with alpha or of unknown channels become RGB
    crop = self.builder_config.crop
    if crop or self.builder_config.resize:
      # without a crop images may differ in size (None), as a resize keeps the aspect ratio
      size = [crop or None, crop or None]
    return {
      'image': tfds.features.Image(shape=(*size, channels), dtype=np.uint8, encoding_format='png'),
      'label': tfds.features.ClassLabel(names=list(names)),
    }

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns `{'base': SHA-256 of the base data set's files}`.

    If the data set has more than `WHOLE` bytes, only the beginning and end of each file are read.
    """
    base = self.base
    if not base.is_prepared():
      raise InputError(f'{base.info.full_name} is not prepared in {base.data_path}.')
    splits = base.info.splits.values()
    files = [pathlib.Path(file) for split in splits for file in split.filepaths]
    ends = ENDS if int(base.info.dataset_size) > WHOLE else 0
    return {'base': digest_of_files(pathlib.Path(base.data_path), files, ends)}


@functools.lru_cache(maxsize=4)
def open_base(config: BaseConfig, base_dir: str, split: str, key: str) -> Rows:
  """Opens a split of the base data set, with images resized and cropped.

  Args:
    config: settings of the base data set and of resizing and cropping.
    base_dir: TFDS folder of the base data set.
    split: name of the split.
    key: name of the setting with the split, for messages.
  """
  # messages name the settings as `config` does
  with renaming_section('config.data', ''), renaming_section('config.data.split', key):
    settings = DataSettings(
      Tfds(config.base, base_dir),
      split,
      resize=config.resize,
      crop=config.crop,
      interpolation=config.interpolation,
      resized_by=config.resized_by,
    )
    return input_pipeline.load(settings)


def compiled(show: Callable[..., jax.Array]) -> Callable[..., np.ndarray]:
  """Compiles a function of one image into a function of a batch that returns 8-bit images.

  Args:
    show: called with entry b of each positional array, and with all keyword arguments; returns
      image b, float32 [H, W, C] in [0, 1].

  Returns:
    A function of positional arrays [B, ...] and keyword arguments that returns B images, uint8 [B,
    H, W, C].
  """

  @jax.jit
  def rounded(*arrays: jax.Array, **shared: jax.Array) -> jax.Array:
    """Returns `show` of each entry of `arrays`, rounded to 8-bit levels."""
    images = map_entries(functools.partial(show, **shared), *arrays)
    return jnp.round(images * 255).astype(jnp.uint8)

  return lambda *arrays, **shared: np.asarray(rounded(*arrays, **shared))
