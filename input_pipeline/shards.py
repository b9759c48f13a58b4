"""Base class of sources with many encoded images in a file, and a reader of tables.

A table has a row per image and a column of labels. Its other columns of numbers or strings become
columns of the rows.
"""

import abc
import dataclasses
import functools
import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from input_pipeline import image_files
from input_pipeline.images import Images, Store
from input_pipeline.settings import Source
from robustness.core import json_files, rows
from robustness.core.bounded_files import open_regular, read_bounded
from robustness.core.errors import KEYS, InputError, SettingError, nearest
from robustness.core.limits import MAX_BYTES_OF_TEXT, MAX_BYTES_PER_ARRAY, MAX_ROWS
from robustness.core.paths import expanded
from robustness.core.settings import require
from robustness.core.typing import Facts
from robustness.models import label_space

LABELS = ('label', 'labels', 'class', 'class_name', 'wnid', 'synset', 'fine_label')
"""Names of columns with labels; the first that exists is used."""
SPLITS = ('train', 'training', 'test', 'val', 'valid', 'validation', 'dev')
"""Words in names of files or folders that state a split."""
_OF_TOTAL = r'(.*\D|)(\d+)(-of-\d+)(?:-[0-9a-f]{16})?(.*)'
"""Pattern of names such as 'test-00002-of-00014.parquet', or with a hash of Hugging Face, as in
'test-00002-of-00014-1fc3a0bc49b8c3f2.parquet'. Its groups are 'test-', '00002', '-of-00014' and
'.parquet'."""
_NUMBERED = r'(.*?)(\d+)()(\D*)'
"""Pattern of names such as 'x-000002.tar'. Its groups are 'x-', '000002', '' and '.tar'."""
_WHOLE_NUMBER = '-?(?:0|[1-9][0-9]{0,17})'
"""Pattern of the fields of CSV that are read as integers."""
_NUMBER = r'-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+][0-9]+)?'
"""Pattern of the fields of CSV that are read as floats."""


@dataclasses.dataclass(frozen=True)
class Shards(Source, abc.ABC):
  """Base class of data sources with files that hold many encoded images each, such as Parquet.

  Attributes:
    path: a file, or a folder of files (shards).
    label_column: name of the column with labels; '' uses the first column with a name in `LABELS`.
    label_space: name of the classes that the labels number, such as 'imagenet'; '' keeps the stored
      class names.
    allow_missing: whether some of the numbered shards may be missing.
  """

  moved_keys = {'name': 'label_column'}

  path: str = ''
  label_column: str = ''
  label_space: str = ''
  allow_missing: bool = False

  def description(self, split: str, shards: int) -> Facts:
    """Returns JSON values that identify the images of a split.

    Args:
      split: name of the split.
      shards: number of files that are read.
    """
    return {'path': self.path, 'split': split, 'shards': shards, 'label_column': self.label_column}

  def shards(self, suffix: str, split: str, left_out: Counter[str]) -> list[Path]:
    """Returns the sorted data files of a split, from `self.path`.

    Splits are recognized by the names of files and folders, such as `train-00000-of-00014.parquet`;
    see `of_split`.

    Args:
      suffix: suffix of the data files.
      split: name of the split.
      left_out: counter of other files by reason, which is updated.

    Raises:
      InputError: there is no such file, files belong to different data sets, or some are missing.
    """
    root = expanded(self.path) if self.path else None
    if root is not None and root.is_file():
      return of_split([root], root=root.parent, split=split, title=self.path)
    root = self.folder(f'give a {suffix} file or a folder of them.')
    files = image_files.images_in(root, (suffix,), left_out=left_out)
    if not files:
      raise InputError(f'{root} holds no {suffix} file{image_files.looks_like(root)}.')
    shards = of_split(files, root, split, self.path)
    _check_one_set(shards, root, split, self.key('path'))
    _check_numbers(shards, self.allow_missing, self.key('allow_missing'))
    return shards

  def names_of_space(self, stored: Sequence[str], title: str) -> Sequence[str]:
    """Returns the class names in label order, from the setting `label_space` if it is set.

    Args:
      stored: class names in the files, the result if `label_space` is ''; () if there are none.
      title: name of the data set in messages.

    Raises:
      InputError: the files and the label space have different numbers of classes, or some of the
        same classes in another order; or there is no label space, and of 1000 names two are equal.
    """
    repeated = [name for name, count in Counter(stored).items() if count > 1]
    if not self.label_space:
      has_1000 = len(stored) == len(label_space.get(label_space.IMAGENET).class_names)
      reason = f'several are called {"".join(repeated[:1])!r}'
      valid = f"'imagenet' where the 1000 classes of {title} are ImageNet's; {reason}"
      self.require(not (has_1000 and repeated), 'label_space', valid)
      return stored
    names = label_space.get(self.label_space).class_names
    valid = f'a label space of {len(stored)} classes, as {title} names'
    self.require(len(stored) in (0, len(names)), 'label_space', valid)
    label_of = label_space.index_by_name(names)
    unique = ((label, name) for label, name in enumerate(stored) if name not in repeated)
    moved = [name for label, name in unique if label_of.get(name, label) != label]
    valid = f"'' where {title} names classes in another order, such as {moved[:1]}"
    self.require(not moved, 'label_space', valid)
    return names


