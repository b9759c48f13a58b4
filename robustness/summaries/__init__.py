"""What is reported above the parts of a battery: named parts that read results, never records.

A summary is a module with a dataclass `Settings` and four functions:

  check(settings, labels, studies)    refuses classifiers (labels, in order) or studies (by part)
                                      with which it finds nothing, before anything is trained;
  summarise(settings, results)        returns `Findings` from the parts' results by name;
  draw(settings, results)             returns {name: (figure, caption)} from the same.
  sentences(settings, results)        returns what was found in words, each with an interval.

`config.battery.summary.name` chooses it. Without one, parts are reported one after another.
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
  """Returns one set of results from those of all parts: the summary's, then `<part>/<name>` each.

  Their tables of estimates are one, with the facet `part`. Arrays stay with the parts.

  Args:
    summary: chosen by the config, or None.
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
    {
      **own.numbers,
      **{f'{part}/{k}': v for part, results in parts.items() for k, v in results.numbers.items()},
    },
    {
      **own.tables,
      'parts': Table(('part', 'study', 'images'), listed),
      **{f'{part}: {k}': v for part, results in parts.items() for k, v in results.tables.items()},
    },
    own.arrays,
    assemble([*own.estimates, *(with_facet(of.table, PART, k) for k, of in parts.items())]),
    tuple(dict.fromkeys(quantity for of in parts.values() for quantity in of.quantities)),
  )


def own_tables(joined: Results, parts: Mapping[str, Results]) -> list[str]:
  """Returns the names of the tables that `join` did not take over from parts."""
  return [name for name in joined.tables if name.partition(': ')[0] not in parts]


def captioned(
  figures: Mapping[str, Sequence[tuple[pathlib.Path, str]]],
) -> list[tuple[pathlib.Path, str]]:
  """Returns the figures of all parts, each part's name before the caption."""
  return [(file, f'{part}: {text}') for part, drawn in figures.items() for file, text in drawn]
