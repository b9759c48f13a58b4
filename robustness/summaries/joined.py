"""Figures and sentences above the parts of a battery, and above several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from robustness.core.parts import Part
from robustness.evaluation.study import Study
from robustness.present import charts, seeds
from robustness.present.sentences import sentences
from robustness.report.presented import Presentation
from robustness.results import Results
from robustness.summaries import overview

OVERVIEW = Part('overview', overview.Settings(), overview)
"""What stands above the parts of a battery that chooses no summary."""


@dataclasses.dataclass(frozen=True)
class Joined:
  """Draws and tells the joined results of several studies; a `robustness.report.Presented`.

  Attributes:
    summary: chosen by the config, or None.
    studies: by part.
    parts: results by part; without any they are those that the joined table holds.
  """

  summary: Part | None
  studies: Mapping[str, Study]
  parts: Mapping[str, Results] = dataclasses.field(default_factory=dict)

  @property
  def papers(self) -> tuple[str, ...]:
    """See `Presented`: each paper of the parts once."""
    return tuple(dict.fromkeys(key for study in self.studies.values() for key in study.papers))

  def figures(self, results: Results, /) -> Mapping[str, tuple[Any, str]]:
    """See `Presented`: the summary's figures."""
    summary = self.summary or OVERVIEW
    return summary.module.draw(summary.settings, self.parts or results.by_part)

  def sentences(self, results: Results, /) -> list[str]:
    """See `Presented`: the summary's sentences, then those of each part behind its name."""
    summary, parts = self.summary or OVERVIEW, self.parts or results.by_part
    told = summary.module.sentences(summary.settings, parts)
    return [*told, *(f'{name}: {text}' for name, of in parts.items() for text in sentences(of))]


def over_seeds(summary: Part | None, studies: Mapping[str, Study]) -> Presentation:
  """Returns what draws and tells the means over seeds of a run, and what another seed changes.

  Args:
    summary: of a battery, or None.
    studies: by part; that of a run without parts is called ''.
  """
  joined = Joined(summary, studies)

  def draw(results: Results) -> Mapping[str, tuple[Any, str]]:
    means = results.over_seeds
    return {**seeds.draw(results), **(joined.figures if means.parts else charts.draw)(means)}

  def tell(results: Results) -> list[str]:
    means = results.over_seeds
    return [*(joined.sentences if means.parts else sentences)(means), *seeds.most_changed(results)]

  return Presentation(draw, tell, joined.papers)
