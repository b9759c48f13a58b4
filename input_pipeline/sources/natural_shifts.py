"""Test sets with ImageNet's classes and naturally shifted images.

`dataset` is one of

  imagenet_v2       new images of all classes: PATH/<class index 0..999>/*.jpeg, or WordNet names
  imagenet_a        natural adversarial examples of 200 classes: PATH/<wnid>/*.jpg
  imagenet_r        renditions of 200 classes: PATH/<wnid>/*.jpg
  imagenet_sketch   sketches of all classes: PATH/<wnid>/*.JPEG
  imagenet_real     reassessed labels, several or none an image: PATH/**/ILSVRC2012_val_*.JPEG, and
                    real.json of the release as `real_labels`; or TFDS's
  objectnet         objects from odd sides: PATH/images/<object>/*.png and PATH/mappings as released

Without `path`, all but objectnet are read from the TFDS set with the same name. Class names are the
WordNet identifiers of the classes in the set.

Images without a label (imagenet_real) and objects outside ImageNet's classes (objectnet) are left
out; results state their number. An object that belongs to more than one class has all their labels.
The frame of two pixels around ObjectNet's pictures is cut off.

Reference:
  Recht et al. (2019); Hendrycks et al. (2021a, 2021b); Wang et al. (2019); Beyer et al. (2020);
  Barbu et al. (2019), and the layout of their releases.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from input_pipeline import image_files
from input_pipeline.images import Images, Size
from input_pipeline.settings import DataSettings, Source
from robustness.core import json_files
from robustness.core.errors import KEYS, InputError, SettingError, first_names, nearest
from robustness.core.paths import expanded
from robustness.core.rows import padded_labels
from robustness.core.settings import choice, require
from robustness.models import label_space
from robustness.models.imagenet_names import NAMES, WNIDS

if TYPE_CHECKING:
  from input_pipeline.tfds_sets import Split

PUBLISHED = {
  'imagenet_v2': (1000, 10_000),
  'imagenet_a': (200, 7_500),
  'imagenet_r': (200, 30_000),
  'imagenet_sketch': (1000, 50_889),
  'imagenet_real': (1000, 50_000),
  'objectnet': (113, 18_574),
}
"""Numbers of classes and images of each set. For objectnet these are the objects that are classes
of ImageNet, and their images; imagenet_real includes the images without a label."""
REAL, OBJECTNET = 'imagenet_real', 'objectnet'
"""The data sets with labels in files, and not only in the names of class folders."""
TFDS_REAL = 'imagenet2012_real'
"""TFDS name of `imagenet_real`."""
FRAME = 2
"""Width of the frame around ObjectNet's pictures, pixels."""
_VALIDATION = re.compile(r'ILSVRC2012_val_(\d{8})')
"""Name of a validation image of ImageNet; its group is the number."""
Listed = tuple[list[str], np.ndarray, dict[str, int]]
"""Paths of images, their labels [N] or [N, L] in ImageNet's order, and facts for results."""
Labelled = tuple['Split', np.ndarray, np.ndarray, dict[str, int]]
"""A split; the labels [N] or [N, L] of the examples that are read, in ImageNet's order; their
positions in the split [N]; and facts for results."""


