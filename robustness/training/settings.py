"""What a training is: the section `config.training`."""

import dataclasses
import math

from robustness.core.errors import KEYS
from robustness.core.registry import check_fields, setting, word
from robustness.core.settings import require

KERNELS, ALL, NONE = DECAYED = ('kernels', 'all', 'none')
SCHEDULES = ('cosine', 'plateau', 'step', 'constant', 'triangular')
COSINE, PLATEAU, STEP, CONSTANT, TRIANGULAR = SCHEDULES
CORNERS = 'three numbers: two factors of 0 or more and between them a share in (0, 1)'
MOST_EPOCHS, MOST_STEPS = 1_000_000, 2**31 - 1
"""A step is counted in 32 bits."""
WHERE = 'config.training'
SGD, ADAMW, LAMB = OPTIMIZERS = ('sgd', 'adamw', 'lamb')
LAST, BEST = KEPT = ('last', 'best')
PRECISIONS = ('float32', 'bfloat16')


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
    optimizer: 'sgd', 'adamw' or 'lamb', as in Optax; see `robustness.training.optimizer`.
    momentum: of 'sgd', μ of v ← μ·v + g; 0 is plain gradient descent.
    nesterov: of 'sgd', step along g + μ·v in place of v.
    epsilon: of 'adamw' and 'lamb', added to the root of the mean of squared gradients.
    weight_decay: λ; of 'sgd' added to the gradient before the momentum as λ·θ, else decoupled.
    decay: which parameters λ acts on: 'kernels' (weights of convolutions and dense layers), 'all'
      (biases and the scales of normalisations too) or 'none'.
    clip_norm: largest global norm of the gradient, which is scaled down to it; 0 does not clip.
    backbone_rate_multiplier: what the learning rate of all layers but the last, the map to logits,
      is multiplied by, in fine-tuning.
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
    auxiliary_norms: how many of the last images of a row, where an augmentation gives several, pass
      through a second set of normalisation layers, which the trained network leaves out (see
      `robustness.training.auxiliary_norms`). 0 has one set for all.
    accumulate: micro-batches a step; the gradient is their exact mean. Batch normalisation sees one
      micro-batch at a time, and its running averages are updated for each.
    checkpoint_every_steps: steps between checkpoints; 0 keeps the last one alone.
    evaluate_every_epochs: epochs between evaluations; 0 evaluates at the end alone.
    validation: share of the training rows that is held out and measured in place of the rows of the
      study, in [0, 1); the same rows for any seed, and all frames of a clip. 0 holds none out.
    keep: 'last' ends with the last weights; 'best' with those of the best validation accuracy (of
      equal ones the first).
    precision: of the network's arithmetic in training, 'float32' or 'bfloat16'; '' takes
      `config.precision`, in which the trained network is measured.
    log_every_steps: steps between log lines, which hold the means since the line before.
    resident_bytes: rows of up to so many bytes stay on the devices, where each step gathers its
      own (copies on several devices of a CPU count); so do those that are measured in between. 0
      reads every batch.
    split: which split of the data is trained on.
  """

  epochs: float = setting(10.0, f'in [0, {MOST_EPOCHS}]', lambda x: 0 <= x <= MOST_EPOCHS)
  steps: int = setting(
    0, f'0 (let config.training.epochs decide) to {MOST_STEPS}', lambda x: 0 <= x <= MOST_STEPS
  )
  batch_size: int = setting(128, '1 or more', lambda x: x >= 1)
  learning_rate: float = setting(0.1, 'above 0', lambda x: 0 < x < math.inf)
  schedule: str = word(COSINE, SCHEDULES)
  triangle: tuple[float, float, float] = setting(
    (0.2, 0.23, 0.07),
    CORNERS,
    lambda x: len(x) == 3 and min(x) >= 0 and 0 < x[1] < 1,
    only_with=('schedule', TRIANGULAR),
  )
  step_epochs: tuple[float, ...] = ()
  step_factor: float = setting(0.1, 'in (0, 1)', lambda x: 0 < x < 1, only_with=('schedule', STEP))
  optimizer: str = word(SGD, OPTIMIZERS)
  momentum: float = setting(0.9, 'in [0, 1)', lambda x: 0 <= x < 1, only_with=('optimizer', SGD))
  nesterov: bool = True
  epsilon: float = setting(
    1e-8, 'above 0', lambda x: 0 < x < math.inf, only_with=('optimizer', ADAMW, LAMB)
  )
  weight_decay: float = setting(5e-4, '0 or more', lambda x: 0 <= x < math.inf)
  decay: str = word(KERNELS, DECAYED)
  clip_norm: float = setting(0.0, '0 (no clipping) or more', lambda x: x >= 0)
  backbone_rate_multiplier: float = setting(
    1.0, '0 (the last layer alone learns) or more', lambda x: 0 <= x < math.inf
  )
  ema_decay: float = setting(0.0, 'in [0, 1); 0 averages nothing', lambda x: 0 <= x < 1)
  lookahead: int = setting(0, '0 (no slow weights) or more', lambda x: x >= 0)
  bias_rate: float = 1.0
  stem_epochs: float = setting(0.0, '0 (to the end) or more', lambda x: 0 <= x < math.inf)
  warmup_epochs: float = setting(0.0, '0 or more', lambda x: 0 <= x < math.inf)
  balanced: str = ''
  freeze_statistics: bool = False
  auxiliary_norms: int = setting(0, '0 (one set for all images) or more', lambda x: x >= 0)
  accumulate: int = setting(1, '1 or more', lambda x: x >= 1)
  checkpoint_every_steps: int = setting(500, '0 (at the end alone) or more', lambda x: x >= 0)
  evaluate_every_epochs: float = setting(1.0, '0 (at the end alone) or more', lambda x: x >= 0)
  validation: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)
  keep: str = word(LAST, KEPT, only_with=('validation',))
  precision: str = word('', ('', *PRECISIONS))
  log_every_steps: int = setting(50, '1 or more', lambda x: x >= 1)
  resident_bytes: int = setting(2**30, '0 (read every batch) or more', lambda x: x >= 0, large=True)
  split: str = setting('train', "a split's name, for example 'train'", bool)

  def __post_init__(self) -> None:
    check_fields(self, WHERE)

    def rule(name: str, holds: bool, valid: str) -> None:
      require(holds, f'{WHERE}.{name}', vars(self)[name], valid)

    rule('epochs', self.epochs > 0 or self.steps > 0, f'above 0 when {KEYS.training.steps} is 0')
    divides = self.batch_size % self.accumulate == 0
    rule('accumulate', divides, f'a divisor of {KEYS.training.batch_size} = {self.batch_size}')
    moves = not self.nesterov or self.momentum > 0 or self.optimizer != SGD
    rule('nesterov', moves, f'False when {KEYS.training.momentum} is 0')
    epochs = self.step_epochs
    falls = bool(epochs) == (self.schedule == STEP) and list(epochs) == sorted(set(epochs))
    rule('step_epochs', falls, "ascending epochs for the schedule 'step', and () for every other")
    rises = self.schedule != TRIANGULAR or self.warmup_epochs == 0
    rule('warmup_epochs', rises, "0 for the schedule 'triangular', which rises by itself")
    one = not (self.lookahead and self.ema_decay)
    rule('lookahead', one, f'0 where {KEYS.training.ema_decay} averages the weights')
    plain = self.bias_rate == 1 or (self.optimizer == SGD and 0 < self.bias_rate < math.inf)
    rule('bias_rate', plain, "above 0, and 1 for every optimizer but 'sgd'")
    valid = (
      f"'last' unless {KEYS.training.validation} > 0: the best weights are chosen by held-out "
      'training rows, for the rows of the study would leak into them'
    )
    rule('keep', self.keep == LAST or self.validation > 0, valid)
    often = self.keep == LAST or self.evaluate_every_epochs > 0
    rule('evaluate_every_epochs', often, f"above 0 where {KEYS.training.keep} is 'best'")
