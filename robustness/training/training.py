"""One training: what is trained on what, everything that decides its outcome."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging
from flax import linen as nn

from robustness.attacks import Attack
from robustness.augment.mix_rows import Mixing
from robustness.augment.policy import KEY, OCCURRENCE, Policy
from robustness.core import random_keys
from robustness.core.errors import KEYS, InputError, SettingError
from robustness.core.pixels import with_scaled_image
from robustness.core.rows import Batch, Rows, identity_of, numeric_columns
from robustness.core.sampler import Epochs, Sampler
from robustness.core.typing import Facts, PlainValue, PyTree, Variables
from robustness.models.inputs import Inputs
from robustness.objectives import Objective
from robustness.objectives.cross_entropy import CrossEntropy
from robustness.objectives.groups import IRM, GroupObjective
from robustness.parallel import Parallel
from robustness.training import auxiliary_norms, optimizer, schedule
from robustness.training.settings import BEST, WHERE, TrainingSettings
from robustness.training.state import TrainState, begun_with

TAKEN = ('target', OCCURRENCE, 'epoch', KEY, 'partner')
"""Columns that a training gives its rows in place of any that they have."""
REPORTING = ('checkpoint_every_steps', 'log_every_steps', 'evaluate_every_epochs', 'resident_bytes')
"""Settings of what is written during a training and where rows are held, without effect on it."""

COMPILED_ONCE = {'xla_backend_optimization_level': 1}
"""Compiler options of a program that runs once: a draw for every layer is compiled in a third of
the time, and gives the same bits."""


@dataclasses.dataclass(frozen=True)
class Pipeline:
  """The named parts of a training, as a config selects them.

  Attributes:
    policy: augmentations, in order.
    attack: makes adversarial examples of the augmented images; None trains on these.
    objective: what is minimised.
  """

  policy: Policy = Policy()
  attack: Attack | None = None
  objective: Objective = CrossEntropy()

  def describe(self) -> dict[str, PlainValue]:
    """Returns the parts' names and settings as plain values."""
    return {
      'augment': self.policy.describe(),
      'attack': self.attack.describe() if self.attack else None,
      'objective': self.objective.describe(),
    }