@dataclasses.dataclass(frozen=True)
class NaturalShifts(Source):
  """ImageNet-V2, -A, -R, -Sketch, ReaL labels, or ObjectNet.

  Attributes:
    dataset: name of the test set, such as 'imagenet_r'.
    path: folder of the released files; '' reads the test set from TFDS.
    real_labels: path of real.json, the released labels of 'imagenet_real'.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
    allow_missing: whether classes and images may be missing.
  """

  moved_keys = {'name': 'dataset', 'metadata': 'real_labels'}

  dataset: str = ''
  path: str = ''
  real_labels: str = ''
  data_dir: str = ''
  allow_missing: bool = False

  def open(self, settings: DataSettings) -> Images:
    """Returns the images, ordered by class and path ('imagenet_real': by image number).

    Raises:
      InputError: files are damaged, or the number of classes or images differs from the published
        number and `allow_missing` is False.
    """
    self.choose('dataset', PUBLISHED)
    has_real_labels = self.dataset == REAL or not self.real_labels
    self.require(has_real_labels, 'real_labels', f"'' unless {self.key('dataset')} is {REAL!r}")
    # TFDS does not have ObjectNet, nor images for a released file of labels
    needs_folder = self.dataset == OBJECTNET or (self.dataset == REAL and self.real_labels)
    if not self.path and not needs_folder:
      return self._from_tfds(settings.split)
    choice('config.data.split', settings.split, ('', 'test'))  # the sets have no training images
    root = self.folder(f'give that of {self.dataset} as released.')
    readers = {REAL: self._labels_of_real_set, OBJECTNET: _objectnet}
    read = readers.get(self.dataset, _by_class)
    left_out = Counter[str]()
    paths, imagenet_labels, facts = read(root, left_out)
    classes, labels = _numbered_classes(imagenet_labels)
    num_classes, num_images = PUBLISHED[self.dataset]
    # for ObjectNet the number of objects is published, and several objects may be one class
    num_read = facts.pop('objects') if self.dataset == OBJECTNET else len(classes)
    num_unlabelled = facts.get('images_without_label', 0)
    self._check_count('classes', num_classes, num_read)
    self._check_count('images', num_images, len(paths) + num_unlabelled)
    fields: dict[str, Any] = {}
    if self.dataset == OBJECTNET:
      fields['read'] = _without_frame
      fields['sizes'] = lambda indices: (
        _size_without_frame(image_files.read_size(paths[index]), paths[index]) for index in indices
      )
    return image_files.file_images(
      paths,
      labels,
      classes,
      title=f'{self.dataset} in {self.path}',
      description={'name': self.dataset, 'path': self.path, 'classes': len(classes), **facts},
      channels=3,
      left_out=left_out,
      **fields,
    )

  def _check_count(self, name: str, expected: int, count: int) -> None:
    """Raises InputError if a count differs from the published one, unless `allow_missing` is set.

    Args:
      name: what is counted, 'classes' or 'images'.
      expected: the published count.
      count: the actual count.
    """
    if count != expected and not self.allow_missing:
      raise InputError(
        f'{self.path or self.dataset} has {count} {name}; {self.dataset} has {expected}: '
        f'complete it, or set {self.key("allow_missing")}=True for a part of it.'
      )

  def _from_tfds(self, split: str) -> Images:
    """Returns the images of a split of the test set in TFDS."""
    from input_pipeline import tfds_sets

    read_labels = self._labels_of_real if self.dataset == REAL else self._labels_of_tfds
    examples, imagenet_labels, positions, facts = read_labels(split)
    classes, labels = _numbered_classes(imagenet_labels)
    num_classes, _ = PUBLISHED[self.dataset]
    self._check_count('classes', num_classes, len(classes))
    title = f'tfds {examples.builder.name!r}, split {examples.name!r}'
    name = examples.builder.info.full_name
    description = {'name': name, 'split': examples.name, 'classes': len(classes), **facts}
    store = tfds_sets.SplitsStore([examples], [positions], labels)
    return store.images(classes, title, description)

  def _labels_of_tfds(self, split: str) -> Labelled:
    """Reads the labels of a split of the test set in TFDS.

    Returns:
      The split; the labels of its images in ImageNet's order; their positions in the split, which
      are 0, 1, …; and further facts for results, here none.
    """
    from input_pipeline import tfds_sets

    builder = tfds_sets.prepared_builder(self.dataset, self.data_dir, self.key('dataset'))
    _, names = tfds_sets.check_features(builder)
    examples = tfds_sets.Split(builder, split)
    stored = examples.numbers(['label'])['label']
    _check_wnids([names[label] for label in np.unique(stored)], builder.info.full_name)
    labels = np.array([WNIDS.index(names[label]) for label in stored])
    return examples, labels, np.arange(examples.num_examples), {}

  def _labels_of_real(self, split: str) -> Labelled:
    """Reads the ReaL labels of a split of TFDS's imagenet2012_real.

    An image may have several labels or none. Images without a label are left out.

    Args:
      split: name of the split; 'test', the default setting, reads the only split 'validation'.

    Returns:
      The split, the labels of N images in ImageNet's order, [N, L], padded with −1, their positions
      in the split, and {'images_without_label': number of images left out}.
    """
    from input_pipeline import tfds_sets

    builder = tfds_sets.find_builder(TFDS_REAL, self.data_dir, self.key('dataset'))
    features = builder.info.features
    if not {'image', 'original_label', 'real_label'} <= set(features):
      fix = 'expected image, original_label and real_label. Update tensorflow-datasets.'
      raise InputError(f'{builder.info.full_name} has {", ".join(sorted(features))}; {fix}')
    names = tuple(features['real_label'].feature.names)
    _check_wnids(names, builder.info.full_name)
    tfds_sets.download(builder)
    name = 'validation' if split == DataSettings.split else split
    examples = tfds_sets.Split(builder, name, 'original_label')
    label_lists = examples.lists('real_label') if examples.num_examples else []
    positions = np.flatnonzero([len(labels) for labels in label_lists])
    if not len(positions):
      raise InputError(f'{builder.info.full_name} has no label for any image of split {name!r}.')
    to_imagenet = np.array([WNIDS.index(wnid) for wnid in names])  # from labels of TFDS's set
    labels = _padded([to_imagenet[label_lists[position]].tolist() for position in positions])
    return examples, labels, positions, {'images_without_label': len(label_lists) - len(positions)}

  def _labels_of_real_set(self, root: Path, left_out: Counter[str]) -> Listed:
    """Lists the validation images of ImageNet in a folder, with their ReaL labels from real.json.

    An image may have several labels or none. Images without a label are left out.

    Args:
      root: folder of the images.
      left_out: counter of files that are not read, by reason, which is updated.

    Returns:
      Paths of N images, sorted by number, their labels in ImageNet's order, int32 [N, L], padded
      with −1, and {'images_without_label': number of images left out}.
    """
    file = expanded(self.real_labels)
    if not file.is_file():
      path_key = self.key('path')
      fix = f"Give real.json of the labels as released, or leave out {path_key} for TFDS's {REAL}."
      raise self.refused('real_labels', 'which is no file', fix)
    table = json_files.read(file, [[int]], f'It belongs to {self.key("real_labels")}.')
    files = image_files.images_in(root, left_out=left_out)
    path_of: dict[int, str] = {}  # {number of the image: path}
    for path in files:
      match = _VALIDATION.search(path.name)
      if not match:
        left_out['pictures without a number of ImageNet'] += 1
        continue
      number = int(match[1])
      if number in path_of:
        pair = f'{path_of[number]} and {path}'
        raise InputError(f'{root} has {pair} of one number: each counts once.')
      path_of[number] = str(path)
    if not path_of:
      raise InputError(f'{root} holds no ILSVRC2012_val_00000001.JPEG or others of that kind.')
    for number in (min(path_of), max(path_of)):  # if these two are in the table, all are
      if not 1 <= number <= len(table):
        problem = f'{self.real_labels} has the labels of {len(table)} images'
        raise InputError(f'{problem}; there is number {number}.')
    # images are numbered from 1
    labelled = [number for number in sorted(path_of) if table[number - 1]]
    if not labelled:
      raise InputError(f'{self.real_labels} has no label for any image of {root}.')
    paths = [path_of[number] for number in labelled]
    labels = _padded([table[number - 1] for number in labelled])
    return paths, labels, {'images_without_label': len(path_of) - len(labelled)}


