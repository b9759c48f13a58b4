"""What is reported above the parts of a battery: named parts that read results, never records.

A summary is a module with `TITLE`, that of the report, a dataclass `Settings` and three functions:

  check(settings, labels, studies)    refuses classifiers (labels, in order) or studies (by part)
                                      with which it finds nothing, before anything is trained;
  summarise(settings, parts)          returns `Findings` from the parts' results by name;
  draw(settings, parts)               returns {name: (figure, caption)} from the same.

`config.battery.summary.name` chooses it; without one a battery opens with the overview.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from robustness.core.parts import Part
from robustness.estimates.table import assemble, with_facet
from robustness.evaluation.study import Findings
from robustness.results import PART, Results, Table

BATTERY = 'battery'
"""What results are called that join those of several studies."""


def join(
  summary: Part | None, parts: Mapping[str, Results], settings: Mapping[str, Any]
) -> Results:
  """Returns one set of results from those of all parts: their tables are one, by the facet `part`.

  Facts of parts are called `<part>: <name>`; pictures stay with the parts.

  Args:
    summary: chosen by the config, or None; what it finds comes first.
    parts: by name, at least one, of the same classifiers.
    settings: plain values of the run as a whole.
  """
  own = summary.module.summarise(summary.settings, parts) if summary else Findings()
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
