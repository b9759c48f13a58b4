"""WebDataset shards: tar files whose adjacent members are the parts of one sample.

`config.data.path` is a tar file, a folder of them, or a pattern such as `x-{000000..000009}.tar`.
A sample's members share the path up to the first dot of their last part; the rest is the field. The
image is the field `jpg`, `jpeg`, `png`, `webp` or `bmp`; the label is the field `cls`, a number, or
the key `config.data.name` of the field `json`, a number or a name, whose other numbers and words
are columns of the rows. `pkl` and `pth` are never read. `classnames.txt` beside the shards, one
name a line, or `config.data.label_space` names numbered classes. `example_id` is the sample over
all shards.

Opening reads the headers of all members. Images are then read at their offsets, in any order.
"""

import dataclasses
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from input_pipeline import shards
from input_pipeline.images import Images, PartsStore
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import require

IMAGE_FIELDS = ('jpg', 'jpeg', 'png', 'webp', 'bmp')
LABEL, METADATA = 'cls', 'json'


@dataclasses.dataclass(frozen=True)
class _Member:
  """Where a file lies in a shard, bytes."""

  shard: Path
  offset: int
  size: int

  def read(self) -> bytes:
    with self.shard.open('rb') as file:
      file.seek(self.offset)
      data = file.read(self.size)
    if len(data) < self.size:
      raise InputError(f'{self.shard} is truncated: it has changed since it was opened.')
    return data


class WebDataset(Source):
  """Tar files of samples."""

  name = 'webdataset'

  def open(self, settings: DataSettings) -> Images:
    """See `Source`."""
    if files := _expand(settings.path):
      files = shards.of_split(files, files[0].parent, settings.split, settings.path)
    else:
      files = shards.shards_in(settings, '.tar')
    samples = [sample for file in files for sample in _samples(file)]
    title = f'webdataset {settings.path!r}'
    if not samples:
      raise InputError(f'{title}: its {len(files)} shards hold no sample with an image.')
    images = [_image(key, fields) for key, fields in samples]
    table = pd.DataFrame([_known(key, fields) for key, fields in samples])
    names_file = files[0].parent / 'classnames.txt'
    listed = names_file.read_text('utf-8-sig').rstrip().splitlines() if names_file.is_file() else ()
    require('' not in listed, f'a name in {names_file}', '', 'a word: each line names a class')
    names = shards.names_of_space(settings, listed, title)
    labels, class_names = shards.labels_of(table, settings.name, names, title)
    return shards.encoded_images(
      PartsStore(lambda part, index: images[index].read(), labels),
      class_names,
      title,
      {
        'path': settings.path,
        'split': settings.split,
        'shards': len(files),
        'label_column': settings.name,
      },
      num_examples=len(samples),
      columns=shards.columns_of(table, (settings.name,)),
      where=lambda index: f'{images[index].shard}, sample {samples[index][0]!r}',
    )


def _expand(path: str) -> list[Path]:
  """Returns the shards that a pattern with one range in braces names; [] of another path."""
  match = re.fullmatch(r'(.*)\{(\d+)\.\.(\d+)\}(.*)', path)
  if not match:
    return []
  before, low, high, after = match.groups()
  numbers = range(int(low), int(high) + 1)
  files = [expanded(f'{before}{number:0{len(low)}}{after}') for number in numbers]
  missing = [file for file in files if not file.is_file()]
  if missing or not files:
    first = f', first {missing[0]}' if missing else ''
    raise InputError(
      f'config.data.path is {path!r}: {len(missing)} of {len(files)} shards are not there{first}.'
    )
  return files


def _samples(shard: Path) -> Iterator[tuple[str, dict[str, _Member]]]:
  """Yields key and fields of the samples of a shard that have an image."""
  key, fields, seen = '', dict[str, _Member](), set[str]()
  try:
    with tarfile.open(shard, 'r:') as archive:
      for member in archive:
        folder, slash, name = member.name.rpartition('/')
        stem, _, field = name.partition('.')
        if not member.isfile() or not stem:
          continue
        if f'{folder}{slash}{stem}' != key:
          if _has_image(shard, key, fields):
            yield key, fields
          key, fields = f'{folder}{slash}{stem}', {}
          if key in seen:
            raise InputError(f'{shard}: the sample {key!r} comes again; each counts once.')
          seen.add(key)
        if field.lower() in fields:
          raise InputError(f'{shard}: the sample {key!r} has two members {field.lower()!r}.')
        fields[field.lower()] = _Member(shard, member.offset_data, member.size)
      if shard.stat().st_size < archive.offset + tarfile.BLOCKSIZE:  # a block of zeros ends it
        raise tarfile.ReadError('it has no end')
  except (tarfile.TarError, OSError) as error:
    raise InputError(f'{shard} is truncated or no plain tar file: {error}.') from error
  if _has_image(shard, key, fields):
    yield key, fields


def _has_image(shard: Path, key: str, fields: dict[str, _Member]) -> bool:
  """Whether a sample has an image; one that has a label alone is refused."""
  has = bool(fields.keys() & {*IMAGE_FIELDS})
  if not has and fields.keys() & {LABEL, METADATA}:
    raise InputError(
      f'{shard}: the sample {key!r} has the fields {", ".join(sorted(fields))} and no image, a '
      f'field called {", ".join(IMAGE_FIELDS)}: store the shard again, of such pictures.'
    )
  return has


def _image(key: str, fields: dict[str, _Member]) -> _Member:
  [member, *others] = [fields[name] for name in IMAGE_FIELDS if name in fields]
  if others:
    raise InputError(f'{member.shard}: the sample {key!r} has several images.')
  return member


def _known(key: str, fields: dict[str, _Member]) -> dict[str, Any]:
  """Returns what a sample says beside its image."""
  known: dict[str, Any] = {}
  for name, parse in ((METADATA, json.loads), (LABEL, int)):
    if name not in fields:
      continue
    text = fields[name].read()
    try:
      value = parse(text)
    except ValueError as error:
      raise InputError(
        f'{fields[name].shard}: {key}.{name} is {text[:40]!r}, which is no '
        f'{"JSON" if name == METADATA else "number"}.'
      ) from error
    known.update({'label': value} if name == LABEL else value if isinstance(value, dict) else {})
  return known
