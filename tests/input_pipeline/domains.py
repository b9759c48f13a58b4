"""Small data sets as TFDS would write them, and what tests of all sources ask."""

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
  """Returns settings of `config.data`; those that are no keys of all sources are the source's."""
  section = {'path': str(path)} if path else {}
  section |= {key: settings.pop(key) for key in set(settings) - set(KEYS)}
  return DataSettings.from_section({'source': source, source: section, **settings})


def read(source: str, path: pathlib.Path | str = '', **settings: Any) -> Any:
  """Loads the rows of a source; see `settings_of`."""
  return load(settings_of(source, path, **settings))


def whole(rows: Rows) -> Batch:
  """Returns all rows as one batch."""
  (batch,) = rows.batches(rows.num_examples)
  return batch


def levels(images: np.ndarray) -> list[int]:
  """Returns the levels 0..255 of the first values of images in [0, 1]."""
  return np.rint(images[:, 0, 0, 0] * 255).astype(int).tolist()


def assert_equal(first: Iterable[Batch], second: Iterable[Batch]) -> None:
  """Checks that batches have the same columns of the same types and values."""
  for one, other in zip(first, second, strict=True):
    assert one.keys() == other.keys()
    for name, value in one.items():
      assert np.asarray(value).dtype == np.asarray(other[name]).dtype, name
      np.testing.assert_array_equal(value, other[name], err_msg=name)


def store(
  folder: pathlib.Path,
  name: str,
  features: Mapping[str, tfds.features.FeatureConnector],
  splits: Mapping[str, Sequence[Example]],
  config: str = '',
  version: str = '1.0.0',
) -> None:
  """Writes examples, {split: examples}, as a prepared data set or one of its configs."""
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
  """Writes {split: [(image, label)]}, images with a name if `named`; `kind` is `store`'s."""
  image = tfds.features.Image(shape=shape, encoding_format='png')
  features = {'image': image, 'label': tfds.features.ClassLabel(names=list(class_names))}
  features |= {'file_name': tfds.features.Text()} if named else {}
  examples = {
    split: [
      {'image': image, 'label': np.int64(label), **({'file_name': f'{k}.png'} if named else {})}
      for k, (image, label) in enumerate(own)
    ]
    for split, own in splits.items()
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
  """Writes a config of a data set, '' for one without configs; see `store_labelled`.

  `pictures` are {split: [(class, grey level 0..255 of all pixels)]}.
  """
  splits = {
    split: [(np.full((side, side, 3), n, np.uint8), class_names.index(label)) for label, n in own]
    for split, own in pictures.items()
  }
  store_labelled(folder, name, splits, class_names, config=config, **kind)


NUMBER, CLASSES = 30, ('ant', 'bee', 'cat')
PIXELS = np.random.default_rng(0).integers(0, 256, (NUMBER, 6, 5, 3), dtype=np.uint8)


def png(pixels: np.ndarray) -> bytes:
  """Returns an encoded image."""
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, 'png')
  return file.getvalue()


def assert_reads_pixels(rows: Rows, poses: bool = True) -> None:
  """Checks that rows are `PIXELS`, labelled 0, 1, 2, 0, ..., with a column `pose` of x and y, and
  that a training reads every one once an epoch, resumed and shared by processes alike."""
  batch = whole(rows)
  np.testing.assert_array_equal(np.rint(batch['image'] * 255), PIXELS)
  assert batch['label'].tolist() == [i % 3 for i in range(NUMBER)]
  assert not poses or batch['pose'].tolist() == ['x', 'y'] * (NUMBER // 2)
  some = rows.batches(4, [2])
  assert next(some)['example_id'].tolist() == [8, 9, 10, 11]
  steps = [*itertools.islice(rows.training_batches(10, 3), 6)]
  epochs = np.concatenate([step['example_id'] for step in steps]).reshape(2, NUMBER)
  assert (np.sort(epochs) == np.arange(NUMBER)).all() and (epochs[0] != epochs[1]).any()
  assert_equal(steps[4:], itertools.islice(rows.training_batches(10, 3, 4), 2))
  shares = [next(rows.training_batches(10, 3, 4, (p, 2)))['example_id'] for p in (0, 1)]
  assert np.concatenate(shares).tolist() == steps[4]['example_id'].tolist()