def _numbered_classes(labels: np.ndarray) -> tuple[list[str], np.ndarray]:
  """Renumbers labels so that they count only the classes that occur.

  Args:
    labels: labels in ImageNet's order, [N], or [N, L] padded with −1, such as [20, 3, 20].

  Returns:
    The WordNet identifiers of the classes, and the new labels, int32, such as [1, 0, 1].
  """
  classes = np.unique(labels[labels >= 0])
  positions = np.where(labels >= 0, np.searchsorted(classes, labels), -1)
  return [WNIDS[label] for label in classes], positions.astype(np.int32)


def _by_class(root: Path, left_out: Counter[str]) -> Listed:
  """Lists the images root/<class>/<image> with their labels.

  Args:
    root: folder of class folders, which are named by WordNet identifiers or by ImageNet's class
      numbers.
    left_out: counter of files that are not read, by reason, which is updated.

  Returns:
    Paths of N images, their labels in ImageNet's order, [N], and {}.
  """
  image_files.count_outside_classes(root, left_out)
  folders = image_files.folders_in(root)
  if all(name.isdecimal() and int(name) < len(WNIDS) for name in folders):
    by_wnid: dict[str, Path] = {}
    for name in sorted(folders, key=len):  # of '7' and '007', the error names '007'
      wnid = WNIDS[int(name)]
      require(wnid not in by_wnid, f'a folder of {root}', name, 'of a number that no other one has')
      by_wnid[wnid] = folders[name]
    folders = by_wnid
  _check_wnids(folders, str(root))
  paths, labels = list[str](), list[int]()
  for label, wnid in enumerate(WNIDS):
    if wnid in folders:
      images = image_files.images_in(folders[wnid], left_out=left_out)
      paths += map(str, images)
      labels += [label] * len(images)
  if not paths:
    raise InputError(f'{root} holds no images; expected {root}/<class>/<image>.')
  return paths, np.array(labels), {}


