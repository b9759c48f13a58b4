"""A heat map of a finished run, for studies that begin with one."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.evaluation.records import Records
from robustness.results import ARRAYS_NAME, Results

STUDY_ARRAYS = ('frequency_y', 'frequency_x')
SAME_IMAGES = ('source', 'name', 'path', 'split')
"""What of two descriptions of data says that their example ids mean the same images."""


@dataclasses.dataclass(frozen=True)
class FinishedMap:
  """What a finished run of Fourier heat maps left.

  Attributes:
    directory: its workdir.
    results: read from there.
    where: the config key that named the directory, for messages.
  """

  directory: pathlib.Path
  results: Results
  where: str

  @classmethod
  def read(cls, directory: str, where: str) -> FinishedMap:
    """Reads a workdir.

    Raises:
      InputError: no finished run there, or one without heat maps.
    """
    path = expanded(directory).absolute()
    results = Results.read(path)
    if not all(name in results.arrays for name in (*STUDY_ARRAYS, f'{cls._first(results)}error')):
      raise InputError(
        f'{where} is {directory!r}, a run of the study {results.study}: give the workdir of a '
        'finished Fourier heat map (configs/fourier_heatmap.py).'
      )
    return cls(path, results, where)

  @staticmethod
  def _first(results: Results) -> str:
    return next(iter(results.prefixes.values()))

  @property
  def digest(self) -> str:
    """SHA-256 of its arrays, which identifies the map."""
    return hashlib.sha256((self.directory / ARRAYS_NAME).read_bytes()).hexdigest()

  @property
  def axes(self) -> tuple[np.ndarray, np.ndarray]:
    """The frequencies of its rows and columns, in cycles per image."""
    return self.results.arrays['frequency_y'], self.results.arrays['frequency_x']

  def error(self, label: str) -> np.ndarray:
    """Returns the map [rows, columns] of a classifier, or the only one there is.

    Raises:
      InputError: several classifiers, none of this label.
    """
    prefixes = self.results.prefixes
    if label not in prefixes and len(prefixes) > 1:
      raise InputError(
        f'{self.where} has heat maps of {", ".join(prefixes)}, none of {label!r}: name the '
        'classifier like one of them.'
      )
    return self.results.arrays[f'{prefixes.get(label, self._first(self.results))}error']

  def check_shape(self, image_shape: tuple[int, int, int]) -> None:
    """Refuses images of another size than those of the map."""
    own = self.results.data['image_shape'][:2]
    if list(own) != list(image_shape[:2]):
      raise InputError(
        f'{self.where} has a heat map of images of {own[0]} × {own[1]} pixels; these are '
        f'{image_shape[0]} × {image_shape[1]}.'
      )

  def shares_images(self, data: Mapping[str, Any]) -> bool:
    """Whether example ids of the data mean the same images as in the map's run."""
    return all(self.results.data.get(key) == data.get(key) for key in SAME_IMAGES)

  def example_ids(self) -> np.ndarray:
    """Returns the example ids of the images that the map was measured on, int [N].

    Raises:
      InputError: the records of the run are gone.
    """
    label = next(iter(self.results.prefixes))
    return Records.open(self.directory / 'records' / label).column('example_id')


class BeginsWithMap:
  """What studies that may begin with a finished heat map share.

  Attributes:
    heat_map: its workdir; '' for none.
  """

  heat_map: str

  @functools.cached_property
  def _map(self) -> FinishedMap | None:
    return FinishedMap.read(self.heat_map, 'config.study.heat_map') if self.heat_map else None

  @property
  def facts(self) -> dict[str, Any]:
    """The digest of the heat map, if one is read."""
    return {'heat_map_sha256': self._map.digest} if self._map else {}
