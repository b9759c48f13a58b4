"""Scores that separate images of known classes from other images, computed from finished runs.

A run of this study records logits and features on one set of images, and reports the confidence. A
config with `predictions` then reads several such workdirs, of test images and of images of no known
class (out of distribution, OOD). It measures how well each score of
`robustness.estimates.out_of_distribution` separates the two, from the records alone.
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded
from robustness.core.registry import are_distinct_and_some, setting, word
from robustness.core.rows import UNKNOWN_CLASSES
from robustness.core.settings import differing_keys, require
from robustness.core.user_code import is_reference, part_name
from robustness.estimates import out_of_distribution as ood
from robustness.estimates.facets import Facet
from robustness.estimates.fitted_scores import SCORES, FitData, LastLayer, Recording, Score, find
from robustness.estimates.means import Measured
from robustness.estimates.out_of_distribution import ENERGY, MAX_LOGIT, MSP, POSITIVES
from robustness.estimates.quantity import ACCURACY, SHARE, Quantity, declare_amount
from robustness.evaluation.outcomes import Evaluation, Recorded, versions
from robustness.evaluation.provenance import IMAGE_DIGEST
from robustness.evaluation.study import Findings, Scored, ScoresPredictions
from robustness.workdirs.finished_workdir import FinishedStudy, WorkdirPredictions, read_task

_by_score = functools.partial(Quantity, headline=True, by=('id_set', 'ood_set', 'score'))
AUROC = _by_score('auroc', 'area under the ROC curve', SHARE, 'higher')
AUPR = _by_score('aupr', 'area under the precision-recall curve', SHARE, 'higher')
FPR95 = _by_score('fpr95', 'false positives at 95 % recall', SHARE, 'lower')
CONFIDENCE = declare_amount(
  'mean_confidence',
  'mean confidence',
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
  """Folders (workdirs) of finished runs that out-of-distribution detection is computed from.

  Each run has recorded the logits and features of one set of images.

  Attributes:
    predictions: the run on in-distribution test images. `task` selects a study if the runs have
      several.
    out_of_distribution: runs on out-of-distribution images.
    near: further runs on out-of-distribution images that resemble the known classes, as in OpenOOD
      1.5. Several sets also get a mean.
    far: further runs on out-of-distribution images that do not resemble the known classes. Several
      sets also get a mean.
    shifted: runs on shifted, for instance corrupted, images of the known classes. Results are then
      for test images alone, and for test and shifted images together (full-spectrum).
    bank: the run on training images, which scores are fitted to.
    held_out: the run on other images of the known classes, which 'react' and 'klm' are fitted to,
      as in OpenOOD 1.5; '' uses the bank.
  """

  out_of_distribution: tuple[str, ...] = ()
  near: tuple[str, ...] = ()
  far: tuple[str, ...] = ()
  shifted: tuple[str, ...] = ()
  bank: str = ''
  held_out: str = ''

  @property
  def unknown(self) -> tuple[str, ...]:
    """All runs on out-of-distribution images: `out_of_distribution`, `near` and `far`."""
    return (*self.out_of_distribution, *self.near, *self.far)

  @property
  def short_names(self) -> dict[str, str]:
    """{path in `unknown`: its last part}; the whole paths are the names if last parts repeat."""
    names = [expanded(path).resolve().name for path in self.unknown]
    are_distinct = len(set(names)) == len(names)
    return dict(zip(self.unknown, names if are_distinct else self.unknown, strict=True))


@dataclasses.dataclass(frozen=True)
class OodScores(ScoresPredictions):
  """A study of scores that detect out-of-distribution images, of no known class.

  Attributes:
    scores: names of scores: 'msp', 'max_logit', 'energy', 'gen', 'knn', 'mds', 'rmds', 'vim',
      'react', 'ash', 'klm' (see `robustness.estimates.out_of_distribution`), or `FILE.py:NAME` for
      an `OodScore` of `robustness.estimates.fitted_scores`.
    positives: which images are positives in AUPR and FPR95: 'ood' (out-of-distribution images, as
      in OpenOOD 1.5) or 'id' (in-distribution images).
    neighbours: K of 'knn', which scores by the distance to the K-th nearest training feature.
    directions: D of 'vim', the number of principal directions of the features. It must be below the
      number of features.
    percentile: A percentile in (0, 100). 'react' clips features at this percentile of the held-out
      images' features. 'ash' keeps the features of an image above this percentile of the image's
      features.
    exponent: γ of 'gen', the power in the generalised entropy.
    largest: M of 'gen', the number of largest probabilities in the entropy.
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
    """Raises InputError for invalid settings of this study of out-of-distribution scores.

    `scores` names the scores to compute. A setting that only concerns scores that are not selected
    must keep its default: `neighbours`, for instance, is only used by 'knn'.
    """
    super().__post_init__()
    references = filter(is_reference, self.scores)  # FILE.py:NAME for a score in a user's file
    self.choose('scores', (*SCORES, *references))
    settings_of_scores = [key for score in SCORES.values() for key in score.settings]
    for key in dict.fromkeys(settings_of_scores):  # each once: several scores may have it
      scores_with_it = [name for name, score in SCORES.items() if key in score.settings]
      is_used = any(score in self.scores for score in scores_with_it)
      is_default = getattr(self, key) == getattr(type(self), key)  # the class has the defaults
      valid = f'left out without {" and ".join(map(repr, scores_with_it))} in {self.key("scores")}'
      self.require(is_used or is_default, key, valid)

  @property
  def references(self) -> tuple[str, ...]:
    """Names of the scores; a user's score has the form `FILE.py:NAME`."""
    return self.scores

  @property
  def recording(self) -> dict[str, Any]:
    """The settings on which recorded outputs depend: none but the name of the study.

    All scores are computed from the same recorded outputs.
    """
    return {'name': self.name, 'outputs': list(self.outputs)}

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields mean confidence, and for images of known classes also accuracy."""
    if recorded.evaluations[0].records.identity['data'].get('labels') != UNKNOWN_CLASSES:
      yield self.means(ACCURACY, recorded)
    yield self.means(CONFIDENCE, recorded)

  def score_predictions(self, workdirs: Workdirs, folder: pathlib.Path) -> Scored:
    """Computes AUROC, AUPR and FPR95 of each score from the outputs of finished runs.

    They measure how well a score separates test images from out-of-distribution images. Scores with
    `is_fitted` are fitted to training images (the bank). 'react' and 'klm' are fitted to held-out
    images instead, if there are any.

    Args:
      workdirs: folders of the finished runs.
      folder: not used.

    Raises:
      InputError: Out-of-distribution images are missing, a bank is missing or unused, or runs
        cannot be combined.
    """
    self._check_workdirs_are_given(workdirs)
    test = _read(workdirs.predictions, workdirs.task)
    # {path: run} on images of no known class, on shifted images, and on images to fit scores to.
    unknown = {path: _read(path, workdirs.task, test) for path in workdirs.unknown}
    shifted = {path: _read(path, workdirs.task, test) for path in workdirs.shifted}
    bank_paths = {'bank of features': workdirs.bank, 'held-out images': workdirs.held_out}
    banks = {path: _read(path, workdirs.task, test) for path in bank_paths.values() if path}
    known_runs = {workdirs.predictions: test} | shifted
    scored_runs = {workdirs.predictions: test} | unknown | shifted
    _check_known(workdirs, scored_runs | banks)
    for path, bank in banks.items():
      _refuse_shared(path, bank, scored_runs)
    estimates = []
    for evaluation in test.evaluations:
      measured = self._separations(evaluation.label, workdirs, known_runs, unknown, banks)
      estimates.append(self.table_of(evaluation.label, measured))
    # {what a run is used for: run}, for the description of the data in the results
    runs_by_use = {TEST: test}
    runs_by_use |= {f'{path}, shifted': run for path, run in shifted.items()}
    runs_by_use |= {f'{path}, no known class': run for path, run in unknown.items()}
    runs_by_use |= {use: banks[path] for use, path in bank_paths.items() if path}
    data = {use: dict(run.results.data) for use, run in runs_by_use.items()}
    settings = {**self.describe(), **dataclasses.asdict(workdirs)}
    return Scored(test.evaluations, Findings(estimates=estimates), settings, data)

  def _check_workdirs_are_given(self, workdirs: Workdirs) -> None:
    """Raises InputError if runs that the selected scores need are missing, or a run is unused.

    Out-of-distribution scores are computed from finished runs: on test images, on images of no
    known class (`unknown`), and, for scores that are fitted, on training images (the bank) and
    possibly on held-out images.

    Args:
      workdirs: folders of the runs.
    """
    if not workdirs.unknown:
      raise InputError(
        'config.out_of_distribution is empty: give the workdirs of runs on images of no known '
        'class, as in --config.out_of_distribution=WORKDIR,WORKDIR, or under near and far.'
      )
    needs_bank = any(find(name, self.key('scores')).is_fitted for name in self.scores)
    if needs_bank != bool(workdirs.bank):
      fitted = ', '.join(repr(name) for name, score in SCORES.items() if score.is_fitted)
      raise InputError(
        f'config.bank is {workdirs.bank!r} and {KEYS.study.scores} {self.scores}: '
        f'{fitted} need the workdir of a run on training images, and nothing else does.'
      )
    # Of the package's scores only these are fitted to held-out images; a user's score may be.
    uses_held_out = any(name in ('react', 'klm') or is_reference(name) for name in self.scores)
    is_unused = workdirs.held_out and not (uses_held_out and workdirs.bank)
    valid = "'' unless there is a bank, and a score that is fitted to it, 'react' or 'klm'"
    require(not is_unused, 'config.held_out', workdirs.held_out, valid)

  def _separations(
    self, label: str, workdirs: Workdirs, known_runs: Runs, unknown: Runs, banks: Runs
  ) -> Iterator[Measured]:
    """Yields AUROC, AUPR and FPR95 of each score of a classifier.

    Args:
      label: name of the classifier.
      workdirs: folders of the finished runs.
      known_runs: {path: run} on in-distribution images: test images first, then shifted ones.
      unknown: {path: run} on out-of-distribution images, in the order of `workdirs.unknown`.
      banks: {path: run} on images that scores are fitted to: training images, then held-out images.
        It may have training images only, or be empty.
    """
    runs = list(known_runs.values())
    # Without a bank no score is fitted, and the test images only stand in for it.
    bank_runs = list(banks.values()) or runs[:1]
    recordings = [_recording(run, label) for run in bank_runs]
    bank, held_out = recordings[0], recordings[-1]  # a single run is both

    @functools.cache
    def last_layer() -> LastLayer:
      """Finds the last layer from features and logits; 'vim', 'react' and 'ash' need it."""
      all_runs = [*runs, *unknown.values()]
      return LastLayer.solved(bank, (_recording(run, label) for run in all_runs))

    data = FitData(bank, held_out, last_layer)
    scores = {name: find(name, self.key('scores')).fit(self, data) for name in self.scores}
    # The values of scores, by set of images of no known class, and by run on known classes.
    names = workdirs.short_names
    by_set = {names[path]: _values(run, label, scores) for path, run in unknown.items()}
    by_run = _with_ids_apart(runs, [_values(run, label, scores) for run in runs])
    means = {}  # {name of a mean: the sets that it is over}
    for group, paths in (('near', workdirs.near), ('far', workdirs.far)):
      if len(paths) > 1:
        means[f'mean of {len(paths)} {group} sets'] = [names[path] for path in paths]
    # What is compared with the sets: scores by run on known classes, facets, and a note for all.
    compared: list[tuple[Sequence[Values], dict[str, str], str]] = [(by_run, {}, '')]
    if len(runs) > 1:  # the test images alone, then test and shifted images together
      note = NOTE_ON_VERSIONS if len(set(map(_data_set, runs))) > 1 else ''
      compared = [(by_run[:1], {'id_set': TEST}, ''), (by_run, {'id_set': SHIFTED}, note)]
    for (known, facets, note), score in itertools.product(compared, self.scores):
      ids, known_scores = (np.concatenate([x[key] for x in known]) for key in (ID, score))
      unknown_scores = {name: (values[score], values[ID]) for name, values in by_set.items()}
      separations = ood.separations(
        known_scores, ids, unknown_scores, means, self.positives, self.confidence, workdirs.seed
      )
      for name, estimates in separations.items():
        all_facets = {'score': part_name(score), 'ood_set': name, **facets}
        for quantity, estimate in zip((AUROC, AUPR, FPR95), estimates, strict=True):
          yield quantity, all_facets, estimate.with_notes(note)


def _recording(task: FinishedStudy, label: str) -> Recording:
  """Returns the logits, features and labels that a run has recorded for a classifier.

  Columns of classes that the classifier cannot predict are left out of the logits.

  Args:
    task: the finished run.
    label: name of the classifier.
  """
  column = _evaluation(task, label).records.column
  logits = column('output/logits')
  can_predict = ~np.isneginf(logits).all(0)
  return Recording(logits[:, can_predict], column(f'output/{FEATURES}'), column('label'))


def _values(task: FinishedStudy, label: str, scores: Mapping[str, Score]) -> Values:
  """Computes scores on the N images of a run: {name of a score: values [N]}.

  The key `ID` has an identifier of each image, [N], equal for versions of one image.

  Args:
    task: the finished run.
    label: name of the classifier.
    scores: {name: function from recorded outputs to values [N]}.
  """
  records, recording = _evaluation(task, label).records, _recording(task, label)
  images = versions(records)  # None if no two rows are versions of one image
  ids = records.column(ID) if images is None else images
  return {ID: ids, **{name: score(recording) for name, score in scores.items()}}


def _with_ids_apart(tasks: Sequence[FinishedStudy], by_run: Sequence[Values]) -> list[Values]:
  """Makes image identifiers of different data sets distinct, in scores of several runs.

  Equal identifiers in different data sets are not the same image.

  Args:
    tasks: the runs.
    by_run: scores of each run; the key `ID` has the identifiers.
  """
  data_sets = list(dict.fromkeys(map(_data_set, tasks)))
  # Ids are below 2⁴⁰, so that adding multiples of it keeps the ids of data sets apart.
  first_ids = [data_sets.index(_data_set(task)) << 40 for task in tasks]
  pairs = zip(by_run, first_ids, strict=True)
  return [{**values, ID: values[ID].astype(np.int64) + first_id} for values, first_id in pairs]


def _read(path: str, task_name: str, first: FinishedStudy | None = None) -> FinishedStudy:
  """Reads the results of this study from the folder of a finished run.

  Args:
    path: the folder.
    task_name: name of the study, if the run has several; else ''.
    first: A run that must have the same classifiers; None for no check.

  Raises:
    InputError: The folder has another study, or other classifiers than `first`.
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
    classifier = expected.records.identity['classifier']
    other_classifier = _evaluation(task, expected.label).records.identity['classifier']
    if lines := differing_keys(classifier, other_classifier, 'classifier'):
      raise InputError(
        f'{path} and {first.folder} have other classifiers under '
        f'{expected.label!r}: {"; ".join(lines)}. Run the same on both.'
      )
  return task


