"""Length of a training, and the learning rate of each step."""

import dataclasses

import jax
import optax

from robustness.core import decimals
from robustness.core.registry import are_distinct
from robustness.core.settings import require
from robustness.training.settings import (
  CHECKPOINTS,
  CONSTANT,
  COSINE,
  MAX_STEPS,
  PLATEAU,
  TRIANGULAR,
  TrainingSettings,
)


def total_steps(settings: TrainingSettings, num_examples: int) -> int:
  """Returns the number of optimizer steps of a training.

  This is `steps` if set, else round(epochs · N / batch_size).

  Args:
    settings: length and batch size of the training.
    num_examples: N, the number of training images.

  Raises:
    InputError: The epochs are less than half a step, or more than `MAX_STEPS`.
  """
  if settings.steps:
    return settings.steps
  steps = round(settings.epochs * num_examples / settings.batch_size)
  epochs_of_step = settings.batch_size / num_examples
  sizes = f'({num_examples} examples, batches of {settings.batch_size})'
  valid = f'long enough for one step: at least {epochs_of_step:g} {sizes}'
  require(steps >= 1, 'config.training.epochs', settings.epochs, valid)
  valid = f'at most {MAX_STEPS * epochs_of_step:g}, which takes {MAX_STEPS} steps'
  require(steps <= MAX_STEPS, 'config.training.epochs', settings.epochs, valid)
  return steps


def learning_rate(settings: TrainingSettings, num_examples: int) -> optax.Schedule:
  """Returns the learning rate schedule, a function from step t = 0, ..., T − 1 to η_t.

  With η the largest rate, a warm-up of w steps and T steps in all, η_t = η·t/w for t < w. After the
  warm-up:

  * 'cosine': η_t = η/2 · (1 + cos(π·(t − w)/(T − w))), which falls to 0 at T.
  * 'step': η_t = η·f^n, where f is `step_factor` and n the number of `step_epochs` that are over.
  * 'constant' and 'plateau': η_t = η. For 'plateau' the optimizer multiplies it by a factor.
  * 'triangular', with factors f_0, f_1 and fraction p: η_t is linear from η·f_0 at t = 0 to η at
    ⌊p·T⌋, and from there to η·f_1 at T.

  Args:
    settings: the schedule and its constants.
    num_examples: number of training images.

  Raises:
    InputError: The warm-up or `lookahead` is too long, or the rate falls after the end.

  Reference:
    Loshchilov and Hutter (2017), SGDR, equation 5, without restarts.
  """
  total = total_steps(settings, num_examples)
  warmup = round(settings.warmup_epochs * num_examples / settings.batch_size)
  valid = f'shorter than the training: the warm-up has {warmup:g} steps, the training {total}'
  require(warmup < total, 'config.training.warmup_epochs', settings.warmup_epochs, valid)
  valid = f'at most {total}, the steps of the training, which would end with its first weights'
  require(settings.lookahead <= total, 'config.training.lookahead', settings.lookahead, valid)
  rate = settings.learning_rate
  if settings.schedule in (PLATEAU, CONSTANT):
    return optax.warmup_constant_schedule(0.0 if warmup else rate, rate, warmup)
  if settings.schedule == TRIANGULAR:
    first_factor, share, last_factor = settings.triangle
    peak_step = max(1, decimals.floor(share * total))
    rise = optax.linear_schedule(first_factor * rate, rate, peak_step)
    fall = optax.linear_schedule(rate, last_factor * rate, total - peak_step)
    return optax.join_schedules([rise, fall], [peak_step])
  if settings.schedule == COSINE:
    return optax.warmup_cosine_decay_schedule(0.0, rate, warmup, total)
  # the schedule 'step'
  per_epoch = num_examples / settings.batch_size
  fall_steps = [round(epoch * per_epoch) for epoch in settings.step_epochs]
  are_inside = all(warmup < step < total for step in fall_steps)
  valid = (
    f'after the warm-up of {settings.warmup_epochs:g} epochs, before the end and at least a step '
    f'apart ({per_epoch:g} steps an epoch, {total} in all)'
  )
  key = 'config.training.step_epochs'
  require(are_inside and are_distinct(fall_steps), key, settings.step_epochs, valid)
  # its steps are counted from the end of the warm-up
  factors = {step - warmup: settings.step_factor for step in fall_steps}
  fall = optax.piecewise_constant_schedule(rate, factors)
  if not warmup:
    return fall
  rise = optax.linear_schedule(0.0, rate, warmup)
  return optax.join_schedules([rise, fall], [warmup])


def stem_steps(settings: TrainingSettings, num_examples: int) -> int:
  """Returns the number of steps in `stem_epochs`, at least 1; 0 if `stem_epochs` is 0.

  It is at most the number of all steps.

  Args:
    settings: length and batch size of the training.
    num_examples: number of training images.
  """
  if not settings.stem_epochs:
    return 0
  steps = max(1, round(settings.stem_epochs * num_examples / settings.batch_size))
  return min(steps, total_steps(settings, num_examples))


def epoch_steps(settings: TrainingSettings, num_examples: int) -> int:
  """Returns the number of steps in an epoch, rounded, at least 1."""
  return max(1, round(num_examples / settings.batch_size))


def is_evaluated(step: int, settings: TrainingSettings, num_examples: int) -> bool:
  """Returns whether to evaluate after a step, because a period of epochs is complete.

  The period is `evaluate_every_epochs`. If it is 2.5 steps, for example, evaluations follow steps
  3, 5, 8, 10 and so on.

  Args:
    step: number of steps taken.
    settings: settings of the training.
    num_examples: number of training images, an epoch.
  """
  period = settings.evaluate_every_epochs * num_examples / settings.batch_size  # in steps
  if period <= 0:
    return False
  completed_before, completed = decimals.floor((step - 1) / period), decimals.floor(step / period)
  return completed > completed_before


def is_saved(step: int, settings: TrainingSettings) -> bool:
  """Returns whether to save a checkpoint: whether `checkpoint_every_steps` divides the step."""
  return settings.checkpoint_every_steps > 0 and step % settings.checkpoint_every_steps == 0


def is_measured(step: int, settings: TrainingSettings, num_examples: int) -> bool:
  """Returns whether to run the studies of the setting `measure` after a step.

  The setting `measure_at` selects the steps with an evaluation or with a checkpoint.

  Args:
    step: number of steps taken.
    settings: settings of the training.
    num_examples: number of training images, an epoch.
  """
  if settings.measure_at == CHECKPOINTS:
    return is_saved(step, settings)
  return is_evaluated(step, settings, num_examples)


def measured_steps(settings: TrainingSettings, num_examples: int) -> list[int]:
  """Returns the steps after which the studies of the setting `measure` run.

  The last step is always among them.

  Args:
    settings: settings of the training.
    num_examples: number of training images, an epoch.
  """
  last = total_steps(settings, num_examples)
  return [step for step in range(1, last) if is_measured(step, settings, num_examples)] + [last]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepScalars:
  """Numbers that are passed to the compiled training step as arguments.

  Trainings that differ only in these numbers share a compiled program.

  Attributes:
    seed: uint32, seed of the random keys of augmentations and attack.
    learning_rate: float32, η of this step. The schedule 'plateau' multiplies it by a further
      factor.
    stem_rate: float32, 1 while the layer `stem` is trained, 0 once it is frozen.
    epoch_steps: int32, number of steps over which the schedule 'plateau' averages the loss.
    total_steps: float32, number of steps of the training.
  """

  seed: jax.Array
  learning_rate: jax.Array
  stem_rate: jax.Array
  epoch_steps: jax.Array
  total_steps: jax.Array
