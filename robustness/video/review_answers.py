"""One answer of an annotator about a pair of frames or about an anchor, as a line of the log."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robustness.core.errors import InputError, nearest

INDIVIDUAL, JOINT = 'individual', 'joint'
ROUNDS = (INDIVIDUAL, JOINT)
CORRECT, INCORRECT, UNSURE = 'correct', 'incorrect', 'unsure'
LABEL_ANSWERS = (CORRECT, INCORRECT, UNSURE)
SIMILAR, DISSIMILAR = 'similar', 'dissimilar'
SIMILAR_ANSWERS = (SIMILAR, DISSIMILAR, UNSURE)
REASONS = ('motion', 'background', 'blur', 'other')
_NAME = re.compile(r'\w[\w .-]{0,39}')


@dataclasses.dataclass(frozen=True)
class Answer:
  """What one annotator said in one round about a pair, or (without a neighbor) about an anchor.

  Attributes:
    annotator: who said it.
    round: 'individual' or 'joint'.
    anchor: path of the anchor frame.
    neighbor: path of the neighbor; None where the answer is about the anchor alone.
    label: whether the labels hold: 'correct', 'incorrect' or 'unsure'. An anchor whose answer is
      'incorrect' is a bad anchor.
    similar: of a pair, 'similar', 'dissimilar' or 'unsure'; None for an anchor.
    reasons: of a dissimilar pair, what changed: some of `REASONS`.
    feature: a distinctive feature is visible in only one frame, which makes a pair dissimilar.
    added: of an anchor, ids of the further classes that are visible.
    shown: ids of the classes that the page gave as the labels.
    time: when it was given, seconds since 1970.
  """

  annotator: str
  round: str
  anchor: str
  neighbor: str | None
  label: str
  similar: str | None = None
  reasons: tuple[str, ...] = ()
  feature: bool = False
  added: tuple[int, ...] = ()
  shown: tuple[int, ...] = ()
  time: float = 0.0

  def __post_init__(self) -> None:
    check_name(self.annotator)
    _choice('round', self.round, ROUNDS)
    _choice('label', self.label, LABEL_ANSWERS)
    if self.neighbor is None:
      self._check_anchor()
    else:
      self._check_pair()

  @property
  def accepts(self) -> bool:
    """Whether this is a vote to keep: labels correct and, of a pair, plainly similar."""
    return self.label == CORRECT and self.similar in (None, SIMILAR)

  @classmethod
  def from_json(cls, entry: Mapping[str, Any]) -> Answer:
    """Reads a line of the log.

    Raises:
      InputError: a key is missing, unknown or of the wrong kind, or the answers contradict
        each other.
    """
    names = {field.name for field in dataclasses.fields(cls)}
    for key in entry:
      if key not in names:
        raise InputError(f'unknown key {key!r} of an answer: {nearest(key, names)}.')
    missing = sorted({'annotator', 'round', 'anchor', 'neighbor', 'label'} - set(entry))
    if missing:
      raise InputError(f'an answer lacks {", ".join(missing)}: give all of them.')
    return cls(**{key: _value(key, value) for key, value in entry.items()})

  def to_json(self) -> dict[str, Any]:
    """Returns plain values, without those that say nothing."""
    entry = dataclasses.asdict(self)
    kept = {'annotator', 'round', 'anchor', 'neighbor', 'label', 'time'}
    return {key: value for key, value in entry.items() if key in kept or value}

  def _check_anchor(self) -> None:
    if self.similar is not None or self.reasons or self.feature:
      raise InputError('similar, reasons and feature are about a pair: name the neighbor.')

  def _check_pair(self) -> None:
    _choice('similar', self.similar, SIMILAR_ANSWERS)
    for reason in self.reasons:
      _choice('reason', reason, REASONS)
    if self.added:
      raise InputError('classes are added to an anchor: leave the neighbor out.')
    changed = bool(self.reasons) or self.feature
    if changed and self.similar != DISSIMILAR:
      raise InputError(
        f'a pair marked {self.similar!r} has a reason or a feature visible in '
        f'only one frame: mark it {DISSIMILAR!r}, or take the mark away.'
      )
    if self.similar == DISSIMILAR and not changed:
      raise InputError(
        f'a dissimilar pair needs a reason ({", ".join(REASONS)}) or the mark '
        'that a distinctive feature is visible in only one frame.'
      )


def check_name(name: Any) -> str:
  """Returns an annotator's name, trimmed and in Unicode's composed form.

  Raises:
    InputError: it is empty, longer than 40 characters, or has others than letters, digits,
      space, dot, hyphen and underscore.
  """
  composed = unicodedata.normalize('NFC', name).strip() if isinstance(name, str) else ''
  if not _NAME.fullmatch(composed):
    raise InputError(
      f'annotator {name!r} is not a name: give 1 to 40 letters, digits, spaces, '
      'dots, hyphens or underscores, the first a letter or a digit.'
    )
  return composed


def _choice(what: str, value: Any, valid: Sequence[str]) -> None:
  if value not in valid:
    raise InputError(f'{what} = {value!r} is not an answer: {nearest(str(value), valid)}.')


def _value(key: str, value: Any) -> Any:
  """Checks the kind of one value of a line; tuples take the place of lists."""
  if key == 'annotator':
    return check_name(value)
  holds, valid = _KINDS.get(key, _WORD)
  if not holds(value):
    raise InputError(f'{key} = {value!r} of an answer: give {valid}.')
  return tuple(value) if isinstance(value, list) else value


def _is_list_of(kind: type) -> Callable[[Any], bool]:
  return lambda value: isinstance(value, list) and all(type(element) is kind for element in value)


_IDS = (_is_list_of(int), 'a list of class ids')
_WORD = (lambda value: isinstance(value, str), 'a word')
_WORD_OR_NONE = (lambda value: value is None or isinstance(value, str), 'a word or null')
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
  'similar': _WORD_OR_NONE,
  'neighbor': _WORD_OR_NONE,
  'added': _IDS,
  'shown': _IDS,
  'reasons': (_is_list_of(str), 'a list of words'),
  'feature': (lambda value: isinstance(value, bool), 'true or false'),
  'time': (lambda value: type(value) in (int, float), 'seconds'),
}
