"""What is reported above the parts of a battery: named summaries that read results, never records.

`config.battery.summary.name` chooses one; without it a battery opens with the overview.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from robustness.core.registry import Part, Registry
from robustness.estimates.table import assemble, with_facet
from robustness.evaluation.study import Findings, Study
from robustness.present.charts import Picture
from robustness.results import PART, Results, Table

BATTERY = 'battery'
"""What results are called that join those of several studies."""


@dataclasses.dataclass(frozen=True)
class Summary(Part):
  """Base class: the fields are the keys of the section `config.battery.summary.<name>`.

  Attributes:
    title: of the report.
  """

  section: ClassVar[str] = 'config.battery.summary'
  title: ClassVar[str]

  def check(self, labels: Sequence[str], studies: Mapping[str, Study]) -> None:
    """Refuses what it would find nothing with, before anything is trained.

    Args:
      labels: of the classifiers, in order.
      studies: by part.
    """

  def summarise(self, parts: Mapping[str, Results]) -> Findings:
    """Returns what is found beside the estimates of the parts, from their results by name."""
    del parts
    return Findings()

  def draw(self, parts: Mapping[str, Results]) -> Mapping[str, Picture]:
    """Returns {name: (figure, caption)} from the same."""
    del parts
    return {}


SUMMARIES = Registry('robustness.summaries', Summary)


def join(
  summary: Summary | None, parts: Mapping[str, Results], settings: Mapping[str, Any]
) -> Results:
  """Returns one set of results from those of all parts: their tables are one, by the facet `part`.

  Facts of parts are called `<part>: <name>`; pictures stay with the parts.

  Args:
    summary: chosen by the config, or None; what it finds comes first.
    parts: by name, at least one, of the same classifiers.
    settings: plain values of the run as a whole.
  """
  own = summary.summarise(parts) if summary else Findings()
  listed = [[name, results.study, results.data['num_examples']] for name, results in parts.items()]
  first = max(parts.values(), key=lambda results: len(results.prefixes))
  return Results(
    summary.name if summary else BATTERY,
    first.classifier,
    {name: results.data for name, results in parts.items()},
    {**{name: results.settings for name, results in parts.items()}, **settings},
    tables={
      **own.tables,
      'parts': Table(('part', 'study', 'images'), listed),
      **{f'{part}: {k}': v for part, results in parts.items() for k, v in results.tables.items()},
    },
    arrays=own.arrays,
    table=assemble([*own.estimates, *(with_facet(of.table, PART, k) for k, of in parts.items())]),
    quantities=tuple(dict.fromkeys(q for of in parts.values() for q in of.quantities)),
    parts={name: of.quantities for name, of in parts.items()},
  )


def captioned(
  figures: Mapping[str, Sequence[tuple[pathlib.Path, str]]],
) -> list[tuple[pathlib.Path, str]]:
  """Returns the figures of all parts, each part's name before the caption."""
  return [(file, f'{part}: {text}') for part, drawn in figures.items() for file, text in drawn]
