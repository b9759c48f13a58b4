"""What is reported above the tasks of a battery, and above several seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from robustness.core.registry import Part, Registry
from robustness.present import charts, headlines, seeds
from robustness.present.presented import Presentation, Presented
from robustness.present.sentences import Finding, findings
from robustness.results import SINGLE, Findings, Results


class Summary(Part):
  """Reads the results of all tasks of a battery, never their records.

  The base class finds nothing and shows the headline quantities of all tasks as bars, a picture for
  each unit and direction.

  Attributes:
    title: of the report.
    worst: in how many tasks, of those in which a classifier is worst, the findings say so.
  """

  section = 'config.battery.summary'
  title: ClassVar[str] = 'Several studies of the same classifiers'
  worst: int = 0

  def check(self, labels: Sequence[str], studies: Mapping[str, Mapping[str, object]]) -> None:
    """Refuses what it finds nothing of, before anything is trained; by default nothing.

    Args:
      labels: of the classifiers, in order.
      studies: `Study.described` by task.
    """
    del labels, studies

  def summarise(self, tasks: Mapping[str, Results]) -> Findings:
    """Returns what is found of all tasks together; by default nothing."""
    del tasks
    return Findings()

  def draw(self, tasks: Mapping[str, Results]) -> Mapping[str, charts.Picture]:
    """Returns {file name without suffix: (figure, caption)}."""
    return headlines.draw(tasks)


@dataclasses.dataclass(frozen=True)
class Overview(Summary):
  """The base class, with the tasks in which each classifier is worst."""

  name = 'overview'
  worst: int = 3

  def __post_init__(self) -> None:
    self.require(self.worst >= 0, 'worst', 'at least 0')


SUMMARIES = Registry('robustness.present', Summary)


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
