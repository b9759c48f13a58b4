"""CIFAR-10-C and CIFAR-100-C as they were released: PATH/<corruption>.npy and PATH/labels.npy.

Each file is uint8 [5 n, 32, 32, 3], severity after severity; `labels.npy` has 5 n labels, the same
n five times, and fixes n (10,000 in the release). Any of the 19 corruptions may be there. Rows are
ordered by corruption (as in `robustness.corruptions.names.NAMES`), then severity, then image;
`example_id` is the position in that order and `base_id` the position in CIFAR's test set as its
authors released it. Pixels stay on disk until a batch needs them.

Clean images, which the release lacks, come first if there are any: from PATH/clean.npy, uint8
[n, 32, 32, 3] in the same order, or from the test split of the TFDS set that `name` gives, whose
feature `id` tells the order.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from input_pipeline.settings import DataSettings
from input_pipeline.sources.npy import read_array
from input_pipeline.sources.source import Source
from input_pipeline.sources.stored import CLEAN_PART, Part, check_names, description, source_fields
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.corruptions.names import NAMES, NUMBERS, SEVERITIES

if TYPE_CHECKING:
  import tensorflow as tf

CLASS_NAMES = (
  'airplane',
  'automobile',
  'bird',
  'cat',
  'deer',
  'dog',
  'frog',
  'horse',
  'ship',
  'truck',
)
# of the fine classes, in label order (Krizhevsky 2009): the alphabet's
_CIFAR100_NAMES = """
  apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
  bowl boy bridge bus butterfly camel can castle caterpillar cattle
  chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
  dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
  lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
  mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
  plain plate poppy porcupine possum rabbit raccoon ray road rocket
  rose sea seal shark shrew skunk skyscraper snail snake spider
  squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
  train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
TITLES = {'cifar10_c': 'CIFAR-10-C', 'cifar100_c': 'CIFAR-100-C'}
CLASSES = {'cifar10_c': CLASS_NAMES, 'cifar100_c': tuple(_CIFAR100_NAMES.split())}
IMAGE_SHAPE = (32, 32, 3)
LABELS, CLEAN_FILE = 'labels', 'clean'


