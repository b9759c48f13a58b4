"""Names of the classes of neighbor sets, from files beside them.

* A class index, `*class_index.json`, is {class: [identifier, name]} or {class: name}. If these are
  the classes of a label space, the word before `class_index` is its name.
* Class maps from ImageNet's classes, as in ImageNet Testbed: `class_idx_map.json` is {class of
  ImageNet: class} and `rev_class_idx_map.json` {class: [classes of ImageNet]}.
"""

import pathlib
from collections import Counter
from collections.abc import Mapping

from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.models import label_space
from robustness.models.imagenet_names import WNIDS

CLASS_INDEX, CLASS_MAP = 'class_index.json', 'class_idx_map.json'
"""Ends of the names of files with class names."""
PUBLISHED_SPACES = ('imagenet_vid', 'youtube_bb')
"""Label spaces of published neighbor sets; a class index with such a name must have its classes."""


def read_class_names(home: pathlib.Path) -> tuple[str, ...]:
  """Reads the class names, in label order, of neighbor sets; () if no file states them.

  Class names are in `*class_index.json` or, if there is none, follow from `*class_idx_map.json`,
  which maps ImageNet's classes to the classes of the data. The files are searched in `home`,
  `home/misc` and `misc` next to `home`.

  Args:
    home: folder that holds the neighbor sets.
  """
  advice = 'Give an object that has each class once.'
  readers = {f'*{CLASS_INDEX}': _class_names_of_indices, f'*{CLASS_MAP}': _names_by_maps}
  for pattern, read_names in readers.items():
    for folder in (home, home / 'misc', home.parent / 'misc'):
      files = {file: json_files.read(file, dict, advice) for file in sorted(folder.glob(pattern))}
      names = read_names(files) if files else ()
      if names:
        return names
  return ()


def _class_names_of_indices(
  indices: Mapping[pathlib.Path, Mapping[str, object]],
) -> tuple[str, ...]:
  """Chooses the class index that belongs to the labels, and returns its class names in label order.

  A class index is a file that names classes. The folder of a data set can have two: the data set
  ImageNet-Vid-Robust has `imagenet_vid_class_index.json`, with the 30 classes of its labels, and
  `imagenet_class_index.json`, with the 1000 classes of ImageNet. A set of few classes such as these
  30, each of which stands for some of ImageNet's, is called coarse. If an index has coarse classes,
  the labels are of these, and ImageNet's index is ignored.

  Args:
    indices: {path: content} of the class indices of a folder. A content is {class number: name} or
      {class number: [identifier, name]}.

  Raises:
    InputError: a file is named after a label space but has other classes, ImageNet-Vid-Robust comes
      with ImageNet's index alone, or the indices differ.
  """
  names_in = {path: names_in_index(path, index) for path, index in indices.items()}
  first, *_ = names_in  # the path of the first file
  folder = first.parent  # of all files
  for path, names in names_in.items():
    _check_named_space(path, names)  # 'imagenet_…' in the name of a file needs ImageNet's classes
  imagenet = label_space.get(label_space.IMAGENET).class_names
  is_vid_robust = (folder / 'rev_wnid_map.json').is_file()  # ImageNet-Vid-Robust has this file
  if list(names_in.values()) == [imagenet] and is_vid_robust:
    raise InputError(f'{folder} has only {first.name}, which does not name its labels.')
  imagenet_index = folder / f'{label_space.IMAGENET}_{CLASS_INDEX}'
  # `coarse_space` returns the coarse label space with exactly these class names, or None.
  has_coarse_index = any(map(label_space.coarse_space, names_in.values()))
  if has_coarse_index and names_in.get(imagenet_index) == imagenet:
    del names_in[imagenet_index]
  if len(set(names_in.values())) > 1:
    raise InputError(
      f'{folder} holds class indices that differ '
      f'({", ".join(path.name for path in names_in)}): leave the one that names the labels.'
    )
  return next(iter(names_in.values()))  # all are equal


def _check_named_space(path: pathlib.Path, names: tuple[str, ...]) -> None:
  """Raises InputError if a file is named after a published label space but has other classes.

  Args:
    path: the file, such as `imagenet_vid_class_index.json`.
    names: the class names in the file.
  """
  named_space = path.name.removesuffix(f'_{CLASS_INDEX}')
  space = label_space.coarse_space(names)  # the one with these classes, if any
  if named_space in PUBLISHED_SPACES and (space is None or space.name != named_space):
    count = len(names)
    content = f'the {count} classes of {space.name}' if space else f'{count} other classes'
    raise InputError(f'{path} holds {content}, and not those of {named_space}.')


def names_in_index(path: pathlib.Path, index: Mapping[str, object]) -> tuple[str, ...]:
  """Returns the class names in a class index file, in label order.

  For the 1000 WordNet identifiers of ImageNet, the label space 'imagenet' provides the names,
  because files spell them in different ways.

  Args:
    path: the file, for error messages.
    index: content of the file, {class number: name} or {class number: [identifier, name]}.
  """
  if sorted(index) != sorted(map(str, range(len(index)))):
    raise InputError(f'{path} does not number its {len(index)} classes 0..{len(index) - 1}.')
  entries: list[list[str]] = []  # [identifier, name] or [name] of each class
  for number in range(len(index)):
    stored = index[str(number)]
    entry = [stored] if isinstance(stored, str) else stored
    if not (isinstance(entry, list) and entry and all(isinstance(word, str) for word in entry)):
      raise InputError(f'{path}: class {number} is {stored!r}; give [identifier, name].')
    entries.append(entry)
  if tuple(entry[0] for entry in entries) == WNIDS:
    return label_space.get(label_space.IMAGENET).class_names
  names = tuple(entry[-1] for entry in entries)
  for name, count in Counter(names).most_common(1):  # the most frequent name, if there is any
    if count > 1:
      raise InputError(f'{path} calls {count} classes {name!r}: give each another name.')
  return names


def _names_by_maps(maps: Mapping[pathlib.Path, Mapping[str, object]]) -> tuple[str, ...]:
  """Returns the names of the coarse classes, in label order, into which maps group ImageNet's
  classes.

  The maps must belong to a built-in label space, see `label_space.coarse_spaces`.

  Args:
    maps: {path: content}. Files `class_idx_map.json` contain {ImageNet class: coarse class}, files
      `rev_class_idx_map.json` contain {coarse class: [ImageNet classes]}.

  Raises:
    InputError: no built-in label space has these maps.
  """
  spaces = label_space.coarse_spaces()
  for space in spaces:
    # As in the files: {coarse class: [ImageNet classes]}, and {ImageNet class: coarse class}.
    members = {str(label): list(fine) for label, fine in enumerate(space.members) if fine}
    coarse_class: dict[str, int] = {}
    for label, classes in members.items():
      coarse_class |= dict.fromkeys(map(str, classes), int(label))
    map_of_file: Mapping[str, object] = {CLASS_MAP: coarse_class, f'rev_{CLASS_MAP}': members}
    if all(content == map_of_file.get(path.name) for path, content in maps.items()):
      return space.class_names
  raise InputError(
    f'{next(iter(maps)).parent} holds {" and ".join(path.name for path in maps)}, which map '
    f'ImageNet onto other classes than {" or ".join(space.name for space in spaces)}: add '
    f'{CLASS_INDEX}, {{class: name}}, that names them.'
  )
