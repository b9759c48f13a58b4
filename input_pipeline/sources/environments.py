"""Source `environments`: images in environments, such as rendition styles.

They are in a folder, listed in a JSON file, or configs of a TFDS data set. `path` is a folder with
images PATH/environment/class/*.jpg, or a file

  {"photo": {"dog": ["a/1.jpg", ...], "cat": [...]}, "sketch": {...}}

of paths, relative to that file or absolute; each file may be listed only once. If its top-level
keys are "train" and "test", the file defines both splits. Otherwise the fraction `test_share` of
the images of every cell is the test split; a cell is one class in one environment. This split is
drawn once and does not depend on the run's seed.

A folder may have lists `<environment>_train.txt` and `<environment>_test.txt`, which DomainNet
publishes with its zips. A line holds a path in the folder and a number; the class is the folder of
the image.

A path 'tfds:domainnet' takes all configs of a TFDS data set as environments,
'tfds:domainnet/real,sketch' two of them. Of examples with the same bytes only the first is read, in
the order of environments and files. Examples of the split `train` of any environment are not read
as `test`; the results state their number.

`clean_environment` is the environment E_0, in which all classes are trained; the default is the
first, which is logged. The others are E_1, E_2, ... in their order (folders: by name).

Splits: 'test' has every cell; 'train' the cells of E_0 and, for each E_k, the cells of the class
group C_k; 'clean' the training images of E_0 only. A cell without images raises an error, or is
named in the results if `allow_missing` is set.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from input_pipeline import image_files
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from robustness.core import json_files
from robustness.core.errors import KEYS, InputError, first_names, nearest
from robustness.core.paths import expanded, files_in
from robustness.core.registry import are_distinct, setting
from robustness.core.rows import in_class_order
from robustness.core.typing import Facts
from robustness.environments.class_groups import ClassGroups, from_settings

if TYPE_CHECKING:
  import tensorflow_datasets as tfds

  from input_pipeline.tfds_sets import Split

PREFIX = 'tfds:'
"""Beginning of a `path` that names a TFDS data set."""
TRAIN, TEST = 'train', 'test'
UNSPLIT = ''
"""Key, in place of a split, of images that are not divided into training and test images yet."""
_SPLIT_SEED = 0x5B117
"""Seed of the split into training and test images."""
_LIST = re.compile(r'(.+)_(train|test)\.txt')
"""Name of a list of images; its groups are the environment and the split."""
_FORM = 'It must hold {environment: {class: [files]}}.'
CellFiles = dict[str, dict[str, list[str]]]
"""{environment: {class: paths of images}}."""


@dataclasses.dataclass(frozen=True)
class Environments(Source):
  """Images from several environments, such as photographs and sketches.

  Used to study systematic robustness, where each environment is trained with only some classes. The
  first environment is called clean. Its training images have all classes; training images in
  environment k have only the classes of group k (`config.data.class_groups`). The splits are
  'train', 'clean' (only the training images of the clean environment), and 'test' (all classes in
  all environments).

  Attributes:
    path: folder of images <environment>/<class>/<image>, or JSON file {environment: {class:
      [paths]}}, or 'tfds:NAME' for a TFDS data set with a config for each environment.
    clean_environment: name of the clean environment; '' uses the first.
    test_share: fraction of the images of each class and environment in the test split, if the files
      do not define splits.
    allow_missing: whether a class may lack images in an environment.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
  """

  splits = (TRAIN, 'clean', TEST)
  has_environments = True
  moved_keys = {'name': 'clean_environment'}

  path: str = ''
  clean_environment: str = ''
  test_share: float = setting(0.25, 'in (0, 1)', lambda x: 0 < x < 1)
  allow_missing: bool = False
  data_dir: str = ''

  def shares_images(self, split: str, other: Source, split_of_other: str) -> bool:
    """Returns whether a split of this source may share images with a split of another source.

    Sources with the same path share images if both splits are training splits ('train', 'clean') or
    both are 'test'. With different `test_share`, all splits may share images.

    Args:
      split: split of this source.
      other: the other source.
      split_of_other: split of the other source.
    """
    if not isinstance(other, Environments) or self.path != other.path:
      return False
    are_of_one_kind = (split == TEST) == (split_of_other == TEST)
    return are_of_one_kind or self.test_share != other.test_share

  def open(self, settings: DataSettings) -> Images:
    """Returns the images in order of environment and class, then path (files) or index (TFDS)."""
    if self.path.startswith(PREFIX):
      return self._from_tfds(settings)
    return self._from_files(settings)

  def _from_files(self, settings: DataSettings) -> Images:
    """Returns the images of a split from a folder or a JSON file of paths.

    Images are of classes in environments, such as birds on water. A cell is a class in an
    environment. Images are in order of environment, then class, then path.

    Args:
      settings: the settings of the data. `settings.split` selects training or test images and, for
        training, possibly some of the cells only.
    """
    left_out = Counter[str]()  # numbers of files that are no images; `read` fills it
    splits = self.read(left_out)
    # Classes and environments are numbered over both splits, so that their numbers are the same.
    # `cells` is {environment: {class: paths}}.
    class_names: set[str] = set()
    for cells in splits.values():
      class_names.update(*cells.values())  # the keys of {class: paths}
    classes = tuple(in_class_order(class_names))
    self.require(bool(classes), 'path', 'of environments that have classes')
    environments = self._ordered([name for cells in splits.values() for name in cells])
    groups = from_settings(settings, classes)
    cells = splits[TEST if settings.split == TEST else TRAIN]
    # files[k][label] are the paths of a class in environment k; [] if it has no images there
    files = []
    for environment in environments:
      paths_of_class = cells.get(environment, {})
      files.append([paths_of_class.get(name, []) for name in classes])
    # [environments, classes]
    num_files = np.array([[len(paths) for paths in files_of_class] for files_of_class in files])
    missing = _check_cells(num_files > 0, environments, groups, self.allow_missing)
    environment_numbers = np.arange(len(environments))[:, None]
    # whether the split contains the images of a class in an environment, [environments, classes]
    is_read = _is_permitted(settings.split, environment_numbers, groups.of_label)
    numbers, labels = np.nonzero(is_read)  # environment and class of each cell that is read
    paths_of_cells = [files[number][label] for number, label in zip(numbers, labels, strict=True)]
    num_paths = num_files[numbers, labels]  # of each cell
    return image_files.file_images(
      [*itertools.chain.from_iterable(paths_of_cells)],
      np.repeat(labels, num_paths).astype(np.int32),
      classes,
      title=f'environments {self.path!r}',
      description={
        'path': self.path,
        'split': settings.split,
        'environments': list(environments),
        'images_by_environment': (num_files * is_read).sum(1).tolist(),
        **missing,
      },
      columns={'environment': np.repeat(numbers, num_paths).astype(np.int32)},
      left_out=left_out,
    )

  def read(self, left_out: Counter[str] | None = None) -> dict[str, CellFiles]:
    """Lists the files of both splits, `{'train' or 'test': {environment: {class: paths}}}`.

    `self.path` is a folder <environment>/<class>/<image>, a JSON file, or a folder with lists such
    as <environment>_train.txt. If it defines no splits, images are split at random.

    Args:
      left_out: counter of files that are not read, by reason, which is updated; None counts
        nothing.
    """
    path = expanded(self.path)
    if self.path and path.is_dir():
      if any(_LIST.fullmatch(file.name) for file in files_in(path, deep=False)):
        return _read_lists(path)
      # an empty counter is false, so it is compared with None
      splits = {UNSPLIT: _read_folders(path, Counter() if left_out is None else left_out)}
    elif self.path and path.is_file():
      document = json_files.read(path, advice=_FORM)
      if not document:
        raise InputError(f'{path} is empty. {_FORM}')
      documents = document if set(document) == {TRAIN, TEST} else {UNSPLIT: document}
      splits = {split: _absolute_paths(cells, path) for split, cells in documents.items()}
    else:
      raise InputError(
        f'{self.key("path")} is {self.path!r}; give a folder of environments with a folder for '
        'each class, or a JSON file {environment: {class: [files]}}.'
      )
    _check_once(splits, path)
    return _split(splits[UNSPLIT], self.test_share) if UNSPLIT in splits else splits

  def _from_tfds(self, settings: DataSettings) -> Images:
    """Returns the images of a split from a TFDS data set, where each config is an environment."""
    from input_pipeline.tfds_sets import Split, SplitsStore

    dataset, names = self.config_names()
    environments = self._ordered(names)
    builders, classes = self._builders([f'{dataset}/{name}' for name in environments])
    is_test = settings.split == TEST
    splits = [Split(builder, TEST if is_test else TRAIN) for builder in builders]
    seen_digests = set[bytes]()
    if is_test:  # copies of training images, of any environment, are not tested on
      for builder in builders:
        _, digests = Split(builder, TRAIN).labels_and_digests()
        seen_digests.update(digests)
    groups = from_settings(settings, classes)
    present, selected, num_copies = [], [], []  # an entry for each environment
    for number, (labels, is_first) in enumerate(_without_copies(splits, seen_digests)):
      present.append(np.isin(range(len(classes)), labels[is_first]))  # [classes]
      is_permitted = _is_permitted(settings.split, number, groups.of_label[labels])
      selected.append(np.flatnonzero(is_first & is_permitted))  # indices of examples that are read
      num_copies.append(int((~is_first).sum()))
    missing = _check_cells(np.array(present), environments, groups, self.allow_missing)
    counts = [len(indices) for indices in selected]
    description = {
      'path': self.path,
      'data_sets': [builder.info.full_name for builder in builders],
      'split': settings.split,
      'environments': list(environments),
      'images_by_environment': counts,
      'duplicates_left_out': num_copies,
      **missing,
    }
    return dataclasses.replace(
      SplitsStore(splits, selected).images(classes, f'environments {self.path!r}', description),
      columns={'environment': np.repeat(np.arange(len(selected), dtype=np.int32), counts)},
      sizes=lambda indices: None,  # configs may store images of other sizes than the first one
    )

  def _builders(
    self, names: Sequence[str]
  ) -> tuple[list[tfds.core.DatasetBuilder], tuple[str, ...]]:
    """Returns the builders of several TFDS data sets, and the class names they share.

    Raises:
      InputError: the data sets differ in their classes.
    """
    from input_pipeline.tfds_sets import check_features, prepared_builder

    builders = [prepared_builder(name, self.data_dir, self.key('path')) for name in names]
    _, classes = check_features(builders[0])
    for builder in builders[1:]:
      _, other_classes = check_features(builder)
      if other_classes != classes:
        raise InputError(
          f'{builders[0].info.full_name} and {builder.info.full_name} have different classes: give '
          f'configs with the same ones in {self.key("path")}.'
        )
    return builders, classes

  def config_names(self) -> tuple[str, tuple[str, ...]]:
    """Returns the name of the TFDS data set and the names of the configs that are environments.

    `self.path` is 'tfds:NAME' for all configs, or 'tfds:NAME/CONFIG,CONFIG' for some.

    Raises:
      InputError: there is no such data set or config, or there are fewer than two configs.
    """
    import tensorflow_datasets as tfds

    from input_pipeline import tfds_sets

    dataset, _, listed = self.path.removeprefix(PREFIX).partition('/')
    tfds_sets.register_own(dataset)  # after it TFDS knows the builders of this project
    declared: list[str] = []
    with contextlib.suppress(tfds.core.DatasetNotFoundError):  # it may be prepared nevertheless
      declared = [*tfds.builder_cls(dataset).builder_configs]
    configs = declared or tfds_sets.prepared_configs(dataset, self.data_dir)
    if not configs:
      # raises InputError if TFDS has no such data set; a set without configs is refused below
      tfds_sets.find_builder(dataset, self.data_dir, self.key('path'))
    names = tuple(listed.split(',')) if listed else tuple(configs)
    for name in names:
      if name not in configs:
        raise self.refused('path', f'which names the config {name!r}', f'{nearest(name, configs)}.')
    if len(names) < 2 or not are_distinct(names):
      raise InputError(
        f'{self.key("path")} is {self.path!r}; environments need two different configs of a TFDS '
        f'data set or more, {dataset!r} has: {", ".join(configs) or "none"}.'
      )
    return dataset, names

  def _ordered(self, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the distinct names of environments, with the clean environment first.

    Without the setting `clean_environment`, the first name is kept first, and this is logged.
    """
    environments = tuple(dict.fromkeys(names))
    first = self.clean_environment or environments[0]
    if not self.clean_environment:
      _log_choice(first, environments)
    if first not in environments:
      fix = f'{nearest(first, environments)}.'
      raise self.refused('clean_environment', 'the environment of all classes', fix)
    return (first, *(name for name in environments if name != first))


