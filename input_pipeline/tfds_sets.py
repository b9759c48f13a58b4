"""Any TensorFlow Datasets name with an image and a label.

The reading order is that of the prepared files, shard after shard; `example_id` is the position
in it. Small splits (CIFAR, MNIST) are kept in memory, still encoded, and shuffled by a full
permutation, the same as of rows in memory. Larger ones are streamed and shuffled by a buffer of
`SHUFFLE_BUFFER` encoded
examples, seeded by (seed, epoch); TFDS has shuffled the files themselves when it wrote them.

Corrupted images, in a single config, are images like all others here; `tfds_corrupted` reads
several configs as the parts of one stored set. Neither crops them again for a classifier.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from input_pipeline.corruption_parts import Part, part_of_config
from input_pipeline.images import MemoryStore, Size, Source, Store
from input_pipeline.settings import DataSettings
from robustness.core.errors import InputError, nearest

MAX_EXAMPLES_IN_MEMORY, MAX_BYTES_IN_MEMORY = 100_000, 2**30
SHUFFLE_BUFFER = 8192
BUILDERS = 'input_pipeline.builders'
OWN = ('corrupted', 'held_out_environments', 'si_score_scenes', 'video_neighbors')
"""The data sets of `BUILDERS`, which computes with JAX and is imported where one is asked for."""


def open_source(settings: DataSettings) -> Source:
  """Returns the split `settings.split` of the data set `settings.name`, downloaded if need be.

  Raises:
    InputError: an unknown name or split, no image or label, an empty split, or a download that
      failed.
  """
  builder = prepared_builder(settings.name, settings.data_dir)
  image, names = check_features(builder)
  num_examples = count(builder, settings.split)
  stream = StreamStore(builder, settings.split)
  small = (
    num_examples <= MAX_EXAMPLES_IN_MEMORY and int(builder.info.dataset_size) <= MAX_BYTES_IN_MEMORY
  )
  store: Store = stream.in_memory() if small else stream
  title = f'tfds {settings.name!r}, split {settings.split!r}'
  return Source(
    title=title,
    description={'source': 'tfds', 'name': builder.info.full_name, 'split': settings.split},
    num_examples=num_examples,
    class_names=names,
    channels=1 if image.shape[-1] == 1 else 3,
    store=store,
    decode=decoder(image),
    where=lambda index: f'{title}, example {index}',
    sizes=sizes(image),
    cropped=stored_part(builder) is not None,
  )


def stored_part(builder: tfds.core.DatasetBuilder) -> Part | None:
  """Returns the corruption and severity of a data set of corrupted images; None of any other.

  They are what the builder `corrupted` noted, or what the config's name says.
  """
  noted = builder.info.metadata or {}
  if 'corruption_number' in noted:
    return Part(int(noted['corruption_number']), int(noted['severity']))
  config = builder.builder_config.name if builder.builder_config else ''
  return part_of_config(os.path.basename(config))


def prepared_builder(name: str, data_dir: str) -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set whose files are there, downloaded if need be.

  Raises:
    InputError: an unknown name, no image or label, or a download that failed.
  """
  builder = find_builder(name, data_dir)
  check_features(builder)
  if not builder.is_prepared():
    download(builder)
  return builder


def find_builder(name: str, data_dir: str) -> tfds.core.DatasetBuilder:
  """Returns the builder of a TFDS name such as 'cifar10' or 'imagenette/320px-v2:1.*.*'.

  Raises:
    InputError: no data set, config or version of that name; near names are listed.
  """
  if not name:
    raise InputError("config.data.name is ''; give a TFDS name, for example 'cifar10'.")
  register_own(name)
  try:
    return tfds.builder(name, data_dir=data_dir or None)
  except tfds.core.DatasetNotFoundError as error:
    raise InputError(
      f'config.data.name is {name!r}, which TFDS does not know; '
      f'{_near_names(name)}. All names: '
      'https://www.tensorflow.org/datasets/catalog/overview'
    ) from error
  except (ValueError, AssertionError) as error:
    raise InputError(f'config.data.name is {name!r}, which TFDS cannot open: {error}') from error


def register_own(name: str) -> None:
  """Registers the builders of this project with TFDS if a TFDS name, or a pattern, is one's."""
  if name.partition('/')[0] in OWN:
    importlib.import_module(BUILDERS)


def _near_names(name: str) -> str:
  known = {*tfds.list_builders(with_community_datasets=False), *OWN}
  near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
  return f'did you mean {" or ".join(map(repr, near))}' if near else 'nothing is called alike'


def download(builder: tfds.core.DatasetBuilder) -> None:
  """Prepares a data set; raises InputError saying how where that fails."""
  try:
    builder.download_and_prepare()
  except Exception as error:  # builders fail in their own ways; the cause is chained and quoted
    raise InputError(
      f'TFDS data set {builder.info.full_name!r} is not prepared in {builder.data_path} and '
      f'could not be downloaded ({type(error).__name__}: {error}). Prepare it where there is a '
      'network, and name the folder with --config.data.data_dir=DIR.'
    ) from error


