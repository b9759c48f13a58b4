"""TensorFlow Datasets (TFDS): finds data sets by name and reads their splits from front to back.

Examples are in the order of the prepared files, shard after shard, and `example_id` is the index in
this order. Large splits are streamed and shuffled in a buffer of `SHUFFLE_BUFFER` encoded examples,
seeded by (seed, epoch). That mixes well because TFDS shuffled the examples when it wrote the files.
"""

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import importlib
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
"""Encoded examples in the buffer in which a training shuffles a streamed split."""
BUILDERS = 'input_pipeline.builders'
FEATURES = 'tensorflow_datasets.core.features.'
"""Python module of TFDS's feature classes; others are not imported."""
OWN = ('corrupted', 'held_out_environments', 'si_score_scenes', 'video_neighbors')
"""Names of the data sets in `BUILDERS`. That package needs JAX, so it is imported only if one of
them is requested.
"""


def stored_part(builder: tfds.core.DatasetBuilder) -> StoredPart | None:
  """Returns the corruption and severity of a data set's images; None if they are not corrupted
  images.

  The metadata that this project's builders write state them, otherwise the config's name.
  """
  noted = builder.info.metadata or {}
  if 'corruption_number' in noted:
    return StoredPart(int(noted['corruption_number']), int(noted['severity']))
  config = builder.builder_config.name if builder.builder_config else ''
  return part_of_config(os.path.basename(config))


def prepared_configs(dataset: str, data_dir: str) -> list[str]:
  """Returns the names of a data set's prepared configs, sorted.

  `data_dir` is the folder of TFDS's data; '' is TFDS's default.
  """
  folder = expanded(data_dir or tfds.core.constants.DATA_DIR) / dataset
  return sorted({path.parts[-3] for path in folder.glob('*/*/dataset_info.json')})


def prepared_builder(name: str, data_dir: str, key: str = 'name') -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set, which is downloaded and prepared if it is not yet.

  Args:
    name: a TFDS name.
    data_dir: folder of TFDS's data; '' is TFDS's default.
    key: the setting that holds the name, for messages.

  Raises:
    InputError: the name is unknown, images or labels are missing, or preparing fails.
  """
  builder = find_builder(name, data_dir, key)
  check_features(builder)
  download(builder)
  return builder


def find_builder(name: str, data_dir: str, key: str = 'name') -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set, which may not be prepared.

  Args:
    name: a TFDS name, such as 'cifar10' or 'imagenette/320px-v2:1.*.*'.
    data_dir: folder of TFDS's data; '' is TFDS's default.
    key: the setting that holds the name, for messages.

  Raises:
    InputError: TFDS does not have the name, or cannot open the data set.
  """
  if not name:
    raise SettingError(key, name, fix="Give a TFDS name, for example 'cifar10'.")
  register_own(name)
  stored = expanded(data_dir or tfds.core.constants.DATA_DIR) / re.split('[/:]', name)[0]
  for file in sorted(stored.glob('**/features.json')):
    check_stored_features(file)
  try:
    return tfds.builder(name, data_dir=os.path.expanduser(data_dir) or None)
  except tfds.core.DatasetNotFoundError as error:
    names = {*tfds.list_builders(with_community_datasets=False), *OWN}
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    alike = f'did you mean {" or ".join(map(repr, near))}' if near else 'nothing is called alike'
    raise SettingError(
      key,
      name,
      problem='which TFDS does not know',
      fix=f'{alike}. All names: https://www.tensorflow.org/datasets/catalog/overview',
    ) from error
  except Exception as error:  # TFDS's parsers raise all kinds of errors
    problem = f'which TFDS cannot open: {_first_line(error)}'
    raise SettingError(key, name, problem=problem) from error


def builder_in(folder: pathlib.Path) -> tfds.core.DatasetBuilder:
  """Returns the builder of the prepared data set in a folder; nothing is downloaded.

  Raises:
    InputError: its metadata are damaged, or name a feature that is no class of TFDS.
  """
  check_stored_features(folder / 'features.json')
  try:
    return tfds.builder_from_directory(str(folder))
  except Exception as error:  # TFDS's parsers raise all kinds of errors
    raise InputError(
      f'{folder}: dataset_info.json or features.json is damaged ({_first_line(error)}). Fetch or '
      'prepare the data set again.'
    ) from error


