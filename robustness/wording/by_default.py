"""What is said of results that have no words of their own."""

from __future__ import annotations

from collections.abc import Callable

from robustness.results import Results
from robustness.wording import phrases
from robustness.wording.number_labels import label_of

FIRST = 3
"""Numbers that are told."""


def sentences(results: Results) -> list[str]:
  """Returns the first numbers that have intervals, a sentence each."""
  names = [name for name, number in results.numbers.items() if phrases.has_interval(number)]

  def of(name: str) -> Callable[[phrases.Reader], str]:
    return lambda reader: f'{label_of(results, name)}: {phrases.plain(reader.number(name))}'

  return phrases.told(results, [of(name) for name in names[:FIRST]])
