"""Records on disk: what a classifier predicted for every row (stored image) in every view.

A view is one way of showing an image, such as fog at severity 3. The table of rows × views is cut
into shards, one `.npz` file for each block of rows × chunk of views. A shard gets its final name
when it is complete, and is never computed again. It contains a seal: its block and chunk, and
digests of the header and of its values. A file that was moved, exchanged or altered is therefore
detected. Reading needs NumPy only.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import io
import json
import operator
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from robustness.core import json_files
from robustness.core.array_files import digest_of, read_npz
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError, nearest
from robustness.core.limits import MAX_BYTES_OF_RESULTS, MAX_BYTES_PER_SHARD, MAX_ROWS, MAX_SHARDS
from robustness.core.settings import differing_keys
from robustness.core.typing import Facts
from robustness.evaluation.layout import Layout

Arrays = Mapping[str, np.ndarray]
HEADER = 'header.json'
CONFIDENCE = 'confidence'
"""The field with the probability of the predicted class."""
TOLERANCES = {'outputs_on_fixed_images': 1e-3}
"""Absolute differences between headers that are allowed, by key: outputs differ between devices
(see `robustness.classifiers.from_file`)."""
LAYOUT_KEYS = ('num_rows', 'num_views', 'block_rows', 'chunk_views')
HEADER_FORM: json_files.Form = {'layout': dict.fromkeys(LAYOUT_KEYS, int), 'identity': dict}
FORMAT = 2
"""The version of the file format; other versions are refused."""
SEAL = '_seal'
"""Name of the array with a shard's seal, JSON as uint8."""
SEAL_FORM = {'block': int, 'chunk': int, 'header_sha256': str, 'arrays_sha256': str}
PREDICTIONS = ('prediction', 'rank', 'probability', CONFIDENCE)
"""Fields with a value for every row and view; further fields of this kind have a slash in their
names."""
PICTURE, TOTAL = 'picture/', 'total/'
"""Prefixes of the names of fields that hold images of a few rows, and sums over a shard's rows."""
TIE_RANKS = RANK_FIRST, RANK_LAST = 'rank/first', 'rank/last'
"""Fields with the rank of the true class if it came before, and after, all classes with the same
score. Records of earlier versions lack them."""
MAX_BYTES_KEPT = 16 * 2**20
"""Most bytes of shards that one `Records` keeps in memory: statistics read small records often."""
MAX_TIE_RANK = 2**15 - 1
"""Ranks in `TIE_RANKS`, which are int16, are cut at this value; no top-k has a larger k."""


class NotRecordedError(InputError):
  """A field was requested that the records do not have."""


@dataclasses.dataclass(frozen=True)
class Shard:
  """Predictions for n images (rows) in v views: the part of the records that is in one file.

  A view is one way of perturbing all images, such as fog at severity 3.

  Attributes:
    rows: positions of the images among all images.
    views: positions of the views among all views.
    arrays: the fields by name. Columns of the data and `PREDICTIONS` have names without a slash;
      all other names have one.

      * Columns of the data: `example_id` [n], `label` [n] or [n, L] (padded with -1),
        `image_digest` uint32 [n], and further columns, such as `severity` [n].
      * Predictions [n, v]: `prediction` int32; `probability` float32 of the true class;
        `confidence` float32, the probability of the predicted class; and `rank` int32, the number
        of classes ranked before the true class, 0 if the prediction is right.
      * The rank with another order of classes that have the same score as the true class, int16
        [n, v]: `rank/first` with the true class before all of them, `rank/last` after all of them.
      * What the study requested, such as `layer_change/stage1` float32 [n, v] or `output/logits`
        float32 [n, v, classes].
      * `total/<name>` float64 [v, ...], sums over the n images.
      * Pictures of K of the images, which the last shard of a block may have: `picture/example_id`
        [K], `picture/view` [K] and `picture/image` uint8 [K, H, W, C] (see
        `robustness.evaluation.stored_pictures`).
  """

  rows: slice
  views: slice
  arrays: Arrays

  def __getitem__(self, name: str) -> np.ndarray:
    """Returns the array of a field, such as 'rank'.

    Raises:
      NotRecordedError: there is no such field. The message has the nearest names.
    """
    if name not in self.arrays:
      raise NotRecordedError(f'records have no field {name!r}; {nearest(name, self.arrays)}.')
    return self.arrays[name]


