"""Corruptions made here or stored: what studies of either source share.

Stored corrupted images are rows, each shown as it is. Their columns have the number of the
corruption (-1 for clean), the severity (0 for clean) and the base image; by these, predictions
become a table of images × parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.corruptions.names import CLEAN as NO_CORRUPTION
from robustness.corruptions.names import NAMED, NUMBERS, SEVERITIES
from robustness.corruptions.released import SOURCES, Provenance
from robustness.corruptions.settings import EXACT
from robustness.corruptions.views import CLEAN, CorruptionViews
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation, ImageShape, without_fixed
from robustness.evaluation.views import Views, ViewTable, identity
from robustness.results import Table

GENERATED, STORED = 'generated', 'stored'
COLUMNS = ('corruption', 'severity', 'base_id')
MADE_WITH = ('quantize', 'constants', 'photographs', 'bandwidth')
Part = tuple[int, int]
"""Number of the corruption, and severity."""
CLEAN_PART: Part = (NO_CORRUPTION, 0)


class StoredOrMade(CorruptionViews):
  """A study of corruptions with a setting `source`: 'generated' or 'stored'.

  Attributes:
    not_stored: settings of made images alone, beside `MADE_WITH`.
  """

  not_stored: ClassVar[tuple[str, ...]] = ()
  source: str

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('source', (GENERATED, STORED))
    fix = "left out with source='stored': images are shown as they are"
    made = self.source == GENERATED
    self.require(made or self.protocol == EXACT, 'protocol', fix)
    for name in (*MADE_WITH, *self.not_stored):
      self.require(made or not getattr(self, name), name, fix)

  @property
  def is_stored(self) -> bool:
    """Whether corrupted images are read and not made."""
    return self.source == STORED

  @property
  def facts(self) -> dict[str, dict[str, str]]:
    """See `CorruptionViews`; stored images do not tell what frost was drawn from."""
    return {} if self.is_stored else super().facts

  @property
  def recording(self) -> dict[str, Any]:
    """See `CorruptionViews`; of stored images nothing but predictions is recorded."""
    return without_fixed(self.describe()) if self.is_stored else super().recording

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the corruptions as views, or the identity for stored images."""
    if self.is_stored:
      return dataclasses.replace(identity(), show=_as_stored)
    return super().views(image_shape)

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """See `CorruptionViews`; stored images have one view."""
    if self.is_stored:
      return ViewTable.of(['as stored'], {'as stored': [0]})
    return dataclasses.replace(super().view_table(image_shape), facets=self.view_facets)

  def of_stored(self, parts: Sequence[Part]) -> Self:
    """Returns the study of those corruptions and severities that are stored."""
    names, severities = wanted_parts(parts, self.names, self.severities)
    return dataclasses.replace(self, corruptions=names, severities=severities)

  @property
  def parts(self) -> list[Part]:
    """(Number, severity) of every corrupted view, in order."""
    return [(NUMBERS[name], s) for name in self.names for s in self.severities]

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """See `Study`; of stored images the clean view is first if it is
    stored."""
    if not self.is_stored:
      return records, self.view_table(image_shape)
    columns = [records.column(name) for name in COLUMNS]
    stored = parts_of(records)
    shown = self.of_stored(stored)
    clean = [CLEAN_PART] if CLEAN_PART in stored else []
    rows = by_part(np.arange(len(columns[0])), columns, [*clean, *shown.parts])
    made = CorruptionViews.view_table(shown, image_shape)
    names, groups = [*made.names], {**made.groups}
    if not clean:
      del names[CLEAN], groups['clean']
      groups = {name: [view - 1 for view in views] for name, views in groups.items()}
    table = dataclasses.replace(ViewTable.of(names, groups), facets=shown.view_facets)
    return SelectedRows(records, rows), table

  def of_images(self, evaluation: Evaluation, image_shape: ImageShape) -> Evaluation:
    """Returns an evaluation whose records are `by_image`."""
    records, _ = self.by_image(evaluation.records, image_shape)
    return dataclasses.replace(evaluation, records=records)

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """See `Study`."""
    records = evaluations[0].records
    stated = Provenance.of_made(self, records, image_shape)
    if self.is_stored:
      parts = parts_of(records)
      stated = dataclasses.replace(
        stated,
        settings=self.of_stored(parts),
        stored=True,
        num_images=len(np.unique(records.column('base_id'))),
        clean=CLEAN_PART in parts,
      )
    whose = self.denominator(evaluations[0].label)
    return dataclasses.replace(stated, denominator=whose).table()

  def denominator(self, first: str) -> str:
    """Returns whose errors mCE divides by, given the first classifier's label; '' without mCE."""
    del first
    return ''

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """See `Study`; of stored images each row has its own view."""
    if not self.is_stored:
      return self.view_table(image_shape)
    corruption, severity = (records.column(name).tolist() for name in COLUMNS[:2])
    names = [_named((c, s)) for c, s in zip(corruption, severity, strict=True)]
    counted = np.array([name != 'clean' for name in names])
    return ViewTable(('as stored',), None, counted[:, None], names)


