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
from robustness.fourier.filters import centred_frequencies
from robustness.results import Results

BANDS = ('low', 'mid', 'high')
"""Names of the three frequency bands of `bands`."""
FREQUENCY = ['frequency_y', 'frequency_x']
"""The columns of a table of results that group it into the points of a map."""
SAME_IMAGES = ('source', 'name', 'path', 'split')
"""Keys of the description of data. If all agree, equal example ids mean the same image."""


def bands(frequency_y: ArrayLike, frequency_x: ArrayLike, image_size: Sequence[int]) -> np.ndarray:
  """Returns whether each frequency is 'low', 'mid' or 'high', as an array of strings.

  Let f_N = min(height, width)/2 be the Nyquist frequency of the shorter side. Low is |f| < f_N/4,
  mid is f_N/4 ≤ |f| < f_N/2 (one octave), and high is |f| ≥ f_N/2, corners included. For 28 × 28
  pixels the limits are 3.5 and 7 cycles per image.

  Args:
    frequency_y: cycles per image down, of any shape that broadcasts with the other's.
    frequency_x: cycles per image across.
    image_size: height and width of the image in pixels, not of a window of frequencies.
  """
  distance, nyquist = np.hypot(frequency_y, frequency_x), min(image_size) / 2
  return np.select([distance < nyquist / 4, distance >= nyquist / 2], ['low', 'high'], 'mid')


def band_map(image_size: Sequence[int], window: int = 0) -> np.ndarray:
  """Returns whether each frequency of a centred spectrum is 'low', 'mid' or 'high', [H, W].

  Args:
    image_size: height and width of the image in pixels.
    window: side of a centred square of frequencies; the result is then [window, window]. 0 takes
      all.
  """
  height, width = image_size[:2]
  fy, fx = centred_frequencies(window or height), centred_frequencies(window or width)
  return bands(fy[:, None], fx, (height, width))


