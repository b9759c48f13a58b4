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
UNPROJECTED, _ = OUTPUTS = ('output/unprojected_logits', 'output/logits')
"""Arrays of records that hold a classifier's scores, the preferred one first. Unprojected scores
are of the network's classes, before these are merged into coarser ones."""


def read(
  path: Path, frames: Sequence[str], widths: Sequence[int] = (), unpredicted: str = REFUSED
) -> np.ndarray:
  """Reads the scores of F video frames from a JSON file, float64 [F, C].

  Double precision keeps the order of scores in the file, and therefore the predicted class.

  Args:
    path: the file, {path of a frame: [C scores]}. It may contain further frames.
    frames: paths of the F frames.
    widths: valid numbers of scores per frame, such as (30, 1000); () accepts any number.
    unpredicted: what to do with a frame that has the scores []: 'refused' raises an error, 'wrong'
      sets all its scores to −∞.

  Raises:
    InputError: a frame is missing, its scores are invalid, or the file cannot be read.
  """
  file = expanded(path)
  scores_of = json_files.read(file, advice='Give predictions as JSON, {frame: [scores]}.')
  missing = [frame for frame in frames if frame not in scores_of]
  if missing:
    problem = f'{file}: predictions are missing for {len(missing)} of {len(frames)} frames'
    fix = 'Give {frame: [scores]} for every frame of the sets.'
    raise InputError(f'{problem}, first {missing[0]!r}. {fix}')
  empty = [frame for frame in frames if scores_of[frame] == []]
  if empty and unpredicted == REFUSED:
    raise InputError(
      f'{file}: {len(empty)} of {len(frames)} frames have no scores, first {empty[0]!r}: '
      "config.unpredicted='wrong' counts them as wrong, if a detector found nothing in them."
    )
  predicted = [frame for frame in frames if scores_of[frame] != []]
  if not predicted:
    raise InputError(f'{file}: frame {frames[0]!r} has []; give a list of scores.')
  valid_lengths = tuple(widths)
  for frame in predicted:
    _check_scores(scores_of[frame], f'{file}: frame {frame!r} has', valid_lengths)
    num_scores = len(scores_of[frame])
    valid_lengths = (num_scores,)  # all other frames must have this number
  no_prediction = [-np.inf] * num_scores
  try:
    scores = np.array([scores_of[frame] or no_prediction for frame in frames], np.float64)
  except OverflowError as error:
    raise InputError(f'{file} has a score that no number of 64 bits is near ({error}).') from error
  is_predicted = np.array([scores_of[frame] != [] for frame in frames])
  _check_finite(scores, is_predicted, frames, file)
  return scores


def _check_finite(
  scores: np.ndarray, is_predicted: np.ndarray, frames: Sequence[str], file: Path
) -> None:
  """Raises InputError if a score is NaN or ∞, or if a predicted frame has only scores of −∞.

  A single class may have the score −∞, which stands for a class without a score.

  Args:
    scores: float [F, C], scores of C classes for F frames.
    is_predicted: bool [F], whether the file has scores for each frame.
    frames: paths of the F frames, for the message.
    file: the file, for the message.
  """
  is_invalid = np.isnan(scores) | (scores == np.inf)
  is_bad_frame = is_invalid.any(1) | (is_predicted & np.isneginf(scores).all(1))
  if is_bad_frame.any():
    row = int(np.argmax(is_bad_frame))
    column = int(np.argmax(is_invalid[row]))  # 0 if all scores are −∞
    raise InputError(
      f'{file}: {int(is_bad_frame.sum())} of {len(frames)} frames have scores that are no finite '
      f'numbers, first {frames[row]!r}, class {column}: {scores[row, column]}.'
    )


def _check_scores(scores: object, frame_has: str, valid_lengths: Collection[int]) -> None:
  """Raises InputError unless a frame's scores are a list of numbers with a valid length.

  Args:
    scores: the scores, as read from JSON.
    frame_has: beginning of the message, such as "FILE: frame 'v/1.jpg' has".
    valid_lengths: valid numbers of scores; () accepts any number.
  """
  if not isinstance(scores, list):
    raise InputError(f'{frame_has} {scores!r}; give a list of scores.')
  if not {*map(type, scores)} <= {int, float}:
    raise InputError(f'{frame_has} a score that is no number.')
  if valid_lengths and len(scores) not in valid_lengths:
    expected = ' or '.join(map(str, sorted(valid_lengths)))
    raise InputError(f'{frame_has} {len(scores)} scores; expected {expected}.')


