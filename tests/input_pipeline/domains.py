"""Small data sets as TFDS would write them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

Example = dict[str, Any]


def store(
  folder: pathlib.Path,
  name: str,
  features: Mapping[str, tfds.features.FeatureConnector],
  splits: Mapping[str, Sequence[Example]],
  config: str = '',
  version: str = '1.0.0',
) -> None:
  """Writes examples, {split: examples}, as a prepared data set or one of its configs."""
  written = tfds.features.FeaturesDict(features)

  def data(examples: Sequence[Example]) -> tf.data.Dataset:
    kinds = {'int64': tf.int64, 'uint8': tf.uint8}
    first = {key: np.asarray(value) for key, value in examples[0].items()}
    signature = {
      key: tf.TensorSpec([None] * value.ndim, kinds.get(str(value.dtype), tf.string))
      for key, value in first.items()
    }
    return tf.data.Dataset.from_generator(lambda: iter(examples), output_signature=signature)

  tfds.dataset_builders.store_as_tfds_dataset(
    name=name,
    config=tfds.core.BuilderConfig(name=config) if config else None,
    version=version,
    data_dir=folder,
    features=written,
    split_datasets={split: data(examples) for split, examples in splits.items()},
    disable_shuffling=True,
  )


def labelled(
  images: Iterable[np.ndarray], labels: Iterable[int], **words: Sequence[str]
) -> list[Example]:
  """Returns examples of images, labels and further words."""
  rows = enumerate(zip(images, labels, strict=True))
  return [
    {'image': image, 'label': np.int64(label), **{key: own[k] for key, own in words.items()}}
    for k, (image, label) in rows
  ]


def write_domain(
  folder: pathlib.Path,
  name: str,
  config: str,
  pictures: Mapping[str, Sequence[tuple[str, int]]],
  class_names: Sequence[str],
  side: int = 4,
  version: str = '1.0.0',
  named: bool = False,
) -> None:
  """Writes a config of a data set, '' for one without configs.

  Args:
    folder, name, config, version: see `store`.
    pictures: {split: [(class, grey level 0..255 of all pixels)]}.
    class_names: in label order.
    side: of the pictures, pixels.
    named: whether examples have a `file_name` too.
  """
  features = {
    'image': tfds.features.Image(shape=(None, None, 3), encoding_format='png'),
    'label': tfds.features.ClassLabel(names=list(class_names)),
    **({'file_name': tfds.features.Text()} if named else {}),
  }
  splits = {
    split: labelled(
      [np.full((side, side, 3), level, np.uint8) for _, level in own],
      [class_names.index(label) for label, _ in own],
      **({'file_name': [f'{number}.png' for number in range(len(own))]} if named else {}),
    )
    for split, own in pictures.items()
  }
  store(folder, name, features, splits, config, version)