class RecordsReader(abc.ABC):
  """A table of predictions, images (rows) × views, that is read one shard at a time.

  A shard has consecutive images (a block) in consecutive views (a chunk).

  Attributes:
    directory: folder of the shards, for messages.
    layout: how the table is divided into shards.
    identity: settings that determine every number in the table, such as classifier, data, views and
      seed, as JSON values.
  """

  directory: pathlib.Path
  layout: Layout
  identity: Facts

  @abc.abstractmethod
  def read(self, block: int, chunk: int) -> Shard:
    """Reads a shard: the predictions for one block of images in one chunk of views.

    Args:
      block: number of the block.
      chunk: number of the chunk.

    Raises:
      InputError: the shard cannot be read.
    """

  def missing(self) -> dict[int, list[int]]:
    """Returns the shards that do not exist yet, {number of a block: numbers of its chunks}.

    By default there are none, as in records that are selected from other records.
    """
    return {}

  def shards(self) -> Iterator[Shard]:
    """Yields all shards, block by block, with only one in memory at a time."""
    for block in range(self.layout.num_blocks):
      for chunk in range(self.layout.num_chunks):
        yield self.read(block, chunk)

  def values(self, statistic: Callable[[Shard], np.ndarray]) -> np.ndarray:
    """Computes a statistic for all N images in all V views, [N, V, ...].

    Args:
      statistic: called with a shard (a file of records) of n images and v views (ways of perturbing
        images); returns values [n, v, ...].
    """
    values: np.ndarray | None = None
    for shard in self.shards():
      shard_values = np.asarray(statistic(shard))
      if values is None:
        shape = self.layout.num_rows, self.layout.num_views, *shard_values.shape[2:]
        values = np.zeros(shape, shard_values.dtype)
      values[shard.rows, shard.views] = shard_values
    assert values is not None
    return values

  def table(self, name: str) -> np.ndarray:
    """Returns a field, such as 'rank', for all N images in all V views, [N, V, ...]."""
    return self.values(operator.itemgetter(name))

  def total(self, name: str) -> np.ndarray:
    """Returns the exact sum of a field over all images, float64 [V, ...] for V views.

    Args:
      name: name of the field after 'total/'.
    """
    totals = []
    for chunk in range(self.layout.num_chunks):
      blocks = [self.read(block, chunk) for block in range(self.layout.num_blocks)]
      totals.append(sum(shard[f'{TOTAL}{name}'] for shard in blocks))
    return np.concatenate(totals)

  def column(self, name: str, view: int = 0) -> np.ndarray:
    """Returns a column of the data for all N images, such as 'label', [N, ...].

    Args:
      name: the column. A field with a value per image and view (a way of perturbing images), such
        as 'prediction', is allowed too.
      view: number of the view in which such a field is returned.

    Raises:
      NotRecordedError: the records have no such column or field.
    """
    # columns are the same in all chunks of views, so that any chunk has them
    chunk, offset = divmod(view, self.layout.chunk_views)
    shards = (self.read(block, chunk) for block in range(self.layout.num_blocks))
    if is_per_view(name):
      return np.concatenate([shard[name][:, offset] for shard in shards])
    return np.concatenate([shard[name] for shard in shards])


