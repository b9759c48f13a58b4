"""Training a classifier: settings, schedule, state, step, checkpoints and the loop."""

from robustness.training.checkpoint import load_variables
from robustness.training.loop import train
from robustness.training.preemption import Preempted
from robustness.training.settings import TrainingSettings
from robustness.training.step import Pipeline, TrainStep
from robustness.training.training import Training, TrainingBatches

__all__ = [
  'Preempted',
  'TrainingBatches',
  'TrainingSettings',
  'Pipeline',
  'TrainStep',
  'Training',
  'load_variables',
  'train',
]
