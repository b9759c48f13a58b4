"""A folder of class folders: PATH/class/image.png, or PATH/split/class/image.png.

Classes are the folders sorted by name; a class without images keeps its label. Images lie in
their class folder at any depth, sorted by path; hidden files and files of other kinds are left
out. `example_id` is the position among all images in that order.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from input_pipeline.image_files import EXTENSIONS, read_header, read_image
from input_pipeline.images import MemoryStore, Size, Source, encoded
from input_pipeline.settings import DataSettings
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded


def open_source(settings: DataSettings) -> Source:
  """Returns the images of `settings.path`; grey only if every file is grey, else RGB."""
  root = find_root(settings.path, settings.split)
  classes = _class_folders(root)
  files = [_images(folder) for folder in classes]
  paths = [str(path) for members in files for path in members]
  if not paths:
    raise InputError(
      f'{root}: none of its {len(classes)} class folders holds an image; expected '
      f'files ending in {", ".join(EXTENSIONS)}.'
    )
  labels = np.repeat(np.arange(len(classes), dtype=np.int32), [len(f) for f in files])
  channels = 1 if all(read_header(path).grey for path in paths) else 3
  return Source(
    title=f'folder {str(root)!r}',
    description={'source': 'folder', 'path': settings.path, 'split': settings.split},
    num_examples=len(paths),
    class_names=tuple(folder.name for folder in classes),
    channels=channels,
    store=MemoryStore(tf.constant(encoded(paths)), tf.constant(labels)),
    read=functools.partial(read_file, channels=channels),
    where=lambda index: f'{paths[index]} (example {index})',
    sizes=functools.partial(header_sizes, paths),
    names=[
      f'{folder.name}/{path.name}'
      for folder, own in zip(classes, files, strict=True)
      for path in own
    ],
  )


def find_root(path: str, split: str) -> Path:
  """Returns the folder that holds the class folders.

  Args:
    path: PATH as given.
    split: PATH/split is taken if it holds folders; else PATH itself, where `split` is '' or the
      default 'test'.

  Raises:
    InputError: PATH is missing or no folder, or has no such split.
  """
  root = expanded(path)
  if not path or not root.is_dir():
    raise InputError(
      f'config.data.path is {path!r}, which is not a folder; give the folder that '
      'holds one folder a class.'
    )
  if split and (root / split).is_dir() and _folders(root / split):
    return root / split
  if split not in ('', 'test'):
    raise InputError(
      f'config.data.split is {split!r}, but {root} has no folder {split!r} of class '
      f'folders: {nearest(split, [f.name for f in _folders(root)])}. To read the '
      "class folders of config.data.path itself, set --config.data.split=''."
    )
  return root


def _folders(root: Path) -> list[Path]:
  return sorted(f for f in root.iterdir() if f.is_dir() and not f.name.startswith('.'))


def _class_folders(root: Path) -> list[Path]:
  classes = _folders(root)
  if not classes:
    raise InputError(f'{root} holds no class folders; expected {root}/<class>/<image>.')
  return classes


def _images(folder: Path) -> list[Path]:
  return sorted(
    f
    for f in folder.rglob('*')
    if f.suffix.lower() in EXTENSIONS and not f.name.startswith('.') and f.is_file()
  )


def header_sizes(paths: Sequence[str], indices: Sequence[int]) -> Iterator[Size]:
  """Yields height and width of the images at some indices, read from their headers."""
  for header in (read_header(paths[index]) for index in indices):
    yield header.height, header.width


def read_file(path: bytes | np.ndarray, channels: int) -> np.ndarray:
  """Returns the image file at a path, uint8 [H, W, channels].

  Args:
    path: bytes where it is read in a graph, an array when eager.
    channels: 1 or 3.

  Raises:
    InputError: see `read_image`.
  """
  return read_image(np.asarray(path).item().decode(), channels)