def _check_one_set(files: list[Path], root: Path, split: str, key: str) -> None:
  """Raises InputError if files belong to several configs of a data set.

  Different configs may contain the same images. A config is recognized by the folder of a file,
  without splits and version numbers: 'fog' for root/fog/train/1/x-00000.parquet.

  Args:
    files: the data files.
    root: folder of the data.
    split: the split that is read, a name that is ignored in paths.
    key: the setting with the path, for the message.
  """
  configs = set()
  for file in files:
    folders = file.parent.relative_to(root).parts
    parts = [name for name in folders if name not in {*SPLITS, split} and not name.isdecimal()]
    configs.add('/'.join(parts))
  if len(configs) > 1:
    raise InputError(
      f'{root} has shards in the folders {", ".join(repr(name or ".") for name in sorted(configs))}'
      f', of several data sets or configs: give one of them as {key}.'
    )


def _check_numbers(files: list[Path], allow_missing: bool, key: str) -> None:
  """Raises InputError if numbered data files are missing, or have the same number.

  For names such as `x-00002-of-00014.y` all 14 files must exist, once each. A second file of one
  number is a copy, or is left of another version of the data set. For names such as `x-000002.y`
  all files between the first and the last must exist.

  Args:
    files: the data files.
    allow_missing: whether files may be missing.
    key: the setting `allow_missing`, for the message.
  """
  # {(path before the number, '-of-<total>' or '', rest of the name): the numbers that exist}
  numbers_of_series: dict[tuple[str, ...], set[int]] = {}
  file_of_number: dict[tuple[str, int], Path] = {}  # {(path before the number, number): file}
  for file in files:
    match = re.fullmatch(_OF_TOTAL, file.name) or re.fullmatch(_NUMBERED, file.name)
    if match:
      name, number, total, after = match.groups()
      before = str(file.parent / name)
      first_file = file_of_number.setdefault((before, int(number)), file)
      if total and file != first_file:
        pair = f'{first_file} and {file}'
        raise InputError(f'{pair} have one number: remove the copy or older version.')
      numbers_of_series.setdefault((before, total, after), set()).add(int(number))
  for (before, total, after), numbers in numbers_of_series.items():
    expected = range(min(numbers), max(numbers) + 1)
    if total:
      expected = range(int(total.removeprefix('-of-')))
    # counted and not listed, because the name of a file may state a billion shards
    num_missing = len(expected) - sum(number in expected for number in numbers)
    if num_missing and not allow_missing:
      first = next(number for number in expected if number not in numbers)
      raise InputError(
        f'{num_missing} of {len(expected)} shards are missing, first number {first} of '
        f'{before}*{total}{after}: fetch them, or set {key}=True.'
      )