class Records(RecordsReader):
  """Records of predictions in a directory, which has a header and a file for each shard.

  The header states how the records are divided into shards, the classifier, the data, the views and
  the seed.
  """

  def __init__(self, directory: str | os.PathLike[str], layout: Layout, identity: Facts):
    """Opens the records in a directory, or creates the directory with a header.

    Several processes may share the directory. If the header differs and there are no shards yet,
    the header is replaced.

    Args:
      directory: folder of the header and the shards (files of records).
      layout: how the table of images × views (ways of perturbing images) is divided into shards.
      identity: settings that determine every number in the table, as JSON values.

    Raises:
      InputError: the directory has shards with another layout or identity (apart from
        `TOLERANCES`), or a header in another format.
    """
    directory = pathlib.Path(directory)
    self.directory, self.layout = directory, layout
    header = {'format': FORMAT, 'layout': dataclasses.asdict(layout), 'identity': identity}
    header = json.loads(json.dumps(header, sort_keys=True))  # as it is read: tuples become lists
    existing = _existing_header(directory, header)
    if existing is None:
      directory.mkdir(parents=True, exist_ok=True)
      write_atomically(directory / HEADER, json.dumps(header, indent=2, sort_keys=True).encode())
    self._header: Facts = existing or header
    self._cache: dict[tuple[int, int], Shard] = {}  # the first shards read, by (block, chunk)
    self._cache_bytes = 0
    self.identity = dict(self._header['identity'])

  @classmethod
  def open(cls, directory: str | os.PathLike[str]) -> Records:
    """Opens existing records by reading their header, without reading predictions.

    Args:
      directory: the folder of the records.

    Raises:
      InputError: there is no readable header.
    """
    header = _read_header(pathlib.Path(directory))
    layout = Layout(**{key: header['layout'][key] for key in LAYOUT_KEYS})
    _check_layout(pathlib.Path(directory, HEADER), layout)
    return cls(directory, layout, header['identity'])

  @property
  def begun(self) -> float:
    """The time when the header was written, before the first shard, in seconds as `time.time()`."""
    return (self.directory / HEADER).stat().st_mtime

  def path(self, block: int, chunk: int) -> pathlib.Path:
    """Returns the path of a shard's file."""
    return self.directory / f'rows{block:06d}-views{chunk:06d}.npz'

  def missing(self) -> dict[int, list[int]]:
    """Finds the shards without a file, as {block: chunks}.

    A shard has the predictions for a block of images in a chunk of views (ways of perturbing
    images). Both are numbered.
    """
    present = set(os.listdir(self.directory))
    missing: dict[int, list[int]] = {}
    for block in range(self.layout.num_blocks):
      for chunk in range(self.layout.num_chunks):
        if self.path(block, chunk).name not in present:
          missing.setdefault(block, []).append(chunk)
    return missing

  def write(self, block: int, chunk: int, arrays: Arrays, compress: bool = False) -> None:
    """Writes a shard to its file, which appears only when it is complete.

    Args:
      block: number of the block of images.
      chunk: number of the chunk of views (ways of perturbing images).
      arrays: the fields of the shard by name, see `Shard.arrays`.
      compress: whether the file is compressed.
    """
    content = io.BytesIO()
    sealed = {**arrays, SEAL: _seal(block, chunk, self._header, arrays)}
    save = np.savez_compressed if compress else np.savez
    save(content, allow_pickle=False, **sealed)
    write_atomically(self.path(block, chunk), content.getvalue())
    self._cache.clear()  # it may have the content of an earlier file
    self._cache_bytes = 0

  def read(self, block: int, chunk: int) -> Shard:
    """Reads a shard: the predictions for one block of images in one chunk of views.

    The first shards that are read stay in memory, up to `MAX_BYTES_KEPT` in all.

    Args:
      block: number of the block.
      chunk: number of the chunk.

    Raises:
      InputError: the file is missing, damaged or altered, or is the file of another shard.
    """
    if (block, chunk) in self._cache:
      return self._cache[block, chunk]
    path = self.path(block, chunk)
    if not path.exists():
      raise InputError(
        f'{path} is missing: the run is not finished. Run the same command again to compute what '
        'is missing.'
      )
    try:
      arrays = read_npz(path, max_bytes=MAX_BYTES_PER_SHARD)
      _check_seal(arrays.pop(SEAL, None), block, chunk, self._header, arrays)
      _check_shapes(self.layout, block, chunk, arrays)
    except ValueError as error:
      why = str(error).removeprefix(f'{path} ').rstrip('.')
      raise InputError(
        f'{path} cannot be read ({why}). Delete it and run the same command '
        'again: only this shard is computed again.'
      ) from error
    shard = Shard(self.layout.rows(block), self.layout.views(chunk), arrays)
    num_bytes = sum(array.nbytes for array in arrays.values())
    if self._cache_bytes + num_bytes <= MAX_BYTES_KEPT:
      self._cache[block, chunk] = shard
      self._cache_bytes += num_bytes
    return shard


