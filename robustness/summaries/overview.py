"""Classifiers × tests: headline quantities of every part, and where each classifier is worst."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from robustness.core.settings import require
from robustness.evaluation.study import Findings, Study
from robustness.present import charts, headlines
from robustness.results import Results

TITLE = 'Several studies of the same classifiers'


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.battery.summary.overview`.

  Attributes:
    worst: in how many parts, of those in which a classifier is worst, it is told.
  """

  worst: int = 3

  def __post_init__(self) -> None:
    require(self.worst >= 0, 'config.battery.summary.overview.worst', self.worst, 'at least 0')


def check(settings: Settings, labels: Sequence[str], studies: Mapping[str, Study]) -> None:
  """Nothing is refused: a study without headline quantities is in its own part of the report."""
  del settings, labels, studies


def summarise(settings: Settings, parts: Mapping[str, Results]) -> Findings:
  """Returns nothing: the estimates of the parts say all."""
  del settings, parts
  return Findings()


def draw(settings: Settings, parts: Mapping[str, Results]) -> Mapping[str, charts.Picture]:
  """Returns the headline quantities of all parts as bars, a picture for each unit and direction."""
  del settings
  return headlines.draw(parts)
