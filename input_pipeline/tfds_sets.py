"""TensorFlow Datasets (TFDS): finds data sets by name and reads their splits from front to back.

Examples are in the order of the prepared files, shard after shard; `example_id` is the position in
this order. Large splits are streamed and shuffled in a buffer of `SHUFFLE_BUFFER` encoded examples,
with a seed that depends on (seed, epoch). TFDS also shuffled the examples when it wrote the files.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import itertools
import operator
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging

from input_pipeline.corruption_parts import part_of_config
from input_pipeline.images import Images, MemoryStore, StreamedStore
from robustness.core import json_files
from robustness.core.errors import KEYS, InputError, SettingError, nearest
from robustness.core.paths import expanded
from robustness.core.typing import Facts
from robustness.corruptions.names import StoredPart

SHUFFLE_BUFFER = 8192
"""Number of encoded examples in the shuffle buffer of a streamed split."""
BUILDERS = 'input_pipeline.builders'
"""Package of this project's builders; it imports JAX, so it is imported only for its data sets."""
FEATURES = 'tensorflow_datasets.core.features.'
"""Prefix of the names of TFDS's feature classes."""
OWN = ('corrupted', 'held_out_environments', 'si_score_scenes', 'video_neighbors')
"""Names of the data sets of `BUILDERS`."""


def stored_part(builder: tfds.core.DatasetBuilder) -> StoredPart | None:
  """Returns the corruption and severity of a prepared TFDS data set; None if it has none.

  They are read from the metadata that this project's builders write, or from the name of the
  config, such as 'fog_3'.
  """
  metadata = builder.info.metadata or {}
  if 'corruption_number' in metadata:
    return StoredPart(int(metadata['corruption_number']), int(metadata['severity']))
  config = builder.builder_config.name if builder.builder_config else ''
  return part_of_config(os.path.basename(config))  # a config may be called '224px/fog_3'


def prepared_configs(dataset: str, data_dir: str) -> list[str]:
  """Returns the sorted names of a TFDS data set's configs that are prepared.

  Args:
    dataset: TFDS name of the data set.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
  """
  folder = expanded(data_dir or tfds.core.constants.DATA_DIR) / dataset
  # files <config>/<version>/dataset_info.json
  return sorted({file.parent.parent.name for file in folder.glob('*/*/dataset_info.json')})


def prepared_builder(name: str, data_dir: str, key: str = 'name') -> tfds.core.DatasetBuilder:
  """Returns the builder of a TFDS data set, which is downloaded and prepared if necessary.

  Args:
    name: TFDS name, such as 'cifar10' or 'cifar10_corrupted/fog_3'.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
    key: the setting with the name, for messages.
  """
  builder = find_builder(name, data_dir, key)
  check_features(builder)
  download(builder)
  return builder


def find_builder(name: str, data_dir: str, key: str = 'name') -> tfds.core.DatasetBuilder:
  """Returns the builder of a TFDS data set, without preparing it.

  Args:
    name: TFDS name, such as 'cifar10' or 'imagenette/320px-v2:1.*.*'.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
    key: the setting with the name, for messages.

  Raises:
    InputError: there is no such data set, or it cannot be opened.
  """
  if not name:
    raise SettingError(key, name, fix="Give a TFDS name, for example 'cifar10'.")
  register_own(name)
  dataset = re.split('[/:]', name)[0]  # without config and version
  stored = expanded(data_dir or tfds.core.constants.DATA_DIR) / dataset
  # TFDS would import any module that a prepared data set names
  for file in sorted(stored.glob('**/features.json')):
    check_stored_features(file)
  try:
    return tfds.builder(name, data_dir=os.path.expanduser(data_dir) or None)
  except tfds.core.DatasetNotFoundError as error:
    names = {*tfds.list_builders(with_community_datasets=False), *OWN}
    fix = f'{nearest(name, names)}. All names: https://www.tensorflow.org/datasets/catalog/overview'
    raise SettingError(key, name, problem='which TFDS does not know', fix=fix) from error
  except Exception as error:  # TFDS's parsers raise all kinds of errors
    problem = f'which TFDS cannot open: {_first_line(error)}'
    raise SettingError(key, name, problem=problem) from error


def builder_in(folder: pathlib.Path) -> tfds.core.DatasetBuilder:
  """Returns the builder of the prepared data set in a folder, without downloading anything.

  Raises:
    InputError: the metadata of the data set are damaged, or contain a feature class from outside
      TFDS.
  """
  check_stored_features(folder / 'features.json')
  try:
    return tfds.builder_from_directory(str(folder))
  except Exception as error:  # TFDS's parsers raise all kinds of errors
    problem = f'{folder}: dataset_info.json or features.json is damaged ({_first_line(error)})'
    raise InputError(f'{problem}. Fetch or prepare the data set again.') from error


