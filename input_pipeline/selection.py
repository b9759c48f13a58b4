"""Selects the examples that are read, and computes the size of images, before decoding."""

import dataclasses
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from input_pipeline.images import HostStore, Images, Size, StreamedStore
from input_pipeline.settings import FIRST, DataSettings, Preparation
from robustness.core.bounded_files import read_bounded
from robustness.core.errors import KEYS, InputError, SettingError, first_names, nearest
from robustness.core.host import usable_cores
from robustness.core.limits import MAX_BYTES_OF_TEXT
from robustness.core.paths import expanded
from robustness.core.pictures import reason_of
from robustness.core.rows import ArrayRows, composed_unicode, random_order
from robustness.core.settings import require
from robustness.core.typing import Facts

ROBUSTBENCH = 'robustbench'
"""Value of `config.data.image_list` for RobustBench's list, and the name of its file."""
_LIST = 'imagenet_test_image_ids.txt'
MAX_DECODED, MAX_HEADERS, MAX_STREAMED = 512, 100_000, 32
"""Largest numbers of pictures for `check_pictures`: to decode, to check by their headers, and to
decode of streamed images.
"""


def read_names(path: str) -> list[str]:
  """Reads the list of images that a run is restricted to, from a text file.

  Each line is `<class>/<file>`, for instance n01440764/ILSVRC2012_val_00000293.JPEG. Empty lines
  are ignored.

  Args:
    path: the text file, or 'robustbench' for RobustBench's list of 5,000 images of ImageNet. This
      list is read from the installed package, which is not imported.

  Raises:
    InputError: the file cannot be read, is empty or repeats a name.
  """
  file = _robustbench_file() if path == ROBUSTBENCH else expanded(path)
  try:
    lines = read_bounded(file, MAX_BYTES_OF_TEXT).decode('utf-8-sig').splitlines()
  except (OSError, UnicodeDecodeError, InputError) as error:
    problem = f'which cannot be read ({error})'
    raise SettingError(KEYS.data.image_list, path, problem=problem) from error
  names = [line.strip() for line in lines if line.strip()]
  if not names:
    raise InputError(f'{path} lists no images; expected one <class>/<file> a line.')
  if len(set(names)) < len(names):
    repeated = next(name for name in names if names.count(name) > 1)
    raise InputError(f'{path} lists {repeated!r} twice; each image counts once.')
  return names


def _robustbench_file() -> Path:
  """Returns the path of RobustBench's list of images in the installed package."""
  spec = importlib.util.find_spec(ROBUSTBENCH)
  folders = list(spec.submodule_search_locations or ()) if spec else []
  for folder in folders:
    for subfolder in ('helper_files', 'data'):  # version 1.1.1, and its repository before that
      file = Path(folder) / subfolder / _LIST
      if file.is_file():
        return file
  reason = f'of {folders[0]} has no such list' if folders else 'is not installed'
  raise InputError(
    f"{KEYS.data.image_list} is 'robustbench', but the package robustbench {reason}: "
    f'pip install --no-deps robustbench, or give the path of its {_LIST}.'
  )


def choose_subset(
  num_examples: int, num_images: int, seed: int, first: bool = False, noun: str = 'images'
) -> np.ndarray:
  """Returns indices of a random subset of images, int64 [num_images], ascending.

  With the same seed, smaller subsets are contained in larger ones.

  Args:
    num_examples: number of all images.
    num_images: size of the subset; 0 returns all indices.
    seed: seed of the random choice.
    first: whether to choose the first images instead of random ones.
    noun: plural noun for the images in messages.

  Raises:
    InputError: there are fewer images than `num_images`.
  """
  valid = f'at most {num_examples}, the number of {noun} there are (0 takes all)'
  require(num_images <= num_examples, 'config.data.num_images', num_images, valid)
  if first or not num_images:
    return np.arange(num_images or num_examples, dtype=np.int64)
  return np.sort(random_order(num_examples, seed)[:num_images])


def choose_groups(groups: np.ndarray, num_groups: int, seed: int, noun: str) -> np.ndarray:
  """Returns the indices of all images in randomly chosen groups, int64, ascending.

  With the same seed, smaller choices are contained in larger ones.

  Args:
    groups: int [N], the group of each image, from 0 to G − 1 without gaps.
    num_groups: number of groups to choose; 0 chooses all G groups.
    seed: seed of the random choice.
    noun: plural noun for the groups in messages.
  """
  subset = choose_subset(int(groups.max()) + 1, num_groups, seed, noun=noun)
  return np.flatnonzero(np.isin(groups, subset))


