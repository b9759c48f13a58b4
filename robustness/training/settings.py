"""What a training is: the section `config.training`."""

from __future__ import annotations

import dataclasses
import math

from robustness.core.settings import choice, require

DECAYED = ('kernels', 'all')
COSINE, PLATEAU = 'cosine', 'plateau'


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
  """Stochastic gradient descent with momentum, weight decay and a schedule of the learning rate.

  Attributes:
    epochs: passes over the training rows; need not be whole.
    steps: optimiser steps; when above 0 it takes the place of `epochs`.
    batch_size: images a step, over all devices and micro-batches.
    learning_rate: the largest one, reached after the warm-up.
    schedule: how it falls: 'cosine', or 'plateau' (when the training loss no longer falls).
    plateau_patience: epochs without a lower mean loss after which 'plateau' lowers the rate.
    plateau_factor: what the rate is then multiplied by.
    momentum: μ of v ← μ·v + g; 0 is plain gradient descent.
    nesterov: step along g + μ·v in place of v.
    weight_decay: λ of g ← g + λ·θ, added to the gradient before the momentum.
    decay: which parameters λ acts on: 'kernels' (weights of convolutions and dense layers) or 'all'
      (biases and the scales of normalisations too).
    warmup_epochs: epochs of linear rise from 0.
    label_smoothing: ε of the target (1 − ε)·onehot + ε / classes.
    freeze_statistics: whether batch normalisation uses and keeps its running averages, as in
      fine-tuning on few or similar images, in place of those of the batch.
    accumulate: micro-batches a step; the gradient is their exact mean. Batch normalisation sees one
      micro-batch at a time, and its running averages are updated for each.
    checkpoint_every_steps: steps between checkpoints; 0 keeps the last one alone.
    evaluate_every_epochs: epochs between evaluations; 0 evaluates at the end alone.
    log_every_steps: steps between log lines, which hold the means since the line before.
    split: which split of the data is trained on.
  """

  epochs: float = 10.0
  steps: int = 0
  batch_size: int = 128
  learning_rate: float = 0.1
  schedule: str = COSINE
  plateau_patience: int = 1
  plateau_factor: float = 0.1
  momentum: float = 0.9
  nesterov: bool = True
  weight_decay: float = 5e-4
  decay: str = 'kernels'
  warmup_epochs: float = 0.0
  label_smoothing: float = 0.0
  freeze_statistics: bool = False
  accumulate: int = 1
  checkpoint_every_steps: int = 500
  evaluate_every_epochs: float = 1.0
  log_every_steps: int = 50
  split: str = 'train'

  def __post_init__(self) -> None:
    self._check_length()
    self._check_optimizer()
    self._check_schedule()
    self._check_habits()

  def _check_length(self) -> None:
    _require(self, 'epochs', math.isfinite(self.epochs) and self.epochs >= 0, '0 or more')
    _require(self, 'steps', self.steps >= 0, '0 (let config.training.epochs decide) or more')
    _require(
      self, 'epochs', self.epochs > 0 or self.steps > 0, 'above 0 when config.training.steps is 0'
    )
    _require(self, 'batch_size', self.batch_size >= 1, '1 or more')
    _require(self, 'accumulate', self.accumulate >= 1, '1 or more')
    _require(
      self,
      'accumulate',
      self.batch_size % self.accumulate == 0,
      f'a divisor of config.training.batch_size = {self.batch_size}',
    )

  def _check_optimizer(self) -> None:
    _require(
      self, 'learning_rate', math.isfinite(self.learning_rate) and self.learning_rate > 0, 'above 0'
    )
    _require(self, 'momentum', 0 <= self.momentum < 1, 'in [0, 1)')
    _require(
      self,
      'nesterov',
      not self.nesterov or self.momentum > 0,
      'False when config.training.momentum is 0',
    )
    _require(
      self, 'weight_decay', math.isfinite(self.weight_decay) and self.weight_decay >= 0, '0 or more'
    )
    choice('config.training.decay', self.decay, DECAYED)
    _require(self, 'label_smoothing', 0 <= self.label_smoothing < 1, 'in [0, 1)')

  def _check_schedule(self) -> None:
    choice('config.training.schedule', self.schedule, (COSINE, PLATEAU))
    _require(self, 'plateau_patience', self.plateau_patience >= 1, '1 or more')
    _require(self, 'plateau_factor', 0 < self.plateau_factor < 1, 'in (0, 1)')
    _require(
      self,
      'warmup_epochs',
      math.isfinite(self.warmup_epochs) and self.warmup_epochs >= 0,
      '0 or more',
    )

  def _check_habits(self) -> None:
    _require(
      self,
      'checkpoint_every_steps',
      self.checkpoint_every_steps >= 0,
      '0 (at the end alone) or more',
    )
    _require(
      self, 'evaluate_every_epochs', self.evaluate_every_epochs >= 0, '0 (at the end alone) or more'
    )
    _require(self, 'log_every_steps', self.log_every_steps >= 1, '1 or more')
    _require(self, 'split', bool(self.split), "a split's name, for example 'train'")


def _require(settings: TrainingSettings, name: str, condition: bool, valid: str) -> None:
  require(condition, f'config.training.{name}', getattr(settings, name), valid)
