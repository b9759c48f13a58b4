"""What prepared data were made of, noted in their metadata and compared when a config asks again.

TFDS finds prepared data by the config's name alone. A config that was given another folder or other
settings under the same name would silently get the data of the first.
"""

from __future__ import annotations

import abc
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import logging

from input_pipeline import file_digest
from input_pipeline.tfds_sets import find_builder
from robustness.core.errors import InputError
from robustness.core.settings import differing_keys

SETTINGS, INPUTS = 'settings', 'inputs_sha256'
_OF_TFDS = ('name', 'description', 'version', 'release_notes', 'supported_versions', 'tags')


class MadeOf(abc.ABC):
  """Goes before `GeneratorBasedBuilder` among a builder's bases.

  A builder that is given a config object (not a name) compares it with the data that are prepared
  under its name, if any are.
  """

  info: Any
  data_path: Any
  is_prepared: Callable[[], bool]

  def __init__(self, **kwargs: Any):
    """Takes what `DatasetBuilder` does.

    Raises:
      InputError: data are prepared under the config's name, with other settings or inputs (which).
    """
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

    Raises:
      InputError: inputs are not there.
    """

  def note_inputs(self, manual_dir: str) -> None:
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

  The config has `base`, its TFDS name, and `base_dir`, where TFDS keeps it.

  Attributes:
    CONFIG: the class of the config.
    PARSE_NAME: returns the config that a name stands for, where TFDS's own needs a list of all.
  """

  CONFIG: type
  PARSE_NAME: Any
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
  def _config(self) -> Any:
    return self.builder_config

  @property
  def _base_dir(self) -> str:
    return self._config.base_dir or str(self._data_dir_root)

  def settings_without(self, *left_out: str) -> dict[str, Any]:
    """Returns the config's values without TFDS's own and some more."""
    fields = dataclasses.asdict(self._config)
    return {name: v for name, v in fields.items() if name not in (*_OF_TFDS, *left_out)}

  def base_digest(self) -> str:
    """Returns a digest of the base's files.

    Raises:
      InputError: the base is not prepared.
    """
    base = find_builder(self._config.base, self._base_dir)
    if not base.is_prepared():
      raise InputError(f'{base.info.full_name} is not prepared in {base.data_path}.')
    files = [Path(file) for split in base.info.splits.values() for file in split.filepaths]
    return file_digest.of_files(Path(base.data_path), files, file_digest.ENDS)