def check_stored_features(file: pathlib.Path) -> None:
  """Raises InputError if features.json contains a feature class from outside TFDS.

  TFDS would import the module of such a class, which could run any code.
  """
  # dicts and lists that are yet to be searched for names of classes
  unsearched = [json_files.read(file, advice='Fetch or prepare the data set again.')]
  keys = ('pythonClassName', 'python_class_name', 'type')  # in files of different versions
  while unsearched:
    node = unsearched.pop()
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in entries:
      if isinstance(value, dict | list):
        unsearched.append(value)
      elif key in keys and isinstance(value, str) and not value.startswith(FEATURES):
        problem = f'{file} names the feature {value!r}, which is none of TFDS ({FEATURES}...)'
        raise InputError(f'{problem}: such a data set is not opened, as it could run any code.')


def _first_line(error: Exception) -> str:
  """Returns the first line of an error's message, or the name of its type."""
  return str(error).strip().partition('\n')[0] or type(error).__name__


def register_own(name: str) -> None:
  """Registers this project's builders with TFDS, if `name` is the TFDS name of one of them."""
  if name.partition('/')[0] in OWN:
    importlib.import_module(BUILDERS)


def download(builder: tfds.core.DatasetBuilder) -> None:
  """Downloads and prepares a data set, unless it is prepared already.

  Raises:
    InputError: preparing fails; the message says how to prepare it elsewhere.
  """
  if builder.is_prepared():
    return
  logging.info('TFDS prepares %s in %s', builder.info.full_name, builder.data_path)
  try:
    builder.download_and_prepare()
  except Exception as error:  # builders fail in their own ways; the cause is chained and quoted
    raise InputError(
      f'TFDS data set {builder.info.full_name!r} is not prepared in {builder.data_path} and '
      f'could not be downloaded ({type(error).__name__}: {error}). Prepare it where there is a '
      f'network, and name the folder with {KEYS.data.tfds.data_dir:--}=DIR, in Python data_dir or '
      'the base_dir of a config.'
    ) from error


def check_features(
  builder: tfds.core.DatasetBuilder,
) -> tuple[tfds.features.Image, tuple[str, ...]]:
  """Validates the features of a TFDS data set; returns its image feature and class names.

  The image feature has shape and type of the images.

  Raises:
    InputError: `image` or `label` is missing, images do not have 8 or 16 bits, or labels are not
      class indices.
  """
  features = builder.info.features
  name = builder.info.full_name
  is_dict = isinstance(features, tfds.features.FeaturesDict)
  feature_names = sorted(features) if is_dict else [str(features)]
  if not {'image', 'label'} <= set(feature_names):
    problem = f"data set {name!r} lacks the feature 'image' or 'label'"
    raise InputError(f'{problem}; it has: {", ".join(feature_names)}.')
  image, label = features['image'], features['label']
  if not isinstance(image, tfds.features.Image) or image.np_dtype not in (np.uint8, np.uint16):
    raise InputError(f"feature 'image' of {name!r} is {image}; 8 or 16-bit images are read.")
  if not isinstance(label, tfds.features.ClassLabel):
    raise InputError(f"feature 'label' of {name!r} is {label}; a ClassLabel is read.")
  return image, tuple(label.names)


