"""Test sets of ImageNet's classes whose images differ by nature, with the classes that they have.

`config.data.name` is one of

  imagenet_v2       new images of all classes: PATH/<class index 0..999>/*.jpeg, or WordNet names
  imagenet_a        natural adversarial examples of 200 classes: PATH/<wnid>/*.jpg
  imagenet_r        renditions of 200 classes: PATH/<wnid>/*.jpg
  imagenet_sketch   sketches of all classes: PATH/<wnid>/*.JPEG
  imagenet_real     reassessed labels, several or none an image: PATH/**/ILSVRC2012_val_*.JPEG, and
                    real.json of the release as `config.data.metadata`; or TFDS's
  objectnet         objects from odd sides: PATH/images/<object>/*.png and PATH/mappings as released

With '' as `config.data.path` all but objectnet are TFDS's of that name. Class names are WordNet
identifiers, of those classes alone that the set has: with `config.classifier.label_space='data'` a
classifier chooses among these, as is usual for imagenet_a, imagenet_r and objectnet.

Images that no label is left of (imagenet_real), and objects that are none of ImageNet's classes
(objectnet) are left out; results say how many. An object of several classes has all their labels.
The frame of two pixels around ObjectNet's pictures is cut off.

Reference:
  Recht et al. (2019); Hendrycks et al. (2021a, 2021b); Wang et al. (2019); Beyer et al. (2020);
  Barbu et al. (2019), and the layout of their releases.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from input_pipeline import tfds_sets
from input_pipeline.image_files import EXTENSIONS
from input_pipeline.images import MemoryStore, Source, encoded
from input_pipeline.settings import DataSettings
from input_pipeline.sources.folder import header_sizes, read_file
from input_pipeline.sources.joined_streams import JoinedStreams
from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.models.imagenet_names import NAMES, WNIDS
from robustness.models.label_space import spelt

CLASSES = {
  'imagenet_v2': 1000,
  'imagenet_a': 200,
  'imagenet_r': 200,
  'imagenet_sketch': 1000,
  'imagenet_real': 1000,
  'objectnet': 113,
}
"""How many classes a set has; of objectnet the objects that are classes of ImageNet."""
REAL, OBJECTNET = 'imagenet_real', 'objectnet'
TFDS_REAL = 'imagenet2012_real'
FRAME = 2  # pixels
_VALIDATION = re.compile(r'ILSVRC2012_val_(\d{8})')
_LISTED = 8
Files = dict[str, list[str]]


def open_source(settings: DataSettings) -> Source:
  """Returns the images of a set, ordered by class or number, then path.

  Raises:
    InputError: an unknown set, a folder that is missing or has no images, classes that are none of
      ImageNet's or fewer than the set has (unless `config.data.allow_missing`), or a file of the
      release that is missing or of another form.
  """
  choice('config.data.name', settings.name, CLASSES)
  if not settings.path and settings.name == REAL and not settings.metadata:
    return _real_from_tfds(settings)
  if not settings.path and settings.name not in (REAL, OBJECTNET):
    return _from_tfds(settings)
  root = expanded(settings.path)
  if not settings.path or not root.is_dir():
    raise InputError(
      f'config.data.path is {settings.path!r}, which is not a folder; give that of '
      f'{settings.name} as released.'
    )
  paths, labels, facts = _READERS.get(settings.name, _by_class)(root, settings)
  used = np.unique(labels[labels >= 0])
  _check_count(settings, facts.pop('objects', len(used)))
  return Source(
    title=f'{settings.name} in {settings.path}',
    description={
      'source': 'natural_shifts',
      'name': settings.name,
      'path': settings.path,
      'classes': len(used),
      **facts,
    },
    num_examples=len(paths),
    class_names=tuple(WNIDS[label] for label in used),
    channels=3,
    store=MemoryStore(tf.constant(encoded(paths)), tf.constant(_among(used, labels))),
    read=_without_frame if settings.name == OBJECTNET else functools.partial(read_file, channels=3),
    where=lambda index: f'{paths[index]} (example {index})',
    sizes=functools.partial(_inner_sizes if settings.name == OBJECTNET else header_sizes, paths),
  )


def _among(used: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns labels of ImageNet as positions in `used`, ascending; -1 stays; int32."""
  return np.where(labels >= 0, np.searchsorted(used, labels), -1).astype(np.int32)


def _check_count(settings: DataSettings, count: int) -> None:
  expected = CLASSES[settings.name]
  if count != expected and not settings.allow_missing:
    raise InputError(
      f'{settings.path or settings.name} has {count} classes; {settings.name} has {expected}: '
      'complete it, or set config.data.allow_missing=True for a part of it.'
    )


