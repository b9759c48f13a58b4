"""ImageNet-9: nine groups of ImageNet's classes with backgrounds kept, removed and exchanged.

Files are PATH/<variant>/val/<number>_<class>/<picture>.JPEG. The column `variant` is the name of a
row's variant: 'original', 'mixed_same', 'mixed_rand', 'mixed_next', 'only_fg', 'no_fg', 'only_bg_b'
or 'only_bg_t'. Rows are ordered by variant, class and file name. `base_id` numbers foregrounds: a
picture `fg_<foreground>_bg_<background>.JPEG` is a version of `<foreground>.JPEG` of its class.
With `masks` rows have the column `foreground` [H, W], which
PATH/fg_mask/val/<number>_<class>/<picture>.npy holds.

Reference: Xiao et al., Noise or signal: the role of image backgrounds in object recognition, ICLR
2021, and the layout of their release.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from input_pipeline.image_files import file_images, folders_in, images_in, read_file
from input_pipeline.images import Images, bytes_of
from input_pipeline.selection import choose_groups
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError
from robustness.core.registry import are_distinct_and_some, setting
from robustness.models import label_space

if TYPE_CHECKING:
  import tensorflow as tf

MIXED_SAME, MIXED_RAND, VARIANT, BASE = 'mixed_same', 'mixed_rand', 'variant', 'base_id'
VARIANTS = (
  *('original', MIXED_SAME, MIXED_RAND, 'mixed_next'),
  *('only_fg', 'no_fg', 'only_bg_b', 'only_bg_t'),
)
"""The variants of the release; 'no_fg' and 'only_bg_*' have no foreground."""
_FOREGROUND = re.compile(r'fg_(.+?)_bg_.+')
"""Name of a mixed picture; its group is the name of the foreground's original."""
_FOLDER = re.compile(r'\d\d_(.+)')
"""Name of a class folder, such as '00_dog'; its group is the class."""


@dataclasses.dataclass(frozen=True)
class Imagenet9(Source):
  """ImageNet-9, images with removed or exchanged backgrounds.

  The files are <variant>/val/<number>_<class>/<image>. Variants are, for instance, 'original';
  'only_fg', without backgrounds; 'no_fg', without foregrounds; and 'mixed_rand', with backgrounds
  from images of random classes.

  Attributes:
    path: folder with a folder for each variant.
    masks: whether to read only the variant 'original', with the mask of the foreground as a column.
      Images without a mask are left out.
    variants: the variants to read.
  """

  name = 'imagenet_9'
  splits = ('test',)

  path: str = ''
  masks: bool = False
  variants: tuple[str, ...] = setting(
    VARIANTS[:3], 'not empty, distinct', are_distinct_and_some, only_with=('masks', False)
  )

  def open(self, settings: DataSettings) -> Images:
    """Returns the images, in RGB.

    A random subset (`config.data.num_images`) has either all variants of a foreground or none.

    Raises:
      InputError: a variant has other class folders or lacks images, or there are no images.
    """
    self.choose('variants', VARIANTS)
    root = self.folder('give the folder that holds original, mixed_same, mixed_rand, ....')
    # the last class of the label space stands for the other classes of ImageNet
    names = label_space.get(self.name).class_names[:-1]
    left_out = Counter[str]()
    variants_read = ('original',) if self.masks else self.variants
    pictures = [*self._pictures(root, variants_read, names, left_out)]
    if not pictures:
      place_of_masks = ' with masks in fg_mask/val' if self.masks else ''
      raise InputError(f'{root} holds no images of {", ".join(variants_read)}{place_of_masks}.')
    paths, variants, labels, foregrounds = zip(*pictures, strict=True)
    _, bases = np.unique(foregrounds, return_inverse=True)  # number of each picture's foreground
    # fields of `Images`, which then reads masks too and leaves both at their size
    mask_fields = {'read': None, 'decode': _with_mask, 'as_stored': True} if self.masks else {}
    return file_images(
      paths,
      np.array(labels, np.int32),
      names,
      title=f'ImageNet-9 in {self.path}',
      description={'path': self.path, 'variants': list(variants_read)},
      channels=3,
      columns={VARIANT: np.array(variants), BASE: bases.astype(np.int32)},
      choose=functools.partial(choose_groups, bases, noun='foregrounds'),
      left_out=left_out,
      **mask_fields,
    )

  def _pictures(
    self, root: Path, variants: Sequence[str], names: Sequence[str], left_out: Counter[str]
  ) -> Iterator[tuple[str, str, int, str]]:
    """Yields the path, variant, label and foreground of each picture.

    Pictures of one foreground are versions of the same original picture, <class>/<picture>.

    Args:
      root: folder of the variants.
      variants: the variants to read.
      names: names of the classes in label order.
      left_out: counter of files that are not read, by reason, which is updated.
    """
    first_mixed: dict[str, tuple[Path, int]] = {}  # {class: (first mixed folder, its pictures)}
    for variant in variants:
      for name, folder in _class_folders(root / variant / 'val', names).items():
        files = images_in(folder, left_out=left_out)
        if self.masks:
          with_mask = [file for file in files if _mask_of(file).is_file()]
          left_out['pictures without a mask'] += len(files) - len(with_mask)
          files = with_mask
        if variant.startswith('mixed_'):  # these variants have the same foregrounds
          first_folder, count = first_mixed.setdefault(name, (folder, len(files)))
          if len(files) != count:
            problem = f'{folder} has {len(files)} pictures, and {first_folder} has {count}'
            fix = 'both show the same foregrounds. Unpack the archive again.'
            raise InputError(f'{problem}; {fix}')
        for file in files:
          # the name of a mixed picture states the original picture of its foreground
          match = _FOREGROUND.fullmatch(file.stem)
          foreground = f'{name}/{match[1] if match else file.stem}'
          yield str(file), variant, names.index(name), foreground


