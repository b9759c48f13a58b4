"""Disjoint groups of classes C_1, ..., C_M for systematic robustness.

Training shows the transform T_k to the classes of C_k only. Classes in no group are called left
over; training shows them without transforms.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.core.errors import KEYS, InputError, SettingError, nearest
from robustness.core.paths import expanded
from robustness.core.rows import Batch, Rows, composed_unicode, with_column
from robustness.core.settings import require

LEFT_OVER, TITLE_LEFT_OVER = 0, 'left over'
"""Number and name of the group of classes that training shows in the clean environment only."""
COLUMN = 'class_group'
"""Column of rows with the class group."""
SAMPLED = 'sampled_environment'
"""The environment for which a balanced sampler (`robustness.environments.balance`) drew a row."""
SUBTREE = 'wordnet:'
"""Beginning of a name that stands for all classes below a WordNet synset."""
_STREAM = 0xC1A55
"""Number that `balanced_groups` adds to the seed: other choices with the same seed then differ."""


@dataclasses.dataclass(frozen=True)
class ClassGroups:
  """Disjoint groups of classes, C_1, ..., C_M. Training shows a transform to each group.

  Classes may be left over, in no group.

  Attributes:
    members: labels of the classes of each group, ascending.
    class_names: names of all classes, in label order.
  """

  members: tuple[tuple[int, ...], ...]
  class_names: tuple[str, ...]

  def __post_init__(self) -> None:
    """Raises InputError for a group without classes, or a class that is listed twice.

    `members` has the labels of the classes of each group.
    """
    group_of: dict[int, int] = {}
    for number, labels in enumerate(self.members, 1):
      if not labels:
        raise InputError(f'class group {number} is empty: an environment needs at least one class.')
      for label in labels:
        if label in group_of:
          first = group_of[label]
          groups = f'{first} and {number}' if first != number else f'{number}, twice'
          raise InputError(
            f'the class {self.class_names[label]!r} is in the class groups {groups}; they must '
            'be disjoint.'
          )
        group_of[label] = number

  def __len__(self) -> int:
    """Returns M, the number of groups; without groups the object is false."""
    return len(self.members)

  @functools.cached_property
  def of_label(self) -> np.ndarray:
    """The group of each label, int32 [classes]: k in 1..M for C_k, and 0 for no group."""
    groups = np.full(len(self.class_names), LEFT_OVER, np.int32)
    for number, labels in enumerate(self.members, 1):
      groups[list(labels)] = number
    return groups

  def describe(self) -> dict[str, list[str]]:
    """Returns {'C1': names of its classes, ..., 'left over': names}, as plain values."""
    groups = {f'C{number}': list(labels) for number, labels in enumerate(self.members, 1)}
    groups[TITLE_LEFT_OVER] = np.flatnonzero(self.of_label == LEFT_OVER).tolist()
    names = self.class_names
    return {title: [names[label] for label in labels] for title, labels in groups.items()}


def from_settings(settings: Any, class_names: Sequence[str]) -> ClassGroups:
  """Returns the class groups that the section `config.data` defines; by default there are none.

  Class groups are disjoint sets of classes, drawn at random or listed by name. A training can show
  each group in another environment.

  Args:
    settings: the section, an `input_pipeline.DataSettings`.
    class_names: names of all classes, in label order.
  """
  if count := settings.random_class_groups:
    seed, size = settings.class_group_seed, settings.classes_per_group
    return balanced_groups(count, class_names, seed, size)
  return groups_by_name(settings.class_groups, class_names, settings.hierarchy)


def groups_by_name(
  groups: Sequence[Sequence[str]], class_names: Sequence[str], hierarchy: str = ''
) -> ClassGroups:
  """Returns the class groups that lists of class names define.

  Args:
    groups: names of the classes of each group. If classes are named by WordNet identifiers,
      `'wordnet:n02084071'` stands for all classes below a synset.
    class_names: names of all classes, in label order.
    hierarchy: for synsets, a text file with lines `parent child` of WordNet identifiers, such as
      ImageNet's `wordnet.is_a.txt`.
  """
  # `composed_unicode` writes accented letters in one Unicode form, so that names compare equal.
  labels = {composed_unicode(name): label for label, name in enumerate(class_names)}
  has_synsets = any(name.startswith(SUBTREE) for group in groups for name in group)
  children = _children(hierarchy) if has_synsets else {}

  def labels_of(name: str) -> list[int]:
    """Returns the labels that an entry of a list of classes stands for.

    Args:
      name: the name of a class, or 'wordnet:' with the identifier of a WordNet synset, for all
        classes below it.

    Raises:
      InputError: there is no such class.
    """
    if name.startswith(SUBTREE):
      return _labels_below(name.removeprefix(SUBTREE), children, labels)
    if composed_unicode(name) not in labels:
      raise InputError(f'{KEYS.data.class_groups} names {name!r}; {nearest(name, labels)}.')
    return [labels[composed_unicode(name)]]

  members = [sorted(itertools.chain(*map(labels_of, group))) for group in groups]
  return ClassGroups(tuple(map(tuple, members)), tuple(class_names))


def balanced_groups(
  count: int, class_names: Sequence[str], seed: int = 0, size: int = 0
) -> ClassGroups:
  """Returns random class groups of equal size.

  Args:
    count: number of groups.
    class_names: names of all classes; groups depend on the names and not on their order.
    seed: seed of the choice.
    size: number of classes in a group; 0 takes the largest possible, or half of the classes for one
      group: with all of them, no class would be held out. Other classes are left over.
  """
  num_classes = len(class_names)
  size = size or num_classes // max(count, 2)  # a count below 1 is refused next
  is_possible = count >= 1 and size >= 1 and count * size <= num_classes
  fix = f'at least 1, and groups of {max(size, 1)} must fit into the {num_classes} classes'
  require(is_possible, 'config.data.random_class_groups', count, fix)
  ascending_by_name = np.argsort(np.array(class_names))
  order = ascending_by_name[np.random.default_rng((_STREAM, seed)).permutation(num_classes)]
  # The first count · size classes in this order, [count, size], ascending in each group.
  members = np.sort(order[: count * size].reshape(count, -1), 1).tolist()
  return ClassGroups(tuple(map(tuple, members)), tuple(class_names))


def _children(path: str) -> dict[str, list[str]]:
  """Reads a hierarchy of WordNet identifiers from a text file, as {parent: children}.

  Args:
    path: the file, with lines 'parent child'.

  Raises:
    InputError: there is no such file, or a line does not have two words.
  """
  if not path or not expanded(path).is_file():
    fix = "Subtrees of WordNet need lines 'parent child', as in ImageNet's wordnet.is_a.txt."
    raise SettingError(KEYS.data.hierarchy, path, problem='which is no file', fix=fix)
  children: dict[str, list[str]] = {}
  for number, line in enumerate(expanded(path).read_text('utf-8-sig').splitlines(), 1):
    words = line.split()
    if not words:
      continue
    if len(words) != 2:
      raise InputError(f"{path}, line {number} is {line!r}; it must be 'parent child'.")
    parent, child = words
    children.setdefault(parent, []).append(child)
  return children


def _labels_below(
  root: str, children: Mapping[str, Sequence[str]], labels: Mapping[str, int]
) -> list[int]:
  """Returns the labels of the classes at or below a synset.

  Args:
    root: WordNet identifier of the synset.
    children: {parent: children} of the hierarchy.
    labels: {WordNet identifier: label} of the classes.
  """
  reached, waiting = {root}, [root]
  while waiting:
    new = set(children.get(waiting.pop(), ())) - reached
    reached |= new
    waiting += new
  below = sorted(labels[name] for name in reached if name in labels)
  if not below:
    raise InputError(
      f'no class is below {root!r}. Classes must be named by WordNet identifiers, as in '
      "ImageNet's folders, and the hierarchy must hold their parents."
    )
  return below


def with_groups(rows: Rows, groups: ClassGroups) -> Rows:
  """Adds to a data set a column `class_group`, int32, with the number of each image's class group.

  The number is k for a class of group C_k, and 0 for no group. Without groups the data set is
  returned unchanged. If images have several labels, reading the column raises InputError.
  """

  def group(batch: Batch) -> np.ndarray:
    """Computes the new column for a batch: the number of each image's class group, int32 [B].

    Args:
      batch: columns of the data, with the labels, [B].
    """
    label = batch['label']
    if label.ndim != 1:
      raise InputError(f'class groups need one label an image; got labels of shape {label.shape}.')
    return groups.of_label[label]

  return with_column(rows, COLUMN, group, {'class_groups': groups.describe()}) if groups else rows
