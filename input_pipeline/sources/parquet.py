"""Source `parquet`: files in which the Hugging Face Hub stores images.

They have a column of encoded images, a label, and any further columns. `path` is a file or a
folder of shards with the split in their names, such as `data/train-00000-of-00014.parquet` or
`<config>/<split>/0000.parquet`. The images are the column `image` or `img`, or the only one with
bytes: `struct<bytes, path>` or binary. The label is the column `label_column`, else the first
column with a usual name of labels. Class names come from the Hub's features in the file's metadata,
or from `label_space`, such as 'imagenet'. `example_id` is the row number over all shards.

Images of up to 1 GiB are read at once. Larger sets are streamed by row group and shuffled for
training in windows of several row groups. The order of an epoch depends only on the seed and the
epoch, and a resumed training skips row groups that it does not need.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from input_pipeline import shards
from input_pipeline.images import Images, MemoryStore, StreamedStore
from input_pipeline.settings import DataSettings
from robustness.core import json_files
from robustness.core.errors import KEYS, InputError
from robustness.core.limits import MAX_BYTES_PER_ARRAY

if TYPE_CHECKING:
  import pyarrow as pa
  import pyarrow.parquet as pq
  import tensorflow as tf

IMAGES = ('image', 'img')
"""Usual names of the column of images."""
MAX_BYTES_IN_MEMORY = 2**30
"""Largest uncompressed size of all row groups at which images are kept in memory."""
WINDOW = 4
"""Number of row groups within which rows are shuffled together."""
AT_ONCE = 256
"""Number of rows that are read, and passed to tf.data, together."""


class Parquet(shards.Shards):
  """Parquet files with a column of encoded images, as on Hugging Face."""

  name = 'parquet'

  def open(self, settings: DataSettings) -> Images:
    """Returns the images of the split, which are read on demand if they are large.

    Labels and further columns are read into memory immediately.

    Raises:
      InputError: files are damaged or belong to different data sets, or labels or images are
        missing.
    """
    left_out = Counter[str]()
    files = self.shards('.parquet', settings.split, left_out)
    opened_files = [_opened(file) for file in files]
    schema = opened_files[0].schema_arrow
    shards.refuse_repeated_columns(schema.names, str(files[0]))
    shards.check_num_rows(sum(opened.metadata.num_rows for opened in opened_files), self.path)
    image_column = _image_column(schema, files[0])
    other_columns = [name for name in schema.names if name != image_column]
    label_column = shards.label_column(other_columns, self.label_column)
    title = f'parquet {self.path!r}, split {settings.split!r}'
    stored_names = _class_names(schema, label_column, files[0])
    names = self.names_of_space(stored_names, title)
    tables = []
    for file, opened in zip(files, opened_files, strict=True):
      if opened.schema_arrow.names != schema.names:
        raise InputError(f'{file} has other columns than {files[0]}: give shards of one data set.')
      if _class_names(opened.schema_arrow, label_column, file) != stored_names:
        problem = f'{file} has other names of classes than {files[0]}'
        raise InputError(f'{problem}: give the folder of one config.')
      with _naming(file):
        tables.append(opened.read(other_columns).to_pandas())
    table = pd.concat(tables, ignore_index=True)
    key = self.key('label_column')
    labels, class_names = shards.labels_of(table, self.label_column, names, title, key)
    store = ParquetStore(tuple(map(str, files)), image_column, labels)
    is_small = store.stored_bytes <= MAX_BYTES_IN_MEMORY
    return shards.encoded_images(
      MemoryStore(store.all(), labels) if is_small else store,
      class_names,
      title,
      self.description(settings.split, len(files)),
      columns=shards.columns_of(table, (self.label_column, 'label'), left_out),
      left_out=left_out,
    )


@dataclasses.dataclass(frozen=True)
class ParquetStore(StreamedStore):
  """Encoded images in a column of Parquet files, read one row group (block of rows) at a time.

  Attributes:
    files: paths of the files, in order.
    column: name of the column with encoded images.
    labels: labels of all N rows, int32 [N].
  """

  files: tuple[str, ...]
  column: str
  labels: np.ndarray

  @functools.cached_property
  def _row_groups(self) -> list[tuple[Path, int, Any]]:
    """The row groups (blocks of rows) of all files: file, index in the file, and metadata."""
    groups = []
    for file in map(Path, self.files):
      metadata = _opened(file).metadata
      groups += [(file, n, metadata.row_group(n)) for n in range(metadata.num_row_groups)]
    return groups

  @functools.cached_property
  def _starts(self) -> np.ndarray:
    """The first row of each row group, and finally the number of rows, int64 [groups + 1]."""
    counts = [metadata.num_rows for _, _, metadata in self._row_groups]
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

  @property
  def stored_bytes(self) -> int:
    """Uncompressed size of all row groups in bytes."""
    return sum(metadata.total_byte_size for _, _, metadata in self._row_groups)

  def read_group(self, group: int) -> list[bytes]:
    """Reads the encoded images of a row group (block of rows).

    Args:
      group: index of the row group, counted over all files.

    Raises:
      InputError: a row has no image bytes, the file is damaged, or the images are too large.
    """
    import pyarrow as pa

    file, number, _ = self._row_groups[group]
    images: list[bytes] = []
    num_bytes = 0
    with _naming(file):
      for batch in _opened(file).iter_batches(AT_ONCE, row_groups=[number], columns=[self.column]):
        column = batch.column(0)  # the only one that is read
        if pa.types.is_struct(column.type):  # of image bytes and file name
          column = column.field('bytes')
        if column.null_count:
          row = len(images) + column.is_null().to_pylist().index(True)
          problem = f'{file}: row {row} of row group {number} has no bytes of an image'
          fix = f"files that lie beside it are read with {KEYS.data.source}='file_list'."
          raise InputError(f'{problem}; {fix}')
        images_of_batch = column.to_pylist()
        images += images_of_batch
        num_bytes += sum(map(len, images_of_batch))
        if num_bytes > MAX_BYTES_PER_ARRAY:  # of a small file, if it stores many equal images once
          limit = f'the limit of {MAX_BYTES_PER_ARRAY / 2**30:.0f} GiB'
          problem = f'{file}: the images of row group {number} are above {limit}'
          raise InputError(f'{problem}: store it again in smaller row groups.')
    return images

  def all(self) -> np.ndarray:
    """Reads the encoded images of all N rows, as an object array [N] of bytes."""
    groups = map(self.read_group, range(len(self._row_groups)))
    return np.array([*itertools.chain.from_iterable(groups)], object)

  @functools.cached_property
  def _group(self) -> Callable[[int], list[bytes]]:
    """The method `read_group`, with a cache of the last `WINDOW` row groups."""
    return functools.lru_cache(maxsize=WINDOW)(self.read_group)

  def _encoded(self, index: int) -> bytes:
    """Returns the encoded image of a row."""
    group = int(np.searchsorted(self._starts, index, side='right')) - 1
    return self._group(group)[index - int(self._starts[group])]

  def host_element(self, index: int) -> tuple[bytes, np.ndarray]:
    """Returns the encoded image and the label of row `index`."""
    return self._encoded(index), self.labels[index]

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the encoded images and labels of some rows, as a data set.

    Args:
      indices: int64 [n], distinct and ascending.
    """
    return self._read(lambda: iter([np.asarray(indices, np.int64)]))

  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """Returns encoded images and labels in shuffled epochs, without end.

    Because files are read by row group (block of rows), the row groups are shuffled in each epoch,
    and rows are shuffled within windows of `WINDOW` row groups.

    Args:
      indices: indices of the rows in an epoch.
      seed: seed of the order.
      start: how many elements of the sequence to skip.
    """
    indices = np.asarray(indices, np.int64)
    first_epoch, offset = divmod(start, len(indices))

    def windows() -> Iterator[np.ndarray]:
      """Yields shuffled row indices from element `start` on, an array for each few row groups.

      Epochs follow one another without an end. `offset` elements of the first one are skipped.
      """
      num_to_skip = offset  # indices of the first epoch that come before `start`
      for epoch in itertools.count(first_epoch):
        for window in self._epoch(indices, seed, epoch):
          if num_to_skip < len(window):
            yield window[num_to_skip:]
          num_to_skip = max(0, num_to_skip - len(window))

    return self._read(windows)

  def _epoch(self, indices: np.ndarray, seed: int, epoch: int) -> Iterator[np.ndarray]:
    """Yields the row indices of an epoch, a shuffled window at a time."""
    rng = np.random.default_rng((seed, epoch))
    groups = np.searchsorted(self._starts, indices, side='right') - 1  # the row group of each index
    order = rng.permutation(np.unique(groups))
    for begin in range(0, len(order), WINDOW):
      yield rng.permutation(indices[np.isin(groups, order[begin : begin + WINDOW])])

  def _read(self, windows: Callable[[], Iterator[np.ndarray]]) -> tf.data.Dataset:
    """Returns the encoded images and labels of rows in a given order, as a data set.

    Args:
      windows: called without arguments; yields arrays of row indices, int64 [w].
    """
    import tensorflow as tf

    def elements() -> Iterator[dict[str, Any]]:
      """Yields ids, labels and encoded images of rows, at most `AT_ONCE` rows at a time.

      `windows` yields arrays of row indices in the order to read.
      """
      for window in windows():
        for begin in range(0, len(window), AT_ONCE):
          ids = window[begin : begin + AT_ONCE]
          stored = np.array([self._encoded(index) for index in ids.tolist()], object)
          yield {'example_id': ids, 'label': self.labels[ids], 'stored': stored}

    kinds = {'example_id': tf.int64, 'label': tf.int32, 'stored': tf.string}
    signature = {name: tf.TensorSpec((None,), kind) for name, kind in kinds.items()}
    return tf.data.Dataset.from_generator(elements, output_signature=signature).unbatch()


