"""What is reported above the tasks of a battery, and above several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from robustness.present import charts, headlines, seeds
from robustness.present.publish import Presentation, Presented
from robustness.present.sentences import Finding, findings
from robustness.results import SINGLE, Results, Summary


@dataclasses.dataclass(frozen=True)
class Overview(Summary):
  """The headline quantities of all tasks as bars, a picture for each unit and direction.

  Attributes:
    worst: in how many tasks, of those in which a classifier is worst, the findings say so.
  """

  name = 'overview'
  worst: int = 3

  def __post_init__(self) -> None:
    self.require(self.worst >= 0, 'worst', 'at least 0')

  def draw(self, tasks: Mapping[str, Results]) -> Mapping[str, charts.Picture]:
    """See `Summary`."""
    return headlines.draw(tasks)


def of_battery(summary: Summary | None, studies: Mapping[str, Presented]) -> Presentation:
  """Returns what presents the joined results of a battery.

  Args:
    summary: chosen by the config; None for the overview.
    studies: by task.
  """
  chosen = summary or Overview()

  def draw(results: Results) -> Mapping[str, charts.Picture]:
    return chosen.draw(results.by_part)

  def tell(results: Results) -> list[Finding]:
    return headlines.findings(results.by_part, chosen.worst)

  papers = tuple(dict.fromkeys(key for study in studies.values() for key in study.papers))
  return Presentation(chosen.title, papers, draw, tell)


def of_seeds(summary: Summary | None, studies: Mapping[str, Presented]) -> Presentation:
  """Returns what presents the means over seeds, and what another seed changes; see `of_battery`.

  The study of a run without a battery is called `SINGLE`.
  """
  battery = of_battery(summary, studies)

  def draw(results: Results) -> Mapping[str, charts.Picture]:
    means = results.over_seeds
    return {**seeds.draw(results), **(battery.figures if means.parts else charts.draw)(means)}

  def tell(results: Results) -> list[Finding]:
    means = results.over_seeds
    return [*(battery.findings if means.parts else findings)(means), *seeds.most_changed(results)]

  title = studies[SINGLE].title if SINGLE in studies else battery.title
  return Presentation(title, battery.papers, draw, tell)
