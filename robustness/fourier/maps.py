"""Maps over frequencies: bands, the centred map of a run, and the map of a finished workdir."""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError, SettingError
from robustness.core.paths import expanded
from robustness.core.typing import PlainValue
from robustness.estimates.table import select, to_csv
from robustness.evaluation.provenance import IMAGE_DIGEST
from robustness.evaluation.records import Records, RecordsReader
from robustness.evaluation.rounds import ROUND
from robustness.evaluation.study import ImageShape, Study
from robustness.fourier.basis import Frequencies
from robustness.results import Results

BANDS = ('low', 'mid', 'high')
FREQUENCY = ['frequency_y', 'frequency_x']
"""The facets of a map."""
SAME_IMAGES = ('source', 'name', 'path', 'split')
"""If these keys of two descriptions of data agree, equal example ids are the same image."""


def bands(frequency_y: ArrayLike, frequency_x: ArrayLike, image_size: Sequence[int]) -> np.ndarray:
  """Returns the member of `BANDS` for each frequency in cycles per image, text of the broadcast
  shape; `image_size` is in pixels, not the size of a window.

  With the Nyquist frequency of the shorter side, f_N = min(height, width)/2: low is |f| < f_N/4,
  mid is f_N/4 ≤ |f| < f_N/2 (one octave), high is |f| ≥ f_N/2, corners included. For 28 × 28 pixels
  the limits are 3.5 and 7 cycles per image.
  """
  distance, nyquist = np.hypot(frequency_y, frequency_x), min(image_size) / 2
  return np.select([distance < nyquist / 4, distance >= nyquist / 2], ['low', 'high'], 'mid')


