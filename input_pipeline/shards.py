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
from robustness.core import json_files
from robustness.core.bounded_files import open_regular, read_bounded
from robustness.core.errors import KEYS, InputError, SettingError, nearest
from robustness.core.limits import MAX_BYTES_OF_TEXT, MAX_BYTES_PER_ARRAY, MAX_ROWS
from robustness.core.paths import expanded
from robustness.core.rows import (
  RESERVED,
  check_label_array,
  composed_unicode,
  in_class_order,
  numbered_classes,
)
from robustness.core.settings import require
from robustness.core.typing import Facts
from robustness.models import label_space

LABELS = ('label', 'labels', 'class', 'class_name', 'wnid', 'synset', 'fine_label')
"""Names of columns with labels; the first that exists is used."""
SPLITS = ('train', 'training', 'test', 'val', 'valid', 'validation', 'dev')
"""Words in names of files or folders that state a split."""
_WHOLE_NUMBER = '-?(?:0|[1-9][0-9]{0,17})'
"""Pattern of the fields of CSV that are read as integers."""
_NUMBER = r'-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+][0-9]+)?'
"""Pattern of the fields of CSV that are read as floats."""


@dataclasses.dataclass(frozen=True)
class Shards(Source, abc.ABC):
  """Base class of sources with files that hold many encoded images each.

  Attributes:
    path: a file, or a folder of them.
    label_column: the column with the label; '' is the first column with a name in `LABELS`.
    label_space: the labels number the classes of this label space, such as 'imagenet'; '' keeps the
      stored class names.
    allow_missing: whether numbered shards may be missing.
  """

  moved_keys = {'name': 'label_column'}

  path: str = ''
  label_column: str = ''
  label_space: str = ''
  allow_missing: bool = False

  def description(self, split: str, shards: int) -> Facts:
    """Returns JSON values that identify the images of a split in a number `shards` of files."""
    column = self.label_column
    return {'path': self.path, 'split': split, 'shards': shards, 'label_column': column}

  def shards(self, suffix: str, split: str, left_out: Counter[str]) -> list[Path]:
    """Returns the file at `self.path`, or the sorted files with a suffix in this folder.

    If names of files or folders state splits, such as `train-00000-of-00014.parquet`, only the
    files of `split` are returned; `of_split` has the details. `left_out` counts files with other
    suffixes, by reason.

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
    if not self.allow_missing:
      _check_complete(shards, self.key('allow_missing'))
    return shards

  def names_of_space(self, stored: Sequence[str], title: str) -> Sequence[str]:
    """Returns the names of the classes that labels 0, 1, … stand for.

    They are the classes of the setting `label_space`, or the names in the files if it is ''.

    Args:
      stored: the class names in the files; () if the files have none.
      title: names the data in messages.

    Raises:
      InputError: the files have names, but another number of them than the label space has classes.
    """
    if not self.label_space:
      return stored
    names = label_space.get(self.label_space).class_names
    valid = f'a label space of {len(stored)} classes, as {title} names'
    self.require(len(stored) in (0, len(names)), 'label_space', valid)
    return names


def _check_one_set(files: list[Path], root: Path, split: str, key: str) -> None:
  """Raises InputError if shards belong to several configs of a data set, which may share images.

  The config is the path of a shard's folder without splits and versions: 'fog' for
  root/fog/train/1/x-00000.parquet.

  Args:
    files: the shards.
    root: folder of the data.
    split: the split that is read. Folders that are called like a split or a number are ignored.
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


def _check_complete(files: list[Path], key: str) -> None:
  """Raises InputError if numbered shards are missing.

  Of shards with names such as `x-00002-of-00014.y` all 14 must be there; of shards with names such
  as `x-000002.y` all between the first and the last. `key` is the setting that allows missing
  shards, for the message.
  """
  # {(path before the number, '-of-<total>' or '', rest of the name): the numbers that exist}
  numbers: dict[tuple[str, ...], list[int]] = {}
  for file in files:
    match = re.fullmatch(r'(.*?)(\d+)(-of-\d+)?(\D*)', file.name)
    if match:
      before, number, total, after = match.groups('')
      numbers.setdefault((str(file.parent / before), total, after), []).append(int(number))
  for (before, total, after), listed in numbers.items():
    count = int(total.removeprefix('-of-') or 0)
    expected = range(count) if total else range(min(listed), max(listed) + 1)
    present = {number for number in listed if number in expected}
    num_missing = len(expected) - len(present)
    if num_missing:
      first = next(number for number in expected if number not in present)
      raise InputError(
        f'{num_missing} of {len(expected)} shards are missing, first number {first} of '
        f'{before}*{total}{after}: fetch them, or set {key}=True.'
      )