class SelectedRows(RecordsReader):
  """Records of some images of other records, or of versions of images joined to one image each.

  Two runs are compared on the images that both have. And data with several versions of an image,
  such as ImageNet-C, are treated as one image in several views.
  """

  def __init__(self, records: RecordsReader, rows: np.ndarray):
    """Selects images (rows), or joins versions of an image to one image with V views.

    Args:
      records: complete records. They have a single view if versions are joined.
      rows: int [n], the positions of the selected images. To join versions: int [n, V], the
        position of version v of image i, or -1 if there is none. A prediction at -1 has no meaning.
        Other columns, such as `label`, are from the version with the highest position.
    """
    self.directory, self.identity = records.directory, records.identity
    self._records, self._rows = records, np.asarray(rows)
    block_rows = max(1, len(rows))  # all rows form one block
    self.layout = dataclasses.replace(records.layout, num_rows=len(rows), block_rows=block_rows)
    if self._rows.ndim > 1:
      count = self._rows.shape[1]
      self.layout = dataclasses.replace(self.layout, num_views=count, chunk_views=count)

  def read(self, block: int, chunk: int) -> Shard:
    """Returns the records of all selected images in one chunk of views (ways of perturbing images).

    `self._rows` are the positions of the selected images, int [n]. Or versions of an image are
    joined to one image: they are int [n, V], −1 for a version that an image lacks, and each version
    becomes a view. For a version that is lacking, −1 selects the last row; its value has no meaning
    and is not counted. Pictures are left out. So are sums, because stored sums are over all images
    of the original records.

    Args:
      block: 0, because all images form one block.
      chunk: number of the chunk.
    """
    shards = [self._records.read(b, chunk) for b in range(self._records.layout.num_blocks)]
    arrays = {}
    for name in shards[0].arrays:
      if name.startswith((TOTAL, PICTURE)):
        continue
      values = np.concatenate([shard[name] for shard in shards])  # of all rows
      joins_versions = self._rows.ndim == 2  # else single rows are selected, int [n]
      if joins_versions and is_per_view(name):
        only_view = values[:, 0]
        arrays[name] = only_view[self._rows]  # [images, views, ...]
      elif joins_versions:
        last_version = self._rows.max(1)  # −1 stands for versions that an image lacks
        arrays[name] = values[last_version]
      else:
        arrays[name] = values[self._rows]
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)

  def total(self, name: str) -> np.ndarray:
    """Raises InputError: a sum over some images does not follow from the sum over all images."""
    raise InputError(
      f'{self.directory} has {name} summed over all its images, which cannot be taken apart: '
      'compare runs on the same images.'
    )


class SelectedViews(RecordsReader):
  """Records of all images in some of the views of other records, as one chunk of views."""

  def __init__(self, records: RecordsReader, views: Sequence[int]):
    """Makes records of some views (ways of perturbing images) from complete records of all views.

    Args:
      records: the complete records.
      views: positions of the views.
    """
    self.directory, self.identity = records.directory, records.identity
    self._records, self._views = records, np.asarray(views)
    count = len(views)  # which form one chunk
    self.layout = dataclasses.replace(records.layout, num_views=count, chunk_views=count)

  def read(self, block: int, chunk: int) -> Shard:
    """Reads a block of images in the selected views, from all chunks of the complete records.

    Args:
      block: number of the block.
      chunk: 0, because all selected views form one chunk.

    Returns:
      The columns of the images and, for these views (ways of perturbing images), predictions and
      sums, without pictures.
    """
    shards = [self._records.read(block, c) for c in range(self._records.layout.num_chunks)]
    arrays = {k: v for k, v in shards[0].arrays.items() if not k.startswith(PICTURE)}
    for name in filter(is_per_view, arrays):  # columns are the same in all chunks of views
      axis = 0 if name.startswith(TOTAL) else 1
      values = np.concatenate([shard[name] for shard in shards], axis)
      arrays[name] = values.take(self._views, axis)
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)


def is_per_view(name: str) -> bool:
  """Returns whether a field has a value per image and view, such as 'rank', not one per image.

  Sums over images, such as 'total/energy', count as fields per view too.
  """
  return name in PREDICTIONS or ('/' in name and not name.startswith(PICTURE))


def _existing_header(directory: pathlib.Path, header: Facts) -> Facts | None:
  """Returns the header in a directory if it equals `header` up to `TOLERANCES`.

  Such a header must stay, because every shard states its digest. The result is None if a new header
  may be written: there is none yet, or a different one without shards (files of records).

  Raises:
    InputError: the directory has another format, or shards with a different header.
  """
  path = directory / HEADER
  if not path.exists():
    return None
  existing = _read_header(directory)
  if (version := existing.get('format')) != FORMAT:
    raise InputError(
      f'{path} is of format {version!r}, and this version reads format {FORMAT}: use the '
      'version that wrote it, or another workdir.'
    )
  differences = differing_keys(existing, header, tolerances=TOLERANCES)
  if not differences:
    return existing
  if any(directory.glob('*.npz')):
    raise InputError(
      f'{directory} holds records of something else. Differences:\n  '
      + '\n  '.join(differences)
      + '\nUse another workdir, or delete that folder.'
    )
  return None


