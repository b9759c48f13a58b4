"""Maps of a quantity over frequencies: frequency bands, centred maps, and maps of earlier runs."""

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
"""Names of the three frequency bands of `bands`."""
FREQUENCY = ['frequency_y', 'frequency_x']
"""The columns of a table of results that group it into the points of a map."""
SAME_IMAGES = ('source', 'name', 'path', 'split')
"""Keys of the description of data. If all agree, equal example ids mean the same image."""


def bands(frequency_y: ArrayLike, frequency_x: ArrayLike, image_size: Sequence[int]) -> np.ndarray:
  """Returns the band, 'low', 'mid' or 'high', of each frequency, as an array of strings.

  With the Nyquist frequency of the shorter side, f_N = min(height, width)/2: low is |f| < f_N/4,
  mid is f_N/4 ≤ |f| < f_N/2 (one octave), high is |f| ≥ f_N/2, corners included. For 28 × 28 pixels
  the limits are 3.5 and 7 cycles per image.

  Args:
    frequency_y: Cycles per image down, of any shape that broadcasts with the other's.
    frequency_x: Cycles per image across.
    image_size: Height and width of the image in pixels, not of a window of frequencies.
  """
  distance, nyquist = np.hypot(frequency_y, frequency_x), min(image_size) / 2
  return np.select([distance < nyquist / 4, distance >= nyquist / 2], ['low', 'high'], 'mid')