@dataclasses.dataclass(frozen=True)
class Training:
  """One training.

  Attributes:
    model: a network called as `model(images, train)`; with batch normalisation it must be built
      with the `axis_name` of the `Parallel` it is trained under.
    rows: what it is trained on.
    inputs: input filter and normalisation, which the classifier has too.
    settings: see there.
    pipeline: the named parts.
    seed: of the initial parameters, the order of the rows and the parts' streams of keys.
    initial: parameters and running averages to begin with, in place of those drawn from the seed;
      what they leave out, such as the last layer, is drawn.
    fit: gives the variables that the network takes from training images, which it begins with
      where `initial` has none; None where all are drawn. See `Architecture`.
    fit_rows: how many of the first images it is given, or all where there are fewer.
    sampler: decides the order of the rows; None takes `Epochs`.
  """

  model: nn.Module
  rows: Rows
  inputs: Inputs = Inputs()
  settings: TrainingSettings = dataclasses.field(default_factory=TrainingSettings)
  pipeline: Pipeline = Pipeline()
  seed: int = 0
  initial: Mapping[str, PyTree] = dataclasses.field(default_factory=dict)
  fit: Callable[[jax.Array], Variables] | None = None
  fit_rows: int = 0
  sampler: Sampler | None = None

  def __post_init__(self) -> None:
    self.inputs.check(self.rows.image_shape[-1])

  @property
  def total_steps(self) -> int:
    """Steps of the whole training."""
    return schedule.total_steps(self.settings, self.rows.num_examples)

  @property
  def num_classes(self) -> int:
    """Outputs of the model."""
    logits, _ = self._shapes
    return logits.shape[-1]

  @functools.cached_property
  def _shapes(self) -> tuple[jax.ShapeDtypeStruct, Variables]:
    """Logits of an image and the network's variables, as shapes."""
    images = jax.ShapeDtypeStruct((1, *self.rows.image_shape), jnp.float32)
    init = functools.partial(self.model.init_with_output, jax.random.key(0), train=False)
    return jax.eval_shape(init, images)

  @property
  def order(self) -> Sampler:
    """The order of the rows."""
    return self.sampler or Epochs(self.rows.num_examples, self.seed)

  @functools.cached_property
  def learning_rate(self) -> optax.Schedule:
    """The learning rate by step."""
    return schedule.learning_rate(self.settings, self.rows.num_examples)

  @functools.cached_property
  def optimizer(self) -> optax.GradientTransformationExtraArgs:
    """The optimizer, whose `update` is given the loss as `value`."""
    settings, examples = self.settings, self.rows.num_examples
    stem_steps = schedule.stem_steps(settings, examples)
    return optimizer.create(
      settings,
      self.learning_rate,
      schedule.epoch_steps(settings, examples),
      (lambda step: step < stem_steps) if stem_steps else None,
    )

  def initial_state(self) -> TrainState:
    """Returns the state before the first step.

    Raises:
      InputError: what the network takes from training images cannot be made of these.
    """
    given = self.initial
    if self.fit and not given:
      count = min(self.fit_rows, self.rows.num_examples)
      first = next(self.rows.training_batches(count, self.seed, sampler=self.sampler))
      given = self.fit(self.inputs(jnp.asarray(with_scaled_image(first)['image'])))
    return self._with_copies(begun_with(self._state(self._drawn()), given))

  def state_shapes(self) -> TrainState:
    """Returns the state's shapes and types, without computing it."""
    _, variables = self._shapes
    return jax.eval_shape(lambda drawn: self._with_copies(self._state(drawn)), variables)

  def _drawn(self) -> Variables:
    """Returns the variables, which depend on the seed and the model alone."""

    def draw(key: jax.Array) -> Variables:  # one program for all seeds, optimizers and objectives
      return dict(self.model.init(key, jnp.zeros((1, *self.rows.image_shape)), train=False))

    key = random_keys.stream(self.seed, 'initial parameters')
    return jax.jit(draw, compiler_options=COMPILED_ONCE)(key)

  def _state(self, variables: Variables) -> TrainState:
    """Returns the state before the first step, of these variables."""
    params, opt_state = variables['params'], jax.jit(self.optimizer.init)(variables['params'])
    objective = self.pipeline.objective.initial_state(self.num_classes)
    step, batch_stats = jnp.zeros((), jnp.int32), variables.get('batch_stats', {})
    return TrainState(step, params, batch_stats, opt_state, objective)

  def _with_copies(self, state: TrainState) -> TrainState:
    """Returns the state with the further weights that the settings ask for."""
    if self.settings.auxiliary_norms:
      variables = auxiliary_norms.added(state.trained)
      opt_state = jax.jit(self.optimizer.init)(variables['params'])
      state = state.replace(**variables, opt_state=opt_state)
    if self.settings.ema_decay or self.settings.lookahead:
      state = state.replace(ema=jax.tree.map(jnp.copy, state.trained))
    if self.settings.keep == BEST:
      kept = jax.tree.map(jnp.copy, state.variables)
      best = {**kept, 'score': jnp.float32(-1), 'step': jnp.int32(0)}
      state = state.replace(best=best)
    return state

  def facts(self, more: Facts) -> Facts:
    """Returns the caller's facts and all that decides the outcome, as plain values."""
    settings = {
      name: value
      for name, value in dataclasses.asdict(self.settings).items()
      if name not in REPORTING or (name == 'evaluate_every_epochs' and self.settings.keep == BEST)
    }
    del settings['precision']  # the caller's facts have the one that the network is built with
    input_filter = self.inputs.input_filter
    return {
      **more,
      'mean': self.inputs.mean,
      'std': self.inputs.std,
      'input_filter': input_filter.describe() if input_filter else None,
      'image_shape': self.rows.image_shape,
      'data': identity_of(self.rows),
      'training': {
        **settings,
        'seed': self.seed,
        'total_steps': self.total_steps,
        'num_examples': self.rows.num_examples,
        **self.pipeline.describe(),
      },
    }

  def check_network(self, state: TrainState) -> None:
    """Raises InputError for settings of layers that the network does not have, and for attacks that
    would not find examples through the layers and statistics that are meant."""
    settings, attack = self.settings, self.pipeline.attack
    layers = {
      'stem_epochs': (optimizer.in_stem, 'layer called stem'),
      'bias_rate': (optimizer.is_normalisation_bias, 'biases of normalisations'),
      'backbone_rate_multiplier': (optimizer.in_head, 'last layer called head'),
    }
    for name, (chosen, words) in layers.items():
      value, unused = (vars(own)[name] for own in (settings, TrainingSettings()))
      if value != unused and not any(jax.tree.leaves(chosen(state.params))):
        raise InputError(
          f'{WHERE}.{name} is {value:g}, and this network has no {words}: set it to {unused:g}, or '
          f'take another --{KEYS.classifier.name}.'
        )
    objective, steps = self.pipeline.objective, self.total_steps * settings.accumulate
    if isinstance(objective, IRM) and objective.anneal_steps >= steps:
      logging.warning(
        f'{KEYS.classifier.objective.irm.anneal_steps} is %d, and the training has %d steps '
        '(micro-batches): the penalty keeps the weight 1',
        objective.anneal_steps,
        steps,
      )
    if attack is None:
      return
    for part in self.pipeline.policy.augmentations:
      if isinstance(part, Mixing):
        raise InputError(
          f'{KEYS.classifier.augment} has {part.name!r}, which mixes targets, and '
          f"{attack.name!r} raises the loss of a row's own label alone: leave one of them out."
        )
    batch = attack.statistics == 'batch' and not settings.freeze_statistics
    if attack.in_turn and batch and state.batch_stats:
      raise InputError(
        f"{attack.key('statistics')} is 'batch', and this attack takes a part of the batch at a "
        "time: set it to 'running'."
      )
    if settings.auxiliary_norms:
      raise InputError(
        f'{WHERE}.auxiliary_norms is {settings.auxiliary_norms}, and examples of an attack are '
        'found through the first set of layers alone: set it to 0, or leave the attack out.'
      )

  def check_columns(self, columns: Mapping[str, np.ndarray]) -> None:
    """Raises InputError unless rows have the columns that the objective needs, with such values."""
    part = self.pipeline.objective
    for name in part.columns:
      if name in TAKEN:
        raise InputError(
          f'{KEYS.classifier.objective}.{part.name}.column is {name!r}, which is what a training '
          'calls something of its own: rename the column of the data.'
        )
      if name not in columns and name not in self.pipeline.policy.added:
        raise InputError(
          f'the objective {part.name!r} needs the column {name!r}, which the training rows lack; '
          f'they have: {", ".join(sorted(columns))}. Set {KEYS.classifier.objective}.{part.name}'
          '.column to one of these, or train on data that have it.'
        )
    self.check_groups(columns)

  def check_groups(self, columns: Mapping[str, np.ndarray]) -> None:
    """Raises InputError where rows are of groups that the objective does not count; nothing is said
    of values that the columns lack."""
    part = self.pipeline.objective
    if not isinstance(part, GroupObjective):
      return
    column, key = part.column, part.count_key
    given = part.describe()[key]
    counted = given or self.num_classes
    known = {'label': self.num_classes, **self.pipeline.policy.added}
    where = f'config.classifier.objective.{part.name}'
    if column not in known and column not in columns:
      return
    if column not in known:
      values = np.asarray(columns[column])
      if values.ndim > 1 or values.dtype.kind not in 'biu' or values.min() < 0:
        raise InputError(
          f'{where}.column is {column!r}, which numbers no groups: take a column of one whole '
          'number a row, from 0 on.'
        )
      known[column] = int(values.max()) + 1
    there = known[column]
    if there > counted:
      raise InputError(
        f'{where}.{key} is {given or f"0, the number of classes ({counted})"}, but the column '
        f'{column!r} has the values 0 to {there - 1}: rows of {counted} and above would have no '
        f'weight. Set {where}.{key}={there}.'
      )

  def check_layout(self, parallel: Parallel) -> None:
    """Raises InputError unless the batch divides over the devices and the model fits `parallel`."""
    size, parts, processes = self.settings.batch_size, self.settings.accumulate, parallel.share[1]
    if size % (parts * parallel.num_devices):
      raise SettingError(
        KEYS.training.batch_size,
        size,
        valid=f'a multiple of {parts} micro-batches × {processes} processes × '
        f'{parallel.num_devices // processes} devices each = {parts * parallel.num_devices}',
      )
    axis_name = getattr(self.model, 'axis_name', parallel.axis_name)
    if axis_name != parallel.axis_name:
      raise InputError(
        f'the model was built with axis_name={axis_name!r}; this way of running '
        f'needs {parallel.axis_name!r}.'
      )


def check_batch(batch: Batch, image_shape: tuple[int, int, int], num_classes: int) -> Batch:
  """Returns the numeric arrays of a batch, which a step takes; raises InputError for images of
  another shape or type, and for an image without a label or with one of no class."""
  image, label = batch['image'], batch['label']
  if image.shape[1:] != image_shape or image.dtype not in (np.uint8, np.float32):
    raise InputError(
      f'training images must be uint8 or float32 of shape {image_shape}; got {image.dtype} '
      f'of shape {image.shape[1:]}.'
    )
  each = label.reshape(len(label), -1)
  outside = np.flatnonzero((each[:, 0] < 0) | (each.max(1) >= num_classes))
  if outside.size:
    raise InputError(
      f'example {batch["example_id"][outside[0]]} has label {label[outside[0]]}; the '
      f'classifier has classes 0 to {num_classes - 1}.'
    )
  return numeric_columns(batch)
