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
    self,
    label: str,
    measured: Callable[[Variables], tuple[Classifier, Rows]],
    seed: int,
    parallel: Parallel,
    resident_bytes: int,
  ):
    """Opens nothing before the first call.

    `measured` is from the first weights to the classifier and the rows that it is shown; rows of at
    most `resident_bytes` are read once and stay on the devices.
    """
    self._label, self._measured, self._parallel = label, measured, parallel
    self._key = random_keys.stream(seed, 'accuracy')
    self._opened: tuple[Evaluator, Rows] | None = None
    self._blocks = KeptBlocks(self._own_blocks, resident_bytes)

  def __call__(self, variables: Variables) -> dict[str, float]:
    """Returns `{'accuracy'}` of the weights, in [0, 1]."""
    variables = own_copy(variables)
    evaluator, rows = self.open(variables)
    layout = evaluator.layout(rows.num_examples)
    shards = evaluator.shards_of(self._blocks, layout, variables=variables)
    right = sum(int((shard['rank'] == 0).sum()) for _, _, shard in shards)
    counts = exchange(f'the evaluation of {self._label}', str(right))
    return {'accuracy': sum(map(int, counts)) / rows.num_examples}

  def open(self, variables: Variables) -> tuple[Evaluator, Rows]:
    """Returns what evaluates, and on which rows; made of the weights of the first call."""
    if self._opened is None:
      classifier, rows = self._measured(variables)
      self._opened = Evaluator(classifier, identity(), self._key, self._parallel), rows
    return self._opened

  def _own_blocks(self) -> Iterator[PlacedBlock]:
    assert self._opened is not None
    evaluator, rows = self._opened
    layout = evaluator.layout(rows.num_examples)
    own = range(jax.process_index(), layout.num_blocks, jax.process_count())
    return evaluator.placed(rows, layout, own) if own else iter(())


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
