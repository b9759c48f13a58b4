"""Scores that separate images of no known class, from finished runs in and out of distribution.

A run on images records logits and features, and says how sure the classifier is. A config with
`predictions` reads such workdirs, of test images and of images of no known class, and says how well
each score of `robustness.estimates.out_of_distribution` separates them, from the records alone.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded
from robustness.core.registry import setting, word
from robustness.core.rows import UNKNOWN_CLASSES
from robustness.core.settings import differing_keys
from robustness.estimates import out_of_distribution as ood
from robustness.estimates.facets import Facet
from robustness.estimates.means import part, row
from robustness.estimates.out_of_distribution import KNN, MSP, POSITIVES, SCORES
from robustness.estimates.quantity import ACCURACY, AMOUNT, SHARE, Quantity
from robustness.evaluation.outcomes import Evaluation, Recorded, versions
from robustness.evaluation.provenance import IMAGE_DIGEST
from robustness.evaluation.study import Findings, Scored, ScoresPredictions
from robustness.workdir import FinishedStudy, WorkdirPredictions, read_task

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
TEST, SHIFTED = 'test images', 'test and shifted images'
MOST_ALIKE = 0.02  # of images: data sets have some twice, and a few digests are equal by chance
APART = 'versions of one image in two data sets count as two: their order may differ'


@dataclasses.dataclass(frozen=True)
class Workdirs(WorkdirPredictions):
  """The top level of a config that compares finished workdirs of this study.

  Attributes:
    predictions: the workdir of the test images; `task` is one of all workdirs, where they hold
      batteries.
    out_of_distribution: workdirs of images of no known class.
    shifted: workdirs of corrupted or otherwise shifted images of the known classes; with them,
      estimates are estimated for test images and for both together (full-spectrum).
    bank: the workdir of training images with the features that 'knn' needs.
  """

  out_of_distribution: tuple[str, ...] = ()
  shifted: tuple[str, ...] = ()
  bank: str = ''


@dataclasses.dataclass(frozen=True)
class OodScores(ScoresPredictions):
  """Settings.

  Attributes:
    scores: of 'msp', 'max_logit', 'energy' and 'knn'.
    positives: 'ood' or 'id', see `robustness.estimates.out_of_distribution`.
    neighbours: K of 'knn'.
  """

  title: ClassVar[str] = 'Images of no known class'
  needs_labels: ClassVar[bool] = False
  papers: ClassVar[tuple[str, ...]] = ('zhang2023openood',)
  outputs: ClassVar[tuple[str, ...]] = ('logits', FEATURES)
  lists_failures: ClassVar[bool] = False
  prediction_settings: ClassVar[type] = Workdirs
  described_facets = (OOD_SET, ID_SET)
  quantities = (AUROC, AUPR, FPR95, dataclasses.replace(ACCURACY, headline=True), CONFIDENCE)

  scores: tuple[str, ...] = setting((MSP, 'max_logit', 'energy'), 'not empty', bool)
  positives: str = word('ood', POSITIVES)
  neighbours: int = setting(50, 'at least 1', lambda x: x >= 1)

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('scores', SCORES)
    self.require_no_repeats('scores')
    is_used = KNN in self.scores or self.neighbours == type(self).neighbours
    self.require(is_used, 'neighbours', f"left out without 'knn' in {self.key('scores')}")

  @property
  def recording(self) -> dict[str, Any]:
    """See `Study`; what is recorded does not depend on the scores."""
    return {'name': self.name, 'outputs': list(self.outputs)}

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields the mean confidence, and the accuracy on images of known classes."""
    data = recorded.evaluations[0].records.identity['data']
    if data.get('labels') != UNKNOWN_CLASSES:
      yield self.means(ACCURACY, recorded)
    yield self.means(CONFIDENCE, recorded)

  def score_predictions(self, workdirs: Workdirs, folder: pathlib.Path) -> Scored:
    """See `ScoresPredictions`; the predictions are records already."""
    if not workdirs.out_of_distribution:
      raise InputError(
        'config.out_of_distribution is empty: give the workdirs of runs on images of no known '
        'class, as in --config.out_of_distribution=WORKDIR,WORKDIR.'
      )
    if (KNN in self.scores) != bool(workdirs.bank):
      raise InputError(
        f'config.bank is {workdirs.bank!r} and {KEYS.study.scores} {self.scores}: the score '
        "'knn' needs the workdir of a run on training images, and nothing else does."
      )
    first = _read(workdirs.predictions, workdirs.task)
    paths = (*workdirs.out_of_distribution, *workdirs.shifted)
    tasks_of = {path: _read(path, workdirs.task, first) for path in paths}
    bank = _read(workdirs.bank, workdirs.task, first) if workdirs.bank else None
    scored = {workdirs.predictions: first, **tasks_of}
    _check_known(workdirs, scored | ({workdirs.bank: bank} if bank else {}))
    if bank:
      _refuse_shared(workdirs.bank, bank, scored)
    names = _names(workdirs.out_of_distribution)
    sets = {_set(first): 0}
    for path in workdirs.shifted:
      sets.setdefault(_set(tasks_of[path]), len(sets))
    note = {'note': APART} if len(sets) > 1 else {}
    rows = []
    for evaluation in first.evaluations:
      label = evaluation.label
      near = _evaluation(bank, label).records.column(f'output/{FEATURES}') if bank else None
      test = self._scored(first, label, near)
      shifted = [self._scored(tasks_of[path], label, near) for path in workdirs.shifted]
      for path, scores in zip(workdirs.shifted, shifted, strict=True):
        scores[ID] = scores[ID].astype(np.int64) + (sets[_set(tasks_of[path])] << 40)
      kinds = {TEST: [test]} | ({SHIFTED: [test, *shifted]} if shifted else {})
      for path, name in zip(workdirs.out_of_distribution, names, strict=True):
        out = self._scored(tasks_of[path], label, near)
        for kind, parts in kinds.items():
          for score in self.scores:
            inside, ids = (np.concatenate([p[key] for p in parts]) for key in (score, ID))
            separation = ood.separation(
              inside, out[score], ids, out[ID], self.positives, self.confidence, workdirs.seed
            )
            facets = {'score': score, 'ood_set': name, **({'id_set': kind} if shifted else {})}
            rows += [
              row(label, '', quantity, facets, estimate, self.confidence)
              | (note if kind == SHIFTED else {})
              for quantity, estimate in zip((AUROC, AUPR, FPR95), separation, strict=True)
            ]
    settings = {**self.describe(), **dataclasses.asdict(workdirs)}
    tasks = {
      TEST: first,
      **{f'{path}, shifted': tasks_of[path] for path in workdirs.shifted},
      **{f'{path}, no known class': tasks_of[path] for path in workdirs.out_of_distribution},
      **({'bank of features': bank} if bank else {}),
    }
    data = {name: dict(task.results.data) for name, task in tasks.items()}
    return Scored(first.evaluations, Findings(estimates=[part(rows)]), settings, data)

  def _scored(
    self, task: FinishedStudy, label: str, bank: np.ndarray | None
  ) -> dict[str, np.ndarray]:
    """Returns the scores of a classifier on the images of a run, and which images these are."""
    records = _evaluation(task, label).records
    logits, images = records.column('output/logits'), versions(records)
    scored = {name: ood.of_logits(name, logits) for name in self.scores if name != KNN}
    scored[ID] = records.column(ID) if images is None else images
    if bank is not None:
      features = records.column(f'output/{FEATURES}')
      scored[KNN] = ood.nearest_neighbours(features, bank, self.neighbours)
    return scored