@contextlib.contextmanager
def _naming(file: Path) -> Iterator[None]:
  """A context manager that turns errors of reading `file` into InputErrors that name the file."""
  import pyarrow as pa

  try:
    yield
  except InputError:  # it is a ValueError, and names the file already
    raise
  except (OSError, ValueError, pa.ArrowException) as error:
    raise InputError(f'{file} is truncated or no Parquet file: {error}.') from error


def _opened(file: Path) -> pq.ParquetFile:
  """Opens a Parquet file; raises InputError if it is damaged."""
  import pyarrow.parquet as pq

  with _naming(file):
    return pq.ParquetFile(file)


def _image_column(schema: pa.Schema, file: Path) -> str:
  """Returns the name of the column with encoded images.

  This is the column 'image' or 'img' if it holds bytes, otherwise the only column of bytes.

  Args:
    schema: schema of the file.
    file: path of the file, for messages.

  Raises:
    InputError: no column or several columns qualify.
  """
  import pyarrow as pa

  def holds_bytes(dtype: pa.DataType) -> bool:
    """Returns whether a type is bytes, or a struct with a field `bytes` as on Hugging Face."""
    if pa.types.is_struct(dtype):
      return bool(dtype.get_field_index('bytes') >= 0)  # −1 without such a field
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype))

  columns_of_bytes = [field.name for field in schema if holds_bytes(field.type)]
  candidates = [name for name in IMAGES if name in columns_of_bytes] or columns_of_bytes
  if len(candidates) != 1:
    columns = ', '.join(f'{field.name} ({field.type})' for field in schema)
    problem = f'{file}: one column of encoded images is expected, called image or img'
    raise InputError(f'{problem}; it has {columns}.')
  return candidates[0]


def _class_names(schema: pa.Schema, column: str, file: Path) -> Sequence[str]:
  """Returns the class names of a label column, from Hugging Face's metadata; () if none.

  Args:
    schema: schema of the file.
    column: name of the column with labels.
    file: path of the file, for messages.
  """
  content = (schema.metadata or {}).get(b'huggingface') or b'{}'
  form = {'info?': {'features?': {f'{column}?': {'names?': [str]}}}}
  metadata = json_files.parse(content, f"the metadata 'huggingface' of {file}", form)
  return tuple(metadata.get('info', {}).get('features', {}).get(column, {}).get('names', ()))
