"""The settings of `config.data`: the source of images, their number, and their size."""

from __future__ import annotations

import abc
import dataclasses
import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from absl import logging

from input_pipeline.image_files import existing_folder
from input_pipeline.images import Images
from robustness.core.errors import KEYS, InputError, exits_refused, first_names, renaming_section
from robustness.core.registry import Part, Registry, check_fields, setting, word
from robustness.core.rows import LEFT_OUT, composed_unicode
from robustness.core.settings import Section, choice, parse, refuse_moved, require
from robustness.core.typing import Facts

RANDOM, FIRST = 'random', 'first'
"""Ways to choose a subset."""
INTERPOLATIONS = ('bilinear', 'bicubic')
"""Valid values of `interpolation`."""
RESIZED_BY = ('tensorflow', 'pillow')
"""Valid values of `resized_by`."""
COUNT = 'at least 0 (0 turns it off)'
"""Phrase for the valid values of counts."""


@dataclasses.dataclass(frozen=True)
class Source(Part, abc.ABC):
  """Base class of sources of stored images; `config.data.source` names the source to read.

  A module of `input_pipeline.sources`, or a file of the user's, defines a subclass. Its fields are
  its settings, the keys of `config.data.<name>`. It imports no TensorFlow before `open` is called.

  Attributes:
    splits: the valid values of `config.data.split`; () if they depend on the stored images.
    resized_on_device: whether images are resized to each classifier's input on the device, in the
      compiled step, instead of by the reader.
    has_environments: whether images are stored in environments. The split 'train' then has only the
      classes of each environment that the settings' class groups assign to it.
    moved_keys: {key of `config.data` in earlier versions: the setting that replaces it}.
  """

  section = 'config.data'
  splits: ClassVar[tuple[str, ...]] = ()
  resized_on_device: ClassVar[bool] = False
  has_environments: ClassVar[bool] = False
  moved_keys: ClassVar[Mapping[str, str]] = {}

  @abc.abstractmethod
  def open(self, settings: DataSettings) -> Images:
    """Returns the stored images that the settings select, by `array_images` or `file_images`.

    Raises:
      InputError: the settings or the files are invalid; the message names them.
    """

  def folder(self, advice: str, key: str = 'path') -> Path:
    """Returns the folder that the setting `key` names; raises InputError if there is none.

    `advice`, what to set instead, ends the message.
    """
    return existing_folder(getattr(self, key), advice, self.key(key))

  def shares_images(self, split: str, other: Source, split_of_other: str) -> bool:
    """Returns whether images of a split may be in a split of another source, whatever their size.

    By default the splits of a source have no images in common, except that the split '' has all
    images. Sources with other settings have none in common.
    """
    return self == other and (split == split_of_other or '' in (split, split_of_other))

  def for_study(self, study: Facts) -> Self:
    """Returns the source with settings that a study chooses; by default it is unchanged.

    `study` is the description of the study as JSON values.
    """
    return self


SOURCES: Registry[Source] = Registry('input_pipeline.sources', Source)  # type: ignore[type-abstract]
"""All sources by name."""
DEFAULT = 'digits'
"""The default source."""
_MOVED = {
  'name': 'tfds.dataset',
  'path': 'folder.path',
  'metadata': 'video_neighbors.metadata',
  'allow_missing': 'environments.allow_missing',
  'test_share': 'environments.test_share',
  'data_dir': 'tfds.data_dir',
  'label_space': 'folder.label_space',
  'foregrounds': 'scenes.foregrounds',
  'backgrounds': 'scenes.backgrounds',
  'canvas': 'scenes.canvas',
}
"""Keys that `config.data` had in earlier versions, and an example of what takes their place."""


def moved_keys(source: type[Source]) -> dict[str, str]:
  """Returns {key of `config.data` in earlier versions: its key now}, such as 'path': 'npz.path'.

  The key now is a setting of `source` if it has a setting for the earlier key. Otherwise it is the
  example in `_MOVED`, a setting of another source.
  """
  settings = {field.name for field in dataclasses.fields(source)}
  new_names = {key: source.moved_keys.get(key, key) for key in _MOVED}
  of_source = {key: f'{source.name}.{new}' for key, new in new_names.items() if new in settings}
  return {**_MOVED, **of_source}


def is_count(number: int) -> bool:
  """Returns whether a number is at least 0; the phrase `COUNT` says so in messages."""
  return number >= 0


