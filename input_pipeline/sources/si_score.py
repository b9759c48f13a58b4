"""Source `si_score`: stored scenes of SI-Score with their factors, the released sets or sets made
here.

A scene is a cutout object on a background; its factors are the object's area, position and angle.
A released set is a folder as it unpacks, such as area/<class>/<image id>.jpg, or the TFDS set
`siscore` (size, location, rotation). Both hold images and labels. The factors are in metadata.csv
next to the set and are joined by image id. Sets of the builder `si_score_scenes` store their
factors with each example. The feature `dataset_label` of `siscore` is not read, because its names
do not match its numbers. A subset of k takes all scenes of k pairs of object and background,
because levels of a factor are compared on the same pairs.

metadata.csv has one line per scene, with the columns of the released generator. `x_coord` and
`y_coord` are the object's centre as fractions of width and height from the left and the top,
`rotation` is in degrees counter-clockwise. `foreground_class` is the index of the class among the
sorted class names of the set, `foreground_instance` the index of the object in its class, and
`background` the index of the file in backgrounds.csv.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from input_pipeline.image_files import (
  count_outside_classes,
  file_images,
  folders_in,
  images_in,
  looks_like,
)
from input_pipeline.images import Images
from input_pipeline.selection import choose_subset
from input_pipeline.settings import DataSettings, Source
from input_pipeline.shards import read_table
from input_pipeline.sources.tfds import Tfds
from robustness.core.errors import KEYS, InputError
from robustness.core.settings import choice, require
from robustness.models.imagenet_names import WNIDS
from robustness.scenes.classes import imagenet_index

FACTORS = {
  'image_id': 'image_id',
  'area': 'area',
  'angle': 'rotation',
  'x': 'x_coord',
  'y': 'y_coord',
  'background': 'background',
  'fraction_inside': 'pct_inside_image',
}
"""{column of the rows: column of metadata.csv that it is read from}."""
COLUMNS = ('image_id', 'area', 'angle', 'x', 'y', 'object', 'background', 'fraction_inside')
"""Columns of the rows, which sets of the builder `si_score_scenes` store as features."""
_OBJECT = ('foreground_class', 'foreground_instance')
"""Columns of metadata.csv that identify an object."""
WHOLE = ('image_id', *_OBJECT, 'background', 'bg_resolution_width', 'bg_resolution_height')
"""Columns of metadata.csv that are whole numbers."""
IN_FILE = ('image_id', 'x_coord', 'y_coord', 'area', 'rotation', *WHOLE[1:], 'pct_inside_image')
"""Columns of metadata.csv in the released order."""


@dataclasses.dataclass(frozen=True)
class SiScore(Source):
  """Stored scenes of SI-Score with their factors: the released sets, or sets made here.

  Attributes:
    path: a folder of scenes, <class>/<image id>.jpg.
    dataset: the TFDS name of a set that is read instead, such as 'siscore/location'.
    data_dir: where TFDS keeps its data; '' is TFDS's default.
    metadata: the metadata.csv of the scenes; '' takes the one in the folder or next to it, and none
      for a TFDS set that holds the factors.
    allow_missing: whether scenes that metadata.csv names may be missing.
  """

  resized_on_device = True
  moved_keys: ClassVar[Mapping[str, str]] = {'name': 'dataset'}

  path: str = ''
  dataset: str = ''
  data_dir: str = ''
  metadata: str = ''
  allow_missing: bool = False

  def open(self, settings: DataSettings) -> Images:
    """Returns the scenes; their columns are `COLUMNS`, and labels are ImageNet's class indices."""
    if self.dataset:
      images, factors, metadata, missing = self._of_tfds(settings)
    else:
      choice('config.data.split', settings.split, ('', 'test'))
      images, factors, metadata, missing = self._of_folder()
    columns = {
      name: values.astype(np.float32 if values.dtype.kind == 'f' else np.int32)
      for name, values in factors.items()
    }
    pairs = _numbered(columns['object'], columns['background'])
    count = int(pairs.max()) + 1

    def choose(num_images: int, seed: int) -> np.ndarray:
      """Returns the ascending indices of all scenes of `num_images` random pairs of object and
      background.
      """
      subset = choose_subset(count, num_images, seed, noun='pairs of object and background')
      return np.flatnonzero(np.isin(pairs, subset))

    facts: dict[str, object] = {'stored': True, 'pairs': count, 'metadata': metadata}
    if self.allow_missing and metadata:
      facts['missing_scenes'] = missing
    return dataclasses.replace(
      images,
      class_names=WNIDS,
      columns=columns,
      as_stored=True,
      choose=choose,
      description={**images.description, **facts},
    )

  def _of_tfds(self, settings: DataSettings) -> tuple[Images, dict[str, np.ndarray], str, int]:
    """Reads a TFDS set.

    Returns:
      The images; their factors, {column: [N]}; the path of metadata.csv, '' if the set stores its
      factors; and the number of scenes that metadata.csv lists but the set lacks.
    """
    from input_pipeline import tfds_sets

    images, path = Tfds(self.dataset, self.data_dir).open(settings), self.metadata
    builder = tfds_sets.find_builder(self.dataset, self.data_dir, self.key('dataset'))
    split = tfds_sets.Split(builder, settings.split)
    features, name = builder.info.features, builder.info.full_name
    if set(COLUMNS) <= set(features):
      return images, split.numbers(COLUMNS), path, 0
    if 'image_id' not in features:
      raise InputError(
        f"data set {name!r} has no feature 'image_id': it is neither TFDS 'siscore' "
        "nor of the builder 'si_score_scenes'."
      )
    if not path:
      raise InputError(
        f'{self.key("metadata")} is empty; {name!r} holds no factors. Give the metadata.csv of its '
        'archive.'
      )
    stored = split.numbers(('image_id', 'label'))  # a slice lacks what others have
    columns, missing = _joined(path, stored['image_id'], stored['label'], True)
    return images, columns, path, missing

  def _of_folder(self) -> tuple[Images, dict[str, np.ndarray], str, int]:
    """Reads a released folder, ordered by image id; for the results see `_of_tfds`."""
    or_dataset = f'{self.key("dataset")}=siscore/FACTOR.'
    advice = f'give a folder of scenes, <class>/<image id>.jpg, or {or_dataset}'
    root = self.folder(advice)
    folders = folders_in(root)
    if sets := [name for name in folders if re.match('(area|rotation|location.*)$', name)]:
      raise InputError(f'{root} holds the sets {", ".join(sets)}: give the folder of one of them.')
    numbers: dict[int, tuple[Path, int]] = {}
    left_out = Counter[str]()
    count_outside_classes(root, left_out)
    for name, folder in folders.items():
      label = imagenet_index(name, f'{root}: folder')
      for file in images_in(folder, left_out=left_out):
        if not file.stem.isdecimal() or int(file.stem) in numbers:
          raise InputError(f'{file} is not called after the number of an image, or another one is.')
        numbers[int(file.stem)] = file, label
    if not numbers:
      raise InputError(f'{root} holds no <class>/<image id>.jpg{looks_like(root)}: {advice}')
    places = [root / 'metadata.csv', root.parent / 'metadata.csv']
    tables = [place for place in places if place.is_file()]
    if not self.metadata and not tables:
      raise InputError(
        f'{self.key("metadata")} is empty, and {places[0]} is not there: give the metadata.csv of '
        'the set, of the folder object_size, object_location or object_rotation.'
      )
    metadata = self.metadata or str(tables[0])
    ids = np.array(sorted(numbers))
    labels = np.array([numbers[number][1] for number in ids.tolist()], np.int32)
    named = [numbers[number][0].relative_to(root).parts[0] for number in ids.tolist()]
    images = file_images(
      [str(numbers[number][0]) for number in ids.tolist()],
      labels,
      WNIDS,
      title=f'scenes in {self.path}',
      description={'path': self.path},
      channels=3,
      left_out=left_out,
    )
    columns, missing = _joined(metadata, ids, labels, self.allow_missing, named)
    return images, columns, metadata, missing