def of_split(files: list[Path], root: Path, split: str, title: str) -> list[Path]:
  """Selects the files of a split by the names of files and folders, such as `train-00000.tar`.

  If no name contains a split, all files belong to 'test'.

  Args:
    files: the files.
    root: folder of the data. Its own name is ignored.
    split: the split; '' selects all files, if they belong to only one split.
    title: path of the data, for messages.

  Raises:
    SettingError: no file belongs to the split.
  """
  splits = [_split_of(file, root, split) for file in files]  # '' where a file states none
  is_only_split = len(set(splits)) == 1
  is_unsplit = set(splits) == {''}
  if (split == '' and is_only_split) or (split == 'test' and is_unsplit):
    return files
  matching = [file for file, name in zip(files, splits, strict=True) if name and name == split]
  if not matching:
    named = sorted({*splits} - {''})
    fix = nearest(split, named) if named else "its files say no split: set it to ''"
    problem = f'of which {title} has no file'
    raise SettingError(KEYS.data.split, split, problem=problem, fix=f'{fix}.')
  return matching


def _split_of(file: Path, root: Path, split: str) -> str:
  """Returns the split in the name of a file or its folder, '' if there is none.

  For instance 'train' for root/train-00000.tar and root/train/00000.tar.

  Args:
    file: path of the file.
    root: folder of the data. Its own name is ignored.
    split: a name of a split in addition to `SPLITS`.
  """
  folder = file.parent.name if file.parent != root else ''
  splits = {*SPLITS, split} - {''}
  words = (*re.split('[-_.]', file.name), folder)
  return next((word for word in words if word in splits), '')


def read_table(file: Path, text_columns: Collection[str] = ()) -> pd.DataFrame:
  """Reads a table from a CSV, JSON (list of objects), JSON lines or Parquet file.

  A column of CSV is numeric if all fields are written like `7` or `0.50`. Text such as `007` or
  `true` remains text.

  Args:
    file: the file of the table.
    text_columns: columns of CSV that always hold text, such as names of files.

  Raises:
    InputError: the file is missing, empty, truncated, too large, or of another format, or two
      columns have the same name.
  """
  readers: dict[str, Callable[[Path], pd.DataFrame]] = {
    '.csv': functools.partial(_read_csv, text_columns=text_columns),
    '.json': lambda file: pd.DataFrame(json_files.read(file, [dict])),
    '.jsonl': _read_json_lines,
    '.parquet': _read_parquet,
  }
  if file.suffix.lower() not in readers:
    raise InputError(f'{file} is no table: give a file ending in {", ".join(readers)}.')
  try:
    with warnings.catch_warnings(action='error', category=pd.errors.ParserWarning):
      table = readers[file.suffix.lower()](file)
  except pd.errors.ParserWarning as error:
    raise InputError(f'{file} has lines of more fields than its header has names.') from error
  # errors of pandas, json and Arrow are of these types; an InputError is a ValueError
  except (OSError, ValueError, TypeError) as error:
    reason = str(error).splitlines()[0].removesuffix('.') if str(error) else type(error).__name__
    raise InputError(f'{file} cannot be read as a table: {reason}.') from error
  if table.empty:
    raise InputError(f'{file} has no row.')
  # Parquet files that pandas wrote may have numbers as names of columns, and an index
  return table.rename(columns=str).reset_index(drop=True)


def refuse_repeated_columns(names: Sequence[str], title: str) -> None:
  """Raises InputError if two columns of a table have the same name.

  Args:
    names: names of the columns.
    title: name of the table in the message.
  """
  repeated = [name for name, count in Counter(names).items() if count > 1]
  if repeated:
    raise InputError(f'{title} has {names.count(repeated[0])} columns {repeated[0]!r}: rename one.')


