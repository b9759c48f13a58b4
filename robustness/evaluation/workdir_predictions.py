"""The records of a finished workdir, of whatever study, for a study that reduces them anew."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robustness.core.errors import InputError
from robustness.core.settings import require
from robustness.evaluation import finished
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import ViewTable

Reduction = Callable[[Sequence[Evaluation], ViewTable], Findings]


@dataclasses.dataclass(frozen=True)
class WorkdirPredictions:
  """The top level of a config without classifiers.

  Attributes:
    predictions: a finished workdir.
    part: of its battery; '' for a workdir of one study.
    seed: recorded with the run.
  """

  predictions: str = ''
  part: str = ''
  seed: int = 0

  def __post_init__(self) -> None:
    require(
      bool(self.predictions),
      'config.predictions',
      self.predictions,
      'the workdir of a finished run',
    )


@dataclasses.dataclass(frozen=True)
class WorkdirScores:
  """Implements `robustness.evaluation.study.PredictionScores` for a finished workdir.

  Attributes:
    chosen: which workdir.
    reduction: of evaluations, and what their views and groups of views are.
    described: the reduction's name and settings, plain values.
  """

  chosen: WorkdirPredictions
  reduction: Reduction
  described: Mapping[str, Any]

  @property
  def seed(self) -> int:
    """Recorded with the run."""
    return self.chosen.seed

  def _part(self) -> finished.FinishedStudy:
    return finished.part(self.chosen.predictions, self.chosen.part)

  def evaluations(self, directory: pathlib.Path) -> list[Evaluation]:
    """Returns the records of the workdir's classifiers; nothing is written.

    Raises:
      InputError: see `finished.part`; or the study records no predictions.
    """
    del directory
    part = self._part()
    if not part.study.needs_classifier:
      raise InputError(
        f'config.predictions is {self.chosen.predictions}, whose study {part.study.name} measures '
        'images alone: give the workdir of a study of classifiers.'
      )
    return part.evaluations

  def findings(self, evaluations: Sequence[Evaluation], directory: pathlib.Path) -> Findings:
    """Reduces the records."""
    del directory
    part = self._part()
    by_image = [part.study.by_image(e.records, part.image_shape) for e in evaluations]
    joined = [
      dataclasses.replace(evaluation, records=records)
      for evaluation, (records, _) in zip(evaluations, by_image, strict=True)
    ]
    return self.reduction(joined, by_image[0][1])

  def settings(self) -> dict[str, Any]:
    """Returns the reduction, the workdir and the study whose views these are, plain values."""
    return {
      **self.described,
      **dataclasses.asdict(self.chosen),
      'of': self._part().study.describe(),
    }
