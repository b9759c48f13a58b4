"""Figures and sentences above the parts of a battery, and above several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from robustness.core.parts import Part
from robustness.evaluation.study import Study
from robustness.figures import seeds as seeds_figure
from robustness.report.presented import Presentation, Presented
from robustness.results import Results
from robustness.wording import seeds as seeds_wording


@dataclasses.dataclass(frozen=True)
class Joined:
  """Draws and tells the joined results of several studies; a `robustness.report.Presented`.

  Attributes:
    summary: chosen by the config, or None.
    studies: by part.
    parts: results by part; without any they are taken out of the joined ones, numbers alone.
  """

  summary: Part | None
  studies: Mapping[str, Study]
  parts: Mapping[str, Results] = dataclasses.field(default_factory=dict)

  @property
  def papers(self) -> tuple[str, ...]:
    """See `Presented`: each paper of the parts once."""
    return tuple(dict.fromkeys(key for study in self.studies.values() for key in study.papers))

  def figures(self, results: Results, /) -> dict[str, tuple[Any, str]]:
    """See `Presented`: the summary's figures, none without a summary."""
    del results
    return self.summary.module.draw(self.summary.settings, self.parts) if self.summary else {}

  def sentences(self, results: Results, /) -> list[str]:
    """See `Presented`: the summary's sentences, then those of each part behind its name."""
    parts = self.parts or {
      name: taken_out(results, name, self.studies[name]) for name in self.studies
    }
    own = self.summary.module.sentences(self.summary.settings, parts) if self.summary else []
    return [
      *own,
      *(
        f'{name}: {sentence}'
        for name, of_part in parts.items()
        for sentence in self.studies[name].sentences(of_part)
      ),
    ]


def taken_out(results: Results, part: str, study: Study) -> Results:
  """Returns a part's numbers and tables out of joined results; its arrays stay with the part."""
  return Results(
    study.name,
    results.classifier,
    results.data.get(part, {}),
    results.settings.get(part, {}),
    {
      name.removeprefix(f'{part}/'): number
      for name, number in results.numbers.items()
      if name.startswith(f'{part}/')
    },
    {
      name.removeprefix(f'{part}: '): table
      for name, table in results.tables.items()
      if name.startswith(f'{part}: ')
    },
  )


def over_seeds(summary: Part | None, studies: Mapping[str, Study]) -> Presentation:
  """Returns what draws and tells the means over seeds of a run.

  Args:
    summary: of a battery, or None.
    studies: by part; that of a run without parts is called ''.
  """
  presented: Presented = studies[''] if '' in studies else Joined(summary, studies)

  def tell(results: Results) -> list[str]:
    return [*presented.sentences(results), *seeds_wording.sentences(results)]

  return Presentation(seeds_figure.draw, tell, presented.papers)