def parts_of(records: RecordsReader) -> list[Part]:
  """Returns the distinct (corruption, severity) of stored rows, ascending, clean first."""
  return sorted(set(zip(*(records.column(name).tolist() for name in COLUMNS[:2]), strict=True)))


def wanted_parts(
  parts: Sequence[Part], wanted: Sequence[str], severities: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
  """Returns which of the given corruptions and severities are stored; they must form a grid.

  Args:
    parts: what is stored.
    wanted: the corruptions asked for.
    severities: the severities asked for.

  Raises:
    InputError: nothing of that is stored, or a severity of one corruption and not of another.
  """
  stored = [(NAMED[c], s) for c, s in parts if c != NO_CORRUPTION]
  chosen = tuple(n for n in wanted if any((n, s) in stored for s in severities))
  levels = tuple(s for s in severities if any((n, s) in stored for n in chosen))
  missing = [f'{n} {s}' for n in chosen for s in levels if (n, s) not in stored]
  if not chosen or missing:
    have = ', '.join(f'{n} {s}' for n, s in stored) or 'no corruption'
    raise InputError(
      f'stored images of {", ".join(missing or wanted)} are wanted, but the set has '
      f'{have}. Set config.study.corruptions and config.study.severities '
      f'({", ".join(map(str, SEVERITIES))}) to what it has.'
    )
  return chosen, levels


def by_part(values: np.ndarray, columns: Sequence[np.ndarray], parts: Sequence[Part]) -> np.ndarray:
  """Returns values of rows as [images, parts], images by ascending base id.

  Args:
    values: [R].
    columns: corruption, severity and base id, integers [R] each.
    parts: the columns of the result; rows of other parts are left out.

  Raises:
    InputError: an image has no row, or several, in some part.
  """
  corruption, severity, base_id = columns
  images = np.unique(base_id)
  table = np.zeros((len(images), len(parts)), values.dtype)
  for column, (number, level) in enumerate(parts):
    rows = np.flatnonzero((corruption == number) & (severity == level))
    order = rows[np.argsort(base_id[rows], kind='stable')]
    if not np.array_equal(base_id[order], images):
      raise InputError(
        f'{_named((number, level))} has {len(rows)} rows of '
        f'{len(np.unique(base_id[rows]))} images; '
        f'all {len(images)} images must be there once in every part.'
      )
    table[:, column] = values[order]
  return table


def _named(part: Part) -> str:
  return 'clean' if part == CLEAN_PART else f'{NAMED[part[0]]} {part[1]}'


def _as_stored(
  key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
) -> jax.Array:
  missing = [name for name in COLUMNS if name not in row]
  if missing:
    raise InputError(
      f"config.study.source is 'stored', but the rows have no {', '.join(missing)}: "
      "they are no stored corrupted images. Set config.study.source='generated', or "
      f'config.data.source to one of {", ".join((*SOURCES, "tfds_corrupted"))}.'
    )
  return row['image']
