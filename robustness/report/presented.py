"""What a report needs beside results: figures, sentences, and papers to cite."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from robustness.present import charts, sentences
from robustness.results import Results


class Presented(Protocol):
  """Whose results a report is about: a study, or what stands for one above several."""

  @property
  def papers(self) -> tuple[str, ...]:
    """Keys of `robustness.report.citations.PAPERS`."""

  def figures(self, results: Results, /) -> Mapping[str, tuple[Any, str]]:
    """Returns {file name without suffix: (matplotlib figure, caption)}."""

  def sentences(self, results: Results, /) -> list[str]:
    """Returns the findings in words, the main one first, each with an interval."""


def sentences_of(presented: Presented, results: Results) -> list[str]:
  """Returns the findings in words; of a study without its own those of its table."""
  return presented.sentences(results) or sentences.sentences(results)


def figures_of(presented: Presented, results: Results) -> Mapping[str, tuple[Any, str]]:
  """Returns the figures; of a study without its own those of its table."""
  return presented.figures(results) or charts.draw(results)


@dataclasses.dataclass(frozen=True)
class Presentation:
  """A `Presented` that is made of functions.

  Attributes:
    draw: returns the figures of results.
    tell: returns the sentences of results.
    papers: to cite.
  """

  draw: Callable[[Results], Mapping[str, tuple[Any, str]]]
  tell: Callable[[Results], list[str]]
  papers: tuple[str, ...] = ()

  def figures(self, results: Results, /) -> Mapping[str, tuple[Any, str]]:
    """See `Presented`."""
    return self.draw(results)

  def sentences(self, results: Results, /) -> list[str]:
    """See `Presented`."""
    return self.tell(results)
