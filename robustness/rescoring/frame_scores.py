"""Predictions for frames as a study scores them: their records, and the review's impact on them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from robustness.evaluation.study import Evaluation, Findings
from robustness.rescoring import frame_predictions, review_impact
from robustness.rescoring.frame_predictions import Rescoring
from robustness.rescoring.review_impact import NeighborStudy


@dataclasses.dataclass(frozen=True)
class FrameScores:
  """Implements `robustness.evaluation.study.PredictionScores` for neighbor sets.

  Attributes:
    rescoring: what is scored.
    study: what it is reduced by.
  """

  rescoring: Rescoring
  study: NeighborStudy

  @property
  def seed(self) -> int:
    """Recorded with the run."""
    return self.rescoring.seed

  def evaluations(self, directory: pathlib.Path) -> list[Evaluation]:
    """Returns the records of everything that is scored."""
    return frame_predictions.evaluations(self.rescoring, directory)

  def findings(self, evaluations: Sequence[Evaluation], directory: pathlib.Path) -> Findings:
    """Reduces the records; adds what the review changes where the sets before it are given."""
    findings = self.study.reduce(evaluations, (0, 0, 0))
    if self.rescoring.unreviewed:
      review_impact.add(findings, self.study, self.rescoring, evaluations, directory)
    return findings

  def settings(self) -> dict[str, Any]:
    """Returns the settings of the study and of the rescoring as plain values."""
    return {**self.study.described, **dataclasses.asdict(self.rescoring)}