def _numbered(*columns: np.ndarray) -> np.ndarray:
  """Returns a number for each distinct row of the columns, int [N], in sorted order of the rows.

  The columns are integer arrays [N]; equal rows get equal numbers 0, 1, ....
  """
  return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].ravel()


def _joined(
  path: str,
  image_ids: np.ndarray,
  labels: np.ndarray,
  allow_missing: bool,
  folders: Sequence[str] = (),
) -> tuple[dict[str, np.ndarray], int]:
  """Returns the columns of images from metadata.csv, and the number of further scenes that it
  lists.

  Args:
    path: the file metadata.csv.
    image_ids: ids of the images, int [N].
    labels: their labels, int [N].
    allow_missing: whether the file may list scenes that are not among the images.
    folders: name of each image's class folder; () for a TFDS set.

  Raises:
    InputError: the classes in the file contradict the labels or the order of the folders.
  """
  factors, missing = join_metadata(path, image_ids, allow_missing)
  classes = factors['foreground_class']
  met = np.unique(np.stack([classes, labels]), axis=1)
  repeated = met[0, 1:][met[0, 1:] == met[0, :-1]]
  if len(repeated):
    labels_met = met[1, met[0] == repeated[0]].tolist()
    raise InputError(
      f'{path}: images of foreground_class {int(repeated[0])} have the labels '
      f'{labels_met}. Is it the table of another factor?'
    )
  folder_of = dict(zip(classes.tolist(), folders, strict=False))
  listed = [folder_of[number] for number in sorted(folder_of)]
  if wrong := [name for name, place in zip(listed, sorted(listed), strict=True) if name != place]:
    raise InputError(
      f'{path} numbers classes of SI-Score in the order of their names, which those of the folders '
      f'{", ".join(wrong)} are not in. Was a class folder renamed?'
    )
  columns = {ours: factors[theirs] for ours, theirs in FACTORS.items()}
  columns['object'] = _numbered(*(factors[column] for column in _OBJECT))
  return {name: columns[name] for name in COLUMNS}, missing


