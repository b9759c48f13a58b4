"""Figures and sentences above the parts of a battery, and above several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from robustness.core.parts import Part
from robustness.evaluation.study import Study
from robustness.present import charts, headlines, seeds
from robustness.present.presented import Presentation
from robustness.present.sentences import Finding, findings
from robustness.results import Results
from robustness.summaries import overview

OVERVIEW = Part('overview', overview.Settings(), overview)
"""What stands above the parts of a battery that chooses no summary."""


@dataclasses.dataclass(frozen=True)
class Joined:
  """Draws and tells the joined results of several studies; a `robustness.present.Presented`.

  Attributes:
    summary: chosen by the config, or None.
    studies: by part.
    parts: results by part; without any they are those that the joined table holds.
  """

  summary: Part | None
  studies: Mapping[str, Study]
  parts: Mapping[str, Results] = dataclasses.field(default_factory=dict)

  @property
  def title(self) -> str:
    """See `Presented`."""
    return (self.summary or OVERVIEW).module.TITLE

  @property
  def papers(self) -> tuple[str, ...]:
    """See `Presented`: each paper of the parts once."""
    return tuple(dict.fromkeys(key for study in self.studies.values() for key in study.papers))

  def figures(self, results: Results, /) -> Mapping[str, tuple[Any, str]]:
    """See `Presented`: the summary's figures."""
    summary = self.summary or OVERVIEW
    return summary.module.draw(summary.settings, self.parts or results.by_part)

  def findings(self, results: Results, /) -> list[Finding]:
    """See `Presented`: where each classifier is worst, then what each part finds."""
    settings = self.summary.settings if self.summary else OVERVIEW.settings
    most = settings.worst if isinstance(settings, overview.Settings) else 0
    return headlines.findings(self.parts or results.by_part, most)


def over_seeds(summary: Part | None, studies: Mapping[str, Study]) -> Presentation:
  """Returns what draws and tells the means over seeds of a run, and what another seed changes.

  Args:
    summary: of a battery, or None.
    studies: by part; that of a run without parts is called ''.
  """
  joined = Joined(summary, studies)
  title = studies[''].title if '' in studies else joined.title

  def draw(results: Results) -> Mapping[str, tuple[Any, str]]:
    means = results.over_seeds
    return {**seeds.draw(results), **(joined.figures if means.parts else charts.draw)(means)}

  def tell(results: Results) -> list[Finding]:
    means = results.over_seeds
    return [*(joined.findings if means.parts else findings)(means), *seeds.most_changed(results)]

  return Presentation(title, joined.papers, draw, tell)
