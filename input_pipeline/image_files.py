"""Image files: finds them in folders, and reads their headers, and their pixels as grey or RGB.

Pixels are what Pillow decodes, as in the pipelines with which published ImageNet accuracies were
measured. EXIF orientation is not applied, except in TIFF, where Pillow applies it. An alpha channel
is dropped, and only the first frame of an animation is read.
"""

import functools
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, TiffImagePlugin

from input_pipeline.images import Images, MemoryStore, Size
from robustness.core.errors import KEYS, InputError, SettingError
from robustness.core.paths import access_refused, expanded, files_in, is_passed_over
from robustness.core.pictures import SUFFIXES, opened
from robustness.core.rows import in_class_order
from robustness.core.typing import Facts
from robustness.corruptions.names import C_BAR, NAMES, STORED

_RELEASES = {
  'ImageNet-3DCC': ('imagenet_3dcc', '|'.join(STORED)),
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
"""{title of a published data set: (source that reads it or '', pattern of its files and
folders)}.
"""
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
"""Tags of TIFF: bits per sample, the meaning of levels, and the number format of samples."""
_WHITE_IS_ZERO = 0
"""Value of the tag of the meaning, which Pillow observes only in pictures of up to 8 bits."""
_UNSIGNED, _SIGNED = 1, 2
"""Values of the tag of the number format."""
_WORD = re.compile(r'\.\w{1,12}', re.ASCII)
"""Pattern of the suffixes that are counted by name."""
_GREY_MODES = ('1', 'L', 'LA', 'La', 'I')
"""Pillow's modes of pictures with one channel."""


@access_refused()
def existing_folder(path: str, advice: str, key: str) -> Path:
  """Returns the path of a folder that a setting names; raises InputError if there is none.

  Args:
    path: value of the setting.
    advice: end of the error message, what to set instead.
    key: name of the setting, for the error message.
  """
  if not path or not expanded(path).is_dir():
    fix = advice[0].upper() + advice[1:]
    raise SettingError(key, path, fix=fix, problem='which is not a folder')
  return expanded(path)


@access_refused()
def looks_like(folder: Path) -> str:
  """Guesses which published data set a folder holds, to extend an error message.

  Returns:
    A hint such as `; with 'fog' in it, it looks like ImageNet-C`, and how to read that data set. ''
    if no file name is typical of a published data set.
  """
  names = sorted(path.name for path in folder.iterdir())
  for release, (source, pattern) in _RELEASES.items():
    if matching := [name for name in names if re.fullmatch(pattern, name)]:
      read_by = f' ({KEYS.data.source}={source!r})' if source else ''
      return f'; with {matching[0]!r} in it, it looks like {release}{read_by}'
  return ''


@access_refused()
def folders_in(root: Path) -> dict[str, Path]:
  """Returns the subfolders of a folder, `{name: path}`, in class order.

  The order is numerical if all names are numbers, else alphabetical. Hidden folders, and folders
  that file servers and operating systems create, are omitted.
  """
  folders = [path for path in root.iterdir() if path.is_dir()]
  path_of = {path.name: path for path in folders if not is_passed_over(path.name)}
  return {name: path_of[name] for name in in_class_order(path_of)}


def images_in(
  folder: Path,
  extensions: Sequence[str] = SUFFIXES,
  deep: bool = True,
  left_out: Counter[str] | None = None,
) -> list[Path]:
  """Returns the sorted image files in a folder, without hidden files.

  Args:
    folder: the folder.
    extensions: suffixes of image files.
    deep: whether to search subfolders, at any depth.
    left_out: counter of omitted files by reason (hidden or other suffix), which is updated.

  Raises:
    InputError: the folder holds a copy of itself.
  """
  files = files_in(folder, deep, left_out)
  if left_out is not None:
    left_out.update(skip_reason(file.name) for file in files if not has_suffix(file, extensions))
  images = [file for file in files if has_suffix(file, extensions)]
  refuse_copies(folder, images)
  return images


def refuse_copies(folder: Path, files: Sequence[Path]) -> None:
  """Raises InputError if a folder was copied into itself: cat/1.jpg is also in cat/cat.

  Args:
    folder: the folder.
    files: all images below it.
  """
  folder = Path(os.path.abspath(folder))  # '.' and '..' are no names of folders
  inner = folder / folder.name
  if inner.is_dir():
    names = {os.path.relpath(file, folder.parent) for file in files}  # such as cat/cat/1.jpg
    copies = sorted(name for name in names if name.partition('/')[2] in names)
    if copies:
      raise InputError(
        f'{folder} was copied into itself, as {folder.parent / copies[0]} shows; each image '
        f'counts once: remove the copy, or rename {inner}.'
      )


def has_suffix(file: Path | str, suffixes: Sequence[str]) -> bool:
  """Returns whether a file name ends in one of `suffixes`, ignoring upper and lower case."""
  return str(file).lower().endswith(tuple(suffixes))


def skip_reason(name: str) -> str:
  """Returns the category under which a file that is no image is counted, such as 'files .txt'.

  Long or unusual suffixes, which do not match `_WORD`, share one category.
  """
  suffix = Path(name).suffix.lower()
  if not suffix:
    return 'files without a suffix'
  return f'files {suffix}' if re.fullmatch(_WORD, suffix) else 'files of other suffixes'


def count_outside_classes(root: Path, left_out: Counter[str]) -> None:
  """Counts the files in a folder of class folders that are in no class, and system folders.

  Args:
    root: folder that holds a folder for each class.
    left_out: counter by reason, which is updated.
  """
  left_out['pictures outside class folders'] += len(images_in(root, deep=False, left_out=left_out))


def read_header(file: str | bytes) -> tuple[Size, bool]:
  """Reads the size of an image and whether it is grey, without decoding it.

  Returns:
    (height, width) in pixels, and True for a grey image.
  """
  with opened(file) as image:
    return (image.height, image.width), _is_grey(image)


def read_size(file: str | bytes) -> Size:
  """Returns (height, width) of an image in pixels, without decoding it."""
  return read_header(file)[0]


def read_image(file: str | bytes, channels: int) -> np.ndarray:
  """Decodes an image to uint8 [H, W, channels].

  Grey (up to 16 bits), palette, RGB, RGBA and CMYK images are supported. Floating point and 32-bit
  integers are refused, because their range is unknown.

  Args:
    file: path of the image, or its content as bytes.
    channels: 1, or 3; grey images are repeated to 3 channels.

  Raises:
    InputError: the image cannot be decoded, or is in colour although `channels` is 1.
  """
  title = 'an image' if isinstance(file, bytes) else file
  with opened(file) as image:
    is_grey, white = _is_grey(image), _largest_level(image)
    if image.mode.startswith('I'):  # grey of up to 16 bits, which Pillow would clip at 255
      scaled = np.rint(np.asarray(image, np.float64) * 255 / white)
      if getattr(image, 'tag_v2', {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
        scaled = 255 - scaled
      pixels = scaled.clip(0, 255).astype(np.uint8)[..., None]
    elif is_grey:
      pixels = np.asarray(image.convert('L'))[..., None]
    else:
      if image.mode == 'P' and 'transparency' in image.info:
        image = image.convert('RGBA')  # Pillow warns if it converts transparent colours to RGB
      pixels = np.asarray(image.convert('RGB'))
  if channels == 1 and not is_grey:
    raise InputError(f'{title} is in colour; a grey image was expected.')
  return np.repeat(pixels, channels, axis=-1) if is_grey and channels > 1 else pixels


def _largest_level(image: Image.Image) -> int:
  """Returns the pixel value of white: 255, 65535, or 2^bits − 1 for TIFF files.

  Raises:
    InputError: the image has a number format in which white is unknown.
  """
  if image.mode == 'F':
    raise InputError('it is of floating point: store it in 8 or 16 bits')
  if image.format != 'TIFF':  # Pillow's modes 'I…' are integers of more than 8 bits
    return 2**16 - 1 if image.mode.startswith('I') else 255
  assert isinstance(image, TiffImagePlugin.TiffImageFile)
  # a tag is a number, or a tuple of one number for each channel; both tags are 1 by default
  bits = int(np.ravel(image.tag_v2.get(_BITS, 1))[0])
  kind = int(np.ravel(image.tag_v2.get(_SAMPLE_FORMAT, 1))[0])
  # Pillow opens integers of 32 bits, and signed ones, in mode 'I'
  if image.mode == 'I' and (bits > 16 or kind != _UNSIGNED):
    sign = 'signed ' if kind == _SIGNED else ''
    raise InputError(f'it is of {sign}{bits}-bit integers: store it in 8 or 16 unsigned bits')
  return 2**bits - 1


def _is_grey(image: Image.Image) -> bool:
  """Returns whether an image has one channel (besides alpha)."""
  return image.mode in _GREY_MODES or image.mode.startswith('I;16')


def read_file(path: bytes, channels: int) -> np.ndarray:
  """Decodes an image file to uint8 [H, W, channels], see `read_image`.

  Args:
    path: path of the file, as bytes.
    channels: 1 or 3.
  """
  return read_image(path.decode(), channels)


def may_be_grey(file: str | bytes) -> bool:
  """Returns whether an image is grey or cannot be read."""
  try:
    _, is_grey = read_header(file)
    return is_grey
  except InputError:  # the check of pictures reports all damaged files together
    return True


def changed_since(files: set[str], time: float) -> bool:
  """Returns whether a file, a link to it or one of the two folders above it may have changed.

  A renamed folder has other files, however old they are. Changes are decided by `st_ctime`, which
  copying cannot preserve. The result is True if a file cannot be read.

  Args:
    files: paths of the files.
    time: seconds since 1970; earlier changes do not count.
  """
  folders = {str(folder) for file in files for folder in Path(file).parents[:2]}
  try:
    times = (max(os.stat(path).st_ctime, os.lstat(path).st_ctime) for path in files | folders)
    return any(changed >= time for changed in times)
  except OSError:
    return True


def file_images(
  paths: Sequence[str],
  labels: np.ndarray | Sequence[int],
  class_names: Sequence[str],
  title: str,
  description: Facts,
  channels: int | None = None,
  **fields: Any,
) -> Images:
  """Describes N image files as `Images`, without decoding them.

  Args:
    paths: paths of the N files.
    labels: integers [N] or [N, L].
    class_names: names of the classes in label order.
    title: name of the data set in messages.
    description: JSON values that identify the images in results.json.
    channels: 1 or 3; None reads all headers and uses 1 if every readable file is grey.
    fields: further fields of `Images`, which replace the defaults of this function. The default
      `store` holds all paths in memory.
  """
  if channels is None:
    channels = 1 if all(map(may_be_grey, paths)) else 3
  fields = {
    'read': functools.partial(read_file, channels=channels),
    'header': lambda path: read_header(path.decode()),  # the store has paths as bytes
    'sizes': lambda indices: (read_size(paths[index]) for index in indices),
    'file': lambda index: paths[index],
    **fields,
  }
  if 'store' not in fields:
    stored = np.array([path.encode() for path in paths], object)  # bytes of different lengths
    fields['store'] = MemoryStore(stored, np.asarray(labels))
  return Images(
    title=title,
    description=description,
    num_examples=len(paths),
    class_names=tuple(class_names),
    channels=channels,
    where=lambda index: f'{paths[index]} (example {index})',
    **fields,
  )
