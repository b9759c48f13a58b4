"""The accuracy of weights between the steps of a training, and which training rows are held out."""

from collections.abc import Callable, Iterator, Mapping

import jax
import numpy as np

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.sampler import held_out
from robustness.core.typing import Variables
from robustness.evaluation.outcomes import BASE
from robustness.evaluation.runner import Evaluator, PlacedBlock
from robustness.evaluation.views import identity
from robustness.models.classifier import Classifier
from robustness.parallel import Parallel
from robustness.parallel.mesh import own_copy
from robustness.parallel.processes import exchange
from robustness.video.columns import GROUP, OFFSET, clips


class AccuracyOnRows:
  """Measures the accuracy of weights on rows, each of which counts once.

  Several processes count a share of the blocks each.
  """

  def __init__(
    self, classifier: Classifier, rows: Rows, seed: int, parallel: Parallel, resident_bytes: int
  ):
    """Reads nothing before the first call.

    The classifier may have shapes for weights; rows of at most `resident_bytes` are read once and
    stay on the devices.
    """
    self.classifier, self.rows = classifier, rows
    self.evaluator = Evaluator(
      classifier, identity(), random_keys.stream(seed, 'accuracy'), parallel
    )
    self._layout = self.evaluator.layout(rows.num_examples)
    self._blocks = KeptBlocks(self._own_blocks, resident_bytes)

  def __call__(self, variables: Variables) -> dict[str, float]:
    """Returns `{'accuracy'}` of the weights, in [0, 1]."""
    given = own_copy(variables)
    shards = self.evaluator.shards_of(self._blocks, self._layout, variables=given)
    right = sum(int((shard['rank'] == 0).sum()) for _, _, shard in shards)
    counts = exchange(f'the evaluation of {self.evaluator.name}', str(right))
    return {'accuracy': sum(map(int, counts)) / self.rows.num_examples}

  def _own_blocks(self) -> Iterator[PlacedBlock]:
    own = range(jax.process_index(), self._layout.num_blocks, jax.process_count())
    return self.evaluator.placed(self.rows, self._layout, own) if own else iter(())


class KeptBlocks:
  """Placed blocks for several evaluations of the same rows; iterate it for each. Blocks that
  together have at most `most` bytes, over all devices, stay on the devices after the first time."""

  def __init__(self, read: Callable[[], Iterator[PlacedBlock]], most: int):
    self._read, self._most = read, most
    self._kept: list[PlacedBlock] = []

  def __iter__(self) -> Iterator[PlacedBlock]:
    if self._kept:
      yield from self._kept
      return
    kept: list[PlacedBlock] = []
    left = self._most
    for block in self._read():
      left -= block.nbytes
      if left >= 0:
        kept.append(block)
      else:
        kept.clear()
      yield block
    if left >= 0:
      self._kept = kept


def split_validation(rows: Rows, share: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows to train on and those to validate on, see `held_out`.

  All frames of a clip are on one side, and all stored versions of an image, or other rows of one
  `group_id`.
  """
  are_versions = 'base_images' in rows.description  # to split them one by one would leak
  columns = (rows.without_images() if are_versions else columns_of(rows)) if share else {}
  are_frames = {GROUP, OFFSET} <= columns.keys() and columns[GROUP].dtype.kind in 'iu'
  groups = clips(columns) if are_frames else columns.get(GROUP, columns.get(BASE))
  return held_out(rows.num_examples, share, groups)


def columns_of(rows: Rows) -> Mapping[str, np.ndarray]:
  """Returns what all rows have beside images; nothing of rows that are read front to back."""
  try:
    return rows.without_images()
  except InputError:
    return {}
