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
  """Scenes of SI-Score with area, position and angle of the object.

  The scenes are a released set, or made by the builder `si_score_scenes`.

  Attributes:
    path: folder of scenes, <class>/<image id>.jpg.
    dataset: TFDS name of a data set to read instead of `path`, such as 'siscore/location'.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
    metadata: path of metadata.csv, with area, position and angle of each scene; '' uses the file in
      the folder of scenes or next to it. Not needed if the TFDS data set contains these values.
    allow_missing: whether scenes in metadata.csv may be missing.
  """

  resized_on_device = True
  moved_keys = {'name': 'dataset'}

  path: str = ''
  dataset: str = ''
  data_dir: str = ''
  metadata: str = ''
  allow_missing: bool = False

  def open(self, settings: DataSettings) -> Images:
    """Returns the scenes with ImageNet labels and the columns `COLUMNS`.

    A random subset (`config.data.num_images`) consists of random pairs of object and background,
    with all scenes of each pair.
    """
    self.require(not (self.path and self.dataset), 'path', f"'' where {self.key('dataset')} is set")
    if self.dataset:
      images, factors, metadata, num_missing = self._from_tfds(settings)
    else:
      choice('config.data.split', settings.split, ('', 'test'))
      images, factors, metadata, num_missing = self._from_folder()
    columns = {}
    for name, values in factors.items():
      is_float = values.dtype.kind == 'f'
      columns[name] = values.astype(np.float32 if is_float else np.int32)
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
    """Opens the TFDS data set `self.dataset`.

    Returns:
      A tuple of

      * the images;
      * the columns `COLUMNS`, {name: values};
      * the path of the metadata.csv that was read, or '';
      * the number of scenes in metadata.csv that the data set lacks.
    """
    from input_pipeline import tfds_sets

    images = Tfds(self.dataset, self.data_dir).open(settings)
    builder = tfds_sets.find_builder(self.dataset, self.data_dir, self.key('dataset'))
    split = tfds_sets.Split(builder, settings.split)
    features, name = builder.info.features, builder.info.full_name
    if set(COLUMNS) <= set(features):
      self.require(not self.metadata, 'metadata', f"'' for {name}, which holds what it lists")
      return images, split.numbers(COLUMNS), '', 0
    if 'image_id' not in features:
      reason = "it is neither TFDS 'siscore' nor of the builder 'si_score_scenes'."
      raise InputError(f"data set {name!r} has no feature 'image_id': {reason}")
    if not self.metadata:
      problem = f'{self.key("metadata")} is empty; {name!r} holds no factors'
      raise InputError(f'{problem}. Give the metadata.csv of its archive.')
    stored = split.numbers(('image_id', 'label'))
    image_ids, labels = stored['image_id'], stored['label']
    # `allow_missing` is True here, as the split may be a slice
    columns, num_missing = _match_metadata(self.metadata, image_ids, labels, True, folders=())
    return images, columns, self.metadata, num_missing

  def _from_folder(self) -> tuple[Images, dict[str, np.ndarray], str, int]:
    """Opens the folder `self.path`, with scenes sorted by the numbers in their file names.

    Returns:
      A tuple of

      * the images;
      * the columns `COLUMNS`, {name: values};
      * the path of the metadata.csv that was read;
      * the number of scenes in metadata.csv that the folder lacks.
    """
    tfds_set = f'{self.key("dataset")}=siscore/FACTOR'
    advice = f'give a folder of scenes, <class>/<image id>.jpg, or {tfds_set}.'
    root = self.folder(advice)
    left_out = Counter[str]()
    scenes = _find_scenes(root, left_out)
    if not scenes:
      problem = f'{root} holds no <class>/<image id>.jpg{image_files.looks_like(root)}'
      raise InputError(f'{problem}: {advice}')
    candidates = [root / 'metadata.csv', root.parent / 'metadata.csv']
    tables = [file for file in candidates if file.is_file()]
    if not self.metadata and not tables:
      raise InputError(
        f'{self.key("metadata")} is empty, and {candidates[0]} is not there: give the metadata.csv '
        'of the set, of the folder object_size, object_location or object_rotation.'
      )
    metadata = self.metadata or str(tables[0])
    left_out['files .csv'] -= metadata == str(candidates[0])  # which is read
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
  """Lists the files root/<class>/<image id>.jpg as `{image id: (path, ImageNet label)}`.

  Args:
    root: folder of class folders.
    left_out: counter of files that are not read, by reason, which is updated.
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
  """Numbers the distinct rows of a table in sorted order; equal rows have the same number.

  For instance, the columns [7, 2, 7] and [1, 1, 1] result in [1, 0, 1].

  Args:
    *columns: columns of the table, [N] each.

  Returns:
    int [N], the number of each row.
  """
  _, numbers = np.unique(np.stack(columns), axis=1, return_inverse=True)
  return numbers.ravel()


def _match_metadata(
  path: str, image_ids: np.ndarray, labels: np.ndarray, allow_missing: bool, folders: Sequence[str]
) -> tuple[dict[str, np.ndarray], int]:
  """Reads the columns `COLUMNS` of N images from metadata.csv.

  The class numbers in metadata.csv are compared with the images, because image ids alone would also
  match the table of another data set.

  Args:
    path: path of metadata.csv.
    image_ids: int [N], ids of the images.
    labels: int [N], labels of the images.
    allow_missing: whether metadata.csv may contain further scenes.
    folders: name of each image's class folder; () if images are not in folders.

  Returns:
    The columns, {name: values [N]}, and the number of further scenes in metadata.csv.

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
  # {number of a class: its folder}; {} without folders
  folder_of_class = dict(zip(classes.tolist(), folders, strict=False))
  folders_by_number = [folder_of_class[number] for number in sorted(folder_of_class)]
  # metadata.csv numbers the classes in the order of their names, so that sorting changes nothing
  pairs = zip(folders_by_number, sorted(folders_by_number), strict=True)
  wrong = [folder for folder, expected in pairs if folder != expected]
  if wrong:
    problem = f'{path} numbers classes of SI-Score in the order of their names'
    listed = f'those of the folders {", ".join(wrong)}'
    raise InputError(f'{problem}, which {listed} are not in. Was a class folder renamed?')
  columns = {name: factors[column].to_numpy() for name, column in FACTORS.items()}
  columns['object'] = _number_rows(*(factors[column] for column in _OBJECT))
  return {name: columns[name] for name in COLUMNS}, num_missing


