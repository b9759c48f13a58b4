"""Sources `tfds` and `tfds_corrupted`: data sets of TensorFlow Datasets with an image and a label.

`example_id` is the index in the order of the prepared files. Small splits (CIFAR, MNIST) are
kept in memory, still encoded, and shuffled by a full permutation, as arrays are. Larger ones are
streamed, see `input_pipeline.tfds_sets`.

For the source `tfds`, a config of corrupted images is a data set like any other. `tfds_corrupted`
reads several configs as one stored set, in which each config is a part: one corruption at one
severity. A pattern such as 'cifar10_corrupted/*', 'corrupted/cifar10_*' or
'imagenet2012_corrupted/*_3' matches the configs of a data set that are prepared; a name without '*'
is a single config, which is prepared if it is not yet. Rows are ordered by corruption (as in
`robustness.corruptions.names.NAMES`; clean images first), then severity, then index in the files.
`base_id` is this index, because TFDS writes all configs of such a set in the same order. Configs
with different settings, base data or first labels are refused.

Corrupted images of either source are not cropped again for a classifier.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from typing import TYPE_CHECKING

import numpy as np

from input_pipeline.corruption_parts import of_parts
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import KEYS, InputError, nearest
from robustness.core.settings import differing_keys
from robustness.core.typing import Facts
from robustness.corruptions.names import StoredPart

if TYPE_CHECKING:
  from input_pipeline.tfds_sets import Split

MAX_EXAMPLES_IN_MEMORY, MAX_BYTES_IN_MEMORY = 100_000, 2**30
"""Largest split that is kept in memory: number of examples, and size of the data set in bytes."""
COMPARED = 1000
"""Labels at the beginning of every part that are compared; comparing all would read all images."""


@dataclasses.dataclass(frozen=True)
class Tfds(Source):
  """Any TensorFlow Datasets (TFDS) data set with `image` and `label`.

  Attributes:
    dataset: TFDS name, for example 'cifar10' or 'imagenette/320px-v2'.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
  """

  moved_keys = {'name': 'dataset'}

  dataset: str = ''
  data_dir: str = ''

  def splits_overlap(self, split: str, other_split: str) -> bool:
    """Returns whether two splits, also with slices, have an image in common."""
    from input_pipeline import tfds_sets

    builder = tfds_sets.find_builder(self.dataset, self.data_dir, self.key('dataset'))
    return tfds_sets.share_examples(builder, split, other_split)

  def open(self, settings: DataSettings) -> Images:
    """Opens a split of a TFDS data set, which is downloaded and prepared if necessary.

    A small data set is kept in memory.

    Args:
      settings: settings of the data, of which the split is used here.
    """
    from input_pipeline import tfds_sets

    builder = tfds_sets.prepared_builder(self.dataset, self.data_dir, self.key('dataset'))
    _, names = tfds_sets.check_features(builder)
    split = tfds_sets.Split(builder, settings.split)
    title = f'tfds {self.dataset!r}, split {settings.split!r}'
    description = {'name': builder.info.full_name, 'split': settings.split}
    images = tfds_sets.SplitsStore([split]).images(names, title, description)
    is_small = int(builder.info.dataset_size) <= MAX_BYTES_IN_MEMORY
    is_in_memory = is_small and split.num_examples <= MAX_EXAMPLES_IN_MEMORY
    return dataclasses.replace(
      images,
      store=split.in_memory() if is_in_memory else images.store,
      where=lambda index: f'{title}, example {index}',
      # sets of one corruption and severity were resized and cropped before they were corrupted
      cropped=tfds_sets.stored_part(builder) is not None,
    )


@dataclasses.dataclass(frozen=True)
class TfdsCorrupted(Source):
  """TFDS configs with one corruption and severity each, joined.

  All configs must hold the same images in the same order.

  Attributes:
    pattern: pattern of the names of configs, such as 'corrupted/cifar10_*'.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
  """

  name = 'tfds_corrupted'
  moved_keys = {'name': 'pattern'}

  pattern: str = ''
  data_dir: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns the images of all TFDS configs that match the pattern, by corruption and severity.

    Raises:
      InputError: configs have different images or classes, or a config has no corruption and
        severity.
    """
    from input_pipeline.tfds_sets import SplitsStore

    parts = self._by_part(settings.split)
    splits = [*parts.values()]
    first = splits[0]
    title = f'tfds {self.pattern!r}, split {settings.split!r}'
    dataset = f'{first.builder.name}:{first.builder.version}'
    description = {'name': self.pattern, 'split': settings.split, 'dataset': dataset}
    class_names = _same_classes(splits)
    labels = np.tile(_same_labels(splits), len(splits))  # every part has the labels of the first
    images = SplitsStore(splits, labels=labels).images(class_names, title, description)
    # the fields on how images are stored and decoded; `of_parts` sets the other ones
    names = ('class_names', 'channels', 'store', 'decode', 'sizes')
    fields = {name: getattr(images, name) for name in names}
    return of_parts([*parts], first.num_examples, title, description, **fields)

  def _by_part(self, split: str) -> dict[StoredPart, Split]:
    """Opens the matching TFDS configs, as `{corruption and severity: split}` in sorted order.

    For instance, 'cifar10_corrupted/fog_3' has fog at severity 3.

    Args:
      split: name of the split.
    """
    from input_pipeline.tfds_sets import Split, prepared_builder, stored_part

    opened: dict[StoredPart, Split] = {}
    for name in self._names():
      builder = prepared_builder(name, self.data_dir, self.key('pattern'))
      part = stored_part(builder)
      if part is None:
        raise InputError(
          f'{self.key("pattern")}: {builder.info.full_name!r} says of no corruption and '
          "severity; it should be as in 'cifar10_corrupted/brightness_1'."
        )
      if part in opened:
        raise InputError(
          f'{opened[part].builder.info.full_name} and {builder.info.full_name} both hold '
          f'{part}: give a narrower pattern in {self.key("pattern")}.'
        )
      opened[part] = Split(builder, split)
    return dict(sorted(opened.items()))

  def _names(self) -> list[str]:
    """Returns the names <data set>/<config> of the prepared configs that match the pattern.

    A pattern without '*' is returned unchanged, because it names one config, prepared or not.
    """
    from input_pipeline.tfds_sets import prepared_configs

    if '*' not in self.pattern:
      return [self.pattern]
    dataset, _, pattern = self.pattern.partition('/')
    prepared = prepared_configs(dataset, self.data_dir)
    configs = fnmatch.filter(prepared, pattern)
    if not configs:
      advice = nearest(pattern, prepared) if prepared else 'none is prepared there'
      problem = f'which no prepared config of {dataset} is called after'
      raise self.refused('pattern', problem, f'{advice}. Prepare them with tfds.load first.')
    return [f'{dataset}/{config}' for config in configs]