def of_split(files: list[Path], root: Path, split: str, title: str) -> list[Path]:
  """Returns the files that belong to a split; raises SettingError if there are none.

  A file states its split in its name or in the name of its folder, as in `train-00000.tar`. If no
  file states a split, all files belong to 'test'.

  Args:
    files: the files.
    root: folder of the data; its own name states no split.
    split: the split; '' takes all files if all state the same split, or none states one.
    title: path of the data, for messages.
  """
  splits = [_split_of(file, root, split) for file in files]  # '' where a file states none
  are_alike = len(set(splits)) == 1
  if are_alike and (split == '' or (split == 'test' and splits[0] == '')):
    return files
  matching = [file for file, name in zip(files, splits, strict=True) if name == split != '']
  if not matching:
    named = sorted({*splits} - {''})
    fix = nearest(split, named) if named else "its files say no split: set it to ''"
    problem = f'of which {title} has no file'
    raise SettingError(KEYS.data.split, split, problem=problem, fix=f'{fix}.')
  return matching


def _split_of(file: Path, root: Path, split: str) -> str:
  """Returns the split that the name of a file or of its folder states; '' if neither does.

  For example 'train' of root/train-00000.tar, and of root/train/00000.tar. Names of splits are
  those in `SPLITS`, and `split`, the one to be read. The name of `root` itself states no split.
  """
  folder = file.parent.name if file.parent != root else ''
  splits = {*SPLITS, split} - {''}
  words = (*re.split('[-_.]', file.name), folder)
  return next((word for word in words if word in splits), '')