def read_metadata(path: str | Path) -> dict[str, np.ndarray]:
  """Reads metadata.csv, sorted by image id.

  Returns:
    {column: array [N]}, int64 for the columns in `WHOLE`, else float64.

  Raises:
    InputError: a column is missing, a value is invalid or an image is listed twice.
  """
  table = read_table(Path(path))
  missing = [name for name in IN_FILE if name not in table]
  if missing:
    raise InputError(
      f'{path} has no column {missing[0]!r}; its columns: {", ".join(table)}. '
      f'Expected: {", ".join(IN_FILE)}. It lies in the archive of the released set.'
    )
  numbers = table[[*IN_FILE]].apply(pd.to_numeric, errors='coerce')  # a word is NaN, refused below
  numbers = numbers.sort_values('image_id', kind='stable')
  columns = {name: numbers[name].to_numpy(float) for name in IN_FILE}
  for name, values in columns.items():
    good = np.isfinite(values) & ((values == np.floor(values)) | (name not in WHOLE))
    valid = 'a whole number' if name in WHOLE else 'a finite number'
    require(bool(good.all()), f'{path}: {name}', float(values[good.argmin()]), valid)
  ids, inside = columns['image_id'], columns['pct_inside_image']
  twice = ids[1:][ids[1:] == ids[:-1]]
  if len(twice):
    raise InputError(
      f'{path} names image {int(twice[0])} more than once; are several tables '
      'joined? Each set has its own.'
    )
  worst = int(np.argmax(np.abs(inside - 0.5)))
  of_worst = f'{path}: pct_inside_image of image {int(ids[worst])}'
  require(0 <= inside[worst] <= 1, of_worst, float(inside[worst]), 'a fraction in [0, 1]')
  return {
    name: values.astype(np.int64) if name in WHOLE else values for name, values in columns.items()
  }


def join_metadata(
  path: str | Path, image_ids: np.ndarray, allow_missing: bool = False
) -> tuple[dict[str, np.ndarray], int]:
  """Returns the columns of `read_metadata` for images with given ids, in their order.

  Args:
    path: the file metadata.csv.
    image_ids: int [N].
    allow_missing: whether the file may list images that are not in `image_ids`.

  Returns:
    {column: array [N]}, and the number of images that only the file lists.

  Raises:
    InputError: the file lacks an image, or lists others although `allow_missing` is False.
  """
  table = read_metadata(path)
  listed = table['image_id']
  places = np.minimum(np.searchsorted(listed, image_ids), len(listed) - 1)
  unknown = listed[places] != image_ids
  if unknown.any():
    raise InputError(
      f'{path} does not name {int(unknown.sum())} of {len(image_ids)} images, first '
      f'image_id {int(image_ids[unknown][0])}. Is it the table of another factor?'
    )
  lacking = np.setdiff1d(listed, image_ids)
  if len(lacking) and not allow_missing:
    raise InputError(
      f'{path} names {len(lacking)} of {len(listed)} images of SI-Score that are not here, first '
      f'{lacking[0]}.jpg: unpack the archive again, or set {KEYS.data.si_score.allow_missing}=True.'
    )
  return {name: values[places] for name, values in table.items()}, len(listed) - len(image_ids)


def metadata_text(columns: Mapping[str, np.ndarray]) -> str:
  """Returns the text of metadata.csv from {column of `IN_FILE`: array [N]}.

  Numbers that are not whole are rounded to 7 digits after the point, `pct_inside_image` to 4.
  """

  def written(name: str) -> Iterable[int | float]:
    digits = 4 if name == 'pct_inside_image' else 7
    return (int(v) if name in WHOLE else round(float(v), digits) for v in columns[name])

  return csv_text(IN_FILE, zip(*map(written, IN_FILE), strict=True))


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
  """Returns a table as CSV text with lines that end in a line feed, as the released generator
  writes.
  """
  out = io.StringIO()
  csv.writer(out, lineterminator='\n').writerows([header, *rows])
  return out.getvalue()
