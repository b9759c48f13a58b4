"""Batch normalisation with a mixture of the test batch's and the training's statistics."""

import dataclasses

from flax import linen as nn

from robustness.core.typing import PyTree
from robustness.models.adaptation import Adaptation, Apply, ImageBatch, Result


@dataclasses.dataclass(frozen=True)
class Statistics(Adaptation):
  """Replaces the statistics of batch normalisation by a mixture with the test batch's.

  No weights change. The variance of the test batch is unbiased, as in the authors' code.
  """

  unbiased = True
  kinds = (nn.BatchNorm,)
  adapts = 'batch normalisation'

  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Returns the outputs with mixed statistics in batch normalisation, and the state unchanged."""
    return self.normalised(apply, variables, batch.images, batch.mask), state
