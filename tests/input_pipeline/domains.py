"""Small data sets as TFDS writes them, and checks that the tests of several sources share."""

from __future__ import annotations

import dataclasses
import io
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline import DataSettings, load
from robustness.core.rows import Batch, Rows

Example = dict[str, Any]
KEYS = [field.name for field in dataclasses.fields(DataSettings)]


def settings_of(source: str, path: pathlib.Path | str = '', **settings: Any) -> DataSettings:
  """Returns the settings of `config.data` that read a source.

  Args:
    source: name of the source, such as 'folder'.
    path: its key `path`; '' leaves the default.
    **settings: keys of `DataSettings`, such as `crop`; all other names are keys of the source.
  """
  section = {'path': str(path)} if path else {}
  section |= {key: settings.pop(key) for key in set(settings) - set(KEYS)}
  return DataSettings.from_section({'source': source, source: section, **settings})


def read(source: str, path: pathlib.Path | str = '', **settings: Any) -> Any:
  """Returns the rows of a source, `config.data.source` with the settings of `settings_of`."""
  return load(settings_of(source, path, **settings))


def full_batch(rows: Rows) -> Batch:
  """Returns all rows as one batch."""
  (batch,) = rows.batches(rows.num_examples)
  return batch


def levels(images: np.ndarray) -> list[int]:
  """Returns the grey level 0..255 of every image [N, H, W, C] in [0, 1], by its first pixel."""
  return np.rint(images[:, 0, 0, 0] * 255).astype(int).tolist()


def save_grey(path: pathlib.Path, level: int, side: int = 8, **options: Any) -> None:
  """Writes an RGB image of side x side pixels of one grey level 0..255, and makes its folder.

  `options` are passed to Pillow, such as `quality`.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  Image.fromarray(np.full((side, side, 3), level, np.uint8)).save(path, **options)


def assert_equal(first: Iterable[Batch], second: Iterable[Batch]) -> None:
  """Checks that two sequences of batches have the same columns, types and values."""
  for batch, other_batch in zip(first, second, strict=True):
    assert batch.keys() == other_batch.keys()
    for name, value in batch.items():
      assert np.asarray(value).dtype == np.asarray(other_batch[name]).dtype, name
      np.testing.assert_array_equal(value, other_batch[name], err_msg=name)


def store(
  folder: pathlib.Path,
  name: str,
  features: Mapping[str, tfds.features.FeatureConnector],
  splits: Mapping[str, Sequence[Example]],
  config: str = '',
  version: str = '1.0.0',
) -> None:
  """Writes {split: examples} as a prepared TFDS data set, or as its config named `config`."""
  tfds.dataset_builders.store_as_tfds_dataset(
    name=name,
    config=tfds.core.BuilderConfig(name=config) if config else None,
    version=version,
    data_dir=folder,
    features=tfds.features.FeaturesDict(features),
    split_datasets={split: [*enumerate(examples)] for split, examples in splits.items()},
    disable_shuffling=True,
  )


def store_labelled(
  folder: pathlib.Path,
  name: str,
  splits: Mapping[str, Iterable[tuple[np.ndarray, int]]],
  class_names: Sequence[str],
  shape: tuple[int | None, ...] = (None, None, 3),
  named: bool = False,
  **kind: str,
) -> None:
  """Writes {split: [(image, label)]} as a prepared TFDS data set.

  Args:
    folder: the folder of TFDS.
    name: name of the data set.
    splits: images [H, W, 3] uint8 with their labels, in the order of their files.
    class_names: names of the labels.
    shape: shape that TFDS states for images; None where their sizes differ.
    named: whether examples have a feature `file_name`, such as '0.png'.
    **kind: `config` and `version` of `store`.
  """
  image = tfds.features.Image(shape=shape, encoding_format='png')
  features = {'image': image, 'label': tfds.features.ClassLabel(names=list(class_names))}
  features |= {'file_name': tfds.features.Text()} if named else {}
  examples = {
    split: [
      {'image': image, 'label': np.int64(label), **({'file_name': f'{k}.png'} if named else {})}
      for k, (image, label) in enumerate(labelled_images)
    ]
    for split, labelled_images in splits.items()
  }
  store(folder, name, features, examples, **kind)


def write_domain(
  folder: pathlib.Path,
  name: str,
  config: str,
  pictures: Mapping[str, Sequence[tuple[str, int]]],
  class_names: Sequence[str],
  side: int = 4,
  **kind: Any,
) -> None:
  """Writes uniformly grey images as a config of a TFDS data set; see `store_labelled`.

  `pictures` are {split: [(class, grey level 0..255)]}. A `config` of '' writes a data set without
  configs.
  """
  splits = {
    split: [
      (np.full((side, side, 3), n, np.uint8), class_names.index(label))
      for label, n in levels_of_split
    ]
    for split, levels_of_split in pictures.items()
  }
  store_labelled(folder, name, splits, class_names, config=config, **kind)


NUMBER, CLASSES = 30, ('ant', 'bee', 'cat')
"""Number of images and their classes in the sources that `assert_reads_pixels` checks."""
PIXELS = np.random.default_rng(0).integers(0, 256, (NUMBER, 6, 5, 3), dtype=np.uint8)


def png(pixels: np.ndarray) -> bytes:
  """Returns the PNG file of an image, uint8 [H, W, 3] or [H, W]."""
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, 'png')
  return file.getvalue()


def assert_reads_pixels(rows: Rows, poses: bool = True) -> None:
  """Checks rows of the images `PIXELS` with the labels 0, 1, 2, 0, 1, 2, ...

  Training must read every image once an epoch, and the same ones if it is resumed or shared by two
  processes. If `poses` is set, there must be a column `pose` with x, y, x, y, ...
  """
  batch = full_batch(rows)
  np.testing.assert_array_equal(np.rint(batch['image'] * 255), PIXELS)
  assert batch['label'].tolist() == [i % 3 for i in range(NUMBER)]
  assert not poses or batch['pose'].tolist() == ['x', 'y'] * (NUMBER // 2)
  third_block = next(rows.batches(4, [2]))
  assert third_block['example_id'].tolist() == [8, 9, 10, 11]
  steps = [*itertools.islice(rows.training_batches(10, 3), 6)]
  epochs = np.concatenate([step['example_id'] for step in steps]).reshape(2, NUMBER)
  assert (np.sort(epochs) == np.arange(NUMBER)).all() and (epochs[0] != epochs[1]).any()
  assert_equal(steps[4:], itertools.islice(rows.training_batches(10, 3, 4), 2))
  halves = [next(rows.training_batches(10, 3, 4, (p, 2)))['example_id'] for p in (0, 1)]
  assert np.concatenate(halves).tolist() == steps[4]['example_id'].tolist()
