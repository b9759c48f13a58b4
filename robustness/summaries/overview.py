"""Classifiers × tests: headline quantities of every part, and where each classifier is worst."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from robustness.present import charts, headlines
from robustness.results import Results
from robustness.summaries import Summary


@dataclasses.dataclass(frozen=True)
class Overview(Summary):
  """Draws the headline quantities of all parts, and refuses nothing: a study without them is in its
  own part of the report.

  Attributes:
    worst: in how many parts, of those in which a classifier is worst, sentences say it.
  """

  title: ClassVar[str] = 'Several studies of the same classifiers'
  worst: int = 3

  def __post_init__(self) -> None:
    self.require(self.worst >= 0, 'worst', 'at least 0')

  def draw(self, parts: Mapping[str, Results]) -> Mapping[str, charts.Picture]:
    """Returns them as bars, a picture for each unit and direction."""
    return headlines.draw(parts)
