"""Cutouts of objects and backgrounds, from which views compose scenes (SI-Score).

Cutouts are in class folders, backgrounds in a folder; both are sorted by name. Each cutout gets
two backgrounds, drawn without replacement; a row is a pair of a cutout and a background:

* `image`: the background, uint8 [S, S, 3] with S = `canvas`;
* `foreground`: the cutout, uint8 [F, F, 4], at the upper left of a square of F pixels, the longest
  side of all cutouts;
* `foreground_size`: height and width of the cutout; `foreground_pixels`: number of its pixels with
  at least half of its largest alpha;
* `object`, `background`: positions in the sorted lists of files;
* `label`, `imagenet_class`: the class in ImageNet's order.
"""

from __future__ import annotations

import abc
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from PIL import Image

from input_pipeline import image_files
from input_pipeline.images import Images, MemoryStore, Size
from input_pipeline.selection import MAX_DECODED, evenly_spaced, refuse_damaged
from input_pipeline.settings import COUNT, DataSettings, Source, is_count
from robustness.core.errors import InputError, SettingError
from robustness.core.pictures import SUFFIXES, damage
from robustness.core.registry import setting
from robustness.core.typing import Facts
from robustness.models.imagenet_names import WNIDS
from robustness.scenes.classes import imagenet_index
from robustness.scenes.designs import MAX_ASPECT, draw_backgrounds, num_mask_pixels

if TYPE_CHECKING:
  import tensorflow as tf

CANVAS = 512
"""Side of the canvas if neither the data nor the study set one, pixels."""
MAX_ENLARGEMENT = 1.25
"""Largest factor of enlargement of a background to the canvas."""
Read = Callable[[int], np.ndarray]
"""A function from the number of a cutout or background in the sorted files to its pixels."""


@dataclasses.dataclass(frozen=True)
class CutoutFile:
  """An image file of a cut-out object with an alpha channel.

  Attributes:
    path: path of the file.
    class_name: name of its folder.
    label: class index in ImageNet's order.
    class_index: position of the class folder among all class folders, `foreground_class` in
      SI-Score.
    instance: position of the file in its folder, `foreground_instance` in SI-Score.
  """

  path: Path
  class_name: str
  label: int
  class_index: int
  instance: int


def find_cutouts(
  folder: str, key: str = 'config.data.scenes.foregrounds', left_out: Counter[str] | None = None
) -> tuple[CutoutFile, ...]:
  """Lists the cut-out objects in class folders, <class>/<object>.png, by class and file name.

  Args:
    folder: folder of the class folders, which are named as in `robustness.scenes.classes`.
    key: the setting with the folder, for messages.
    left_out: counter of files that are not read, by reason, which is updated.

  Returns:
    An entry for each file: its path, which begins with `folder`, and its class and position.
  """
  root = image_files.existing_folder(folder, 'give the one that holds one folder a class.', key)
  if not image_files.folders_in(root):
    fix = f'Expected {root}/<class>/<object>.png.'
    raise SettingError(key, folder, fix=fix, problem='which holds no class folders')
  cutouts = []
  for class_index, (name, path) in enumerate(image_files.folders_in(root).items()):
    label = imagenet_index(name, f'{key}: folder')
    files = image_files.images_in(path, ('.png', '.webp'), deep=False, left_out=left_out)
    if not files:
      problem = f'{path} holds no PNG or WebP file: a cutout needs an alpha channel'
      raise InputError(f'{problem}. Remove the folder or fill it.')
    cutouts += [
      CutoutFile(file, name, label, class_index=class_index, instance=instance)
      for instance, file in enumerate(files)
    ]
  return tuple(cutouts)


def find_backgrounds(
  folder: str, key: str = 'config.data.scenes.backgrounds', left_out: Counter[str] | None = None
) -> tuple[Path, ...]:
  """Lists the background images in a folder, sorted by name.

  Args:
    folder: the folder; its subfolders are not searched.
    key: the setting with the folder, for messages.
    left_out: counter of files that are not read, by reason, which is updated.
  """
  root = image_files.existing_folder(folder, 'give the one that holds backgrounds.', key)
  files = image_files.images_in(root, deep=False, left_out=left_out)
  if not files:
    fix = f'Expected files ending in {", ".join(SUFFIXES)}.'
    raise SettingError(key, folder, fix=fix, problem='which holds no image')
  return tuple(files)