@dataclasses.dataclass(frozen=True)
class Split:
  """A split of a prepared TFDS data set, possibly with slices, read without decoding images.

  Attributes:
    builder: builder of the data set.
    name: name of the split, such as 'test' or 'train[:1000]'.
    label: name of the feature with the label.
  """

  builder: tfds.core.DatasetBuilder
  name: str
  label: str = 'label'

  @functools.cached_property
  def num_examples(self) -> int:
    """The number of images in the split, counting only its slices."""
    return sum(last - first for _, first, last in self.slices)

  @functools.cached_property
  def slices(self) -> list[tuple[str, int, int]]:
    """The stored ranges that make up the split, as `(stored split, first, end)` in order.

    For instance, 'train[:10]+test' with 5 test images is [('train', 0, 10), ('test', 0, 5)].

    Raises:
      InputError: there is no such split, it is empty, or two of its ranges overlap.
    """
    splits, data_set = self.builder.info.splits, self.builder.info.full_name
    valid = sorted(splits)
    try:
      pieces = tfds.core.ReadInstruction.from_spec(self.name).to_absolute(splits)
    except (KeyError, ValueError) as error:
      base = re.split(r'[\[+]', self.name)[0]  # 'train' of 'train[:10]' or 'train+test'
      problem = _first_line(error).rstrip('.') if base in splits else nearest(base, valid)
      raise InputError(
        f'{KEYS.data.split} is {self.name!r}; data set {data_set!r}: {problem}, or a slice such as '
        f"'{valid[0]}[:1000]'."
      ) from error
    slices = []
    for piece in pieces:
      first = piece.from_ or 0  # None stands for 0 here, and for all examples below
      end = splits[piece.splitname].num_examples if piece.to is None else piece.to
      if first < end:  # otherwise it is empty, as is 'train[5:3]'
        slices.append((piece.splitname, first, end))
    if not slices:
      sizes = ', '.join(f'{name} ({splits[name].num_examples})' for name in valid)
      raise InputError(f'split {self.name!r} of {data_set!r} is empty; its splits: {sizes}.')
    if _overlap(slices):
      problem = f'{KEYS.data.split} is {self.name!r}, which reads images of {data_set!r} twice'
      raise InputError(f'{problem}; each image counts once: give slices that do not overlap.')
    return slices

  def in_memory(self) -> MemoryStore:
    """Reads all encoded images and labels of the split into memory."""
    with _reading(self):
      batches = [*self._read(0, self.num_examples).batch(1024).as_numpy_iterator()]
    stored = np.concatenate([batch['stored'] for batch in batches])
    return MemoryStore(stored, np.concatenate([batch['label'] for batch in batches]))

  def elements(self, positions: np.ndarray) -> tf.data.Dataset:
    """Returns the encoded images and labels at some positions in the split, as a data set.

    Files before the first and after the last position are not opened.

    Args:
      positions: ascending positions in the split.
    """
    first, last = int(positions[0]), int(positions[-1])
    span = self._read(first, last + 1)
    if len(positions) == last - first + 1:  # without gaps
      return span
    is_read = tf.constant(np.isin(np.arange(first, last + 1), positions))
    return span.filter(lambda e: tf.gather(is_read, e['example_id'] - first))

  def numbers(self, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Reads numeric features of all images in order, as `{name: [num_examples, ...]}`."""
    decoding = tfds.decode.PartialDecoding(dict.fromkeys(names, True))
    with _reading(self):
      batches = [*self._as_dataset(self.name, decoding).batch(1024).as_numpy_iterator()]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}

  def lists(self, name: str) -> list[np.ndarray]:
    """Reads a feature that is a list of numbers, as one array for each image, in order."""
    data = self._as_dataset(self.name, tfds.decode.PartialDecoding({name: True}))
    with _reading(self):
      return [np.asarray(example[name]) for example in data.as_numpy_iterator()]

  def labels_and_digests(self) -> tuple[np.ndarray, tuple[bytes, ...]]:
    """Returns the label and the digest of the encoded image of every example, from a cache."""
    return _scan_labels(str(self.builder.data_path), self.name)

  def _as_dataset(
    self, split: object, decoders: Mapping[str, object] | tfds.decode.PartialDecoding
  ) -> tf.data.Dataset:
    """Returns the examples of a split in the order of the files.

    Args:
      split: name of a split, or a `ReadInstruction`.
      decoders: which features to read or decode, as for `DatasetBuilder.as_dataset`.
    """
    in_file_order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    return self.builder.as_dataset(
      split=split, decoders=decoders, shuffle_files=False, read_config=in_file_order
    )

  def _read(self, begin: int, end: int) -> tf.data.Dataset:
    """Returns the encoded images and labels at positions [begin, end) of the split, as a data set.

    The `example_id` of an image is its position in the split. Only the needed parts of the files
    are read.
    """
    instructions = []
    start = 0  # position in the split of the slice's first example
    for name, first, last in self.slices:
      num_examples = last - first
      # what is read of the slice: its examples number low, ..., high - 1
      low, high = max(begin - start, 0), min(end - start, num_examples)
      if low < high:
        span = {'from_': first + low, 'to': first + high, 'unit': 'abs'}
        instructions.append(tfds.core.ReadInstruction(name, **span))
      start += num_examples
    instruction = functools.reduce(operator.add, instructions)
    data = self._as_dataset(instruction, {'image': tfds.decode.SkipDecoding()})
    return data.enumerate(begin).map(
      lambda i, e: {'example_id': i, 'label': e[self.label], 'stored': e['image']}
    )


def share_examples(builder: tfds.core.DatasetBuilder, split: str, other_split: str) -> bool:
  """Returns whether two splits of a data set, also with slices, have an example in common."""
  return _overlap(Split(builder, split).slices + Split(builder, other_split).slices)


def _overlap(slices: Sequence[tuple[str, int, int]]) -> bool:
  """Returns whether any two ranges, each `(stored split, first, end)`, overlap."""
  return any(
    name == next_name and next_first < last
    for (name, _, last), (next_name, next_first, _) in itertools.pairwise(sorted(slices))
  )


@functools.lru_cache
def _scan_labels(folder: str, split_name: str) -> tuple[np.ndarray, tuple[bytes, ...]]:
  """Reads the label and computes the digest of the encoded image of every example; cached.

  Args:
    folder: folder of the prepared data set.
    split_name: name of the split, also with slices.

  Returns:
    The labels, int32 [n], and n digests.
  """
  split = Split(builder_in(pathlib.Path(folder)), split_name)
  name = split.builder.info.full_name
  logging.info('reading %s, split %s, for images that are stored twice', name, split_name)
  labels, digests = [], []
  with _reading(split):
    for element in split.elements(np.arange(split.num_examples)).as_numpy_iterator():
      labels.append(element['label'])
      digests.append(hashlib.blake2b(element['stored'], digest_size=16).digest())
  return np.array(labels, np.int32), tuple(digests)


def _decode_channels(image: tfds.features.Image, stored: tf.Tensor, channels: int) -> tf.Tensor:
  """Decodes an encoded image to [H, W, channels].

  JPEG is decoded with the accurate inverse DCT, like Pillow and the other data sources. TFDS would
  use a faster one, which changes two thirds of all values, mostly by one level.

  Args:
    image: TFDS feature of the images, which has their type and decodes other formats.
    stored: the encoded image.
    channels: number of channels; further channels, such as alpha, are dropped.
  """
  return tf.cond(
    tf.io.is_jpeg(stored),
    lambda: tf.cast(
      tf.io.decode_jpeg(stored, channels=channels, dct_method='INTEGER_ACCURATE'), image.np_dtype
    ),
    lambda: image.decode_example(stored)[..., :channels],
  )


@contextlib.contextmanager
def _reading(split: Split) -> Iterator[None]:
  """A context manager that turns errors of damaged files into InputErrors about the data set."""
  try:
    yield
  except tf.errors.OpError as error:
    raise InputError(
      f'TFDS data set {split.builder.info.full_name!r}, split {split.name!r}: its files in '
      f'{split.builder.data_path} are damaged ({str(error.message).splitlines()[0]}). Delete the '
      'folder and prepare the data set again.'
    ) from error


@dataclasses.dataclass(frozen=True)
class SplitsStore(StreamedStore):
  """Encoded images and labels of several TFDS splits, joined in order.

  Attributes:
    splits: the splits.
    selected: for each split, the ascending positions of the images to read, int64; () reads all.
    labels: labels [N] of all N images that are read, which replace the stored labels; None keeps
      the stored labels.
  """

  splits: Sequence[Split]
  selected: Sequence[np.ndarray] = ()
  labels: np.ndarray | None = None

  @functools.cached_property
  def _positions(self) -> Sequence[np.ndarray]:
    """For each split, the ascending positions of the images to read, int64."""
    return self.selected or [np.arange(split.num_examples) for split in self.splits]

  @functools.cached_property
  def _starts(self) -> np.ndarray:
    """The index of each split's first image, then the number of images, int64 [splits + 1]."""
    return np.concatenate([[0], np.cumsum([len(positions) for positions in self._positions])])

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the encoded images and labels at some indices, as a data set.

    Args:
      indices: int64 [n], distinct and ascending.
    """
    by_split = self._elements_by_split(np.asarray(indices, np.int64))
    return functools.reduce(tf.data.Dataset.concatenate, by_split)

  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """Returns encoded images and labels in shuffled epochs, without end.

    Each split is shuffled in a separate buffer, and every image comes from a randomly chosen split.
    Skipped images are read but not decoded.

    Args:
      indices: indices of the images in an epoch.
      seed: seed of the order, together with the number of the epoch.
      start: how many elements of the sequence to skip.
    """
    indices = np.asarray(indices, np.int64)
    first_epoch, offset = divmod(start, len(indices))
    epochs = tf.data.Dataset.counter(first_epoch)
    return epochs.flat_map(lambda epoch: self._epoch(indices, seed, epoch)).skip(offset)

  def _epoch(self, indices: np.ndarray, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """Returns the encoded images and labels of one epoch, from all splits in random order.

    Args:
      indices: int64 [n], indices of the images in an epoch.
      seed: seed of the order.
      epoch: number of the epoch, int64 [].
    """
    # an unsigned 32-bit number, to which an epoch's number is added as the seed of its buffers
    seed_of_epoch_0 = int(np.random.SeedSequence(seed).generate_state(1)[0])
    shuffled_splits = [
      elements.shuffle(SHUFFLE_BUFFER, seed=seed_of_epoch_0 + epoch, reshuffle_each_iteration=False)
      for elements in self._elements_by_split(indices)
    ]
    if len(shuffled_splits) == 1:
      return shuffled_splits[0]
    counts = [len(part) for part in self._by_split(indices) if len(part)]  # images of each split
    split_of_image = np.repeat(np.arange(len(counts), dtype=np.int64), counts)  # [n]

    def split_order(epoch: np.int64) -> np.ndarray:
      """Returns, for each image of an epoch, the number of the split it comes from, int64 [n]."""
      return np.random.default_rng((seed, int(epoch))).permutation(split_of_image)

    order = tf.numpy_function(split_order, [epoch], tf.int64)
    choices = tf.data.Dataset.from_tensor_slices(tf.ensure_shape(order, [len(indices)]))
    return tf.data.Dataset.choose_from_datasets(shuffled_splits, choices)

  def images(self, class_names: Sequence[str], title: str, description: Facts) -> Images:
    """Describes the images as `Images`, with one channel or three; alpha is dropped.

    Args:
      class_names: names of the classes in label order.
      title: name of the data set in messages.
      description: JSON values that identify the images in results.json.
    """
    image = self.splits[0].builder.info.features['image']
    height, width, stored_channels = image.shape  # height and width are None if images differ
    channels = 1 if stored_channels == 1 else 3
    size = (height, width) if height and width else None  # None if only decoding shows the size
    return Images(
      title=title,
      description=description,
      num_examples=int(self._starts[-1]),
      class_names=tuple(class_names),
      channels=channels,
      store=self,
      where=self.describe,
      decode=lambda stored: _decode_channels(image, stored, channels),
      sizes=lambda indices: [size] * len(indices) if size else None,
    )

  def describe(self, index: int) -> str:
    """Returns the data set, split and position of image `index`, for messages."""
    number = int(np.searchsorted(self._starts, index, side='right')) - 1
    split = self.splits[number]
    position = int(self._positions[number][index - self._starts[number]])
    return f'tfds {split.builder.info.full_name!r}, split {split.name!r}, example {position}'

  def _by_split(self, indices: np.ndarray) -> list[np.ndarray]:
    """Divides ascending indices of images into one array per split, int64 [n] each."""
    return np.split(indices, np.searchsorted(indices, self._starts[1:-1]))

  def _elements_by_split(self, indices: np.ndarray) -> list[tf.data.Dataset]:
    """Returns the encoded images and labels at `indices`, as a data set per split.

    Splits without any of the images are left out.
    """
    parts = enumerate(self._by_split(indices))
    return [self._elements_of_split(number, part) for number, part in parts if len(part)]

  def _elements_of_split(self, number: int, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the encoded images and labels at some indices, all from one split.

    A split numbers images by position, which is replaced by the index among all splits. For
    instance, if positions 2, 5 and 6 are read and earlier splits have 10 images, position 5 becomes
    index 11. Labels are replaced by `self.labels` if these are set.

    Args:
      number: number of the split.
      indices: ascending indices of the images.
    """
    first, end = self._starts[number : number + 2]
    positions = self._positions[number]
    elements = self.splits[number].elements(positions[indices - first])
    if len(self.splits) == 1 and not self.selected:  # positions are indices of the store
      return elements
    read_positions, first_index = tf.constant(positions), tf.constant(first)
    labels = None if self.labels is None else tf.constant(self.labels[first:end])

    def renumber(element: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
      """Replaces the image's position in its split by its index among all splits that are read.

      Args:
        element: the columns of an image. If `labels` is not None, its label is replaced by the
          entry of `labels`.
      """
      position = element['example_id']
      rank = tf.searchsorted(read_positions, [position], out_type=tf.int64)[0]  # of those read
      renumbered = {**element, 'example_id': first_index + rank}
      if labels is not None:
        renumbered['label'] = tf.gather(labels, rank)
      return renumbered

    return elements.map(renumber)
