"""Source `webdataset`: tar files in which consecutive members are the fields of one sample.

`path` is a tar file, a folder of them, or a pattern such as `x-{000000..000009}.tar`. The path of a
member up to the first dot of its name is the sample's key, and the rest is the field: `a/b.jpg` and
`a/b.cls` are the fields `jpg` and `cls` of the sample `a/b`. If all image fields of a key have
dots, as in `a.v2.jpg` and `a.v2.cls`, the key ends at the last dot instead.

The image is the field named by the suffix of a picture, such as `jpg`. The label is the field
`cls`, a number, or the key `label_column` of the field `json`, a number or a class name. Other
numbers and strings in the field `json` become columns of the rows. Further members are not read
but counted; `pkl` and `pth` in particular are never opened. Names of numbered classes are in
`classnames.txt` next to the shards, one per line, or in `label_space`. `example_id` is
the index of the sample over all shards.

Opening the source reads the headers of all members. Images are then read at their offsets, in any
order.
"""

import dataclasses
import itertools
import operator
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from input_pipeline import shards
from input_pipeline.image_files import skip_reason
from input_pipeline.images import Images, PartsStore
from input_pipeline.settings import DataSettings
from robustness.core import json_files
from robustness.core.bounded_files import read_bounded
from robustness.core.errors import InputError
from robustness.core.limits import MAX_BYTES_OF_TEXT, MAX_SHARDS
from robustness.core.paths import expanded
from robustness.core.pictures import SUFFIXES
from robustness.core.rows import composed_unicode
from robustness.core.settings import require

IMAGE_FIELDS = tuple(suffix.removeprefix('.') for suffix in SUFFIXES)
"""Names of the fields that are images, such as 'jpg'."""
LABEL, METADATA = 'cls', 'json'
"""Names of the field with the label, and of the field with a JSON object."""
_MAX_LABEL = 32
"""Largest size of a field `cls` in bytes."""
_BYTES_AT_ONCE = 2**20
"""Bytes of the end of a shard that are read at once."""
_ANY_JSON = (dict, list, str, bool, int, float, type(None))


@dataclasses.dataclass(frozen=True)
class _Member:
  """The position of a file inside a tar file.

  Attributes:
    shard: the tar file.
    offset: position of the first byte of the content.
    size: number of bytes of the content.
  """

  shard: Path
  offset: int
  size: int

  def read(self, limit: int = MAX_BYTES_OF_TEXT) -> bytes:
    """Returns the content of the file; raises InputError if it has more than `limit` bytes."""
    if self.size > limit:
      limits = f'of {self.size:,} bytes; at most {limit:,} are read'
      raise InputError(f'{self.shard} has a member {limits}.')
    with self.shard.open('rb') as file:
      file.seek(self.offset)
      data = file.read(self.size)
    if len(data) < self.size:
      raise InputError(f'{self.shard} is truncated: it has changed since it was opened.')
    return data


class WebDataset(shards.Shards):
  """Tar files of samples, such as cat.jpg with the label file cat.cls."""

  name = 'webdataset'

  def open(self, settings: DataSettings) -> Images:
    """Returns the images of all samples in the tar files (shards) of a split.

    Raises:
      InputError: a tar file is damaged or missing, or a sample has no label.
    """
    left_out = Counter[str]()  # files that are not read, by reason
    if files := self._expand():  # `path` is a pattern such as x-{000..009}.tar
      files = shards.of_split(files, files[0].parent, settings.split, self.path)
    else:
      files = self.shards('.tar', settings.split, left_out)
    shard_of_key: dict[str, Path] = {}
    samples: list[tuple[str, dict[str, _Member]]] = []  # (key, {field: member})
    for file in files:
      samples += _samples(file, left_out, shard_of_key)
    title = f'webdataset {self.path!r}'
    if not samples:
      raise InputError(f'{title}: its {len(files)} shards hold no sample with an image.')
    keys = [key for key, _ in samples]
    images: list[_Member] = []
    for _, fields in samples:
      images += [fields[name] for name in IMAGE_FIELDS if name in fields]  # exactly one
    names_file = files[0].parent / 'classnames.txt'
    listed = [*map(composed_unicode, _lines(names_file))] if names_file.is_file() else []
    require('' not in listed, f'a name in {names_file}', '', 'a word: each line names a class')
    table = pd.DataFrame([_sample_columns(key, fields, listed) for key, fields in samples])
    names = self.names_of_space(listed, title)
    setting = self.key('label_column')
    labels, class_names = shards.labels_of(table, self.label_column, names, title, setting)
    return shards.encoded_images(
      PartsStore(lambda part, index: images[index].read(), labels),
      class_names,
      title,
      self.description(settings.split, len(files)),
      columns=shards.columns_of(table, (self.label_column,), left_out),
      where=lambda index: f'{images[index].shard}, sample {keys[index]!r}',
      left_out=left_out,
    )

  def _expand(self) -> list[Path]:
    """Expands a path such as x-{000..009}.tar to the paths x-000.tar to x-009.tar.

    Returns:
      The paths; [] if `path` has no braces.

    Raises:
      InputError: a file is missing.
    """
    match = re.fullmatch(r'(.*)\{(\d+)\.\.(\d+)\}(.*)', self.path)
    if not match:
      return []
    before, low, high, after = match.groups()
    numbers = range(int(low), int(high) + 1)
    self.require(len(numbers) <= MAX_SHARDS, 'path', f'of at most {MAX_SHARDS:,} shards')
    # numbers have leading zeros, as many digits as `low`
    files = [expanded(f'{before}{number:0{len(low)}}{after}') for number in numbers]
    missing = [file for file in files if not file.is_file()]
    if missing or not files:  # there are no files in {5..3}
      first = f', first {missing[0]}' if missing else ''
      problem = f'of which {len(missing)} of {len(files)} shards are not there{first}'
      raise self.refused('path', problem)
    return files


