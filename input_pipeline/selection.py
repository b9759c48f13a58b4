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
  """Returns the image names in a text file, in the order of the lines, without empty lines.

  Each line is `<class>/<file>` relative to the data's folder, as in RobustBench's list of 5,000
  images of ImageNet: n01440764/ILSVRC2012_val_00000293.JPEG. The path 'robustbench' stands for this
  list in the installed package robustbench, which is not imported.

  Raises:
    InputError: the file cannot be read, is empty or has a name twice.
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
  """Returns the path of the list of images in the package robustbench."""
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
  """Returns the ascending indices of a random subset without replacement, int64 [num_images].

  For one seed, a smaller subset is part of a larger one.

  Args:
    num_examples: number of all examples.
    num_images: size of the subset; 0 takes all.
    seed: seed of the choice.
    first: whether to take the first `num_images` examples instead of random ones.
    noun: what the examples are called in messages, in the plural.

  Raises:
    InputError: there are fewer examples than `num_images`.
  """
  valid = f'at most {num_examples}, the number of {noun} there are (0 takes all)'
  require(num_images <= num_examples, 'config.data.num_images', num_images, valid)
  if first or not num_images:
    return np.arange(num_images or num_examples, dtype=np.int64)
  return np.sort(random_order(num_examples, seed)[:num_images])


def choose_groups(groups: np.ndarray, num_groups: int, seed: int, noun: str) -> np.ndarray:
  """Returns the ascending indices of all examples of random groups, int64.

  Args:
    groups: number of the group of each example, int [N] in 0..G − 1; every group has an example.
    num_groups: number of groups that are chosen; 0 takes all G groups.
    seed: seed of the choice; for one seed, a smaller choice is part of a larger one.
    noun: what a group is called in messages, in the plural.
  """
  subset = choose_subset(int(groups.max()) + 1, num_groups, seed, noun=noun)
  return np.flatnonzero(np.isin(groups, subset))


def check_pictures(images: Images, indices: np.ndarray) -> None:
  """Checks that image files can be decoded, before anything is computed with them.

  Up to `MAX_DECODED` of the `indices`, evenly spaced, are decoded, and of up to `MAX_HEADERS` only
  the headers are read. Of streamed images, which are slow to read one by one, `MAX_STREAMED` are
  decoded and no other headers read.

  Raises:
    InputError: pictures are damaged; the message has their number and the first names.
  """
  header, read, store = images.header, images.read, images.store
  if header is None or read is None or not isinstance(store, HostStore):  # no image files
    return
  if isinstance(store, StreamedStore):
    checked = decoded = {*evenly_spaced(indices, MAX_STREAMED)}
  else:
    decoded = {*evenly_spaced(indices, MAX_DECODED)}
    checked = decoded.union(evenly_spaced(indices, MAX_HEADERS))

  def damage(index: int) -> str:
    """Returns why an image, or at least its header, cannot be read; '' if it can be."""
    stored, _ = store.host_element(index)
    assert isinstance(stored, bytes)
    check = read if index in decoded else header
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
  """Raises InputError if pictures are damaged, with their number and the first names.

  Args:
    damage: function of the index of a picture that returns why it cannot be read, '' if it can be;
      called in threads.
    checked: the indices of the pictures to check.
    num_pictures: the number of all pictures, checked or not.
    describe: function of the index of a picture that returns its name.
    num_headers: how many of the checked pictures `damage` does not decode, but reads their headers.
  """
  with ThreadPoolExecutor(usable_cores()) as pool:
    reasons = zip(checked, pool.map(damage, checked), strict=True)
    damaged = [(index, reason) for index, reason in reasons if reason]
  if not damaged:
    return
  # such as '3 of 512 pictures that were looked at of 9000 cannot be decoded, first a.jpg: it is
  # truncated; then b.jpg, c.jpg. Replace or remove them.'
  among = '' if len(checked) == num_pictures else f' that were looked at of {num_pictures}'
  if num_headers:
    num_decoded = len(checked) - num_headers
    among += f' ({num_decoded} were decoded, and only the headers of the others read)'
  names = [describe(index) for index, _ in damaged]
  listed = f'; then {first_names(names[1:], 4)}' if len(names) > 1 else ''
  raise InputError(
    f'{len(damaged)} of {len(checked)} pictures{among} cannot be decoded, first '
    f'{names[0]}: {damaged[0][1].removesuffix(".")}{listed}. Replace or remove them.'
  )


def evenly_spaced(indices: np.ndarray, max_count: int) -> list[int]:
  """Returns at most `max_count` of the indices, evenly spaced, with the first and the last."""
  if len(indices) > max_count:
    indices = indices[np.linspace(0, len(indices) - 1, max_count).astype(np.int64)]
  return list(map(int, indices))


def _selected_indices(images: Images, settings: DataSettings, seed: int) -> np.ndarray:
  """Returns the ascending indices of the examples that the settings select, int64.

  If the set has parts, such as one for each corruption, the same images are selected in each part.

  Raises:
    InputError: a setting cannot apply to these images, or an image in the list does not exist.
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
  noun = 'base images' if images.parts > 1 else 'images'
  is_first = settings.subset == FIRST
  subset = choose_subset(len(indices_in_part), settings.num_images, seed, is_first, noun)
  first_of_part = np.arange(images.parts) * part_size
  return (first_of_part[:, None] + indices_in_part[subset]).ravel()


