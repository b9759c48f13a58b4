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
  """Base class of data sources, such as 'cifar10_c'; `config.data.source` names one.

  Define a subclass in a module of `input_pipeline.sources` or in your own file. Its fields are
  settings, which `config.data.<name>` sets. It may import TensorFlow only in `open`.

  Attributes:
    splits: valid values of `config.data.split`; () if they depend on the stored images.
    resized_on_device: whether images are resized to each classifier's input size on the device, in
      the compiled step, not while they are read.
    has_environments: whether images come from several environments, such as camera locations. The
      split 'train' then has only the classes of each environment that `class_groups` assign to it.
    moved_keys: {key of `config.data` in earlier versions: setting that replaces it}.
  """

  section = 'config.data'
  splits: ClassVar[tuple[str, ...]] = ()
  resized_on_device: ClassVar[bool] = False
  has_environments: ClassVar[bool] = False
  moved_keys: ClassVar[Mapping[str, str]] = {}

  @abc.abstractmethod
  def open(self, settings: DataSettings) -> Images:
    """Returns the stored images, built with `array_images` or `file_images`.

    Args:
      settings: the section `config.data`, for instance with the split. The caller applies
        `num_images`, `image_list` and resizing.

    Raises:
      InputError: the settings or the files are invalid.
    """

  def folder(self, advice: str, key: str = 'path') -> Path:
    """Returns the folder that a setting of the source names; raises InputError if there is none.

    Args:
      advice: end of the error message, what to set instead.
      key: name of the setting.
    """
    return existing_folder(getattr(self, key), advice, self.key(key))

  def shares_images(self, split: str, other: Source, split_of_other: str) -> bool:
    """Returns whether a split of this source may share images with a split of another source.

    By default this is the case for sources with equal settings, if their splits overlap.

    Args:
      split: split of this source.
      other: the other source.
      split_of_other: split of the other source.
    """
    return self == other and self.splits_overlap(split, split_of_other)

  def splits_overlap(self, split: str, other_split: str) -> bool:
    """Returns whether two splits of this source may share images.

    By default these are equal splits; the split '' contains all images.
    """
    return split == other_split or '' in (split, other_split)

  def for_study(self, study: Facts) -> Self:
    """Returns the source with settings that a study requires; by default it is unchanged.

    Args:
      study: description of the study as JSON values.
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
  """Maps keys of `config.data` in earlier versions to current keys, such as 'path' to 'npz.path'.

  If `source` has no setting that replaces a key, the current key is an example from another source.
  """
  settings = {field.name for field in dataclasses.fields(source)}
  new_names = {key: source.moved_keys.get(key, key) for key in _MOVED}
  return _MOVED | {key: f'{source.name}.{new}' for key, new in new_names.items() if new in settings}


def is_count(number: int) -> bool:
  """Returns whether `number` is at least 0; used to validate settings, with the phrase `COUNT`."""
  return number >= 0


@dataclasses.dataclass(frozen=True)
class DataSettings:
  """The images that a run reads: the keys of `config.data` that all sources share.

  Attributes:
    source: where the images are stored. `config.data.source` is one of `robustness list sources`,
      or FILE.py:NAME or package.module:NAME of your own `Source`; `config.data.<name>` has its
      settings.
    split: 'train' or 'test' for 'digits'; any TFDS split, also with slices, for 'tfds'; the split
      to read for a folder or archive with several splits.
    num_images: size of a random subset, chosen by the seed; 0 reads all images. Smaller subsets are
      contained in larger ones. For neighbor sets this is the number of anchors. For stored
      corrupted images it is the number of clean images, each with all corruptions and severities.
    subset: how the subset is chosen: 'random', or 'first' in the order of the source, as
      RobustBench uses images of CIFAR-10-C.
    image_list: text file with a line `<class>/<file>` for each image to read from class folders or
      stored sets of them. 'robustbench' is RobustBench's list of 5,000 images of ImageNet; '' reads
      all images.
    known_classes: False for images of classes that the classifiers do not know (out of
      distribution). Class names are then dropped, and every label is 0.
    resize: shorter side in pixels after an antialiased resize; 0 does not resize.
    squash: whether both sides are resized to `resize`, which changes the aspect ratio, instead of
      the shorter side only.
    crop: side of a centre crop in pixels; 0 does not crop. If `resize` and `crop` are 0, images are
      resized and cropped as published weights of the classifier require.
    interpolation: 'bilinear' or 'bicubic', in `resize` and `random_crop_area`. Published weights
      that decide on resize and crop also decide on it.
    resized_by: 'tensorflow' resizes in float32. 'pillow' resizes 8-bit images and rounds after each
      axis, like torchvision and timm, and sends 8-bit images to the device.
    random_crop_area: smallest area of a random resized crop in training, as a fraction of the image
      (.08 for ImageNet). The crop changes in every epoch and is resized to `crop` pixels. 0 resizes
      and crops training images as in evaluation.
    class_groups: class names of the groups C_1, ..., C_M for systematic robustness.
      'wordnet:n02084071' adds all classes below that synset. Other classes are in no group.
      Training of a classifier uses the same groups; evaluating a trained classifier with other
      groups raises an error.
    hierarchy: text file of WordNet's hierarchy with lines '<parent> <child>', for 'wordnet:…' in
      `class_groups`.
    random_class_groups: number M of random groups of equal size, instead of named ones.
    classes_per_group: number of classes in a random group; 0 makes groups as large as possible, and
      a single one of half of the classes.
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
  classes_per_group: int = setting(0, COUNT, is_count, only_with=('random_class_groups',))
  class_group_seed: int = setting(0, COUNT, is_count, only_with=('random_class_groups',))

  @classmethod
  def from_section(cls, section: Section, key: str = 'config.data') -> Self:
    """Parses the section `data` of a config.

    Args:
      section: {key: value} with fields of `DataSettings`. 'source' is the name of a source, and its
        settings are a section under this name.
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
    """Whether these are training images for systematic robustness, with classes held out.

    Each environment, except the clean one, then has images of only one group of classes.
    """
    has_groups = bool(self.class_groups or self.random_class_groups)
    return self.source.has_environments and self.split == 'train' and has_groups

  @property
  def pillow_resizes(self) -> bool:
    """Whether Pillow resizes images for evaluation."""
    return bool(self.resize) and self.resized_by == 'pillow'

  def __post_init__(self) -> None:
    """Raises InputError if a value is out of range or contradicts another setting."""
    check_fields(self, 'config.data')
    has_both = bool(self.random_class_groups and self.class_groups)
    is_source = isinstance(self.source, Source)
    crop_fits = self.resize == 0 or self.crop <= self.resize
    default = DataSettings.interpolation
    fits = self.interpolation == default or self.resize > 0 or self.random_crop_area > 0
    rules = {  # {key: (whether its value is valid, the valid values)}
      'source': (is_source, "an object, such as input_pipeline.sources.tfds.Tfds('cifar10')"),
      'random_class_groups': (not has_both, f'0 where {KEYS.data.class_groups} names the classes'),
      'squash': (self.resize > 0 or not self.squash, f'False where {KEYS.data.resize} is 0'),
      'interpolation': (fits, f'{default!r} where {KEYS.data.resize} is 0'),
      'crop': (crop_fits, f'at most {KEYS.data.resize} = {self.resize}'),
    }
    for key, (is_valid, valid) in rules.items():
      require(is_valid, f'config.data.{key}', getattr(self, key), valid)


@dataclasses.dataclass(frozen=True)
class Preparation:
  """The resize and crop that a classifier's weights expect.

  Used if `config.data` neither resizes nor crops.

  Attributes:
    name: name of the classifier's weights.
    side: side of the classifier's square input in pixels.
    resize: shorter side in pixels before the centre is cropped.
    interpolation: 'bilinear' or 'bicubic'.
    squash: whether both sides are resized to `resize`, not only the shorter one.
  """

  name: str
  side: int
  resize: int
  interpolation: str
  squash: bool = False


def open_images(settings: DataSettings) -> Images:
  """Opens all images of a source and split, before a subset is selected.

  The name of the source, the number of files that are not read and the names of classes without
  images are added to the description. The last two are also logged.

  Args:
    settings: the section `config.data`.
  """
  source = settings.source
  if source.splits:
    choice('config.data.split', settings.split, source.splits)
  with exits_refused():
    images = source.open(settings)
  if not isinstance(images, Images):
    problem = f'{type(source).__name__}.open returns a {type(images).__name__}'
    raise InputError(f'{problem}; expected Images, as array_images and file_images return them.')
  _check_description(source, images.description)
  names = tuple(map(composed_unicode, images.class_names))
  # 'source' comes first in results.json, and replaces a 'source' of the description
  facts: dict[str, Any] = {'source': '', **images.description}
  facts |= {'source': source.name, **source.file}  # with name and digest of a user's file
  left_out = {reason: count for reason, count in sorted(images.left_out.items()) if count}
  if left_out:
    listed = ', '.join(f'{count} {reason}' for reason, count in left_out.items())
    logging.info('%s: left out %s', images.title, listed)
    facts[LEFT_OUT] = left_out
  labels = images.store.labels
  # scenes (`as_stored`) are of a few classes, and have all classes of ImageNet as names
  if settings.known_classes and not images.as_stored and labels is not None:
    present = np.unique(labels)
    empty = [name for label, name in enumerate(names) if label not in present]
    if empty:
      listed = first_names([*map(repr, empty)])
      message = '%s: %d of %d classes have no image: %s'
      logging.warning(message, images.title, len(empty), len(names), listed)
      facts['classes_without_images'] = empty
  return dataclasses.replace(images, class_names=names, description=facts)


def _check_description(source: Source, description: Facts) -> None:
  """Raises InputError unless a description of images can be stored as JSON.

  Raises:
    InputError: a value is not valid in JSON.
    UnicodeEncodeError: a text is not valid in UTF-8, for instance the name of a file.
  """
  try:
    text = json.dumps({**description}, sort_keys=True, allow_nan=False, ensure_ascii=False)
  except (TypeError, ValueError, RecursionError) as error:
    described = reprlib.repr(description)
    raise InputError(
      f'{type(source).__name__}.open describes its images by {described} ({error}); '
      'a description is a dict of texts, finite numbers, booleans, None, lists and such dicts.'
    ) from error
  text.encode()  # raises UnicodeEncodeError
