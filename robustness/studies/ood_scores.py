"""Scores that separate images of known classes from other images, computed from finished runs.

A run of this study records logits and features on one set of images, and reports the confidence. A
config with `predictions` then reads several such workdirs, of test images and of images of no known
class (out of distribution, OOD). It measures how well each score of
`robustness.estimates.out_of_distribution` separates the two, from the records alone.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded
from robustness.core.registry import are_distinct_and_some, is_reference, part_name, setting, word
from robustness.core.rows import UNKNOWN_CLASSES
from robustness.core.settings import differing_keys
from robustness.estimates import out_of_distribution as ood
from robustness.estimates.facets import Facet
from robustness.estimates.fitted_scores import SCORES, FitData, LastLayer, Recording, Score, find
from robustness.estimates.means import Row, estimate_row, table_of_rows
from robustness.estimates.out_of_distribution import ENERGY, MAX_LOGIT, MSP, POSITIVES
from robustness.estimates.quantity import ACCURACY, AMOUNT, SHARE, Quantity
from robustness.evaluation.outcomes import Evaluation, Recorded, versions
from robustness.evaluation.provenance import IMAGE_DIGEST
from robustness.evaluation.study import Findings, Scored, ScoresPredictions
from robustness.workdirs.finished_workdir import FinishedStudy, WorkdirPredictions, read_task

_by_score = functools.partial(Quantity, headline=True, by=('id_set', 'ood_set', 'score'))
AUROC = _by_score('auroc', 'area under the ROC curve', SHARE, 'higher')
AUPR = _by_score('aupr', 'area under the precision-recall curve', SHARE, 'higher')
FPR95 = _by_score('fpr95', 'false positives at 95 % recall', SHARE, 'lower')
CONFIDENCE = Quantity(
  'mean_confidence',
  'mean confidence',
  AMOUNT,
  low=0,
  high=1,
  statistic=lambda fields: fields['confidence'].astype(float),
)
OOD_SET = Facet('ood_set', 'images of no known class', '', False, 'against {}', 'sets of images')
ID_SET = Facet('id_set', 'images of known classes', '', False, 'from {}', 'sets of images')
FEATURES, ID = 'features', 'example_id'
"""Names of the recorded features and of the column with the number of the image."""
TEST, SHIFTED = 'test images', 'test and shifted images'
"""Values of the facet `id_set`, the images of known classes."""
MAX_SHARED = 0.02
"""Largest share of the scored images that may be among the training images that scores are fitted
to. A few are allowed, because data sets have some images twice and digests may be equal by chance.
"""
NOTE_ON_VERSIONS = 'versions of one image in two data sets count as two: their order may differ'
"""Note on estimates for which versions of one image count as independent."""

Runs = Mapping[str, FinishedStudy]
"""Finished studies by the path of their workdirs."""
Values = Mapping[str, np.ndarray]
"""The values of each score on the N images of a run, [N], and their numbers under `ID`."""


@dataclasses.dataclass(frozen=True)
class Workdirs(WorkdirPredictions):
  """The top level of a config that compares finished workdirs of this study.

  Attributes:
    predictions: the workdir of the test images; `task` names one task of all workdirs, if they hold
      batteries.
    out_of_distribution: workdirs of images of no known class.
    near: further workdirs of images of no known class, from sets that resemble the known classes,
      as OpenOOD 1.5 groups them. Several sets get a mean over the group.
    far: the same, from sets that do not resemble them.
    shifted: workdirs of corrupted or otherwise shifted images of the known classes. Estimates are
      then made for test images, and for test and shifted images together (full-spectrum).
    bank: the workdir of training images that scores are fitted to.
    held_out: the workdir of other images of the known classes, which OpenOOD 1.5 fits 'react' and
      'klm' to; '' uses the bank.
  """

  out_of_distribution: tuple[str, ...] = ()
  near: tuple[str, ...] = ()
  far: tuple[str, ...] = ()
  shifted: tuple[str, ...] = ()
  bank: str = ''
  held_out: str = ''

  @property
  def unknown(self) -> tuple[str, ...]:
    """All workdirs of images of no known class: out_of_distribution, near and far."""
    return (*self.out_of_distribution, *self.near, *self.far)


@dataclasses.dataclass(frozen=True)
class OodScores(ScoresPredictions):
  """A study of scores for images of no known class; attributes are its settings.

  Attributes:
    scores: names of scores: 'msp', 'max_logit', 'energy', 'gen', 'knn', 'mds', 'rmds', 'vim',
      'react', 'ash', 'klm' (formulas in `robustness.estimates.out_of_distribution`), or
      `FILE.py:NAME` for an `OodScore` of `robustness.estimates.fitted_scores`.
    positives: the images that AUPR and FPR95 count as positive: 'ood', images of no known class, as
      in OpenOOD 1.5, or 'id', images of known classes.
    neighbours: K of 'knn', which scores by the distance to the K-th nearest training feature.
    directions: D of 'vim', the number of principal directions of the features, below the number of
      features.
    percentile: in (0, 100). 'react' clips features at this percentile of all features of the
      held-out images; 'ash' keeps the features of an image above this percentile of its own.
    exponent: γ of 'gen', the power in the generalised entropy.
    largest: M of 'gen', how many of the largest probabilities it sums over.
  """

  title = 'Images of no known class'
  needs_labels = False
  papers = ('zhang2023openood',)
  outputs = ('logits', FEATURES)
  lists_failures = False
  prediction_settings = Workdirs
  described_facets = (OOD_SET, ID_SET)
  quantities = (AUROC, AUPR, FPR95, dataclasses.replace(ACCURACY, headline=True), CONFIDENCE)

  scores: tuple[str, ...] = setting(
    (MSP, MAX_LOGIT, ENERGY),
    'not empty, of distinct names',
    lambda x: are_distinct_and_some([*map(part_name, x)]),
  )
  positives: str = word('ood', POSITIVES)
  neighbours: int = setting(50, 'at least 1', lambda x: x >= 1)
  directions: int = setting(256, 'at least 1', lambda x: x >= 1)
  percentile: float = setting(90.0, 'above 0 and below 100', lambda x: 0 < x < 100)
  exponent: float = setting(0.1, 'above 0 and finite', lambda x: 0 < x < np.inf)
  largest: int = setting(100, 'at least 1', lambda x: x >= 1)

  def __post_init__(self) -> None:
    """Raises InputError for a setting that is not valid.

    This includes a setting that is not at its default and only concerns scores that `scores` does
    not list, such as `neighbours` without 'knn'.
    """
    super().__post_init__()
    self.choose('scores', (*SCORES, *filter(is_reference, self.scores)))
    for key in dict.fromkeys(key for score in SCORES.values() for key in score.settings):
      scores_with_it = [name for name, score in SCORES.items() if key in score.settings]
      is_used = any(score in self.scores for score in scores_with_it)
      valid = f'left out without {" and ".join(map(repr, scores_with_it))} in {self.key("scores")}'
      self.require(is_used or getattr(self, key) == getattr(type(self), key), key, valid)

  @property
  def references(self) -> tuple[str, ...]:
    """The scores in files of the user, `FILE.py:NAME`; see `Part`."""
    return self.scores

  @property
  def recording(self) -> dict[str, Any]:
    """The name and the recorded outputs; all scores are computed from the same records."""
    return {'name': self.name, 'outputs': list(self.outputs)}

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields the mean confidence, and the accuracy on images of known classes."""
    data = recorded.evaluations[0].records.identity['data']
    if data.get('labels') != UNKNOWN_CLASSES:
      yield self.means(ACCURACY, recorded)
    yield self.means(CONFIDENCE, recorded)

  def score_predictions(self, workdirs: Workdirs, folder: pathlib.Path) -> Scored:
    """Returns AUROC, AUPR and FPR95 of each score from the records of finished workdirs.

    They measure how well a score separates the test images from images of no known class. The
    scores with `is_fitted` are fitted to the bank, a run on training images; 'react' and 'klm' are
    fitted to held-out images instead, if there are any. `folder` is unused, because no records are
    written.

    Raises:
      InputError: there are no images of no known class, a bank is missing or unused, or workdirs
        cannot be combined.
    """
    if not workdirs.unknown:
      raise InputError(
        'config.out_of_distribution is empty: give the workdirs of runs on images of no known '
        'class, as in --config.out_of_distribution=WORKDIR,WORKDIR, or under near and far.'
      )
    needs_bank = any(find(name, self.key('scores')).is_fitted for name in self.scores)
    if needs_bank != bool(workdirs.bank) or (workdirs.held_out and not workdirs.bank):
      fitted = ', '.join(repr(name) for name, score in SCORES.items() if score.is_fitted)
      raise InputError(
        f'config.bank is {workdirs.bank!r} and {KEYS.study.scores} {self.scores}: '
        f'{fitted} need the workdir of a run on training images, and nothing else does.'
      )
    test = _read(workdirs.predictions, workdirs.task)
    # {path: run} on images of no known class, on shifted images, and on images to fit scores to.
    unknown = {path: _read(path, workdirs.task, test) for path in workdirs.unknown}
    shifted = {path: _read(path, workdirs.task, test) for path in workdirs.shifted}
    bank_paths = {'bank of features': workdirs.bank, 'held-out images': workdirs.held_out}
    banks = {path: _read(path, workdirs.task, test) for path in bank_paths.values() if path}
    known_runs = {workdirs.predictions: test, **shifted}
    scored = {workdirs.predictions: test, **unknown, **shifted}
    _check_known(workdirs, scored | banks)
    for path, bank in banks.items():
      _refuse_shared(path, bank, scored)
    rows: list[Row] = []
    for evaluation in test.evaluations:
      rows += self._separations(evaluation.label, workdirs, known_runs, unknown, banks)
    runs_by_use = {
      TEST: test,
      **{f'{path}, shifted': run for path, run in shifted.items()},
      **{f'{path}, no known class': run for path, run in unknown.items()},
      **{name: banks[path] for name, path in bank_paths.items() if path},
    }
    data = {use: dict(run.results.data) for use, run in runs_by_use.items()}
    settings = {**self.describe(), **dataclasses.asdict(workdirs)}
    return Scored(test.evaluations, Findings(estimates=[table_of_rows(rows)]), settings, data)

  def _separations(
    self, label: str, workdirs: Workdirs, known_runs: Runs, unknown: Runs, banks: Runs
  ) -> Iterator[Row]:
    """Yields how well each score of a classifier separates images of known and of no known class.

    Args:
      label: label of the classifier.
      workdirs: the settings.
      known_runs: {path: run} on images of known classes: test images first, then shifted ones.
      unknown: {path: run} on images of no known class, in the order of `workdirs.unknown`.
      banks: {path: run} on the images that scores are fitted to: training images and then held-out
        images, training images for both, or none.
    """
    runs = list(known_runs.values())
    # Without a bank, the test images stand in for it, and none of the scores is fitted to it. A
    # single run is both the bank and the held-out images.
    recordings = [_recording(bank, label) for bank in [*banks.values()] or runs[:1]]
    bank, held_out = recordings[0], recordings[-1]

    @functools.cache
    def last_layer() -> LastLayer:
      """Returns the last layer of the network, which only 'vim', 'react' and 'ash' need."""
      return LastLayer.solved(bank, (_recording(run, label) for run in [*runs, *unknown.values()]))

    data = FitData(bank, held_out, last_layer)
    scores = {name: find(name, self.key('scores')).fit(self, data) for name in self.scores}
    names = dict(zip(workdirs.unknown, _names(workdirs.unknown), strict=True))  # {path: name}
    # The values of scores, by set of images of no known class, and by run on known classes.
    by_set = {names[path]: _values(run, label, scores) for path, run in unknown.items()}
    by_run = _with_ids_apart(runs, [_values(run, label, scores) for run in runs])
    if len(runs) == 1:
      yield from self._compare(label, workdirs, by_run, by_set, facets={})
      return
    yield from self._compare(label, workdirs, by_run[:1], by_set, {'id_set': TEST})
    note = NOTE_ON_VERSIONS if len({*map(_data_set, runs)}) > 1 else ''
    yield from self._compare(label, workdirs, by_run, by_set, {'id_set': SHIFTED}, note)

  def _compare(
    self,
    label: str,
    workdirs: Workdirs,
    by_run: Sequence[Values],
    by_set: Mapping[str, Values],
    facets: Mapping[str, str],
    note: str = '',
  ) -> Iterator[Row]:
    """Yields AUROC, AUPR and FPR95 of each score for each set of images of no known class.

    Args:
      label: label of the classifier.
      workdirs: the settings; several sets in `near`, or in `far`, get a mean.
      by_run: values of the scores on images of known classes, from one or several runs.
      by_set: {name of a set of images of no known class: values of the scores}.
      facets: further facets of the rows.
      note: note on all rows; '' for none.
    """
    names = dict(zip(workdirs.unknown, by_set, strict=True))  # {path: name of the set}
    means = {  # {name of a mean: the sets that it is over}
      f'mean of {len(paths)} {group} sets': [names[path] for path in paths]
      for group, paths in (('near', workdirs.near), ('far', workdirs.far))
      if len(paths) > 1
    }
    ids = np.concatenate([values[ID] for values in by_run])
    for score in self.scores:
      known_scores = np.concatenate([values[score] for values in by_run])
      unknown_scores = {name: (values[score], values[ID]) for name, values in by_set.items()}
      separations = ood.separations(
        known_scores, ids, unknown_scores, means, self.positives, self.confidence, workdirs.seed
      )
      for name, estimates in separations.items():
        all_facets = {'score': part_name(score), 'ood_set': name, **facets}
        for quantity, estimate in zip((AUROC, AUPR, FPR95), estimates, strict=True):
          notes = '; '.join(filter(None, (estimate.note, note)))
          noted = dataclasses.replace(estimate, note=notes)
          yield estimate_row(label, '', quantity, all_facets, noted, self.confidence)


