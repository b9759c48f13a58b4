"""Describes the images of a study, and whether its results are comparable with published numbers.

Every study states it in the table `WHICH_NUMBERS` of its results.
"""

import hashlib
import pathlib
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from robustness.core.errors import KEYS, WORKDIR, InputError
from robustness.core.rows import are_equal_columns
from robustness.core.typing import Facts
from robustness.evaluation.records import RecordsReader
from robustness.results import DIGEST_OF_IMAGES, Table

IMAGE_DIGEST = 'image_digest'
"""Column of records with the digest of each image, see `image_digests`."""
LEVELS = np.arange(256, dtype=np.float32) / np.float32(255)
"""The values of 8-bit pixels, in [0, 1]."""
COMPARABLE = 'comparable with published tables'
"""The line that states whether results are comparable with published ones."""
WHOLE = {
  'cifar10': ('test', 10_000),
  'cifar100': ('test', 10_000),
  'imagenet2012': ('validation', 50_000),
  'mnist': ('test', 10_000),
}
"""{TFDS name: split and number of images of published numbers}."""
ROBUSTBENCH, ROBUSTBENCH_IMAGES = 'robustbench', 5000
"""RobustBench's list of ImageNet's validation images, as `config.data.image_list` names it."""


def data_lines(
  description: Facts, digest: str, num_images: int, image_shape: tuple[int, int, int]
) -> dict[str, str]:
  """Describes the images of a run as {name: text}, which a report prints as lines of a table.

  Args:
    description: facts about the images, such as their source and how they were resized
      (`Rows.description`).
    digest: digest of all images, from `data_digest`.
    num_images: number of images.
    image_shape: height, width and channels of the images.
  """
  keys = ('source', 'name', 'path', 'foregrounds', 'backgrounds', 'split')
  lines = {
    'images': _number_of_images(description, num_images),
    'data': values_in_words(description, keys),
    DIGEST_OF_IMAGES: digest,
    'preprocessing': _preprocessing(description, image_shape),
  }
  groups = description.get('class_groups') or {}
  if groups:
    # such as 'C1 (cat, dog)'; groups without classes are left out
    texts = [f'{name} ({", ".join(classes)})' for name, classes in groups.items() if classes]
    lines['class groups'] = ', '.join(texts)
  return lines


def set_differences(description: Facts, num_images: int, sample_size: int = 0) -> list[str]:
  """Returns how the images differ from a whole published data set, as a list of phrases.

  An example is ['1000 of 10000 images']. The list is empty if they do not differ.

  Args:
    description: description of the images, with the name and split of their data set.
    num_images: number of images.
    sample_size: size of a random sample of the set for which results are published too; 0 for none.
      A sample of this size counts as no difference.
  """
  # without the version and the config, as in 'cifar10:3.0.2' and 'imagenet2012/config'
  name = str(description.get('name', '')).partition(':')[0].partition('/')[0]
  if name not in WHOLE:
    return ['the data are not known to be a whole published set']
  published, size = WHOLE[name]
  split = str(description.get('split', ''))
  differences = []
  if not split.startswith(published):
    differences.append(f'the split is {split or "not recorded"}, not {published}')
  if num_images not in (size, sample_size):
    differences.append(f'{num_images} of {size} images')
  return differences


def comparability_in_words(differences: Sequence[str], otherwise: str = 'yes') -> str:
  """Returns a phrase that says whether results are comparable with published ones.

  ['100 of 10000 images'] becomes 'no: 100 of 10000 images'.

  Args:
    differences: the reasons why they are not.
    otherwise: the phrase without differences.
  """
  return f'no: {"; ".join(differences)}' if differences else otherwise


def table(lines: Mapping[str, str]) -> Table:
  """Returns {what: text} as a table with the columns 'what' and 'value'."""
  return Table(('what', 'value'), [[*line] for line in lines.items()])


def values_in_words(values: Facts, keys: Sequence[str]) -> str:
  """Returns the values at some keys as text, joined by commas.

  Keys without a value are left out. The text is 'not recorded' if no key has a value.
  """
  return ', '.join(str(values[key]) for key in keys if values.get(key)) or 'not recorded'


