"""Scoring of existing predictions on neighbor sets, without a classifier.

Predictions are files of scores, or the records of an earlier run. `config.predictions` names these
files, and `config.metadata` the folder of the neighbor sets. Files are converted to records, from
which the study `video_pm_k` computes its estimates.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from absl import logging

from robustness.core.errors import InputError
from robustness.core.paths import label_and_path
from robustness.core.settings import check_name, choice, require
from robustness.core.typing import Facts
from robustness.evaluation import provenance
from robustness.evaluation.failures import class_name
from robustness.evaluation.layout import Layout
from robustness.evaluation.records import HEADER, Records, RecordsReader
from robustness.evaluation.study import Evaluation, Scored, Study
from robustness.models import label_space
from robustness.models.label_space import LabelSpace
from robustness.results import WHICH_NUMBERS
from robustness.video import metadata, predictions
from robustness.video.columns import GROUP, LABEL, OFFSET, PATH, to_columns
from robustness.video.metadata import NeighborSets
from robustness.video.predictions import AUTO, REFUSED

BLOCK = 4096
"""Frames per shard of records."""
Review = Callable[[Sequence[Evaluation], Sequence[Evaluation]], Iterable[pd.DataFrame]]
"""Function that yields estimates of the effect of a review, from the records of all classifiers on
the sets before the review and on the sets after it.
"""


@dataclasses.dataclass(frozen=True)
class Rescoring:
  """Settings for scoring predictions that exist already, without running a classifier.

  These are the top-level keys of the config.

  Attributes:
    predictions: comma-separated paths, each a JSON file {frame: [scores]} or a folder of records
      from an earlier run. A classifier's label is the file name, or LABEL if written as LABEL=PATH.
    metadata: folder that lists the neighbor sets, labelled frames with similar frames; '' uses the
      sets of the records.
    unreviewed: folder of the neighbor sets before human review, to estimate the effect of the
      review. Predictions must cover the frames of these sets. '' skips the estimate.
    label_space: classes of the labels, for sets that do not name their classes. Scores of
      ImageNet's 1000 classes are merged into these classes by `config.study.merge`.
    scores: kind of the scores in files, 'logits' or 'probabilities'; 'auto' infers it from the
      values (`score_kind`).
    unpredicted: what to do with frames that have an empty list of scores: 'refused' raises an
      error, 'wrong' counts the frame as wrong.
    seed: seed that is recorded with the run.
  """

  predictions: str = ''
  metadata: str = ''
  unreviewed: str = ''
  label_space: str = 'imagenet_vid'
  scores: str = AUTO
  unpredicted: str = REFUSED
  seed: int = 0

  def __post_init__(self) -> None:
    """Raises InputError if `predictions` is empty, or `scores` or `unpredicted` is invalid.

    `predictions` names files of predictions, `scores` says what their numbers are, and
    `unpredicted` how frames without a prediction count.
    """
    valid = 'a JSON file of scores, or a folder of records'
    require(bool(self.predictions), 'config.predictions', self.predictions, valid)
    choice('config.scores', self.scores, predictions.KINDS)
    choice('config.unpredicted', self.unpredicted, predictions.UNPREDICTED)

  @property
  def paths(self) -> dict[str, Path]:
    """The path of each classifier's predictions, {label: JSON file or folder of records}.

    The label is LABEL in LABEL=PATH, or the file's name without its suffix.
    """
    paths: dict[str, Path] = {}
    for part in self.predictions.split(','):
      given_label, path = label_and_path(part)
      label = given_label or path.name.removesuffix('.json')
      check_name('config.predictions', label, is_key=False)
      if label in paths:
        raise InputError(
          f'config.predictions has two files of the label {label!r}, {paths[label]} and {path}: '
          f'write a label before each, as in {label}_1={paths[label]},{label}_2={path}.'
        )
      paths[label] = path
    return paths

  def evaluations(self, directory: Path) -> list[Evaluation]:
    """Returns the label and saved predictions (records) of each classifier.

    If `metadata` is set, the predictions for the frames of its neighbor sets are first written as
    new records. Otherwise `predictions` must name folders of records, which are used as they are.

    Args:
      directory: where new records are written, in a folder for each classifier.

    Raises:
      InputError: the predictions of two classifiers are for different frames.
    """
    if self.metadata:
      evaluations = self._evaluations_on(metadata.read(self.metadata), directory)
    else:
      valid = f'the folder that holds {metadata.SETS}'
      for path in self.paths.values():
        require(_is_records(path), 'config.metadata', self.metadata, valid)
      evaluations = [Evaluation(label, Records.open(path)) for label, path in self.paths.items()]
    _check_same_frames(evaluations)
    return evaluations

  def _evaluations_on(self, sets: NeighborSets, directory: Path) -> list[Evaluation]:
    """Saves the predictions of all classifiers for the frames of neighbor sets as records.

    Args:
      sets: the neighbor sets.
      directory: where records are written, in a folder for each classifier.

    Returns:
      The label and the records of each classifier.
    """
    logging.info('%s', sets.title)
    return [
      Evaluation(label, self._write_records(label, path, sets, directory / label))
      for label, path in self.paths.items()
    ]

  def _write_records(self, label: str, path: Path, sets: NeighborSets, folder: Path) -> Records:
    """Saves the predictions of a classifier for the frames of neighbor sets as records.

    Args:
      label: label of the classifier.
      path: JSON file of scores, or records of an earlier run that contain all frames of `sets`.
      sets: the neighbor sets.
      folder: where the records are written.
    """
    if sets.class_names:
      classes = sets.class_names
      space = label_space.coarse_space(classes)  # None if no known label space has these classes
    else:
      space = label_space.get(self.label_space)
      classes = space.class_names
    if _is_records(path):
      records = Records.open(path)
      transferred_sets, arrays, identity = predictions.transfer_to(records, sets, classes)
      return _write(folder, transferred_sets, arrays, identity)
    sets.check_labels(self.label_space, len(classes), 'config.label_space')
    scores = self._read_scores(path, sets, len(classes), space)
    classifier = {'label': label, 'predictions': str(path), **self._describe(scores, path, sets)}
    if space is not None and scores.shape[1] != len(classes):
      classifier['label_space'] = space.name  # the study merges the scores into its classes
    data = {'source': 'metadata', 'path': self.metadata, 'num_examples': len(sets.frames)}
    data['dataset'] = sets.title
    identity = {'classifier': classifier, 'data': data, 'classes': [*classes], 'sets': sets.digest}
    arrays = {predictions.UNPROJECTED: scores[:, None]}  # [F, 1, classes], with one view
    return _write(folder, sets, arrays, identity)

  def _read_scores(
    self, path: Path, sets: NeighborSets, num_classes: int, space: LabelSpace | None
  ) -> np.ndarray:
    """Reads the scores of a classifier for the F frames of neighbor sets, float64 [F, C].

    C is the number of classes of the sets, or of the finer classes that `space` merges.

    Args:
      path: JSON file of scores.
      sets: the neighbor sets.
      num_classes: number of classes of the sets.
      space: label space of these classes; None if it is not known.
    """
    valid_widths = [num_classes]
    if space is not None and space.source:  # the finer label space, such as ImageNet's
      valid_widths.append(len(label_space.get(space.source).class_names))
    return predictions.read(path, sets.frames, valid_widths, self.unpredicted)

  def _describe(self, scores: np.ndarray, path: Path, sets: NeighborSets) -> dict[str, object]:
    """Returns a description of a file's scores for the records: their kind and SHA-256.

    Frames without scores are logged, and their number is added to the description.

    Args:
      scores: float [F, C], scores of C classes for F frames; all −∞ for a frame without scores.
      path: the file.
      sets: neighbor sets with the F frames.
    """
    has_scores = ~np.isneginf(scores).all(1)
    frames = [sets.frames[row] for row in np.flatnonzero(has_scores)]
    kind = predictions.score_kind(scores[has_scores], frames, self.scores, str(path))
    logging.info('%s: scores are taken as %s (config.scores)', path, kind)
    facts: dict[str, object] = {'scores': kind}
    num_empty = len(scores) - len(frames)
    if num_empty:
      message = '%s: %d of %d frames have no scores and count as wrong'
      logging.warning(message, path, num_empty, len(scores))
      facts['frames_without_scores'] = num_empty
    return {**facts, 'sha256': hashlib.sha256(scores.tobytes()).hexdigest()}

  def scored(self, study: Study, review: Review, directory: Path) -> Scored:
    """Scores the predictions and returns the estimates of a study.

    Args:
      study: computes estimates from records, such as `video_pm_k`.
      review: called with the evaluations of all classifiers on the neighbor sets before and after
        human review; yields estimates of the effect of the review. Used if `unreviewed` is set.
      directory: where records are written.
    """
    evaluations = self.evaluations(directory)
    unknown_shape = 0, 0, 0  # (H, W, C) of the images, which predictions do not state
    findings = study.reduce(evaluations, unknown_shape)
    records = evaluations[0].records  # all records are on the same frames
    # Replaces the table of `study.reduce`, which describes the images: they are unknown here.
    comparable = provenance.comparability_in_words(study.differences(records, unknown_shape))
    # lines of a table: how images were perturbed, and whether published numbers are comparable
    explanations = {**study.shown_as, provenance.COMPARABLE: comparable}
    findings.tables[WHICH_NUMBERS] = provenance.table(explanations)
    if self.unreviewed:
      unreviewed_sets = metadata.read(self.unreviewed)
      if unreviewed_sets.digest == records.identity.get('sets'):
        raise InputError(
          f'config.unreviewed, {self.unreviewed}, holds the sets that are scored: give the sets '
          'before the review. `robustness neighbor_sets import --unreviewed` writes YTBB-Robust’s.'
        )
      before = self._evaluations_on(unreviewed_sets, directory / 'unreviewed')
      findings.estimates.extend(review(before, evaluations))
    return Scored(evaluations, findings, {**study.describe(), **dataclasses.asdict(self)})


def _check_same_frames(evaluations: Sequence[Evaluation]) -> None:
  """Raises InputError unless all classifiers have records of the same frames with equal labels.

  Args:
    evaluations: for each classifier, its records of video frames: columns with the neighbor sets of
      each frame, its distance from the anchor (labelled frame), its label and possibly its path.
  """
  first, *remaining = evaluations
  compared = [GROUP, OFFSET, LABEL]
  if PATH in first.records.read(0, 0).arrays:  # the columns of the first shard
    compared.append(PATH)
  for other in remaining:
    for name in compared:
      if not np.array_equal(_column(first.records, name), _column(other.records, name)):
        raise InputError(
          f'{first.label} and {other.label} were recorded on different frames '
          f'(their column {name!r} differs): score them in separate runs.'
        )


def _column(records: RecordsReader, name: str) -> np.ndarray:
  """Returns a column of records, with labels as class names.

  Two records can number the same classes differently, so labels are compared as text, such as
  "['cat', 'dog']" for a frame with two labels. Other columns are unchanged.
  """
  values = records.column(name)
  if name != LABEL:
    return values
  classes = [*map(label_space.comparable_spelling, records.identity.get('classes', ()))]
  labels_of_frames = values.reshape(len(values), -1).tolist()  # [F, L], padded with −1
  texts = []
  for labels in labels_of_frames:
    names = [class_name(label, classes) for label in labels if label >= 0]
    texts.append(repr(sorted(names)))
  return np.array(texts)


def _is_records(path: Path) -> bool:
  """Returns whether a path is a folder of records (saved predictions of a run), not a file.

  Raises:
    InputError: the path is a folder that holds no records.
  """
  if path.is_dir() and not (path / HEADER).is_file():
    raise InputError(f'{path} holds no records: give WORKDIR/records/CLASSIFIER, or a JSON file.')
  return path.is_dir()


def _write(
  directory: Path, sets: NeighborSets, fields: Mapping[str, np.ndarray], identity: Facts
) -> Records:
  """Saves predictions for the F frames of neighbor sets as records and returns these.

  Existing files are not written again, so that an interrupted call can be repeated.

  Args:
    directory: folder of the records.
    sets: the neighbor sets.
    fields: {array name: values [F, 1, ...]}. The second axis is for perturbations of a frame, of
      which predictions have only one, the unperturbed frame.
    identity: description of the classifier, the data and the classes.
  """
  num_frames = len(sets.frames)
  block_rows = min(BLOCK, num_frames)
  layout = Layout(num_rows=num_frames, num_views=1, block_rows=block_rows, chunk_views=1)
  records = Records(directory, layout, identity)
  columns = {
    **to_columns(sets),
    'example_id': np.arange(num_frames, dtype=np.int32),
    PATH: np.array(sets.frames),
    **fields,
  }
  for block in records.missing():
    part = records.layout.rows(block)
    records.write(block, 0, {name: values[part] for name, values in columns.items()})
  return records
