"""Image files that a table lists, in CSV, JSON, JSON lines or Parquet, with other columns.

`table` is the table; '' is `metadata.csv`, `.jsonl`, `.json` or `.parquet` in `path`, as in the
Hub's image folders. Its column `file_name` (or `filename`, `file`, `path`, `image`) has paths below
`path`, or bare names of files that are anywhere below.
The label is in the column `label_column`, else in the first column with a usual name of labels,
else it is the name of the file's folder. `label_space` names the classes of numbers. If the table
has a column `split`, the rows of `config.data.split` are read; otherwise the split is '' or 'test'.

All other columns of numbers and words are columns of the rows, which
`config.study.name='accuracy_by_factor'` can group. `example_id` is the row number in the split.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pandas as pd

from input_pipeline import image_files, shards
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import KEYS, InputError, nearest
from robustness.core.paths import expanded
from robustness.core.rows import composed
from robustness.core.settings import require
from robustness.models import label_space

FILES = ('file_name', 'filename', 'file', 'path', 'image')
TABLES = ('metadata.csv', 'metadata.jsonl', 'metadata.json', 'metadata.parquet')


@dataclasses.dataclass(frozen=True)
class FileList(Source):
  """Image files that a table lists.

  Attributes:
    path: the folder of the images; '' is the folder of the table.
    table: the table; '' is the only one in `path` that is called as tables usually are.
    label_column: the column with the label; '' is the first called as labels usually are.
    label_space: the space, such as 'imagenet', that numbers are classes of; '' names none.
  """

  name = 'file_list'
  moved_keys: ClassVar[Mapping[str, str]] = {'metadata': 'table', 'name': 'label_column'}

  path: str = ''
  table: str = ''
  label_column: str = ''
  label_space: str = ''

  def open(self, settings: DataSettings) -> Images:
    """See `Source`; every file must be there."""
    listing = self._table_file()
    title = f'{listing}'
    table = shards.read_table(listing, words=(*FILES, 'split'))
    if 'split' in table and settings.split:
      splits = sorted(set(table['split'].astype(str)))
      table = table[table['split'].astype(str) == settings.split].reset_index(drop=True)
      if table.empty:
        raise InputError(
          f'{KEYS.data.split} is {settings.split!r}: {title} has {nearest(settings.split, splits)}.'
        )
    valid = "'' or 'test': the table has no column split"
    has = 'split' in table or settings.split in ('', 'test')
    require(has, 'config.data.split', settings.split, valid)
    column = next((name for name in FILES if name in table), '')
    if not column:
      raise InputError(
        f'{title} has no column of files ({", ".join(FILES)}), only {", ".join(table)}.'
      )
    root = expanded(self.path) if self.path else listing.parent
    paths = _existing(table[column], root, title)
    if not self.label_column and not any(name in table for name in shards.LABELS):
      table = table.assign(label=[Path(path).parent.name for path in paths])
    numbered = label_space.get(self.label_space).class_names if self.label_space else ()
    key = self.key('label_column')
    labels, class_names = shards.labels_of(table, self.label_column, numbered, title, key)
    valid = "'' where labels are words"
    self.require(numbered in ((), class_names), 'label_space', valid)
    left_out = Counter[str]()
    return image_files.file_images(
      paths,
      labels,
      class_names,
      title=f'files listed in {title}',
      description={
        'path': self.path,
        'metadata': str(listing),
        'split': settings.split,
        'label_column': self.label_column,
      },
      columns=shards.columns_of(table, (column, self.label_column), left_out),
      left_out=left_out,
    )

  def _table_file(self) -> Path:
    """Returns the table; refuses none, and several in one folder."""
    if self.table:
      return expanded(self.table)
    advice = f'give the folder of the images, or {self.key("table")}=TABLE.'
    root = self.folder(advice)
    tables = [root / name for name in TABLES if (root / name).is_file()]
    if len(tables) != 1:
      have = ' and '.join(file.name for file in tables) or f'none of {", ".join(TABLES)}'
      raise InputError(f'{root} holds {have}: name the table with {self.key("table")}.')
    return tables[0]


def _existing(names: pd.Series, root: Path, title: str) -> list[str]:
  """Returns the path of every file: as listed below the root, in whichever form of Unicode, or the
  only one of a bare name."""
  if not all(isinstance(name, str) for name in names):
    row = int((~names.map(lambda name: isinstance(name, str))).to_numpy().argmax())
    raise InputError(f'{title}: row {row} names no file.')
  paths = [root / name for name in names]
  missing = [row for row, path in enumerate(paths) if not os.path.isfile(path)]
  anywhere: dict[str, list[Path]] = {}
  for file in image_files.files_in(root) if missing else ():
    anywhere.setdefault(composed(str(file.relative_to(root))), []).append(file)
    if file.parent != root:
      anywhere.setdefault(composed(file.name), []).append(file)
  for row in missing:
    alike = anywhere.get(composed(names[row]), [])
    if len(alike) != 1:
      count = f'{len(alike)} files are so called' if alike else 'there is no such file'
      raise InputError(
        f'{title}: row {row} names {names[row]!r}, which is not in {root}: {count}. '
        f'Set {KEYS.data.file_list.path} to the folder that the names begin at.'
      )
    paths[row] = alike[0]
  twice = pd.Series([os.path.realpath(path) for path in paths]).duplicated().to_numpy()
  if twice.any():
    row = int(twice.argmax())
    raise InputError(f'{title}: row {row} names {names[row]!r} again; each image counts once.')
  return [str(path) for path in paths]