def _read_folders(path: pathlib.Path, left_out: Counter[str]) -> CellFiles:
  """Lists the images <environment>/<class>/<image> in a folder as {environment: {class: paths}}.

  Args:
    path: the folder.
    left_out: counter of files that are not read, by reason, which is updated.
  """
  cells: CellFiles = {}
  for environment, folder in image_files.folders_in(path).items():
    image_files.count_outside_classes(folder, left_out)
    cells[environment] = {
      name: [*map(str, image_files.images_in(class_folder, left_out=left_out))]
      for name, class_folder in image_files.folders_in(folder).items()
    }
  if not any(cells.values()):
    release, layout = image_files.looks_like(path), '<environment>/<class>/<image>'
    raise InputError(f'{path} holds no images{release}; expected {path}/{layout}.')
  # names that one folder holds: of the environments, and of the classes of each environment
  names_by_folder = [set(cells), *map(set, cells.values())]
  if any({TRAIN, TEST} <= names for names in names_by_folder):
    raise InputError(
      f'{path} has folders of splits, {TRAIN!r} and {TEST!r}; expected {path}/<environment>/'
      '<class>/<image>. To keep the splits, give a JSON file {"train": {environment: {class: '
      '[files]}}, "test": …}.'
    )
  if 'DomainNet' in image_files.looks_like(path):
    logging.warning('%s has no lists: DomainNet is split here, and not as released', path)
  return cells