def _check_wnids(names: Collection[str], title: str) -> None:
  """Raises InputError unless all class names are WordNet identifiers of ImageNet's classes.

  Args:
    names: the class names.
    title: name of the data set in the message.
  """
  unknown = [name for name in names if name not in WNIDS]
  if unknown:
    raise InputError(
      f'{len(unknown)} of {len(names)} classes of {title} are none of ImageNet, first '
      f'{unknown[0]!r}. Classes are WordNet identifiers, such as {WNIDS[0]!r}, or all of them '
      f'numbers of 0..{len(WNIDS) - 1}: rename the class folders.'
    )


def _objectnet(root: Path, left_out: Counter[str]) -> Listed:
  """Lists the images of ObjectNet, root/images/<object>/<image>, with ImageNet labels.

  Only objects that belong to one or more classes of ImageNet are read. The tables in root/mappings
  assign objects to classes.

  Args:
    root: folder of the released data set.
    left_out: counter of files that are not read, by reason, which is updated.

  Returns:
    Paths of N images, their labels in ImageNet's order, int32 [N, L], padded with −1, and the
    counts {'objects': objects that are read, 'objects_left_out': other objects}.
  """
  mappings = root / 'mappings'
  for folder in (mappings, root / 'images'):
    if not folder.is_dir():
      key, problem = KEYS.data.natural_shifts.path, f'which lacks the folder {folder.name}'
      fix = 'Give that of ObjectNet as released, with images/<object>/<image> and mappings/.'
      raise SettingError(key, str(root), problem=problem, fix=fix)
  fix = f'It belongs to {root}.'
  object_of_folder = json_files.read(mappings / 'folder_to_objectnet_label.json', {str: str}, fix)
  classes_of_object = json_files.read(mappings / 'objectnet_to_imagenet_1k.json', {str: str}, fix)
  folders = image_files.folders_in(root / 'images')
  unknown = sorted(set(folders) - set(object_of_folder))
  if unknown:
    listed = first_names(unknown)
    raise InputError(f'{root}/images has objects that its mappings do not name: {listed}.')
  paths: list[str] = []
  labels: list[list[int]] = []
  num_objects = 0
  for name, folder in folders.items():
    listed_classes = classes_of_object.get(object_of_folder[name])
    if listed_classes is None:  # the object is no class of ImageNet
      continue
    num_objects += 1
    object_labels = [*map(_label_of, listed_classes.split('; '))]
    for path in image_files.images_in(folder, left_out=left_out):
      paths.append(str(path))
      labels.append(object_labels)
  if not paths:
    raise InputError(f'{root}/images holds no images of objects that are classes of ImageNet.')
  facts = {'objects': num_objects, 'objects_left_out': len(folders) - num_objects}
  return paths, _padded(labels), facts


def _size_without_frame(size: Size, path: object) -> Size:
  """Returns (height, width) of an ObjectNet image without its border.

  Args:
    size: (height, width) with the border, which is `FRAME` pixels wide.
    path: path of the image, for messages.
  """
  require(min(size) > 2 * FRAME, f'the size of {path}', size, f'above twice its frame of {FRAME}')
  return size[0] - 2 * FRAME, size[1] - 2 * FRAME


def _without_frame(path: bytes) -> np.ndarray:
  """Reads an ObjectNet image, uint8 [H, W, 3], and cuts off its border of two pixels."""
  image = image_files.read_file(path, channels=3)
  _size_without_frame(image.shape[:2], path.decode())  # raises an error if the frame is all
  return image[FRAME:-FRAME, FRAME:-FRAME]


def _label_of(synonyms: str) -> int:
  """Returns the ImageNet label of a class with a list of names, such as 'quill, quill pen'.

  Raises:
    InputError: no name belongs to a class of ImageNet.
  """
  # ImageNet has the classes 'maillot' and 'maillot, tank suit'. The name 'maillot' alone would find
  # the first class for both.
  for name in synonyms.removeprefix('maillot, ').split(', '):
    label = label_space.index_of_class(name, NAMES)
    if label is not None:
      return label
  problem = f'objectnet_to_imagenet_1k.json names {synonyms!r}, which is no class of ImageNet'
  raise InputError(f'{problem}; {nearest(synonyms.split(", ")[0], NAMES)}.')


def _padded(labels: Sequence[Sequence[int]]) -> np.ndarray:
  """Converts lists of ImageNet labels to an array [N, L], padded with -1."""
  for row in labels:
    is_valid = 0 <= min(row) <= max(row) < len(WNIDS)
    require(is_valid, 'the labels of an image', row, 'classes of ImageNet, 0..999')
  return padded_labels(labels)
