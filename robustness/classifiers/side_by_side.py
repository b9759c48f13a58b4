"""Several networks trained at the same time, each by one process on its own devices."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from robustness.classifiers import initial_weights
from robustness.classifiers.build import ClassifierBuilder
from robustness.parallel.meeting import meet
from robustness.training.preemption import Preempted, StopRequest


def train(builders: Sequence[ClassifierBuilder]) -> None:
  """Returns when every network of the builders is trained: number i by process i mod P.

  Networks are numbered builder by builder, in the order of the config. No collective is used, so
  processes need not be equally fast; their builders afterwards find all weights in the workdir.

  Args:
    builders: of the seeds of a run, or one; their trainings are not `together`.

  Raises:
    InputError: a classifier of any of them that is refused, before a training begins.
    Preempted: SIGTERM came to one of the processes; every training under way is saved.
  """
  for builder in builders:
    _ = builder.planned
  jobs = [(b.training, *item) for b in builders for item in b.to_train().items()]
  with StopRequest() as stop:
    for training, label, recipe in jobs[jax.process_index() :: jax.process_count()]:
      training.train(label, recipe, initial_weights.load(recipe, training.rows.image_shape))
    meet('its networks')
  if stop.received:
    raise Preempted('stopped by SIGTERM after the trainings; the same command goes on from there.')