def _read_csv(file: Path, text_columns: Collection[str]) -> pd.DataFrame:
  """Reads a table from a CSV file, with numeric columns where all fields are numbers.

  Args:
    file: the CSV file.
    text_columns: columns that always hold text.
  """
  content = io.BytesIO(read_bounded(file, MAX_BYTES_OF_TEXT))
  # pandas would rename the second of two equal columns, so the header is first read as a row
  header = pd.read_csv(content, header=None, nrows=1, dtype=str, na_filter=False)
  refuse_repeated_columns([name for name in header.iloc[0] if name], 'it')
  content.seek(0)
  table = pd.read_csv(content, index_col=False, dtype=str, keep_default_na=False, na_values=[''])
  for name in table.columns.difference([*text_columns]):
    table[name] = _numbers_if_all(table[name])
  return table


def _numbers_if_all(values: pd.Series) -> pd.Series:
  """Converts a column of text to numbers, if all fields are numbers or empty (NaN)."""
  present = values.dropna()
  if len(present) and present.str.fullmatch(_WHOLE_NUMBER).all():
    return pd.to_numeric(values)
  if len(present) and present.str.fullmatch(_NUMBER).all():
    return values.astype(float)
  return values


def _read_json_lines(file: Path) -> pd.DataFrame:
  """Reads a table from a file with a JSON object in each line."""
  # only \n ends a line: `splitlines` would also split at U+2028, which JSON text may hold
  lines = read_bounded(file, MAX_BYTES_OF_TEXT).split(b'\n')
  # lines of spaces, or of a byte order mark alone, hold no object
  return pd.DataFrame(
    json_files.parse(line, f'line {number}')
    for number, line in enumerate(lines, 1)
    if line.strip(b'\xef\xbb\xbf \t\r')
  )


def _read_parquet(file: Path) -> pd.DataFrame:
  """Reads a table from a Parquet file."""
  import pyarrow.parquet as pq

  with open_regular(file) as opened:
    table = pq.ParquetFile(opened)
    refuse_repeated_columns(table.schema_arrow.names, 'it')
    check_num_rows(table.metadata.num_rows, str(file))
    return table.read().to_pandas()