def check_stored_features(file: pathlib.Path) -> None:
  """Raises InputError if features.json names a feature class that is not part of TFDS.

  TFDS imports the module that the file names for a feature, and importing can run any code.
  """
  pending = [json_files.read(file, advice='Fetch or prepare the data set again.')]
  while pending:
    value = pending.pop()
    pending += value.values() if isinstance(value, dict) else value
    for key in ('pythonClassName', 'python_class_name', 'type') if isinstance(value, dict) else ():
      named = value.get(key)
      if isinstance(named, str) and not named.startswith(FEATURES):
        raise InputError(
          f'{file} names the feature {named!r}, which is none of TFDS ({FEATURES}...): such a data '
          'set is not opened, as it could run any code.'
        )
    pending = [inner for inner in pending if isinstance(inner, dict | list)]


def _first_line(error: Exception) -> str:
  """Returns the first line of an error's message, or the name of its type if it has none."""
  return str(error).strip().partition('\n')[0] or type(error).__name__


def register_own(name: str) -> None:
  """Imports the builders of this project, which registers them with TFDS, if `name` is one of
  theirs.
  """
  if name.partition('/')[0] in OWN:
    importlib.import_module(BUILDERS)


def download(builder: tfds.core.DatasetBuilder) -> None:
  """Downloads and prepares a data set unless it is prepared already.

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
      f'network, and name the folder with --{KEYS.data.tfds.data_dir}=DIR, in Python data_dir or '
      'the base_dir of a config.'
    ) from error


def check_features(
  builder: tfds.core.DatasetBuilder,
) -> tuple[tfds.features.Image, tuple[str, ...]]:
  """Returns the feature `image` and the class names of a data set.

  Raises:
    InputError: `image` or `label` is missing, images are not of 8 or 16 bits, or labels are not
      class indices.
  """
  features = builder.info.features
  name = builder.info.full_name
  has = sorted(features) if isinstance(features, tfds.features.FeaturesDict) else [str(features)]
  if not {'image', 'label'} <= set(has):
    raise InputError(
      f"data set {name!r} lacks the feature 'image' or 'label'; it has: {', '.join(has)}."
    )
  image, label = features['image'], features['label']
  if not isinstance(image, tfds.features.Image) or image.np_dtype not in (np.uint8, np.uint16):
    raise InputError(f"feature 'image' of {name!r} is {image}; 8 or 16-bit images are read.")
  if not isinstance(label, tfds.features.ClassLabel):
    raise InputError(f"feature 'label' of {name!r} is {label}; a ClassLabel is read.")
  return image, tuple(label.names)


@dataclasses.dataclass(frozen=True)
class Split:
  """A split of a prepared data set, or a slice of one such as 'test[:100]', read without decoding.

  Attributes:
    builder: the builder of the data set.
    name: the split in TFDS's notation.
    label: name of the feature that is an example's label.
  """

  builder: tfds.core.DatasetBuilder
  name: str
  label: str = 'label'

  @functools.cached_property
  def num_examples(self) -> int:
    """The number of examples; raises InputError if the split does not exist or is empty."""
    splits, data_set = self.builder.info.splits, self.builder.info.full_name
    valid = sorted(splits)
    try:
      number = splits[self.name].num_examples
    except (KeyError, ValueError) as error:
      base = re.split(r'[\[+]', self.name)[0]
      raise InputError(
        f'{KEYS.data.split} is {self.name!r}; data set {data_set!r}: '
        f"{nearest(base, valid)}, or a slice such as '{valid[0]}[:1000]'."
      ) from error
    if not number:
      raise InputError(
        f'split {self.name!r} of {data_set!r} is empty; its splits: '
        f'{", ".join(f"{s} ({splits[s].num_examples})" for s in valid)}.'
      )
    return number

  def in_memory(self) -> MemoryStore:
    """Reads the whole split into memory, with images still encoded."""
    with _reading(self):
      batches = [*self._read(0, self.num_examples).batch(1024).as_numpy_iterator()]
    return MemoryStore(*(np.concatenate([b[key] for b in batches]) for key in ('stored', 'label')))

  def elements(self, places: np.ndarray) -> tf.data.Dataset:
    """Returns the elements at `places`, ascending indices in the split; images are not decoded.

    Files before the first of these and after the last are not opened.
    """
    first, last = int(places[0]), int(places[-1])
    span = self._read(first, last + 1)
    if len(places) == last - first + 1:
      return span
    is_read = tf.constant(np.isin(np.arange(first, last + 1), places))
    return span.filter(lambda e: tf.gather(is_read, e['example_id'] - first))

  def numbers(self, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns numeric features of all examples in file order, {name: array [num_examples, ...]}."""
    decoding = tfds.decode.PartialDecoding(dict.fromkeys(names, True))
    with _reading(self):
      batches = [*self._as_dataset(self.name, decoding).batch(1024).as_numpy_iterator()]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}

  def lists(self, name: str) -> list[np.ndarray]:
    """Returns a feature that is a list of numbers, one array per example, in file order."""
    data = self._as_dataset(self.name, tfds.decode.PartialDecoding({name: True}))
    with _reading(self):
      return [np.asarray(example[name]) for example in data.as_numpy_iterator()]

  def labels_and_digests(self) -> tuple[np.ndarray, tuple[bytes, ...]]:
    """Returns the label, int32 [N], and a BLAKE2b digest of the encoded image of every example.

    The result is cached for the process.
    """
    return _scan(str(self.builder.data_path), self.name)

  def _as_dataset(
    self, split: object, decoders: Mapping[str, object] | tfds.decode.PartialDecoding
  ) -> tf.data.Dataset:
    """Returns a split as a TensorFlow data set in file order.

    Args:
      split: the split in TFDS's notation, or a TFDS read instruction.
      decoders: which features are decoded, and how.
    """
    in_file_order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    return self.builder.as_dataset(
      split=split, decoders=decoders, shuffle_files=False, read_config=in_file_order
    )

  def _read(self, begin: int, end: int) -> tf.data.Dataset:
    """Returns the elements from index `begin` up to but without `end`, of which there is at least
    one.
    """
    splits, parts, passed = self.builder.info.splits, [], 0
    for part in tfds.core.ReadInstruction.from_spec(self.name).to_absolute(splits):
      first = part.from_ or 0
      last = splits[part.splitname].num_examples if part.to is None else part.to
      low, high = (min(max(first + n - passed, first), last) for n in (begin, end))
      if low < high:
        parts.append(tfds.core.ReadInstruction(part.splitname, from_=low, to=high, unit='abs'))
      passed += last - first
    read = functools.reduce(operator.add, parts)
    data = self._as_dataset(read, {'image': tfds.decode.SkipDecoding()})
    return data.enumerate(begin).map(
      lambda i, e: {'example_id': i, 'label': e[self.label], 'stored': e['image']}
    )