def _read_lists(path: pathlib.Path) -> dict[str, CellFiles]:
  """Lists the images of both splits from DomainNet's lists, such as sketch_train.txt.

  A line has the path of an image and the index of its class, for instance
  'sketch/dog/sketch_091_000001.jpg 90'.

  Args:
    path: folder of the lists and images.

  Returns:
    `{'train' or 'test': {environment: {class: paths}}}`.
  """
  matches = (_LIST.fullmatch(file.name) for file in files_in(path, deep=False))
  names = sorted({match[1] for match in matches if match})  # of environments
  splits: dict[str, CellFiles] = {TRAIN: {}, TEST: {}}
  number_of_class: dict[str, str] = {}  # {class: its number in the first line that has it}
  for split, name in itertools.product(splits, names):
    file = path / f'{name}_{split}.txt'
    files_of_class: dict[str, list[str]] = {}
    if not file.is_file():
      raise InputError(f'{file} is missing, although {name} has the other list: fetch it as well.')
    if not (path / name).is_dir():
      raise InputError(f'{path} has lists but no folder of {name}: unpack {name}.zip there.')
    for line_number, line in enumerate(file.read_text('utf-8', 'replace').splitlines(), 1):
      try:
        class_name, image = _listed_image(line, name, number_of_class)
      except InputError as error:
        raise InputError(f'{file}, line {line_number} is {line!r}; {error}') from error
      files_of_class.setdefault(class_name, []).append(image)
    if not files_of_class:
      raise InputError(f'{file} lists no images: fetch the list again.')
    splits[split] |= _absolute_paths({name: files_of_class}, file)
  unlisted = [name for name in image_files.folders_in(path) if name not in names]
  if unlisted:
    lists = f'{unlisted[0]}_train.txt and {unlisted[0]}_test.txt'
    raise InputError(f'{path} has no {lists}: fetch these lists of DomainNet, or move the folder.')
  _check_once(splits, path)
  return splits