def check_pictures(images: Images, indices: np.ndarray) -> None:
  """Raises InputError if image files are damaged, before anything is computed with them.

  At most `MAX_DECODED` images, evenly spaced, are decoded; for up to `MAX_HEADERS` images, the
  header is read. Of images that are slow to read one by one (streamed), only `MAX_STREAMED` are
  decoded. The message has the number of damaged files and the first names.

  Args:
    images: the stored images; nothing is checked if they are not files.
    indices: the images that will be read.
  """
  header, read, store = images.header, images.read, images.store
  if header is None or read is None or not isinstance(store, HostStore):  # no image files
    return
  is_streamed = isinstance(store, StreamedStore)
  decoded = {*evenly_spaced(indices, MAX_STREAMED if is_streamed else MAX_DECODED)}
  # streamed images are decoded or not read at all
  checked = decoded if is_streamed else decoded.union(evenly_spaced(indices, MAX_HEADERS))

  def damage(index: int) -> str:
    """Returns why an image of the data cannot be read; '' if it can.

    Images with an index in `decoded` are read whole, of the others only the header.

    Args:
      index: index of the image in `store`.
    """
    stored, _ = store.host_element(index)
    assert isinstance(stored, bytes)
    check = read if index in decoded else header  # of most images only the header
    try:
      check(stored)
    except InputError as error:
      return reason_of(error)
    return ''

  num_headers = len(checked) - len(decoded)
  refuse_damaged(damage, sorted(checked), len(indices), images.where, num_headers)


def refuse_damaged(
  damage: Callable[[int], str],
  checked: Sequence[int],
  num_pictures: int,
  describe: Callable[[int], str],
  num_headers: int = 0,
) -> None:
  """Raises InputError if images are damaged; the message has their number and the first names.

  Args:
    damage: called in threads with the index of an image; returns why the image cannot be read, or
      ''.
    checked: indices of the images to check.
    num_pictures: number of all images, checked or not, for the message.
    describe: called with the index of an image; returns its name.
    num_headers: for how many checked images `damage` reads only the header, for the message.
  """
  with ThreadPoolExecutor(usable_cores()) as pool:
    reasons = zip(checked, pool.map(damage, checked), strict=True)
    damaged = [(index, reason) for index, reason in reasons if reason]
  if not damaged:
    return
  # such as '3 of 512 pictures that were looked at of 9000 cannot be decoded, first a.jpg: it is
  # truncated; then b.jpg, c.jpg. Replace or remove them.'
  coverage = '' if len(checked) == num_pictures else f' that were looked at of {num_pictures}'
  if num_headers:
    num_decoded = len(checked) - num_headers
    coverage += f' ({num_decoded} were decoded, and only the headers of the others read)'
  names = [describe(index) for index, _ in damaged]
  listed = f'; then {first_names(names[1:], 4)}' if len(names) > 1 else ''
  problem = f'{len(damaged)} of {len(checked)} pictures{coverage} cannot be decoded'
  first_reason = damaged[0][1].removesuffix('.')
  raise InputError(f'{problem}, first {names[0]}: {first_reason}{listed}. Replace or remove them.')


def evenly_spaced(indices: np.ndarray, max_count: int) -> list[int]:
  """Returns at most `max_count` evenly spaced entries of `indices`, with the first and last."""
  if len(indices) > max_count:
    indices = indices[np.linspace(0, len(indices) - 1, max_count).astype(np.int64)]
  return list(map(int, indices))


def _selected_indices(images: Images, settings: DataSettings, seed: int) -> np.ndarray:
  """Returns the indices of the images that `config.data` selects, int64, ascending.

  If a data set repeats the same images in several parts, for instance under each corruption, the
  same images are selected in each part.

  Raises:
    InputError: a setting is not possible for these images, or a listed image does not exist.
  """
  if images.choose is not None:  # groups of images, such as the frames of a neighbor set
    if settings.image_list or settings.subset == FIRST:
      key = 'image_list' if settings.image_list else 'subset'
      raise InputError(
        f'{KEYS.data}.{key} is {getattr(settings, key)!r}, but images of {images.title} belong '
        'together and are chosen with each other: leave it at its default.'
      )
    return images.choose(settings.num_images, seed)
  if settings.image_list and not images.names:
    problem = f'but images of {images.title} have no paths'
    sources = "'folder', 'imagenet_c' and 'tiny_imagenet_c'"
    fix = f'It chooses among those of {KEYS.data.source}={sources}.'
    raise SettingError(KEYS.data.image_list, settings.image_list, problem=problem, fix=fix)
  part_size = images.num_examples // images.parts
  indices_in_part = np.arange(part_size, dtype=np.int64)
  if settings.image_list:
    indices_in_part = _listed_indices(images, settings.image_list)
  noun = 'base images' if images.parts > 1 else 'images'  # for messages
  is_first = settings.subset == FIRST
  subset = choose_subset(len(indices_in_part), settings.num_images, seed, is_first, noun)
  first_of_part = np.arange(images.parts)[:, None] * part_size  # [parts, 1]
  return (first_of_part + indices_in_part[subset]).ravel()  # part by part