def _recording(task: FinishedStudy, label: str) -> Recording:
  """Returns the logits, features and class indices of all images that a run recorded.

  Logits are of the classes that the classifier can predict; the others are −∞. `label` is the
  label of the classifier.
  """
  column = _evaluation(task, label).records.column
  logits = column('output/logits')
  can_predict = ~np.isneginf(logits).all(0)
  return Recording(logits[:, can_predict], column(f'output/{FEATURES}'), column('label'))


def _values(task: FinishedStudy, label: str, scores: Mapping[str, Score]) -> Values:
  """Returns {name of a score: its values [N]} of a classifier on the N images of a run.

  The key `ID` has the number of each image, [N]; versions of one image have the same number.
  """
  records, recording = _evaluation(task, label).records, _recording(task, label)
  images = versions(records)  # None if no two rows are versions of one image
  ids = records.column(ID) if images is None else images
  return {ID: ids, **{name: score(recording) for name, score in scores.items()}}


def _with_ids_apart(tasks: Sequence[FinishedStudy], by_run: Sequence[Values]) -> list[Values]:
  """Returns the values of each run with ids that differ between images of different data sets.

  Equal ids are one image only within one data set.
  """
  data_sets = list(dict.fromkeys(map(_data_set, tasks)))
  # Ids are below 2⁴⁰, so that adding multiples of it keeps the ids of data sets apart.
  first_ids = [data_sets.index(_data_set(task)) << 40 for task in tasks]
  return [
    {**values, ID: values[ID].astype(np.int64) + first_id}
    for values, first_id in zip(by_run, first_ids, strict=True)
  ]