def _listed_image(line: str, environment: str, number_of_class: dict[str, str]) -> tuple[str, str]:
  """Parses a line of DomainNet's lists; returns the class and the path of the image.

  Args:
    line: the line, such as 'sketch/dog/sketch_091_000001.jpg 90'.
    environment: environment of the list.
    number_of_class: {class: its index in earlier lines}, which is updated.

  Raises:
    InputError: the line has another form, or contradicts the index of its class in earlier lines.
  """
  image, _, number = line.rpartition(' ')
  parts = pathlib.PurePosixPath(image).parts
  is_in_class = len(parts) == 3 and parts[0] == environment
  if not is_in_class or not number.isdecimal():
    form = f'{environment}/<class>/<image>'
    raise InputError(f'it must be {form} and a number: fetch the list again.')
  expected = number_of_class.setdefault(parts[1], number)
  if number != expected:
    raise InputError(f'earlier lines number this class {expected}; is the list of another release?')
  return parts[1], '/'.join(parts)


def _absolute_paths(document: Facts, path: pathlib.Path) -> CellFiles:
  """Makes the paths in a list of images absolute, as {environment: {class: sorted paths}}.

  Args:
    document: content of the list, {environment: {class: paths}}, with absolute paths or paths
      relative to the folder of the list.
    path: path of the list.

  Raises:
    InputError: the content has another form, or a file does not exist.
  """
  json_files.check(document, str(path), {str: {str: [str]}}, _FORM)
  cells: CellFiles = {environment: {} for environment in document}
  missing: list[str] = []
  for environment, classes in document.items():
    for name, files in classes.items():
      paths = sorted(str(path.parent / expanded(file)) for file in files)
      missing += [file for file in paths if not os.path.isfile(file)]
      cells[environment][name] = paths
  if missing:
    released = '; of DomainNet, list and zip are of one release, cleaned or not'
    advice = released if path.suffix != '.json' else ''  # DomainNet's lists are text files
    listed = first_names(missing)
    raise InputError(f'{path} names {len(missing)} files that do not exist: {listed}{advice}.')
  return cells