def check_cutout(path: Path) -> Size:
  """Returns (height, width) of a cut-out object from the header of its file.

  Raises:
    InputError: the file has no alpha channel, or its longer side is more than `MAX_ASPECT` times
      its shorter side.
  """
  with image_files.opened(str(path)) as image:
    mode, size = image.mode, (image.height, image.width)
    has_alpha = 'A' in image.getbands() or 'transparency' in image.info
  if not has_alpha:
    problem = f'cutout {path} has no alpha channel ({mode})'
    raise InputError(f'{problem}; save the object as PNG with a transparent ground.')
  height, width = size
  if max(size) > MAX_ASPECT * min(size):
    problem = f'cutout {path} is {width}×{height} pixels'
    raise InputError(f'{problem}; it may be {MAX_ASPECT} times as long as wide at most. Remove it.')
  return size


def read_cutout(path: Path) -> np.ndarray:
  """Reads a cut-out object, uint8 [h, w, 4], as RGBA with straight (not premultiplied) alpha.

  Raises:
    InputError: the file has no alpha channel, its longer side is more than `MAX_ASPECT` times its
      shorter side, or all pixels are transparent.
  """
  check_cutout(path)
  with image_files.opened(str(path)) as image:
    pixels = np.asarray(image.convert('RGBA'))
  if not pixels[..., 3].any():
    raise InputError(f'cutout {path} is transparent everywhere; it shows no object. Remove it.')
  return pixels


def read_background(path: Path, side: int) -> np.ndarray:
  """Reads a background as a square, uint8 [side, side, 3].

  The largest square at the top left of the image is resized by Pillow's BILINEAR filter.

  Raises:
    InputError: the background is too small, see `check_background`.
  """
  check_background(path, side)
  picture = Image.fromarray(image_files.read_image(str(path), channels=3))
  square = picture.crop((0, 0, min(picture.size), min(picture.size)))
  if square.size != (side, side):
    square = square.resize((side, side), Image.Resampling.BILINEAR)
  return np.asarray(square)


def check_background(path: Path, side: int) -> None:
  """Raises InputError if a background must be enlarged more than `MAX_ENLARGEMENT` times.

  Only the header of the file is read.

  Args:
    path: path of the file.
    side: side of the scene in pixels.
  """
  height, width = image_files.read_size(str(path))
  if min(height, width) * MAX_ENLARGEMENT < side:
    problem = f'background {path} is {width}×{height} pixels; the canvas has {side}×{side}'
    limit = f'a background is enlarged {MAX_ENLARGEMENT} times at most'
    raise InputError(f'{problem}, and {limit}. Remove it or take a larger one.')


