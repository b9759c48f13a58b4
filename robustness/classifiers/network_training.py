"""Trains the networks of a config in the workdir, each by its own recipe."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging

from robustness import parallel
from robustness.classifiers import initial_weights
from robustness.classifiers.initial_weights import InitialWeights
from robustness.classifiers.wrap import digest, wrap
from robustness.config.experiment import Experiment
from robustness.config.recipe import ClassifierSettings
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.sampler import held_out
from robustness.evaluation import study
from robustness.evaluation.runner import Evaluator
from robustness.models import catalog
from robustness.models.classifier import Classifier
from robustness.models.inputs import Inputs
from robustness.parallel import Parallel
from robustness.parallel.processes import wait_until
from robustness.training.checkpoint import load_variables, newest_step
from robustness.training.loop import ScalarWriter, train
from robustness.training.settings import BEST, TrainingSettings
from robustness.training.training import Training

Variables = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class NetworkTraining:
  """What the trainings of a run share.

  Attributes:
    experiment: the checked config.
    rows: what will be evaluated; fixes the image shape.
    open_rows: opens the rows that a recipe trains on (with `training_batches` and `at`).
    directory: trained weights go to `<directory>/<label>`.
    writer: returns the metric writer of a training, given its label.
  """

  experiment: Experiment
  rows: Rows
  open_rows: Callable[[ClassifierSettings], Any]
  directory: pathlib.Path
  writer: Callable[[str], ScalarWriter]

  def classifier(self, label: str, recipe: ClassifierSettings) -> Classifier:
    """Returns the trained network, from its last checkpoint if there is one."""
    initial = initial_weights.load(recipe, self.rows.image_shape)
    variables = self._variables(label, recipe, initial)
    return self._wrap(label, recipe, variables, self._provenance(recipe, initial), initial)

  def class_names(self, recipe: ClassifierSettings) -> tuple[str, ...]:
    """Returns the classes that a recipe's network will have: those of its training rows."""
    data = self.experiment.data
    same = dataclasses.replace(recipe.data, split=data.split, num_images=data.num_images)
    return self.rows.class_names if same == data else self.open_rows(recipe).class_names

  def _provenance(
    self, recipe: ClassifierSettings, initial: InitialWeights | None
  ) -> dict[str, Any]:
    """Returns what results say of the training beside the network."""
    settings = recipe.training
    averaged = {'ema_decay': settings.ema_decay} if settings.ema_decay else {}
    best = {'kept': 'best by validation accuracy'} if settings.keep == BEST else {}
    begun = {'initial_weights': initial.name} if initial else {}
    return {
      'weights': 'trained here',
      **begun,
      'seed': recipe.seed,
      **recipe.pipeline.describe(),
      **averaged,
      **best,
    }

  def _variables(
    self, label: str, recipe: ClassifierSettings, initial: InitialWeights | None
  ) -> Variables:
    """Trains on the devices of process 0; the other processes wait and read what it saved.

    So all have the same weights, whatever the number of processes, and one writes checkpoints.
    """
    directory, rows = self.directory / label, self.open_rows(recipe)
    kept, held = held_out(rows.num_examples, recipe.training.validation)
    training = self._training(recipe, initial, rows.at(kept) if len(held) else rows)
    if jax.process_index():
      wait_until(lambda: newest_step(directory) == training.total_steps, f'the training of {label}')
      return load_variables(directory)[0]
    logging.info('%s: training %s for %d steps', label, recipe.name, training.total_steps)
    facts = {
      'architecture': recipe.name,
      'class_names': list(rows.class_names),
      'begun_with': digest(initial.variables) if initial else '',
      'precision': self.experiment.execution.precision,
    }
    measured = rows.at(held) if len(held) else self.rows
    return train(
      training,
      directory=directory,
      parallel=self._parallel(recipe.training),
      writer=self.writer(label),
      evaluate=self._evaluation(label, recipe, initial, measured),
      facts=facts,
    )

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
    return Training(
      model=architecture.build(
        len(rows.class_names),
        jnp.dtype(self.experiment.execution.precision),
        self._parallel(recipe.training).axis_name,
      ),
      batches=rows.training_batches,
      num_examples=rows.num_examples,
      image_shape=rows.image_shape,
      inputs=Inputs(normalisation.mean, normalisation.std, recipe.front_end),
      settings=recipe.training,
      pipeline=recipe.pipeline,
      seed=recipe.seed,
      initial=initial.kept(rows.class_names) if initial else {},
      data=rows.description,
    )

  def _evaluation(
    self, label: str, recipe: ClassifierSettings, initial: InitialWeights | None, rows: Rows
  ) -> Callable[[Variables], dict[str, float]]:
    """Returns a function from variables to the accuracy on some rows, each once."""
    evaluator: list[Evaluator] = []
    key = random_keys.stream(self.experiment.execution.seed, 'accuracy')

    def evaluate(variables: Variables) -> dict[str, float]:
      if not evaluator:
        classifier = self._wrap(label, recipe, variables, {}, initial)
        evaluator.append(
          Evaluator(classifier, study.identity(), key, self._parallel(recipe.training))
        )
      layout = evaluator[0].layout(rows.num_examples)
      right = sum(
        int((shard['rank'] == 0).sum())
        for _, _, shard in evaluator[0].shards(rows, layout, variables=variables)
      )
      return {'accuracy': right / rows.num_examples}

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

  def _parallel(self, training: TrainingSettings) -> Parallel:
    """How training steps run: on as many devices as share a micro-batch evenly."""
    return parallel.create(
      self.experiment.execution.parallel, training.batch_size // training.accumulate
    )
