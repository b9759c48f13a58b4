"""What a training is: the section `config.training`."""

import dataclasses
import math
from collections.abc import Iterator

from robustness.core.settings import choice, require

KERNELS, ALL, NONE = DECAYED = ('kernels', 'all', 'none')
SCHEDULES = ('cosine', 'plateau', 'step', 'constant', 'triangular')
COSINE, PLATEAU, STEP, CONSTANT, TRIANGULAR = SCHEDULES
MOST_EPOCHS, MOST_STEPS = 1_000_000, 2**31 - 1
"""A step is counted in 32 bits."""
OPTIMIZERS = ('sgd', 'adamw', 'lamb')
LAST, BEST = KEPT = ('last', 'best')


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
  """How long a network is trained, by which optimizer, and what is kept.

  Attributes:
    epochs: passes over the training rows; need not be whole.
    steps: optimizer steps; when above 0 it takes the place of `epochs`.
    batch_size: images a step, over all devices and micro-batches.
    learning_rate: the largest one, reached after the warm-up.
    schedule: how it falls: 'cosine', 'step' (at `step_epochs`), 'plateau' (when the training loss
      no longer falls), 'constant', or 'triangular' (see `triangle`).
    triangle: of 'triangular': the rate at the first step and after the last one, as factors of
      `learning_rate`, and between them the share of the steps after which it is reached.
    step_epochs: epochs after which 'step' lowers the rate, ascending.
    step_factor: what the rate is then multiplied by.
    plateau_patience: epochs without a lower mean loss after which 'plateau' lowers the rate.
    plateau_factor: what the rate is then multiplied by.
    optimizer: 'sgd', 'adamw' or 'lamb', as in Optax; see `robustness.training.optimizer`.
    momentum: of 'sgd', μ of v ← μ·v + g; 0 is plain gradient descent.
    nesterov: of 'sgd', step along g + μ·v in place of v.
    beta1: of 'adamw' and 'lamb', decay of the mean of gradients.
    beta2: of 'adamw' and 'lamb', decay of the mean of squared gradients.
    epsilon: of 'adamw' and 'lamb', added to the root of that mean.
    weight_decay: λ; of 'sgd' added to the gradient before the momentum as λ·θ, else decoupled.
    decay: which parameters λ acts on: 'kernels' (weights of convolutions and dense layers), 'all'
      (biases and the scales of normalisations too) or 'none'.
    clip_norm: largest global norm of the gradient, which is scaled down to it; 0 does not clip.
    body_rate: what the learning rate of all layers but the last, the map to logits, is multiplied
      by, in fine-tuning.
    ema_decay: decay of the exponential moving average of the weights, which is then what is
      evaluated and kept, beside the raw weights; 0 averages nothing.
    lookahead: steps after which the weights and statistics w are drawn to slow ones s, both
      becoming d·s + (1 − d)·w with d = .95^lookahead · (step / steps)³; the slow ones are what is
      evaluated and kept. 0 has none.
    bias_rate: of 'sgd', what the learning rate of the biases of normalisations is multiplied by;
      their decay stays.
    stem_epochs: epochs after which the layer `stem` is trained no more; 0 trains it to the end.
    warmup_epochs: epochs of linear rise from 0.
    balanced: a column of the rows, such as 'label' or 'environment', each value of which a batch
      holds equally often; '' takes all rows equally often. An epoch is as many images either way.
    freeze_statistics: whether batch normalisation uses and keeps its running averages, as in
      fine-tuning on few or similar images, in place of those of the batch.
    accumulate: micro-batches a step; the gradient is their exact mean. Batch normalisation sees one
      micro-batch at a time, and its running averages are updated for each.
    checkpoint_every_steps: steps between checkpoints; 0 keeps the last one alone.
    evaluate_every_epochs: epochs between evaluations; 0 evaluates at the end alone.
    validation: share of the training rows that is held out and measured in place of the rows of the
      study, in [0, 1); the same rows for any seed, and all frames of a clip. 0 holds none out.
    keep: 'last' ends with the last weights; 'best' with those of the best validation accuracy (of
      equal ones the first).
    log_every_steps: steps between log lines, which hold the means since the line before.
    resident_bytes: rows of up to so many bytes stay on the devices, where each step gathers its
      own (copies on several devices of a CPU count); so do those that are measured in between. 0
      reads every batch.
    split: which split of the data is trained on.
  """

  epochs: float = 10.0
  steps: int = 0
  batch_size: int = 128
  learning_rate: float = 0.1
  schedule: str = COSINE
  triangle: tuple[float, float, float] = (0.2, 0.23, 0.07)
  step_epochs: tuple[float, ...] = ()
  step_factor: float = 0.1
  plateau_patience: int = 1
  plateau_factor: float = 0.1
  optimizer: str = 'sgd'
  momentum: float = 0.9
  nesterov: bool = True
  beta1: float = 0.9
  beta2: float = 0.999
  epsilon: float = 1e-8
  weight_decay: float = 5e-4
  decay: str = KERNELS
  clip_norm: float = 0.0
  body_rate: float = 1.0
  ema_decay: float = 0.0
  lookahead: int = 0
  bias_rate: float = 1.0
  stem_epochs: float = 0.0
  warmup_epochs: float = 0.0
  balanced: str = ''
  freeze_statistics: bool = False
  accumulate: int = 1
  checkpoint_every_steps: int = 500
  evaluate_every_epochs: float = 1.0
  validation: float = 0.0
  keep: str = LAST
  log_every_steps: int = 50
  resident_bytes: int = 2**30
  split: str = 'train'

  def __post_init__(self) -> None:
    choice('config.training.optimizer', self.optimizer, OPTIMIZERS)
    choice('config.training.decay', self.decay, DECAYED)
    choice('config.training.schedule', self.schedule, SCHEDULES)
    choice('config.training.keep', self.keep, KEPT)
    for name, holds, valid in self._rules():
      require(holds, f'config.training.{name}', getattr(self, name), valid)

  def _rules(self) -> Iterator[tuple[str, bool, str]]:
    """Yields a key, whether its value is allowed, and which ones are."""
    yield 'epochs', 0 <= self.epochs <= MOST_EPOCHS, f'in [0, {MOST_EPOCHS}]'
    valid = f'0 (let config.training.epochs decide) to {MOST_STEPS}'
    yield 'steps', 0 <= self.steps <= MOST_STEPS, valid
    yield 'epochs', self.epochs > 0 or self.steps > 0, 'above 0 when config.training.steps is 0'
    yield 'batch_size', self.batch_size >= 1, '1 or more'
    yield 'accumulate', self.accumulate >= 1, '1 or more'
    valid = f'a divisor of config.training.batch_size = {self.batch_size}'
    yield 'accumulate', self.batch_size % self.accumulate == 0, valid
    yield 'learning_rate', 0 < self.learning_rate < math.inf, 'above 0'
    yield 'momentum', 0 <= self.momentum < 1, 'in [0, 1)'
    valid = 'False when config.training.momentum is 0'
    yield 'nesterov', not self.nesterov or self.momentum > 0, valid
    yield 'weight_decay', 0 <= self.weight_decay < math.inf, '0 or more'
    yield 'beta1', 0 <= self.beta1 < 1, 'in [0, 1)'
    yield 'beta2', 0 <= self.beta2 < 1, 'in [0, 1)'
    yield 'epsilon', self.epsilon > 0, 'above 0'
    yield 'clip_norm', self.clip_norm >= 0, '0 (no clipping) or more'
    yield 'body_rate', self.body_rate >= 0, '0 (the last layer alone is trained) or more'
    yield 'ema_decay', 0 <= self.ema_decay < 1, 'in [0, 1); 0 averages nothing'
    epochs = self.step_epochs
    falls = bool(epochs) == (self.schedule == STEP) and list(epochs) == sorted(set(epochs))
    yield 'step_epochs', falls, "ascending epochs for the schedule 'step', and () for every other"
    yield 'step_factor', 0 < self.step_factor < 1, 'in (0, 1)'
    yield 'plateau_patience', self.plateau_patience >= 1, '1 or more'
    yield 'plateau_factor', 0 < self.plateau_factor < 1, 'in (0, 1)'
    yield 'warmup_epochs', 0 <= self.warmup_epochs < math.inf, '0 or more'
    falls = self.schedule != TRIANGULAR or self.warmup_epochs == 0
    yield 'warmup_epochs', falls, "0 for the schedule 'triangular', which rises by itself"
    valid = 'three numbers: two factors of 0 or more and between them a share in (0, 1)'
    corners = self.triangle
    holds = len(corners) == 3 and min(corners) >= 0 and 0 < corners[1] < 1
    yield 'triangle', holds, valid
    yield 'lookahead', self.lookahead >= 0, '0 (no slow weights) or more'
    valid = '0 where config.training.ema_decay averages the weights'
    yield 'lookahead', not (self.lookahead and self.ema_decay), valid
    valid = "above 0, and 1 for every optimizer but 'sgd'"
    plain = self.optimizer == 'sgd' or self.bias_rate == 1
    yield 'bias_rate', 0 < self.bias_rate < math.inf and plain, valid
    yield 'stem_epochs', 0 <= self.stem_epochs < math.inf, '0 (to the end) or more'
    valid = '0 (at the end alone) or more'
    yield 'checkpoint_every_steps', self.checkpoint_every_steps >= 0, valid
    yield 'evaluate_every_epochs', self.evaluate_every_epochs >= 0, valid
    yield 'validation', 0 <= self.validation < 1, 'in [0, 1)'
    valid = (
      "'last' unless config.training.validation > 0: the best weights are chosen by held-out "
      'training rows, for the rows of the study would leak into them'
    )
    yield 'keep', self.keep == LAST or self.validation > 0, valid
    yield 'log_every_steps', self.log_every_steps >= 1, '1 or more'
    yield 'resident_bytes', self.resident_bytes >= 0, '0 (read every batch) or more'
    yield 'split', bool(self.split), "a split's name, for example 'train'"
