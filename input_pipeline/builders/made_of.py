"""What prepared data were made of, noted in their metadata and compared when a config asks again.

TFDS finds prepared data by the config's name alone. A config that was given another folder or other
settings under the same name would silently get the data of the first.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds
from absl import logging

import input_pipeline
from input_pipeline.settings import DataSettings
from input_pipeline.tfds_sets import find_builder
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import differing_keys

SETTINGS, INPUTS = 'settings', 'inputs_sha256'
ENDS = 4096
_OF_TFDS = ('name', 'description', 'version', 'release_notes', 'supported_versions', 'tags')


def digest_of_files(root: Path, files: Iterable[Path], ends: int = 0) -> str:
  """Returns the SHA-256 of files' names under a folder, sizes and content.

  Args:
    root: the folder; where it lies does not matter.
    files: in any order; all under `root`.
    ends: bytes at the beginning and at the end of each file that are read, for thousands of image
      files, whose compressed data end differently where a pixel differs; 0 reads all.
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
  """

  info: Any
  data_path: Any
  is_prepared: Callable[[], bool]

  def __init__(self, **kwargs: Any):
    """Takes what `DatasetBuilder` does."""
    super().__init__(**kwargs)
    config = kwargs.get('config')
    if config is not None and not isinstance(config, str) and self.is_prepared():
      self._refuse_other_data()

  @abc.abstractmethod
  def settings(self) -> dict[str, Any]:
    """Returns the config's values that decide what is made, without paths."""

  @abc.abstractmethod
  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns a digest of everything that is read.

    Args:
      manual_dir: TFDS's folder for inputs that the config does not name; '' where it is not known.
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
    asked: dict[str, Any] = {SETTINGS: self.settings(), INPUTS: noted[INPUTS]}
    try:
      asked[INPUTS] = self.input_digests('')
    except InputError as error:
      logging.warning('%s: its inputs are not compared (%s)', self.data_path, error)
    asked = json.loads(json.dumps(asked))
    lines = differing_keys({key: noted[key] for key in asked}, asked)
    if lines:
      raise InputError(
        f'{Path(self.data_path)} holds data of the same name, made with other settings or inputs. '
        'Differences (there → in this config):\n  '
        + '\n  '.join(lines)
        + '\nGive the config another name, or delete that folder to prepare it anew.'
      )


class MadeOfBase(MadeOf):
  """`MadeOf` for data sets whose images are those of one other TFDS data set.

  Attributes:
    CONFIG: the class of the config, with `base`, `base_dir`, `resize`, `crop` and `interpolation`.
    PARSE_NAME: returns the config that a name stands for, where TFDS's own needs a list of all.
    PATHS: keys of the config that do not decide what is made.
  """

  CONFIG: type
  PARSE_NAME: Any
  PATHS: ClassVar[tuple[str, ...]] = ('base_dir',)
  BUILDER_CONFIGS: Any
  builder_config: Any
  _data_dir_root: Any

  def _create_builder_config(self, builder_config: Any, version: Any) -> Any:
    """Returns a config as it is, what its name stands for, or without a name the first listed."""
    del version
    if isinstance(builder_config, self.CONFIG):
      return builder_config
    return self.PARSE_NAME(builder_config) if builder_config else self.BUILDER_CONFIGS[0]

  @property
  def base_dir(self) -> str:
    """Where TFDS keeps the base."""
    return self.builder_config.base_dir or str(self._data_dir_root)

  @property
  def base(self) -> tfds.core.DatasetBuilder:
    """The builder of the base, which may not be prepared."""
    return find_builder(self.builder_config.base, self.base_dir)

  def settings(self) -> dict[str, Any]:
    """See `MadeOf`."""
    fields = dataclasses.asdict(self.builder_config)
    return {name: v for name, v in fields.items() if name not in (*_OF_TFDS, *self.PATHS)}

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """See `MadeOf`: of the base's files."""
    del manual_dir
    base = self.base
    if not base.is_prepared():
      raise InputError(f'{base.info.full_name} is not prepared in {base.data_path}.')
    files = [Path(file) for split in base.info.splits.values() for file in split.filepaths]
    return {'base': digest_of_files(Path(base.data_path), files, ENDS)}


@functools.lru_cache(maxsize=4)
def open_base(config: Any, base_dir: str, split: str) -> Rows:
  """Opens a split of a config's base, as a study opens it."""
  return input_pipeline.load(
    DataSettings(
      source='tfds',
      name=config.base,
      split=split,
      data_dir=base_dir,
      resize=config.resize,
      crop=config.crop,
      interpolation=config.interpolation,
    )
  )
