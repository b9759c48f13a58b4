"""The specification of one training: everything that decides its outcome."""

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
from robustness.core.array_files import digest_of
from robustness.core.errors import KEYS, InputError, SettingError, key_name
from robustness.core.pixels import with_scaled_image
from robustness.core.rows import Batch, Rows, columns_in_memory, identity_of, numeric_columns
from robustness.core.sampler import Epochs, Sampler
from robustness.core.typing import Facts, PlainValue, PyTree, Variables
from robustness.models.inputs import Inputs
from robustness.models.layers import Network
from robustness.objectives import Objective
from robustness.objectives.cross_entropy import CrossEntropy
from robustness.objectives.groups import IRM, GroupObjective
from robustness.parallel import Parallel
from robustness.training import auxiliary_norms, depth, optimizer, schedule
from robustness.training.settings import BEST, SECTION, TrainingSettings
from robustness.training.state import TrainState, start_of_average, with_initial

RESERVED = ('target', OCCURRENCE, 'epoch', KEY, 'partner')
"""Columns that a training adds to its rows, in place of columns of the same name."""
REPORTING = (
  *('checkpoint_every_steps', 'log_every_steps', 'evaluate_every_epochs', 'measure'),
  *('measure_at', 'resident_bytes'),
)
"""Settings that do not change the trained weights: what is logged and when, and where rows are
stored."""

COMPILED_ONCE = {'xla_backend_optimization_level': 1}
"""Compiler options for the program that draws the initial weights, which runs once: it compiles in
a third of the time and draws the same bits."""


@dataclasses.dataclass(frozen=True)
class Pipeline:
  """The exchangeable parts of a training: augmentations, attack and objective.

  Attributes:
    policy: the augmentations, in the order in which they are applied.
    attack: attack that turns augmented images into adversarial examples; None for no attack.
    objective: the loss to minimise.
  """

  policy: Policy = Policy()
  attack: Attack | None = None
  objective: Objective = CrossEntropy()

  def describe(self) -> dict[str, PlainValue]:
    """Returns the names and settings of augmentations, attack and objective, for JSON."""
    attack = self.attack.describe() if self.attack else None
    augment, objective = self.policy.describe(), self.objective.describe()
    return {'augment': augment, 'attack': attack, 'objective': objective}


