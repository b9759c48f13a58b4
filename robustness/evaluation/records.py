"""Records on disk: what a classifier predicted for every row in every view, one file a shard.

A shard holds a block of rows × a chunk of views. It is renamed when it is whole, and a finished
shard is never computed again. Its seal, its place and digests of the header and of its values,
refuses a file that was moved, exchanged or altered. Numpy is all that reading needs.
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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from robustness.core import json_files
from robustness.core.array_files import digest_of, read_npz
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError, nearest
from robustness.core.limits import MAX_BYTES_OF_RESULTS, MAX_BYTES_PER_SHARD, MAX_ROWS, MAX_SHARDS
from robustness.core.settings import differing_keys
from robustness.core.typing import Facts

Arrays = Mapping[str, np.ndarray]
HEADER = 'header.json'
CONFIDENCE = 'confidence'
TOLERANCES = {'outputs_on_fixed_images': 1e-3}
"""The differences between devices that `robustness.classifiers.from_file` allows."""
LAYOUT_KEYS = ('num_rows', 'num_views', 'block_rows', 'chunk_views')
HEADER_FORM: json_files.Form = {'layout': dict.fromkeys(LAYOUT_KEYS, int), 'identity': dict}
FORMAT = 2
"""The version of the format of shards."""
SEAL = '_seal'
SEAL_FORM = {'block': int, 'chunk': int, 'header_sha256': str, 'arrays_sha256': str}
PREDICTIONS = ('prediction', 'rank', 'probability', CONFIDENCE)
"""Fields of every row and view; further fields of this kind have a slash in their names."""
PICTURE, TOTAL = 'picture/', 'total/'
"""Prefixes of fields of a few rows of a block, and of sums over a shard's rows."""
PLACES_OF_TIES = FIRST_PLACE, LAST_PLACE = 'rank/first', 'rank/last'
"""Ranks of the true class before, and after, all others with its score; records of earlier versions
lack them."""
MAX_PLACE = 2**15 - 1
"""The largest rank of `PLACES_OF_TIES`, which are int16: no k is larger."""


class NotRecordedError(InputError):
  """A field is needed that records do not have."""