def _same_classes(splits: list[Split]) -> tuple[str, ...]:
  """Returns the class names of several splits, which must be equal.

  Raises:
    InputError: the splits differ in classes, or in number or shape of images.
  """
  from input_pipeline.tfds_sets import check_features

  first, *later_splits = splits
  first_image, class_names = check_features(first.builder)
  for split in later_splits:
    image, names = check_features(split.builder)
    # number and shape of the images, of the first split and of this one
    compared = ((first.num_examples, split.num_examples), (first_image.shape, image.shape))
    different = [f'{expected} and {value}' for expected, value in compared if expected != value]
    if different or names != class_names:
      raise InputError(
        f'{first.builder.info.full_name} and {split.builder.info.full_name} differ in '
        f'images, size or classes ({", ".join(different) or "classes"}): give a '
        f'narrower pattern in {KEYS.data.tfds_corrupted.pattern}.'
      )
  return class_names


def _same_labels(splits: list[Split]) -> np.ndarray:
  """Returns the labels, int64 [n], of splits with the same n images under different corruptions.

  Raises:
    InputError: splits differ in the first `COMPARED` labels, in the settings with which they were
      made, or in the digest of the clean images.
  """
  first, *later_splits = splits
  labels = first.numbers(['label'])['label']
  positions = np.arange(min(len(labels), COMPARED))
  for split in later_splits:
    batches = split.elements(positions).map(lambda element: element['label']).batch(COMPARED)
    [compared] = batches.as_numpy_iterator()  # the only batch has all labels that are compared
    differences = differing_keys(_made_of(first), _made_of(split))  # texts such as 'seed: 0 → 1'
    if not differences:
      wrong = np.flatnonzero(compared != labels[positions])
      differences = [f'label of example {k}: {labels[k]} → {compared[k]}' for k in wrong]
    if differences:
      raise InputError(
        f'{first.builder.info.full_name} and {split.builder.info.full_name} are not made of the '
        f'same images in the same way ({differences[0]}): give a narrower pattern in '
        f'{KEYS.data.tfds_corrupted.pattern}, or prepare both again from one base with the same '
        'settings.'
      )
  return labels


def _made_of(split: Split) -> Facts:
  """Returns settings and digest of the clean images, from the metadata of a corrupted data set.

  Corruption and severity are left out, because they may differ between compared data sets. The
  builders of this project write such metadata. For other data sets the result is `{'base_sha256':
  None}`.
  """
  noted = split.builder.info.metadata or {}
  settings, inputs = noted.get('settings', {}), noted.get('inputs_sha256', {})
  shared = {k: v for k, v in settings.items() if k not in ('corruption', 'severity')}
  return {**shared, 'base_sha256': inputs.get('base')}