def _check_known(workdirs: Workdirs, tasks: Mapping[str, FinishedStudy]) -> None:
  """Raises InputError if a folder is listed twice or has the wrong kind of images.

  Runs in `workdirs.unknown` must be on out-of-distribution images, all others on known classes.

  Args:
    workdirs: folders of the finished runs.
    tasks: {path: run} for all folders.
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
  """Raises InputError if over 2 % (`MAX_SHARED`) of a run's images are in the bank.

  The bank has the images that scores are fitted to. An image in it would be its own nearest
  neighbour.

  Args:
    path: folder of the bank.
    bank: the run on the bank.
    tasks: {path: run} for all runs to be scored.
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
  """Returns the recorded predictions of a classifier in a run.

  Raises:
    InputError: The run does not have the classifier.
  """
  for evaluation in task.evaluations:
    if evaluation.label == label:
      return evaluation
  labels = ', '.join(e.label for e in task.evaluations)
  raise InputError(f'{task.folder} has no classifier {label!r}; it has {labels}.')


def _data_set(task: FinishedStudy) -> tuple[object, str]:
  """Returns an identifier of a run's data set: its source, and its name, file or folder.

  Image identifiers are only comparable within a data set.
  """
  data = task.evaluations[0].records.identity['data']
  # The name without a TFDS config, which follows a slash.
  name, path = str(data.get('name', '')).partition('/')[0], str(data.get('path', ''))
  # Data without a name are identified by their absolute path, or '' if they have none.
  return data.get('source'), name or (str(expanded(path).resolve()) if path else '')
