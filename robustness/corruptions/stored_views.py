"""Corruptions made here or stored: what studies of either source share.

Stored corrupted images are rows, each shown as it is; their columns tell corruption, severity and
base image, by which predictions are pivoted to images × views.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import require
from robustness.corruptions.names import NAMED, NUMBERS
from robustness.corruptions.provenance import RELEASED_SOURCES, Provenance
from robustness.corruptions.released import EXACT
from robustness.corruptions.stored_parts import (
  CLEAN_PART,
  Part,
  by_part,
  stored_parts,
  wanted_parts,
)
from robustness.corruptions.views import CLEAN, CorruptionViews
from robustness.evaluation.provenance import data_digest
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation, ImageShape, without_fixed
from robustness.evaluation.views import Views, ViewTable, identity
from robustness.results import Table

GENERATED, STORED = 'generated', 'stored'
COLUMNS = ('corruption', 'severity', 'base_id')
MADE_WITH = ('quantize', 'constants', 'photographs', 'bandwidth')


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
    self.require(
      self.source == GENERATED or self.protocol == EXACT,
      'protocol',
      "left out with source='stored': images are shown as they are",
    )
    for name in (*MADE_WITH, *self.not_stored):
      require(
        self.source == GENERATED or not getattr(self, name),
        f'config.study.{name}',
        getattr(self, name),
        "left out with source='stored': images are shown as they are",
      )

  @property
  def is_stored(self) -> bool:
    """Whether corrupted images are read and not made."""
    return self.source == STORED

  @property
  def facts(self) -> dict[str, Any]:
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
    stored = stored_parts(*columns[:2])
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
    records, count = evaluations[0].records, evaluations[0].records.layout.num_rows
    shown, clean = self, True
    if self.is_stored:
      parts = parts_of(records)
      shown, clean = self.of_stored(parts), CLEAN_PART in parts
      count = len(np.unique(records.column('base_id')))
    data = records.identity.get('data', {})
    whose = self.denominator(evaluations[0].label)
    digest = data_digest(records)
    stated = Provenance(shown, self.is_stored, data, digest, count, image_shape, whose, clean)
    return stated.table()

  def denominator(self, first: str) -> str:
    """Returns whose errors mCE divides by, '' where there is no mCE.

    Args:
      first: label of the first classifier.
    """
    del first
    return ''

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """See `Study`; of stored images each row has its own view."""
    if not self.is_stored:
      return self.view_table(image_shape)
    corruption, severity = (records.column(name).tolist() for name in COLUMNS[:2])
    names = [
      'clean' if (c, s) == CLEAN_PART else f'{NAMED[c]} {s}'
      for c, s in zip(corruption, severity, strict=True)
    ]
    counted = np.array([name != 'clean' for name in names])
    return ViewTable(('as stored',), None, counted[:, None], names)


def parts_of(records: RecordsReader) -> list[Part]:
  """Returns the distinct (corruption, severity) of stored rows, ascending, clean first."""
  return stored_parts(*(records.column(name) for name in COLUMNS[:2]))


def _as_stored(
  key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
) -> jax.Array:
  missing = [name for name in COLUMNS if name not in row]
  if missing:
    raise InputError(
      f"config.study.source is 'stored', but the rows have no {', '.join(missing)}: "
      "they are no stored corrupted images. Set config.study.source='generated', or "
      f'config.data.source to one of {", ".join((*RELEASED_SOURCES, "tfds_corrupted"))}.'
    )
  return row['image']