def _lines(file: Path) -> list[str]:
  """Reads the lines of a text file in UTF-8."""
  try:
    return read_bounded(file, MAX_BYTES_OF_TEXT).decode('utf-8-sig').rstrip().splitlines()
  except UnicodeDecodeError as error:
    raise InputError(f'{file} is no text in UTF-8: {error}.') from error


def _samples(
  shard: Path, left_out: Counter[str], shard_of_key: dict[str, Path]
) -> Iterator[tuple[str, dict[str, _Member]]]:
  """Yields the samples with an image in a tar file, such as `('a/cat', {'jpg': ..., 'cls': ...})`.

  Consecutive files with the same key belong to one sample: a/cat.jpg and a/cat.cls have the key
  'a/cat' and the fields 'jpg' and 'cls'.

  Args:
    shard: the tar file.
    left_out: counter of files that are not read, by reason, which is updated.
    shard_of_key: {key: tar file} of earlier samples, which is updated.

  Raises:
    InputError: the tar file is damaged, a key or field is repeated, or a sample has several images.
  """
  for key, members in itertools.groupby(_members(shard, left_out), operator.itemgetter(0)):
    if key in shard_of_key:
      problem = f'{shard}: the sample {key!r} is in {shard_of_key[key]} already'
      raise InputError(f'{problem}; each counts once.')
    shard_of_key[key] = shard
    fields: dict[str, _Member] = {}
    for _, field, member in members:
      if field in fields:
        raise InputError(f'{shard}: the sample {key!r} has two members {field!r}.')
      fields[field] = member
    yield from _with_images(shard, key, fields, left_out)


def _members(shard: Path, left_out: Counter[str]) -> Iterator[tuple[str, str, _Member]]:
  """Yields `(key, field, position)` for each regular file in a tar file, in order.

  For instance, a/cat.jpg has the key 'a/cat' and the field 'jpg'.

  Args:
    shard: the tar file.
    left_out: counter of hidden and special files, by reason, which is updated.

  Raises:
    InputError: the tar file is damaged.
  """
  try:
    with tarfile.open(shard, 'r:') as archive:
      for member in archive:
        folder, slash, name = member.name.rpartition('/')
        stem, _, field = name.partition('.')
        is_plain_file = member.isfile() and not member.issparse()
        if is_plain_file and stem:  # the name of a hidden file begins with the dot
          position = _Member(shard, member.offset_data, member.size)
          yield f'{folder}{slash}{stem}', field.lower(), position
        elif not member.isdir():
          left_out['members that are no plain files, or hidden'] += 1
      end = archive.offset + tarfile.BLOCKSIZE  # a block of zeros is the end of an archive
      if shard.stat().st_size < end:
        raise tarfile.ReadError('it has no end')
      # Only zeros may follow. `tarfile` stops without an error at a damaged header, and at the end
      # of the first of two joined archives.
      with shard.open('rb') as file:
        file.seek(archive.offset)
        while block := file.read(_BYTES_AT_ONCE):
          if block.strip(b'\0'):
            raise tarfile.ReadError(f'what follows byte {archive.offset} is no header')
  except (tarfile.TarError, OSError, RecursionError, MemoryError, OverflowError) as error:
    reason = str(error) or type(error).__name__
    raise InputError(f'{shard} is truncated or no plain tar file: {reason}.') from error


