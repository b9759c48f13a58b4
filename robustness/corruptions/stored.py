"""Base class of studies of corrupted images, computed here or read from a stored set.

Each row of a stored set is one image, shown unchanged. Its columns are `corruption` (its number;
-1: clean), `severity` (0: clean) and `base_id` (number of the image before corruption). A part of
the set is one corruption at one severity. The change by a corruption is measured as the difference
from the clean image of the same base_id, if the set has clean images.
"""

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
from robustness.corruptions.views import CorruptionViews, Provenance, change
from robustness.evaluation.outcomes import Recorded, num_images
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation, Findings, ImageShape, Recipes
from robustness.evaluation.views import Arrays, Views, ViewTable, stored_view
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.results import Table

GENERATED, STORED = 'generated', 'stored'
"""Values of the setting `source`."""
PART_COLUMNS = ('corruption', 'severity')
"""Columns of stored rows that state the part of the set."""
COLUMNS = (*PART_COLUMNS, 'base_id')
"""Columns that the rows of a stored set have."""
CLEAN_IMAGE = 'clean_image'
"""Column with the clean image of a stored row."""
MADE_WITH = ('protocol', 'quantize', 'constants', 'photographs')
"""Settings of `CorruptionViews` that only concern images corrupted here."""


@dataclasses.dataclass(frozen=True)
class StoredOrMade(CorruptionViews):
  """Base class of studies with corrupted images, which are computed here or read from a data set.

  A stored data set, such as CIFAR-10-C, contains each image several times: for each corruption at
  each severity, and usually clean.

  Attributes:
    source: 'generated' corrupts clean images. 'stored' reads images that are corrupted already. The
      study then reports its corruptions and severities as far as the data set contains them.
    allows_adaptation: see `Study`; classifiers may adapt to batches of corrupted images.
    not_stored: settings of a subclass that only concern generated images. They must have their
      defaults if images are stored, as the settings `MADE_WITH` of every study.
    needs_clean: whether a stored data set must contain the clean images.
  """

  allows_adaptation = True
  not_stored: ClassVar[tuple[str, ...]] = ()
  needs_clean: ClassVar[bool] = False
  source: str = word(GENERATED, (GENERATED, STORED))

  def __post_init__(self) -> None:
    """Raises InputError for settings of corruptions without an effect on stored images.

    Corrupted images are either stored or computed. Settings that only affect computed ones must
    keep their defaults if images are stored.
    """
    super().__post_init__()
    if not self.is_stored:
      return
    # Settings of computed images must have their defaults.
    valid = "left out with source='stored': images are shown as they are"
    for name in (*MADE_WITH, *self.not_stored):
      self.require(getattr(self, name) == getattr(type(self), name), name, valid)
    variants = self.options.non_default()
    require(not variants, 'config.study.options', ', '.join(variants), valid)

  @property
  def is_stored(self) -> bool:
    """Whether corrupted images are read from a data set instead of computed."""
    return self.source == STORED

  @property
  def facts(self) -> dict[str, dict[str, str]]:
    """The sources of pictures that are mixed into images, such as photographs of frost.

    The key 'frost' describes the photographs of frost, and 'pictures' the pictures in mosaics and
    stickers. Corruptions that are not in use have no key. Stored images have none at all, because
    their pictures are unknown.
    """
    return {} if self.is_stored else super().facts

  @property
  def recording(self) -> dict[str, Any]:
    """The settings that determine the saved predictions and energies, see `Study.recording`.

    Studies with equal values reuse each other's saved predictions. For stored images only
    `bandwidth` matters, which defines high frequencies (`robustness.fourier.filters.lowest_kept`).
    The corruptions to report do not matter, because all stored images are predicted.
    """
    return {'views': STORED, 'bandwidth': self.bandwidth} if self.is_stored else super().recording

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if the study cannot be run on a data set.

    With source='stored' it must be a data set of stored corrupted images. If one of the published
    sets in `corruptions`, such as 'official', has a corruption that the data lack, a warning is
    logged.

    Args:
      rows: the data set.
      recipes: the classifiers, see `Study.check`.

    Raises:
      InputError: the data set has no stored corrupted images, lacks a corruption that the setting
        `corruptions` names, or lacks clean images that are needed.
    """
    super().check(rows, recipes)
    if not self.is_stored:
      if rows.image_shape[2] == 1 and 'saturate' in self.names:
        logging.warning('saturate leaves grey images as they are: its error is the clean one')
      return
    _require_stored(rows)
    self._check_corruptions(rows)
    if self.needs_clean and not rows.description['clean_images']:
      raise InputError(
        f'the study {self.name} measures what corruptions change, and {rows.description["source"]} '
        'holds no clean images: add them as clean.npy or the folder clean, name their TFDS set, of '
        f'CIFAR-10-C in {KEYS.data.cifar10_c.clean_dataset}, or set '
        f"{KEYS.study.source}='generated'."
      )

  def _check_corruptions(self, rows: Rows) -> None:
    """Checks that a data set of stored corrupted images has the study's corruptions.

    A missing corruption is an error if the setting `corruptions` lists it by name. If it is only a
    member of a listed set, such as 'official', a warning is logged.

    Args:
      rows: the data. Data that do not describe their corruptions are not checked.

    Raises:
      InputError: a listed corruption is missing.
    """
    stored = parts_of_rows(rows)
    if not stored:  # rows that are not described
      return
    stored_names = self.restricted_to_stored(stored).names
    missing = [name for name in self.names if name not in stored_names]
    if missing:
      problem = f'{rows.description.get("path") or "the set"} lacks {", ".join(missing)}'
      if any(name in self.corruptions for name in missing):
        raise InputError(f'{problem}: fetch it, or leave it out of {KEYS.study.corruptions}.')
      logging.warning('%s: results are of the others', problem)

  def needed_rows(self, rows: Rows) -> Rows:
    """Returns the images of the data set that the study measures.

    From stored corrupted images these are the clean ones and those with the study's corruptions
    and severities. They are stored in parts: consecutive images with one corruption and severity,
    all parts of equal length. The description of the returned data set lists the parts. A data set
    of clean images is returned unchanged.
    """
    stored = parts_of_rows(rows) if self.is_stored else []
    if not stored:
      return rows
    needed = {CLEAN_PART, *self.restricted_to_stored(stored).parts}
    indices = [index for index, part in enumerate(stored) if part in needed]
    if len(indices) == len(stored):
      return rows
    corrupted = [stored[index] for index in indices if stored[index] != CLEAN_PART]
    description = {
      'parts': len(indices),
      'corruptions': [*dict.fromkeys(NAMED[part.corruption] for part in corrupted)],
      'severities': sorted({part.severity for part in corrupted}),
    }
    # the rows of each needed part, [parts, rows of a part]
    part_size = rows.num_examples // len(stored)
    positions = np.array(indices)[:, None] * part_size + np.arange(part_size)
    return with_facts(rows.at(positions.ravel()), description)

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the views of the study: the ways in which each image is shown to the classifiers.

    If images are computed, a view is a corruption at a severity (see `CorruptionViews.views`).
    Stored images have a single view, which shows each image unchanged. It measures the energy of
    the difference between each image and its clean image.
    """
    if not self.is_stored:
      return super().views(image_shape)
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))

    def measure(row: Arrays, image: jax.Array, view: Arrays) -> Mapping[str, jax.Array]:
      """Returns the Fourier energies of an image's change by its corruption, or of a clean image.

      Args:
        row: the clean image and the severity, 0 for a clean image.
        image: the stored image [H, W, C].
        view: not used: stored images have a single view.

      Returns:
        {name: energy}; {} if the data set has no clean images.
      """
      if CLEAN_IMAGE not in row:
        return {}
      changes = change(image, row[CLEAN_IMAGE], row['severity'])
      return measures.energies(spectrum.half_magnitude(changes))

    # sequential, one image at a time, because XLA's sums over a batch depend on its size
    return dataclasses.replace(
      stored_view(), measure=measure, add_columns=with_clean_images, sequential=True
    )

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views and of groups of views to average over.

    Stored images have the single view 'as stored'.
    """
    if self.is_stored:
      return ViewTable.of(['as stored'], {'as stored': [0]})
    return super().view_table(image_shape)

  def restricted_to_stored(self, parts: Sequence[tuple[int, int]]) -> Self:
    """Returns the study with only the corruptions and severities that a data set contains.

    Args:
      parts: the pairs (number of the corruption, severity) in the data set.
    """
    names, severities = stored_settings(parts, self.names, self.severities)
    return dataclasses.replace(self, corruptions=names, severities=severities)

  @property
  def parts(self) -> list[StoredPart]:
    """The corruption number and severity of each corrupted view, in the order of the views."""
    return [StoredPart(NUMBERS[name], s) for name in self.names for s in self.severities]

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """Returns saved predictions with one row per clean image and one view per corrupted version.

    Predictions of a stored data set were saved with a row for each image at each corruption and
    severity, and a single view. They are rearranged here. If the data set has clean images, they
    are the first view.

    Args:
      records: the saved predictions.
      image_shape: (H, W, C) of the images.

    Returns:
      The rearranged predictions and the names of their views.
    """
    if not self.is_stored:
      return super().by_image(records, image_shape)
    stored = parts_of(records)
    study = self.restricted_to_stored(stored)
    clean = [CLEAN_PART] if CLEAN_PART in stored else []
    # indices of the stored rows, [images, views]
    rows = rows_by_part([*map(records.column, COLUMNS)], [*clean, *study.parts])
    return SelectedRows(records, rows), study.table_of_views(image_shape, bool(clean))

  def joined(
    self, evaluations: Sequence[Evaluation], image_shape: ImageShape
  ) -> tuple[Self, Recorded]:
    """Returns the study and its saved predictions with one row per clean image.

    If the study computes corruptions, both are returned as they are. Predictions of stored images
    were saved with a row for each corrupted version of an image. Here the versions become views of
    one row. The returned study then has only the corruptions and severities in the data set. The
    first view is clean if there are clean images.

    Args:
      evaluations: the saved predictions of each classifier.
      image_shape: (H, W, C) of the images.
    """
    if not self.is_stored:
      return self, Recorded(evaluations, self.facets(image_shape))
    parts = parts_of(evaluations[0].records)
    study = self.restricted_to_stored(parts)
    facets = study.facets(image_shape)
    if CLEAN_PART not in parts:
      facets = facets[1:].reset_index(drop=True)  # the first row describes the clean view
    evaluations_by_image = []
    for evaluation in evaluations:
      records, _ = self.by_image(evaluation.records, image_shape)
      evaluations_by_image.append(dataclasses.replace(evaluation, records=records))
    return study, Recorded(evaluations_by_image, facets)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the estimates of errors and other quantities from the records of all classifiers."""
    study, recorded = self.joined(evaluations, image_shape)
    return Findings(estimates=list(study.estimates(recorded)))

  def gallery(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the first image under every corruption and severity, for a figure.

    Returns:
      {'gallery': [corruptions, severities, H, W, C], 'gallery_clean': [H, W, C]}. The latter is
      missing if a stored data set has no clean images.
    """
    if not self.is_stored:
      return super().gallery(rows, key)
    part_size = rows.num_examples // rows.description['parts']
    first_rows = range(0, rows.num_examples, part_size)
    # {(corruption, severity): first image of this part}
    images = {
      (int(batch['corruption'][0]), int(batch['severity'][0])): batch['image'][0]
      for batch in rows.batches(1, list(first_rows))
    }
    study = self.restricted_to_stored(list(images))
    gallery = np.stack([images[part] for part in study.parts])
    clean = {'gallery_clean': images[CLEAN_PART]} if CLEAN_PART in images else {}
    return {'gallery': study.grid(gallery), **clean}

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns a table that states where the corrupted images come from.

    They are made in the run, or stored in a data set (`self.is_stored`), which may lack some pairs
    of corruption and severity, called parts.

    Args:
      evaluations: the predictions of each classifier; only the first classifier's are read.
      image_shape: height, width and channels of the images.
    """
    study, records = self, evaluations[0].records
    fields: dict[str, Any] = {'denominator': self.denominator(evaluations[0].label)}
    if self.is_stored:
      parts = parts_of(records)  # the stored pairs of corruption and severity
      study = self.restricted_to_stored(parts)
      fields |= {'num_images': num_images(records), 'clean': CLEAN_PART in parts}
    return Provenance.of(study, records, image_shape, **fields).table()

  def denominator(self, first: str) -> str:
    """Returns what a study divides errors by in a mean corruption error (mCE), in words.

    An example is 'AlexNet (published)'. It is '' here; studies with an mCE override this.

    Args:
      first: label of the first classifier, whose errors may be the divisors.
    """
    return ''

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, and for stored images also a name for each row.

    Stored images have the single view 'as stored'. Each row is named by its corruption and
    severity, such as 'fog 3'. Clean images are left out of means.

    Args:
      records: the saved predictions.
      image_shape: (H, W, C) of the images.
    """
    if not self.is_stored:
      return super().by_row(records, image_shape)
    names = [str(StoredPart(*part)) for part in parts_in(*map(records.column, PART_COLUMNS))]
    is_corrupted = np.array([name != 'clean' for name in names])
    return ViewTable(('as stored',), counted=is_corrupted[:, None], rows=names)


def parts_in(corruption: np.ndarray, severity: np.ndarray) -> Iterator[tuple[int, int]]:
  """Yields (corruption number, severity) of each image of a stored data set.

  Plain tuples are faster than `StoredPart` for millions of images.

  Args:
    corruption: number of each image's corruption, int [N].
    severity: severity of each image, int [N].
  """
  return zip(corruption.tolist(), severity.tolist(), strict=True)


def parts_of(records: RecordsReader) -> list[StoredPart]:
  """Returns the corruptions and severities in the saved predictions of a stored data set.

  They are ascending without repeats; clean images are first.
  """
  return sorted(map(StoredPart._make, set(parts_in(*map(records.column, PART_COLUMNS)))))


def parts_of_rows(rows: Rows) -> list[StoredPart]:
  """Returns the corruptions and severities in a stored data set, in the order of its images.

  Each corruption at each severity is a block of consecutive images, and all blocks have the same
  length. The result is [] for a data set of clean images.
  """
  num_parts = rows.description.get('parts', 0)
  if not num_parts:
    return []
  part_size = rows.num_examples // num_parts
  first_rows = rows.at(np.arange(num_parts) * part_size).without_images()
  return [*map(StoredPart._make, parts_in(first_rows['corruption'], first_rows['severity']))]


def stored_settings(
  parts: Sequence[tuple[int, int]], names: Sequence[str], severities: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
  """Returns the corruptions and severities of a study that a stored data set contains.

  Each returned corruption is stored at each returned severity.

  Args:
    parts: the pairs (number of the corruption, severity) in the data set.
    names: the corruptions of the study.
    severities: the severities of the study.

  Raises:
    InputError: no corruption is stored, or one is stored without a severity that another has.
  """
  # (name, severity) of each stored part; `NAMED` lacks the clean part
  stored = [(NAMED[number], severity) for number, severity in parts if number in NAMED]
  stored_names = tuple(n for n in names if any((n, severity) in stored for severity in severities))
  stored_severities = tuple(s for s in severities if any((name, s) in stored for name in names))
  needed = [(name, severity) for name in stored_names for severity in stored_severities]
  missing = [f'{name} {severity}' for name, severity in needed if (name, severity) not in stored]
  if not stored_names or missing:
    available = ', '.join(f'{name} {severity}' for name, severity in stored) or 'no corruption'
    raise InputError(
      f'stored images of {", ".join(missing or names)} are wanted, but the set has '
      f'{available}. Set {KEYS.study.corruptions} and {KEYS.study.severities} '
      f'({", ".join(map(str, SEVERITIES))}) to what it has.'
    )
  return stored_names, stored_severities


def rows_by_part(columns: Sequence[np.ndarray], parts: Sequence[StoredPart]) -> np.ndarray:
  """Returns the row of each image at each corruption and severity, int [images, parts].

  Args:
    columns: the columns `corruption`, `severity` and `base_id` of the stored rows, integers [rows]
      each. `base_id` is the number of the clean image that a row was made from.
    parts: the corruptions and severities to look for.

  Returns:
    Indices of rows. Images are in ascending order of base_id.

  Raises:
    InputError: an image occurs not exactly once in a part.
  """
  corruption, severity, base_id = columns
  images = np.unique(base_id)
  table = np.zeros((len(images), len(parts)), int)
  for column, part in enumerate(parts):
    rows = np.flatnonzero((corruption == part.corruption) & (severity == part.severity))
    by_image = rows[np.argsort(base_id[rows], kind='stable')]
    if not np.array_equal(base_id[by_image], images):
      raise InputError(
        f'{part} has {len(rows)} rows of {len(np.unique(base_id[rows]))} images; all '
        f'{len(images)} images must be there once in every part.'
      )
    table[:, column] = by_image
  return table


def _require_stored(rows: Rows) -> None:
  """Raises InputError if a data set does not consist of stored corrupted images."""
  first_row = next(rows.batches(1, [0]))
  missing = [name for name in COLUMNS if name not in first_row]
  if missing:
    raise InputError(
      f"{KEYS.study.source} is 'stored', but the rows have no {', '.join(missing)}: "
      f"they are no stored corrupted images. Set {KEYS.study.source}='generated', or "
      f'{KEYS.data.source} to one of {", ".join((*SOURCES, "tfds_corrupted"))}.'
    )


def with_clean_images(rows: Rows) -> Rows:
  """Adds to each image of a stored data set its clean image, as the column `clean_image`.

  The data set must begin with the clean images, in ascending order of base_id (the number of the
  clean image that a row was made from). A data set without clean images is returned unchanged.

  Raises:
    InputError: the data set does not consist of stored corrupted images.
  """
  _require_stored(rows)
  if not rows.description['clean_images']:
    return rows
  clean = rows.at(np.arange(rows.num_examples // rows.description['parts']))
  base_ids = clean.without_images()['base_id']
  # the clean images as arrays, read at the first call; None if they are too large
  in_memory = functools.cache(lambda: clean.in_memory(MAX_CACHED_BYTES))

  def clean_images(batch: Batch) -> np.ndarray:
    """Reads the clean image that each row of a batch was made from, [B, H, W, C].

    Args:
      batch: columns of corrupted images; `base_id` is the id of the clean image of each.
    """
    index = np.searchsorted(base_ids, batch['base_id'])  # of each row's clean image, [B]
    # several rows of a batch may have the same clean image, which is read only once
    needed, position_in_needed = np.unique(index, return_inverse=True)
    rows_of_needed = (in_memory() or clean).at(needed)  # from files if the images are too large
    all_needed = next(rows_of_needed.batches(batch_size=len(needed)))
    return all_needed['image'][position_in_needed]

  return with_column(rows, CLEAN_IMAGE, clean_images, facts={})