def _listed_indices(images: Images, image_list: str) -> np.ndarray:
  """Returns the indices of the images in a list of names, int64, ascending.

  If a data set repeats the same images in several parts, these are indices within one part.

  Args:
    images: images with names.
    image_list: path of a text file, or 'robustbench'; see `read_names`.

  Raises:
    InputError: a listed image does not exist, or several images have its name.
  """
  listed = [*map(composed_unicode, read_names(image_list))]
  names = [*map(composed_unicode, images.names)]
  index_of = {name: index for index, name in enumerate(names)}
  num_images_of = Counter(names)
  for name in listed:
    expected = 'a name that one image alone has: rename the files'
    require(num_images_of[name] < 2, f'a line of {image_list}', name, expected)
  missing = [name for name in listed if name not in index_of]
  if missing:
    problem = f'{image_list} lists {len(missing)} of {len(listed)} images that {images.title} lacks'
    raise InputError(f'{problem}, first {missing[0]!r}: {nearest(missing[0], index_of)}.')
  return np.sort(np.array([index_of[name] for name in listed], np.int64))


@dataclasses.dataclass(frozen=True)
class Selection:
  """A selection of stored images to read, with the resize and crop to apply.

  Attributes:
    images: all stored images.
    settings: the settings of the data, with the final values of resize and crop.
    indices: indices of the images to read, int64 [n], ascending.
    image_shape: height, width and channels of every image after resize and crop.
    facts: JSON values that describe the selected images, for results.json.
  """

  images: Images
  settings: DataSettings
  indices: np.ndarray
  image_shape: tuple[int, int, int]
  facts: Facts

  def array_rows(self) -> ArrayRows | None:
    """Returns the selected images as arrays, or None if they must be decoded, resized or cropped.

    The arrays are not copied if all images are selected.
    """
    settings, arrays = self.settings, self.images.arrays
    is_changed = any((settings.resize, settings.crop, settings.random_crop_area))
    if arrays is None or is_changed:
      return None
    images, labels = arrays
    if len(self.indices) < len(images):
      images, labels = images[self.indices], labels[self.indices]
    names = self.images.class_names
    columns = {name: values[self.indices] for name, values in self.images.columns.items()}
    return ArrayRows(images, labels, names, self.indices, columns=columns, facts=self.facts)


def select(
  images: Images, settings: DataSettings, seed: int = 0, preparation: Preparation | None = None
) -> Selection:
  """Returns which images to read and how to resize and crop them, by the settings `config.data`.

  Of image files, a few are decoded to find damage early.

  Args:
    images: all stored images.
    settings: the settings of the data.
    seed: seed of the random subset.
    preparation: how the classifier wants images to be resized and cropped. Used if `settings`
      neither resize nor crop; see `input_pipeline.load`.
  """
  require(seed >= 0, 'config.seed', seed, 'at least 0')
  if not images.num_examples:
    raise InputError(f'{images.title} holds no images.')
  indices = _selected_indices(images, settings, seed)
  if images.check:
    images.check(indices)
  check_pictures(images, indices)
  facts = dict(images.description)  # what results.json states, in this order
  if settings.num_images and settings.subset == FIRST:
    facts['subset'] = FIRST
  elif settings.num_images:
    facts['subset_seed'] = seed
  if settings.image_list:
    facts['image_list'] = settings.image_list
  if preparation:
    settings, facts_of_preparation = _prepared(images, settings, preparation)
    facts |= facts_of_preparation
  shape = (*_common_size(images, settings, indices), images.channels)
  facts |= {
    'num_examples': len(indices),
    'available_examples': images.num_examples,
    'num_classes': len(images.class_names),
    'image_shape': list(shape),
    'resize': settings.resize,
  }
  if settings.resize and settings.squash:
    facts['squash'] = True
  facts['crop'] = settings.crop
  facts['interpolation'] = settings.interpolation if settings.resize else ''
  if settings.pillow_resizes:
    facts['resized_by'] = 'pillow'
  return Selection(images, settings, indices, shape, facts)


