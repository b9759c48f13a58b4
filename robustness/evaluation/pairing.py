"""Which images two runs share: by example id and the digest of each image."""

from __future__ import annotations

import dataclasses

import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import differing_keys
from robustness.evaluation.provenance import IMAGE_DIGEST
from robustness.evaluation.records import RecordsReader

PREPARATION = (
  'subset_seed',
  'prepared_for',
  'crop_margin',
  'num_examples',
  'image_shape',
  'resize',
  'crop',
  'interpolation',
  'resized_by',
)
"""Keys of a description of data that differ where the same stored images are shown otherwise."""
COUNTS = ('subset_seed', 'num_examples')
"""Those of them that change which images there are and no image."""


@dataclasses.dataclass(frozen=True)
class Pairing:
  """The images that two runs share.

  Attributes:
    first, second: [n] places of the same images among each run's rows; none where not paired.
    note: why they are not paired, or what a reader must know of it.
  """

  first: np.ndarray
  second: np.ndarray
  note: str = ''

  @property
  def paired(self) -> bool:
    """Whether there are shared images."""
    return len(self.first) > 0

  def noting(self, words: str) -> Pairing:
    """Returns the pairing with further words in its note."""
    return dataclasses.replace(self, note='; '.join(filter(None, (self.note, words))))


def pair(
  first: RecordsReader, second: RecordsReader, names: tuple[str, str], common: bool
) -> Pairing:
  """Finds the images that two runs share.

  Images are the same if their example ids are, and their digests; where the digests differ, because
  each classifier has its own size, if both runs say the same of where their images are stored.

  Args:
    first, second: complete records.
    names: of the runs, for messages.
    common: whether runs that share a part of their images are compared on that part.

  Raises:
    InputError: the runs say the same of their data but have other images under the same ids, or
      they share some of their images and `common` is False.
  """
  ids = [records.column('example_id') for records in (first, second)]
  shared, *places = np.intersect1d(ids[0], ids[1], return_indices=True)
  nothing = np.zeros(0, int)
  differing = _differing(first, second)
  equal = _equal_digests(first, second, *places)
  stored_alike = not set(differing) - set(PREPARATION)
  if not len(shared) or not (stored_alike or equal):
    return Pairing(nothing, nothing, 'other images')
  if equal is False and not set(differing) - set(COUNTS):
    raise InputError(
      f'{names[0]} and {names[1]} say the same of their data and have {len(shared)} example ids in '
      'common, but not the same images: the files were changed between the runs. Run one again.'
    )
  if not common and len(shared) < max(map(len, ids)):
    raise InputError(
      f'{names[0]} and {names[1]} share {len(shared)} of {len(ids[0])} and {len(ids[1])} images: '
      'run both on the same images, or give --common to compare them on those alone.'
    )
  order = np.argsort(places[0])  # as the first run has them
  note = _note(first, second, equal)
  if len(shared) < max(map(len, ids)):
    note = '; '.join(filter(None, (f'difference on the {len(shared)} shared images', note)))
  return Pairing(places[0][order], places[1][order], note)


def _differing(first: RecordsReader, second: RecordsReader) -> list[str]:
  """Returns the keys of the descriptions of data that differ."""
  lines = differing_keys(first.identity['data'], second.identity['data'])
  return [line.partition(':')[0].partition('.')[0] for line in lines]


def _equal_digests(
  first: RecordsReader, second: RecordsReader, at_first: np.ndarray, at_second: np.ndarray
) -> bool | None:
  """Returns whether all shared images have the same digest; None where a run has no digests."""
  if any(IMAGE_DIGEST not in records.read(0, 0).arrays for records in (first, second)):
    return None
  return bool(
    (first.column(IMAGE_DIGEST)[at_first] == second.column(IMAGE_DIGEST)[at_second]).all()
  )


def _note(first: RecordsReader, second: RecordsReader, equal: bool | None) -> str:
  notes = []
  if equal is None:
    notes.append('paired by example id alone: an earlier version wrote the records')
  elif not equal:
    notes.append('the same stored images, prepared otherwise')
  if first.identity.get('seed') != second.identity.get('seed'):
    notes.append('other seeds: what is drawn differs')
  return '; '.join(notes)
