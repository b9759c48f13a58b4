"""Training a classifier: settings, schedule, state, step, checkpoints and the loop."""

from __future__ import annotations

from robustness.training.batches import TrainingBatches, array_batches
from robustness.training.checkpoint import load_variables
from robustness.training.loop import train
from robustness.training.preemption import Preempted
from robustness.training.settings import TrainingSettings
from robustness.training.task import TrainingTask

__all__ = [
  'Preempted',
  'TrainingBatches',
  'TrainingSettings',
  'TrainingTask',
  'array_batches',
  'load_variables',
  'train',
]
