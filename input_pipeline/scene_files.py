"""The files that scenes are made of: cutouts in class folders, and a folder of backgrounds.

Classes and files are sorted by name; a cutout is known by its place among all, and by the place of
its class and its own place in the class, as in metadata.csv of SI-Score.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from PIL import Image

from input_pipeline.image_files import (
  EXTENSIONS,
  Header,
  existing_folder,
  folders_in,
  images_in,
  opened,
  read_header,
)
from robustness.core.errors import InputError
from robustness.scenes.classes import imagenet_index

MAX_ENLARGEMENT = 1.25


@dataclasses.dataclass(frozen=True)
class Cutout:
  """A file of an object with alpha.

  Attributes:
    path: of the file.
    class_name: its folder's name.
    label: the position of the class in ImageNet's order.
    class_index: the place of its class among those at hand.
    instance: its place in the class.
  """

  path: Path
  class_name: str
  label: int
  class_index: int
  instance: int


def find_cutouts(folder: str, where: str = 'config.data.foregrounds') -> tuple[Cutout, ...]:
  """Returns the cutouts <class>/<object>.png of a folder of class folders.

  Classes are those of `robustness.scenes.classes`; `where` is the key that names the folder.
  """
  root = existing_folder(folder, 'give the one that holds one folder a class.', where)
  if not folders_in(root):
    raise InputError(
      f'{where} is {folder!r}, which holds no class folders; expected {root}/<class>/<object>.png.'
    )
  cutouts = []
  for class_index, (name, path) in enumerate(folders_in(root).items()):
    label = imagenet_index(name, f'{where}: folder')
    files = images_in(path, ('.png', '.webp'), '*')
    if not files:
      raise InputError(
        f'{path} holds no PNG or WebP file: a cutout needs an alpha channel. Remove '
        'the folder or fill it.'
      )
    cutouts += [Cutout(file, name, label, class_index, i) for i, file in enumerate(files)]
  return tuple(cutouts)


def find_backgrounds(folder: str, where: str = 'config.data.backgrounds') -> tuple[Path, ...]:
  """Returns the image files of a folder."""
  root = existing_folder(folder, 'give the one that holds backgrounds.', where)
  files = images_in(root, pattern='*')
  if not files:
    raise InputError(
      f'{where} is {folder!r}, which holds no image; expected files ending in '
      f'{", ".join(EXTENSIONS)}.'
    )
  return tuple(files)


def check_cutout(path: Path) -> Header:
  """Returns the header of a cutout; no pixel is decoded, so that thousands are checked at once."""
  with opened(str(path)) as image:
    mode = image.mode
    alpha = 'A' in image.getbands() or 'transparency' in image.info
    header = Header(image.height, image.width, grey=mode in ('L', 'LA'))
  if not alpha:
    raise InputError(
      f'cutout {path} has no alpha channel ({mode}); save the object as PNG with a transparent '
      'ground.'
    )
  return header


def read_cutout(path: Path) -> np.ndarray:
  """Returns uint8 [h, w, 4], colours not multiplied by alpha."""
  check_cutout(path)
  with opened(str(path)) as image:
    pixels = np.asarray(image.convert('RGBA'))
  if not pixels[..., 3].any():
    raise InputError(f'cutout {path} is transparent everywhere; it shows no object. Remove it.')
  return pixels


def read_background(path: Path, side: int) -> np.ndarray:
  """Returns the largest square from the top left, BILINEAR to the canvas: uint8 [side, side, 3].

  A slightly smaller one is enlarged, as the released generator does with any.
  """
  check_background(path, side)
  with opened(str(path)) as image:
    square = image.convert('RGB').crop((0, 0, min(image.size), min(image.size)))
  if square.size != (side, side):
    square = square.resize((side, side), Image.Resampling.BILINEAR)
  return np.asarray(square)


def check_background(path: Path, side: int) -> None:
  """Refuses a background that is much smaller than the canvas; reads its header only."""
  header = read_header(str(path))
  have = min(header.height, header.width)
  if have * MAX_ENLARGEMENT < side:
    raise InputError(
      f'background {path} is {header.width}×{header.height} pixels; the canvas has '
      f'{side}×{side}, and a background is enlarged {MAX_ENLARGEMENT} times at '
      'most. Remove it or take a larger one.'
    )