@dataclasses.dataclass(frozen=True)
class DataSettings:
  """The images that a run reads: the keys of `config.data` that concern every source.

  Attributes:
    source: where the images are stored, with its settings. `config.data.source` is one of
      `robustness list sources`, or FILE.py:NAME or package.module:NAME of a `Source` of the user's;
      `config.data.<name>` has its settings.
    split: for 'digits' train or test; for 'tfds' any TFDS split, slices included; for a folder or
      an archive that holds several splits, the one to read.
    num_images: 0 reads all; k > 0 a random subset of k, which the seed determines; a smaller subset
      of the same seed is part of a larger one. For neighbor sets k is the number of anchors; for
      stored corrupted images k is the number of clean images, each with all corruptions and
      severities.
    subset: how the subset is chosen: 'random', or 'first' in the source's order, as RobustBench
      takes images from CIFAR-10-C.
    image_list: a text file with one `<class>/<file>` per line; only these images are read from
      class folders or stored sets of them. 'robustbench' is RobustBench's list of 5,000 of
      ImageNet; '' reads all.
    known_classes: False for images of classes that the classifiers do not know (out of
      distribution): class names are dropped, and every label is 0.
    resize: pixels of the shorter side after an antialiased resize; 0 does not resize.
    squash: whether both sides are resized to `resize`, which changes the aspect ratio, instead of
      the shorter one only.
    crop: pixels of the side of a centre crop; 0 does not crop. If `resize` and `crop` are 0, images
      are prepared as published weights of the classifier require, if these state it.
    interpolation: 'bilinear' or 'bicubic'.
    resized_by: 'tensorflow' resizes in float32; 'pillow' resizes 8-bit images and rounds after each
      axis, as torchvision and timm do, and sends 8-bit images to the device.
    random_crop_area: for training rows, smallest area of a random resized crop as a fraction of the
      stored image (.08 for ImageNet). The crop is drawn in every epoch and resized to `crop`
      pixels, instead of the resize and centre crop. 0 prepares training rows as in evaluation.
    class_groups: names of the classes of the groups C_1, ..., C_M of systematic robustness;
      'wordnet:n02084071' stands for all classes below that synset. Other classes are in no group.
      Training rows of a classifier have the same groups; to measure a trained classifier with other
      groups raises an error.
    hierarchy: for 'wordnet:…' in `class_groups`, a text file of WordNet's hierarchy, with lines
      '<parent> <child>' of identifiers.
    random_class_groups: number M of random groups of equal size, instead of named ones.
    classes_per_group: number of classes in a random group; 0 makes groups as large as possible.
    class_group_seed: seed of random groups.
  """

  source: Source = dataclasses.field(
    default_factory=lambda: SOURCES.find(DEFAULT, 'config.data.source')()
  )
  split: str = 'test'
  num_images: int = setting(0, COUNT, is_count)
  subset: str = word(RANDOM, (RANDOM, FIRST))
  image_list: str = ''
  known_classes: bool = True
  resize: int = setting(0, COUNT, is_count)
  squash: bool = False
  crop: int = setting(0, COUNT, is_count)
  interpolation: str = word('bicubic', INTERPOLATIONS)
  resized_by: str = word('tensorflow', RESIZED_BY)
  random_crop_area: float = setting(0.0, 'in [0, 1]; 0 cuts no random crop', lambda x: 0 <= x <= 1)
  class_groups: tuple[tuple[str, ...], ...] = ()
  hierarchy: str = ''
  random_class_groups: int = setting(0, COUNT, is_count)
  classes_per_group: int = setting(0, COUNT, is_count)
  class_group_seed: int = setting(0, COUNT, is_count)

  @classmethod
  def from_section(cls, section: Section, key: str = 'config.data') -> Self:
    """Returns the settings in a section `data` of a config.

    Args:
      section: {key of `DataSettings`: value}, in which 'source' is the name of a source, and a
        section with the settings of this source under its name.
      key: name of the section in messages.

    Raises:
      InputError: a key is unknown or of an earlier version, or a value is invalid.
    """
    common_keys = [field.name for field in dataclasses.fields(cls)]
    name = section.get('source', DEFAULT)
    with renaming_section('config.data', key):  # messages then name the actual section
      refuse_moved(moved_keys(SOURCES.find(name, f'{key}.source')), section, key)
      SOURCES.check_sections(section, key, 'source', (name,), common_keys)
      common_values = {k: v for k, v in section.items() if k in common_keys}
      source = SOURCES.select(name, section, key, 'source')
      return parse(cls, {**common_values, 'source': source}, key)

  @property
  def is_permitted_cells(self) -> bool:
    """Whether rows are for training with held-out pairs of class and environment.

    In each environment but the clean one, then only the classes of one group have images.
    """
    has_groups = bool(self.class_groups or self.random_class_groups)
    return self.source.has_environments and self.split == 'train' and has_groups

  @property
  def pillow_resizes(self) -> bool:
    """Whether images for evaluation are resized by Pillow."""
    return bool(self.resize) and self.resized_by == 'pillow'

  def __post_init__(self) -> None:
    """Raises SettingError for a value out of range, or for two settings that exclude each other."""
    check_fields(self, 'config.data')
    has_groups = bool(self.random_class_groups or self.class_groups)
    has_both = bool(self.random_class_groups and self.class_groups)
    no_groups = f'0 without {KEYS.data.random_class_groups}'
    rules = {  # {key: (whether its value is valid, the valid values)}
      'source': (
        isinstance(self.source, Source),
        "an object, such as input_pipeline.sources.tfds.Tfds('cifar10')",
      ),
      'random_class_groups': (not has_both, f'0 where {KEYS.data.class_groups} names the classes'),
      'classes_per_group': (has_groups or self.classes_per_group == 0, no_groups),
      'class_group_seed': (has_groups or self.class_group_seed == 0, no_groups),
      'squash': (self.resize > 0 or not self.squash, f'False where {KEYS.data.resize} is 0'),
      'crop': (
        self.resize == 0 or self.crop <= self.resize,
        f'at most {KEYS.data.resize} = {self.resize}',
      ),
    }
    for key, (is_valid, valid) in rules.items():
      require(is_valid, f'config.data.{key}', getattr(self, key), valid)