def _listed_indices(images: Images, image_list: str) -> np.ndarray:
  """Returns the ascending indices of the images that a list names, int64.

  In a set of parts, such as one part for each corruption, they are indices in one part.

  Args:
    images: images with names.
    image_list: path of a text file, or 'robustbench'; see `read_names`.

  Raises:
    InputError: an image in the list does not exist, or two images have its name.
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
    raise InputError(
      f'{image_list} lists {len(missing)} of {len(listed)} images that {images.title} '
      f'lacks, first {missing[0]!r}: {nearest(missing[0], index_of)}.'
    )
  return np.sort(np.array([index_of[name] for name in listed], np.int64))


@dataclasses.dataclass(frozen=True)
class Selection:
  """The examples that are read of stored images, and how these are resized and cropped.

  Attributes:
    images: all stored images.
    settings: the settings, with the resize and crop that apply.
    indices: the examples that are read, int64 [n], ascending.
    image_shape: height, width and channels of every image after resize and crop.
    facts: JSON values that describe the rows.
  """

  images: Images
  settings: DataSettings
  indices: np.ndarray
  image_shape: tuple[int, int, int]
  facts: Facts

  def array_rows(self) -> ArrayRows | None:
    """Returns the rows of images that are stored in arrays and neither resized nor cropped.

    It returns None for other images. Arrays that are read completely are not copied.
    """
    settings, arrays = self.settings, self.images.arrays
    is_changed = any((settings.resize, settings.crop, settings.random_crop_area))
    if arrays is None or is_changed:
      return None
    is_complete = len(self.indices) == self.images.num_examples
    images, labels = arrays if is_complete else (array[self.indices] for array in arrays)
    return ArrayRows(
      images,
      labels,
      self.images.class_names,
      self.indices,
      columns={name: values[self.indices] for name, values in self.images.columns.items()},
      facts=self.facts,
    )


def select(
  images: Images, settings: DataSettings, seed: int = 0, preparation: Preparation | None = None
) -> Selection:
  """Returns the images that the settings select, after checks of some of their files.

  Args:
    images: the stored images.
    settings: the settings of the data.
    seed: seed of the random subset.
    preparation: the resize and crop of the classifier, which applies if the settings have neither;
      see `input_pipeline.load`.
  """
  require(seed >= 0, 'config.seed', seed, 'at least 0')
  if not images.num_examples:
    raise InputError(f'{images.title} holds no images.')
  indices = _selected_indices(images, settings, seed)
  if images.check:
    images.check(indices)
  check_pictures(images, indices)
  facts = dict(images.description)  # what results.json states, in this order
  if settings.num_images:
    facts |= {'subset': FIRST} if settings.subset == FIRST else {'subset_seed': seed}
  if settings.image_list:
    facts['image_list'] = settings.image_list
  if preparation and _needs_preparation(images, settings, preparation.side):
    # images that were cropped before they were stored are resized without cutting off a margin
    settings = dataclasses.replace(
      settings,
      resize=preparation.side if images.cropped else preparation.resize,
      crop=preparation.side,
      interpolation=preparation.interpolation,
      squash=preparation.squash,
    )
    facts['prepared_for'] = preparation.name
    if images.cropped:
      facts['crop_margin'] = 'none: the images were cropped before they were stored'
  shape = (*_common_size(images, settings, indices), images.channels)
  facts |= {
    'num_examples': len(indices),
    'available_examples': images.num_examples,
    'num_classes': len(images.class_names),
    'image_shape': list(shape),
    'resize': settings.resize,
    **({'squash': True} if settings.resize and settings.squash else {}),
    'crop': settings.crop,
    'interpolation': settings.interpolation if settings.resize else '',
    **({'resized_by': 'pillow'} if settings.pillow_resizes else {}),
  }
  return Selection(images, settings, indices, shape, facts)


def _needs_preparation(images: Images, settings: DataSettings, side: int) -> bool:
  """Returns whether images are resized and cropped for a classifier of images [side, side].

  They are not if the settings or the source decide their size, or if all stored images have this
  size. Images that are not selected are compared as well, so that every subset is prepared in the
  same way. Images that were cropped before they were stored have one size.
  """
  if settings.resize or settings.crop or images.as_stored:
    return False
  compared = np.arange(1 if images.cropped else images.num_examples)
  return any(size != (side, side) for size in _sizes(images, compared))


def output_size(size: Size, settings: DataSettings) -> Size | None:
  """Returns height and width of an image of a size after resize and crop.

  It returns None if the crop is larger than the resized image.
  """
  size = resized_size(size, settings) if settings.resize else size
  if not settings.crop:
    return size
  return (settings.crop, settings.crop) if min(size) >= settings.crop else None


def resized_size(size: Size, settings: DataSettings) -> Size:
  """Returns height and width of an image after a resize to `settings.resize`, before the crop."""
  if settings.squash:
    return settings.resize, settings.resize
  height, width = (side * settings.resize // min(size) for side in size)
  return height, width


def delivered_size(
  images: Images, settings: DataSettings, index: int, size: Size, expected: Size | None = None
) -> Size:
  """Returns the height and width of an example after resize and crop, in pixels.

  Args:
    images: the stored images, for messages.
    settings: the settings of resize and crop.
    index: index of the example, for messages.
    size: its stored height and width.
    expected: the size that it must have; None accepts any.

  Raises:
    InputError: the crop is larger than the image, or the size is not the expected one.
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
  """Returns the stored (height, width) of the examples at `indices`.

  If sizes are known only after decoding, it decodes the first example and returns its size alone.
  """
  sizes = images.sizes(indices.tolist())
  if sizes is None:
    return [images.decoded_size(next(iter(images.store.elements(indices[:1]))))]
  return sizes


def _common_size(images: Images, settings: DataSettings, indices: np.ndarray) -> Size:
  """Returns height and width of every image after resize and crop.

  If sizes can only be found by decoding, only the size of the first image is computed here. The
  sizes of the other images are checked when they are read.

  Raises:
    InputError: images differ in size, or the crop does not fit.
  """
  if settings.resize and settings.crop:
    return settings.crop, settings.crop
  common: Size | None = None  # the size of the images before, which the next one must have
  sizes = _sizes(images, indices)  # of all images, or of the first one alone
  for index, size in zip(indices.tolist(), sizes, strict=False):
    common = delivered_size(images, settings, index, size, expected=common)
  assert common is not None
  return common
