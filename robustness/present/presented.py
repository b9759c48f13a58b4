"""Whose results a report is about: a study, or what stands above several."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from robustness.present import charts
from robustness.present.sentences import Finding, findings
from robustness.results import Results


class Presented(Protocol):
  """A study, or what stands for one above several."""

  @property
  def title(self) -> str:
    """What was measured, in plain words; '' takes the study's name."""

  @property
  def papers(self) -> tuple[str, ...]:
    """Keys of `robustness.present.citations.PAPERS`."""

  def figures(self, results: Results, /) -> Mapping[str, tuple[Any, str]]:
    """Returns {file name without suffix: (matplotlib figure, caption)}, the main one first."""

  def findings(self, results: Results, /) -> list[Finding]:
    """Returns what was found, in words."""


@dataclasses.dataclass(frozen=True)
class Presentation:
  """A `Presented` that is no study.

  Attributes:
    title: what was measured, in plain words.
    papers: to cite.
    draw: returns the figures of results.
    tell: returns the findings of results.
  """

  title: str
  papers: tuple[str, ...] = ()
  draw: Callable[[Results], Mapping[str, tuple[Any, str]]] = charts.draw
  tell: Callable[[Results], list[Finding]] = findings

  def figures(self, results: Results, /) -> Mapping[str, tuple[Any, str]]:
    """See `Presented`."""
    return self.draw(results)

  def findings(self, results: Results, /) -> list[Finding]:
    """See `Presented`."""
    return self.tell(results)
