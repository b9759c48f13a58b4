"""Maps over frequencies: bands, the whole map of estimates, and that of a finished run."""

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
"""What of two descriptions of data says that their example ids mean the same images."""


def bands(frequency_y: ArrayLike, frequency_x: ArrayLike, image_size: Sequence[int]) -> np.ndarray:
  """Returns which of `BANDS` each frequency is in, text of the broadcast shape.

  With f_N = min(height, width)/2, the Nyquist frequency of the shorter side: low is |f| < f_N/4,
  mid is f_N/4 ≤ |f| < f_N/2 (one octave), high is |f| ≥ f_N/2, corners included. A 28 × 28 image:
  below 3.5, below 7, and from 7 cycles per image on.

  Frequencies are in cycles per image; the size is that of the images in pixels, not of a window.
  """
  distance, nyquist = np.hypot(frequency_y, frequency_x), min(image_size) / 2
  return np.select([distance < nyquist / 4, distance >= nyquist / 2], ['low', 'high'], 'mid')


def band_map(image_size: Sequence[int], window: int = 0) -> np.ndarray:
  """Returns the band of each cell of the map [H, W] or its window, zero frequency in the centre."""
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
  """Returns a whole map of a run, zero frequency in the centre (`fftshift`).

  The table of results has a frequency and its mirror (−f_y, −f_x) once; the map has both.

  Args:
    results: of a study whose table has the facets `frequency_y` and `frequency_x`.
    quantity: such as 'error'.
    classifier: whose.
    versus: the classifier that it is the paired difference from; '' for its own values.
    column: of the table: 'value', 'low', 'high', 'n' or 'p'.
    **facets: further ones that the rows have, such as `layer='stage1'`.

  Returns:
    (frequencies [H] of the rows, ascending, in cycles per image, [W] of the columns, the map [H, W]
    of the run's window); NaN where there is no estimate.

  Raises:
    InputError: there is no such map.
  """
  found = select(results.table, quantity, versus, frequency_y=..., frequency_x=..., **facets)
  rows = found[found.classifier == classifier]
  if rows.empty:
    known = list(dict.fromkeys(results.table['classifier']))
    raise InputError(
      f'the table of results has no {quantity} by frequency of {classifier!r} with versus = '
      f'{versus!r} and {facets}; its classifiers are {known}.'
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
  """What a finished Fourier heat map left in a workdir; `where` is the key that names it."""

  directory: pathlib.Path
  results: Results
  where: str

  @classmethod
  def read(cls, directory: str, where: str) -> Self:
    """Reads a workdir; raises InputError without a finished run that has errors by frequency."""
    path = expanded(directory).absolute()
    found = cls(path, Results.read(path), where)
    if found.rows.empty:
      raise SettingError(
        where,
        directory,
        problem=f'a run of the study {found.results.study} without errors by frequency',
        fix='Give the workdir of a finished Fourier heat map (configs/fourier_heatmap.py).',
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
    """Returns the rows of a classifier, or of the only one there is."""
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

  def shares_images(self, data: Mapping[str, object]) -> bool:
    """Whether example ids of the data mean the same images as in the map's run."""
    return all(self.results.data.get(key) == data.get(key) for key in SAME_IMAGES)

  @functools.cached_property
  def _folders(self) -> list[pathlib.Path]:
    """Where records of its images lie: of a run, of a task of a battery, of each of several seeds;
    those of a battery's further heat maps are among them."""
    is_task = self.directory.parent.name == 'tasks'
    whole = self.directory.parent.parent if is_task else self.directory
    tasks = f'records/{self.results.study}-*' if is_task else 'records'
    return sorted(whole.glob(tasks)) + sorted(whole.glob(f'seed*/{tasks}'))

  def records(self) -> list[Records]:
    """Opens those of the images that the map was measured on."""
    several = []
    for folder in self._folders or [self.directory / 'records']:
      rounds = folder.glob(f'*/{ROUND}*')  # of a sequential design, more of some classifiers
      several += sorted(rounds) or [folder / self.rows.classifier.iloc[0]]
    return [Records.open(each) for each in several]

  def saw(self, records: RecordsReader) -> np.ndarray:
    """Returns which rows of records are images that the map was measured on, bool [N]: by their
    digests, and by their ids where these mean the same images. Of other data a map may come without
    its records, and is then taken to have seen none."""
    seen = np.zeros(records.layout.num_rows, bool)
    same_ids = self.shares_images(records.identity.get('data') or {})
    if not same_ids and not self._folders:
      return seen
    own = self.records()
    for name in ('example_id', IMAGE_DIGEST) if same_ids else (IMAGE_DIGEST,):
      seen |= np.isin(records.column(name), np.concatenate([each.column(name) for each in own]))
    return seen


class BeginsWithMap(Study):
  """What studies that may begin with the finished heat map of a workdir share."""

  heat_map: str

  @functools.cached_property
  def _map(self) -> FinishedMap | None:
    return FinishedMap.read(self.heat_map, 'config.study.heat_map') if self.heat_map else None

  @property
  def facts(self) -> dict[str, PlainValue]:
    """The digest of the heat map, if one is read."""
    return {'heat_map_sha256': self._map.digest} if self._map else {}