@dataclasses.dataclass(frozen=True)
class Layout:
  """How a table of rows × views is cut into shards; the last ones are smaller."""

  num_rows: int
  num_views: int
  block_rows: int
  chunk_views: int

  @property
  def num_blocks(self) -> int:
    """Number of row blocks."""
    return -(-self.num_rows // self.block_rows)

  @property
  def num_chunks(self) -> int:
    """Number of view chunks."""
    return -(-self.num_views // self.chunk_views)

  def rows(self, block: int) -> slice[int, int]:
    """Rows of a block."""
    return slice(block * self.block_rows, min((block + 1) * self.block_rows, self.num_rows))

  def views(self, chunk: int) -> slice[int, int]:
    """Views of a chunk."""
    return slice(chunk * self.chunk_views, min((chunk + 1) * self.chunk_views, self.num_views))

  def size(self, block: int, chunk: int) -> int:
    """Rows × views of a shard."""
    rows, views = self.rows(block), self.views(chunk)
    return (rows.stop - rows.start) * (views.stop - views.start)

  def share(self, process: int, processes: int) -> dict[int, range]:
    """Returns {block: chunks} that a process computes: whole blocks if there are enough of them."""
    if self.num_blocks >= processes:
      chunks = {True: range(self.num_chunks), False: range(0)}
      return {b: chunks[b % processes == process] for b in range(self.num_blocks)}
    return {
      b: range((process - b) % processes, self.num_chunks, processes)
      for b in range(self.num_blocks)
    }


@dataclasses.dataclass(frozen=True)
class Shard:
  """One block of n rows × one chunk of v views.

  Attributes:
    rows, views: the place of the shard in the table.
    arrays: of the rows `example_id` [n], `label` [n] or [n, L] (padded with -1), `image_digest`
      uint32 [n] and the columns that their data have, such as `severity` [n]; for every row and
      view [n, v]: `prediction` int32, `rank` int32 (classes scored above the true one: 0 is top-1
      right), `rank/first` and `rank/last` int16 (before and after all classes with its score),
      `probability` float32 of the true class, `confidence` float32 of the predicted one (20 bytes a
      row and view in all), and what the study asked for, such as `layer_change/stage1` float32 or
      `output/logits` float32 [n, v, classes]. Columns of rows have no slash in their names.
      `total/<name>` float64 [v, ...] is summed over the n rows. The last shard of a block may have
      pictures of K of its rows: `picture/example_id` [K], `picture/view` [K] and `picture/image`
      uint8 [K, H, W, C] (`robustness.evaluation.stored_pictures`).
  """

  rows: slice
  views: slice
  arrays: Arrays

  def __getitem__(self, name: str) -> np.ndarray:
    """Returns one array; raises NotRecordedError naming those there are if it is not recorded."""
    if name not in self.arrays:
      raise NotRecordedError(f'records have no field {name!r}; {nearest(name, self.arrays)}.')
    return self.arrays[name]


class RecordsReader(abc.ABC):
  """Rows × views that are read shard by shard, from a directory or a selection of its rows.

  Attributes:
    directory: of the shards, for messages.
    layout: how the table is cut.
    identity: plain values that fix every number in the table (classifier, data, views, seed).
  """

  directory: pathlib.Path
  layout: Layout
  identity: Facts

  @abc.abstractmethod
  def read(self, block: int, chunk: int) -> Shard:
    """Returns a shard; raises InputError where it cannot be read."""

  def missing(self) -> dict[int, list[int]]:
    """Returns {block: chunks that cannot be read yet}."""
    return {}

  def shards(self) -> Iterator[Shard]:
    """Yields all shards, row block by row block; memory holds one at a time."""
    for block in range(self.layout.num_blocks):
      for chunk in range(self.layout.num_chunks):
        yield self.read(block, chunk)

  def values(self, statistic: Callable[[Shard], np.ndarray]) -> np.ndarray:
    """Returns `statistic(shard)` [n, v, ...] of all rows in all views [N, V, ...], in memory."""
    values: np.ndarray | None = None
    for shard in self.shards():
      part = np.asarray(statistic(shard))
      if values is None:
        shape = self.layout.num_rows, self.layout.num_views, *part.shape[2:]
        values = np.zeros(shape, part.dtype)
      values[shard.rows, shard.views] = part
    assert values is not None
    return values

  def table(self, name: str) -> np.ndarray:
    """Returns one field of all rows in all views [N, V, ...], in memory."""
    return self.values(operator.itemgetter(name))

  def total(self, name: str) -> np.ndarray:
    """Returns `total/<name>` of all rows, float64 [V, ...]; exact, so the order is free."""
    key, blocks, chunks = f'{TOTAL}{name}', self.layout.num_blocks, self.layout.num_chunks
    return np.concatenate([sum(self.read(b, c)[key] for b in range(blocks)) for c in range(chunks)])

  def column(self, name: str, view: int = 0) -> np.ndarray:
    """Returns a field in one view [N, ...] or a column of rows; raises InputError without it."""
    chunk, offset = divmod(view, self.layout.chunk_views)
    shards = [self.read(block, chunk) for block in range(self.layout.num_blocks)]
    if name not in shards[0].arrays:
      fix = nearest(name, shards[0].arrays)
      raise InputError(f'{self.directory} has no column {name!r}; {fix}.')
    per_view = is_of_views(name)
    return np.concatenate([s[name][:, offset] if per_view else s[name] for s in shards])


class Records(RecordsReader):
  """A directory of shards with a header that says what they are records of."""

  def __init__(self, directory: str | os.PathLike[str], layout: Layout, identity: Facts):
    """Opens or begins records in a directory, which several processes may share.

    Raises:
      InputError: the directory holds shards of something else, or its header is of another format.
    """
    directory = pathlib.Path(directory)
    self.directory, self.layout = directory, layout
    header: dict[str, Any] = {
      'format': FORMAT,
      'layout': dataclasses.asdict(layout),
      'identity': identity,
    }
    header = json.loads(json.dumps(header, sort_keys=True))
    path = directory / HEADER
    before = _read_header(directory) if path.exists() else None
    if before is not None:
      if (version := before.get('format')) != FORMAT:
        raise InputError(
          f'{path} is of format {version!r}, and this version reads format {FORMAT}: use the '
          'version that wrote it, or another workdir.'
        )
      lines = differing_keys(before, header, tolerances=TOLERANCES)
      if lines and any(directory.glob('*.npz')):
        raise InputError(
          f'{directory} holds records of something else. Differences:\n  '
          + '\n  '.join(lines)
          + '\nUse another workdir, or delete that folder.'
        )
      before = None if lines else before
    if before is None:
      directory.mkdir(parents=True, exist_ok=True)
      write_atomically(path, json.dumps(header, indent=2, sort_keys=True).encode())
    self._header = before or header
    self.identity = dict(self._header['identity'])

  @classmethod
  def open(cls, directory: str | os.PathLike[str]) -> Records:
    """Opens existing records for reading; raises InputError for none, or an unreadable header."""
    directory = pathlib.Path(directory)
    header = _read_header(directory)
    _check_layout(directory / HEADER, header['layout'])
    try:
      return cls(directory, Layout(**header['layout']), header['identity'])
    except (KeyError, TypeError) as error:
      raise InputError(f'{directory / HEADER} is no header of records ({error!r}).') from error

  def path(self, block: int, chunk: int) -> pathlib.Path:
    """File of a shard."""
    return self.directory / f'rows{block:06d}-views{chunk:06d}.npz'

  def missing(self) -> dict[int, list[int]]:
    """Returns {block: chunks not yet on disk}, blocks without a missing chunk left out."""
    present = set(os.listdir(self.directory))
    table = {
      block: [
        chunk
        for chunk in range(self.layout.num_chunks)
        if self.path(block, chunk).name not in present
      ]
      for block in range(self.layout.num_blocks)
    }
    return {block: chunks for block, chunks in table.items() if chunks}

  def write(self, block: int, chunk: int, arrays: Arrays, compress: bool = False) -> None:
    """Writes a shard atomically."""
    path, content = self.path(block, chunk), io.BytesIO()
    sealed = {**arrays, SEAL: _seal(block, chunk, self._header, arrays)}
    (np.savez_compressed if compress else np.savez)(content, allow_pickle=False, **sealed)
    write_atomically(path, content.getvalue())

  def read(self, block: int, chunk: int) -> Shard:
    """Reads a shard; raises InputError if it is missing or damaged, or its seal is another's."""
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
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)


class SelectedRows(RecordsReader):
  """Records of chosen rows in one block, so that two runs agree row by row, or rows that are
  versions of one image are its views."""

  def __init__(self, records: RecordsReader, rows: np.ndarray):
    """Opens a selection.

    Args:
      records: complete.
      rows: [n] places among their rows; or of records with a single view [n, V], the rows that show
        each of n images in V views, -1 where none does: the columns of an image, such as `label`,
        are then taken from its last row, and its prediction in such a view means nothing.
    """
    layout = records.layout
    self.directory, self.identity = records.directory, records.identity
    self._records, self._rows = records, np.asarray(rows)
    views = self._rows.shape[1:] * 2 or (layout.num_views, layout.chunk_views)
    self.layout = Layout(len(rows), views[0], max(1, len(rows)), views[1])

  def read(self, block: int, chunk: int) -> Shard:
    """Returns the chosen rows of a chunk of views, without totals, which are over all rows."""
    shards = [self._records.read(b, chunk) for b in range(self._records.layout.num_blocks)]
    arrays = {}
    for name in [name for name in shards[0].arrays if not name.startswith((TOTAL, PICTURE))]:
      values, places = np.concatenate([shard[name] for shard in shards]), self._rows
      if places.ndim > 1:
        values, places = (values[:, 0], places) if is_of_views(name) else (values, places.max(1))
      arrays[name] = values[places]
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)

  def total(self, name: str) -> np.ndarray:
    """Raises InputError: sums over all rows say nothing of some."""
    raise InputError(
      f'{self.directory} has {name} summed over all its images, which cannot be taken apart: '
      'compare runs on the same images.'
    )


