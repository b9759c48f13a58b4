"""Label spaces: the classes in which predictions and labels are compared.

Labels of data are matched with outputs of a classifier by name, never by index. A coarse label
space has classes that each combine several classes of ImageNet, its members, such as 'dog'.

A line of `coarse_classes.txt` has the label space, the class, its WordNet identifier (or nothing)
and the indices of its members among ImageNet's classes. A class without members cannot be
predicted. The lines of `si_score` are the objects of `robustness.scenes.classes`, each of which is
one class of ImageNet; they are no label space.

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
from unicodedata import normalize

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
  """A list of classes, with other names for them and the finer classes that each combines.

  Attributes:
    name: the name of the label space in a config.
    class_names: the names of the classes, all different.
    aliases: {other name of a class, such as its WordNet identifier: index of the class}.
    members: indices of the classes of `source` that each class combines; () unless coarse.
    source: the finer label space that this space is made from, such as 'imagenet'; '' for none.
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
  class_names, identifiers, ranges = zip(*coarse_entries(name), strict=True)
  members = tuple(map(parse_ranges, ranges))
  # The WordNet identifiers of members, and then of the classes themselves: if an identifier is
  # both, the second entry replaces the first one.
  aliases: dict[str, int] = {}
  for label, member_classes in enumerate(members):
    aliases |= {imagenet_names.WNIDS[member]: label for member in member_classes}
  aliases |= {wnid: label for label, wnid in enumerate(identifiers) if wnid}
  return LabelSpace(name, class_names, aliases, members, source=IMAGENET)


def coarse_entries(space: str) -> list[tuple[str, str, str]]:
  """Reads the classes of a coarse label space, such as 'imagenet_vid', or of 'si_score'.

  Returns:
    (name, WordNet identifier, indices of ImageNet classes that it combines) of every class. An
    example is ('bear', 'n02131653', '294-297').
  """
  text = pathlib.Path(__file__).with_name('coarse_classes.txt').read_text(encoding='utf-8')
  entries = [tuple(map(str.strip, line.split('|'))) for line in text.splitlines()]
  return [(name, wnid, members) for owner, name, wnid, members in entries if owner == space]


def comparable_spelling(name: str) -> str:
  """Returns a class name in lower case, with underscores in place of spaces.

  Accented letters become single Unicode characters (NFC). Two names match if their results are
  equal.
  """
  return composed_unicode(name).lower().replace(' ', '_')


def index_of_class(word: str, class_names: Sequence[str]) -> int | None:
  """Returns the index of the class with a given name; None without a unique match.

  An exact match is preferred. Otherwise case, spaces and underscores are ignored as in
  `comparable_spelling`.
  """
  for form in (str, comparable_spelling):  # exact names first
    if positions := [k for k, name in enumerate(class_names) if form(name) == form(word)]:
      return positions[0] if len(positions) == 1 else None
  return None


def coarse_spaces() -> list[LabelSpace]:
  """Returns all built-in coarse label spaces, which combine classes of ImageNet."""
  return [get(name) for name in _COARSE]


def coarse_space(class_names: Sequence[str]) -> LabelSpace | None:
  """Returns the built-in coarse label space with these class names in this order.

  Names are compared by `comparable_spelling`, which ignores case. The result is None without a
  match.
  """
  names = list(map(comparable_spelling, class_names))
  matches = (
    space for space in coarse_spaces() if names == list(map(comparable_spelling, space.class_names))
  )
  return next(matches, None)


def aliases_of(class_names: Sequence[str]) -> Mapping[str, int]:
  """Returns {other name of a class, such as its WordNet identifier: index of the class}.

  The result is {} unless the names are the classes of a built-in label space.
  """
  spaces = (get(name) for name in (IMAGENET, *_COARSE))
  return next((space.aliases for space in spaces if space.class_names == tuple(class_names)), {})


def index_by_name(class_names: Sequence[str]) -> dict[str, int]:
  """Returns {name of a class: its index}, with other spellings and the aliases of `aliases_of`.

  The other spellings have accented letters as one Unicode character (NFC) or as a letter and an
  accent (NFD). If two classes differ in this alone, each spelling is of the class that has it.
  """
  indices = dict(aliases_of(class_names))
  for form in ('NFD', 'NFC'):
    indices |= {normalize(form, name): index for index, name in enumerate(class_names)}
  return indices | {name: index for index, name in enumerate(class_names)}


def index_of_name(name: str, indices: Mapping[str, int]) -> int | None:
  """Returns the index of a class; None if it is unknown.

  Args:
    name: the name. Some of its accents may be composed and others not.
    indices: the result of `index_by_name`.
  """
  return indices.get(name, indices.get(composed_unicode(name)))


def parse_ranges(ranges: str) -> tuple[int, ...]:
  """Returns the integers in a text with ranges: '7-9 12' becomes (7, 8, 9, 12)."""
  numbers: list[int] = []
  for part in ranges.split():
    low, _, high = part.partition('-')
    numbers += range(int(low), int(high or low) + 1)
  return tuple(numbers)