def _read(path: str, task_name: str, first: FinishedStudy | None = None) -> FinishedStudy:
  """Returns the study of a finished workdir, or of its task `task_name` if that is not ''.

  `first` is the study of another workdir that must have the same classifiers, or None.

  Raises:
    InputError: the workdir is of another study, or has other classifiers than `first`.
  """
  task = read_task(path, task_name)
  if not isinstance(task.study, OodScores):
    raise InputError(
      f'{path} is of the study {task.study.name}, which keeps no logits and features: give a '
      'workdir of configs/ood_scores.py.'
    )
  if first is None:
    return task
  for expected in first.evaluations:
    actual = _evaluation(task, expected.label)
    classifier = {'classifier': expected.records.identity['classifier']}
    other = {'classifier': actual.records.identity['classifier']}
    if lines := differing_keys(classifier, other):
      raise InputError(
        f'{path} and {first.folder} have other classifiers under '
        f'{expected.label!r}: {"; ".join(lines)}. Run the same on both.'
      )
  return task


def _check_known(workdirs: Workdirs, tasks: Mapping[str, FinishedStudy]) -> None:
  """Raises InputError for a workdir that is listed twice, or has the wrong kind of images.

  Runs of `workdirs.unknown` must be on images of no known class, all others on images of known
  classes. `tasks` are the studies of all workdirs by path.
  """
  paths = [workdirs.predictions, *workdirs.shifted, *workdirs.unknown]
  paths += [path for path in (workdirs.bank, workdirs.held_out) if path]
  folders = [expanded(path).resolve() for path in paths]
  for path, folder in zip(paths, folders, strict=True):
    if folders.count(folder) > 1:
      raise InputError(f'{path} is given twice: each workdir is of other images.')
    labels = tasks[path].evaluations[0].records.identity['data'].get('labels')
    must_be_unknown = path in workdirs.unknown
    if (labels == UNKNOWN_CLASSES) != must_be_unknown:
      kind = 'no known class' if must_be_unknown else 'known classes'
      raise InputError(
        f'{path} must be of images of {kind}: give a run with '
        f'{KEYS.data.known_classes}={not must_be_unknown}.'
      )


