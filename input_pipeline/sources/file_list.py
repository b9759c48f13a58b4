"""Source `file_list`: image files that a table lists, in CSV, JSON, JSON lines or Parquet.

`table` is the table; '' takes `metadata.csv`, `.jsonl`, `.json` or `.parquet` in `path`, as in the
Hub's image folders. Its column `file_name` (or `filename`, `file`, `path`, `image`) has paths
relative to `path`, or file names without folder, which are searched for at any depth. The label is
in the column `label_column`, else in the first column with a usual name of labels, else it is the
name of the file's folder. `label_space` names the classes if labels are numbers. If the table has a
column `split`, the rows with the value `config.data.split` are read; otherwise this setting must
be '' or 'test'.

All other columns of numbers and strings become columns of the rows;
`config.study.name='accuracy_by_factor'` can group by them. `example_id` is the row number in the
split.
"""

import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from input_pipeline import image_files, shards
from input_pipeline.images import Images, PartsStore
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import KEYS, InputError, nearest
from robustness.core.paths import expanded, files_in
from robustness.core.rows import composed_unicode
from robustness.core.settings import require
from robustness.models import label_space

FILES = ('file_name', 'filename', 'file', 'path', 'image')
"""Names of the column of files; the first that exists is used."""
TABLES = ('metadata.csv', 'metadata.jsonl', 'metadata.json', 'metadata.parquet')
"""Names of a table that are looked for in `path`."""


