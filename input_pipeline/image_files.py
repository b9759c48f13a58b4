"""Image files: which a folder holds, their headers, and their pixels as grey or RGB.

Pixels are what Pillow decodes, as in the pipelines that published ImageNet accuracies were
measured with; EXIF orientation is not applied, an alpha channel is dropped, and of an animation
the first frame is read.
"""

import functools
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, features

from input_pipeline.images import Images, MemoryStore, Size
from robustness.core.errors import InputError
from robustness.core.paths import expanded, files_in
from robustness.core.pictures import UNDECODABLE
from robustness.core.typing import Facts
from robustness.corruptions.names import C_BAR, NAMES

EXTENSIONS = ('.jpg', '.jpeg', '.png', '.bmp', '.ppm', '.pgm', '.tif', '.tiff') + (
  ('.webp',) if features.check('webp') else ()
)
_RELEASES = {
  'ImageNet-3DCC': (
    'imagenet_3dcc',
    'near_focus|far_focus|bit_error|color_quant|flash|fog_3d|h265_.*|xy_.*',
  ),
  'LAION-C': ('laion_c', 'glitched|stickers|luminance_checkerboard'),
  'ImageNet-C-bar or CIFAR-10-C-bar': ('', rf'({"|".join(C_BAR)})(\.npy)?'),
  'ImageNet-P': ('imagenet_p', 'translate|rotate|tilt|scale|shear'),
  'CIFAR-10-P': ('cifar10_p', r'(translate|rotate|tilt|scale|shear)\.npy'),
  'ImageNet-C, whose archives belong in one folder': ('', 'blur|digital|extra|noise|weather'),
  'ImageNet-C': ('imagenet_c', '|'.join(NAMES)),
  'CIFAR-10-C': ('cifar10_c', rf'({"|".join(NAMES)})\.npy'),
  'CIFAR-10.1': ('', r'cifar10\.1_.*'),
  'CIFAR-10, of which nothing is corrupted': ('', '(data|test)_batch.*'),
  'ImageNet, of which nothing is corrupted': ('', r'n\d{8}'),
  'SI-Score': ('si_score', 'area|rotation|location.*|object_.*|foregrounds|backgrounds'),
  'DomainNet': ('', 'clipart.*|infograph.*|painting.*|quickdraw.*'),
  'an archive that is not unpacked': ('', r'.*\.(tar|zip|gz)'),
}
"""Releases: the source that reads them, where it is one, and what files and folders in them are
called."""
_GREY_MODES = ('1', 'L', 'LA', 'La', 'I')


def existing_folder(path: str, advice: str, where: str = 'config.data.path') -> Path:
  """Returns the folder at a path, which the key `where` names; `advice` ends the message."""
  if not path or not expanded(path).is_dir():
    raise InputError(f'{where} is {path!r}, which is not a folder; {advice}')
  return expanded(path)


def looks_like(folder: Path) -> str:
  """Returns `; with 'x' in it it looks like ...`, the release that a folder holds, and its source;
  '' if none is known by its names."""
  names = sorted(path.name for path in folder.iterdir())
  for release, (source, pattern) in _RELEASES.items():
    if own := [name for name in names if re.fullmatch(pattern, name)]:
      read_by = f' (config.data.source={source!r})' if source else ''
      return f'; with {own[0]!r} in it, it looks like {release}{read_by}'
  return ''


def folders_in(root: Path) -> dict[str, Path]:
  """Returns the folders in a folder by name, sorted, without hidden ones and what a Mac adds."""
  inside = sorted(path for path in root.iterdir() if path.is_dir())
  return {path.name: path for path in inside if not path.name.startswith(('.', '__MACOSX'))}


def images_in(
  folder: Path, extensions: Sequence[str] = EXTENSIONS, deep: bool = True
) -> list[Path]:
  """Returns the image files in a folder, at any depth if `deep`, sorted, without hidden ones."""
  return [file for file in files_in(folder, deep) if file.suffix.lower() in extensions]


@contextmanager
def opened(file: str | bytes) -> Iterator[Image.Image]:
  """Opens an image with Pillow: a path, or the bytes of an encoded file."""
  try:
    with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
      yield image
  except UNDECODABLE as error:
    if isinstance(file, bytes):
      raise InputError(f'{len(file)} bytes are no readable image of a known format.') from error
    raise InputError(f'unreadable image {file}: {error}. Replace or remove the file.') from error


def read_header(file: str | bytes) -> tuple[Size, bool]:
  """Returns height and width in pixels, and whether an image is grey; nothing is decoded."""
  with opened(file) as image:
    return (image.height, image.width), _is_grey(image)


def read_image(file: str | bytes, channels: int) -> np.ndarray:
  """Decodes a JPEG, PNG, BMP, WebP, PPM or TIFF file, or its bytes, to uint8 [H, W, channels].

  It may be grey (8 or 16 bits), palette, RGB, RGBA or CMYK; 3 channels repeat a grey one. Floating
  point, whose range no file says, is refused.
  """
  which = 'an image' if isinstance(file, bytes) else file
  with opened(file) as image:
    if image.mode == 'F':
      raise InputError(f'{which} is of floating point: store it in 8 or 16 bits.')
    grey = _is_grey(image)
    if grey and image.mode.startswith('I'):  # 16 bits: Pillow's own conversion would saturate
      pixels = np.rint(np.asarray(image, np.float64) / 257).astype(np.uint8)[..., None]
    elif grey:
      pixels = np.asarray(image.convert('L'))[..., None]
    else:
      transparent = image.mode == 'P' and 'transparency' in image.info
      pixels = np.asarray((image.convert('RGBA') if transparent else image).convert('RGB'))
  if channels == 1 and not grey:
    raise InputError(f'{which} is in colour; a grey image was expected.')
  return np.repeat(pixels, channels, axis=-1) if grey and channels > 1 else pixels


def _is_grey(image: Image.Image) -> bool:
  return image.mode in _GREY_MODES or image.mode.startswith('I;16')


def read_file(path: bytes, channels: int) -> np.ndarray:
  """Returns `read_image` of a path."""
  return read_image(path.decode(), channels)


def file_images(
  paths: Sequence[str],
  labels: np.ndarray,
  class_names: Sequence[str],
  title: str,
  description: Facts,
  channels: int | None = None,
  **further: Any,
) -> Images:
  """Returns images that are a file each, in colour unless every file is grey.

  For the arguments, and further ones, see `Images`. Headers are read where `channels` is None.
  """
  channels = channels or (1 if all(read_header(path)[1] for path in paths) else 3)
  fields: dict[str, Any] = {
    'read': functools.partial(read_file, channels=channels),
    'sizes': lambda indices: (read_header(paths[index])[0] for index in indices),
    **further,
  }
  return Images(
    title=title,
    description=description,
    num_examples=len(paths),
    class_names=tuple(class_names),
    channels=channels,
    store=MemoryStore(np.array([path.encode() for path in paths], object), labels),
    where=lambda index: f'{paths[index]} (example {index})',
    **fields,
  )
