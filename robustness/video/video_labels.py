"""The classes of videos, from a file that a user wrote.

JSON: {video: class} or {video: [classes]}. CSV: a line a video and class, under the header
`video,class`; a video with several classes has several lines. A class is a name, another word for
it (such as its WordNet identifier), or its number.
"""

from __future__ import annotations

import csv
import io
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.models import label_space

HEADER = ['video', 'class']
ENCODING = 'utf-8-sig'
"""With or without the byte-order mark that spreadsheets write."""


def vocabulary(classes: str) -> tuple[tuple[str, ...], dict[str, int]]:
  """Returns class names in order, and the position of a class by every word for it.

  Args:
    classes: a label space such as 'imagenet_vid', or a text file with one class a line.

  Raises:
    InputError: neither a label space nor a file, or a file with a class twice or none at all.
  """
  path = expanded(classes)
  if path.is_file():
    names = tuple(line.strip() for line in _text(path).splitlines() if line.strip())
  else:
    names = label_space.get(classes).class_names
  if not names or len(set(names)) < len(names):
    raise InputError(f'{classes} must name each class once, one a line; it holds {list(names)}.')
  return names, label_space.words(names)


def read(path: pathlib.Path, classes: Mapping[str, int]) -> dict[str, list[int]]:
  """Returns the classes of each video, as positions.

  Args:
    path: a `.json` or `.csv` file.
    classes: the position of a class by every word for it.

  Raises:
    InputError: the file cannot be read, is of another form, or names an unknown class.
  """
  if not path.is_file():
    raise InputError(f'{path} is missing: give a .json or .csv file with the classes of videos.')
  classes_of = _from_csv(path) if path.suffix.lower() == '.csv' else _from_json(path)
  if not classes_of:
    raise InputError(f'{path} names no videos.')
  return {video: _positions(path, video, words, classes) for video, words in classes_of.items()}


def _text(path: pathlib.Path) -> str:
  try:
    return path.read_bytes().decode(ENCODING)
  except UnicodeDecodeError as error:
    raise InputError(f'{path} is no text in UTF-8 ({error}): save it in that encoding.') from error


def _from_json(path: pathlib.Path) -> dict[str, list[Any]]:
  document = json_files.read(path, advice='Give an object, {video: class}.', encoding=ENCODING)
  return {video: words if isinstance(words, list) else [words] for video, words in document.items()}


def _from_csv(path: pathlib.Path) -> dict[str, list[str]]:
  rows = csv.reader(io.StringIO(_text(path), newline=''))
  lines = [[cell.strip() for cell in row] for row in rows if row]
  if not lines or lines[0] != HEADER or any(len(line) != len(HEADER) for line in lines):
    raise InputError(
      f'{path} must begin with the line {",".join(HEADER)!r} and have two cells in every line.'
    )
  classes_of: dict[str, list[str]] = {}
  for video, word in lines[1:]:
    classes_of.setdefault(video, []).append(word)
  return classes_of


def _positions(
  path: pathlib.Path, video: str, words: Iterable[Any], classes: Mapping[str, int]
) -> list[int]:
  """Returns distinct positions, ascending."""
  positions = {_position(path, video, word, classes) for word in words}
  if not positions:
    raise InputError(f'{path} gives video {video!r} no class.')
  return sorted(positions)


def _position(path: pathlib.Path, video: str, word: Any, classes: Mapping[str, int]) -> int:
  valid = set(classes.values())
  if isinstance(word, str) and word in classes:
    return classes[word]
  number = int(word) if isinstance(word, str) and word.isdecimal() else word
  if type(number) is int and number in valid:
    return number
  raise InputError(
    f'{path} gives video {video!r} the class {word!r}, which is no class: '
    f'{nearest(str(word), classes)}, or a number 0..{max(valid)}.'
  )
