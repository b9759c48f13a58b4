"""A heat map of a finished run, for studies that begin with one."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.estimates.table import select, to_csv
from robustness.evaluation.records import Records
from robustness.evaluation.study import ImageShape, Study
from robustness.fourier.basis import Frequencies
from robustness.results import Results

FREQUENCY = ['frequency_y', 'frequency_x']
"""The facets of a map."""
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
      InputError: no finished run there, or one without errors by frequency.
    """
    path = expanded(directory).absolute()
    found = cls(path, Results.read(path), where)
    if found.rows.empty:
      raise InputError(
        f'{where} is {directory!r}, a run of the study {found.results.study} without errors by '
        'frequency: give the workdir of a finished Fourier heat map (configs/fourier_heatmap.py). '
        'One of an earlier version has them once its command is run again.'
      )
    return found

  @functools.cached_property
  def rows(self) -> pd.DataFrame:
    """The errors of all classifiers, a row a distinct frequency, of the table of results."""
    return select(self.results.table, 'error', frequency_y=..., frequency_x=...)

  @property
  def digest(self) -> str:
    """SHA-256 of its errors, which identifies the map."""
    return hashlib.sha256(to_csv(self.rows[['classifier', *FREQUENCY, 'value']])).hexdigest()

  @property
  def window(self) -> int:
    """The side of the centred square of frequencies that it shows; 0 for all."""
    return self.results.settings['window']

  def of(self, label: str) -> pd.DataFrame:
    """Returns the rows of a classifier, or of the only one there is.

    Raises:
      InputError: several classifiers, none of this label.
    """
    labels = list(dict.fromkeys(self.rows.classifier))
    if label not in labels and len(labels) > 1:
      raise InputError(
        f'{self.where} has heat maps of {", ".join(labels)}, none of {label!r}: name the '
        'classifier like one of them.'
      )
    return self.rows[self.rows.classifier == (label if label in labels else labels[0])]

  def error(self, label: str, frequencies: Frequencies) -> np.ndarray:
    """Returns the error at each distinct frequency [V] of the map's window; see `of`."""
    places = pd.MultiIndex.from_arrays([frequencies.fy, frequencies.fx])
    return self.of(label).set_index(FREQUENCY).value.reindex(places).to_numpy()

  def check_shape(self, image_shape: ImageShape) -> None:
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
    label = self.rows.classifier.iloc[0]
    return Records.open(self.directory / 'records' / label).column('example_id')


class BeginsWithMap(Study):
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