def score_kind(scores: np.ndarray, frames: Sequence[str], stated: str, title: str) -> str:
  """Decides whether scores are 'logits' or 'probabilities'.

  They are probabilities if all are in [0, 1] and sum to 1 on every frame, and logits if any is
  outside [0, 1]. In all other cases `stated` decides.

  Args:
    scores: float [F, C], C scores for each of F frames, without NaN.
    frames: paths of the F frames, for messages.
    stated: 'logits', 'probabilities' or 'auto', as set by the user.
    title: file of the scores, for messages.

  Raises:
    InputError: the scores contradict `stated`, are percentages, or are ambiguous with 'auto'.
  """
  is_outside = (scores < 0) | (scores > 1 + 1e-6)  # [0, 1] up to rounding
  if stated == PROBABILITIES:  # sums are not checked: `_probabilities` divides by them
    if is_outside.any():
      row, column = np.argwhere(is_outside)[0].tolist()
      raise InputError(
        f'{title}: config.scores is {PROBABILITIES!r}, but {int(is_outside.any(1).sum())} of '
        f'{len(frames)} frames have scores outside of [0, 1], first {frames[row]!r}, class '
        f'{column}: {scores[row, column]:g}. Set config.scores to {LOGITS!r}, or correct the file.'
      )
    return PROBABILITIES
  sums = scores.sum(1)
  if is_outside.any():
    sum_to_100 = np.abs(sums / 100 - 1) <= SUM_TOLERANCE
    if (scores >= 0).all() and sum_to_100.all():
      problem = f'{title}: no score is negative and every frame sums to 100: these are percentages'
      raise InputError(f'{problem}. Divide them by 100.')
    return LOGITS
  # all scores are in [0, 1]: if every frame sums to 1, they are probabilities
  sums_to_1 = np.abs(sums - 1) <= SUM_TOLERANCE
  if sums_to_1.all():
    if stated == LOGITS:
      raise InputError(
        f'{title}: config.scores is {LOGITS!r}, but every score lies in [0, 1] and every frame '
        f"sums to 1: these are probabilities. Set config.scores to {PROBABILITIES!r} or '{AUTO}'."
      )
    return PROBABILITIES
  if stated == AUTO:
    row = int(np.argmin(sums_to_1))
    raise InputError(
      f'{title}: every score lies in [0, 1], but {int((~sums_to_1).sum())} of {len(frames)} frames '
      f'do not sum to 1, first {frames[row]!r} with {sums[row]:.4g}: set config.scores to '
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
  """Reads neighbor sets back from the records of a run (its saved predictions and labels).

  Args:
    records: records with a row for each video frame.
  """
  names = records.read(0, 0).arrays  # names of all columns, from the first shard
  present = [name for name in (LABEL, GROUP, OFFSET, FRAME_TYPE, FPS) if name in names]
  columns = {name: records.column(name) for name in present}
  paths = records.column(PATH).tolist() if PATH in names else ()
  return from_columns(columns, paths, records.identity.get('classes', ()))


def _probabilities(scores: np.ndarray, kind: str) -> np.ndarray:
  """Converts scores [F, C] to class probabilities [F, C] that sum to 1 on each frame.

  Args:
    scores: scores of C classes for F frames.
    kind: 'logits' or 'probabilities'.
  """
  if kind != PROBABILITIES:
    return np.asarray(special.softmax(scores, axis=1))
  probabilities = scores.clip(0)  # a class without members has −∞
  tiny = np.finfo(probabilities.dtype).tiny  # no division by 0
  return probabilities / np.maximum(probabilities.sum(1, keepdims=True), tiny)


def read_predictions(records: RecordsReader, merge: str = '') -> FramePredictions:
  """Reads the predictions of a classifier for video frames from the records of an earlier run.

  Args:
    records: saved outputs of the study `video_pm_k`, with a row for each frame.
    merge: how to combine scores of ImageNet classes into a coarser class: 'max', 'sum' or 'mean'.
      '' uses the method of the run, or 'max' if it recorded none.

  Raises:
    InputError: there are no scores, a score is NaN, or `merge` is set although the recorded scores
      are of the final classes already.
  """
  scores, kind = _scores_of_sets(records, merge)
  if PREDICTION in records.read(0, 0).arrays and not merge:
    prediction = records.column(PREDICTION)
  else:  # `merge` may ask for another rule than the recorded predictions follow
    has_nan = np.isnan(scores).any(1)
    if has_nan.any():
      raise InputError(f'scores of row {int(has_nan.argmax())} hold NaN: no class is the largest.')
    prediction = scores.argmax(1)
  is_unpredicted: np.ndarray = (scores == -np.inf).all(1)
  prediction = np.where(is_unpredicted, -1, prediction)
  probabilities = _probabilities(np.where(is_unpredicted[:, None], 0, scores), kind)
  # for a prediction of −1 this reads the last class, which the next line replaces by 0
  of_prediction = probabilities[np.arange(len(scores)), prediction]
  confidence = np.where(is_unpredicted, 0, of_prediction)
  return FramePredictions(read_sets(records), prediction, confidence.astype(np.float32))


def _scores_of_sets(records: RecordsReader, merge: str) -> tuple[np.ndarray, str]:
  """Reads scores of the C classes of the neighbor sets, [F, C], from the records of a run.

  Args:
    records: saved outputs of a classifier, with a row for each of F frames.
    merge: how to combine scores of finer classes, such as ImageNet's 1000: 'max', 'sum' or 'mean'.
      '' uses the method of the run, or 'max' if it recorded none.

  Returns:
    The scores, and their kind: 'logits' or 'probabilities'.
  """
  names = records.read(0, 0).arrays  # names of all arrays, from the first shard
  classifier = records.identity['classifier']
  recorded = [name for name in OUTPUTS if name in names]
  if not recorded:
    raise InputError(f'{records.directory} holds no scores ({" or ".join(OUTPUTS)}).')
  scores = records.column(recorded[0])  # preferably of classes that are not merged yet
  kind = classifier.get('scores', LOGITS)
  space_name = classifier.get('label_space', '')  # '' if the scores need no projection
  if space_name:
    space = label_space.get(space_name)
    if scores.shape[1] != len(space.class_names):  # scores of finer classes
      rule = merge or classifier.get('merge', 'max')
      return project_scores(scores, space, rule, kind), kind
  if merge:
    problem = f'but the {scores.shape[1]} recorded scores are of the classes of the sets already'
    raise SettingError(KEYS.study.merge, merge, problem=problem, fix="Leave it ''.")
  return scores, kind


def transfer_to(
  records: RecordsReader, sets: NeighborSets, class_names: Sequence[str]
) -> tuple[NeighborSets, dict[str, np.ndarray], dict[str, object]]:
  """Looks up saved predictions for the frames of neighbor sets other than the evaluated ones.

  For instance, predictions on all candidate sets can be scored on the sets that passed a human
  review, without running the classifier again.

  Args:
    records: saved outputs of a classifier, with a row and a path for each frame.
    sets: the other neighbor sets, with F frames. All their paths must be in `records`.
    class_names: class names in the order of the labels of `sets`.

  Returns:
    A tuple of

    * `sets`, with labels renumbered to the class order of `records`;
    * the predictions, {array name: values}: the predicted classes [F, 1] and the scores [F, 1,
      classes], if `records` has them;
    * the description of `records` (their `identity`), with the title and digest of `sets`.

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
  arrays = {}
  for name in (PREDICTION, *OUTPUTS):
    if name in names:
      arrays[name] = records.column(name)[rows, None]  # [F, 1, ...], with an axis of one view
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
  labels: np.ndarray, class_names: Sequence[str], new_class_names: Sequence[str]
) -> np.ndarray:
  """Renumbers labels from one list of classes to another; padding, −1, is unchanged.

  Args:
    labels: int [F, L], indices in `class_names`. The class of an index beyond the list is its
      decimal text.
    class_names: classes that `labels` refer to.
    new_class_names: classes that the result refers to.

  Raises:
    InputError: a class is not in `new_class_names`.
  """
  relabelled = labels.copy()
  for label in np.unique(labels[labels >= 0]).tolist():
    name = class_names[label] if label < len(class_names) else str(label)
    new_label = label_space.index_of_class(name, new_class_names)
    if new_label is None:
      raise InputError(
        f'the sets have the class {name!r}, which is none of the {len(new_class_names)} of '
        f'the records; {nearest(name, new_class_names)}.'
      )
    relabelled[labels == label] = new_label
  return relabelled