def read_table(file: Path, text_columns: Collection[str] = ()) -> pd.DataFrame:
  """Returns a table of CSV, JSON (a list of objects), JSON lines or Parquet.

  CSV does not mark numbers. A column holds numbers if every field is written as `7` or `0.50`;
  `007` is text, since no number is written so in JSON. Truth values in CSV are text.

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
  except InputError as error:
    raise InputError(f'{file} cannot be read as a table: {error}') from error
  except pd.errors.ParserWarning as error:
    raise InputError(f'{file} has lines of more fields than its header has names.') from error
  # errors of pandas, json and Arrow are of these types
  except (OSError, ValueError, TypeError) as error:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise InputError(f'{file} cannot be read as a table: {reason}.') from error
  if table.empty:
    raise InputError(f'{file} has no row.')
  # Parquet files that pandas wrote may have numbers as names of columns, and an index
  return table.rename(columns=str).reset_index(drop=True)


def refuse_repeated_columns(names: Sequence[str], title: str) -> None:
  """Raises InputError if two of the column `names` are equal; `title` names the table."""
  repeated = [name for name, count in Counter(names).items() if count > 1]
  if repeated:
    raise InputError(f'{title} has {names.count(repeated[0])} columns {repeated[0]!r}: rename one.')


def _read_csv(file: Path, text_columns: Collection[str]) -> pd.DataFrame:
  """Returns the table of a CSV file.

  A column holds numbers if all its fields are written as numbers and its name is not in
  `text_columns`; other columns hold text.
  """
  content = io.BytesIO(read_bounded(file, MAX_BYTES_OF_TEXT))
  # pandas would rename the second of two equal columns, so the header is first read as a row
  header = pd.read_csv(content, header=None, nrows=1, dtype=str, na_filter=False)
  refuse_repeated_columns([name for name in header.iloc[0] if name], 'it')
  content.seek(0)
  table = pd.read_csv(content, index_col=False, dtype=str, keep_default_na=False, na_values=[''])
  return table.apply(
    lambda values: values if values.name in text_columns else _numbers_if_all(values)
  )


def _numbers_if_all(values: pd.Series) -> pd.Series:
  """Returns the fields of a column as numbers if all are written as numbers, else unchanged.

  Empty fields, which are NaN, do not count.
  """
  present = values.dropna()
  if len(present) and present.str.fullmatch(_WHOLE_NUMBER).all():
    return pd.to_numeric(values)
  if len(present) and present.str.fullmatch(_NUMBER).all():
    return values.astype(float)
  return values


def _read_json_lines(file: Path) -> pd.DataFrame:
  """Returns the table of a file with a JSON object in each line."""
  # only \n ends a line: `splitlines` would also split at U+2028, which JSON text may hold
  lines = read_bounded(file, MAX_BYTES_OF_TEXT).split(b'\n')
  # lines of spaces, or of a byte order mark alone, hold no object
  return pd.DataFrame(
    json_files.parse(line, f'line {number}')
    for number, line in enumerate(lines, 1)
    if line.strip(b'\xef\xbb\xbf \t\r')
  )


def _read_parquet(file: Path) -> pd.DataFrame:
  """Returns the table of a Parquet file."""
  import pyarrow.parquet as pq

  with open_regular(file) as opened:
    table = pq.ParquetFile(opened)
    refuse_repeated_columns(table.schema_arrow.names, 'it')
    check_num_rows(table.metadata.num_rows, str(file))
    return table.read().to_pandas()


def check_num_rows(number: int, title: str) -> None:
  """Raises InputError if a table has more rows than allowed, before memory is allocated.

  `number` is the number of rows that the file `title` states.
  """
  limit = min(MAX_ROWS, MAX_BYTES_PER_ARRAY // 8)  # a column has at least 8 bytes for each row
  require(0 <= number <= limit, f'the number of rows of {title}', number, f'at most {limit:,}')


def label_column(names: Collection[str], column: str) -> str:
  """Returns the column of labels: `column` if it is set, else the first one in `LABELS`, or ''."""
  return column or next((name for name in LABELS if name in names), '')


def labels_of(
  table: pd.DataFrame, column: str, class_names: Sequence[str], title: str, key: str = ''
) -> tuple[np.ndarray, tuple[str, ...]]:
  """Returns the labels of N images in a table, int32 [N], and the class names in label order.

  Args:
    table: a row per image.
    column: name of the column of labels, which are numbers from 0 or names; '' takes the first one
      with a usual name.
    class_names: names of numbered classes; () names them '0', '1', ... up to the largest.
    title: names the images in messages.
    key: the setting that names the column.

  Raises:
    InputError: the table has no row or no such column, or an image has no label.
  """
  if not len(table):
    raise InputError(f'{title} has no row.')
  label = label_column(table, column)
  if label not in table:
    problem = f'{key} is {column!r}' if column else 'no column is called label or class'
    columns = ', '.join(table)
    give = f'give one of {columns} as {key}.' if columns else 'there is no other column.'
    raise InputError(f'{title}: {problem}; {give}')
  values = table[label]
  if values.isna().any():
    raise InputError(f'{title}: row {int(values.isna().to_numpy().argmax())} has no {label}.')
  if values.dtype.kind in 'iu':
    numbers = values.to_numpy(np.int64)
    check_label_array(numbers, f'{title}: {label}', num_classes=len(class_names) or None)
    names = tuple(class_names) or numbered_classes(int(numbers.max()), f'{title}: {label}')
    return numbers.astype(np.int32), names
  if not all(isinstance(value, str) for value in values):
    valid = 'labels are integers from 0 or names of classes'
    raise InputError(f'{title}: {label} is of {values.dtype}; {valid}.')
  return _labels_of_names([composed_unicode(value) for value in values], title, label)


def _labels_of_names(
  names: list[str], title: str, column: str
) -> tuple[np.ndarray, tuple[str, ...]]:
  """Returns the labels of N class names, and the distinct names in the order of the labels.

  Args:
    names: the class name of each image, [N].
    title: name of the images in messages.
    column: name of the column with the class names in messages.
  """
  classes = in_class_order({*names})
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
  """Returns the columns of a table that hold numbers, text or truth values, [N] each.

  Missing text becomes '', a missing number NaN. Categories become text, and so do truth values if
  one is missing.

  Args:
    table: a row per image.
    without: names of columns that have another use, such as the label, and are not returned.
    left_out: counts columns of other types, such as lists, and columns with a name in `RESERVED`,
      except 'label'.
  """
  columns = {}
  for name in table:
    values, missing = table[name], table[name].isna()
    if name in ('label', *without):  # rows have their labels under 'label'
      continue
    if name in RESERVED:
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
  """Returns the `Images` of a store of encoded files, grey if every readable file is grey.

  Args:
    store: the store, with labels; `stored` of its elements are the bytes of an image file.
    class_names: names of the classes in label order.
    title: names the images in messages.
    description: JSON values that identify the images in results.json.
    fields: other fields of `Images`.
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
