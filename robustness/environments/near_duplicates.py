"""Near-duplicates: test images that look like a training image, by a perceptual hash.

The hash is pHash as the package ImageHash has it: the signs, against their median, of the 8 × 8
lowest frequencies of the cosine transform of the image in grey at 32 × 32 pixels, 64 bits. Two
images are near-duplicates if few bits differ. Copies that were encoded again, resized or slightly
brightened differ in a few bits, unrelated photographs in about 32. Drawings on an empty ground,
such as digits, are alike to begin with.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.rows import Rows
from robustness.core.settings import require
from robustness.estimates.intervals import CLOPPER_PEARSON, clopper_pearson
from robustness.estimates.means import Estimate
from robustness.results import Table

BITS = 64
OFF = -1
LISTED = 1000
"""Pairs that a table holds, the nearest first."""
COLUMNS = (
  *('classifier', 'test example', 'training example', 'bits that differ'),
  *('test class', 'training class', 'test environment', 'training environment'),
)
_READ = 256  # rows read at once
_COMPARED = 2**22  # pairs compared at once
_ENVIRONMENT = 'environment'


@dataclasses.dataclass(frozen=True)
class Hashed:
  """Rows by their hashes, uint64 [N], with names of classes and environments, '' for none."""

  hashes: np.ndarray
  example_ids: np.ndarray
  classes: np.ndarray
  environments: np.ndarray


def check(most: int) -> None:
  """Raises InputError unless `most`, `config.study.near_duplicates`, can be looked for here."""
  require(
    OFF <= most <= BITS // 4,
    'config.study.near_duplicates',
    most,
    f'{OFF} (does not look for them) or a number of bits in 0..{BITS // 4}',
  )
  if most != OFF:
    _package()


def _package() -> ModuleType:
  try:
    return importlib.import_module('imagehash')
  except ModuleNotFoundError as error:
    raise InputError(
      f'{KEYS.study.near_duplicates} needs the package ImageHash, which is not installed: '
      f'pip install ImageHash, or set {KEYS.study.near_duplicates}={OFF}.'
    ) from error


def hashes(images: np.ndarray) -> np.ndarray:
  """Returns the perceptual hash of each image, uint64 [N].

  Images are [N, H, W, C] of 1 or 3 channels, uint8 or floating in [0, 1].
  """
  from PIL import Image

  package = _package()
  levels = images if images.dtype == np.uint8 else np.rint(images * 255).astype(np.uint8)
  pictures = levels[..., 0] if levels.shape[-1] == 1 else levels
  bits = [package.phash(Image.fromarray(picture)).hash.ravel() for picture in pictures]
  packed = np.packbits(np.array(bits, bool).reshape(len(levels), BITS), axis=1)
  return packed.view(np.dtype('>u8')).astype(np.uint64)[:, 0]


def hashed(rows: Rows) -> Hashed:
  """Reads all rows, as they are shown clean, and hashes their images."""
  parts: list[tuple[np.ndarray, ...]] = []
  known = rows.description.get('environments', ())
  for batch in rows.batches(_READ):
    real = batch['mask']
    label = batch['label'] if batch['label'].ndim == 1 else batch['label'][:, 0]
    environment = batch[_ENVIRONMENT] if known else np.full(len(real), -1)
    parts.append(
      (hashes(batch['image'][real]), *(v[real] for v in (batch['example_id'], label, environment)))
    )
  own, ids, labels, environments = (np.concatenate(column) for column in zip(*parts, strict=True))
  names = np.array([*known, ''])
  return Hashed(own, ids, np.array(rows.class_names)[labels], names[environments])


def pairs(first: np.ndarray, second: np.ndarray, most: int) -> np.ndarray:
  """Returns which of two arrays of hashes differ in at most `most` bits: rows (i, j, bits that
  differ), sorted by bits, then i, then j."""
  step = max(1, _COMPARED // max(len(second), 1))
  alike = [np.zeros((0, 3), int)]
  for begin in range(0, len(first), step):
    distance = np.bitwise_count(first[begin : begin + step, None] ^ second)
    i, j = np.nonzero(distance <= most)
    alike.append(np.stack([i + begin, j, distance[i, j].astype(int)], 1))
  table = np.concatenate(alike)
  return table[np.lexsort((table[:, 1], table[:, 0], table[:, 2]))]


def between(
  test: Hashed, training: Mapping[str, Hashed], most: int, confidence: float = 0.95
) -> tuple[dict[str, Estimate], Table]:
  """Compares the test with what each classifier was trained on.

  Returns:
    By classifier the share of test images with a training image that differs in at most `most`
    bits, with the count of pairs as a note; and the table of the pairs, of each the nearest
    `LISTED`.
  """
  shares, listed = {}, []
  for label, own in training.items():
    table = pairs(test.hashes, own.hashes, most)
    found, n = len(np.unique(table[:, 0])), len(test.hashes)
    low, high = clopper_pearson(found, n, confidence)
    note = f'{len(table)} pairs that differ in at most {most} of {BITS} bits'
    if len(table) > LISTED:
      note += f'; the nearest {LISTED} are listed'
    shares[label] = Estimate(found / n, float(low), float(high), n, n, CLOPPER_PEARSON, note=note)
    listed += [
      [
        *(label, int(test.example_ids[i]), int(own.example_ids[j]), int(bits)),
        *(str(test.classes[i]), str(own.classes[j])),
        *(str(test.environments[i]), str(own.environments[j])),
      ]
      for i, j, bits in table[:LISTED]
    ]
  return shares, Table(COLUMNS, listed)