@dataclasses.dataclass(frozen=True)
class FileList(Source):
  """Image files listed in a table with labels and further columns.

  Attributes:
    path: folder of the images; '' is the folder of the table.
    table: path of the table; '' uses the only file in `path` with a name in `TABLES`, such as
      metadata.csv.
    label_column: name of the column with labels; '' uses the first common name, such as 'label'.
    label_space: names of the classes if labels are integers, such as 'imagenet'; '' names classes
      by their numbers.
  """

  name = 'file_list'
  moved_keys = {'metadata': 'table', 'name': 'label_column'}

  path: str = ''
  table: str = ''
  label_column: str = ''
  label_space: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns the images in the table. Only the files that are read must exist.

    Raises:
      InputError: the table lacks a column or the split, or labels do not fit the label space.
    """
    table_file = self._table_file()
    title = str(table_file)
    table = self._read(table_file, settings.split)
    file_columns = [name for name in FILES if name in table]
    if not file_columns:
      usual = ', '.join(FILES)
      raise InputError(f'{title} has no column of files ({usual}), only {", ".join(table)}.')
    root = expanded(self.path) if self.path else table_file.parent
    file_column = file_columns[0]
    files = _Files(table[file_column], root, title)
    if not shards.label_column(table, self.label_column):
      table = table.assign(label=files.labels())  # without a column of labels, names of folders
    # the names of classes that the table numbers; in a table of class names they are not used
    names = label_space.get(self.label_space).class_names if self.label_space else ()
    key = self.key('label_column')
    labels, class_names = shards.labels_of(table, self.label_column, names, title, key)
    self.require(not names or class_names == names, 'label_space', "'' where labels are words")
    left_out = Counter[str]()
    description = {'path': self.path, 'metadata': title, 'split': settings.split}
    are_grey = all(files.may_be_grey(row) for row in range(len(files)))
    return image_files.file_images(
      files,
      labels,
      class_names,
      title=f'files listed in {title}',
      description={**description, 'label_column': self.label_column},
      columns=shards.columns_of(table, (file_column, self.label_column), left_out),
      left_out=left_out,
      channels=1 if are_grey else 3,
      store=PartsStore(lambda part, row: files[row].encode(), labels),
      check=files.check,
    )

  def _table_file(self) -> Path:
    """Returns the path of the table; raises InputError if `path` contains none or several."""
    if self.table:
      return expanded(self.table)
    root = self.folder(f'give the folder of the images, or {self.key("table")}=TABLE.')
    tables = [root / name for name in TABLES if (root / name).is_file()]
    if len(tables) != 1:
      have = ' and '.join(file.name for file in tables) or f'none of {", ".join(TABLES)}'
      raise InputError(f'{root} holds {have}: name the table with {self.key("table")}.')
    return tables[0]

  def _read(self, file: Path, split: str) -> pd.DataFrame:
    """Reads the rows of a table that belong to a split.

    Args:
      file: path of the table.
      split: value of the column `split`; '' reads all rows.

    Raises:
      InputError: the table has no such split, or the name of a required column is misspelt, such as
        'File_Name '.
    """
    table = shards.read_table(file, text_columns=(*FILES, 'split'))
    label_columns = () if self.label_column else shards.LABELS
    for valid_names in (FILES, label_columns, ('split',)):
      similar = [name for name in table if name.strip().lower() in valid_names]
      if similar and not any(name in table for name in valid_names):
        fix = f'call it {similar[0].strip().lower()!r}, in lower case and without spaces.'
        raise InputError(f'{file} has a column {similar[0]!r}: {fix}')
    if 'split' not in table:
      valid = "'' or 'test': the table has no column split"
      require(split in ('', 'test'), 'config.data.split', split, valid)
    elif split:
      splits = table['split'].map(str, na_action='ignore').fillna('').str.strip()
      table = table[splits == split].reset_index(drop=True)
      if table.empty:
        stated = nearest(split, sorted({*splits} - {''}))
        raise InputError(f'{KEYS.data.split} is {split!r}: {file} has {stated}.')
    return table


class _Files(Sequence[str]):
  """The paths of the files that a table lists, searched on demand.

  The table has paths relative to a root folder, or names of files that are unique in all its
  subfolders. Differences in Unicode normalization (é as one or two characters) are ignored.
  """

  def __init__(self, names: pd.Series, root: Path, title: str):
    """Stores the file names; raises InputError if one is not a string.

    Args:
      names: file names in the table.
      root: folder that is searched.
      title: name of the table in messages.
    """
    is_text = names.map(lambda name: isinstance(name, str)).to_numpy()
    if not is_text.all():
      raise InputError(f'{title}: row {int(is_text.argmin())} names no file.')
    self._names, self._root, self._title = names.tolist(), root, title
    self._path_of_row: dict[int, str] = {}

  def __len__(self) -> int:
    return len(self._names)

  def __getitem__(self, row: Any) -> Any:
    """Returns the path of the file in a row of the table.

    If the listed path does not exist below the root folder, subfolders are searched for the name.

    Raises:
      InputError: no file or several files are found.
    """
    if row not in self._path_of_row:
      path = self._root / self._names[row]
      if not os.path.isfile(path):
        matches = self._files_by_path.get(composed_unicode(self._names[row]), [])
        if len(matches) != 1:
          count = f'{len(matches)} files are so called' if matches else 'there is no such file'
          raise InputError(
            f'{self._title}: row {row} names {self._names[row]!r}, which is not in {self._root}: '
            f'{count}. Set {KEYS.data.file_list.path} to the folder that the names begin at.'
          )
        [path] = matches
      self._path_of_row[row] = str(path)
    return self._path_of_row[row]

  def labels(self) -> list[str]:
    """Returns the class of each file, which is the name of its folder.

    Files listed without a folder are searched.
    """
    folders = (Path(name).parent.name for name in self._names)
    return [folder or Path(self[row]).parent.name for row, folder in enumerate(folders)]

  def check(self, rows: np.ndarray) -> None:
    """Raises InputError if files that are read are missing, or if a file is listed twice.

    Links to the same file count as repetitions.

    Args:
      rows: int [n], indices of the rows that are read.
    """
    real_folder = functools.cache(os.path.realpath)  # slow, and the same for many files

    def real_path(path: str) -> str:
      """Returns the path of a file with all links resolved."""
      folder, name = os.path.split(path)
      return os.path.realpath(path) if os.path.islink(path) else f'{real_folder(folder)}/{name}'

    real_paths = [real_path(self[row]) for row in rows.tolist()]
    self._refuse_repeated(self._names, range(len(self)))
    self._refuse_repeated(real_paths, rows)  # one file may have several names

  def may_be_grey(self, row: int) -> bool:
    """Returns whether the file in a row is grey, cannot be read or does not exist."""
    try:
      return image_files.may_be_grey(self[row])
    except InputError:  # `check` refuses missing files, but only of the rows that are chosen
      return True

  @functools.cached_property
  def _files_by_path(self) -> dict[str, list[Path]]:
    """All files below the root folder, `{name: files}`, to look up names in the table.

    A file is listed under its relative path and, if it is in a subfolder, also under its name
    alone. Names are in composed Unicode form.
    """
    files: dict[str, list[Path]] = {}
    for file in files_in(self._root):
      files.setdefault(composed_unicode(str(file.relative_to(self._root))), []).append(file)
      if file.parent != self._root:
        files.setdefault(composed_unicode(file.name), []).append(file)
    return files

  def _refuse_repeated(self, paths: Sequence[str], rows: Sequence[int] | np.ndarray) -> None:
    """Raises InputError if a path occurs twice.

    Args:
      paths: the paths.
      rows: index of each path's row in the table, for the message.
    """
    is_repeated = pd.Series(paths, dtype=object).duplicated().to_numpy()
    if is_repeated.any():
      row = int(rows[is_repeated.argmax()])
      raise InputError(
        f'{self._title}: row {row} names {self._names[row]!r} again; each image counts once.'
      )