def _check_once(splits: Mapping[str, CellFiles], path: pathlib.Path) -> None:
  """Raises InputError if an image file is listed twice, also under different paths or links.

  Args:
    splits: {split: {environment: {class: paths}}}.
    path: the list or folder with the images, for the message.
  """
  cells_of_file: dict[str, list[str]] = {}
  for split, cells in splits.items():
    for environment, classes in cells.items():
      for name, files in classes.items():
        cell = '/'.join(filter(None, (split, environment, name)))
        for file in files:
          cells_of_file.setdefault(os.path.realpath(file), []).append(cell)
  repeated = [file for file, listed in cells_of_file.items() if len(listed) > 1]
  if repeated:
    file = repeated[0]
    first, second, *_ = cells_of_file[file]
    more_files = f' (and {len(repeated) - 1} more files twice)' if len(repeated) > 1 else ''
    rule = 'an image is of one class in one environment, for training or for the test.'
    raise InputError(f'{path} has {file} in {first} and {second}{more_files}: {rule}')


def _split(cells: CellFiles, share: float) -> dict[str, CellFiles]:
  """Splits the images of each class and environment at random into training and test images.

  Two or more images are divided so that each split has at least one. A single image is for
  training.

  Args:
    cells: {environment: {class: paths}}.
    share: fraction of test images.

  Returns:
    `{'train' or 'test': {environment: {class: paths}}}`.
  """
  splits: dict[str, CellFiles] = {split: {e: {} for e in cells} for split in (TRAIN, TEST)}
  for environment, classes in cells.items():
    for name, files in classes.items():
      order = np.random.default_rng(_SPLIT_SEED).permutation(len(files)).tolist()
      num_test = 0
      if len(files) > 1:
        num_test = min(max(round(share * len(files)), 1), len(files) - 1)
      for split, indices in ((TEST, order[:num_test]), (TRAIN, order[num_test:])):
        splits[split][environment][name] = [files[index] for index in sorted(indices)]
  return splits


