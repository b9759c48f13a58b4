"""Near-duplicates: test images that resemble a training image, by a perceptual hash.

The hash is pHash of the package ImageHash, 64 bits: whether each of the 8 × 8 lowest frequencies of
the cosine transform of the grey image at 32 × 32 pixels exceeds their median. Two images are
near-duplicates if few bits differ. Copies that were re-encoded, resized or slightly brightened
differ in a few bits, unrelated photographs in about 32. Drawings on an empty background, such as
digits, have similar hashes in any case.
"""

import dataclasses
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from robustness.core.errors import KEYS, importing
from robustness.core.rows import Rows
from robustness.core.settings import require
from robustness.estimates.intervals import CLOPPER_PEARSON, clopper_pearson
from robustness.estimates.means import Estimate
from robustness.results import Table

BITS = 64
"""Number of bits of a hash."""
OFF = -1
"""Value of `config.study.near_duplicates` that turns the comparison off."""
LISTED = 1000
"""Largest number of pairs in a table, nearest first."""
COLUMNS = (
  *('classifier', 'test example', 'training example', 'bits that differ'),
  *('test class', 'training class', 'test environment', 'training environment'),
)
"""Columns of the table of pairs."""
_ROWS_PER_BATCH = 256
_MAX_PAIRS_AT_ONCE = 2**22
"""Most pairs of hashes that are compared at once, which limits memory."""


@dataclasses.dataclass(frozen=True)
class Hashed:
  """Perceptual hashes of N images, with their classes and environments.

  Attributes:
    hashes: uint64 [N].
    example_ids: int [N], the number of each image.
    classes: [N], the name of each image's class, the first one of several.
    environments: [N], the name of each image's environment; '' for images without environments.
  """

  hashes: np.ndarray
  example_ids: np.ndarray
  classes: np.ndarray
  environments: np.ndarray


def check(max_bits: int) -> None:
  """Raises InputError if the setting `near_duplicates` is invalid or ImageHash is not installed.

  Args:
    max_bits: value of the setting: largest number of bits in which the 64-bit hashes of duplicates
      may differ, in 0..16. `OFF` turns the search off.
  """
  fix = f'{OFF} (does not look for them) or a number of bits in 0..{BITS // 4}'
  require(OFF <= max_bits <= BITS // 4, 'config.study.near_duplicates', max_bits, fix)
  if max_bits != OFF:
    _import_imagehash()  # imports ImageHash


def _import_imagehash() -> ModuleType:
  """Imports the package ImageHash; raises InputError with the install command if it is missing."""
  key = KEYS.study.near_duplicates
  with importing(f'{key} needs ImageHash: pip install ImageHash, or set {key}={OFF}'):
    import imagehash
  return imagehash


def hashes(images: np.ndarray) -> np.ndarray:
  """Returns the perceptual hashes of images, uint64 [N].

  `images` are [N, H, W, C] with 1 or 3 channels, uint8 or floating in [0, 1].
  """
  from PIL import Image

  package = _import_imagehash()
  in_8_bits = images if images.dtype == np.uint8 else np.rint(images * 255).astype(np.uint8)
  pictures = in_8_bits[..., 0] if in_8_bits.shape[-1] == 1 else in_8_bits
  bits = [package.phash(Image.fromarray(picture)).hash.ravel() for picture in pictures]
  packed = np.packbits(np.array(bits, bool).reshape(len(images), BITS), axis=1)
  # the 8 bytes of a hash are read as one number, big-endian: its first bit is the highest
  return packed.view(np.dtype('>u8')).astype(np.uint64)[:, 0]


def hash_rows(rows: Rows) -> Hashed:
  """Returns the perceptual hashes of all clean images of a data set."""
  by_batch: list[tuple[np.ndarray, ...]] = []  # hashes, ids, labels, environments
  environment_names = rows.description.get('environments', ())
  names = np.array([*environment_names, ''])  # '', the last, is for rows without environments
  for batch in rows.batches(_ROWS_PER_BATCH):
    mask = batch['mask']  # false for padding
    # the first label of each image, if images have several, [rows, labels]
    label = batch['label'] if batch['label'].ndim == 1 else batch['label'][:, 0]
    environment = batch['environment'] if environment_names else np.full(len(mask), -1)
    hashes_and_ids = hashes(batch['image'][mask]), batch['example_id'][mask]
    by_batch.append((*hashes_and_ids, label[mask], environment[mask]))
  hash_values, ids, labels, environments = map(np.concatenate, zip(*by_batch, strict=True))
  return Hashed(hash_values, ids, np.array(rows.class_names)[labels], names[environments])


def similar_pairs(first: np.ndarray, second: np.ndarray, max_bits: int) -> np.ndarray:
  """Returns all pairs of similar hashes from two lists, int [pairs, 3].

  A pair is (i, j, number of differing bits). Pairs are sorted by bits, then i, then j.

  Args:
    first: hashes, uint64 [N], with index i.
    second: hashes, uint64 [M], with index j.
    max_bits: largest number of differing bits.
  """
  # hashes of `first` that are compared with all of `second` at once
  step = max(1, _MAX_PAIRS_AT_ONCE // max(len(second), 1))
  tables = [np.zeros((0, 3), int)]  # the result if there are no hashes
  for start in range(0, len(first), step):
    distance = np.bitwise_count(first[start : start + step, None] ^ second)
    i, j = np.nonzero(distance <= max_bits)
    tables.append(np.stack([i + start, j, distance[i, j].astype(int)], 1))
  table = np.concatenate(tables)
  i, j, bits = table.T
  return table[np.lexsort((j, i, bits))]  # by the last key first


def compare_hashes(
  test: Hashed, training: Mapping[str, Hashed], max_bits: int, confidence: float = 0.95
) -> tuple[dict[str, Estimate], Table]:
  """Searches for test images with near-duplicates among the training images of each classifier.

  Args:
    test: hashes of the test images.
    training: {label of a classifier: hashes of its training images}.
    max_bits: largest number of bits in which the hashes of near-duplicates differ.
    confidence: confidence level of the intervals, in (0, 1).

  Returns:
    {label: share of test images with a near-duplicate in training}, with the number of pairs as a
    note; and a table with the nearest 1000 pairs of each classifier.
  """
  shares, rows = {}, []
  for label, trained in training.items():
    table = similar_pairs(test.hashes, trained.hashes, max_bits)  # [pairs, 3]
    test_images = table[:, 0]
    count, n = len(np.unique(test_images)), len(test.hashes)
    low, high = clopper_pearson(count, n, confidence)
    note = f'{len(table)} pairs that differ in at most {max_bits} of {BITS} bits'
    if len(table) > LISTED:
      note += f'; the nearest {LISTED} are listed'
    # n images in n independent groups.
    shares[label] = Estimate(count / n, float(low), float(high), n, n, CLOPPER_PEARSON, note=note)
    for i, j, bits in table[:LISTED]:
      ids = int(test.example_ids[i]), int(trained.example_ids[j])
      classes = str(test.classes[i]), str(trained.classes[j])
      environments = str(test.environments[i]), str(trained.environments[j])
      rows.append([label, *ids, int(bits), *classes, *environments])  # in the order of `COLUMNS`
  return shares, Table(COLUMNS, rows)
