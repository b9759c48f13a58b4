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
  """A file of an object with an alpha channel.

  Attributes:
    path: path of the file.
    class_name: name of its folder.
    label: position of the class in ImageNet's order.
    class_index: position of the class among the class folders, `foreground_class` of SI-Score.
    instance: position of the file in its folder, `foreground_instance` of SI-Score.
  """

  path: Path
  class_name: str
  label: int
  class_index: int
  instance: int


def find_cutouts(
  folder: str, key: str = 'config.data.scenes.foregrounds', left_out: Counter[str] | None = None
) -> tuple[CutoutFile, ...]:
  """Returns the cutouts <class>/<object>.png of a folder of class folders, by class and file name.

  Args:
    folder: the folder; the names of class folders are listed in `robustness.scenes.classes`.
    key: the setting with the folder, for messages.
    left_out: counter to which the files that are not read are added, by reason.
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
      raise InputError(
        f'{path} holds no PNG or WebP file: a cutout needs an alpha channel. Remove '
        'the folder or fill it.'
      )
    cutouts += [
      CutoutFile(file, name, label, class_index=class_index, instance=instance)
      for instance, file in enumerate(files)
    ]
  return tuple(cutouts)


def find_backgrounds(
  folder: str, key: str = 'config.data.scenes.backgrounds', left_out: Counter[str] | None = None
) -> tuple[Path, ...]:
  """Returns the image files of a folder of backgrounds, sorted by name.

  Args:
    folder: the folder; its subfolders are not read.
    key: the setting with the folder, for messages.
    left_out: counter to which the files that are not read are added, by reason.
  """
  root = image_files.existing_folder(folder, 'give the one that holds backgrounds.', key)
  files = image_files.images_in(root, deep=False, left_out=left_out)
  if not files:
    fix = f'Expected files ending in {", ".join(SUFFIXES)}.'
    raise SettingError(key, folder, fix=fix, problem='which holds no image')
  return tuple(files)


def check_cutout(path: Path) -> Size:
  """Returns height and width of a cutout from its header, without decoding it.

  Raises:
    InputError: the cutout has no alpha channel, or its longer side is more than `MAX_ASPECT` times
      the shorter one.
  """
  with image_files.opened(str(path)) as image:
    mode, size = image.mode, (image.height, image.width)
    has_alpha = 'A' in image.getbands() or 'transparency' in image.info
  if not has_alpha:
    raise InputError(
      f'cutout {path} has no alpha channel ({mode}); save the object as PNG with a transparent '
      'ground.'
    )
  height, width = size
  if max(size) > MAX_ASPECT * min(size):
    raise InputError(
      f'cutout {path} is {width}×{height} pixels; it may be {MAX_ASPECT} times as long as wide at '
      'most. Remove it.'
    )
  return size


def read_cutout(path: Path) -> np.ndarray:
  """Returns a cutout, uint8 [h, w, 4], RGBA with colours that are not multiplied by alpha.

  Raises:
    InputError: the cutout has no alpha channel, its longer side is more than `MAX_ASPECT` times
      the shorter one, or all pixels are transparent.
  """
  check_cutout(path)
  with image_files.opened(str(path)) as image:
    pixels = np.asarray(image.convert('RGBA'))
  if not pixels[..., 3].any():
    raise InputError(f'cutout {path} is transparent everywhere; it shows no object. Remove it.')
  return pixels


def read_background(path: Path, side: int) -> np.ndarray:
  """Returns a background, uint8 [side, side, 3].

  The picture is cropped to a square, from its top left corner and as large as possible. The square
  is resized by Pillow's BILINEAR filter.
  """
  check_background(path, side)
  picture = Image.fromarray(image_files.read_image(str(path), channels=3))
  square = picture.crop((0, 0, min(picture.size), min(picture.size)))
  if square.size != (side, side):
    square = square.resize((side, side), Image.Resampling.BILINEAR)
  return np.asarray(square)


def check_background(path: Path, side: int) -> None:
  """Raises InputError if a background must be enlarged more than `MAX_ENLARGEMENT` times.

  `side` is the side of the canvas in pixels. Only the header of the file is read.
  """
  height, width = image_files.read_size(str(path))
  if min(height, width) * MAX_ENLARGEMENT < side:
    raise InputError(
      f'background {path} is {width}×{height} pixels; the canvas has '
      f'{side}×{side}, and a background is enlarged {MAX_ENLARGEMENT} times at '
      'most. Remove it or take a larger one.'
    )


@dataclasses.dataclass(frozen=True)
class SceneParts(Source, abc.ABC):
  """Base class of sources of cut-out objects and backgrounds, which the study composes to scenes.

  Attributes:
    canvas: side of the scenes, pixels; 0 takes the side in the study's settings, else 512.
  """

  resized_on_device = True
  splits = ('test',)

  canvas: int = setting(0, COUNT, is_count)

  def for_study(self, study: Facts) -> Self:
    """Returns the source with the side of the canvas that the study sets, if `canvas` is 0."""
    return dataclasses.replace(self, canvas=self.canvas or study.get('canvas', 0))

  @property
  def side(self) -> int:
    """The side of the canvas in pixels."""
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
    """Returns a row for every object with each of its two random backgrounds, ordered by object.

    The image of a row is the background, and its column `foreground` the cutout of the object. The
    study composes scenes from both when it shows the row.

    Args:
      title: title of the data, see `Images`.
      description: plain values that describe the data, see `Images`.
      labels: label of each object's class in ImageNet's order, 0..999.
      sizes: height and width of each object's cutout, pixels.
      cutout: function of the number of an object that returns its cutout, uint8 [h, w, 4].
      background: function of the number of a background that returns it, uint8 [S, S, 3].
      object_names: names of all objects, for messages.
      background_names: names of all backgrounds, for messages.
    """
    side, largest = self.side, max(map(max, sizes))  # cutouts are padded to the longest side
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
      """Returns background, padded cutout and the number of pixels of the cutout's mask.

      `pair` has the number of the object and the number of the background, int [2].
      """
      object_number, background_number = pair.tolist()
      pixels = cutout(object_number)
      height, width = pixels.shape[:2]
      padded = np.pad(pixels, ((0, largest - height), (0, largest - width), (0, 0)))
      return background(background_number), padded, np.int32(num_mask_pixels(pixels[..., 3]))

    def decode(pair: tf.Tensor) -> dict[str, tf.Tensor]:
      """Returns the columns of a row that `read_pair` returns."""
      import tensorflow as tf

      dtypes = (tf.uint8, tf.uint8, tf.int32)
      image, foreground, count = tf.numpy_function(read_pair, [pair], dtypes)
      return {
        'image': tf.ensure_shape(image, [side, side, 3]),
        'foreground': tf.ensure_shape(foreground, [largest, largest, 4]),
        'foreground_pixels': tf.ensure_shape(count, []),
      }

    def describe(index: int) -> str:
      """Returns the names of the object and the background of a row."""
      name, ground = object_names[objects[index]], background_names[backgrounds[index]]
      return f'{name} on {ground} (example {index})'

    return Images(
      title=title,
      num_examples=len(drawn_pairs),
      class_names=WNIDS,
      channels=3,
      as_stored=True,
      description={
        **description,
        'canvas': side,
        'objects': len(labels),
        'num_backgrounds': len(background_names),
      },
      store=MemoryStore(drawn_pairs, classes),
      decode=decode,
      where=describe,
      sizes=lambda indices: [(side, side)] * len(indices),
      columns={name: values.astype(np.int32) for name, values in columns.items()},
    )


@dataclasses.dataclass(frozen=True)
class Scenes(SceneParts):
  """Objects and backgrounds in two folders, from which scenes are composed.

  Attributes:
    foregrounds: the folder of cut-out objects, <class>/<object>.png with transparent pixels.
    backgrounds: the folder of backgrounds.
  """

  foregrounds: str = ''
  backgrounds: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns a row for each cutout on each of two backgrounds, which are chosen at random.

    The headers of all files are checked, and up to `MAX_DECODED` files are decoded, so that bad
    files are reported before anything is computed.
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
    return dataclasses.replace(images, left_out=left_out)