@dataclasses.dataclass(frozen=True)
class Preparation:
  """Resize and crop that a classifier's weights expect, for settings that do neither.

  Attributes:
    name: name of the classifier's weights.
    side: side in pixels of the square images that the classifier takes.
    resize: pixels of the shorter side before the centre is cropped.
    interpolation: 'bilinear' or 'bicubic'.
    squash: whether both sides are resized to `resize`, not only the shorter one.
  """

  name: str
  side: int
  resize: int
  interpolation: str
  squash: bool = False


def open_images(settings: DataSettings) -> Images:
  """Returns the images of the source and split that the settings name, before a subset is chosen.

  Their description is extended by the name of the source, and by the number of files that are not
  read and the names of classes without images, which are also logged.
  """
  source = settings.source
  if source.splits:
    choice('config.data.split', settings.split, source.splits)
  with exits_refused():
    images = source.open(settings)
  if not isinstance(images, Images):
    raise InputError(
      f'{type(source).__name__}.open returns a {type(images).__name__}; expected Images, as '
      'array_images and file_images return them.'
    )
  _check_description(source, images.description)
  names = tuple(map(composed_unicode, images.class_names))
  # `source_name` is in it twice: to be the first entry, and to replace one of the description
  source_name = {'source': source.name}
  facts: dict[str, Any] = {**source_name, **images.description, **source_name, **source.file}
  if left_out := {reason: count for reason, count in sorted(images.left_out.items()) if count}:
    listed = ', '.join(f'{count} {reason}' for reason, count in left_out.items())
    logging.info('%s: left out %s', images.title, listed)
    facts[LEFT_OUT] = left_out
  # images that are composed later (`as_stored`) are few and have all classes of ImageNet as names
  needs_all_classes = settings.known_classes and not images.as_stored
  labels = images.store.labels
  if needs_all_classes and labels is not None:
    present = np.unique(labels)
    empty = [name for label, name in enumerate(names) if label not in present]
    if empty:
      listed = first_names([*map(repr, empty)])
      message = '%s: %d of %d classes have no image: %s'
      logging.warning(message, images.title, len(empty), len(names), listed)
      facts['classes_without_images'] = empty
  return dataclasses.replace(images, class_names=names, description=facts)


def _check_description(source: Source, description: Facts) -> None:
  """Raises InputError unless JSON can hold the description of a source's images.

  A text that is not in UTF-8 raises UnicodeEncodeError, as in names of files.
  """
  try:
    text = json.dumps({**description}, sort_keys=True, allow_nan=False, ensure_ascii=False)
  except (TypeError, ValueError, RecursionError) as error:
    described = reprlib.repr(description)
    raise InputError(
      f'{type(source).__name__}.open describes its images by {described} ({error}); '
      'a description is a dict of texts, finite numbers, booleans, None, lists and such dicts.'
    ) from error
  text.encode()
