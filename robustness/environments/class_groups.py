"""Disjoint groups of classes C_1, ..., C_M; the classes of none are left over."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.core.errors import KEYS, InputError, SettingError, nearest
from robustness.core.paths import expanded
from robustness.core.rows import Batch, Rows, composed, with_column
from robustness.core.settings import require

LEFT_OVER, TITLE_LEFT_OVER = 0, 'left over'
"""The group of classes that no environment but the clean one shows in training."""
COLUMN = 'class_group'
SAMPLED = 'sampled_environment'
"""The environment that a balanced sampler drew a row for; see `robustness.environments.balance`."""
SUBTREE = 'wordnet:'
_STREAM = 0xC1A55  # the random stream of `balanced`


@dataclasses.dataclass(frozen=True)
class ClassGroups:
  """Disjoint groups of classes.

  Attributes:
    members: labels of C_1, ..., C_M, each ascending.
    class_names: of all classes, in label order.
  """

  members: tuple[tuple[int, ...], ...]
  class_names: tuple[str, ...]

  def __post_init__(self) -> None:
    owner: dict[int, int] = {}
    for number, labels in enumerate(self.members, 1):
      if not labels:
        raise InputError(f'class group {number} is empty: an environment needs at least one class.')
      for label in labels:
        if label in owner:
          groups = f'{owner[label]} and {number}' if owner[label] != number else f'{number}, twice'
          raise InputError(
            f'the class {self.class_names[label]!r} is in the class groups {groups}; they must '
            'be disjoint.'
          )
        owner[label] = number

  def __len__(self) -> int:
    return len(self.members)

  @functools.cached_property
  def of_label(self) -> np.ndarray:
    """int32 [classes]: k where a label is in C_k, 0 where it is left over."""
    groups = np.full(len(self.class_names), LEFT_OVER, np.int32)
    for number, labels in enumerate(self.members, 1):
      groups[list(labels)] = number
    return groups

  def describe(self) -> dict[str, list[str]]:
    """Returns {'C1': names of its classes, ..., 'left over': names}, as plain values."""
    of_label = self.of_label
    titles = {**{k: f'C{k}' for k in range(1, len(self) + 1)}, LEFT_OVER: TITLE_LEFT_OVER}
    return {
      title: [name for name, own in zip(self.class_names, of_label, strict=True) if own == k]
      for k, title in titles.items()
    }


def from_settings(settings: Any, class_names: Sequence[str]) -> ClassGroups:
  """Returns the groups that `config.data`, an `input_pipeline.DataSettings`, asks for; none leaves
  all classes over."""
  if settings.random_class_groups:
    given = settings.class_group_seed, settings.classes_per_group
    return balanced(settings.random_class_groups, class_names, *given)
  return by_name(settings.class_groups, class_names, settings.hierarchy)


def by_name(
  groups: Sequence[Sequence[str]], class_names: Sequence[str], hierarchy: str = ''
) -> ClassGroups:
  """Returns groups whose classes are named.

  Args:
    groups: names of the classes of C_1, ..., C_M. `'wordnet:n02084071'` stands for all classes
      below that synset, where classes are named by WordNet identifier.
    class_names: in label order.
    hierarchy: for subtrees, a text file of lines `parent child` of WordNet identifiers, such as
      ImageNet's `wordnet.is_a.txt`.
  """
  labels = {composed(name): label for label, name in enumerate(class_names)}
  subtrees = any(name.startswith(SUBTREE) for group in groups for name in group)
  children = _children(hierarchy) if subtrees else {}
  members = []
  for group in groups:
    own: list[int] = []
    for name in group:
      if name.startswith(SUBTREE):
        own += _below(name.removeprefix(SUBTREE), children, labels)
      elif composed(name) in labels:
        own.append(labels[composed(name)])
      else:
        raise InputError(f'{KEYS.data.class_groups} names {name!r}; {nearest(name, labels)}.')
    members.append(tuple(sorted(own)))
  return ClassGroups(tuple(members), tuple(class_names))


def balanced(count: int, class_names: Sequence[str], seed: int = 0, size: int = 0) -> ClassGroups:
  """Returns `count` random groups of `size` classes; 0 takes as many as there are for equal groups,
  and the remainder is left over.

  Names are drawn, not numbers: the groups are the same whatever order a data set stores classes in.
  """
  classes = len(class_names)
  size = size or classes // max(count, 1)
  require(
    count >= 1 and size >= 1 and count * size <= classes,
    'config.data.random_class_groups',
    count,
    f'at least 1, with {max(size, 1)} of the {classes} classes in each',
  )
  ascending = np.argsort(np.array(class_names))
  order = ascending[np.random.default_rng((_STREAM, seed)).permutation(classes)]
  members = np.sort(order[: count * size].reshape(count, -1), 1).tolist()
  return ClassGroups(tuple(map(tuple, members)), tuple(class_names))


def _children(path: str) -> dict[str, list[str]]:
  if not path or not expanded(path).is_file():
    raise SettingError(
      KEYS.data.hierarchy,
      path,
      problem='which is no file',
      fix="Subtrees of WordNet need one of lines 'parent child', such as ImageNet's "
      'wordnet.is_a.txt.',
    )
  children: dict[str, list[str]] = {}
  text = expanded(path).read_text('utf-8-sig')
  for number, line in enumerate(text.splitlines(), 1):
    words = line.split()
    if not words:
      continue
    if len(words) != 2:
      raise InputError(f"{path}, line {number} is {line!r}; it must be 'parent child'.")
    children.setdefault(words[0], []).append(words[1])
  return children


def _below(
  root: str, children: Mapping[str, Sequence[str]], labels: Mapping[str, int]
) -> list[int]:
  """Returns the labels at or below a synset."""
  reached, waiting = {root}, [root]
  while waiting:
    new = set(children.get(waiting.pop(), ())) - reached
    reached |= new
    waiting += new
  below = sorted(labels[name] for name in reached if name in labels)
  if not below:
    raise InputError(
      f'no class lies below {root!r}. Classes must be named by WordNet identifiers, as in '
      "ImageNet's folders, and the hierarchy must hold their parents."
    )
  return below


def with_groups(rows: Rows, groups: ClassGroups) -> Rows:
  """Returns rows of one label each with the column `class_group`, int32: k for classes of C_k, 0
  for those left over; without groups the rows as they are."""

  def group(batch: Batch) -> np.ndarray:
    label = batch['label']
    if label.ndim != 1:
      raise InputError(f'class groups need one label an image; got labels of shape {label.shape}.')
    return groups.of_label[label]

  return with_column(rows, COLUMN, group, {'class_groups': groups.describe()}) if groups else rows