@functools.lru_cache
def _scan(folder: str, split: str) -> tuple[np.ndarray, tuple[bytes, ...]]:
  """Returns labels and digests of all images in a split of the data set in a folder.

  See `Split.labels_and_digests`; finding images that are stored twice needs them.
  """
  read = Split(builder_in(pathlib.Path(folder)), split)
  name = read.builder.info.full_name
  logging.info('reading %s, split %s, for images that are stored twice', name, split)
  labels, digests = [], []
  with _reading(read):
    for element in read.elements(np.arange(read.num_examples)).as_numpy_iterator():
      labels.append(element['label'])
      digests.append(hashlib.blake2b(element['stored'], digest_size=16).digest())
  return np.array(labels, np.int32), tuple(digests)


def _decoded(image: tfds.features.Image, stored: tf.Tensor, channels: int) -> tf.Tensor:
  """Decodes an image of a TFDS data set, [H, W, channels].

  JPEGs are decoded by the accurate inverse DCT, as Pillow and the other sources do. The fast one of
  TFDS gives other values at about two pixels in three, mostly by one level of 255.
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
  """Raises InputError with the name of the data set if reading its files fails."""
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
  """Examples of one or more splits, one split after the other.

  Attributes:
    splits: the splits that are read.
    selected: for each split the indices of the examples that are read, int64, ascending; () reads
      all.
    labels: labels of all selected examples [N], which replace the stored ones; None keeps these.
  """

  splits: Sequence[Split]
  selected: Sequence[np.ndarray] = ()
  labels: np.ndarray | None = None

  @functools.cached_property
  def _places(self) -> Sequence[np.ndarray]:
    """For each split the indices of the examples that are read, int64, ascending."""
    return self.selected or [np.arange(split.num_examples) for split in self.splits]

  @functools.cached_property
  def _first(self) -> np.ndarray:
    """The index of each split's first example, then the number of examples, int64 [splits + 1]."""
    return np.concatenate([[0], np.cumsum([len(places) for places in self._places])])

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the elements at `indices`, which are ascending and distinct, in this order."""
    return functools.reduce(tf.data.Dataset.concatenate, self._runs(np.asarray(indices, np.int64)))

  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """Returns the endless sequence of shuffled epochs over `indices`, without its first `start`
    elements.

    Each split is shuffled in a buffer of its own, and the split of each next example is drawn in a
    permutation that depends on (seed, epoch). The first elements of the epoch of `start` are read
    but not decoded.
    """
    indices = np.asarray(indices, np.int64)
    sizes = [len(part) for part in self._parts(indices) if len(part)]
    first_seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
    epoch, offset = divmod(start, len(indices))

    def order(number: np.int64) -> np.ndarray:
      """Returns the number of the split that each example of an epoch is taken from, int64
      [examples].
      """
      mixed = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
      return np.random.default_rng((seed, int(number))).permutation(mixed)

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
      runs = [
        run.shuffle(SHUFFLE_BUFFER, seed=first_seed + number, reshuffle_each_iteration=False)
        for run in self._runs(indices)
      ]
      if len(runs) == 1:
        return runs[0]
      choices = tf.ensure_shape(tf.numpy_function(order, [number], tf.int64), [len(indices)])
      return tf.data.Dataset.choose_from_datasets(
        runs, tf.data.Dataset.from_tensor_slices(choices), stop_on_empty_dataset=False
      )

    return tf.data.Dataset.counter(epoch).flat_map(one_epoch).skip(offset)

  def images(self, class_names: Sequence[str], title: str, description: Facts) -> Images:
    """Returns the `Images` of the splits, grey [H, W, 1] or RGB; an alpha channel is dropped.

    Args:
      class_names: names of the classes in label order.
      title: names the images in messages.
      description: JSON values that identify the images in results.json.
    """
    image = self.splits[0].builder.info.features['image']
    (height, width), channels = image.shape[:2], 1 if image.shape[-1] == 1 else 3
    return Images(
      title=title,
      description=description,
      num_examples=int(self._first[-1]),
      class_names=tuple(class_names),
      channels=channels,
      store=self,
      where=self.describe,
      decode=lambda stored: _decoded(image, stored, channels),
      sizes=lambda indices: [(height, width)] * len(indices) if height and width else None,
    )

  def describe(self, index: int) -> str:
    """Returns the data set, split and index in the split's files of an example, for messages."""
    number = int(np.searchsorted(self._first, index, side='right')) - 1
    split, place = self.splits[number], int(self._places[number][index - self._first[number]])
    return f'tfds {split.builder.info.full_name!r}, split {split.name!r}, example {place}'

  def _parts(self, indices: np.ndarray) -> list[np.ndarray]:
    """Returns for each split those of the ascending `indices` that are of its examples."""
    return np.split(indices, np.searchsorted(indices, self._first[1:-1]))

  def _runs(self, indices: np.ndarray) -> list[tf.data.Dataset]:
    """Returns for each split with any of `indices` a data set of their elements."""
    return [self._run(k, part) for k, part in enumerate(self._parts(indices)) if len(part)]

  def _run(self, number: int, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the elements at `indices`, all in one split, with `example_id` counted over all
    splits.
    """
    elements = self.splits[number].elements(self._places[number][indices - self._first[number]])
    if len(self.splits) == 1 and not self.selected:
      return elements
    first, end = self._first[number : number + 2]
    places, index = tf.constant(self._places[number]), tf.constant(first)
    labels = None if self.labels is None else tf.constant(self.labels[first:end])

    def renamed(element: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
      place = tf.searchsorted(places, [element['example_id']], out_type=tf.int64)[0]
      label = {} if labels is None else {'label': tf.gather(labels, place)}
      return {**element, **label, 'example_id': index + place}

    return elements.map(renamed)