def centred_map(
  results: Results,
  quantity: str,
  classifier: str,
  versus: str = '',
  column: str = 'value',
  **facets: object,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns a quantity at all frequencies as a map, with zero frequency in the centre.

  The table of results has one row for a frequency and the mirror (−f_y, −f_x). The map has both.

  Args:
    results: results of a study that are grouped by `frequency_y` and `frequency_x`.
    quantity: name of the quantity, for example 'error'.
    classifier: label of the classifier.
    versus: label of the classifier that is subtracted, for paired differences; '' for none.
    column: column of the table, 'value', 'low', 'high', 'n' or 'p'.
    **facets: further columns and the values that rows must have, such as `layer='stage1'`.

  Returns:
    The vertical frequencies [H] and horizontal frequencies [W] in cycles per image, ascending, and
    the map [H, W]. It is NaN where there is no estimate. H and W are the side of the run's window
    of frequencies, or of the image.

  Raises:
    InputError: the results have no such map; the message names the classifiers that they have.
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
  y, x = centred_frequencies(window or height), centred_frequencies(window or width)
  return y, x, values[np.ix_(y % height, x % width)]


@dataclasses.dataclass(frozen=True)
class FinishedMap:
  """A Fourier heat map that an earlier run measured.

  Attributes:
    directory: folder of the run (workdir).
    results: results of the run.
    key: the setting that names the folder, for messages.
  """

  directory: pathlib.Path
  results: Results
  key: str

  @classmethod
  def read(cls, directory: str, key: str) -> Self:
    """Reads the heat map of a finished run.

    Args:
      directory: folder of the run (workdir).
      key: the setting that names the folder, such as 'config.study.heat_map', for messages.

    Raises:
      InputError: there is no finished run, or its results have no errors by frequency.
    """
    path = expanded(directory).absolute()
    finished = cls(path, Results.read(path), key)
    if finished.rows.empty:
      problem = f'a run of the study {finished.results.study} without errors by frequency'
      fix = 'Give the workdir of a finished Fourier heat map (configs/fourier_heatmap.py).'
      raise SettingError(key, directory, problem=problem, fix=fix)
    return finished

  @functools.cached_property
  def rows(self) -> pd.DataFrame:
    """The errors in the table of results, a row per classifier and distinct frequency."""
    return select(self.results.table, 'error', frequency_y=..., frequency_x=...)

  @property
  def digest(self) -> str:
    """The SHA-256 of the map's errors for all classifiers, which identifies the map."""
    return hashlib.sha256(to_csv(self.rows[['classifier', *FREQUENCY, 'value']])).hexdigest()

  @property
  def window(self) -> int:
    """The side of the square of frequencies that the map has; 0 for all frequencies."""
    return self.results.settings['window']

  def classifier_rows(self, label: str) -> pd.DataFrame:
    """Returns the map of one classifier, as rows of the table of results.

    If the run has a single classifier, its map is returned for any label.

    Raises:
      InputError: the run has several classifiers, and none with this label.
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
    """Returns a classifier's error at each of V distinct frequencies, float64 [V].

    It is NaN at frequencies that were not measured.

    Args:
      label: label of the classifier. If the run has a single classifier, any label stands for it.
      frequencies: the frequencies.
    """
    index = pd.MultiIndex.from_arrays([frequencies.fy, frequencies.fx])
    return self.classifier_rows(label).set_index(FREQUENCY).value.reindex(index).to_numpy()

  def check_shape(self, image_shape: ImageShape) -> None:
    """Raises InputError unless images have the same height and width as the images of the map."""
    height, width = self.results.data['image_shape'][:2]
    if (height, width) != tuple(image_shape[:2]):
      raise InputError(
        f'{self.key} has a heat map of images of {height} × {width} pixels; these are '
        f'{image_shape[0]} × {image_shape[1]}.'
      )

  def shares_images(self, data: Mapping[str, object]) -> bool:
    """Returns whether image ids of some data mean the same images as in the map's run.

    They do if source, name, path and split are equal.

    Args:
      data: description of the data, `Rows.description`.
    """
    return all(self.results.data.get(key) == data.get(key) for key in SAME_IMAGES)

  @functools.cached_property
  def _folders(self) -> list[pathlib.Path]:
    """The folders with records of the run, for all seeds; [] if they were deleted.

    If the run is one of several studies in a config (a task of a battery), the result has the
    folders of all tasks with the same study.
    """
    is_task = self.directory.parent.name == 'tasks'
    root = self.directory.parent.parent if is_task else self.directory
    pattern = f'records/{self.results.study}-*' if is_task else 'records'
    return sorted(root.glob(pattern)) + sorted(root.glob(f'seed*/{pattern}'))

  def records(self) -> list[Records]:
    """Opens records that together have all images on which the map was measured.

    The records of one classifier have all images, unless the run has `half_width`. Such a run shows
    images in rounds, and ends earlier for some classifiers than for others. The result then has the
    records of all rounds and classifiers.

    Raises:
      InputError: the records are missing.
    """
    paths = []
    for folder in self._folders or [self.directory / 'records']:
      rounds = folder.glob(f'*/{ROUND}*')
      paths += sorted(rounds) or [folder / self.rows.classifier.iloc[0]]
    return [Records.open(path) for path in paths]

  def are_measured(self, records: RecordsReader) -> np.ndarray:
    """Returns which of N recorded images the map was measured on, bool [N].

    Images are compared by a digest of their pixels. If both runs have the same data (source, name,
    path and split), they are compared by id too. If the records of the map's run were deleted,
    images of other data count as not measured.

    Args:
      records: records of N images.

    Raises:
      InputError: both runs have the same data, and the records of the map's run are missing.
    """
    is_measured = np.zeros(records.layout.num_rows, bool)
    has_same_ids = self.shares_images(records.identity.get('data') or {})
    if not has_same_ids and not self._folders:
      return is_measured
    columns = ('example_id', IMAGE_DIGEST) if has_same_ids else (IMAGE_DIGEST,)
    readers = self.records()
    for name in columns:
      values = np.concatenate([reader.column(name) for reader in readers])
      is_measured |= np.isin(records.column(name), values)
    return is_measured


class BeginsWithMap(Study):
  """Base class of studies that can use the Fourier heat map of an earlier run.

  Attributes:
    heat_map: folder of the earlier run (workdir); '' uses none.
  """

  heat_map: str

  @functools.cached_property
  def _map(self) -> FinishedMap | None:
    """The heat map of the run in `heat_map`; None if that is ''."""
    return FinishedMap.read(self.heat_map, 'config.study.heat_map') if self.heat_map else None

  @property
  def facts(self) -> dict[str, PlainValue]:
    """The digest of the heat map, for the results; {} without a heat map."""
    return {'heat_map_sha256': self._map.digest} if self._map else {}
