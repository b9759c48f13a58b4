"""The section `config.battery`: several studies of the same classifiers in one run, by name.

  config.battery.parts = ('errors', 'heat_maps')      which parts run, in order
  config.battery.errors.study.name = ...              a part's study, as `config.study`
  config.battery.heat_maps.data.num_images = 200      what differs from `config.data`
  config.battery.scenes.data.source = ...             rows of another source, with all their keys
  config.battery.summary.name = ...                   what is reported above the parts

Classifiers are trained once; each part leaves records, results, figures and a report of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from input_pipeline.settings import DataSettings
from robustness.core import settings
from robustness.core.errors import InputError, naming, nearest
from robustness.evaluation import study
from robustness.evaluation.study import Study
from robustness.summaries import SUMMARIES, Summary

WHERE, PARTS, SUMMARY = 'config.battery', 'parts', 'summary'


@dataclasses.dataclass(frozen=True)
class Measurement:
  """A study, and the rows that it is measured on."""

  study: Study
  data: DataSettings


@dataclasses.dataclass(frozen=True)
class Battery:
  """The studies of a run.

  Attributes:
    measurements: by the name of the part, in the order in which they run.
    summary: of `robustness.summaries`; None reports the parts one after another.
  """

  measurements: Mapping[str, Measurement]
  summary: Summary | None

  @property
  def studies(self) -> dict[str, study.Study]:
    """The studies by the name of the part."""
    return {name: part.study for name, part in self.measurements.items()}


def measurement(section: Mapping[str, Any], data: Mapping[str, Any], where: str) -> Measurement:
  """Returns a checked study with its rows.

  Args:
    section: as `config.study`.
    data: the keys of `config.data` that are given.
    where: of the rows in messages, for example 'config.data'.
  """
  chosen = study.from_config(section)
  rows = settings.parse(DataSettings, data, where)
  return Measurement(
    chosen, dataclasses.replace(rows, canvas=rows.canvas or getattr(chosen, 'canvas', 0))
  )


def from_section(section: Mapping[str, Any], data: Mapping[str, Any]) -> Battery:
  """Checks the section; parts that do not run are checked too.

  Args:
    section: `config.battery`.
    data: `config.data`, which holds for a part unless its own section says otherwise. A part with
      another `source` takes none of its keys, which are about other rows.

  Raises:
    InputError: no part, one that has no section or is named twice, or a bad value in a section.
  """
  sections = dict(section)
  settings.check_sections(sections, (SUMMARY,), WHERE)
  for name in sections:
    if name not in (PARTS, SUMMARY):
      settings.check_name(WHERE, name)
  summary = SUMMARIES.optional(sections.pop(SUMMARY, {}), f'{WHERE}.{SUMMARY}')
  names = sections.pop(PARTS, ())
  if isinstance(names, str) or not isinstance(names, tuple | list) or not names:
    raise InputError(
      f'{WHERE}.{PARTS} is {names!r}; it must be a tuple of parts: {", ".join(sections) or "none"}.'
    )
  if len(set(names)) < len(names):
    raise InputError(f'{WHERE}.{PARTS} is {tuple(names)}; each part runs once.')
  for name in names:
    if name not in sections:
      raise InputError(f'{WHERE}.{PARTS} names {name!r}; {nearest(str(name), sections)}.')
  known = {name: _part(name, values, data) for name, values in sections.items()}
  return Battery({name: known[name] for name in names}, summary)


def _part(name: str, section: Any, data: Mapping[str, Any]) -> Measurement:
  where = f'{WHERE}.{name}'
  if not isinstance(section, Mapping):
    raise InputError(f'{where} must be a section with a study; got {section!r}.')
  settings.refuse_unknown(section, ('study', 'data'), where)
  settings.check_sections(section, ('study', 'data'), where)
  own = section.get('data', {})
  default = DataSettings().source
  same_source = own.get('source', data.get('source', default)) == data.get('source', default)
  inherited = data if same_source else {}
  with naming('config.study', f'{where}.study'):
    return measurement(section.get('study', {}), {**inherited, **own}, f'{where}.data')