def is_of_views(name: str) -> bool:
  """Whether a field is kept of every row in every view; else it is a column of the rows."""
  return name in PREDICTIONS or ('/' in name and not name.startswith(PICTURE))


def _read_header(directory: pathlib.Path) -> Facts:
  path = directory / HEADER
  if not path.exists():
    raise InputError(f'no records in {directory}: {HEADER} is missing.')
  advice = f'Delete {directory}: the command of the run computes it again.'
  header: Facts = json_files.read(path, HEADER_FORM, advice, MAX_BYTES_OF_RESULTS)
  return header


def _check_layout(path: pathlib.Path, layout: Mapping[str, int]) -> None:
  """Raises InputError for numbers that no records have, before an array of such a size is made."""
  for name in LAYOUT_KEYS:
    if not 1 <= layout[name] <= MAX_ROWS:
      raise InputError(f'{path}: layout.{name} is {layout[name]}; it must be in [1, {MAX_ROWS}].')
  blocks = -(-layout['num_rows'] // layout['block_rows'])
  shards = blocks * -(-layout['num_views'] // layout['chunk_views'])
  if shards > MAX_SHARDS:
    raise InputError(f'{path} states {shards:,} shards; records have at most {MAX_SHARDS:,}.')


def _check_shapes(layout: Layout, block: int, chunk: int, arrays: Arrays) -> None:
  """Raises ValueError unless arrays have the rows and views of their shard."""
  rows, views = layout.rows(block), layout.views(chunk)
  size = rows.stop - rows.start, views.stop - views.start
  for name, values in arrays.items():
    expected = size if is_of_views(name) else size[:1]
    expected = size[1:] if name.startswith(TOTAL) else expected
    if name.startswith(PICTURE):
      expected = arrays.get(f'{PICTURE}view', values).shape[:1]
    if values.shape[: len(expected)] != expected:
      raise ValueError(f'{name} has the shape {values.shape}; it must begin with {expected}')


def _seal(block: int, chunk: int, header: Facts, arrays: Arrays) -> np.ndarray:
  """Returns the seal of the shard at a place as JSON, uint8 [bytes]."""
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
  """Raises ValueError saying what is wrong unless `sealed` is the seal of all that follows."""
  if sealed is None:
    raise ValueError('it has no seal: another program wrote it')
  facts = json_files.parse(sealed.tobytes(), 'its seal', SEAL_FORM)
  place = facts['block'], facts['chunk']
  if place != (block, chunk):
    raise ValueError(f'it is a copy of the shard of row block {place[0]}, view chunk {place[1]}')
  if facts['header_sha256'] != header_digest(header):
    raise ValueError('it belongs to other records: its header has another digest')
  if facts['arrays_sha256'] != digest_of(arrays):
    raise ValueError('its values were altered: they have another digest than its seal')


def header_digest(header: Facts) -> str:
  """Returns the SHA-256 of plain values, whatever the order of their keys."""
  return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
