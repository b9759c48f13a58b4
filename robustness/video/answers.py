"""Answers of annotators about pairs of frames and anchors, and the file that stores them.

The first line of the file holds the plan of the review. Each further line is one answer, a JSON
object that is appended and flushed to the disk.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from robustness.core import json_files
from robustness.core.atomic_files import flush_directory, lock
from robustness.core.errors import InputError
from robustness.core.settings import choice, require

FORMAT, VERSION = 'neighbor-set review', 1
"""Name and version of the file format, which the first line of a file of answers states."""
INDIVIDUAL, JOINT = ROUNDS = ('individual', 'joint')
"""Rounds of a review: annotators answer alone, then vote on contested items and see all answers."""
CORRECT, INCORRECT, UNSURE = LABEL_ANSWERS = ('correct', 'incorrect', 'unsure')
"""Answers to the question whether the labels of a frame are right; 'unsure' is no decision."""
SIMILAR, DISSIMILAR = 'similar', 'dissimilar'
"""Answers to the question whether the frames of a pair are similar."""
SIMILAR_ANSWERS = (SIMILAR, DISSIMILAR, UNSURE)
REASONS = ('motion', 'background', 'blur', 'other')
"""Changes that can make the frames of a pair dissimilar."""
ANSWER: json_files.Form = {
  **dict.fromkeys(('annotator', 'round', 'anchor', 'label'), str),
  **{key: (str, type(None)) for key in ('neighbor', 'similar?')},
  'reasons?': [str],
  'feature?': bool,
  'added?': [int],
  'shown?': [int],
  'time?': float,
}
"""Form of a line with an answer; keys that end in '?' may be missing."""
PLAN: json_files.Form = {'annotators_per_pair?': int, 'joint_votes?': int, 'densify?': bool}
"""Form of the plan in the first line."""


@dataclasses.dataclass(frozen=True)
class ReviewPlan:
  """Rules of a human review of video frames, stored with the answers.

  Annotators first judge pairs of frames alone. In a joint round they then vote on contested items.
  These are items that somebody rejected, and anchors (labelled frames) to which annotators added
  different labels.

  Attributes:
    annotators_per_pair: number of annotators who judge each pair independently.
    joint_votes: number of annotators who vote on a contested item; 0 takes `annotators_per_pair`.
    densify: whether anchors are first shown alone, so that annotators can add missing classes.
  """

  annotators_per_pair: int = 2
  joint_votes: int = 0
  densify: bool = False

  def __post_init__(self) -> None:
    """Raises InputError for too few annotators or votes.

    Each pair of frames is judged by some annotators alone, then by votes in a joint round.
    """
    count = self.annotators_per_pair
    require(count >= 1, '--annotators_per_pair', count, 'at least 1')
    valid = 'at least 1, or 0 for as many as answer alone'
    require(self.joint_votes >= 0, '--joint_votes', self.joint_votes, valid)

  @property
  def votes_needed(self) -> int:
    """The number of votes that a contested item needs in the joint round of a review."""
    return self.joint_votes or self.annotators_per_pair


@dataclasses.dataclass(frozen=True)
class Answer:
  """One annotator's answer about a pair of video frames, or about an anchor alone.

  An anchor is a labelled frame; a pair is an anchor and a neighboring frame.

  Attributes:
    annotator: name of the annotator.
    round: 'individual' (annotators answer alone) or 'joint'.
    anchor: path of the anchor.
    neighbor: path of the neighboring frame; None for an answer about an anchor.
    label: whether the labels are right: 'correct', 'incorrect' (which marks an anchor as bad) or
      'unsure'.
    similar: whether the frames of a pair are 'similar', 'dissimilar' or 'unsure'; None for an
      anchor.
    reasons: changes that make a pair dissimilar, from `REASONS`, such as 'blur'.
    feature: whether a distinctive feature is visible in only one frame of a dissimilar pair.
    added: ids of visible classes that the labels of an anchor lack.
    shown: ids of the classes that the page showed as labels.
    time: time of the answer in seconds since 1970.
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
    """Raises InputError for an invalid value, or for values that contradict each other.

    An annotator answers about an anchor frame, where `neighbor` is None, or about a pair of an
    anchor (labelled frame) and a neighbor. Only a pair is similar or dissimilar, and a dissimilar
    one has a reason.
    """
    check_name(self.annotator)
    choice('round', self.round, ROUNDS)
    choice('label', self.label, LABEL_ANSWERS)
    # dissimilar pairs, and only they, have an explanation
    is_explained = bool(self.reasons) or self.feature
    if self.neighbor is None:
      if self.similar is not None or is_explained:
        raise InputError('similar, reasons and feature are about a pair: name the neighbor.')
      return
    choice('similar', self.similar, SIMILAR_ANSWERS)
    for reason in self.reasons:
      choice('reason', reason, REASONS)
    if self.added:
      raise InputError('classes are added to an anchor: leave the neighbor out.')
    if is_explained and self.similar != DISSIMILAR:
      raise InputError(
        f'a pair marked {self.similar!r} has a reason or a feature visible in '
        f'only one frame: mark it {DISSIMILAR!r}, or take the mark away.'
      )
    if self.similar == DISSIMILAR and not is_explained:
      raise InputError(
        f'a dissimilar pair needs a reason ({", ".join(REASONS)}) or the mark '
        'that a distinctive feature is visible in only one frame.'
      )

  @property
  def accepts(self) -> bool:
    """Whether the annotator accepts the item: labels correct, and a pair's frames similar."""
    return self.label == CORRECT and self.similar in (None, SIMILAR)

  @classmethod
  def from_json(cls, entry: Mapping[str, object]) -> Answer:
    """Creates an answer from a JSON object.

    Args:
      entry: {field of this class: value}, with lists in place of tuples.

    Raises:
      InputError: A field is missing, unknown or invalid.
    """
    names = {field.name for field in dataclasses.fields(cls)}
    for key in entry:
      choice('a key of an answer', key, names)
    json_files.check(entry, 'an answer', ANSWER)
    fields = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    return cls(**{**fields, 'annotator': check_name(entry['annotator'])})  # type: ignore[arg-type]

  def to_json(self) -> dict[str, object]:
    """Returns the answer as a JSON object, without empty optional fields."""
    required = {'annotator', 'round', 'anchor', 'neighbor', 'label', 'time'}
    fields = dataclasses.asdict(self)
    return {key: value for key, value in fields.items() if key in required or value}


