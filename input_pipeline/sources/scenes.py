"""Parts of scenes: a row is a cutout and a background, which views put together (SI-Score).

Cutouts are in class folders, backgrounds in a folder; both are sorted by name. Each cutout gets
two backgrounds, drawn without replacement. Of a row, `image` is the background, [S, S, 3] with S =
`canvas`; `foreground` the cutout, uint8 [F, F, 4], in the upper left of a square that
holds the largest; `foreground_size` its height and width; `foreground_pixels` how many of them its
mask has; `object` and `background` are positions in the sorted lists of files. Labels are
ImageNet's, kept as `imagenet_class` too.
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
from input_pipeline.selection import MAX_DECODED, evenly, refuse_damaged
from input_pipeline.settings import COUNT, DataSettings, Source, is_count
from robustness.core.errors import InputError, SettingError
from robustness.core.pictures import SUFFIXES, damage
from robustness.core.registry import setting
from robustness.core.typing import Facts
from robustness.models.imagenet_names import WNIDS
from robustness.scenes.classes import imagenet_index
from robustness.scenes.designs import LONGEST, draw_backgrounds

if TYPE_CHECKING:
  import tensorflow as tf

CANVAS = 512
"""Side of the canvas if neither the data nor the study set one, pixels."""
MAX_ENLARGEMENT = 1.25
Read = Callable[[int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class CutoutFile:
  """A file of an object with alpha, as metadata.csv of SI-Score names it.

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


def find_cutouts(
  folder: str, key: str = 'config.data.scenes.foregrounds', left_out: Counter[str] | None = None
) -> tuple[CutoutFile, ...]:
  """Returns the cutouts <class>/<object>.png of a folder of class folders.

  The classes are listed in `robustness.scenes.classes`; `key` names the folder.
  """
  root = image_files.existing_folder(folder, 'give the one that holds one folder a class.', key)
  if not image_files.folders_in(root):
    fix = f'Expected {root}/<class>/<object>.png.'
    raise SettingError(key, folder, fix=fix, problem='which holds no class folders')
  cutouts = []
  for class_index, (name, path) in enumerate(image_files.folders_in(root).items()):
    label = imagenet_index(name, f'{key}: folder')
    files = image_files.images_in(path, ('.png', '.webp'), False, left_out)
    if not files:
      raise InputError(
        f'{path} holds no PNG or WebP file: a cutout needs an alpha channel. Remove '
        'the folder or fill it.'
      )
    cutouts += [CutoutFile(file, name, label, class_index, i) for i, file in enumerate(files)]
  return tuple(cutouts)


def find_backgrounds(
  folder: str, key: str = 'config.data.scenes.backgrounds', left_out: Counter[str] | None = None
) -> tuple[Path, ...]:
  """Returns the image files of a folder."""
  root = image_files.existing_folder(folder, 'give the one that holds backgrounds.', key)
  files = image_files.images_in(root, deep=False, left_out=left_out)
  if not files:
    fix = f'Expected files ending in {", ".join(SUFFIXES)}.'
    raise SettingError(key, folder, fix=fix, problem='which holds no image')
  return tuple(files)


def check_cutout(path: Path) -> Size:
  """Returns the size of a cutout that scenes can be made of; no pixel is decoded, so that thousands
  are checked at once."""
  with image_files.opened(str(path)) as image:
    mode, size = image.mode, (image.height, image.width)
    alpha = 'A' in image.getbands() or 'transparency' in image.info
  if not alpha:
    raise InputError(
      f'cutout {path} has no alpha channel ({mode}); save the object as PNG with a transparent '
      'ground.'
    )
  height, width = size
  if max(size) > LONGEST * min(size):
    raise InputError(
      f'cutout {path} is {width}×{height} pixels; it may be {LONGEST} times as long as wide at '
      'most. Remove it.'
    )
  return size


def read_cutout(path: Path) -> np.ndarray:
  """Returns uint8 [h, w, 4], colours not multiplied by alpha."""
  check_cutout(path)
  with image_files.opened(str(path)) as image:
    pixels = np.asarray(image.convert('RGBA'))
  if not pixels[..., 3].any():
    raise InputError(f'cutout {path} is transparent everywhere; it shows no object. Remove it.')
  return pixels


def read_background(path: Path, side: int) -> np.ndarray:
  """Returns the largest square from the top left, BILINEAR to the canvas: uint8 [side, side, 3]."""
  check_background(path, side)
  picture = Image.fromarray(image_files.read_image(str(path), channels=3))
  square = picture.crop((0, 0, min(picture.size), min(picture.size)))
  if square.size != (side, side):
    square = square.resize((side, side), Image.Resampling.BILINEAR)
  return np.asarray(square)