def _prepared(
  images: Images, settings: DataSettings, preparation: Preparation
) -> tuple[DataSettings, Facts]:
  """Returns the settings with the resize and crop that a classifier wants, and facts about them.

  The settings are unchanged, and the facts {}, if `settings` or the source of the images determine
  the size, or if all stored images have the classifier's input size. All stored images are
  compared, so that every subset is treated in the same way.

  Args:
    images: all stored images.
    settings: the settings of the data.
    preparation: the resize and crop that the classifier wants.
  """
  if settings.resize or settings.crop or images.as_stored:
    return settings, {}
  side = preparation.side
  # images that were cropped before they were stored all have the same size
  compared = np.arange(1 if images.cropped else images.num_examples)
  if all(size == (side, side) for size in _sizes(images, compared)):
    return settings, {}
  prepared = dataclasses.replace(
    settings,
    # images that were cropped before they were stored are resized without cutting off a margin
    resize=side if images.cropped else preparation.resize,
    crop=side,
    interpolation=preparation.interpolation,
    squash=preparation.squash,
  )
  facts = {'prepared_for': preparation.name}
  if images.cropped:
    facts['crop_margin'] = 'none: the images were cropped before they were stored'
  return prepared, facts


def output_size(size: Size, settings: DataSettings) -> Size | None:
  """Returns (height, width) of an image after resize and crop.

  The result is None if the crop is larger than the resized image.

  Args:
    size: (height, width) before.
    settings: sizes of resize and crop.
  """
  size = resized_size(size, settings) if settings.resize else size
  if not settings.crop:
    return size
  return (settings.crop, settings.crop) if min(size) >= settings.crop else None


def resized_size(size: Size, settings: DataSettings) -> Size:
  """Returns (height, width) of an image after the resize to `settings.resize`, before the crop."""
  if settings.squash:
    return settings.resize, settings.resize
  height, width = (side * settings.resize // min(size) for side in size)
  return height, width


def delivered_size(
  images: Images, settings: DataSettings, index: int, size: Size, expected: Size | None = None
) -> Size:
  """Returns (height, width) of an image after resize and crop, or raises InputError.

  Args:
    images: the stored images, for messages.
    settings: sizes of resize and crop.
    index: index of the image, for messages.
    size: (height, width) of the stored image.
    expected: the required result; None accepts any size.

  Raises:
    InputError: the crop is larger than the image, or the result is not `expected`.
  """
  result = output_size(size, settings)
  if result is None:
    raise InputError(
      f'{images.where(index)} is {size[0]}x{size[1]} pixels, smaller than {KEYS.data.crop} = '
      f'{settings.crop}: set {KEYS.data.resize} to at least the crop.'
    )
  if expected and result != expected:
    raise InputError(
      f'{images.where(index)} comes out as {result[0]}x{result[1]} pixels, where '
      f'others come out as {expected[0]}x{expected[1]}: bring all images to one size, '
      f'for example with resize=256 and crop=224 ({KEYS.data.resize:--}=256, and so on).'
    )
  return result


def _sizes(images: Images, indices: np.ndarray) -> Iterable[Size]:
  """Returns the (height, width) of stored images.

  If sizes are known only after decoding, only the first image is decoded, and the result has only
  its size.

  Args:
    images: the stored images.
    indices: the images to measure.
  """
  sizes = images.sizes(indices.tolist())
  if sizes is None:
    [first_element] = images.store.elements(indices[:1])
    return [images.decoded_size(first_element)]
  return sizes


def _common_size(images: Images, settings: DataSettings, indices: np.ndarray) -> Size:
  """Returns the (height, width) that all images have after resize and crop.

  If sizes are known only after decoding, only the first image is measured here. The others are
  checked when they are read.

  Raises:
    InputError: images differ in size, or the crop does not fit.
  """
  if settings.resize and settings.crop:
    return settings.crop, settings.crop
  common: Size | None = None  # the size of the images before, which the next one must have
  # not strict, as `_sizes` may return the size of the first image alone
  for index, size in zip(indices.tolist(), _sizes(images, indices), strict=False):
    common = delivered_size(images, settings, index, size, expected=common)
  assert common is not None
  return common