def _number_of_images(description: Facts, num_images: int) -> str:
  """Returns in words how many images there are and how they were selected.

  Examples are 'the first 100 of 10000', '500 of 10000, drawn with seed 3' and '100 of those listed
  in names.txt'.

  Args:
    description: facts about the images (`Rows.description`). 'image_list' is a file of names or
      'robustbench'; 'subset' is 'first' for the first images; 'subset_seed' is the seed of a random
      choice.
    num_images: number of images.
  """
  image_list, available = description.get('image_list', ''), description.get('available_examples')
  is_first, seed = description.get('subset') == 'first', description.get('subset_seed')
  number = f'the first {num_images}' if is_first else str(num_images)
  if image_list == ROBUSTBENCH and num_images == ROBUSTBENCH_IMAGES:
    return f"{num_images}, RobustBench's subset"
  if image_list == ROBUSTBENCH:
    return f"{number} of RobustBench's subset of {ROBUSTBENCH_IMAGES}"
  if image_list:
    number += f' of those listed in {image_list}'
  elif available and (is_first or seed is not None):
    number += f' of {available}'
  return number if seed is None else f'{number}, drawn with seed {seed}'


def _preprocessing(description: Facts, image_shape: tuple[int, int, int]) -> str:
  """Returns in words how images were resized and cropped, and their size.

  An example is 'shorter side to 256 (bilinear), centre of 224; 224 × 224 pixels'.

  Args:
    description: facts about the images (`Rows.description`), such as `resize` and `crop`.
    image_shape: height, width and channels of the images.
  """
  size = f'{image_shape[0]} × {image_shape[1]} pixels'
  steps = []
  if resize := description.get('resize'):
    sides = 'both sides' if description.get('squash') else 'shorter side'
    by = ', by Pillow' if description.get('resized_by') == 'pillow' else ''
    steps.append(f'{sides} to {resize} ({description.get("interpolation")}{by})')
  if crop := description.get('crop'):
    steps.append(f'centre of {crop}')
  if classifier := description.get('prepared_for'):
    steps.append(f'as {classifier} wants them')
  if 'canvas' in description:
    steps.append('objects pasted on backgrounds that are cut to the canvas')
  return f'{", ".join(steps) or "as stored"}; {size}'


def image_digests(images: np.ndarray) -> np.ndarray:
  """Returns the CRC-32 of the 8-bit pixels of each image, uint32 [B].

  Equal images have equal digests, whether they are stored as uint8 or as floats in [0, 1].
  """
  return np.array([zlib.crc32(_as_stored_levels(image).tobytes()) for image in images], np.uint32)


def _as_stored_levels(image: np.ndarray) -> np.ndarray:
  """Returns an image as uint8 if each value is the float32 of k / 255, and otherwise unchanged.

  An image then has the same bytes whether it was stored as uint8 or as floats.
  """
  if image.dtype == np.uint8:
    return image
  levels = np.rint(image * 255).astype(np.uint8)
  return levels if np.array_equal(LEVELS[levels], image) else image  # LEVELS[k] is k / 255


def require_same_images(
  recorded: Mapping[str, np.ndarray], read: Mapping[str, np.ndarray], folder: pathlib.Path
) -> None:
  """Raises InputError if the images of the data have changed since they were recorded.

  Args:
    recorded: {column: values} in the records, such as the digest of each image.
    read: the same columns of the data, or some of them.
    folder: the folder of the records, for the message.
  """
  for name, values in read.items():
    if not are_equal_columns(recorded[name], values):
      raise InputError(
        f'{folder} holds answers on other images ({name} differs): the images of {KEYS.data} were '
        f'changed or reordered since. Restore them, or give another {WORKDIR:--}.'
      )


def data_digest(records: RecordsReader) -> str:
  """Returns a digest of the ids and pixels of all images of a run, as 12 hex digits.

  The order of the images does not matter.
  """
  ids, digests = records.column('example_id'), records.column(IMAGE_DIGEST)
  order = np.argsort(ids, kind='stable')
  # little-endian int64 on every machine, so that equal data have equal bytes
  table = np.stack([ids[order].astype('<i8'), digests[order].astype('<i8')])
  return hashlib.sha256(table.tobytes()).hexdigest()[:12]