def _from_tfds(settings: DataSettings) -> Source:
  builder = tfds_sets.prepared_builder(settings.name, settings.data_dir)
  image, names = tfds_sets.check_features(builder)
  count = tfds_sets.count(builder, settings.split)
  stream = tfds_sets.StreamStore(builder, settings.split)
  labels = stream.numbers(['label'])['label']
  used = np.unique(labels)
  _check_count(settings, len(used))
  wnids = tuple(names[label] for label in used)
  _check_wnids(wnids, builder.info.full_name)
  return Source(
    title=f'tfds {settings.name!r}, split {settings.split!r}',
    description={
      'source': 'natural_shifts',
      'name': builder.info.full_name,
      'split': settings.split,
      'classes': len(used),
    },
    num_examples=count,
    class_names=wnids,
    channels=3,
    store=JoinedStreams([stream], [np.arange(count)], _among(used, labels)),
    decode=tfds_sets.decoder(image),
    where=lambda index: f'tfds {settings.name!r}, split {settings.split!r}, example {index}',
    sizes=tfds_sets.sizes(image),
  )


def _real_from_tfds(settings: DataSettings) -> Source:
  """Reads TFDS's imagenet2012_real: the labels `real_label` of each image; those without are left
  out."""
  builder = tfds_sets.find_builder(TFDS_REAL, settings.data_dir)
  image, names = _real_features(builder)
  if not builder.is_prepared():
    tfds_sets.download(builder)
  split = 'validation' if settings.split == DataSettings.split else settings.split
  tfds_sets.count(builder, split)
  stream = tfds_sets.StreamStore(builder, split, 'original_label')
  own = stream.lists('real_label')
  kept = np.flatnonzero([len(labels) for labels in own])
  if not len(kept):
    raise InputError(f'{builder.info.full_name} has no label for any image of split {split!r}.')
  of_class = np.array([WNIDS.index(name) for name in names])
  labels = _padded([of_class[own[place]].tolist() for place in kept])
  used = np.unique(labels[labels >= 0])
  _check_count(settings, len(used))
  return Source(
    title=f'tfds {TFDS_REAL!r}, split {split!r}',
    description={
      'source': 'natural_shifts',
      'name': builder.info.full_name,
      'split': split,
      'classes': len(used),
      'images_without_label': len(own) - len(kept),
    },
    num_examples=len(kept),
    class_names=tuple(WNIDS[label] for label in used),
    channels=3,
    store=JoinedStreams([stream], [kept], _among(used, labels)),
    decode=tfds_sets.decoder(image),
    where=lambda index: f'tfds {TFDS_REAL!r}, split {split!r}, labelled example {index}',
    sizes=tfds_sets.sizes(image),
  )


def _real_features(builder: Any) -> tuple[Any, tuple[str, ...]]:
  """Returns the feature `image` and the classes of `real_label`, WordNet identifiers."""
  features = builder.info.features
  if not {'image', 'original_label', 'real_label'} <= set(features):
    raise InputError(
      f'{builder.info.full_name} has {", ".join(sorted(features))}; expected image, original_label '
      'and real_label. Update tensorflow-datasets.'
    )
  names = tuple(features['real_label'].feature.names)
  _check_wnids(names, builder.info.full_name)
  return features['image'], names


def _by_class(root: Path, settings: DataSettings) -> tuple[list[str], np.ndarray, dict[str, Any]]:
  """Reads PATH/<class>/<image>."""
  folders = {path.name: path for path in sorted(root.iterdir()) if path.is_dir()}
  if folders and all(name.isdigit() and int(name) < len(WNIDS) for name in folders):
    by_wnid = {WNIDS[int(name)]: path for name, path in folders.items()}
  else:
    by_wnid = folders
  _check_wnids(by_wnid, str(root))
  files = {wnid: _images(by_wnid[wnid]) for wnid in WNIDS if wnid in by_wnid}
  paths = [path for own in files.values() for path in own]
  if not paths:
    raise InputError(f'{root} holds no images; expected {root}/<class>/<image>.')
  labels = [WNIDS.index(wnid) for wnid, own in files.items() for _ in own]
  return paths, np.array(labels), {}


def _check_wnids(names: Sequence[str] | Mapping[str, Any], where: str) -> None:
  unknown = [name for name in names if name not in WNIDS]
  if unknown:
    raise InputError(
      f'{len(unknown)} of {len(names)} classes of {where} are none of ImageNet, first '
      f'{unknown[0]!r}. Classes are WordNet identifiers, such as {WNIDS[0]!r}, or all of them '
      f'numbers of 0..{len(WNIDS) - 1}: rename the class folders.'
    )


