"""What is trained on what: everything that decides the outcome of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from flax import linen as nn

from robustness.augment import AugmentSettings
from robustness.core.errors import InputError
from robustness.parallel import Parallel
from robustness.training import optimizer, schedule
from robustness.training.batches import TrainingBatches
from robustness.training.settings import TrainingSettings
from robustness.training.state import TrainState, begun_with
from robustness.training.state import create as create_state
from robustness.training.step import Recipe

HABITS = ('checkpoint_every_steps', 'evaluate_every_epochs', 'log_every_steps')


@dataclasses.dataclass(frozen=True)
class TrainingTask:
  """One training.

  Attributes:
    model: a network called as `model(images, train)`; with batch normalisation it must be built
      with the `axis_name` of the `Parallel` it is trained under.
    batches: opens the training batches at a step.
    num_examples: rows of one epoch.
    image_shape: height, width and channels of the images.
    mean: per channel, subtracted from images in [0, 1].
    std: per channel, divides after that.
    settings: see there.
    augment: see there.
    seed: of the initial parameters, the order of the rows and the augmentation.
    start: parameters and running averages to begin with, in place of those drawn from the seed;
      what they leave out, such as the last layer, is drawn.
  """

  model: nn.Module
  batches: TrainingBatches
  num_examples: int
  image_shape: tuple[int, int, int]
  mean: tuple[float, ...] = (0.0,)
  std: tuple[float, ...] = (1.0,)
  settings: TrainingSettings = dataclasses.field(default_factory=TrainingSettings)
  augment: AugmentSettings = dataclasses.field(default_factory=AugmentSettings)
  seed: int = 0
  start: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    if self.num_examples < 1:
      raise InputError('there are no rows to train on.')
    for name in ('mean', 'std'):
      if len(getattr(self, name)) not in (1, self.image_shape[-1]):
        raise InputError(
          f'{name} has {len(getattr(self, name))} values for images of '
          f'{self.image_shape[-1]} channels.'
        )
    if min(self.std) <= 0:
      raise InputError(f'std is {self.std}; every value must be above 0.')

  @property
  def total_steps(self) -> int:
    """Steps of the whole training."""
    return schedule.total_steps(self.settings, self.num_examples)

  def recipe(self, axis_name: str | None) -> Recipe:
    """Returns what a step needs, for jit (None) or under the axis of a pmap."""
    rate = schedule.learning_rate(self.settings, self.num_examples)
    steps = schedule.epoch_steps(self.settings, self.num_examples)
    return Recipe(
      model=self.model,
      optimizer=optimizer.create(self.settings, rate, steps),
      schedule=rate,
      augment=self.augment,
      mean=self.mean,
      std=self.std,
      seed=self.seed,
      label_smoothing=self.settings.label_smoothing,
      freeze_statistics=self.settings.freeze_statistics,
      accumulate=self.settings.accumulate,
      axis_name=axis_name,
    )

  def initial_state(self) -> TrainState:
    """Returns the state before the first step."""
    return begun_with(self._drawn(), self.start)

  def state_shapes(self) -> TrainState:
    """Returns the state's shapes and types, without computing it."""
    return jax.eval_shape(self._drawn)

  def _drawn(self) -> TrainState:
    return create_state(self.model, self.recipe(None).optimizer, self.image_shape, self.seed)

  def facts(self, more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the caller's facts and the settings that decide the outcome, as plain values."""
    settings = {
      name: value for name, value in dataclasses.asdict(self.settings).items() if name not in HABITS
    }
    return {
      **more,
      'mean': self.mean,
      'std': self.std,
      'image_shape': self.image_shape,
      'training': {
        **settings,
        'seed': self.seed,
        'total_steps': self.total_steps,
        'num_examples': self.num_examples,
        'augment': dataclasses.asdict(self.augment),
      },
    }

  def check_layout(self, parallel: Parallel) -> None:
    """Raises InputError unless the batch divides over the devices and the model fits `parallel`."""
    size, parts = self.settings.batch_size, self.settings.accumulate
    if size % (parts * parallel.num_devices):
      raise InputError(
        f'config.training.batch_size is {size}; it must be a multiple of {parts} micro-batches × '
        f'{parallel.num_devices} devices = {parts * parallel.num_devices}.'
      )
    axis_name = getattr(self.model, 'axis_name', parallel.axis_name)
    if axis_name != parallel.axis_name:
      raise InputError(
        f'the model was built with axis_name={axis_name!r}; this way of running '
        f'needs {parallel.axis_name!r}.'
      )