def _without_copies(
  splits: Sequence[Split], seen_digests: set[bytes]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields the labels of each split, and which of its images are not duplicates.

  An image is a duplicate if the digest of its bytes is already in `seen_digests`. The digests of
  all images are added to this set, across splits.

  Args:
    splits: the splits.
    seen_digests: digests of earlier images, which is updated.

  Yields:
    For each split of n images, labels, int32 [n], and bool [n], False for duplicates.
  """
  for split in splits:
    labels, digests = split.labels_and_digests()
    is_first = np.zeros(len(digests), bool)
    for index, digest in enumerate(digests):
      is_first[index] = digest not in seen_digests
      seen_digests.add(digest)
    yield labels, is_first


@functools.cache  # logs once, although rows are opened for the test and for every training
def _log_choice(first: str, names: tuple[str, ...]) -> None:
  """Logs that the clean environment is `first` by default, out of all environments `names`."""
  logging.info(
    'clean images, of the environment that all classes are trained in, are those of %r: '
    f'{KEYS.data.environments.clean_environment} chooses another of %s',
    *(first, ', '.join(map(repr, names))),
  )


def _is_permitted(split: str, number: int | np.ndarray, group: np.ndarray) -> np.ndarray:
  """Returns whether a split contains images of some classes in an environment, bool [...].

  'test' contains all classes in all environments. 'train' contains all classes in environment 0
  (clean), and only the classes of group k in environment k. 'clean' contains all classes in
  environment 0.

  Args:
    split: 'train', 'clean' or 'test'.
    number: index k of the environment; an array is broadcast with `group`.
    group: class group of each class or image, int [...]; 0 for classes in no group.
  """
  is_trained = (split == TRAIN) & (group == number)
  return is_trained | (number == 0) | (split == TEST)


def _check_cells(
  present: np.ndarray, environments: Sequence[str], groups: ClassGroups, allow_missing: bool
) -> dict[str, list[str]]:
  """Checks that every class has images in every environment, and reports where it has none.

  Args:
    present: bool [environments, classes], whether a class has images in an environment.
    environments: names of the environments.
    groups: the class groups.
    allow_missing: whether a class may lack images in an environment.

  Returns:
    `{'missing_cells': ['sketch/dog', ...]}` for results.json; {} if nothing is missing.

  Raises:
    InputError: images are missing and `allow_missing` is False, or a class group has no images at
      all in the environment in which it is trained.
  """
  names = groups.class_names
  missing = [f'{environments[number]}/{names[label]}' for number, label in np.argwhere(~present)]
  if missing and not allow_missing:
    raise InputError(
      f'{len(missing)} of {present.size} cells have no images: {first_names(missing)}. '
      f'Add images, leave these classes out, or set {KEYS.data.environments.allow_missing}=True.'
    )
  # group k = 1, 2, ... is trained in environment k and, like all classes, in environment 0
  num_trained = min(len(groups), len(environments) - 1)
  for number in range(1, num_trained + 1):
    if not present[number, groups.of_label == number].any():
      problem = f'no class of group {number} has images of {environments[number]!r}'
      fix = 'choose other class groups or add images.'
      raise InputError(f'{problem}, which it alone is trained in: {fix}')
  return {'missing_cells': missing} if missing else {}
