"""Label spaces: the classes in which predictions and labels are compared.

Labels of data are matched with outputs of a classifier by name, never by index. A coarse label
space has classes that each combine several classes of ImageNet, its members, such as 'dog'.

A line of `coarse_classes.txt` has the label space, the class, its WordNet identifier (or nothing)
and the indices of its members among ImageNet's classes. A class without members cannot be
predicted.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 3.1 and the
released class maps: 288 ImageNet classes for ImageNet-Vid, 231 for YouTube-BB; Li et al.,
LAION-C, 2025, and the released map: 285 classes; Geirhos et al., Partial success in closing the
gap between human and machine vision, 2021: 207; Xiao et al., Noise or signal, 2021: 370 in nine
classes, and the 630 further ones, which are wrong answers, in a tenth.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging
from scipy import special

from robustness.core.errors import KEYS, InputError, for_caller
from robustness.core.rows import Rows, composed_unicode, with_labels
from robustness.core.settings import choice
from robustness.models import imagenet_names

IMAGENET = 'imagenet'
DATA = 'data'
"""The value of `config.classifier.label_space` that stands for the classes of the data."""
MAX_LOGGED_CLASSES = 13
"""Most class names in a log line."""
MERGES = ('max', 'sum', 'mean')
"""The ways to combine the scores of a class's members, see `project_scores`."""
LOGITS, PROBABILITIES = SCORES = ('logits', 'probabilities')
"""The kinds of scores."""
_COARSE = ('imagenet_vid', 'youtube_bb', 'laion_c', 'cue_conflict', 'imagenet_9')
"""The names of the coarse label spaces."""


@dataclasses.dataclass(frozen=True)
class LabelSpace:
  """The classes of a task, in a fixed order.

  Attributes:
    name: the name of the label space in a config.
    class_names: the names of the classes, all different.
    aliases: {other name of a class, such as its WordNet identifier: index of the class}.
    members: for a coarse space, the indices of each class's members in the space `source`.
    source: the name of the finer space that a coarse space is made from, or ''.
  """

  name: str
  class_names: tuple[str, ...]
  aliases: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False, repr=False)
  members: tuple[tuple[int, ...], ...] = ()
  source: str = ''


@functools.cache
def get(name: str) -> LabelSpace:
  """Returns a built-in label space by its name.

  The names are 'imagenet' (1000 classes), 'imagenet_vid' (30), 'youtube_bb' (24), 'laion_c' (16),
  'cue_conflict' (16) and 'imagenet_9' (9, and a tenth for all other classes of ImageNet).

  Raises:
    InputError: there is no such space; the message lists the valid names.
  """
  if name == IMAGENET:
    wnids = {wnid: index for index, wnid in enumerate(imagenet_names.WNIDS)}
    return LabelSpace(name, imagenet_names.NAMES, aliases=wnids)
  choice('label space', name, (IMAGENET, *_COARSE))
  entries = coarse_entries(name)
  members = tuple(parse_ranges(ranges) for _, _, ranges in entries)
  # WordNet identifiers of members, then of the classes themselves, which win
  aliases: dict[str, int] = {}
  for label, member_classes in enumerate(members):
    aliases |= {imagenet_names.WNIDS[member]: label for member in member_classes}
  aliases |= {wnid: label for label, (_, wnid, _) in enumerate(entries) if wnid}
  class_names = tuple(class_name for class_name, _, _ in entries)
  return LabelSpace(name, class_names, aliases, members, source=IMAGENET)


def coarse_entries(space: str) -> list[tuple[str, str, str]]:
  """Returns (name, WordNet identifier, members) of every class of the coarse space named `space`.

  Members are numbers of ImageNet's classes as text: ('bear', 'n02131653', '294-297').
  """
  text = pathlib.Path(__file__).with_name('coarse_classes.txt').read_text(encoding='utf-8')
  entries = [tuple(map(str.strip, line.split('|'))) for line in text.splitlines()]
  return [(name, wnid, members) for owner, name, wnid, members in entries if owner == space]


def comparable_spelling(name: str) -> str:
  """Returns a class name in the form in which names are compared.

  It is in lower case, with underscores in place of spaces and each accented letter as one Unicode
  character.
  """
  return composed_unicode(name).lower().replace(' ', '_')


def index_of_class(word: str, class_names: Sequence[str]) -> int | None:
  """Returns the index of the class called `word`, or None if there is none or several.

  The exact name is preferred, otherwise names are compared as `comparable_spelling` returns them.
  """
  for form in (str, comparable_spelling):  # exact names first
    if positions := [k for k, name in enumerate(class_names) if form(name) == form(word)]:
      return positions[0] if len(positions) == 1 else None
  return None


def coarse_spaces() -> list[LabelSpace]:
  """Returns all built-in coarse label spaces, which combine classes of ImageNet."""
  return [get(name) for name in _COARSE]


def coarse_space(class_names: Sequence[str]) -> LabelSpace | None:
  """Returns the coarse label space with these class names in this order, or None if there is none.

  Names are compared in lower case with underscores in place of spaces, see `comparable_spelling`.
  """
  names = list(map(comparable_spelling, class_names))
  matches = (
    space for space in coarse_spaces() if names == list(map(comparable_spelling, space.class_names))
  )
  return next(matches, None)


def index_by_name(class_names: Sequence[str]) -> dict[str, int]:
  """Returns {name: index of the class}.

  For the classes of a built-in label space the result also has their aliases, such as WordNet
  identifiers.
  """
  spaces = (get(name) for name in (IMAGENET, *_COARSE))
  # of the label space with these classes, if any
  aliases = next((space.aliases for space in spaces if space.class_names == tuple(class_names)), {})
  return {**aliases, **{name: index for index, name in enumerate(class_names)}}