def _class_folders(root: Path, names: Sequence[str]) -> dict[str, Path]:
  """Returns the folders in `root`, such as '00_dog', by the name of their class, such as 'dog'.

  Raises:
    InputError: there is not one folder for each of the classes `names`.
  """
  folders = folders_in(root) if root.is_dir() else {}
  matches = [_FOLDER.fullmatch(folder) for folder in folders]
  names_of_folders = [match[1] if match else '' for match in matches]
  if sorted(names_of_folders) != sorted(names):
    listed = ', '.join(folders) or 'none'
    raise InputError(f'{root} has the folders {listed}; expected 00_dog to 08_fish.')
  return dict(zip(names_of_folders, folders.values(), strict=True))


def _mask_of(picture: Path) -> Path:
  """Returns the path of the foreground mask for the image ROOT/original/val/<class>/<image>."""
  return picture.parents[3] / 'fg_mask/val' / picture.parent.name / f'{picture.stem}.npy'


def _with_mask(path: tf.Tensor) -> dict[str, tf.Tensor]:
  """Reads an image, uint8 [H, W, 3], and its foreground mask, bool [H, W], in TensorFlow.

  Args:
    path: path of the image.

  Returns:
    `{'image': ..., 'foreground': ...}`.
  """
  import tensorflow as tf

  def read(value: bytes | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reads an image and its foreground mask, called by TensorFlow for each element.

    Args:
      value: path of the image.

    Returns:
      The image, uint8 [H, W, 3], and the mask, bool [H, W].
    """
    file = bytes_of(value)
    image = read_file(file, 3)
    mask_file = _mask_of(Path(file.decode()))
    mask = np.load(mask_file, allow_pickle=False)
    if mask.shape != image.shape[:2]:
      raise InputError(f'{mask_file} has the shape {mask.shape}; its picture {image.shape}.')
    return image, mask.astype(bool)

  image, mask = tf.numpy_function(read, [path], (tf.uint8, tf.bool))
  image, mask = tf.ensure_shape(image, [None, None, 3]), tf.ensure_shape(mask, [None, None])
  return {'image': image, 'foreground': mask}