def check_num_rows(number: int, title: str) -> None:
  """Raises InputError if a table has too many rows, before memory is allocated.

  Args:
    number: number of rows that the file declares.
    title: name of the table in the message.
  """
  limit = min(MAX_ROWS, MAX_BYTES_PER_ARRAY // 8)  # a column has at least 8 bytes for each row
  require(0 <= number <= limit, f'the number of rows of {title}', number, f'at most {limit:,}')


def label_column(names: Collection[str], column: str) -> str:
  """Returns the name of the column with labels; '' if there is none.

  Args:
    names: names of all columns.
    column: the user's choice; '' uses the first name in `LABELS` that exists.
  """
  return column or next((name for name in LABELS if name in names), '')


def labels_of(
  table: pd.DataFrame, column: str, class_names: Sequence[str], title: str, key: str = ''
) -> tuple[np.ndarray, tuple[str, ...]]:
  """Extracts labels, int32 [N], and class names in label order from a table.

  Args:
    table: table with a row for each of N images.
    column: name of the column with labels, which are integers from 0 or class names; '' uses the
      first column with a name in `LABELS`.
    class_names: class names for integer labels; () uses '0', '1', ... up to the largest label.
    title: name of the data set in messages.
    key: the setting with the name of the column, for messages.

  Raises:
    InputError: the table has no row or no such column, or an image has no label.
  """
  if not len(table):
    raise InputError(f'{title} has no row.')
  name = label_column(table, column)
  if name not in table:
    problem = f'{key} is {column!r}' if column else 'no column is called label or class'
    columns = ', '.join(table)
    fix = f'give one of {columns} as {key}.' if columns else 'there is no other column.'
    raise InputError(f'{title}: {problem}; {fix}')
  labels = table[name]  # integers or class names
  if labels.isna().any():
    raise InputError(f'{title}: row {int(labels.isna().to_numpy().argmax())} has no {name}.')
  if labels.dtype.kind in 'iu':
    numbers = labels.to_numpy(np.int64)
    rows.check_label_array(numbers, f'{title}: {name}', num_classes=len(class_names) or None)
    names = tuple(class_names) or rows.numbered_classes(int(numbers.max()), f'{title}: {name}')
    return numbers.astype(np.int32), names
  if not all(isinstance(label, str) for label in labels):
    valid = 'labels are integers from 0 or names of classes'
    raise InputError(f'{title}: {name} is of {labels.dtype}; {valid}.')
  return _labels_of_names([rows.composed_unicode(label) for label in labels], title, name)


def _labels_of_names(
  names: list[str], title: str, column: str
) -> tuple[np.ndarray, tuple[str, ...]]:
  """Converts the class name of each image to an integer label.

  Args:
    names: the class names of N images.
    title: name of the data set in messages.
    column: name of the column with class names, for messages.

  Returns:
    The labels, int32 [N], and the distinct class names in label order.
  """
  classes = rows.in_class_order({*names})
  # names that differ from another one only by spaces around them, such as 'cat ' and 'cat'
  trimmed = Counter(name.strip() for name in classes)
  spaced = [name for name in classes if name != name.strip() and trimmed[name.strip()] > 1]
  if spaced:
    raise InputError(
      f'{title}: row {names.index(spaced[0])} has {column} {spaced[0]!r}, and others have '
      f'{spaced[0].strip()!r}: write one class in one way, without spaces around it.'
    )
  label_of_class = {name: label for label, name in enumerate(classes)}
  return np.array([label_of_class[name] for name in names], np.int32), tuple(classes)


def columns_of(
  table: pd.DataFrame, without: Sequence[str], left_out: Counter[str]
) -> dict[str, np.ndarray]:
  """Extracts the columns of a table that can describe images: numbers, text and booleans, [N].

  Missing text becomes '' and missing numbers become NaN. Categories become text, and so do booleans
  if one is missing.

  Args:
    table: table with a row for each of N images.
    without: columns that are used otherwise, such as the label.
    left_out: counter of omitted columns by reason, which is updated: other types, such as lists,
      and reserved names (`RESERVED`) other than 'label'.
  """
  columns = {}
  for name in table:
    values, missing = table[name], table[name].isna()
    if name in ('label', *without):  # rows have their labels under 'label'
      continue
    if name in rows.RESERVED:
      left_out['columns of names that rows use'] += 1
      continue
    is_number = values.dtype.kind in 'iuf'
    is_bool = values.dtype.kind == 'b' and not missing.any()
    if is_number or is_bool:
      columns[name] = values.to_numpy()
    elif pd.api.types.infer_dtype(values, skipna=True) in ('string', 'boolean', 'categorical'):
      columns[name] = values.astype(object).mask(missing, '').to_numpy(str)
    else:
      left_out['columns of neither numbers nor words'] += 1
  return columns


def encoded_images(
  store: Store, class_names: Sequence[str], title: str, description: Facts, **fields: Any
) -> Images:
  """Describes encoded images, such as the bytes of JPEG files, as `Images`.

  The images are grey if every readable image is grey.

  Args:
    store: the encoded images with their labels.
    class_names: names of the classes in label order.
    title: name of the data set in messages.
    description: JSON values that identify the images in results.json.
    fields: further fields of `Images`.
  """
  assert store.labels is not None
  elements = store.elements(np.arange(len(store.labels))).as_numpy_iterator()
  channels = 1 if all(image_files.may_be_grey(element['stored']) for element in elements) else 3
  fields = {
    'read': functools.partial(image_files.read_image, channels=channels),
    'header': image_files.read_header,
    'sizes': lambda indices: None,  # unknown before images are decoded
    'where': lambda index: f'{title}, example {index}',
    **fields,
  }
  return Images(
    title=title,
    description=description,
    class_names=tuple(class_names),
    channels=channels,
    num_examples=len(store.labels),
    store=store,
    **fields,
  )