def _images(folder: Path) -> list[str]:
  return sorted(
    str(file)
    for file in folder.rglob('*')
    if file.suffix.lower() in EXTENSIONS and not file.name.startswith('.')
  )


def _real(root: Path, settings: DataSettings) -> tuple[list[str], np.ndarray, dict[str, Any]]:
  """Reads ImageNet's validation images with the labels of real.json, by their numbers."""
  if not expanded(settings.metadata).is_file():
    raise InputError(
      f'config.data.metadata is {settings.metadata!r}, which is no file: give real.json of the '
      "labels as released, or leave out config.data.path for TFDS's imagenet_real."
    )
  table = _json(expanded(settings.metadata), 'config.data.metadata', [[int]])
  numbered = {}
  for path in _images(root):
    match = _VALIDATION.search(Path(path).name)
    if match:
      numbered[int(match.group(1))] = path
  if not numbered:
    raise InputError(f'{root} holds no ILSVRC2012_val_00000001.JPEG or others of that kind.')
  if max(numbered) > len(table):
    raise InputError(
      f'{settings.metadata} has the labels of {len(table)} images; there is number {max(numbered)}.'
    )
  own = {number: table[number - 1] for number in sorted(numbered)}
  kept = [number for number, labels in own.items() if labels]
  if not kept:
    raise InputError(f'{settings.metadata} has no label for any image of {root}.')
  facts = {'images_without_label': len(own) - len(kept)}
  return [numbered[n] for n in kept], _padded([own[n] for n in kept]), facts


def _objectnet(root: Path, settings: DataSettings) -> tuple[list[str], np.ndarray, dict[str, Any]]:
  """Reads PATH/images/<object>/<image> with the released mapping onto ImageNet's classes."""
  mappings = root / 'mappings'
  for part in (mappings, root / 'images'):
    if not part.is_dir():
      raise InputError(
        f'config.data.path is {settings.path!r}, which lacks the folder {part.name}: give that '
        'of ObjectNet as released, with images/<object>/<image> and mappings/.'
      )
  folders = _json(mappings / 'folder_to_objectnet_label.json', str(root), {str: str})
  classes = _json(mappings / 'objectnet_to_imagenet_1k.json', str(root), {str: str})
  objects = {path.name: path for path in sorted((root / 'images').iterdir()) if path.is_dir()}
  unknown = sorted(set(objects) - set(folders))
  if unknown:
    listed = ', '.join(unknown[:_LISTED])
    raise InputError(f'{root}/images has objects that its mappings do not name: {listed}.')
  paths: list[str] = []
  labels: list[list[int]] = []
  shown = [name for name in objects if folders[name] in classes]
  for name in shown:
    own = [_label_of(words) for words in classes[folders[name]].split('; ')]
    files = _images(objects[name])
    paths += files
    labels += [own] * len(files)
  if not paths:
    raise InputError(f'{root}/images holds no images of objects that are classes of ImageNet.')
  facts = {'objects': len(shown), 'objects_left_out': len(objects) - len(shown)}
  return paths, _padded(labels), facts


def _label_of(words: str) -> int:
  """Returns the class of ImageNet that one of the words for it, 'quill, quill pen', names."""
  known = {spelt(name): label for label, name in enumerate(NAMES)}
  for word in words.split(', '):
    if spelt(word) in known:
      return known[spelt(word)]
  raise InputError(
    f'objectnet_to_imagenet_1k.json names {words!r}, which is no class of ImageNet; '
    f'{nearest(words.split(", ")[0], NAMES)}.'
  )


def _padded(labels: Sequence[Sequence[int]]) -> np.ndarray:
  """Returns labels [N, L], padded with -1."""
  table = np.full((len(labels), max(map(len, labels))), -1)
  for row, own in zip(table, labels, strict=True):
    row[: len(own)] = own
  if table.max() >= len(WNIDS):
    raise InputError(f'there is the label {table.max()}; those of ImageNet are 0..999.')
  return table


def _json(path: Path, where: str, form: json_files.Form) -> Any:
  return json_files.read(path, form, f'It belongs to {where}.')


def _without_frame(path: bytes | np.ndarray) -> np.ndarray:
  return read_file(path, channels=3)[FRAME:-FRAME, FRAME:-FRAME]


def _inner_sizes(paths: Sequence[str], indices: Sequence[int]) -> list[tuple[int, int]]:
  return [(h - 2 * FRAME, w - 2 * FRAME) for h, w in header_sizes(paths, indices)]


_READERS = {REAL: _real, OBJECTNET: _objectnet}