@dataclasses.dataclass(frozen=True)
class Training:
  """The specification of one training: network, data, settings and seed.

  Attributes:
    model: the network, called as `model(images, train)`. With batch normalisation it needs the
      `axis_name` of the `Parallel` that trains it.
    rows: the training data.
    inputs: input filter and normalisation, which the trained classifier will have too.
    settings: the section `config.training`.
    pipeline: augmentations, attack and objective.
    seed: seed of the initial parameters, the order of the data, augmentations and attack.
    initial: initial parameters and running averages, such as pretrained weights. Missing arrays,
      for instance of the last layer, are drawn at random.
    fit: function from normalised training images to some initial variables, used if `initial` is
      empty. It is for architectures that compute variables from images; None for others.
    fit_rows: largest number of images for `fit`.
    sampler: the order of the data; None takes `Epochs`, which shuffles in every epoch.
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
    # mean and std must have one number, or one per channel of the images
    self.inputs.check(self.rows.image_shape[-1])

  @property
  def total_steps(self) -> int:
    """The number of steps of the training."""
    return schedule.total_steps(self.settings, self.rows.num_examples)

  @property
  def num_classes(self) -> int:
    """The number of classes: the number of logits of the model."""
    logits, _ = self._shapes
    return logits.shape[-1]

  @functools.cached_property
  def _shapes(self) -> tuple[jax.ShapeDtypeStruct, Variables]:
    """The shapes of the logits for one image, and of the network's variables."""
    init = functools.partial(self.model.init_with_output, jax.random.key(0), train=False)
    return jax.eval_shape(init, jax.ShapeDtypeStruct((1, *self.rows.image_shape), jnp.float32))

  @property
  def order(self) -> Sampler:
    """The order in which training images are read: `sampler`, or else `Epochs`."""
    return self.sampler or Epochs(self.rows.num_examples, self.seed)

  @functools.cached_property
  def learning_rate(self) -> optax.Schedule:
    """The learning rate schedule, a function of the step from 0."""
    return schedule.learning_rate(self.settings, self.rows.num_examples)

  def scalars(self, step: int | jax.Array) -> schedule.StepScalars:
    """Returns the learning rate, the seed and other numbers that the compiled step takes.

    Args:
      step: number of steps taken so far; may be traced.
    """
    settings, examples = self.settings, self.rows.num_examples
    stem_steps = schedule.stem_steps(settings, examples)
    is_stem_trained = jnp.asarray(step) < stem_steps if stem_steps else jnp.asarray(True)
    return schedule.StepScalars(
      seed=jnp.asarray(np.uint32(self.seed)),
      learning_rate=jnp.asarray(self.learning_rate(step), jnp.float32),
      stem_rate=is_stem_trained.astype(jnp.float32),
      epoch_steps=jnp.asarray(schedule.epoch_steps(settings, examples), jnp.int32),
      total_steps=jnp.asarray(self.total_steps, jnp.float32),
    )

  def initial_state(self) -> TrainState:
    """Returns the state before the first step.

    Variables are taken from `initial`. If it is empty, `fit` computes some from the first training
    images. All others are drawn at random.

    Raises:
      InputError: `fit` cannot compute variables from the training images.
    """
    initial = self.initial
    if self.fit and not initial:
      count = min(self.fit_rows, self.rows.num_examples)
      batch = next(self.rows.training_batches(count, self.seed, sampler=self.sampler))
      initial = self.fit(self.inputs(jnp.asarray(with_scaled_image(batch)['image'])))

    def draw(key: jax.Array) -> Variables:
      """Draws the network's initial variables from a random key."""
      return dict(self.model.init(key, jnp.zeros((1, *self.rows.image_shape)), train=False))

    key = random_keys.stream(self.seed, 'initial parameters')
    # the options shorten the compilation of this program, which runs once
    variables = jax.jit(draw, compiler_options=COMPILED_ONCE)(key)
    scaled_params = optimizer.scaled_head(variables['params'], self.settings.head_scale)
    drawn = _params_and_statistics({**variables, 'params': scaled_params})
    return self._state(with_initial(drawn, initial))

  def state_shapes(self) -> TrainState:
    """Returns the shapes and types of the training state, without computing it."""
    _, variables = self._shapes
    return jax.eval_shape(self._state, _params_and_statistics(variables))

  def _state(self, variables: Variables) -> TrainState:
    """Makes the training state before the first step.

    With the settings that need them it has further arrays: second norms, the moving average `ema`,
    and the best weights so far with their score.

    Args:
      variables: {'params': ..., 'batch_stats': ...} of the network.
    """
    settings = self.settings
    if settings.auxiliary_norms:
      variables = auxiliary_norms.with_second_norms(variables)
    opt_state = jax.jit(optimizer.create(settings).init)(variables['params'])
    objective = self.pipeline.objective.initial_state(self.num_classes)
    step = jnp.zeros((), jnp.int32)
    state = TrainState(step, opt_state=opt_state, objective=objective, **variables)
    # A step takes over the memory of its state, in which no array may therefore occur twice.
    if settings.ema_decay or settings.lookahead:
      state = state.replace(ema=start_of_average(state.trained))
    if settings.keep == BEST:
      copied = jax.tree.map(jnp.copy, state.variables)
      # every accuracy exceeds the score -1
      state = state.replace(best={**copied, 'score': jnp.float32(-1), 'step': jnp.int32(0)})
    return state

  def facts(self, further_facts: Facts) -> Facts:
    """Returns everything that determines the trained weights, for JSON.

    A checkpoint is only resumed if these facts are equal. Settings that only concern reports are
    left out.

    Args:
      further_facts: facts to add, such as the class names.
    """
    # `further_facts` has the precision that the network is built with
    left_out = {*REPORTING, 'precision'}
    if self.settings.keep == BEST:  # evaluations decide which weights are kept
      left_out.remove('evaluate_every_epochs')
    settings = {k: v for k, v in dataclasses.asdict(self.settings).items() if k not in left_out}
    input_filter = self.inputs.input_filter
    return {
      **further_facts,
      'mean': self.inputs.mean,
      'std': self.inputs.std,
      'input_filter': input_filter.describe() if input_filter else None,
      'image_shape': self.rows.image_shape,
      # labels and other columns, without those that are known only after images are read
      'columns_sha256': digest_of(numeric_columns(columns_in_memory(self.rows))),
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
    """Checks that settings and attack fit the network.

    Args:
      state: shapes of the training state.

    Raises:
      InputError: A setting concerns a layer that the network lacks, or the attack does not fit
        augmentations, batch statistics or normalisation layers.
    """
    settings = self.settings
    needed_layers = {  # {setting: (function that marks the parameters it acts on, their name)}
      'stem_epochs': (optimizer.is_in_stem, 'layer called stem'),
      'bias_rate': (optimizer.is_normalisation_bias, 'biases of normalisations'),
      'backbone_rate_multiplier': (optimizer.is_in_head, 'last layer called head'),
      'head_scale': (optimizer.is_in_head, 'last layer called head'),
      'layer_decay': (depth.is_in_block, 'layers called stage1 or block0'),
    }
    for name, (is_affected, layers) in needed_layers.items():
      value, default = vars(settings)[name], vars(TrainingSettings())[name]  # default: no effect
      if value != default and not any(jax.tree.leaves(is_affected(state.params))):
        raise InputError(
          f'{key_name(f"{SECTION}.{name}")} is {value:g}, and this network has no {layers}: set it '
          f'to {default:g}, or take another {KEYS.classifier.name:--}.'
        )
    can_drop_paths = isinstance(self.model, Network) and self.model.can_drop_paths
    if settings.drop_path and not can_drop_paths:
      raise SettingError(
        KEYS.training.drop_path,
        settings.drop_path,
        problem='and this network has no stochastic depth',
        fix=f'Set it to 0, or make {KEYS.classifier.name} a ConvNeXt, Swin, ViT or EfficientNet.',
      )
    objective, steps = self.pipeline.objective, self.total_steps * settings.accumulate
    if isinstance(objective, IRM) and objective.anneal_steps >= steps:
      logging.warning(
        f'{KEYS.classifier.objective.irm.anneal_steps} is {objective.anneal_steps}, and the '
        f'training has {steps} steps (micro-batches): the penalty keeps the weight 1'
      )
    self._check_attack(state)

  def _check_attack(self, state: TrainState) -> None:
    """Raises InputError unless the attack fits augmentations and normalisation layers.

    Args:
      state: shapes of the training state.
    """
    settings, attack = self.settings, self.pipeline.attack
    if attack is None:
      return
    for part in self.pipeline.policy.augmentations:
      if isinstance(part, Mixing):
        raise InputError(
          f'{KEYS.classifier.augment} has {part.name!r}, which mixes targets, and '
          f"{attack.name!r} raises the loss of a row's own label alone: leave one of them out."
        )
    uses_batch = attack.statistics == 'batch' and not settings.freeze_statistics
    if attack.in_turn and uses_batch and state.batch_stats:
      raise InputError(
        f"{attack.key('statistics')} is 'batch', and this attack takes a part of the batch at a "
        "time: set it to 'running'."
      )
    if settings.auxiliary_norms:
      raise InputError(
        f'{KEYS.training.auxiliary_norms} is {settings.auxiliary_norms}, and examples of an attack '
        'are computed with the first set of layers only: set it to 0, or leave the attack out.'
      )

  def check_columns(self, columns: Mapping[str, np.ndarray]) -> None:
    """Raises InputError unless the data have the columns that the objective needs.

    Args:
      columns: columns of the training data. Columns that augmentations add may be missing.
    """
    objective = self.pipeline.objective
    for name in objective.columns:
      if name in RESERVED:
        raise InputError(
          f'{KEYS.classifier.objective}.{objective.name}.column is {name!r}, which is reserved for '
          'a column that training adds: rename the column of the data.'
        )
      if name not in columns and name not in self.pipeline.policy.added_columns:
        raise InputError(
          f'the objective {objective.name!r} needs the column {name!r}, which the training rows '
          f'lack; they have: {", ".join(sorted(columns))}. Set {KEYS.classifier.objective}.'
          f'{objective.name}.column to one of these, or train on data that have it.'
        )
    self.check_groups(columns)

  def check_groups(self, columns: Mapping[str, np.ndarray]) -> None:
    """Raises InputError if the data have more groups than the objective has weights.

    A `GroupObjective` weights training images by their group, a column of the data such as their
    environment; other objectives are not checked. The number of groups is known for the column
    'label' and for columns of augmentations. Otherwise it is taken from the data, and not checked
    without the column.

    Args:
      columns: columns of the training data.
    """
    objective = self.pipeline.objective
    if not isinstance(objective, GroupObjective):
      return
    column, key = objective.column, objective.count_key
    stated_number = objective.describe()[key]  # 0 stands for the number of classes
    num_weights = stated_number or self.num_classes
    section = key_name(f'config.classifier.objective.{objective.name}')
    known_numbers = {'label': self.num_classes, **self.pipeline.policy.added_columns}
    if column in known_numbers:
      num_groups = known_numbers[column]
    elif column in columns:
      num_groups = _number_of_groups(columns[column], column, f'{section}.column')
    else:
      return
    if num_groups > num_weights:
      in_words = stated_number or f'0, the number of classes ({num_weights})'
      raise InputError(
        f'{section}.{key} is {in_words}, but the column {column!r} has the values 0 to '
        f'{num_groups - 1}: rows of {num_weights} and above would have no weight. Set '
        f'{section}.{key}={num_groups}.'
      )

  def check_layout(self, parallel: Parallel) -> None:
    """Checks that batch size and model fit the layout of the devices.

    Args:
      parallel: layout of the devices.

    Raises:
      InputError: A micro-batch cannot be split evenly over the devices, or the model has batch
        normalisation without the axis name of `parallel`.
    """
    size, num_micro_batches = self.settings.batch_size, self.settings.accumulate
    num_processes = parallel.num_processes
    divisor = num_micro_batches * parallel.num_devices
    if size % divisor:
      raise SettingError(
        KEYS.training.batch_size,
        size,
        valid=f'a multiple of {num_micro_batches} micro-batches × {num_processes} processes × '
        f'{parallel.num_devices // num_processes} devices each = {divisor}',
      )
    # a model without the attribute has no batch normalisation and fits every layout
    axis_name = getattr(self.model, 'axis_name', parallel.axis_name)
    if axis_name != parallel.axis_name:
      problem = f'the model was built with axis_name={axis_name!r}'
      raise InputError(f'{problem}; this way of running needs {parallel.axis_name!r}.')


def _params_and_statistics(variables: Variables) -> Variables:
  """Selects `params` and `batch_stats` from variables; missing `batch_stats` become {}."""
  return {'params': variables['params'], 'batch_stats': variables.get('batch_stats', {})}


def _number_of_groups(values: np.ndarray, column: str, key: str) -> int:
  """Returns the largest group number in a column plus 1.

  Args:
    values: the column.
    column: name of the column, for the message.
    key: name of the setting that chooses the column, for the message.

  Raises:
    InputError: The column does not have one integer ≥ 0 for each row.
  """
  # dtype kinds: bool, signed and unsigned integers
  if values.ndim > 1 or values.dtype.kind not in 'biu' or values.min() < 0:
    valid = 'a column of one whole number a row, from 0 on'
    raise InputError(f'{key} is {column!r}, which numbers no groups: take {valid}.')
  return int(values.max()) + 1


def check_batch(batch: Batch, image_shape: tuple[int, int, int], num_classes: int) -> Batch:
  """Checks a batch and returns its numeric columns, the input of the training step.

  Args:
    batch: the batch, with `image` and `label`.
    image_shape: height, width and channels that images must have.
    num_classes: number of classes.

  Raises:
    InputError: An image has another shape or type (neither uint8 nor float32), or no valid label in
      [0, num_classes).
  """
  image, label = batch['image'], batch['label']
  if image.shape[1:] != image_shape or image.dtype not in (np.uint8, np.float32):
    valid = f'uint8 or float32 of shape {image_shape}'
    actual = f'{image.dtype} of shape {image.shape[1:]}'
    raise InputError(f'training images must be {valid}; got {actual}.')
  table = label.reshape(len(label), -1)  # [B, L]; an image with fewer than L labels has -1 last
  has_no_label, exceeds_classes = table[:, 0] < 0, table.max(1) >= num_classes
  outside = np.flatnonzero(has_no_label | exceeds_classes)
  if outside.size:
    first = outside[0]
    problem = f'example {batch["example_id"][first]} has label {label[first]}'
    raise InputError(f'{problem}; the classifier has classes 0 to {num_classes - 1}.')
  return numeric_columns(batch)