def _read(path: str, name: str, first: FinishedStudy | None = None) -> FinishedStudy:
  """Returns a finished workdir of this study, or a task of it; refuses other studies, and other
  classifiers than the first's."""
  task = read_task(path, name)
  if not isinstance(task.study, OodScores):
    raise InputError(
      f'{path} is of the study {task.study.name}, which keeps no logits and features: give a '
      'workdir of configs/ood_scores.py.'
    )
  for expected in first.evaluations if first else ():
    before, after = (
      {'classifier': e.records.identity['classifier']}
      for e in (expected, _evaluation(task, expected.label))
    )
    lines = differing_keys(before, after)
    if lines:
      raise InputError(
        f'{path} and {first.folder if first else path} have other classifiers under '
        f'{expected.label!r}: {"; ".join(lines)}. Run the same on both.'
      )
  return task


def _check_known(workdirs: Workdirs, tasks: Mapping[str, FinishedStudy]) -> None:
  """Refuses runs on images of known classes where none is known, the reverse, and a run twice."""
  paths = [
    workdirs.predictions,
    *workdirs.shifted,
    *workdirs.out_of_distribution,
    *filter(None, [workdirs.bank]),
  ]
  places = [expanded(path).resolve() for path in paths]
  for path, place in zip(paths, places, strict=True):
    if places.count(place) > 1:
      raise InputError(f'{path} is given twice: each workdir is of other images.')
    unknown = tasks[path].evaluations[0].records.identity['data'].get('labels') == UNKNOWN_CLASSES
    if unknown != (path in workdirs.out_of_distribution):
      kind, fix = ('no known', 'False') if not unknown else ('known', 'True')
      raise InputError(
        f'{path} must be of images of {kind} class{"es" * unknown}: give a run with '
        f'{KEYS.data.known_classes}={fix}.'
      )


def _refuse_shared(path: str, bank: FinishedStudy, tasks: Mapping[str, FinishedStudy]) -> None:
  """Refuses a bank with images that are scored: their nearest feature is their own."""
  in_bank = bank.evaluations[0].records.column(IMAGE_DIGEST)
  for other, task in tasks.items():
    digests = task.evaluations[0].records.column(IMAGE_DIGEST)
    shared = int(np.isin(digests, in_bank).sum())
    if shared > MOST_ALIKE * len(digests):
      raise InputError(
        f'{shared} of the {len(digests)} images of {other} are in config.bank, {path}: give a run '
        'on training images.'
      )


def _evaluation(task: FinishedStudy, label: str) -> Evaluation:
  for evaluation in task.evaluations:
    if evaluation.label == label:
      return evaluation
  labels = ', '.join(e.label for e in task.evaluations)
  raise InputError(f'{task.folder} has no classifier {label!r}; it has {labels}.')


def _set(task: FinishedStudy) -> tuple[object, str]:
  """Returns the data set of a run, within which an example id is one image: its source and its
  name, or the file or folder of a set without a name."""
  data = task.evaluations[0].records.identity['data']
  name, path = str(data.get('name', '')).partition('/')[0], str(data.get('path', ''))
  return data.get('source'), name or (str(expanded(path).resolve()) if path else '')


def _names(paths: Sequence[str]) -> list[str]:
  """Returns the names of the folders, the full paths where two names are equal."""
  names = [expanded(path).resolve().name for path in paths]
  return names if len(set(names)) == len(names) else list(paths)
