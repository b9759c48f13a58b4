"""Settings of a training, the section `config.training`."""

import dataclasses
import math

from robustness.core.errors import KEYS
from robustness.core.registry import check_fields, setting, word
from robustness.core.settings import require

KERNELS, ALL, NONE = DECAYED = ('kernels', 'all', 'none')
SCHEDULES = ('cosine', 'plateau', 'step', 'constant', 'triangular')
COSINE, PLATEAU, STEP, CONSTANT, TRIANGULAR = SCHEDULES
MAX_EPOCHS, MAX_STEPS = 1_000_000, 2**31 - 1  # steps are counted in 32 bits
SECTION = 'config.training'
SGD, ADAMW, LAMB, RMSPROP = OPTIMIZERS = ('sgd', 'adamw', 'lamb', 'rmsprop')
LAST, BEST = KEPT = ('last', 'best')
EVALUATIONS, CHECKPOINTS = MEASURED_AT = ('evaluations', 'checkpoints')
PRECISIONS = ('float32', 'bfloat16')


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
  """Settings of a training: length, optimizer, regularisation, evaluation and storage.

  Attributes:
    epochs: passes over the training images; fractions are allowed.
    steps: optimizer steps; a number above 0 replaces `epochs`.
    batch_size: images per step, over all devices and micro-batches.
    learning_rate: the largest learning rate, reached after the warm-up.
    schedule: schedule of the learning rate: 'cosine', 'step' (falls at `step_epochs`), 'plateau'
      (falls when the training loss stops falling), 'constant', or 'triangular' (see `triangle`).
    triangle: for 'triangular', (f_0, p, f_1): the rate is f_0 · `learning_rate` at the first step,
      `learning_rate` after the fraction p of the steps, and f_1 · `learning_rate` after the last
      step.
    step_epochs: ascending epochs after which 'step' lowers the rate.
    step_factor: factor on the rate at each of `step_epochs`.
    optimizer: 'sgd', 'adamw', 'lamb' or 'rmsprop'; see `robustness.training.optimizer`.
    momentum: for 'sgd' and 'rmsprop', μ in v ← μ·v + g with gradient g; 0 is without momentum.
    nesterov: for 'sgd', whether to step along g + μ·v instead of v.
    epsilon: ε in the denominator of the update, added to the root mean squared gradient for 'adamw'
      and 'lamb', and to the mean squared gradient for 'rmsprop'.
    weight_decay: λ. 'sgd' and 'rmsprop' add λ·θ to the gradient; other optimizers decouple the
      decay.
    decay: parameters with weight decay: 'kernels' (weights of convolutions and dense layers), 'all'
      (biases and the scales of normalisations too) or 'none'.
    clip_norm: largest global norm of the gradient, to which larger ones are scaled down; 0 does not
      clip.
    backbone_rate_multiplier: factor on the learning rate in all layers except the last, for
      fine-tuning.
    layer_decay: factor on the learning rate from each layer to the one before; the last layer has
      1. See `robustness.training.depth` for the layers.
    drop_path: probability of stochastic depth in the last residual block, with which a sample's
      branch is dropped; 0 drops none.
    head_scale: factor on the random initial weights of the last layer.
    ema_decay: decay of the exponential moving average of the weights, which replaces the raw
      weights in evaluations and at the end; 0 computes no average.
    lookahead: period k in steps of the Lookahead optimizer, which keeps a slow copy s of weights
      and statistics w. Every k steps both become d·s + (1 − d)·w, with d = .95^k · (step / number
      of steps)³. The slow copy is evaluated and is the result of the training. 0 keeps none.
    bias_rate: for 'sgd', factor on the learning rate of biases of normalisation layers; their
      weight decay per step is unchanged.
    stem_epochs: epochs after which the layer `stem` is frozen; 0 trains it to the end.
    warmup_epochs: epochs in which the learning rate rises linearly from 0.
    balanced: A column of the data, such as 'label' or 'environment', with values that should be
      equally frequent in every batch. '' draws all images equally often. The length of an epoch is
      the same.
    freeze_statistics: whether batch normalisation uses its running averages without updating them,
      as in fine-tuning on few or similar images.
    auxiliary_norms: number of augmented versions of each image, counted from the last, that pass
      through a second set of normalisation layers (see `robustness.training.auxiliary_norms`). It
      needs an augmentation with several versions. 0 has one set for all.
    accumulate: micro-batches per step; the gradient is their exact mean. Batch normalisation sees
      one micro-batch at a time, and updates its running averages for each.
    checkpoint_every_steps: steps between checkpoints; 0 saves only at the end.
    evaluate_every_epochs: epochs between evaluations; 0 evaluates only at the end.
    measure: names of studies or tasks of the run that are also measured during training, with the
      weights of the step. Results are in the workdir's folder `along_training`.
    measure_at: when `measure` measures, besides the end: 'evaluations' (`evaluate_every_epochs`) or
      'checkpoints' (`checkpoint_every_steps`).
    validation: fraction of the training images, in [0, 1), that is held out and evaluated instead
      of the study's images. The selection does not depend on the seed, and a video clip's frames
      stay together. 0 holds none out.
    keep: 'last' keeps the last weights, 'best' the weights with the best validation accuracy.
    precision: 'float32' or 'bfloat16' for the network's arithmetic in training; '' takes
      `config.precision`, which is used for measurements.
    log_every_steps: steps between log lines, which have means since the previous line.
    resident_bytes: training images of at most this size are copied to the devices once, and so are
      evaluated images. Each device of a CPU has a copy, and all copies count. 0 reads every batch
      from the host.
    split: split of the data to train on.
  """

  # `only_with` names another setting, and its values for which this one has an effect
  epochs: float = setting(10.0, f'in [0, {MAX_EPOCHS}]', lambda x: 0 <= x <= MAX_EPOCHS)
  steps: int = setting(
    0, f'0 (let config.training.epochs decide) to {MAX_STEPS}', lambda x: 0 <= x <= MAX_STEPS
  )
  batch_size: int = setting(128, '1 or more', lambda x: x >= 1)
  learning_rate: float = setting(0.1, 'above 0', lambda x: 0 < x < math.inf)
  schedule: str = word(COSINE, SCHEDULES)
  triangle: tuple[float, float, float] = setting(
    (0.2, 0.23, 0.07),
    'three numbers: two factors of 0 or more and between them a share in (0, 1)',
    lambda x: len(x) == 3 and min(x) >= 0 and 0 < x[1] < 1,
    only_with=('schedule', TRIANGULAR),
  )
  step_epochs: tuple[float, ...] = ()
  step_factor: float = setting(0.1, 'in (0, 1)', lambda x: 0 < x < 1, only_with=('schedule', STEP))
  optimizer: str = word(SGD, OPTIMIZERS)
  momentum: float = setting(
    0.9, 'in [0, 1)', lambda x: 0 <= x < 1, only_with=('optimizer', SGD, RMSPROP)
  )
  nesterov: bool = True
  epsilon: float = setting(
    1e-8, 'above 0', lambda x: 0 < x < math.inf, only_with=('optimizer', ADAMW, LAMB, RMSPROP)
  )
  weight_decay: float = setting(5e-4, '0 or more', lambda x: 0 <= x < math.inf)
  decay: str = word(KERNELS, DECAYED)
  clip_norm: float = setting(0.0, '0 (no clipping) or more', lambda x: x >= 0)
  backbone_rate_multiplier: float = setting(
    1.0, '0 (the last layer alone learns) or more', lambda x: 0 <= x < math.inf
  )
  layer_decay: float = setting(1.0, 'in (0, 1]', lambda x: 0 < x <= 1)
  drop_path: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)
  head_scale: float = setting(1.0, '0 or more', lambda x: 0 <= x < math.inf)
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
  measure: tuple[str, ...] = ()
  measure_at: str = word(EVALUATIONS, MEASURED_AT, only_with=('measure',))
  validation: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)
  keep: str = word(LAST, KEPT, only_with=('validation',))
  precision: str = word('', ('', *PRECISIONS))
  log_every_steps: int = setting(50, '1 or more', lambda x: x >= 1)
  resident_bytes: int = setting(2**30, '0 (read every batch) or more', lambda x: x >= 0, large=True)
  split: str = setting('train', "a split's name, for example 'train'", bool)

  def __post_init__(self) -> None:
    """Raises InputError for settings that are out of range or do not fit each other."""
    check_fields(self, SECTION, inherits=True)

    def rule(name: str, holds: bool, valid: str) -> None:
      """Raises InputError for a setting of the training unless a condition holds.

      Args:
        name: name of the setting.
        holds: the condition.
        valid: valid values in words, for the message.
      """
      require(holds, f'{SECTION}.{name}', vars(self)[name], valid)

    rule('epochs', self.epochs > 0 or self.steps > 0, f'above 0 when {KEYS.training.steps} is 0')
    is_divisor = self.batch_size % self.accumulate == 0
    rule('accumulate', is_divisor, f'a divisor of {KEYS.training.batch_size} = {self.batch_size}')
    lacks_momentum = self.nesterov and self.optimizer == SGD and self.momentum <= 0
    rule('nesterov', not lacks_momentum, f'False when {KEYS.training.momentum} is 0')
    has_epochs, needs_epochs = bool(self.step_epochs), self.schedule == STEP
    is_ascending = list(self.step_epochs) == sorted(set(self.step_epochs))
    valid = "ascending epochs for the schedule 'step', and () for every other"
    rule('step_epochs', has_epochs == needs_epochs and is_ascending, valid)
    rises_twice = self.schedule == TRIANGULAR and self.warmup_epochs != 0
    rule('warmup_epochs', not rises_twice, "0 for the schedule 'triangular', which rises by itself")
    averages_twice = bool(self.lookahead and self.ema_decay)
    rule('lookahead', not averages_twice, f'0 where {KEYS.training.ema_decay} averages the weights')
    is_valid = self.bias_rate == 1 or (self.optimizer == SGD and 0 < self.bias_rate < math.inf)
    rule('bias_rate', is_valid, "above 0, and 1 for every optimizer but 'sgd'")
    valid_keep = (
      f"'last' unless {KEYS.training.validation} > 0: the best weights are chosen by held-out "
      'training rows, for the rows of the study would leak into them'
    )
    rule('keep', self.keep == LAST or self.validation > 0, valid_keep)
    is_evaluated = self.keep == LAST or self.evaluate_every_epochs > 0
    rule('evaluate_every_epochs', is_evaluated, f"above 0 where {KEYS.training.keep} is 'best'")