def read_metadata(path: str | Path) -> pd.DataFrame:
  """Reads and validates metadata.csv, sorted by image id.

  Returns:
    A table with the columns `IN_FILE`: int64 for columns in `WHOLE`, float64 for all others.
  """
  table = read_table(Path(path))
  missing = [name for name in IN_FILE if name not in table]
  if missing:
    problem = f'{path} has no column {missing[0]!r}; its columns: {", ".join(table)}'
    fix = f'Expected: {", ".join(IN_FILE)}. It lies in the archive of the released set.'
    raise InputError(f'{problem}. {fix}')
  numbers = table[[*IN_FILE]].apply(pd.to_numeric, errors='coerce')  # text becomes NaN
  numbers = numbers.astype(float).sort_values('image_id', kind='stable', ignore_index=True)
  for name in IN_FILE:
    values = numbers[name].to_numpy()
    is_valid = np.isfinite(values)
    if name in WHOLE:
      is_valid &= values == np.floor(values)
    valid = 'a whole number' if name in WHOLE else 'a finite number'
    first_wrong = float(values[is_valid.argmin()])  # not used by `require` if all are valid
    require(bool(is_valid.all()), f'{path}: {name}', first_wrong, valid)
  numbers = numbers.astype(dict.fromkeys(WHOLE, np.int64))
  repeated = numbers['image_id'][numbers['image_id'].duplicated()]
  if len(repeated):
    problem = f'{path} names image {repeated.iloc[0]} more than once'
    raise InputError(f'{problem}; are several tables joined? Each set has its own.')
  inside = numbers.set_index('image_id')['pct_inside_image']
  # the image with the value farthest from .5; if any value is outside [0, 1], this one is
  image_id = (inside - 0.5).abs().idxmax()
  key = f'{path}: pct_inside_image of image {image_id}'
  require(0 <= inside[image_id] <= 1, key, float(inside[image_id]), 'a fraction in [0, 1]')
  return numbers


def join_metadata(
  path: str | Path, image_ids: np.ndarray, allow_missing: bool = False
) -> tuple[pd.DataFrame, int]:
  """Reads the rows of metadata.csv that belong to N images.

  Args:
    path: path of metadata.csv.
    image_ids: int [N], distinct ids of the images.
    allow_missing: whether metadata.csv may contain further images.

  Returns:
    A table with N rows in the order of `image_ids`, see `read_metadata`, and the number of further
    images in metadata.csv.

  Raises:
    InputError: an image is missing in metadata.csv, or metadata.csv contains further images and
      `allow_missing` is False.
  """
  table = read_metadata(path).set_index('image_id', drop=False)
  unknown = image_ids[~np.isin(image_ids, table.index)]
  if len(unknown):
    problem = f'{path} does not name {len(unknown)} of {len(image_ids)} images'
    raise InputError(f'{problem}, first image_id {unknown[0]}. Is it the table of another factor?')
  missing = np.setdiff1d(table.index, image_ids)
  if len(missing) and not allow_missing:
    raise InputError(
      f'{path} names {len(missing)} of {len(table)} images of SI-Score that are not here, first '
      f'{missing[0]}.jpg: unpack the archive again, or set {KEYS.data.si_score.allow_missing}=True.'
    )
  return table.loc[image_ids], len(missing)


def metadata_text(columns: Mapping[str, np.ndarray]) -> str:
  """Returns the content of metadata.csv for N scenes.

  Args:
    columns: {name: values [N]} for the names `IN_FILE`. `pct_inside_image` is rounded to 4 digits,
      other fractions to 7.
  """

  def rounded(name: str) -> list[int | float]:
    """Returns a column of the list of scenes as Python numbers, rounded as files have them.

    Args:
      name: name of the column; `columns` has its values.
    """
    if name in WHOLE:
      return [int(value) for value in columns[name]]
    digits = 4 if name == 'pct_inside_image' else 7
    return [round(float(value), digits) for value in columns[name]]

  return csv_text(IN_FILE, zip(*map(rounded, IN_FILE), strict=True))


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
  """Formats a table as CSV with LF line endings, like the released files."""
  out = io.StringIO()
  csv.writer(out, lineterminator='\n').writerows([header, *rows])
  return out.getvalue()
