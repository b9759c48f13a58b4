"""Predictions of a classifier on the frames of neighbor sets, from a file or from records.

A file is JSON, {frame path: [scores]}. Its scores are logits or probabilities, which are projected
differently onto coarser classes: the rules `sum` and `mean` add exp z of logits z, and p of
probabilities p, so that probabilities mistaken for logits make every class nearly equal. A frame
without a prediction, such as a frame without detections, has the scores [].
"""

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import special

from robustness.core import json_files
from robustness.core.errors import KEYS, InputError, SettingError, nearest
from robustness.core.paths import expanded
from robustness.evaluation.records import RecordsReader
from robustness.models import label_space
from robustness.models.label_space import LOGITS, PROBABILITIES, SCORES, project_scores
from robustness.video.columns import FPS, FRAME_TYPE, GROUP, LABEL, OFFSET, PATH, from_columns
from robustness.video.metadata import NeighborSets

AUTO = 'auto'
"""Setting that decides by the values of scores whether they are logits or probabilities."""
KINDS = (AUTO, *SCORES)
"""Kinds of scores that a user can state; 'auto' decides by their values."""
SUM_TOLERANCE = 0.01
"""Largest difference of a sum of probabilities from 1: files are often rounded to few digits."""
REFUSED, WRONG = UNPREDICTED = ('refused', 'wrong')
"""Treatments of frames without a prediction: an error, or counted as wrong."""
PREDICTION = 'prediction'
"""Array of records with the predicted class."""
OUTPUTS = ('output/unprojected_logits', 'output/logits')
"""Arrays of records that hold a classifier's scores, the preferred one first."""


def read(
  path: Path, frames: Sequence[str], widths: Sequence[int] = (), unpredicted: str = REFUSED
) -> np.ndarray:
  """Reads the scores of F frames from a JSON file, float64 [F, C]; other frames in it are ignored.

  Double precision keeps the order of scores in the file, and therefore the predicted class.

  Args:
    path: the file.
    frames: paths of the F frames.
    widths: admitted numbers C of scores per frame, such as (30, 1000); () admits any number.
    unpredicted: treatment of frames without scores: 'refused', or 'wrong', with which all their
      scores are −∞.

  Raises:
    InputError: a frame is missing, its scores are invalid, or the file cannot be read.
  """
  file = expanded(path)
  scores_of = json_files.read(file, advice='Give predictions as JSON, {frame: [scores]}.')
  missing = [frame for frame in frames if frame not in scores_of]
  if missing:
    raise InputError(
      f'{file}: predictions are missing for {len(missing)} of {len(frames)} frames, first '
      f'{missing[0]!r}. Give {{frame: [scores]}} for every frame of the sets.'
    )
  empty = [frame for frame in frames if scores_of[frame] == []]
  if empty and unpredicted == REFUSED:
    raise InputError(
      f'{file}: {len(empty)} of {len(frames)} frames have no scores, first {empty[0]!r}: '
      "config.unpredicted='wrong' counts them as wrong, if a detector found nothing in them."
    )
  # if no frame has scores, the first frame is refused
  predicted = [frame for frame in frames if scores_of[frame] != []] or list(frames)
  admitted = tuple(widths)
  for frame in predicted:
    _check_scores(scores_of[frame], f'{file}: frame {frame!r} has', admitted)
    admitted = (len(scores_of[frame]),)  # each frame has as many scores as the one before
  (num_scores,) = admitted
  try:
    # frames without scores get −∞ for all classes
    table = np.array([scores_of[frame] or [-np.inf] * num_scores for frame in frames], np.float64)
  except OverflowError as error:
    raise InputError(f'{file} has a score that no number of 64 bits is near ({error}).') from error
  # −∞ stands for a class without a score; another score of the frame must then be finite
  is_invalid = np.isnan(table) | (table == np.inf)
  has_scores = np.array([scores_of[frame] != [] for frame in frames])
  is_bad_frame = is_invalid.any(1) | (has_scores & ~np.isfinite(table).any(1))
  if is_bad_frame.any():
    row = int(np.argmax(is_bad_frame))
    column = int(np.argmax(is_invalid[row]))
    raise InputError(
      f'{file}: {int(is_bad_frame.sum())} of {len(frames)} frames have scores that are no finite '
      f'numbers, first {frames[row]!r}, class {column}: {table[row, column]}.'
    )
  return table


def _check_scores(scores: object, frame_has: str, admitted: Collection[int]) -> None:
  """Raises InputError unless the scores of a frame are a list of numbers of an admitted length.

  Args:
    scores: the scores, as read from JSON.
    frame_has: beginning of the message, such as "FILE: frame 'v/1.jpg' has".
    admitted: admitted numbers of scores; () admits any number.
  """
  if not isinstance(scores, list) or not scores:
    raise InputError(f'{frame_has} {scores!r}; give a list of scores.')
  if not {*map(type, scores)} <= {int, float}:
    raise InputError(f'{frame_has} a score that is no number.')
  if admitted and len(scores) not in admitted:
    expected = ' or '.join(map(str, sorted(admitted)))
    raise InputError(f'{frame_has} {len(scores)} scores; expected {expected}.')


