"""How long a training is and how its learning rate runs."""

import optax

from robustness.core.settings import require
from robustness.training.settings import (
  CONSTANT,
  MOST_STEPS,
  PLATEAU,
  STEP,
  TRIANGULAR,
  TrainingSettings,
)


def total_steps(settings: TrainingSettings, num_examples: int) -> int:
  """Returns the optimizer steps of the whole training: `steps`, or round(epochs · N / batch_size)
  of N rows; raises InputError where the epochs are less than half a step."""
  if settings.steps:
    return settings.steps
  steps = round(settings.epochs * num_examples / settings.batch_size)
  require(
    steps >= 1,
    'config.training.epochs',
    settings.epochs,
    f'long enough for one step: at least {settings.batch_size / num_examples:g} '
    f'({num_examples} examples, batches of {settings.batch_size})',
  )
  require(
    steps <= MOST_STEPS,
    'config.training.epochs',
    settings.epochs,
    f'at most {MOST_STEPS * settings.batch_size / num_examples:g}, which takes {MOST_STEPS} steps',
  )
  return steps


def learning_rate(settings: TrainingSettings, num_examples: int) -> optax.Schedule:
  """Returns the learning rate η_t of step t = 0, ..., T − 1.

  With a warm-up of w steps and T steps in all: η_t = η·t/w for t < w, then η_t = η/2 · (1 +
  cos(π·(t − w)/(T − w))), which falls to 0 at T. Under 'step' η_t = η·f^n with n the number of
  `step_epochs` that t has passed (rounded to steps; t = 0 is the first step). Under 'constant' and
  'plateau' η_t = η; the optimizer multiplies the latter by its own factor.
  Under 'triangular' with factors f_0 and f_1 and the share p, η_t lies on the lines from η·f_0 at
  0 to η at ⌊p·T⌋ and from there to η·f_1 at T. Raises InputError where the warm-up is not shorter
  than the training, `lookahead` longer, or a fall of the rate after its end.

  Reference:
    Loshchilov and Hutter (2017), SGDR, equation 5, without restarts.
  """
  total = total_steps(settings, num_examples)
  warmup = round(settings.warmup_epochs * num_examples / settings.batch_size)
  require(
    warmup < total,
    'config.training.warmup_epochs',
    settings.warmup_epochs,
    f'shorter than the training: the warm-up has {warmup:g} steps, the training {total}',
  )
  require(
    settings.lookahead <= total,
    'config.training.lookahead',
    settings.lookahead,
    f'at most {total}, the steps of the training, which would end with its first weights',
  )
  begin = 0.0 if warmup else settings.learning_rate
  if settings.schedule in (PLATEAU, CONSTANT):
    return optax.warmup_constant_schedule(begin, settings.learning_rate, warmup)
  if settings.schedule == TRIANGULAR:
    first, share, last = settings.triangle
    rate, peak = settings.learning_rate, max(1, int(share * total))
    rise = optax.linear_schedule(first * rate, rate, peak)
    return optax.join_schedules(
      [rise, optax.linear_schedule(rate, last * rate, total - peak)], [peak]
    )
  if settings.schedule != STEP:
    return optax.warmup_cosine_decay_schedule(0.0, settings.learning_rate, warmup, total)
  per_epoch = num_examples / settings.batch_size
  falls = [round(epoch * per_epoch) for epoch in settings.step_epochs]
  require(
    all(warmup < fall < total for fall in falls) and len(set(falls)) == len(falls),
    'config.training.step_epochs',
    settings.step_epochs,
    f'after the warm-up of {settings.warmup_epochs:g} epochs, before the end and at least a step '
    f'apart ({per_epoch:g} steps an epoch, {total} in all)',
  )
  rise = optax.linear_schedule(0.0, settings.learning_rate, max(1, warmup))
  fall = optax.piecewise_constant_schedule(
    settings.learning_rate, {step - warmup: settings.step_factor for step in falls}
  )
  return optax.join_schedules([rise, fall], [warmup]) if warmup else fall


def stem_steps(settings: TrainingSettings, num_examples: int) -> int:
  """Returns the steps of `stem_epochs`, at least 1 and at most all; 0 where these are 0."""
  if not settings.stem_epochs:
    return 0
  steps = max(1, round(settings.stem_epochs * num_examples / settings.batch_size))
  return min(steps, total_steps(settings, num_examples))


def epoch_steps(settings: TrainingSettings, num_examples: int) -> int:
  """Returns the steps of one epoch, rounded, at least 1."""
  return max(1, round(num_examples / settings.batch_size))


def is_due(step: int, settings: TrainingSettings, num_examples: int) -> bool:
  """Says whether an evaluation falls due: `step` is the first past a multiple of its period."""
  period = settings.evaluate_every_epochs * num_examples / settings.batch_size
  return period > 0 and step // period > (step - 1) // period
