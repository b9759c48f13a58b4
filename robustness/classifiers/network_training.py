"""Trains a network of the config in the workdir, measured on the evaluated rows as it goes."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging

from robustness import parallel
from robustness.classifiers import initial_weights
from robustness.classifiers.initial_weights import StartingPoint
from robustness.classifiers.wrap import digest, wrap
from robustness.config.experiment import ClassifierSettings, Experiment
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.evaluation import study
from robustness.evaluation.runner import Evaluator
from robustness.models import catalog
from robustness.models.classifier import Classifier
from robustness.parallel import Parallel
from robustness.parallel.processes import wait_until
from robustness.training.checkpoint import load_variables, newest_step
from robustness.training.loop import ScalarWriter, train
from robustness.training.task import TrainingTask


@dataclasses.dataclass(frozen=True)
class NetworkTraining:
  """What training needs, the same for all networks of a run.

  Attributes:
    experiment: the checked config.
    rows: what will be evaluated; fixes image shape and class names.
    training_rows: opens the rows to train on (with `training_batches`); called only to train.
    directory: trained weights go to `<directory>/<label>`.
    writer: returns the metric writer of a training, given its label.
  """

  experiment: Experiment
  rows: Rows
  training_rows: Callable[[], Any]
  directory: pathlib.Path
  writer: Callable[[str], ScalarWriter]

  def classifier(self, label: str, settings: ClassifierSettings) -> Classifier:
    """Returns the trained network, from its last checkpoint if there is one."""
    start = initial_weights.load(settings, self.rows.image_shape)
    begun = {'begun_with': start.name} if start else {}
    return self._wrap(
      label,
      settings,
      self._variables(label, settings, start),
      {'weights': 'trained here', **begun},
      start,
    )

  def _variables(
    self, label: str, settings: ClassifierSettings, start: StartingPoint | None
  ) -> Mapping[str, Any]:
    """Trains on the devices of process 0; the other processes wait and read what it saved.

    So all have the same weights, whatever the number of processes, and one writes checkpoints.
    """
    task = self._task(settings, start)
    directory = self.directory / label
    if jax.process_index() == 0:
      logging.info('%s: training %s for %d steps', label, settings.name, task.total_steps)
      facts = {
        'architecture': settings.name,
        'class_names': list(self.rows.class_names),
        'begun_with': digest(start.variables) if start else '',
      }
      return train(
        task,
        directory=directory,
        parallel=self._parallel,
        writer=self.writer(label),
        evaluate=self._evaluation(label, settings, start),
        facts=facts,
      )
    wait_until(lambda: newest_step(directory) == task.total_steps, f'the training of {label}')
    return load_variables(directory)[0]

  def _task(self, settings: ClassifierSettings, start: StartingPoint | None) -> TrainingTask:
    architecture, rows = catalog.get(settings.name), self.training_rows()
    if tuple(rows.image_shape) != tuple(self.rows.image_shape):
      raise InputError(
        f'training images have shape {rows.image_shape}, the evaluated ones '
        f'{self.rows.image_shape}; set config.data.resize and config.data.crop.'
      )
    model = architecture.build(
      len(rows.class_names),
      jnp.dtype(self.experiment.execution.precision),
      self._parallel.axis_name,
    )
    normalisation = start or architecture
    return TrainingTask(
      model=model,
      batches=rows.training_batches,
      num_examples=rows.num_examples,
      image_shape=rows.image_shape,
      mean=normalisation.mean,
      std=normalisation.std,
      settings=self.experiment.training,
      augment=settings.augment,
      seed=self.experiment.execution.seed,
      start=start.kept(rows.class_names) if start else {},
    )

  def _evaluation(
    self, label: str, settings: ClassifierSettings, start: StartingPoint | None
  ) -> Callable[[Mapping[str, Any]], dict[str, float]]:
    """Returns a function from variables to the accuracy on the evaluated rows, each once."""
    evaluator: list[Evaluator] = []
    key = random_keys.stream(self.experiment.execution.seed, 'accuracy')

    def evaluate(variables: Mapping[str, Any]) -> dict[str, float]:
      if not evaluator:
        classifier = self._wrap(label, settings, variables, {}, start)
        evaluator.append(Evaluator(classifier, study.identity(), key, self._parallel))
      layout = evaluator[0].layout(self.rows.num_examples)
      right = sum(
        int((shard['rank'] == 0).sum())
        for _, _, shard in evaluator[0].shards(self.rows, layout, variables=variables)
      )
      return {'accuracy': right / self.rows.num_examples}

    return evaluate

  def _wrap(
    self,
    label: str,
    settings: ClassifierSettings,
    variables: Mapping[str, Any],
    provenance: Mapping[str, Any],
    start: StartingPoint | None,
  ) -> Classifier:
    return wrap(
      label,
      settings,
      self.experiment.execution.precision,
      variables,
      self.rows.image_shape,
      self.rows.class_names,
      provenance,
      start,
    )

  @functools.cached_property
  def _parallel(self) -> Parallel:
    """How training steps run: on as many devices as share a micro-batch evenly."""
    training = self.experiment.training
    return parallel.create(
      self.experiment.execution.parallel, training.batch_size // training.accumulate
    )