def _refuse_shared(path: str, bank: FinishedStudy, tasks: Mapping[str, FinishedStudy]) -> None:
  """Raises InputError if more than 2 % of a run's images (`MAX_SHARED`) are in a bank.

  The feature in the bank that is nearest to such an image would be its own. `bank` is the run with
  the workdir `path` that scores are fitted to, and `tasks` are {path: scored run}.
  """
  in_bank = bank.evaluations[0].records.column(IMAGE_DIGEST)
  for other, task in tasks.items():
    digests = task.evaluations[0].records.column(IMAGE_DIGEST)
    shared = int(np.isin(digests, in_bank).sum())
    if shared > MAX_SHARED * len(digests):
      raise InputError(
        f'{shared} of the {len(digests)} images of {other} are in config.bank, {path}: give a run '
        'on training images.'
      )


def _evaluation(task: FinishedStudy, label: str) -> Evaluation:
  """Returns the records of a classifier in a run; raises InputError if the run does not have it."""
  for evaluation in task.evaluations:
    if evaluation.label == label:
      return evaluation
  labels = ', '.join(e.label for e in task.evaluations)
  raise InputError(f'{task.folder} has no classifier {label!r}; it has {labels}.')


def _data_set(task: FinishedStudy) -> tuple[object, str]:
  """Returns what identifies the data set of a run: its source, and its name, file or folder.

  Equal example ids are the same image only within a data set.
  """
  data = task.evaluations[0].records.identity['data']
  # The name without a TFDS config, which follows a slash.
  name, path = str(data.get('name', '')).partition('/')[0], str(data.get('path', ''))
  # Data without a name are identified by their absolute path, or '' if they have none.
  return data.get('source'), name or (str(expanded(path).resolve()) if path else '')


def _names(paths: Sequence[str]) -> list[str]:
  """Returns the last parts of folder paths, or the paths unchanged if two last parts are equal."""
  names = [expanded(path).resolve().name for path in paths]
  return names if len(set(names)) == len(names) else list(paths)