@dataclasses.dataclass(frozen=True)
class SceneParts(Source, abc.ABC):
  """Base class of data sources with cut-out objects and backgrounds, to compose into scenes.

  The study `si_score` composes them on the device.

  Attributes:
    canvas: side of the scenes in pixels; 0 uses the side in the study's settings, or 512.
  """

  resized_on_device = True
  splits = ('test',)

  canvas: int = setting(0, COUNT, is_count)

  def for_study(self, study: Facts) -> Self:
    """Returns the source with the size of scenes that a study sets, unless `canvas` is set.

    Args:
      study: description of the study as JSON values.
    """
    return dataclasses.replace(self, canvas=self.canvas or study.get('canvas', 0))

  @property
  def side(self) -> int:
    """The side of the scenes in pixels."""
    return self.canvas or CANVAS

  def pairs(
    self,
    title: str,
    description: Facts,
    labels: Sequence[int],
    sizes: Sequence[Size],
    cutout: Read,
    background: Read,
    object_names: Sequence[str],
    background_names: Sequence[str],
  ) -> Images:
    """Describes all pairs of an object with one of its two random backgrounds as `Images`.

    The image is the background, and the column `foreground` the cut-out object. A study composes
    them into scenes.

    Args:
      title: name of the data set in messages.
      description: JSON values that identify the data in results.json.
      labels: class of each object in ImageNet's order, 0 to 999.
      sizes: (height, width) of each object in pixels.
      cutout: called with the index of an object; returns it, uint8 [h, w, 4].
      background: called with the index of a background; returns it, uint8 [S, S, 3].
      object_names: names of all objects, for messages.
      background_names: names of all backgrounds, for messages.
    """
    side = self.side
    padded_side = max(map(max, sizes))  # all cutouts are padded to squares with the longest side
    drawn = draw_backgrounds(len(labels), len(background_names))  # [objects, 2]
    # of each row the number of the object, 0, 0, 1, 1, 2, …, and the number of the background
    objects = np.arange(len(labels)).repeat(drawn.shape[1])
    backgrounds = drawn.ravel()
    drawn_pairs = np.stack([objects, backgrounds], 1)
    classes = np.asarray(labels, np.int32)[objects]
    columns = {
      'object': objects,
      'background': backgrounds,
      'imagenet_class': classes,
      'foreground_size': np.asarray(sizes)[objects],
    }

    def read_pair(pair: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.int32]:
      """Reads the background, the padded object, and the number of pixels of the object.

      Args:
        pair: int [2], indices of the object and the background.
      """
      object_number, background_number = pair.tolist()
      pixels = cutout(object_number)
      height, width = pixels.shape[:2]
      padded = np.pad(pixels, ((0, padded_side - height), (0, padded_side - width), (0, 0)))
      return background(background_number), padded, np.int32(num_mask_pixels(pixels[..., 3]))

    def decode(pair: tf.Tensor) -> dict[str, tf.Tensor]:
      """Reads an object and a background in TensorFlow, by calling the Python function `read_pair`.

      Args:
        pair: the element that identifies the pair.

      Returns:
        {column: tensor} with fixed shapes: the background `image`, the cutout `foreground` padded
        to a square, and its number of pixels.
      """
      import tensorflow as tf

      dtypes = (tf.uint8, tf.uint8, tf.int32)
      image, foreground, count = tf.numpy_function(read_pair, [pair], dtypes)
      return {
        'image': tf.ensure_shape(image, [side, side, 3]),
        'foreground': tf.ensure_shape(foreground, [padded_side, padded_side, 4]),
        'foreground_pixels': tf.ensure_shape(count, []),
      }

    def describe(index: int) -> str:
      """Returns the names of the object and background of the pair `index`, for messages."""
      name, ground = object_names[objects[index]], background_names[backgrounds[index]]
      return f'{name} on {ground} (example {index})'

    counts = {'objects': len(labels), 'num_backgrounds': len(background_names)}
    return Images(
      title=title,
      num_examples=len(drawn_pairs),
      class_names=WNIDS,
      channels=3,
      as_stored=True,
      description={**description, 'canvas': side, **counts},
      store=MemoryStore(drawn_pairs, classes),
      decode=decode,
      where=describe,
      sizes=lambda indices: [(side, side)] * len(indices),
      columns={name: values.astype(np.int32) for name, values in columns.items()},
    )


@dataclasses.dataclass(frozen=True)
class Scenes(SceneParts):
  """Cut-out objects and backgrounds in two folders.

  Attributes:
    foregrounds: folder of cut-out objects, <class>/<object>.png with transparent pixels.
    backgrounds: folder of background images.
  """

  foregrounds: str = ''
  backgrounds: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns each object with each of two random backgrounds.

    All headers are checked, and up to `MAX_DECODED` files are decoded, so that bad files are
    reported before anything is computed.
    """
    side = self.side
    left_out = Counter[str]()
    cutouts = find_cutouts(self.foregrounds, left_out=left_out)
    backgrounds = find_backgrounds(self.backgrounds, left_out=left_out)
    for path in backgrounds:
      check_background(path, side)
    sizes = [check_cutout(cutout.path) for cutout in cutouts]
    files = [*(cutout.path for cutout in cutouts), *backgrounds]
    refuse_damaged(
      lambda index: damage(files[index]),
      checked=evenly_spaced(np.arange(len(files)), MAX_DECODED),
      num_pictures=len(files),
      describe=lambda index: str(files[index]),
    )
    images = self.pairs(
      title=f'scenes of {self.foregrounds!r}',
      description={'foregrounds': self.foregrounds, 'backgrounds': self.backgrounds},
      labels=[cutout.label for cutout in cutouts],
      sizes=sizes,
      cutout=lambda index: read_cutout(cutouts[index].path),
      background=lambda index: read_background(backgrounds[index], side),
      object_names=[str(cutout.path) for cutout in cutouts],
      background_names=[path.name for path in backgrounds],
    )
    objects = images.columns['object']
    return dataclasses.replace(
      images, left_out=left_out, file=lambda index: str(cutouts[objects[index]].path)
    )