def _read_header(directory: pathlib.Path) -> Facts:
  """Reads the header of a directory of records.

  Raises:
    InputError: the header is missing or unreadable.
  """
  advice = f'Delete {directory}: the command of the run computes it again.'
  header: Facts = json_files.read(directory / HEADER, HEADER_FORM, advice, MAX_BYTES_OF_RESULTS)
  return header


def _check_layout(path: pathlib.Path, layout: Layout) -> None:
  """Raises InputError if a header states more images, views or shards than records may have.

  Arrays of the stated sizes are allocated only after this check.

  Args:
    path: the header's file, for the message.
    layout: the layout that the header states.
  """
  for name, value in vars(layout).items():
    if not 1 <= value <= MAX_ROWS:
      raise InputError(f'{path}: layout.{name} is {value}; it must be in [1, {MAX_ROWS}].')
  shards = layout.num_blocks * layout.num_chunks
  if shards > MAX_SHARDS:
    raise InputError(f'{path} states {shards:,} shards; records have at most {MAX_SHARDS:,}.')


def _check_shapes(layout: Layout, block: int, chunk: int, arrays: Arrays) -> None:
  """Raises ValueError if an array of a shard has another number of images or views.

  Columns have an axis of images, `total/` arrays an axis of views (ways of perturbing images), and
  predictions and other fields both. All arrays of pictures must have the same number of entries.

  Args:
    layout: how the records are divided into shards (files of records).
    block: number of the shard's block of images.
    chunk: number of the shard's chunk of views.
    arrays: the fields of the shard by name.
  """
  rows, views = layout.rows(block), layout.views(chunk)
  num_rows, num_views = rows.stop - rows.start, views.stop - views.start
  for name, values in arrays.items():
    expected: tuple[int, ...] = (num_rows,)
    if name.startswith(TOTAL):
      expected = (num_views,)
    elif name.startswith(PICTURE):
      expected = arrays.get(f'{PICTURE}view', values).shape[:1]  # the number of pictures
    elif is_per_view(name):
      expected = (num_rows, num_views)
    if values.shape[: len(expected)] != expected:
      raise ValueError(f'{name} has the shape {values.shape}; it must begin with {expected}')


def _seal(block: int, chunk: int, header: Facts, arrays: Arrays) -> np.ndarray:
  """Returns an array that is stored in a shard to detect that its file was moved or altered.

  The array, called seal, is JSON text as uint8. It has the numbers of the shard's block and chunk
  and the SHA-256 digests of the header and of the arrays.

  Args:
    block: number of the block of images.
    chunk: number of the chunk of views (ways of perturbing images).
    header: the header of the records.
    arrays: the fields of the shard by name.
  """
  facts = {
    'block': block,
    'chunk': chunk,
    'header_sha256': header_digest(header),
    'arrays_sha256': digest_of(arrays),
  }
  return np.frombuffer(json.dumps(facts).encode(), np.uint8)


def _check_seal(
  sealed: np.ndarray | None, block: int, chunk: int, header: Facts, arrays: Arrays
) -> None:
  """Raises ValueError, with the reason, if the file of a shard was moved or altered.

  Args:
    sealed: the array from `_seal` in the file; None if the file has none.
    block: number of the block of images that the file should have.
    chunk: number of the chunk of views (ways of perturbing images) that the file should have.
    header: the header of the records.
    arrays: the other arrays in the file.
  """
  if sealed is None:
    raise ValueError('it has no seal: another program wrote it')
  facts = json_files.parse(sealed.tobytes(), 'its seal', SEAL_FORM)
  if (facts['block'], facts['chunk']) != (block, chunk):
    place = f'row block {facts["block"]}, view chunk {facts["chunk"]}'
    raise ValueError(f'it is a copy of the shard of {place}')
  if facts['header_sha256'] != header_digest(header):
    raise ValueError('it belongs to other records: its header has another digest')
  if facts['arrays_sha256'] != digest_of(arrays):
    raise ValueError('its values were altered: they have another digest than its seal')


def header_digest(header: Facts) -> str:
  """Returns the SHA-256 of JSON values, independent of the order of their keys."""
  return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