def score_kind(scores: np.ndarray, frames: Sequence[str], stated: str, title: str) -> str:
  """Returns the kind of scores, 'logits' or 'probabilities'.

  Scores are probabilities if all are in [0, 1] and the scores of every frame sum to 1. They are
  logits if one is outside of [0, 1]. All other scores are of the kind `stated`.

  Args:
    scores: float [F, C], C scores for each of F frames, without NaN.
    frames: paths of the F frames, for messages.
    title: the file of the scores, for messages.
    stated: the kind that the user states, or 'auto'.

  Raises:
    InputError: the scores contradict `stated`, are percentages, or 'auto' cannot decide.
  """
  outside = (scores < 0) | (scores > 1 + 1e-6)  # [0, 1] up to rounding
  if stated == PROBABILITIES:
    if outside.any():
      row, column = np.argwhere(outside)[0].tolist()
      raise InputError(
        f'{title}: config.scores is {PROBABILITIES!r}, but {int(outside.any(1).sum())} of '
        f'{len(frames)} frames have scores outside of [0, 1], first {frames[row]!r}, class '
        f'{column}: {scores[row, column]:g}. Set config.scores to {LOGITS!r}, or correct the file.'
      )
    return PROBABILITIES
  sums = scores.sum(1)
  if outside.any():
    are_percentages = (scores >= 0).all() and (np.abs(sums / 100 - 1) <= SUM_TOLERANCE).all()
    if are_percentages:
      raise InputError(
        f'{title}: no score is negative and every frame sums to 100: these are percentages. Divide '
        'them by 100.'
      )
    return LOGITS
  uneven = np.abs(sums - 1) > SUM_TOLERANCE
  if not uneven.any():
    if stated == LOGITS:
      raise InputError(
        f'{title}: config.scores is {LOGITS!r}, but every score lies in [0, 1] and every frame '
        f"sums to 1: these are probabilities. Set config.scores to {PROBABILITIES!r} or '{AUTO}'."
      )
    return PROBABILITIES
  if stated == AUTO:
    row = int(np.argmax(uneven))
    raise InputError(
      f'{title}: every score lies in [0, 1], but {int(uneven.sum())} of {len(frames)} frames do '
      f'not sum to 1, first {frames[row]!r} with {sums[row]:.4g}: set config.scores to '
      f'{PROBABILITIES!r} or {LOGITS!r}.'
    )
  return LOGITS


class FramePredictions(NamedTuple):
  """Predictions of one classifier for F frames, in the order of `sets.frames`.

  Attributes:
    sets: the neighbor sets with the F frames.
    prediction: predicted class, int [F]; −1 for a frame without a prediction.
    confidence: probability of the predicted class among the classes of the sets, float [F]; 0 for a
      frame without a prediction.
  """

  sets: NeighborSets
  prediction: np.ndarray
  confidence: np.ndarray


def read_sets(records: RecordsReader) -> NeighborSets:
  """Returns the neighbor sets that the columns of records, one row per frame, describe."""
  names = records.read(0, 0).arrays  # names of all columns, from the first shard
  present = [name for name in (LABEL, GROUP, OFFSET, FRAME_TYPE, FPS) if name in names]
  columns = {name: records.column(name) for name in present}
  paths = records.column(PATH).tolist() if PATH in names else ()
  return from_columns(columns, paths, records.identity.get('classes', ()))


def _probabilities(scores: np.ndarray, kind: str) -> np.ndarray:
  """Returns the probability of each class [F, C] from scores of the kind 'logits' or
  'probabilities', normalised over the classes.
  """
  if kind != PROBABILITIES:
    return np.asarray(special.softmax(scores, axis=1))
  probabilities = scores.clip(0)  # a class without members has −∞
  tiny = np.finfo(probabilities.dtype).tiny  # no division by 0
  return probabilities / np.maximum(probabilities.sum(1, keepdims=True), tiny)


def read_predictions(records: RecordsReader, merge: str = '') -> FramePredictions:
  """Returns the predictions in records of the study `video_pm_k`.

  Args:
    records: the records, a row per frame.
    merge: rule that projects recorded scores onto a coarser label space, 'max', 'sum' or 'mean'; ''
      takes the rule that the run recorded, or 'max' if it recorded none.

  Raises:
    InputError: there are no scores, a score is NaN, or `merge` is set for scores that are not
      projected.
  """
  scores, kind = _scores_of_sets(records, merge)
  # recorded predictions are taken, unless `merge` asks for predictions by another rule
  is_recorded = PREDICTION in records.read(0, 0).arrays and not merge
  has_nan = np.isnan(scores).any(1)
  if has_nan.any() and not is_recorded:
    raise InputError(f'scores of row {int(has_nan.argmax())} hold NaN: no class is the largest.')
  is_unpredicted: np.ndarray = (scores == -np.inf).all(1)
  prediction = records.column(PREDICTION) if is_recorded else scores.argmax(1)
  prediction = np.where(is_unpredicted, -1, prediction)
  probabilities = _probabilities(np.where(is_unpredicted[:, None], 0, scores), kind)
  confidence = np.where(is_unpredicted, 0, probabilities[np.arange(len(scores)), prediction])
  return FramePredictions(read_sets(records), prediction, confidence.astype(np.float32))