def parse_ranges(ranges: str) -> tuple[int, ...]:
  """Returns the integers that a text lists; '7-9 12' is 7, 8, 9 and 12."""
  numbers: list[int] = []
  for part in ranges.split():
    low, _, high = part.partition('-')
    numbers += range(int(low), int(high or low) + 1)
  return tuple(numbers)


def log_numbers(weights: str, class_names: Sequence[str]) -> None:
  """Logs the order of classes that is assumed if the names of the data's classes are numbers.

  The outputs of weights without class names are assigned to the classes of the data in their order.
  """
  if class_names and all(name.isdecimal() for name in class_names):
    listed = [*class_names]
    if len(listed) > MAX_LOGGED_CLASSES:
      listed[MAX_LOGGED_CLASSES - 2 : -1] = ['...']  # shortened to the first ones, '...', the last
    logging.info(
      '%s: the weights do not name their classes; outputs 0 to %d are taken for the classes of the '
      'data in this order: %s',
      *(weights, len(class_names) - 1, ', '.join(listed)),
    )


def is_imagenet(class_names: Iterable[str]) -> bool:
  """Returns whether class names are WordNet identifiers of ImageNet; False without names."""
  names = set(class_names)
  return bool(names) and names <= get(IMAGENET).aliases.keys()


def align(rows: Rows, class_names: Sequence[str], aliases: Mapping[str, int], owner: str) -> Rows:
  """Returns the rows with labels replaced by indices into a classifier's class names.

  Several classes of the rows may match one class of the classifier, as classes of ImageNet match a
  class of a coarse label space. Rows without class names, or with the classifier's class names in
  its order, are returned unchanged.

  Args:
    rows: the rows with labels.
    class_names: the class names of the classifier.
    aliases: {other name of a class: index of the class}.
    owner: the name of the classifier, for messages.

  Raises:
    InputError: a class of the rows is none of the classifier's.
  """
  names = tuple(rows.class_names)
  if not names or names == tuple(class_names):
    return rows
  indices = {**aliases, **{composed_unicode(name): index for index, name in enumerate(class_names)}}
  if unknown := [name for name in names if composed_unicode(name) not in indices]:
    examples = ', '.join(map(repr, [*class_names[:3], *list(aliases)[:1]]))
    raise InputError(
      f'{len(unknown)} of {len(names)} classes of the data are none of the {len(class_names)} '
      f'classes of {owner}, first {unknown[0]!r}. Its classes are called {examples}, .... '
      f'Classes are matched by name, not by position: {_how_to_match(names, class_names)}.'
    )
  positions = np.array([indices[composed_unicode(name)] for name in names], np.int32)
  return with_labels(rows, positions, tuple(class_names))


def _how_to_match(names: Sequence[str], class_names: Sequence[str]) -> str:
  """Returns advice for data with classes that a classifier lacks: which setting makes them match.

  `names` are the data's class names, and `class_names` the classifier's class names.
  """
  # the data have classes of ImageNet, and the classifier has coarser classes: the data's are joined
  coarse = coarse_space(class_names)
  if coarse and is_imagenet(names):
    return f'set {KEYS.data.folder.label_space}={coarse.name}'
  # the other way round: predictions are projected onto coarser classes
  if tuple(class_names) == get(IMAGENET).class_names:
    for space in coarse_spaces():
      spellings = {*map(comparable_spelling, (*space.class_names, *space.aliases))}
      if {*map(comparable_spelling, names)} <= spellings:
        fix = for_caller(
          f'set {KEYS.classifier.label_space}={space.name}',
          f'give robustness.classifier(..., label_space={space.name!r})',
        )
        return f'{fix}, which has all classes of the data'
  return (
    'rename them, for example the class folders. For classes that join some of ImageNet, set '
    f'{KEYS.classifier.label_space} to one of {", ".join(_COARSE)}; for a part of its classes, set '
    f'{KEYS.classifier.label_space}={DATA}'
  )


def project_scores(
  scores: np.ndarray, space: LabelSpace, merge: str = 'max', kind: str = LOGITS
) -> np.ndarray:
  """Returns scores of N video frames for the classes of a coarse label space, [N, coarse classes].

  Let M_c be the members of class c. The score of c from logits z is max z_m, log Σ exp z_m or
  log (Σ exp z_m / |M_c|) over m in M_c, for a `merge` of 'max', 'sum' or 'mean'. From probabilities
  p it is max p_m, Σ p_m or Σ p_m / |M_c|. Logits and their softmax have the same best class. A
  class without members has the score −∞.

  Args:
    scores: the scores of the classes of `space.source`, [N, classes].
    space: the coarse label space.
    merge: one of `MERGES`.
    kind: 'logits' or 'probabilities'.
  """
  projected = np.full((len(scores), len(space.members)), -np.inf, scores.dtype)
  for column, members in enumerate(space.members):
    if members:
      projected[:, column] = _merge_scores(scores[:, list(members)], merge, kind)
  return projected


def _merge_scores(values: np.ndarray, merge: str, kind: str) -> np.ndarray:
  """Returns the scores [N] of a class, combined from the scores [N, members] of its members.

  Args:
    values: the scores of the members.
    merge: 'max', 'mean' or 'sum'; means and sums are of probabilities, also for logits.
    kind: `PROBABILITIES`, or 'logits'.
  """
  if merge == 'max':
    return values.max(1)
  count = values.shape[1] if merge == 'mean' else 1  # the divisor of the sum of probabilities
  if kind == PROBABILITIES:
    return values.sum(1) / count
  return special.logsumexp(values, axis=1) - np.log(count)