def band_map(image_size: Sequence[int], window: int = 0) -> np.ndarray:
  """Returns the band of each cell of a map [H, W] or its window, zero frequency in the centre."""
  fy, fx = (np.arange(window or side) - (window or side) // 2 for side in image_size[:2])
  return bands(fy[:, None], fx, image_size[:2])


def centred_map(
  results: Results,
  quantity: str,
  classifier: str,
  versus: str = '',
  column: str = 'value',
  **facets: object,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the map of a quantity over all frequencies of a run, zero in the centre (`fftshift`).

  The table of results has one row for a frequency and its mirror (−f_y, −f_x); the map has both.

  Args:
    results: Results of a study with the facets `frequency_y` and `frequency_x`.
    quantity: For example 'error'.
    classifier: Label of the classifier.
    versus: Label of the classifier from which the quantity is a paired difference; '' for none.
    column: Column of the table: 'value', 'low', 'high', 'n' or 'p'.
    **facets: Further facets of the rows, such as `layer='stage1'`.

  Returns:
    (frequencies [H] of the rows, ascending, in cycles per image, [W] of the columns, the map [H, W]
    of the run's window); NaN where there is no estimate.

  Raises:
    InputError: There is no such map.
  """
  rows = select(results.table, quantity, versus, frequency_y=..., frequency_x=..., **facets)
  rows = rows[rows.classifier == classifier]
  if rows.empty:
    classifiers = list(dict.fromkeys(results.table['classifier']))
    raise InputError(
      f'the table of results has no {quantity} by frequency of {classifier!r} with versus = '
      f'{versus!r} and {facets}; its classifiers are {classifiers}.'
    )
  height, width = results.data['image_shape'][:2]
  values = np.full((height, width), np.nan)
  fy, fx = (rows[name].to_numpy(int) for name in ('frequency_y', 'frequency_x'))
  for sign in (-1, 1):
    values[sign * fy % height, sign * fx % width] = rows[column].to_numpy(float)
  window = results.settings.get('window', 0)
  axes = [np.arange(window or side) - (window or side) // 2 for side in (height, width)]
  return *axes, values[np.ix_(axes[0] % height, axes[1] % width)]


@dataclasses.dataclass(frozen=True)
class FinishedMap:
  """A finished Fourier heat map in a workdir; messages call the setting that names it `key`."""

  directory: pathlib.Path
  results: Results
  key: str

  @classmethod
  def read(cls, directory: str, key: str) -> Self:
    """Reads a workdir; raises InputError without a finished run that has errors by frequency."""
    path = expanded(directory).absolute()
    finished = cls(path, Results.read(path), key)
    if finished.rows.empty:
      raise SettingError(
        key,
        directory,
        problem=f'a run of the study {finished.results.study} without errors by frequency',
        fix='Give the workdir of a finished Fourier heat map (configs/fourier_heatmap.py).',
      )
    return finished

  @functools.cached_property
  def rows(self) -> pd.DataFrame:
    """The errors in the table of results, one row per classifier and distinct frequency."""
    return select(self.results.table, 'error', frequency_y=..., frequency_x=...)

  @property
  def digest(self) -> str:
    """SHA-256 of the errors, which identifies the map."""
    return hashlib.sha256(to_csv(self.rows[['classifier', *FREQUENCY, 'value']])).hexdigest()

  @property
  def window(self) -> int:
    """The side of the map's centred square of frequencies; 0 for all frequencies."""
    return self.results.settings['window']

  def classifier_rows(self, label: str) -> pd.DataFrame:
    """Returns the rows of the classifier with a label, or of the only classifier."""
    labels = list(dict.fromkeys(self.rows.classifier))
    if label not in labels and len(labels) > 1:
      raise InputError(
        f'{self.key} has heat maps of {", ".join(labels)}, none of {label!r}: name the '
        'classifier like one of them.'
      )
    return self.rows[self.rows.classifier == (label if label in labels else labels[0])]

  def error(self, label: str, frequencies: Frequencies) -> np.ndarray:
    """Returns the error [V] at each distinct frequency of the window of the map."""
    index = pd.MultiIndex.from_arrays([frequencies.fy, frequencies.fx])
    return self.classifier_rows(label).set_index(FREQUENCY).value.reindex(index).to_numpy()

  def check_shape(self, image_shape: ImageShape) -> None:
    """Raises InputError unless images have the size of the map's images."""
    height, width = self.results.data['image_shape'][:2]
    if (height, width) != tuple(image_shape[:2]):
      raise InputError(
        f'{self.key} has a heat map of images of {height} × {width} pixels; these are '
        f'{image_shape[0]} × {image_shape[1]}.'
      )

  def shares_images(self, data: Mapping[str, object]) -> bool:
    """Returns whether equal example ids in the data and in the map's run are the same image."""
    return all(self.results.data.get(key) == data.get(key) for key in SAME_IMAGES)

  @functools.cached_property
  def _folders(self) -> list[pathlib.Path]:
    """The folders with records of the map's images: of the run, or of the battery's tasks of the
    same study, and of each of its seeds."""
    is_task = self.directory.parent.name == 'tasks'
    root = self.directory.parent.parent if is_task else self.directory
    tasks = f'records/{self.results.study}-*' if is_task else 'records'
    return sorted(root.glob(tasks)) + sorted(root.glob(f'seed*/{tasks}'))

  def records(self) -> list[Records]:
    """Opens the records of the images on which the map was measured."""
    paths = []
    for folder in self._folders or [self.directory / 'records']:
      rounds = folder.glob(f'*/{ROUND}*')  # a sequential design may have more for some classifiers
      paths += sorted(rounds) or [folder / self.rows.classifier.iloc[0]]
    return [Records.open(path) for path in paths]

  def saw(self, records: RecordsReader) -> np.ndarray:
    """Returns whether each row of records is an image on which the map was measured, bool [N].

    Images are compared by digest, and by id where `shares_images`. If the data differ and the map's
    records are missing, the result is False for all rows.
    """
    is_seen = np.zeros(records.layout.num_rows, bool)
    has_same_ids = self.shares_images(records.identity.get('data') or {})
    if not has_same_ids and not self._folders:
      return is_seen
    measured = self.records()
    for name in ('example_id', IMAGE_DIGEST) if has_same_ids else (IMAGE_DIGEST,):
      values = np.concatenate([reader.column(name) for reader in measured])
      is_seen |= np.isin(records.column(name), values)
    return is_seen


class BeginsWithMap(Study):
  """Base class of studies that can start from the finished heat map of a workdir."""

  heat_map: str

  @functools.cached_property
  def _map(self) -> FinishedMap | None:
    return FinishedMap.read(self.heat_map, 'config.study.heat_map') if self.heat_map else None

  @property
  def facts(self) -> dict[str, PlainValue]:
    """The digest of the heat map, if one is read."""
    return {'heat_map_sha256': self._map.digest} if self._map else {}
