"""A data set of several configs, as TFDS would write it."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds


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
  """Writes a config of a data set.

  Args:
    folder: TFDS's `data_dir`.
    name: of the data set.
    config: its name; '' for a data set without configs.
    pictures: {split: [(class, grey level 0..255 of all pixels)]}.
    class_names: in label order.
    side: of the pictures, pixels.
    version: of the data set.
    named: whether examples have a `file_name` too.
  """
  features = tfds.features.FeaturesDict(
    {
      'image': tfds.features.Image(shape=(None, None, 3), encoding_format='png'),
      'label': tfds.features.ClassLabel(names=list(class_names)),
      **({'file_name': tfds.features.Text()} if named else {}),
    }
  )

  def examples(own: Sequence[tuple[str, int]]) -> tf.data.Dataset:
    images = np.array([np.full((side, side, 3), level, np.uint8) for _, level in own])
    labels = np.array([class_names.index(label) for label, _ in own], np.int64)
    words = {'file_name': [f'{number}.png' for number in range(len(own))]} if named else {}
    return tf.data.Dataset.from_tensor_slices({'image': images, 'label': labels, **words})

  tfds.dataset_builders.store_as_tfds_dataset(
    name=name,
    config=tfds.core.BuilderConfig(name=config) if config else None,
    version=version,
    data_dir=folder,
    features=features,
    split_datasets={split: examples(own) for split, own in pictures.items()},
    disable_shuffling=True,
  )