@dataclasses.dataclass(frozen=True)
class PartsStore:
  """Elements in equal parts, read from arrays that may lie on disk.

  Attributes:
    parts: uint8 [n, H, W, C] each.
    labels: integers [n], the same for every part.
  """

  parts: tuple[np.ndarray, ...]
  labels: np.ndarray

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """See `Store`."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(np.asarray(indices, np.int64)).map(self.element)

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """See `IndexedStore`."""
    import tensorflow as tf

    stored = tf.ensure_shape(
      tf.numpy_function(self._read, [index], tf.uint8), self.parts[0].shape[1:]
    )
    return {
      'example_id': index,
      'stored': stored,
      'label': tf.gather(tf.constant(self.labels), index % len(self.labels)),
    }

  def _read(self, index: np.ndarray) -> np.ndarray:
    part, base = divmod(int(index), len(self.labels))
    return np.array(self.parts[part][base])


def open_source(settings: DataSettings) -> Source:
  """Returns all corrupted images of the folder `settings.path`.

  Raises:
    InputError: the folder or `labels.npy` is missing, a file is named after no corruption, or an
      array is truncated or has another dtype or shape.
  """
  choice('config.data.split', settings.split, ('test',))
  files = _files(settings.path, TITLES[settings.source])
  labels = read_labels(files.pop(LABELS), classes=len(CLASSES[settings.source]))
  clean_file = files.pop(CLEAN_FILE, None)
  check_names(files, settings.path)
  arrays, parts = [], []
  for name in (name for name in NAMES if name in files):
    severities = np.split(read_images(files[name], len(SEVERITIES) * len(labels)), len(SEVERITIES))
    arrays += severities
    parts += [Part(NUMBERS[name], severity) for severity in SEVERITIES]
  clean = (
    read_images(clean_file, len(labels))
    if clean_file
    else _clean_from_tfds(settings, labels)
    if settings.name
    else None
  )
  if clean is not None:
    arrays, parts = [clean, *arrays], [CLEAN_PART, *parts]
  return _source(settings, tuple(arrays), parts, labels)


def _source(
  settings: DataSettings, arrays: tuple[np.ndarray, ...], parts: list[Part], labels: np.ndarray
) -> Source:
  title = f'{TITLES[settings.source]} in {settings.path}'
  size = (IMAGE_SHAPE[0], IMAGE_SHAPE[1])
  return Source(
    title=title,
    description={
      'source': settings.source,
      'path': settings.path,
      **description(parts, len(labels)),
    },
    class_names=CLASSES[settings.source],
    channels=IMAGE_SHAPE[2],
    store=PartsStore(arrays, labels),
    decode=lambda image: image,
    where=lambda i: f'{title}, {parts[i // len(labels)]}, image {i % len(labels)} (example {i})',
    sizes=lambda indices: [size] * len(indices),
    **source_fields(parts, len(labels)),
  )


def _files(path: str, title: str) -> dict[str, Path]:
  folder = expanded(path)
  if not path or not folder.is_dir():
    raise InputError(
      f'config.data.path is {path!r}, which is not a folder; give the folder of '
      f'{title}, which holds labels.npy and one .npy file a corruption.'
    )
  files = {file.stem: file for file in sorted(folder.glob('[!.]*.npy'))}
  if LABELS not in files:
    raise InputError(f'{folder} has no labels.npy; give the folder of {title} as released.')
  return files


def read_images(path: Path, count: int) -> np.ndarray:
  """Maps a file of images, uint8 [count, 32, 32, 3].

  Raises:
    InputError: another dtype, shape or number of images.
  """
  images = read_array(path)
  if images.dtype != np.uint8 or images.shape[1:] != IMAGE_SHAPE:
    raise InputError(
      f'{path} is {images.dtype} of shape {images.shape}; expected uint8 '
      f'[{count}, {", ".join(map(str, IMAGE_SHAPE))}].'
    )
  if len(images) != count:
    raise InputError(
      f'{path} holds {len(images)} images; its labels say {count}. Fetch both files again.'
    )
  return images


def read_labels(
  path: Path, repeats: int = len(SEVERITIES), classes: int = len(CLASS_NAMES)
) -> np.ndarray:
  """Reads labels of CIFAR that are tiled `repeats` times, and returns one of the repeats.

  Returns:
    int32 [n].

  Raises:
    InputError: no integers below `classes`, or not the same labels `repeats` times.
  """
  labels = np.asarray(read_array(path))
  if labels.ndim != 1 or labels.dtype.kind not in 'iu' or not labels.size:
    raise InputError(f'{path} is {labels.dtype} of shape {labels.shape}; expected integers [N].')
  if labels.min() < 0 or labels.max() >= classes:
    raise InputError(
      f'{path} has labels {labels.min()}..{labels.max()}; CIFAR-{classes} has 0..{classes - 1}.'
    )
  first = labels[: len(labels) // repeats]
  if len(labels) % repeats or (labels.reshape(repeats, -1) != first).any():
    raise InputError(
      f'{path} has {len(labels)} labels that are not the same {repeats} times over, '
      'once a severity.'
    )
  return first.astype(np.int32)


def _clean_from_tfds(settings: DataSettings, labels: np.ndarray) -> np.ndarray:
  """Returns the clean images in the released order, which TFDS keeps in the feature `id`."""
  import tensorflow_datasets as tfds

  from input_pipeline.sources.tfds_source import prepared_builder

  builder = prepared_builder(settings.name, settings.data_dir)
  if not {'id', 'image', 'label'} <= set(builder.info.features):
    raise InputError(
      f"config.data.name is {settings.name!r}, whose examples have no 'id': their "
      f"order is not known. Set config.data.name='{settings.source[:-2]}', or '' for none."
    )
  examples = sorted(tfds.as_numpy(builder.as_dataset(split='test')), key=lambda e: e['id'])
  if [int(example['label']) for example in examples] != labels.tolist():
    raise InputError(
      f'the test labels of {settings.name!r} are not those of {settings.path}: its '
      "images are others. Set config.data.name='' to read no clean images."
    )
  return np.stack([example['image'] for example in examples])
