"""Trains the networks of a config in the workdir, each by its own recipe."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.classifiers import initial_weights
from robustness.classifiers.initial_weights import InitialWeights
from robustness.classifiers.wrap import aligned, digest, projected, wrap
from robustness.config.experiment import Experiment
from robustness.config.recipe import ClassifierSettings
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.forecast import Forecast
from robustness.core.rows import Rows
from robustness.core.sampler import held_out
from robustness.environments import balance
from robustness.environments.class_groups import from_settings
from robustness.evaluation import forecast as evaluation_forecast
from robustness.evaluation.placed import KeptBlocks, PlacedBlock
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import identity
from robustness.models import catalog
from robustness.models.classifier import Classifier
from robustness.models.inputs import Inputs
from robustness.parallel import Parallel, create
from robustness.parallel.meeting import exchange
from robustness.parallel.mesh import own_copy
from robustness.training import forecast as training_forecast
from robustness.training import schedule
from robustness.training.checkpoint import load_variables, newest_step
from robustness.training.loop import train
from robustness.training.settings import BEST, TrainingSettings
from robustness.training.training import Training
from robustness.training.writers import ScalarWriter
from robustness.video.columns import clips

Variables = Mapping[str, Any]
BASE = 'base_id'
"""The column of the image that stored corrupted images were made of."""


@dataclasses.dataclass(frozen=True)
class NetworkTraining:
  """What the trainings of a run share.

  Attributes:
    experiment: the checked config.
    rows: what will be evaluated; fixes the image shape.
    open_rows: returns the rows that a recipe trains on (with `training_batches` and `at`), whose
      classes its network has.
    directory: trained weights go to `<directory>/<label>`.
    writer: returns the metric writer of a training, given its label.
    together: whether all processes of the run train each network, on the devices of all; else the
      processes have networks of their own to train, see `robustness.classifiers.side_by_side`.
  """

  experiment: Experiment
  rows: Rows
  open_rows: Callable[[ClassifierSettings], Any]
  directory: pathlib.Path
  writer: Callable[[str], ScalarWriter]
  together: bool = True

  def classifier(self, label: str, recipe: ClassifierSettings) -> Classifier:
    """Returns the trained network; trains it first, from its last checkpoint if there is one.

    What processes trained side by side is only read.
    """
    initial = initial_weights.load(recipe, self.rows.image_shape)
    variables = (
      self.train(label, recipe, initial)
      if self.together
      else load_variables(self.directory / label)[0]
    )
    network = self._wrap(label, recipe, variables, self._provenance(recipe, initial), initial)
    return projected(network, recipe, self.rows.class_names)

  def class_names(self, recipe: ClassifierSettings) -> tuple[str, ...]:
    """Returns the classes that a recipe's network will have: those of its training rows."""
    return tuple(self.open_rows(recipe).class_names)

  def is_begun(self, label: str) -> bool:
    """Whether a training has a checkpoint."""
    return newest_step(self.directory / label) is not None

  def check(self, label: str, recipe: ClassifierSettings) -> None:
    """Refuses, before anything is trained, what the training would be refused for when it begins.

    One that has a checkpoint has been through this.

    Raises:
      InputError: settings that do not fit the rows, the devices or the processes, or parts that do
        not fit each other, such as an objective that needs a column that there is not.
    """
    if self.is_begun(label):
      return
    training, _ = self._prepared(recipe, initial_weights.load(recipe, self.rows.image_shape))
    training.check_layout(self._parallel(recipe.training))
    training.check(next(self.open_rows(recipe).batches(1, [0], stored=True)))

  def class_groups(self, recipe: ClassifierSettings) -> dict[str, Any]:
    """Returns {'class_groups': names of the classes of each}, of a recipe's training rows; nothing
    if they have no groups."""
    if not (recipe.data.class_groups or recipe.data.random_class_groups):
      return {}
    return {'class_groups': from_settings(recipe.data, self.class_names(recipe)).describe()}

  def _provenance(
    self, recipe: ClassifierSettings, initial: InitialWeights | None
  ) -> dict[str, Any]:
    """Returns what results say of the training beside the network."""
    settings = recipe.training
    averaged = {'ema_decay': settings.ema_decay} if settings.ema_decay else {}
    best = {'kept': 'best by validation accuracy'} if settings.keep == BEST else {}
    begun = initial.facts if initial else {}
    kept, _ = sides(self.open_rows(recipe), settings.validation)
    total = schedule.total_steps(settings, len(kept))
    return {
      'weights': 'trained here',
      **begun,
      'step': total,
      'total_steps': total,
      'seed': recipe.seed,
      **recipe.shown_in_training,
      **self.class_groups(recipe),
      **averaged,
      **best,
    }

  def train(
    self, label: str, recipe: ClassifierSettings, initial: InitialWeights | None
  ) -> Variables:
    """Returns the weights of the finished training of a network; goes on where it was left.

    Processes that train together read a share of every batch each, and end with the same weights.

    Raises:
      InputError: settings that do not fit the rows, the devices or the processes.
    """
    directory = self.directory / label
    training, held = self._prepared(recipe, initial)
    facts = {
      'architecture': recipe.name,
      **catalog.file_facts(recipe.name),
      'class_names': list(self.class_names(recipe)),
      'begun_with': digest(initial.variables) if initial else '',
      'precision': self.experiment.execution.precision,
    }
    return train(
      training,
      directory=directory,
      parallel=self._parallel(recipe.training),
      writer=self.writer(label),
      evaluate=self._evaluation(label, recipe, initial, held),
      facts=facts,
      label=f'{label}: training',
    )

  def _prepared(
    self, recipe: ClassifierSettings, initial: InitialWeights | None
  ) -> tuple[Training, Rows | None]:
    """Returns the training of a recipe, and the training rows that are held out, if any are."""
    rows = self.open_rows(recipe)
    kept, held = sides(rows, recipe.training.validation)
    training = self._training(recipe, initial, rows.at(kept) if len(held) else rows)
    return training, rows.at(held) if len(held) else None

  def _measured(
    self, recipe: ClassifierSettings, network: Classifier, held: Rows | None
  ) -> tuple[Classifier, Rows]:
    """Returns what is evaluated during the training, and on which rows.

    On held-out training rows that is the network with all its classes, on the rows of the study the
    classifier that they will be shown to.
    """
    if held is not None:
      return network, held
    classifier = projected(network, recipe, self.rows.class_names)
    return classifier, aligned(self.rows, classifier)

  def forecast(self, label: str, recipe: ClassifierSettings) -> tuple[Classifier, list[Forecast]]:
    """Returns a network with its initial weights, and what its training would take.

    Nothing is written, and checkpoints that are there are not looked at.
    """
    initial = initial_weights.load(recipe, self.rows.image_shape)
    training, held = self._prepared(recipe, initial)
    parallel = self._parallel(recipe.training)
    steps = training_forecast.forecast(training, parallel, f'{label}: training')
    weights = jax.tree.map(np.asarray, training.initial_state().variables)
    network = self._wrap(label, recipe, weights, self._provenance(recipe, initial), initial)
    classifier, measured = self._measured(recipe, network, held)
    key = random_keys.stream(self.experiment.execution.seed, 'accuracy')
    evaluator = Evaluator(classifier, identity(), key, self._parallel(recipe.training))
    layout = evaluator.layout(measured.num_examples)
    once = evaluation_forecast.forecast(evaluator, measured, layout)
    times = training_forecast.num_evaluations(training)
    evaluations = dataclasses.replace(
      once,
      label=f'{label}: evaluations in between',
      amount=f'{times} × {measured.num_examples:,} rows',
      images=once.images * times,
      record_bytes=0,
    )
    return projected(network, recipe, self.rows.class_names), [steps, evaluations]

  def _training(
    self, recipe: ClassifierSettings, initial: InitialWeights | None, rows: Any
  ) -> Training:
    if tuple(rows.image_shape) != tuple(self.rows.image_shape):
      raise InputError(
        f'training images have shape {rows.image_shape}, the evaluated ones '
        f'{self.rows.image_shape}; set config.data.resize and config.data.crop.'
      )
    architecture = catalog.get(recipe.name)
    normalisation = initial or architecture
    parallel = self._parallel(recipe.training)
    index, count = parallel.share
    parts = recipe.augment.augmentations
    order = balance.sampler(recipe.training.balanced, rows, parts, recipe.seed)
    training = Training(
      model=architecture.build(
        len(rows.class_names), jnp.dtype(self.experiment.execution.precision), parallel.axis_name
      ),
      batches=functools.partial(
        rows.training_batches, process_index=index, process_count=count, sampler=order
      ),
      sampler=order,
      arrays=rows.in_memory,
      num_examples=rows.num_examples,
      image_shape=rows.image_shape,
      inputs=Inputs(normalisation.mean, normalisation.std, recipe.front_end),
      settings=recipe.training,
      pipeline=recipe.pipeline,
      seed=recipe.seed,
      initial=initial.kept(rows.class_names) if initial else {},
      data=rows.description,
    )
    training.check_groups(_stored_groups(recipe, rows))
    return training

  def _evaluation(
    self, label: str, recipe: ClassifierSettings, initial: InitialWeights | None, held: Rows | None
  ) -> Callable[[Variables], dict[str, float]]:
    """Returns a function from variables to the accuracy on the rows of `_measured`, each once.

    Rows that fit in `config.training.resident_bytes` are read for the first evaluation only.
    Processes that train together count a share of the blocks each.
    """
    opened: list[tuple[Evaluator, Rows]] = []
    key = random_keys.stream(self.experiment.execution.seed, 'accuracy')
    blocks = KeptBlocks(lambda: self._own_blocks(*opened[0]), recipe.training.resident_bytes)

    def evaluate(variables: Variables) -> dict[str, float]:
      variables = own_copy(variables)
      if not opened:
        network = self._wrap(label, recipe, variables, {}, initial)
        classifier, rows = self._measured(recipe, network, held)
        parallel = self._parallel(recipe.training, own=True)
        opened.append((Evaluator(classifier, identity(), key, parallel), rows))
      evaluator, rows = opened[0]
      layout = evaluator.layout(rows.num_examples)
      right = sum(
        int((shard['rank'] == 0).sum())
        for _, _, shard in evaluator.shards_of(blocks, layout, variables=variables)
      )
      return {'accuracy': self._total(right, label) / rows.num_examples}

    return evaluate

  def _wrap(
    self,
    label: str,
    recipe: ClassifierSettings,
    variables: Variables,
    provenance: Mapping[str, Any],
    initial: InitialWeights | None,
  ) -> Classifier:
    return wrap(
      label,
      recipe,
      self.experiment.execution.precision,
      variables,
      self.rows.image_shape,
      self.class_names(recipe),
      provenance,
      initial,
    )

  def _own_blocks(self, evaluator: Evaluator, rows: Rows) -> Iterator[PlacedBlock]:
    """Yields the blocks that this process evaluates during a training, placed."""
    share, step = (jax.process_index(), jax.process_count()) if self.together else (0, 1)
    layout = evaluator.layout(rows.num_examples)
    own = range(share, layout.num_blocks, step)
    return evaluator.placed(rows, layout, own) if own else iter(())

  def _total(self, right: int, label: str) -> int:
    """Returns a sum over the processes that train together."""
    if not self.together:
      return right
    return sum(map(int, exchange(f'the evaluation of {label}', str(right))))

  def _parallel(self, training: TrainingSettings, own: bool = False) -> Parallel:
    """How steps run: on as many devices as share a micro-batch evenly, of all processes that train
    together or of this one alone."""
    kind, micro = self.experiment.execution.parallel, training.batch_size // training.accumulate
    processes = jax.process_count() if self.together and not own else 1
    if processes > 1 and training.batch_size % (processes * training.accumulate):
      raise InputError(
        f'config.training.batch_size is {training.batch_size}; it must be a multiple of '
        f'{processes} processes × {training.accumulate} micro-batches '
        f'= {processes * training.accumulate}, and of that × {jax.local_device_count()} devices of '
        'each process where all of them are to be used.'
      )
    return create(kind, micro, all_processes=processes > 1)


def sides(rows: Any, share: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows to train on and those to validate on, see `held_out`.

  All frames of a clip are on one side, and all stored versions of an image.
  """
  columns = _columns(rows) if share else {}
  units = clips(columns)
  return held_out(rows.num_examples, share, columns.get(BASE) if units is None else units)


def _stored_groups(recipe: ClassifierSettings, rows: Any) -> Mapping[str, Any]:
  """Returns the columns of rows whose objective groups them by a stored one; else none."""
  known = ('label', *recipe.augment.added)
  return {} if getattr(recipe.objective.settings, 'column', 'label') in known else _columns(rows)


def _columns(rows: Any) -> Mapping[str, Any]:
  """Returns what all rows have beside images; none of rows that are read from front to back, of
  which a training looks at each batch."""
  try:
    return rows.without_images()
  except InputError:
    return {}