def check_background(path: Path, side: int) -> None:
  """Refuses a background that is much smaller than the canvas; reads its header only."""
  (height, width), _ = image_files.read_header(str(path))
  if min(height, width) * MAX_ENLARGEMENT < side:
    raise InputError(
      f'background {path} is {width}×{height} pixels; the canvas has '
      f'{side}×{side}, and a background is enlarged {MAX_ENLARGEMENT} times at '
      'most. Remove it or take a larger one.'
    )


@dataclasses.dataclass(frozen=True)
class SceneParts(Source, abc.ABC):
  """Cutouts and backgrounds, which views put together.

  Attributes:
    canvas: side of the scenes, pixels; 0 takes what the study was published with.
  """

  resized_on_device = True
  splits = ('test',)

  canvas: int = setting(0, COUNT, is_count)

  def for_study(self, study: Facts) -> Self:
    """See `Source`."""
    return dataclasses.replace(self, canvas=self.canvas or study.get('canvas', 0))

  @property
  def side(self) -> int:
    """Side of the canvas, pixels."""
    return self.canvas or CANVAS

  def pairs(
    self,
    title: str,
    description: Facts,
    labels: Sequence[int],
    sizes: Sequence[Size],
    cutout: Read,
    background: Read,
    names: tuple[Sequence[str], Sequence[str]],
  ) -> Images:
    """Returns rows of every object with its backgrounds, objects in order.

    Args:
      title, description: see `Images`.
      labels, sizes: of the objects: positions among ImageNet's classes, height and width.
      cutout, background: read one by number, uint8 [h, w, 4] and [S, S, 3].
      names: of the objects and of the backgrounds, for messages.
    """
    side, room = self.side, max(map(max, sizes))
    drawn = draw_backgrounds(len(labels), len(names[1]))
    drawn_pairs = np.stack([np.arange(len(labels)).repeat(drawn.shape[1]), drawn.ravel()], 1)
    classes = np.asarray(labels, np.int32)[drawn_pairs[:, 0]]
    columns = {
      'object': drawn_pairs[:, 0],
      'background': drawn_pairs[:, 1],
      'imagenet_class': classes,
      'foreground_size': np.asarray(sizes)[drawn_pairs[:, 0]],
    }

    def read(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.int32]:
      pixels = cutout(int(numbers[0]))
      height, width = pixels.shape[:2]
      padded = np.pad(pixels, ((0, room - height), (0, room - width), (0, 0)))
      return background(int(numbers[1])), padded, np.int32((pixels[..., 3] >= 128).sum())

    def decode(pair: tf.Tensor) -> dict[str, tf.Tensor]:
      import tensorflow as tf

      image, foreground, count = tf.numpy_function(read, [pair], (tf.uint8, tf.uint8, tf.int32))
      return {
        'image': tf.ensure_shape(image, [side, side, 3]),
        'foreground': tf.ensure_shape(foreground, [room, room, 4]),
        'foreground_pixels': tf.ensure_shape(count, []),
      }

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
        'num_backgrounds': len(names[1]),
      },
      store=MemoryStore(drawn_pairs, classes),
      decode=decode,
      where=lambda index: (
        f'{names[0][drawn_pairs[index, 0]]} on {names[1][drawn_pairs[index, 1]]} (example {index})'
      ),
      sizes=lambda indices: [(side, side)] * len(indices),
      columns={name: values.astype(np.int32) for name, values in columns.items()},
    )


@dataclasses.dataclass(frozen=True)
class Scenes(SceneParts):
  """Parts of scenes: cutouts and backgrounds in two folders, which views put together.

  Attributes:
    foregrounds: the folder of class folders of cutouts with alpha.
    backgrounds: the folder of backgrounds.
  """

  foregrounds: str = ''
  backgrounds: str = ''

  def open(self, settings: DataSettings) -> Images:
    side = self.side
    left_out = Counter[str]()
    cutouts = find_cutouts(self.foregrounds, left_out=left_out)
    backgrounds = find_backgrounds(self.backgrounds, left_out=left_out)
    for path in backgrounds:
      check_background(path, side)
    sizes = [check_cutout(cutout.path) for cutout in cutouts]
    files = [*(cutout.path for cutout in cutouts), *backgrounds]
    looked_at = evenly(np.arange(len(files)), MAX_DECODED)
    refuse_damaged(
      lambda index: damage(files[index]),
      looked_at,
      len(looked_at),
      len(files),
      lambda index: str(files[index]),
    )
    images = self.pairs(
      f'scenes of {self.foregrounds!r}',
      {'foregrounds': self.foregrounds, 'backgrounds': self.backgrounds},
      labels=[cutout.label for cutout in cutouts],
      sizes=sizes,
      cutout=lambda index: read_cutout(cutouts[index].path),
      background=lambda index: read_background(backgrounds[index], side),
      names=([str(cutout.path) for cutout in cutouts], [path.name for path in backgrounds]),
    )
    return dataclasses.replace(images, left_out=left_out)