def log_numbers(weights: str, class_names: Sequence[str]) -> None:
  """Logs how outputs are assigned to classes, if the classes are named by numbers.

  Weights often have no class names. Their first output is then taken for the data's first class,
  and so on.

  Args:
    weights: name of the weights, for the message.
    class_names: class names of the data. Nothing is logged unless all are numbers, such as '7'.
  """
  if class_names and all(name.isdecimal() for name in class_names):
    listed = list(class_names)
    if len(listed) > MAX_LOGGED_CLASSES:
      listed = [*listed[: MAX_LOGGED_CLASSES - 2], '...', listed[-1]]
    message = (
      '%s: the weights do not name their classes; outputs 0 to %d are taken for the classes of the '
      'data in this order: %s'
    )
    logging.info(message, weights, len(class_names) - 1, ', '.join(listed))


def is_imagenet(class_names: Iterable[str]) -> bool:
  """Returns whether class names are WordNet identifiers of ImageNet; False without names."""
  names = set(class_names)
  return bool(names) and names <= get(IMAGENET).aliases.keys()


def align(rows: Rows, class_names: Sequence[str], owner: str) -> Rows:
  """Replaces the labels of a data set by indices of a classifier's classes.

  Classes are matched by name. Several classes of the data may match one class of the classifier,
  for instance many breeds of ImageNet the class 'dog'. The rows are returned unchanged if they have
  no class names, or the classifier's names in the same order.

  Args:
    rows: the labelled images.
    class_names: the class names of the classifier.
    owner: the name of the classifier, for messages.

  Raises:
    InputError: a class of the data is unknown to the classifier.
  """
  names = tuple(rows.class_names)
  if not names or names == tuple(class_names):
    return rows
  indices = index_by_name(class_names)
  positions = [index_of_name(name, indices) for name in names]
  if unknown := [name for name, index in zip(names, positions, strict=True) if index is None]:
    examples = ', '.join(map(repr, [*class_names[:3], *list(aliases_of(class_names))[:1]]))
    raise InputError(
      f'{len(unknown)} of {len(names)} classes of the data are none of the {len(class_names)} '
      f'classes of {owner}, first {unknown[0]!r}. Its classes are called {examples}, .... '
      f'Classes are matched by name, not by position: {_how_to_match(names, class_names)}.'
    )
  return with_labels(rows, np.array(positions, np.int32), tuple(class_names))


def _how_to_match(names: Sequence[str], class_names: Sequence[str]) -> str:
  """Returns advice for an error message when data has classes unknown to a classifier.

  For example, the advice is 'set config.data.folder.label_space=imagenet_vid'.

  Args:
    names: the class names of the data.
    class_names: the class names of the classifier.
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
        in_config = f'set {KEYS.classifier.label_space}={space.name}'
        in_python = f'give robustness.classifier(..., label_space={space.name!r})'
        fix = for_caller(in_config, in_python)
        return f'{fix}, which has all classes of the data'
  return (
    'rename them, for example the class folders. For classes that join some of ImageNet, set '
    f'{KEYS.classifier.label_space} to one of {", ".join(_COARSE)}; for a part of its classes, set '
    f'{KEYS.classifier.label_space}={DATA}'
  )


def project_scores(
  scores: np.ndarray, space: LabelSpace, merge: str = 'max', kind: str = LOGITS
) -> np.ndarray:
  """Combines scores of fine classes, such as ImageNet's, to scores of coarse classes.

  Each coarse class c combines a set M_c of fine classes. With logits z or probabilities p of the
  fine classes, and m over M_c, the score of c is:

  * 'max': max z_m from logits, max p_m from probabilities.
  * 'sum': log Σ exp z_m from logits, Σ p_m from probabilities.
  * 'mean': log (Σ exp z_m / |M_c|) from logits, Σ p_m / |M_c| from probabilities.

  The score is −∞ if M_c is empty. Logits and their softmax lead to the same best class.

  Args:
    scores: scores of the fine classes for N images, [N, classes of `space.source`].
    space: the coarse label space.
    merge: 'max', 'sum' or 'mean'.
    kind: the kind of `scores`, 'logits' or 'probabilities'.

  Returns:
    Scores of the coarse classes, [N, coarse classes].
  """
  projected = np.full((len(scores), len(space.members)), -np.inf, scores.dtype)
  for column, members in enumerate(space.members):
    if members:
      projected[:, column] = _merge_scores(scores[:, list(members)], merge, kind)
  return projected


def _merge_scores(values: np.ndarray, merge: str, kind: str) -> np.ndarray:
  """Combines the scores of several classes to one score per image, [N].

  Args:
    values: the scores of the classes to combine, [N, classes].
    merge: 'max', 'mean' or 'sum'. Logits are merged as probabilities and returned as logits.
    kind: the kind of the scores, 'logits' or 'probabilities'.
  """
  if merge == 'max':
    return values.max(1)
  count = values.shape[1] if merge == 'mean' else 1  # the divisor of the sum of probabilities
  if kind == PROBABILITIES:
    return values.sum(1) / count
  return special.logsumexp(values, axis=1) - np.log(count)