def band_map(image_size: Sequence[int], window: int = 0) -> np.ndarray:
  """Returns the band of each frequency, 'low', 'mid' or 'high', [H, W] with zero in the centre.

  Args:
    image_size: Height and width of the image in pixels.
    window: Side of a centred square of frequencies; the result is then [window, window]. 0 takes
      all.
  """
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
  """Returns a quantity at all frequencies of a run as an image, zero frequency in the centre.

  The table of results has one row for a frequency and its mirror (−f_y, −f_x); the map has both.

  Args:
    results: Results of a study that are grouped by `frequency_y` and `frequency_x`.
    quantity: For example 'error'.
    classifier: Label of the classifier.
    versus: Label of the classifier from which the quantity is a paired difference; '' for none.
    column: Column of the table: 'value', 'low', 'high', 'n' or 'p'.
    **facets: Further columns and the values that rows must have, such as `layer='stage1'`.

  Returns:
    The vertical frequencies [H] and horizontal frequencies [W] in cycles per image, ascending, and
    the map [H, W]; NaN where there is no estimate. H and W are the side of the run's window of
    frequencies, or of the image.

  Raises:
    InputError: The results have no such map; the message names the classifiers that they have.
  """
  # `...` selects any frequency.
  rows = select(results.table, quantity, versus, frequency_y=..., frequency_x=..., **facets)
  rows = rows[rows.classifier == classifier]
  if rows.empty:
    classifiers = list(dict.fromkeys(results.table['classifier']))
    raise InputError(
      f'the table of results has no {quantity} by frequency of {classifier!r} with versus = '
      f'{versus!r} and {facets}; its classifiers are {classifiers}.'
    )
  height, width = results.data['image_shape'][:2]
  values = np.full((height, width), np.nan)  # frequency f at index f modulo the side: −1 is last
  fy, fx = (rows[name].to_numpy(int) for name in FREQUENCY)
  for sign in (-1, 1):  # the mirror of each frequency, and the frequency itself
    values[sign * fy % height, sign * fx % width] = rows[column].to_numpy(float)
  window = results.settings.get('window', 0)  # side of the square of frequencies; 0 for all
  sides = [window or height, window or width]
  # The frequencies along both axes of the map, ascending, with zero in the centre.
  y, x = (np.arange(side) - side // 2 for side in sides)
  return y, x, values[np.ix_(y % height, x % width)]


@dataclasses.dataclass(frozen=True)
class FinishedMap:
  """A Fourier heat map that an earlier run measured.

  Attributes:
    directory: Workdir of the run.
    results: Its results.
    key: The setting that names the workdir, for messages.
  """

  directory: pathlib.Path
  results: Results
  key: str

  @classmethod
  def read(cls, directory: str, key: str) -> Self:
    """Reads the map in the workdir `directory`; `key` is the setting with its path, for messages.

    Raises:
      InputError: There is no finished run, or its results have no errors by frequency.
    """
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
    """SHA-256 of the errors by classifier and frequency, which identifies the map."""
    return hashlib.sha256(to_csv(self.rows[['classifier', *FREQUENCY, 'value']])).hexdigest()

  @property
  def window(self) -> int:
    """The side of the map's centred square of frequencies; 0 for all frequencies."""
    return self.results.settings['window']

  def classifier_rows(self, label: str) -> pd.DataFrame:
    """Returns the map's rows of the classifier with a label.

    A map of a single classifier serves classifiers of any label.

    Raises:
      InputError: The run has several classifiers, none of this label.
    """
    labels = list(dict.fromkeys(self.rows.classifier))
    if label not in labels and len(labels) > 1:
      raise InputError(
        f'{self.key} has heat maps of {", ".join(labels)}, none of {label!r}: name the '
        'classifier like one of them.'
      )
    selected = label if label in labels else labels[0]
    return self.rows[self.rows.classifier == selected]

  def error(self, label: str, frequencies: Frequencies) -> np.ndarray:
    """Returns the error at each of V distinct frequencies, float64 [V], NaN if not measured.

    `label` is the classifier's; if the map has only one classifier, any label stands for it.
    """
    index = pd.MultiIndex.from_arrays([frequencies.fy, frequencies.fx])
    return self.classifier_rows(label).set_index(FREQUENCY).value.reindex(index).to_numpy()

  def check_shape(self, image_shape: ImageShape) -> None:
    """Raises InputError unless images have the height and width of those that the map is from."""
    height, width = self.results.data['image_shape'][:2]
    if (height, width) != tuple(image_shape[:2]):
      raise InputError(
        f'{self.key} has a heat map of images of {height} × {width} pixels; these are '
        f'{image_shape[0]} × {image_shape[1]}.'
      )

  def shares_images(self, data: Mapping[str, object]) -> bool:
    """Returns whether an example id means the same image in `data` as in the map's run.

    `data` is the description of a data set: source, name, path and split must agree.
    """
    return all(self.results.data.get(key) == data.get(key) for key in SAME_IMAGES)

  @functools.cached_property
  def _folders(self) -> list[pathlib.Path]:
    """The folders with records of the run, for all seeds; [] if the records were deleted.

    If the run is a task of a battery, one of several studies in a config, they are the folders of
    all tasks of the battery with the same study.
    """
    is_task = self.directory.parent.name == 'tasks'
    root = self.directory.parent.parent if is_task else self.directory
    pattern = f'records/{self.results.study}-*' if is_task else 'records'
    return sorted(root.glob(pattern)) + sorted(root.glob(f'seed*/{pattern}'))

  def records(self) -> list[Records]:
    """Opens records with all images on which the map was measured.

    The records of one classifier suffice if all saw the same images. A run with `half_width` shows
    images in rounds, a part of the images each, and ends earlier for some classifiers than for
    others: the result then has the records of all rounds and classifiers.

    Raises:
      InputError: the records are missing.
    """
    paths = []
    for folder in self._folders or [self.directory / 'records']:
      rounds = folder.glob(f'*/{ROUND}*')
      paths += sorted(rounds) or [folder / self.rows.classifier.iloc[0]]
    return [Records.open(path) for path in paths]

  def are_measured(self, records: RecordsReader) -> np.ndarray:
    """Returns which of N recorded rows are images on which the map was measured, bool [N].

    Images are compared by digest; if both runs have the same data (source, name, path and split),
    also by example id. If the records of the map's run were deleted, nothing can be compared: rows
    of other data count as images that the map was not measured on.

    Raises:
      InputError: the rows are of the same data, and the records of the map's run are missing.
    """
    is_measured = np.zeros(records.layout.num_rows, bool)
    has_same_ids = self.shares_images(records.identity.get('data') or {})
    if not has_same_ids and not self._folders:
      return is_measured
    readers = self.records()
    for name in ('example_id', IMAGE_DIGEST) if has_same_ids else (IMAGE_DIGEST,):
      values = np.concatenate([reader.column(name) for reader in readers])
      is_measured |= np.isin(records.column(name), values)
    return is_measured


class BeginsWithMap(Study):
  """Base class of studies that can use the heat map of an earlier run.

  Attributes:
    heat_map: Workdir of the earlier run; '' uses none.
  """

  heat_map: str

  @functools.cached_property
  def _map(self) -> FinishedMap | None:
    """The heat map in the workdir `heat_map`; None if that is ''."""
    return FinishedMap.read(self.heat_map, 'config.study.heat_map') if self.heat_map else None

  @property
  def facts(self) -> dict[str, PlainValue]:
    """The digest of the heat map, for the results; empty if none is used."""
    return {'heat_map_sha256': self._map.digest} if self._map else {}
