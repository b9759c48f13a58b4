"""Which classes the labels of neighbor sets are of, from the files that came along.

A class index, `*class_index.json`, is {class: [identifier, name]} or {class: name}. What stands
before `class_index` is the label space, if the classes are of one. A class map says which of
ImageNet's classes make up each class of the sets: `class_idx_map.json` is {class of ImageNet:
class} and `rev_class_idx_map.json` {class: [classes of ImageNet]}, as ImageNet Testbed keeps them.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from robustness.core.errors import InputError
from robustness.models import label_space
from robustness.models.imagenet_names import WNIDS
from robustness.models.label_space import LabelSpace

CLASS_INDEX = 'class_index.json'
IMAGENET_INDEX = f'{label_space.IMAGENET}_{CLASS_INDEX}'
CLASS_MAP = 'class_idx_map.json'

Documents = Mapping[pathlib.Path, Mapping[str, Any]]


def indexed(documents: Documents) -> tuple[str, ...]:
  """Returns the names of the classes of class indices, in order; () without one.

  ImageNet-Vid-Robust was released with two, and its labels are of the 30 classes that
  classifiers' 1000 are projected onto: `imagenet_class_index.json` is passed over beside the index
  of such a space.

  Args:
    documents: class indices by their paths, of one folder.

  Raises:
    InputError: classes that are not numbered from 0 on, have no names or share one, or indices
      that differ otherwise.
  """
  names = {path: _names(path, document) for path, document in documents.items()}
  if any(label_space.coarse_space(own) for own in names.values()):
    imagenet = label_space.get(label_space.IMAGENET).class_names
    names = {p: own for p, own in names.items() if (p.name, own) != (IMAGENET_INDEX, imagenet)}
  if len(set(names.values())) > 1:
    raise InputError(
      f'{next(iter(names)).parent} holds several class indices that differ '
      f'({", ".join(path.name for path in names)}): leave the one that the labels are of.'
    )
  return next(iter(names.values()), ())


def mapped(documents: Documents) -> tuple[str, ...]:
  """Returns the names of the classes that class maps lead to, in order; () without one.

  Args:
    documents: class maps by their paths, of one folder.

  Raises:
    InputError: they are those of no label space.
  """
  given = {path.name: document for path, document in documents.items()}
  for space in label_space.coarse_spaces():
    known = _maps(space)
    if given and all(document == known.get(name) for name, document in given.items()):
      return space.class_names
  if not given:
    return ()
  spaces = ' or '.join(space.name for space in label_space.coarse_spaces())
  raise InputError(
    f'{next(iter(documents)).parent} holds {" and ".join(given)}, which map ImageNet onto other '
    f'classes than those of {spaces}: add {CLASS_INDEX}, {{class: name}}, that says which.'
  )


def file_name(names: Sequence[str]) -> str:
  """Returns what the index of these classes is called."""
  space = label_space.coarse_space(names)
  return f'{space.name}_{CLASS_INDEX}' if space else CLASS_INDEX


def _maps(space: LabelSpace) -> dict[str, Mapping[str, Any]]:
  """Returns both class maps of a label space, by their names."""
  members = {str(label): list(fine) for label, fine in enumerate(space.members) if fine}
  return {
    CLASS_MAP: {str(fine): int(label) for label, own in members.items() for fine in own},
    f'rev_{CLASS_MAP}': members,
  }


def _names(path: pathlib.Path, index: Mapping[str, Any]) -> tuple[str, ...]:
  """Returns the names of a class index, in order; ImageNet's in the words of its label space."""
  if sorted(index) != sorted(map(str, range(len(index)))):
    raise InputError(f'{path} does not number its {len(index)} classes 0..{len(index) - 1}.')
  entries = [index[str(number)] for number in range(len(index))]
  words = [[entry] if isinstance(entry, str) else entry for entry in entries]
  for number, entry in enumerate(words):
    if not (isinstance(entry, list) and entry and all(isinstance(word, str) for word in entry)):
      raise InputError(f'{path}: class {number} is {entries[number]!r}; give [identifier, name].')
  if tuple(entry[0] for entry in words) == WNIDS:
    return label_space.get(label_space.IMAGENET).class_names
  name, count = Counter(entry[-1] for entry in words).most_common(1)[0] if words else ('', 0)
  if count > 1:
    raise InputError(f'{path} calls {count} classes {name!r}: give each a name of its own.')
  return tuple(entry[-1] for entry in words)
