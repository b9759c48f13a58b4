"""Corruptions made here or stored: what studies of either source share.

Stored corrupted images are rows, each shown as it is, with the number of the corruption (-1 for
clean), the severity (0 for clean) and the base image as columns. What a corruption changed is
measured against the clean image of the same base image, where the set has one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np
from absl import logging

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import word
from robustness.core.rows import MAX_CACHED_BYTES, Batch, Rows, with_column, with_facts
from robustness.core.settings import require
from robustness.corruptions.names import CLEAN_PART, NAMED, NUMBERS, SEVERITIES, StoredPart
from robustness.corruptions.released import SOURCES
from robustness.corruptions.views import EXACT, CorruptionViews, Provenance, change
from robustness.evaluation.outcomes import Recorded, num_images
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation, Findings, ImageShape, Recipes
from robustness.evaluation.views import Arrays, Views, ViewTable, identity
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.results import Table

GENERATED, STORED = 'generated', 'stored'
COLUMNS = ('corruption', 'severity', 'base_id')
CLEAN_IMAGE = 'clean_image'
MADE_WITH = ('quantize', 'constants', 'photographs')


@dataclasses.dataclass(frozen=True)
class StoredOrMade(CorruptionViews):
  """A study of corruptions with a setting `source`: 'generated' or 'stored'.

  Attributes:
    source: 'generated' corrupts the rows; 'stored' takes rows that are corrupted already, and
      reports the severities, and the members of a set, that are there.
    not_stored: settings of made images alone, beside `MADE_WITH`.
    needs_clean: whether a stored set must hold the clean images.
  """

  allows_adaptation: ClassVar[bool] = True
  not_stored: ClassVar[tuple[str, ...]] = ()
  needs_clean: ClassVar[bool] = False
  source: str = word(GENERATED, (GENERATED, STORED))

  def __post_init__(self) -> None:
    super().__post_init__()
    fix = "left out with source='stored': images are shown as they are"
    made = self.source == GENERATED
    self.require(made or self.protocol == EXACT, 'protocol', fix)
    for name in (*MADE_WITH, *self.not_stored):
      self.require(made or not getattr(self, name), name, fix)
    chosen = self.options.chosen()
    require(made or not chosen, 'config.study.options', ', '.join(chosen), fix)

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
    """See `CorruptionViews`; stored images are recorded alike for all studies."""
    shared = {'views': STORED, 'bandwidth': self.bandwidth}
    return shared if self.is_stored else super().recording

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """See `Study`; refuses rows that are no stored corrupted images where these are wanted, and
    logs corruptions of a set that are not there."""
    super().check(rows, recipes)
    if not self.is_stored:
      if rows.image_shape[2] == 1 and 'saturate' in self.names:
        logging.warning('saturate leaves grey images as they are: its error is the clean one')
      return
    _require_stored(rows)
    if count := rows.description.get('parts'):
      first = rows.at(np.arange(count) * (rows.num_examples // count)).without_images()
      shown = self.of_stored([*parts_in(first['corruption'], first['severity'])]).names
      if lacking := [name for name in self.names if name not in shown]:
        said = f'{rows.description.get("path") or "the set"} lacks {", ".join(lacking)}'
        if set(lacking) & set(self.corruptions):
          raise InputError(f'{said}: fetch it, or leave it out of {KEYS.study.corruptions}.')
        logging.warning('%s: results are of the others', said)
    if self.needs_clean and not rows.description['clean_images']:
      raise InputError(
        f'the study {self.name} measures what corruptions change, and {rows.description["source"]} '
        'holds no clean images: add them as clean.npy or the folder clean, name their TFDS set, of '
        f'CIFAR-10-C in {KEYS.data.cifar10_c.clean_dataset}, or set '
        f"{KEYS.study.source}='generated'."
      )

  def needed_rows(self, rows: Rows) -> Rows:
    """See `Study`; of stored images those of the settings' corruptions and severities, and clean
    ones."""
    count = rows.description.get('parts')
    if not self.is_stored or not count:
      return rows
    size = rows.num_examples // count
    first = rows.at(np.arange(count) * size).without_images()
    stored = [*map(StoredPart._make, parts_in(first['corruption'], first['severity']))]
    wanted = {CLEAN_PART, *self.of_stored(stored).parts}
    places = [place for place, part in enumerate(stored) if part in wanted]
    if len(places) == count:
      return rows
    parts = [stored[place] for place in places]
    named = [part for part in parts if part != CLEAN_PART]
    facts = {
      'parts': len(parts),
      'corruptions': [*dict.fromkeys(NAMED[part.corruption] for part in named)],
      'severities': sorted({part.severity for part in named}),
    }
    return with_facts(
      rows.at(np.add.outer(np.array(places) * size, np.arange(size)).ravel()), facts
    )

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the corruptions as views, or the identity for stored images."""
    if not self.is_stored:
      return super().views(image_shape)
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))

    def measure(row: Arrays, shown: jax.Array, view: Arrays) -> Mapping[str, jax.Array]:
      del view
      if CLEAN_IMAGE not in row:
        return {}
      changed = change(shown, row[CLEAN_IMAGE], row['severity'])
      return measures.energies(spectrum.half_magnitude(changed))

    return dataclasses.replace(
      identity(), measure=measure, add_columns=with_clean_images, sequential=True
    )

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """See `CorruptionViews`; stored images have one view."""
    if self.is_stored:
      return ViewTable.of(['as stored'], {'as stored': [0]})
    return super().view_table(image_shape)

  def of_stored(self, parts: Sequence[tuple[int, int]]) -> Self:
    """Returns the study of those corruptions and severities that are stored."""
    names, severities = wanted_parts(parts, self.names, self.severities)
    return dataclasses.replace(self, corruptions=names, severities=severities)

  @property
  def parts(self) -> list[StoredPart]:
    """What every corrupted view shows, in order."""
    return [StoredPart(NUMBERS[name], s) for name in self.names for s in self.severities]

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """See `Study`; of stored images the clean view is first if it is stored."""
    if not self.is_stored:
      return super().by_image(records, image_shape)
    stored = parts_of(records)
    shown = self.of_stored(stored)
    clean = [CLEAN_PART] if CLEAN_PART in stored else []
    rows = by_part([*map(records.column, COLUMNS)], [*clean, *shown.parts])
    return SelectedRows(records, rows), shown.table_of_views(image_shape, bool(clean))

  def joined(
    self, evaluations: Sequence[Evaluation], image_shape: ImageShape
  ) -> tuple[Self, Recorded]:
    """Returns the study of what was shown, and records with a row an image and facets of the views,
    of stored images the clean one first if it is there."""
    if not self.is_stored:
      return self, Recorded(evaluations, self.facets(image_shape))
    parts = parts_of(evaluations[0].records)
    shown = self.of_stored(parts)
    first = 0 if CLEAN_PART in parts else 1
    views = shown.facets(image_shape)[first:].reset_index(drop=True)
    own = [(each, self.by_image(each.records, image_shape)[0]) for each in evaluations]
    return shown, Recorded([dataclasses.replace(e, records=r) for e, r in own], views)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """See `Study`; stored images are joined to images × views first."""
    shown, recorded = self.joined(evaluations, image_shape)
    return Findings(estimates=list(shown.estimates(recorded)))

  def gallery(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """See `CorruptionViews`; of stored rows the first image of each part, clean if it is there."""
    if not self.is_stored:
      return super().gallery(rows, key)
    firsts = range(0, rows.num_examples, rows.num_examples // rows.description['parts'])
    images = {
      (int(b['corruption'][0]), int(b['severity'][0])): b['image'][0]
      for b in rows.batches(1, list(firsts))
    }
    shown = self.of_stored(list(images))
    gallery = np.stack([images[part] for part in shown.parts])
    clean = {'gallery_clean': images[CLEAN_PART]} if CLEAN_PART in images else {}
    return {'gallery': shown.grid(gallery), **clean}

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
        num_images=num_images(records),
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
      return super().by_row(records, image_shape)
    names = [str(StoredPart(*part)) for part in parts_in(*map(records.column, COLUMNS[:2]))]
    counted = np.array([name != 'clean' for name in names])
    return ViewTable(('as stored',), None, counted[:, None], names)


def parts_in(corruption: np.ndarray, severity: np.ndarray) -> Iterator[tuple[int, int]]:
  """Yields the part of each stored row, given the columns; plain tuples, for millions of rows."""
  return zip(corruption.tolist(), severity.tolist(), strict=True)


def parts_of(records: RecordsReader) -> list[StoredPart]:
  """Returns the distinct parts of stored rows, ascending, clean first."""
  return sorted(map(StoredPart._make, set(parts_in(*map(records.column, COLUMNS[:2])))))


def wanted_parts(
  parts: Sequence[tuple[int, int]], wanted: Sequence[str], severities: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
  """Returns which of the wanted corruptions and severities are stored, which must form a
  grid."""
  stored = [(NAMED[c], s) for c, s in parts if c in NAMED]
  chosen = tuple(n for n in wanted if any((n, s) in stored for s in severities))
  levels = tuple(s for s in severities if any((n, s) in stored for n in chosen))
  missing = [f'{n} {s}' for n in chosen for s in levels if (n, s) not in stored]
  if not chosen or missing:
    have = ', '.join(f'{n} {s}' for n, s in stored) or 'no corruption'
    raise InputError(
      f'stored images of {", ".join(missing or wanted)} are wanted, but the set has '
      f'{have}. Set {KEYS.study.corruptions} and {KEYS.study.severities} '
      f'({", ".join(map(str, SEVERITIES))}) to what it has.'
    )
  return chosen, levels


def by_part(columns: Sequence[np.ndarray], parts: Sequence[StoredPart]) -> np.ndarray:
  """Returns the places of rows as [images, parts], images by ascending base id.

  `columns` are corruption, severity and base id, integers [R] each. An image without a
  row in some part, or with several, is refused.
  """
  corruption, severity, base_id = columns
  images = np.unique(base_id)
  table = np.zeros((len(images), len(parts)), int)
  for column, part in enumerate(parts):
    rows = np.flatnonzero((corruption == part.corruption) & (severity == part.severity))
    order = rows[np.argsort(base_id[rows], kind='stable')]
    if not np.array_equal(base_id[order], images):
      raise InputError(
        f'{part} has {len(rows)} rows of {len(np.unique(base_id[rows]))} images; all '
        f'{len(images)} images must be there once in every part.'
      )
    table[:, column] = order
  return table


def _require_stored(rows: Rows) -> None:
  missing = [name for name in COLUMNS if name not in next(rows.batches(1, [0]))]
  if missing:
    raise InputError(
      f"{KEYS.study.source} is 'stored', but the rows have no {', '.join(missing)}: "
      f"they are no stored corrupted images. Set {KEYS.study.source}='generated', or "
      f'{KEYS.data.source} to one of {", ".join((*SOURCES, "tfds_corrupted"))}.'
    )


def with_clean_images(rows: Rows) -> Rows:
  """Returns stored rows with the clean image of each as the column `clean_image`, as they are if
  the set has none; clean images are the first part, in the order of the others. Refuses rows that
  are no stored corrupted images."""
  _require_stored(rows)
  if not rows.description['clean_images']:
    return rows
  clean = rows.at(np.arange(rows.num_examples // rows.description['parts']))
  base_ids = clean.without_images()['base_id']
  arrays = functools.cache(lambda: clean.in_memory(MAX_CACHED_BYTES))

  def clean_image(batch: Batch) -> np.ndarray:
    places, inverse = np.unique(np.searchsorted(base_ids, batch['base_id']), return_inverse=True)
    read = (arrays() or clean).at(places).batches(len(places))
    return next(read)['image'][inverse]

  return with_column(rows, CLEAN_IMAGE, clean_image, {})
