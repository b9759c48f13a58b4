"""A folder of class folders: PATH/class/image.png, or PATH/split/class/image.png.

Classes are the folders sorted by name; a class without images keeps its label. Images lie in
their class folder at any depth, sorted by path; hidden files and files of other kinds are left
out. `example_id` is the position among all images in that order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from input_pipeline.image_files import (
  EXTENSIONS,
  existing_folder,
  file_images,
  folders_in,
  images_in,
)
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError, nearest


class Folder(Source):
  """A folder of class folders, of its own or of a split."""

  def open(self, settings: DataSettings) -> Images:
    """See `Source`; grey only if every file is grey, else RGB."""
    root = find_root(settings.path, settings.split)
    classes = folders_in(root)
    if not classes:
      raise InputError(f'{root} holds no class folders; expected {root}/<class>/<image>.')
    files = {name: images_in(folder) for name, folder in classes.items()}
    paths = [str(path) for members in files.values() for path in members]
    if not paths:
      raise InputError(
        f'{root}: none of its {len(classes)} class folders holds an image; expected '
        f'files ending in {", ".join(EXTENSIONS)}.'
      )
    return file_images(
      paths,
      np.repeat(np.arange(len(classes), dtype=np.int32), [*map(len, files.values())]),
      tuple(classes),
      title=f'folder {str(root)!r}',
      description={'path': settings.path, 'split': settings.split},
      names=[f'{name}/{path.name}' for name, own in files.items() for path in own],
    )


def find_root(path: str, split: str) -> Path:
  """Returns PATH/split if it holds folders; else PATH itself, where `split` is '' or 'test'."""
  root = existing_folder(path, 'give the folder that holds one folder a class.')
  if split and (root / split).is_dir() and folders_in(root / split):
    return root / split
  if split not in ('', 'test'):
    raise InputError(
      f'config.data.split is {split!r}, but {root} has no folder {split!r} of class '
      f'folders: {nearest(split, folders_in(root))}. To read the '
      "class folders of config.data.path itself, set --config.data.split=''."
    )
  return root