def check_name(name: object) -> str:
  """Normalises an annotator's name: strips it, and composes Unicode (NFC).

  Raises:
    InputError: `name` is not a text of 1 to 40 letters, digits, spaces, '.', '-' and '_', or does
      not start with a letter, a digit or '_'.
  """
  composed = unicodedata.normalize('NFC', name).strip() if isinstance(name, str) else ''
  if not re.fullmatch(r'\w[\w .-]{0,39}', composed):
    raise InputError(
      f'annotator {name!r} is not a name: give 1 to 40 letters, digits, spaces, '
      'dots, hyphens or underscores, the first a letter or a digit.'
    )
  return composed


class AnswerLog:
  """The file of a review's answers, which survives a crash once `append` returns.

  It is a context manager. While open, the file is locked against a second server.
  """

  def __init__(
    self, path: Path, digest: str, settings: Mapping[str, int | bool] = MappingProxyType({})
  ):
    """Opens or creates the file of answers, and removes an incomplete last line.

    Args:
      path: the file; its folder is created too.
      digest: hash of the frames under review (`Candidates.digest`).
      settings: {field of `ReviewPlan`: value}. A new file stores them. An existing file must have
        the same values.

    Raises:
      InputError: The file cannot be written, is open in another server, or has other settings.
    """
    self.path = path
    plan = dataclasses.asdict(ReviewPlan(**settings))  # type: ignore[arg-type]
    header = _encoded({'format': FORMAT, 'version': VERSION, 'metadata': digest, 'plan': plan})
    try:
      self.path.parent.mkdir(parents=True, exist_ok=True)
      self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
      try:
        self._load(header, digest, settings)
      except BaseException:  # also if the user interrupts
        os.close(self._file)
        raise
    except OSError as error:
      problem = f'--answers={self.path} cannot be written ({error})'
      raise InputError(f'{problem}: give another file.') from error

  def _load(self, header: bytes, digest: str, settings: Mapping[str, int | bool]) -> None:
    """Locks the file, writes the header if new, and reads the stored plan and answers.

    Args:
      header: first line of a new file.
      digest: hash of the frames under review, which the file must state.
      settings: {field of `ReviewPlan`: value} that the user wants.

    Raises:
      InputError: The file is open in another server, is of another review, or has another value of
        a setting.
    """
    if not lock(self._file):
      raise InputError(
        f'{self.path} is open in another server: stop it, or give another --answers.'
      )
    content = self.path.read_bytes()
    if header.startswith(content):  # b'' in a new file, or a header that was cut short
      os.ftruncate(self._file, 0)
      self._size = 0
      self._write(header)
      flush_directory(self.path.parent)
    self.plan, self.answers = read(self.path, digest)
    for key, value in settings.items():
      stored = vars(self.plan)[key]
      if value != stored:
        problem = f'--{key}={value}, but {self.path} was begun with {stored}'
        raise InputError(f'{problem}: leave the flag out, or give another --answers.')
    self._size = self.path.read_bytes().rfind(b'\n') + 1  # without an incomplete last line
    os.ftruncate(self._file, self._size)

  def __enter__(self) -> AnswerLog:
    """Returns the log itself."""
    return self

  def __exit__(self, *_: object) -> None:
    """Closes the file, which also unlocks it."""
    os.close(self._file)

  def append(self, answer: Answer) -> None:
    """Writes one answer to disk; if an OSError is raised, the file is unchanged."""
    self._write(_encoded(answer.to_json()))

  def _write(self, line: bytes) -> None:
    """Appends a line to the file on disk; if an error is raised, the file is unchanged."""
    try:
      if os.write(self._file, line) != len(line):
        raise OSError(f'{self.path} took only a part of an answer: is the disk full?')
      os.fsync(self._file)
    except OSError:
      os.ftruncate(self._file, self._size)
      raise
    self._size += len(line)