def count(builder: tfds.core.DatasetBuilder, split: str) -> int:
  """Returns how many examples a split has.

  Raises:
    InputError: there is no such split, or it is empty; those there are are named.
  """
  valid = sorted(builder.info.splits)
  try:
    number = builder.info.splits[split].num_examples
  except (KeyError, ValueError) as error:
    base = re.split(r'[\[+]', split)[0]
    raise InputError(
      f'config.data.split is {split!r}; data set {builder.info.full_name!r}: '
      f"{nearest(base, valid)}, or a slice such as '{valid[0]}[:1000]'."
    ) from error
  if not number:
    raise InputError(
      f'split {split!r} of {builder.info.full_name!r} is empty; its splits: '
      f'{", ".join(f"{s} ({builder.info.splits[s].num_examples})" for s in valid)}.'
    )
  return number


def check_features(
  builder: tfds.core.DatasetBuilder,
) -> tuple[tfds.features.Image, tuple[str, ...]]:
  """Returns the feature `image` and the names of the classes.

  Raises:
    InputError: there is no image of 8 or 16 bits, or no class label.
  """
  features: Any = builder.info.features
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


def decoder(image: tfds.features.Image) -> Callable[[tf.Tensor], tf.Tensor]:
  """Returns the function from a stored image to its pixels, 1 or 3 channels."""
  channels = 1 if image.shape[-1] == 1 else 3

  def decode(stored: tf.Tensor) -> tf.Tensor:
    return image.decode_example(stored)[..., :channels]  # an alpha channel is dropped

  return decode


def sizes(image: tfds.features.Image) -> Callable[[Sequence[int]], Iterable[Size] | None]:
  """Returns `Source.sizes` of a feature, which may fix height and width."""
  height, width = image.shape[:2]
  return lambda indices: [(height, width)] * len(indices) if height and width else None


@dataclasses.dataclass(frozen=True)
class StreamStore:
  """A split read from its files, front to back; nothing is decoded.

  Attributes:
    builder: a prepared data set.
    split: one of its splits, or a slice.
    label: the feature that is an example's label.
  """

  builder: tfds.core.DatasetBuilder
  split: str
  label: str = 'label'

  def in_memory(self) -> MemoryStore:
    """Reads the whole split, still encoded."""
    batches = [*self._read().batch(1024).as_numpy_iterator()]
    stored, labels = (np.concatenate([b[key] for b in batches]) for key in ('stored', 'label'))
    return MemoryStore(tf.constant(stored), tf.constant(labels))

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """See `Store`."""
    if not len(indices):
      return self._read().take(0)
    first, last = int(indices[0]), int(indices[-1])
    span = self._read().skip(first).take(last - first + 1)
    if len(indices) == last - first + 1:
      return span
    is_read = tf.constant(np.isin(np.arange(first, last + 1), indices))
    return span.filter(lambda e: tf.gather(is_read, e['example_id'] - first))

  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """See `Store`; the shuffle is that of `shuffled_in_buffer`."""
    return shuffled_in_buffer(self, indices, seed, start)

  def numbers(self, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns some numeric features of all examples, {name: [num_examples, ...]}, in order.

    No image is decoded, but the files are read from front to back.
    """
    data = self._as_dataset(tfds.decode.PartialDecoding(dict.fromkeys(names, True)))
    batches = [*data.batch(1024).as_numpy_iterator()]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}

  def lists(self, name: str) -> list[np.ndarray]:
    """Returns a feature of lists of numbers, one list an example, in order; see `numbers`."""
    data = self._as_dataset(tfds.decode.PartialDecoding({name: True}))
    return [np.asarray(example[name]) for example in data.as_numpy_iterator()]

  def _as_dataset(self, decoders: Any) -> tf.data.Dataset:
    in_file_order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    return self.builder.as_dataset(
      split=self.split, decoders=decoders, shuffle_files=False, read_config=in_file_order
    )

  def _read(self) -> tf.data.Dataset:
    data = self._as_dataset({'image': tfds.decode.SkipDecoding()})
    return data.enumerate().map(
      lambda index, example: {
        'example_id': index,
        'label': example[self.label],
        'stored': example['image'],
      }
    )


def shuffled_in_buffer(store: Store, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
  """Returns what `Store.shuffled` does, shuffled in a buffer of `SHUFFLE_BUFFER` examples.

  What lies before `start` in its epoch is read again but not decoded.
  """
  epoch, offset = divmod(start, len(indices))
  first_seed = int(np.random.SeedSequence(seed).generate_state(1)[0])

  def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
    return store.elements(indices).shuffle(
      SHUFFLE_BUFFER, seed=first_seed + number, reshuffle_each_iteration=False
    )

  return tf.data.Dataset.counter(epoch).flat_map(one_epoch).skip(offset)