def _with_images(
  shard: Path, key: str, fields: dict[str, _Member], left_out: Counter[str]
) -> Iterator[tuple[str, dict[str, _Member]]]:
  """Divides files with a common key into samples and yields each sample with one image.

  Usually the files are one sample: cat.jpg and cat.cls have the key 'cat', which ends at the first
  dot. Files such as v1.cat.jpg and v1.dog.jpg have the key 'v1', but no field 'jpg'. They are two
  samples, with the keys 'v1.cat' and 'v1.dog', which end at the last dot.

  Args:
    shard: path of the tar file, for messages.
    key: path of the files up to the first dot.
    fields: {rest of the name: position of the file in the tar file}.
    left_out: counter of samples without an image and of files that are not read, which is updated.

  Yields:
    The key of a sample and {field: position}.

  Raises:
    InputError: a sample has several images, or has a label or metadata but no image.
  """
  samples = {key: fields}
  if fields.keys().isdisjoint(IMAGE_FIELDS):
    samples = {}
    for name, member in fields.items():
      middle, dot, field = name.rpartition('.')  # middle and dot are '' in a name without a dot
      samples.setdefault(f'{key}{dot}{middle}', {})[field] = member
  for sample_key, members in samples.items():
    num_images = len(members.keys() & {*IMAGE_FIELDS})
    if num_images > 1:
      raise InputError(f'{shard}: the sample {sample_key!r} has several images.')
    if num_images == 0:
      if members.keys() & {LABEL, METADATA}:
        raise InputError(
          f'{shard}: the sample {key!r} has the fields {", ".join(sorted(fields))} and no image, a '
          f'field called {", ".join(IMAGE_FIELDS)}: store the shard again, of such pictures.'
        )
      left_out['samples without an image'] += 1
      continue
    for field in members.keys() - {*IMAGE_FIELDS, LABEL, METADATA}:
      reason = skip_reason(f'_.{field}')  # such as 'files .txt', which becomes 'members .txt'
      noun = 'members of longer names' if '.' in field else 'members'
      left_out[reason.replace('files', noun, 1)] += 1
    yield sample_key, members


def _sample_columns(
  key: str, fields: Mapping[str, _Member], names: Sequence[str]
) -> dict[str, Any]:
  """Reads the columns of a sample from its fields 'json' and 'cls'.

  For the json {"label": 3, "lens": "wide"} and the cls "3", the result is {'label': 3, 'lens':
  'wide'}. A field that is missing, or json that is not an object, adds nothing.

  Args:
    key: key of the sample.
    fields: {field: position of the file in the tar file}.
    names: class names in `classnames.txt`; () if there is no such file.

  Raises:
    InputError: `cls` is not a number, or contradicts the label in `json`.
  """
  columns: dict[str, Any] = {}
  if METADATA in fields:
    title = f'{fields[METADATA].shard}: {key}.{METADATA}'
    value = json_files.parse(fields[METADATA].read(), title, _ANY_JSON)
    columns = dict(value) if isinstance(value, dict) else {}
  if LABEL in fields:
    title = f'{fields[LABEL].shard}: {key}.{LABEL}'
    text = fields[LABEL].read(_MAX_LABEL)
    if not re.fullmatch(rb'\s*[+-]?[0-9]+\s*', text):
      raise InputError(f'{title} is {text!r}, which is no number.')
    number = int(text)
    if _contradicts(columns.get('label'), number, names):
      problem = f'{title} is {number}, and {key}.{METADATA} has the label {columns["label"]!r}'
      raise InputError(f'{problem}: an image has one label.')
    columns['label'] = number
  return columns


def _contradicts(label: object, number: int, names: Sequence[str]) -> bool:
  """Returns whether the label in a sample's json contradicts the class number in its cls file.

  Args:
    label: an integer, a text of digits, or a class name. Other values, such as a caption or None,
      contradict nothing.
    number: the class number.
    names: class names in label order.
  """
  if isinstance(label, str):
    name = composed_unicode(label)
    if name in names:
      return number not in range(len(names)) or names[number] != name
    return label.isdecimal() and int(label) != number
  return isinstance(label, int | float) and label != number