def _scores_of_sets(records: RecordsReader, merge: str) -> tuple[np.ndarray, str]:
  """Returns recorded scores [F, C] for the C classes of the sets, and their kind.

  Scores of finer classes, such as ImageNet's 1000, are projected by the rule `merge`, see
  `read_predictions`. The kind is 'logits' or 'probabilities'.
  """
  names = records.read(0, 0).arrays  # names of all arrays, from the first shard
  classifier = records.identity['classifier']
  field = next((name for name in OUTPUTS if name in names), None)
  if field is None:
    raise InputError(f'{records.directory} holds no scores ({" or ".join(OUTPUTS)}).')
  scores, kind = records.column(field), classifier.get('scores', LOGITS)
  space_name = classifier.get('label_space', '')  # '' if the scores need no projection
  space = label_space.get(space_name) if space_name else None
  if space is not None and scores.shape[1] != len(space.class_names):
    return project_scores(scores, space, merge or classifier.get('merge', 'max'), kind), kind
  if merge:
    raise SettingError(
      KEYS.study.merge,
      merge,
      problem=f'but the {scores.shape[1]} recorded scores are of the classes of the sets already',
      fix="Leave it ''.",
    )
  return scores, kind


def transfer_to(
  records: RecordsReader, sets: NeighborSets, class_names: Sequence[str]
) -> tuple[NeighborSets, dict[str, np.ndarray], dict[str, object]]:
  """Looks up the recorded predictions for the F frames of other neighbor sets than a run measured.

  A run on candidate sets can thus be scored on the sets that passed the review.

  Args:
    records: records with predictions, a row per frame with its path.
    sets: the other neighbor sets; their frames are searched by path in the records.
    class_names: label l of `sets` stands for the class `class_names[l]`.

  Returns:
    * `sets`, with each label replaced by the number that its class has in `records`;
    * {array name: values}: the predicted classes `prediction` [F, 1] and the scores [F, 1,
      classes], of which `records` may lack one;
    * the identity of `records`, with the title and digest of `sets` in place of the original ones.

  Raises:
    InputError: the records have no paths, or lack a frame or a class.
  """
  names = records.read(0, 0).arrays  # names of all arrays, from the first shard
  if PATH not in names:
    raise InputError(
      f'{records.directory} holds no paths of frames, so that config.metadata and '
      'config.unreviewed have nothing to look them up by: run the study on frames '
      'on disk again, or leave both out.'
    )
  position = {path: row for row, path in enumerate(records.column(PATH).tolist())}
  missing = [frame for frame in sets.frames if frame not in position]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(sets.frames)} frames are not in {records.directory}, '
      f'first {missing[0]!r}: give records of a run on sets that hold them all, '
      'such as those before the review.'
    )
  rows = np.array([position[frame] for frame in sets.frames])
  recorded = [name for name in (PREDICTION, *OUTPUTS) if name in names]
  arrays = {name: records.column(name)[rows][:, None] for name in recorded}  # the axis of the view
  classes = records.identity.get('classes', ())
  labels = _relabelled(sets.labels, class_names, classes)
  relabelled = dataclasses.replace(sets, labels=labels, class_names=tuple(classes))
  data = {
    **records.identity.get('data', {}),
    'num_examples': len(sets.frames),
    'dataset': relabelled.title,
    'sets': relabelled.digest,
  }
  return relabelled, arrays, {**records.identity, 'data': data, 'sets': relabelled.digest}


def _relabelled(
  labels: np.ndarray, class_names: Sequence[str], classes: Sequence[str]
) -> np.ndarray:
  """Returns labels [F, L] with each label l replaced by the position of its class in `classes`.

  The class of l is `class_names[l]`, or str(l) beyond the names. Padding, −1, stays −1.

  Raises:
    InputError: a class is not in `classes`.
  """
  relabelled = labels.copy()
  for label in np.unique(labels[labels >= 0]).tolist():
    name = class_names[label] if label < len(class_names) else str(label)
    index = label_space.index_of_class(name, classes)
    if index is None:
      raise InputError(
        f'the sets have the class {name!r}, which is none of the {len(classes)} of '
        f'the records; {nearest(name, classes)}.'
      )
    relabelled[labels == label] = index
  return relabelled
