"""Source `si_score`: stored scenes of SI-Score with their factors.

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

import csv
import dataclasses
import functools
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from input_pipeline import image_files
from input_pipeline.images import Images
from input_pipeline.selection import choose_groups
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
"""Columns of rows."""
_OBJECT = ('foreground_class', 'foreground_instance')
"""Columns of metadata.csv that identify an object."""
WHOLE = ('image_id', *_OBJECT, 'background', 'bg_resolution_width', 'bg_resolution_height')
"""Columns of metadata.csv with whole numbers."""
IN_FILE = ('image_id', 'x_coord', 'y_coord', 'area', 'rotation', *WHOLE[1:], 'pct_inside_image')
"""All columns of metadata.csv."""


@dataclasses.dataclass(frozen=True)
class SiScore(Source):
  """Stored scenes of SI-Score with their factors: the released sets, or sets made here.

  Attributes:
    path: a folder of scenes, <class>/<image id>.jpg.
    dataset: the TFDS name of a set that is read instead, such as 'siscore/location'.
    data_dir: where TFDS keeps its data; '' is TFDS's default.
    metadata: path of metadata.csv, the table of the scenes' factors; '' takes the one in the folder
      or next to it. A TFDS set that holds the factors needs none.
    allow_missing: whether scenes that metadata.csv names may be missing.
  """

  resized_on_device = True
  moved_keys = {'name': 'dataset'}

  path: str = ''
  dataset: str = ''
  data_dir: str = ''
  metadata: str = ''
  allow_missing: bool = False

  def open(self, settings: DataSettings) -> Images:
    """Returns the scenes with the columns `COLUMNS`; labels are ImageNet's class indices.

    A random subset draws pairs of object and background, and takes all scenes of these pairs.
    """
    if self.dataset:
      images, factors, metadata, num_missing = self._from_tfds(settings)
    else:
      choice('config.data.split', settings.split, ('', 'test'))
      images, factors, metadata, num_missing = self._from_folder()
    columns = {
      name: values.astype(np.float32 if values.dtype.kind == 'f' else np.int32)
      for name, values in factors.items()
    }
    pairs = _number_rows(columns['object'], columns['background'])
    num_pairs = int(pairs.max()) + 1
    facts: dict[str, object] = {'stored': True, 'pairs': num_pairs, 'metadata': metadata}
    if self.allow_missing and metadata:
      facts['missing_scenes'] = num_missing
    return dataclasses.replace(
      images,
      class_names=WNIDS,
      columns=columns,
      as_stored=True,
      choose=functools.partial(choose_groups, pairs, noun='pairs of object and background'),
      description={**images.description, **facts},
    )

  def _from_tfds(self, settings: DataSettings) -> tuple[Images, dict[str, np.ndarray], str, int]:
    """Opens the TFDS set `dataset`.

    Returns:
      The images; their factors, the columns `COLUMNS`; the path of the metadata.csv with the
      factors, '' if they are stored in the set; and the number of scenes in metadata.csv that are
      not in the set.
    """
    from input_pipeline import tfds_sets

    images = Tfds(self.dataset, self.data_dir).open(settings)
    builder = tfds_sets.find_builder(self.dataset, self.data_dir, self.key('dataset'))
    split = tfds_sets.Split(builder, settings.split)
    features, name = builder.info.features, builder.info.full_name
    if set(COLUMNS) <= set(features):
      return images, split.numbers(COLUMNS), self.metadata, 0
    if 'image_id' not in features:
      raise InputError(
        f"data set {name!r} has no feature 'image_id': it is neither TFDS 'siscore' "
        "nor of the builder 'si_score_scenes'."
      )
    if not self.metadata:
      raise InputError(
        f'{self.key("metadata")} is empty; {name!r} holds no factors. Give the metadata.csv of its '
        'archive.'
      )
    stored = split.numbers(('image_id', 'label'))
    image_ids, labels = stored['image_id'], stored['label']
    # `allow_missing` is True here, as the split may be a slice
    columns, num_missing = _match_metadata(self.metadata, image_ids, labels, True, folders=())
    return images, columns, self.metadata, num_missing

  def _from_folder(self) -> tuple[Images, dict[str, np.ndarray], str, int]:
    """Opens a released folder; its scenes are sorted by the numbers in their names.

    Returns:
      The images; their factors, the columns `COLUMNS`; the path of the metadata.csv with the
      factors; and the number of scenes in metadata.csv that are not in the folder.
    """
    tfds_set = f'{self.key("dataset")}=siscore/FACTOR'
    advice = f'give a folder of scenes, <class>/<image id>.jpg, or {tfds_set}.'
    root = self.folder(advice)
    left_out = Counter[str]()
    scenes = _find_scenes(root, left_out)
    if not scenes:
      raise InputError(
        f'{root} holds no <class>/<image id>.jpg{image_files.looks_like(root)}: {advice}'
      )
    candidates = [root / 'metadata.csv', root.parent / 'metadata.csv']
    tables = [file for file in candidates if file.is_file()]
    if not self.metadata and not tables:
      raise InputError(
        f'{self.key("metadata")} is empty, and {candidates[0]} is not there: give the metadata.csv '
        'of the set, of the folder object_size, object_location or object_rotation.'
      )
    metadata = self.metadata or str(tables[0])
    ids = sorted(scenes)
    files = [scenes[image_id][0] for image_id in ids]
    labels = np.array([scenes[image_id][1] for image_id in ids], np.int32)
    class_folders = [file.relative_to(root).parts[0] for file in files]
    images = image_files.file_images(
      [str(file) for file in files],
      labels,
      WNIDS,
      title=f'scenes in {self.path}',
      description={'path': self.path},
      channels=3,
      left_out=left_out,
    )
    columns, num_missing = _match_metadata(
      metadata, np.array(ids), labels, self.allow_missing, class_folders
    )
    return images, columns, metadata, num_missing


def _find_scenes(root: Path, left_out: Counter[str]) -> dict[int, tuple[Path, int]]:
  """Returns {number of a scene: its file and label} of the files root/<class>/<number>.jpg.

  Labels are class indices of ImageNet. `left_out` counts the files that are not read, by reason.
  """
  folders = image_files.folders_in(root)
  if sets := [name for name in folders if re.match('(area|rotation|location.*)$', name)]:
    raise InputError(f'{root} holds the sets {", ".join(sets)}: give the folder of one of them.')
  scenes: dict[int, tuple[Path, int]] = {}
  image_files.count_outside_classes(root, left_out)
  for name, folder in folders.items():
    label = imagenet_index(name, f'{root}: folder')
    for file in image_files.images_in(folder, left_out=left_out):
      if not file.stem.isdecimal() or int(file.stem) in scenes:
        raise InputError(f'{file} is not called after the number of an image, or another one is.')
      scenes[int(file.stem)] = file, label
  return scenes


def _number_rows(*columns: np.ndarray) -> np.ndarray:
  """Numbers the rows of a table with columns [N]: equal rows have the same number, int [N].

  Numbers begin with 0 in the order of the sorted rows; columns [7, 2, 7] and [1, 1, 1] have
  [1, 0, 1].
  """
  _, numbers = np.unique(np.stack(columns), axis=1, return_inverse=True)
  return numbers.ravel()


def _match_metadata(
  path: str, image_ids: np.ndarray, labels: np.ndarray, allow_missing: bool, folders: Sequence[str]
) -> tuple[dict[str, np.ndarray], int]:
  """Returns the columns `COLUMNS` of images from metadata.csv.

  The table may belong to another set of images with the same numbers. Therefore its classes, which
  are numbers, are compared with the labels and folders of the images.

  Args:
    path: path of metadata.csv.
    image_ids: numbers of the images, int [N].
    labels: their labels, int [N].
    allow_missing: whether metadata.csv may contain scenes that are not among the images.
    folders: the class folder of each image; () without folders.

  Returns:
    The columns, [N] each, and the number of scenes in metadata.csv that are not among the images.

  Raises:
    InputError: the classes in metadata.csv do not match the labels or the folders.
  """
  factors, num_missing = join_metadata(path, image_ids, allow_missing)
  classes = factors['foreground_class'].to_numpy()
  labels_of_class = pd.Series(labels).groupby(classes).unique()
  mixed = labels_of_class[labels_of_class.map(len) > 1]
  if len(mixed):
    raise InputError(
      f'{path}: images of foreground_class {mixed.index[0]} have the labels '
      f'{sorted(mixed.iloc[0].tolist())}. Is it the table of another factor?'
    )
  # {number of a class: its folder}, sorted by number; {} without folders
  folder_of_class = dict(sorted(zip(classes.tolist(), folders, strict=False)))
  # metadata.csv numbers the classes in the order of their names, so these are sorted as well
  by_number = [*folder_of_class.values()]
  pairs = zip(by_number, sorted(by_number), strict=True)
  wrong = [folder for folder, expected in pairs if folder != expected]
  if wrong:
    raise InputError(
      f'{path} numbers classes of SI-Score in the order of their names, which those of the folders '
      f'{", ".join(wrong)} are not in. Was a class folder renamed?'
    )
  columns = {name: factors[column].to_numpy() for name, column in FACTORS.items()}
  columns['object'] = _number_rows(*(factors[column] for column in _OBJECT))
  return {name: columns[name] for name in COLUMNS}, num_missing


def read_metadata(path: str | Path) -> pd.DataFrame:
  """Returns the columns `IN_FILE` of metadata.csv in ascending order of image_id.

  Columns in `WHOLE` are int64, all other columns float64.
  """
  table = read_table(Path(path))
  missing = [name for name in IN_FILE if name not in table]
  if missing:
    raise InputError(
      f'{path} has no column {missing[0]!r}; its columns: {", ".join(table)}. '
      f'Expected: {", ".join(IN_FILE)}. It lies in the archive of the released set.'
    )
  numbers = table[[*IN_FILE]].apply(pd.to_numeric, errors='coerce')  # text becomes NaN
  numbers = numbers.astype(float).sort_values('image_id', kind='stable', ignore_index=True)
  for name in IN_FILE:
    values = numbers[name].to_numpy()
    is_valid = np.isfinite(values)
    if name in WHOLE:
      is_valid &= values == np.floor(values)
    valid = 'a whole number' if name in WHOLE else 'a finite number'
    first_wrong = float(values[is_valid.argmin()])  # if any is wrong
    require(bool(is_valid.all()), f'{path}: {name}', first_wrong, valid)
  numbers = numbers.astype(dict.fromkeys(WHOLE, np.int64))
  repeated = numbers['image_id'][numbers['image_id'].duplicated()]
  if len(repeated):
    raise InputError(
      f'{path} names image {repeated.iloc[0]} more than once; are several tables '
      'joined? Each set has its own.'
    )
  inside = numbers.set_index('image_id')['pct_inside_image']
  # the image with the value farthest from .5; if any value is outside [0, 1], this one is
  image_id = (inside - 0.5).abs().idxmax()
  key = f'{path}: pct_inside_image of image {image_id}'
  require(0 <= inside[image_id] <= 1, key, float(inside[image_id]), 'a fraction in [0, 1]')
  return numbers


def join_metadata(
  path: str | Path, image_ids: np.ndarray, allow_missing: bool = False
) -> tuple[pd.DataFrame, int]:
  """Returns the columns of metadata.csv for N images, and the number of other images it lists.

  Args:
    path: path of metadata.csv.
    image_ids: distinct numbers of the images, int [N].
    allow_missing: whether metadata.csv may name images that are not in `image_ids`.

  Returns:
    The columns of `read_metadata`, [N] each, in the order of `image_ids`; and the number of images
    in metadata.csv that are not in `image_ids`.

  Raises:
    InputError: metadata.csv does not name one of the images, or names an image that is not in
      `image_ids` although `allow_missing` is False.
  """
  table = read_metadata(path).set_index('image_id', drop=False)
  unknown = image_ids[~np.isin(image_ids, table.index)]
  if len(unknown):
    raise InputError(
      f'{path} does not name {len(unknown)} of {len(image_ids)} images, first image_id '
      f'{unknown[0]}. Is it the table of another factor?'
    )
  missing = np.setdiff1d(table.index, image_ids)
  if len(missing) and not allow_missing:
    raise InputError(
      f'{path} names {len(missing)} of {len(table)} images of SI-Score that are not here, first '
      f'{missing[0]}.jpg: unpack the archive again, or set {KEYS.data.si_score.allow_missing}=True.'
    )
  return table.loc[image_ids], len(missing)


def metadata_text(columns: Mapping[str, np.ndarray]) -> str:
  """Returns the text of metadata.csv, from {name in `IN_FILE`: values of N scenes, [N]}.

  `pct_inside_image` is rounded to 4 digits, other fractions to 7.
  """

  def rounded(name: str) -> list[int | float]:
    """Returns the values of a column as they are written."""
    if name in WHOLE:
      return [int(value) for value in columns[name]]
    digits = 4 if name == 'pct_inside_image' else 7
    return [round(float(value), digits) for value in columns[name]]

  return csv_text(IN_FILE, zip(*map(rounded, IN_FILE), strict=True))


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
  """Returns a table as CSV text with lines that end in LF, as the released generator's do."""
  out = io.StringIO()
  csv.writer(out, lineterminator='\n').writerows([header, *rows])
  return out.getvalue()