def _encoded(entry: Mapping[str, object]) -> bytes:
  """Returns an entry as a line of JSON."""
  return (json.dumps(entry, ensure_ascii=False) + '\n').encode()


def read(file: Path, digest: str) -> tuple[ReviewPlan, list[Answer]]:
  """Reads the plan and the answers of a review, in the order of the file.

  An incomplete last line is skipped; its annotator never got a confirmation.

  Args:
    file: the file of answers.
    digest: hash of the frames under review, which the file must state.

  Raises:
    InputError: The file is missing or of another format, is about other frames, or has an invalid
      line.
  """
  if not file.is_file():
    raise InputError(f'there is no file of answers {file}: give the one the review wrote.')
  header, *lines = file.read_bytes().split(b'\n')
  lines = lines[:-1]  # what follows the last line break is empty or an incomplete line
  plan, answers = _plan(file, header, digest), []
  for number, line in enumerate(lines, start=2):  # line 1 is the header
    try:
      answers.append(Answer.from_json(json_files.parse(line, title='the line')))
    except InputError as error:
      problem = f'{file}, line {number}, cannot be read ({error})'
      fix = 'Correct or remove the line; all others are whole.'
      raise InputError(f'{problem}. {fix}') from error
  return plan, answers


def _plan(file: Path, line: bytes, digest: str) -> ReviewPlan:
  """Parses the plan of a review from the first line of a file of answers.

  Args:
    file: the file of answers, for messages.
    line: JSON {'format', 'version', 'metadata', 'plan'}, where 'metadata' is the hash of the frames
      under review.
    digest: hash that the line must state.

  Raises:
    InputError: The line is not from a file of answers, or states another hash.
  """
  try:
    header = json_files.parse(line, 'the first line', {'plan?': PLAN})  # the plan may be missing
    plan = ReviewPlan(**header.get('plan', {}))
  except (InputError, TypeError):
    header, plan = {}, ReviewPlan()  # no header of this format: it is refused next
  if header.get('format') != FORMAT or header.get('version') != VERSION:
    raise InputError(
      f'{file} is no file of answers (its first line should say format '
      f'{FORMAT!r}, version {VERSION}): give another --answers.'
    )
  if header.get('metadata') != digest:
    raise InputError(
      f'{file} holds answers about other sets (its digest is {header.get("metadata")!r}, that of '
      f'--metadata {digest!r}): give the metadata the review began with, or another --answers.'
    )
  return plan
